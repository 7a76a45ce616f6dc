"""Clients of one daemon acquire three slots without a RabbitMQ, and hang up at any moment.

The registry alone arbitrates, because the broker lets a connection declare its own queue again.
"""

import unittest

import tap
from daemon import BY_QUORUM, Daemon
from hammer import fences_that_fall, hammer, most_at_once, overlaps
from wire import Wire, wait_until


class Hammer(unittest.TestCase):
    def never_two_holders(self, fenced, **made):
        daemon = Daemon(self, "--log-level", "warning")
        daemon.wait_broker()
        watcher = Wire(daemon)
        watcher.call("create", name="hammer", slots=3, **made)
        hammer(self, [daemon], "hammer", 3, 20, 2, fenced=fenced)
        wait_until(lambda: watcher.call("info")["counts"]["holds"] == 0, what="nothing is held")
        counts = watcher.call("info")["counts"]
        self.assertEqual((counts["waiting"], counts["in_flight"], counts["lost"]), (0, 0, 0))
        self.assertEqual(counts["granted"], counts["released"])

    def test_never_two_holders_of_a_slot(self):
        self.never_two_holders(False)

    def test_by_quorum(self):
        self.never_two_holders(True, **BY_QUORUM)


class Arithmetic(unittest.TestCase):
    """That the hammer can fail: its own judgement of spans."""

    def test_overlaps_are_seen(self):
        self.assertEqual(len(overlaps([(1, 3, 1), (2, 4, 1)])), 1)
        self.assertEqual(overlaps([(1, 2, 1), (2, 4, 1), (5, 6, 1)]), [])
        self.assertEqual(most_at_once([(1, 5, 1), (2, 3, 2), (2.5, 4, 3)]), 3)
        self.assertEqual(most_at_once([(1, 2, 1), (2, 3, 1)]), 1)

    def test_fences_that_fall_are_seen(self):
        self.assertEqual(len(fences_that_fall([(1, 2, 1, 8), (3, 4, 1, 7), (5, 6, 1, 7), (7, 8, 1, 9)])), 2)


if __name__ == "__main__":
    tap.main()
