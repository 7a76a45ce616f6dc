"""Counts what a client costs the broker: AMQP methods and round trips for each acquire, verify and release of a free slot.
The sequence of seeds/000, by a literal client of it, is the measure.

A round trip is a method of the broker that is the first one after methods of the client. Several methods that are sent
together are thus one round trip.
"""

import queue
import struct
import time

from daemon import UNTESTED, Daemon
from driver import Client, command
from history import History
from proxy import Proxy
from wait import wait_until
from world import ALL_WAYS

ROUNDS = 20
OPERATIONS = {"acquire": "held", "verify": "verified", "release": "released"}
NAME = "efficiency"
METHOD = 1  # type of a frame
HEADER = 8  # bytes: "AMQP" and a version, which the client sends first
HEARTBEAT = 60  # the keepalives are rare
QUIET = 0.02  # seconds without a byte: an operation is over


class Count:
    """Of the connections of one proxy."""

    def __init__(self, proxy):
        self.sent = self.received = self.round_trips = 0
        self.asked = set()  # connections with a question on its way
        self.rest = {}  # (connection, end): bytes of a frame that is not complete
        self.changed = time.monotonic()
        proxy.heard = self.hear

    def hear(self, pair, end, data):
        """data has gone to that end."""
        self.changed = time.monotonic()
        if (pair, end) not in self.rest:
            data = data[HEADER:] if end == "server" else data
        data = self.rest.get((pair, end), b"") + data
        while len(data) >= 7 and len(data) >= 8 + (size := struct.unpack(">BHI", data[:7])[2]):
            if data[0] == METHOD:
                self.count(pair, end)
            data = data[8 + size:]
        self.rest[pair, end] = data

    def count(self, pair, end):
        if end == "server":
            self.sent += 1
            self.asked.add(pair)
        else:
            self.received += 1
            self.round_trips += pair in self.asked
            self.asked.discard(pair)

    def since(self, before=(0, 0, 0)):
        wait_until(lambda: time.monotonic() - self.changed > QUIET, 10)
        return tuple(now - then for now, then in zip((self.sent, self.received, self.round_trips), before))


def costs(count, argv):
    """{operation: (methods sent, methods received, round trips)} of this adapter, on average."""
    lines = queue.SimpleQueue()
    client = Client(History("/dev/null"), "efficiency", argv, heard=lines.put)

    def ask(answer, *words):
        client.ask(*words)
        while (line := lines.get(timeout=10))[0] != answer:
            assert line[0] in ("ready", "size", "lease", "releasing"), line

    sums = {operation: [0, 0, 0] for operation in OPERATIONS}
    client.create(NAME, 1)
    for ident in range(ROUNDS + 1):
        for operation, answer in OPERATIONS.items():
            before = count.since()
            ask(answer, operation, ident, *((NAME, "semaphore", 1000) if operation == "acquire" else ()))
            # The first round is not like the others: connections and channels are opened.
            if ident > 0:
                sums[operation] = [one + more for one, more in zip(sums[operation], count.since(before))]
    client.close()
    return {operation: tuple(one / ROUNDS for one in all_) for operation, all_ in sums.items()}


def measure(world):
    """Rows of the report. Nothing else uses the name."""
    node = world.nodes["n1"]
    proxy = Proxy(world, node.port, node.host.address)
    url = f"amqp://guest:guest@127.0.0.1:{proxy.port}"
    found = {}
    for way in ALL_WAYS:
        count = Count(proxy)
        daemon = Daemon(world, "--heartbeat", str(HEARTBEAT), "--claim", way, *UNTESTED, broker=url)
        daemon.wait_broker()
        found[f"lockbroker, {way}"] = costs(count, command("lockbroker", daemon.socket))
        world.ask("destroy", name=NAME)
        daemon.stop()
    found["seeds/000"] = costs(Count(proxy), command("seeds000", url))
    world.ask("destroy", name=NAME)
    yield "AMQP methods sent, methods received, round trips:"
    for who, rows in found.items():
        yield f"  {who}: " + ", ".join(f"{operation} {sent:.1f} {received:.1f} {trips:.1f}"
                                       for operation, (sent, received, trips) in rows.items())
