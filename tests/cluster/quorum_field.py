"""Clients that hold the slots of one semaphore by quorum, or wait for one. They are behind daemons of different nodes. The
field records the beliefs of each of them.

A holder believes in its hold until its newest safe_until, or until it sends its release. It does so if it hears of a loss,
too, or of nothing any more. All times are of one clock, which is also the daemons' own."""

import collections
import select

import cluster
from contest import NET_TICKTIME, TROUBLE, now, release
from rabbit import version
from wire import Closed, Wire

NODES = ("n1", "n2", "n3")
GRACE = 6
OPTIONS = ("--heartbeat", "3", "--rescan-interval", "0.5", "--request-timeout", "6", "--probe-timeout", "2",
           "--quorum-servers", "untested")
# All connections of clients to the node.
CLOSE = """
    [rabbit_networking:close_connection(Pid, <<"test">>)
     || Pid <- rabbit_networking:connections(), node(Pid) =:= node()], done."""
# Between two questions of a holder, and two requests of a waiter that was refused.
PAUSE = 0.5


class Hold:
    def __init__(self, grant, at):
        self.slot, self.at = grant["slot"], at
        self.lock, self.fence = grant["lock"], grant["fence"]
        self.granted_at = now()
        self.safe_until = grant["safe_until"]
        # The reject was sent then whose answer proved the hold.
        self.proved_at = grant["safe_until"] - grant["lease"]["length"]
        self.lost_at = self.released_at = None

    def read(self, told):
        """Words of a verify or a notification."""
        self.safe_until = max(self.safe_until, told["safe_until"])
        self.fence = max(self.fence, told.get("fence", 0))

    @property
    def believed_until(self):
        return self.safe_until if self.released_at is None else min(self.released_at, self.safe_until)

    @property
    def stopped_at(self):
        """As a client stops that listens; None: it holds the slot."""
        ends = [end for end in (self.lost_at, self.released_at) if end is not None]
        if self.safe_until < now():
            ends.append(self.safe_until)
        return min(ends) if ends else None

    def __str__(self):
        return (f"slot {self.slot} at {self.at}: proved {self.proved_at:.3f}, granted {self.granted_at:.3f}, "
                f"until {self.believed_until:.3f}, lost {self.lost_at}, released {self.released_at}, fence {self.fence}")


class Client:
    """It asks for a slot, and then holds it. releases: when it hears of a loss."""

    def __init__(self, field, at, releases=False):
        self.field, self.at, self.releases = field, at, releases
        self.wire = Wire(field.daemons[at])
        self.hold = None
        self.asked = {}  # by id: the method
        self.idle_since = now()
        self.acquire()

    def ask(self, method, **params):
        self.asked[self.wire.request(method, **params)] = method
        self.idle_since = now()

    def acquire(self):
        self.ask("acquire", name=self.field.name, lease=True)

    @property
    def is_open(self):
        return self.wire.socket.fileno() >= 0

    @property
    def is_waiting(self):
        return self.is_open and self.hold is None

    def read(self):
        """Takes what has come, and goes on."""
        try:
            if self.wire.rest or select.select([self.wire.socket], [], [], 0)[0]:
                self.wire.pump()
        except Closed:
            self.wire.hang_up()
        # A grant comes before what is told about its hold.
        while self.wire.replies:
            reply = self.wire.replies.popleft()
            self.answer(self.asked.pop(reply["id"]), reply)
        for note in self.wire.notifications:
            if note["method"] == "lease":
                self.hold.read(note["params"])
            elif note["method"] == "lost":
                self.lose()
        self.wire.notifications.clear()
        if not self.is_open:
            self.lose()
        elif not self.asked and now() > self.idle_since + PAUSE:
            if self.hold is None:
                self.acquire()
            elif self.hold.lost_at is None and self.hold.released_at is None:
                self.ask("verify", lock=self.hold.lock)

    def answer(self, method, reply):
        if "error" in reply:
            self.field.refused[method, reply["error"]["data"]["reason"]] += 1
        elif method == "acquire":
            self.hold = Hold(reply["result"], self.at)
            self.field.holds.append(self.hold)
        elif method == "verify":
            self.hold.read(reply["result"])

    def lose(self):
        if self.hold is None or self.hold.lost_at is not None:
            return
        self.hold.lost_at = now()
        if self.releases and self.is_open:
            self.release()

    def release(self):
        if self.hold.released_at is None:
            self.hold.released_at = now()
            self.ask("release", lock=self.hold.lock)


class Field:
    """daemons: by the names of their nodes."""

    def __init__(self, name, daemons):
        self.name, self.daemons = name, daemons
        self.clients, self.holds = [], []
        self.refused = collections.Counter()  # (method, reason): how often

    def add(self, at, count, **more):
        self.clients += [Client(self, at, **more) for _ in range(count)]

    def observe(self, until, seconds, what=None):
        """Reads all clients until that is so. what: it must be so in this time."""
        deadline = now() + seconds
        while not until():
            if now() > deadline:
                if what is None:
                    return
                holds = "\n".join(map(str, self.holds))
                raise AssertionError(f"not within {seconds} s: {what}; now {now():.3f}, {dict(self.refused)}\n{holds}")
            select.select([client.wire.socket for client in self.clients if client.is_open], [], [], 0.02)
            for client in self.clients:
                if client.is_open:
                    client.read()

    def watch(self, seconds):
        self.observe(lambda: False, seconds)

    def drain(self, seconds):
        """Each client gets a slot, and leaves it at once. This takes so long."""
        began = now()

        def is_over():
            for client in self.clients:
                if client.is_open and client.hold is not None:
                    client.release()
            return not any(client.is_waiting or client.is_open and client.asked for client in self.clients)
        self.observe(is_over, seconds, "each client got a slot")
        return now() - began

    def leave(self):
        """All clients hang up, and the record is emptied."""
        for client in self.clients:
            client.wire.hang_up()
        self.clients, self.holds = [], []
        self.refused.clear()

    def faults(self):
        """Two that believed in one slot at once, and fences that did not grow. Two lists of words."""
        overlaps, fences = [], []
        slots = collections.defaultdict(list)
        for hold in sorted(self.holds, key=lambda hold: hold.granted_at):
            for before in slots[hold.slot]:
                # A hand-off has the proof of the hold before.
                began = hold.granted_at if before.released_at is not None else hold.proved_at
                if began < before.believed_until:
                    overlaps.append(f"overlap {before.believed_until - began:.3f}: {before}; {hold}")
                if hold.fence <= before.fence:
                    fences.append(f"the fence did not grow: {before}; {hold}")
            slots[hold.slot].append(hold)
        return overlaps, fences


class FieldCase(cluster.TestCase):
    """A cluster of three, and a daemon at each node. A semaphore has nine slots, so that each holder can have each leader."""

    def start(self):
        more = {"khepri": True} if release() >= (4, 0) else {"partition_handling": "pause_minority"}
        self.hosts = self.enterContext(cluster.Network())
        self.nodes = self.enterContext(cluster.Cluster(self.hosts, net_ticktime=NET_TICKTIME, **more))
        self.daemons = {}
        for name in NODES:
            self.daemons[name] = self.nodes.daemon(self, name, name, options=OPTIONS,
                                                   expect=TROUBLE + ("quorum", "reclaim", "grace"))
            self.daemons[name].wait_broker()
        Wire(self.daemons["n2"]).call("create", within=120, name="s", slots=len(NODES) ** 2, claim="quorum",
                                      takeover_grace=GRACE)
        self.field = Field("s", self.daemons)
        print(f"RabbitMQ {version()}, {more}, net_ticktime {NET_TICKTIME}, T {GRACE}")
