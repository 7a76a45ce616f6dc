"""Completion in bash and zsh, by the Tab key on a terminal."""

import os
import pty
import re
import select
import shutil
import signal
import tempfile
import unittest
from pathlib import Path

import tap
from cli import Job, command
from daemon import Daemon, clean_environment, program
from rows import Semaphores, row
from wait import wait_until

FILES = Path(os.environ["top_srcdir"]) / "client/completion"
SHELLS = {"bash": ("bash", "--norc", "--noprofile", "-i"), "zsh": ("zsh", "-f", "-i")}
LOAD = {"bash": "for file in {share}/bash-completion/completions/*; do source $file; done",
        "zsh": "bindkey -e; fpath=({share}/zsh/site-functions $fpath); autoload -U compinit; compinit -u -D"}


class Shell:
    """An interactive shell that has loaded the completion."""

    def __init__(self, test, name, daemon, share):
        path = os.path.dirname(os.path.abspath(program("lockbroker"))) + ":" + os.environ["PATH"]
        environment = clean_environment(LOCKBROKER_SOCKET=daemon.socket, PATH=path, TERM="dumb", HOME=str(share))
        self.text = ""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execvpe(SHELLS[name][0], SHELLS[name], environment)
        test.addCleanup(self._teardown)
        self.typed = 0
        self.line(LOAD[name].format(share=share))

    def read(self):
        while select.select([self.fd], [], [], 0)[0]:
            try:
                self.text += os.read(self.fd, 65536).decode("utf-8", "replace")
            except OSError:
                break
        return self.text

    def line(self, line):
        """Types it, and waits until the shell has done it. Returns the words that it had in the end."""
        self.typed += 1
        # Ctrl-A, and a command before all words of the line.
        show = "\x01printf 'd%s:' one" + f"{self.typed} " if "\t" in line else ""
        end = "" if show else f"; printf 'd%s:' one{self.typed}"
        os.write(self.fd, (line + end + show + "\r").encode())
        wait_until(lambda: f"done{self.typed}:" in self.read(), what=f"{line!r}: {self.text!r}")
        return re.findall(r"d([^\s:']*):", self.text.split(f"done{self.typed}:")[1])

    def _teardown(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.fd)


class Completion(unittest.TestCase):
    def setUp(self):
        self.daemon = Daemon(self)
        self.share = Path(tempfile.mkdtemp(prefix="lb-completion-"))
        self.addCleanup(shutil.rmtree, self.share)
        for folder, name in ("bash-completion/completions", "lockbroker"), ("zsh/site-functions", "_lockbroker"):
            (self.share / folder).mkdir(parents=True)
            shutil.copy(FILES / name, self.share / folder)
            shutil.copy(FILES / f"{name}-web", self.share / folder)
        command(self, self.daemon, "create", "nightly")
        command(self, self.daemon, "create", "team/x")

    def complete(self, name):
        holder = Job(self, self.daemon, "run", "nightly", "sleep", "60")
        self.daemon.wait_log("acquired nightly")
        waiting = Job(self, self.daemon, "run", "nightly", "true")
        self.daemon.wait_log("requested nightly", count=2)
        shown = command(self, self.daemon, "show", "--json", "nightly").json()
        waiter, held = shown["waiters"][0]["waiter"], shown["holders"][0]["waiter"]
        shell = Shell(self, name, self.daemon, self.share)
        for typed, words in (("resi\t", ["resize"]), ("run --verb\t", ["run", "--verbose"]),
                             ("show ni\t", ["show", "nightly"]), ("run --wait 5m te\t", ["run", "--wait", "5m", "team/x"]),
                             ("create --kind pe\t", ["create", "--kind", "persistent-mutex"]),
                             ("await nightly 1 b\t", ["await", "nightly", "1", "busy"]),
                             ("deny --all te\t", ["deny", "--all", "team/x"]),
                             ("evict --all te\t", ["evict", "--all", "team/x"]),
                             (f"evict {held[:-1]}\t", ["evict", held]),
                             (f"grant {waiter[:-1]}\t", ["grant", waiter]), ("help expl\t", ["help", "explain"])):
            with self.subTest(typed=typed):
                self.assertEqual(shell.line("lockbroker " + typed), ["lockbroker", *words])
        for typed, words in (("--user\t", ["--user-header"]), ("--admin --li\t", ["--admin", "--listen"])):
            with self.subTest(web=typed):
                self.assertEqual(shell.line("lockbroker-web " + typed), ["lockbroker-web", *words])
        for job in waiting, holder:
            job.signal(signal.SIGTERM)
            job.wait()

    def complete_hostile(self, name):
        """A daemon whose names and waiters are commands for a shell."""
        mark = self.share / "executed"
        attack = f"x$(touch${{IFS}}{mark})"
        fake = Semaphores(self)
        for hostile in attack, f"x`touch {mark}`", f"x;touch {mark}", "x$HOME", "x*", "xs-good":
            fake.add(hostile, 1, row("waiting", hostile))
        shell = Shell(self, name, fake, self.share)
        self.assertEqual(shell.line("lockbroker show x\t"), ["lockbroker", "show", "xs-good"])
        self.assertEqual(shell.line("lockbroker grant x\t"), ["lockbroker", "grant", "xs-good"])
        self.assertFalse(mark.exists())

    def test_hostile_answers_in_bash(self):
        self.complete_hostile("bash")

    @unittest.skipIf(shutil.which("zsh") is None, "needs zsh")
    def test_hostile_answers_in_zsh(self):
        self.complete_hostile("zsh")

    def test_bash(self):
        self.complete("bash")

    @unittest.skipIf(shutil.which("zsh") is None, "needs zsh")
    def test_zsh(self):
        self.complete("zsh")


if __name__ == "__main__":
    tap.main()
