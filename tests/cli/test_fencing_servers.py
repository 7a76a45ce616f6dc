"""The check of docs/FENCING.md in SQL, as test_fencing.py, over a PostgreSQL of its own; and the numbers of a daemon."""

import glob
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import unittest

import tap
from cli import Job, command
from daemon import Daemon
from test_fencing import LOCK, Checks, Refused, code, start
from wait import wait_until

REFUSED = 'null value in column "fence"'


def postgresql():
    """The folder of its programs, or None."""
    folders = [*os.get_exec_path(), *sorted(glob.glob("/usr/lib/postgresql/*/bin"))]
    return next((folder for folder in folders
                 if all(os.path.exists(os.path.join(folder, name)) for name in ("initdb", "postgres", "psql"))), None)


@unittest.skipIf(postgresql() is None, "needs PostgreSQL")
class PostgreSQL(Checks, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.mkdtemp(prefix="lb-fencing-")
        cls.addClassCleanup(shutil.rmtree, cls.dir)
        user = {}
        if os.geteuid() == 0:  # PostgreSQL refuses root
            nobody = pwd.getpwnam("nobody")
            os.chown(cls.dir, nobody.pw_uid, nobody.pw_gid)
            user = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
        data = os.path.join(cls.dir, "data")
        more = {"cwd": cls.dir, "stdin": subprocess.DEVNULL, **user}
        with open(os.path.join(cls.dir, "log"), "wb") as log:
            subprocess.run([cls.program("initdb"), "--no-sync", "--no-locale", "-A", "trust", "-U", "fencing", data],
                           check=True, stdout=log, **more)
            cls.server = subprocess.Popen([cls.program("postgres"), "-F", "-D", data, "-k", cls.dir, "-h", ""],
                                          stdout=log, stderr=log, **more)
        cls.addClassCleanup(cls.stop)
        wait_until(lambda: cls.server.poll() is not None or cls.psql("SELECT 1").returncode == 0, what="PostgreSQL answers")
        done = cls.psql(code("sql", "CREATE TABLE") + "CREATE TABLE words (number SERIAL, word TEXT);")
        assert done.returncode == 0, done.stderr

    @classmethod
    def program(cls, name):
        return os.path.join(postgresql(), name)

    @classmethod
    def stop(cls):
        cls.server.send_signal(signal.SIGQUIT)
        cls.server.wait(60)

    @classmethod
    def command(cls, slot=None, fence=None):
        values = {"lock_name": f"'{LOCK}'", "slot": slot, "fence": "NULL" if fence is None else fence}
        return [cls.program("psql"), "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h", cls.dir, "-U", "fencing",
                *(word for name, value in values.items() for word in ("-v", f"{name}={value}")), "postgres"]

    @classmethod
    def psql(cls, script, slot=None, fence=None):
        return subprocess.run(cls.command(slot, fence), input=script, text=True, capture_output=True, check=False)

    def setUp(self):
        self.assertEqual(self.psql("TRUNCATE fences, words;").stderr, "")

    def transaction(self, slot, fence, work):
        done = self.psql(f"BEGIN;\n{code('sql', 'INSERT INTO')}\n{work}\nCOMMIT;\n", slot, fence)
        if done.returncode != 0:
            self.assertIn(REFUSED, done.stderr)
            raise Refused
        return done.stdout.splitlines()

    def append(self, slot, fence, word):
        self.transaction(slot, fence, f"INSERT INTO words (word) VALUES ('{word}');")

    def read(self, slot, fence):
        return self.transaction(slot, fence, "SELECT word FROM words ORDER BY number;")

    def begin(self, slot, fence):
        """A transaction that is sent, and is not ended."""
        session = start(self, self.command(slot, fence), stdin=subprocess.PIPE, stderr=subprocess.PIPE)
        session.stdin.write(f"BEGIN;\n{code('sql', 'INSERT INTO')}\nSELECT 'checked';\n")
        session.stdin.flush()
        return session

    def test_no_other_number_comes_between(self):
        """The late one waits for the end of the other transaction, and is compared with its number."""
        self.append(1, 10, "a")
        new = self.begin(1, 20)
        self.assertEqual(new.stdout.readline(), "checked\n")
        late = self.begin(1, 10)
        waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted;"
        wait_until(lambda: late.poll() is not None or self.psql(waiting).stdout == "1\n", what="the late one waits")
        self.assertIsNone(late.poll())
        new.stdin.write("INSERT INTO words (word) VALUES ('b');\nCOMMIT;\n")
        new.stdin.close()
        late.stdin.close()
        self.assertIn(REFUSED, late.stderr.read())
        self.assertNotEqual(late.wait(60), 0)
        self.assertEqual(self.read(1, 20), ["a", "b"])


class Numbers(unittest.TestCase):
    """Those of a daemon. It takes seconds to make a slot by quorum."""

    def setUp(self):
        self.daemon = Daemon(self)

    def hold(self):
        """A job that has the lock, or waits for it, until its input ends."""
        return Job(self, self.daemon, "run", "db", "sh", "-c", 'echo "$LOCKBROKER_LOCK $LOCKBROKER_FENCE"; read -r x',
                   stdin=subprocess.PIPE)

    def end(self, job):
        """The number of its grant, and that of a verify."""
        job.wait_out("\n")
        lock, fence = job.out.split()
        verified = command(self, self.daemon, "verify", "--json", lock).json()["fence"]
        job.process.stdin.close()
        job.wait()
        return int(fence), verified

    def test_each_grant_has_a_larger_number(self):
        """Larger than those of verify, too. The second job gets the slot by a hand-off, the third one from the broker."""
        command(self, self.daemon, "create", "--claim", "quorum", "db")
        first = self.hold()
        first.wait_out("\n")
        second = self.hold()
        self.daemon.wait_log("requested db:", count=2)
        numbers = [*self.end(first), *self.end(second), *self.end(self.hold())]
        self.assertEqual(numbers, sorted(set(numbers)))
        self.assertLess(numbers[-1], 2**53)

    def test_only_a_slot_by_quorum_has_one(self):
        for claim in "exclusive-queue", "consumer":
            command(self, self.daemon, "create", "--claim", claim, claim)
        command(self, self.daemon, "create", "unlimited", "unlimited")
        for argv in ("exclusive-queue",), ("consumer",), ("unlimited",), ("--mutex", "m"):
            job = command(self, self.daemon, "run", *argv, "sh", "-c", "echo ${LOCKBROKER_FENCE-none}")
            self.assertEqual(job.out, "none\n", argv)


if __name__ == "__main__":
    tap.main()
