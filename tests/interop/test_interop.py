"""One semaphore, used and administered by the daemon and by a client of another make, in both presets.

That client knows exclusive queues alone. The semaphores whose slots it shall hold are made for them, whatever the setting
of the daemon.
"""

import random
import threading
import unittest

import tap
from daemon import CLAIM, Daemon
from foreign import Foreign
from hammer import SEED
from rabbit import Rabbit
from wire import Wire, wait_until

RABBIT = Rabbit.lease(shared=True)
ROUNDS = 20  # of each concurrent administrator

# How somebody else may have declared A: nothing of it is lockbroker's way.
MADE_OTHERWISE = {
    "plain": {},
    "transient": {"durable": False},
    "quorum": {"arguments": {"x-queue-type": "quorum"}},
    "long": {"arguments": {"x-max-length": 1000, "x-overflow": "drop-head"}},
    "lazy": {"arguments": {"x-queue-mode": "lazy", "x-message-ttl": 60000}},
}

setUpModule = RABBIT.serve_module


class Resizer(threading.Thread):
    """One administrator at a daemon, with a mind that changes."""

    def __init__(self, peer, name, seed):
        super().__init__(daemon=True)
        self.peer, self.wanted, self.dice = peer, name, random.Random(seed)
        self.last = self.failure = None

    def run(self):
        try:
            for _ in range(ROUNDS):
                self.last = self.dice.randint(1, 12)
                self.peer.call("resize", name=self.wanted, slots=self.last)
        except Exception as error:  # pylint: disable=broad-except
            self.failure = f"{type(error).__name__}: {error}"


class Together:
    naming = None

    def setUp(self):
        self.name = f"{self.naming}/{self.id().rpartition('.')[2]}"
        self.foreign = Foreign(self, RABBIT.url, self.naming)

    def daemon(self, *options, **more):
        daemon = Daemon(self, "--naming", self.naming, *options, broker=RABBIT.url, **more)
        daemon.wait_broker()
        return daemon

    def slots(self):
        """The slots whose A the broker lists."""
        numbers = {self.form("A").format(slot): slot for slot in range(1, 400)}
        return sorted(numbers[queue] for queue in RABBIT.queues() if queue in numbers)

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
        here = self.daemon("--rescan-interval", "0.1")
        peer = Wire(here)
        peer.call("create", name=self.name, slots=1, claim="exclusive-queue")
        self.assertEqual(self.foreign.acquire(name=self.name), 1)
        waiting = peer.request("acquire", name=self.name, timeout=20)
        self.foreign.kill()
        self.assertEqual(peer.answer(waiting)["slot"], 1)

        other = Foreign(self, RABBIT.url, self.naming)
        self.assertIsNone(other.acquire(name=self.name))
        here.kill()
        wait_until(lambda: other.acquire(name=self.name) == 1, what="the dead daemon's slot is free")

    def test_mutex(self):
        peer = Wire(self.daemon())
        held = peer.call("acquire", name=self.name, kind="mutex", timeout=0)["lock"]
        self.assertFalse(self.foreign.acquire_mutex(name=self.name))
        peer.call("release", lock=held)
        if CLAIM == "consumer" and self.naming == "amqp-locks":
            # Its holder queue is left for a minute, and to the other client that is a holder.
            self.assertFalse(self.foreign.acquire_mutex(name=self.name))
            # (A passive declaration would prolong its life.)
            wait_until(lambda: not self.foreign.exists(queue=f"{self.name}-M"), 90, "the holder queue expires")
        self.assertTrue(self.foreign.acquire_mutex(name=self.name))
        self.assertEqual(self.refused(peer, "acquire", kind="mutex", timeout=0), "would-block")
        shown = peer.call("show", name=self.name)["holders"]
        self.assertEqual([(row["kind"], row["state"], row["unknown"]) for row in shown], [("mutex", "busy", True)])
        self.foreign.release_mutex(name=self.name)
        self.assertEqual(self.refused(peer, "show"), "no-such-lock")
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
        peer.call("create", name=self.name, slots=3, claim="exclusive-queue")
        held = peer.call("acquire", name=self.name, timeout=0)
        self.foreign.under_admin("destroy", self.name)
        self.assertEqual(peer.notification("revoked")["lock"], held["lock"])
        self.assertEqual(peer.error("verify", lock=held["lock"]).reason, "revoked")
        self.assertTrue(self.foreign.held(name=self.name, slot=held["slot"]))
        self.assertEqual(self.refused(peer, "acquire", timeout=0), "no-such-lock")
        peer.call("release", lock=held["lock"])
        self.assertFalse(self.foreign.held(name=self.name, slot=held["slot"]))

    def test_the_daemon_destroys_what_the_other_holds(self):
        peer = Wire(self.daemon())
        peer.call("create", name=self.name, slots=2, claim="exclusive-queue")
        self.assertEqual(self.foreign.acquire(name=self.name), 1)
        peer.call("destroy", name=self.name)
        self.assertFalse(self.foreign.verify(name=self.name, slot=1))
        # Its B stays until it releases. No other client gets the slot, though the slot exists again.
        peer.call("create", name=self.name, slots=1, claim="exclusive-queue")
        self.assertEqual(self.refused(peer, "acquire", timeout=0), "would-block")
        self.foreign.release(name=self.name, slot=1)
        self.assertEqual(peer.call("acquire", name=self.name, timeout=0)["slot"], 1)

    def test_one_administers_at_a_time(self):
        peer = Wire(self.daemon("--request-timeout", "1", "--probe-timeout", "0.5"))
        self.assertTrue(self.foreign.take_admin(name=self.name))
        self.assertEqual(self.refused(peer, "create", slots=2), "timeout")
        self.assertEqual(self.slots(), [])
        patient = Wire(self.daemon())
        creating = patient.request("create", name=self.name, slots=2)
        patient.call("ping")
        self.foreign.drop_admin(name=self.name)
        self.assertEqual(patient.answer(creating)["slots"], 2)
        self.foreign.under_admin("resize", self.name, slots=1)

    def test_the_daemon_waits_for_holders_of_the_other_kind(self):
        peer = Wire(self.daemon())
        peer.call("create", name=self.name, slots=3, claim="exclusive-queue")
        for slot in (1, 2, 3):
            self.assertEqual(self.foreign.acquire(name=self.name), slot)
        error = peer.error("resize", name=self.name, slots=1, wait=0.3)
        self.assertEqual((error.reason, error.data["target"]), ("timeout", 1))
        self.assertEqual([row["slot"] for row in error.data["holders"]], [2, 3])
        # The size is the requested one, though removed slots still have holders.
        self.assertEqual(self.slots(), [1])
        self.assertEqual([self.foreign.verify(name=self.name, slot=slot) for slot in (1, 2, 3)],
                         [True, False, False])
        peer.call("resize", name=self.name, slots=3)
        resizing = peer.request("resize", name=self.name, slots=1, wait=None, progress=True)
        for slot, left in ((2, 2), (3, 1)):
            self.assertEqual(peer.notification("holders")["left"], left)
            self.foreign.release(name=self.name, slot=slot)
        self.assertEqual(peer.answer(resizing)["slots"], 1)
        self.assertTrue(self.foreign.verify(name=self.name, slot=1))

    def test_sizes_that_the_scheme_does_not_know(self):
        peer = Wire(self.daemon())
        peer.call("create", name=self.name, slots=2, claim="exclusive-queue")
        peer.call("resize", name=self.name, slots="unlimited")
        # To the other client the As are the size, as they ever were.
        self.assertEqual(self.foreign.size(name=self.name), 2)
        self.assertEqual(self.foreign.acquire(name=self.name), 1)
        self.assertIsNone(peer.call("acquire", name=self.name, timeout=0)["slot"])
        peer.call("resize", name=self.name, slots=0)
        self.assertIsNone(self.foreign.acquire(name=self.name))
        self.assertEqual(self.refused(peer, "acquire", timeout=0), "would-block")
        # A client that does not know the gate opens it when it declares slots.
        self.foreign.under_admin("create", self.name, slots=2)
        self.assertEqual(peer.call("acquire", name=self.name, timeout=0)["slot"], 2)
        peer.call("destroy", name=self.name)

    def test_adding_as_the_seed_has_it_leaves_a_gap_that_is_seen_and_repaired(self):
        peer = Wire(self.daemon())
        self.foreign.under_admin("create", self.name, slots=2)
        self.foreign.under_admin("add_to_the_letter", self.name, slots=2)
        self.assertEqual(self.slots(), [1, 2, 4])
        self.assertEqual(self.foreign.size(name=self.name), 2)
        self.assertEqual(peer.call("size", name=self.name)["slots"], 2)
        found = peer.call("fsck", name=self.name)
        self.assertFalse(found["clean"])
        self.assertIn(("uncounted", 4), {(one["problem"], one["slot"]) for one in found["findings"]})
        repaired = peer.call("fsck", name=self.name, repair=True)["findings"]
        self.assertEqual({(one["problem"], one["slot"]): one["repaired"] for one in repaired},
                         {("gap", 3): True, ("uncounted", 4): True, ("not-listed", None): True,
                          ("arguments", 1): False, ("arguments", 2): False,
                          ("arguments", 4): True})
        self.assertEqual(self.slots(), [1, 2])
        self.assertIn(self.name, [one["name"] for one in peer.call("list")["semaphores"]])
        # That another has declared them in its own way is no harm, and stays.
        self.assertEqual({one["problem"] for one in peer.call("fsck", name=self.name)["findings"]},
                         {"arguments"})

    def test_invalid_names_in_the_directory_are_ignored(self):
        peer = Wire(self.daemon())
        peer.call("create", name=self.name, slots=1)
        for text in ("", "x" * 300, "amq.x", "x-1-A", "two words", "a\tb", "a\0b", "\u00e4"):
            self.foreign.publish(queue=f"lockbroker={self.naming}", text=text)
        names = {one["name"] for one in peer.call("list")["semaphores"]}
        self.assertIn(self.name, names)
        self.assertEqual({name for name in names if "/" not in name}, set())

    def test_administrators_of_both_kinds_at_once(self):
        """Random sizes from two daemons and the other client: the last one counts."""
        print(f"HAMMER_SEED={SEED}")
        daemons = [self.daemon() for _ in range(2)]
        Wire(daemons[0]).call("create", name=self.name, slots=1)
        resizers = [Resizer(Wire(daemon), self.name, SEED + i) for i, daemon in enumerate(daemons)]
        for resizer in resizers:
            resizer.start()
        dice = random.Random(SEED + len(resizers))
        for _ in range(ROUNDS):
            last = dice.randint(1, 12)
            wait_until(lambda: self.foreign.take_admin(name=self.name), what="the mutex is free")
            self.foreign.resize(name=self.name, slots=last)
            self.foreign.drop_admin(name=self.name)
        for resizer in resizers:
            resizer.join(60)
            self.assertFalse(resizer.is_alive())
            self.assertIsNone(resizer.failure)
        left = self.foreign.size(name=self.name)
        self.assertIn(left, [last] + [resizer.last for resizer in resizers])
        self.assertEqual(self.slots(), list(range(1, left + 1)))
        self.assertEqual([Wire(daemon).call("size", name=self.name)["slots"]
                          for daemon in daemons], [left, left])


class AmqpLocks(Together, unittest.TestCase):
    naming = "amqp-locks"


class AmqpLocksPython(Together, unittest.TestCase):
    naming = "amqp-locks-python"

    def test_a_mutex_of_a_name_with_slots(self):
        """The mutex and the administration are one queue here. A holder of the mutex would lock administrators out."""
        peer = Wire(self.daemon())
        peer.call("create", name=self.name, slots=1)
        self.assertEqual(self.refused(peer, "acquire", kind="mutex", timeout=0), "already-exists")
        self.assertTrue(self.foreign.take_admin(name=self.name))
        self.foreign.drop_admin(name=self.name)


class Templates(unittest.TestCase):
    def test_another_ones_names_by_templates(self):
        daemon = Daemon(self, config="naming = custom\nslot-queue = {name}-A-{slot}\n"
                        "holder-queue = {name}-B-{slot}\n", broker=RABBIT.url)
        daemon.wait_broker()
        peer, foreign = Wire(daemon), Foreign(self, RABBIT.url, "amqp-locks-python")
        peer.call("create", name="templates", slots=2, claim="exclusive-queue")
        self.assertEqual(foreign.acquire(name="templates"), 1)
        self.assertEqual(peer.call("acquire", name="templates", timeout=0)["slot"], 2)
        self.assertIsNone(foreign.acquire(name="templates"))
        peer.call("destroy", name="templates")


if __name__ == "__main__":
    tap.main()
