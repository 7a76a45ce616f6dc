"""Two daemons on one RabbitMQ, twenty local peers each, all after the same slots (tests/harness/hammer.py).

One daemon has the setting `claim = exclusive-queue`, and the other one `claim = consumer`. Both use the semaphores that
each of them created, in the way of their slots, and the same mutex.

HAMMER_SECONDS says how long in all (6); `make hammer` makes it 30.
"""

import unittest

import tap
from daemon import Daemon
from hammer import SECONDS, hammer
from rabbit import Rabbit
from wire import Wire, wait_until

WAYS = ("exclusive-queue", "consumer")
RABBIT = Rabbit()


def setUpModule():
    unittest.addModuleCleanup(RABBIT.close)
    RABBIT.start()


class Hammer(unittest.TestCase):
    deadline = SECONDS + 120

    def setUp(self):
        self.daemons = [Daemon(self, "--rescan-interval", "0.1", "--claim", way, broker=RABBIT.url) for way in WAYS]
        for daemon in self.daemons:
            daemon.wait_broker()

    def hammer(self, name, slots, **more):
        hammer(self, self.daemons, name, slots, 20, SECONDS / 3, **more)
        wait_until(lambda: not [queue for queue in RABBIT.holders() if queue.endswith(("-B", "-M"))], 20,
                   "no slot is held")

    def create(self, way):
        """By the daemon whose setting it is; what the other one sees."""
        here, there = sorted(self.daemons, key=lambda daemon: daemon is not self.daemons[WAYS.index(way)])
        Wire(here).call("create", name=way, slots=3)
        self.assertEqual(Wire(there).call("explain", name=way)["claim"], way)

    def test_exclusive_queues(self):
        self.create("exclusive-queue")
        self.hammer("exclusive-queue", 3)

    def test_consumers(self):
        self.create("consumer")
        self.hammer("consumer", 3)

    def test_a_mutex_that_each_daemon_holds_in_its_way(self):
        self.hammer("mutex", 1, kind="mutex")


if __name__ == "__main__":
    tap.main()
