"""Slots that are held by quorum, and policies of RabbitMQ 4.3 that delay each reject. No policy may apply to such slots. The
test tells what happens if one does: connections end again and again, so that holds die while a reject is delayed. Slots can
be held twice then, and fences grow all the same. `returned` harms nothing.

CLUSTER_ROUNDS: how often, with each policy."""

import json
import os
import random

import cluster
from contest import LONG, release
from quorum_field import CLOSE, GRACE, NODES, FieldCase
from rabbit import version
from wire import Wire, WireError

ROUNDS = int(os.environ.get("CLUSTER_ROUNDS", "12" if LONG else "1"))


class Delays(FieldCase):
    deadline = 200 + 60 * ROUNDS

    def rounds(self, **policy):
        words = {key.replace("_", "-"): value for key, value in policy.items()}
        self.nodes["n2"].ctl("set_policy", "delays", "^lockbroker=q=", json.dumps(words), "--apply-to", "queues")
        field = self.field
        seed = random.randrange(1 << 30)
        print(f"{words}, seed {seed}")
        dice = random.Random(seed)
        for name in NODES:
            field.add(name, 9)
        for _ in range(ROUNDS):
            field.watch(dice.uniform(GRACE / 2, 3 * GRACE / 2))
            believers = [one for one in field.clients if one.hold is not None and one.hold.stopped_at is None]
            if believers:
                # One stops in order, and those of one node die.
                dice.choice(believers).release()
                self.nodes[dice.choice(believers).at].eval(CLOSE)
            for client in field.clients[:]:
                if client.hold is not None and client not in believers:
                    client.wire.hang_up()
                    field.clients.remove(client)
                    field.add(client.at, 1)
        field.watch(2 * GRACE)
        print(f"  {len(field.holds)} holds, {sum(hold.lost_at is not None for hold in field.holds)} lost, "
              f"{sum(client.is_waiting for client in field.clients)} wait; refused {dict(field.refused)}")
        tries = Wire(self.daemons["n2"])
        try:
            tries.call("acquire", within=60, name="s", timeout=0)
        except WireError as error:
            print(f"  a client is told: {error.message}; {error.data}")
        tries.hang_up()
        self.nodes["n2"].ctl("clear_policy", "delays")
        print(f"  without the policy, each waiter gets a slot within {field.drain(120):.1f}")

    def test_delays(self):
        if release() < (4, 3):
            self.skipTest(f"RabbitMQ {version()} delays no rejects")
        self.start()
        failures = []
        for kind in "all", "failed", "returned":
            for least, most in (500, 500), (100, 1000):
                with self.subTest(kind=kind, most=most):
                    try:
                        self.rounds(delayed_retry_type=kind, delayed_retry_min=least, delayed_retry_max=most)
                    finally:
                        overlaps, fences = self.field.faults()
                        print("\n".join([f"  overlaps: {len(overlaps)}", *overlaps]))
                        failures += fences + (overlaps if kind == "returned" else [])
                        self.field.leave()
        self.assertFalse(failures, "\n".join(failures))


if __name__ == "__main__":
    cluster.main()
