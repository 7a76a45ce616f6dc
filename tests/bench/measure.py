"""Runs tests/bench/load, and reads what it prints."""

import collections
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
