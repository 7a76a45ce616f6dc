"""lockbroker run on a terminal: whose foreground it is, Ctrl-C, Ctrl-Z, what it says while it waits."""

import os
import signal
import unittest

import tap
from cli import Terminal, command, group, state
from daemon import Daemon, program
from wait import wait_until
from wire import Wire


class OnATerminal(unittest.TestCase):
    def setUp(self):
        self.daemon = Daemon(self)
        command(self, self.daemon, "create", "db")

    def pid_in(self, terminal):
        wait_until(lambda: "pid " in terminal.read() and "\n" in terminal.text.split("pid ")[1], what="a pid")
        return int(terminal.text.split("pid ")[1].split()[0])

    def test_the_child_has_the_foreground_and_can_read(self):
        terminal = Terminal(self, self.daemon, "run", "db", "sh", "-c", "echo pid $$; read x; echo got $x")
        pid = self.pid_in(terminal)
        self.assertEqual(group(pid), pid)
        wait_until(lambda: terminal.foreground() == pid, what="the child has the foreground")
        terminal.type("words\n")
        terminal.wait_text("got words")
        terminal.wait(0)

    def test_foreground_comes_back_for_what_follows(self):
        lockbroker = program("lockbroker")
        terminal = Terminal(self, self.daemon, "run", "db", "sh", "-c",
                            f"{lockbroker} run --mutex m true; read x; echo got $x")
        terminal.type("words\n")
        terminal.wait_text("got words")
        terminal.wait(0)

    def test_interrupt_ends_the_child(self):
        terminal = Terminal(self, self.daemon, "run", "db", "sh", "-c", "echo pid $$; exec sleep 60")
        pid = self.pid_in(terminal)
        wait_until(lambda: terminal.foreground() == pid, what="the child has the foreground")
        terminal.type("\x03")
        terminal.wait(130)

    def test_interrupt_comes_once_in_the_foreground_group(self):
        script = 'trap "n=\\$((n + 1)); echo int \\$n" INT; trap "exit 5" USR1; n=0; echo pid $$; ' \
            "while :; do sleep 0.05; done"
        terminal = Terminal(self, self.daemon, "run", "--foreground", "db", "bash", "-c", script)
        pid = self.pid_in(terminal)
        self.assertEqual(group(pid), terminal.pid)
        terminal.type("\x03")
        terminal.wait_text("int 1")
        # USR1 goes the same way and comes later: an INT that was passed on would have come before.
        os.kill(terminal.pid, signal.SIGUSR1)
        terminal.wait(5)
        self.assertNotIn("int 2", terminal.text)

    def test_stop_and_continue(self):
        terminal = Terminal(self, self.daemon, "run", "db", "sh", "-c", "echo pid $$; read x; echo got $x")
        pid = self.pid_in(terminal)
        wait_until(lambda: terminal.foreground() == pid, what="the child has the foreground")
        terminal.type("\x1a")
        terminal.wait_stopped()
        self.assertEqual(state(pid), "T")
        self.assertEqual(terminal.foreground(), terminal.pid)
        os.kill(terminal.pid, signal.SIGCONT)
        wait_until(lambda: state(pid) == "S" and terminal.foreground() == pid, what="the child goes on")
        terminal.type("words\n")
        terminal.wait_text("got words")
        terminal.wait(0)

    def test_says_that_it_waits(self):
        peer = Wire(self.daemon)
        lock = peer.call("acquire", name="db", timeout=0)["lock"]
        terminal = Terminal(self, self.daemon, "run", "db", "echo", "mine")
        terminal.wait_text("db: waiting, position 1, 1 holds it (0 s)")
        peer.call("release", lock=lock)
        terminal.wait_text("mine")
        terminal.wait(0)

    def test_stop_and_interrupt_while_it_waits(self):
        Wire(self.daemon).call("acquire", name="db", timeout=0)
        terminal = Terminal(self, self.daemon, "run", "db", "true")
        terminal.wait_text("waiting")
        terminal.type("\x1a")
        terminal.wait_stopped()
        os.kill(terminal.pid, signal.SIGCONT)
        wait_until(lambda: state(terminal.pid) == "S", what="it goes on")
        terminal.type("\x03")
        terminal.wait(130)

    def test_a_pipeline_keeps_its_terminal(self):
        read, write = os.pipe()
        terminal = Terminal(self, self.daemon, "run", "db", "sh", "-c", "echo pid $$; exec sleep 60",
                            after_fork=lambda: os.dup2(write, 1))
        os.close(write)
        pid = int(os.read(read, 100).split()[1])
        self.assertEqual(group(pid), pid)
        self.assertEqual(terminal.foreground(), terminal.pid)
        terminal.type("\x03")
        terminal.wait(130)
        os.close(read)


if __name__ == "__main__":
    tap.main()
