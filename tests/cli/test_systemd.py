"""The units as installed: systemd finds no fault with them, and not much that a broken daemon could do."""

import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

import tap

SOURCE = Path(os.environ["top_srcdir"]) / "systemd"
BUILT = Path(os.environ["top_builddir"]) / "systemd"
SUBSTITUTED = ["lockbrokerd.service", "lockbroker-hold@.service", "lockbroker-web.service"]
SOCKETS = ["lockbrokerd.socket", "lockbroker-web.socket"]
VERIFIED = ["lockbrokerd.service", "lockbroker-hold@db-main.service", "lockbroker-web.service", *SOCKETS]
EXPOSURE_MAX = 1.2


def run(*command):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True,
                          env={**os.environ, "LC_ALL": "C.UTF-8"})
    return done.returncode, done.stdout


class Systemd(unittest.TestCase):
    def setUp(self):
        self.root = Path(tempfile.mkdtemp(prefix="test_systemd."))
        self.addCleanup(shutil.rmtree, self.root)
        self.units = self.root / "usr/lib/systemd/system"
        self.units.mkdir(parents=True)
        for name in SUBSTITUTED:
            shutil.copy(BUILT / name, self.units)
        for name in SOCKETS:
            shutil.copy(SOURCE / name, self.units)
        # The one unit of the system that every unit requires.
        (self.units / "sysinit.target").write_text("[Unit]\nDescription=stub\n")
        for unit in self.units.iterdir():
            for program in re.findall(r"^Exec\w+=(\S+)", unit.read_text(), re.M):
                self.program(program)

    def program(self, path):
        file = self.root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("#!/bin/sh\n")
        file.chmod(0o755)

    def verify(self):
        return run("systemd-analyze", "verify", f"--root={self.root}", "--man=no", *VERIFIED)

    def test_nothing_is_left_to_substitute(self):
        for name in SUBSTITUTED:
            self.assertEqual(re.findall(r"@\w+@", (BUILT / name).read_text()), [], name)

    def test_verify_is_clean(self):
        self.assertEqual(self.verify(), (0, ""))

    def test_verify_would_see_a_mistake(self):
        unit = self.units / "lockbrokerd.service"
        unit.write_text(unit.read_text().replace("LockPersonality=yes", "LockPersonalty=yes"))
        self.assertIn("LockPersonalty", self.verify()[1])

    def test_exposure(self):
        for unit in "lockbrokerd.service", "lockbroker-hold@db-main.service", "lockbroker-web.service":
            code, text = run("systemd-analyze", "security", "--offline=yes", "--no-pager",
                             f"--root={self.root}", unit)
            self.assertEqual(code, 0, text)
            exposure = re.search(r"Overall exposure level for \S+: ([0-9.]+)", text)
            self.assertIsNotNone(exposure, text)
            print(unit, exposure[1])
            self.assertLessEqual(float(exposure[1]), EXPOSURE_MAX, text)

    def test_a_daemon_that_fails_is_always_started_again(self):
        """By Restart= it does not reach the limit of starts."""
        unit = (self.units / "lockbrokerd.service").read_text()
        interval, burst, pause = (int(re.search(rf"(?m)^{key}=(\d+)$", unit).group(1))
                                  for key in ("StartLimitIntervalSec", "StartLimitBurst", "RestartSec"))
        self.assertGreater(burst * pause, interval)

    def test_memory_is_bounded(self):
        unit = (self.units / "lockbrokerd.service").read_text()
        self.assertRegex(unit, r"(?m)^MemoryMax=1G$")
        self.assertNotRegex(unit, r"(?m)^MemoryHigh=")

    def test_clients_keep_their_uids(self):
        unit = (self.units / "lockbrokerd.service").read_text()
        self.assertNotRegex(unit, r"(?m)^(PrivateUsers|DynamicUser)=")

    def test_users_and_groups(self):
        (self.root / "etc").mkdir()
        code, text = run("systemd-sysusers", f"--root={self.root}",
                         str(SOURCE / "sysusers.d/lockbroker.conf"), str(SOURCE / "sysusers.d/lockbroker-web.conf"))
        self.assertEqual(code, 0, text)
        users = (self.root / "etc/passwd").read_text()
        groups = (self.root / "etc/group").read_text()
        self.assertRegex(users, r"(?m)^lockbroker:.*:/usr/sbin/nologin$")
        self.assertRegex(groups, r"(?m)^lockbroker:")
        self.assertRegex(groups, r"(?m)^lockbroker-web:")
        self.assertRegex(groups, r"(?m)^lockbroker-admin:")

    def test_folders(self):
        # To set the owners needs root and the users of the host. Here this user owns all.
        own = f" {os.getuid()} {os.getgid()} "
        text = (SOURCE / "tmpfiles.d/lockbroker.conf").read_text()
        text, count = re.subn(r" (root root|lockbroker lockbroker) ", own, text)
        self.assertEqual(count, 3)
        text, count = re.subn("group:lockbroker-admin:", f"group:{os.getgid() or 1}:", text)
        self.assertEqual(count, 1)
        config = self.root / "lockbroker.conf"
        config.write_text(text)
        password = self.root / "etc/lockbroker/broker-password"
        password.parent.mkdir(parents=True)
        password.write_text("secret\n")
        password.chmod(0o644)
        code, text = run("systemd-tmpfiles", f"--root={self.root}", "--create", str(config))
        self.assertEqual(code, 0, text)
        self.assertEqual((self.root / "run/lockbroker").stat().st_mode & 0o7777, 0o755)
        self.assertEqual(password.stat().st_mode & 0o7777, 0o600)
        # A socket that is made there is open to the group of administrators.
        self.assertIn("system.posix_acl_default", os.listxattr(self.root / "run/lockbroker"))

    def test_needrestart(self):
        snippet = SOURCE / "needrestart/lockbroker.conf"
        script = """our %nrconf; do $ARGV[0] or defined $@ && !$@ or die $@;
            for my $unit (@ARGV[1..$#ARGV]) {
                my @hits = grep { $unit =~ /$_/ } keys %{$nrconf{override_rc}};
                print $unit, " ", join(",", map { $nrconf{override_rc}{$_} } @hits), "\n";
            }
            print "ignored: ", join(" ", grep { my $path = $_; grep { $path =~ /$_/ } @{$nrconf{blacklist}} }
                "/usr/bin/lockbroker", "/usr/local/bin/lockbroker", "/usr/sbin/lockbrokerd"), "\n";"""
        code, text = run("perl", "-e", script, str(snippet), "lockbrokerd.service",
                         "lockbroker-hold@x.service", "rabbitmq-server.service")
        self.assertEqual((code, text), (0, "lockbrokerd.service \nlockbroker-hold@x.service 0\n"
                                           "rabbitmq-server.service \n"
                                           "ignored: /usr/bin/lockbroker /usr/local/bin/lockbroker\n"))


if __name__ == "__main__":
    tap.main()
