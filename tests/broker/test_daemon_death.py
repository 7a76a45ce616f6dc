"""How long two can work in one slot when a daemon is killed, over a real RabbitMQ.

The kernel closes the daemon's AMQP connection, and RabbitMQ frees the slot. A client of another daemon gets the
slot before the safe_until that the daemon sent. `run` learns of it by the end of its own connection, and
ends its command. The overlap is the time from the grant to the newcomer until the last sign of life of the
command: docs/PROOF.md states it.
"""

import os
import statistics
import struct
import subprocess
import sys
import time
import unittest

import tap
from daemon import Daemon, clean_environment, program
from rabbit import Rabbit
from timing import at_most
from wait import wait_until
from wire import Wire, WireError

ROUNDS = 5
KILL_AFTER = 1.0
RABBIT = Rabbit.lease(shared=True)
# Writes when it was last alive. It ends when the test removes its file, if it lives so long.
CHILD = """
import os, signal, struct, sys, time
if sys.argv[2] == "deaf":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
beat = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT, 0o600)
while os.path.exists(sys.argv[1]):
    os.pwrite(beat, struct.pack("d", time.monotonic()), 0)
    time.sleep(0.001)
"""

setUpModule = RABBIT.serve_module


class KilledDaemon(unittest.TestCase):
    def setUp(self):
        self.there = Daemon(self, broker=RABBIT.url)
        self.here = Daemon(self, "--heartbeat", "60", broker=RABBIT.url, start=False)
        self.there.wait_broker()
        self.name = self.id().rpartition(".")[2]
        self.newcomer = Wire(self.there)
        self.newcomer.call("create", name=self.name)

    def last_beat(self):
        try:
            with open(self.beats, "rb") as file:
                return struct.unpack("d", file.read(8))[0]
        except (FileNotFoundError, struct.error):
            return 0.0

    def taken_at(self):
        """When a client that asks again and again has got the slot."""
        while True:
            try:
                lock = self.newcomer.call("acquire", name=self.name, timeout=0)["lock"]
                return lock, time.monotonic()
            except WireError as error:
                self.assertEqual(error.reason, "would-block")

    def round(self, number, options, child):
        """Seconds from the grant to the newcomer until the last sign of life; below 0: there was none after it."""
        self.here.start()
        self.here.wait_broker()
        self.beats = os.path.join(self.here.dir, f"beats-{number}")
        run = subprocess.Popen(
            [program("lockbroker"), "run", *options, self.name, "--", sys.executable, "-c", CHILD, self.beats,
             child], env=clean_environment(LOCKBROKER_SOCKET=self.here.socket), stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        self.addCleanup(run.wait)
        self.addCleanup(run.kill)
        wait_until(self.last_beat, what="the command works")
        self.here.kill()
        lock, taken = self.taken_at()
        self.assertEqual(run.wait(60), 79)
        self.newcomer.call("release", lock=lock)
        return self.last_beat() - taken

    def overlaps(self, options, child, words):
        measured = sorted(self.round(number, options, child) for number in range(ROUNDS))
        print(f"{words}: overlap in ms, {ROUNDS} rounds:", [round(one * 1000, 1) for one in measured])
        return measured

    def judge(self, measured, kill_after):
        """A busy machine may spoil one of them. The default kill-after is 24 s here."""
        self.assertLess(measured[-1], kill_after + 20)
        at_most(self, "overlap, median, seconds", statistics.median(measured), kill_after + 0.25)
        at_most(self, "overlap, longest, seconds", measured[-1], kill_after + 2)

    def test_a_command_that_heeds_the_signal(self):
        measured = self.overlaps((), "obedient", "ends at TERM")
        self.judge(measured, 0)

    def test_a_command_that_is_deaf_to_it(self):
        measured = self.overlaps(("-k", str(KILL_AFTER)), "deaf", f"deaf to TERM, --kill-after {KILL_AFTER:g}")
        # It lives on for as long as it is let: so long is the overlap, and no longer.
        at_most(self, "less than --kill-after, seconds", KILL_AFTER - statistics.median(measured), 0.5)
        self.judge(measured, KILL_AFTER)

    def test_a_command_that_is_killed_at_once(self):
        measured = self.overlaps(("-k", "0"), "deaf", "deaf to TERM, --kill-after 0")
        self.judge(measured, 0)


if __name__ == "__main__":
    tap.main()
