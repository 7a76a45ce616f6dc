"""lockbroker run against a daemon on its in-memory broker: exit statuses, signals, process group, subreaper, the
environment of the child, waiting, losing, stopping."""

import json
import os
import signal
import socket
import subprocess
import time
import unittest

import tap
from cli import Job, command, gone, group, guard_of, proc, state
from daemon import Daemon, program
from wait import wait_until
from wire import Wire

# Prints its pid, and reports the signal in a trap.
TRAP = 'trap "echo got {0}; exit 9" {0}; echo pid $$; while :; do sleep 0.05; done'


def pending(pid):
    """The signals that the process has not taken yet, as proc(5) has them."""
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return next(line.split()[1] for line in file if line.startswith("ShdPnd:"))


def pid_of(job):
    """The pid that a job's child printed as "pid N"."""
    job.wait_out("\n")
    wait_until(lambda: "pid " in job.out and job.out.split("pid ")[1].count("\n"), what="a pid")
    return int(job.out.split("pid ")[1].split()[0])


class RunCase(unittest.TestCase):
    options = ()

    def setUp(self):
        self.daemon = Daemon(self, *self.options)
        command(self, self.daemon, "create", "db")

    def run_job(self, *argv, **more):
        return Job(self, self.daemon, "run", *argv, **more)

    def run_to_end(self, *argv, status=0, **more):
        return command(self, self.daemon, "run", *argv, status=status, **more)

    def taken(self, name="db"):
        job = Job(self, self.daemon, "run", "-n", name, "true")
        return job.wait() == 75

    def expect_loss(self):
        self.daemon.expect(".*")


class Status(RunCase):
    def test_is_the_childs_own(self):
        for script, status in (("exit 0", 0), ("exit 3", 3), ("exit 255", 255),
                               ("kill -KILL $$", 137), ("kill -TERM $$", 143), ("kill -SEGV $$", 139)):
            with self.subTest(script=script):
                self.run_to_end("db", "sh", "-c", script, status=status)
        self.assertFalse(self.taken())

    def test_the_connection_uses_no_standard_descriptor_that_is_closed(self):
        # --verbose has something to say, and the command is given what there was.
        for closed in ((2,), (0, 2), (0, 1, 2)):
            with self.subTest(closed=closed):
                look = "".join(f"[ ! -e /proc/$$/fd/{fd} ] || exit 1{fd}; " for fd in closed) + "exit 3"
                run = 'exec "$0" run --verbose db sh -c "$1"' + "".join(f" {fd}>&-" for fd in closed)
                Job(self, self.daemon, "-c", run, program("lockbroker"), look, binary="/bin/sh").wait(3)
        self.assertFalse(self.taken())

    def test_commands_that_cannot_be_started(self):
        job = self.run_to_end("db", "/nonexistent", status=127)
        self.assertIn("/nonexistent: No such file or directory", job.err)
        job = self.run_to_end("db", "/etc/passwd", status=126)
        self.assertIn("Permission denied", job.err)
        # A folder that cannot be searched is no reason to say that the program cannot be executed.
        closed = os.path.join(self.daemon.dir, "closed")
        os.mkdir(closed, 0)
        for path in ("/nonexistent:/usr/bin", "/etc/passwd:/usr/bin", f"{closed}:/usr/bin"):
            self.run_to_end("db", "no-such-program-anywhere", status=127, env={"PATH": path})
        self.run_to_end("db", "passwd", status=126, env={"PATH": "/nonexistent:/etc"})
        self.assertFalse(self.taken())

    def test_wrong_options(self):
        for argv in ((), ("db",), ("--",), ("-q", "db", "true"), ("--nonsense", "db", "true"),
                     ("-w", "soon", "db", "true"), ("-w", "-1", "db", "true"), ("-w",),
                     ("-E", "256", "db", "true"), ("-E", "x", "db", "true"),
                     ("-k", "", "db", "true"), ("-s", "NONSENSE", "db", "true"),
                     ("-s", "0", "db", "true"), ("--create=0", "db", "true"),
                     ("--create=10001", "db", "true"), ("--priority", "101", "db", "true"),
                     ("--on-lost=maybe", "db", "true"), ("--on-lost=signal:", "db", "true"),
                     ("--on-lost=run:", "db", "true"), ("--on-revoke=run:true", "db", "true"),
                     ("--status-fd", "77", "db", "true"), ("--status-fd", "0", "db", "true"),
                     ("--status-fd", "x", "db", "true"), ("db", "-q", "true"),
                     ("-c", "true", "db", "true"), ("-c", "true"),
                     ("a b", "true"), ("amq.x", "true"), ("x-1-A", "true")):
            with self.subTest(argv=argv):
                job = self.run_to_end(*argv, status=64)
                self.assertTrue(job.err.startswith("lockbroker: "), job.err)
                self.assertEqual(job.out, "")

    def test_there_is_no_such_lock(self):
        job = self.run_to_end("missing", "true", status=66)
        self.assertIn("lockbroker create missing", job.err)

    def test_errors_as_json(self):
        job = self.run_to_end("--json", "missing", "true", status=66)
        self.assertEqual(json.loads(job.err)["error"]["data"]["reason"], "no-such-lock")
        job = command(self, "/nonexistent/s", "run", "--json", "db", "true", status=69)
        self.assertEqual(json.loads(job.err)["error"]["data"]["reason"], "no-daemon")

    def test_options_end_at_the_name(self):
        self.assertEqual(self.run_to_end("db", "echo", "-n", "--json").out, "--json")
        self.assertEqual(self.run_to_end("db", "--", "echo", "-n", "x").out, "x")


class Door(unittest.TestCase):
    """A socket that cannot be opened."""

    def test_the_socket_does_not_exist(self):
        job = command(self, "/nonexistent/s", "run", "db", "true", status=69)
        self.assertIn("/nonexistent/s: No such file", job.err)
        self.assertIn("systemctl status lockbrokerd", job.err)

    def test_nobody_listens(self):
        daemon = Daemon(self)
        daemon.kill()
        job = command(self, daemon, "run", "db", "true", status=69)
        self.assertIn("Connection refused", job.err)

    def test_the_daemon_has_no_broker(self):
        daemon = Daemon(self, broker="amqp://127.0.0.1:1", expect=["lock connection"])
        job = command(self, daemon, "run", "-n", "db", "true", status=69)
        self.assertIn("lockbroker info", job.err)

    def test_the_path_is_too_long(self):
        command(self, "/" + "x" * 200, "run", "db", "true", status=64)

    def test_this_user_may_not_open_the_socket(self):
        daemon = Daemon(self)
        more = {}
        if os.getuid() == 0:
            # A copy that other users cannot read.
            copy = os.path.join(daemon.dir, "lockbroker")
            with open(Job(self, daemon, "--version").process.args[0], "rb") as source:
                with open(copy, "wb") as target:
                    target.write(source.read())
            os.chmod(copy, 0o755)
            os.chmod(daemon.dir, 0o711)
            more = {"user": 65534, "group": 65534, "extra_groups": [], "binary": copy, "cwd": "/"}
        mode = 0o600 if more else 0
        os.chmod(daemon.socket, mode)
        job = command(self, daemon, "run", "db", "true", status=77, **more)
        self.assertIn("Permission denied", job.err)
        self.assertIn(f"(mode {mode:04o}, group ", job.err)
        self.assertIn("socket-group", job.err)
        self.assertNotIn("usermod", job.err)
        os.chmod(daemon.socket, 0o660)
        if more:
            job = command(self, daemon, "run", "db", "true", status=77, **more)
            self.assertIn("(mode 0660, group root) is closed to groups", job.err)
            os.chown(daemon.socket, -1, 1)
            job = command(self, daemon, "run", "db", "true", status=77, **more)
            self.assertIn("(mode 0660) is open to group daemon", job.err)
            # The file is ours to run, but not the socket's folder ours to enter.
            closed = os.path.join(daemon.dir, "closed")
            os.mkdir(closed, 0o700)
            job = command(self, closed + "/s", "run", "db", "true", status=77, **more)
            self.assertIn("no permission to search a directory", job.err)

    def test_a_path_that_is_no_socket(self):
        job = command(self, "/etc/passwd", "run", "db", "true", status=69)
        self.assertIn("/etc/passwd is a file, not a socket", job.err)
        self.assertNotIn("systemctl", job.err)
        job = command(self, "/etc", "info", status=69)
        self.assertIn("/etc is a directory, not a socket", job.err)


class Child(RunCase):
    def test_has_stdin(self):
        job = self.run_job("db", "tr", "a-z", "A-Z", stdin=subprocess.PIPE)
        job.process.stdin.write(b"words\n")
        job.process.stdin.close()
        job.wait(0)
        self.assertEqual(job.out, "WORDS\n")

    def test_shell_string(self):
        self.assertEqual(self.run_to_end("-c", "echo one | tr o O; exit 4", "db", status=4).out, "One\n")

    def test_environment(self):
        job = self.run_to_end("db", "sh", "-c",
                              "echo $LOCKBROKER_NAME $LOCKBROKER_SLOT $LOCKBROKER_LOCK $LOCKBROKER_SOCKET")
        name, slot, lock, path = job.out.split()
        self.assertEqual((name, slot, path), ("db", "1", self.daemon.socket))
        self.assertRegex(lock, r"^\w+-\d+$")

    def test_socket_of_the_environment_is_absolute(self):
        job = self.run_to_end("--socket", "./s", "db", "sh", "-c", "cd /; echo $LOCKBROKER_SOCKET",
                              cwd=self.daemon.dir, binary=os.path.abspath(
                                  Job(self, self.daemon, "--version").process.args[0]))
        self.assertEqual(job.out.strip(), self.daemon.socket)

    def test_can_verify_its_lock(self):
        lockbroker = Job(self, self.daemon, "--version").process.args[0]
        job = self.run_to_end("db", lockbroker, "verify")
        self.assertEqual(job.out, "held, slot 1\n")

    def test_has_no_descriptor_of_ours(self):
        read, write = os.pipe()
        job = self.run_to_end("--status-fd", str(write), "db", "sh", "-c", "ls -l /proc/$$/fd",
                              fds=(write,))
        os.close(read)
        os.close(write)
        fds = [line.split("->")[0].split()[-1] for line in job.out.splitlines() if "->" in line]
        self.assertLessEqual(set(fds), {"0", "1", "2"}, job.out)

    def test_is_in_the_group_of_run_and_the_guard_is_not(self):
        for options in (), ("--foreground",):
            job = self.run_job(*options, "db", "sh", "-c", "echo pid $$; sleep 60")
            pid, guard = pid_of(job), guard_of(job.pid)
            self.assertEqual(group(pid), job.pid)
            self.assertEqual(group(guard), guard)
            self.assertEqual(int(proc(pid, 4)), guard)
            job.signal(signal.SIGTERM)
            job.wait(143)

    def test_has_the_signals_that_run_was_started_with(self):
        grep = ("^Sig[BI]", "/proc/self/status")
        for ignored in (signal.SIGUSR2, signal.SIGCHLD, signal.SIGPIPE):
            with self.subTest(ignored=ignored):
                def ignore(signo=ignored):
                    signal.signal(signo, signal.SIG_IGN)
                    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
                alone = command(self, self.daemon, *grep, binary="/bin/grep", preexec_fn=ignore)
                job = self.run_to_end("db", "grep", *grep, preexec_fn=ignore)
                self.assertEqual(job.out, alone.out)

    def test_dies_with_run(self):
        job = self.run_job("db", "sh", "-c", "echo pid $$; exec sleep 60")
        pid = pid_of(job)
        job.process.kill()
        job.wait(-9)
        wait_until(lambda: gone(pid), what="the child is gone")
        wait_until(lambda: not self.taken(), what="the slot is free")


class Signals(RunCase):
    def test_are_forwarded(self):
        for name in ("HUP", "INT", "QUIT", "TERM", "USR1", "USR2"):
            with self.subTest(name=name):
                job = self.run_job("db", "bash", "-c", TRAP.format(name))
                pid_of(job)
                job.signal(getattr(signal, "SIG" + name))
                job.wait(9)
                self.assertIn(f"got {name}", job.out)

    def test_reach_the_whole_group(self):
        script = '(trap "echo inner; exit" USR1; echo ready; while :; do sleep 0.05; done) & ' + \
            TRAP.format("USR1")
        job = self.run_job("db", "bash", "-c", script)
        job.wait_out("ready")
        pid_of(job)
        job.signal(signal.SIGUSR1)
        job.wait(9)
        self.assertIn("inner", job.out)

    def test_ignored_ones_stay_ignored(self):
        job = self.run_job("db", "bash", "-c", TRAP.format("USR1"),
                           preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        pid_of(job)
        job.signal(signal.SIGHUP)
        job.signal(signal.SIGUSR1)
        job.wait(9)

    def test_stop_and_continue_both(self):
        # Not as the leader of a session, which the kernel does not stop.
        job = self.run_job("db", "bash", "-c", TRAP.format("USR1"), session=False, process_group=0)
        pid = pid_of(job)
        job.signal(signal.SIGTSTP)
        wait_until(lambda: state(pid) == "T" and state(job.pid) == "T", what="both are stopped")
        self.assertTrue(self.taken())
        job.signal(signal.SIGCONT)
        wait_until(lambda: state(pid) != "T" and state(job.pid) != "T", what="both go on")
        job.signal(signal.SIGUSR1)
        job.wait(9)

    def test_a_stopped_child_is_killed_when_the_lock_is_lost(self):
        job = self.run_job("db", "sh", "-c", "echo pid $$; exec sleep 60")
        pid = pid_of(job)
        os.kill(pid, signal.SIGSTOP)
        wait_until(lambda: state(pid) == "T", what="the child is stopped")
        self.expect_loss()
        self.daemon.kill()
        # TERM would wait for a CONT.
        job.wait(79)
        self.assertTrue(gone(pid))


class Reaper(RunCase):
    def test_an_orphan_holds_the_release_back(self):
        job = self.run_job("db", "sh", "-c", "setsid sleep 60 & echo pid $!; exit 5")
        orphan = pid_of(job)
        wait_until(lambda: int(proc(orphan, 4)) == guard_of(job.pid), what="the orphan is the guard's")
        self.assertTrue(self.taken())
        self.assertTrue(job.running())
        os.kill(orphan, signal.SIGKILL)
        job.wait(5)
        self.assertFalse(self.taken())

    def test_remaining_processes_are_reported_once(self):
        read, write = os.pipe()
        script = "setsid sleep 60 & echo pid $!; sleep 60 & echo $!; exit 5"
        job = self.run_job("--status-fd", str(write), "db", "sh", "-c", script, fds=(write,))
        os.close(write)
        orphan = pid_of(job)
        wait_until(lambda: "waiting" in job.err, what="it says so")
        other = int(job.out.split()[2])
        self.assertRegex(job.err, "^lockbroker: db: waiting for 2 processes that the command started: "
                         rf"(sleep \(({orphan}|{other})\)(, |$)){{2}}")
        for pid in orphan, other:
            os.kill(pid, signal.SIGKILL)
        job.wait(5)
        self.assertEqual(job.err.count("waiting for"), 1)
        with open(read, encoding="ascii") as file:
            events = [json.loads(line) for line in file]
        self.assertEqual([event["event"] for event in events], ["granted", "left-behind", "released", "exit"])
        self.assertEqual(events[1], {"event": "left-behind", "processes": 2})

    def test_orphans_get_the_signals_too(self):
        job = self.run_job("db", "sh", "-c", "setsid sleep 60 & echo pid $!")
        orphan = pid_of(job)
        wait_until(lambda: int(proc(orphan, 4)) == guard_of(job.pid), what="the orphan is the guard's")
        job.signal(signal.SIGTERM)
        job.wait(0)
        self.assertTrue(gone(orphan))

    def test_a_signal_that_comes_with_the_end_of_the_command(self):
        """The guard finds both at once: the end of the command, and a signal for those that it left behind."""
        for options in ((), ("--foreground",)):
            with self.subTest(options=options):
                job = self.run_job(*options, "db", "sh", "-c",
                                   "setsid sleep 60 & echo pid $!; echo $$; read x; exit 4",
                                   stdin=subprocess.PIPE)
                orphan = pid_of(job)
                wait_until(lambda job=job: job.out.count("\n") == 2, what="the command's own pid")
                child = int(job.out.split()[2])
                wait_until(lambda orphan=orphan: group(orphan) == orphan, what="it has left the group")
                guard = guard_of(job.pid)
                os.kill(guard, signal.SIGSTOP)
                wait_until(lambda guard=guard: state(guard) == "T", what="the guard is stopped")
                job.process.stdin.close()
                wait_until(lambda child=child: state(child) == "Z", what="the command has ended")
                job.signal(signal.SIGTERM)
                wait_until(lambda job=job: not int(pending(job.pid), 16) & 1 << signal.SIGTERM - 1, what="run has it")
                os.kill(guard, signal.SIGCONT)
                job.wait(4)
                self.assertTrue(gone(orphan))


class Waiting(RunCase):
    def hold(self, name="db"):
        peer = Wire(self.daemon)
        return peer, peer.call("acquire", name=name, timeout=0)["lock"]

    def test_nonblock_and_its_status(self):
        self.hold()
        self.run_to_end("-n", "db", "true", status=75)
        self.run_to_end("--nonblock", "-E", "4", "db", "true", status=4)
        self.run_to_end("--conflict-exit-code=0", "-w0", "db", "false", status=0)
        self.run_to_end("-w", "0.1", "-E", "4", "db", "true", status=4)
        # A cron job would mail its words.
        for options in ("-n",), ("-w", "0.1"):
            self.assertEqual(self.run_to_end(*options, "-E", "0", "db", "true", status=0).err, "")
        for option, words in ("--verbose", "every slot is busy"), ("--json", "would-block"):
            self.assertIn(words, self.run_to_end("-n", "-E", "0", option, "db", "true", status=0).err)
        # Only what was not got in time: not what does not exist.
        self.run_to_end("-n", "-E", "4", "missing", "true", status=66)

    def test_wait_ends(self):
        self.hold()
        began = time.monotonic()
        self.run_to_end("-w", "0.3", "db", "true", status=75)
        self.assertGreaterEqual(time.monotonic() - began, 0.3)

    def test_gets_it_when_it_is_free(self):
        peer, lock = self.hold()
        job = self.run_job("-w", "1m", "db", "echo", "mine")
        self.daemon.wait_log("requested db", count=2)
        self.assertEqual(job.out, "")
        peer.call("release", lock=lock)
        job.wait(0)
        self.assertEqual(job.out, "mine\n")

    def test_any_signal_ends_it(self):
        self.hold()
        for count, name in enumerate(("HUP", "INT", "QUIT", "TERM", "USR1", "USR2"), 2):
            with self.subTest(name=name):
                job = self.run_job("db", "echo", "never")
                self.daemon.wait_log("requested db", count=count)
                job.signal(getattr(signal, "SIG" + name))
                signo = getattr(signal, "SIG" + name)
                job.wait(-signo if name in ("INT", "QUIT") else 128 + signo)
                self.assertEqual(job.out, "")

    def test_reports_the_wait_on_a_status_fd(self):
        peer, lock = self.hold()
        read, write = os.pipe()
        job = self.run_job("--status-fd", str(write), "db", "true", fds=(write,))
        os.close(write)
        with open(read, encoding="utf-8") as lines:
            waiting = json.loads(lines.readline())
            self.assertEqual((waiting["event"], waiting["position"]), ("waiting", 1))
            peer.call("release", lock=lock)
            granted, released, ended = (json.loads(line) for line in lines)
        self.assertEqual((granted["event"], granted["name"], granted["slot"]), ("granted", "db", 1))
        self.assertEqual((released["event"], released["lock"]), ("released", granted["lock"]))
        self.assertEqual(ended, {"event": "exit", "status": 0})
        job.wait(0)

    def test_a_status_reader_that_does_not_read_delays_nothing(self):
        read, write = os.pipe()
        os.set_blocking(write, False)
        try:
            while True:
                os.write(write, b"x" * 65536)
        except BlockingIOError:
            os.set_blocking(write, True)
        self.run_to_end("--status-fd", str(write), "db", "true", fds=(write,))
        os.close(read)
        self.run_to_end("--status-fd", str(write), "db", "true", fds=(write,))
        os.close(write)

    def test_warns_inside_a_run_of_the_same_name(self):
        command(self, self.daemon, "create", "two", "2")
        lockbroker = Job(self, self.daemon, "--version").process.args[0]
        job = self.run_to_end("two", lockbroker, "run", "two", "true")
        self.assertIn("runs under a lockbroker run", job.err)
        self.assertEqual(self.run_to_end("two", lockbroker, "run", "db", "true").err, "")
        self.assertEqual(self.run_to_end("two", lockbroker, "run", "-n", "two", "true").err, "")
        job = self.run_to_end("two", lockbroker, "run", "db", lockbroker, "run", "two", "true")
        self.assertIn("two: this command runs under a lockbroker run", job.err)
        self.assertEqual(self.run_to_end("two", lockbroker, "run", "--mutex", "two", "true").err, "")
        job = self.run_to_end("--mutex", "deploy", lockbroker, "run", "--mutex", "--wait=0.1", "deploy", "true", status=75)
        self.assertIn("deploy: this command runs under", job.err)

    def test_is_quiet_unless_verbose(self):
        self.assertEqual(self.run_to_end("db", "true").err, "")
        self.assertIn("granted", self.run_to_end("--verbose", "db", "true").err)

    def test_tells_the_service_manager(self):
        peer, lock = self.hold()
        path = os.path.join(self.daemon.dir, "job-notify")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
            notify.bind(path)
            notify.settimeout(60)
            job = self.run_job("db", "true", env={"NOTIFY_SOCKET": path})
            self.assertRegex(notify.recv(4096).decode(), "^STATUS=waiting for db: position 1")
            peer.call("release", lock=lock)
            self.assertEqual(notify.recv(4096).decode(), "STATUS=holding db")
            self.assertEqual(notify.recv(4096).decode(), "READY=1")
            job.wait(0)


    def test_a_frozen_daemon_is_no_conflict(self):
        """The manual's cron job must not end in silence without having run."""
        self.daemon.freeze()
        job = self.run_job("-n", "-E", "0", "db", "echo", "never")
        job.wait(69)
        self.daemon.thaw()
        self.assertEqual(job.out, "")
        self.assertIn("db: the daemon does not answer", job.err)


class Create(RunCase):
    def size(self, name):
        return command(self, self.daemon, "size", name).out.strip()

    def test_creates_a_missing_semaphore(self):
        self.run_to_end("--create", "one", "true")
        self.assertEqual(self.size("one"), "1")
        self.run_to_end("--create=3", "three", "true")
        self.assertEqual(self.size("three"), "3")

    def test_create_leaves_an_existing_semaphore_as_it_is(self):
        self.run_to_end("--create=3", "db", "true")
        self.assertEqual(self.size("db"), "1")

    def test_two_at_once(self):
        jobs = [self.run_job("--create", "race", "true") for _ in range(4)]
        for job in jobs:
            job.wait(0)

    def test_a_mutex_needs_no_create(self):
        job = self.run_job("--mutex", "m", "sh", "-c", "echo pid $$ slot=$LOCKBROKER_SLOT; sleep 60")
        pid_of(job)
        self.assertIn("slot=\n", job.out)
        self.run_to_end("--mutex", "-n", "m", "true", status=75)


class Lost(RunCase):
    options = ("--heartbeat", "60")  # the lease would end after 108 s, and the default kill-after after 24 s

    def kill_daemon(self):
        self.expect_loss()
        self.daemon.kill()

    def test_terminates_at_once(self):
        job = self.run_job("db", "bash", "-c", TRAP.format("TERM"))
        pid_of(job)
        self.kill_daemon()
        job.wait(79)
        self.assertIn("got TERM", job.out)
        self.assertIn("db: lost: the daemon closed the connection", job.err)

    def test_with_the_signal_of_choice(self):
        job = self.run_job("-s", "INT", "db", "bash", "-c", TRAP.format("INT"))
        pid_of(job)
        self.kill_daemon()
        job.wait(79)
        self.assertIn("got INT", job.out)

    def test_kills_processes_that_stay(self):
        stubborn = 'trap "" TERM; while :; do sleep 0.05; done'
        job = self.run_job("-k", "0.3", "db", "bash", "-c",
                           f"setsid bash -c '{stubborn}' & echo pid $!; {stubborn}")
        orphan = pid_of(job)
        began = time.monotonic()
        self.kill_daemon()
        job.wait(79)
        self.assertGreaterEqual(time.monotonic() - began, 0.3)
        self.assertTrue(gone(orphan))

    def test_adopted_orphans_are_told_to_end_while_the_command_lives(self):
        """The first signal reaches them though they are outside of the command's group."""
        script = f"(setsid bash -c '{TRAP.format('TERM')}' &); trap 'read x; exit 9' TERM; echo command; " + \
            "while :; do sleep 0.05; done"
        job = self.run_job("-k", "10", "db", "bash", "-c", script, stdin=subprocess.PIPE)
        orphan = pid_of(job)
        wait_until(lambda: int(proc(orphan, 4)) == guard_of(job.pid), what="the orphan is the guard's")
        job.wait_out("command")
        self.kill_daemon()
        job.wait_out("got TERM")
        self.assertTrue(job.running())
        job.process.stdin.close()
        job.wait(79)

    def test_ignored(self):
        read, write = os.pipe()
        job = self.run_job("--on-lost=ignore", "--status-fd", "2", "db", "sh", "-c",
                           "echo ready; read x; echo done; exit 3", stdin=read)
        job.wait_out("ready")
        self.kill_daemon()
        wait_until(lambda: '"event":"lost"' in job.err, what="it says lost")
        os.write(write, b"go\n")
        job.wait(79)
        os.close(read)
        os.close(write)
        self.assertIn("done", job.out)

    def test_by_a_signal_alone(self):
        job = self.run_job("--on-lost=signal:USR1", "-k", "0", "db", "bash", "-c", TRAP.format("USR1"))
        pid_of(job)
        self.kill_daemon()
        job.wait(79)
        self.assertIn("got USR1", job.out)

    def test_by_a_command(self):
        job = self.run_job("--on-lost=run:echo about $LOCKBROKER_NAME", "db", "sh", "-c",
                           "echo ready; read x", stdin=subprocess.PIPE)
        job.wait_out("ready")
        self.kill_daemon()
        job.wait_out("about db")
        self.assertTrue(job.running())
        job.process.stdin.close()
        job.wait(79)

    def test_a_command_after_a_loss_is_waited_for(self):
        """Also where `run` does not wait for what COMMAND leaves behind."""
        fifo = os.path.join(self.daemon.dir, "fifo")
        os.mkfifo(fifo)
        gate = os.open(fifo, os.O_RDWR)
        self.addCleanup(os.close, gate)
        job = self.run_job("--release-on=exit", f"--on-lost=run:echo begun; read x <{fifo}; echo done $x", "db", "sh", "-c",
                           "echo pid $$; read x", stdin=subprocess.PIPE)
        pid = pid_of(job)
        self.kill_daemon()
        job.wait_out("begun")
        job.process.stdin.close()
        wait_until(lambda: gone(pid), what="the command has ended")
        # More than the time that it takes to end.
        for _ in range(10):
            subprocess.run([program("lockbroker"), "--version"], stdout=subprocess.DEVNULL, check=True)
        self.assertTrue(job.running())
        os.write(gate, b"well\n")
        job.wait(79)
        self.assertIn("done well", job.out)

    def test_the_daemon_ends_during_the_wait(self):
        peer = Wire(self.daemon)
        peer.call("acquire", name="db", timeout=0)
        job = self.run_job("db", "true")
        self.daemon.wait_log("requested db", count=2)
        self.kill_daemon()
        job.wait(69)


class Stopping(RunCase):
    options = ("--stop-timeout", "5")

    def test_ends_the_child_and_gives_the_lock_back(self):
        script = 'trap "sleep 0.3; echo ended; exit 5" TERM; echo pid $$; while :; do sleep 0.05; done'
        job = self.run_job("db", "bash", "-c", script)
        pid_of(job)
        self.daemon.stop()
        job.wait(5)
        self.assertIn("ended", job.out)
        log = self.daemon.log()
        self.assertRegex(log, "released db")
        self.assertNotRegex(log, r"lost db")

    def test_kills_a_stubborn_child_before_the_lock_is_taken_away(self):
        job = self.run_job("db", "bash", "-c", 'trap "" TERM; echo pid $$; while :; do sleep 0.05; done')
        pid_of(job)
        self.daemon.stop()
        job.wait(137)
        self.assertNotRegex(self.daemon.log(), r"lost db")

    def test_a_loss_that_is_ignored_is_a_stop_that_is_ignored(self):
        self.expect_loss()
        job = self.run_job("--on-lost=ignore", "db", "sh", "-c", "echo ready; read x; exit 3",
                           stdin=subprocess.PIPE)
        job.wait_out("ready")
        self.daemon.stop()
        self.assertTrue(job.running())
        job.process.stdin.close()
        job.wait(79)

    def test_a_stopping_daemon_refuses_waiters(self):
        peer = Wire(self.daemon)
        peer.call("acquire", name="db", timeout=0)
        job = self.run_job("db", "true")
        self.daemon.wait_log("requested db", count=2)
        self.daemon.signal(signal.SIGTERM)
        job.wait(69)
        peer.hang_up()
        self.daemon.wait_exit(0)


if __name__ == "__main__":
    tap.main()
