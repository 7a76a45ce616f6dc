"""Many clients acquire the slots of one semaphore, and their reports are checked.

Each client reads CLOCK_MONOTONIC after its grant and before it releases or hangs up. Each reported span therefore lies
within the hold. Two spans of one slot that overlap are two holders of one lock. So are more spans at once than slots. By quorum, each span of a slot has a larger fence than the one before.
Some clients hang up during their acquire. A slot that such an acquire got must become free again.
"""

import os
import random
import threading
import time

from wire import Wire, WireError

SECONDS = float(os.environ.get("HAMMER_SECONDS", "6"))
SEED = int(os.environ.get("HAMMER_SEED", "0")) or random.randrange(1, 1 << 32)

# Refusals of an acquire that say no more than that others have the slots.
USUAL = ("would-block", "timeout", "contended")


class Hammerer(threading.Thread):
    """One client: connects anew whenever it has hung up."""

    def __init__(self, daemon, name, seed, until, kind="semaphore"):
        super().__init__(daemon=True)
        self.path = daemon.socket
        self.wanted = {"name": name, "kind": kind}
        self.random = random.Random(seed)
        self.until = until
        self.spans = []  # (from, to, slot, fence); a mutex is slot 1
        self.refused = {}
        self.hung_up_holding = self.hung_up_asking = self.lost = 0
        self.failure = None

    def run(self):
        try:
            while time.monotonic() < self.until:
                peer = Wire(self.path)
                try:
                    while time.monotonic() < self.until and self.round(peer):
                        pass
                finally:
                    peer.hang_up()
        except Exception as error:  # pylint: disable=broad-except
            self.failure = f"{type(error).__name__}: {error}"

    def round(self, peer):
        """One try; False when it ended by hanging up."""
        asked = peer.request("acquire", **self.wanted, timeout=self.random.choice((0, 0.1, 0.5, 2)))
        if self.random.random() < 0.1:
            time.sleep(self.random.random() * 0.005)
            self.hung_up_asking += 1
            return False
        try:
            grant = peer.answer(asked)
        except WireError as error:
            what = error.reason if error.reason in USUAL else str(error)
            self.refused[what] = self.refused.get(what, 0) + 1
            return True
        began = time.monotonic()
        time.sleep(self.random.random() * 0.004)
        if self.random.random() < 0.2:
            try:
                peer.call("verify", lock=grant["lock"])
            except WireError as error:
                if error.reason not in ("lost", "not-held"):
                    raise
                self.lost += 1
                return True
        peer.pump()
        if any(note["method"] == "lost" and note["params"]["lock"] == grant["lock"]
               for note in peer.notifications):
            self.lost += 1
            return True
        self.spans.append((began, time.monotonic(), grant["slot"] or 1, grant["fence"]))
        if self.random.random() < 0.2:
            self.hung_up_holding += 1
            return False
        peer.call("release", lock=grant["lock"])
        return True


def most_at_once(spans):
    """How many spans overlap at the worst moment."""
    events = sorted([(began, 1) for began, *_ in spans] + [(ended, -1) for _, ended, *_ in spans])
    now = most = 0
    for _, step in events:
        now += step
        most = max(most, now)
    return most


def overlaps(spans):
    """Neighbours in time, in one slot, that overlap."""
    ordered = sorted(spans)
    return [(a, b) for a, b in zip(ordered, ordered[1:]) if b[0] < a[1]]


def fences_that_fall(spans):
    """Neighbours in time, in one slot. The second one has no larger fence."""
    ordered = sorted(spans)
    return [(a, b) for a, b in zip(ordered, ordered[1:]) if not b[3] > a[3]]


def hammer(test, daemons, name, slots, peers_each, seconds, kind="semaphore", fenced=False):
    """Runs the clients, and fails the test if their observations are impossible."""
    print(f"HAMMER_SEED={SEED}")
    until = time.monotonic() + seconds
    peers = [Hammerer(daemon, name, SEED + i, until, kind)
             for i in range(peers_each) for daemon in daemons]
    for peer in peers:
        peer.start()
    for peer in peers:
        peer.join(seconds + 60)
        test.assertFalse(peer.is_alive(), "a client hangs")
    test.assertEqual([peer.failure for peer in peers if peer.failure], [])

    vanished = sum(Wire(daemon).call("info")["counts"]["holder_queues_lost"] for daemon in daemons)
    spans = [span for peer in peers for span in peer.spans]
    report(peers, spans, vanished, seconds)
    by_slot = [[span for span in spans if span[2] == slot] for slot in range(1, slots + 1)]
    wrong = [pair for its in by_slot for pair in overlaps(its)]
    # An old server deletes by name (daemon/broker/broker.h). Violations by that are counted apart.
    test.assertLessEqual(len(wrong), vanished, wrong[:5])
    if not vanished:
        test.assertLessEqual(most_at_once(spans), slots)
    test.assertEqual({span[2] for span in spans}, set(range(1, slots + 1)))
    if fenced:
        test.assertEqual([pair for its in by_slot for pair in fences_that_fall(its)], [])
    else:
        test.assertEqual({span[3] for span in spans}, {None})
    for i, daemon in enumerate(daemons):
        test.assertTrue(any(peer.spans for peer in peers[i::len(daemons)]),
                        f"daemon {i} never granted a slot\n{daemon.log()}")


def report(peers, spans, vanished, seconds):
    refused = {}
    for peer in peers:
        for reason, count in peer.refused.items():
            refused[reason] = refused.get(reason, 0) + count
    print(f"{len(spans)} holds in {seconds} s, at most {most_at_once(spans)} at once; "
          f"refused: {refused}")
    print(f"hung up holding {sum(p.hung_up_holding for p in peers)}, "
          f"asking {sum(p.hung_up_asking for p in peers)}; "
          f"lost {sum(p.lost for p in peers)}; holder_queues_lost {vanished}")
