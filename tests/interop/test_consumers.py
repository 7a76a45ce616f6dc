"""Other users of the vhost publish to the holder queues of slots that are held by consumers, and delete them.

FLOOD_MESSAGES says how many messages of 1 MiB are published in each test (300); `make flood` makes it 100,000.
"""

import os
import threading
import time
import unittest

import tap
from daemon import Daemon
from foreign import Foreign
from rabbit import Rabbit
from wire import Wire

MESSAGES = int(os.environ.get("FLOOD_MESSAGES", "300"))
SIZE = 1 << 20
SLOTS = 3
RABBIT = Rabbit.lease()

setUpModule = RABBIT.serve_module


class Consumers(unittest.TestCase):
    def setUp(self):
        self.name = self.id().rpartition(".")[2]
        self.foreign = Foreign(self, RABBIT.url, "amqp-locks")

    def daemon(self, *options, **more):
        daemon = Daemon(self, "--claim", "consumer", *options, broker=RABBIT.url, **more)
        daemon.wait_broker()
        return daemon


class Flood(Consumers):
    """No hold is lost."""

    deadline = 120 + MESSAGES / 20

    def flood(self, daemon, queues, rejected):
        """Publishes to these holder queues while their slots are held."""
        peer = Wire(daemon)
        locks = [peer.call("acquire", name=self.name, timeout=0)["lock"] for _ in range(SLOTS)]
        locks.append(peer.call("acquire", name=self.name, kind="mutex", timeout=0)["lock"])
        found = []
        flooding = threading.Thread(
            target=lambda: found.append(self.foreign.flood(queues=queues, count=MESSAGES, size=SIZE)), daemon=True)
        began, verified = time.monotonic(), 0
        flooding.start()
        while flooding.is_alive():
            for lock in locks:
                peer.call("verify", lock=lock)
            verified += 1
        took = time.monotonic() - began
        print(f"{MESSAGES} messages of 1 MiB in {took:.1f} s, {MESSAGES / took:.0f} a second; "
              f"{len(locks)} holds were verified {verified} times meanwhile")
        self.assertEqual(found, [rejected])
        self.assertGreater(verified, 0)
        for lock in locks:
            peer.call("verify", lock=lock)
        peer.pump()
        self.assertEqual([note for note in peer.notifications if note["method"] in ("lost", "revoked")], [])
        counts = peer.call("info")["counts"]
        self.assertEqual((counts["holds"], counts["lost"], counts["holder_queues_lost"]), (len(locks), 0, 0))
        self.assertEqual(daemon.log().count("lock connection up"), 1)
        for lock in locks:
            peer.call("release", lock=lock)
        self.assertEqual([queue for queue in RABBIT.holders() if queue in queues], [])

    def test_queues_of_the_daemon_reject_messages(self):
        daemon = self.daemon()
        Wire(daemon).call("create", name=self.name, slots=SLOTS)
        queues = [f"{self.name}-{slot}-B" for slot in range(1, SLOTS + 1)] + [f"{self.name}-M"]
        self.flood(daemon, queues, MESSAGES)

    def test_queues_of_others_deliver_messages(self):
        """Another client has declared the holder queues anew, without x-overflow: the holder gets all messages."""
        daemon = self.daemon()
        peer = Wire(daemon)
        peer.call("create", name=self.name, slots=SLOTS)
        peer.call("release", lock=peer.call("acquire", name=self.name, timeout=0)["lock"])
        queues = [f"{self.name}-{slot}-B" for slot in range(1, SLOTS + 1)]
        for queue in queues:
            self.foreign.delete(queue=queue)
            self.foreign.declare(queue=queue)
        self.flood(daemon, queues, 0)


class DeletedByHand(Consumers):
    def test_the_holder_is_told(self):
        here, there = self.daemon("--heartbeat", "60", expect=["lost"]), self.daemon()
        peer, other = Wire(here), Wire(there)
        peer.call("create", name=self.name, slots=1)
        for _ in range(7):
            lock = peer.call("acquire", name=self.name, timeout=5)["lock"]
            self.assertEqual(other.error("acquire", name=self.name, timeout=0).reason, "would-block")
            self.foreign.delete(queue=f"{self.name}-1-B")
            lost = peer.notification("lost")
            self.assertEqual((lost["lock"], lost["reason"]), (lock, "lost"))
            self.assertIn(peer.error("verify", lock=lock).reason, ("lost", "not-held"))
            # The slot is free, and without a durable holder queue it is held by an exclusive one.
            other.call("release", lock=other.call("acquire", name=self.name, timeout=5)["lock"])
            repaired = peer.call("fsck", name=self.name, repair=True, convert="consumer", wait=5)
            self.assertEqual((repaired["converted"], repaired["claim"]), (1, "consumer"))


if __name__ == "__main__":
    tap.main()
