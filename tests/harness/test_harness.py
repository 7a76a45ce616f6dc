"""Tests of the harness: it must refuse wrong values, messages and logs."""

import socket
import time
import unittest

import openrpc
import tap
from daemon import FATAL, TROUBLE
from proxy import Proxy
from schema import Mismatch, Schema

SOON = 0.3  # seconds
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
            one.settimeout(SOON)
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
        with self.assertRaises(TimeoutError):
            receiver.recv(1)

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
