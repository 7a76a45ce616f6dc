"""Tests of the harness: it must refuse wrong values, messages and logs, and tell of failures."""

import os
import socket
import subprocess
import sys
import tempfile
import time
import unittest

import openrpc
import tap
from daemon import FATAL, TROUBLE
from proxy import Proxy
from schema import Mismatch, Schema
from wait import PATIENCE

SOON = 0.3  # seconds without a byte
DOCUMENT = {"parts": {"count": {"type": "integer", "minimum": 0, "maximum": 9}}}


class Schemas(unittest.TestCase):
    def fits(self, value, schema):
        Schema(DOCUMENT).check(value, schema)

    def fails(self, value, schema):
        with self.assertRaises(Mismatch):
            Schema(DOCUMENT).check(value, schema)

    def test_types(self):
        self.fits(1, {"type": "integer"})
        self.fits(None, {"type": ["string", "null"]})
        self.fails(True, {"type": "integer"})
        self.fails(1.5, {"type": "integer"})
        self.fails("1", {"type": ["integer", "null"]})

    def test_references_and_bounds(self):
        self.fits(9, {"$ref": "#/parts/count"})
        self.fails(10, {"$ref": "#/parts/count"})
        self.fails(-1, {"$ref": "#/parts/count"})

    def test_objects(self):
        schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"],
                  "additionalProperties": False}
        self.fits({"a": ""}, schema)
        self.fails({}, schema)
        self.fails({"a": 1}, schema)
        self.fails({"a": "", "b": 1}, schema)

    def test_closed_objects(self):
        schema = {"properties": {"a": {"type": "string"}}}
        self.fits({"b": 1}, schema)
        with self.assertRaises(Mismatch):
            Schema(DOCUMENT, closed=True).check({"b": 1}, schema)

    def test_lists_words_and_choices(self):
        self.fits([1, 2], {"items": {"type": "integer"}})
        self.fails([1, "2"], {"items": {"type": "integer"}})
        self.fails("x", {"enum": ["y", 1]})
        self.fails(True, {"const": 1})
        self.fails("abc", {"maxLength": 2})
        self.fails("abc", {"pattern": "^[xyz]"})
        self.fits("abc", {"pattern": "^[abc]+$"})
        self.fails("abc\n", {"pattern": "^[abc]+$"})
        self.fails(1, {"oneOf": [{"type": "integer"}, {"type": "number"}]})
        self.fails("", {"anyOf": [{"type": "integer"}, {"type": "null"}]})

    def test_an_unknown_keyword_is_an_error(self):
        self.fails(1, {"multipleOf": 1})


class Runner(unittest.TestCase):
    """The exit status of a test file, and the results that automake's driver reads from it."""

    FILE = "import os, unittest, tap\nclass T(unittest.TestCase):\n    def test_x(self):\n        {}\ntap.main()\n"
    DRIVER = os.path.join(os.environ.get("top_srcdir", "."), "build-aux", "tap-driver.sh")

    def run_file(self, body, driven=False):
        """The exit status by hand; with the driver, the results of its .trs file."""
        with tempfile.TemporaryDirectory(prefix="lb-tap-") as folder:
            path, trs = os.path.join(folder, "test_x.py"), os.path.join(folder, "trs")
            with open(path, "w", encoding="ascii") as file:
                file.write(self.FILE.format(body))
            env = {name: value for name, value in os.environ.items() if name != "HARNESS_ACTIVE"}
            driver = ["/bin/sh", self.DRIVER, "--test-name", "x", "--log-file", os.path.join(folder, "log"),
                      "--trs-file", trs, "--"] if driven else []
            if driven:
                env["HARNESS_ACTIVE"] = "1"
            status = subprocess.run([*driver, sys.executable, path], env=env, check=False, stdout=subprocess.DEVNULL,
                                    stderr=subprocess.DEVNULL).returncode
            if not driven:
                return status
            with open(trs, encoding="ascii") as file:
                return [line.split()[1] for line in file if line.startswith(":test-result:")]

    def test_by_hand_a_failure_is_in_the_exit_status(self):
        self.assertEqual(self.run_file("pass"), 0)
        self.assertEqual(self.run_file("self.fail()"), 1)
        self.assertEqual(self.run_file("self.skipTest('no')"), 0)

    def test_the_driver_counts_a_failure_once(self):
        self.assertEqual(self.run_file("pass", driven=True), ["PASS"])
        self.assertEqual(self.run_file("self.fail()", driven=True), ["FAIL"])

    def test_the_driver_counts_an_early_end_as_an_error(self):
        for body in "os._exit(0)", "os._exit(1)", "os.kill(os.getpid(), 9)":
            with self.subTest(body=body):
                self.assertIn("ERROR", self.run_file(body, driven=True))


class Messages(unittest.TestCase):
    def setUp(self):
        self.held = openrpc.load()

    def error(self, word, **data):
        part = self.held.errors[word]
        return {"jsonrpc": "2.0", "id": 1, "error": {
            "code": part["code"], "message": "x",
            "data": {"reason": word, "retry": part["x-data"]["properties"]["retry"]["const"], **data}}}

    def test_requests(self):
        self.assertTrue(self.held.is_request("acquire", {"name": "a", "timeout": None}))
        self.assertFalse(self.held.is_request("acquire", {}))
        self.assertFalse(self.held.is_request("acquire", {"name": "a", "tmeout": 1}))
        self.assertFalse(self.held.is_request("aquire", {"name": "a"}))

    def test_results(self):
        good = {"jsonrpc": "2.0", "id": 1, "result": {"name": "a", "slots": 1}}
        self.held.check_reply("size", good)
        for result in ({"name": "a"}, {"name": "a", "slots": "1"}, {"name": "a", "slots": 1, "x": 2}):
            with self.assertRaises(Mismatch):
                self.held.check_reply("size", dict(good, result=result))

    def test_errors(self):
        self.held.check_reply("size", self.error("no-such-lock"))
        self.held.check_reply("size", self.error("invalid-params", parameter="name"))
        for wrong in (self.error("would-block", slots=1, busy=1, waiting=0),  # not one of size's
                      self.error("no-such-lock", retry=True),
                      self.error("invalid-params")):
            with self.assertRaises(Mismatch):
                self.held.check_reply("size", wrong)

    def test_notifications(self):
        good = {"lock": "1", "name": "a", "slot": 1, "reason": "lost", "why": ""}
        self.held.check_notification({"jsonrpc": "2.0", "method": "lost", "params": good})
        for method, params in (("lost", dict(good, reason="tired")), ("found", good)):
            with self.assertRaises(Mismatch):
                self.held.check_notification({"jsonrpc": "2.0", "method": method, "params": params})


class Logs(unittest.TestCase):
    def test_trouble_in_a_log_is_found(self):
        for line in ("2026-01-01T00:00:00.000Z warning: x", "2026-01-01T00:00:00.000Z error: x",
                     "<4>x", "lockbrokerd: --socket: too long"):
            self.assertRegex(line, TROUBLE)
        for line in ("2026-01-01T00:00:00.000Z info: warning: x", "<6>x"):
            self.assertNotRegex(line, TROUBLE)

    def test_fatal_lines_of_a_log_are_found(self):
        for line in ("lockbrokerd: a.c:3: f: Assertion `x' failed.",
                     "==1==ERROR: AddressSanitizer: heap-use-after-free",
                     "==1==ERROR: LeakSanitizer: detected memory leaks",
                     "a.c:3:1: runtime error: signed integer overflow"):
            self.assertRegex(line, FATAL)


class Network(unittest.TestCase):
    """A client and a server with a proxy between them."""

    def setUp(self):
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)
        self.proxy = Proxy(self, listener.getsockname()[1])
        self.client = socket.create_connection(("127.0.0.1", self.proxy.port))
        self.server = listener.accept()[0]
        for one in self.client, self.server:
            self.addCleanup(one.close)
            one.settimeout(PATIENCE)
        self.passes(self.client, self.server)

    def passes(self, sender, receiver, message=b"hello"):
        sender.sendall(message)
        self.arrives(receiver, message)

    def arrives(self, receiver, message):
        got = b""
        while len(got) < len(message):
            got += receiver.recv(len(message) - len(got))
        self.assertEqual(got, message)

    def hears_nothing(self, receiver):
        receiver.settimeout(SOON)
        with self.assertRaises(TimeoutError):
            receiver.recv(1)
        receiver.settimeout(PATIENCE)

    def test_one_direction_is_mute(self):
        for end, sender, receiver in ("client", self.server, self.client), ("server", self.client, self.server):
            self.proxy.mute(end)
            sender.sendall(b"late")
            self.passes(receiver, sender)
            self.hears_nothing(receiver)
            self.proxy.mend()
            self.arrives(receiver, b"late")

    def test_cut(self):
        self.proxy.cut()
        for one in self.client, self.server:
            one.sendall(b"late")
        for one in self.client, self.server:
            self.hears_nothing(one)
        self.proxy.mend()
        for one in self.client, self.server:
            self.arrives(one, b"late")

    def test_slow(self):
        self.proxy.slow(SOON / 2)
        began = time.monotonic()
        self.passes(self.client, self.server)
        self.assertGreaterEqual(time.monotonic() - began, SOON / 2)
        self.client.sendall(b"x")
        self.proxy.mend()
        self.arrives(self.server, b"x")

    def test_one_by_one(self):
        self.proxy.trickle()
        self.passes(self.client, self.server, bytes(range(256)) * 8)

    def test_noise(self):
        self.proxy.spoil("server", b"--")
        self.passes(self.server, self.client)
        self.client.sendall(b"hello!")
        self.arrives(self.server, b"hel--lo!")
        self.passes(self.client, self.server)

    def one_end_hears_it(self, end, told, other):
        self.proxy.end(end)
        self.assertEqual(told.recv(1), b"")
        self.hears_nothing(other)
        self.proxy.mend()
        self.assertEqual(other.recv(1), b"")

    def test_the_client_hears_the_end(self):
        self.one_end_hears_it("client", self.client, self.server)

    def test_the_server_hears_the_end(self):
        self.one_end_hears_it("server", self.server, self.client)

    def test_both_ends_hear_it(self):
        self.proxy.end("client", "server")
        for one in self.client, self.server:
            self.assertEqual(one.recv(1), b"")


if __name__ == "__main__":
    tap.main()
