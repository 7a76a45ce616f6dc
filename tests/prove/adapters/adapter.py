"""The part that the adapters in Python share: it speaks docs/PROOF.md to the prover, and a Service does the locking.

	ADAPTER ADDRESS [OPTION...]

An acquire that waits is tried again after a random rest.
"""

import os
import random
import select
import sys
import time

SECOND = 1_000_000_000
REST = (0.005, 0.025)


class Hold:
    """slot: 1 of a mutex; "-" if the service does not number its slots. safe_until: the end of its lease, ns of
    CLOCK_MONOTONIC. token: of the service. fence: its fencing number, if there is one."""

    def __init__(self, name, slot=1, safe_until=None, token=None, fence=None):
        self.name, self.slot, self.safe_until, self.token = name, slot, safe_until, token
        self.fence = fence or "-"


class Service:
    """A lock service. Each method can raise OSError, or ENDED, when the connection has ended."""

    ENDED = OSError
    sockets = ()  # from which wait() hears the service

    def create(self, _name, _slots):
        """Makes a semaphore. Returns its number of slots: a service that has only mutexes has one."""
        return 1

    def acquire(self, name, kind, ident):
        """One try: a Hold or None."""
        raise NotImplementedError

    def withdraw(self, ident):
        """There will be no more tries."""

    def verify(self, hold):
        raise NotImplementedError

    def release(self, hold):
        raise NotImplementedError

    def lease(self):
        """The end of the lease of all holds, ns; None: holds have leases of their own or none. Called again and again."""

    def wait(self, seconds):
        """Until there is input for the adapter or for the service."""
        if set(self.sockets) & set(select.select([0, *self.sockets], [], [], seconds)[0]):
            self.heard()

    def heard(self):
        """A service that speaks unasked has ended."""
        raise ConnectionError("the service has ended")


def say(*words):
    print(time.monotonic_ns(), *words, flush=True)


class Adapter:
    def __init__(self, service, options):
        self.service = service
        self.no_verify = "no-verify" in options
        self.ignores_loss = "ignores-loss" in options
        self.waiting = {}  # ID: (name, kind, the end of its timeout)
        self.holds = {}  # ID: Hold
        self.input = b""

    def run(self):
        say("ready")
        try:
            while self.step():
                pass
        except self.service.ENDED as error:
            print(f"{sys.argv[0]}: {error!r}", file=sys.stderr)
            while self.ignores_loss and self.step_alone():
                pass
        say("ended")

    def step(self):
        for ident in list(self.waiting):
            self.try_to_acquire(ident)
        self.look_at_leases()
        until = min([hold.safe_until for hold in self.holds.values() if hold.safe_until], default=3600 * SECOND)
        rest = random.uniform(*REST) if self.waiting else max(0, until - time.monotonic_ns()) / SECOND
        self.service.wait(min(rest, 1))
        return self.obey_lines()

    def step_alone(self):
        """It goes on without its service, as if it had heard nothing."""
        goes_on = self.obey_lines(alone=True)
        for ident in list(self.waiting):
            self.refuse(ident, "closed")
        select.select([0], [], [])
        return goes_on

    def obey_lines(self, alone=False):
        """False: stdin has ended."""
        if select.select([0], [], [], 0)[0]:
            got = os.read(0, 65536)
            if not got:
                return False
            *lines, self.input = (self.input + got).split(b"\n")
            for line in lines:
                word, ident, *words = line.decode().split()
                if word in ("acquire", "create"):
                    getattr(self, word)(ident, *words)
                elif word == "write":
                    self.write(ident, *words)
                elif ident in self.holds:
                    getattr(self, word)(ident, alone)
        return True

    def create(self, name, slots):
        say("size", name, self.service.create(name, int(slots)))

    def acquire(self, ident, name, kind, timeout):
        self.waiting[ident] = name, kind, time.monotonic_ns() + int(timeout) * 1_000_000

    def try_to_acquire(self, ident):
        name, kind, until = self.waiting[ident]
        hold = self.service.acquire(name, kind, ident)
        if hold is not None:
            del self.waiting[ident]
            self.holds[ident] = hold
            if self.ignores_loss:
                hold.safe_until = None
            say("held", ident, hold.slot, hold.safe_until or "-", hold.fence)
        elif time.monotonic_ns() >= until:
            self.service.withdraw(ident)
            self.refuse(ident, "timeout")

    def refuse(self, ident, reason):
        del self.waiting[ident]
        say("refused", ident, reason)

    def write(self, ident, pause):
        """To the store of the prover. Between the look at the lease and the write, the client hears nothing for so long, in ms."""
        self.look_at_leases()
        if ident not in self.holds:
            return
        if int(pause) > 0:
            say("writing", ident)
        time.sleep(int(pause) / 1000)
        hold, store = self.holds[ident], int(os.environ["PROVE_STORE"])
        os.write(store, f"{ident} {hold.name} {hold.slot} {hold.fence}\n".encode())
        say("wrote", ident, os.read(store, 100).decode().strip())

    def verify(self, ident, alone):
        if self.no_verify or alone or self.service.verify(self.holds[ident]):
            say("verified", ident, "yes")
            return
        say("verified", ident, "yes" if self.ignores_loss else "no")
        if not self.ignores_loss:
            self.lose(ident, "verify")

    def lose(self, ident, reason):
        say("lost", ident, reason)
        del self.holds[ident]

    def release(self, ident, alone):
        say("releasing", ident)
        if not alone:
            self.service.release(self.holds[ident])
        del self.holds[ident]
        say("released", ident, "ok")

    def look_at_leases(self):
        until = self.service.lease()
        if self.ignores_loss:
            return
        for ident, hold in list(self.holds.items()):
            if until is not None and hold.safe_until != until:
                hold.safe_until = until
                say("lease", ident, until)
            if hold.safe_until is not None and hold.safe_until <= time.monotonic_ns():
                self.lose(ident, "lease")


def main(service):
    """service: the class."""
    address, *options = sys.argv[1:]
    try:
        made = service(address, options)
    except service.ENDED as error:
        print(f"{sys.argv[0]}: {error!r}", file=sys.stderr)
        say("ended")
    else:
        Adapter(made, options).run()
