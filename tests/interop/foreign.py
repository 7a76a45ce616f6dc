"""Drives tests/interop/pika_client.py, which runs in a process of its own.

	foreign = Foreign(self, rabbit.url, "amqp-locks")
	slot = foreign.acquire(name="db")		# any method of its Client, by name

	Hammering(self, rabbit.url, "amqp-locks", "db", seconds, seed)
"""

import json
import os
import subprocess

from wait import wait_until

PYTHON = "/usr/bin/python3"  # Debian's, whose pika it is
CLIENT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "pika_client.py")


class ForeignError(AssertionError):
    """The client said that it failed, or died."""


def launch(test, *words):
    client = subprocess.Popen([PYTHON, CLIENT, *map(str, words)], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True,
                              env={"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"})

    def end():
        client.kill()
        client.wait()
        client.stdin.close()
        client.stdout.close()
    test.addCleanup(end)
    return client


class Foreign:
    """One client: one connection, one thing at a time."""

    def __init__(self, test, url, naming, probes="publish"):
        self.client = launch(test, url, naming, probes)

    def __getattr__(self, do):
        def ask(**words):
            self.client.stdin.write(json.dumps({"do": do, **words}) + "\n")
            self.client.stdin.flush()
            line = self.client.stdout.readline()
            if not line:
                raise ForeignError(f"the client ended with {self.client.wait()}")
            answer = json.loads(line)
            if "error" in answer:
                raise ForeignError(answer["error"])
            return answer["result"]
        return ask

    def under_admin(self, do, name, **words):
        """One act of administration, under its mutex. A daemon drops that a moment after its answer."""
        wait_until(lambda: self.take_admin(name=name), what=f"nobody administers {name}")
        try:
            return getattr(self, do)(name=name, **words)
        finally:
            self.drop_admin(name=name)

    def kill(self):
        """Ends it without a goodbye."""
        self.client.kill()
        self.client.wait()


class Hammering:
    """One client that hammers (tests/harness/hammer.py) from start() on. bold: it claims without a probe."""

    def __init__(self, test, url, naming, name, seconds, seed, bold=False, probes="publish"):
        self.client = launch(test, url, naming, probes, "hammer", name, seconds, seed, int(bold))
        assert self.client.stdout.readline() == "ready\n", "the client could not connect"

    def start(self):
        self.client.stdin.write("go\n")
        self.client.stdin.flush()

    def result(self):
        """Ends it. Returns its observations: spans, refused, hung_up, revoked."""
        self.client.stdin.close()
        text = self.client.stdout.read()
        status = self.client.wait()
        assert status == 0, f"the client ended with {status}"
        found = json.loads(text)
        found["spans"] = [tuple(span) for span in found["spans"]]
        return found
