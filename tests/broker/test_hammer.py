"""Two daemons on one RabbitMQ, twenty local peers each, all after three slots (tests/harness/hammer.py).

HAMMER_SECONDS says how long (6); `make hammer` makes it 30.
"""

import unittest

import tap
from daemon import Daemon
from hammer import SECONDS, hammer
from rabbit import Rabbit
from wire import Wire, wait_until


class Hammer(unittest.TestCase):
    deadline = SECONDS + 120

    def test_never_two_holders_of_a_slot(self):
        rabbit = self.enterContext(Rabbit())
        daemons = [Daemon(self, "--rescan-interval", "0.1", broker=rabbit.url) for _ in range(2)]
        for daemon in daemons:
            daemon.wait_broker()
        Wire(daemons[0]).call("create", name="hammer", slots=3)
        hammer(self, daemons, "hammer", 3, 20, SECONDS)
        wait_until(lambda: not [queue for queue in rabbit.ctl("list_queues", "name").split()
                                if queue.endswith("-B")], 20, "no B is left behind")


if __name__ == "__main__":
    tap.main()
