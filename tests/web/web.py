"""lockbroker-web of the build tree, and its clients: single requests by a socket, and pages that follow the events.

	web = Web(self, daemon, "--admin")		# at 127.0.0.1, with a token
	web = Web(self, daemon, "--user-header", "X-User", unix=True)
	web.get("/v1/locks").json()
	web.post("grant", waiter="x").status
	page = Page(self, web)				# follows until the end of the test
	page.wait(lambda: page.locks)

At the end of the test the program is stopped with SIGTERM. The test fails if it ends with an error, or if a sanitizer
reports something.
"""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading

from daemon import FATAL, clean_environment, program
from wait import PATIENCE, wait_until


class Answer:
    def __init__(self, data):
        head, _, self.body = data.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        self.status = int(first.split()[1])
        self.headers = {}
        for line in lines:
            name, _, value = line.partition(": ")
            self.headers[name.lower()] = value

    def json(self):
        return json.loads(self.body)

    @property
    def message(self):
        return self.json()["message"]


class Web:
    def __init__(self, test, daemon, *options, unix=False, link=True, env=None):
        """daemon: a Daemon, a Fake or the path of its socket. link: it prints one."""
        self.dir = tempfile.mkdtemp(prefix="lb-web-")
        self.path = os.path.join(self.dir, "s") if unix else None
        self.log_path = os.path.join(self.dir, "log")
        self.out_path = os.path.join(self.dir, "out")
        self.port = self.token = None
        listen = f"unix:{self.path}" if unix else "127.0.0.1:0"
        with open(self.out_path, "wb") as out, open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(
                [program("lockbroker-web"), "--socket", getattr(daemon, "socket", daemon), "--listen", listen, *options],
                stdin=subprocess.DEVNULL, stdout=out, stderr=log, env=clean_environment(**(env or {})))
        test.addCleanup(self._teardown)
        if unix:
            wait_until(lambda: self.listens() or self.ended(), what="it listens")
        elif link:
            link = wait_until(lambda: re.fullmatch(r"http://127\.0\.0\.1:(\d+)/\?token=([0-9a-f]{64})\n", self.out),
                              what="the link is printed")
            self.port, self.token = int(link[1]), link[2]
        self.host = "localhost" if unix else f"127.0.0.1:{self.port}"
        self.login = {"X-User": "alice"} if unix else {"Authorization": f"Bearer {self.token}"}

    def _read(self, path):
        with open(path, encoding="utf-8", errors="backslashreplace") as file:
            return file.read()

    @property
    def out(self):
        return self._read(self.out_path)

    @property
    def log(self):
        return self._read(self.log_path)

    def ended(self):
        return self.process.poll() is not None

    def wait_log(self, text):
        wait_until(lambda: text in self.log, what=f"the log has {text!r}: {self.log}")

    def listens(self):
        """The file of its socket is there a little earlier."""
        try:
            self.connect().close()
        except (FileNotFoundError, ConnectionRefusedError):
            return False
        return True

    # ---- requests ----

    def connect(self):
        if self.path:
            client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        else:
            client = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client.settimeout(PATIENCE)
        client.connect(self.path or ("127.0.0.1", self.port))
        return client

    def head(self, method, path, headers=(), **more):
        """The bytes of a head. headers replace the usual ones; None leaves one out, a list repeats one."""
        wanted = {"Host": self.host, **self.login, **dict(headers), **more}
        lines = [f"{method} {path} HTTP/1.1"]
        for name, value in wanted.items():
            for one in value if isinstance(value, list) else [value]:
                if one is not None:
                    lines.append(f"{name}: {one}")
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")

    def raw(self, data):
        """All bytes of the answer to these bytes, until the server closes."""
        with self.connect() as client:
            try:
                client.sendall(data)
            except (BrokenPipeError, ConnectionResetError):
                pass  # It has its answer before all was sent.
            return read_all(client)

    def ask(self, method, path, headers=(), body=None):
        headers = dict(headers)
        if body is not None:
            headers.setdefault("Content-Length", len(body))
        return Answer(self.raw(self.head(method, path, headers) + (body or b"")))

    def get(self, path, headers=()):
        return self.ask("GET", path, headers)

    def post_headers(self, headers=()):
        return {"Content-Type": "application/json", "X-Lockbroker": "1", "Origin": f"http://{self.host}", **dict(headers)}

    def post_body(self, path, body, headers=()):
        return self.ask("POST", path, self.post_headers(headers), body)

    def post(self, method, /, **params):
        return self.post_body(f"/v1/{method}", json.dumps(params).encode())

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE)

    def _teardown(self):
        status = self.process.poll() if self.ended() else self.stop()
        log = self.log
        shutil.rmtree(self.dir, ignore_errors=True)
        assert not FATAL.search(log), log
        assert status in (0, 64), f"lockbroker-web ended with {status}:\n{log}"


def read_all(client):
    data = b""
    while True:
        try:
            part = client.recv(65536)
        except ConnectionResetError:
            return data
        if not part:
            return data
        data += part


class Page:
    """Follows the events as the page does, and keeps what it shows."""

    def __init__(self, test, web, headers=(), follow=True):
        self.reset()
        self.resets = self.patches = 0
        self.ended = False
        self.last = None
        self.client = web.connect()
        self.client.sendall(web.head("GET", "/v1/events", headers))
        test.addCleanup(self.close)
        if follow:
            self.follow()

    def follow(self):
        self.thread = threading.Thread(target=self._follow, daemon=True)
        self.thread.start()

    def reset(self):
        self.rows, self.locks, self.link, self.broker = {}, {}, None, None
        self.silent_hosts, self.more = [], 0
        self.known = set()

    def _lines(self):
        """The body without the lengths of its chunks."""
        with self.client.makefile("rb") as file:
            self.status = int(file.readline().split()[1])
            chunked = False
            while (line := file.readline()) not in (b"\r\n", b""):
                chunked = chunked or line.lower().startswith(b"transfer-encoding: chunked")
            if not chunked:
                yield from file
                return
            rest = b""
            while size := int(file.readline() or b"0", 16):
                rest += file.read(size)
                file.readline()
                *lines, rest = rest.split(b"\n")
                yield from lines

    def _follow(self):
        try:
            for line in self._lines():
                if line.startswith(b"data: "):
                    self._apply(json.loads(line[6:]))
        except (OSError, ValueError):
            pass  # closed
        self.ended = True

    def _apply(self, patch):
        if patch.get("reset"):
            self.reset()
            self.resets += 1
        self.link = patch.get("link", self.link)
        self.broker = patch.get("broker", self.broker)
        self.known |= patch.keys()
        for lock in patch.get("locks", []):
            self.locks[lock["name"]] = lock
        for name in patch.get("locks_gone", []):
            self.locks.pop(name, None)
        for row in patch.get("rows", []):
            self.rows[row["waiter"]] = row
        for waiter in patch.get("rows_gone", []):
            self.rows.pop(waiter, None)
        self.silent_hosts = patch.get("silent_hosts", self.silent_hosts)
        self.more = patch.get("more", self.more)
        self.last = patch
        self.patches += 1

    def wait(self, condition, what=None):
        return wait_until(condition, what=what or f"the page shows it: {self.locks} {self.rows} {self.link}")

    def wait_known(self):
        self.wait(lambda: {"locks", "rows", "broker"} <= self.known, what="the page has its data")

    def close(self):
        try:
            self.client.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.client.close()
