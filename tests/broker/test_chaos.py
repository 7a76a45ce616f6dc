"""Clients of two daemons that do anything in any order (tests/harness/chaos.py), on one RabbitMQ."""

import unittest

import tap
from chaos import SEED, STEPS, chaos
from daemon import UNTESTED, WAYS, Daemon
from rabbit import Rabbit
from wait import wait_until
from wire import Wire, WireError

RABBIT = Rabbit.lease()

setUpModule = RABBIT.serve_module


class Chaos(unittest.TestCase):
    deadline = 180 + STEPS / 20

    def chaos(self, steps, **made):
        """Both daemons make and destroy semaphores. If their settings differ, mutexes change their way."""
        daemons = [Daemon(self, *UNTESTED, "--rescan-interval", "0.2", "--claim", way, broker=RABBIT.url)
                   for way in (WAYS[0], WAYS[-1])]
        for daemon in daemons:
            daemon.wait_broker()
        chaos(self, daemons, SEED, steps, **made)
        wait_until(lambda: not RABBIT.slots_held(), what="no slot is held")
        wait_until(lambda: self.nothing_left(*map(Wire, daemons)), what="no semaphore is left")

    def nothing_left(self, lister, destroyer):
        """Destroys what is listed. A create or destroy of a client that has left may still run, and goes first."""
        semaphores = lister.call("list")["semaphores"]
        for semaphore in semaphores:
            try:
                destroyer.call("destroy", name=semaphore["name"])
            except WireError as error:
                self.assertEqual(error.reason, "no-such-lock")
        return not semaphores

    def test_anything_in_any_order(self):
        self.chaos(STEPS)

    def test_by_quorum(self):
        """To make a slot takes 2 s, and a client that leaves waits for it. RabbitMQ can be silent for longer than the least
        lease while other tests write."""
        self.chaos(STEPS // 4, claim="quorum", takeover_grace=20)


if __name__ == "__main__":
    tap.main()
