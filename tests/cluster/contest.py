"""Locks whose holder and whose rival ask different nodes, and what becomes of both, by the clock."""

import time

from wire import Wire, WireError, wait_until

TROUBLE = ("hold link", "side link", "lost", "lease", "broker", "this host")


def now():
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Contest:
    """A holder behind one daemon, and a rival that waits behind another. home: the daemon through whose node the
    slot is made, where a classic queue then lives; None: a true mutex, which has no slot queue."""

    def __init__(self, name, holder, rival, home):
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
        self.asked = self.rival.request("acquire", progress=True, **self.params)
        self.rival_lock = None
        self.rival.notification("waiting")
        self.times = {}  # what happened: when

    def note(self, what):
        self.times.setdefault(what, now())

    def read(self):
        """Takes what both have been told by now."""
        self.holder.pump()
        while self.holder.notifications:
            note = self.holder.notifications.popleft()
            if note["method"] == "lease":
                self.safe_until = max(self.safe_until, note["params"]["safe_until"])
            else:
                self.note(note["method"])
        self.rival.pump()
        while self.rival.notifications:
            note = self.rival.notifications.popleft()
            if note["method"] == "lost":
                self.note("rival lost")
        while self.rival.replies:
            reply = self.rival.replies.popleft()
            if "error" in reply:
                self.note("rival: " + reply["error"]["data"]["reason"])
            elif reply["id"] == self.asked:
                self.note("granted")
                self.rival_lock = reply["result"]["lock"]

    @property
    def answered(self):
        """When the newest question was sent that the holder's node has answered."""
        return self.safe_until - self.lease

    @staticmethod
    def verify(peer, lock):
        """What a daemon says of a lock: "held", or why not."""
        try:
            peer.call("verify", lock=lock)
            return "held"
        except WireError as error:
            return error.reason

    def states(self):
        """What holder and rival hear when they ask now."""
        self.read()
        rival = self.verify(self.rival, self.rival_lock) if self.rival_lock else "waits"
        return self.verify(self.holder, self.lock), rival

    def line(self, began):
        return "  ".join(f"{what} {when - began:.1f}" for what, when in sorted(self.times.items(), key=lambda p: p[1]))


def observe(contests, seconds, until=lambda: False, what=None):
    """Reads all contests until that is so; without an `until`, for so long."""
    end = now() + seconds

    def over():
        for contest in contests:
            contest.read()
        return until() or (what is None and now() >= end)
    wait_until(over, seconds + 1, what)
