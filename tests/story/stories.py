"""How far a reader must jump: the files that each story of docs/ARCHITECTURE.md ("Stories") enters, measured.

stories.py SOURCES FOLDER [WORD]: builds tests/story/story with -finstrument-functions in FOLDER, and runs it. It prints for
each story the number of distinct files and of changes of file. Files below the stories, such as AMQP frames, timers and
the server in memory, are left out. With WORD it prints the sequence of files and functions of the story that has it.
"""

import os
import subprocess
import sys

# A story is told in daemon/peer, lock, broker and view. These are their tools.
TOOLS = "tests/,protocol/,daemon/base/,daemon/config/,daemon/state/,daemon/amqp/,daemon/memory/"

# The tables of the lock engine: names, objects, their lives, channels, and the end of leases. Their functions say by their
# names what they look up or note down.
TABLES = ("names.c", "objects.c", "engine.c", "registry.c", "channels.c", "lease.c")


def build(sources, folder):
    """The program, built in that folder."""
    os.makedirs(folder, exist_ok=True)
    if not os.path.exists(os.path.join(folder, "Makefile")):
        run = [os.path.join(sources, "configure"), "-q",
               f"CFLAGS=-O0 -g -finstrument-functions -finstrument-functions-exclude-file-list={TOOLS}"]
        subprocess.run(run, cwd=folder, check=True)
    subprocess.run(["make", "-s", f"-j{os.cpu_count()}", "tests/story/story"], cwd=folder, check=True)
    return os.path.join(folder, "tests/story/story")


def places(program, sources, entries):
    """{address: (file, function)}"""
    found = subprocess.run(["addr2line", "-f", "-e", program], check=True, text=True, input="\n".join(entries),
                           stdout=subprocess.PIPE).stdout.split("\n")
    top = os.path.realpath(sources)
    return {entry: (os.path.relpath(os.path.realpath(line.rpartition(":")[0]), top), function)
            for entry, function, line in zip(entries, found[::2], found[1::2])}


def stories(program, sources):
    """{story: [Call]} in the order of the entries."""
    printed = subprocess.run([program], check=True, text=True, stdout=subprocess.PIPE).stdout.split("\n")[:-1]
    place = places(program, sources, sorted({line for line in printed if line != "-" and not line.startswith("story ")}))
    told = {}
    for line in printed:
        if line.startswith("story "):
            told[line[len("story "):]] = calls = []
            stack = []
        elif line == "-":
            del stack[-1:]
        else:
            call = Call(*place[line])
            if stack:
                stack[-1].calls = True
            calls.append(call)
            stack.append(call)
    return told


class Call:
    def __init__(self, path, function):
        self.path, self.function = path, function
        self.calls = False  # another function


def sequence(calls, counts=lambda path: True):
    """The files in the order in which a reader meets them: [(file, [functions])]. A function that calls no other is known
    by its name, and is not read. A jump between two functions counts once, even if a loop repeats it."""
    met, seen, last = [], set(), None
    readers = {(call.path, call.function) for call in calls if call.calls}
    for call in calls:
        step = (call.path, call.function)
        if step in readers and counts(call.path):
            if (last, step) not in seen:
                seen.add((last, step))
                if not met or met[-1][0] != call.path:
                    met.append((call.path, []))
                met[-1][1].append(call.function)
            last = step
    return met


def is_told(path):
    """The engine's files that tell the story, without its tables."""
    return is_engine(path) and os.path.basename(path) not in TABLES


def is_engine(path):
    return path.startswith("daemon/lock/") and path.endswith(".c")


def figures(calls, counts):
    met = sequence(calls, counts)
    return f"{len({path for path, _ in met})} | {max(len(met) - 1, 0)}"


def main():
    sources, folder = (os.path.realpath(path) for path in sys.argv[1:3])
    told = stories(build(sources, folder), sources)
    print("| story | files of the engine | changes | without its tables | changes | files of all four | changes |\n"
          "|---|---|---|---|---|---|---|")
    for story, calls in told.items():
        print(f"| {story} | " + " | ".join(figures(calls, counts) for counts in (is_engine, is_told, str.strip)) + " |")
    for story, calls in told.items():
        if len(sys.argv) > 3 and sys.argv[3] in story:
            for path, functions in sequence(calls):
                print(f"{path:36} {' '.join(functions)}")


if __name__ == "__main__":
    main()
