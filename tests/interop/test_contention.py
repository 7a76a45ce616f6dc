"""Two daemons with some clients each, and some clients of another make, acquire the slots of one semaphore, in both
presets. There are never more holders than slots, and never two of one slot (tests/harness/hammer.py). The clients of
another make know exclusive queues alone. Slots are held in each way, or converted meanwhile. By consumer and by quorum,
no slot looks free to the clients of another make.

INTEROP_SECONDS says how long in each preset (4), and twice as long as the other tests; `make interop` makes it 30.
"""

import itertools
import os
import time
import unittest

import tap
from daemon import BY_QUORUM, UNTESTED, Daemon
from foreign import Foreign, Hammering
from hammer import SEED, Hammerer, fences_that_fall, most_at_once, overlaps, report
from rabbit import Rabbit
from wire import Wire, wait_until

SECONDS = float(os.environ.get("INTEROP_SECONDS", "4"))
SLOTS, PEERS, FOREIGNERS = 3, 6, 4
TURNS = 30  # holds between two conversions
UNTIL_TOLD = 300
ROUNDS_MOST = 6
# Clients of both presets, which ask in both manners.
STRANGERS = [(naming, probes) for naming in ("amqp-locks", "amqp-locks-python") for probes in ("publish", "passive")]
TRIES = 16
RABBIT = Rabbit.lease()

setUpModule = RABBIT.serve_module


class Contention(unittest.TestCase):
    deadline = SECONDS + UNTIL_TOLD

    def setUp(self):
        self.numbers = itertools.count()

    def start(self, naming, bold=False, at_most=SECONDS, peers=PEERS, others=None, **made):
        """Two daemons and a semaphore, and all clients, which hammer it from now on. others: those of another make."""
        self.name = f"{self.id().rpartition('.')[2]}/{naming}/{next(self.numbers)}"
        self.daemons = [Daemon(self, *UNTESTED, "--rescan-interval", "0.1", "--naming", naming, broker=RABBIT.url)
                        for _ in range(2)]
        for daemon in self.daemons:
            daemon.wait_broker()
        self.admin = Wire(self.daemons[0])
        self.admin.call("create", name=self.name, slots=SLOTS, **made)
        print(f"HAMMER_SEED={SEED}")
        self.others = [Hammering(self, RABBIT.url, preset, self.name, at_most, SEED + i, bold and i % 2, probes)
                       for i, (preset, probes) in enumerate(others or [(naming, "publish")] * FOREIGNERS)]
        self.peers = [Hammerer(daemon, self.name, SEED + FOREIGNERS + i, time.monotonic() + at_most)
                      for i in range(peers) for daemon in self.daemons]
        self.began = time.monotonic()
        for one in self.others + self.peers:
            one.start()

    def finish(self):
        """Waits for all, and judges the holds of both kinds: ours, theirs."""
        for peer in self.peers:
            peer.join(SECONDS + 60)
            self.assertFalse(peer.is_alive(), "a client hangs")
        self.assertEqual([peer.failure for peer in self.peers if peer.failure], [])
        others = [one.result() for one in self.others]
        ours = [span for peer in self.peers for span in peer.spans]
        theirs = [span for one in others for span in one["spans"]]
        spans = ours + theirs
        vanished = sum(Wire(daemon).call("info")["counts"]["holder_queues_lost"] for daemon in self.daemons)
        report(self.peers, ours, vanished, round(time.monotonic() - self.began, 1))
        print(f"the other clients: {[len(one['spans']) for one in others]} holds; refused "
              f"{[one['refused'] for one in others]}, hung up {[one['hung_up'] for one in others]}")
        print(f"{len(spans)} holds in all, at most {most_at_once(spans)} at once")
        wrong = [pair for slot in range(1, SLOTS + 1)
                 for pair in overlaps([span for span in spans if span[2] == slot])]
        self.assertEqual(wrong[:5], [])
        self.assertLessEqual(most_at_once(spans), SLOTS)
        self.assertEqual({span[2] for span in spans}, set(range(1, SLOTS + 1)))
        self.assertEqual([one["revoked"] for one in others], [0] * len(others))
        for i in range(len(self.daemons)):
            self.assertTrue(any(peer.spans for peer in self.peers[i::len(self.daemons)]), f"daemon {i}")
        wait_until(lambda: not [queue for queue in RABBIT.holders()
                                if queue.startswith((f"{self.name}-", f"lockbroker=q={self.name}=")) and not queue.endswith("-W")],
                   what="no slot is held")
        return ours, theirs, others

    def contend(self, naming):
        """Everybody uses exclusive queues. On a busy machine the other clients ask seldom, and get few turns in a round."""
        turns, idle = 0, set(range(FOREIGNERS))
        for _ in range(ROUNDS_MOST):
            self.start(naming, claim="exclusive-queue", at_most=2 * SECONDS)
            ours, theirs, others = self.finish()
            idle -= {i for i, one in enumerate(others) if one["spans"]}
            foreign = set(theirs)
            order = [span in foreign for span in sorted(ours + theirs)]
            turns += sum(a != b for a, b in zip(order, order[1:]))
            print(f"{turns} times the one kind came after the other")
            # Each client got a grant, and they met: holds of the two kinds alternated again and again.
            if not idle and turns > 10:
                return
        self.fail(f"clients without a grant: {idle}")

    def keep_out(self):
        """To the other clients each slot is busy, with a probe and without."""
        ours, theirs, others = self.finish()
        self.assertEqual(theirs, [])
        for i, one in enumerate(others):
            self.assertGreater(one["refused"], 0, f"client {i}")
        return ours

    def convert(self, naming, began, way):
        """To the other way and back, until the time is over, and once at least; all have some turns in each."""
        # A slot is converted when it is free, and a daemon hands it off as long as somebody waits there.
        self.start(naming, claim=began, bold=True, at_most=UNTIL_TOLD, peers=SLOTS)
        took = {}
        until = time.monotonic() + SECONDS / 2
        while time.monotonic() < until or len(took) < 2:
            asked = time.monotonic()
            report = self.admin.call("fsck", within=UNTIL_TOLD, name=self.name, repair=True, convert=way, wait=120)
            took.setdefault(way, []).append(time.monotonic() - asked)
            self.assertEqual((report["claim"], report["converted"]), (way, SLOTS), report)
            self.use_slots()
            way, began = began, way
        for way, seconds in took.items():
            print(f"{len(seconds)} conversions to {way}, the longest took {max(seconds):.3f} s")
        self.stop()
        self.finish()

    def stop(self):
        """finish() then ends the other clients, too."""
        for peer in self.peers:
            peer.until = 0

    def use_slots(self):
        before = self.holds()
        wait_until(lambda: self.holds() > before + TURNS, what="the slots are used")

    def holds(self):
        return sum(len(peer.spans) for peer in self.peers)

    def test_a_poller_gets_a_turn_beside_a_local_queue(self):
        """One slot, and a daemon that always has a waiter: the daemon could hand the slot off for ever."""
        name, seconds = "line", 6  # on a busy machine a poller has few chances in a second
        daemon = Daemon(self, "--rescan-interval", "0.1", broker=RABBIT.url)
        daemon.wait_broker()
        Wire(daemon).call("create", name=name, claim="exclusive-queue")
        others = [Hammering(self, RABBIT.url, "amqp-locks", name, seconds, SEED + i) for i in range(2)]
        peers, waits, grants = [Wire(daemon) for _ in range(4)], {}, 0
        for peer in peers:
            waits[peer] = peer.request("acquire", name=name)
            peer.call("ping")
        until = time.monotonic() + seconds
        for one in others:
            one.start()
        while time.monotonic() < until:
            for peer in peers:
                peer.pump()
                if any(reply["id"] == waits[peer] for reply in peer.replies):
                    peer.request("release", lock=peer.answer(waits[peer])["lock"])
                    waits[peer] = peer.request("acquire", name=name)
                    grants += 1
        turns = [len(one.result()["spans"]) for one in others]
        print(f"{grants} grants at the daemon, {turns} to pollers, in {seconds} s")
        self.assertTrue(all(turns) and grants)

    def test_amqp_locks(self):
        self.contend("amqp-locks")

    def test_amqp_locks_python(self):
        self.contend("amqp-locks-python")

    def test_slots_held_by_consumers(self):
        self.start("amqp-locks", claim="consumer", bold=True, at_most=SECONDS / 2)
        self.keep_out()

    def keep_out_of_quorum(self):
        """There is no A, and a gate stands in its place. Fences grow."""
        ours = self.keep_out()
        for slot in range(1, SLOTS + 1):
            self.assertEqual(fences_that_fall([span for span in ours if span[2] == slot]), [])
        self.assertEqual(sorted(queue for queue in RABBIT.queues() if self.name in queue and not queue.endswith("-W")),
                         [f"lockbroker=q={self.name}={slot}" for slot in range(1, SLOTS + 1)] + [f"{self.name}-G"])

    def test_slots_held_by_quorum(self):
        self.start("amqp-locks", bold=True, at_most=SECONDS, others=STRANGERS * 2, **BY_QUORUM)
        self.keep_out_of_quorum()

    def test_slots_held_by_quorum_during_an_alarm(self):
        """Clients that ask without a publish go on meanwhile. The others wait for its end."""
        self.start("amqp-locks", bold=True, at_most=UNTIL_TOLD, others=STRANGERS, **BY_QUORUM)
        for daemon in self.daemons:
            daemon.expect("the broker accepts no messages")
        self.use_slots()
        strangers = [Foreign(self, RABBIT.url, naming, "passive") for naming in ("amqp-locks", "amqp-locks-python")]
        off = "set_vm_memory_high_watermark", "0.4"
        self.addCleanup(RABBIT.perform, *off)
        RABBIT.perform("set_vm_memory_high_watermark", "0.0000001")
        wait_until(lambda: self.admin.call("info")["broker"]["auxiliary"]["blocked"], what="the alarm")
        for stranger in strangers:
            self.assertEqual([stranger.acquire(name=self.name) for _ in range(TRIES)], [None] * TRIES)
            self.assertEqual([stranger.acquire_boldly(name=self.name, slot=1 + i % SLOTS) for i in range(TRIES)],
                             [None] * TRIES)
        self.use_slots()
        RABBIT.perform(*off)
        self.use_slots()
        self.stop()
        self.keep_out_of_quorum()

    def test_conversion(self):
        self.convert("amqp-locks-python", "consumer", "exclusive-queue")


if __name__ == "__main__":
    tap.main()
