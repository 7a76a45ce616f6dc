"""The other subcommands of lockbroker: their output, exit statuses and holds."""

import getpass
import json
import os
import pty
import re
import signal
import socket
import subprocess
import tempfile
import unittest

import manual
import tap
from cli import Job, command
from daemon import Daemon, program
from fake import Fake, error, reply
from wait import wait_until
from wire import Wire


class CommandCase(unittest.TestCase):
    def setUp(self):
        self.daemon = Daemon(self)

    def lockbroker(self, *argv, status=0, **more):
        return command(self, self.daemon, *argv, status=status, **more)

    def start(self, *argv, **more):
        return Job(self, self.daemon, *argv, **more)

    def free(self, name="db"):
        return self.start("run", "-n", name, "true").wait() == 0


class Usage(unittest.TestCase):
    def test_help_goes_to_stdout(self):
        job = command(self, None, "--help")
        subcommands = [line.split()[0] for line in job.out.splitlines() if line.startswith("  ")]
        self.assertIn("run", subcommands)
        self.assertEqual(re.findall(r"(?m)^(\w+):\n  (\w+)", job.out),
                         [("Jobs", "run"), ("Administration", "create"), ("Look", "list"), ("Debug", "ping")])
        for subcommand in subcommands:
            with self.subTest(subcommand=subcommand):
                job = command(self, None, subcommand, "--help")
                self.assertIn(f"Usage: lockbroker {subcommand}", job.out)
                self.assertIn("--socket", job.out)
                self.assertEqual(job.err, "")
                self.assertEqual(command(self, None, subcommand, "-h").out, job.out)
                self.assertEqual(command(self, None, "help", subcommand).out, job.out)
        self.assertEqual(command(self, None, "help").out, command(self, None, "--help").out)
        self.assertIn("s, m, h or d", command(self, None, "acquire", "--help").out)

    def test_version(self):
        version = command(self, None, "--version").out
        self.assertRegex(version, r"^lockbroker \d+\.\d+\.\d+\n$")
        self.assertEqual(command(self, None, "-V").out, version)

    def test_mistakes(self):
        for argv in ((), ("nonsense",), ("create",), ("create", "a", "b"), ("create", "a", "-1"),
                     ("create", "a", "10001"), ("create", "a", "1", "2"), ("size",), ("size", "a", "b"),
                     ("destroy",), ("info", "a"), ("ping", "a"), ("call",), ("verify",),
                     ("verify", "a", "b"), ("acquire",), ("acquire", "a", "b"), ("size", "--create", "a"),
                     ("create", "-n", "a"), ("run", "--shell", "a", "b"), ("-n", "run", "a", "b")):
            with self.subTest(argv=argv):
                job = command(self, "/nonexistent/s", *argv, status=64)
                self.assertEqual(job.out, "")
                self.assertTrue(job.err)

    def test_a_full_stdout_is_told(self):
        daemon = Daemon(self)
        with open("/dev/full", "wb") as full:
            script = 'exec "$0" ping >/dev/full'
            job = Job(self, daemon, "-c", script, Job(self, daemon, "--version").process.args[0],
                      binary="/bin/sh")
            job.wait(74)
            self.assertTrue(full.writable())
            self.assertIn("stdout: No space left", job.err)
            # More than fits into a buffer: the error is not the last call's.
            job = Job(self, daemon, "-c", 'exec "$0" call rpc.discover >/dev/full', program("lockbroker"),
                      binary="/bin/sh")
            job.wait(74)
            self.assertEqual(job.err, "lockbroker: stdout: No space left on device\n")

    def test_mistakes_are_named(self):
        for argv, text in (
                (("run", "-E", "300", "a", "b"), "run: -E: '300': expected 0 to 255"),
                (("run", "--conflict-exit-code=x", "a", "b"), "run: --conflict-exit-code: 'x': expected 0 to 255"),
                (("run", "-w", "3x", "a", "b"), "run: -w: '3x': expected seconds"),
                (("run", "-nk", "x", "a", "b"), "run: -k: 'x': expected seconds"),
                (("run", "--create=0", "a", "b"), "run: --create: '0': expected 1 to 10000"),
                (("run", "--on-revoke=run:x", "a", "b"), "run: --on-revoke: 'run:x': expected kill, ignore or"),
                (("run", "-s", "NO", "a", "b"), "run: -s: 'NO': expected a signal name"),
                (("run", "-w"), "run: -w: missing value"),
                (("run", "--who"), "run: --who: missing value"),
                (("run", "-nq", "a", "b"), "run: -q: no such option"),
                (("run", "--quiet", "a", "b"), "run: --quiet: no such option"),
                (("run", "--verbose=1", "a", "b"), "run: --verbose=1: takes no value"),
                (("run", "-n", "-w", "3", "a", "b"), "run: --nonblock and --wait exclude each other"),
                (("run", "--mutex", "--create", "a", "b"), "run: --create does not apply to a mutex"),
                (("acquire", "a", "--exist-ok"), "acquire: --exist-ok: no such option"),
                (("run", "a", "-q", "b"), "run: -q: no such option"),
                (("run", "a", "-2"), "run: -2: no such option"),
                (("run", "a", "--create", "3", "b"), "run: 3: did you mean --create=3?"),
                (("crate", "a"), "crate: no such subcommand; did you mean 'create'? (see"),
                (("wacth",), "wacth: no such subcommand; did you mean 'watch'? (see"),
                (("rn", "a"), "rn: no such subcommand; did you mean 'run'? (see"),
                (("--versio",), "--versio: no such option; did you mean '--version'? (see lockbroker --help)"),
                (("--wait", "5", "run"), "--wait: options come after the subcommand"),
                (("--hepl",), "--hepl: no such option; did you mean '--help'?"),
                (("run", "--nonblok", "a", "b"), "run: --nonblok: no such option; did you mean --nonblock? (see"),
                (("acquire", "--prioritty=5", "a"),
                 "acquire: --prioritty=5: no such option; did you mean --priority? (see lockbroker acquire --help)"),
                (("fsck", "--waiter", "a"), "fsck: --waiter: no such option; did you mean --wait?"),
                (("size", "--nonblok", "a"), "size: --nonblok: no such option (see"),
                (("x" * 100,), "x" * 100 + ": no such subcommand (see lockbroker --help)"),
                (("size", "a", "b"), "size: b: unexpected argument"),
                (("help", "nonsense"), "nonsense: no such subcommand"),
                (("verify",), "verify: missing LOCK")):
            with self.subTest(argv=argv):
                job = command(self, "/nonexistent/s", *argv, status=64, env={"LOCKBROKER_LOCK": ""})
                self.assertTrue(job.err.startswith("lockbroker: " + text), job.err)


class Placed(CommandCase):
    """Options stand anywhere before the COMMAND of run."""

    def test_between_and_behind_operands(self):
        self.lockbroker("create", "db", "--exist-ok", "3")
        self.lockbroker("create", "db", "3", "--exist-ok")
        self.assertEqual(self.lockbroker("size", "db", "--json").json(), {"name": "db", "slots": 3})
        self.assertEqual(self.lockbroker("resize", "db", "-2", "--wait").out, "1\n")
        self.assertEqual(self.lockbroker("resize", "--wait=9", "db", "-1", "--ascending").out, "0\n")

    def test_behind_two_dashes_there_are_operands_only(self):
        self.lockbroker("create", "--", "--json")
        self.assertEqual(self.lockbroker("size", "--", "--json").out, "1\n")
        self.assertIn("unexpected argument", self.lockbroker("size", "--", "db", "--json", status=64).err)

    def test_before_the_command_of_run(self):
        self.lockbroker("create", "db")
        for argv, out in ((("db", "-n", "--", "echo", "-n", "a"), "a"), (("db", "--wait", "1m", "echo", "--wait"), "--wait\n"),
                          (("-n", "db", "--who=x", "echo", "--", "b"), "-- b\n"), (("db", "-c", "echo c", "-n"), "c\n"),
                          (("--", "db", "echo", "-n", "d"), "d"), (("--", "db", "--", "echo", "e"), "e\n")):
            with self.subTest(argv=argv):
                self.assertEqual(self.lockbroker("run", *argv, env={"POSIXLY_CORRECT": "1"}).out, out)
                self.assertEqual(self.lockbroker("run", *argv).out, out)
        job = self.lockbroker("run", "db", "--", "--no-such-program", status=127)
        self.assertIn("--no-such-program: No such file", job.err)
        self.assertIn("missing COMMAND", self.lockbroker("run", "db", "-n", status=64).err)
        self.assertIn("missing COMMAND", self.lockbroker("run", "db", "--", status=64).err)


class Refused(unittest.TestCase):
    """The broker refused the daemon: nothing that this user did or may do."""

    WORDS = "the broker refused lockbrokerd, not this user"

    def test_the_login_of_the_daemon(self):
        refused = error(17, "broker-refused", "the broker refused the daemon: ACCESS_REFUSED")
        fake = Fake(self, acquire=lambda request, connection: connection.sendall(reply(request, error=refused)),
                    list=lambda request, connection: connection.sendall(reply(request, error=refused)))
        for argv in ("run", "db", "true"), ("list",):
            job = command(self, fake, *argv, status=78)
            self.assertIn("the broker refused the daemon: ACCESS_REFUSED", job.err)
            self.assertIn(self.WORDS, job.err)

    def test_explain(self):
        answer = {"name": "db", "kind": "semaphore", "verdict": None, "slots": None, "busy": None, "here": None,
                  "waiting": 0, "uncounted": None, "claim": None, "reason": "broker-refused",
                  "text": "the broker refused the daemon: no"}
        job = command(self, Fake(self, explain=answer), "explain", "db", status=78)
        self.assertEqual(job.out, "db: the broker refused the daemon: no\n")
        self.assertIn(self.WORDS, job.err)
        for reason in "broker-unavailable", None:
            job = command(self, Fake(self, explain={**answer, "reason": reason}), "explain", "db", status=69)
            self.assertEqual(job.err, "")

    def test_a_daemon_that_cannot_start(self):
        """Behind a socket unit, whose connections are closed again."""
        job = command(self, Fake(self, ping=Fake.CLOSE), "ping", status=69)
        self.assertIn("journalctl -u lockbrokerd", job.err)


class Simple(CommandCase):
    def test_create_size_destroy(self):
        self.assertEqual(self.lockbroker("create", "db", "3").out, "")
        self.assertEqual(self.lockbroker("size", "db").out, "3\n")
        self.assertEqual(self.lockbroker("size", "--json", "db").json(), {"name": "db", "slots": 3})
        self.assertIn("exists", self.lockbroker("create", "db", "3", status=73).err)
        self.lockbroker("create", "--exist-ok", "db", "3")
        self.lockbroker("create", "--exist-ok", "db", "4", status=73)
        self.lockbroker("destroy", "db")
        self.lockbroker("size", "db", status=66)
        self.lockbroker("destroy", "db", status=66)

    def test_errors_as_json(self):
        job = self.lockbroker("size", "--json", "missing", status=66)
        self.assertEqual(json.loads(job.err)["error"]["code"], 5)
        job = command(self, "/nonexistent/s", "ping", "--json", status=69)
        self.assertEqual(json.loads(job.err)["error"]["data"], {"reason": "no-daemon"})

    def test_ping_of_a_daemon_that_hangs(self):
        job = Job(self, Fake(self, ping=None), "ping")
        job.wait(69)
        self.assertIn("did not answer in time", job.err)

    def test_ping(self):
        self.assertIn("answered", self.lockbroker("ping").out)
        self.assertIn("broker.state: up", self.lockbroker("ping", "--broker").out)
        self.assertEqual(self.lockbroker("ping", "--json", "--broker").json()["broker"]["state"], "up")

    def test_ping_of_a_daemon_whose_broker_is_away(self):
        for broker, status, err in (
                ({"state": "up"}, 0, ""),
                ({"state": "up", "why": "", "silent": 3.2, "suspect": False}, 0, ""),
                ({"state": "up", "why": "", "silent": 12.34, "suspect": True}, 69,
                 "lockbroker: the broker has been silent for 12.3 s: locks are suspect\n"),
                ({"state": "down"}, 69, "lockbroker: the broker is down\n"),
                ({"state": "down", "why": "Connection refused", "silent": None, "suspect": False}, 69,
                 "lockbroker: the broker is down: Connection refused\n")):
            with self.subTest(broker=broker):
                job = command(self, Fake(self, ping={"broker": broker}), "ping", "--broker", status=status)
                self.assertEqual(job.err, err)
                self.assertEqual("broker.silent: 12.34\n" in job.out, broker.get("suspect", False))

    def test_info(self):
        info = self.lockbroker("info", "--json").json()
        self.assertEqual(info["pid"], self.daemon.pid)
        self.assertIn(f"pid: {self.daemon.pid}\n", self.lockbroker("info").out)
        self.assertIn("broker.state: up\n", self.lockbroker("info").out)

    def test_an_empty_name_is_shown(self):
        for argv in ("create", "", "2"), ("resize", "", "2"), ("destroy", ""), ("run", "", "true"):
            with self.subTest(argv=argv):
                self.assertEqual(self.lockbroker(*argv, status=64).err,
                                 "lockbroker: '': a lock name must not be empty\n")

    def test_call(self):
        self.lockbroker("create", "db")
        self.assertEqual(self.lockbroker("call", "size", '{"name": "db"}').json(), {"name": "db", "slots": 1})
        self.assertEqual(self.lockbroker("call", "nonsense", status=64).err,
                         "lockbroker: unknown method 'nonsense'\n")
        self.assertIn("name", self.lockbroker("call", "size", status=64).err)
        self.assertTrue(self.lockbroker("call", "size", status=64).err.startswith("lockbroker: size: parameter"))
        self.lockbroker("call", "size", "[]", status=64)
        self.assertIn("byte 1", self.lockbroker("call", "size", "{", status=64).err)
        self.lockbroker("call", "size", '{"name": "missing"}', status=66)
        # It holds what it got until it ends, and that is at once.
        self.lockbroker("call", "acquire", '{"name": "db", "timeout": 0}')
        wait_until(self.free, what="it is free")

    def test_explain_has_the_status_of_an_acquire(self):
        self.lockbroker("explain", "db", status=66)
        self.lockbroker("create", "db")
        self.lockbroker("explain", "db")
        peer = Wire(self.daemon)
        peer.call("acquire", name="db", timeout=0)
        self.lockbroker("explain", "db", status=75)
        self.lockbroker("resize", "db", "0")
        self.lockbroker("explain", "--json", "db", status=75)

    def test_explain_has_the_status_of_an_acquire_that_is_forbidden(self):
        daemon = Daemon(self, config=f"[access]\nrule = deny uid:{os.getuid()} acquire secret\n")
        command(self, daemon, "create", "secret")
        job = command(self, daemon, "explain", "secret", status=77)
        self.assertIn("may not acquire it", job.out)

    def test_a_refused_acquire_names_the_holders(self):
        self.lockbroker("create", "db")
        peer = Wire(self.daemon)
        peer.call("acquire", name="db", timeout=0, who="alice", why="backup")
        for patience in ("-n",), ("-w", "0.1"):
            job = self.lockbroker("run", *patience, "db", "true", status=75)
            self.assertIn("lockbroker: db: held by alice (backup)\n", job.err)
        job = self.lockbroker("run", "--json", "-n", "db", "true", status=75)
        self.assertEqual(job.err.count("\n"), 1)

    def test_the_requester_is_the_user_on_the_host(self):
        self.lockbroker("create", "db")
        job = self.lockbroker("run", "db", program("lockbroker"), "show", "--json", "db")
        self.assertEqual(job.json()["holders"][0]["who"],
                         f"{getpass.getuser()}@{socket.gethostname()}")
        job = self.lockbroker("run", "--who=bob", "db", program("lockbroker"), "show", "--json", "db")
        self.assertEqual(job.json()["holders"][0]["who"], "bob")

    def test_verify(self):
        peer = Wire(self.daemon)
        peer.call("create", name="db")
        lock = peer.call("acquire", name="db", timeout=0)["lock"]
        self.assertEqual(self.lockbroker("verify", lock).out, "held, slot 1\n")
        self.assertEqual(self.lockbroker("verify", env={"LOCKBROKER_LOCK": lock}).out, "held, slot 1\n")
        self.assertEqual(self.lockbroker("verify", "--json", lock).json()["slot"], 1)
        peer.call("release", lock=lock)
        self.lockbroker("verify", lock, status=65)


class Frozen(CommandCase):
    """A daemon that is stopped, with its connections open: no command waits for it for ever."""

    WAITING = (("await", "db", "1", "free"), ("resize", "--wait", "db", "0"), ("watch",), ("watch", "db"))

    def setUp(self):
        super().setUp()
        self.lockbroker("create", "db")
        self.peer = Wire(self.daemon)
        self.lock = self.peer.call("acquire", name="db", timeout=0)["lock"]

    def test_every_subcommand_that_asks(self):
        asking = (("verify", self.lock), ("create", "new"), ("resize", "db", "2"), ("destroy", "db"),
                  ("size", "db"), ("list",), ("show", "db"), ("grant", "w-1"), ("deny", "w-1"),
                  ("fsck", "db"), ("explain", "db"), ("info",), ("ping",), ("call", "info"))
        self.daemon.freeze()
        jobs = [self.start(*argv) for argv in asking + self.WAITING]
        hasty = [self.start(argv[0], "--timeout=0.5", *argv[1:]) for argv in asking]
        for job in hasty:
            job.wait(69)
        for job in jobs:
            job.wait(69)
        self.daemon.thaw()
        for job in jobs + hasty:
            self.assertIn("the daemon did not answer in time", job.err, job.argv)
            self.assertIn("lockbrokerd may be stopping (draining)", job.err, job.argv)
            self.assertEqual(job.out, "")

    def test_while_they_wait(self):
        """The daemon stops when the waiting has begun."""
        jobs = [self.start(*argv) for argv in self.WAITING]
        for job in jobs[2:]:
            job.wait_out("synced")
        watcher = Wire(self.daemon)
        wait_until(lambda: watcher.call("info")["counts"]["waiting"] >= 0 and
                   watcher.call("size", name="db")["slots"] == 0, what="it is resized")
        self.daemon.freeze()
        for job in jobs:
            job.wait(69)
            self.assertIn("the daemon did not answer in time", job.err)
        self.daemon.thaw()

    def test_a_timeout_is_more_than_nothing(self):
        for value in "0", "soon", "-1":
            job = self.lockbroker("list", "--timeout", value, status=64)
            self.assertIn(f"list: --timeout: '{value}': expected", job.err)


class Acquire(CommandCase):
    def setUp(self):
        super().setUp()
        self.lockbroker("create", "db")

    def test_prints_the_grant_and_holds_until_stdin_ends(self):
        job = self.start("acquire", "db", stdin=subprocess.PIPE)
        job.wait_out("\n")
        grant = job.json()
        self.assertEqual((grant["name"], grant["slot"], grant["kind"]), ("db", 1, "semaphore"))
        self.assertEqual(self.lockbroker("verify", grant["lock"]).out, "held, slot 1\n")
        job.process.stdin.write(b"bytes that mean nothing\n")
        job.process.stdin.flush()
        self.assertFalse(self.free())
        job.process.stdin.close()
        job.wait(0)
        self.assertTrue(self.free())

    def test_assignments_for_a_shell(self):
        directory = os.path.join(self.daemon.dir, "it's here")
        os.mkdir(directory)
        path = os.path.join(directory, "s")
        os.symlink(self.daemon.socket, path)
        job = self.start("acquire", "--shell", "--socket", path, "db", stdin=subprocess.PIPE)
        job.wait_out("LOCKBROKER_SOCKET")
        self.assertEqual(job.out.count("\n"), 1)
        script = job.out + 'sh -c \'echo "$LOCKBROKER_NAME $LOCKBROKER_SLOT $LOCKBROKER_LOCK $LOCKBROKER_SOCKET"\''
        said = subprocess.run(["sh", "-c", script], check=True, stdout=subprocess.PIPE, text=True).stdout
        name, slot, lock, socket_path = said.rstrip("\n").split(" ", 3)
        self.assertEqual((name, slot, socket_path), ("db", "1", path))
        self.lockbroker("verify", lock)
        job.process.stdin.close()
        job.wait(0)

    def test_the_socket_for_a_shell_is_absolute(self):
        job = self.start("acquire", "--shell", "--socket", "./s", "db", cwd=self.daemon.dir,
                         binary=os.path.abspath(program("lockbroker")), stdin=subprocess.PIPE)
        job.wait_out("\n")
        job.process.stdin.close()
        job.wait(0)
        self.assertIn(f"LOCKBROKER_SOCKET='{self.daemon.socket}'", job.out)

    def test_a_stdin_that_cannot_hold_is_a_mistake(self):
        """It is found before the daemon is asked: there is none behind that socket."""
        ended, write = os.pipe()
        os.close(write)
        here, there = socket.socketpair()
        there.close()
        with tempfile.TemporaryFile() as file, open("/dev/zero", "rb") as zero, here:
            file.write(b"more than nothing\n")
            file.seek(0)
            for stdin, words in ((subprocess.DEVNULL, "is /dev/null"), (file, "is a file"),
                                 (os.open("/", os.O_RDONLY), "is a directory"), (zero, "is a device"),
                                 (ended, "has ended already"), (here, "has ended already")):
                with self.subTest(words=words):
                    job = command(self, "/nonexistent/s", "acquire", "db", status=64, stdin=stdin)
                    self.assertTrue(job.err.startswith("lockbroker: acquire: standard input " + words), job.err)
                    self.assertEqual(job.out, "")
        job = Job(self, "/nonexistent/s", "-c", 'exec "$0" acquire db <&-', program("lockbroker"), binary="/bin/sh")
        job.wait(64)
        self.assertIn("acquire: standard input is not open for reading", job.err)

    def test_a_stdin_that_ends_while_it_waits(self):
        peer = Wire(self.daemon)
        lock = peer.call("acquire", name="db", timeout=0)["lock"]
        job = self.start("acquire", "db", stdin=subprocess.PIPE)
        self.daemon.wait_log("requested db", count=2)
        job.process.stdin.close()
        peer.call("release", lock=lock)
        job.wait(0)
        self.assertIn("db: standard input has ended", job.err)
        self.assertTrue(self.free())

    def test_any_stdin_that_can_end_later_holds(self):
        here, there = socket.socketpair()
        leader, terminal = pty.openpty()
        with here, there:
            for stdin, end in ((here, there.close), (terminal, lambda: os.write(leader, b"\x04"))):
                job = self.start("acquire", "db", stdin=stdin)
                job.wait_out("\n")
                self.assertFalse(self.free())
                end()
                job.wait(0)
        os.close(leader)
        os.close(terminal)

    def test_the_manuals_coprocess(self):
        """The script in the manual works, and processes that it starts do not keep the lock."""
        script = manual.block("lockbroker.1", "coproc LOCK").replace("\nlockbroker verify", "\nread -r go; lockbroker verify")
        path = os.path.dirname(os.path.abspath(program("lockbroker"))) + ":" + os.environ["PATH"]
        job = self.start("-c", script, binary="/bin/bash", stdin=subprocess.PIPE, env={"PATH": path})
        job.wait_out("working in slot 1")
        self.assertFalse(self.free())
        job.process.stdin.write(b"go\n")
        job.process.stdin.close()
        job.wait(0)
        self.assertIn("held, slot 1", job.out)
        self.assertTrue(self.free())
        job = self.start("-c", script.replace("lockbroker verify", "sleep 60 & echo slept; kill -KILL $$"),
                         binary="/bin/bash", stdin=subprocess.PIPE, env={"PATH": path})
        job.wait_out("working in slot 1")
        job.process.stdin.write(b"go\n")
        job.process.stdin.close()
        job.wait(-signal.SIGKILL)
        wait_until(self.free, what="it is free")
        os.killpg(job.pid, signal.SIGKILL)

    def test_a_signal_ends_the_hold(self):
        for name in ("HUP", "INT", "TERM"):
            with self.subTest(name=name):
                job = self.start("acquire", "db", stdin=subprocess.PIPE)
                job.wait_out("\n")
                job.signal(getattr(signal, "SIG" + name))
                job.wait(0)
                job.process.stdin.close()
                self.assertTrue(self.free())

    def test_a_signal_ends_the_waiting(self):
        peer = Wire(self.daemon)
        peer.call("acquire", name="db", timeout=0)
        job = self.start("acquire", "db", stdin=subprocess.PIPE)
        self.daemon.wait_log("requested db", count=2)
        job.signal(signal.SIGTERM)
        job.wait(143)
        job.process.stdin.close()
        for patience in ("-n",), ("-w", "0.1"):
            self.lockbroker("acquire", *patience, "db", status=75, stdin=subprocess.PIPE)

    def test_the_end_of_the_daemon(self):
        job = self.start("acquire", "db", stdin=subprocess.PIPE)
        job.wait_out("\n")
        self.daemon.kill()
        job.wait(79)
        job.process.stdin.close()
        self.assertIn("db: lost: the daemon closed the connection\n", job.err)

    def test_an_orderly_stop_of_the_daemon(self):
        job = self.start("acquire", "db", stdin=subprocess.PIPE)
        job.wait_out("\n")
        self.daemon.stop()
        job.wait(69)
        job.process.stdin.close()
        self.assertRegex(self.daemon.log(), "released db")

    def test_a_grant_that_cannot_be_told_is_given_back(self):
        read, write = os.pipe()
        job = self.start("-c", 'exec "$0" acquire db >/dev/full', self.start("--version").process.args[0],
                         binary="/bin/sh", stdin=read)
        job.wait(74)
        os.close(read)
        os.close(write)
        self.assertEqual(job.err, "lockbroker: stdout: No space left on device\n")
        self.assertTrue(self.free())

    def test_with_stdout_closed_the_grant_is_not_told_to_the_daemon(self):
        read, write = os.pipe()
        job = self.start("-c", 'exec "$0" acquire db >&-', program("lockbroker"), binary="/bin/sh", stdin=read)
        job.wait(74)
        os.close(read)
        os.close(write)
        self.assertEqual(job.err, "lockbroker: stdout: Bad file descriptor\n")
        self.assertTrue(self.free())

    def test_as_a_service_only_a_signal_ends_it(self):
        path = os.path.join(self.daemon.dir, "job-notify")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
            notify.bind(path)
            notify.settimeout(60)
            job = self.start("acquire", "db", env={"NOTIFY_SOCKET": path})
            self.assertEqual(notify.recv(4096).decode(), "STATUS=holding db")
            self.assertEqual(notify.recv(4096).decode(), "READY=1")
            self.assertFalse(self.free())
            self.assertTrue(job.running())
            job.signal(signal.SIGTERM)
            job.wait(0)

    def test_creates_a_missing_semaphore(self):
        job = self.start("acquire", "--create=2", "new", stdin=subprocess.PIPE)
        job.wait_out("\n")
        job.process.stdin.close()
        job.wait(0)
        self.assertEqual(self.lockbroker("size", "new").out, "2\n")


if __name__ == "__main__":
    tap.main()
