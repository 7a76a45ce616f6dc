"""How long it takes until many slots by quorum are free again after RabbitMQ was killed and started again.

    make bench-restart SLOTS=1000

Each slot was held, and each connection of its holder ends with RabbitMQ. So each slot needs a grace (T), which begins with
the next claim. A daemon has as many waiters as there are slots, or a client that only tries.
"""

import contextlib
import os
import statistics
import threading
import time

from daemon import UNTESTED, Daemon
from measure import cpu_of
from rabbit import Rabbit, version
from wire import Wire, WireError

SLOTS = int(os.environ.get("SLOTS", "1000"))
GRACE = 20
AT_ONCE = 32
TROUBLE = ("lost", "lease", "connection", "broker", "slot")


class Restart(contextlib.ExitStack):
    def addCleanup(self, call, *args):  # a Daemon takes this for its test
        self.callback(call, *args)

    def daemon(self):
        daemon = Daemon(self, *UNTESTED, "--channels-reserve", "0", broker=self.rabbit.url, expect=TROUBLE)
        daemon.wait_broker()
        return daemon

    def start(self):
        self.rabbit = Rabbit()
        self.addCleanup(self.rabbit.close)
        self.rabbit.start()
        self.here, self.there = self.daemon(), self.daemon()
        self.admin = Wire(self.there)
        began = time.monotonic()
        self.admin.call("create", within=900, name="many", slots=SLOTS, claim="quorum", takeover_grace=GRACE)
        print(f"{SLOTS} slots were made in {time.monotonic() - began:.1f} s")

    def hold_all(self):
        """Of `here`, a batch at a time."""
        wire, got = Wire(self.here), 0
        while got < SLOTS:
            asked = [wire.request("acquire", name="many") for _ in range(min(AT_ONCE, SLOTS - got))]
            got += len([wire.answer(request, 600) for request in asked])
        return wire

    def restart(self):
        """Returns when the daemons are connected."""
        self.rabbit.kill()
        self.rabbit.start()
        up = time.monotonic()
        for daemon in self.here, self.there:
            daemon.wait_broker()
        return up

    def waiters(self):
        """Seconds until each grant."""
        wires = [Wire(self.there) for _ in range(0, SLOTS, AT_ONCE)]
        asked = [(wire, wire.request("acquire", name="many", timeout=None))
                 for number in range(SLOTS) for wire in (wires[number // AT_ONCE],)]
        began = time.monotonic()
        grants = [wire.answer(request, 900) for wire, request in asked]
        self.wires = wires
        return began, sorted(grant["waited"] for grant in grants)

    def tries(self):
        wire, began, times = Wire(self.there), time.monotonic(), []
        self.wires = [wire]
        while len(times) < SLOTS:
            try:
                wire.call("acquire", within=120, name="many", timeout=0)
                times.append(time.monotonic() - began)
            except WireError:
                time.sleep(0.1)
        return began, times

    def graces(self, most, stop):
        """The largest number of slots that somebody has."""
        while not stop.wait(1):
            with contextlib.suppress(Exception):
                most.append(len(self.rabbit.slots_held()))

    def measure(self, who, take):
        holder = self.hold_all()
        up = self.restart()
        holder.hang_up()
        pids = self.rabbit.pid, self.there.pid
        before = [cpu_of(pid) for pid in pids]
        most, stop = [], threading.Event()
        watch = threading.Thread(target=self.graces, args=(most, stop))
        watch.start()
        began, times = take()
        stop.set()
        watch.join()
        broker, daemon = (cpu_of(pid) - seconds for pid, seconds in zip(pids, before, strict=True))
        print(f"{who}, asked {began - up:.1f} s after RabbitMQ was up")
        print(f"    granted after {times[0]:.1f} s (first), {statistics.median(times):.1f} s (median), {times[-1]:.1f} s (last)")
        print(f"    claimed or held at once: {max(most, default=0)}")
        print(f"    processor time: {broker:.1f} s of RabbitMQ, {daemon:.1f} s of the daemon")
        for wire in self.wires:
            wire.hang_up()
        while self.admin.call("info")["counts"]["holds"] > 0:
            time.sleep(0.1)


def main():
    with Restart() as restart:
        print(f"RabbitMQ {version()}, T {GRACE} s")
        restart.start()
        restart.measure(f"{SLOTS} waiters of one daemon", restart.waiters)
        restart.measure("one client that tries", restart.tries)


if __name__ == "__main__":
    main()
