"""Runs tests/bench/load, and reads what it prints."""

import collections
import os
import subprocess

from daemon import clean_environment, program

# Of a side in one round, or in all: microseconds, and seconds in all.
Figures = collections.namedtuple("Figures", "count p50 p99 seconds")


def load(group, rounds, count, size, *services):
    """{side: [Figures of each round, and of all of them at the end]}"""
    argv = [program("tests/bench/load"), group, *map(str, (rounds, count, size)), *services]
    done = subprocess.run(argv, check=False, capture_output=True, text=True, env=clean_environment(), timeout=1200)
    if done.returncode != 0:
        raise AssertionError(f"{argv}: {done.stderr}")
    sides = collections.defaultdict(list)
    for line in done.stdout.splitlines():
        side, _, count, *figures = line.split("\t")
        sides[side].append(Figures(int(count), *map(float, figures)))
    return sides


def medians(group, rounds, count, size, *services):
    """The median of each service, in seconds."""
    return [figures[-1].p50 / 1e6 for figures in load(group, rounds, count, size, *services).values()]


def cpu_of(pid):
    """Seconds of processor time that a process has used."""
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# ---- of the rounds of a side ----

def p50(figures):
    return [figure.p50 for figure in figures[:-1]]


def p99(figures):
    return [figure.p99 for figure in figures[:-1]]


def per_second(figures):
    return [figure.count / figure.seconds for figure in figures[:-1]]


def plus(*series):
    return [sum(values) for values in zip(*series, strict=True)]
