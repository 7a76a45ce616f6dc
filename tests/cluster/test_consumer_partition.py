"""Partitions, and slots that are held by consumers: none is held twice. The lease of a hold ends before the node of its
holder queue frees the slot for others.

In each round n1 is cut off from n2 and n3, or from n2 alone, in both directions or in one. CLUSTER_CUTS names the
rounds; by default these are all, with CLUSTER_LONG, and otherwise the first."""

import os

import cluster
from consumers import LEASE, ConsumerCase
from contest import ALONE, LONG, OTHERS, SLACK, now, observe, release
from rabbit import version
from wire import Wire

# Between what a rival and a holder are told of one event.
AT_ONCE = 1.0
CUTS = "both hears-nothing is-not-heard one-link".split()
ROUNDS = os.environ.get("CLUSTER_CUTS", " ".join(CUTS if LONG else CUTS[:1])).split()


class Partitions(ConsumerCase):
    deadline = 120 + 120 * len(ROUNDS)

    def start(self, **more):
        if ("khepri" in more) != (release() >= (4, 3)) and not (3, 10) < release() < (4, 3):
            self.skipTest(f"RabbitMQ {version()} has no {'Khepri' if 'khepri' in more else 'Mnesia'}")
        super().start(**more)

    def cut(self, how):
        self.began = now()
        if how == "both":
            self.hosts.split(ALONE, OTHERS)
        elif how == "one-link":
            self.hosts.split(ALONE, ("n2",))
        for name in OTHERS:
            if how == "hears-nothing":
                self.hosts.cut(name, "n1")
            elif how == "is-not-heard":
                self.hosts.cut("n1", name)

    def rounds(self, whole, kept, one_link=AT_ONCE):
        """whole: RabbitMQ ends the partition by itself. kept: a holder keeps its lock if its holder queue is at its own
        node. one_link: seconds for which a lock may be held twice while one link alone is cut. The third node hears
        both sides then. It notices, and leaves one side at once, as after a reset."""
        for number, how in enumerate(ROUNDS):
            contests = self.contests(f"/{how}-{number}")
            self.cut(how)
            self.wait_noticed(contests)
            if how == "one-link":
                end = now() + 2 * LEASE
                observe(contests, lambda: now() > end, 60, "every lease that was not good has ended")
            self.show(how, contests)
            for why in {contest.why for contest in contests if contest.why}:
                print(f"  lost: {why}")
            overlap = one_link if how == "one-link" else 0
            self.judge(contests, overlap)
            for contest in contests:
                if contest.at != contest.home:
                    self.assertIsNotNone(contest.lost_at, contest.name)
                elif kept:
                    self.assertTrue(contest.is_held(), contest.name)
            self.heal(contests, overlap)
            for contest in contests:
                contest.leave()
            if not whole and number + 1 < len(ROUNDS):
                self.restart(*ALONE)

    def test_ignore(self):
        self.start()
        self.rounds(whole=False, kept=True)

    def test_pause_minority(self):
        """The minority stops, and its holders lose their locks. If one link alone is cut, one of both nodes stops. A
        node that stops can free slots for rivals at the third node before its connections end."""
        self.start(partition_handling="pause_minority")
        self.rounds(whole=True, kept=False, one_link=LEASE)

    def test_autoheal(self):
        """One side is restarted when the network has healed, and its holders lose their locks."""
        self.start(partition_handling="autoheal")
        self.rounds(whole=True, kept=False)

    def test_khepri(self):
        self.start(khepri=True)
        self.rounds(whole=True, kept=True)

    def test_mirrored(self):
        """A policy mirrors the queues, and the other side promotes a mirror of the holder queue: the slot is granted
        twice. The daemon cannot see policies. The test states the behaviour of today."""
        if release() >= (4, 0):
            self.skipTest(f"RabbitMQ {version()} has no mirrored queues")
        self.start()
        self.nodes["n1"].ctl("set_policy", "mirrors", ".*", '{"ha-mode":"all","ha-sync-mode":"automatic"}')
        contests = self.contests("/mirrored")
        self.cut("both")
        self.wait_noticed(contests)
        self.show("cut", contests)
        self.assertTrue(any(contest.is_granted_twice() for contest in contests))

    def test_unused_mutex(self):
        """Nothing is left of a mutex that no client used for a minute, so each side can make its holder queue. The test
        states the behaviour of today. Under Khepri the minority can make nothing."""
        khepri = release() >= (4, 3)
        self.start(**({"khepri": True} if khepri else {}))
        self.cut("both")
        self.wait_noticed([])
        sides = {daemon: Wire(daemon) for daemon in (self.daemons[0], self.daemons[2])}
        asked = {peer: peer.request("acquire", name="unused", kind="mutex", timeout=SLACK) for peer in sides.values()}
        said = {}

        def over():
            for peer, request in asked.items():
                peer.pump()
                for reply in peer.replies:
                    if reply["id"] == request:
                        said[peer] = reply["error"]["data"]["reason"] if "error" in reply else "held"
            return len(said) == len(sides)
        observe([], over, 2 * SLACK, "both sides are answered")
        minority, majority = (said[peer] for peer in sides.values())
        print(f"  unused mutex: minority {minority}, majority {majority}")
        self.assertEqual(majority, "held")
        self.assertEqual(minority == "held", not khepri)


if __name__ == "__main__":
    cluster.main()
