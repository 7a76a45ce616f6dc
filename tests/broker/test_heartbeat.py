"""A broker that wants a shorter heartbeat than the daemon: the lease follows what was agreed, and the margin is
at most that. Where no lease is left in which `lockbroker run` could end a command, the broker is refused.
"""

import time
import unittest

import tap
from daemon import Daemon
from rabbit import Rabbit
from wait import wait_until
from wire import Wire, WireError

RABBIT = Rabbit.lease()


def setUpModule():
    RABBIT.serve_module()
    RABBIT.set_env(heartbeat=3)


class Heartbeat(unittest.TestCase):
    def test_the_margin_is_at_most_the_heartbeat_that_was_agreed(self):
        daemon = Daemon(self, "--heartbeat", "10", "--margin", "6", broker=RABBIT.url)
        daemon.wait_broker()
        peer = Wire(daemon)
        peer.call("create", name="margin", slots=1)
        asked = time.clock_gettime(time.CLOCK_BOOTTIME)
        grant = peer.call("acquire", name="margin", timeout=0, lease=True)
        self.assertEqual(grant["lease"], {"heartbeat": 3, "margin": 3, "length": 3})
        self.assertGreater(grant["safe_until"], asked + 2 * 3 - 3)
        self.assertLess(grant["safe_until"], time.clock_gettime(time.CLOCK_BOOTTIME) + 3)
        info = peer.call("info")
        self.assertEqual(info["broker"]["heartbeat"], 3)
        self.assertEqual(info["lease"]["margin"], 3)
        # Four answers of the keepalive, a second apart: it is kept, by one connection.
        for _ in range(4):
            peer.notification("lease")
        self.assertGreater(time.clock_gettime(time.CLOCK_BOOTTIME), grant["safe_until"])
        self.assertEqual(peer.call("info")["counts"]["lost"], 0)
        self.assertEqual(daemon.log().count("lock connection up"), 1)

    def test_a_broker_that_leaves_no_lease_is_refused(self):
        self.addCleanup(RABBIT.set_env, heartbeat=3)
        RABBIT.set_env(heartbeat=1)
        daemon = Daemon(self, "--heartbeat", "10", "--margin", "6", broker=RABBIT.url,
                        expect=["lock connection refused"])
        peer = Wire(daemon)
        state = wait_until(lambda: [broker for broker in [peer.call("info")["broker"]]
                                    if broker["state"] == "refused"])[0]
        self.assertIn("a heartbeat of 1 s", state["why"])
        self.assertIn("1.833 s", state["why"])
        with self.assertRaises(WireError) as refused:
            peer.call("acquire", name="margin", timeout=0)
        self.assertEqual(refused.exception.reason, "broker-refused")
        self.assertIn("a heartbeat of 1 s", str(refused.exception))
        self.assertNotIn("lock connection up", daemon.log())
        # Refused once in the log, and tried again; when the broker wants a longer one, it is taken.
        RABBIT.set_env(heartbeat=3)
        wait_until(lambda: "lock connection up" in daemon.log())
        self.assertEqual(daemon.log().count("lock connection refused"), 1)


if __name__ == "__main__":
    tap.main()
