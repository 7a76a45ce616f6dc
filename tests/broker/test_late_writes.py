"""Late writes of paused holders, which a store refuses by their fences (docs/FENCING.md), over a real RabbitMQ.

A process holds slots by quorum, and has written once for each of them. It is stopped, and so is or dies its daemon. When
the next holder of each slot has written, the process goes on and writes once more for each. The store is SQLite, with the
check of the document. All numbers are of real grants. Beside it is a table without the check, which loses updates.

LATE_WRITES says how many late writes there are (200); `make late-writes` makes it 10,000.
"""

import os
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import tap
from daemon import BY_QUORUM, UNTESTED, Daemon
from proxy import Proxy
from rabbit import Rabbit
from wait import wait_until
from wire import Wire

LATE_WRITES = int(os.environ.get("LATE_WRITES", "200"))
SLOTS = min(500, LATE_WRITES // 2)
AT_ONCE = 25  # requests of a connection
NAME = "report"
TROUBLE = ("lost", "lease", "connection", "broker")
RABBIT = Rabbit.lease()

setUpModule = RABBIT.serve_module


class Store:
    """A counter for each slot in two tables. One of them has the check."""

    DOCUMENT = (Path(__file__).resolve().parents[2] / "docs/FENCING.md").read_text(encoding="utf-8")
    TABLE, CHECK = re.findall(r"(?ms)^```sql\n(.*?)^```$", DOCUMENT)
    COUNTERS = "checked", "unchecked"

    def __init__(self, path):
        self.db = sqlite3.connect(path, timeout=60, isolation_level=None)
        self.db.execute("PRAGMA synchronous = OFF")

    def make(self):
        self.db.execute(self.TABLE)
        for counter in self.COUNTERS:
            self.db.execute(f"CREATE TABLE {counter} (slot INTEGER PRIMARY KEY, value INTEGER NOT NULL)")
            self.db.executemany(f"INSERT INTO {counter} VALUES (?, 0)", [(slot,) for slot in range(1, SLOTS + 1)])

    def perform(self, grant, statement, words):
        """The result of a statement of this holder. None: it is refused."""
        self.db.execute("BEGIN IMMEDIATE")
        try:
            if "unchecked" not in statement:
                self.db.execute(self.CHECK, {"lock_name": NAME, "slot": grant["slot"], "fence": grant["fence"]})
            got = self.db.execute(statement, words).fetchall()
        except sqlite3.IntegrityError:
            self.db.execute("ROLLBACK")
            return None
        self.db.execute("COMMIT")
        return got

    def read(self, grant):
        """{counter: value} for the next write."""
        return {counter: self.perform(grant, f"SELECT value FROM {counter} WHERE slot = ?", (grant["slot"],))[0][0]
                for counter in self.COUNTERS}

    def write(self, grant, values):
        """The counters that take a value, one more than that which was read before."""
        return [counter for counter in self.COUNTERS
                if self.perform(grant, f"UPDATE {counter} SET value = ? WHERE slot = ?",
                                (values[counter] + 1, grant["slot"])) is not None]

    def total(self, counter):
        return self.db.execute(f"SELECT sum(value) FROM {counter}").fetchone()[0]


def acquire_all(wires):
    """Sends an acquire for each slot; the answers are still to be read."""
    return [(wire, wire.request("acquire", name=NAME, timeout=None))
            for number in range(SLOTS) for wire in (wires[number // AT_ONCE],)]


def wires_of(daemon):
    return [Wire(daemon) for _ in range(0, SLOTS, AT_ONCE)]


def hold(path, store):
    """The process that is paused: writes once for each slot, reads for its next write, and is then told to go on."""
    held = [wire.answer(request) for wire, request in acquire_all(wires_of(path))]
    for grant in held:
        assert store.write(grant, store.read(grant)) == list(store.COUNTERS)
    read = [store.read(grant) for grant in held]
    print("ready", flush=True)
    sys.stdin.readline()
    taken = [counter for grant, values in zip(held, read) for counter in store.write(grant, values)]
    print(*(taken.count(counter) for counter in store.COUNTERS), flush=True)


class LateWrites(unittest.TestCase):
    deadline = 200 + LATE_WRITES / 5

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="lb-late-")
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "db")
        self.store = Store(self.path)
        self.addCleanup(self.store.db.close)
        self.store.make()
        self.there = self.daemon(RABBIT.url)
        self.wires = wires_of(self.there)
        self.wires[0].call("create", within=300, name=NAME, slots=SLOTS, **BY_QUORUM)

    def daemon(self, url):
        daemon = Daemon(self, *UNTESTED, "--rescan-interval", "0.5", broker=url, expect=TROUBLE)
        daemon.wait_broker()
        return daemon

    def holder(self, daemon):
        process = subprocess.Popen([sys.executable, __file__, "hold", daemon.socket, self.path], text=True,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(lambda: [stream.close() for stream in (process.stdin, process.stdout)])
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.assertEqual(process.stdout.readline(), "ready\n")
        return process

    def late_round(self, suspended):
        """suspended: as the whole host of the holder. Otherwise its daemon is killed. Returns the numbers of late writes that
        the counters take."""
        proxy = Proxy(self, RABBIT.port)
        here = self.daemon(RABBIT.url_at(proxy.port))
        late = self.holder(here)
        asked = acquire_all(self.wires)
        late.send_signal(signal.SIGSTOP)
        if suspended:
            here.freeze()
            proxy.end("server")
        else:
            here.kill()
        grants = [wire.answer(request, 120) for wire, request in asked]
        self.assertEqual(sorted(grant["slot"] for grant in grants), list(range(1, SLOTS + 1)))
        for grant in grants:
            self.assertEqual(self.store.write(grant, self.store.read(grant)), list(self.store.COUNTERS))
        late.send_signal(signal.SIGCONT)
        print("go on", file=late.stdin, flush=True)
        taken = [int(count) for count in late.stdout.readline().split()]
        self.assertEqual(late.wait(60), 0)
        for grant in grants:  # once more, after the late one
            self.assertEqual(self.store.write(grant, self.store.read(grant)), list(self.store.COUNTERS))
        for wire, grant in zip([wire for wire, _ in asked], grants):
            wire.call("release", lock=grant["lock"])
        if suspended:
            here.kill()
        wait_until(lambda: not RABBIT.slots_held(), what="all slots are free")
        return taken

    def test_all_are_refused(self):
        rounds = max(2, LATE_WRITES // SLOTS)
        taken = [self.late_round(suspended=bool(number % 2)) for number in range(rounds)]
        sent = rounds * SLOTS
        for counter, late, least in zip(Store.COUNTERS, map(sum, zip(*taken)), (0, sent)):
            # Besides the late ones, three writes of each slot in each round.
            lost = 3 * sent + late - self.store.total(counter)
            print(f"{counter}: {sent - late} of {sent} late writes are refused, and {lost} updates are lost")
            self.assertEqual((late, lost), (least, least), counter)


if __name__ == "__main__":
    if sys.argv[1:2] == ["hold"]:
        hold(sys.argv[2], Store(sys.argv[3]))
    else:
        tap.main()
