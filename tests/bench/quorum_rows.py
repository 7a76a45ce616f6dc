"""The rows of bench_table.py about slots that are held by quorum. `beads` is their work without a daemon (quorum.c).

Rounds are short and many, so that other work on the machine meets both halves of a ratio.
"""

import os
import statistics
import subprocess
import time

from daemon import clean_environment, program
from measure import cpu_of, p50, per_second, plus
from wait import wait_until
from wire import Wire

HOLDS = 500
SECONDS = 20
AT_ONCE = 32
CPU = 0


def quorum(bench):
    here, there = bench.here["queue"], bench.there["queue"]
    beads = f"beads={bench.rabbit.url},{here.socket}"
    pairs(bench, here, beads)
    hand_offs(bench, here, there, beads)
    clients(bench, here, beads)
    renewals(bench, here)


def pairs(bench, here, beads):
    mine = f"daemon:quorum={here.socket}"
    # Alone: the service behind another one that does not use RabbitMQ would find that cold.
    sides = bench.load("locks", 50, 1, mine, beads, "echo", rounds=8 * bench.rounds, label=" quorum")
    for what, part, theirs in (("acquire of a clean slot, p50", "lock", "open, qos, consume, three deliveries, flip"),
                               ("release, p50", "unlock", "flip")):
        echo = p50(sides[f"echo {part}"])
        bench.row(f"{what}, quorum", f"raw {theirs}, two echoes", "<= 1.2", p50(sides[f"daemon:quorum {part}"]),
                  plus(p50(sides[f"beads {part}"]), echo, echo))
    sides = bench.load("locks", 100, 1, mine, f"daemon:queue={here.socket}", *bench.others, label=" quorum beside others")
    for other in ["daemon:queue", *(other.partition("=")[0] for other in bench.others)]:
        bench.row("acquire + release, quorum", f"{other}, the same", "", p50(sides["daemon:quorum pair"]),
                  p50(sides[f"{other} pair"]))


def hand_offs(bench, here, there, beads):
    sides = bench.load("handoff", 6, 1, "rest=20", f"daemon:quorum={here.socket},{there.socket}", beads, "echo",
                       rounds=8 * bench.rounds, label=" quorum, between daemons")
    bench.row("hand-off between daemons, p50, quorum", "raw release, hint, claim, one echo", "<= 1.3",
              p50(sides["daemon:quorum"]), plus(p50(sides["beads"]), p50(sides["echo"])))
    os.sched_setaffinity(here.pid, {CPU})
    sides = bench.load("handoff", 10, 1, f"cpu={CPU}", f"daemon:quorum={here.socket}", f"daemon:queue={here.socket}",
                       rounds=20 * bench.rounds, label=" quorum, within a daemon")
    os.sched_setaffinity(here.pid, os.sched_getaffinity(0))
    bench.row("hand-off within a daemon, p50, quorum", "the same by exclusive queue", "<= 1.1", p50(sides["daemon:quorum"]),
              p50(sides["daemon:queue"]))


def clients(bench, here, beads):
    sides = bench.load("clients", 600, 64, f"daemon:quorum={here.socket}", beads, rounds=4 * bench.rounds, label=" quorum")
    bench.row("pairs per second, 64 clients of 64 names, quorum", "raw over 64 channels (1/s)", ">= 0.7",
              per_second(sides["daemon:quorum"]), per_second(sides["beads"]))


def busy(*pids):
    """ms of processor time a second, of each process."""
    before = [cpu_of(pid) for pid in pids]
    time.sleep(SECONDS)
    return [1e3 * (cpu_of(pid) - ms) / SECONDS for pid, ms in zip(pids, before, strict=True)]


def renewals(bench, here):
    """In turn: nobody holds the slots, clients of the daemon hold them, and load holds them without a daemon."""
    admin, idle, ours, raw, daemon = Wire(here), [], [], [], []
    admin.call("create", within=300, name="renewals", slots=HOLDS, claim="quorum", takeover_grace=20)
    for _ in range(bench.rounds):
        idle += busy(bench.rabbit.pid)
        peer = Wire(here)
        for first in range(0, HOLDS, AT_ONCE):
            asked = [peer.request("acquire", name="renewals") for _ in range(min(AT_ONCE, HOLDS - first))]
            grants = [peer.answer(request) for request in asked]
        broker, mine = busy(bench.rabbit.pid, here.pid)
        ours.append(broker)
        daemon.append(mine)
        peer.hang_up()
        wait_until(lambda: admin.call("info")["counts"]["holds"] == 0, what="all slots are free")
        renewal = str(round(1e3 * grants[0]["lease"]["renewal"]))
        with subprocess.Popen([program("tests/bench/load"), "beads", bench.rabbit.url, "renewals", str(HOLDS), renewal],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=clean_environment()) as load:
            load.stdout.readline()
            raw += busy(bench.rabbit.pid)
            load.stdin.close()
    bench.row(f"{HOLDS} holds renewed, quorum: processor time of the broker", "the same renewals raw (ms/s)", "<= 1.1",
              ours, raw)
    percent = statistics.median(daemon) / 10
    bench.alone(f"{HOLDS} holds renewed, quorum: processor time of the daemon", f"{percent:.1f} % of a core", "<= 2 %",
                percent <= 2)
    bench.alone(f"{HOLDS} slots, quorum, that nobody holds: processor time of the broker",
                f"{statistics.median(idle) / 10:.1f} % of a core", "", True)
