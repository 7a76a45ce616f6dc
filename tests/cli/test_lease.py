"""The client's side of the lease: `run` and `acquire` when the daemon is silent, and when they themselves were
stopped."""

import json
import math
import os
import select
import signal
import socket
import subprocess
import time
import unittest

import tap
from cli import Job, command, fill_datagrams, gone, guard_of, state
from daemon import Daemon
from fake import GRANT, Fake, notification, reply
from timing import at_most
from wait import PATIENCE, wait_until

LOCK = {"lock": "f-1", "name": "db", "slot": 1}
DEAF = 'trap "" TERM; echo pid $$; while :; do sleep 0.05; done'
OBEDIENT = 'trap "echo got TERM; exit 0" TERM; echo pid $$; while :; do sleep 0.05; done'


def now():
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def granted(ahead, **more):
    """For a Fake: a grant that is safe for so many seconds, from when it is asked for."""
    return lambda request, _: reply(request, result={
        **GRANT, "safe_for": ahead, "safe_until": now() + ahead, **more})


class LeaseCase(unittest.TestCase):
    def start(self, daemon, *argv, **more):
        """A run, and the reading end of its --status-fd."""
        read, write = os.pipe()
        job = Job(self, daemon, "run", "--status-fd", str(write), *argv, fds=(write,), **more)
        os.close(write)
        lines = os.fdopen(read, encoding="utf-8")
        self.addCleanup(lines.close)
        job.wait_out("pid ")
        return job, lines

    def pid(self, job):
        return int(job.out.split()[1])

    def next(self, lines, event, within=PATIENCE):
        """The next line on the --status-fd, which must be that event."""
        self.assertTrue(select.select([lines], [], [], within)[0], f"no {event} within {within} s")
        line = json.loads(lines.readline())
        self.assertEqual(line["event"], event)
        return line


class Frozen(LeaseCase):
    """The daemon is stopped, and its connections stay open."""

    heartbeat = 3

    def setUp(self):
        self.daemon = Daemon(self, "--heartbeat", str(self.heartbeat), "--margin", "1.5")
        command(self, self.daemon, "create", "db")

    def test_a_deaf_command_is_gone_before_the_slot_can_be_free(self):
        job, lines = self.start(self.daemon, "db", "sh", "-c", f"sh -c '{DEAF}' & {DEAF}")
        wait_until(lambda: job.out.count("pid ") == 2, what="both are there")
        lease = self.next(lines, "granted")
        asked = lease["safe_until"] + lease["lease"]["margin"] - 2 * self.heartbeat
        self.daemon.freeze()
        ending = self.next(lines, "ending")
        # The silence began after the grant. The command is told before the lease of 4.5 s is over: half a second and the
        # default kill-after of 1.2 s.
        silent_since = now() - ending["silent"]
        self.assertGreaterEqual(silent_since, asked - 0.01)
        self.assertGreaterEqual(ending["silent"], 2.8 - 0.01)
        pids = {int(word) for word in job.out.split() if word.isdigit()}
        self.assertEqual(len(pids), 2)
        self.assertFalse(any(gone(pid) for pid in pids))
        wait_until(lambda: all(gone(pid) for pid in pids), what="they are killed")
        self.assertLess(now(), silent_since + 2 * self.heartbeat)
        job.wait(79)
        self.daemon.thaw()

    def test_a_command_that_ends_in_time_was_lost_too(self):
        job, lines = self.start(self.daemon, "db", "sh", "-c", OBEDIENT)
        self.next(lines, "granted")
        self.daemon.freeze()
        ending = self.next(lines, "ending")
        job.wait(79)
        self.assertIn("got TERM", job.out)
        # A stopped daemon says nothing about the broker.
        self.assertIn("db: lockbrokerd has not renewed the lease since ", job.err)
        self.assertGreaterEqual(ending["silent"], 2.8 - 0.01)
        self.assertEqual(self.next(lines, "exit")["status"], 79)
        self.daemon.thaw()

    def test_a_freeze_that_is_short_costs_nothing(self):
        read, write = os.pipe()
        job, lines = self.start(self.daemon, "db", "sh", "-c", "echo pid $$; read x; exit 3", stdin=read)
        os.close(read)
        until = self.next(lines, "granted")["safe_until"]
        self.daemon.freeze()
        time.sleep(0.5)
        self.daemon.thaw()
        # Beyond what the grant promised: only newer leases carry it there.
        wait_until(lambda: now() > until + 0.2, what="the first lease is over")
        self.assertTrue(job.running(), job.err)
        os.write(write, b"\n")
        os.close(write)
        job.wait(3)
        self.assertEqual(job.err, "")
        self.next(lines, "released")


class OtherClock(LeaseCase):
    def test_a_run_in_another_time_namespace_ends_in_time(self):
        enter = ("unshare", "--time", "--boottime", "-1500")
        if subprocess.run([*enter, "true"], stderr=subprocess.DEVNULL, check=False).returncode:
            self.skipTest("no time namespace can be made here (root is needed)")
        daemon = Daemon(self, "--heartbeat", "3", "--margin", "1.5", expect=["warning: lost db "])
        command(self, daemon, "create", "db")
        job, lines = self.start(daemon, "db", "sh", "-c", OBEDIENT, enter=enter)
        self.next(lines, "granted")
        daemon.freeze()
        # By the daemon's clock alone it would go on for 1,500 s.
        self.assertLess(self.next(lines, "ending")["silent"], 100)
        job.wait(79)
        daemon.thaw()


class FrozenAcquire(unittest.TestCase):
    def test_acquire_ends(self):
        heartbeat = 3
        daemon = Daemon(self, "--heartbeat", str(heartbeat), "--margin", "1.5", expect=["warning: lost db "])
        command(self, daemon, "create", "db")
        read, write = os.pipe()
        self.addCleanup(os.close, write)
        job = Job(self, daemon, "acquire", "db", stdin=read)
        os.close(read)
        job.wait_out("safe_until")
        until = job.json()["safe_until"]
        # Newer leases carry it beyond the first.
        wait_until(lambda: now() > until + 0.2, what="the first lease is over")
        self.assertTrue(job.running(), job.err)
        daemon.freeze()
        frozen = now()
        job.wait(79)
        self.assertLess(now(), frozen + 2 * heartbeat)
        self.assertIn("db: lost: the daemon did not extend the lease in time", job.err)
        daemon.thaw()


class Refused(unittest.TestCase):
    """A kill-after that leaves no time for the broker to answer."""

    def refused(self, daemon, *argv):
        job = command(self, daemon, "run", *argv, "db", "echo", "never", status=64)
        self.assertEqual(job.out, "")
        # The lock is free again at once.
        command(self, daemon, "run", "-n", "--on-lost=ignore", "db", "true")
        return job.err

    def test_too_long(self):
        daemon = Daemon(self)
        command(self, daemon, "create", "db")
        err = self.refused(daemon, "-k", "13.2")
        self.assertIn("18 (lease) - 13.2 (kill-after) - 0.5 = 4.300 s", err)
        self.assertIn("10 (heartbeat) / 3 + 1 = 4.333 s", err)
        self.assertIn("--kill-after of at most 13.167 s", err)
        self.assertNotIn("is too short, or", err)
        command(self, daemon, "run", "-k", "13.1", "db", "true")
        command(self, daemon, "run", "-k", "1h", "--on-lost=signal:TERM", "db", "true")

    def test_the_heartbeat_is_too_short(self):
        daemon = Daemon(self, "--heartbeat", "1", "--margin", "0.1")
        command(self, daemon, "create", "db")
        err = self.refused(daemon)
        self.assertIn("heartbeat of lockbrokerd is too short", err)
        self.assertIn("--kill-after of at most 0.067 s", err)
        command(self, daemon, "run", "-k", "0", "db", "true")


class Silent(LeaseCase):
    """A connection over which nothing comes."""

    def test_other_reactions_come_with_the_loss(self):
        for reaction, said in (("signal:USR1", "got USR1"), ("run:echo instead", "instead"), ("ignore", "")):
            with self.subTest(reaction=reaction):
                read, write = os.pipe()
                fake = Fake(self, acquire=granted(3))
                job, lines = self.start(
                    fake, "--on-lost=" + reaction, "db", "bash", "-c",
                    'trap "echo got USR1" USR1; echo pid $$; while read -t 0.05 x; [ $? -gt 128 ]; do :; done', stdin=read)
                os.close(read)
                until = self.next(lines, "granted")["safe_until"]
                lost = self.next(lines, "lost")
                # The library counts in whole milliseconds, rounded down.
                self.assertGreaterEqual(now(), math.floor(until * 1000) / 1000)
                self.assertEqual({**lost, "why": ""}, {"event": "lost", **LOCK, "reason": "lease", "why": ""})
                wait_until(lambda job=job, said=said: said in job.out, what=said)
                self.assertFalse(gone(self.pid(job)))
                os.write(write, b"\n")
                os.close(write)
                job.wait(79)
                self.assertIn("db: lost: the daemon did not extend the lease in time", job.err)

    def test_a_stop_of_the_daemon_is_not_longer_than_the_lease(self):
        fake = Fake(self, acquire=granted(3))
        job, lines = self.start(fake, "-k", "0.1", "db", "bash", "-c", DEAF)
        fake.say(("draining", {"grace": 600}))
        until = self.next(lines, "granted")["safe_until"]
        self.next(lines, "draining")
        wait_until(lambda: gone(self.pid(job)), what="it is killed")
        at_most(self, "killed, seconds from the end of the lease", now() - until, 0)
        job.wait(79)
        self.assertIn("db: lockbrokerd has not renewed the lease since ", job.err)

    def test_the_end_of_the_lease_during_the_release_is_no_loss(self):
        fake = Fake(self, acquire=granted(3), release=None)
        job = command(self, fake, "run", "-k", "0.1", "db", "sh", "-c", "exit 3", status=3)
        self.assertIn("release", job.err)
        self.assertNotIn("lost", job.err)

    def test_a_grant_that_comes_too_late(self):
        for subcommand in (("run", "db", "echo", "never"), ("acquire", "db")):
            job = command(self, Fake(self, acquire=granted(-1)), *subcommand, status=79, stdin=subprocess.PIPE)
            self.assertEqual(job.out, "")
            self.assertIn("did not extend the lease in time", job.err)

    def test_suspect_and_restored(self):
        notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(notify.close)
        fake = Fake(self, acquire=granted(30))
        path = os.path.join(fake.dir, "notify")
        notify.bind(path)
        notify.settimeout(60)
        job, lines = self.start(fake, "--verbose", "db", "sh", "-c", OBEDIENT, env={"NOTIFY_SOCKET": path})
        self.next(lines, "granted")
        self.assertEqual(notify.recv(4096).decode(), "STATUS=holding db")
        self.assertEqual(notify.recv(4096).decode(), "READY=1")
        for word, words, status in (
                ("suspect", "the broker does not answer", "holding db, but the broker does not answer"),
                ("restored", "the broker answers again", "holding db")):
            fake.say((word, {"lock": "f-1"}))
            self.assertEqual(self.next(lines, word), {"event": word, "lock": "f-1"})
            self.assertEqual(notify.recv(4096).decode(), "STATUS=" + status)
            wait_until(lambda words=words: words in job.err, what=words)
        job.signal(signal.SIGTERM)
        job.wait(0)


class ManagerThatDoesNotRead(LeaseCase):
    """The service manager's socket has no room for another datagram."""

    def setUp(self):
        self.notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(self.notify.close)
        self.fake = Fake(self, acquire=granted(4.5, lease={"heartbeat": 3, "margin": 1.5}))
        self.path = os.path.join(self.fake.dir, "notify")
        self.notify.bind(self.path)
        self.env = {"NOTIFY_SOCKET": self.path}

    def test_a_silent_broker_ends_the_command_in_time(self):
        job, lines = self.start(self.fake, "db", "bash", "-c", DEAF, env=self.env)
        until = self.next(lines, "granted")["safe_until"]
        fill_datagrams(self.path)
        self.fake.say(("suspect", {"lock": "f-1"}))
        self.next(lines, "suspect")
        wait_until(lambda: gone(self.pid(job)), what="it is killed, though the manager does not read")
        at_most(self, "killed, seconds from the end of the lease", now() - until, 0)
        job.wait(79)

    def test_the_loss_is_acted_on_at_once(self):
        job, lines = self.start(self.fake, "db", "bash", "-c", OBEDIENT, env=self.env)
        fill_datagrams(self.path)
        self.fake.say(("suspect", {"lock": "f-1"}))
        self.fake.say(("lost", {**LOCK, "reason": "lost"}))
        wait_until(lambda: "got TERM" in job.out, what="it is told to end")
        job.wait(79)

    def test_waiting_and_starting_are_not_kept_up(self):
        def waits_and_gets_it(request, connection):
            connection.sendall(notification("waiting", {"id": request["id"], "position": 1, "busy": 1}))
            connection.sendall(notification("broker", {"state": "up", "why": ""}))
            return granted(30)(request, connection)
        fill_datagrams(self.path)
        fake = Fake(self, acquire=waits_and_gets_it)
        began = now()
        command(self, fake, "run", "db", "true", env=self.env)
        # READY=1 alone waits for room, 200 ms.
        self.assertGreaterEqual(now() - began, 0.2)
        at_most(self, "seconds of a run whose manager does not read", now() - began, 3)

    def test_acquire_holds_and_ends(self):
        fill_datagrams(self.path)
        job = Job(self, self.fake, "acquire", "db", env=self.env)
        job.wait_out("f-1")
        self.fake.say(("suspect", {"lock": "f-1"}))
        self.fake.say(("lost", {**LOCK, "reason": "lost"}))
        job.wait(79)


class Stopped(LeaseCase):
    """Processes of `run` are stopped, and its command is not."""

    def stopped(self, fake, script, who, *options):
        job, lines = self.start(fake, *options, "db", "bash", "-c", script)
        until = self.next(lines, "granted")["safe_until"]
        pid = who(job.pid)
        os.kill(pid, signal.SIGSTOP)
        wait_until(lambda: state(pid) == "T", what="it is stopped")
        return job, until, pid

    def test_the_guard_ends_the_command_of_a_run_that_is_stopped(self):
        fake = Fake(self, acquire=granted(4))
        job, until, _ = self.stopped(fake, DEAF, lambda pid: pid, "-k", "0.2")
        wait_until(lambda: gone(self.pid(job)), what="it is killed")
        at_most(self, "killed, seconds from the end of the lease", now() - until, 0)
        job.signal(signal.SIGCONT)
        job.wait(79)

    def test_a_newer_lease_keeps_the_command_of_a_run_that_is_stopped(self):
        fake = Fake(self, acquire=granted(4))
        job, until, _ = self.stopped(fake, OBEDIENT, lambda pid: pid, "-k", "0.2")
        fake.say(("lease", {"safe_until": until + 60}))
        wait_until(lambda: now() > until + 0.2, what="the first lease is over")
        job.signal(signal.SIGCONT)
        job.signal(signal.SIGUSR1)
        job.wait(128 + signal.SIGUSR1)
        self.assertNotIn("got TERM", job.out)
        self.assertEqual(job.err, "")

    def test_a_guard_kills_as_soon_as_it_wakes(self):
        """Its time for KILL is past: `--kill-after` would still leave 10 s."""
        fake = Fake(self, acquire=granted(13))
        job, until, guard = self.stopped(fake, DEAF, guard_of, "-k", "10")
        fake.say(("lease", {"safe_until": until + 0.1}))
        wait_until(lambda: now() > until + 0.2, what="the lease is over")
        self.assertFalse(gone(self.pid(job)))
        os.kill(guard, signal.SIGCONT)
        woken = now()
        wait_until(lambda: gone(self.pid(job)), what="it is killed")
        self.assertLess(now(), woken + 10)
        job.wait(79)
        self.assertIn("db: lost: the daemon did not extend the lease in time", job.err)

    def test_a_lease_notice_that_came_while_the_guard_was_stopped_counts(self):
        fake = Fake(self, acquire=granted(4))
        job, until, guard = self.stopped(fake, OBEDIENT, guard_of, "-k", "0.2")
        fake.say(("lease", {"safe_until": until + 0.1}))
        fake.say(("lease", {"safe_until": until + 60}))
        wait_until(lambda: now() > until + 0.2, what="the first lease is over")
        os.kill(guard, signal.SIGCONT)
        job.signal(signal.SIGUSR1)
        # It acts on a signal that came after: it has read the clock before.
        wait_until(lambda: gone(self.pid(job)), what="the signal was forwarded")
        self.assertNotIn("got TERM", job.out)
        job.wait(128 + signal.SIGUSR1)
        self.assertEqual(job.err, "")

    def test_kill_is_not_later_than_the_lease_whatever_the_loss(self):
        fake = Fake(self, acquire=granted(13))
        job, lines = self.start(fake, "-k", "10", "db", "bash", "-c", DEAF)
        until = self.next(lines, "granted")["safe_until"]
        wait_until(lambda: now() > until - 2, what="less than kill-after is left")
        fake.say(("lost", {**LOCK, "reason": "lost"}))
        wait_until(lambda: gone(self.pid(job)), what="it is killed")
        at_most(self, "killed, seconds from the end of the lease", now() - until, 0.4)
        # Otherwise kill-after would end now.
        self.assertLess(now(), until + 8)
        job.wait(79)


if __name__ == "__main__":
    tap.main()
