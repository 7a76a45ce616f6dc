"""Damaged slots that are held by quorum, over a real RabbitMQ. Another program makes the damage. fsck finds and repairs it,
and each slot is granted again with a larger fence.
"""

import json
import os
import tempfile
import time

import tap
from daemon import GRACE
from foreign import Foreign
from quorum import QuorumTest
from rabbit import Rabbit
from wire import Wire

RABBIT = Rabbit.lease()

setUpModule = RABBIT.serve_module


def bead(number, epoch, publisher, major):
    return f"bead {number} epoch {epoch} set {publisher:016x} grace {GRACE * 1000} server {major}"


class QuorumFsck(QuorumTest):
    rabbit = RABBIT

    def setUp(self):
        super().setUp()
        self.foreign = Foreign(self, RABBIT.url, "amqp-locks")

    def publish_set(self, slot, epoch, publisher, major):
        for number in 1, 2, 3:
            self.foreign.publish(queue=self.queue(slot), text=bead(number, epoch, publisher, major))

    def test_a_look_disturbs_nobody(self):
        wire, other = Wire(self.daemon()), Wire(self.daemon())
        self.create(wire, 2)
        fences = self.grants(other, 2)
        held = other.call("acquire", name=self.name, timeout=0)
        for repair in False, True, False:
            self.assertEqual(self.fsck(wire, repair=repair), [])
        self.assertGreater(other.call("verify", lock=held["lock"])["fence"], held["fence"])
        # A clean slot is granted without a grace.
        second = other.call("acquire", name=self.name, timeout=0)
        self.assertGreater(second["fence"], fences[second["slot"]])

    def test_each_damage(self):
        wire = Wire(self.daemon())
        major = int(wire.call("info")["broker"]["version"].split(".")[0])
        self.create(wire, 11)
        before = self.grants(Wire(self.daemon()), 11)
        epoch, foreign = before[1] >> 20, self.foreign
        foreign.purge(queue=self.queue(1))
        foreign.purge(queue=self.queue(2))
        foreign.publish(queue=self.queue(2), text=bead(2, epoch, 7, major))
        foreign.publish(queue=self.queue(3), text=bead(1, epoch + 100, 7, major))
        self.publish_set(4, epoch, 7, major)
        foreign.purge(queue=self.queue(5))
        self.publish_set(5, epoch, 7, major - 1)
        for _ in range(20):
            foreign.publish(queue=self.queue(6), text="hello")
        for slot in 7, 8, 9, 10:
            foreign.delete(queue=self.queue(slot))
        foreign.declare(queue=self.queue(7))
        foreign.publish(queue=self.queue(7), text="hello")
        foreign.declare(queue=self.queue(8), arguments={
            "x-queue-type": "quorum", "x-single-active-consumer": True, "x-delivery-limit": 20})
        self.publish_set(8, epoch, 7, major)
        foreign.declare(queue=self.queue(9), arguments={"x-queue-type": "quorum"})
        foreign.delete(queue=f"{self.name}-G")
        found = ["markers:0", "record:0", "no-beads:1", "no-beads:2", "odd-beads:3", "two-sets:4", "version:5", "foreign:6",
                 "queue-type:7", "queue-arguments:8", "queue-arguments:9", "gap:10"]
        self.check_repair(wire, found)
        after = self.grants(wire, 11)
        self.check_larger(after, before)

    def test_definitions_without_messages(self):
        wire = Wire(self.daemon())
        self.create(wire, 2)
        before = self.grants(wire, 2)
        with tempfile.TemporaryDirectory(prefix="test_quorum_fsck.") as directory:
            path = os.path.join(directory, "definitions.json")
            RABBIT.ctl("export_definitions", path)
            with open(path, encoding="utf-8") as file:
                self.assertIn(self.queue(1), {queue["name"] for queue in json.load(file)["queues"]})
            for slot in 1, 2:
                RABBIT.ctl("delete_queue", self.queue(slot))
            RABBIT.ctl("import_definitions", path)
            self.check_repair(wire, ["no-beads:1", "no-beads:2"])
            after = self.grants(wire, 2)
            self.assertGreater(min(after.values()), max(before.values()))
            # Without the records, no T is known: the repair takes 5 min.
            RABBIT.ctl("delete_queue", "lockbroker=quorum")
            RABBIT.ctl("import_definitions", path)
        self.assertEqual(self.fsck(wire), ["no-record:0"])
        self.check_repair(wire, ["no-record:0"])

    def test_a_repair_waits_for_an_earlier_holder(self):
        doomed, wire = self.daemon(expect=["lost "]), Wire(self.daemon())
        self.create(wire, 1)
        holder = Wire(doomed).call("acquire", name=self.name, timeout=0)
        RABBIT.ctl("delete_queue", self.queue(1))
        doomed.kill()
        killed = time.monotonic()
        self.check_repair(wire, ["gap:1"])
        self.assertGreaterEqual(time.monotonic() - killed, GRACE)
        self.assertGreater(self.grants(wire, 1)[1], holder["fence"])

    def test_a_held_slot_stays(self):
        wire, other = Wire(self.daemon()), Wire(self.daemon())
        self.create(wire, 2)
        held = other.call("acquire", name=self.name, timeout=0)
        self.foreign.purge(queue=self.queue(held["slot"]))
        free = 3 - held["slot"]
        self.foreign.purge(queue=self.queue(free))
        self.check_repair(wire, [f"no-beads:{free}"])
        other.call("verify", lock=held["lock"])
        other.call("release", lock=held["lock"])
        self.assertEqual(len(self.grants(wire, 2)), 2)


if __name__ == "__main__":
    tap.main()
