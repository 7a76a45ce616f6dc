"""A hold outlives the broker's consumer_timeout. A consumer watches its A. Another daemon goes on probing the
queues: its probes make deliveries that a consumer must acknowledge in time."""

import time
import unittest

import tap
from daemon import CLAIM, Daemon
from rabbit import Rabbit
from wire import Wire

CONSUMER_TIMEOUT = 5  # seconds; the broker checks once in as many
HELD = 30.0
PAUSE = 0.005  # between two tries


class ConsumerTimeout(unittest.TestCase):
    deadline = HELD + 120

    def test_hold_outlives_it_under_foreign_probes(self):
        rabbit = self.enterContext(Rabbit(config=f"consumer_timeout = {CONSUMER_TIMEOUT * 1000}"))
        daemon, foreign = (Daemon(self, broker=rabbit.url) for _ in range(2))
        for one in (daemon, foreign):
            one.wait_broker()
        peer, prober = Wire(daemon), Wire(foreign)
        peer.call("create", name="long", slots=1)
        lock = peer.call("acquire", name="long", timeout=0)["lock"]
        end = time.monotonic() + HELD
        tries = 0
        while time.monotonic() < end:
            self.assertEqual(prober.error("acquire", name="long", timeout=0).reason, "would-block")
            tries += 1
            time.sleep(PAUSE)
        peer.call("verify", lock=lock)
        peer.pump()
        self.assertEqual([note["method"] for note in peer.notifications
                          if note["method"] in ("lost", "revoked", "suspect")], [])
        self.assertEqual(peer.call("info")["counts"]["lost"], 0)
        watchers = [line.split("\t") for line in
                    rabbit.ctl("list_consumers", "queue_name", "channel_pid").splitlines()[1:]]
        # Besides, the inboxes of both for what daemons ask each other.
        self.assertEqual({queue for queue, _ in watchers if not queue.startswith("lockbroker=inbox=")},
                         {"long-1-A"} | ({"long-1-B"} if CLAIM == "consumer" else set()))
        self.assertNotIn("delivery acknowledgement on channel", rabbit.log)
        print(f"{tries} foreign tries in {HELD:.0f} s")
        # Still watched: its holder hears of the end of the slot.
        Wire(foreign).call("destroy", name="long")
        self.assertEqual(peer.notification("revoked")["lock"], lock)
        peer.call("release", lock=lock)


if __name__ == "__main__":
    tap.main()
