"""Words of others on their way to a terminal, a log or a mail: no control character of theirs arrives."""

import json
import subprocess
import unittest

import tap
from cli import Job, command
from daemon import Daemon
from fake import GRANT, Fake, error, reply
from rows import Semaphores, row, watched
from wire import Wire

# Escape, line ends, DEL, and CSI as one character of C1; then a line of ours, forged.
HOSTILE = "\x1b[2J\r\nlockbroker: forged\x7f\x9b31m\t\u202e"
CLEAN = "?[2J??lockbroker: forged??31m??"


class HostileCase(unittest.TestCase):
    def assert_clean(self, text, words=True):
        """No control character but the ends of lines and columns, and no line that the words begin."""
        for character in text:
            self.assertFalse((character < " " and character not in "\n\t") or "\x7f" <= character <= "\x9f", ascii(text))
        self.assertNotIn("\nlockbroker: forged", text)
        if words:
            self.assertIn(CLEAN, text)


class Messages(HostileCase):
    """Of a daemon that passes all on."""

    def run_it(self, fake, *argv, status=0, words=True, **more):
        job = command(self, fake, *argv, status=status, **more)
        self.assert_clean(job.out + job.err, words)

    def test_holders_of_a_busy_lock(self):
        busy = error(1, "would-block", "every slot is busy")
        fake = Semaphores(self, acquire=lambda request, _: reply(request, error=busy))
        for member in "who", "command", "why":
            fake.semaphores.clear()
            fake.add("db", 1, row("busy", "w-1", slot=1, **{"who": "me" if member == "why" else None, member: HOSTILE}))
            self.run_it(fake, "run", "-n", "db", "true", status=75)
            self.run_it(fake, "acquire", "-n", "db", status=75, stdin=subprocess.PIPE)

    def test_refusals_and_their_words(self):
        for code, reason, status in (2, "timeout", 75), (15, "broker-unavailable", 69), (17, "broker-refused", 78):
            fake = Fake(self, acquire=lambda request, _, e=error(code, reason, HOSTILE): reply(request, error=e))
            self.run_it(fake, "run", "db", "true", status=status)
            self.run_it(fake, "run", "--json", "db", "true", status=status, words=False)

    def test_a_loss(self):
        def lose(request, connection):
            connection.sendall(reply(request, result=GRANT))
            connection.sendall(json.dumps({"jsonrpc": "2.0", "method": "lost", "params": {
                "lock": "f-1", "name": "db", "slot": 1, "reason": "broker-unavailable", "why": HOSTILE}}).encode() + b"\n")
        fake = Fake(self, acquire=lose)
        self.run_it(fake, "run", "db", "sh", "-c", "sleep 600", status=79)

    def test_explain_and_info(self):
        fake = Fake(self, explain={"name": "db", "verdict": "full", "text": HOSTILE, "reason": "would-block"},
                    info={"version": HOSTILE, "broker": {"why": HOSTILE}})
        self.run_it(fake, "explain", "db", status=75)
        self.run_it(fake, "info")

    def test_rows(self):
        hostile = row("busy", "w-1", slot=1, who=HOSTILE, why=HOSTILE, command=HOSTILE, host=HOSTILE)
        fake = Semaphores(self)
        fake.add("db", 1, hostile)
        self.run_it(fake, "show", "db")
        self.run_it(fake, "show", "--json", "db", words=False)
        ended = {"code": 14, "message": "stopping", "data": {"reason": "draining", "retry": False}}
        fake.script["watch"] = lambda request, connection: connection.sendall(
            watched(request, ("row", {"row": hostile})) + reply(request, error=ended))
        self.run_it(fake, "watch", "db", status=69)
        self.run_it(fake, "watch", "--json", "db", status=69, words=False)

    def test_json_is_the_same_after_parsing(self):
        fake = Fake(self, info={"version": HOSTILE})
        self.assertEqual(json.loads(command(self, fake, "info", "--json").out), {"version": HOSTILE})


class TheDaemon(HostileCase):
    def test_replaces_them_at_the_acquire(self):
        daemon = Daemon(self)
        peer = Wire(daemon)
        peer.call("acquire", name="db", kind="mutex", timeout=0, who=HOSTILE, why="\x85", command="a\tb\u00e9")
        shown = peer.call("show", name="db")["holders"][0]
        self.assertEqual((shown["who"], shown["why"], shown["command"]),
                         ("?[2J??lockbroker: forged??31m?\u202e", "?", "a?b\u00e9"))

    def test_a_name_that_is_given_by_option(self):
        daemon = Daemon(self)
        Wire(daemon).call("acquire", name="db", kind="mutex", timeout=0, who=HOSTILE)
        job = Job(self, daemon, "run", "-n", "--mutex", "db", "true")
        job.wait(75)
        self.assert_clean(job.err)


if __name__ == "__main__":
    tap.main()
