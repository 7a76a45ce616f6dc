"""lockbroker run that is evicted, and run --replace, which evicts a holder. The daemon is a Fake."""

import json
import os
import signal
import time
import unittest

import tap
from cli import Job, command
from fake import GRANT, error, notification, reply
from rows import Semaphores, row, unknown
from wait import wait_until

LOCK = {"lock": "f-1", "name": "db", "slot": 1}
SLEEPER = 'trap "echo got {0}; exit 9" {0}; echo pid $$; while :; do sleep 0.05; done'
STUBBORN = 'trap "" TERM; echo pid $$; while :; do sleep 0.05; done'


def eviction(grace, why="rescue"):
    deadline = time.clock_gettime(time.CLOCK_BOOTTIME) + grace
    return "evicted", {**LOCK, "deadline": deadline, "grace": grace, "why": why, "uid": 7, "host": "south"}


class Evicted(unittest.TestCase):
    def start(self, fake, *argv, **more):
        job = Job(self, fake, "run", *argv, **more)
        job.wait_out("pid ")
        return job

    def test_the_command_has_the_grace_to_end(self):
        read, write = os.pipe()
        fake = Semaphores(self)
        job = self.start(fake, "-k", "0", "--status-fd", str(write), "db", "bash", "-c", SLEEPER.format("TERM"), fds=(write,))
        os.close(write)
        told = eviction(60, "a\x1brescue")
        fake.say(told)
        job.wait(9)
        self.assertIn("got TERM", job.out)
        words = "the hold ends in 1m00s, and the command gets its signal now: evicted by uid 7 on south: a?rescue"
        self.assertIn(f"lockbroker: db: {words}\n", job.err)
        self.assertEqual(len(fake.asked("release")), 1)
        with open(read, encoding="utf-8") as lines:
            events = [json.loads(one) for one in lines]
        self.assertEqual([one["event"] for one in events], ["granted", "evicted", "released", "exit"])
        self.assertEqual(events[1], {"event": "evicted", **told[1]})

    def test_a_stubborn_command_is_killed_before_the_deadline(self):
        """The lease is extended all the time: the deadline alone ends the command."""
        far = time.clock_gettime(time.CLOCK_BOOTTIME) + 1000
        fake = Semaphores(self, acquire={**GRANT, "safe_for": 1000, "safe_until": far,
                                         "lease": {"heartbeat": 600, "margin": 2, "length": 1100}})
        job = self.start(fake, "db", "bash", "-c", STUBBORN)
        method, params = eviction(1.5)
        fake.say((method, params))
        fake.say(("lease", {"safe_for": 2000, "safe_until": far + 1000}))
        job.wait(79)
        ended = time.clock_gettime(time.CLOCK_BOOTTIME)
        self.assertNotIn("renewed", job.err)
        self.assertNotIn("lost", job.err)
        self.assertEqual(job.err.count("db: killing the command before the slot can have another holder\n"), 1)
        # The reserve is half a second. A busy machine may be late, but the release shows that the lock was still held.
        self.assertGreater(ended, params["deadline"] - 0.6)
        self.assertEqual(len(fake.asked("release")), 1)

    def test_a_lease_that_ends_before_the_deadline(self):
        far = time.clock_gettime(time.CLOCK_BOOTTIME) + 1000
        fake = Semaphores(self, acquire={**GRANT, "safe_for": 4, "safe_until": far,
                                         "lease": {"heartbeat": 600, "margin": 2, "length": 1100}})
        job = self.start(fake, "-k", "0", "db", "bash", "-c", STUBBORN)
        fake.say(eviction(60))
        job.wait(79)
        self.assertEqual(job.err.count("lockbrokerd has not renewed the lease since"), 1)
        self.assertEqual(fake.asked("release"), [])

    def test_others_than_kill(self):
        for options, word, status in ((("--on-lost=signal:USR2",), "USR2", 9), (("--on-lost=ignore",), "HUP", 9)):
            with self.subTest(options=options):
                fake = Semaphores(self)
                job = self.start(fake, *options, "db", "bash", "-c", SLEEPER.format(word))
                fake.say(eviction(60))
                wait_until(lambda: "the hold ends" in job.err, what="it says so")
                self.assertEqual("gets its signal now" in job.err, word == "USR2")
                if word == "HUP":
                    job.signal(signal.SIGHUP)
                job.wait(status)
                self.assertIn(f"got {word}", job.out)

    def test_the_loss_at_the_deadline(self):
        fake = Semaphores(self)
        job = self.start(fake, "--on-lost=ignore", "db", "bash", "-c", SLEEPER.format("HUP"))
        fake.say(eviction(600))
        fake.say(("lost", {**LOCK, "reason": "evicted", "why": "evicted by uid 7 on south"}))
        wait_until(lambda: "db: lost: evicted by uid 7 on south" in job.err, what="it says so")
        job.signal(signal.SIGHUP)
        job.wait(79)

    def test_an_eviction_of_another_lock(self):
        fake = Semaphores(self)
        job = self.start(fake, "db", "bash", "-c", SLEEPER.format("HUP"))
        method, params = eviction(0)
        fake.say((method, {**params, "lock": "f-2"}))
        fake.say(("broker", {"state": "up", "why": ""}))
        job.signal(signal.SIGHUP)
        job.wait(9)
        self.assertNotIn("evicted", job.err)

    def test_acquire_says_it_and_goes_on(self):
        fake = Semaphores(self)
        read, write = os.pipe()
        job = Job(self, fake, "acquire", "db", stdin=read)
        os.close(read)
        job.wait_out("f-1")
        fake.say(eviction(600, None))
        wait_until(lambda: "db: the hold ends in 10m00s: evicted by uid 7 on south\n" in job.err, what="it says so")
        os.close(write)
        job.wait(0)
        self.assertEqual(len(fake.asked("release")), 1)


class Replace(unittest.TestCase):
    """No slot of db is free. A test grants it to the one that waits."""

    def setUp(self):
        self.answers = []  # to evictions; else one holder is evicted
        self.holding_back = None  # called in place of an answer to an eviction
        self.fake = Semaphores(self, acquire=self.on_acquire, evict=self.on_evict)
        self.fake.add("db", 2, row("busy", "w-1", slot=1, age=50, who="alice"), row("busy", "w-2", slot=2, age=500, who="bob"),
                      row("granted", "w-3", age=5000), row("busy", "w-4", age=9000, kind="mutex", who="carol"))

    def on_acquire(self, request, connection):
        self.acquire = request, connection
        self.fake.send(connection, notification("waiting", {"id": request["id"], "position": 1, "busy": 2, "extra": 0}))

    def on_evict(self, request, connection):
        if self.holding_back:
            return self.holding_back(request, connection)
        if self.answers:
            return self.fake.refuse(request, connection, self.answers.pop(0))
        return {"evicted": 1, "silent_hosts": []}

    def grant(self):
        request, connection = self.acquire
        self.fake.send(connection, reply(request, result=GRANT))

    def evicted(self):
        return [one["params"] for one in self.fake.asked("evict")]

    def start(self, *argv):
        return Job(self, self.fake, "run", "--replace", *argv, "db", "echo", "ran")

    def test_evicts_the_one_that_has_it_longest(self):
        job = self.start("--grace", "1.5", "--why", 'a "b"\n\\c')
        wait_until(lambda: "lockbroker: db: evicting bob on host north\n" in job.err, what="it says so")
        self.grant()
        job.wait(0)
        self.assertEqual(self.evicted(), [{"holder": "w-2", "grace": 1.5, "why": 'a "b"\n\\c'}])
        self.assertEqual(job.out, "ran\n")

    def test_a_reason_that_is_not_utf_8(self):
        """The acquire has it with U+FFFD, and so has the eviction."""
        job = self.start("--why", b"caf\xe9")
        self.fake.wait_asked("evict")
        self.grant()
        job.wait(0)
        self.assertEqual(self.evicted(), [{"holder": "w-2", "why": "caf\ufffd"}])
        self.assertEqual(self.fake.asked("acquire")[0]["params"]["why"], "caf\ufffd")

    def test_says_it_only_when_the_daemon_has_accepted_it(self):
        self.holding_back = lambda request, connection: self.grant()
        job = self.start()
        job.wait(0)
        self.assertEqual((len(self.evicted()), job.err), (1, ""))

    def test_says_nothing_with_json(self):
        def answer(request, connection):
            self.fake.send(connection, reply(request, result={"evicted": 1, "silent_hosts": []}))
            self.grant()

        self.holding_back = answer
        job = self.start("--json")
        job.wait(0)
        self.assertEqual((len(self.evicted()), job.err), (1, ""))

    def test_its_own_ancestor(self):
        inside = {"env": {"LOCKBROKER_HELD": "mutex:deploy semaphore:db"}}
        job = command(self, self.fake, "run", "--replace", "db", "true", status=64, **inside)
        self.assertIn("db: this command runs under a lockbroker run that holds a slot of the same lock: "
                      "with --replace it would end itself\n", job.err)
        self.assertEqual(self.fake.requests, [])

    def test_evicts_the_holder_of_a_mutex(self):
        job = self.start("--mutex")
        self.fake.wait_asked("evict")
        self.grant()
        job.wait(0)
        self.assertEqual(self.evicted(), [{"holder": "w-4"}])

    def test_a_free_slot_of_a_semaphore_is_no_free_mutex(self):
        del self.fake.semaphores["db"]["rows"][:2]
        job = self.start("--mutex")
        self.fake.wait_asked("evict")
        self.grant()
        job.wait(0)
        self.assertEqual(self.evicted(), [{"holder": "w-4"}])

    def test_a_mutex_that_another_client_got(self):
        rows = self.fake.semaphores["db"]["rows"]
        self.fake.semaphores["db"]["rows"] = rows[:3]
        job = self.start("--mutex")
        self.fake.wait_asked("show")
        self.fake.semaphores["db"]["rows"] = rows
        self.fake.wait_asked("evict")
        self.grant()
        job.wait(0)
        self.assertEqual((self.evicted(), "nobody was evicted" in job.err), ([{"holder": "w-4"}], False))

    def test_a_mutex_whose_holder_no_daemon_names(self):
        self.fake.semaphores["db"]["rows"][3] = {**unknown(None), "kind": "mutex"}
        job = self.start("--mutex")
        wait_until(lambda: "db: nobody was evicted: no daemon names a holder of a slot\n" in job.err, what="it says so")
        self.grant()
        job.wait(0)

    def test_evicted_holders_that_block_no_slot(self):
        """They would come before those that block one."""
        rows = self.fake.semaphores["db"]["rows"]
        rows[0]["evicted"] = rows[1]["evicted"] = rows[2]["evicted"] = True
        rows[2]["slot"] = 3
        rows.append(row("busy", "w-5", slot=4, age=7000, revoked=True, evicted=True))
        job = self.start()
        self.fake.wait_asked("evict")
        self.grant()
        job.wait(0)
        self.assertEqual(self.evicted(), [{"holder": "w-2"}])

    def test_one_that_ends_anyway_comes_last(self):
        self.fake.semaphores["db"]["rows"][1]["evicted"] = True
        job = self.start()
        self.fake.wait_asked("evict")
        self.grant()
        job.wait(0)
        self.assertEqual(self.evicted(), [{"holder": "w-1"}])

    def test_a_free_slot_needs_no_eviction(self):
        del self.fake.semaphores["db"]["rows"][0]
        del self.fake.semaphores["db"]["rows"][2]  # of another kind, but the fake counts it
        job = self.start()
        self.fake.wait_asked("show", 2)
        self.grant()
        job.wait(0)
        self.assertEqual(self.evicted(), [])

    def test_a_free_slot_that_another_client_got(self):
        rows = self.fake.semaphores["db"]["rows"]
        self.fake.semaphores["db"]["rows"] = [rows[1]]
        job = self.start()
        self.fake.wait_asked("show")
        self.fake.semaphores["db"]["rows"] = rows
        self.fake.wait_asked("evict")
        self.grant()
        job.wait(0)
        self.assertEqual(self.evicted(), [{"holder": "w-2"}])

    def test_a_holder_that_leaves_meanwhile(self):
        self.answers = [error(7, "not-held", "no holder has that id")]
        job = self.start()
        self.fake.wait_asked("evict", 2)
        self.grant()
        job.wait(0)
        self.assertEqual(len(self.evicted()), 2)

    def test_holders_that_leave_all_the_time(self):
        self.answers = [error(7, "not-held", "no holder has that id")] * 100
        job = self.start()
        self.fake.wait_asked("evict", 3)
        wait_until(lambda: "db: nobody was evicted: its holders change too fast\n" in job.err, what="it says so")
        self.grant()
        job.wait(0)
        self.assertEqual(len(self.evicted()), 3)

    def test_a_silent_daemon_of_the_holder(self):
        words = "the daemon of this holder did not answer: it is silent or older than 0.2.0. Nothing was freed"
        self.answers = [error(2, "timeout", words)]
        job = self.start()
        wait_until(lambda: f"db: nobody was evicted: {words}\n" in job.err, what="it says so")
        self.grant()
        job.wait(0)
        self.assertEqual(len(self.evicted()), 1)

    def test_a_holder_that_no_daemon_names(self):
        for silent, words in (([], "no daemon names a holder of a slot"), (["so\x1buth"], "host so?uth does not answer")):
            with self.subTest(silent=silent):
                self.fake.semaphores.clear()
                self.fake.add("db", 1, unknown(1))
                self.fake.script["show"] = lambda request, connection: {**self.fake.on_show(request, connection), "silent_hosts": silent}
                job = self.start()
                wait_until(lambda: f"db: nobody was evicted: {words}\n" in job.err, what="it says so")
                self.grant()
                job.wait(0)
                self.assertEqual(self.evicted(), [])

    def test_without_the_right(self):
        self.answers = [error(10, "permission-denied", "an access rule denies it")]
        job = self.start()
        job.wait(77)
        self.assertIn("db: an access rule denies it", job.err)
        self.assertEqual(job.out, "")

    def test_options_that_contradict(self):
        for argv in (["--replace", "-n"], ["--grace", "5"], ["--replace", "--grace", "24.1h"], ["--replace", "--grace", "-1"]):
            command(self, self.fake, "run", *argv, "db", "true", status=64)
        self.assertEqual(self.fake.requests, [])


if __name__ == "__main__":
    tap.main()
