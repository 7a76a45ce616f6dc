"""A broker that wants a shorter heartbeat than the daemon: the lease follows what was agreed, and the margin is
at most that. Where no lease is left in which `lockbroker run` could end a command, the broker is refused.
"""

import subprocess
import time
import unittest

import tap
from daemon import Daemon, clean_environment, program
from proxy import Proxy
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
        self.assertEqual(grant["lease"], {"heartbeat": 3, "margin": 3, "length": 3, "renewal": 1})
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


class Silence(unittest.TestCase):
    """The network of the daemon is frozen, and its connections stay open."""

    def setUp(self):
        self.proxy = Proxy(self, RABBIT.port)
        self.daemon = Daemon(self, broker=f"amqp://guest:guest@127.0.0.1:{self.proxy.port}",
                             expect=["lock connection", "auxiliary connection", "lost", "lease", "broker"])
        self.daemon.wait_broker()
        self.peer = Wire(self.daemon)

    def pinged(self):
        return self.peer.call("ping", broker=True)["broker"]

    def suspect(self):
        """Freezes the network. Returns the first ping that is suspect; None: the connection had ended before."""
        self.proxy.cut()
        while (found := self.pinged())["state"] == "up":
            if found["suspect"]:
                return found
            time.sleep(0.02)
        self.assertNotEqual(found["why"], "")
        self.assertIsNone(found["silent"])
        self.proxy.mend()
        self.daemon.wait_broker()
        return None

    def command(self):
        return subprocess.run([program("lockbroker"), "ping", "--broker"], capture_output=True, text=True, check=False,
                              env=clean_environment(LOCKBROKER_SOCKET=self.daemon.socket))

    def check(self, prepare):
        # The time is short in which the broker is silent and the connection up. A busy machine can miss it.
        def seen():
            prepare()
            self.assertIs(self.pinged()["suspect"], False)
            return self.suspect()
        found = wait_until(seen, what="a ping while the broker is silent")
        self.assertEqual((found["state"], found["why"]), ("up", ""))
        self.assertGreaterEqual(found["silent"], 3)
        job = self.command()
        self.assertEqual(job.returncode, 69)
        self.assertRegex(job.stderr, "^lockbroker: the broker (has been silent for .* s: locks are suspect|is down)")
        self.proxy.mend()
        wait_until(lambda: self.pinged()["suspect"] is False, what="the broker answers again")
        self.daemon.wait_broker()
        self.assertEqual(self.command().returncode, 0)

    def test_ping_fails_while_locks_are_suspect(self):
        self.check(lambda: self.peer.call("acquire", name="silence", kind="mutex", timeout=30))

    def test_ping_fails_where_nothing_is_held(self):
        self.check(lambda: None)


if __name__ == "__main__":
    tap.main()
