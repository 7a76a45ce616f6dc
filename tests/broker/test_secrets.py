"""The password for the broker: how often it is in the daemon's memory once the daemon has logged in."""

import array
import contextlib
import itertools
import os
import re
import resource
import unittest

import tap
from daemon import Daemon
from rabbit import Rabbit
from wait import wait_until

PASSWORD = "correct-horse-battery-staple"
# Larger ones are not the daemon's data but AddressSanitizer's shadow.
MAPPING_MAX = 1 << 30
RABBIT = Rabbit.lease(tls=True)


def setUpModule():
    RABBIT.serve_module()
    RABBIT.perform("add_user", "holder", PASSWORD)
    RABBIT.perform("set_permissions", "-p", "/", "holder", ".*", ".*", ".*")


def pages_there(pagemap, first, size):
    """The address and the size of each run of pages that the daemon has used (proc_pid_pagemap(5))."""
    page = resource.getpagesize()
    pagemap.seek(first // page * 8)
    entries = array.array("Q", pagemap.read(size // page * 8))
    for there, run in itertools.groupby(range(len(entries)), lambda i: entries[i] >> 62 != 0):
        if there:
            run = list(run)
            yield first + run[0] * page, len(run) * page


def copies(daemon, stack):
    """How often the password is in what the daemon may write to; with the stack, or without it."""
    count = 0
    with open(f"/proc/{daemon.pid}/maps", encoding="ascii", errors="replace") as maps, \
            open(f"/proc/{daemon.pid}/pagemap", "rb", buffering=0) as pagemap, \
            open(f"/proc/{daemon.pid}/mem", "rb", buffering=0) as memory:
        for first, last, what in re.findall(r"(?m)^([0-9a-f]+)-([0-9a-f]+) rw(.*)$", maps.read()):
            first, size = int(first, 16), int(last, 16) - int(first, 16)
            if size >= MAPPING_MAX or (what.endswith("[stack]") and not stack):
                continue
            # The stack of a thread of the resolver may be gone by now.
            with contextlib.suppress(OSError):
                for address, length in pages_there(pagemap, first, size):
                    memory.seek(address)
                    count += memory.read(length).count(PASSWORD.encode())
    return count


class Secrets(unittest.TestCase):
    stack = True

    def has_few(self, daemon, most, when):
        # One more while a login is under way. At least one: else the test searches the wrong place.
        found = []
        try:
            wait_until(lambda: found.append(copies(daemon, self.stack)) or 1 <= found[-1] <= most)
        except AssertionError:
            self.fail(f"{when} there are {found[-1]} copies, not {most}")

    def check(self, daemon, most):
        daemon.wait_broker()
        self.has_few(daemon, most, "after the login")
        daemon.reload()
        daemon.wait_log("reloaded")
        self.has_few(daemon, most, "after a reload")
        daemon.expect("lock connection down")
        RABBIT.perform("close_all_connections", "try again")
        daemon.wait_log("lock connection up", count=2)
        self.has_few(daemon, most, "after a reconnect")

    def url(self, login):
        return f"amqp://{login}@127.0.0.1:{RABBIT.port}"

    def test_of_the_file_of_the_configuration(self):
        self.check(Daemon(self, broker=self.url(f"holder:{PASSWORD}")), 1)

    def test_over_tls(self):
        self.stack = False  # OpenSSL leaves what it has encrypted there, until something else is called
        self.check(Daemon(self, "--tls-ca", RABBIT.certificates.path("ca.pem"),
                          broker=f"amqps://holder:{PASSWORD}@localhost:{RABBIT.tls_port}"), 1)

    def test_of_a_password_file(self):
        daemon = Daemon(self, start=False, broker=self.url("holder"))
        with open(daemon.dir + "/password", "w", encoding="ascii") as file:
            file.write(PASSWORD + "\n")
        os.chmod(daemon.dir + "/password", 0o600)
        daemon.command += ["--password-file", daemon.dir + "/password"]
        daemon.start()
        self.check(daemon, 1)

    def test_a_password_that_is_changed_while_the_daemon_runs(self):
        RABBIT.perform("add_user", "rotated", "old")
        RABBIT.perform("set_permissions", "-p", "/", "rotated", ".*", ".*", ".*")
        daemon = Daemon(self, start=False, broker=self.url("rotated"))
        path = daemon.dir + "/password"
        with open(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600), "w", encoding="ascii") as file:
            file.write("old\n")
        daemon.command += ["--password-file", path]
        daemon.start()
        daemon.wait_broker()
        # It logs in with the old password, too.
        daemon.wait_log("auxiliary connection up")
        RABBIT.perform("change_password", "rotated", PASSWORD)
        with open(path, "w", encoding="ascii") as file:
            file.write(PASSWORD + "\n")
        daemon.reload()
        daemon.wait_log("the next connection to the broker uses the new password")
        daemon.expect("lock connection down")
        RABBIT.perform("close_all_connections", "try again")
        daemon.wait_log("lock connection up", count=2)
        self.has_few(daemon, 1, "after a login with the new password")

    def test_of_the_command_line(self):
        # The arguments are kept, too: a reload reads them again.
        self.check(Daemon(self, "--broker", self.url(f"holder:{PASSWORD}"), broker=None,
                          expect=["other users can read a password"]), 2)


if __name__ == "__main__":
    tap.main()
