"""lockbroker show, list, watch, grant, deny: rows as tables, lines and JSON, whatever is in them."""

import json
import os
import pwd
import subprocess
import unittest

import tap
from cli import Job, Terminal, command
from daemon import Daemon
from fake import Fake, error, notification, reply
from rows import Semaphores, row, unknown, watched
from screen import Screen
from wait import wait_until

try:
    USER = pwd.getpwuid(1000).pw_name
except KeyError:
    USER = "1000"


class Show(unittest.TestCase):
    def setUp(self):
        self.fake = Semaphores(self)
        self.fake.add("db", 2, row("busy", "w-1", slot=1, who="alice", why="backup", command="pg_dump"),
                      unknown(2), row("granted", "w-2", who="bob"),
                      row("waiting", "w-3", position=1, who="carol", host="south", pid=12),
                      row("waiting", "w-4", position=2, priority=-5, age=7201.2))
        self.fake.add("idle", "unlimited")

    def test_a_line_a_row(self):
        out = command(self, self.fake, "show", "--no-headers", "db").out
        self.assertEqual([line.split("\t") for line in out.splitlines()], [
            ["busy", "1", "", "alice", "backup", "pg_dump", USER, "4711", "north", "1m15s", "w-1"],
            ["busy", "2", "", "unknown", "", "", "", "", "", "", ""],
            ["granted", "", "", "bob", "", "", USER, "4711", "north", "1m15s", "w-2"],
            ["waiting", "", "1", "carol", "", "", USER, "12", "south", "1m15s", "w-3"],
            ["waiting", "", "2", "", "", "", USER, "4711", "north", "2h00m", "w-4"]])

    def test_a_line_of_titles_unless_not_wanted(self):
        lines = command(self, self.fake, "show", "db").out.splitlines()
        self.assertEqual(lines[0], "STATE\tSLOT\tPOSITION\tWHO\tWHY\tCOMMAND\tUSER\tPID\tHOST\tAGE\tWAITER")
        self.assertEqual(lines[1:], command(self, self.fake, "show", "--no-headers", "db").out.splitlines())
        self.assertEqual(command(self, self.fake, "list").out.splitlines()[0], "NAME\tSLOTS\tBUSY\tWAITING\t")
        terminal = Terminal(self, self.fake, "list", "--no-headers")
        terminal.wait(0)
        self.assertRegex(terminal.text, "^db ")

    def test_users_have_names(self):
        self.fake.add("db", 1, row("busy", "w-1", slot=1, uid=0), row("waiting", "w-2", uid=4000000000))
        users = [line.split("\t")[6] for line in command(self, self.fake, "show", "db").out.splitlines()]
        self.assertEqual(users, ["USER", "root", "4000000000"])

    def test_of_all_locks(self):
        self.fake.add("m", None, row("busy", "w-8", kind="mutex", who='a "row": {b}'),
                      row("waiting", "w-9", kind="mutex", position=1))
        lines = [line.split("\t") for line in command(self, self.fake, "show").out.splitlines()]
        self.assertEqual(lines[0][:3], ["NAME", "STATE", "SLOT"])
        self.assertEqual([(cells[0], cells[1], cells[11]) for cells in lines[1:]],
                         [("db", "busy", "w-1"), ("db", "busy", ""), ("db", "granted", "w-2"), ("db", "waiting", "w-3"),
                          ("db", "waiting", "w-4"), ("m", "busy", "w-8"), ("m", "waiting", "w-9")])
        self.assertEqual(lines[6][4], 'a "row": {b}')
        shown = command(self, self.fake, "show", "--json").json()
        self.assertEqual([one["waiter"] for one in shown["rows"]], ["w-1", None, "w-2", "w-3", "w-4", "w-8", "w-9"])
        self.assertEqual((shown["more"], shown["silent_hosts"]), (0, []))
        self.assertEqual(command(self, Fake(self), "show", "--no-headers").out, "")

    def test_mutexes_are_listed(self):
        self.fake.add("m", None, row("busy", "w-8", kind="mutex"), row("waiting", "w-9", kind="mutex"))
        self.assertEqual(command(self, self.fake, "list", "--no-headers").out,
                         "db\t2\t2\t2\t\nidle\tunlimited\t0\t0\t\nm\tmutex\t1\t1\t\n")
        self.assertEqual(command(self, self.fake, "list", "--json").json()["mutexes"],
                         [{"name": "m", "kind": "mutex", "busy": 1, "waiting": 1}])

    def test_a_table_on_a_terminal(self):
        terminal = Terminal(self, self.fake, "show", "db", columns=200)
        terminal.wait(0)
        lines = terminal.read().replace("\r", "").splitlines()
        self.assertEqual(lines[0], "db: slots 2, busy 2, waiting 2")
        self.assertRegex(lines[1], r"^STATE +SLOT +POSITION +WHO +WHY +COMMAND +USER +PID +HOST +AGE +WAITER")
        self.assertRegex(lines[2], r"^busy +1 +alice +backup +pg_dump +\w+ +4711 +north +1m15s +w-1")
        self.assertRegex(lines[5], r"^waiting +1 +carol +\w+ +12 +south")
        terminal = Terminal(self, self.fake, "show", "idle", columns=200)
        terminal.wait_text("idle: slots unlimited, busy 0, waiting 0")
        terminal.wait_text("No holders, no waiters.")
        terminal.wait(0)

    def test_a_broker_that_refuses_the_daemon(self):
        answer = {"name": "db", "slots": None, "busy": None, "waiting": 0, "holders": [], "waiters": [], "reason": "broker-refused"}
        fake = Fake(self, show=answer)
        job = command(self, fake, "show", "db", status=78)
        self.assertIn("db: the broker refused the daemon: only the rows of the daemons are shown", job.err)
        self.assertEqual(command(self, fake, "show", "--json", "db", status=78).json(), answer)
        answer["holders"].append({**row("busy", "w-1"), "kind": "mutex"})
        job = command(self, fake, "show", "db", status=78)
        self.assertIn("only the rows of the daemons are shown", job.err)

    def test_json_is_the_answer(self):
        shown = command(self, self.fake, "show", "--json", "db").json()
        self.assertEqual(shown["waiters"][0], self.fake.semaphores["db"]["rows"][3])

    def test_revoked_and_hosts_that_do_not_answer(self):
        answer = {"name": "db", "slots": None, "busy": None, "waiting": 0, "more": 3,
                  "holders": [row("busy", "w-1", slot=2, revoked=True)], "waiters": [],
                  "silent_hosts": ["west"], "reason": "broker-unavailable"}
        # The broker is up again when the answer comes.
        fake = Fake(self, show=answer, ping={"broker": {"state": "up"}})
        job = command(self, fake, "show", "--no-headers", "db")
        self.assertTrue(job.out.startswith("revoked\t2\t"), job.out)
        self.assertIn("west does not answer", job.err)
        self.assertIn("3 more do not fit", job.err)
        self.assertIn("only the rows of the daemons", job.err)
        terminal = Terminal(self, fake, "show", "db")
        terminal.wait_text("db: slots ?, busy ?, waiting 0")
        terminal.wait(0)

    def test_nobody_is_not_said_where_not_all_could_be_asked(self):
        known = {"name": "db", "slots": 1, "busy": 0, "waiting": 0, "more": 0, "holders": [], "waiters": [],
                 "silent_hosts": [], "reason": "broker-unavailable"}
        away = "db: the broker does not answer: only the rows of the daemons are shown"
        for answer, says in (({"slots": None, "busy": None}, away),
                             ({"silent_hosts": ["west"]}, "west does not answer")):
            fake = Fake(self, show={**known, **answer})
            terminal = Terminal(self, fake, "show", "db")
            terminal.wait(0)
            self.assertIn("No holders or waiters are known.", terminal.text)
            self.assertIn(says, terminal.text)
            self.assertIn(says, command(self, fake, "show", "db").err)
        # One that was destroyed, and is held on.
        fake = Fake(self, show={**known, "slots": None, "busy": None, "reason": "no-such-lock",
                                "holders": [row("busy", "w-1", slot=1, revoked=True)]})
        self.assertEqual(command(self, fake, "show", "db").err,
                         "lockbroker: db: the semaphore does not exist any more\n")
        # A mutex has no number of slots, with a broker or without.
        fake = Fake(self, show={**known, "slots": None, "busy": None, "holders": [row("busy", "w-1", kind="mutex")]})
        self.assertEqual(command(self, fake, "show", "db").err, "")

    def test_words_that_would_confuse_a_terminal(self):
        self.fake.add("evil", 1, row("busy", "w-9", slot=1, who="\x1b[2J\tx\n", why="na\u00efve \u202ex",
                                     command="\u6f22\u5b57"))
        cells = command(self, self.fake, "show", "--no-headers", "evil").out.rstrip("\n").split("\t")
        self.assertEqual(cells[3:6], ["?[2J?x?", "na\u00efve ?x", "\u6f22\u5b57"])

    def test_a_missing_semaphore(self):
        job = command(self, self.fake, "show", "nothing", status=66)
        self.assertIn("the lock does not exist", job.err)
        job = command(self, self.fake, "show", "a b", status=64)
        self.assertIn("'a b'", job.err)
        command(self, self.fake, "show", "a", "b", status=64)
        self.assertEqual(len(self.fake.asked("show")), 1)

    def test_list_says_busy_and_waiting(self):
        self.assertEqual(command(self, self.fake, "list", "--no-headers").out, "db\t2\t2\t2\t\nidle\tunlimited\t0\t0\t\n")
        terminal = Terminal(self, self.fake, "list")
        terminal.wait_text("NAME")
        terminal.wait(0)
        self.assertRegex(terminal.text, r"NAME +SLOTS +BUSY +WAITING")


class GrantAndDeny(unittest.TestCase):
    def setUp(self):
        self.fake = Semaphores(self)
        self.fake.add("db", 1, row("busy", "w-1", slot=1), row("waiting", "w-2", position=1),
                      row("waiting", "w-3", position=2), row("waiting", 'w"\\4', position=3))

    def test_grant(self):
        self.assertEqual(command(self, self.fake, "grant", "w-2").out, "granted: db on north, without a slot\n")
        granted = command(self, self.fake, "grant", "--json", 'w"\\4').json()
        self.assertEqual(granted, {"waiter": 'w"\\4', "name": "db", "host": "north"})

    def test_deny(self):
        self.assertEqual(command(self, self.fake, "deny", "w-2").out, "denied: 1\n")
        self.assertEqual(self.fake.asked("deny")[0]["params"], {"waiter": "w-2"})
        self.assertEqual(command(self, self.fake, "deny", "--all", "db").out, "denied: 2\n")
        self.assertEqual(self.fake.asked("deny")[1]["params"], {"name": "db", "all": True})
        self.assertEqual(command(self, self.fake, "deny", "--all", "--json", "db").json()["denied"], 0)

    def test_to_deny_a_name(self):
        job = command(self, self.fake, "deny", "db", status=65)
        self.assertIn("lockbroker deny --all NAME", job.err)
        self.fake.add("db", 1)
        job = command(self, self.fake, "deny", "--all", "db")
        self.assertEqual(job.out, "denied: 0\n")
        self.assertIn("db: no waiters", job.err)
        self.assertIn("NAME", command(self, self.fake, "deny", "--all", status=64).err)

    def test_nobody_waits_there(self):
        for subcommand in "grant", "deny":
            job = command(self, self.fake, subcommand, "w-1", status=65)
            self.assertIn("no waiter has that id", job.err)
            self.assertIn("lockbroker show NAME", job.err)
        self.fake.refusal = error(10, "permission-denied", "you may not")
        self.assertIn("you may not", command(self, self.fake, "deny", "w-2", status=77).err)

    def test_wrong_operands(self):
        asked = len(self.fake.requests)
        for argv in (["grant"], ["grant", ""], ["grant", "x" * 65], ["grant", "a", "b"], ["grant", "--all", "db"],
                     ["deny"], ["deny", "x" * 65], ["deny", "--all"], ["deny", "--all", "a b"], ["evict"],
                     ["evict", "x" * 65], ["evict", "--all", "a b"], ["evict", "--grace=24.1h", "w-1"],
                     ["evict", "--grace=soon", "w-1"], ["deny", "--grace=1", "w-2"]):
            command(self, self.fake, *argv, status=64)
        self.assertEqual(len(self.fake.requests), asked)

    def test_a_wrong_id_is_named_by_its_command(self):
        for word, what in (("grant", "waiter"), ("deny", "waiter"), ("evict", "holder")):
            self.assertIn(f"{word}: '': not the id of a {what}\n", command(self, self.fake, word, "", status=64).err)

    def test_evict(self):
        self.fake.add("free", 1)
        self.assertEqual(command(self, self.fake, "evict", "w-1").out, "evicted: 1\n")
        command(self, self.fake, "evict", "--grace=2m", "--why", 'a "b"\t\u00e4', "w-1")
        self.assertEqual(command(self, self.fake, "evict", "--all", "db", "--why=").out, "evicted: 1\n")
        self.assertEqual(command(self, self.fake, "evict", "--all", "--json", "--grace", "0.0005", "db").json(),
                         {"evicted": 1, "silent_hosts": []})
        self.assertEqual([one["params"] for one in self.fake.asked("evict")], [
            {"holder": "w-1"}, {"holder": "w-1", "grace": 120, "why": 'a "b"\t\u00e4'},
            {"name": "db", "all": True, "why": ""}, {"name": "db", "all": True, "grace": 0.001}])
        shown = command(self, self.fake, "show", "--no-headers", "db").out
        self.assertEqual([one.split("\t")[0] for one in shown.splitlines()], ["evicted"] + 3 * ["waiting"])
        job = command(self, self.fake, "evict", "--all", "free")
        self.assertEqual((job.out, "free: no holders" in job.err), ("evicted: 0\n", True))

    def test_evict_a_reason_that_is_not_utf_8(self):
        command(self, self.fake, "evict", "--why", b"caf\xe9", "w-1")
        self.assertEqual(self.fake.asked("evict")[0]["params"], {"holder": "w-1", "why": "caf\ufffd"})

    def test_evict_all_and_hosts_that_do_not_answer(self):
        for count, status in ((0, 75), (1, 0)):
            fake = Fake(self, evict={"evicted": count, "silent_hosts": ["west"]}, size={"name": "db", "slots": 1})
            job = command(self, fake, "evict", "--all", "db", status=status)
            self.assertEqual(job.out, f"evicted: {count}\n")
            self.assertEqual(job.err, "lockbroker: host west does not answer: its holders are perhaps not evicted\n")
            command(self, fake, "evict", "--all", "--json", "db", status=status)

    def test_evict_all_while_the_broker_is_away(self):
        fake = Fake(self, evict={"evicted": 0, "silent_hosts": []},
                    size=lambda request, _: reply(request, error=error(15, "broker-unavailable", "down")))
        job = command(self, fake, "evict", "--all", "db", status=75)
        self.assertEqual(job.err, "lockbroker: db: the broker does not answer: only this daemon was asked\n")

    def test_a_missing_holder(self):
        for word, operand in (("evict", "HOLDER"), ("deny", "WAITER")):
            self.assertIn(f"{word}: missing {operand}|NAME: NAME needs --all (see",
                          command(self, self.fake, word, status=64).err)

    def test_evict_a_reason_of_the_longest_kind(self):
        why = "\x01" * 256
        command(self, self.fake, "evict", "--all", "--why", why, "x" * 200)
        self.assertEqual(self.fake.asked("evict")[0]["params"], {"name": "x" * 200, "all": True, "why": why})
        self.assertIn("256 bytes", command(self, self.fake, "evict", "--why", why + "x", "w-1", status=64).err)

    def test_to_evict_nobody(self):
        for holder in "w-2", "db":
            job = command(self, self.fake, "evict", holder, status=65)
            self.assertIn("no holder has that id", job.err)
            self.assertIn("lists the holders", job.err)
        self.assertIn("lockbroker evict --all NAME", job.err)
        silent = "the daemon of this holder did not answer: it is silent or older than 0.2.0. Nothing was freed"
        self.fake.refusal = error(2, "timeout", silent)
        self.assertIn(silent, command(self, self.fake, "evict", "w-1", status=75).err)
        self.fake.refusal = error(10, "permission-denied", "you may not")
        self.assertIn("you may not", command(self, self.fake, "evict", "w-1", status=77).err)

    def test_a_denied_acquire_has_a_status_of_its_own(self):
        denied = error(4, "cancelled", "an administrator denied it", denied=True)
        fake = Fake(self, acquire=lambda request, connection: connection.sendall(reply(request, error=denied)))
        job = command(self, fake, "run", "-E", "3", "db", "echo", "ran", status=80)
        self.assertEqual(job.out, "")
        self.assertIn("db: an administrator denied it", job.err)
        command(self, fake, "acquire", "db", status=80, stdin=subprocess.PIPE)


class Watch(unittest.TestCase):
    ROW = row("waiting", "w-1", position=2, who="alice", why="backup")

    def serve(self, *told, end=None):
        def on_watch(request, connection):
            connection.sendall(watched(request, *told))
            if end is not None:
                connection.sendall(reply(request, **end))
        return Fake(self, watch=on_watch)

    def test_lines(self):
        fake = self.serve(("row", {"row": self.ROW}), ("row", {"row": row("busy", "w-2", slot=1, name="other")}),
                          ("synced", {"more": 2, "silent_hosts": ["west"]}),
                          ("row", {"row": {**self.ROW, "state": "granted", "position": None}}),
                          ("gone", {"waiter": "w-1"}), ("gone", {"waiter": "w-7"}), ("resync", {}),
                          ("gone", {"waiter": "w-2"}))
        job = Job(self, fake, "watch")
        job.wait_out("gone: [w-2]\n")
        self.assertEqual(job.out.splitlines(), [
            f"db: waiting, position 2, alice (backup), user {USER}, pid 4711 on north, for 1m15s [w-1]",
            f"other: busy, slot 1, somebody, user {USER}, pid 4711 on north, for 1m15s [w-2]",
            "synced: 2 rows; changes follow",
            f"db: granted, alice (backup), user {USER}, pid 4711 on north, for 1m15s [w-1]",
            "db: gone, alice [w-1]",
            "gone: [w-7]",
            "resync: all rows follow again",
            "gone: [w-2]"])
        self.assertIn("2 more rows", job.err)
        self.assertIn("west does not answer", job.err)
        self.assertNotIn("params", fake.asked("watch")[0].get("params", {}))
        fake.say(notification("row", {"id": fake.requests[0]["id"], "row": self.ROW}))
        job.wait_out(f"position 2, alice (backup), user {USER}, pid 4711 on north, for 1m15s [w-1]\n")
        job.signal(15)
        job.wait(143)

    def test_json_is_what_the_wire_said(self):
        fake = self.serve(("row", {"row": self.ROW}), ("synced", {"more": 0, "silent_hosts": []}))
        job = Job(self, fake, "watch", "--json", "db")
        job.wait_out("synced")
        self.assertEqual(fake.asked("watch")[0]["params"], {"name": "db"})
        first, second = [json.loads(line) for line in job.out.splitlines()]
        number = fake.requests[0]["id"]
        self.assertEqual(first, {"jsonrpc": "2.0", "method": "row", "params": {"id": number, "row": self.ROW}})
        self.assertEqual(second["method"], "synced")

    def test_ends_with_the_daemon(self):
        fake = self.serve(("row", {"row": self.ROW}))
        job = Job(self, fake, "watch")
        job.wait_out("alice")
        fake.close()
        job.wait(69)
        self.assertIn("closed the connection", job.err)

    def test_ends_with_a_word(self):
        fake = self.serve(("row", {"row": self.ROW}), end={"error": error(14, "draining", "it is stopping")})
        job = command(self, fake, "watch", status=69)
        self.assertIn("alice", job.out)
        self.assertIn("it is stopping", job.err)

    def test_standard_output_is_full(self):
        fake = self.serve(("row", {"row": self.ROW}))
        with open("/dev/full", "wb") as full:
            job = command(self, fake, "watch", status=74, preexec_fn=lambda: os.dup2(full.fileno(), 1))
        self.assertIn("stdout", job.err)

    def test_the_reader_of_standard_output_has_gone(self):
        for ignored, status in (False, -13), (True, 74):
            fake = self.serve(("synced", {"more": 0, "silent_hosts": []}))
            read, write = os.pipe()
            job = Job(self, fake, "watch", restore_signals=not ignored,
                      preexec_fn=lambda write=write: os.dup2(write, 1))
            os.close(write)
            self.assertIn(b"synced", os.read(read, 4096))
            os.close(read)
            # Though nothing more is said.
            job.wait(status)

    def test_many_rows_at_once(self):
        told = [("row", {"row": row("waiting", f"w-{i}", position=i + 1)}) for i in range(5000)]
        fake = self.serve(*told, ("synced", {"more": 0, "silent_hosts": []}))
        job = Job(self, fake, "watch")
        job.wait_out("synced: 5000 rows")
        self.assertEqual(job.out.count("\n"), 5001)

    def test_wrong_names(self):
        fake = Fake(self)
        command(self, fake, "watch", "a b", status=64)
        command(self, fake, "watch", "a", "b", status=64)
        self.assertEqual(fake.requests, [])


class OverADaemon(unittest.TestCase):
    """All of it over a lockbrokerd: jobs hold and wait, and an administrator grants and denies."""

    def setUp(self):
        self.daemon = Daemon(self)
        command(self, self.daemon, "create", "db")

    def job(self, who, *argv):
        """A job that says that it runs, and runs until its stdin is closed."""
        read, write = os.pipe()
        job = Job(self, self.daemon, *(argv or ("run", "--who", who, "db", "sh", "-c", "echo runs; read x")), stdin=read)
        os.close(read)
        ends = [write]
        job.close = lambda: ends and os.close(ends.pop())
        self.addCleanup(job.close)
        return job

    def rows(self, *wanted, name="db"):
        """Waits until show has these (state, who); returns its cells by who."""
        def found():
            lines = [line.split("\t") for line in command(self, self.daemon, "show", "--no-headers", name).out.splitlines()]
            return [lines] if [(cells[0], cells[3]) for cells in lines] == list(wanted) else []
        (lines,) = wait_until(found, what=f"show has {wanted}")
        return {cells[3]: cells for cells in lines}

    def three(self):
        """A is busy, B and C wait, in this order."""
        jobs = [self.job("A")]
        jobs[0].wait_out("runs")
        for who, before in (("B", [("busy", "A")]), ("C", [("busy", "A"), ("waiting", "B")])):
            self.rows(*before)
            jobs.append(self.job(who))
        return jobs, self.rows(("busy", "A"), ("waiting", "B"), ("waiting", "C"))

    def test_a_granted_waiter_takes_no_slot(self):
        (a, b, c), rows = self.three()
        self.assertEqual([rows[who][1:3] for who in "ABC"], [["1", ""], ["", "1"], ["", "2"]])
        self.assertEqual(command(self, self.daemon, "list", "--no-headers").out, "db\t1\t1\t2\t\n")
        self.assertIn("granted: db on ", command(self, self.daemon, "grant", rows["B"][10]).out)
        b.wait_out("runs")
        self.rows(("busy", "A"), ("granted", "B"), ("waiting", "C"))
        self.assertEqual(c.out, "")
        a.close()
        a.wait()
        # B runs on, and C has the slot of A.
        c.wait_out("runs")
        self.rows(("busy", "C"), ("granted", "B"))
        self.assertIn("no waiter has that id", command(self, self.daemon, "grant", rows["B"][10], status=65).err)
        b.close()
        c.close()
        self.rows()

    def test_a_denied_waiter_ends_with_80_and_the_rest_waits_on(self):
        (a, b, c), rows = self.three()
        self.assertEqual(command(self, self.daemon, "deny", rows["B"][10]).out, "denied: 1\n")
        b.wait(80)
        self.assertEqual(b.out, "")
        self.rows(("busy", "A"), ("waiting", "C"))
        # An emergency: the gate is closed, and all waiters are denied.
        command(self, self.daemon, "resize", "db", "0")
        self.assertEqual(command(self, self.daemon, "deny", "--all", "db").out, "denied: 1\n")
        c.wait(80)
        self.assertTrue(a.running())
        a.close()
        a.wait()
        self.rows()

    def test_watch_tells_it_as_it_happens(self):
        watch = Job(self, self.daemon, "watch", "db")
        watch.wait_out("synced: 0 rows")
        (a, b, c), rows = self.three()
        # A notification has the newest state of its row: so wait for each before the next change.
        for line in ("db: busy, slot 1, A", "db: waiting, position 1, B", "db: waiting, position 2, C"):
            watch.wait_out(line)
        command(self, self.daemon, "grant", rows["B"][10])
        watch.wait_out("db: granted, B")
        command(self, self.daemon, "deny", rows["C"][10])
        a.close()
        for line in ("db: cancelled, C", "db: gone, C", "db: gone, A"):
            watch.wait_out(line)
        self.assertLess(watch.out.index("db: cancelled, C"), watch.out.index("db: gone, C"))

    def test_the_waiting_line_names_the_holder(self):
        self.job("A").wait_out("runs")
        screen = Screen(self, self.daemon, "run", "db", "true")
        screen.wait_row(r"^lockbroker: db: waiting \d+s, position 1, held by A$")

    def test_a_mutex_is_shown_though_it_is_no_semaphore(self):
        self.job("M", "run", "--mutex", "--who", "M", "report", "sh", "-c", "read x")
        self.assertEqual(self.rows(("busy", "M"), name="report")["M"][1:3], ["", ""])
        self.assertEqual(command(self, self.daemon, "list", "--no-headers").out, "db\t1\t0\t0\t\nreport\tmutex\t1\t0\t\n")
        job = command(self, self.daemon, "show", "nothing", status=66)
        self.assertIn("the lock does not exist", job.err)


if __name__ == "__main__":
    tap.main()
