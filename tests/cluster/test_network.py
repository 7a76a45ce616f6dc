"""The network of tests/harness/cluster.py does what it is told, and nothing of it stays behind."""

import os
import signal
import socket
import subprocess
import sys
import time
import unittest

import cluster
from cluster import Network
from timing import at_most
from wait import wait_until

PORT = 7
DELAY = 0.3
WITHIN = 60


def arrives(sender, message, receiver, within):
    """Whether a datagram arrives; those that came too late for an earlier question do not count."""
    sender.send(message)
    end = time.monotonic() + within
    while (left := end - time.monotonic()) > 0:
        receiver.settimeout(left)
        try:
            if receiver.recv(100) == message:
                return True
        except TimeoutError:
            break
    return False


class Links(cluster.TestCase):
    def setUp(self):
        super().setUp()
        self.hosts = self.enterContext(Network())
        self.sockets = {}
        self.messages = 0

    def socket(self, name, kind):
        made = self.enterContext(self.hosts.socket(name, kind))
        made.settimeout(WITHIN)
        return made

    def datagrams(self, sender, receiver):
        """A socket that sends to the other one."""
        into, out = (self.socket(name, socket.SOCK_DGRAM) for name in (receiver, sender))
        into.bind((self.hosts.hosts[receiver].address, 0))
        out.connect(into.getsockname())
        return out, into

    def pair(self, name):
        if name not in self.sockets:
            self.sockets[name] = self.datagrams(name[:2], name[2:])
        return self.sockets[name]

    def passes(self, name):
        out, into = self.pair(name)
        self.messages += 1
        return arrives(out, b"%d" % self.messages, into, WITHIN)

    ALL = {"n1n2", "n2n1", "n1n3", "n3n1", "n2n3", "n3n2"}

    def assert_open(self, names):
        """Datagrams pass between these pairs of sender and receiver, and between no others. A datagram to one of the others
        is sent before two to each of these."""
        for name in self.ALL - names:
            self.pair(name)[0].send(b"closed")
        for name in [*names, *names]:
            self.assertTrue(self.passes(name), name)
        for name in self.ALL - names:
            into = self.pair(name)[1]
            into.settimeout(0)
            self.assertRaises(BlockingIOError, into.recv, 100)

    def test_one_direction_is_cut(self):
        self.assert_open(self.ALL)
        self.hosts.cut("n1", "n2")
        self.assert_open(self.ALL - {"n1n2"})
        self.hosts.heal()
        self.assert_open(self.ALL)

    def test_split_and_partly_healed(self):
        self.hosts.split(("n1",), ("n2", "n3"))
        self.assert_open({"n2n3", "n3n2"})
        self.hosts.heal("n1", "n3")
        self.assert_open({"n2n3", "n3n2", "n1n3"})

    def test_slow(self):
        self.hosts.slow("n1", "n2", DELAY)
        self.takes("n1n2", DELAY)
        self.takes("n2n1", 0)
        self.hosts.slow("n2", "n1", DELAY)
        self.hosts.heal("n1", "n2")
        self.takes("n2n1", DELAY)
        self.takes("n1n2", 0)

    def takes(self, name, seconds):
        began = time.monotonic()
        self.assertTrue(self.passes(name))
        took = time.monotonic() - began
        self.assertGreaterEqual(took, seconds)
        at_most(self, f"{name}, seconds", took, seconds + DELAY / 2)

    def connect(self):
        listener = self.socket("n2", socket.SOCK_STREAM)
        listener.bind((self.hosts.hosts["n2"].address, PORT))
        listener.listen()
        client = self.socket("n1", socket.SOCK_STREAM)
        client.connect(listener.getsockname())
        server = self.enterContext(listener.accept()[0])
        server.settimeout(WITHIN)
        return client, server

    def test_a_rejected_sender_hears_it(self):
        client, server = self.connect()
        self.hosts.reject("n1", "n2")
        client.send(b"x")
        with self.assertRaises(ConnectionResetError):
            client.recv(1)
        # The receiver has heard nothing of it.
        server.settimeout(DELAY)
        with self.assertRaises(TimeoutError):
            server.recv(1)
        refused = self.socket("n1", socket.SOCK_STREAM)
        with self.assertRaises(ConnectionRefusedError):
            refused.connect((self.hosts.hosts["n2"].address, PORT))

    def test_a_connection_outlives_a_cut(self):
        client, server = self.connect()
        self.hosts.split(("n1",), ("n2",))
        client.send(b"x")
        server.settimeout(DELAY)
        with self.assertRaises(TimeoutError):
            server.recv(1)
        self.hosts.heal()
        server.settimeout(WITHIN)
        self.assertEqual(server.recv(1), b"x")


# A test that another one kills: it makes hosts, starts a node, and tells that it is ready.
VICTIM = """
import sys, time
import cluster
from rabbit import Rabbit
class Victim(cluster.TestCase):
    def test(self):
        hosts = cluster.Network()
        hosts.split(("n1",), ("n2",))
        rabbit = Rabbit(host=hosts.hosts["n1"])
        rabbit.launch()
        self.enterContext(hosts.socket("n1")).connect((hosts.hosts["n1"].address, rabbit.state["epmd_port"]))
        print("here", rabbit.directory)
        sys.stdout.flush()
        time.sleep(100)
if __name__ == "__main__":
    cluster.main()
"""


def traces():
    """Interfaces, rules, namespaces, mounts, files and processes, which a test might leave behind."""
    def said(*argv):
        return subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True).stdout

    return {
        "interfaces": said("ip", "-o", "link").count("\n"),
        "rules": said("nft", "list", "ruleset"),
        "namespaces": said("ip", "netns"),
        "mounts": said("cat", "/proc/self/mounts"),
        "files": sorted(os.listdir("/run")) + sorted(os.listdir("/run/tmp")),
        "processes": sorted(int(name) for name in os.listdir("/proc") if name.isdigit()),
    }


class Leavings(cluster.TestCase):
    """The victim is started in the namespaces of this test, in which nobody else changes anything."""

    def setUp(self):
        super().setUp()
        path = os.path.join("/run/tmp", "victim.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(VICTIM)
        self.addCleanup(os.remove, path)
        self.before = traces()
        self.victim = subprocess.Popen([sys.executable, path], stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.victim.stdout.close)
        self.addCleanup(self.victim.wait)
        self.addCleanup(self.victim.kill)

    def nothing_is_left(self):
        # This process is the first one of its namespace, and reaps orphans.
        while True:
            try:
                if os.waitpid(-1, os.WNOHANG) == (0, 0):
                    break
            except ChildProcessError:
                break
        return traces() == self.before

    def kill(self, how):
        for line in self.victim.stdout:
            if "here" in line:
                break
        else:
            self.fail("the victim ended by itself")
        self.assertNotEqual(traces()["processes"], self.before["processes"])
        self.victim.send_signal(how)
        self.victim.wait(WITHIN)
        wait_until(self.nothing_is_left, WITHIN, "nothing is left")

    def test_killed(self):
        self.kill(signal.SIGKILL)

    def test_terminated(self):
        self.kill(signal.SIGTERM)


if __name__ == "__main__":
    cluster.main()
