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


def symbols(path):
    """(defined, used): two sets."""
    listed = subprocess.run(["nm", "--format=posix", path], check=True, text=True, stdout=subprocess.PIPE).stdout
    words = [line.split() for line in listed.splitlines()]
    return ({word[0] for word in words if word[1] in GLOBAL},
            {word[0] for word in words if word[1] == "U"})


def uses(objects):
    """objects: {name: path}. {name: {name of another: the symbols of it that are used}}."""
    read = {name: symbols(path) for name, path in objects.items()}
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
