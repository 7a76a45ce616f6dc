"""How fast administration is, as ratios to what the broker itself needs in the same run.

BENCH_ROUNDS: how many times each is measured; the median counts.
"""

import os
import statistics
import subprocess
import time
import unittest

import tap
from daemon import Daemon, clean_environment, program
from rabbit import Rabbit
from wire import Wire

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
SLOTS = 1000
RABBIT = Rabbit()


def setUpModule():
    unittest.addModuleCleanup(RABBIT.close)
    RABBIT.start()


def raw(what, name):
    """Seconds that tests/bench/raw measured."""
    done = subprocess.run([program("tests/bench/raw"), RABBIT.url, what, name, str(SLOTS)], check=True,
                          capture_output=True, text=True, env=clean_environment(), timeout=120)
    return float(done.stdout)


def timed(call):
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


class Administration(unittest.TestCase):
    deadline = 300

    def setUp(self):
        self.daemon = Daemon(self, broker=RABBIT.url)
        self.daemon.wait_broker()
        self.peer = Wire(self.daemon)

    def test_creating_1000_slots_costs_what_their_declares_cost(self):
        ours, theirs = [], []
        for _ in range(ROUNDS):  # in turn, so that a noisy moment meets both
            theirs.append(raw("declares", "raw"))
            raw("deletes", "raw")
            ours.append(timed(lambda: self.peer.call("create", within=60, name=self.id(), slots=SLOTS)))
            self.peer.call("destroy", within=60, name=self.id())
        ratio = statistics.median(ours) / statistics.median(theirs)
        print(f"create of {SLOTS}: {statistics.median(ours):.3f} s, the declares alone "
              f"{statistics.median(theirs):.3f} s, ratio {ratio:.2f}")
        self.assertLessEqual(ratio, 1.3)

    def test_size_of_1000_slots_takes_less_than_50_ms(self):
        self.peer.call("create", within=60, name=self.id(), slots=SLOTS)
        took = [timed(lambda: self.assertEqual(self.peer.call("size", name=self.id())["slots"], SLOTS))
                for _ in range(ROUNDS * 4)]
        print("size of 1000, ms:", [round(seconds * 1000, 1) for seconds in took])
        self.assertLess(statistics.median(took), 0.05)


if __name__ == "__main__":
    tap.main()
