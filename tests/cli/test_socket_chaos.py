"""Clients that do anything in any order (tests/harness/chaos.py), on memory:, with wide and narrow limits."""

import unittest

import tap
from chaos import SEED, chaos
from daemon import Daemon


class Chaos(unittest.TestCase):
    def test_with_the_usual_limits(self):
        chaos(self, [Daemon(self)], SEED, 2500)

    def test_with_narrow_limits(self):
        daemon = Daemon(self, "--max-requests-per-connection", "1", "--max-waits-per-connection", "2",
                        "--max-locks-per-connection", "2")
        chaos(self, [daemon], SEED, 2500)


if __name__ == "__main__":
    tap.main()
