"""The lockbroker command, started and watched by a test.

	job = Job(self, daemon, "run", "db", "true")	# daemon: a Daemon, a Fake, or a path
	job.wait(0)
	job.out, job.err				# so far

A job that still runs when the test ends is killed, with all that it started; a sanitizer's report on
its stderr fails the test.
"""

import json
import os
import shutil
import signal
import subprocess
import tempfile

from daemon import FATAL, clean_environment, program
from wait import wait_until


def proc(pid, field):
    """A field of /proc/PID/stat by its number in proc(5); None when there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[field - 3]
    except (FileNotFoundError, ProcessLookupError):
        return None


def state(pid):
    """R, S, T, Z, ...; None when it is gone."""
    return proc(pid, 3)


def group(pid):
    return int(proc(pid, 5))


def gone(pid):
    return state(pid) in (None, "Z")


class Job:
    def __init__(self, test, daemon, *argv, stdin=subprocess.DEVNULL, env=None, fds=(), binary=None,
                 session=True, **more):
        self.test = test
        self.dir = tempfile.mkdtemp(prefix="lb-job-")
        self.argv = argv
        path = getattr(daemon, "socket", daemon)
        environment = clean_environment(**({"LOCKBROKER_SOCKET": path} if path else {}), **(env or {}))
        with open(self.path("out"), "wb") as out, open(self.path("err"), "wb") as err:
            self.process = subprocess.Popen(
                [binary or program("lockbroker"), *argv], stdin=stdin, stdout=out, stderr=err,
                env=environment, pass_fds=fds, start_new_session=session, **more)
        test.addCleanup(self._teardown)

    def path(self, name):
        return os.path.join(self.dir, name)

    def _read(self, name):
        with open(self.path(name), encoding="utf-8", errors="backslashreplace") as file:
            return file.read()

    @property
    def out(self):
        return self._read("out")

    @property
    def err(self):
        return self._read("err")

    @property
    def pid(self):
        return self.process.pid

    def json(self):
        """What it printed, as JSON."""
        return json.loads(self.out)

    def running(self):
        return self.process.poll() is None

    def signal(self, signo):
        self.process.send_signal(signo)

    def wait_out(self, text, within=10.0):
        """Waits until it has printed text."""
        wait_until(lambda: text in self.out or not self.running(), within, f"{self.argv} says {text!r}")
        assert text in self.out, f"{self.argv} ended without {text!r}: {self.out!r} {self.err!r}"

    def wait(self, status=None, within=15.0):
        """Waits for its end; checks the status when one is given; returns it."""
        try:
            got = self.process.wait(within)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.argv} did not end within {within} s: {self.out!r} "
                                 f"{self.err!r}") from None
        if status is not None and got != status:
            raise AssertionError(f"{self.argv} ended with {got}, not {status}: {self.out!r} {self.err!r}")
        return got

    def _teardown(self):
        if self.running():
            # TERM first, so that it takes along what it started.
            self.signal(signal.SIGCONT)
            self.signal(signal.SIGTERM)
            try:
                self.process.wait(2)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        err = self.err
        shutil.rmtree(self.dir, ignore_errors=True)
        if FATAL.search(err):
            raise AssertionError(f"{self.argv} said:\n{err}")


def command(test, daemon, *argv, status=0, within=15.0, **more):
    """Runs it to its end."""
    job = Job(test, daemon, *argv, **more)
    job.wait(status, within)
    return job
