"""Queues named by templates: which lock names are refused for them, over the wire."""

import unittest

import tap
from daemon import Daemon
from wire import Wire

TEMPLATES = "naming = custom\nslot-queue = {name}.{slot}\nholder-queue = {name}.{slot}.held\n"


class Names(unittest.TestCase):
    def test_a_name_that_could_share_a_queue_is_refused(self):
        daemon = Daemon(self, config=TEMPLATES)
        daemon.wait_broker()
        peer = Wire(daemon)
        peer.call("create", name="db", slots=1)
        held = peer.call("acquire", name="db", timeout=0)
        for method, params in (("acquire", {}), ("create", {}), ("destroy", {}), ("size", {})):
            for name in ("db.1", "db.2.held", "amq"):
                with self.subTest(method=method, name=name):
                    error = peer.error(method, name=name, **params)
                    self.assertEqual((error.reason, error.data["parameter"]),
                                     ("invalid-params", "name"))
                    self.assertIn("invalid name: with the daemon's naming", error.message)
        peer.call("release", lock=held["lock"])
        self.assertEqual(peer.call("info")["naming"], "custom")

    def test_the_presets_let_such_names(self):
        for naming in ("amqp-locks", "amqp-locks-python"):
            daemon = Daemon(self, "--naming", naming)
            daemon.wait_broker()
            peer = Wire(daemon)
            for name in ("db.1", "amq", "db-1", "db-A-x"):
                peer.call("create", name=name, slots=1)
                self.assertEqual(peer.call("acquire", name=name, timeout=0)["slot"], 1)


if __name__ == "__main__":
    tap.main()
