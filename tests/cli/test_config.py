"""The configuration from outside: exit statuses, output, reloading, and users that rules refuse."""

import os
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

import manual
import tap
from daemon import Daemon, clean_environment, program
from guide import EXAMPLES
from wait import wait_until
from wire import Wire

CONFIG_WRONG = 78


def run(*options, **env):
    """Status, standard output, standard error of a daemon that is not to stay."""
    done = subprocess.run([program("lockbrokerd"), *options], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60,
                          env=clean_environment(**env))
    return done.returncode, done.stdout, done.stderr


class Command(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="test_config.")
        self.addCleanup(folder.cleanup)
        self.dir = Path(folder.name)
        self.conf = self.dir / "conf"

    def test_a_mistake_in_the_file(self):
        self.conf.write_text("# mine\nheartbeat = 90\n")
        for option in "--check-config", "--print-config", None:
            status, out, err = run("--config", str(self.conf), *filter(None, [option]))
            self.assertEqual((status, out), (CONFIG_WRONG, ""))
            self.assertEqual(err, f"lockbrokerd: {self.conf}:2: heartbeat: '90': expected a number "
                                  "from 1 to 60\n")

    def test_all_mistakes(self):
        self.conf.write_text("heartbeat = 90\nmax-races\n" + "x = 1\n" * 20)
        for option in "--check-config", None:
            status, out, err = run("--config", str(self.conf), *filter(None, [option]))
            self.assertEqual((status, out), (CONFIG_WRONG, ""))
            lines = err.splitlines()
            self.assertIn(":1: heartbeat: '90'", lines[0])
            self.assertIn(":2: expected `key = value`", lines[1])
            self.assertIn(":20: x: unknown key", lines[19])
            self.assertEqual(lines[20:], ["lockbrokerd: further errors: 2"])

    def test_quotes_are_shown_as_they_are(self):
        self.conf.write_text("heartbeat = \"5\"\n")
        self.assertEqual(run("--config", str(self.conf))[2],
                         f"lockbrokerd: {self.conf}:1: heartbeat: '\"5\"': expected a number from 1 to 60\n")
        self.conf.write_text("\"heartbeat\" = 5\n")
        self.assertEqual(run("--config", str(self.conf))[2],
                         f"lockbrokerd: {self.conf}:1: \"heartbeat\": unknown key; did you mean heartbeat?\n")

    def test_a_mistake_in_the_options(self):
        for options, text in (
                (["--hartbeat", "5"], "--hartbeat: unknown option"),
                (["--heartbeat"], "--heartbeat: needs a value"),
                (["--broker", "amqp://u:geheim@h:0"], "--broker: URL 1: the port"),
                (["--config", "/no/such/file"], "/no/such/file: No such file")):
            status, out, err = run("--config", "/dev/null", *options)
            self.assertEqual((status, out), (CONFIG_WRONG, ""), err)
            self.assertIn("lockbrokerd: " + text, err)
            self.assertNotIn("geheim", err)

    def test_check(self):
        self.conf.write_text("broker = memory:\n")
        self.assertEqual(run("--check-config", "--config", str(self.conf)), (0, "", ""))

    def test_the_installed_examples(self):
        """With files and groups that exist here."""
        for name in "broker-password", "ca.pem", "client.pem", "client.key":
            (self.dir / name).write_text("geheim\n")
            (self.dir / name).chmod(0o600)
        examples = sorted(EXAMPLES.glob("lockbrokerd*.conf"))
        self.assertEqual(len(examples), 4)
        for example in [example.read_text() for example in examples] + manual.blocks("lockbrokerd.conf.5"):
            text = re.sub(r"(?:group|user):[\w-]+", "gid:0", example).replace("/etc/lockbroker", str(self.dir))
            for text in text, re.sub("(?m)^#(?=[a-z-]+ = )", "", text):
                self.conf.write_text(text)
                self.assertEqual(run("--check-config", "--config", str(self.conf),
                                     CREDENTIALS_DIRECTORY=str(self.dir)), (0, "", ""), example)

    def test_print(self):
        self.conf.write_text("broker = amqp://u:geheim@h/v\nmax-races = 3\n"
                             "[access]\nrule = deny uid:7 * *\n")
        status, out, err = run("--print-config", "--config", str(self.conf), "--heartbeat", "7")
        self.assertEqual((status, err), (0, ""))
        lines = out.split("\n")
        for line in ("broker = amqp://u:***@h:5672/v", "max-races = 3", "heartbeat = 7",
                     "rule = deny uid:7 * *"):
            self.assertIn(line, lines)

    def test_the_credential(self):
        (self.dir / "broker-password").write_text("geheim\n")
        options = ["--config", "/dev/null", "--broker", "amqp://u@h", "--check-config"]
        self.assertEqual(run(*options, CREDENTIALS_DIRECTORY=str(self.dir))[0], 0)
        self.assertEqual(run(*options)[0], CONFIG_WRONG)

    def test_help_and_version(self):
        status, out, err = run("--help")
        self.assertEqual((status, err), (0, ""))
        self.assertIn("--heartbeat SECONDS", out)
        self.assertEqual(run("-h"), (0, out, ""))
        status, out, err = run("--version")
        self.assertEqual((status, err), (0, ""))
        self.assertRegex(out, r"^lockbrokerd [0-9.]+\n$")


class Running(unittest.TestCase):
    def test_password_is_blanked(self):
        # An option that a later one overrules is no exception.
        daemon = Daemon(self, "--broker", "amqp://u:geheim@h/v", "--broker=memory:", broker=None,
                        expect=["--broker: other users can read a password"])
        arguments = Path(f"/proc/{daemon.pid}/cmdline").read_bytes().split(b"\0")
        self.assertIn(b"amqp://u:******@h/v", arguments)
        daemon.wait_log("--broker: other users can read a password")
        self.assertNotIn("geheim", daemon.log())

    def test_reload(self):
        daemon = Daemon(self, config="max-locks-per-connection = 1\n")
        peer = Wire(daemon, self)
        peer.call("acquire", name="one", kind="mutex", timeout=0)
        self.assertEqual(peer.error("acquire", name="two", kind="mutex", timeout=0).reason,
                         "too-many-locks")
        daemon.expect("reload: ")
        daemon.write_config("max-locks-per-connection = 2\nauxiliary-idle = 3\n")
        daemon.reload()
        daemon.wait_log("reload: auxiliary-idle ")
        daemon.wait_log("reloaded")
        peer.call("acquire", name="two", kind="mutex", timeout=0)
        # A mistake changes nothing.
        daemon.write_config("max-locks-per-connection = 9\nmax-races = none\n")
        daemon.reload()
        daemon.wait_log(r":2: max-races: 'none': expected a number from 1 to 1000; no change was made")
        self.assertEqual(peer.error("acquire", name="three", kind="mutex", timeout=0).reason,
                         "too-many-locks")

    def test_rules(self):
        rule = f"[access]\nrule = deny uid:{os.getuid()} acquire,create prod/*\n"
        daemon = Daemon(self, config=rule)
        peer = Wire(daemon, self)
        for method in "acquire", "create":
            self.assertEqual(peer.error(method, name="prod/a").reason, "permission-denied")
        peer.call("acquire", name="test/a", kind="mutex", timeout=0)
        peer.call("info")
        # A reload reads the rules again, and they apply to connected clients, too.
        daemon.write_config("[access]\nrule = deny any acquire *\n")
        daemon.reload()
        daemon.wait_log("reloaded")
        self.assertEqual(peer.error("acquire", name="test/b", kind="mutex", timeout=0).reason,
                         "permission-denied")
        peer.call("create", name="prod/a", kind="semaphore", slots=1)

    def test_the_daemon_logs_its_socket_and_its_configuration(self):
        daemon = Daemon(self)
        daemon.wait_log(f"info: listening at {daemon.socket}$")
        daemon.wait_log(f"info: lockbrokerd [0-9.]+ serves; configuration {daemon.config_path}$")

    def test_socket_mode(self):
        daemon = Daemon(self, "--socket-mode", "0600")
        wait_until(lambda: os.path.exists(daemon.socket))
        self.assertEqual(os.stat(daemon.socket).st_mode & 0o777, 0o600)


if __name__ == "__main__":
    tap.main()
