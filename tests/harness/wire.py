"""A client with a socket alone: it sends lines and receives parsed lines. Every wait has a deadline.

Every received message is checked against protocol/openrpc.json. A request that does not match the description must
not succeed.

	client = Wire(daemon)			# closed at the end of the test
	held = client.call("acquire", name="db", timeout=0)
	first = client.request("size", name="db")	# pipelining: only sends
	client.answer(first)			# the answer to that request, early or late
	client.notification("lost")
"""

import collections
import json
import socket
import time

import openrpc
from wait import PATIENCE, wait_until  # noqa: F401 (tests import wait_until from here)


class WireError(Exception):
    """The daemon answered with an error."""

    def __init__(self, error):
        self.code = error["code"]
        self.message = error["message"]
        self.data = error.get("data", {})
        self.reason = self.data.get("reason")
        self.retry = self.data.get("retry")
        super().__init__(f"{self.code} {self.reason}: {self.message} {self.data}")


class Closed(Exception):
    """The daemon closed the connection."""


class Wire:
    def __init__(self, daemon, test=None):
        """daemon: a Daemon, or the path of a socket (then with the test that closes it)."""
        test = test or getattr(daemon, "test", None)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        if test is not None:
            test.addCleanup(self.hang_up)
        self.socket.connect(getattr(daemon, "socket", daemon))
        self.rest = b""
        self.replies = collections.deque()
        self.notifications = collections.deque()
        self.methods = {}  # by id: the method, and whether the request is valid
        self.last_id = 0

    # ---- out ----

    def send_bytes(self, data):
        self.socket.settimeout(PATIENCE)
        self.socket.sendall(data)

    def send_line(self, line):
        """line: text, bytes, or an object for JSON. LF is added."""
        if not isinstance(line, (str, bytes)):
            line = json.dumps(line)
        if isinstance(line, str):
            line = line.encode("utf-8")
        self.send_bytes(line + b"\n")

    def request(self, method, /, id=None, **params):
        """Sends a request and returns its id; a fresh integer unless given."""
        if id is None:
            self.last_id += 1
            id = self.last_id
        self.methods[id] = method, openrpc.load().is_request(method, params)
        message = {"jsonrpc": "2.0", "id": id, "method": method}
        if params:
            message["params"] = params
        self.send_line(message)
        return id

    # ---- in ----

    def _read_message(self, end):
        """The next message of any kind; None when `end` passed; Closed."""
        while b"\n" not in self.rest:
            left = end - time.monotonic()
            if left <= 0:
                return None
            self.socket.settimeout(left)
            try:
                data = self.socket.recv(65536)
            except TimeoutError:
                return None
            except ConnectionResetError:
                data = b""
            if not data:
                raise Closed(f"the daemon closed the connection; left over: {self.rest!r}")
            self.rest += data
        line, self.rest = self.rest.split(b"\n", 1)
        message = json.loads(line.decode("utf-8"))
        assert message["jsonrpc"] == "2.0", message
        self._check(message)
        return message

    def _check(self, message):
        if "method" in message:
            openrpc.load().check_notification(message)
            return
        method, fits = self.methods.pop(message["id"], (None, True))
        openrpc.load().check_reply(method, message)
        assert fits or "error" in message, f"{method} should have been refused: {message}"

    def _take(self, queue, wanted, end):
        """The first message of a queue that is wanted, reading until there is one."""
        while True:
            for message in queue:
                if wanted(message):
                    queue.remove(message)
                    return message
            message = self._read_message(end)
            if message is None:
                return None
            (self.notifications if "method" in message else self.replies).append(message)

    def recv(self, within=PATIENCE):
        """The next reply, to whatever request; notifications that came before are kept."""
        message = self._take(self.replies, lambda m: True, time.monotonic() + within)
        assert message is not None, f"no reply within {within} s"
        return message

    def reply(self, id, within=PATIENCE):
        """The reply to one request, as it came; others are kept."""
        message = self._take(self.replies, lambda m: m["id"] == id, time.monotonic() + within)
        assert message is not None, f"no reply to {self.methods.get(id, id)} within {within} s"
        return message

    def answer(self, id, within=PATIENCE):
        """The result of one request, or WireError."""
        message = self.reply(id, within)
        if "error" in message:
            raise WireError(message["error"])
        return message["result"]

    def call(self, method, /, within=PATIENCE, **params):
        """A request and its result."""
        return self.answer(self.request(method, **params), within)

    def error(self, method, /, within=PATIENCE, **params):
        """A request that must fail: its WireError."""
        try:
            result = self.call(method, within, **params)
        except WireError as error:
            return error
        raise AssertionError(f"{method} {params} should have failed; it gave {result}")

    def notification(self, method, within=PATIENCE):
        """The params of the next notification of that name; others are kept."""
        message = self._take(self.notifications, lambda m: m["method"] == method,
                             time.monotonic() + within)
        assert message is not None, f"no {method} within {within} s"
        return message.get("params", {})

    def quiet(self):
        """Whether nothing comes before the answers to some requests of this connection, and nothing unread is kept. Each
        request asks the broker. Together they take longer than an acquire."""
        for _ in range(5):
            assert self.error("size", name="nobody-has-this").reason == "no-such-lock"
        return not self.replies and not self.notifications

    def pump(self):
        """Reads what is there already, without waiting."""
        end = time.monotonic() + 0.001
        while (message := self._read_message(end)) is not None:
            (self.notifications if "method" in message else self.replies).append(message)

    def wait_closed(self, within=PATIENCE):
        """Waits for the daemon to close, and keeps the messages before that."""
        end = time.monotonic() + within
        try:
            while (message := self._read_message(end)) is not None:
                (self.notifications if "method" in message else self.replies).append(message)
        except Closed:
            return
        raise AssertionError(f"the daemon did not close within {within} s")

    def hang_up(self):
        """Closes. Twice is fine."""
        self.socket.close()
