"""Administration by the command line, with a daemon: sizes, gates, unlimited semaphores, and the kinds of lock.
Slots are removed under their holders, and commands wait for these."""

import json
import os
import re
import signal
import subprocess
import unittest

import tap
from cli import Job, Terminal, command, gone
from daemon import Daemon
from wait import wait_until
from wire import Wire

SLEEPER = "trap 'exit 5' TERM; trap 'echo got USR2' USR2; echo pid $$; while :; do sleep 0.05; done"


class AdminCase(unittest.TestCase):
    def setUp(self):
        self.daemon = Daemon(self)

    def lockbroker(self, *argv, status=0, **more):
        return command(self, self.daemon, *argv, status=status, **more)

    def start(self, *argv, **more):
        return Job(self, self.daemon, *argv, **more)

    def size(self, name="db"):
        return self.lockbroker("size", name).out.strip()

    def peers(self):
        """The number of connections, with the one of this query."""
        return self.lockbroker("info", "--json").json()["counts"]["connections"]

    def hold(self, *options, name="db", script="echo pid $$; read x; exit 3"):
        """A run that holds a slot, until end() is called."""
        read, write = os.pipe()
        self.addCleanup(os.close, write)
        job = self.start("run", *options, name, "bash", "-c", script, stdin=read)
        os.close(read)
        job.wait_out("pid ")
        job.end = lambda: os.write(write, b"\n")
        return job


class Sizes(AdminCase):
    def test_create(self):
        for slots in ("1", "300", "unlimited"):
            with self.subTest(slots=slots):
                name = "n" + slots
                job = self.lockbroker("create", name, slots)
                self.assertEqual((job.out, job.err), ("", ""))
                self.assertEqual(self.size(name), slots)
                self.lockbroker("create", name, slots, status=73)
                self.lockbroker("create", "--exist-ok", name, slots)
                err = self.lockbroker("create", "--exist-ok", name, "7", status=73).err
                self.assertIn(f"lockbroker resize {name} 7", err)
                self.assertEqual(self.size(name), slots)

    def test_nobodys_gate_is_opened_by_a_create(self):
        self.lockbroker("create", "db", "0")
        self.assertEqual(self.size(), "0")
        self.lockbroker("create", "db", "3", status=73)
        self.lockbroker("create", "--exist-ok", "db", "0")
        self.assertEqual(self.size(), "0")
        err = self.lockbroker("create", "--exist-ok", "db", "3", status=73).err
        self.assertIn("with 0 slots", err)
        self.assertEqual(self.size(), "0")

    def test_resize(self):
        self.lockbroker("create", "db", "3")
        for wanted, printed, size in (("5", "", "5"), ("+2", "7\n", "7"), ("-3", "4\n", "4"), ("-10000", "0\n", "0"),
                                      ("+2", "2\n", "2"), ("0", "", "0"), ("unlimited", "", "unlimited"),
                                      ("unlimited", "", "unlimited"), ("4", "", "4"), ("4", "", "4")):
            job = self.lockbroker("resize", "db", wanted)
            self.assertEqual((job.out, job.err, self.size()), (printed, "", size), wanted)

    def test_an_impossible_size_is_refused(self):
        self.lockbroker("create", "db", "3")
        err = self.lockbroker("resize", "db", "+9998", status=64).err
        self.assertIn("10000", err)
        self.assertIn("lockbroker: db: the target was 10001 slots\n", err)
        self.assertEqual(self.size(), "3")
        self.lockbroker("resize", "db", "unlimited")
        self.assertIn("unlimited", self.lockbroker("resize", "db", "+1", status=64).err)
        self.assertEqual(self.size(), "unlimited")
        self.lockbroker("resize", "missing", "1", status=66)
        self.lockbroker("destroy", "missing", status=66)
        self.lockbroker("size", "missing", status=66)

    def test_destroy(self):
        for slots in ("0", "1", "20", "unlimited"):
            self.lockbroker("create", "db", slots)
            self.lockbroker("destroy", "db")
            self.lockbroker("size", "db", status=66)

    def test_ascending_warns(self):
        self.lockbroker("create", "db", "9")
        self.assertIn("lockbroker: db: ", self.lockbroker("resize", "--ascending", "db", "7").err)
        self.assertIn("ascending", self.lockbroker("resize", "--json", "--ascending", "db", "5").json()["warning"])
        self.assertEqual(self.lockbroker("resize", "--ascending", "--overshoot=10", "db", "3").err, "")
        self.assertEqual(self.size(), "3")
        self.assertIn("lockbroker: db: ", self.lockbroker("destroy", "--ascending", "db").err)

    def test_json(self):
        self.assertEqual(self.lockbroker("create", "--json", "db", "unlimited").json(),
                         {"name": "db", "kind": "semaphore", "slots": "unlimited"})
        self.assertEqual(self.lockbroker("resize", "--json", "db", "2").json(), {"name": "db", "slots": 2, "target": 2})
        error = json.loads(self.lockbroker("resize", "--json", "db", "+9999", status=64).err)["error"]
        self.assertEqual(error["data"]["reason"], "invalid-params")
        self.assertEqual(self.lockbroker("destroy", "--json", "db").json(), {"name": "db"})

    def test_a_user_without_the_right_is_refused(self):
        daemon = Daemon(self, config="[access]\nrule = deny any create,resize,destroy,fsck *\n")
        for argv in (("create", "db"), ("resize", "db", "1"), ("destroy", "db"), ("fsck", "--repair", "db"),
                     ("run", "--create", "db", "true"), ("acquire", "--create", "db")):
            with self.subTest(argv=argv):
                job = command(self, daemon, *argv, status=77, stdin=subprocess.PIPE)
                self.assertRegex(job.err, r"lockbroker: user \w+ \(\d+\) may not \w+ db: .*rule")
        command(self, daemon, "run", "db", "true", status=66)


class Removed(AdminCase):
    """Slots that are removed under their holders."""

    def setUp(self):
        super().setUp()
        self.lockbroker("create", "db", "1")

    def revoke(self, how):
        self.lockbroker(*(("destroy", "db") if how == "destroy" else ("resize", "db", "0")))

    def test_ignored_it_goes_on_in_silence(self):
        for how in ("resize", "destroy"):
            job = self.hold()
            self.revoke(how)
            lock = self.daemon.wait_log("revoked db", count=1 if how == "resize" else 2)
            self.assertIsNotNone(lock)
            job.end()
            job.wait(3)
            self.assertEqual(job.err, "")
            self.lockbroker("resize" if how == "resize" else "create", "db", "1")

    def test_ignored_verbose_says_a_word(self):
        job = self.hold("--verbose")
        self.revoke("destroy")
        wait_until(lambda: "db: the slot was removed, and is kept until the lock is released" in job.err, what="it says so")
        job.end()
        job.wait(3)

    def test_ignored_on_a_terminal_says_a_word(self):
        terminal = Terminal(self, self.daemon, "run", "db", "sh", "-c", "echo pid $$; read x; exit 3")
        terminal.wait_text("pid ")
        self.revoke("resize")
        terminal.wait_text("db: the slot was removed, and is kept until the lock is released")
        terminal.type("\n")
        terminal.wait(3)

    def test_killed(self):
        for how in ("resize", "destroy"):
            job = self.hold("--on-revoke=kill", script=SLEEPER)
            self.revoke(how)
            job.wait(81)
            self.assertIn("db: the slot was removed, and is kept until the lock is released", job.err)
            self.lockbroker("resize" if how == "resize" else "create", "db", "1")
            # It was given back.
            self.lockbroker("run", "-n", "db", "true")

    def test_signalled(self):
        job = self.hold("--on-revoke=signal:USR2", script=SLEEPER)
        self.revoke("destroy")
        job.wait_out("got USR2")
        self.assertTrue(job.running())
        job.signal(signal.SIGTERM)
        job.wait(81)

    def test_verify(self):
        job = self.hold(script='echo lock $LOCKBROKER_LOCK; echo pid $$; read x; exit 3')
        lock = re.search(r"lock (\S+)", job.out).group(1)
        self.assertEqual(self.lockbroker("verify", lock).out, "held, slot 1\n")
        self.revoke("destroy")
        self.lockbroker("verify", lock, status=81)
        # It stays so, though the slot comes back.
        self.lockbroker("create", "db", "1")
        self.lockbroker("verify", lock, status=81)
        self.lockbroker("run", "-n", "db", "true", status=75)
        job.end()
        job.wait(3)
        self.lockbroker("run", "-n", "db", "true")

    def test_acquire_says_so(self):
        job = self.start("acquire", "db", stdin=subprocess.PIPE)
        job.wait_out("\n")
        self.revoke("destroy")
        wait_until(lambda: "the slot was removed" in job.err, what="it says so")
        job.process.stdin.close()
        job.wait(0)


class Waiting(AdminCase):
    def setUp(self):
        super().setUp()
        self.lockbroker("create", "db", "3")

    def test_until_the_last_holder_is_gone(self):
        for argv in (("resize", "--wait", "db", "0"), ("destroy", "--wait=1m", "db")):
            with self.subTest(argv=argv):
                holders = [self.hold(), self.hold()]
                admin = self.start(*argv)
                self.daemon.wait_log("revoked db", count=2)
                holders[0].end()
                holders[0].wait(3)
                self.assertTrue(admin.running())
                holders[1].end()
                holders[1].wait(3)
                admin.wait(0)
                self.assertEqual((admin.out, admin.err), ("", ""))
                if argv[0] == "resize":
                    self.lockbroker("resize", "db", "3")

    def test_nobody_to_wait_for(self):
        self.lockbroker("resize", "--wait", "db", "1")
        self.lockbroker("destroy", "--wait", "db")

    def test_only_removed_slots_are_waited_for(self):
        self.hold()
        self.lockbroker("resize", "--wait=10", "db", "1")

    def test_a_time_that_is_too_short(self):
        for _ in range(3):
            self.hold()
        err = self.lockbroker("resize", "--wait=0.2", "db", "1", status=75).err
        self.assertRegex(err, r"lockbroker: db: removed, but still busy: slots 2-3;")
        self.assertEqual(self.size(), "1")
        # The same command waits for the same holders, and so does another one.
        err = self.lockbroker("resize", "--wait=0.2", "db", "1", status=75).err
        self.assertIn("removed, but still busy: slots 2-3;", err)
        err = self.lockbroker("destroy", "--wait=0.2", "db", status=75).err
        self.assertIn("removed, but still busy: slots 1-3;", err)
        self.lockbroker("size", "db", status=66)

    def test_the_target_is_said_with_a_timeout(self):
        for _ in range(3):
            self.hold()
        err = self.lockbroker("resize", "--wait=0.2", "db", "-2", status=75).err
        self.assertIn("removed, but still busy: slots 2-3", err)
        self.assertIn("lockbroker: db: the target was 1 slot\n", err)

    def test_a_signal_ends_it_and_leaves_nothing(self):
        holder = self.hold()
        for signo in (signal.SIGINT, signal.SIGTERM):
            admin = self.start("resize", "--wait", "db", "0")
            wait_until(lambda: self.peers() == 3 and self.size() == "0", what="it is asked")
            admin.signal(signo)
            admin.wait(128 + signo)
            self.assertEqual(admin.err, "")
            wait_until(lambda: self.peers() == 2, what="only the holder is left")
        # The next administrator does not have to wait.
        self.lockbroker("resize", "db", "2")
        holder.end()
        holder.wait(3)

    def test_it_blocks_no_other_administrator(self):
        self.hold()
        first = self.start("resize", "--wait", "db", "0")
        wait_until(lambda: self.size() == "0", what="the slots are removed")
        self.lockbroker("resize", "db", "5")
        self.assertEqual(self.size(), "5")
        self.assertTrue(first.running())

    def test_progress_on_a_terminal(self):
        holders = [self.hold(), self.hold()]
        terminal = Terminal(self, self.daemon, "destroy", "--wait", "db")
        terminal.wait_text("lockbroker: db: waiting for 2 holders: slots 1-2")
        holders[1].end()
        terminal.wait_text("lockbroker: db: waiting for 1 holder: slot 1")
        holders[0].end()
        terminal.wait(0)
        self.assertNotIn("\n", terminal.text)

    def test_await(self):
        self.lockbroker("await", "-n", "db", "1", "free")
        self.lockbroker("await", "-n", "db", "1", "busy", status=75)
        self.lockbroker("await", "-w", "0.2", "db", "1", "busy", status=75)
        taken = self.start("await", "db", "1", "busy")
        holder = self.hold()
        taken.wait(0)
        self.lockbroker("await", "-n", "db", "1", "free", status=75)
        # Of a slot that does not exist any more, too.
        self.lockbroker("destroy", "db")
        free = self.start("await", "db", "1", "free")
        self.lockbroker("await", "-w", "0.2", "db", "1", "free", status=75)
        self.assertTrue(free.running())
        holder.end()
        free.wait(0)

    def test_a_signal_ends_await(self):
        self.hold()
        job = self.start("await", "db", "1", "free")
        wait_until(lambda: self.peers() == 3, what="it is connected")
        job.signal(signal.SIGINT)
        job.wait(130)


class Gate(AdminCase):
    def test_all_wait_until_it_is_opened(self):
        self.lockbroker("create", "db", "0")
        for patience in (("-n",), ("-w", "0.2")):
            self.assertEqual(self.lockbroker("run", *patience, "db", "true", status=75).err,
                             "lockbroker: db: it has 0 slots; a waiter gets one after a resize\n")
        job = self.start("run", "db", "echo", "in")
        self.daemon.wait_log("requested db", count=3)
        self.assertTrue(job.running())
        self.lockbroker("resize", "db", "1")
        job.wait(0)
        self.assertEqual(job.out, "in\n")

    def test_a_holder_of_a_closed_gate_goes_on(self):
        self.lockbroker("create", "db", "1")
        job = self.hold()
        self.lockbroker("resize", "db", "0")
        job.end()
        job.wait(3)


class Unlimited(AdminCase):
    def setUp(self):
        super().setUp()
        self.lockbroker("create", "db", "unlimited")

    def test_takes_no_slot(self):
        self.assertEqual(self.lockbroker("run", "-n", "db", "sh", "-c", 'echo "[$LOCKBROKER_SLOT]"').out, "[]\n")
        job = self.start("acquire", "--shell", "db", stdin=subprocess.PIPE)
        job.wait_out("\n")
        self.assertIn("LOCKBROKER_SLOT=''; export", job.out)
        lock = re.search("LOCKBROKER_LOCK='(.*?)'", job.out).group(1)
        self.assertEqual(self.lockbroker("verify", lock).out, "held, without a slot (unlimited)\n")
        self.assertIsNone(self.lockbroker("verify", "--json", lock).json()["safe_until"])
        job.process.stdin.close()
        job.wait(0)
        self.lockbroker("verify", lock, status=65)

    def test_nobody_waits(self):
        jobs = [self.hold() for _ in range(4)]
        for job in jobs:
            job.end()
            job.wait(3)

    def test_stays_when_the_size_changes(self):
        job = self.hold()
        self.lockbroker("resize", "--wait=5", "db", "1")
        self.lockbroker("run", "-n", "db", "true")
        self.lockbroker("destroy", "--wait=5", "db")
        job.end()
        job.wait(3)
        self.assertEqual(job.err, "")

    def test_a_hold_without_a_slot_has_no_lease(self):
        daemon = Daemon(self, "--heartbeat", "2")
        command(self, daemon, "create", "db", "unlimited")
        command(self, daemon, "create", "one", "1")
        free = Job(self, daemon, "run", "db", "bash", "-c", SLEEPER)
        held = Job(self, daemon, "run", "one", "bash", "-c", SLEEPER)
        free.wait_out("pid ")
        held.wait_out("pid ")
        daemon.freeze()
        # Within two heartbeats the holder of a slot is gone.
        held.wait(79)
        self.assertTrue(free.running())
        daemon.thaw()
        free.signal(signal.SIGTERM)
        free.wait(5)
        self.assertNotIn("lost", free.err)

    def test_a_daemon_that_ends_takes_it_along(self):
        job = self.hold(script=SLEEPER)
        pid = int(job.out.split()[1])
        self.daemon.kill()
        job.wait(79)
        self.assertTrue(gone(pid))


class Kinds(AdminCase):
    def test_persistent_mutex(self):
        kind = "--kind=persistent-mutex"
        self.lockbroker("run", kind, "-n", "pm", "true", status=66)
        self.lockbroker("create", kind, "pm")
        self.assertEqual(self.lockbroker("run", kind, "pm", "sh", "-c", "echo $LOCKBROKER_SLOT").out, "1\n")
        job = self.hold(kind, name="pm")
        self.lockbroker("run", kind, "-n", "pm", "true", status=75)
        # Slot 1 only, whatever else there is.
        self.lockbroker("resize", "pm", "3")
        self.lockbroker("run", kind, "-n", "pm", "true", status=75)
        job.end()
        job.wait(3)
        self.lockbroker("resize", "pm", "0")
        self.lockbroker("run", kind, "-n", "pm", "true", status=75)
        self.lockbroker("resize", "pm", "1")
        self.lockbroker("run", kind, "-n", "pm", "true")
        self.lockbroker("destroy", "pm")
        self.lockbroker("run", kind, "-n", "pm", "true", status=66)

    def test_persistent_mutex_made_on_first_use(self):
        job = self.start("acquire", "--kind=persistent-mutex", "--create", "pm", stdin=subprocess.PIPE)
        job.wait_out("\n")
        job.process.stdin.close()
        job.wait(0)
        self.assertEqual(json.loads(job.out)["kind"], "persistent-mutex")
        self.assertEqual(self.size("pm"), "1")

    def test_mutex(self):
        self.assertEqual(self.lockbroker("run", "--kind=mutex", "m", "sh", "-c", 'echo "[$LOCKBROKER_SLOT]"').out, "[]\n")
        Wire(self.daemon).call("acquire", name="m", kind="mutex", timeout=0)
        self.lockbroker("run", "--mutex", "-n", "m", "true", status=75)


class NameOfAMutex(unittest.TestCase):
    """Where a semaphore is missing, and a mutex in use has its name: to create one would not help."""

    HINT = "lockbroker: m: a mutex of this name is in use; lockbroker show m prints its holder; " \
        "to wait for the mutex: lockbroker run --mutex m COMMAND\n"
    ACQUIRES = (("run", "-n", "m", "true"), ("run", "--kind=persistent-mutex", "m", "true"),
                ("acquire", "--for-pid", str(os.getpid()), "m"))
    QUESTIONS = (("size", "m"), ("explain", "m"))
    CHANGES = (("resize", "m", "2"), ("resize", "m", "+2"), ("destroy", "m"), ("fsck", "m"))

    def setUp(self):
        self.start()

    def start(self, *options):
        self.daemon = Daemon(self, *options)
        self.peer = Wire(self.daemon)
        self.lock = self.peer.call("acquire", name="m", kind="mutex", timeout=0)["lock"]

    def err(self, *argv, status=66):
        return command(self, self.daemon, *argv, status=status).err

    def hints(self, commands):
        for argv in commands:
            with self.subTest(argv=argv):
                job = command(self, self.daemon, *argv, status=66)
                self.assertTrue(job.err.endswith(self.HINT), job.err)
                self.assertNotIn("create", (job.out + job.err).replace("it must be created first", ""))
                self.assertNotIn("in use", self.err(argv[0], "--json", *argv[1:]))

    def test_of_an_acquire(self):
        self.hints(self.ACQUIRES)

    def test_of_a_question(self):
        self.hints(self.QUESTIONS)

    def test_of_a_change(self):
        self.hints(self.CHANGES)

    def test_where_the_mutex_has_the_queue_of_the_name(self):
        """There a semaphore of that name cannot be created meanwhile."""
        self.start("--naming", "amqp-locks-python")
        self.hints(self.ACQUIRES + self.QUESTIONS)

    def test_a_mutex_that_nobody_holds_changes_nothing(self):
        self.peer.call("release", lock=self.lock)
        for argv in self.ACQUIRES + self.QUESTIONS + self.CHANGES:
            with self.subTest(argv=argv):
                err = self.err(*argv)
                if argv[0] == "show":
                    self.assertNotIn("create", err)
                else:
                    self.assertNotIn("mutex", err)

    def test_a_semaphore_that_is_created_in_spite_of_it(self):
        self.assertEqual(self.err("create", "m", status=0),
                         "lockbroker: m: a mutex of this name is in use, and the semaphore does not exclude its holder\n")
        self.assertEqual(self.err("create", "--json", "--exist-ok", "m", status=0), "")
        self.assertEqual(self.err("create", "other", status=0), "")


class Look(AdminCase):
    def test_list(self):
        self.assertEqual(self.lockbroker("list", "--no-headers").out, "")
        for name, slots in (("b/two", "2"), ("a", "0"), ("c", "unlimited")):
            self.lockbroker("create", name, slots)
        self.hold(name="b/two")
        rows = sorted(self.lockbroker("list", "--no-headers").out.splitlines())
        self.assertEqual([row.split("\t")[:2] for row in rows], [["a", "0"], ["b/two", "2"], ["c", "unlimited"]])
        self.assertEqual(rows[1], "b/two\t2\t1\t0\t")
        (row,) = [row for row in self.lockbroker("list", "--json").json()["semaphores"] if row["name"] == "b/two"]
        self.assertEqual((row["slots"], row["busy"], row["exists"]), (2, 1, True))
        self.lockbroker("destroy", "a")
        self.assertEqual(len(self.lockbroker("list", "--no-headers").out.splitlines()), 2)
        terminal = Terminal(self, self.daemon, "list", columns=100)
        terminal.wait(0)
        self.assertRegex(terminal.text, r"^NAME +SLOTS +BUSY +WAITING *\r\n")

    def busy(self, name="db"):
        """Its cell in the list. None: it is not listed."""
        rows = [row.split("\t") for row in self.lockbroker("list", "--no-headers").out.splitlines()]
        return next((row[2] for row in rows if row[0] == name), None)

    def test_a_gate_does_not_hide_the_jobs_that_still_run(self):
        self.lockbroker("create", "db", "40")
        jobs = [self.hold(), self.hold()]
        self.assertEqual(self.busy(), "2")
        self.lockbroker("resize", "db", "1")
        self.assertEqual(self.busy(), "1 (+1)")
        self.lockbroker("resize", "db", "0")
        self.assertEqual(self.busy(), "0 (+2)")
        (row,) = self.lockbroker("list", "--json").json()["semaphores"]
        self.assertEqual((row["slots"], row["busy"], row["extra"]), (0, 0, 2))
        shown = self.lockbroker("show", "--json", "db").json()
        self.assertEqual((shown["busy"], shown["extra"], len(shown["holders"])), (0, 2, 2))
        terminal = Terminal(self, self.daemon, "show", "db", columns=100)
        terminal.wait(0)
        self.assertRegex(terminal.text, r"^db: slots 0, busy 0 \(\+2\), waiting 0")
        self.assertIn("; 2 holders of removed slots, or without a slot, still work",
                      self.lockbroker("explain", "db", status=75).out)
        waiter = self.start("run", "--verbose", "db", "true")
        wait_until(lambda: "waiting, position 1, 2 holders" in waiter.err, what="it counts the holders")
        for job in jobs:
            job.end()
            job.wait(3)
        self.assertEqual(self.busy(), "0")
        self.lockbroker("resize", "db", "1")
        waiter.wait(0)

    def test_destroy_does_not_hide_the_jobs_that_still_run(self):
        self.lockbroker("create", "db", "1")
        job = self.hold()
        self.lockbroker("destroy", "db")
        wait_until(lambda: self.busy() is not None, what="its holder is listed, once it is known to be revoked")
        self.assertEqual(self.lockbroker("list", "--no-headers").out, "db\t?\t? (+1)\t0\tmissing\n")
        self.assertEqual(self.lockbroker("show", "--json", "db").json()["extra"], 1)
        self.assertIn("1 holder of removed slots", self.lockbroker("explain", "db", status=66).out)
        job.end()
        job.wait(3)
        self.assertIsNone(self.busy())

    def test_holders_without_a_slot_are_counted(self):
        self.lockbroker("create", "db", "unlimited")
        jobs = [self.hold(), self.hold()]
        self.assertEqual(self.busy(), "0 (+2)")
        self.assertEqual(self.lockbroker("show", "--json", "db").json()["extra"], 2)
        metrics = self.lockbroker("metrics").out
        self.assertIn('\nlockbroker_extra_holds{name="db"} 2\n', metrics)
        for job in jobs:
            job.end()
            job.wait(3)
        self.assertEqual(self.busy(), "0")

    def test_fsck(self):
        self.lockbroker("create", "db", "3")
        self.assertEqual(self.lockbroker("fsck", "--no-headers", "db").out, "")
        self.assertEqual(self.lockbroker("fsck", "--no-headers", "--repair", "db").out, "")
        self.assertIs(self.lockbroker("fsck", "--json", "db").json()["clean"], True)
        # A holder of a slot that is gone is no problem. It is told, and is not taken anything from.
        job = self.hold()
        self.lockbroker("resize", "db", "0")
        found = self.lockbroker("fsck", "--no-headers", "db")
        self.assertEqual((found.out, found.err), ("", "lockbroker: db: removed, and its holder still works: slot 1\n"))
        result = self.lockbroker("fsck", "--json", "--repair", "db").json()
        self.assertEqual((result["clean"], result["extra"], result["holders"]), (True, 1, [{"slot": 1}]))
        self.assertTrue(job.running())
        job.end()
        job.wait(3)
        self.assertEqual(self.lockbroker("fsck", "--no-headers", "db").out, "")

    def test_explain(self):
        self.assertIn("lockbroker create db", self.lockbroker("explain", "db", status=66).out)
        self.lockbroker("create", "db", "1")
        self.assertRegex(self.lockbroker("explain", "db").out, "^db: 0 of 1 slots are busy")
        self.hold()
        self.assertRegex(self.lockbroker("explain", "db", status=75).out, "^db: 1 of 1 slots are busy, all held by clients of this daemon")
        self.assertEqual(self.lockbroker("explain", "--json", "db", status=75).json()["verdict"], "full")
        self.lockbroker("resize", "db", "0")
        self.assertIn("To open it: lockbroker resize db N", self.lockbroker("explain", "db", status=75).out)
        self.lockbroker("resize", "db", "unlimited")
        self.assertRegex(self.lockbroker("explain", "db").out, "^db: it is unlimited")
        self.assertRegex(self.lockbroker("explain", "--mutex", "m").out, "^m: the mutex is free")



class InUse(unittest.TestCase):
    """Words about locks that are in use, or not there."""

    def setUp(self):
        self.daemon = Daemon(self, expect=["revoked", "lost "])
        self.peer = Wire(self.daemon)
        command(self, self.daemon, "create", "db", "3")

    def hold(self, count, **params):
        for _ in range(count):
            self.peer.call("acquire", who="alice@north", **params)

    def test_destroy_counts_the_holders_that_stay(self):
        self.hold(2, name="db")
        self.assertEqual(command(self, self.daemon, "destroy", "db").err,
                         "lockbroker: db: 2 holders keep their slots until the release\n")
        command(self, self.daemon, "create", "free")
        self.assertEqual(command(self, self.daemon, "destroy", "free").err, "")

    def test_a_wait_that_ends_names_the_holders(self):
        self.hold(1, name="db")
        for argv in (("resize", "--wait=0.1", "db", "0"), ("destroy", "--wait=0.1", "db")):
            self.assertIn("lockbroker: db: held by alice@north\n", command(self, self.daemon, *argv, status=75).err)

    def test_deny_all_of_no_lock(self):
        job = command(self, self.daemon, "deny", "--all", "mistyped", status=66)
        self.assertIn("mistyped: the lock does not exist, and nobody waits for it", job.err)
        self.hold(1, name="m", kind="mutex")
        self.assertIn("m: no waiters", command(self, self.daemon, "deny", "--all", "m").err)

    def test_create_of_a_run_does_not_resize(self):
        job = command(self, self.daemon, "run", "--create=5", "db", "true")
        self.assertEqual(job.err, "lockbroker: db: it exists already, with 3 slots: --create=5 has no effect\n")
        for argv in (("--create=3", "db"), ("--create", "db"), ("--create=5", "new")):
            self.assertEqual(command(self, self.daemon, "run", *argv, "true").err, "")

    def test_a_mutex_has_no_slots(self):
        self.hold(1, name="m", kind="mutex")
        for argv, words in ((("-n",), "the mutex is held"), (("-w", "0.05"), "the mutex was not released in time")):
            job = command(self, self.daemon, "run", *argv, "--mutex", "m", "true", status=75)
            self.assertEqual(job.err, f"lockbroker: m: {words}\nlockbroker: m: held by alice@north\n")


if __name__ == "__main__":
    tap.main()
