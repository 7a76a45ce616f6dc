"""One semaphore, used and administered by the daemon and by a client of another make, in both presets."""

import unittest

import tap
from daemon import Daemon
from foreign import Foreign
from rabbit import Rabbit
from wire import Wire, wait_until

RABBIT = Rabbit()

# How somebody else may have declared A: nothing of it is lockbroker's way.
MADE_OTHERWISE = {
    "plain": {},
    "transient": {"durable": False},
    "quorum": {"arguments": {"x-queue-type": "quorum"}},
    "long": {"arguments": {"x-max-length": 1000, "x-overflow": "drop-head"}},
    "lazy": {"arguments": {"x-queue-mode": "lazy", "x-message-ttl": 60000}},
}


def setUpModule():
    unittest.addModuleCleanup(RABBIT.close)
    RABBIT.start()


class Together:
    naming = None
    deadline = 60

    def setUp(self):
        self.name = f"{self.naming}/{self.id().rpartition('.')[2]}"
        self.foreign = Foreign(self, RABBIT.url, self.naming)

    def daemon(self, *options, **more):
        daemon = Daemon(self, "--naming", self.naming, *options, broker=RABBIT.url, **more)
        daemon.wait_broker()
        return daemon

    def slots(self):
        """The slots of which there is an A, as the broker lists them."""
        numbers = {self.form("A").format(slot): slot for slot in range(1, 400)}
        return sorted(numbers[queue] for queue in RABBIT.ctl("list_queues", "name").splitlines()
                      if queue in numbers)

    def form(self, letter):
        return (f"{self.name}-{letter}-{{}}" if self.naming == "amqp-locks-python"
                else f"{self.name}-{{}}-{letter}")

    def refused(self, peer, method, **params):
        return peer.error(method, name=self.name, **params).reason

    # ---- holding ----

    def test_slots_declared_otherwise(self):
        peer = Wire(self.daemon())
        for word, made in MADE_OTHERWISE.items():
            with self.subTest(made=word):
                self.foreign.under_admin("create", self.name, slots=2, **made)
                self.assertEqual(peer.call("size", name=self.name)["slots"], 2)
                held = [peer.call("acquire", name=self.name, timeout=0) for _ in range(2)]
                self.assertEqual({one["slot"] for one in held}, {1, 2})
                self.assertIsNone(self.foreign.acquire(name=self.name))
                peer.call("verify", lock=held[0]["lock"])
                for one in held:
                    peer.call("release", lock=one["lock"])
                self.assertEqual(self.foreign.acquire(name=self.name), 1)
                held = peer.call("acquire", name=self.name, timeout=0)
                self.assertEqual(held["slot"], 2)
                self.assertEqual(self.refused(peer, "acquire", timeout=0), "would-block")
                peer.call("release", lock=held["lock"])
                self.foreign.release(name=self.name, slot=1)
                peer.call("destroy", name=self.name)
                self.assertEqual(self.foreign.size(name=self.name), 0)

    def test_a_holder_of_the_other_kind_dies(self):
        here = self.daemon("--reprobe", "0.1")
        peer = Wire(here)
        peer.call("create", name=self.name, slots=1)
        self.assertEqual(self.foreign.acquire(name=self.name), 1)
        waiting = peer.request("acquire", name=self.name, timeout=20)
        self.foreign.kill()
        self.assertEqual(peer.answer(waiting, 20)["slot"], 1)

        other = Foreign(self, RABBIT.url, self.naming)
        self.assertIsNone(other.acquire(name=self.name))
        here.kill()
        wait_until(lambda: other.acquire(name=self.name) == 1, 10, "the dead daemon's slot is free")

    def test_mutex(self):
        peer = Wire(self.daemon())
        held = peer.call("acquire", name=self.name, kind="mutex", timeout=0)["lock"]
        self.assertFalse(self.foreign.acquire_mutex(name=self.name))
        peer.call("release", lock=held)
        self.assertTrue(self.foreign.acquire_mutex(name=self.name))
        self.assertEqual(self.refused(peer, "acquire", kind="mutex", timeout=0), "would-block")
        self.foreign.release_mutex(name=self.name)
        peer.call("acquire", name=self.name, kind="mutex", timeout=0)

    # ---- administering ----

    def test_the_daemon_creates_and_the_other_sees_it_whole(self):
        peer = Wire(self.daemon())
        peer.call("create", name=self.name, slots=300)
        self.assertEqual(self.foreign.size(name=self.name), 300)
        self.assertEqual(self.slots(), list(range(1, 301)))
        # Both ways of determining existence.
        first, beyond = self.form("A").format(1), self.form("A").format(301)
        self.assertEqual([self.foreign.exists(queue=first),
                          self.foreign.exists_passively(queue=first)], [True, True])
        self.assertEqual([self.foreign.exists(queue=beyond),
                          self.foreign.exists_passively(queue=beyond)], [False, False])
        peer.call("destroy", name=self.name)
        self.assertEqual(self.slots(), [])

    def test_the_other_destroys_what_the_daemon_created(self):
        peer = Wire(self.daemon())
        peer.call("create", name=self.name, slots=3)
        held = peer.call("acquire", name=self.name, timeout=0)
        self.foreign.under_admin("destroy", self.name)
        self.assertEqual(peer.notification("revoked", 5)["lock"], held["lock"])
        self.assertEqual(peer.error("verify", lock=held["lock"]).reason, "revoked")
        self.assertTrue(self.foreign.held(name=self.name, slot=held["slot"]))
        self.assertEqual(self.refused(peer, "acquire", timeout=0), "no-such-lock")
        peer.call("release", lock=held["lock"])
        self.assertFalse(self.foreign.held(name=self.name, slot=held["slot"]))

    def test_the_daemon_destroys_what_the_other_holds(self):
        peer = Wire(self.daemon())
        peer.call("create", name=self.name, slots=2)
        self.assertEqual(self.foreign.acquire(name=self.name), 1)
        peer.call("destroy", name=self.name)
        self.assertFalse(self.foreign.verify(name=self.name, slot=1))
        # Its B stays until it is done, and nobody else gets the slot though there is one again.
        peer.call("create", name=self.name, slots=1)
        self.assertEqual(self.refused(peer, "acquire", timeout=0), "would-block")
        self.foreign.release(name=self.name, slot=1)
        self.assertEqual(peer.call("acquire", name=self.name, timeout=0)["slot"], 1)


class AmqpLocks(Together, unittest.TestCase):
    naming = "amqp-locks"


class AmqpLocksPython(Together, unittest.TestCase):
    naming = "amqp-locks-python"


if __name__ == "__main__":
    tap.main()
