"""Peers of two daemons that do anything in any order (tests/harness/chaos.py), on one RabbitMQ."""

import unittest

import tap
from chaos import SEED, chaos
from daemon import Daemon
from rabbit import Rabbit
from wire import wait_until


class Chaos(unittest.TestCase):
    deadline = 180

    def chaos(self, *ways):
        rabbit = self.enterContext(Rabbit())
        daemons = [Daemon(self, "--rescan-interval", "0.2", *(("--claim", way) if way else ()), broker=rabbit.url)
                   for way in ways]
        for daemon in daemons:
            daemon.wait_broker()
        chaos(self, daemons, SEED, 1500)
        wait_until(lambda: not [queue for queue in rabbit.holders() if queue.endswith(("-B", "-M"))], 20,
                   "no slot is held")

    def test_anything_in_any_order(self):
        self.chaos(None, None)

    def test_two_settings(self):
        """Semaphores of both ways, made and destroyed by both daemons, and mutexes that change their way."""
        self.chaos("exclusive-queue", "consumer")


if __name__ == "__main__":
    tap.main()
