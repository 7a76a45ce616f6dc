"""lockbroker run on a terminal: the line while it waits. test_run_jobs has signals and job control."""

import signal
import unittest

import tap
from cli import Job, Terminal, command
from daemon import Daemon, program
from fake import GRANT, error, reply
from rows import Semaphores, row, unknown
from screen import Screen
from wait import wait_until
from wire import Wire


class OnATerminal(unittest.TestCase):
    def setUp(self):
        self.daemon = Daemon(self)
        command(self, self.daemon, "create", "db")

    def test_a_run_inside_a_run_leaves_the_terminal_alone(self):
        lockbroker = program("lockbroker")
        terminal = Terminal(self, self.daemon, "run", "db", "sh", "-c",
                            f"{lockbroker} run --mutex m true; read x; echo got $x")
        terminal.type("words\n")
        terminal.wait_text("got words")
        terminal.wait(0)

    def test_says_that_it_waits(self):
        peer = Wire(self.daemon)
        lock = peer.call("acquire", name="db", timeout=0)["lock"]
        terminal = Terminal(self, self.daemon, "run", "db", "echo", "mine")
        terminal.wait_text("db: waiting 0s, position 1, ")
        peer.call("release", lock=lock)
        terminal.wait_text("mine")
        terminal.wait(0)


class TheLineThatWaits(unittest.TestCase):
    """`run` overwrites one line on stderr, and erases it when the wait ends."""

    def setUp(self):
        self.fake = Semaphores(self, acquire=None, release={"lock": "f-1"})
        self.fake.add("db", 1, row("busy", "w-1", slot=1, who="alice", why="backup"))

    def start(self, *argv, **more):
        screen = Screen(self, self.fake, *(argv or ("run", "db", "echo", "mine")), **more)
        self.fake.wait_asked("acquire")
        return screen

    def waits(self, position, holders=1):
        number = self.fake.asked("acquire")[0]["id"]
        self.fake.say(("waiting", {"id": number, "position": position, "busy": holders}))

    def grant(self):
        self.fake.connections[-1].sendall(reply(self.fake.asked("acquire")[0], result=GRANT))

    def test_says_position_holders_and_seconds_in_one_line(self):
        screen = self.start()
        self.waits(3)
        first = screen.wait_row(r"^lockbroker: db: waiting \d+s, position 3, held by alice \(backup\)$")
        wait_until(lambda: screen.find("waiting") != first, what="the seconds go on")
        screen.wait_row(r"^lockbroker: db: waiting [1-9]\d*s, position 3, held by alice \(backup\)$")
        self.assertEqual([line for line in screen.rows() if line], [screen.find("waiting")])
        self.waits(12)
        screen.wait_row("position 12, held by alice")
        self.waits(1)
        screen.wait_row("position 1, held by alice")
        self.grant()
        screen.wait(0)
        self.assertEqual([line for line in screen.rows() if line], ["mine"])

    def test_asks_anew_when_the_holders_have_changed(self):
        screen = self.start(columns=100)
        self.waits(1)
        screen.wait_row("held by alice")
        self.fake.add("db", 5, row("busy", "w-2", slot=1, command="make"), unknown(2),
                      row("busy", "w-3", slot=3, pid=77), row("busy", "w-4", slot=4), row("busy", "w-5", slot=5))
        self.waits(1, 5)
        screen.wait_row("position 1, held by make, unknown, pid 77, and 2 more$")
        self.assertEqual(len(self.fake.asked("show")), 2)

    def test_the_number_does_where_the_names_are_not_told(self):
        self.fake.script["show"] = lambda request, connection: self.fake.refuse(
            request, connection, error(10, "permission-denied"))
        screen = self.start()
        self.waits(2, 4)
        screen.wait_row(r"waiting \d+s, position 2, 4 holders$")
        self.waits(1, 1)
        screen.wait_row(r"waiting \d+s, position 1, 1 holder$")
        self.waits(1, None)
        # It asks after its first line. After 2 s it would ask again.
        self.fake.wait_asked("show")
        screen.wait_row(r"waiting ([3-9]|\d\d)s, position 1$")
        self.grant()
        screen.wait(0)
        wait_until(lambda: self.fake.ended(self.fake.connections[-1]), what="all requests are read")
        self.assertEqual(len(self.fake.asked("show")), 1)

    def test_fits_a_narrow_terminal_and_follows_it(self):
        screen = self.start(columns=40)
        self.waits(1)
        screen.wait_row(r"^db: waiting \d+s, position 1, held [\w ]*\u2026$")
        screen.resize(60, 24)
        screen.wait_row(r"^lockbroker: db: waiting \d+s, position 1, held by alice ?\(?\w*\u2026$")
        screen.resize(20, 24)
        screen.wait_row(r"^waiting \d+s, posi\w*\u2026$")
        screen.resize(8, 24)
        screen.wait_row("^wait\u2026$")
        screen.resize(100, 24)
        screen.wait_row(r"held by alice \(backup\)$")
        self.assertEqual(len([line for line in screen.rows() if line]), 1)

    def test_a_long_name_leaves_room_for_what_changes(self):
        name = "n" * 200
        self.fake.add(name, 1, row("busy", "w-1", slot=1, who="alice"))
        screen = self.start("run", name, "true", columns=80)
        self.waits(3)
        screen.wait_row(r"^lockbroker: n{10,}\u2026: waiting \d+s, position 3, held by alice$")
        screen.resize(40, 24)
        screen.wait_row(r"^n{5,}\u2026: waiting \d+s, position\b")
        screen.resize(300, 24)
        screen.wait_row(rf"^lockbroker: {name}: waiting \d+s, position 3, held by alice$")

    def test_a_key_that_the_terminal_shows_goes_with_it(self):
        screen = self.start("acquire", "db", columns=44)
        self.waits(1)
        screen.wait_row(r"position 1, held.*\u2026$")
        screen.type("\x03")
        screen.wait(-signal.SIGINT)
        self.assertEqual([line for line in screen.rows() if line], [])

    def test_control_characters_of_others_are_not_printed(self):
        self.fake.add("db", 1, row("busy", "w-1", slot=1, who="\x1b[2Jx\r\n", why="\u6f22\u5b57"))
        screen = self.start()
        self.waits(1)
        screen.wait_row(r"held by \?\[2Jx\?\? \(\u6f22 ?\u5b57 ?\)$")

    def test_the_broker_is_away(self):
        screen = self.start()
        self.fake.say(("broker", {"state": "down", "why": "connection refused"}))
        screen.wait_row(r"waiting \d+s, the broker is down: connection refused$")
        self.fake.say(("broker", {"state": "up", "why": ""}))
        screen.wait_row(r"waiting \d+s$")
        self.waits(1)
        screen.wait_row("position 1, held by alice")

    def test_the_daemon_is_silent(self):
        self.fake.script["show"] = None
        screen = self.start()
        screen.wait_row(r"^lockbroker: db: waiting [3-9]s, no answer from lockbrokerd yet$")
        self.waits(2)
        screen.wait_row(r"waiting \d+s, position 2, 1 holder$")
        # It was asked who that is.
        screen.wait_row(r"^lockbroker: db: waiting \d+s, no answer from lockbrokerd yet$")
        self.waits(1)
        self.grant()
        screen.wait(0)

    def test_is_gone_before_anything_else_is_said(self):
        screen = self.start()
        self.waits(1)
        screen.wait_row("held by alice")
        denied = error(4, "cancelled", "an administrator denied it", denied=True)
        self.fake.connections[-1].sendall(reply(self.fake.asked("acquire")[0], error=denied))
        screen.wait(80)
        self.assertEqual([line for line in screen.rows() if line], ["lockbroker: db: an administrator denied it"])

    def test_is_gone_after_a_signal(self):
        screen = self.start("acquire", "db")
        self.waits(1)
        screen.wait_row("held by alice")
        screen.type("\x03")
        screen.wait(-signal.SIGINT)
        self.assertIsNone(screen.find("waiting"))

    def test_in_the_background_there_is_a_line_a_change(self):
        self.fake.script["acquire"] = lambda request, _: GRANT if request["params"]["name"] == "first" else None
        screen = Screen(self, self.fake, "run", "first", "bash", "-mc",
                        f"{program('lockbroker')} run db echo mine & wait -f %1")
        self.fake.wait_asked("acquire", 2)
        for position in 2, 1:
            self.fake.say(("waiting", {"id": 1, "position": position, "busy": 1}))
            screen.wait_row(rf"^lockbroker: db: waiting, position {position}, 1 holder \(\d+s\)$")
        self.fake.connections[-1].sendall(reply(self.fake.asked("acquire")[1], result={**GRANT, "lock": "f-2"}))
        screen.wait(0)
        self.assertNotIn("\x1b[K", screen.text)

    def test_no_line_where_there_is_no_terminal(self):
        job = Job(self, self.fake, "run", "db", "echo", "mine")
        self.fake.wait_asked("acquire")
        self.waits(1)
        self.grant()
        job.wait(0)
        self.assertEqual((job.out, job.err), ("mine\n", ""))
        self.assertEqual(self.fake.asked("show"), [])


if __name__ == "__main__":
    tap.main()
