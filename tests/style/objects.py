"""The symbols that the object files of a build define and use, read with nm."""

import os
import subprocess

# nm's letters of what other object files can use (nm(1)).
GLOBAL = "TDBRCVWi"


def object_file(build, source):
    """The object file that a build made of a C file; libtool and automake put it in one of several places."""
    folder, name = os.path.split(os.path.join(build, source[:-2] + ".o"))
    for place in (folder, os.path.join(folder, ".libs")):
        there = os.listdir(place) if os.path.isdir(place) else []
        # Of a file that is compiled twice, in another way for a test, the product's.
        for found in sorted((f for f in there if f == name or f.endswith("-" + name)), key=len):
            if not found.startswith("tests_"):
                return os.path.join(place, found)
    return None


def symbols(objects):
    """objects: {name: path}. {name: (defined, used)}, two sets each. One nm for all: each takes long to start."""
    listed = subprocess.run(["nm", "--format=posix", "--print-file-name", *objects.values()],
                            check=True, text=True, stdout=subprocess.PIPE).stdout
    read = {path: (set(), set()) for path in objects.values()}
    for line in listed.splitlines():
        path, words = line.split(": ", 1)
        symbol, letter = words.split()[:2]
        if letter in GLOBAL:
            read[path][0].add(symbol)
        elif letter == "U":
            read[path][1].add(symbol)
    return {name: read[path] for name, path in objects.items()}


def uses(objects):
    """objects: {name: path}. {name: {name of another: the symbols of it that are used}}."""
    read = symbols(objects)
    homes = {}
    for name, (defined, _) in read.items():
        for symbol in defined:
            homes.setdefault(symbol, []).append(name)
    graph = {name: {} for name in objects}
    for name, (_, used) in read.items():
        for symbol in sorted(used & homes.keys()):
            # Two programs may have functions of one name: the one that is nearer.
            home = max(homes[symbol], key=lambda other: len(os.path.commonprefix((name, other))))
            graph[name].setdefault(home, []).append(symbol)
    return graph


def circles(graph):
    """Lists of those that reach each other; graph: {name: names}."""
    reach = {}

    def reached(name):
        if name not in reach:
            seen, todo = set(), [name]
            while todo:
                new = set(graph.get(todo.pop(), ())) - seen
                seen |= new
                todo += new
            reach[name] = seen
        return reach[name]

    found = {tuple(sorted(other for other in reached(name) if name in reached(other)))
             for name in graph if name in reached(name)}
    return sorted(list(names) for names in found)
