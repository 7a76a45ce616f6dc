"""With few descriptors: one user leaves some to the others, all leave some to administrators, and those leave
some to the daemon's own connections."""

import contextlib
import json
import os
import socket
import unittest

import tap
from daemon import Daemon
from wait import wait_until
from wire import Wire

UNUSABLE = 71  # EX_OSERR
LIMIT = 256
# lockbrokerd(8)
OWN, ADMINISTRATORS = 48, 16
ONE_USER = (LIMIT - OWN - ADMINISTRATORS) // 2
ROOT_ONLY = unittest.skipUnless(os.geteuid() == 0, "only root can be another user")


class Few(unittest.TestCase):
    def setUp(self):
        # A broker that takes connections, and says nothing on them.
        self.broker = socket.create_server(("127.0.0.1", 0))
        self.broker.settimeout(60)
        self.addCleanup(self.broker.close)
        self.daemon = Daemon(self, "--socket-mode", "0666", "--connect-timeout", "60", start=False,
                             broker=f"amqp://127.0.0.1:{self.broker.getsockname()[1]}",
                             expect=["lock connection down", "connections are refused"])
        self.plain = self.daemon.command
        self.limit(LIMIT)
        os.chmod(self.daemon.dir, 0o711)

    def limit(self, files):
        self.daemon.command = ["/bin/sh", "-c", f'ulimit -n {files}; exec "$@"', "sh"] + self.plain

    def start(self):
        self.daemon.start()
        self.link = self.broker.accept()[0]
        self.addCleanup(lambda: self.link.close())

    def reconnects(self):
        """The broker drops the connection, and the daemon makes a new one."""
        self.link.close()
        self.link = self.broker.accept()[0]

    def connect(self, uid, count):
        """Connects as that user until it is refused, at most `count` times. Returns the clients that are served, and
        the error that the refused one got."""
        served = []
        for _ in range(count):
            os.seteuid(uid)
            try:
                peer = Wire(self.daemon)
            finally:
                os.seteuid(os.getuid())
            with contextlib.suppress(BrokenPipeError):  # it may be closed already
                peer.send_line({"id": 1, "method": "ping"})
            reply = json.loads(peer.socket.makefile().readline())
            if "error" in reply:
                self.assertEqual(reply["error"]["data"], {"reason": "too-many-requests", "retry": True})
                return served, reply["error"]["message"]
            served.append(peer)
        return served, None

    def test_administrators_leave_the_daemon_its_own(self):
        self.start()
        served, why = self.connect(os.geteuid(), LIMIT)  # the daemon's own user is an administrator
        self.assertEqual(why, f"{LIMIT - OWN} of the {LIMIT} descriptors are in use; the rest is reserved for the daemon")
        wait_until(lambda: self.daemon.fds() == LIMIT - OWN)
        self.reconnects()
        served.pop().hang_up()
        self.assertEqual(served[0].call("ping"), {})

    @ROOT_ONLY
    def test_one_user_leaves_half_to_the_others(self):
        self.start()
        served = []
        for _ in range(3):
            more, why = self.connect(65534, LIMIT)
            served += more
            self.assertEqual(why, f"uid 65534 has {ONE_USER} connections, the maximum")
        self.assertEqual(len(served), ONE_USER)
        self.daemon.wait_log("connections are refused")
        self.assertEqual(self.daemon.log().count("connections are refused"), 1)
        others, why = self.connect(65533, ONE_USER // 2)
        self.assertEqual((len(others), why), (ONE_USER // 2, None))
        self.assertEqual(len(self.connect(0, 2)[0]), 2)
        self.reconnects()

    @ROOT_ONLY
    def test_all_users_leave_some_to_administrators(self):
        self.start()
        served, why = [], None
        for uid in range(65530, 65534):
            more, why = self.connect(uid, ONE_USER)
            served += more
        most = LIMIT - OWN - ADMINISTRATORS
        self.assertEqual(why, f"{most} of the {LIMIT} descriptors are in use; the rest is reserved for administrators "
                              "and the daemon")
        wait_until(lambda: self.daemon.fds() == most)
        for _ in range(3):  # is logged once
            self.connect(65534, 1)
        self.daemon.wait_log("connections are refused")
        self.assertEqual(self.daemon.log().count("connections are refused"), 1)
        self.assertEqual(len(self.connect(0, LIMIT)[0]), ADMINISTRATORS)
        self.reconnects()

    def test_too_few_to_start(self):
        self.limit(127)
        self.daemon.expect("127 descriptors")
        self.daemon.launch()
        self.daemon.wait_exit(UNUSABLE)
        self.assertIn("the limit of 127 descriptors is too low, expected 128 or more", self.daemon.log())


if __name__ == "__main__":
    tap.main()
