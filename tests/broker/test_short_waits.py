"""A wait that is shorter than a few answers of the broker, from the outside, over a link that is slow. It is never worse
than a try: a free lock is granted, and only a busy one is reported as busy."""

import subprocess
import unittest

import tap
from daemon import Daemon, clean_environment, program
from proxy import Proxy
from rabbit import Rabbit
from wire import Wire

RABBIT = Rabbit.lease(shared=True)
ROUND_TRIP = 0.05  # of the link; the probes and the claim take several of them
CONFLICT = 75

setUpModule = RABBIT.serve_module


class Short(unittest.TestCase):
    deadline = 120

    def setUp(self):
        self.proxy = Proxy(self, RABBIT.port)
        self.daemon = Daemon(self, "--probe-timeout", "2", "--request-timeout", "4",
                             broker=RABBIT.url_at(self.proxy.port))
        self.daemon.wait_broker()
        self.peer = Wire(self.daemon)
        self.proxy.slow(ROUND_TRIP / 2)

    def statuses(self, wait, *options, names):
        """The exit statuses of a command for each of the names."""
        return [subprocess.run([program("lockbroker"), "run", "--socket", self.daemon.socket, "--wait", wait, *options,
                                name, "true"], env=clean_environment(), stdin=subprocess.DEVNULL, timeout=60,
                               capture_output=True, check=False).returncode for name in names]

    def test_ten_of_ten_get_a_free_lock(self):
        name = "short"
        self.peer.call("create", name=name, slots=1, within=60)
        for wait in "0.005", "0.2":
            with self.subTest(wait=wait):
                self.assertEqual(self.statuses(wait, names=[name] * 10), [0] * 10)
                # Of these the daemon knows nothing yet.
                mutexes = [f"mutex-{wait}-{i}" for i in range(10)]
                self.assertEqual(self.statuses(wait, "--mutex", names=mutexes), [0] * 10)
        self.assertEqual(self.statuses("0.005", "--create=1", names=["made"]), [0])

    def test_a_busy_lock_is_busy(self):
        name = "taken"
        self.peer.call("create", name=name, slots=1, within=60)
        self.peer.call("acquire", name=name, timeout=0, within=60)
        self.assertEqual(self.statuses("0.005", names=[name] * 3), [CONFLICT] * 3)
        self.assertEqual(self.statuses("0.005", "--conflict-exit-code=0", names=[name]), [0])

    def test_a_silent_broker_is_no_conflict(self):
        self.addCleanup(self.proxy.mend)  # a stop of the daemon waits for the broker's answers
        self.proxy.cut()
        error = self.peer.error("acquire", name="unknown", kind="mutex", timeout=0.005, within=60)
        self.assertEqual(error.reason, "broker-unavailable")


if __name__ == "__main__":
    tap.main()
