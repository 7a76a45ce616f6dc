"""lockbroker run against a daemon that misbehaves, or that does what the real one cannot do yet."""

import getpass
import json
import os
import signal
import socket
import subprocess
import time
import unittest

import tap
from cli import Job, command, gone
from fake import GRANT, Fake, error, line, notification, reply
from wait import wait_until

LOCK = {"lock": "f-1", "name": "db", "slot": 1}
SLEEPER = 'trap "echo got {0}; exit 9" {0}; echo pid $$; while :; do sleep 0.05; done'
STUBBORN = 'trap "" TERM; echo pid $$; while :; do sleep 0.05; done'


class TroubleCase(unittest.TestCase):
    def run_to_end(self, fake, *argv, status):
        return command(self, fake, "run", *argv, status=status)

    def start(self, fake, *argv, **more):
        job = Job(self, fake, "run", *argv, **more)
        job.wait_out("pid ")
        return job


class Answers(TroubleCase):
    """Answers that are no grant."""

    def test_nonsense(self):
        for what in (b"garbage\n", b"\xff\xfe\n", b"{}\n", b"[]\n", b"7\n", b"{\"jsonrpc\":\n",
                     line({"id": 1}), line({"id": 99, "result": GRANT}),
                     line({"id": "1", "result": GRANT}), line({"id": None, "result": GRANT}),
                     line({"id": 1, "result": {**GRANT, "lock": 7}}),
                     line({"id": 1, "result": {**GRANT, "slot": "one"}}),
                     line({"id": 1, "result": {**GRANT, "lock": "x" * 65}}),
                     line({"id": 1, "result": {**GRANT, "name": "x" * 201}}),
                     b"[" * 100000 + b"\n",
                     line({"id": None, "error": error(-32700, "parse-error", "not JSON")})):
            with self.subTest(what[:60]):
                job = self.run_to_end(Fake(self, acquire=what), "db", "echo", "never", status=70)
                self.assertEqual(job.out, "")
                self.assertTrue(job.err)

    def test_the_end(self):
        for what in (Fake.CLOSE, lambda request, connection: connection.sendall(
                reply(request, result=GRANT)[:-20]) or Fake.CLOSE):
            job = self.run_to_end(Fake(self, acquire=what), "db", "echo", "never", status=69)
            self.assertEqual(job.out, "")

    def test_last_words_before_the_end(self):
        def stopping(request, connection):
            connection.sendall(reply(request, error=error(14, "draining", "lockbrokerd is stopping")))
            return Fake.CLOSE
        job = self.run_to_end(Fake(self, acquire=stopping), "db", "true", status=69)
        self.assertIn("lockbrokerd is stopping", job.err)

    def test_more_than_is_known(self):
        def generous(request, connection):
            connection.sendall(line({"method": "news", "params": {"new": [1]}}))
            connection.sendall(b"\r\n\n" + line({"method": "lost", "params": {**LOCK, "lock": "f-0"}}))
            connection.sendall(reply(request, result={**GRANT, "new": {"more": True}}, more=1))
            connection.sendall(line({"method": "lost", "params": {**LOCK, "lock": "f-2"}}))
        self.run_to_end(Fake(self, acquire=generous), "db", "sh", "-c", "exit 3", status=3)

    def test_a_word_by_itself(self):
        def slow(request, connection):
            for byte in reply(request, result=GRANT):
                connection.sendall(bytes([byte]))
        self.run_to_end(Fake(self, acquire=slow), "db", "true", status=0)

    def test_every_refusal_has_its_status(self):
        for code, reason, status in (
                (1, "would-block", 75), (2, "timeout", 75), (3, "contended", 75), (4, "cancelled", 75),
                (5, "no-such-lock", 66), (10, "permission-denied", 77), (11, "too-many-requests", 75),
                (12, "too-many-locks", 75), (13, "too-many-waiters", 75), (14, "draining", 69),
                (15, "broker-unavailable", 69), (16, "broker-blocked", 69), (17, "broker-refused", 78),
                (-32601, "method-not-found", 64), (-32602, "invalid-params", 64),
                (-32603, "internal", 70), (4711, "from-the-future", 70)):
            with self.subTest(reason=reason):
                fake = Fake(self, acquire=lambda request, _, e=error(code, reason, "the words"):
                            reply(request, error=e))
                self.assertIn("the words", self.run_to_end(fake, "db", "true", status=status).err)
                # Others have it, and it was not got in time: nothing else is a conflict.
                conflict = reason in ("would-block", "timeout", "contended")
                self.run_to_end(fake, "-E", "4", "db", "true", status=4 if conflict else status)
                # The words of all else are a cron job's mail.
                job = self.run_to_end(fake, "-E", "0", "db", "true", status=0 if conflict else status)
                self.assertEqual("the words" in job.err, not conflict)

    def test_silence(self):
        """For longer than `request-timeout`, which the daemon has beyond the wait to finish a try."""
        began = time.monotonic()
        job = Job(self, Fake(self, acquire=None), "run", "-w", "0.1", "-E", "0", "db", "true")
        job.wait(69, 60)
        self.assertIn("does not answer", job.err)
        self.assertGreaterEqual(time.monotonic() - began, 15)

    def test_the_acquire_has_all_options(self):
        fake = Fake(self)
        self.run_to_end(fake, "-w", "1.5", "--priority", "-3", "--who", "me", "--why", "b\u00e4ckup",
                        "--mutex", "db", "/bin/echo", "--password=x", status=0)
        asked = fake.asked("acquire")[0]["params"]
        # Other users can read it.
        self.assertEqual(asked.pop("command"), "echo")
        self.assertEqual(asked, {"name": "db", "kind": "mutex", "lease": True, "timeout": 1.5,
                                 "priority": -3, "progress": True, "who": "me", "why": "b\u00e4ckup"})
        self.run_to_end(fake, "-n", "--command-text", "true, for a test", "db", "true", status=0)
        self.assertEqual(fake.asked("acquire")[1]["params"],
                         {"name": "db", "lease": True, "timeout": 0, "command": "true, for a test",
                          "who": f"{getpass.getuser()}@{socket.gethostname()}"})

    def test_create_goes_with_the_acquire(self):
        fake = Fake(self, acquire=lambda request, _: reply(request, error=error(5, "no-such-lock")))
        self.run_to_end(fake, "--create=7", "db", "true", status=66)
        self.assertEqual([r["params"]["create"] for r in fake.asked("acquire")], [7])
        self.assertEqual(fake.asked("create"), [])


class WhileWaiting(TroubleCase):
    """Without a terminal, a word is said of trouble that lasts, but not of busy slots."""

    DOWN = ("broker", {"state": "down", "why": "connection refused"})
    UP = ("broker", {"state": "up", "why": ""})
    POSITION = ("waiting", {"id": 1, "position": 1, "busy": 1})
    SILENT = "lockbroker: db: waiting, no answer from lockbrokerd yet\n"
    AWAY = "lockbroker: db: waiting, the broker is down: connection refused\n"

    def setUp(self):
        self.fake = Fake(self, acquire=None)
        self.count = 0

    def wait_for(self, *told, argv=("run", "db", "true"), **more):
        """A command that waits, and has been told that."""
        job = Job(self, self.fake, *argv, **more)
        self.count += 1
        self.fake.wait_asked("acquire", self.count)
        self.tell(*told)
        return job

    def wait_with_events(self, *told):
        """The same with --status-fd: its lines are job.events."""
        read, write = os.pipe()
        job = self.wait_for(argv=("run", "--status-fd", str(write), "db", "true"), fds=(write,))
        os.close(write)
        job.events = open(read, encoding="utf-8")
        self.addCleanup(job.events.close)
        self.tell_apart(job, *told)
        return job

    def tell(self, *told):
        self.fake.connections[-1].sendall(b"".join(notification(*one) for one in told))

    def tell_apart(self, job, *told):
        """Each is handled before the next one, which could replace it."""
        for one in told:
            self.tell(one, self.POSITION)
            self.assertIn("waiting", job.events.readline())

    def wait_err(self, job, text):
        wait_until(lambda: text in job.err, what="it says a word")
        self.assertEqual(job.err, text)

    def end(self, job, connection, err=""):
        self.fake.connections[connection].sendall(reply({"id": 1}, result=GRANT))
        job.wait(0)
        self.assertEqual(job.err, err)

    def test_a_word_of_trouble_that_lasts(self):
        run = ("run", "db", "true")
        cases = (((), run, self.SILENT), ((self.POSITION, self.DOWN), run, self.AWAY),
                 ((self.DOWN, self.POSITION), run, self.AWAY), ((), ("run", "--verbose", "db", "true"), self.SILENT),
                 # This is no conflict: a conflict would be passed over in silence.
                 ((), ("run", "-w", "60", "-E", "0", "db", "true"), self.SILENT),
                 ((), ("acquire", "--for-pid", str(os.getpid()), "db"), self.SILENT))
        jobs = [self.wait_for(*told, argv=argv) for told, argv, _ in cases]
        for job, (told, argv, words) in zip(jobs, cases):
            with self.subTest(told=told, argv=argv):
                self.wait_err(job, words)
        self.end(jobs[0], 0, self.SILENT)

    def test_nothing_is_said(self):
        """Each of these would have said it before the last one, which began later."""
        quiet = [self.wait_with_events(self.POSITION), self.wait_with_events(self.DOWN)]
        self.tell(self.UP)
        quiet += [self.wait_for(*told, argv=("run", option, "db", "true"))
                  for option, told in (("--json", ()), ("--json", (self.DOWN,)), ("-n", ()))]
        self.wait_err(self.wait_for(), self.SILENT)
        for number, job in enumerate(quiet):
            with self.subTest(argv=job.argv, number=number):
                self.end(job, number)

    def test_verbose_says_of_the_broker_at_once_and_only_then(self):
        verbose = self.wait_for(self.DOWN, argv=("run", "--verbose", "db", "true"))
        self.wait_err(verbose, self.AWAY)
        self.wait_err(self.wait_for(self.DOWN), self.AWAY)
        self.assertEqual(verbose.err, self.AWAY)

    def test_first_the_daemon_and_then_the_broker(self):
        job = self.wait_for()
        self.wait_err(job, self.SILENT)
        self.tell(self.DOWN)
        self.wait_err(job, self.SILENT + self.AWAY)

    def test_trouble_that_comes_again_at_once_is_told_once(self):
        job = self.wait_with_events(self.DOWN)
        # Each attempt to connect may be told.
        wait_until(lambda: self.tell(self.DOWN) or self.AWAY in job.err, what="it says a word")
        self.tell_apart(job, self.UP, self.DOWN)
        self.wait_err(self.wait_for(self.DOWN), self.AWAY)
        self.end(job, 0, self.AWAY)


class WhileRunning(TroubleCase):
    def test_every_kind_of_loss(self):
        for what in (("lost", {**LOCK, "reason": "broker-unavailable"}), b"garbage\n",
                     line({"id": 77, "result": {}}), b"x" * 5000000, Fake.CLOSE):
            with self.subTest(what=str(what)[:40]):
                fake = Fake(self)
                job = self.start(fake, "db", "bash", "-c", SLEEPER.format("TERM"))
                if what is Fake.CLOSE:
                    fake.close()
                else:
                    try:
                        fake.say(what)
                    except OSError:
                        pass  # it hangs up in the middle of too long a line
                job.wait(79)
                self.assertIn("got TERM", job.out)
                self.assertEqual(fake.asked("release"), [])

    def test_a_loss_in_the_same_breath_as_the_grant(self):
        def both(request, connection):
            connection.sendall(reply(request, result=GRANT) +
                               line({"method": "lost", "params": {**LOCK, "reason": "lost"}}))
        job = command(self, Fake(self, acquire=both), "run", "db", "echo", "never", status=79)
        self.assertEqual(job.out, "")

    def test_a_loss_that_the_release_tells(self):
        fake = Fake(self, release=lambda request, _: reply(request, error=error(8, "lost")))
        self.run_to_end(fake, "db", "true", status=79)

    def test_a_release_that_is_not_answered(self):
        job = self.run_to_end(Fake(self, release=None), "db", "sh", "-c", "exit 3", status=3)
        self.assertIn("release", job.err)

    def test_lost_is_told_on_the_status_fd(self):
        read, write = os.pipe()
        fake = Fake(self)
        job = self.start(fake, "--status-fd", str(write), "db", "bash", "-c", SLEEPER.format("TERM"),
                         fds=(write,))
        os.close(write)
        fake.say(("lost", {**LOCK, "reason": "lost"}))
        job.wait(79)
        with open(read, encoding="utf-8") as lines:
            granted, lost, ended = (json.loads(one) for one in lines)
        self.assertEqual(granted, {"event": "granted", **GRANT})
        self.assertEqual(lost, {"event": "lost", **LOCK, "reason": "lost"})
        self.assertEqual(ended, {"event": "exit", "status": 79})

    def test_revoked_is_ignored(self):
        for options, says in (((), False), (("--verbose",), True)):
            with self.subTest(options=options):
                read, write = os.pipe()
                told, tell = os.pipe()
                fake = Fake(self)
                job = self.start(fake, *options, "--status-fd", str(tell), "db", "sh", "-c",
                                 "echo pid $$; read x; exit 3", stdin=read, fds=(tell,))
                os.close(tell)
                fake.say(("revoked", {**LOCK, "reason": "revoked"}))
                with open(told, encoding="utf-8") as lines:
                    self.assertIn("granted", lines.readline())
                    self.assertIn("revoked", lines.readline())
                    os.write(write, b"\n")
                    job.wait(3)
                os.close(read)
                os.close(write)
                self.assertEqual("db: the slot was removed, and is kept until the lock is released" in job.err, says, job.err)
                self.assertEqual(len(fake.asked("release")), 1)

    def test_no_lease_is_no_loss(self):
        """A hold without a slot has no lease, so nothing ends it but its release and its connection."""
        fake = Fake(self, acquire={**GRANT, "slot": None, "safe_for": None, "safe_until": None, "lease": None})
        job = self.start(fake, "-k", "100", "db", "bash", "-c", SLEEPER.format("TERM"))
        fake.say(("lease", {"safe_until": 0.001}))
        fake.say(("broker", {"state": "down", "why": "gone"}))
        job.signal(signal.SIGTERM)
        job.wait(9)
        self.assertNotIn("lost", job.err)
        self.assertEqual(len(fake.asked("release")), 1)

    def test_revoked_and_acted_on(self):
        for reaction, name in (("kill", "TERM"), ("signal:USR2", "USR2")):
            with self.subTest(reaction=reaction):
                fake = Fake(self)
                job = self.start(fake, f"--on-revoke={reaction}", "db", "bash", "-c", SLEEPER.format(name))
                fake.say(("revoked", {**LOCK, "reason": "revoked"}))
                job.wait(81)
                self.assertIn("got " + name, job.out)
                self.assertEqual(len(fake.asked("release")), 1)

    def test_revoked_and_stubborn(self):
        fake = Fake(self)
        job = self.start(fake, "--on-revoke=kill", "-k", "0.2", "db", "bash", "-c", STUBBORN)
        fake.say(("revoked", {**LOCK, "reason": "revoked"}))
        job.wait(81)

    def test_a_loss_outranks_a_revoke(self):
        fake = Fake(self)
        job = self.start(fake, "--on-revoke=kill", "-k", "0.4", "db", "bash", "-c", STUBBORN)
        fake.say(("revoked", {**LOCK, "reason": "revoked"}))
        fake.close()
        job.wait(79)

    def test_a_stop_that_ends_before_its_grace(self):
        fake = Fake(self)
        job = self.start(fake, "-k", "0.3", "db", "bash", "-c", STUBBORN)
        fake.say(("draining", {"grace": 600}))
        wait_until(lambda: "is stopping" in job.err, what="it says so")
        fake.close()
        # The command got TERM long ago: only the rest of kill-after is left to it.
        job.wait(79)

    def test_kill_after_zero(self):
        fake = Fake(self)
        job = self.start(fake, "-k", "0", "db", "bash", "-c", STUBBORN)
        fake.close()
        job.wait(79)

    def test_kill_after_follows_the_heartbeat(self):
        short, long = (Fake(self, acquire={**GRANT, "lease": {"heartbeat": heartbeat, "margin": 0.2}})
                       for heartbeat in (1, 100))
        soon, late = (self.start(fake, "db", "bash", "-c", STUBBORN) for fake in (short, long))
        began = time.monotonic()
        long.close()
        wait_until(lambda: "lost" in late.err, what="the other one counts, too")
        short.close()
        soon.wait(79)
        self.assertGreaterEqual(time.monotonic() - began, 0.4)
        self.assertTrue(late.running())

    def test_descendants_do_not_escape_the_kill(self):
        # Each in a session of its own, each the child of the one before.
        script = 'trap "" TERM; echo pid $$; if [ "$1" -gt 0 ]; then setsid bash "$0" $(($1 - 1)) & fi; ' \
            'while :; do sleep 0.05; done'
        fake = Fake(self)
        path = os.path.join(fake.dir, "script")
        with open(path, "w", encoding="utf-8") as file:
            file.write(script)
        job = Job(self, fake, "run", "-k", "0.1", "db", "bash", path, "4")
        wait_until(lambda: job.out.count("pid ") == 5, what="five generations")
        fake.close()
        job.wait(79)
        for pid in job.out.replace("pid", "").split():
            self.assertTrue(gone(int(pid)), job.out)

    def test_a_stopped_daemon_delays_no_signal(self):
        fake = Fake(self, release=None)
        job = self.start(fake, "db", "bash", "-c", SLEEPER.format("TERM"))
        job.signal(signal.SIGTERM)
        wait_until(lambda: "got TERM" in job.out, what="the child got it")
        job.wait(9)

    def test_stderr_that_is_full_delays_nothing(self):
        read, write = os.pipe()
        os.set_blocking(write, False)
        try:
            while True:
                os.write(write, b"x" * 65536)
        except BlockingIOError:
            os.set_blocking(write, True)
        fake = Fake(self)
        job = self.start(fake, "-k", "0.2", "db", "bash", "-c", STUBBORN,
                         preexec_fn=lambda: os.dup2(write, 2))
        pid = int(job.out.split()[1])
        fake.close()
        wait_until(lambda: gone(pid), what="the child is killed")
        job.wait(79)
        os.close(read)
        os.close(write)


class Fence(TroubleCase):
    """The fencing number of a hold by quorum, and that there is none."""

    FENCED = {**GRANT, "fence": 9007199254740990}
    SHOWN = 'echo "[${LOCKBROKER_FENCE-unset}]"'

    def test_the_command_has_the_number_of_its_own_lock(self):
        outer, inner = Fake(self, acquire=self.FENCED), Fake(self)
        lockbroker = Job(self, inner, "--version").process.args[0]
        nested = f"{self.SHOWN}; {lockbroker} run --socket {inner.socket} db sh -c '{self.SHOWN}'; {self.SHOWN}"
        job = command(self, outer, "run", "db", "sh", "-c", nested)
        self.assertEqual(job.out, "[9007199254740990]\n[unset]\n[9007199254740990]\n")

    def test_it_is_told_with_the_grant(self):
        read, write = os.pipe()
        command(self, Fake(self, acquire=self.FENCED), "run", "--status-fd", str(write), "db", "true", fds=(write,))
        os.close(write)
        with open(read, encoding="utf-8") as lines:
            granted = next(event for event in map(json.loads, lines) if event["event"] == "granted")
        self.assertEqual(granted["fence"], 9007199254740990)

    def acquire(self, grant, *options):
        job = Job(self, Fake(self, acquire=grant), "acquire", *options, "db", stdin=subprocess.PIPE)
        job.wait_out("\n")
        job.process.stdin.close()
        job.wait(0)
        return job.out

    def test_acquire_prints_it(self):
        self.assertEqual(json.loads(self.acquire(self.FENCED))["fence"], 9007199254740990)
        for grant, shown in ((self.FENCED, "9007199254740990"), (GRANT, "unset"), ({**GRANT, "fence": None}, "unset")):
            script = f"export LOCKBROKER_FENCE=7; {self.acquire(grant, '--shell')}sh -c '{self.SHOWN}'"
            said = subprocess.run(["sh", "-euc", script], check=True, stdout=subprocess.PIPE, text=True).stdout
            self.assertEqual(said, f"[{shown}]\n")

    def test_an_invalid_number_starts_nothing(self):
        for fence in ("7", 0, 1.5, 2**53):
            job = self.run_to_end(Fake(self, acquire={**GRANT, "fence": fence}), "db", "echo", "started", status=70)
            self.assertEqual(job.out, "")


class Mutex(TroubleCase):
    def test_a_lock_without_slot(self):
        fake = Fake(self, acquire={**GRANT, "kind": "mutex", "slot": None})
        job = command(self, fake, "run", "--mutex", "db", "sh", "-c", 'echo "[$LOCKBROKER_SLOT]"')
        self.assertEqual(job.out, "[]\n")
        job = Job(self, fake, "acquire", "--shell", "db", stdin=subprocess.PIPE)
        job.wait_out("\n")
        job.process.stdin.close()
        job.wait(0)
        self.assertIn("LOCKBROKER_SLOT=''; export", job.out)


if __name__ == "__main__":
    tap.main()
