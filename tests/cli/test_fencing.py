"""The checks of docs/FENCING.md, taken from the document and executed: each store refuses late holders."""

import contextlib
import http.server
import json
import os
import re
import shutil
import sqlite3
import subprocess
import tempfile
import threading
import types
import unittest
from pathlib import Path

import tap
from cli import Job, children
from fake import GRANT, Fake
from wait import wait_until

DOCUMENT = (Path(__file__).resolve().parents[2] / "docs/FENCING.md").read_text(encoding="utf-8")
CODE = re.findall(r"(?ms)^```(\w+)\n(.*?)^```$", DOCUMENT)
# The largest numbers, which an imprecise comparison would take for one.
LARGEST = 2**53 - 1
LOCK = "team/report"


def code(language, words):
    """The only piece of code in that language that has these words."""
    found = [text for kind, text in CODE if kind == language and words in text]
    if len(found) != 1:
        raise AssertionError(f"FENCING.md: {len(found)} pieces of {language} have {words}")
    return found[0]


def start(test, argv, **more):
    """A process that ends with the test."""
    def end():
        process.kill()
        process.wait()
        for stream in process.stdin, process.stdout, process.stderr:
            if stream is not None:
                stream.close()

    process = subprocess.Popen(argv, text=True, stdout=subprocess.PIPE, **more)
    test.addCleanup(end)
    return process


class Refused(Exception):
    """The store has refused a number."""


class Checks:
    """Of each store. A store has a list of words, `append` to it, and `read` it, both as the holder of a slot."""

    def assert_refused(self, slot, fence):
        for request in (lambda: self.append(slot, fence, "late"), lambda: self.read(slot, fence)):
            with self.assertRaises(Refused):
                request()

    def test_a_late_holder_is_refused(self):
        self.append(1, 10, "a")
        self.append(1, 10, "b")
        self.append(1, 20, "c")
        self.assert_refused(1, 10)
        self.append(1, 20, "d")
        self.assertEqual(self.read(1, 20), ["a", "b", "c", "d"])

    def test_a_read_keeps_the_number(self):
        """Otherwise a late write could come between the read and the write of the next holder."""
        self.append(1, 10, "a")
        self.assertEqual(self.read(1, 11), ["a"])
        self.assert_refused(1, 10)
        self.assertEqual(self.read(1, 11), ["a"])

    def test_slots_are_compared_with_themselves(self):
        self.append(1, 20, "a")
        self.append(2, 5, "b")
        self.assert_refused(2, 4)
        self.assert_refused(1, 19)
        self.append(1, 20, "c")
        self.assertEqual(self.read(2, 5), ["a", "b", "c"])

    def test_the_largest_numbers_are_apart(self):
        self.append(1, LARGEST - 1, "a")
        self.append(1, LARGEST, "b")
        self.assert_refused(1, LARGEST - 1)
        self.assertEqual(self.read(1, LARGEST), ["a", "b"])

    def test_no_number_is_refused(self):
        for words in ["a"], ["a", "a"]:
            with self.assertRaises(Refused):
                self.append(1, None, "unprotected")
            self.append(1, 1, "a")
            self.assertEqual(self.read(1, 1), words)


class SQLite(Checks, unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="lb-fencing-")
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "db")
        self.db = self.connect()
        self.db.execute(code("sql", "CREATE TABLE"))
        self.db.execute("CREATE TABLE words (number INTEGER PRIMARY KEY, word TEXT)")

    def connect(self):
        db = sqlite3.connect(self.path, timeout=0, isolation_level=None)
        self.addCleanup(db.close)
        return db

    @contextlib.contextmanager
    def transaction(self, slot, fence):
        try:
            with self.db:
                self.db.execute("BEGIN IMMEDIATE")
                self.db.execute(code("sql", "INSERT INTO"), {"lock_name": LOCK, "slot": slot, "fence": fence})
                yield self.db
        except sqlite3.IntegrityError as error:
            self.assertEqual(str(error), "NOT NULL constraint failed: fences.fence")
            raise Refused from error

    def append(self, slot, fence, word):
        with self.transaction(slot, fence) as db:
            db.execute("INSERT INTO words (word) VALUES (?)", (word,))

    def read(self, slot, fence):
        with self.transaction(slot, fence) as db:
            return [word for word, in db.execute("SELECT word FROM words ORDER BY number")]

    def test_no_other_number_comes_between(self):
        other = self.connect()
        with self.transaction(1, 10):
            with self.assertRaisesRegex(sqlite3.OperationalError, "database is locked"):
                other.execute("BEGIN IMMEDIATE")


class File(Checks, unittest.TestCase):
    def setUp(self):
        self.dir = Path(tempfile.mkdtemp(prefix="lb-fencing-"))
        self.addCleanup(shutil.rmtree, self.dir)
        self.store = self.dir / "store"
        self.store.mkdir()
        self.program("fenced", code("sh", "# fenced FOLDER"))

    def program(self, name, text):
        file = self.dir / name
        file.write_text(text)
        file.chmod(0o755)

    def command(self, slot, fence, *command):
        return [self.dir / "fenced", self.store, LOCK, str(slot), "" if fence is None else str(fence), *command]

    def fenced(self, slot, fence, *command):
        done = subprocess.run(self.command(slot, fence, *command), text=True, capture_output=True, check=False)
        if "is late" in done.stderr:
            self.assertEqual(done.returncode, 1)
            raise Refused
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout.splitlines()

    def append(self, slot, fence, word):
        self.fenced(slot, fence, "sh", "-c", f"echo {word} >>words")

    def read(self, slot, fence):
        return self.fenced(slot, fence, "cat", "words")

    def test_an_empty_number_of_the_store_is_no_zero(self):
        self.append(1, 10, "a")
        number, = self.store.glob(".fence.*.1")
        number.write_text("")
        self.assertEqual(subprocess.run(self.command(1, 9, "true"), check=False).returncode, 1)

    def test_no_other_number_comes_between(self):
        os.mkfifo(self.dir / "go")
        first = start(self, self.command(1, 10, "sh", "-c", "echo here; read -r x <../go; cat .fence.*.1"))
        self.assertEqual(first.stdout.readline(), "here\n")
        second = start(self, self.command(1, 20, "true"))

        def waits():
            pids = re.findall(r"-> FLOCK +ADVISORY +WRITE +(\d+) ", Path("/proc/locks").read_text())
            return second.poll() is not None or set(map(int, pids)) & set(children(second.pid))
        wait_until(waits, what="the second one waits")
        self.assertIsNone(second.poll())
        (self.dir / "go").write_text("go\n")
        self.assertEqual(first.stdout.read(), "10\n")
        self.assertEqual(second.wait(60), 0)
        self.assertRaises(Refused, self.fenced, 1, 10, "true")

    def test_a_job_under_run(self):
        """That of the document. ssh joins its words with spaces, and a shell on the other host divides them."""
        self.program("ssh", '#!/bin/sh\nshift\nexec sh -c "$*"\n')
        self.program("add-up", '#!/bin/sh\necho more >>"$1"\necho "$LOCKBROKER_FENCE" >>added\n')
        text = code("sh", "ssh files").replace("/srv/report", str(self.store))
        (self.store / "totals").write_text("first\n")
        for fence, refusal, totals in (
                (20, None, "first\nmore\n"), (19, "fenced: 19 is late: a later holder has 20\n", "first\nmore\n"),
                (20, None, "first\nmore\nmore\n"), (None, "LOCKBROKER_FENCE", "first\nmore\nmore\n"),
                (LARGEST, None, "first\nmore\nmore\nmore\n")):
            fake = Fake(self, acquire={**GRANT, "name": LOCK, "fence": fence})
            job = Job(self, fake, "run", "-c", text, LOCK, cwd=self.dir,
                      binary=os.path.abspath(os.path.join(os.environ["top_builddir"], "lockbroker")),
                      env={"PATH": f"{self.dir}:{os.environ['PATH']}"})
            self.assertEqual(job.wait() == 0, refusal is None, job.err)
            self.assertIn(refusal or "", job.err)
            self.assertEqual((self.store / "totals").read_text(), totals)
        self.assertEqual((self.dir / "added").read_text(), f"20\n20\n{LARGEST}\n")


class Handler(http.server.BaseHTTPRequestHandler):
    def answer(self, status, body=b""):
        self.send_response(status)
        self.send_header("ETag", f'"{self.server.version}"')
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.answer(200, self.server.body)

    def do_PUT(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers["If-Match"] not in (None, f'"{self.server.version}"'):
            return self.answer(412)
        self.server.body, self.server.version = body, self.server.version + 1
        return self.answer(204)

    def log_message(self, *words):
        pass


class HTTP(Checks, unittest.TestCase):
    def setUp(self):
        self.server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
        self.server.body, self.server.version = b'{"fences": {}}', 1
        thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        thread.start()
        self.addCleanup(self.server.server_close)
        self.addCleanup(thread.join)
        self.addCleanup(self.server.shutdown)
        names = {}
        exec(code("python", "def change"), names)
        self.document_change = names["change"]

    def change(self, slot, fence, work=lambda document: document):
        url = f"http://127.0.0.1:{self.server.server_port}/report"
        lock = types.SimpleNamespace(name=LOCK, slot=slot, fence=fence)
        try:
            return self.document_change(url, lock, work)
        except PermissionError as error:
            raise Refused from error
        except TypeError as error:
            self.assertIsNone(fence)
            raise Refused from error

    def append(self, slot, fence, word):
        self.change(slot, fence, lambda document: {**document, "words": [*document.get("words", []), word]})

    def read(self, slot, fence):
        return self.change(slot, fence)["words"]

    def between(self, fence, other):
        """A holder that is paused between its read and its write, and `other` comes between. The words that it read."""
        seen = []

        def work(document):
            seen.append(document.get("words", []))
            if len(seen) == 1:
                other()
            return {**document, "words": [*seen[-1], "mine"]}
        self.change(1, fence, work)
        return seen

    def test_a_late_holder_is_refused_though_it_has_read_in_time(self):
        self.append(1, 10, "a")
        with self.assertRaises(Refused):
            self.between(10, lambda: self.append(1, 20, "b"))
        self.assertEqual(self.read(1, 20), ["a", "b"])

    def test_the_holder_of_another_slot_is_not_overwritten(self):
        self.assertEqual(self.between(10, lambda: self.append(2, 5, "b")), [[], ["b"]])
        self.assertEqual(self.read(1, 10), ["b", "mine"])

    def test_a_late_write_is_before_the_first_read_of_the_next_holder(self):
        """It is too late for the next one to overwrite it: it reads again."""
        self.assertEqual(self.between(20, lambda: self.append(1, 10, "late")), [[], ["late"]])
        self.assert_refused(1, 10)
        self.assertEqual(json.loads(self.server.body)["words"], ["late", "mine"])


class Document(unittest.TestCase):
    def test_all_code_is_executed(self):
        self.assertEqual(sorted(kind for kind, _ in CODE), ["python", "sh", "sh", "sql", "sql"])


if __name__ == "__main__":
    tap.main()
