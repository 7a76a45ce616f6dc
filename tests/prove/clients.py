"""The load of a run: clients that acquire, verify and release, and administrators that change the locks meanwhile.

Each is a thread, which draws from a seed of its own.
"""

import contextlib
import itertools
import os
import queue
import random
import threading
import time

from wire import WireError
from world import ANSWERED, CHANGING_WAYS, CLUSTER, DAEMONS, EITHER, GRACE, LATE, NET_TICKTIME, QUORUM

CLIENTS = 24
BAD = os.environ.get("BAD", "").split()  # options of their adapters
# In ms: of an acquire, drawn evenly.
TIMEOUTS = (0, 50, 500, 3000)
# Seconds for which a lock is held: (chance, at most). Some holds outlive a lease, and in a cluster a partition.
HELD = ((0.95, 0.005), (0.04, 0.3), (0.01, 3 * NET_TICKTIME if CLUSTER else 8))
LONG = 2  # seconds: a hold that the nemesis can find in time
REST = 0.3 if CLUSTER else 0.01  # at most, between two rounds
CHANCE_OF_VERIFY = 0.3
CHANCE_OF_LAST_WRITE = 0.5
WRITES = 0.1  # the rest between two writes of a hold, seconds
CHANCE_OF_ANOTHER = 0.05  # of an acquire during a hold
SIZES = range(1, 5)
REMOVING = "resize", "gate", "destroy", "delete-slot-queue"  # acts that remove slots
WHOLE = os.environ.get("REMOVALS") == "whole"
MAX_WAIT = 3  # of an administrator for holders, seconds
MAX_GRACE = 2  # of an eviction, seconds


class Over(Exception):
    """The client has ended."""


class Load(threading.Thread):
    """One client after the other of one daemon, until it is told to stop. client: the present one. long: (Lock, slot) that
    it holds for long."""

    def __init__(self, world, number, seed):
        super().__init__(name=f"c{number}", daemon=True)
        self.world = world
        self.daemon_number = DAEMONS[number % len(DAEMONS)]
        self.dice = random.Random(f"{seed} {self.name}")
        self.stopping = threading.Event()
        self.lives, self.idents = itertools.count(1), itertools.count(1)
        self.client, self.lines, self.holds, self.long = None, None, set(), None

    def run(self):
        while not self.stopping.is_set():
            self.start_client()
            with contextlib.suppress(Over):
                self.answer("ready")
                while not self.stopping.is_set():
                    self.round()
                    self.stopping.wait(self.dice.uniform(0, REST))
            self.client.close()
            self.stopping.wait(self.dice.uniform(0, 0.2))

    def start_client(self):
        while not self.world.listens(self.daemon_number) and not self.stopping.wait(0.05):
            pass
        self.lines, self.holds = queue.SimpleQueue(), set()
        self.client = self.world.connect(self.daemon_number, f"{self.name}.{next(self.lives)}", self.lines.put, *BAD)

    def answer(self, *words, ident=None):
        """The next line that begins with one of these words, and is about ident. Over."""
        while True:
            try:
                line = self.lines.get(timeout=ANSWERED)
            except queue.Empty:
                self.world.wrong(f"{self.client.actor} does not say {words} of {ident}")
                self.world.kill(self.client)
                raise Over from None
            if line[0] == "ended":
                raise Over
            if line[0] == "lost":
                self.holds.discard(line[1])
            if line[0] in words and line[1:2] in ([], [ident]):
                return line

    def round(self, depth=0):
        """A lock, and sometimes another one meanwhile."""
        lock, ident, dice = self.dice.choice(self.world.locks), str(next(self.idents)), self.dice
        self.client.ask("acquire", ident, lock.name, lock.kind, dice.choice(TIMEOUTS))
        word, _, slot, *_ = self.answer("held", "refused", ident=ident)
        if word == "refused":
            return
        self.holds.add(ident)
        self.write(ident, slot)
        self.maybe_verify(ident)
        if depth < 2 and dice.random() < CHANCE_OF_ANOTHER:
            self.round(depth + 1)
        rest = dice.uniform(0, dice.choices([most for _, most in HELD], [chance for chance, _ in HELD])[0])
        if rest > LONG and slot != "0":
            self.long = lock, slot
        until = time.monotonic() + rest
        while (left := until - time.monotonic()) > WRITES and not self.stopping.wait(WRITES):
            self.write(ident, slot)
        self.stopping.wait(max(0, left))
        self.long = None
        self.maybe_verify(ident)
        if dice.random() < CHANCE_OF_LAST_WRITE:
            self.write(ident, slot)
        if ident in self.holds:
            self.holds.discard(ident)
            self.client.ask("release", ident)
            self.answer("released", "lost", ident=ident)

    def write(self, ident, slot):
        if ident in self.holds and slot != "0":
            self.client.ask("write", ident, 0)
            self.answer("wrote", "lost", ident=ident)

    def write_late(self, pause):
        """Each hold looks at its lease, and writes so many ms later."""
        for ident in list(self.holds):
            self.client.ask("write", ident, pause)

    def maybe_verify(self, ident):
        if ident in self.holds and self.dice.random() < CHANCE_OF_VERIFY:
            self.client.ask("verify", ident)
            self.answer("verified", "lost", ident=ident)


class Administrator(threading.Thread):
    """Changes its semaphores and evicts their holders, one after the other, until it is told to stop."""

    def __init__(self, world, nemesis, number, mine, seed, pause):
        super().__init__(name=f"admin-{number}", daemon=True)
        self.world, self.nemesis, self.locks, self.pause = world, nemesis, mine, pause
        self.dice = random.Random(f"{seed} {self.name}")
        self.stopping = threading.Event()

    def run(self):
        deck = self.nemesis.deck(self.name, self.dice, [
            ("resize", self.resize), ("gate", self.gate), ("unlimited", self.unlimited), ("grant", self.grant),
            ("destroy", self.destroy), ("fsck", self.fsck), ("convert", self.convert), ("evict", self.evict),
            ("delete-slot-queue", self.delete_slot_queue)], self.stopping)
        changing = [lock for lock in self.locks if lock.way == EITHER]
        for kind, act in deck:
            some = changing if kind == "convert" else self.held() if kind == "evict" else ()
            lock = self.dice.choice(some or self.locks)
            with self.settled(kind, lock), self.nemesis.fault(kind, "-", 0, f"name={lock.name}"):
                try:
                    act(lock)
                except Exception as error:  # pylint: disable=broad-except
                    self.world.wrong(f"{kind} of {lock.name}:", repr(error))
            self.stopping.wait(self.dice.uniform(0, self.pause))

    def held(self):
        """Those of its locks that somebody holds for long, if there are any soon."""
        until = time.monotonic() + MAX_WAIT
        while True:
            held = [lock for load in self.nemesis.loads for lock, _ in [load.long or (None, 0)] if lock in self.locks]
            if held or time.monotonic() > until or self.stopping.wait(0.05):
                return held

    def settled(self, kind, lock):
        """All nodes are there. A queue that is deleted and made again otherwise can have old messages (docs/PROOF.md)."""
        return self.world.whole if kind in REMOVING and lock.way == QUORUM and WHOLE else contextlib.nullcontext()

    def ask(self, method, **params):
        """The result; None: it failed, or it may have been done in part."""
        try:
            return self.world.ask(method, self.dice, **params)
        except WireError:
            return None

    def change(self, lock, size, method="resize", **params):
        """Returns whether the size is in effect."""
        record, wait = self.world.record, params.get("wait", 0)
        if method == "resize":
            params["slots"] = size
            if lock.way == QUORUM:
                params.update(takeover_grace=GRACE)
            # From 0 slots on, the default of the daemon decides otherwise.
            if lock.way == QUORUM or (lock.way != EITHER and size not in (0, "unlimited")):
                params.update(claim=lock.way)
        record.note(self.name, "sizing", lock.name, size)
        try:
            self.world.ask(method, self.dice, name=lock.name, **params)
        except WireError as error:
            # It waited in vain for holders: the slots are removed.
            if "left" not in error.data:
                return False
            wait = 0
        record.note(self.name, "size", lock.name, size)
        if wait:
            record.note(self.name, "emptied", lock.name, size)
        return True

    def wait(self):
        """For holders, or not."""
        return {"wait": MAX_WAIT} if self.dice.random() < 0.5 else {}

    def restore(self, lock):
        self.stopping.wait(self.dice.uniform(0, 0.5))
        if not self.change(lock, lock.size):
            self.create(lock)

    def create(self, lock):
        self.change(lock, lock.size, "create", slots=lock.size, kind=lock.kind, claim=self.way(lock), exist_ok=True,
                    takeover_grace=GRACE)

    def way(self, lock):
        return self.dice.choice(CHANGING_WAYS) if lock.way == EITHER else lock.way

    # ---- what they do ----

    def resize(self, lock):
        if lock.size > 1:
            self.change(lock, self.dice.choice(SIZES), **self.wait())
        self.restore(lock)

    def gate(self, lock):
        self.change(lock, 0, **self.wait())
        self.restore(lock)

    def unlimited(self, lock):
        self.change(lock, "unlimited")
        self.restore(lock)

    def grant(self, lock):
        shown = self.ask("show", name=lock.name)
        if shown and shown["waiters"]:
            self.ask("grant", waiter=self.dice.choice(shown["waiters"])["waiter"])

    def evict(self, lock):
        """One holder, or all. The daemon tells a holder that heard of it too late of its loss, and frees the slot then."""
        shown, grace = self.ask("show", name=lock.name), self.dice.uniform(0, MAX_GRACE)
        one = shown and shown["holders"] and self.dice.choice(shown["holders"])["waiter"]
        whom = {"holder": one} if one and self.dice.random() < 0.5 else {"name": lock.name, "all": True}
        with self.nemesis.fault("eviction", "h", LATE, f"name={lock.name}"):
            self.ask("evict", grace=grace, **whom)
            self.stopping.wait(grace)

    def destroy(self, lock):
        self.change(lock, "missing", "destroy", **self.wait())
        self.stopping.wait(self.dice.uniform(0, 0.3))
        self.create(lock)

    def fsck(self, lock):
        self.ask("fsck", name=lock.name, repair=True)

    def convert(self, lock):
        self.ask("fsck", name=lock.name, repair=True, convert=self.way(lock), **self.wait())

    def delete_slot_queue(self, lock):
        """By hand. The slots above it do not count then."""
        if lock.way == QUORUM:
            self.delete_slot_by_quorum(lock)
            return
        slot = self.dice.choice(lock.slots)
        self.world.record.note(self.name, "sizing", lock.name, slot - 1 or "missing")
        self.world.delete_queue(f"{lock.name}-{slot}-A")
        self.stopping.wait(self.dice.uniform(0, 0.5))
        self.fsck(lock)
        self.restore(lock)


    def delete_slot_by_quorum(self, lock):
        """The same. This queue is the holder queue, too. If somebody holds it for long, it is that of a holder."""
        held = [int(slot) for load in self.nemesis.loads for one, slot in [load.long or (None, 0)] if one == lock]
        slot = self.dice.choice(held or lock.slots)
        self.world.record.note(self.name, "sizing", lock.name, slot - 1 or "missing")
        with self.nemesis.fault("delete-slot-by-quorum", "c", GRACE, f"slot={lock.name}/{slot}", after=2 * GRACE):
            self.world.delete_queue(lock.holder_queue(slot))
            self.stopping.wait(self.dice.uniform(0, 0.5))
            self.fsck(lock)
        self.restore(lock)


def fill(world):
    """After the last fault: each slot of each lock is acquired within the takeover time, and all of them at once."""
    heard, clients = queue.SimpleQueue(), {}
    for number in DAEMONS:
        clients[number] = world.connect(number, f"last-{number}", heard.put)
    numbers = itertools.cycle(DAEMONS)
    wanted = [(lock, slot) for lock in world.locks for slot in lock.slots]
    for ident, (lock, slot) in enumerate(wanted):
        world.record.note("world", "expect", lock.name, slot, lock.takeover)
        clients[next(numbers)].ask("acquire", ident, lock.name, lock.kind, int(lock.takeover * 1000))
    deadline = time.monotonic() + 2 * max(lock.takeover for lock in world.locks)
    answered = 0
    while answered < len(wanted) and time.monotonic() < deadline:
        with contextlib.suppress(queue.Empty):
            answered += heard.get(timeout=1)[0] in ("held", "refused")
    for client in clients.values():
        client.close()
