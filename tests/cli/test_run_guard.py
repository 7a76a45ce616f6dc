"""The guard of lockbroker run. Processes that the command started do not work on without the lock."""

import os
import shutil
import signal
import subprocess
import tempfile
import unittest

import tap
from cli import Job, command, children, gone, guard_of, name_of, state
from daemon import Daemon
from wait import wait_until

AS_ROOT = unittest.skipIf(os.getuid() != 0, "changes the user, so it needs root")
NOBODY = 65534


class GuardCase(unittest.TestCase):
    def setUp(self):
        self.daemon = Daemon(self)
        self.marks = os.path.join(self.daemon.dir, "marks")

    def start(self, *argv, **more):
        return Job(self, self.daemon, "run", *argv, **more)

    def pids(self, count):
        """The numbers that processes have written into the file of marks, once there are so many."""
        def words():
            if not os.path.exists(self.marks):
                return []
            with open(self.marks, encoding="ascii") as file:
                return file.read().split()
        return [int(word) for word in wait_until(lambda: len(words()) == count and words(), what=f"{count} marks")]

    def mark(self, then="exec sleep 600"):
        """A command that writes its number into the file of marks."""
        return f"echo $$ >>{self.marks}; {then}"

    def expect_order(self, job):
        """Kills `run`. A waiter gets the lock only after the processes of the command have gone."""
        pids = self.pids(self.count)
        alive = " || ".join(f"test -d /proc/{pid} && ! grep -q 'State:.Z' /proc/{pid}/status" for pid in pids)
        waiter = self.start("--mutex", "z", "sh", "-c", f"{alive} && echo alive || echo gone")
        self.daemon.wait_log("requested z", count=2)
        job.signal(signal.SIGKILL)
        job.wait(-signal.SIGKILL)
        waiter.wait(0)
        self.assertEqual(waiter.out, "gone\n")
        for pid in pids:
            self.assertTrue(gone(pid))


class RunIsKilled(GuardCase):
    def test_descendants_in_sessions_of_their_own_end_first(self):
        job = self.start("--mutex", "z", "sh", "-c",
                         f"setsid sh -c '(setsid sh -c \"{self.mark()}\" &); {self.mark()}' & {self.mark()}")
        self.count = 3
        self.expect_order(job)

    @AS_ROOT
    def test_a_command_that_changes_its_user_ends_first(self):
        """The kernel clears PDEATHSIG then (prctl(2))."""
        with open(self.marks, "w", encoding="ascii"):
            os.chmod(self.marks, 0o666)
        os.chmod(self.daemon.dir, 0o711)
        job = self.start("--mutex", "z", "setpriv", f"--reuid={NOBODY}", "--clear-groups", "sh", "-c",
                         f"trap '' TERM HUP INT; {self.mark('while :; do sleep 600; done')}")
        self.count = 1
        self.expect_order(job)

    def test_many_that_go_on_starting_others(self):
        script = os.path.join(self.daemon.dir, "script")
        with open(script, "w", encoding="ascii") as file:
            file.write(f"[ $1 -eq 0 ] || for i in 1 2; do sh {script} $(($1 - 1)) & done\n{self.mark()}\n")
        job = self.start("--mutex", "z", "sh", script, "4")
        self.count = 31
        self.expect_order(job)

    def test_its_output_ends(self):
        """As that of x=$(lockbroker run ...)."""
        job = self.start("--mutex", "z", "sh", "-c", self.mark())
        self.pids(1)
        guard = guard_of(job.pid)
        os.kill(guard, signal.SIGSTOP)
        wait_until(lambda: state(guard) == "T", what="the guard is stopped")
        job.signal(signal.SIGKILL)
        job.wait(-signal.SIGKILL)
        self.assertFalse(gone(self.pids(1)[0]))
        os.kill(guard, signal.SIGCONT)
        wait_until(lambda: gone(guard), what="the guard is gone")
        read, write = os.pipe()
        job = subprocess.Popen(["/bin/sh", "-c", 'echo run $$; exec "$0" "$@"', *job.process.args],
                               stdout=write, stderr=write, env=self.daemon.env | {"LOCKBROKER_SOCKET": self.daemon.socket})
        os.close(write)
        self.pids(2)
        job.kill()
        job.wait()
        with open(read, "rb") as file:
            self.assertEqual(file.read().decode(), f"run {job.pid}\n")

    def test_with_a_private_daemon(self):
        url = os.path.join(self.daemon.dir, "url")
        with open(url, "w", encoding="ascii") as file:
            file.write("memory:")
        job = self.start("--broker-file", url, "--mutex", "z", "sh", "-c",
                         f"setsid sh -c '{self.mark()}' & {self.mark()}", env={"XDG_RUNTIME_DIR": self.daemon.dir})
        pids = self.pids(2) + children(job.pid)
        self.assertEqual(sorted(name_of(pid) for pid in pids[2:]), ["lockbroker-grd", "lockbrokerd"])
        job.signal(signal.SIGKILL)
        job.wait(-signal.SIGKILL)
        for pid in pids:
            wait_until(lambda pid=pid: gone(pid), what=f"{pid} is gone")


class TheGuard(GuardCase):
    def test_ignores_signals_that_are_for_run(self):
        job = self.start("--mutex", "z", "sh", "-c", f"trap 'exit 9' USR1; {self.mark('while :; do sleep 0.05; done')}")
        self.pids(1)
        guard = guard_of(job.pid)
        for signo in signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP:
            os.kill(guard, signo)
        job.signal(signal.SIGUSR1)
        job.wait(9)

    def test_is_killed_while_run_is_stopped(self):
        """`run` finds what has ended already, and hears of no other end."""
        job = self.start("--mutex", "z", "sh", "-c", self.mark())
        self.pids(1)
        guard = guard_of(job.pid)
        job.signal(signal.SIGSTOP)
        wait_until(lambda: state(job.pid) == "T", what="run is stopped")
        os.kill(guard, signal.SIGKILL)
        wait_until(lambda: all(gone(pid) for pid in (guard, *self.pids(1))), what="both are gone")
        job.signal(signal.SIGCONT)
        job.wait(137)

    def test_is_killed(self):
        """`run` ends what it leaves, and has the lock until then."""
        job = self.start("--mutex", "z", "sh", "-c", f"setsid sh -c '{self.mark()}' & {self.mark()}")
        pids = self.pids(2)
        os.kill(guard_of(job.pid), signal.SIGKILL)
        job.wait(137)
        for pid in pids:
            self.assertTrue(gone(pid))
        self.assertIn("z: the process that guards the command was killed", job.err)

    def test_memory(self):
        """The manual says: less than a megabyte of its own."""
        job = self.start("--mutex", "z", "sh", "-c", self.mark())
        self.pids(1)
        with open(f"/proc/{guard_of(job.pid)}/smaps_rollup", encoding="ascii") as file:
            fields = {line.split(":")[0]: int(line.split()[1]) for line in file if line.endswith("kB\n")}
        own = fields["Private_Dirty"] + fields["Private_Clean"]
        print(f"guard: {own} kB of its own, {fields['Pss']} kB in proportion")
        if b"libasan" not in open(f"/proc/{job.pid}/maps", "rb").read():
            self.assertLess(own, 1024)

    @AS_ROOT
    def test_names_a_process_that_it_may_not_end(self):
        folder = tempfile.mkdtemp(prefix="lb-guard-", dir="/var/tmp")
        self.addCleanup(shutil.rmtree, folder)
        os.chmod(folder, 0o755)
        # As sudo(8): a program that takes another user, for itself and for good.
        other = shutil.copy("/usr/bin/setpriv", folder)
        os.chmod(other, 0o4755)
        binary = shutil.copy(Job(self, self.daemon, "--version").process.args[0], folder)
        os.chmod(self.daemon.dir, 0o711)
        os.chmod(self.daemon.socket, 0o666)
        job = self.start("-k", "0", "--mutex", "z", other, "--reuid=0", "sleep", "600", binary=binary, user=NOBODY,
                         group=NOBODY, extra_groups=[], cwd="/")
        guard = guard_of(job.pid)
        pid = wait_until(lambda: [child for child in children(guard) if name_of(child) == "sleep"], what="it runs")[0]
        self.daemon.expect(".*")
        self.daemon.kill()
        wait_until(lambda: f"z: process {pid} runs as another user, and was not ended" in job.err, what="it says so")
        os.kill(pid, signal.SIGKILL)
        job.wait(79)


class LeftBehind(GuardCase):
    def test_release_at_the_end_of_the_command(self):
        job = self.start("--release-on=exit", "--mutex", "z", "sh", "-c", f"setsid sh -c '{self.mark()}' & exit 5")
        pid = self.pids(1)[0]
        self.addCleanup(os.kill, pid, signal.SIGKILL)
        job.wait(5)
        self.assertEqual(job.err, "")
        command(self, self.daemon, "run", "-n", "--mutex", "z", "true")
        self.assertFalse(gone(pid))

    def test_a_loss_ends_them_before_the_end_of_the_command(self):
        job = self.start("--release-on=exit", "-k", "0", "--mutex", "z", "sh", "-c",
                         f"setsid sh -c '{self.mark()}' & {self.mark()}")
        pids = self.pids(2)
        self.daemon.expect(".*")
        self.daemon.kill()
        job.wait(79)
        for pid in pids:
            self.assertTrue(gone(pid))

    def test_they_are_named_without_a_terminal_too(self):
        script = os.path.join(self.daemon.dir, "script")
        with open(script, "w", encoding="utf-8") as file:
            file.write("import os, time\nopen('/proc/self/comm', 'w').write('\\x1b[2J\\u202ex')\n"
                       f"open({self.marks!r}, 'w').write(str(os.getpid()))\ntime.sleep(600)\n")
        job = self.start("--mutex", "z", "sh", "-c", f"setsid python3 {script} &")
        pid = self.pids(1)[0]
        wait_until(lambda: "waiting for" in job.err, what="it says so")
        self.assertEqual(job.err, "lockbroker: z: waiting for 1 process that the command started: "
                                  f"?[2J?x ({pid})\n")
        os.kill(pid, signal.SIGKILL)
        job.wait(0)


if __name__ == "__main__":
    tap.main()
