"""How fast administration is, as ratios to what the broker itself needs in the same run."""

import itertools
import statistics
import time
import unittest

import tap
from daemon import Daemon
from measure import medians
from rabbit import Rabbit
from timing import check_ratio
from wire import Wire

SLOTS, CALLS = 1000, 5
DECLARES_MOST, SIZE_MOST = 1.3, 3
RABBIT = Rabbit()

setUpModule = RABBIT.serve_module


def timed(call):
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


class Administration(unittest.TestCase):
    deadline = 600

    def setUp(self):
        self.daemon = Daemon(self, broker=RABBIT.url)
        self.daemon.wait_broker()
        self.peer = Wire(self.daemon)

    def test_creating_1000_slots_costs_what_their_declares_cost(self):
        def measure():
            theirs, = medians("declares", 1, 1, SLOTS, f"raw={RABBIT.url}")
            ours = timed(lambda: self.peer.call("create", within=60, name=self.id(), slots=SLOTS))
            self.peer.call("destroy", within=60, name=self.id())
            return ours, theirs
        check_ratio(self, f"create of {SLOTS}, the declares alone", DECLARES_MOST, measure)

    def test_size_of_1000_slots_costs_less_than_three_times_their_questions(self):
        names = itertools.count()  # the broker may still keep the queues of the round before

        def measure():
            theirs, = medians("try", 1, CALLS, SLOTS, f"raw:{next(names)}-queue={RABBIT.url}")
            return statistics.median(timed(size) for _ in range(CALLS)), theirs

        def size():
            self.assertEqual(self.peer.call("size", name=self.id())["slots"], SLOTS)
        self.peer.call("create", within=60, name=self.id(), slots=SLOTS)
        check_ratio(self, f"size of {SLOTS}, the questions alone", SIZE_MOST, measure)


if __name__ == "__main__":
    tap.main()
