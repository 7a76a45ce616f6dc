"""lockbroker top on a terminal whose screen is read: its display, its keys, and its errors."""

import os
import re
import signal
import termios
import unittest

import tap
from cli import Job, command, state
from daemon import Daemon, program
from fake import GRANT, Fake, error
from rows import Semaphores, row, unknown
from screen import Screen
from wait import wait_until
from wire import Wire

DOWN, UP, HOME, END, ESCAPE, ENTER = "\x1b[B", "\x1b[A", "\x1b[1~", "\x1b[4~", "\x1b", "\r"


class Rows(unittest.TestCase):
    """Over a daemon that is made up: three semaphores, and every state there is."""

    def setUp(self):
        self.fake = Semaphores(self)
        self.fake.add("db", 1, row("busy", "w-1", slot=1, who="alice", why="backup", command="pg_dump"),
                      row("waiting", "w-2", position=1, who="bob"), row("waiting", "w-3", position=2, who="carol"))
        self.fake.add("nightly/report", "unlimited", row("granted", "w-5", who="dora"),
                      row("busy", "w-6", slot=2, revoked=True), unknown(3))
        self.fake.add("gate", 0, row("waiting", "w-9", position=1, who="eve"))

    def start(self, **more):
        screen = Screen(self, self.fake, "top", **more)
        screen.wait_row("alice")
        return screen

    def into_rows(self, screen, downs=1):
        screen.type("\t" + downs * "j")
        screen.wait_row("^> . waiting")

    def quit(self, screen):
        screen.type("q")
        screen.wait(0)


class Shown(Rows):
    def test_semaphores_and_the_rows_of_the_selected_one(self):
        screen = self.start()
        screen.wait_row("^lockbroker top   3 semaphores")
        screen.wait_row("^  NAME +SLOTS +BUSY +WAITING$")
        screen.wait_row("^> db +1 +1 +2$")
        screen.wait_row("^  gate +0 +0 +1$")
        screen.wait_row("^  nightly/report +\u221e +2 +0$")
        screen.wait_row("^db   slots 1, busy 1, waiting 2$")
        screen.wait_row("^  STATE +SLOT +WHO +WHY +COMMAND +HOST +PID +AGE$")
        screen.wait_row("^> \u25cf busy +1 +alice +backup +pg_dump +north +4711 +1m15s$")
        screen.wait_row("^  \u25cb waiting +#1 +bob +north +4711 +1m15s$")
        screen.wait_row("^  \u25cb waiting +#2 +carol")
        self.quit(screen)

    def test_holders_beyond_the_slots(self):
        self.fake.extra = 3
        screen = self.start()
        screen.wait_row(r"^> db +1 +1 \(\+3\) +2$")
        screen.wait_row(r"^db   slots 1, busy 1 \(\+3\), waiting 2$")
        self.quit(screen)

    def test_mutexes_too(self):
        self.fake.add("m", None, row("busy", "w-20", kind="mutex", who="frank"),
                      row("waiting", "w-21", kind="mutex", position=1, who="grace"))
        screen = self.start()
        screen.wait_row("^lockbroker top   3 semaphores, 1 mutex$")
        screen.type("jj")
        screen.wait_row("^> m +mutex +1 +1$")
        screen.wait_row("^m   mutex, busy 1, waiting 1$")
        screen.wait_row("^> . busy +frank")
        for key in "+-=g":
            screen.type(key)
            screen.wait_row("^a mutex has no slots$")
            screen.type("\x0c")
            screen.wait_no_row("a mutex has no slots")
        self.assertEqual(self.fake.asked("resize"), [])
        screen.type("D")
        screen.wait_row(r"^Deny m to 1 waiter\?")
        screen.type("y")
        screen.wait_no_row("grace")
        self.quit(screen)

    def test_every_state(self):
        screen = self.start()
        screen.type("jj")
        screen.wait_row("^nightly/report   slots \u221e, busy 2, waiting 0$")
        screen.wait_row("^> \u25c6 granted +dora")
        screen.wait_row("^  \u25b2 revoked +2 +north")
        screen.wait_row(r"^  \? unknown +3 +unknown$")
        screen.wait_no_row("alice")
        self.quit(screen)

    def test_follows_what_changes(self):
        screen = self.start()
        self.fake.add("batch", 7)
        self.fake.add("db", 3, row("busy", "w-2", slot=1, who="bob"))
        screen.wait_row("^  batch +7 +0 +0$")
        # The selection stays with its semaphore.
        screen.wait_row("^> db +3 +1 +0$")
        screen.wait_row("^> \u25cf busy +1 +bob")
        screen.wait_no_row("alice")
        del self.fake.semaphores["db"]
        screen.wait_no_row("bob")
        screen.wait_row("^lockbroker top   3 semaphores")
        self.quit(screen)

    def test_selecting(self):
        screen = self.start()
        for keys, name in ((DOWN, "gate"), ("j", "nightly/report"), (DOWN, "nightly/report"), ("k", "gate"),
                           (UP, "db"), (UP, "db"), ("\x1b[6~", "nightly/report"), ("\x1b[5~", "db"),
                           (END, "nightly/report"), (HOME, "db")):
            screen.type(keys)
            screen.wait_row(f"^> {name} ")
        screen.wait_row("alice")
        screen.type("\t" + DOWN)
        screen.wait_row("^> \u25cb waiting +#1 +bob")
        # It goes with its row.
        self.fake.semaphores["db"]["rows"].insert(1, row("busy", "w-0", slot=2, who="zoe", name="db"))
        screen.wait_row("^  \u25cf busy +2 +zoe")
        screen.wait_row("^> \u25cb waiting +#1 +bob")
        self.quit(screen)

    def test_lines_that_are_free_show_semaphores(self):
        """Eight of them, above the few rows of the selected one."""
        for i in range(5):
            self.fake.add(f"s{i}", i)
        screen = self.start()
        screen.wait_row("^  s4 +4 ")
        screen.wait_row("carol")
        self.quit(screen)

    def test_more_than_fits_is_scrolled(self):
        self.fake.add("db", 1, row("busy", "w-0", slot=1, who="alice"),
                      *(row("waiting", f"w-{i}", position=i, who=f"who-{i}") for i in range(1, 3000)))
        for i in range(50):
            self.fake.add(f"s{i:02}", i)
        screen = self.start()
        screen.wait_no_row("s49")
        screen.type(END)
        screen.wait_row("^> s49 ")
        screen.type(HOME + "\t")
        screen.wait_row("^> .* alice")
        screen.type(END)
        screen.wait_row(r"^> . waiting +#2999 +who-2999")
        screen.wait_no_row("who-1 ")
        screen.type(HOME)
        screen.wait_row("who-1 ")
        self.quit(screen)

    def test_filters(self):
        screen = self.start()
        screen.type("/NIGHT")
        screen.wait_row("^Filter: NIGHT_$")
        screen.wait_row("^> nightly/report ")
        screen.wait_no_row("^. (db|gate) ")
        screen.wait_row("dora")
        screen.type("x")
        screen.wait_row("No row matches the filter")
        screen.type("\x7f" + ENTER)
        screen.wait_row("^lockbroker top   3 semaphores   filter: NIGHT$")
        screen.type("\t/dora\r")
        screen.wait_row("filter: dora$")
        screen.wait_no_row("revoked")
        screen.type(ESCAPE)
        screen.wait_row("revoked")
        screen.type(ESCAPE)
        screen.type("/")
        screen.wait_row("^Filter: NIGHT_")
        screen.type(ESCAPE)
        screen.wait_row("^  db ")
        self.quit(screen)

    def test_help_explains_every_state_and_key(self):
        screen = self.start()
        screen.type("?")
        screen.wait_row("up and down scroll")
        for word in "waiting", "busy", "granted", "cancelled", "revoked", "evicted", "unknown":
            screen.wait_row(f"^  . {word} +[a-z ]+")
        screen.wait_row("^  q +quit")
        for key in "+ -", "=", "g ", "G, Enter", "d D ", "e ", "/", "Tab, Enter":
            self.assertIsNotNone(screen.find("^  " + re.escape(key)), key)
        screen.resize(60, 12)
        screen.wait_row("^up and down scroll")
        screen.wait_no_row("quit")
        screen.type(30 * DOWN)
        screen.wait_row("^  q +quit")
        screen.type(30 * UP)
        screen.wait_row("^  STATES")
        screen.type("q")
        screen.wait_row("alice")
        self.quit(screen)

    def test_sizes(self):
        screen = self.start()
        screen.resize(60, 20)
        screen.wait_row("^  STATE +SLOT +WHO +HOST +PID +AGE$")
        screen.wait_row(r"^\?:help")
        self.assertTrue(all(len(line) <= 60 for line in screen.rows()))
        screen.resize(200, 50)
        screen.wait_row("^  STATE +SLOT +WHO +WHY +COMMAND +HOST +PID +AGE$")
        wait_until(lambda: screen.rows()[49].startswith("?:help"), what="the last line is the keys'")
        screen.wait_row("^> .* alice +backup +pg_dump")
        screen.resize(39, 24)
        screen.wait_row("^needs 40x10, q:quit$")
        screen.resize(80, 9)
        screen.wait_row("^needs 40x10")
        # A key does not answer a question that is not on the screen. The question is still there.
        screen.resize(80, 24)
        screen.type("g")
        screen.wait_row("^Close db")
        screen.resize(20, 5)
        screen.wait_row("^needs 40x10")
        screen.type("y+")
        # It asks every second, and reads what was typed before it does.
        self.fake.wait_asked("list", len(self.fake.asked("list")) + 2)
        screen.resize(40, 10)
        screen.wait_row(r"^Close db \(0 slots.*\u2026 \[y/N\]$")
        screen.type("n")
        screen.wait_row("^no change was made")
        self.assertEqual(self.fake.asked("resize"), [])
        screen.resize(1, 1)
        screen.resize(40, 10)
        screen.wait_row("alice")
        screen.resize(80, 24)
        screen.wait_row("^> .* alice +backup +pg_dump")
        self.quit(screen)

    def test_terminals_without_colours_and_without_utf8(self):
        for term, locale, icon, unlimited in (
                ("vt100", "C", r"\*", "unlimited"), ("vt220", "C.UTF-8", "\u25cf", "\u221e"),
                ("linux", "C", r"\*", "unlimited")):
            with self.subTest(term=term, locale=locale):
                screen = self.start(term=term, locale=locale)
                screen.wait_row(f"^> {icon} busy +1 +alice")
                screen.wait_row(f"^  nightly/report +{unlimited} +2 +0$")
                if term != "linux":
                    self.assertNotRegex(screen.text, r"\x1b\[[0-9;]*3[0-7]m")
                self.quit(screen)

    def test_missing_rows_and_silent_hosts_are_shown(self):
        self.fake.script["list"] = lambda request, connection: {
            **self.fake.on_list(request, connection), "more": 5, "silent_hosts": ["west", "east"]}
        self.fake.script["show"] = lambda request, connection: {**self.fake.on_show(request, connection), "more": 7}
        screen = self.start()
        screen.wait_row("^lockbroker top   3 semaphores, and 5 more   no answer: west, east$")
        screen.wait_row("^db   slots 1, busy 1, waiting 2, and 7 more$")
        self.quit(screen)

    def test_control_characters_of_others_are_not_printed(self):
        self.fake.add("db", 1, row("busy", "w-1", slot=1, who="\x1b[2Jalice\r\n\t", why="\u6f22\u5b57",
                                   command="x" * 256, host="\u202ehost"))
        screen = self.start()
        screen.wait_row("\u25cf busy +1 +\\?\\[2Jalice")
        screen.wait_row("^  NAME +SLOTS")
        self.assertNotIn("\u202e", screen.text)
        self.quit(screen)


class Keys(Rows):
    def test_more_and_fewer_slots(self):
        screen = self.start()
        screen.type("++")
        screen.wait_row("^> db +3 ")
        screen.wait_row("^db: slots 3$")
        screen.type("-")
        screen.wait_row("^> db +2 ")
        self.assertEqual([request["params"] for request in self.fake.asked("resize")],
                         [{"name": "db", "add": 1}] * 2 + [{"name": "db", "remove": 1}])
        screen.type("=")
        screen.wait_row(r"^Slots of db: _ \(0 to 10000, unlimited\)$")
        screen.type("12x\x7f" + ENTER)
        screen.wait_row("^> db +12 ")
        self.quit(screen)

    def test_below_none_is_without_limit_when_it_is_said_so(self):
        screen = self.start()
        screen.type("j-")
        screen.wait_row("^gate has no slots. Make it unlimited")
        screen.type("n")
        screen.wait_row("^no change was made")
        screen.type("-y")
        screen.wait_row("^> gate +\u221e ")
        self.assertEqual([request["params"] for request in self.fake.asked("resize")],
                         [{"name": "gate", "slots": "unlimited"}])
        # From there there is no step: a number is asked for.
        screen.type("-")
        screen.wait_row("^Slots of gate")
        screen.type("many" + ENTER)
        screen.wait_row("^'many': expected 0 to 10000, or unlimited$")
        screen.type("+")
        screen.wait_row("^Slots of gate")
        screen.type("\x15" + "4" + ENTER)
        screen.wait_row("^> gate +4 ")
        self.quit(screen)

    def test_an_empty_number_is_none(self):
        screen = self.start()
        screen.type("=" + ENTER)
        screen.wait_row("^no change was made$")
        self.assertEqual(self.fake.asked("resize"), [])
        self.quit(screen)

    def test_a_long_name_hides_neither_question_nor_outcome(self):
        name = "a" * 200
        self.fake.add(name, 1, row("busy", "w-20", slot=1, who="zoe"), row("waiting", "w-21", position=1))
        screen = Screen(self, self.fake, "top")
        screen.wait_row(r"^a+\u2026   slots 1, busy 1, waiting 1$")
        screen.type("D")
        screen.wait_row(r"^Deny a+\u2026 to 1 waiter\? \[y/N\]$")
        screen.type("y")
        screen.wait_row(r"^a+\u2026: denied to 1$")
        self.quit(screen)

    def test_gate(self):
        screen = self.start()
        screen.type("g")
        screen.wait_row(r"^Close db \(0 slots: every client waits\)\? \[y/N\]$")
        # Any other key is a no, and does nothing else either.
        screen.type("q")
        screen.wait_row("^no change was made")
        screen.type("gy")
        screen.wait_row("^> db +0 ")
        screen.wait_row("^db is closed: every client waits$")
        self.quit(screen)

    def test_grant(self):
        screen = self.start()
        self.into_rows(screen)
        screen.type("G")
        screen.wait_row(r"^Grant db to bob at once, without a slot\? \[y/N\]$")
        # The waiter of the question is granted, even if another row is selected by then.
        self.fake.semaphores["db"]["rows"].insert(1, row("waiting", "w-0", position=1, who="ann", name="db"))
        screen.wait_row("ann")
        screen.type("y")
        screen.wait_row("^> \u25c6 granted +bob")
        screen.wait_row("^db: granted, without a slot$")
        self.assertEqual(self.fake.asked("grant")[0]["params"], {"waiter": "w-2"})
        screen.type(ENTER)
        screen.wait_row("^the selected row is not a waiter$")
        screen.type("j" + ENTER)
        screen.wait_row("^Grant db to (ann|carol)")
        screen.type(ESCAPE)
        screen.wait_row("^no change was made")
        self.assertEqual(len(self.fake.asked("grant")), 1)
        self.quit(screen)

    def test_deny(self):
        screen = self.start()
        self.into_rows(screen, 2)
        screen.type("d")
        screen.wait_row(r"^Deny db to carol\? \[y/N\]$")
        screen.type("y")
        screen.wait_row("^> . cancelled +carol")
        screen.wait_row("^db: denied to 1$")
        screen.wait_no_row("carol")
        self.assertEqual(self.fake.asked("deny")[0]["params"], {"waiter": "w-3"})
        screen.type("D")
        screen.wait_row(r"^Deny db to 1 waiter\? \[y/N\]$")
        screen.type("y")
        screen.wait_no_row("bob")
        self.assertEqual(self.fake.asked("deny")[1]["params"], {"name": "db", "all": True})
        screen.wait_row("^> db +1 +1 +0$")
        screen.type("D")
        screen.wait_row("^no waiters$")
        self.quit(screen)

    def test_evict(self):
        screen = self.start()
        self.into_rows(screen)
        screen.type("e")
        screen.wait_row("^the selected row is not a holder$")
        screen.type("k" + "e")
        screen.wait_row(r"^Evict .* from db, with 30 s to stop\? \[y/N\]$")
        screen.type("y")
        screen.wait_row("^> \u25bc evicted ")
        screen.wait_row("^db: evicted 1$")
        self.assertEqual(self.fake.asked("evict")[0]["params"], {"holder": "w-1"})
        self.quit(screen)

    def test_a_refusal_is_shown(self):
        screen = self.start()
        self.fake.refusal = error(10, "permission-denied", "the group lockbroker-admin may")
        screen.type("+")
        screen.wait_row("^db: the group lockbroker-admin may$")
        screen.wait_row("^> db +1 ")
        self.fake.refusal = None
        self.into_rows(screen)
        screen.type("G")
        screen.wait_row("^Grant")
        self.fake.semaphores["db"]["rows"][1]["state"] = "busy"
        screen.type("y")
        screen.wait_row("^db: no waiter has that id$")
        self.quit(screen)

    def test_keys_that_mean_nothing(self):
        screen = self.start()
        changes = len(self.fake.asked("resize"))
        screen.type("zZ1\x01\x02\u00e9\x1bOP\x1b[200~")
        screen.type("j")
        screen.wait_row("^> gate ")
        self.assertEqual(len(self.fake.asked("resize")), changes)
        self.quit(screen)


class Trouble(Rows):
    def test_nothing_there(self):
        self.fake.semaphores.clear()
        screen = Screen(self, self.fake, "top")
        screen.wait_row("There are no semaphores")
        for key in "+-=gGdD\t\rGd":
            screen.type(key)
        screen.wait_row("^no semaphore is selected$")
        self.quit(screen)

    def test_an_unknown_number_is_not_shown_as_zero(self):
        self.fake.script["list"] = None
        screen = Screen(self, self.fake, "top")
        screen.wait_row("^lockbrokerd has not answered for")
        self.assertIsNone(screen.find("no semaphores|0 semaphores"))
        self.quit(screen)

    def test_the_daemon_refuses_to_tell(self):
        screen = self.start()
        self.fake.script["list"] = lambda request, connection: self.fake.refuse(
            request, connection, error(15, "broker-unavailable", "the broker cannot be reached"))
        screen.wait_row("^outdated, the broker does not answer: the broker cannot be reached$")
        screen.wait_row("^> db +1 ")  # as it was
        self.fake.script["list"] = self.fake.on_list
        screen.wait_no_row("cannot be reached")
        self.fake.script["show"] = {"what": ["is", "this"]}
        screen.wait_row("answer is invalid")
        self.fake.script["show"] = self.fake.on_show
        screen.wait_no_row("answer is invalid")
        self.quit(screen)

    def test_nobody_is_not_said_where_not_all_could_be_asked(self):
        self.fake.add("db", 1)
        screen = Screen(self, self.fake, "top")
        screen.wait_row("^  No holders, no waiters.$")
        for answer in {"busy": None, "slots": None}, {"silent_hosts": ["west"]}:
            self.fake.script["show"] = lambda request, connection, answer=answer: {
                **self.fake.on_show(request, connection), **answer}
            screen.wait_row("^  No holders or waiters are known.$")
            self.fake.script["show"] = self.fake.on_show
            screen.wait_row("^  No holders, no waiters.$")
        self.quit(screen)

    def test_a_silent_daemon_does_not_keep_the_keyboard(self):
        screen = self.start()
        self.fake.script["list"] = self.fake.script["show"] = self.fake.script["resize"] = None
        screen.type("+j")
        screen.wait_row("^> gate ")
        screen.wait_row("^lockbrokerd has not answered for [3-9] s$")
        screen.type("?")
        screen.wait_row("KEYS")
        screen.type("q")
        screen.wait_row("has not answered")
        self.quit(screen)

    def test_the_daemon_ends_before_it_answers(self):
        screen = self.start()
        self.fake.script["resize"] = Fake.CLOSE
        screen.type("+")
        screen.wait_row("^db: the connection to lockbrokerd ended; the change may have been made$")
        screen.wait_row("^> db +1 +1 +2$")
        screen.type("j")
        screen.wait_row("^> gate ")
        self.quit(screen)

    def test_in_the_background_it_stops_until_it_is_called(self):
        # A shell with job control, which is the first to run on the terminal.
        self.fake.script["acquire"] = GRANT
        top = f"{program('lockbroker')} top"
        screen = Screen(self, self.fake, "run", "first", "bash", "-mc", f"{top} & wait %1; jobs; read x; fg %1")
        screen.wait_text("Stopped")
        self.assertEqual(self.fake.asked("list"), [])
        screen.type("\r")
        screen.wait_row("^> .* alice")
        screen.type("q")
        screen.wait(0)

    def test_garbage_is_the_end_of_a_connection_and_no_more(self):
        screen = self.start()
        self.fake.say(b"garbage\n")
        screen.wait_row("^no connection to lockbrokerd, retrying: ")
        screen.wait_no_row("no connection")
        screen.wait_row("alice")
        wait_until(lambda: len(self.fake.connections) == 2, what="the second connection")
        self.quit(screen)

    def test_restores_the_terminal_whatever_ends_it(self):
        for end, status in ((lambda screen: screen.type("q"), 0), (lambda screen: screen.type("\x03"), 130),
                            (lambda screen: os.kill(screen.pid, signal.SIGTERM), 143),
                            (lambda screen: os.kill(screen.pid, signal.SIGHUP), 129),
                            (lambda screen: screen.type("\x1c"), 131),
                            (lambda screen: os.kill(screen.pid, signal.SIGUSR1), 138)):
            with self.subTest(status=status):
                screen = self.start(term="xterm")
                before = termios.tcgetattr(screen.fd)
                self.assertFalse(before[3] & termios.ICANON)
                end(screen)
                screen.wait(status)
                self.assertTrue(screen.raw.rstrip().endswith((b"\x1b[?1l\x1b>", b"\x1b[23;0;0t")), screen.raw[-80:])
                self.assertIn(b"\x1b[?1049l", screen.raw[-80:])
                self.assertIn(b"\x1b[?12l\x1b[?25h", screen.raw[-80:])
                after = termios.tcgetattr(screen.fd)
                self.assertTrue(after[3] & termios.ICANON and after[3] & termios.ECHO)

    def test_leaves_the_last_line_to_the_shell(self):
        screen = self.start()
        self.quit(screen)
        self.assertIsNotNone(screen.find("alice"))
        self.assertEqual((screen.rows()[23], screen.screen.cursor.y), ("", 23))

    def test_restores_the_terminal_after_a_crash(self):
        screen = self.start(term="xterm")
        os.kill(screen.pid, signal.SIGABRT)
        screen.wait(-signal.SIGABRT)
        self.assertIn(b"\x1b[?1049l", screen.raw[-40:])
        self.assertIn(b"\x1b[?25h", screen.raw[-40:])
        self.assertTrue(termios.tcgetattr(screen.fd)[3] & termios.ICANON)

    def test_stop_and_continue(self):
        screen = self.start(term="xterm")
        screen.type("\x1a")
        screen.wait_stopped()
        screen.read()
        self.assertIn(b"\x1b[?1049l", screen.raw[-80:])
        screen.screen.reset()
        os.kill(screen.pid, signal.SIGCONT)
        screen.wait_row("^> .* alice")
        wait_until(lambda: state(screen.pid) == "S", what="it goes on")
        self.quit(screen)

    def test_a_terminal_that_is_none(self):
        for term in "dumb", "no-such-terminal", "":
            screen = Screen(self, self.fake, "top", term=term)
            screen.wait(64)
            self.assertIn("use lockbroker watch", screen.text)

    def test_without_a_terminal_it_is_watch(self):
        fake = Fake(self, watch=None)
        job = Job(self, fake, "top")
        fake.wait_asked("watch")
        fake.say(("synced", {"id": 1, "more": 0, "silent_hosts": []}))
        job.wait_out("synced: 0 rows")
        job.signal(signal.SIGTERM)
        job.wait(143)
        screen = Screen(self, fake, "top", "--json")
        fake.wait_asked("watch", 2)
        fake.say(("synced", {"id": 1, "more": 0, "silent_hosts": []}))
        screen.wait_text('"method":"synced"')
        command(self, fake, "top", "db", status=64)


class OverADaemon(unittest.TestCase):
    """The same over a lockbrokerd."""

    def test_rows_grant_and_deny(self):
        daemon = Daemon(self)
        command(self, daemon, "create", "db")
        peers = {who: Wire(daemon) for who in ("ann", "bob", "carl")}
        asked = {who: peer.request("acquire", name="db", who=who, why="to see") for who, peer in peers.items()}
        peers["ann"].answer(asked["ann"])
        screen = Screen(self, daemon, "top")
        screen.wait_row("^> db +1 +1 +2$")
        screen.wait_row("^> . busy +1 +ann +to see")
        screen.type("\tj")
        screen.wait_row("^> . waiting +#1 +bob")
        screen.type("G")
        screen.wait_row("^Grant db to bob")
        screen.type("y")
        self.assertIsNone(peers["bob"].answer(asked["bob"])["slot"])
        screen.wait_row("^> . granted +bob")
        screen.type("j")
        screen.wait_row("^> . waiting +#1 +carl")
        screen.type("dy")
        self.assertEqual(peers["carl"].reply(asked["carl"])["error"]["data"]["reason"], "cancelled")
        screen.wait_row(". cancelled +carl")
        screen.wait_no_row("carl")
        peers["ann"].hang_up()
        screen.wait_no_row("ann")
        screen.wait_row("granted +bob")
        screen.type("q")
        screen.wait(0)

    def test_slots_and_its_end(self):
        daemon = Daemon(self)
        command(self, daemon, "create", "db", "2")
        Wire(daemon).call("acquire", name="db", timeout=0)
        screen = Screen(self, daemon, "top")
        screen.wait_row("^> db +2 +1 ")
        screen.type("+")
        screen.wait_row("^> db +3 +1 ")
        screen.type("gy")
        screen.wait_row("^> db +0 +0 ")
        screen.type("-y")
        screen.wait_row("^> db +\u221e ")
        daemon.kill()
        screen.wait_row("^no connection to lockbrokerd, retrying: ")
        screen.type("+")
        screen.type("1" + ENTER)
        screen.wait_row("no connection")
        daemon.start()
        command(self, daemon, "create", "other")
        screen.wait_row("^> other +1 +0 ")
        screen.wait_no_row("no connection")
        screen.type("q")
        screen.wait(0)


if __name__ == "__main__":
    tap.main()
