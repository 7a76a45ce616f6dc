"""One lockbrokerd of the build tree, with its own temporary folder, socket and log.

	daemon = Daemon(self)				# --broker memory:
	daemon = Daemon(self, "--heartbeat", "5", broker=rabbit.url)
	daemon = Daemon(self, config="log_level = debug\\n", broker=None)

The daemon is up when the constructor returns. At the end of the test it is stopped with SIGTERM. The test fails if
the exit status is not 0, or if the log has a failed assertion or a sanitizer's report. It also fails if the log has a
warning or an error that the test did not announce with `expect`.

CLAIM=consumer in the environment makes every daemon start with `--claim consumer`, if neither the options nor the
configuration of the test say otherwise. Tests of both ways take that one alone then.
"""

import os
import re
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import wire
from wait import PATIENCE, wait_until

BUILD = os.environ.get("top_builddir", "build")
# How slots are held if the test does not say it.
CLAIM = os.environ.get("CLAIM") or "exclusive-queue"
# The ways of a test of both.
WAYS = (CLAIM,) if os.environ.get("CLAIM") else ("exclusive-queue", "consumer")
# By quorum, which is no setting. An option of the daemon, as RabbitMQ before 4.0 is refused otherwise. Members of a create;
# the grace is the least one.
UNTESTED = ("--quorum-servers", "untested")
GRACE = 5
BY_QUORUM = {"claim": "quorum", "takeover_grace": GRACE}

# Lines that no log may have, even if a test expects them.
FATAL = re.compile(r"Assertion `|: assert|ERROR: \w+Sanitizer|LeakSanitizer|runtime error: ")
# The words in front of lines of a log that the test did not announce.
UNEXPECTED = "in the daemon's log:"
# Lines of level warning or worse (daemon/base/log.c), and messages before there is a log.
TROUBLE = re.compile(r"^(?:<[0-4]>|\d{4}-\S+Z (?:error|warning): |lockbrokerd: )")
# Not the caller's: a daemon under test listens to its own options alone.
FOREIGN = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_FDS", "LISTEN_PID",
           "LISTEN_FDNAMES", "CREDENTIALS_DIRECTORY", "JOURNAL_STREAM")


def clean_environment(**more):
    """The environment without the variables that make our programs speak to another daemon or manager."""
    env = {k: v for k, v in os.environ.items()
           if k not in FOREIGN and not k.startswith("LOCKBROKER_")}
    env.update(more)
    return env


def program(name):
    """The path of a program in the build tree."""
    return os.path.join(os.path.abspath(BUILD), name)


class Daemon:
    def __init__(self, test, *options, broker="memory:", config="", expect=(), env=None,
                 start=True, activate=False, enter=()):
        """broker: a URL, a list of them, or None for what `config` says. expect: patterns of
        warnings and errors that are no surprise. activate: hand over a listening socket as
        systemd does. start: False leaves the starting to start(). enter: the words
        in front of a command that runs on another host (rabbit.Host)."""
        self.test = test
        self.dir = tempfile.mkdtemp(prefix="lb-")
        self.socket = os.path.join(self.dir, "s")
        self.log_path = os.path.join(self.dir, "log")
        self.config_path = os.path.join(self.dir, "conf")
        self.notices = []
        self.expected = [re.compile(pattern) for pattern in expect]
        self.process = None
        self.activate = activate
        self.listener = None
        self.notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.notify.bind(os.path.join(self.dir, "notify"))
        self.env = clean_environment(NOTIFY_SOCKET=os.path.join(self.dir, "notify"), **(env or {}))
        self.command = [*enter, program("lockbrokerd"), "--config", self.config_path,
                        "--socket", self.socket]
        self.config_head = ""
        if broker is not None:
            broker = broker if isinstance(broker, str) else ",".join(broker)
            if "@" in broker:
                # It may hold a password, which is warned of on a command line.
                self.config_head = f"broker = {broker}\n"
            else:
                self.command += ["--broker", broker]
        if CLAIM != "exclusive-queue" and "--claim" not in options and not re.search(r"^claim\b", config, re.MULTILINE):
            self.command += ["--claim", CLAIM]
        self.command += options
        self.write_config(config)
        test.addCleanup(self._teardown)
        if start:
            self.start()

    def write_config(self, text):
        """Replaces the configuration file, except for the broker. reload() makes the daemon read it."""
        with open(self.config_path, "w", encoding="utf-8") as file:
            file.write(self.config_head + text)
        os.chmod(self.config_path, 0o600)

    # ---- its life ----

    def start(self, within=PATIENCE):
        """Starts it, again too, and waits for READY=1."""
        self.launch()
        self.wait_notice("READY=1", within)

    def launch(self):
        """Starts it and does not wait."""
        assert self.process is None, "already running"
        command, pass_fds = self.command, ()
        env = self.env
        if self.activate:
            if self.listener is None:
                self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                self.listener.bind(self.socket)
                self.listener.listen(64)
            fd = self.listener.fileno()
            pass_fds = (fd,)
            env = dict(env, LISTEN_FDS="1")
            # LISTEN_PID is the pid that exec keeps.
            command = ["/bin/bash", "-c", f'export LISTEN_PID=$$; exec "$@" 3<&{fd}', "sh"] + command
        self.notices = []
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=log, pass_fds=pass_fds, start_new_session=True)

    @property
    def pid(self):
        return self.process.pid

    def running(self):
        return self.process is not None and self.process.poll() is None

    def signal(self, signo):
        self.process.send_signal(signo)

    def wait_exit(self, status=0, within=PATIENCE):
        """Waits for its end and checks the status."""
        try:
            got = self.process.wait(within)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"lockbrokerd did not end within {within} s\n{self.log()}") from None
        self.process = None
        if got != status:
            raise AssertionError(f"lockbrokerd ended with {got}, not {status}\n{self.log()}")

    def stop(self, within=PATIENCE):
        """SIGTERM, the orderly way; must exit 0."""
        self.signal(signal.SIGTERM)
        self.wait_exit(0, within)

    def kill(self):
        """SIGKILL: as if it had crashed."""
        self.process.kill()
        self.process.wait()
        self.process = None

    def freeze(self):
        self.signal(signal.SIGSTOP)
        wait_until(lambda: self._stat_state() == "T", what="the daemon is stopped")

    def thaw(self):
        self.signal(signal.SIGCONT)

    def reload(self):
        self.signal(signal.SIGHUP)

    def listens(self):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            return client.connect_ex(self.socket) == 0

    def wait_broker(self, within=PATIENCE):
        """Waits until the broker answers through it."""
        def answers():
            peer = wire.Wire(self.socket)
            try:
                return peer.call("ping", broker=True)["broker"]["state"] == "up"
            except wire.WireError as error:
                if error.reason != "broker-unavailable":
                    raise
                return False
            finally:
                peer.hang_up()
        wait_until(answers, within, "the broker answers")

    # ---- its state ----

    def _stat_state(self):
        with open(f"/proc/{self.pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0]

    def rss(self):
        """Resident memory, KiB."""
        with open(f"/proc/{self.pid}/status", encoding="ascii", errors="replace") as file:
            return int(re.search(r"^VmRSS:\s+(\d+)", file.read(), re.MULTILINE).group(1))

    def cpu(self):
        """Processor time so far, seconds, user and system."""
        with open(f"/proc/{self.pid}/stat", encoding="ascii", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def switches(self):
        """How many times it gave up its processor or lost it."""
        with open(f"/proc/{self.pid}/status", encoding="ascii", errors="replace") as file:
            return sum(int(count) for count in re.findall(r"ctxt_switches:\s+(\d+)", file.read()))

    def wait_asleep(self):
        """Waits until it sleeps. A daemon that spins never does."""
        wait_until(lambda: self._stat_state() == "S", what="the daemon sleeps")

    def fds(self):
        """How many files it has open."""
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def log(self):
        try:
            with open(self.log_path, encoding="utf-8", errors="backslashreplace") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def wait_log(self, pattern, within=PATIENCE, count=1):
        """Waits until the log matches pattern that many times; returns the last match."""
        try:
            found = wait_until(
                lambda: (m := list(re.finditer(pattern, self.log(), re.MULTILINE)))[count - 1:] and m,
                within, f"the log says {pattern!r}")
        except AssertionError as error:
            raise AssertionError(f"{error}; it says\n{self.log()}") from None
        return found[-1]

    def expect(self, *patterns):
        """From here on (and before), these warnings and errors are no surprise."""
        self.expected += [re.compile(pattern) for pattern in patterns]

    # ---- what it tells the service manager ----

    def read_notices(self):
        """All assignments (READY=1, STATUS=...) told since it was launched."""
        while select.select([self.notify], [], [], 0)[0]:
            self.notices += self.notify.recv(65536).decode("utf-8", "replace").split("\n")
        return self.notices

    def wait_notice(self, pattern, within=PATIENCE):
        """Waits for an assignment that matches pattern from its start; returns it."""
        end = time.monotonic() + within
        while True:
            for notice in self.read_notices():
                if re.match(pattern, notice):
                    return notice
            if not self.running():
                raise AssertionError(f"lockbrokerd ended ({self.process and self.process.returncode}) before it said "
                                     f"{pattern}\n{self.log()}")
            left = end - time.monotonic()
            if left <= 0:
                raise AssertionError(f"lockbrokerd did not say {pattern} within {within} s; it said "
                                     f"{self.notices}\n{self.log()}")
            select.select([self.notify], [], [], min(left, 0.1))

    # ---- the end of the test ----

    def surprises(self):
        """Lines of the log that fail the test."""
        return [line for line in self.log().split("\n")
                if FATAL.search(line)
                or TROUBLE.match(line) and not any(p.search(line) for p in self.expected)]

    def _teardown(self):
        problems = []
        try:
            if self.process is not None:
                self.signal(signal.SIGCONT)
                self.stop()
        except AssertionError as error:
            problems.append(str(error))
        finally:
            if self.process is not None:
                self.kill()
        surprises = self.surprises()
        if surprises:
            problems.append(UNEXPECTED + "\n" + "\n".join(surprises))
            problems.append("the whole log:\n" + self.log())
        self.notify.close()
        if self.listener is not None:
            self.listener.close()
        shutil.rmtree(self.dir, ignore_errors=True)
        if problems:
            raise AssertionError("\n".join(problems))
