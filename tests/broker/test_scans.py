"""Requests that ask the broker about many queues, of one user, while the broker does not answer."""

import re
import unittest

import tap
from daemon import Daemon
from rabbit import Rabbit
from wire import Wire, wait_until

RABBIT = Rabbit.lease()

setUpModule = RABBIT.serve_module


class Looks(unittest.TestCase):
    def setUp(self):
        self.daemon = Daemon(self, "--log-level", "debug", config="max-scans-per-uid = 1\n", broker=RABBIT.url)
        self.daemon.wait_broker()
        self.watcher = Wire(self.daemon)
        self.watcher.call("create", name="db", exist_ok=True)
        self.watcher.call("size", name="db")
        RABBIT.freeze()
        self.addCleanup(RABBIT.thaw)

    def begun(self, method):
        """How many requests the daemon has begun to perform."""
        return len(re.findall(rf"requested {method}\b", self.daemon.log()))

    def ask(self, method, **params):
        """A connection, and its request, which the daemon has read."""
        peer = Wire(self.daemon)
        id = peer.request(method, **params)
        peer.call("ping")
        return peer, id

    def test_a_second_scan_waits_until_the_broker_has_answered_the_first(self):
        before = self.begun("size")
        first, second = (self.ask("size", name="db") for _ in range(2))
        self.assertEqual(self.begun("size"), before + 1)
        RABBIT.thaw()
        for peer, id in (first, second):
            self.assertEqual(peer.answer(id)["slots"], 1)
        self.assertEqual(self.begun("size"), before + 2)

    def test_a_lock_is_released_while_a_scan_waits(self):
        RABBIT.thaw()
        peer = Wire(self.daemon)
        lock = peer.call("acquire", name="db", timeout=0)["lock"]
        RABBIT.freeze()
        first, id = self.ask("size", name="db")
        waiting = peer.request("size", name="db")
        released = peer.request("release", lock=lock)
        peer.call("ping")
        RABBIT.thaw()
        peer.answer(released)
        self.assertEqual(first.answer(id), peer.answer(waiting))

    def hang_up_with(self, method, **params):
        before = self.begun("size")
        peer, _ = self.ask(method, **params)
        others = [self.ask("size", name="db")[0] for _ in range(5)]
        peer.hang_up()
        for other in others:
            other.hang_up()
        # The first is there until the broker has answered.
        wait_until(lambda: self.watcher.call("info")["counts"]["connections"] == 2, what="the others are gone")
        waits, id = self.ask("size", name="db")
        self.assertEqual(self.begun("size"), before + (method == "size"))
        RABBIT.thaw()
        self.assertEqual(waits.answer(id)["slots"], 1)
        wait_until(lambda: self.watcher.call("info")["counts"]["connections"] == 2, what="the first is gone")

    def test_a_size_counts_though_its_client_hung_up(self):
        self.hang_up_with("size", name="db")

    def test_a_show_counts_though_its_client_hung_up(self):
        self.hang_up_with("show", name="db")

    def test_a_list_counts_though_its_client_hung_up(self):
        self.hang_up_with("list")


if __name__ == "__main__":
    tap.main()
