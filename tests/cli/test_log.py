"""The log of a daemon whose users ask for much: lines that are always written, and the number of writes."""

import re
import select
import signal
import socket
import subprocess
import time
import unittest

import tap
from daemon import Daemon
from wait import PATIENCE
from wire import Wire

LINES_A_SECOND = 64 + 1  # about the requests of one user; the last one has the number of those left out
LEFT_OUT = r"uid \d+( \(\w+\))?: (\d+) log lines about its requests were left out"
FLOOD = 20000


class Flood(unittest.TestCase):
    def flood(self, peer, count):
        """Pipelines requests that the access rules refuse, and reads the answers."""
        data = b"".join(b'{"id":%d,"method":"destroy","params":{"name":"db"}}\n' % number for number in range(1, count + 1))
        refused = 0
        peer.socket.setblocking(False)
        while refused < count:
            readable, writable, _ = select.select([peer.socket], [peer.socket] if data else [], [], PATIENCE)
            self.assertTrue(readable or writable, f"no answer after {refused}")
            if writable:
                data = data[peer.socket.send(data[:65536]):]
            if readable:
                refused += peer.socket.recv(1 << 20).count(b'"permission-denied"')

    def test_of_one_user_leaves_out_no_loss(self):
        """One minute of this made 6 million lines, and journald dropped those about losses."""
        daemon = Daemon(self, "--stop-timeout", "0.1", config="[access]\nrule = deny any destroy *\n",
                        expect=["the stop timeout has passed", "lost held"])
        Wire(daemon).call("acquire", name="held", kind="mutex", timeout=0)
        peer = Wire(daemon)
        began = time.monotonic()
        self.flood(peer, FLOOD)
        daemon.signal(signal.SIGTERM)
        daemon.wait_exit()
        seconds = int(time.monotonic() - began) + 1
        log = daemon.log()
        self.assertIn("lost held", log)
        written = log.count(" forbidden destroy of db")
        left_out = [int(found[1]) for found in re.findall(LEFT_OUT, log)]
        self.assertLessEqual(written + len(left_out), LINES_A_SECOND * seconds)
        self.assertEqual(written + sum(left_out), FLOOD)

    def test_is_told_when_the_user_has_gone(self):
        daemon = Daemon(self, config="[access]\nrule = deny any destroy *\n")
        peer = Wire(daemon)
        self.flood(peer, FLOOD)
        peer.hang_up()
        daemon.wait_log(f"info: {LEFT_OUT}")


class Writes(unittest.TestCase):
    def test_the_lines_of_a_pass_are_one_write(self):
        daemon = Daemon(self, "--max-locks-per-connection", "1", start=False)
        mine, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        with mine, its:
            daemon.process = subprocess.Popen(daemon.command, env=daemon.env, stdin=subprocess.DEVNULL, stderr=its,
                                              start_new_session=True)
            daemon.wait_notice("READY=1")
            peer = Wire(daemon)
            peer.call("acquire", name="a", kind="mutex", timeout=0)
            # The daemon refuses it at once. So both lines are of one pass.
            self.assertEqual(peer.error("acquire", name="b", kind="mutex", timeout=0).reason, "too-many-locks")
            mine.settimeout(PATIENCE)
            lines = []
            while not any("requested b" in line for line in lines):
                lines = mine.recv(65536).decode().splitlines()
            self.assertRegex("\n".join(lines), r"requested b: .*\n.*refused a lock: .*too-many-locks")
            daemon.stop()


if __name__ == "__main__":
    tap.main()
