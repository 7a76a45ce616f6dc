"""lockbroker run --broker-file and --broker-env: a daemon for one command."""

import os
import shutil
import signal
import tempfile
import unittest

import tap
from cli import Job, children, command, gone, name_of, proc
from daemon import program
from wait import wait_until

# The command tells its daemon's pid and socket. Nothing listens at port 1.
TELL = '"$0" info | grep "^pid: "; echo "socket: $LOCKBROKER_SOCKET"; '
AWAY = "amqp://user:secret@127.0.0.1:1/"


class PrivateDaemon(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="lb-private-")
        self.addCleanup(shutil.rmtree, self.dir)
        self.url = os.path.join(self.dir, "url")
        self.write("memory:\n")

    def write(self, text):
        with open(self.url, "w", encoding="ascii") as file:
            file.write(text)

    def start(self, *argv, env=None, **more):
        return Job(self, None, "run", *argv, env={"XDG_RUNTIME_DIR": self.dir, **(env or {})}, **more)

    def run_script(self, script, *options, **more):
        return self.start(*(options or ("--broker-file", self.url)), "--mutex", "m", "--", "sh", "-c", TELL + script,
                          program("lockbroker"), **more)

    def told(self, job):
        job.wait_out("socket: ")
        words = job.out.split()
        return int(words[1]), words[3]

    def ended(self, job):
        pid, path = self.told(job)
        wait_until(lambda: gone(pid), what="the daemon has ended")
        return path

    def test_for_the_life_of_the_command(self):
        job = self.run_script('"$0" verify; exit 5')
        job.wait(5)
        self.assertIn("held\n", job.out)
        path = self.ended(job)
        self.assertTrue(path.startswith(self.dir + "/lockbroker-"), path)
        self.assertEqual(os.listdir(self.dir), ["url"])

    def test_from_the_environment_and_from_a_descriptor(self):
        self.run_script("", "--broker-env", "LOCKS", env={"LOCKS": "memory:"}).wait(0)
        with open(self.url, "rb") as file:
            self.run_script("", "--broker-file", f"/dev/fd/{file.fileno()}", fds=(file.fileno(),)).wait(0)

    def test_a_signal_reaches_the_command(self):
        job = self.run_script("trap 'exit 9' TERM; while :; do sleep 0.05; done")
        self.told(job)
        job.signal(signal.SIGTERM)
        job.wait(9)
        self.ended(job)

    def test_nothing_is_left_when_it_is_killed(self):
        job = self.run_script('echo "child: $$"; exec sleep 60')
        job.wait_out("child: ")
        child = int(job.out.split()[-1])
        job.signal(signal.SIGKILL)
        job.wait(-signal.SIGKILL)
        self.ended(job)
        wait_until(lambda: gone(child), what="the command has ended")

    def test_the_url_is_on_no_command_line(self):
        self.write(AWAY)
        job = self.start("--broker-file", self.url, "m", "true")

        def children():
            return [int(pid) for pid in os.listdir("/proc") if pid.isdigit() and proc(pid, 4) == str(job.pid)]
        wait_until(lambda: len(children()) == 1, what="the daemon")

        def words():
            try:
                return [open(f"/proc/{pid}/cmdline", encoding="utf-8").read() for pid in children()]
            except FileNotFoundError:  # it ended meanwhile
                return words()
        wait_until(lambda: any(text.startswith("lockbrokerd") for text in words()), what="the daemon runs")
        self.assertNotIn("secret", "".join(words()))
        job.signal(signal.SIGTERM)
        job.wait(143)
        self.assertNotIn("secret", job.err)
        self.assertEqual(os.listdir(self.dir), ["url"])

    def test_mistakes(self):
        for argv, text, words in (
                (("--broker-file", self.dir + "/none"), "memory:", "none: No such file"),
                (("--broker-file", self.dir), "memory:", "Is a directory"),
                (("--broker-file", self.url), "", "expected the URL of a broker"),
                (("--broker-file", self.url), "memory:\nsocket = /x\n", "expected the URL of a broker"),
                (("--broker-file", self.url), "a" * 5000, "expected the URL of a broker"),
                (("--broker-env", "NO_SUCH_VARIABLE"), "", "NO_SUCH_VARIABLE: this environment variable is not set"),
                (("--broker-env", "X", "--socket", "/x"), "", "exclude each other")):
            with self.subTest(argv=argv, text=text[:20]):
                self.write(text)
                job = self.start(*argv, "m", "true")
                job.wait(64)
                self.assertIn(words, job.err)
                self.assertEqual(os.listdir(self.dir), ["url"])

    def test_a_url_that_the_daemon_refuses(self):
        self.write("http://user:secret@host/\n")
        for words in ("run", "m", "true"), ("list",), ("create", "m"):
            with self.subTest(words):
                job = Job(self, None, words[0], "--broker-file", self.url, *words[1:], env={"XDG_RUNTIME_DIR": self.dir})
                job.wait(78)
                self.assertIn(f"lockbroker: {self.url}: URL 1: no broker URL", job.err)
                for other in "secret", "/proc/self", "journalctl", "lockbroker info":
                    self.assertNotIn(other, job.err)
                self.assertEqual(os.listdir(self.dir), ["url"])

    def test_without_lockbrokerd(self):
        alone = os.path.join(self.dir, "bin", "lockbroker")
        os.mkdir(os.path.dirname(alone))
        shutil.copy(program("lockbroker"), alone)
        job = self.start("--broker-file", self.url, "m", "true", binary=alone, env={"PATH": self.dir})
        job.wait(127)
        self.assertIn("lockbrokerd: No such file or directory", job.err)
        self.assertCountEqual(os.listdir(self.dir), ["bin", "url"])

    def test_hints_are_about_the_url(self):
        """This user has no installed daemon that could be looked at."""
        self.write(AWAY)
        job = Job(self, None, "run", "--wait=0.1", "--broker-file", self.url, "m", "true")
        job.wait(69)
        self.assertIn("127.0.0.1:1: Connection refused", job.err)
        self.assertNotIn("lockbroker info", job.err)

    def test_nobody_inherits_the_variable(self):
        job = self.start("--broker-env", "LOCKS", "--mutex", "m", "--", "sh", "-c", TELL + 'echo "${LOCKS-none}"; sleep 60',
                         program("lockbroker"), env={"LOCKS": "memory:"})
        pid, _ = self.told(job)
        job.wait_out("\nnone\n")
        with open(f"/proc/{pid}/environ", "rb") as file:
            self.assertNotIn(b"LOCKS=", file.read())
        job.signal(signal.SIGTERM)
        job.wait(143)

    def test_a_password_that_others_can_read(self):
        self.write(AWAY)
        for mode, warned in (0o604, True), (0o640, False), (0o600, False):
            with self.subTest(oct(mode)):
                os.chmod(self.url, mode)
                job = Job(self, None, "run", "--wait=0.1", "--broker-file", self.url, "m", "true")
                job.wait(69)
                self.assertEqual(f"chmod 600 {self.url}" in job.err, warned, job.err)

    def test_the_longest_folder(self):
        """The address of a socket has 108 bytes with its NUL: /lockbroker-XXXXXX/s are 20 of them."""
        for length, used in (87, True), (88, False):
            folder = os.path.join(self.dir, "f" * (length - len(self.dir) - 1))
            os.mkdir(folder)
            with self.subTest(length):
                job = self.run_script("", env={"XDG_RUNTIME_DIR": folder})
                job.wait(0)
                path = self.told(job)[1]
                self.assertEqual(path.startswith(folder + "/"), used, path)
                self.assertFalse(os.path.exists(os.path.dirname(path)))
                self.assertEqual(os.listdir(folder), [])

    def test_questions(self):
        job = Job(self, None, "create", "--broker-file", self.url, "m", "3", env={"XDG_RUNTIME_DIR": self.dir})
        job.wait(0)
        job = Job(self, None, "call", "--broker-env", "LOCKS", "create", '{"name":"m","slots":3}', env={"LOCKS": "memory:"})
        job.wait(0)
        self.assertEqual(job.json()["slots"], 3)
        self.assertEqual(os.listdir(self.dir), ["url"])

    def test_a_question_leaves_nothing_when_it_is_ended(self):
        self.write(AWAY)
        job = Job(self, None, "list", "--broker-file", self.url, env={"XDG_RUNTIME_DIR": self.dir})
        # The daemon waits 3 s for its broker.
        wait_until(lambda: "Connection refused" in job.err, what="the daemon runs")
        daemons = [pid for pid in children(job.pid) if name_of(pid) == "lockbrokerd"]
        self.assertEqual(len(daemons), 1)
        job.signal(signal.SIGTERM)
        job.wait(143)
        self.assertEqual(os.listdir(self.dir), ["url"])
        wait_until(lambda: gone(daemons[0]), what="the daemon has ended")

    def test_help_has_both(self):
        self.assertIn("--broker-env", command(self, None, "run", "--help").out)


if __name__ == "__main__":
    tap.main()
