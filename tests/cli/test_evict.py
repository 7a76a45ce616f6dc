"""Evictions by one daemon with the broker in memory: the holder is told, has its grace, and loses the hold at the deadline."""

import os
import signal
import subprocess
import sys
import time
import unittest

import tap
from cli import Job, command
from daemon import Daemon
from wait import wait_until
from wire import Wire

sys.path.insert(0, os.path.join(os.environ["top_srcdir"], "client", "python"))

import lockbroker  # noqa: E402

SLEEPER = 'trap "echo got TERM; exit 9" TERM; echo pid $$; while :; do sleep 0.05; done'
STUBBORN = 'trap "" TERM; echo pid $$; while :; do sleep 0.05; done'


def now():
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Evict(unittest.TestCase):
    def setUp(self):
        self.daemon = Daemon(self)
        self.daemon.expect("lost .* evicted it")
        self.admin = Wire(self.daemon)
        self.admin.call("create", name="db")

    def hold(self, **more):
        """A client that holds, its grant, and the id of its row."""
        peer = Wire(self.daemon)
        grant = peer.call("acquire", **{"name": "db", "lease": True, **more})
        return peer, grant, self.id_of(grant["lock"], grant["name"])

    def wait(self, **more):
        """A client that waits, and its request."""
        peer = Wire(self.daemon)
        asked = peer.request("acquire", **{"name": "db", **more})
        peer.call("ping")
        return peer, asked

    def holders(self, name="db"):
        return self.admin.call("show", name=name)["holders"]

    def id_of(self, lock, name="db"):
        return next(row["waiter"] for row in self.holders(name) if row["lock"] == lock)

    def evict(self, holder, count=1, **more):
        self.assertEqual(self.admin.call("evict", holder=holder, **more), {"evicted": count, "silent_hosts": []})

    def told(self, peer):
        """The methods of the notifications that came, without leases."""
        peer.call("ping")
        return [note["method"] for note in peer.notifications if note["method"] != "lease"]


class OverTheWire(Evict):
    def test_the_holder_is_told_and_releases(self):
        peer, grant, holder = self.hold()
        waiting, asked = self.wait()
        began = now()
        self.evict(holder, grace=600, why="resc\u00fce")
        note = peer.notification("evicted")
        self.assertEqual({name: note[name] for name in ("lock", "name", "slot", "why", "uid")},
                         {"lock": grant["lock"], "name": "db", "slot": 1, "why": "resc\u00fce", "uid": os.getuid()})
        self.assertEqual(note["host"], self.holders()[0]["host"])
        self.assertTrue(began + 600 <= note["deadline"] <= now() + 600)
        self.assertTrue(note["deadline"] - now() <= note["grace"] <= 600)
        row, = self.holders()
        self.assertTrue(row["evicted"])
        peer.call("release", lock=grant["lock"])
        self.assertEqual(waiting.answer(asked)["slot"], 1)
        row, = self.holders()
        self.assertFalse(row["evicted"])
        self.assertEqual(self.admin.error("evict", holder=holder).reason, "not-held")

    def test_the_hold_ends_at_the_deadline_and_not_before(self):
        """A client of version 0.1.0 ignores the notification."""
        peer, grant, holder = self.hold()
        waiting, asked = self.wait()
        self.evict(holder, grace=1)
        deadline = peer.notification("evicted")["deadline"]
        self.assertLessEqual(peer.call("verify", lock=grant["lock"])["safe_until"], deadline)
        self.assertEqual(waiting.answer(asked)["slot"], 1)
        self.assertGreaterEqual(now(), deadline)
        lost = peer.notification("lost")
        self.assertEqual((lost["lock"], lost["reason"], bool(lost["why"])), (grant["lock"], "evicted", True))
        self.assertEqual(peer.error("release", lock=grant["lock"]).reason, "not-held")

    def test_at_once(self):
        peer, grant, holder = self.hold()
        self.evict(holder, grace=0)
        peer.notification("evicted")
        self.assertEqual(peer.notification("lost")["reason"], "evicted")
        self.hold()

    def test_a_second_eviction_only_moves_the_deadline_to_an_earlier_time(self):
        peer, _, holder = self.hold()
        self.evict(holder, grace=600)
        first = peer.notification("evicted")["deadline"]
        self.evict(holder, grace=900)
        self.evict(holder)
        second = peer.notification("evicted")["deadline"]
        self.assertLess(second, first)
        self.evict(holder, grace=600)
        self.assertEqual(self.told(peer), [])

    def test_the_id_is_not_that_of_the_next_holder(self):
        peer, grant, holder = self.hold()
        waiting, asked = self.wait()
        peer.call("release", lock=grant["lock"])
        waiting.answer(asked)
        self.assertEqual(self.admin.error("evict", holder=holder, grace=0).reason, "not-held")
        self.assertEqual(self.told(waiting), [])

    def test_the_deadline_ends_with_the_hold(self):
        """The next hold of the same connection and slot has no deadline."""
        peer, grant, holder = self.hold()
        self.evict(holder, grace=0.3)
        peer.call("release", lock=grant["lock"])
        again = peer.call("acquire", name="db", lease=True)
        other, _, second = self.hold(name="m", kind="mutex")
        self.evict(second, grace=0.6)
        other.notification("lost")
        self.assertEqual(peer.call("verify", lock=again["lock"])["lock"], again["lock"])
        self.assertEqual(self.told(peer), ["evicted"])

    def test_ids_that_are_no_holders(self):
        _, grant, _ = self.hold()
        self.wait()
        waiter = self.admin.call("show", name="db")["waiters"][0]["waiter"]
        for holder in "x", "-", "0" * 64, "00000000-1", grant["lock"], waiter:
            self.assertEqual(self.admin.error("evict", holder=holder).reason, "not-held", holder)
        for params, wrong in (({}, "holder"), ({"name": "db"}, "all"), ({"holder": "x", "all": True}, "all"),
                              ({"holder": "x", "grace": None}, "grace"), ({"holder": "x", "grace": 86401}, "grace"),
                              ({"holder": "x", "why": "w" * 257}, "why")):
            error = self.admin.error("evict", **params)
            self.assertEqual((error.reason, error.data["parameter"]), ("invalid-params", wrong))

    def test_all(self):
        self.admin.call("resize", name="db", slots=3)
        peers = [self.hold() for _ in range(3)]
        self.wait()
        self.evict(peers[0][2], grace=600)
        self.assertEqual(self.admin.call("evict", name="db", all=True), {"evicted": 3, "silent_hosts": []})
        for peer, grant, _ in peers:
            self.assertEqual(peer.notification("evicted")["lock"], grant["lock"])
        self.assertEqual(self.admin.call("evict", name="nobody", all=True)["evicted"], 0)

    def test_a_hold_without_a_slot(self):
        self.admin.call("resize", name="db", slots="unlimited")
        peer, grant, holder = self.hold()
        self.assertIsNone(grant["safe_until"])
        self.evict(holder, grace=0.2)
        deadline = peer.notification("evicted")["deadline"]
        self.assertEqual(peer.notification("lost")["reason"], "evicted")
        self.assertGreaterEqual(now(), deadline)

    def test_a_watch(self):
        _, _, holder = self.hold()
        watch = Wire(self.daemon)
        watch.request("watch", name="db")
        self.assertFalse(watch.notification("row")["row"]["evicted"])
        self.evict(holder, grace=600)
        self.assertTrue(watch.notification("row")["row"]["evicted"])

    def test_rights(self):
        self.daemon = Daemon(self, config=f"[access]\nrule = deny uid:{os.getuid()} evict db\n")
        self.admin = Wire(self.daemon)
        for name in "db", "other":
            self.admin.call("create", name=name)
        peer, _, holder = self.hold()
        self.assertEqual(self.admin.error("evict", holder=holder).reason, "permission-denied")
        self.assertEqual(self.admin.error("evict", name="db", all=True).reason, "permission-denied")
        self.assertEqual(self.told(peer), [])
        self.evict(self.hold(name="other")[2])
        self.assertEqual(command(self, self.daemon, "run", "--replace", "db", "true", status=77).out, "")

    def test_the_lock_log_says_who_did_it(self):
        _, _, holder = self.hold()
        self.evict(holder, grace=0, why="a\x1brescue")
        self.daemon.wait_log(rf"requested evict: client .*, uid {os.getuid()} \(\w+\), pid {os.getpid()}")
        self.daemon.wait_log(rf"evicted db slot 1: .*, by uid {os.getuid()} on \S+, to end within 0.000 s, a\?rescue")
        self.daemon.wait_log("done evict")
        self.assertNotIn("\x1b", self.daemon.log())


class ByCommand(Evict):
    def run_job(self, *argv, **more):
        job = Job(self, self.daemon, "run", *argv, **more)
        job.wait_out("pid ")
        return job

    def only(self):
        """The id of the only holder of db."""
        row, = self.holders()
        return row["waiter"]

    def test_run_ends_its_command_and_the_next_one_starts(self):
        job = self.run_job("db", "bash", "-c", SLEEPER)
        following = Job(self, self.daemon, "run", "db", "echo", "next")
        self.daemon.wait_log("requested db", count=2)
        done = command(self, self.daemon, "evict", "--grace", "10m", "--why", "rescue", self.only())
        self.assertEqual(done.out, "evicted: 1\n")
        job.wait(9)
        self.assertIn("got TERM", job.out)
        self.assertRegex(job.err, rf"(?m)^lockbroker: db: the hold ends in 10m00s, and the command gets its signal now: evicted by uid {os.getuid()} on \S+: rescue$")
        following.wait(0)
        self.assertEqual(following.out, "next\n")

    def test_a_stubborn_command_is_dead_before_the_slot_is_free(self):
        job = self.run_job("db", "bash", "-c", STUBBORN)
        pid = job.out.split()[1]
        following = Job(self, self.daemon, "run", "db", "sh", "-c", f"kill -0 {pid} 2>&1 || echo dead")
        self.daemon.wait_log("requested db", count=2)
        command(self, self.daemon, "evict", "--grace=2", self.only())
        job.wait(79)
        following.wait(0)
        self.assertIn("dead", following.out)

    def test_replace(self):
        job = self.run_job("db", "bash", "-c", SLEEPER)
        done = command(self, self.daemon, "run", "--replace", "--why", "newer", "db", "echo", "ran")
        self.assertEqual(done.out, "ran\n")
        self.assertRegex(done.err, r"(?m)^lockbroker: db: evicting \S+ on host \S+$")
        job.wait(9)
        self.assertIn(": newer\n", job.err)

    def test_replace_of_a_mutex_that_ignores_it(self):
        job = self.run_job("--mutex", "--on-lost=ignore", "m", "bash", "-c", SLEEPER)
        command(self, self.daemon, "run", "--mutex", "--replace", "--grace", "0.5", "m", "echo", "ran")
        wait_until(lambda: "m: lost: " in job.err, what="the first one is told")
        job.signal(signal.SIGTERM)
        job.wait(79)

    def test_acquire_for_a_process(self):
        process = subprocess.Popen(["sleep", "60"], stdin=subprocess.DEVNULL)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        command(self, self.daemon, "acquire", "--for-pid", str(process.pid), "db")
        command(self, self.daemon, "evict", "--grace", "0.3", self.only())
        process.wait()
        self.assertEqual(process.returncode, -signal.SIGTERM)
        wait_until(lambda: self.holders() == [], what="it is free")

    def test_show(self):
        self.hold()
        command(self, self.daemon, "evict", "--grace=600", "--all", "db")
        self.assertEqual(command(self, self.daemon, "show", "--no-headers", "db").out.split("\t")[0], "evicted")

    def test_nobody(self):
        self.assertIn("nobody holds it", command(self, self.daemon, "evict", "--all", "mistyped", status=66).err)
        self.assertIn("no holders", command(self, self.daemon, "evict", "--all", "db").err)


class FromPython(Evict):
    def test_a_lock(self):
        told = []
        with lockbroker.Client(self.daemon.socket) as client:
            lock = client.acquire("db", on_evicted=told.append)
            self.assertEqual(client.evict(self.id_of(lock.id), grace=0.5, why="rescue"), 1)
            wait_until(lambda: told == [lock], what="it is told")
            self.assertEqual((lock.evicted.why, lock.evicted.uid), ("rescue", os.getuid()))
            self.assertLessEqual(lock.safe_until, lock.evicted.deadline)
            wait_until(lambda: not lock.held, what="it has ended")
            self.assertGreaterEqual(now(), lock.evicted.deadline)
            with self.assertRaises(lockbroker.Lost) as caught:
                lock.check()
            self.assertEqual(caught.exception.cause, "evicted")
            self.assertEqual(client.evict_all("db"), 0)


if __name__ == "__main__":
    tap.main()
