"""The subcommands that administrate, with a fake daemon: their requests, output and exit statuses. A terminal
shows progress while they wait, and a signal ends them at once."""

import getpass
import json
import signal
import socket
import subprocess
import unittest

import tap
from cli import Job, Terminal, command
from fake import Fake, error, reply
from wait import wait_until

# Reason -> (code, exit status).
REASONS = {
    "would-block": (1, 75), "timeout": (2, 75), "contended": (3, 75), "cancelled": (4, 75),
    "no-such-lock": (5, 66), "already-exists": (6, 73), "permission-denied": (10, 77),
    "too-many-waiters": (13, 75), "draining": (14, 69), "broker-unavailable": (15, 69),
    "broker-blocked": (16, 69), "broker-refused": (17, 78), "method-not-found": (-32601, 64),
    "invalid-params": (-32602, 64), "internal": (-32603, 70),
}
COMMANDS = (("create", "db"), ("resize", "db", "2"), ("resize", "db", "+2"), ("destroy", "db"), ("size", "db"),
            ("await", "db", "1", "free"), ("list",), ("fsck", "db"), ("explain", "db"))


def refusing(code, reason, message="no", **data):
    return lambda request, _: reply(request, error=error(code, reason, message, **data))


class FakeCase(unittest.TestCase):
    def lockbroker(self, fake, *argv, status=0, **more):
        return command(self, fake, *argv, status=status, **more)

    def asked(self, *argv, result=None):
        """The params of what is asked for that command line."""
        fake = Fake(self, **{argv[0]: result or {"name": "db", "slots": 1, "target": 1}})
        self.lockbroker(fake, *argv)
        request = fake.requests[0]
        self.assertEqual(request["method"], argv[0])
        return request.get("params", {})


class Asked(FakeCase):
    def test_create(self):
        for argv, params in (
                (("db",), {"slots": 1}), (("db", "0"), {"slots": 0}), (("db", "10000"), {"slots": 10000}),
                (("db", "unlimited"), {"slots": "unlimited"}),
                (("--exist-ok", "--overshoot", "300", "db", "3"), {"slots": 3, "exist_ok": True, "overshoot": 300}),
                (("--kind=semaphore", "db", "3"), {"slots": 3}),
                (("--claim=consumer", "db", "3"), {"slots": 3, "claim": "consumer"}),
                (("--claim", "exclusive-queue", "db"), {"slots": 1, "claim": "exclusive-queue"}),
                (("--kind=persistent-mutex", "db"), {"kind": "persistent-mutex", "slots": 1}),
                (("--kind=persistent-mutex", "--exist-ok", "db", "1"),
                 {"kind": "persistent-mutex", "slots": 1, "exist_ok": True})):
            with self.subTest(argv=argv):
                self.assertEqual(self.asked("create", *argv), {"name": "db", **params})

    def test_resize(self):
        for argv, params in (
                (("db", "3"), {"slots": 3}), (("db", "0"), {"slots": 0}), (("db", "unlimited"), {"slots": "unlimited"}),
                (("db", "+2"), {"add": 2}), (("db", "-2"), {"remove": 2}), (("--", "db", "-2"), {"remove": 2}),
                (("--ascending", "--overshoot=9", "db", "-10000"),
                 {"remove": 10000, "order": "ascending", "overshoot": 9}),
                (("--wait", "db", "3"), {"slots": 3, "wait": None}),
                (("--claim=consumer", "db", "3"), {"slots": 3, "claim": "consumer"}),
                (("--wait=1.5m", "db", "3"), {"slots": 3, "wait": 90})):
            with self.subTest(argv=argv):
                self.assertEqual(self.asked("resize", *argv), {"name": "db", **params})

    def test_destroy(self):
        for argv, params in (
                (("db",), {}), (("--wait", "db"), {"wait": None}), (("--wait=2", "db"), {"wait": 2}),
                (("--ascending", "--overshoot", "10000", "db"), {"order": "ascending", "overshoot": 10000})):
            with self.subTest(argv=argv):
                self.assertEqual(self.asked("destroy", *argv), {"name": "db", **params})

    def test_await(self):
        for argv, params in (
                (("db", "3", "free"), {"slot": 3, "state": "free"}),
                (("-w", "2.5", "db", "10000", "busy"), {"slot": 10000, "state": "busy", "timeout": 2.5}),
                (("-n", "db", "1", "free"), {"slot": 1, "state": "free", "timeout": 0})):
            with self.subTest(argv=argv):
                self.assertEqual(self.asked("await", *argv), {"name": "db", **params})

    def test_list_fsck_explain(self):
        self.assertEqual(self.asked("list", result={"semaphores": [], "more": 0}), {})
        clean = {"name": "db", "clean": True, "findings": [], "more": 0}
        self.assertEqual(self.asked("fsck", "db", result=clean), {"name": "db"})
        self.assertEqual(self.asked("fsck", "--repair", "db", result=clean), {"name": "db", "repair": True})
        for argv, params in ((("--convert=consumer",), {"convert": "consumer"}),
                             (("--convert=exclusive-queue", "--wait"), {"convert": "exclusive-queue", "wait": None}),
                             (("--wait=1.5m",), {"wait": 90})):
            with self.subTest(argv=argv):
                self.assertEqual(self.asked("fsck", "--repair", *argv, "db", result=clean),
                                 {"name": "db", "repair": True, **params})
        free = {"name": "db", "verdict": "free", "text": "it is free"}
        self.assertEqual(self.asked("explain", "db", result=free), {"name": "db"})
        self.assertEqual(self.asked("explain", "--mutex", "db", result=free), {"name": "db", "kind": "mutex"})
        self.assertEqual(self.asked("explain", "--kind=persistent-mutex", "db", result=free),
                         {"name": "db", "kind": "persistent-mutex"})

    def acquire(self, fake, *argv):
        job = Job(self, fake, "acquire", *argv, stdin=subprocess.PIPE)
        job.wait_out("\n")
        job.process.stdin.close()
        job.wait(0)

    def test_acquire_and_run(self):
        for argv, params in (
                (("--create",), {"create": 1}), (("--create=7",), {"create": 7}),
                (("--kind=persistent-mutex", "--create"), {"kind": "persistent-mutex", "create": 1}),
                (("--kind=mutex",), {"kind": "mutex"}), (("--mutex",), {"kind": "mutex"})):
            with self.subTest(argv=argv):
                fake = Fake(self)
                self.lockbroker(fake, "run", "-n", *argv, "db", "true")
                self.acquire(fake, "-n", *argv, "db")
                for request in fake.asked("acquire"):
                    request["params"].pop("command", None)
                    params = {"who": f"{getpass.getuser()}@{socket.gethostname()}", **params}
                    self.assertEqual(request["params"], {"name": "db", "lease": True, "timeout": 0, **params})
                self.assertEqual(fake.asked("create"), [])
        # A number that is a name and not that of slots.
        for argv in (("--create", "--", "3"), ("--create=1", "3")):
            fake = Fake(self)
            self.acquire(fake, *argv)
            (request,) = fake.asked("acquire")
            self.assertEqual((request["params"]["name"], request["params"]["create"]), ("3", 1))


class Mistakes(unittest.TestCase):
    """A mistake in the arguments is printed before a request is sent."""

    def refused(self, *argv, text=""):
        with self.subTest(argv=argv):
            fake = Fake(self)
            job = command(self, fake, *argv, status=64)
            self.assertEqual((job.out, fake.requests), ("", []))
            self.assertTrue(job.err.startswith("lockbroker: "), job.err)
            self.assertIn(text, job.err)

    def test_numbers_of_slots(self):
        for slots in ("-1", "+3", "10001", "99999999999999999999", "3x", "0x3", "1.5", "", " 3", "Unlimited", "-"):
            self.refused("create", "db", slots, text="expected a number of slots, 0 to 10000, or unlimited")
        for slots in ("+", "-", "+0", "-0", "+10001", "-99999999999999999999", "+3x", "+-3", "10001", "+unlimited",
                      "", "3 "):
            self.refused("resize", "db", slots, text="expected N, +N, -N or unlimited")
        for slot in ("0", "-1", "10001", "x", ""):
            self.refused("await", "db", slot, "free", text="expected a slot number, 1 to 10000")
        for slots in ("-1", "10001", "x"):
            self.refused("destroy", f"--overshoot={slots}", "db", text="--overshoot")
        self.refused("run", "--create=0", "db", "true", text="--create")

    def test_names(self):
        for name in ("", "x" * 201, "a b", "b\u00e4", "a\"b", "a\\b", "a\nb", "amq.x", "db-1-A", "db-W", "db-G"):
            for argv in COMMANDS:
                if len(argv) > 1:
                    self.refused(argv[0], name, *argv[2:], text="a lock name ")

    def test_the_longest_name_is_fine(self):
        fake = Fake(self, fsck={"name": "x" * 200, "clean": True, "findings": [], "more": 0})
        command(self, fake, "create", "x" * 200)
        command(self, fake, "fsck", "x" * 200)
        self.assertEqual(fake.asked("fsck")[0]["params"]["name"], "x" * 200)

    def test_options_and_operands(self):
        for argv, text in (
                (("create", "--kind=mutex", "db"), "create: a mutex is not created"),
                (("create", "--kind=x", "db"), "create: --kind: 'x': expected semaphore, mutex or persistent-mutex"),
                (("create", "--kind=persistent-mutex", "db", "2"), "create: a persistent-mutex has one slot"),
                (("create", "--kind=persistent-mutex", "db", "0"), "create: a persistent-mutex has one slot"),
                (("run", "--kind=persistent-mutex", "--create=2", "db", "true"), "run: --create=2: a persistent"),
                (("run", "--kind=mutex", "--create", "db", "true"), "run: --create does not apply to a mutex"),
                (("run", "--kind=semaphore", "--mutex", "db", "true"), "run: --mutex and --kind exclude each other"),
                (("run", "--create", "3", "db", "true"), "run: 3: did you mean --create=3? (for a lock of that name:"),
                (("acquire", "--create", "3"), "acquire: 3: did you mean --create=3?"),
                (("create", "--wait", "db"), "create: --wait: no such option"),
                (("create", "--ascending", "db"), "create: --ascending: no such option"),
                (("resize", "db"), "resize: missing SLOTS (see lockbroker resize --help)"),
                (("resize", "-2", "db"), "resize: 'db': expected N, +N"),
                (("resize", "db", "-2", "3"), "resize: 3: unexpected argument"),
                (("resize", "db", "--wait"), "resize: missing SLOTS"),
                (("resize", "--wait", "5s", "db", "2"), "resize: 2: unexpected argument, or did you mean --wait=DUR?"),
                (("resize", "--wait=x", "db", "2"), "resize: --wait: 'x': expected seconds"),
                (("resize", "--wait=0", "db", "2"), "resize: --wait: '0': expected more than 0"),
                (("destroy", "--wait=0s", "db"), "destroy: --wait: '0s': expected more than 0"),
                (("destroy", "--wait", "5s", "db"), "destroy: db: unexpected argument, or did you mean --wait=DUR?"),
                (("destroy", "db", "2"), "destroy: 2: unexpected argument"),
                (("await", "db", "1", "taken"), "await: 'taken': expected free or busy"),
                (("await", "db", "1"), "await: missing STATE"),
                (("await", "-n", "-w", "3", "db", "1", "free"), "await: --nonblock and --wait exclude each other"),
                (("list", "db"), "list: db: unexpected argument"),
                (("fsck",), "fsck: missing NAME"),
                (("create", "--claim=queue", "db"), "--claim"), (("resize", "--claim=mixed", "db", "1"), "--claim"),
                (("destroy", "--claim=consumer", "db"), "destroy: --claim=consumer: no such option"),
                (("fsck", "--convert=consumer", "db"), "fsck: --convert needs --repair"),
                (("fsck", "--wait", "db"), "fsck: --wait needs --repair"),
                (("fsck", "--repair", "--convert=both", "db"), "--convert"),
                (("explain", "--repair", "db"), "explain: --repair: no such option")):
            self.refused(*argv, text=text)


class Told(FakeCase):
    def test_every_reason_has_its_status(self):
        for argv in COMMANDS:
            for reason, (code, status) in REASONS.items():
                with self.subTest(argv=argv, reason=reason):
                    fake = Fake(self, **{argv[0]: refusing(code, reason, "words of the daemon")})
                    job = self.lockbroker(fake, *argv, status=status)
                    self.assertEqual(job.out, "")
                    about = "" if argv[0] == "list" or reason == "method-not-found" else "db: "
                    self.assertTrue(job.err.startswith(f"lockbroker: {about}words of the daemon\n"), job.err)

    def test_errors_as_json_are_nothing_else(self):
        for argv in COMMANDS:
            with self.subTest(argv=argv):
                fake = Fake(self, **{argv[0]: refusing(5, "no-such-lock", target=3, holders=[{"slot": 1}])})
                job = self.lockbroker(fake, argv[0], "--json", *argv[1:], status=66)
                self.assertEqual(json.loads(job.err)["error"]["data"]["reason"], "no-such-lock")
                self.assertEqual(job.err.count("\n"), 1)

    def test_results_as_json(self):
        for argv in COMMANDS:
            with self.subTest(argv=argv):
                result = {"name": "db", "slots": 3, "verdict": "free", "warning": "look", "more": 0, "new": [{}]}
                job = self.lockbroker(Fake(self, **{argv[0]: result}), argv[0], "--json", *argv[1:])
                self.assertEqual((job.json(), job.err), (result, ""))

    def test_a_hint_says_how_to_create_a_missing_semaphore(self):
        for argv in COMMANDS:
            if argv[0] in ("create", "list"):
                continue
            with self.subTest(argv=argv):
                fake = Fake(self, **{argv[0]: refusing(5, "no-such-lock")})
                err = self.lockbroker(fake, *argv, status=66).err
                self.assertIn("lockbroker list shows all semaphores", err)
                # Not after a destroy: its goal is reached.
                self.assertEqual("lockbroker create db SLOTS" in err, argv[0] != "destroy")

    def test_a_daemon_that_does_not_know_of_a_mutex_in_time_delays_no_hint(self):
        for argv in (("run", "db", "true"), ("size", "db")):
            with self.subTest(argv=argv):
                fake = Fake(self, acquire=refusing(5, "no-such-lock"), size=refusing(5, "no-such-lock"), explain=None)
                self.assertIn("lockbroker create db SLOTS", self.lockbroker(fake, *argv, status=66).err)
                self.assertEqual(fake.asked("explain")[0]["params"], {"name": "db", "kind": "mutex"})

    def test_a_hint_says_how_to_resize_an_existing_semaphore(self):
        fake = Fake(self, create=refusing(6, "already-exists", "it has 2 slots", slots=2))
        job = self.lockbroker(fake, "create", "--exist-ok", "db", "3", status=73)
        self.assertEqual(job.err, "lockbroker: db: it has 2 slots\n"
                         "lockbroker: to change its size: lockbroker resize db 3\n")

    def test_an_existing_semaphore_of_the_wanted_size_needs_no_resize(self):
        for slots, argv in ((2, ("2",)), (2, ("002",)), (1, ()), (0, ("0",)), ("unlimited", ("unlimited",))):
            fake = Fake(self, create=refusing(6, "already-exists", "there is", slots=slots))
            with self.subTest(slots=slots, argv=argv):
                self.assertEqual(self.lockbroker(fake, "create", "db", *argv, status=73).err,
                                 "lockbroker: db: there is\n"
                                 "lockbroker: use --exist-ok to accept that\n")
        for slots in (None, 1, 20, "unlimited"):
            fake = Fake(self, create=refusing(6, "already-exists", slots=slots))
            with self.subTest(slots=slots):
                self.assertIn("lockbroker resize db 2\n", self.lockbroker(fake, "create", "db", "2", status=73).err)

    def test_a_slot_that_is_held_in_the_other_way_has_two_remedies(self):
        words = "slot 1 is still held by an exclusive queue, from before; try again when it is released"
        fake = Fake(self, create=refusing(1, "would-block", words, slots=0, busy=None, waiting=None))
        self.assertEqual(self.lockbroker(fake, "create", "--claim=consumer", "db", "3", status=75).err,
                         f"lockbroker: db: {words}\nlockbroker: to hold its slots by exclusive queues, too: "
                         "lockbroker create --claim=exclusive-queue db 3\n")

    def test_a_create_that_was_cut_off_can_be_completed(self):
        words = "to complete it: lockbroker create --exist-ok db 3"
        for what in (refusing(15, "broker-unavailable"), refusing(16, "broker-blocked"), Fake.CLOSE):
            job = self.lockbroker(Fake(self, create=what), "create", "db", "3", status=69)
            self.assertIn(words, job.err)
        # Nothing was sent.
        job = self.lockbroker(Fake(self, create=refusing(15, "broker-unavailable", changed=False)), "create", "db", "3",
                              status=69)
        self.assertNotIn("complete", job.err)
        job = self.lockbroker(Fake(self, create=refusing(10, "permission-denied")), "create", "db", "3", status=77)
        self.assertNotIn("completes", job.err)

    def test_a_warning_goes_to_stderr(self):
        for argv in (("create", "db"), ("resize", "db", "2"), ("destroy", "db")):
            with self.subTest(argv=argv):
                fake = Fake(self, **{argv[0]: {"name": "db", "slots": 2, "target": 2, "warning": "mind the gap"}})
                job = self.lockbroker(fake, *argv)
                self.assertEqual((job.out, job.err), ("", "lockbroker: db: mind the gap\n"))

    def test_a_relative_size_is_printed(self):
        for size, slots in (("+2", 5), ("-2", 1), ("-10000", 0)):
            fake = Fake(self, resize={"name": "db", "slots": slots, "target": slots})
            self.assertEqual(self.lockbroker(fake, "resize", "db", size).out, f"{slots}\n")
        fake = Fake(self, resize={"name": "db", "slots": 3, "target": 3})
        self.assertEqual(self.lockbroker(fake, "resize", "db", "3").out, "")

    def test_the_target_is_in_every_error_of_a_relative_one(self):
        for reason, (code, status) in REASONS.items():
            with self.subTest(reason=reason):
                fake = Fake(self, resize=refusing(code, reason, target=7))
                err = self.lockbroker(fake, "resize", "db", "+2", status=status).err
                self.assertIn("db: the target was 7 slots", err)
                # An impossible resize cannot be completed.
                self.assertEqual("to complete the resize: lockbroker resize db 7" in err, reason != "invalid-params")
                self.assertNotIn("completes", self.lockbroker(fake, "resize", "db", "7", status=status).err)
        err = self.lockbroker(Fake(self, resize=refusing(15, "broker-unavailable", target=1)), "resize", "db", "-1",
                              status=69).err
        self.assertIn("the target was 1 slot; ", err)
        fake = Fake(self, resize=refusing(15, "broker-unavailable", target=1, changed=False))
        self.assertIn("the target was 1 slot\n", self.lockbroker(fake, "resize", "db", "-1", status=69).err)
        # The daemon did not get so far as to know it.
        fake = Fake(self, resize=refusing(15, "broker-unavailable"))
        self.assertNotIn("completes", self.lockbroker(fake, "resize", "db", "+2", status=69).err)
        # It may have got that far, and could not say so.
        for size, told in (("+2", True), ("-2", True), ("2", False)):
            err = self.lockbroker(Fake(self, resize=Fake.CLOSE), "resize", "db", size, status=69).err
            self.assertEqual("lockbroker size db" in err, told, err)

    def test_remaining_holders_are_printed_at_the_timeout(self):
        for held, words in (([4], "slot 4"), ([4, 5, 6, 9], "slots 4-6, 9"), ([6, 5, 4], "slots 4-6"),
                            ([1, 3], "slots 1, 3")):
            for argv in (("destroy", "--wait=1", "db"), ("resize", "--wait=1", "db", "1")):
                with self.subTest(held=held, argv=argv):
                    fake = Fake(self, **{argv[0]: refusing(2, "timeout", "the time is over", target=1, left=len(held),
                                                       holders=[{"slot": slot} for slot in held])})
                    self.assertEqual(self.lockbroker(fake, *argv, status=75).err,
                                     "lockbroker: db: the time is over\n"
                                     f"lockbroker: db: removed, but still busy: {words}; to keep waiting: "
                                     "lockbroker await db SLOT free\n")
        many = list(range(1, 10000, 2))
        fake = Fake(self, destroy=refusing(2, "timeout", holders=[{"slot": slot} for slot in many]))
        said = self.lockbroker(fake, "destroy", "--wait=1", "db", status=75).err.splitlines()[1]
        listed = said.split("busy: slots ")[1].split(" and ")[0].split(", ")
        self.assertEqual(listed, [str(slot) for slot in many[:len(listed)]])
        self.assertIn(f" and {len(many) - len(listed)} more;", said)
        self.assertLess(len(said), 250)
        # The wire lists a thousand.
        fake = Fake(self, destroy=refusing(2, "timeout", left=4000,
                                           holders=[{"slot": slot} for slot in range(1, 1001)]))
        self.assertIn("still busy: slots 1-1000 and 3000 more;",
                      self.lockbroker(fake, "destroy", "--wait=1", "db", status=75).err)

    def test_a_wait_that_is_cut_off(self):
        held = {"target": 1, "left": 1, "holders": [{"slot": 2}], "warning": "mind the gap"}
        for argv in (("destroy", "--wait", "db"), ("resize", "--wait", "db", "1")):
            fake = Fake(self, **{argv[0]: refusing(14, "draining", "the daemon is stopping", **held)})
            self.assertEqual(self.lockbroker(fake, *argv, status=69).err,
                             "lockbroker: db: the daemon is stopping\n"
                             "lockbroker: db: removed, but still busy: slot 2; to keep waiting: "
                             "lockbroker await db SLOT free\nlockbroker: db: mind the gap\n")
        # It is done, so there is nothing to complete.
        fake = Fake(self, resize=refusing(2, "timeout", **held))
        self.assertTrue(self.lockbroker(fake, "resize", "--wait=1", "db", "-1", status=75).err
                        .endswith("lockbroker: db: the target was 1 slot\n"))

    def test_another_administrator(self):
        text = "another administrator is at work (host a, pid 7)"
        fake = Fake(self, resize=refusing(2, "timeout", text, target=5))
        self.assertEqual(self.lockbroker(fake, "resize", "db", "+2", status=75).err,
                         f"lockbroker: db: {text}\n"
                         "lockbroker: db: the target was 5 slots; to complete the resize: lockbroker resize db 5\n")

    def test_size(self):
        for slots, text in ((0, "0\n"), (3, "3\n"), ("unlimited", "unlimited\n")):
            fake = Fake(self, size={"name": "db", "slots": slots})
            self.assertEqual(self.lockbroker(fake, "size", "db").out, text)
        self.lockbroker(Fake(self, size={"name": "db", "slots": None}), "size", "db", status=70)

    def test_verify_of_a_hold_without_a_slot(self):
        for kind, text in (("mutex", "held\n"), ("semaphore", "held, without a slot (unlimited)\n")):
            fake = Fake(self, verify={"lock": "x", "name": "db", "kind": kind, "slot": None, "safe_until": None})
            self.assertEqual(self.lockbroker(fake, "verify", "x").out, text)

    def test_the_daemon_ends_in_the_middle(self):
        for argv in COMMANDS:
            with self.subTest(argv=argv):
                self.lockbroker(Fake(self, **{argv[0]: Fake.CLOSE}), *argv, status=69)


# Erases the rest of a line on a terminal (ECMA-48, EL).
CLEAR = "\x1b[K"
ROWS = [{"name": "db", "slots": 3, "busy": 1, "waiting": 4, "exists": True},
        {"name": "nightly/report", "slots": "unlimited", "busy": 0, "waiting": 4, "exists": True},
        {"name": "gate", "slots": 0, "busy": 0, "waiting": 4, "exists": True, "extra": 12},
        {"name": "gone", "slots": 0, "busy": None, "waiting": 4, "exists": False},
        {"name": "dark", "slots": None, "busy": None, "waiting": 4, "exists": True}]
FINDING = {"problem": "gap", "slot": 2, "text": "slot 2 is missing", "repaired": False}
FINDINGS = [FINDING, {"problem": "not-listed", "slot": None, "text": "it is not in the directory", "repaired": True}]


class Tables(FakeCase):
    def on_a_terminal(self, fake, *argv, status=0):
        terminal = Terminal(self, fake, *argv, columns=200)
        terminal.wait(status)
        return terminal.text.replace("\r\n", "\n")

    def test_list(self):
        fake = Fake(self, list={"semaphores": ROWS, "more": 0})
        job = self.lockbroker(fake, "list", "--no-headers")
        self.assertEqual(job.out, "db\t3\t1\t4\t\nnightly/report\tunlimited\t0\t4\t\ngate\t0\t0 (+12)\t4\t\n"
                         "gone\t0\t?\t4\tmissing\ndark\t?\t?\t4\t\n")
        self.assertEqual(job.err, "")
        self.assertEqual(self.on_a_terminal(fake, "list"),
                         "NAME                SLOTS     BUSY  WAITING  \n"
                         "db                      3        1        4  \n"
                         "nightly/report  unlimited        0        4  \n"
                         "gate                    0  0 (+12)        4  \n"
                         "gone                    0        ?        4  missing\n"
                         "dark                    ?        ?        4  \n")

    def test_none(self):
        fake = Fake(self, list={"semaphores": [], "more": 0},
                    fsck={"name": "db", "clean": True, "findings": [], "more": 0})
        self.assertEqual(self.lockbroker(fake, "list", "--no-headers").out, "")
        self.assertEqual(self.on_a_terminal(fake, "list"), "There are no semaphores.\n")
        self.assertEqual(self.lockbroker(fake, "fsck", "--no-headers", "db").out, "")
        self.assertEqual(self.on_a_terminal(fake, "fsck", "db"), "No problems.\n")

    def test_more_than_fits(self):
        fake = Fake(self, list={"semaphores": ROWS[:1], "more": 12})
        self.assertIn("12 more do not fit", self.lockbroker(fake, "list").err)

    def test_thousands(self):
        rows = [{"name": f"n{i}", "slots": i, "busy": 0, "waiting": 4, "exists": True} for i in range(3000)]
        out = self.lockbroker(Fake(self, list={"semaphores": rows, "more": 0}), "list", "--no-headers").out
        self.assertEqual(out, "".join(f"n{i}\t{i}\t0\t4\t\n" for i in range(3000)))

    def test_an_answer_that_is_no_table(self):
        row = "db\t3\t1\t4\t\n"
        for result, out in (({"semaphores": {"4000000000": ROWS[0]}}, row), ({"semaphores": [{}, ROWS[0]]}, row),
                            ({"semaphores": [[1], "x", None, {"name": {"a": 1}}]}, "\t\t\t\t\n" * 2),
                            ({"semaphores": [ROWS[0]], "semaphores.0": {"name": "other"}}, "other\t3\t1\t4\t\n"),
                            ({"semaphores": "x"}, ""), ({"semaphores": None}, ""), ({}, "")):
            with self.subTest(result=result):
                self.assertEqual(self.lockbroker(Fake(self, list=result), "list", "--no-headers").out, out)

    def test_text_that_could_confuse(self):
        finding = {**FINDING, "text": "a\tb\nc\x1b[2Jd\u0085e \u65e5\u672c na\u00efve", "new": 1}
        fake = Fake(self, fsck={"name": "db", "clean": False, "findings": [finding], "more": 0})
        self.assertEqual(self.lockbroker(fake, "fsck", "--no-headers", "db", status=1).out,
                         "gap\t2\tno\ta?b?c?[2Jd?e \u65e5\u672c na\u00efve\n")
        self.assertIn("a?b?c?[2Jd?e \u65e5\u672c na\u00efve\n", self.on_a_terminal(fake, "fsck", "db", status=1))

    def test_characters_that_are_wide_or_of_many_bytes(self):
        rows = [{**ROWS[0], "name": name} for name in ("\u65e5\u672c", "na\u00efve", "plain")]
        lines = self.on_a_terminal(Fake(self, list={"semaphores": rows, "more": 0}), "list").splitlines()
        # Two columns a character, one, and one.
        for line, begin in zip(lines, ("NAME   SLOTS  ", "\u65e5\u672c       3  ", "na\u00efve      3  ",
                                       "plain      3  "), strict=True):
            self.assertTrue(line.startswith(begin), lines)

    def test_fsck(self):
        for findings, more, status in (([], 0, 0), (FINDINGS[1:], 0, 0), (FINDINGS, 0, 1), (FINDINGS[1:], 7, 1)):
            with self.subTest(findings=findings, more=more):
                fake = Fake(self, fsck={"name": "db", "clean": not findings, "findings": findings, "more": more})
                self.lockbroker(fake, "fsck", "--repair", "db", status=status)
                self.lockbroker(fake, "fsck", "--repair", "--json", "db", status=status)
        fake = Fake(self, fsck={"name": "db", "clean": False, "findings": FINDINGS, "more": 0})
        job = self.lockbroker(fake, "fsck", "--no-headers", "db", status=1)
        self.assertEqual(job.out, "gap\t2\tno\tslot 2 is missing\nnot-listed\t\tyes\tit is not in the directory\n")
        self.assertEqual(job.err, "lockbroker: db: to repair: lockbroker fsck --repair db\n")
        self.assertEqual(self.lockbroker(fake, "fsck", "--repair", "db", status=1).err, "")
        # The exit status tells problems that are never repaired from others, in any order of the findings.
        for problems, more, found, repaired in ((("orphan", "arguments"), 0, 4, 4), (("orphan", "gap"), 0, 1, 4),
                                           (("gap", "orphan"), 0, 1, 4), (("orphan",), 1, 1, 1), (("unreachable",), 0, 4, 4),
                                           (("claim",), 0, 4, 4),
                                           (("new-problem",), 0, 1, 1), (("arguments", "transient"), 0, 1, 1)):
            before = [{**FINDING, "problem": problem} for problem in problems]
            after = [{**one, "repaired": one["problem"] == "gap"} for one in before]
            turned = [dict(reversed(one.items())) for one in after]
            for findings, status in (before, found), (after, repaired), (turned, repaired):
                fake = Fake(self, fsck={"name": "db", "clean": False, "findings": findings, "more": more})
                with self.subTest(findings=findings, more=more):
                    self.lockbroker(fake, "fsck", "db", status=status)
                    self.lockbroker(fake, "fsck", "--json", "db", status=status)
        converted = {"name": "db", "clean": True, "findings": [], "converted": 3, "more": 0}
        job = self.lockbroker(Fake(self, fsck=converted), "fsck", "--no-headers", "--repair", "--convert=consumer", "db")
        self.assertEqual((job.out, job.err), ("", "lockbroker: db: 3 slots converted\n"))
        claims = {"name": "db", "clean": False, "findings": [{**FINDING, "problem": "claim"}], "converted": 1, "more": 0}
        fake = Fake(self, fsck=claims)
        self.assertEqual(self.lockbroker(fake, "fsck", "--repair", "db", status=4).err,
                         "lockbroker: db: 1 slot converted\n"
                         "lockbroker: db: to hold all slots in one way: lockbroker fsck --repair --convert=WAY db\n")
        self.assertEqual(self.lockbroker(fake, "fsck", "--repair", "--convert=consumer", "db", status=4).err,
                         "lockbroker: db: 1 slot converted\n")
        # The hint is printed if a problem can be repaired, or is unknown to this lockbroker.
        for problems, more, told, status in ((("orphan", "arguments"), 0, False, 4), (("orphan",), 3, True, 1),
                                          (("arguments", "transient"), 0, True, 1), (("new-problem",), 0, True, 1)):
            findings = [{**FINDING, "problem": problem} for problem in problems]
            fake = Fake(self, fsck={"name": "db", "clean": False, "findings": findings, "more": more})
            with self.subTest(problems=problems, more=more):
                err = self.lockbroker(fake, "fsck", "db", status=status).err
                self.assertEqual("fsck --repair db" in err, told)
        fake = Fake(self, fsck={"name": "db", "clean": False, "findings": FINDINGS, "more": 0})
        self.assertEqual(self.on_a_terminal(fake, "fsck", "--repair", "db", status=1),
                         "PROBLEM     SLOT  REPAIRED  WHAT\n"
                         "gap            2  no        slot 2 is missing\n"
                         "not-listed        yes       it is not in the directory\n")

    def test_explain(self):
        for verdict, reason, status, more in (
                ("free", None, 0, ""), ("unlimited", None, 0, ""), ("full", "would-block", 75, ""),
                ("free", "too-many-locks", 75, ""), ("free", "draining", 69, ""), ("full", "permission-denied", 77, ""),
                ("gate", "would-block", 75, "To open it: lockbroker resize db N\n"),
                ("no-such-lock", "no-such-lock", 66, "To create it: lockbroker create db SLOTS\n"),
                ("already-exists", "already-exists", 73, ""), (None, None, 69, "")):
            with self.subTest(verdict=verdict, reason=reason):
                fake = Fake(self, explain={"name": "db", "verdict": verdict, "reason": reason, "text": "so it is"})
                self.assertEqual(self.lockbroker(fake, "explain", "db", status=status).out,
                                 "db: so it is\n" + more)
                self.lockbroker(fake, "explain", "--json", "db", status=status)


def holders(left, *slots):
    return ("holders", {"id": 1, "left": left, "holders": [{"slot": slot} for slot in slots]})


class Waiting(FakeCase):
    def draining(self, method="destroy", term="xterm", columns=None):
        """A command that waits for holders on a terminal, and its daemon."""
        fake = Fake(self, **{method: None})
        operands = ("db", "1") if method == "resize" else ("db",)
        terminal = Terminal(self, fake, method, "--wait", *operands, columns=columns, env={"TERM": term})
        fake.wait_asked(method)
        return fake, terminal

    def test_progress(self):
        for method, term in (("destroy", "vt100"), ("resize", "dumb")):
            fake, terminal = self.draining(method, term=term)
            self.assertIs(fake.requests[0]["params"]["progress"], True)
            fake.say(holders(3, 4, 5, 9))
            first = "lockbroker: db: waiting for 3 holders: slots 4-5, 9"
            terminal.wait_text(first)
            fake.say(holders(1, 9))
            second = "lockbroker: db: waiting for 1 holder: slot 9"
            # The rest of the longer line is overwritten.
            terminal.wait_text("\r" + second + CLEAR if term != "dumb" else
                               "\r" + second + " " * (len(first) - len(second)) + "\r" + second)
            fake.say(reply(fake.requests[0], result={"name": "db"}))
            terminal.wait(0)
            # The line is erased, and there never was a second one.
            end = "\r" + CLEAR if term != "dumb" else "\r" + " " * len(second) + "\r"
            self.assertTrue(terminal.text.endswith(end), terminal.text)
            self.assertNotIn("\n", terminal.text)

    def test_a_line_is_never_longer_than_the_terminal(self):
        fake, terminal = self.draining(columns=40)
        fake.say(holders(50, *range(1, 101, 2)))
        fake.say(holders(1, 1))
        terminal.wait_text("1 holder:")
        for line in terminal.text.split("\r"):
            self.assertLess(len(line.replace(CLEAR, "")), 40)

    def test_an_error_has_a_line_of_its_own(self):
        fake, terminal = self.draining()
        fake.say(holders(1, 9))
        terminal.wait_text("slot 9")
        fake.say(reply(fake.requests[0], error=error(2, "timeout", "the time is over", holders=[{"slot": 9}])))
        terminal.wait(75)
        self.assertIn(f"\r{CLEAR}lockbroker: db: the time is over\r\n"
                      "lockbroker: db: removed, but still busy: slot 9;", terminal.text)

    def test_without_a_terminal_it_is_quiet(self):
        fake = Fake(self, destroy=None)
        job = Job(self, fake, "destroy", "--wait", "db")
        fake.wait_asked("destroy")
        self.assertNotIn("progress", fake.requests[0]["params"])
        fake.say(holders(1, 9))
        fake.say(reply(fake.requests[0], result={"name": "db"}))
        job.wait(0)
        self.assertEqual((job.out, job.err), ("", ""))

    def test_interrupt_on_a_terminal(self):
        fake, terminal = self.draining()
        fake.say(holders(1, 9))
        terminal.wait_text("slot 9")
        terminal.type("\x03")
        terminal.wait(130)
        # Later output begins on a line of its own.
        self.assertTrue(terminal.text.endswith("\r\n"), terminal.text)

    def test_any_signal_ends_it_at_once(self):
        for argv in (("destroy", "--wait", "db"), ("resize", "--wait", "db", "1"), ("await", "db", "1", "free")):
            for signo in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1,
                          signal.SIGUSR2):
                with self.subTest(argv=argv, signo=signo):
                    ended = []
                    fake = Fake(self, **{argv[0]: lambda _, connection: ended.append(connection.recv(1))})
                    job = Job(self, fake, *argv)
                    fake.wait_asked(argv[0])
                    job.signal(signo)
                    job.wait(128 + signo)
                    # Nothing is left: the connection is gone.
                    wait_until(lambda: ended == [b""], what="the daemon sees the end")
                    self.assertEqual((job.out, job.err), ("", ""))

    def test_a_signal_that_is_ignored_stays_so(self):
        fake = Fake(self, **{"await": None})
        job = Job(self, fake, "await", "db", "1", "free",
                  preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        fake.wait_asked("await")
        job.signal(signal.SIGHUP)
        fake.say(reply(fake.requests[0], result={"name": "db", "slot": 1}))
        job.wait(0)


if __name__ == "__main__":
    tap.main()
