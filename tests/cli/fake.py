"""A daemon that does what no lockbrokerd does: it says what a test tells it to, byte by byte.

	fake = Fake(self, acquire=b"garbage\\n")

A keyword names a method and has its answer: bytes as they are, an object that becomes the result, None for
silence, or Fake.CLOSE. A function of (request, connection) may do anything. The fake answers the other methods as
a good daemon does.
"""

import json
import os
import shutil
import socket
import tempfile
import threading

from wait import wait_until

GRANT = {"lock": "f-1", "name": "db", "kind": "semaphore", "slot": 1, "waited": 0.0,
         "lease": {"heartbeat": 10, "margin": 2}}


class Fake:
    CLOSE = object()

    def __init__(self, test, **script):
        self.script = {"acquire": GRANT, "release": {"lock": "f-1"}, "create": {}, "ping": {},
                       "explain": {"name": "db", "verdict": "free"}, "size": {"name": "db", "slots": 7},
                       "show": {"name": "db", "slots": 1, "busy": 0, "waiting": 0, "holders": [], "waiters": []}, "watch": self.on_watch, **script}
        self.requests = []
        self.connections = []
        self.ended_connections = []
        # The test says something while the fake answers. A part of one line must not come into another.
        self.sending = threading.Lock()
        self.dir = tempfile.mkdtemp(prefix="lb-fake-")
        self.socket = os.path.join(self.dir, "s")
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(self.socket)
        self.listener.listen(8)
        test.addCleanup(self._teardown)
        threading.Thread(target=self._accept, daemon=True).start()

    def on_watch(self, request, connection):
        """There are no rows."""
        self.send(connection, notification("synced", {"id": request["id"], "more": 0, "silent_hosts": []}))

    def _accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.connections.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        try:
            with connection.makefile("rb") as lines:
                for line in lines:
                    request = json.loads(line)
                    self.requests.append(request)
                    self._say(self.script[request["method"]], request, connection)
        except OSError:
            pass
        self.ended_connections.append(connection)

    def _say(self, what, request, connection):
        if callable(what):
            what = what(request, connection)
        if what is self.CLOSE:
            connection.shutdown(socket.SHUT_RDWR)
        elif isinstance(what, bytes):
            self.send(connection, what)
        elif what is not None:
            self.send(connection, reply(request, result=what))

    def send(self, connection, data):
        with self.sending:
            connection.sendall(data)

    def asked(self, method):
        """The requests of that method so far."""
        return [request for request in self.requests if request["method"] == method]

    def wait_asked(self, method, count=1):
        wait_until(lambda: len(self.asked(method)) >= count, what=f"{method} is asked")

    def say(self, data):
        """To the newest connection: bytes, or a notification (method, params)."""
        if isinstance(data, tuple):
            data = notification(*data)
        self.send(self.connections[-1], data)

    def ended(self, connection):
        """Whether the client has closed that connection."""
        return connection in self.ended_connections

    def close(self):
        self.connections[-1].shutdown(socket.SHUT_RDWR)

    def _teardown(self):
        # shutdown, not only close: accept() and recv() of the threads return.
        for one in self.connections + [self.listener]:
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            one.close()
        shutil.rmtree(self.dir, ignore_errors=True)


def line(message):
    return json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"


def reply(request, **what):
    return line({"id": request["id"], **what})


def notification(method, params):
    return line({"method": method, "params": params})


def error(code, reason, message="no", **data):
    return {"code": code, "message": message, "data": {"reason": reason, "retry": False, **data}}
