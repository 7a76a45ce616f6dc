"""The channels of the connection that carries the locks, where RabbitMQ allows few of them."""

import os
import time
import unittest

import tap
from daemon import CLAIM, Daemon
from rabbit import Rabbit
from timing import at_most
from wire import Wire, wait_until

CHANNELS = 24
# While slots are held by consumers, one channel is left for the checks of their slot queues.
LOCKS = CHANNELS - (CLAIM == "consumer")
RABBIT = Rabbit.lease()
ALICE = 65533


def setUpModule():
    RABBIT.serve_module()
    RABBIT.set_env(channel_max=CHANNELS)


class Channels(unittest.TestCase):
    def setUp(self):
        self.db = self.id().rpartition(".")[2]
        self.one = self.daemon()
        self.admin = Wire(self.one)
        self.assertEqual(self.admin.call("info")["broker"]["channels_max"], CHANNELS)
        self.admin.call("create", name=self.db)

    def daemon(self):
        # A daemon that gets no hint finds a free slot an hour later.
        daemon = Daemon(self, "--socket-mode", "0666", "--rescan-interval", "3600",
                        broker=RABBIT.url)
        os.chmod(daemon.dir, 0o711)
        daemon.wait_broker()
        return daemon

    def wait_counts(self, daemon, **counts):
        peer = Wire(daemon)
        wait_until(lambda: counts.items() <= peer.call("info")["counts"].items(), what=f"{counts}")
        peer.hang_up()

    def take(self, peer, count, prefix):
        """So many mutexes; their locks."""
        asked = [peer.request("acquire", name=f"{prefix}{n}", kind="mutex", timeout=0)
                 for n in range(count)]
        return [peer.answer(one)["lock"] for one in asked]

    def test_waiters_for_a_channel_get_one_when_holders_release(self):
        peer = Wire(self.one)
        locks = self.take(peer, LOCKS, "m")
        waits = [peer.request("acquire", name=f"n{n}", kind="mutex") for n in range(LOCKS)]
        self.wait_counts(self.one, holds=LOCKS, waiting=LOCKS, in_flight=0)
        self.assertEqual(self.admin.error("acquire", name=self.db, timeout=0).reason, "too-many-locks")
        # All at once: idle channels are closed, and opened again.
        began = time.monotonic()
        for lock in locks:
            peer.request("release", lock=lock)
        for one in waits:
            peer.answer(one)
        took = time.monotonic() - began
        at_most(self, f"{LOCKS} channels change hands, seconds", took, 2)

    def test_a_slot_goes_to_another_host_while_there_is_no_channel(self):
        others = self.daemon(), self.daemon()
        here, there = Wire(self.one), Wire(others[1])
        locks = self.take(here, LOCKS, "m")
        lock = there.call("acquire", name=self.db, timeout=0)["lock"]
        poor = here.request("acquire", name=self.db)
        self.wait_counts(self.one, waiting=1)
        began = time.monotonic()
        for turn in range(4):
            rich = Wire(others[turn % 2])
            one = rich.request("acquire", name=self.db)
            self.wait_counts(others[turn % 2], waiting=1)
            there.hang_up()
            there, lock = rich, rich.answer(one)["lock"]
        at_most(self, "four hand-overs, seconds", time.monotonic() - began, 4)
        here.call("release", lock=locks[0])
        there.call("release", lock=lock)
        self.assertEqual(here.answer(poor)["slot"], 1)

    @unittest.skipUnless(os.geteuid() == 0, "only root can be somebody else")
    def test_one_user_leaves_some_to_others(self):
        os.seteuid(ALICE)
        try:
            alice = Wire(self.one)
        finally:
            os.seteuid(0)
        locks = self.take(alice, CHANNELS // 2, "m")  # no more is ever left to others
        self.assertEqual(alice.error("acquire", name=self.db, timeout=0).reason, "too-many-locks")
        waits = alice.request("acquire", name=self.db)
        self.wait_counts(self.one, waiting=1)
        self.take(Wire(self.one), LOCKS - CHANNELS // 2, "r")
        alice.call("release", lock=locks[0])
        self.assertEqual(alice.answer(waits)["slot"], 1)


if __name__ == "__main__":
    tap.main()
