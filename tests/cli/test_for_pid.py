"""lockbroker acquire --for-pid and release: a lock that is held in the background for another process."""

import os
import pty
import shutil
import signal
import subprocess
import sys
import unittest

import tap
from cli import Job, command, gone
from daemon import Daemon, clean_environment, program
from wait import PATIENCE, wait_until
from wire import Wire


class ForPid(unittest.TestCase):
    def setUp(self):
        self.daemon = Daemon(self)
        self.lockbroker("create", "db")

    def lockbroker(self, *argv, status=0, **more):
        return command(self, self.daemon, *argv, status=status, **more)

    def script(self, text, **more):
        """A script that finds the command by its name."""
        path = os.path.dirname(os.path.abspath(program("lockbroker"))) + ":" + os.environ["PATH"]
        return Job(self, self.daemon, "-c", text, binary="/bin/sh", env={"PATH": path}, **more)

    def process(self, *argv, **more):
        process = subprocess.Popen(argv or ("sleep", "60"), stdin=subprocess.DEVNULL, **more)

        def end():
            process.kill()
            process.wait()
        self.addCleanup(end)
        return process

    def acquire(self, process, *argv, name="db", status=0):
        return self.lockbroker("acquire", "--for-pid", str(process.pid), *argv, name, status=status)

    def holders(self, name="db"):
        return self.lockbroker("show", "--json", name).json()["holders"]

    def free(self, name="db"):
        return self.holders(name) == []

    def wait_free(self, name="db"):
        wait_until(lambda: self.free(name), what="it is free")

    def wait_gone(self, pid):
        wait_until(lambda: gone(pid), what="the holder has ended")


class Held(ForPid):
    def test_until_the_process_ends(self):
        process = self.process()
        job = self.acquire(process)
        grant = job.json()
        self.assertEqual((grant["name"], grant["slot"]), ("db", 1))
        self.assertEqual(self.lockbroker("verify", grant["lock"]).out, "held, slot 1\n")
        holder, = self.holders()
        self.assertEqual(holder["command"], "sleep")
        self.assertNotEqual(holder["pid"], job.pid)
        process.kill()
        process.wait()
        self.wait_free()
        self.wait_gone(holder["pid"])

    def test_the_grant_is_not_for_a_terminal(self):
        terminal, end = pty.openpty()
        self.addCleanup(os.close, terminal)
        subprocess.run([program("lockbroker"), "acquire", "--for-pid", str(self.process().pid), "db"], stdin=subprocess.DEVNULL,
                       stdout=end, env=clean_environment(LOCKBROKER_SOCKET=self.daemon.socket), check=True, timeout=PATIENCE)
        os.write(end, b"the end")
        os.close(end)
        self.assertEqual(os.read(terminal, 4096), b"the end")
        self.assertEqual(self.acquire(self.process(), "--quiet", "--mutex", name="m").out, "")
        self.assertIn("excludes", self.acquire(self.process(), "--quiet", "--shell", status=64).err)

    def test_of_a_zombie_it_ends_too(self):
        process = self.process()
        self.acquire(process)
        process.kill()
        self.wait_free()

    def test_assignments_for_a_shell(self):
        job = self.script('eval "$(lockbroker acquire --for-pid $$ --shell db)"; '
                          'echo "$LOCKBROKER_NAME $LOCKBROKER_SLOT"; lockbroker verify')
        job.wait(0)
        self.assertEqual(job.out, "db 1\nheld, slot 1\n")
        self.wait_free()

    def test_neither_pipe_of_a_script_stays_open(self):
        job = self.script('out=$(lockbroker acquire --for-pid $$ db 2>&1) && lockbroker verify "$(expr "$out" : '
                          '\'.*"lock":"\\([^"]*\\)\')" && lockbroker acquire --for-pid $$ -n db 2>&1 >/dev/null | cat')
        job.wait(0)
        self.assertIn("held, slot 1\n", job.out)
        self.assertIn("every slot is busy", job.out)

    def test_several_for_one_process(self):
        self.lockbroker("create", "two", "2")
        process = self.process()
        for name in "db", "two", "two":
            self.acquire(process, "-n", name=name)
        self.acquire(process, "--mutex", "-n", name="m")
        self.assertEqual(len(self.holders("two")), 2)
        process.kill()
        for name in "db", "two":
            self.wait_free(name)

    def test_signals_to_all_do_not_end_it(self):
        """A service manager sends TERM to the whole control group, while the process still ends."""
        process = self.process()
        self.acquire(process)
        holder, = self.holders()
        for signo in signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT:
            os.kill(holder["pid"], signo)
        self.lockbroker("acquire", "-w", "0.1", "--for-pid", str(process.pid), "db", status=75)
        self.assertEqual(self.holders()[0]["pid"], holder["pid"])
        self.lockbroker("release", "--for-pid", str(process.pid))
        self.assertTrue(gone(holder["pid"]))

    def test_the_service_manager_is_not_told(self):
        process = self.process()
        self.lockbroker("acquire", "--for-pid", str(process.pid), "db",
                        env={"NOTIFY_SOCKET": "/nonexistent/notify"})
        self.assertFalse(self.free())


class Refused(ForPid):
    def test_a_process_that_is_none(self):
        process = self.process("true")
        process.wait()
        job = self.acquire(process, status=64)
        self.assertEqual(job.err, f"lockbroker: acquire: there is no process {process.pid}\n")
        for pid in "0", "-1", "x", "":
            self.assertIn("expected the number of a process",
                          self.lockbroker("acquire", "--for-pid", pid, "db", status=64).err)

    def refuses(self, pid, **more):
        job = self.lockbroker("acquire", "--for-pid", str(pid), "db", status=77, **more)
        self.assertEqual(job.err, f"lockbroker: acquire: process {pid} belongs to another user\n")
        self.assertTrue(self.free())

    @unittest.skipIf(os.geteuid() != 0, "needs root to start a process of another user")
    def test_a_process_of_another_user(self):
        self.refuses(self.process(user=65534).pid)

    def test_a_process_of_root(self):
        more = {}
        if os.geteuid() == 0:
            # A copy that other users can execute, wherever the build folder is.
            copy = shutil.copy(program("lockbroker"), self.daemon.dir)
            os.chmod(self.daemon.dir, 0o711)
            more = {"user": 65534, "group": 65534, "extra_groups": [], "binary": copy, "cwd": "/"}
        self.refuses(1, **more)

    @unittest.skipIf(os.geteuid() != 0, "needs root to change the ids of a process")
    def test_a_process_that_has_one_id_of_another_user(self):
        """Real, effective or saved: such a process has changed users, or can still change back."""
        for ids in (65534, 0, 65534), (0, 65534, 0), (0, 0, 65534):
            with self.subTest(ids=ids):
                # It is no sleep(1): the saved id does not survive execve(2).
                process = self.process(sys.executable, "-c", f"import os, signal; os.setresuid{ids}; print(flush=True); "
                                       "signal.pause()", stdout=subprocess.PIPE)
                self.addCleanup(process.stdout.close)
                self.assertEqual(process.stdout.readline(), b"\n")
                self.refuses(process.pid)

    def test_usual_statuses(self):
        process = self.process()
        self.acquire(process)
        for patience in ("-n",), ("-w", "0.1"):
            self.acquire(process, *patience, status=75)
        self.acquire(process, name="missing", status=66)
        self.lockbroker("acquire", "--for-pid", str(process.pid), "--socket", "/nonexistent/s", "db", status=69)
        self.lockbroker("acquire", "--on-lost", "TERM", "db", status=64)
        self.assertIn("expected a signal name", self.acquire(process, "--on-lost", "NO", status=64).err)

    def test_a_grant_that_cannot_be_told_is_given_back(self):
        job = self.script("lockbroker acquire --for-pid $$ db >/dev/full; s=$?; lockbroker size db; exit $s")
        job.wait(74)
        self.wait_free()


class Waits(ForPid):
    def wait_for(self, *argv):
        peer = Wire(self.daemon)
        lock = peer.call("acquire", name="db", timeout=0)["lock"]
        process = self.process()
        job = Job(self, self.daemon, "acquire", "--for-pid", str(process.pid), *argv, "db")
        self.daemon.wait_log("requested db", count=2)
        return peer, lock, process, job

    def nobody_waits(self):
        wait_until(lambda: self.lockbroker("show", "--json", "db").json()["waiters"] == [], what="nobody waits")

    def test_until_it_is_free(self):
        peer, lock, _, job = self.wait_for()
        peer.call("release", lock=lock)
        job.wait(0)
        self.assertEqual(job.json()["name"], "db")

    def test_the_process_ends_meanwhile(self):
        _, _, process, job = self.wait_for()
        process.kill()
        job.wait(75)
        self.assertIn("db: the process has ended before", job.err)
        self.nobody_waits()

    def test_a_signal_ends_it(self):
        _, _, _, job = self.wait_for()
        job.signal(signal.SIGTERM)
        job.wait(-signal.SIGTERM)
        self.nobody_waits()


class Lost(ForPid):
    def lose(self, *options, script="trap 'echo got TERM; exit 5' TERM; trap 'echo got USR1; exit 6' USR1; "
             "lockbroker acquire --for-pid $$ {} db && while :; do sleep 0.05; done", status):
        job = self.script(script.format(" ".join(options)))
        job.wait_out("lock")
        self.daemon.kill()
        job.wait(status)
        return job

    def test_the_process_gets_term(self):
        job = self.lose(status=5)
        self.assertIn("got TERM", job.out)
        self.assertEqual(job.err, "lockbroker: db: lost: the daemon closed the connection\n")

    def test_the_process_gets_the_signal_of_choice(self):
        self.assertIn("got USR1", self.lose("--on-lost=USR1", status=6).out)

    def test_a_stopped_process_is_continued(self):
        process = self.process()
        self.acquire(process)
        process.send_signal(signal.SIGSTOP)
        self.daemon.kill()
        self.assertEqual(process.wait(10), -signal.SIGTERM)

    def test_ignored(self):
        process = self.process()
        self.acquire(process, "--on-lost=ignore")
        holder, = self.holders()
        self.daemon.kill()
        self.wait_gone(holder["pid"])
        self.assertIsNone(process.poll())


class Stopping(ForPid):
    def test_the_lock_is_held_until_the_process_has_ended(self):
        job = self.script("trap 'echo got TERM; read go <&3; exit 5' TERM; exec 3<&0; "
                          "lockbroker acquire --for-pid $$ db && while :; do sleep 0.05; done", stdin=subprocess.PIPE)
        job.wait_out("lock")
        self.daemon.signal(signal.SIGTERM)
        job.wait_out("got TERM")
        self.assertNotIn("released db", self.daemon.log())
        job.process.stdin.close()
        job.wait(5)
        self.daemon.wait_exit(0)
        self.assertIn("released db", self.daemon.log())
        self.assertNotIn("lost db", self.daemon.log())


class Release(ForPid):
    def test_by_name(self):
        self.lockbroker("create", "other")
        process, second = self.process(), self.process()
        self.acquire(process)
        self.acquire(process, name="other")
        self.lockbroker("release", "--for-pid", str(second.pid), "db", status=65)
        self.lockbroker("release", "--for-pid", str(process.pid), "db")
        self.assertTrue(self.free())
        self.assertFalse(self.free("other"))
        self.assertIsNone(process.poll())
        job = self.lockbroker("release", "--for-pid", str(process.pid), "db", status=65)
        self.assertEqual(job.err, f"lockbroker: db: not held for process {process.pid}\n")

    def test_all(self):
        self.lockbroker("create", "other", "2")
        process = self.process()
        for name in "db", "other", "other":
            self.acquire(process, "-n", name=name)
        self.lockbroker("release", "--for-pid", str(process.pid))
        self.assertTrue(self.free() and self.free("other"))
        self.assertIn("no lock is held", self.lockbroker("release", "--for-pid", str(process.pid), status=65).err)

    def test_needs_a_process(self):
        self.assertIn("release: missing --for-pid", self.lockbroker("release", "db", status=64).err)


if __name__ == "__main__":
    tap.main()
