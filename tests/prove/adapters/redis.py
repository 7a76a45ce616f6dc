#!/usr/bin/python3
"""The adapter of Redis: SET NX PX, and a script that deletes only what has its own value. A hold ends with its time.

	redis.py HOST:PORT [no-verify] [ignores-loss]
"""

import secrets
import socket
import time

from adapter import Hold, Service, main

EXPIRES = 10_000  # ms
DELETE_IF = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"


class Redis(Service):
    def __init__(self, address, _options):
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.answers = self.socket.makefile("rb")
        self.sockets = (self.socket,)

    def ask(self, *words):
        """The answer as bytes; None: nil."""
        parts = [str(word).encode() for word in words]
        self.socket.sendall(b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts))
        line = self.answers.readline()
        if not line or line.startswith(b"-"):
            raise ConnectionError(f"redis: {line.decode().strip()}")
        if not line.startswith(b"$"):
            return line[1:-2]
        size = int(line[1:])
        return None if size < 0 else self.answers.read(size + 2)[:-2]

    def acquire(self, name, kind, ident):
        token, asked = secrets.token_hex(8), time.monotonic_ns()
        if self.ask("SET", name, token, "NX", "PX", EXPIRES) is None:
            return None
        return Hold(name, safe_until=asked + EXPIRES * 1_000_000, token=token)

    def verify(self, hold):
        return self.ask("GET", hold.name) == hold.token.encode()

    def release(self, hold):
        self.ask("EVAL", DELETE_IF, 1, hold.name, hold.token)


if __name__ == "__main__":
    main(Redis)
