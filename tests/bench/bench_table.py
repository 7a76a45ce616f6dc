"""Measures lockbroker, RabbitMQ without it, Redis and etcd in one run, and prints a table of ratios.

    make bench-table ROUNDS=10		all rows; the figures of all rounds go to bench-table.tsv
    make bench-table ROWS=quorum	some groups of rows
    make bench-plots			puts its tables and plots into docs/PERFORMANCE.md

In a round, all services of a row do the same work one after the other. A ratio is the median of the ratios of the
rounds. A service or a way to hold a slot that is not there is left out, with a line that says so. If a group of rows
fails, the others are still measured, and the program fails at the end.
"""

import contextlib
import operator
import os
import platform
import re
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import traceback

import quorum_rows
import tables
from daemon import UNTESTED, Daemon, clean_environment, program
from measure import cpu_of, load, p50, p99, per_second, plus
from rabbit import Rabbit, free_ports, version
from wait import wait_until
from wire import Wire

ROUNDS = int(os.environ.get("ROUNDS", "3"))
GROUPS = os.environ.get("ROWS", "").split()
# Of one client each, for the memory of a daemon.
PAIRS = int(os.environ.get("PAIRS", "200000"))
PAIRS_BEFORE = 20000
KEEPALIVE_SECONDS = 20
RSS_SLACK = 256  # KiB
HOLDS, IDLE = 2000, 5000
CLIENTS = (1, 4, 16, 64, 256)
SLOTS = (1, 10, 100, 1000)
CPU = 0
CHANNEL_CLOSED = "caused a channel exception"
TSV = "bench-table.tsv"
WAYS = {"queue": "exclusive queue", "consumer": "exclusive consumer"}


def output(*argv):
    done = subprocess.run(argv, check=False, capture_output=True, text=True)
    return (done.stdout + done.stderr).strip()


def file_system(path):
    return output("findmnt", "--noheadings", "--output", "FSTYPE", "--target", path)


def listens(port):
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


class Bench(contextlib.ExitStack):
    def __init__(self):
        super().__init__()
        self.failed, self.rounds = 0, ROUNDS
        self.tsv = self.enter_context(open(TSV, "w", encoding="utf-8"))
        self.known = program_services()
        self.ways = [way for way in WAYS if way == "queue" or "--claim" in output(program("lockbrokerd"), "--help")]
        if "consumer" not in self.ways:
            self.skip("the daemon by exclusive consumer: lockbrokerd has no option --claim")
        self.rabbit = Rabbit()

    def addCleanup(self, call, *args):  # a Daemon takes this for its test
        self.callback(call, *args)

    def skip(self, text):
        self.write("left out", text)

    # ---- servers ----

    def start(self):
        self.addCleanup(self.rabbit.close)
        self.rabbit.start()
        self.others = []  # for the group `locks` and the group `clients`
        self.redis()
        self.etcd("disk", tempfile.gettempdir())
        self.etcd("tmpfs", "/dev/shm")
        self.here = {way: self.daemon(way) for way in self.ways}
        self.there = {way: self.daemon(way) for way in self.ways}

    def daemon(self, way, broker=None):
        options = ["--claim", {"queue": "exclusive-queue"}.get(way, way)] if "consumer" in self.ways else []
        daemon = Daemon(self, "--channels-reserve", "0", *UNTESTED, *options, broker=broker or self.rabbit.url)
        daemon.wait_broker()
        return daemon

    def server(self, kind, name, port, argv):
        """Starts a server, unless it or its library is missing."""
        if ("locks", kind) not in self.known:
            return self.skip(f"{name}: lockbroker was configured without its library")
        if shutil.which(argv[0]) is None:
            return self.skip(f"{name}: no {argv[0]} here (Debian: {kind}-server)")
        process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *argv], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(process.wait)
        self.addCleanup(process.terminate)
        wait_until(lambda: listens(port), 20, f"{name} listens")
        self.others.append(f"{name}={port}")
        return None

    def folder(self, below):
        path = tempfile.mkdtemp(prefix="lb-bench-", dir=below)
        self.addCleanup(shutil.rmtree, path, True)
        return path

    def redis(self):
        port, = free_ports(1)
        self.server("redis", "redis", port, [
            "redis-server", "--bind", "127.0.0.1", "--port", str(port), "--save", "", "--appendonly", "no",
            "--dir", self.folder(tempfile.gettempdir())])

    def etcd(self, name, below):
        port, peers = free_ports(2)
        url, peer_url = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{peers}"
        self.server("etcd", f"etcd:{name}", port, [
            "etcd", "--data-dir", self.folder(below), "--listen-client-urls", url, "--advertise-client-urls", url,
            "--listen-peer-urls", peer_url, "--initial-advertise-peer-urls", peer_url,
            "--initial-cluster", f"default={peer_url}"])

    def proxy(self, ms):
        """The port of a proxy in front of RabbitMQ."""
        return int(self.helper("proxy", str(self.rabbit.port), str(ms)))

    def helper(self, *argv):
        """Starts load for as long as the stack lives; its first line."""
        process = subprocess.Popen([program("tests/bench/load"), *argv], stdin=subprocess.PIPE, text=True,
                                   stdout=subprocess.PIPE, env=clean_environment())
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        line = process.stdout.readline()
        if not line:
            raise AssertionError(f"load {argv} ended")
        return line

    def crowd(self, daemon, holds=0, idle=0, waiters=0):
        self.helper("crowd", daemon.socket, str(holds), str(idle), str(waiters))

    # ---- figures ----

    def write(self, *columns):
        """A line of the file that is also printed."""
        print(*columns, sep="\t", file=self.tsv, flush=True)
        print(*columns, sep="\t", flush=True)

    def load(self, group, count, size, *services, rounds=ROUNDS, label=""):
        print(f"{group} {label} {size}: {' '.join(service.partition('=')[0] for service in services)}", flush=True)
        sides = load(group, rounds, count, size, *services)
        for side, figures in sides.items():
            for number, figure in enumerate(figures, 1):
                number = "all" if number == len(figures) else number
                print(group + label, size, side, number, *figure, sep="\t", file=self.tsv)
        return sides

    def row(self, what, against, limit, ours, theirs):
        """ours and theirs: the figures of the rounds, in one unit."""
        ratio = statistics.median(a / b for a, b in zip(ours, theirs, strict=True))
        self.write("row", what, against, number(statistics.median(ours)), number(statistics.median(theirs)),
                   f"{ratio:.2f}", limit, verdict(limit, is_within(limit, ratio)))

    def alone(self, what, text, limit, within):
        """A row that is no ratio."""
        self.write("row", what, "-", text, "-", "-", limit, verdict(limit, within))

    def measure(self, rows):
        """The rows of one group. A failure of theirs is no reason to have measured the others in vain."""
        try:
            rows(self)
        except Exception as error:  # pylint: disable=broad-exception-caught
            traceback.print_exc()
            self.failed += 1
            self.skip(f"{rows.__name__.replace('_', ' ')}, which failed: {' '.join(str(error).split())[:200]}")


def program_services():
    return {tuple(line.split()) for line in output(program("tests/bench/load"), "services").splitlines()}


def number(value):
    return f"{value:.0f}" if value >= 10 else f"{value:.1f}"


def is_within(limit, ratio):
    compare, _, most = limit.partition(" ")
    return limit != "" and {"<=": operator.le, "<": operator.lt, ">=": operator.ge}[compare](ratio, float(most))


def verdict(limit, within):
    return "" if limit == "" else "met" if within else "missed"


def over(first, second):
    return [a / b for a, b in zip(first, second, strict=True)]


def most(way, *, consumer, queue=None):
    """The limit of a row, as text."""
    limit = consumer if way == "consumer" else queue
    return "" if limit is None else limit


# ---- rows ----

def locks(bench):
    url = bench.rabbit.url
    sides = bench.load("locks", 200, 1, *(f"daemon:{way}={bench.here[way].socket}" for way in bench.ways),
                       *(f"raw:{way}={url}" for way in WAYS), f"seeds={url}", "echo", *bench.others)
    for way in bench.ways:
        mine, raw = f"daemon:{way}", f"raw:{way}"
        for what, part, theirs in (("acquire of a free known name, p50", "lock", "raw claim"),
                                   ("release, p50", "unlock", "raw release")):
            echo = p50(sides[f"echo {part}"])
            bench.row(f"{what}, {WAYS[way]}", f"{theirs} and two echoes",
                      most(way, consumer="<= 1.2", queue="<= 1.2" if part == "lock" else None),
                      p50(sides[f"{mine} {part}"]), plus(p50(sides[f"{raw} {part}"]), echo, echo))
        spread = [over(p99(sides[f"{side} lock"]), p50(sides[f"{side} lock"])) for side in (mine, raw)]
        bench.row(f"acquire, p99/p50, {WAYS[way]}", "raw p99/p50", most(way, consumer="<= 2"), *spread)
        for other in bench.others:
            name = other.partition("=")[0]
            bench.row(f"acquire + release, {WAYS[way]}", f"{name} lock + unlock",
                      most(way, consumer="<= 3" if name == "redis" else "<= 0.3"),
                      p50(sides[f"{mine} pair"]), p50(sides[f"{name} pair"]))
    for way in WAYS:
        for other in bench.others:
            name = other.partition("=")[0]
            bench.row(f"raw claim + release, {WAYS[way]}", f"{name} lock + unlock", "",
                      p50(sides[f"raw:{way} pair"]), p50(sides[f"{name} pair"]))
    bench.row("raw claim + release, exclusive consumer", "raw claim + release, exclusive queue", "",
              p50(sides["raw:consumer pair"]), p50(sides["raw:queue pair"]))


def clients(bench):
    memory = {way: bench.daemon(way, "memory:") for way in bench.ways}
    for size in CLIENTS:
        sides = bench.load("clients", 500, size,
                           *(f"daemon:{way}={bench.here[way].socket}" for way in bench.ways),
                           *(f"daemon:memory-{way}={memory[way].socket}" for way in bench.ways),
                           *(f"raw:{way}={bench.rabbit.url}" for way in WAYS), *bench.others)
        for way in bench.ways if size == 64 else ():
            mine = f"daemon:{way}"
            bench.row(f"pairs per second, 64 clients, {WAYS[way]}", "raw over 64 channels (1/s)",
                      most(way, consumer=">= 0.5"), per_second(sides[mine]), per_second(sides[f"raw:{way}"]))
            bench.row(f"CPU of the daemon per pair, {WAYS[way]}", "over memory:", most(way, consumer="<= 2"),
                      p50(sides[f"{mine} cpu"]), p50(sides[f"daemon:memory-{way} cpu"]))


def handoffs(bench):
    url = bench.rabbit.url
    sides = bench.load("handoff", 30, 1, "rest=20",
                       *(f"daemon:{way}={bench.here[way].socket},{bench.there[way].socket}" for way in bench.ways),
                       *(f"raw:{way}={url}" for way in WAYS), "echo", label=" between daemons")
    for way in bench.ways:
        bench.row(f"hand-off between daemons, p50, {WAYS[way]}", "raw release, publish, delivery, claim, one echo",
                  "<= 1.3", p50(sides[f"daemon:{way}"]), plus(p50(sides[f"raw:{way}"]), p50(sides["echo"])))
    # An echo takes several times longer if its ends run on two processors.
    for way in bench.ways:
        os.sched_setaffinity(bench.here[way].pid, {CPU})
    sides = bench.load("handoff", 10, 1, f"cpu={CPU}",
                       *(f"daemon:{way}={bench.here[way].socket}" for way in bench.ways), f"token={url}", "echo",
                       rounds=20 * ROUNDS, label=" within a daemon")
    for way in bench.ways:
        os.sched_setaffinity(bench.here[way].pid, os.sched_getaffinity(0))
        mine = p50(sides[f"daemon:{way}"])
        bench.row(f"hand-off within a daemon, p50, {WAYS[way]}", "seeds/002: token to the next consumer",
                  most(way, consumer="< 1"), mine, p50(sides["token"]))
        bench.row(f"hand-off within a daemon, p50, {WAYS[way]}", "one echo", most(way, consumer=None, queue="<= 3"),
                  mine, p50(sides["echo"]))


def channels_closed(bench, way, size, tries):
    """How many channels the broker closes because of an error, during so many tries and what they need."""
    before = bench.rabbit.log.count(CHANNEL_CLOSED)
    bench.load("try", tries, size, f"daemon:{way}={bench.here[way].socket},{bench.there[way].socket}", rounds=1,
               label=f" {way}, {tries} times")
    return bench.rabbit.log.count(CHANNEL_CLOSED) - before


def slots(bench):
    for group, count in (("try", 100), ("free", 10)):
        for size in SLOTS:
            sides = bench.load(
                group, count, size, *(f"daemon:{way}={bench.here[way].socket},{bench.there[way].socket}"
                                      for way in bench.ways),
                *(f"raw:{way}={bench.rabbit.url}" for way in WAYS), *(["echo"] if group == "try" else []))
            for way in bench.ways:
                mine, raw = p50(sides[f"daemon:{way}"]), p50(sides[f"raw:{way}"])
                if group == "try" and size in (1, 10):
                    bench.row(f"try, all slots busy, {size} of them, {WAYS[way]}", f"{size} x raw question, one echo",
                              most(way, consumer="<= 1.5"), mine, plus(raw, p50(sides["echo"])))
                    few, many = (channels_closed(bench, way, size, tries) for tries in (1, 101))
                    bench.alone(f"channels closed by 100 tries, {size} slot(s), {WAYS[way]}", str(many - few),
                                most(way, consumer="0"), many == few)
                elif group == "free" and size == 1000:
                    bench.row(f"the one free slot of 1,000, {WAYS[way]}", "1,000 raw questions",
                              most(way, consumer="<= 1.3"), mine, raw)


def many_holds(bench):
    for group, count, size, limit, what, against in (
            ("hangup", 1, 1000, "<= 1.5", "hang-up with 1,000 holds", "1,000 raw releases"),
            ("verify", 10000, 1000, "<= 1.3", "10,000 verifies, 32 in flight", "raw passive declares of A and B")):
        for way in bench.ways:
            daemon = bench.daemon(way)  # without other holds
            sides = bench.load(group, count, size, f"daemon:{way}={daemon.socket}", f"raw:{way}={bench.rabbit.url}")
            daemon.stop()
            bench.row(f"{what}, {WAYS[way]}", against, most(way, consumer=limit),
                      p50(sides[f"daemon:{way}"]), p50(sides[f"raw:{way}"]))


def delayed(bench):
    url = f"amqp://guest:guest@127.0.0.1:{bench.proxy(1)}"
    daemons = {way: bench.daemon(way, url) for way in bench.ways}
    sides = bench.load("locks", 50, 1, *(f"daemon:{way}={daemons[way].socket}" for way in bench.ways),
                       *(f"raw:{way}={url}" for way in WAYS), f"seeds={url}", label=" 1 ms away")
    for way in bench.ways:
        bench.row(f"acquire, 1 ms of network each way, {WAYS[way]}", "seeds/000, the same network",
                  most(way, consumer="<= 0.35"), p50(sides[f"daemon:{way} lock"]), p50(sides["seeds lock"]))


def crowded(bench):
    for way in bench.ways:
        bare, loaded = bench.daemon(way), bench.daemon(way)
        bench.crowd(loaded, HOLDS, IDLE)
        sides = bench.load("locks", 200, 1, f"daemon:bare-{way}={bare.socket}",
                           f"daemon:loaded-{way}={loaded.socket}", label=f" crowded {way}")
        bench.row(f"acquire, {HOLDS:,} holds, {IDLE:,} idle peers, p50, {WAYS[way]}", "a daemon without them",
                  most(way, consumer="<= 1.3"), p50(sides[f"daemon:loaded-{way} lock"]), p50(sides[f"daemon:bare-{way} lock"]))
        busy = [(loaded.cpu(), cpu_of(bench.rabbit.pid))]
        time.sleep(KEEPALIVE_SECONDS)
        busy.append((loaded.cpu(), cpu_of(bench.rabbit.pid)))
        daemon, broker = (100 * (after - before) / KEEPALIVE_SECONDS for before, after in zip(*busy, strict=True))
        bench.alone(f"keepalive of {HOLDS:,} holds, heartbeat 10, {WAYS[way]}",
                    f"daemon {daemon:.1f} %, broker {broker:.1f} % of a core", most(way, consumer="daemon <= 2 %"),
                    daemon <= 2)
        bare.kill()
        loaded.kill()


def memory(bench):
    for way in bench.ways:
        sizes = []
        for kind, few, many in (("holds", 200, HOLDS - 200), ("idle", 500, IDLE - 500), ("waiters", 200, 1800)):
            daemon = bench.daemon(way)
            bench.crowd(daemon, **{kind: few})
            before = daemon.rss()
            bench.crowd(daemon, **{kind: many})
            sizes.append((daemon.rss() - before) / many)
            daemon.kill()
        bench.alone(f"RSS of a watched hold / idle peer / waiter, KiB, {WAYS[way]}",
                    " / ".join(f"{size:.1f}" for size in sizes), most(way, consumer="<= 4 / 2 / 2"),
                    all(map(operator.le, sizes, (4, 2, 2))))
        daemon = bench.daemon(way)
        peer = Wire(daemon)
        sizes, texts = [], []
        for wanted in (PAIRS_BEFORE, PAIRS):
            while (pairs := peer.call("info")["counts"]["released"]) < wanted:
                load("clients", 1, 2000, 64, f"daemon:{way}={daemon.socket}")
            sizes.append(daemon.rss())
            texts.append(f"{sizes[-1]} KiB after {pairs:,}")
        daemon.kill()
        # The allocator returns pages late.
        bench.alone(f"RSS over many pairs, {WAYS[way]}", ", ".join(texts), most(way, consumer="no growth"),
                    sizes[1] <= sizes[0] + RSS_SLACK)


def settings(bench):
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        model = re.search(r"model name\s*: (.*)", file.read())
    yield f"ROUNDS={ROUNDS} PAIRS={PAIRS}, load average {os.getloadavg()[0]:.1f} at the begin"
    yield f"{os.cpu_count()} processors ({model[1] if model else platform.machine()}), Linux {platform.release()}"
    yield output(program("lockbrokerd"), "--version").splitlines()[0]
    yield (f"RabbitMQ {version()}: one node, classic queues, no message is stored; Erlang's schedulers do not "
           f"busy-wait; file system {file_system(bench.rabbit.directory)}")
    for other in bench.others:
        name = other.partition("=")[0]
        yield {
            "redis": "Redis, no persistence (save \"\", appendonly no), by hiredis over TCP: "
                     + " ".join(output("redis-server", "--version").split()[:3]),
            "etcd:disk": f"etcd, fsync of its log, on {file_system(tempfile.gettempdir())}, its lock service (v3lock) "
                         "by gRPC's C core: " + output("etcd", "--version").splitlines()[0],
            "etcd:tmpfs": "etcd, the same on tmpfs, where an fsync costs nothing",
        }[name]


def main():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if hard != resource.RLIM_INFINITY and hard < IDLE + HOLDS:
        sys.exit(f"the limit of open files is {hard}, and {IDLE + HOLDS} are needed (was {soft})")
    began = time.monotonic()
    with Bench() as bench:
        bench.start()
        for line in settings(bench):
            bench.write("setting", line)
        for rows in (locks, clients, handoffs, slots, many_holds, delayed, crowded, memory, quorum_rows.quorum):
            if rows.__name__ in GROUPS or not GROUPS:
                bench.measure(rows)
        bench.write("setting", f"load average {os.getloadavg()[0]:.1f} at the end, after "
                               f"{(time.monotonic() - began) / 60:.0f} minutes")
    print(f"\n{tables.markdown([TSV])}")
    if bench.failed > 0:
        sys.exit(f"{bench.failed} groups of rows failed")


if __name__ == "__main__":
    main()
