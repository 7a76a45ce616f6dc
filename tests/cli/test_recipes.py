"""The recipes of lockbroker(1) and of the operations guide, taken from their sources and executed."""

import os
import re
import shlex
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import unittest
from pathlib import Path

import guide
import tap
from cli import Job, command
from daemon import Daemon, program
from manual import block
from wait import wait_until


def recipe(words):
    return block("lockbroker.1", words)


class Shell(unittest.TestCase):
    def setUp(self):
        self.daemon = Daemon(self)
        self.dir = Path(tempfile.mkdtemp(prefix="lb-recipe-"))
        self.addCleanup(shutil.rmtree, self.dir)
        self.bin = self.dir / "bin"
        self.bin.mkdir()
        (self.bin / "lockbroker").symlink_to(os.path.abspath(program("lockbroker")))

    def program(self, name, text):
        file = self.bin / name
        file.write_text("#!/bin/sh\n" + text)
        file.chmod(file.stat().st_mode | stat.S_IXUSR)
        return file

    def program_here(self, name, text):
        """The same in the folder where the recipe runs."""
        (self.dir / name).symlink_to(self.program(name, text))

    def fifo(self, name):
        """A file that keeps its reader waiting until the test writes to it."""
        os.mkfifo(self.dir / name)
        return self.dir / name

    def start(self, *argv, env=None):
        return Job(self, self.daemon, *argv[1:], binary=shutil.which(argv[0]), cwd=self.dir,
                   env={"PATH": f"{self.bin}:{os.environ['PATH']}", "HOME": str(self.dir), **(env or {})})

    def holders(self, name):
        return command(self, self.daemon, "show", "--json", name).json()["holders"]

    def wait_free(self, *lock):
        wait_until(lambda: Job(self, self.daemon, "run", "-n", *lock, "true").wait() == 0, what="it is free")


class Recipes(Shell):
    def test_a_part_of_a_script(self):
        command(self, self.daemon, "create", "report")
        for name in "collect", "publish":
            self.program_here(name, f"echo {name}; lockbroker list\n")
        job = self.start("sh", "-c", recipe("./collect"))
        job.wait(0)
        said = re.findall(r"collect|publish|report\t1\t\d", job.out)
        self.assertEqual(said, ["collect", "report\t1\t1", "publish", "report\t1\t0"])

    def test_a_semaphore_for_all_hosts(self):
        self.program_here("report", "lockbroker list --no-headers\n")
        job = self.start("sh", "-c", recipe("create report 2"))
        job.wait(0)
        self.assertEqual(job.out, "report\t2\t1\t0\t\n")

    def test_one_host_at_a_time(self):
        self.program_here("upgrade-host", "lockbroker show upgrade\n")
        job = self.start("sh", "-c", recipe("upgrade ./upgrade-host"))
        job.wait(0)
        self.assertIn(f"\tupgrade of {socket.gethostname()}\t", job.out)

    def test_maintenance(self):
        """The semaphore is closed meanwhile, also if the maintenance fails afterwards."""
        command(self, self.daemon, "create", "report", "2")
        self.program_here("maintain", "lockbroker size report; exit 1\n")
        job = self.start("sh", "-c", recipe("./maintain"))
        job.wait(0)
        self.assertEqual(job.out, "0\n")
        self.assertEqual(command(self, self.daemon, "size", "report").out, "2\n")

    def test_each_step(self):
        for name in "a.in", "b.in":
            (self.dir / name).touch()
        self.program_here("convert", 'echo "$1"\n')
        job = self.start("sh", "-c", recipe("./convert"))
        job.wait(0)
        self.assertEqual((job.out, job.err.count("held")), ("a.in\nb.in\n", 2))

    def test_cron(self):
        line = recipe("0 3 * * *").strip()
        fifo = self.fifo("late")
        self.program("backup", "echo backup\n")
        self.program("sleep", f"echo sleeps; read -r x <{fifo}\n")
        words = line.split(" root ", 1)[1]
        first = self.start("sh", "-c", words)
        first.wait_out("sleeps")
        second = self.start("sh", "-c", words)
        second.wait(0)
        self.assertEqual((second.out, second.err), ("", ""))  # cron would mail it
        fifo.write_text("go\n")
        first.wait(0)
        self.assertEqual(first.out, "backup\nsleeps\n")

    def test_a_unit_that_runs_a_job(self):
        """ExecStart= as systemd splits it; that it starts when it has the lock is another test's."""
        command(self, self.daemon, "create", "nightly")
        report = self.program("report", "lockbroker verify\n")
        unit = recipe("ExecStart=lockbroker")
        self.assertIn(block("lockbrokerd.8", "Wants=lockbrokerd.socket"), unit)
        line = re.search(r"ExecStart=(lockbroker.*)", unit).group(1)
        job = self.start(*shlex.split(line.replace("/usr/local/bin/report", str(report))))
        job.wait(0)
        self.assertEqual(job.out, "held, slot 1\n")

    def test_a_unit_whose_main_process_holds_the_lock(self):
        command(self, self.daemon, "create", "nightly")
        fifo = self.fifo("work")
        report = self.program("report", f"echo pid $$; read -r x <{fifo}\n")
        line = re.search(r"(?s)ExecStart=(.*?)\nRestart", recipe("--for-pid $$$$")).group(1)
        line = line.replace("\\\n", " ").replace("$$", "$").replace("/usr/local/bin/report", str(report))
        job = self.start(*shlex.split(line))
        job.wait_out("pid")
        self.assertIn(f"pid {job.pid}\n", job.out)
        holder, = self.holders("nightly")
        self.assertEqual(holder["command"], "sh")
        fifo.write_text("go\n")
        job.wait(0)
        self.wait_free("nightly")

    def test_the_hold_unit(self):
        """It tries again until the lock is granted, and ends with its hold."""
        unit = (Path(os.environ["top_builddir"]) / "systemd/lockbroker-hold@.service").read_text()
        line = re.search(r"(?s)ExecStart=(.*?)\n[A-Z]", unit).group(1).replace("\\\n", " ").replace("$$", "$")
        line = re.sub(r"\S+/lockbroker", "lockbroker", line).replace("%n", "unit").replace("%I", "nightly")
        job = self.start(*shlex.split(line))
        wait_until(lambda: "to create it" in job.err, what="there is no such lock")
        command(self, self.daemon, "create", "nightly")
        wait_until(lambda: self.holders("nightly"), what="it holds the lock")
        holder, = self.holders("nightly")
        self.assertEqual(holder["who"], "unit")
        os.kill(holder["pid"], signal.SIGKILL)
        job.wait(128 + signal.SIGKILL)

    def test_ci(self):
        """The daemon is private, and the broker is its memory."""
        self.program_here("deploy", "lockbroker verify; lockbroker list --no-headers\n")
        (self.dir / "url").write_text("memory:\n")
        line = re.search(r"- (lockbroker.*)", recipe("deploy:\n  script:")).group(1)
        job = self.start("sh", "-c", line, env={"LOCKS_URL": "url"})
        job.wait(0)
        self.assertEqual(job.out, "held\ndeploy\tmutex\t1\t0\t\n")

    @unittest.skipIf(shutil.which("ansible-playbook") is None, "needs ansible-playbook")
    def test_ansible(self):
        fifo = self.fifo("work")
        self.program_here("deploy", f"read -r x <{fifo}\n")
        (self.dir / "play.yml").write_text(recipe("- hosts: all"))
        job = self.start("ansible-playbook", "-i", "localhost,", "-c", "local", "play.yml",
                         env={"ANSIBLE_LOCALHOST_WARNING": "0", "LC_ALL": "C.UTF-8"})
        wait_until(lambda: "TASK [Deploy]" in job.out or not job.running(), what="the second task runs")
        self.assertTrue(job.running(), job.out + job.err)
        self.assertEqual(len(self.holders("deploy")), 1)
        other = self.start("lockbroker", "run", "--mutex", "-n", "deploy", "true")
        other.wait(75)
        fifo.write_text("go\n")
        job.wait(0)
        self.wait_free("--mutex", "deploy")


class DaemonManual(Shell):
    """Examples of lockbrokerd(8)."""

    def test_without_rabbitmq(self):
        daemon, create = block("lockbrokerd.8", "--broker memory:").replace("/tmp", str(self.dir)).splitlines()
        (self.bin / "lockbrokerd").symlink_to(os.path.abspath(program("lockbrokerd")))
        job = self.start("sh", "-c", f"exec {daemon.rstrip(' &')}")
        wait_until((self.dir / "locks.sock").exists, what="the socket")
        self.start("sh", "-c", create).wait(0)
        job.signal(signal.SIGTERM)
        job.wait(0)

    def test_a_cluster(self):
        (self.dir / "password").write_text("geheim\n")
        (self.dir / "password").chmod(0o600)
        line = block("lockbrokerd.8", "--password-file").replace("/root", str(self.dir)).rstrip()
        job = self.start("sh", "-c", line.replace("lockbrokerd ", f"{os.path.abspath(program('lockbrokerd'))} ", 1) + " --check-config")
        job.wait(0)


class Guide(Shell):
    def create(self, *sizes):
        for size in sizes:
            command(self, self.daemon, "create", f"of-{size}", size)

    def sh(self, text, status=0):
        job = self.start("sh", "-c", text)
        job.wait(status)
        return job

    def test_the_first_look(self):
        said = self.sh(guide.commands("lockbroker info   ").partition("journalctl")[0]).out
        for member in "broker.state: up", "broker.why: ", "counts.holds: 0", "limits.line: ":
            self.assertIn(f"\n{member}", said)

    def test_two_hosts(self):
        self.program("sleep", f"read -r x <{self.fifo('late')}\n")
        first = self.start("sh", "-c", guide.commands("lockbroker run trial"))
        wait_until(lambda: first.running() and "trial" in self.sh("lockbroker show").out, what="it is held")
        second = self.sh(guide.commands("--nonblock trial"))
        self.assertIn("trial: held by ", second.err)
        self.assertIn("\tsleep\t", second.out)
        self.assertEqual(self.start("lockbroker", "run", "--nonblock", "trial", "true").wait(), 75)
        (self.dir / "late").write_text("go\n")
        first.wait(0)

    def test_drain(self):
        """The rule keeps new ones out, and the loop ends with the last hold."""
        self.create("1")
        (self.bin / "sleep").symlink_to("/bin/true")
        holder = self.start("lockbroker", "run", "of-1", "sh", "-c", f"echo on; read -r x <{self.fifo('work')}")
        holder.wait_out("on")
        rule = re.search(r"Add `(rule = .*?)`", guide.TEXT).group(1)
        self.daemon.write_config(f"[access]\n{rule}\n")
        self.daemon.reload()
        self.daemon.wait_log("reloaded")
        command(self, self.daemon, "run", "--mutex", "m", "true", status=77)
        drained = self.start("sh", "-c", guide.commands("counts.holds"))
        self.sh("lockbroker info")
        self.assertTrue(drained.running())
        (self.dir / "work").write_text("go\n")
        holder.wait(0)
        drained.wait(0)

    def test_each_semaphore_is_checked(self):
        self.create("1", "2")
        self.start("lockbroker", "run", "--mutex", "m", "sh", "-c", "echo on; sleep 60").wait_out("on")
        self.sh(guide.commands("xargs -n 1 lockbroker fsck").replace("rabbitmqctl cluster_status\n", ""))
        self.assertEqual(sorted(re.findall("requested fsck of ([^:]+):", self.daemon.log())), ["of-1", "of-2"])

    def test_semaphores_are_made_again(self):
        self.create("0", "3", "unlimited")
        before = self.sh("lockbroker list").out
        save, again = guide.commands("/var/backups").replace("/var/backups", str(self.dir)).splitlines()
        self.sh(save)
        for size in "0", "3", "unlimited":
            command(self, self.daemon, "destroy", f"of-{size}")
        self.assertNotIn("of-", self.sh("lockbroker list").out)
        self.sh(again)
        self.assertEqual(self.sh("lockbroker list").out, before)
        self.sh(again)  # they exist already

    def test_the_version_of_the_daemon(self):
        line, = [line for line in guide.commands("(version|takeovers)").splitlines() if "grep" in line]
        version = command(self, self.daemon, "--version").out.split()[1]
        self.assertEqual(self.sh(line).out, f"version: {version}\ntakeovers: 0\n")


class Quickstart(unittest.TestCase):
    def test_other_arguments(self):
        script = Path(os.environ.get("top_srcdir") or Path(__file__).parents[2]) / "quickstart"
        for argument in "-x", "--memroy", "":
            done = subprocess.run([script, "--memory", argument], stdin=subprocess.DEVNULL, capture_output=True,
                                  text=True, timeout=60)
            self.assertEqual((done.returncode, done.stdout, done.stderr),
                             (64, "", f"quickstart: '{argument}': no such option\nUsage: ./quickstart [--memory]\n"))


if __name__ == "__main__":
    tap.main()
