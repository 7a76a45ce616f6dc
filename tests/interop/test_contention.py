"""Two daemons with some peers each, and some clients of another make, all after the slots of one
semaphore, in both presets: never more holders than slots, never two of one slot (tests/harness/hammer.py).

INTEROP_SECONDS says how long in each preset (4); `make interop` makes it 30.
"""

import os
import time
import unittest

import tap
from daemon import Daemon
from foreign import Hammering
from hammer import SEED, Hammerer, most_at_once, overlaps, report
from rabbit import Rabbit
from wire import Wire, wait_until

SECONDS = float(os.environ.get("INTEROP_SECONDS", "4"))
SLOTS, PEERS, FOREIGNERS = 3, 6, 4
RABBIT = Rabbit()


def setUpModule():
    unittest.addModuleCleanup(RABBIT.close)
    RABBIT.start()


class Contention(unittest.TestCase):
    deadline = SECONDS + 120

    def contend(self, naming):
        name = f"hammer/{naming}"
        daemons = [Daemon(self, "--rescan-interval", "0.1", "--naming", naming, broker=RABBIT.url)
                   for _ in range(2)]
        for daemon in daemons:
            daemon.wait_broker()
        Wire(daemons[0]).call("create", name=name, slots=SLOTS)
        print(f"HAMMER_SEED={SEED}")
        others = [Hammering(self, RABBIT.url, naming, name, SECONDS, SEED + i)
                  for i in range(FOREIGNERS)]
        until = time.monotonic() + SECONDS
        peers = [Hammerer(daemon, name, SEED + FOREIGNERS + i, until)
                 for i in range(PEERS) for daemon in daemons]
        for one in others:
            one.go()
        for peer in peers:
            peer.start()
        for peer in peers:
            peer.join(SECONDS + 60)
            self.assertFalse(peer.is_alive(), "a peer hangs")
        self.assertEqual([peer.failure for peer in peers if peer.failure], [])
        self.judge(daemons, peers, [one.result() for one in others])
        wait_until(lambda: not self.holders(name), 20, "no B is left behind")

    def judge(self, daemons, peers, others):
        ours = [span for peer in peers for span in peer.spans]
        theirs = [span for one in others for span in one["spans"]]
        spans = ours + theirs
        vanished = sum(Wire(daemon).call("info")["counts"]["holder_queues_lost"] for daemon in daemons)
        report(peers, ours, vanished, SECONDS)
        print(f"the other clients: {[len(one['spans']) for one in others]} holds; refused "
              f"{[one['refused'] for one in others]}, hung up {[one['hung_up'] for one in others]}")
        print(f"{len(spans)} holds in all, at most {most_at_once(spans)} at once")
        wrong = [pair for slot in range(1, SLOTS + 1)
                 for pair in overlaps([span for span in spans if span[2] == slot])]
        self.assertEqual(wrong[:5], [])
        self.assertLessEqual(most_at_once(spans), SLOTS)
        self.assertEqual({span[2] for span in spans}, set(range(1, SLOTS + 1)))
        self.assertEqual([one["revoked"] for one in others], [0] * len(others))
        # Nobody took part without a grant: neither a daemon, nor a client.
        for i in range(len(daemons)):
            self.assertTrue(any(peer.spans for peer in peers[i::len(daemons)]), f"daemon {i}")
        for i, one in enumerate(others):
            self.assertTrue(one["spans"], f"client {i}")
        # And they met: somebody's hold was between two of somebody else's kind, again and again.
        foreign = set(theirs)
        order = [span in foreign for span in sorted(spans)]
        turns = sum(a != b for a, b in zip(order, order[1:]))
        print(f"{turns} times the one kind came after the other")
        self.assertGreater(turns, 10)

    def test_who_polls_gets_a_turn_beside_a_line(self):
        """One slot, and a daemon at which somebody waits at all times: it could be handed on for ever."""
        name, seconds = "line", min(SECONDS, 6)
        daemon = Daemon(self, "--rescan-interval", "0.1", broker=RABBIT.url)
        daemon.wait_broker()
        Wire(daemon).call("create", name=name)
        others = [Hammering(self, RABBIT.url, "amqp-locks", name, seconds, SEED + i) for i in range(2)]
        peers, waits, grants = [Wire(daemon) for _ in range(4)], {}, 0
        for peer in peers:
            waits[peer] = peer.request("acquire", name=name)
            peer.call("ping")
        until = time.monotonic() + seconds
        for one in others:
            one.go()
        while time.monotonic() < until:
            for peer in peers:
                peer.pump()
                if any(reply["id"] == waits[peer] for reply in peer.replies):
                    peer.request("release", lock=peer.answer(waits[peer])["lock"])
                    waits[peer] = peer.request("acquire", name=name)
                    grants += 1
        turns = [len(one.result()["spans"]) for one in others]
        print(f"{grants} grants at the daemon, {turns} to those who poll, in {seconds} s")
        self.assertTrue(all(turns) and grants)

    @staticmethod
    def holders(name):
        return [queue for queue in RABBIT.ctl("list_queues", "name", "exclusive").splitlines()
                if queue.startswith(name) and queue.endswith("true")]

    def test_amqp_locks(self):
        self.contend("amqp-locks")

    def test_amqp_locks_python(self):
        self.contend("amqp-locks-python")


if __name__ == "__main__":
    tap.main()
