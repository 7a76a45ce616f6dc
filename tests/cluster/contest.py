"""Locks with a holder and a rival that ask different nodes; the times at which both are told something."""

import os
import time

import cluster
from rabbit import version
from wait import wait_until
from wire import Wire

# Seconds after which a node that is not heard counts as dead, a quarter more or less.
NET_TICKTIME = 5
# A node that has noticed may still wait for an answer of a node that is away: 7 s each time (net_setuptime).
SLACK = 20
HEARTBEAT = 3
OPTIONS = ("--heartbeat", str(HEARTBEAT), "--rescan-interval", "0.5", "--request-timeout", "6", "--probe-timeout", "2")
# How a daemon may complain while it has no broker, or its broker has no majority.
TROUBLE = ("lock connection", "auxiliary connection", "lost", "lease", "broker", "this host", "waiter", "claim", "slot")
LONG = bool(os.environ.get("CLUSTER_LONG"))
ALONE, OTHERS = ("n1",), ("n2", "n3")


def now():
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def release():
    """Of RabbitMQ: (3, 10) and the like."""
    return tuple(int(part) for part in version().split(".")[:2])


class Contest:
    """A holder behind one daemon, and a rival that waits behind another. home: the daemon whose node makes the slot
    queue, and keeps it, as it is a classic queue. None: a true mutex, which has no slot queue."""

    def __init__(self, name, holder, rival, home=None):
        self.name = name
        self.params = {"name": name, "kind": "semaphore" if home else "mutex"}
        if home is not None:
            admin = Wire(home)
            admin.call("create", name=name, slots=1)
            admin.hang_up()
        self.holder, self.rival = Wire(holder), Wire(rival)
        grant = self.holder.call("acquire", lease=True, timeout=10, **self.params)
        self.lock = grant["lock"]
        # From the sending of a question that is answered to the end of the lease.
        self.lease = 2 * grant["lease"]["heartbeat"] - grant["lease"]["margin"]
        self.safe_until = grant["safe_until"]
        self.rival_lock = None
        self.verifies = {}  # (peer, id): "holder" or "rival"
        self.said = {}  # the same: an error word, or "held"
        self.times = {}  # event: its time
        self.wait()
        self.rival.notification("waiting")

    def wait(self):
        """The rival asks for the lock, again too."""
        self.rival.request("acquire", progress=True, **self.params)

    # ---- what is told ----

    def note(self, what):
        self.times.setdefault(what, now())

    def read(self):
        """Takes what both have been told by now."""
        for peer, who in (self.holder, "holder"), (self.rival, "rival"):
            if peer.socket.fileno() < 0:
                continue
            peer.pump()
            while peer.notifications:
                note = peer.notifications.popleft()
                if note["method"] == "lease":
                    self.safe_until = max(self.safe_until, note["params"]["safe_until"])
                elif note["method"] in ("lost", "revoked"):
                    self.note(f"{who} {note['method']}")
            while peer.replies:
                self.answer(peer, peer.replies.popleft())

    def answer(self, peer, reply):
        """A reply to the rival's acquire, or to a verify."""
        said = reply["error"]["data"]["reason"] if "error" in reply else "held"
        if (peer, reply["id"]) in self.verifies:
            self.said[self.verifies.pop((peer, reply["id"]))] = said
        elif said == "held":
            self.note("granted")
            self.rival_lock = reply["result"]["lock"]
        else:
            self.note("rival " + said)

    def verify(self):
        """Both ask whether they hold it; `said` has the words when `verifies` is empty."""
        self.said = {}
        for peer, who, lock in (self.holder, "holder", self.lock), (self.rival, "rival", self.rival_lock):
            if lock is not None:
                self.verifies[peer, peer.request("verify", lock=lock)] = who

    def leave(self):
        self.holder.hang_up()
        self.rival.hang_up()

    # ---- what it means ----

    @property
    def lost_at(self):
        return self.times.get("holder lost")

    @property
    def granted_at(self):
        return self.times.get("granted")

    def is_granted_twice(self):
        """The rival has it, and the holder's node has answered a question that was sent after that."""
        return self.granted_at is not None and self.lost_at is None and self.safe_until - self.lease > self.granted_at

    def is_held(self):
        """By the holder alone."""
        return not {"holder lost", "granted"} & set(self.times)

    def rival_was_refused(self):
        """Because its node does not know a slot queue of a node that is away."""
        return "rival no-such-lock" in self.times

    def is_ended(self):
        """The holder or the rival has been told that it has lost the lock."""
        return bool({"holder lost", "rival lost"} & set(self.times))

    def is_held_once(self):
        """It was granted twice, and one of both has been told."""
        return self.granted_at is not None and len({"holder lost", "rival lost"} & set(self.times)) == 1

    def overlap(self):
        """For how many seconds both have believed that they hold it."""
        if self.granted_at is None:
            return 0
        ended = min(self.times.get(f"{who} lost", now()) for who in ("holder", "rival"))
        return max(0, ended - self.granted_at)

    def line(self, began):
        return f"{self.name:<34}" + "  ".join(f"{what} {when - began:5.1f}" for what, when in
                                            sorted(self.times.items(), key=lambda item: item[1]))


def observe(contests, until, seconds, what):
    """Reads all contests until that is so."""
    def over():
        for contest in contests:
            contest.read()
        return until()
    try:
        wait_until(over, seconds, what)
    except AssertionError as error:
        told = "\n".join(contest.line(now()) for contest in contests)
        raise AssertionError(f"{error}; seconds before now:\n{told}") from None


class ContestCase(cluster.TestCase):
    """A cluster of three, and daemons at n1, which may be cut off, and at the others."""

    deadline = 300
    rounds = 0

    def start(self, **more):
        self.hosts = self.enterContext(cluster.Network())
        self.nodes = self.enterContext(cluster.Cluster(self.hosts, net_ticktime=NET_TICKTIME, **more))
        settings = ", ".join(f"{key} {value}" for key, value in more.items())
        print(f"RabbitMQ {version()}, {settings or 'ignore'}, net_ticktime {NET_TICKTIME}: {self.id().split('.')[-1]}")

    def daemon(self, host, *nodes, options=OPTIONS):
        daemon = self.nodes.daemon(self, host, *nodes, options=options, expect=TROUBLE)
        daemon.wait_broker()
        return daemon

    def verify(self, contests):
        for contest in contests:
            contest.verify()
        observe(contests, lambda: not any(contest.verifies for contest in contests), 30, "every verify is answered")

    def show(self, what, contests):
        print(f"{what}, seconds since it began:")
        for contest in contests:
            print("  " + contest.line(self.began))


class PartitionCase(ContestCase):
    """n1 is cut off from n2 and n3."""

    def start(self, **more):
        if "khepri" not in more and release() >= (4, 3):
            self.skipTest(f"RabbitMQ {version()} has no Mnesia")
        super().start(**more)
        self.alone = self.daemon("n1", "n1")
        self.others = self.daemon("n2", "n2")
        self.across = self.daemon("n1", "n2")
        self.third = self.daemon("n3", "n3")

    def split(self, left=ALONE, right=OTHERS):
        self.began = now()
        self.hosts.split(left, right)

    def heal(self, contests):
        self.show("cut", contests)
        self.healed = now()
        print(f"  healed {self.healed - self.began:.1f}")
        self.hosts.heal()

    def wait_whole(self):
        """Until the nodes have met again: n1 calls the others, or it may take 10 s more."""
        for name in OTHERS:
            wait_until(lambda: self.nodes.meets("n1", name), 60, f"n1 sees {name}")

    def wait_decided(self, contests):
        """Until each of them was granted twice; and so long that each node has noticed, whatever was granted."""
        noticed = self.began + 2 * NET_TICKTIME
        observe(contests, lambda: now() > noticed and all(contest.is_granted_twice() for contest in contests),
                2 * NET_TICKTIME + SLACK, "the rival has what the holder has")

    def judge_granted_twice(self, contests):
        """Not before a node could notice, and the holder is not told."""
        for contest in contests:
            self.assertGreater(contest.granted_at - self.began, NET_TICKTIME * 3 / 4, contest.name)
            self.assertLess(contest.granted_at - self.began, NET_TICKTIME * 5 / 4 + SLACK, contest.name)
            self.assertTrue(contest.is_granted_twice(), contest.name)
            contest.verify()
