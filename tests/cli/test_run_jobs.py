"""lockbroker run as a job of a shell on a real terminal: Ctrl-C, Ctrl-Z, bg, fg, prompts and terminal modes. In the same
test flock(1) does the same, as the measure of what a user expects."""

import os
import re
import shutil
import signal
import sys
import termios
import time
import unittest

import tap
from cli import Job, Terminal, children, gone, guard_of, name_of, state, waits
from daemon import Daemon, program
from wait import wait_until
from wire import Wire

# Interactive, without anybody's settings. Only the terminal echoes the typed words.
SHELLS = {"bash": ("/bin/bash", "--norc", "--noprofile", "--noediting", "-i"), "dash": ("/bin/dash", "-i"),
          "zsh": ("/bin/zsh", "-f", "-i", "+Z")}


class Shell(Terminal):
    """An interactive shell on a terminal of its own."""

    def __init__(self, test, daemon, name):
        self.name = name
        self.asked = 0
        super().__init__(test, daemon, *SHELLS[name][1:], binary=SHELLS[name][0], env={"PS1": "> "})
        self.answers()

    def line(self, text):
        self.type(text + "\n")

    def answers(self):
        """Waits until the shell has the terminal and executes a command. zsh may drop a line while it takes the terminal."""
        self.asked += 1

        def answered():
            self.line(f"echo here $(({self.asked} + 1000))")
            try:
                self.wait_text(f"here {self.asked + 1000}", within=3)
            except AssertionError:
                return False
            return True
        wait_until(answered, what=f"the shell answers: {self.text!r}")
        assert self.foreground() == self.pid, "the shell has the foreground"

    def knows_the_stop(self):
        """Waits until the shell has heard that its job is stopped. The shell hears of the parent, which can be stopped a
        moment after the command. Until then, `fg` continues nothing."""
        def told():
            self.answers()
            return re.search("[Ss]topped|suspended", self.read())
        wait_until(told, what="the shell says that its job is stopped")


class JobCase(unittest.TestCase):
    """JOB is a script that says that it has begun, and waits for a line from the pipe `go`."""


    def setUp(self):
        self.daemon = Daemon(self)
        self.script, self.marks, self.pipe = (os.path.join(self.daemon.dir, name) for name in ("job", "marks", "go"))
        os.mkfifo(self.pipe)
        self.job = f"sh {self.script}"
        self.run_it = f"{program('lockbroker')} run --mutex z"
        self.flock = f"flock {self.daemon.dir}/lock"
        self.script_is("")

    def script_is(self, before, after="", work=None):
        """The job notes when it begins and ends in a file, so that no test counts what the terminal echoes."""
        with open(self.script, "w", encoding="ascii") as file:
            file.write(f"{before}\necho begun $$ >>{self.marks}\n{work or f'read x <{self.pipe}'}\n{after}\n"
                       f"echo ended >>{self.marks}\n")
        self.forget()

    def forget(self):
        with open(self.marks, "w", encoding="ascii"):
            pass

    def each(self, body, *wraps, shells=tuple(SHELLS)):
        """Calls body(shell, wrap) in each shell that is installed, with each of the words before a command. On a busy
        machine, a stopped pipeline under flock sometimes keeps zsh from its terminal. So flock is no control there."""
        for shell in shells:
            for wrap in wraps or (self.flock, self.run_it):
                if os.path.exists(SHELLS[shell][0]) and (shell, wrap) != ("zsh", self.flock):
                    with self.subTest(shell=shell, wrap=wrap):
                        self.forget()
                        body(Shell(self, self.daemon, shell), wrap)

    def begun(self, count=1):
        """The number of the newest job, once so many have begun."""
        def pids():
            with open(self.marks, encoding="ascii") as file:
                return [line.split()[1] for line in file.read().splitlines() if line.startswith("begun ")]
        wait_until(lambda: len(pids()) >= count, what=f"{count} jobs have begun")
        self.assertEqual(len(pids()), count)
        return int(pids()[-1])

    def go(self):
        with open(self.pipe, "w", encoding="ascii") as file:
            file.write("\n")

    def wait_state(self, pid, wanted):
        wait_until(lambda: state(pid) == wanted, what=f"{pid} is {wanted}")

    def ended(self):
        wait_until(lambda: "ended" in open(self.marks, encoding="ascii").read(), what="the job has ended")

    def free(self):
        """Nobody holds the mutex."""
        wait_until(lambda: Wire(self.daemon).call("list")["mutexes"] == [], what="the mutex is free")


class Background(JobCase):
    def test_the_end_of_a_background_job_leaves_the_terminal_alone(self):
        def body(shell, wrap):
            shell.line(f"{wrap} {self.job}")
            pid = self.begun()
            shell.type("\x1a")
            self.wait_state(pid, "T")
            shell.answers()
            shell.line("bg")
            self.wait_state(pid, "S")
            shell.answers()
            self.go()
            wait_until(lambda: gone(pid), what="the job is gone")
            shell.answers()
        self.each(body)

    def test_a_job_that_was_started_in_the_background_gets_the_terminal_by_fg(self):
        self.script_is("", "echo got $x", work="read x")

        def body(shell, wrap):
            shell.line(f"{wrap} {self.job} &")
            pid = self.begun()
            # It reads, and is stopped for that.
            self.wait_state(pid, "T")
            shell.knows_the_stop()
            shell.line("fg")
            self.wait_state(pid, "S")
            shell.line("a word")
            shell.wait_text("got a word")
            shell.answers()
        self.each(body)

    def test_a_disowned_job_that_is_lost_leaves_the_terminal_alone(self):
        def body(shell, wrap):
            shell.line(f"{wrap} {self.job} &")
            pid = self.begun()
            shell.line("disown")
            shell.answers()
            self.daemon.expect(".*")
            self.daemon.kill()
            wait_until(lambda: gone(pid), what="the job is ended")
            shell.wait_text("z: lost")
            shell.answers()
        self.each(body, self.run_it, shells=("bash",))


class Interrupt(JobCase):
    LOOP = "for i in 1 2 3; do {}; done"

    def expect_status(self, shell, status):
        shell.line("echo status $(($? + 1000))")
        shell.wait_text(f"status {1000 + status}")

    def test_ends_the_loop_and_the_script(self):
        def body(shell, wrap):
            loop = self.LOOP.format(f"{wrap} {self.job}")
            for text in (loop, f"{shell.name} -c '{loop}'", f"{shell.name} -c '{wrap} {self.job}; echo never >>{self.marks}'"):
                self.forget()
                shell.line(text)
                self.begun()
                shell.type("\x03")
                self.expect_status(shell, 130)
                shell.answers()
                self.begun()
                with open(self.marks, encoding="ascii") as file:
                    self.assertNotIn("never", file.read())
        self.each(body)

    def test_leaves_no_core(self):
        def body(shell, wrap):
            shell.line(f"cd {self.daemon.dir}; {wrap} sh -c 'ulimit -c 0; . {self.script}'")
            self.begun()
            shell.type("\x1c")
            self.expect_status(shell, 131)
            self.assertNotIn("core dumped", shell.text)
            self.assertEqual([name for name in os.listdir(self.daemon.dir) if "core" in name], [])
        self.each(body, f"ulimit -c unlimited; {self.run_it}", shells=("bash",))

    def test_goes_on_if_the_command_caught_it(self):
        """As without a lock: flock itself dies of the signal."""
        self.script_is("trap 'exit 0' INT")

        def body(shell, wrap):
            shell.line(self.LOOP.format(f"{wrap} {self.job}"))
            for count in 1, 2, 3:
                self.begun(count)
                shell.type("\x03")
            shell.answers()
        self.each(body, "", self.run_it)

    def test_ends_the_loop_while_the_lock_is_waited_for(self):
        Wire(self.daemon).call("acquire", name="z", kind="mutex", timeout=0)

        def body(shell, wrap):
            shell.line(self.LOOP.format(wrap))
            shell.wait_text("z: waiting")
            shell.type("\x03")
            self.expect_status(shell, 130)
            self.assertEqual(self.daemon.log().count("requested z"), self.requested + 1)
            self.requested += 1
        self.requested = 1
        self.each(body, f"{self.run_it} true", f"{program('lockbroker')} acquire --mutex z")

    def test_reaches_a_command_in_a_group_of_its_own(self):
        """timeout(1) makes a group if it leads none."""
        def body(shell, wrap):
            shell.line(f"{wrap} timeout 60 {self.job}")
            pid = self.begun()
            shell.type("\x03")
            shell.answers()
            self.assertTrue(gone(pid))
        self.each(body, "", self.run_it)

    def test_reaches_processes_that_are_left_behind(self):
        self.script_is("", work=f"setsid -f sh -c 'echo begun $$ >>{self.marks}; exec sleep 60'; exit 3")

        def body(shell, wrap):
            shell.line(f"{wrap} {self.job}")
            pid = self.begun(2)
            shell.wait_text("waiting for 1 process")
            shell.type("\x03")
            self.expect_status(shell, 3)
            self.assertTrue(gone(pid))
        self.each(body, self.run_it, shells=("bash",))

    def test_kill_reaches_the_command_of_a_run_in_a_run_once(self):
        self.script_is('n=0; trap "n=\\$((n + 1)); echo usr \\$n >>$0.said" USR1; trap "exit 5" USR2',
                       work="while :; do sleep 0.05; done")
        job = Job(self, self.daemon, "run", "--mutex", "a", program("lockbroker"), "run", "--mutex", "b", "bash", self.script)
        self.begun()
        job.signal(signal.SIGUSR1)
        said = self.script + ".said"
        wait_until(lambda: os.path.exists(said) and "usr 1" in open(said, encoding="ascii").read(), what="it has it")
        job.signal(signal.SIGUSR2)
        job.wait(5)
        with open(said, encoding="ascii") as file:
            self.assertEqual(file.read(), "usr 1\n")

    def test_reaches_the_command_once(self):
        with open(self.script, "w", encoding="ascii") as file:
            file.write("import os, signal, time\n"
                       "said = []\n"
                       "signal.signal(signal.SIGINT, lambda *_: (said.append(1), os.write(1, b'int %d\\n' % len(said))))\n"
                       "signal.signal(signal.SIGUSR1, lambda *_: (os.write(1, b'usr\\n'), os._exit(5)))\n"
                       f"with open('{self.marks}', 'a') as file:\n"
                       "    file.write(f'begun {os.getpid()}\\n')\n"
                       "while True:\n"
                       "    time.sleep(60)\n")

        def body(shell, wrap):
            shell.line(f"{wrap} {sys.executable} {self.script}")
            pid = self.begun()
            shell.type("\x03")
            shell.wait_text("int 1")
            # The guard passes it on later: an interrupt that it had passed on would come before it.
            os.kill(pid if wrap == self.flock else children(shell.pid)[-1], signal.SIGUSR1)
            shell.wait_text("usr\r")
            self.assertNotIn("int 2", shell.text)
            if wrap == self.run_it:
                shell.answers()
        self.each(body)


class Prompt(JobCase):
    def setUp(self):
        super().setUp()
        self.script_is("", "echo got $x >/dev/tty", work="printf ask >/dev/tty; read x </dev/tty")

    def test_is_read_from_the_terminal_whatever_is_redirected(self):
        """As ssh, sudo and mysql -p do."""
        def body(shell, wrap):
            count = 0
            for redirection in (">/dev/null", "</dev/null", "| cat", "2>/dev/null"):
                for text in (f"{wrap} {self.job} {redirection}",
                             f"{shell.name} -c '{wrap} {self.job} {redirection}; :'"):
                    count += 1
                    shell.line(text)
                    shell.wait_text("ask", count)
                    shell.line("a word")
                    shell.wait_text("got a word", count)
                    shell.answers()
        self.each(body)

    def test_is_interrupted(self):
        def body(shell, wrap):
            shell.line(f"{shell.name} -c '{wrap} {self.job} >/dev/null'")
            pid = self.begun()
            shell.wait_text("ask")
            shell.type("\x03")
            wait_until(lambda: gone(pid), what="the job is gone")
            shell.answers()
        self.each(body)
        self.free()


class Stop(JobCase):
    def test_gives_the_prompt_back(self):
        def body(shell, wrap):
            for text in (f"{wrap} {self.job}", f"{shell.name} -c '{wrap} {self.job}; :'", f"{wrap} {self.job} | cat",
                         f"echo | {wrap} {self.job}"):
                self.forget()
                shell.line(text)
                pid = self.begun()
                if text.endswith("| cat"):
                    # A process of a shell that has not become `cat` yet ignores the key, and the job never stops.
                    wait_until(lambda: "cat" in map(name_of, children(shell.pid)), what="cat runs")
                shell.type("\x1a")
                self.wait_state(pid, "T")
                shell.answers()
                shell.line("fg")
                self.wait_state(pid, "S")
                self.go()
                self.ended()
                shell.answers()
        self.each(body)

    def test_of_the_command_alone(self):
        """As `suspend` of a shell, and ~^Z of ssh(1)."""
        self.script_is("kill -TSTP $$")

        def body(shell, wrap):
            shell.line(f"{wrap} {self.job}")
            shell.answers()
            shell.line("fg")
            pid = self.begun()
            self.wait_state(pid, "S")
            self.go()
            self.ended()
            shell.answers()
        self.each(body, "", self.run_it)

    def test_of_the_command_alone_that_is_over_does_not_stop_run(self):
        """The guard's word of it comes late. SIGCONT is ignored, so that no signal tells `run` that it is continued."""
        shell = Shell(self, self.daemon, "bash")
        shell.line("trap '' CONT")
        shell.line(f"{self.run_it} {self.job}")
        pid = self.begun()
        run = children(shell.pid)[0]
        guard = guard_of(run)
        os.kill(run, signal.SIGSTOP)
        self.wait_state(run, "T")
        before = waits(guard)
        os.kill(pid, signal.SIGTSTP)
        self.wait_state(pid, "T")
        wait_until(lambda: waits(guard) > before and state(guard) == "S", what="the guard has told run")
        os.kill(pid, signal.SIGCONT)
        os.kill(run, signal.SIGCONT)
        self.go()
        self.ended()
        wait_until(lambda: gone(run), what="run ends with the command")
        shell.answers()

    def test_of_a_session_leader_does_nothing(self):
        """As ssh -t starts it: there is no shell that could continue it."""
        for wrap in self.flock, self.run_it:
            with self.subTest(wrap=wrap):
                self.forget()
                path, *argv = wrap.split()
                terminal = Terminal(self, self.daemon, *argv, "sh", self.script, binary=shutil.which(path))
                self.begun()
                terminal.type("\x1a")
                # The terminal shows it after it has sent the signal.
                terminal.wait_text("^Z")
                self.go()
                self.ended()
                terminal.wait(0)

    def test_while_the_lock_is_waited_for(self):
        peer = Wire(self.daemon)
        lock = peer.call("acquire", name="z", kind="mutex", timeout=0)["lock"]

        def body(shell, wrap):
            shell.line(f"{wrap} {self.job}")
            shell.wait_text("z: waiting")
            pid = children(shell.pid)[-1]
            shell.type("\x1a")
            self.wait_state(pid, "T")
            shell.answers()
            shell.line("fg")
            self.wait_state(pid, "S")
            shell.type("\x03")
            wait_until(lambda: gone(pid), what="it is gone")
            shell.answers()
        self.each(body, self.run_it)
        terminal = Terminal(self, self.daemon, "run", "--mutex", "z", "echo", "mine")
        terminal.wait_text("z: waiting")
        terminal.type("\x1a")
        terminal.wait_text("^Z")
        peer.call("release", lock=lock)
        terminal.wait_text("mine")
        terminal.wait(0)

    def test_longer_than_the_lease_loses_nothing(self):
        """The guard hears of newer leases, while `run` and the command are stopped."""
        daemon = Daemon(self, "--heartbeat", "2")
        shell = Shell(self, daemon, "bash")
        shell.line(f"{self.run_it} --status-fd 2 {self.job}")
        pid = self.begun()
        shell.wait_text('"safe_until":')
        until = float(re.search(r'"safe_until":([\d.]+)', shell.text)[1])
        shell.type("\x1a")
        self.wait_state(pid, "T")
        wait_until(lambda: time.clock_gettime(time.CLOCK_BOOTTIME) > until + 0.2, what="the first lease is over")
        shell.answers()
        shell.line("fg")
        self.wait_state(pid, "S")
        self.go()
        self.ended()
        shell.wait_text('"status":0')
        shell.answers()

    def test_does_not_keep_a_lost_command(self):
        def body(shell, wrap):
            shell.line(f"{wrap} {self.job}")
            pid = self.begun()
            shell.type("\x1a")
            self.wait_state(pid, "T")
            shell.answers()
            self.daemon.expect(".*")
            self.daemon.kill()
            wait_until(lambda: gone(pid), what="the command is ended")
            shell.answers()
            shell.line("fg; echo status $(($? + 1000))")
            shell.wait_text("status 1079")
        self.each(body, self.run_it, shells=("bash",))


class Modes(JobCase):
    """The modes of the terminal after a command that could not restore them."""

    def run_raw(self, before, after=""):
        """A script without job control, which does not restore them either, runs the job in raw mode."""
        self.script_is(before + "\nstty raw -echo", after)
        terminal = Terminal(self, self.daemon, "-c", f"{self.run_it} {self.job}; echo status $?; read x",
                            binary="/bin/dash")
        modes = termios.tcgetattr(terminal.fd)
        pid = self.begun()
        self.assertNotEqual(termios.tcgetattr(terminal.fd), modes)
        return terminal, modes, pid

    def test_a_signal_ends_the_command(self):
        terminal, modes, pid = self.run_raw("")
        os.kill(pid, signal.SIGKILL)
        terminal.wait_text("status 137")
        self.assertEqual(termios.tcgetattr(terminal.fd), modes)

    def test_a_loss_ends_a_shell_that_has_the_foreground(self):
        """bash -i ignores SIGTERM, and has a group of its own, which dies with it."""
        terminal = Terminal(self, self.daemon, "-c", f"{self.run_it} -k 0.1 bash --norc -i; echo status $?; read x; "
                            "echo got $x", binary="/bin/dash", env={"PS1": "prompt> "})
        modes = termios.tcgetattr(terminal.fd)
        terminal.wait_text("prompt> ")
        wait_until(lambda: terminal.foreground() != terminal.pid, what="bash has the foreground")
        self.daemon.expect(".*")
        self.daemon.kill()
        terminal.wait_text("status 79")
        self.assertEqual(termios.tcgetattr(terminal.fd), modes)
        terminal.type("a word\n")
        terminal.wait_text("got a word")
        terminal.wait(0)

    def lose(self, before):
        terminal, modes, _ = self.run_raw(before)
        self.daemon.expect(".*")
        self.daemon.kill()
        terminal.wait_text("status 79")
        self.assertEqual(termios.tcgetattr(terminal.fd), modes)

    def test_a_loss_ends_the_command(self):
        self.lose("")

    def test_a_loss_ends_a_command_that_handles_the_signal(self):
        self.lose("trap 'exit 0' TERM")

    def test_a_command_that_ends_by_itself_may_change_them(self):
        terminal, modes, _ = self.run_raw("")
        self.go()
        terminal.wait_text("status 0")
        self.assertNotEqual(termios.tcgetattr(terminal.fd), modes)


class Around(JobCase):
    """Other programs that start `run`, and the end of the terminal."""

    def test_script_nohup_and_setsid(self):
        def body(shell, wrap):
            for text in (f"script -qec '{wrap} {self.job}' /dev/null", f"nohup {wrap} {self.job}",
                         f"setsid -w {wrap} {self.job}"):
                self.forget()
                shell.line(f"cd {self.daemon.dir}; {text}; echo status $(($? + 1000))")
                self.begun()
                self.go()
                self.ended()
                shell.wait_text("status 1000")
                shell.answers()
        self.each(body, shells=("bash",))

    def hang_up(self, terminal):
        os.close(terminal.fd)
        terminal.fd = os.open("/dev/null", os.O_RDWR)

    def test_a_session_leader_whose_terminal_hangs_up_ends_the_command(self):
        terminal = Terminal(self, self.daemon, "run", "--mutex", "z", "sh", self.script)
        pid = self.begun()
        self.hang_up(terminal)
        wait_until(lambda: gone(pid), what="the command is gone")
        self.free()

    def test_nohup_outlives_the_terminal(self):
        shell = Shell(self, self.daemon, "bash")
        shell.line(f"cd {self.daemon.dir}; nohup {self.run_it} {self.job} >/dev/null 2>&1 &")
        pid = self.begun()
        self.hang_up(shell)
        wait_until(lambda: gone(shell.pid), what="the shell is gone")
        self.assertFalse(gone(pid))
        self.go()
        self.ended()
        self.free()


if __name__ == "__main__":
    tap.main()
