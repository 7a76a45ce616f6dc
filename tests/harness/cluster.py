"""Hosts in one machine, a network between them that can fail, and a cluster of RabbitMQ nodes on them.

	class Partition(cluster.TestCase):
		def test_x(self):
			hosts = self.enterContext(Network())			# n1, n2, n3
			nodes = self.enterContext(Cluster(hosts, partition_handling="autoheal"))
			daemon = nodes.daemon(self, "n1", "n2")			# on host n1, connects to the node of n2
			hosts.split(("n1",), ("n2", "n3"))
			hosts.heal()
	if __name__ == "__main__":
		cluster.main()

A host is a network namespace and a host name. Each host has one link, to a router. For each sender and receiver, the
router passes packets on, drops them, answers them with a reset, or delays them. The test's own process is on the
router and reaches every host at any time.

main() runs the tests in private namespaces for processes, mounts, network and host names. The tests write to a file
system in memory at /run. If the test's process ends in any way, the kernel ends every process that it started. Then
nothing refers to the namespaces, and the kernel removes their interfaces and files. Two such tests at once do not see
each other.

The router delays packets by means of a TUN device, because many kernels are built without netem. If there is no
/dev/net/tun, slow() skips the test.
"""

import ctypes
import fcntl
import heapq
import ipaddress
import os
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import tap
from daemon import Daemon
from rabbit import Host, Rabbit
from rabbit import missing as missing_rabbit

# linux/sched.h, linux/mount.h, linux/prctl.h, linux/if_tun.h
CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWPID, CLONE_NEWNET = 0x20000, 0x4000000, 0x20000000, 0x40000000
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 0x40000
PR_SET_PDEATHSIG = 1
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x1, 0x1000
PROGRAMS = {"ip": "iproute2", "nft": "nftables", "nsenter": "util-linux"}
SLOW_MARK = 1

libc = ctypes.CDLL(None, use_errno=True)
# The reason why there is no cluster here; main() sets it.
skip_reason = "the tests were not started by cluster.main()"


class TestCase(unittest.TestCase):
    def setUp(self):
        if skip_reason is not None:
            self.skipTest(skip_reason)


# ---- a machine of its own ----

def _check(result):
    if result != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))


def _mount(source, target, kind, flags=0):
    _check(libc.mount(source.encode(), target.encode(), kind.encode(), flags, None))


def missing():
    """Why hosts cannot be made here; None when they may be."""
    if os.geteuid() != 0:
        return "needs root, for namespaces"
    for name, package in PROGRAMS.items():
        if shutil.which(name) is None:
            return f"no {name} (Debian: {package})"
    return missing_rabbit()


def enter_machine():
    """Goes on in a child, which is the first process of its namespaces: its end ends all processes in them. The parent
    waits for the child, and the kernel kills the child if the parent ends."""
    _check(libc.unshare(CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWPID | CLONE_NEWNET))
    living, parent = os.pipe()
    sys.stdout.flush()
    child = os.fork()
    if child != 0:
        os.close(parent)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal tells the child as well
        _, status = os.waitpid(child, 0)
        os._exit(os.waitstatus_to_exitcode(status) & 0xff)
    os.close(living)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    os.write(parent, b"x")  # fails when the parent ended before that: nobody reads
    os.close(parent)
    _mount("none", "/", "none", MS_REC | MS_PRIVATE)
    _mount("proc", "/proc", "proc")
    _mount("tmpfs", "/run", "tmpfs")
    _mount("tmpfs", "/dev/shm", "tmpfs")  # libfaketime names its files by process ids
    os.makedirs("/run/tmp")
    os.makedirs("/run/uts")
    tempfile.tempdir = os.environ["TMPDIR"] = "/run/tmp"


def main():
    global skip_reason
    skip_reason = missing()
    if skip_reason is None:
        try:
            enter_machine()
        except OSError as error:
            skip_reason = f"may make no namespaces: {error}"
    tap.main()


# ---- the network ----

def run(*argv, text=None):
    done = subprocess.run(argv, input=text, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(argv)}: {done.stdout}\n{text or ''}")
    return done.stdout


class Network:
    """Hosts around a router. Sender and receiver are names of hosts."""

    def __init__(self, names=("n1", "n2", "n3")):
        self.hosts = {}
        self.fates = {}  # (sender, receiver): "drop" or "reject with tcp reset"
        self.slowness = None
        run("ip", "link", "set", "lo", "up")
        for number, name in enumerate(names, 1):
            self._make_host(name, f"10.77.{number}")
        table = "".join(f"{host.address} {name}\n" for name, host in self.hosts.items())
        with open("/run/hosts", "w", encoding="ascii") as file:
            file.write("127.0.0.1 localhost\n" + table)
        _mount("/run/hosts", "/etc/hosts", "none", MS_BIND)
        for name in ("ip_forward", "conf/all/rp_filter", "conf/default/rp_filter"):
            with open(f"/proc/sys/net/ipv4/{name}", "w", encoding="ascii") as file:
                file.write("1" if name == "ip_forward" else "0")
        self._apply()

    def _make_host(self, name, net):
        run("ip", "netns", "add", name)
        run("ip", "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name)
        run("ip", "addr", "add", f"{net}.1/24", "dev", name)
        run("ip", "link", "set", name, "up")
        for words in (f"addr add {net}.2/24 dev eth0", "link set eth0 up", "link set lo up",
                      f"route add default via {net}.1"):
            run("ip", "-n", name, *words.split())
        uts = f"/run/uts/{name}"
        with open(uts, "w", encoding="ascii"):
            pass
        run("unshare", f"--uts={uts}", "hostname", name)
        self.hosts[name] = Host(name, f"{net}.2", ("nsenter", f"--net=/run/netns/{name}", f"--uts={uts}", "--"))

    # ---- what happens to packets of one host to another ----

    def cut(self, sender, receiver):
        """They are lost."""
        self._set([(sender, receiver)], "drop")

    def reject(self, sender, receiver):
        """The sender's TCP packets are answered with RST, others are lost."""
        self._set([(sender, receiver)], "reject with tcp reset")

    def split(self, left, right):
        """Drops all packets between the two sides, all at once."""
        self._set(self._between(left, right), "drop")

    def break_off(self, left, right):
        """As split, but senders get a TCP reset at once."""
        self._set(self._between(left, right), "reject with tcp reset")

    def slow(self, sender, receiver, seconds):
        """They arrive so much later; 0: at once again."""
        if self.slowness is None:
            self.slowness = Slowness()
            self._apply()
        self.slowness.delays[self._pair(sender, receiver)] = seconds

    def heal(self, sender=None, receiver=None):
        """Packets of this sender, to this receiver (None: any), arrive again, without delay."""
        def meant(pair):
            return sender in (None, pair[0]) and receiver in (None, pair[1])

        self.fates = {pair: fate for pair, fate in self.fates.items() if not meant(pair)}
        if self.slowness is not None:
            for pair in filter(meant, self._between(self.hosts, self.hosts)):
                self.slowness.delays.pop(self._pair(*pair), None)
        self._apply()

    def socket(self, name, kind=socket.SOCK_STREAM):
        """A socket that is on this host."""
        with open("/proc/thread-self/ns/net", "rb") as router, open(f"/run/netns/{name}", "rb") as host:
            _check(libc.setns(host.fileno(), CLONE_NEWNET))
            try:
                return socket.socket(socket.AF_INET, kind)
            finally:
                _check(libc.setns(router.fileno(), CLONE_NEWNET))

    def close(self):
        if self.slowness is not None:
            self.slowness.close()
        run("nft", "delete table ip links")
        _check(libc.umount2(b"/etc/hosts", 0))
        for name in self.hosts:
            # The interface goes at once; the namespace when its last process has ended.
            run("ip", "link", "delete", name)
            run("ip", "netns", "delete", name)
            run("umount", f"/run/uts/{name}")

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    @staticmethod
    def _between(left, right):
        return [pair for one in left for other in right if one != other for pair in ((one, other), (other, one))]

    def _pair(self, sender, receiver):
        return tuple(ipaddress.ip_address(self.hosts[name].address).packed for name in (sender, receiver))

    def _set(self, pairs, fate):
        self.fates.update(dict.fromkeys(pairs, fate))
        self._apply()

    def _apply(self):
        """The router gets all its rules at once."""
        rules = ["table ip links {}", "delete table ip links", "table ip links {",
                 "chain pass { type filter hook forward priority filter;"]
        for (sender, receiver), fate in self.fates.items():
            match = f"ip saddr {self.hosts[sender].address} ip daddr {self.hosts[receiver].address}"
            rules.append(f"{match} {'meta l4proto tcp ' if fate != 'drop' else ''}{fate}")
            if fate != "drop":
                rules.append(f"{match} drop")
        rules.append("}")
        if self.slowness is not None:
            rules.append("chain keep { type filter hook prerouting priority mangle; "
                         f'iifname != "slow" meta mark set {SLOW_MARK}; }}')
        run("nft", "-f", "-", text="\n".join(rules + ["}"]) + "\n")


class Slowness:
    """All packets between hosts come through a TUN device to this thread. It gives them back to the router when they
    are due."""

    def __init__(self):
        self.delays = {}  # (sender, receiver), as in the packet's header: seconds
        try:
            self.tun = os.open("/dev/net/tun", os.O_RDWR)
        except OSError as error:
            raise unittest.SkipTest(f"links cannot be slow here, there is no TUN device: {error}") from error
        fcntl.ioctl(self.tun, TUNSETIFF, struct.pack("16sH22x", b"slow", IFF_TUN | IFF_NO_PI))
        run("ip", "link", "set", "slow", "up")
        run("ip", "route", "add", "default", "dev", "slow", "table", "77")
        # After the table of the router's own addresses (priority 0): its own packets stay.
        run("ip", "rule", "add", "fwmark", str(SLOW_MARK), "lookup", "77", "priority", "100")
        self.closing, self.closer = os.pipe()
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self):
        due = []  # (when, number, packet)
        number = 0
        while True:
            timeout = max(0, due[0][0] - time.monotonic()) if due else None
            ready = select.select([self.tun, self.closing], [], [], timeout)[0]
            if self.closing in ready:
                return
            if self.tun in ready:
                packet = os.read(self.tun, 65536)
                number += 1
                delay = self.delays.get((packet[12:16], packet[16:20]), 0)
                heapq.heappush(due, (time.monotonic() + delay, number, packet))
            while due and due[0][0] <= time.monotonic():
                os.write(self.tun, heapq.heappop(due)[2])

    def close(self):
        os.write(self.closer, b"x")
        self.thread.join()
        run("ip", "rule", "delete", "priority", "100")
        for fd in (self.tun, self.closing, self.closer):
            os.close(fd)


# ---- the nodes ----

class Cluster:
    """A node on each host, by its host's name: cluster["n1"], a Rabbit.

    partition_handling is ignore, pause_minority or autoheal. khepri (from 4.0 on) puts the metadata into Khepri. A node
    counts as dead after net_ticktime seconds of silence, a quarter more or less. A node that calls another one waits
    net_setuptime seconds for it. config has more lines of rabbitmq.conf."""

    def __init__(self, network, partition_handling="ignore", khepri=False, net_ticktime=5, net_setuptime=7,
                 config=""):
        os.environ.pop("RABBITMQ_KHEPRI", None)  # which each node would heed by itself
        self.network = network
        self.nodes = {}
        lines = ["loopback_users.guest = false", f"cluster_partition_handling = {partition_handling}", config]
        first = None
        for name, host in network.hosts.items():
            self.nodes[name] = Rabbit(config="\n".join(lines), host=host, join=first,
                                      erl_args=f"-kernel net_ticktime {net_ticktime} "
                                               f"-kernel net_setuptime {net_setuptime}")
            if first is None:
                first = self.nodes[name].start()
        for node in self:
            node.launch()
        for node in self:
            node.wait_up()
        # Until it is given one, each node of a cluster has a name for it of its own.
        first.ctl("set_cluster_name", "one cluster")
        if khepri:
            first.ctl("enable_feature_flag", "--experimental", "khepri_db")

    def __getitem__(self, name):
        return self.nodes[name]

    def __iter__(self):
        return iter(self.nodes.values())

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    def close(self):
        for node in self:
            node.close()

    def daemon(self, test, host, *nodes, options=(), **more):
        """A lockbrokerd on a host, which connects to the first of these nodes that it reaches."""
        return Daemon(test, *options, broker=[self[name].url for name in nodes],
                      enter=self.network.hosts[host].enter, **more)

    def meets(self, name, other):
        """Whether one node reaches the other one, now that it tries."""
        return "pong" in self[name].eval(f"net_adm:ping('{self[other].node}').")
