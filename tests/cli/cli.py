"""The lockbroker command, started and watched by a test.

	job = Job(self, daemon, "run", "db", "true")	# daemon: a Daemon, a Fake, or a path
	job.wait(0)
	job.out, job.err				# so far

A job that still runs when the test ends is killed, with all that it started; a sanitizer's report on
its stderr fails the test.
"""

import fcntl
import json
import os
import pty
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import termios
import time

from daemon import FATAL, clean_environment, program
from wait import PATIENCE, wait_until


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


def waits(pid):
    """How many times it began to wait."""
    with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
        return int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)", file.read(), re.MULTILINE)[1])


def group(pid):
    return int(proc(pid, 5))


def children(pid):
    """The numbers of its children."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            return [int(word) for word in file.read().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def guard_of(pid):
    """The guard of that `lockbroker run`."""
    def guards():
        return [child for child in children(pid) if name_of(child) == "lockbroker-grd"]
    return wait_until(guards, what="the guard runs")[0]


def name_of(pid):
    """Its name, as ps(1) has it; None when it is gone."""
    try:
        with open(f"/proc/{pid}/comm", encoding="ascii", errors="replace") as file:
            return file.read().strip()
    except (FileNotFoundError, ProcessLookupError):
        return None


def gone(pid):
    return state(pid) in (None, "Z")


def fill_datagrams(path):
    """Fills the queue of the datagram socket at that path, so that a sender would wait for room."""
    while True:
        # One sender may be out of its own buffer before the queue is full: then the next one goes on.
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)
            sender.connect(path)
            sent = 0
            try:
                while sender.send(b"x"):
                    sent += 1
            except BlockingIOError:
                if sent == 0:
                    return


class Job:
    def __init__(self, test, daemon, *argv, stdin=subprocess.DEVNULL, env=None, fds=(), binary=None,
                 session=True, enter=(), **more):
        """enter: words in front of the command, as of unshare(1)."""
        self.test = test
        self.dir = tempfile.mkdtemp(prefix="lb-job-")
        self.argv = argv
        path = getattr(daemon, "socket", daemon)
        environment = clean_environment(**({"LOCKBROKER_SOCKET": path} if path else {}), **(env or {}))
        with open(self.path("out"), "wb") as out, open(self.path("err"), "wb") as err:
            self.process = subprocess.Popen(
                [*enter, binary or program("lockbroker"), *argv], stdin=stdin, stdout=out, stderr=err,
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
        """Its output, parsed as JSON."""
        return json.loads(self.out)

    def running(self):
        return self.process.poll() is None

    def signal(self, signo):
        self.process.send_signal(signo)

    def wait_out(self, text, within=PATIENCE):
        """Waits until it has printed text."""
        wait_until(lambda: text in self.out or not self.running(), within, f"{self.argv} says {text!r}")
        assert text in self.out, f"{self.argv} ended without {text!r}: {self.out!r} {self.err!r}"

    def wait(self, status=None, within=PATIENCE):
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


class Terminal:
    """A session of its own with a terminal, whose leader is the command, or another program: binary."""

    def __init__(self, test, daemon, *argv, after_fork=None, columns=None, lines=24, env=None, binary=None):
        self.text = ""
        path = binary or program("lockbroker")
        environment = clean_environment(LOCKBROKER_SOCKET=daemon.socket, **(env or {}))
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            try:
                if columns is not None:
                    fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
                if after_fork is not None:
                    after_fork()
                os.execve(path, [path, *argv], environment)
            finally:
                os._exit(70)
        self.ended = False
        test.addCleanup(self._teardown)

    def read(self):
        """The output so far, as the terminal received it."""
        while select.select([self.fd], [], [], 0)[0]:
            try:
                data = os.read(self.fd, 65536)
            except OSError:  # EIO: nobody has the other end any more
                break
            if not data:
                break
            self.take(data)
        return self.text

    def take(self, data):
        """Bytes that it has shown."""
        self.text += data.decode("utf-8", "replace")

    def wait_text(self, text, count=1, within=PATIENCE):
        wait_until(lambda: self.read().count(text) >= count, within, f"it shows {text!r}")

    def type(self, text):
        os.write(self.fd, text.encode())

    def foreground(self):
        return int.from_bytes(fcntl.ioctl(self.fd, termios.TIOCGPGRP, b"\0\0\0\0"), "little")

    def wait_stopped(self):
        def stopped():
            pid, status = os.waitpid(self.pid, os.WUNTRACED | os.WNOHANG)
            return pid == self.pid and os.WIFSTOPPED(status)
        wait_until(stopped, what=f"it stops: {self.read()!r}")

    def wait(self, status):
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            self.read()
            pid, got = os.waitpid(self.pid, os.WNOHANG)
            if pid == self.pid:
                self.ended = True
                self.read()
                assert os.waitstatus_to_exitcode(got) == status, (got, self.text)
                return
            time.sleep(0.005)
        raise AssertionError(f"it did not end: {self.text!r}")

    def _teardown(self):
        if not self.ended:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.fd)
        if FATAL.search(self.text):
            raise AssertionError(self.text)


def command(test, daemon, *argv, status=0, within=PATIENCE, **more):
    """Runs it to its end."""
    job = Job(test, daemon, *argv, **more)
    job.wait(status, within)
    return job
