"""Clients of two daemons that do anything in any order (tests/harness/chaos.py), on one RabbitMQ."""

import unittest

import tap
from chaos import SEED, chaos
from daemon import WAYS, Daemon
from rabbit import Rabbit
from wire import wait_until

RABBIT = Rabbit.lease()

setUpModule = RABBIT.serve_module


class Chaos(unittest.TestCase):
    deadline = 180

    def test_anything_in_any_order(self):
        """Both daemons make and destroy semaphores. If their settings differ, mutexes change their way."""
        daemons = [Daemon(self, "--rescan-interval", "0.2", "--claim", way, broker=RABBIT.url)
                   for way in (WAYS[0], WAYS[-1])]
        for daemon in daemons:
            daemon.wait_broker()
        chaos(self, daemons, SEED, 2500)
        wait_until(lambda: not [queue for queue in RABBIT.holders() if queue.endswith(("-B", "-M"))], what="no slot is held")


if __name__ == "__main__":
    tap.main()
