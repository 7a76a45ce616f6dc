"""How soon clients hear of what happened, over a real RabbitMQ. `make check-timed` runs it without other tests beside it.
"""

import os
import sys
import time
import unittest

import tap
from daemon import WAYS, Daemon
from openrpc import SOURCE
from rabbit import Rabbit
from timing import check_rounds
from wire import Wire, WireError, wait_until

sys.path.insert(0, os.path.join(SOURCE, "tests", "interop"))
from foreign import Foreign  # noqa: E402

RESCAN_INTERVAL = 5
TROUBLE = ("broker|amqp|connection",)
RABBIT = Rabbit()

setUpModule = RABBIT.serve_module


class Latency(unittest.TestCase):
    deadline = 600

    def setUp(self):
        self.name = self.id().rpartition(".")[2]

    def daemon(self, *options, **more):
        daemon = Daemon(self, *options, broker=RABBIT.url, **more)
        daemon.wait_broker()
        return daemon

    def create(self, daemon, slots=1, **params):
        Wire(daemon).call("create", name=self.name, slots=slots, **params)

    def hold(self, peer):
        return peer.call("acquire", name=self.name)["lock"]

    def wait(self, peer):
        """A request that waits, and is known to the broker to."""
        asked = peer.request("acquire", name=self.name, progress=True)
        peer.notification("waiting")
        wait_until(lambda: (queue := RABBIT.queues().get(self.name + "-W")) and queue.consumers)
        return asked


class Revoked(Latency):
    def watched(self):
        return sum(queue.consumers for name, queue in RABBIT.queues().items()
                   if name.startswith(self.name) and name.endswith("-A"))

    def test_holders_of_both_daemons_are_told_within_50_ms(self):
        here, there = self.daemon(), self.daemon()
        admin, near, far = Wire(here), Wire(here), Wire(there)
        self.create(here, 2)
        for who, peer in ("local", near), ("remote", far):
            def measure(peer=peer):
                locks = {one: self.hold(one) for one in (near, far)}
                wait_until(lambda: self.watched() == 2, what="both slots are watched")
                began = time.monotonic()
                asked = admin.request("resize", name=self.name, slots=0)
                peer.notification("revoked")
                took = time.monotonic() - began
                admin.answer(asked)
                for one, lock in locks.items():
                    one.call("release", lock=lock)
                    one.notifications.clear()
                admin.call("resize", name=self.name, slots=2)
                return took
            check_rounds(self, f"revoked, {who}", 0.05, measure)


class Freed(Latency):
    """How soon a slot is free again for a client of another daemon."""

    def free_after(self, there, act):
        """Seconds from act() until a client of the other daemon got the slot."""
        other = Wire(there)
        self.assertEqual(other.error("acquire", name=self.name, timeout=0).reason, "would-block")
        began = time.monotonic()
        act()
        while True:
            try:
                lock = other.call("acquire", name=self.name, timeout=0)["lock"]
                break
            except WireError as error:
                if error.reason != "would-block":
                    raise
        took = time.monotonic() - began
        other.call("release", lock=lock)
        return took

    def test_hang_up_frees_within_100_ms(self):
        here, there = self.daemon(), self.daemon()
        for way in WAYS:
            self.name = f"{self.id().rpartition('.')[2]}-{way}"
            self.create(here, claim=way)

            def measure():
                holder = Wire(here)
                self.hold(holder)
                return self.free_after(there, holder.hang_up)
            check_rounds(self, f"free after a hang-up, {way}", 0.1, measure)

    def test_killed_daemon_frees_within_1_s(self):
        here, there = self.daemon(), self.daemon()
        for way in WAYS:
            self.name = f"{self.id().rpartition('.')[2]}-{way}"
            self.create(there, claim=way)

            def measure():
                self.hold(Wire(here))
                took = self.free_after(there, here.kill)
                here.start()
                here.wait_broker()
                return took
            check_rounds(self, f"free after the kill of a daemon, {way}", 1, measure)

    def test_a_holder_is_told_within_100_ms_of_the_end_of_its_queue(self):
        here = self.daemon("--claim", "consumer", expect=["lost"])
        foreign = Foreign(self, RABBIT.url, "amqp-locks")
        peer = Wire(here)
        self.create(here)

        def measure():
            self.hold(peer)
            began = time.monotonic()
            foreign.delete(queue=f"{self.name}-1-B")
            peer.notification("lost")
            took = time.monotonic() - began
            peer.call("fsck", name=self.name, repair=True, convert="consumer", wait=5)
            return took
        check_rounds(self, "lost after the end of the holder queue", 0.1, measure)


class Woken(Latency):
    def test_within_milliseconds_across_daemons(self):
        daemons = [self.daemon(), self.daemon()]
        self.create(daemons[0])
        holder = Wire(daemons[0])
        held = [holder, self.hold(holder)]

        def measure():
            daemons.reverse()
            other = Wire(daemons[0])
            asked = self.wait(other)
            began = time.monotonic()
            held[0].request("release", lock=held[1])
            held[:] = other, other.answer(asked)["lock"]
            return time.monotonic() - began
        check_rounds(self, "woken by another daemon", 0.1, measure)

    def test_a_killed_daemon_s_slot_is_found_within_the_rescan_interval(self):
        here, there = self.daemon(), self.daemon("--rescan-interval", str(RESCAN_INTERVAL))
        self.create(here)

        def measure():
            self.hold(Wire(here))
            waiter = Wire(there)
            asked = self.wait(waiter)
            began = time.monotonic()
            here.kill()
            lock = waiter.answer(asked)["lock"]
            took = time.monotonic() - began
            waiter.call("release", lock=lock)
            here.start()
            here.wait_broker()
            return took
        check_rounds(self, "found by a rescan", RESCAN_INTERVAL + 0.5, measure)


class Shown(Latency):
    def test_show_waits_for_no_daemon_that_is_known(self):
        here, there = self.daemon("--host-name", "here"), self.daemon("--host-name", "there")
        admin = Wire(here)
        self.create(here)
        self.hold(Wire(there))
        wait_until(lambda: [row["host"] for row in admin.call("show", name=self.name)["holders"]] == ["there"])

        def measure():
            began = time.monotonic()
            admin.call("show", name=self.name)
            return time.monotonic() - began
        check_rounds(self, "show of two hosts", 0.4, measure)


if __name__ == "__main__":
    tap.main()
