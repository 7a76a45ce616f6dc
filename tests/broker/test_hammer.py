"""Two daemons on one RabbitMQ, twenty local clients each, all after the same slots (tests/harness/hammer.py).

One daemon has the setting `claim = exclusive-queue`, and the other one `claim = consumer`. Both use the semaphores that
each of them created, in the way of their slots, and the same mutex. If CLAIM is set, both daemons have that setting.
A third semaphore is held by quorum.

HAMMER_SECONDS says how long in all (6); `make hammer` makes it 30.
"""

import unittest

import tap
from daemon import BY_QUORUM, UNTESTED, WAYS, Daemon
from hammer import SECONDS, hammer
from rabbit import Rabbit
from wire import Wire, wait_until

RABBIT = Rabbit.lease()

setUpModule = RABBIT.serve_module


class Hammer(unittest.TestCase):
    deadline = SECONDS + 120

    def setUp(self):
        self.daemons = [Daemon(self, *UNTESTED, "--rescan-interval", "0.1", "--claim", way, broker=RABBIT.url)
                        for way in (WAYS[0], WAYS[-1])]
        for daemon in self.daemons:
            daemon.wait_broker()

    def hammer(self, name, slots, **more):
        hammer(self, self.daemons, name, slots, 20, SECONDS / (len(WAYS) + 2), **more)
        wait_until(lambda: not RABBIT.slots_held(), what="no slot is held")

    def test_slots(self):
        for way, here, there in zip(WAYS, self.daemons, reversed(self.daemons)):
            with self.subTest(way=way):
                Wire(here).call("create", name=way, slots=3)
                self.assertEqual(Wire(there).call("explain", name=way)["claim"], way)
                self.hammer(way, 3)

    def test_slots_by_quorum(self):
        Wire(self.daemons[0]).call("create", name="quorum", slots=3, **BY_QUORUM)
        self.hammer("quorum", 3, fenced=True)

    def test_a_mutex(self):
        """If the settings differ, each daemon begins with its own way."""
        self.hammer("mutex", 1, kind="mutex")


if __name__ == "__main__":
    tap.main()
