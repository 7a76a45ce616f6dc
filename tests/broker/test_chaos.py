"""Peers of two daemons that do anything in any order (tests/harness/chaos.py), on one RabbitMQ."""

import unittest

import tap
from chaos import SEED, chaos
from daemon import Daemon
from rabbit import Rabbit
from wire import wait_until


class Chaos(unittest.TestCase):
    deadline = 180

    def test_anything_in_any_order(self):
        rabbit = self.enterContext(Rabbit())
        daemons = [Daemon(self, "--rescan-interval", "0.2", broker=rabbit.url) for _ in range(2)]
        for daemon in daemons:
            daemon.wait_broker()
        chaos(self, daemons, SEED, 2500)
        wait_until(lambda: not [queue for queue in rabbit.ctl("list_queues", "name").split()
                                if queue.endswith(("-B", "-M"))], 20, "no B is left behind")


if __name__ == "__main__":
    tap.main()
