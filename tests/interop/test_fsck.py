"""fsck finds and repairs the remains of a client of another make, over a real RabbitMQ."""

import time
import unittest

import tap
from daemon import Daemon
from foreign import Foreign
from rabbit import Rabbit
from wire import Wire, wait_until

RABBIT = Rabbit.lease(shared=True)

setUpModule = RABBIT.serve_module


class Fsck(unittest.TestCase):
    def setUp(self):
        self.name = self.id().rpartition(".")[2]
        self.foreign = Foreign(self, RABBIT.url, "amqp-locks")
        daemon = Daemon(self, broker=RABBIT.url)
        daemon.wait_broker()
        self.peer = Wire(daemon)

    def found(self, repair=False):
        """(problem, slot): whether it was repaired."""
        findings = self.peer.call("fsck", name=self.name, repair=repair)["findings"]
        return {(one["problem"], one["slot"]): one["repaired"] for one in findings}

    def durable(self):
        return {name: queue.durable for name, queue in RABBIT.queues().items() if name.startswith(self.name + "-")}

    def test_transient_slots_are_made_anew_when_nobody_holds_them(self):
        self.foreign.under_admin("create", self.name, slots=3, durable=False)
        self.assertEqual(self.foreign.acquire(name=self.name), 1)
        self.assertEqual(self.found(), {("not-listed", None): False, ("transient", 1): False,
                                        ("transient", 2): False, ("transient", 3): False})
        self.assertEqual(self.found(repair=True),
                         {("not-listed", None): True, ("transient", 1): False,
                          ("transient", 2): True, ("transient", 3): True})
        self.assertEqual([self.durable()[f"{self.name}-{slot}-A"] for slot in (1, 2, 3)],
                         [False, True, True])
        self.foreign.release(name=self.name, slot=1)
        self.assertEqual(self.found(repair=True), {("transient", 1): True})
        self.assertEqual(self.found(), {})
        self.assertEqual(self.peer.call("size", name=self.name)["slots"], 3)

    def test_a_holder_of_a_slot_that_is_no_more(self):
        self.peer.call("create", name=self.name, slots=2, claim="exclusive-queue")
        self.assertEqual(self.foreign.acquire(name=self.name), 1)
        self.assertEqual(self.foreign.acquire(name=self.name), 2)
        self.peer.call("resize", name=self.name, slots=1)
        self.assertEqual(self.found(repair=True), {})
        self.assertEqual(self.peer.call("fsck", name=self.name)["holders"], [{"slot": 2}])
        why = self.peer.call("explain", name=self.name)
        self.assertEqual((why["verdict"], why["slots"], why["busy"], why["extra"]), ("full", 1, 1, 1))
        (row,) = [row for row in self.peer.call("list")["semaphores"] if row["name"] == self.name]
        self.assertEqual((row["busy"], row["extra"]), (1, 1))
        shown = self.peer.call("show", name=self.name)
        self.assertEqual((shown["busy"], shown["extra"]), (1, 1))
        self.assertEqual([(row["slot"], row["unknown"]) for row in shown["holders"]], [(1, True), (2, True)])
        waits = self.peer.request("await", name=self.name, slot=2, state="free")
        self.foreign.release(name=self.name, slot=2)
        self.assertEqual(self.peer.answer(waits)["slot"], 2)
        self.assertEqual(self.found(), {})

    def test_hundreds_of_slots_of_another_make_cost_a_channel_each_and_no_more(self):
        slots = 300
        self.foreign.under_admin("create", self.name, slots=slots)
        began = time.monotonic()
        self.assertEqual(len(self.found(repair=True)), slots + 1)  # and it was not listed
        print(f"{slots} slots, scanned twice: {time.monotonic() - began:.2f} s")
        self.assertEqual({problem for problem, _ in self.found()}, {"arguments"})
        # Nothing is left of it: a channel, or the mutex.
        wait_until(lambda: self.name not in RABBIT.queues(), what="the administration mutex is dropped")
        self.assertEqual(self.foreign.size(name=self.name), slots)


if __name__ == "__main__":
    tap.main()
