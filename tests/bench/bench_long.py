"""The needs of a cluster of three and its daemons, while slots are held by quorum for long and 50 clients wait.

    make bench-long MINUTES=40 PACE=10 HOLDS=300       # as root; it writes bench-long.tsv

PACE: how often a hold is renewed in the time of one renewal. Each verify of a slot by quorum is a renewal, so clients ask
for these. The daemons renew in addition, as always. RABBITMQ_ROOT and RABBITMQ_KHEPRI=1 choose the version.

The table has a line for each sample and node. Files are in memory here, so that an fsync costs nothing.
"""

import contextlib
import os
import re
import select
import sys
import time

import cluster
from daemon import UNTESTED
from measure import cpu_of
from rabbit import RabbitError, version
from wire import Wire

MINUTES = float(os.environ.get("MINUTES", "40"))
PACE = float(os.environ.get("PACE", "10"))
OUT = os.environ.get("OUT", "bench-long.tsv")
HOLDS = int(os.environ.get("HOLDS", "300"))  # for each daemon, a multiple of AT_ONCE
WAITERS, SAMPLES = 50, 80
GRACE, RENEWALS = 20, 5  # T in seconds, and the renewals in that time (keepalive.c)
AT_ONCE = 10
TROUBLE = ("lost", "lease", "connection", "broker", "slot", "quorum", "reclaim", "grace")
# In bytes: all, of processes, of binaries, of the tables of ETS.
MEMORY = 'io:format("~w ~w ~w ~w", [erlang:memory(Kind) || Kind <- [total, processes, binary, ets]]).'
COLUMNS = ("seconds", "renewals", "node", "rss", "memory", "processes", "binary", "ets", "log_bytes", "log_files", "descriptors",
           "cpu", "daemon_rss", "daemon_descriptors", "daemon_cpu")


def rss(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return int(re.search(r"^VmRSS:\s+(\d+)", file.read(), re.MULTILINE)[1]) * 1024


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def log_of(node):
    """Bytes and files of the Raft logs. A file can disappear meanwhile."""
    sizes = []
    for folder, _, names in os.walk(os.path.join(node.directory, "mnesia")):
        if "/quorum" in folder:
            for name in names:
                with contextlib.suppress(FileNotFoundError):
                    sizes.append(os.stat(os.path.join(folder, name)).st_blocks * 512)
    return sum(sizes), len(sizes)


class Holder:
    """Of some slots, on one connection. It has a verify of each in flight, or none."""

    def __init__(self, daemon, slots):
        self.wire, self.open, self.refused = Wire(daemon), 0, 0
        asked = [self.wire.request("acquire", name="many", timeout=0) for _ in range(slots)]
        locks = [self.wire.answer(request, 120)["lock"] for request in asked]
        self.batch = b"".join(b'{"jsonrpc":"2.0","id":%d,"method":"verify","params":{"lock":"%s"}}\n' % (place, lock.encode())
                              for place, lock in enumerate(locks))
        self.slots, self.rest = slots, b""

    def ask(self):
        self.open = self.slots
        self.wire.send_bytes(self.batch)

    def read(self):
        *lines, self.rest = (self.rest + self.wire.socket.recv(1 << 16)).split(b"\n")
        answers = [line for line in lines if b'"id"' in line]
        self.open -= len(answers)
        self.refused += sum(b'"result"' not in line for line in answers)
        return len(answers)


class Long(contextlib.ExitStack):
    def addCleanup(self, call, *args):  # a Daemon takes this for its test
        self.callback(call, *args)

    def start(self):
        hosts = self.enter_context(cluster.Network())
        khepri = os.environ.get("RABBITMQ_KHEPRI", "0") != "0"
        self.nodes = self.enter_context(cluster.Cluster(hosts, "pause_minority", khepri=khepri, net_ticktime=60))
        self.daemons = {name: self.nodes.daemon(self, name, name, options=UNTESTED, expect=TROUBLE) for name in self.nodes.nodes}
        for daemon in self.daemons.values():
            daemon.wait_broker()
        admin = Wire(self.daemons["n1"])
        admin.call("create", within=600, name="many", slots=HOLDS, claim="quorum", takeover_grace=GRACE)
        count = HOLDS // AT_ONCE // len(self.daemons)
        self.holders = [Holder(daemon, AT_ONCE) for daemon in self.daemons.values() for _ in range(count)]
        self.waiting = [Wire(daemon) for daemon in self.daemons.values()]
        for number in range(WAITERS):
            self.waiting[number % len(self.waiting)].request("acquire", name="many", timeout=None)

    def sample(self, seconds, renewals, out):
        for name, node in self.nodes.nodes.items():
            daemon = self.daemons[name]
            try:
                memory = re.search(r"\d+ \d+ \d+ \d+", node.eval(MEMORY))[0].split()
            except (RabbitError, TypeError):
                memory = [""] * 4
            print(f"{seconds:.0f}", renewals, name, rss(node.pid), *memory, *log_of(node), descriptors(node.pid),
                  f"{cpu_of(node.pid):.1f}", rss(daemon.pid), descriptors(daemon.pid), f"{cpu_of(daemon.pid):.1f}",
                  sep="\t", file=out, flush=True)

    def measure(self, out):
        print(*COLUMNS, sep="\t", file=out, flush=True)
        began, renewals, sampled, late = time.monotonic(), 0, 0, 0
        pause = GRACE / RENEWALS / PACE
        due = began
        while (now := time.monotonic()) < began + MINUTES * 60:
            if now >= began + sampled * MINUTES * 60 / SAMPLES:
                self.sample(now - began, renewals, out)
                sampled += 1
            if now >= due:
                late += sum(holder.open > 0 for holder in self.holders)
                for holder in self.holders:
                    if holder.open == 0:
                        holder.ask()
                due = max(due + pause, now)
            ready = select.select([holder.wire.socket for holder in self.holders], [], [], max(0, due - time.monotonic()))[0]
            renewals += sum(holder.read() for holder in self.holders if holder.wire.socket in ready)
        self.sample(time.monotonic() - began, renewals, out)
        refused = sum(holder.refused for holder in self.holders)
        granted = sum(len(wire.replies) for wire in self.waiting)
        print(f"{renewals} verifies in {time.monotonic() - began:.0f} s: {renewals / HOLDS / MINUTES / 60:.2f} a second of each hold; "
              f"{refused} refused, {late} rounds of a connection came late, {granted} waiters were granted")
        logs = "\n".join(daemon.log() for daemon in self.daemons.values())
        print("lost holds in the logs:", len(re.findall(r"\blost\b", logs)))


def main():
    reason = cluster.missing()
    if reason is not None:
        sys.exit(reason)
    with open(OUT, "w", encoding="ascii") as out:
        cluster.enter_machine()
        with Long() as long:
            print(f"RabbitMQ {version()}, {HOLDS} holds, {WAITERS} waiters, T {GRACE} s, pace {PACE:g}", flush=True)
            long.start()
            long.measure(out)


if __name__ == "__main__":
    main()
