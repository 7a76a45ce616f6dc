"""Holds by quorum that outlive their connection (rule 8 of docs/QUORUM.md). Each daemon knows all three nodes. A hold that
nobody else waits for goes on; one with waiters is kept if its daemon is back before them. In any case no slot is held twice,
and fences grow. docs/PROOF.md has the numbers.

CLUSTER_FAULTS names the faults; by default these are all, with CLUSTER_LONG, and otherwise the closed connections."""

import os

import cluster
from contest import LONG, NET_TICKTIME, OTHERS, TROUBLE, now, release
from quorum_field import CLOSE, NODES, OPTIONS, Field
from rabbit import version
from wire import Wire

# Slots with waiters, and as many without.
SLOTS = 25 if LONG else 6
FAULTS = ("closed", "reset", "stopped", "restarted", "rolling restart")
ROUNDS = os.environ.get("CLUSTER_FAULTS", ",".join(FAULTS) if LONG else "closed").split(",")
# Each queue has a majority without this node, as before a restart by hand.
IS_SPARE = "rabbit_upgrade_preparation:await_online_quorum_plus_one(60000)."


class Kept(cluster.TestCase):
    deadline = 240 + 150 * len(ROUNDS)

    def start(self):
        self.hosts = self.enterContext(cluster.Network())
        self.nodes = self.enterContext(cluster.Cluster(self.hosts, net_ticktime=NET_TICKTIME, khepri=True))
        self.daemons = {}
        for name in NODES:
            others = [other for other in NODES if other != name]
            self.daemons[name] = self.nodes.daemon(self, name, name, *others, options=OPTIONS,
                                                   expect=TROUBLE + ("quorum", "reclaim", "grace", "connection"))
            self.daemons[name].wait_broker()
        self.fields = {}
        for name in "alone", "awaited":
            Wire(self.daemons["n2"]).call("create", within=120, name=name, slots=SLOTS, claim="quorum")
            self.fields[name] = Field(name, self.daemons)
        print(f"RabbitMQ {version()}, {SLOTS} slots with waiters and {SLOTS} without, T 20")

    def observe(self, until, seconds, what=None):
        """Reads the clients of both semaphores."""
        end = now() + seconds
        while not until():
            if now() > end:
                self.assertIsNone(what, f"not within {seconds} s")
                return
            for field in self.fields.values():
                field.watch(0.05)

    def watch(self, seconds):
        self.observe(lambda: False, seconds)

    def is_up(self, name):
        asks = Wire(self.daemons[name])
        asked = asks.request("ping", broker=True)
        self.observe(lambda: asks.pump() or asks.replies, 60, "ping is answered")
        reply = asks.replies.popleft()
        self.assertEqual(reply["id"], asked)
        asks.hang_up()
        return reply.get("result", {}).get("broker", {}).get("state") == "up"

    def is_back(self, node):
        """The nodes and the daemons reach each other."""
        self.observe(lambda: all(self.is_up(name) for name in NODES), 60, "each daemon reaches a node")
        self.assertEqual(node.eval(IS_SPARE).strip(), "true")

    def restart(self, name, end):
        node = self.nodes[name]
        end(node)
        self.watch(1)
        node.start()
        self.is_back(node)
        # Clients hear of what has ended.
        self.watch(2)

    def begin(self, fault):
        node = self.nodes["n1"]
        if fault == "closed":
            for name in NODES:
                self.nodes[name].eval(CLOSE)
        elif fault == "reset":
            self.hosts.break_off(("n1",), OTHERS)
            self.watch(0.3)
            self.hosts.heal()
            for name in OTHERS:
                self.nodes.meets("n1", name)
        elif fault == "stopped":
            node.stop()
        elif fault == "restarted":
            self.restart("n1", lambda node: node.kill())
        elif fault == "rolling restart":
            for name in NODES:
                self.restart(name, lambda node: node.stop())
        # Longer than a lease.
        self.watch(20)
        if fault == "stopped":
            node.start()
        self.is_back(node)

    def round(self, fault):
        for field in self.fields.values():
            for at in range(SLOTS):
                field.add(NODES[at % 3], 1)
        self.observe(lambda: all(len(field.holds) == SLOTS for field in self.fields.values()), 120, "all slots are held")
        first = {name: field.holds[:] for name, field in self.fields.items()}
        for at in range(SLOTS):
            self.fields["awaited"].add(NODES[(at + 1) % 3], 1)
        self.watch(2)
        self.assertFalse([hold for holds in first.values() for hold in holds if hold.stopped_at is not None])
        began = now()
        self.begin(fault)
        print(f"{fault}: {now() - began:.0f} s")
        kept = {}
        for name, holds in first.items():
            kept[name] = [hold for hold in holds if hold.stopped_at is None]
            near = {at: sum(hold.at == at for hold in kept[name]) for at in NODES}
            print(f"  {name}: {len(kept[name])} of {SLOTS} kept, {near}; {len(self.fields[name].holds)} holds")
        overlaps = [one for field in self.fields.values() for found in field.faults() for one in found]
        self.assertFalse(overlaps, "\n".join(overlaps))
        self.assertEqual(len(kept["alone"]), SLOTS, "\n".join(map(str, first["alone"])))
        self.assertFalse([hold for hold in kept["alone"] if hold.safe_until < now()])

    def test_kept(self):
        if release() < (4, 0):
            self.skipTest("slots by quorum need RabbitMQ 4.0")
        self.start()
        for fault in ROUNDS:
            with self.subTest(fault):
                try:
                    self.round(fault)
                finally:
                    self.hosts.heal()
                    for field in self.fields.values():
                        field.leave()
                    self.watch(3)


if __name__ == "__main__":
    cluster.main()
