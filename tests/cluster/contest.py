"""Locks with a holder and a rival that ask different nodes; the times at which both are told something."""

import os
import select
import time

import cluster
from rabbit import version
from wait import wait_until
from wire import Wire, WireError

# Seconds after which a node that is not heard counts as dead, a quarter more or less.
NET_TICKTIME = 5
# A node that has noticed may still wait for an answer of a node that is away: 7 s each time (net_setuptime).
SLACK = 20
HEARTBEAT = 3
OPTIONS = ("--heartbeat", str(HEARTBEAT), "--rescan-interval", "0.5", "--request-timeout", "6", "--probe-timeout", "2",
           "--claim", "exclusive-queue")
# How a daemon may complain while it has no broker, or its broker has no majority.
TROUBLE = ("lock connection", "auxiliary connection", "lost", "lease", "broker", "this host", "waiter", "claim", "slot")
LONG = bool(os.environ.get("CLUSTER_LONG"))
ALONE, OTHERS = ("n1",), ("n2", "n3")


def now():
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def release():
    """Of RabbitMQ: (3, 10) and the like."""
    return tuple(int(part) for part in version().split(".")[:2])


def is_created(admin, **params):
    """False: a node that is back is not reached yet."""
    try:
        return admin.call("create", **params)
    except WireError as error:
        if error.reason != "broker-unavailable":
            raise
        return False


class Contest:
    """A holder behind one daemon, and a rival that waits behind another. home: the daemon whose node makes the slot
    queue, and keeps it, as it is a classic queue. None: a true mutex, which has no slot queue.

    claim="consumer": the slot is held by a consumer, and home's node keeps the holder queue as well. With kind="mutex"
    a client of home, a daemon with the same setting, makes the holder queue. near: a daemon at the holder's side of a
    partition, for one more rival."""

    def __init__(self, name, holder, rival, home=None, near=None, kind=None, claim="exclusive-queue"):
        self.name = name
        self.kind = kind or ("semaphore" if home else "mutex")
        self.params = {"name": name, "kind": self.kind}
        if home is not None:
            admin = Wire(home)
            if self.kind == "mutex":
                admin.call("release", lock=admin.call("acquire", timeout=10, **self.params)["lock"])
            else:
                wait_until(lambda: is_created(admin, name=name, slots=1, claim=claim), 60, f"{name} is created")
            admin.hang_up()
        self.holder, self.rival = Wire(holder), Wire(rival)
        self.peers = {"holder": self.holder, "rival": self.rival}
        if near is not None:
            self.peers["near"] = Wire(near)
        grant = self.holder.call("acquire", lease=True, timeout=10, **self.params)
        self.lock = grant["lock"]
        # From the sending of a question that is answered to the end of the lease.
        self.lease = 2 * grant["lease"]["heartbeat"] - grant["lease"]["margin"]
        self.safe_until = grant["safe_until"]
        self.rival_lock = None
        self.verifies = {}  # (peer, id): "holder" or "rival"
        self.said = {}  # the same: an error word, or "held"
        self.times = {}  # event: its time
        self.why = None  # in the daemon's words, if the holder has lost it
        for who, peer in self.peers.items():
            if who != "holder":
                self.wait(peer)
                peer.notification("waiting")

    def wait(self, peer=None):
        """The rival asks for the lock, again too."""
        (peer or self.rival).request("acquire", progress=True, **self.params)

    # ---- what is told ----

    def note(self, what):
        self.times.setdefault(what, now())

    def read(self):
        """Takes what all have been told by now."""
        for who, peer in self.peers.items():
            if peer.socket.fileno() < 0:
                continue
            if peer.rest or select.select([peer.socket], [], [], 0)[0]:
                peer.pump()
            while peer.notifications:
                note = peer.notifications.popleft()
                if note["method"] == "lease":
                    if who == "holder":
                        self.safe_until = max(self.safe_until, note["params"]["safe_until"])
                elif note["method"] in ("lost", "revoked", "suspect"):
                    self.note(f"{who} {note['method']}")
                    if (who, note["method"]) == ("holder", "lost"):
                        self.why = note["params"]["why"]
            while peer.replies:
                self.answer(who, peer, peer.replies.popleft())

    def answer(self, who, peer, reply):
        """A reply to a rival's acquire, or to a verify."""
        said = reply["error"]["data"]["reason"] if "error" in reply else "held"
        if (peer, reply["id"]) in self.verifies:
            self.said[self.verifies.pop((peer, reply["id"]))] = said
        elif said != "held":
            self.note(f"{who} {said}")
        elif who == "rival":
            self.note("granted")
            self.rival_lock = reply["result"]["lock"]
        else:
            self.note(f"{who} granted")

    def verify(self):
        """Both ask whether they hold it; `said` has the words when `verifies` is empty."""
        self.said = {}
        for peer, who, lock in (self.holder, "holder", self.lock), (self.rival, "rival", self.rival_lock):
            if lock is not None:
                self.verifies[peer, peer.request("verify", lock=lock)] = who

    def leave(self):
        for peer in self.peers.values():
            peer.hang_up()

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
        """For how many seconds two have believed that they hold it."""
        began = {"holder": 0, "rival": self.granted_at, "near": self.times.get("near granted")}
        spans = [(since, self.times.get(f"{who} lost", now())) for who, since in began.items() if since is not None]
        return max([0] + [min(one[1], other[1]) - max(one[0], other[0]) for one in spans for other in spans
                          if one is not other])

    def line(self, began):
        return f"{self.name:<40}" + "  ".join(f"{what} {when - began:5.1f}" for what, when in
                                            sorted(self.times.items(), key=lambda item: item[1]))


def observe(contests, until, seconds, what):
    """Reads all contests until that is so."""
    deadline = now() + seconds
    while True:
        for contest in contests:
            contest.read()
        if until():
            return
        if now() > deadline:
            told = "\n".join(contest.line(now()) for contest in contests)
            raise AssertionError(f"not within {seconds} s: {what}; seconds before now:\n{told}")
        sockets = [peer.socket for contest in contests for peer in contest.peers.values() if peer.socket.fileno() >= 0]
        select.select(sockets, [], [], 0.02)


class ContestCase(cluster.TestCase):
    """A cluster of three, and daemons at n1, which may be cut off, and at the others."""

    deadline = 300
    net_ticktime = NET_TICKTIME

    def start(self, **more):
        self.hosts = self.enterContext(cluster.Network())
        self.nodes = self.enterContext(cluster.Cluster(self.hosts, net_ticktime=self.net_ticktime, **more))
        settings = ", ".join(f"{key} {value}" for key, value in more.items())
        print(f"RabbitMQ {version()}, {settings or 'ignore'}, net_ticktime {self.net_ticktime}: "
              f"{self.id().split('.')[-1]}")

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
