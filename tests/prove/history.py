"""The record of a run: a text file with one event a line. docs/PROOF.md has its words.

	TIME ACTOR WORD ARGUMENT...

TIME is in ns of CLOCK_MONOTONIC. The lines need not be in the order of time. An actor is a client (one process of an
adapter), the nemesis, an administrator or the world. Each process of an adapter is an actor of its own.

	record = History(path)
	record.note("nemesis", "begin", 7, "kill-daemon", "e", 0.5, 0.5, "daemon=2")
	record.heard("c3", "81273 held 5 1 -")		# a line of the adapter
"""

import threading
import time
from typing import NamedTuple


class Event(NamedTuple):
    line: int
    time: int
    actor: str
    word: str
    words: list


class History:
    """Can be written by several threads."""

    def __init__(self, path):
        self.file = open(path, "w", encoding="utf-8")
        self.lock = threading.Lock()

    def note(self, actor, word, *words):
        """An event of now."""
        self.write(" ".join(map(str, (time.monotonic_ns(), actor, word, *words))))

    def heard(self, actor, line):
        """A line of an adapter, with its own time."""
        stamp, words = line.rstrip("\n").split(" ", 1)
        self.write(f"{stamp} {actor} {words}")

    def write(self, line):
        with self.lock:
            self.file.write(line + "\n")

    def close(self):
        self.file.close()


def read(lines):
    """The events of the lines of a record, in order of time."""
    events = []
    for number, line in enumerate(lines, 1):
        time_, actor, word, *words = line.split()
        events.append(Event(number, int(time_), actor, word, words))
    events.sort(key=lambda event: event.time)
    return events
