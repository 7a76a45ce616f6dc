"""A hold is known to be lost before the broker can free its slot, over a real RabbitMQ.

In each round `lockbroker run` holds a slot. Its child ignores TERM and notes when it was last alive. A client holds
another slot of that daemon and gets the notices of its lease. Then one of three falls silent for good: the broker
(SIGSTOP), the network (a proxy that forwards nothing and closes nothing), or the daemon (SIGSTOP). Two heartbeats
after the last answered request the broker may free the slots. By then the child must be gone. A living daemon
must have notified the client. Before that each of the three is silent for 3 s, and every hold must survive.

If the broker lives, another daemon waits for the slots and gets them when the broker frees them. That must be after
the child's last sign of life. A daemon that wakes then is three heartbeats late. One of its clients waits for the
slot that `run` gave up. It must not get the slot while the other daemon's client holds it.

The slots of every other round are held by exclusive queues, and those of the rounds between by consumers. If CLAIM is
set, all are held in that way.

LEASE_ROUNDS says how many rounds of each (4); `make lease-proof` makes it 20.
"""

import contextlib
import itertools
import json
import os
import random
import select
import socket
import struct
import subprocess
import sys
import threading
import time
import unittest

import tap
from daemon import WAYS, Daemon, clean_environment, program
from proxy import Proxy
from rabbit import Rabbit
from wait import wait_until
from wire import Wire

HEARTBEAT = 5
ROUNDS = int(os.environ.get("LEASE_ROUNDS", "4"))
AT_ONCE = 4  # rounds of each kind; more would measure how busy the machine is
SHORT = 3.0
SEED = int(os.environ.get("LOCKBROKER_TEST_SEED", "0")) or random.randrange(1, 1 << 32)
TROUBLE = ("lock connection", "auxiliary connection", "lost", "lease", "broker")
SLEEPY, LIVELY = Rabbit.lease(), Rabbit.lease(shared=True)

# The child of the shell, and the shell itself, are deaf to TERM: only KILL of the whole group ends both.
# (When the test has failed, its folder goes.)
CHILD = """
import os, struct, sys, time
beat = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT, 0o600)
while os.path.exists(sys.argv[1]):
    os.pwrite(beat, struct.pack("d", time.clock_gettime(time.CLOCK_BOOTTIME)), 0)
    time.sleep(0.002)
"""
DEAF = 'trap "" TERM; "$0" -c "$1" "$2"; exit 1'


def setUpModule():
    SLEEPY.serve_module()
    LIVELY.serve_module()


def now():
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Ear:
    """Is between `run` and its daemon, and hears the lease of `run`. In a daemon that falls silent between two answers
    of the broker, two holds have different leases."""

    def __init__(self, test, path, daemon):
        self.path = path
        self.safe_until = 0.0
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen()
        test.addCleanup(self.listener.close)
        threading.Thread(target=self.relay, args=(daemon,), daemon=True).start()

    def relay(self, daemon):
        client, server, heard = self.listener.accept()[0], socket.socket(socket.AF_UNIX), b""
        with contextlib.suppress(OSError), client, server:
            server.connect(daemon)
            while True:
                for source in select.select([client, server], [], [])[0]:
                    got = source.recv(65536)
                    if not got:
                        return
                    if source is server:
                        *lines, heard = (heard + got).split(b"\n")
                        for line in lines:
                            self.hear(json.loads(line))
                    (client if source is server else server).sendall(got)

    def hear(self, message):
        """Of a grant or of a notification."""
        lease = message.get("result", {}).get("lease") or message.get("params", {})
        self.safe_until = max(self.safe_until, lease.get("safe_until", 0.0))


class Round:
    """One daemon with its holders. The kinds differ in the process that falls silent."""

    kind = ""
    daemon_lives = True

    def __init__(self, test, number, url):
        self.test = test
        self.claim = WAYS[number % len(WAYS)]
        self.name = f"{self.kind}-{self.claim}-{number}"
        self.daemon = Daemon(test, "--heartbeat", str(HEARTBEAT), "--margin", "1.5", "--rescan-interval", "0.5", broker=url,
                             expect=TROUBLE)
        self.beats = os.path.join(self.daemon.dir, "beats")
        self.run = None
        self.ear = Ear(test, os.path.join(self.daemon.dir, "ear"), self.daemon.socket)
        self.safe_until = 0.0  # as last told
        self.lost_at = None
        self.ended_at = None
        self.peer = self.lock = self.margin = None

    # ---- before ----

    def hold(self):
        self.daemon.wait_broker()
        self.peer = Wire(self.daemon)
        self.peer.call("create", name=self.name, slots=2, claim=self.claim)
        grant = self.peer.call("acquire", name=self.name, timeout=5, lease=True)
        self.lock = grant["lock"]
        self.margin = grant["lease"]["margin"]
        self.test.assertEqual(grant["lease"]["heartbeat"], HEARTBEAT)
        self.run = subprocess.Popen(
            [program("lockbroker"), "run", self.name, "--", "/bin/sh", "-c", DEAF, sys.executable,
             CHILD, self.beats], env=clean_environment(LOCKBROKER_SOCKET=self.ear.path),
            stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.test.addCleanup(self.run.wait)
        self.test.addCleanup(self.run.kill)

    def wait_held(self):
        wait_until(lambda: self.last_beat() or self.run.poll() is not None, what="the child lives")
        self.test.assertIsNone(self.run.poll(), self.daemon.log())

    def wait_lease(self):
        """The daemon sends the lease when the keepalive is answered. The lease stays so until another request
        is answered."""
        self.read()
        self.safe_until = self.peer.notification("lease")["safe_until"]

    # ---- while it is silent ----

    def read(self):
        """Reads the present messages of the client and of `run`."""
        self.peer.pump()
        while self.peer.notifications:
            note = self.peer.notifications.popleft()
            if note["method"] == "lease":
                self.safe_until = max(self.safe_until, note["params"]["safe_until"])
            elif note["method"] == "lost":
                self.test.assertIsNone(self.lost_at, "lost is told once")
                self.test.assertEqual(note["params"]["lock"], self.lock)
                self.lost_at = now()
        if self.ended_at is None and self.run.poll() is not None:
            self.ended_at = now()

    def last_beat(self):
        try:
            with open(self.beats, "rb") as file:
                return struct.unpack("d", file.read(8))[0]
        except (FileNotFoundError, struct.error):
            return 0.0

    def is_over(self):
        self.read()
        return self.ended_at is not None and (self.lost_at is not None or not self.daemon_lives)

    # ---- afterwards ----

    def freeable_at(self, safe_until):
        """Two heartbeats after the last answered request was sent."""
        return safe_until + self.margin

    def still_holds(self):
        """After the short silence."""
        self.read()
        self.test.assertIsNone(self.lost_at, self.daemon.log())
        self.test.assertIsNone(self.run.poll(), self.daemon.log())
        self.peer.call("verify", lock=self.lock)
        self.test.assertEqual(Wire(self.daemon).call("info")["counts"]["holds"], 2)

    def judge(self):
        """Of the long one."""
        self.test.assertEqual(self.run.returncode, 79, self.daemon.log())
        freeable_at = self.freeable_at(self.ear.safe_until)
        self.test.assertLess(self.last_beat(), freeable_at, f"{self.name}: the child lived on")
        self.test.assertLess(self.ended_at, freeable_at, f"{self.name}: run lived on")
        if self.daemon_lives:
            self.test.assertLess(self.lost_at, self.freeable_at(self.safe_until), f"{self.name}: told late")

    def after_answer(self, when, safe_until):
        """Seconds from the sending of the last answered request."""
        return when - (self.freeable_at(safe_until) - 2 * HEARTBEAT)


class FrozenBroker(Round):
    """All of them have the broker in common, and are at different points between two keepalives."""

    kind = "broker"

    def settle(self):
        wait_until(lambda: self.peer.error("verify", lock=self.lock).reason in ("lost", "not-held"))


class Rivalled(Round):
    """The broker lives: another daemon waits for both slots."""

    def compete(self, rival):
        self.cut_at = None
        self.rival = Wire(rival)
        self.asked = [self.rival.request("acquire", name=self.name, timeout=60) for _ in range(2)]
        self.taken = []
        self.taken_at = None

    def is_over(self):
        if self.asked and self.rival_has(self.asked[0]):
            self.asked.pop(0)
        return super().is_over() and not self.asked

    def rival_has(self, asked):
        self.rival.pump()
        if not any(reply["id"] == asked for reply in self.rival.replies):
            return False
        self.taken.append(self.rival.answer(asked)["lock"])
        self.taken_at = self.taken_at or now()
        return True

    def judge(self):
        super().judge()
        self.test.assertLess(self.last_beat(), self.taken_at, f"{self.name}: two holders")
        for lock in self.taken:
            self.rival.call("verify", lock=lock)


class CutNetwork(Rivalled):
    kind = "network"

    def __init__(self, test, number, rabbit):
        self.proxy = Proxy(test, rabbit.port)
        super().__init__(test, number, rabbit.url_at(self.proxy.port))

    def silence(self):
        self.proxy.cut()

    def listen(self):
        self.proxy.mend()

    def judge(self):
        super().judge()
        # Had the lease been counted from later than the broker's last word, it would be too long.
        for safe_until in (self.safe_until, self.ear.safe_until):
            self.test.assertLessEqual(self.freeable_at(safe_until) - 2 * HEARTBEAT, self.proxy.last_from_broker)

    def settle(self):
        self.proxy.mend()
        self.test.assertIn(self.peer.error("verify", lock=self.lock).reason, ("lost", "not-held"))
        self.daemon.wait_broker()


class FrozenDaemon(Rivalled):
    kind = "daemon"
    daemon_lives = False

    def __init__(self, test, number, rabbit):
        super().__init__(test, number, rabbit.url)

    def hold(self):
        super().hold()
        self.wait_held()
        self.waiter = Wire(self.daemon)
        self.waiting = self.waiter.request("acquire", name=self.name, timeout=None)

    def silence(self):
        self.daemon.freeze()

    def listen(self):
        self.daemon.thaw()

    def is_over(self):
        return super().is_over() and now() >= self.cut_at + 3 * HEARTBEAT

    def settle(self):
        """It wakes, with the end of `run` and of its links to be read, and the waiter to be served."""
        self.daemon.thaw()
        self.peer.notification("lost")
        self.daemon.wait_broker()
        # The daemon has served the waiter on the new link by now: a later acquire is refused.
        late = Wire(self.daemon)
        self.test.assertEqual(late.error("acquire", name=self.name, timeout=0).reason, "would-block")
        self.waiter.pump()
        self.test.assertEqual(list(self.waiter.replies), [], self.daemon.log())
        for lock in self.taken:
            self.rival.call("verify", lock=lock)
        self.rival.call("release", lock=self.taken[0])
        grant = self.waiter.answer(self.waiting)
        self.waiter.call("release", lock=grant["lock"])
        self.peer.pump()
        self.test.assertFalse([note for note in self.peer.notifications if note["method"] == "lost"])


class LeaseProof(unittest.TestCase):
    deadline = 120 + 45 * ROUNDS

    def test_lost_before_the_broker_frees(self):
        print(f"LOCKBROKER_TEST_SEED={SEED}")
        self.dice = random.Random(SEED)
        self.rival = Daemon(self, "--rescan-interval", "0.2", broker=LIVELY.url)
        self.rival.wait_broker()
        done = []
        while len(done) < 3 * ROUNDS:
            first = len(done) // 3
            done += self.batch(range(first, min(first + AT_ONCE, ROUNDS)))
        self.report(done)

    def batch(self, numbers):
        """Rounds of each kind side by side."""
        asleep = [FrozenBroker(self, number, SLEEPY.url) for number in numbers]
        others = [kind(self, number, LIVELY) for number in numbers
                  for kind in (CutNetwork, FrozenDaemon)]
        rounds = asleep + others
        for one in rounds:
            one.hold()
        for one in rounds:
            one.wait_held()
        self.short_silence(rounds, others)
        for one in others:
            one.compete(self.rival)
        for one in rounds:
            one.wait_lease()
        self.long_silence(rounds, others)
        for one in rounds:
            one.judge()
        SLEEPY.thaw()
        for one in rounds:
            one.settle()
        for one in rounds:
            one.daemon.stop()
        return rounds

    def short_silence(self, rounds, others):
        SLEEPY.freeze()
        for one in others:
            one.silence()
        time.sleep(SHORT)
        SLEEPY.thaw()
        for one in others:
            one.listen()
        for one in rounds:
            one.still_holds()

    def long_silence(self, rounds, others):
        """Each falls silent at a moment of its own between two keepalives."""
        start = now()
        due = sorted(((start + self.dice.uniform(0, HEARTBEAT / 3), one) for one in others),
                     key=lambda pair: pair[0])
        SLEEPY.freeze()
        for when, one in due:
            time.sleep(max(0, when - now()))
            one.silence()
            one.cut_at = now()
        left = set(rounds)

        def over():
            left.difference_update([one for one in left if one.is_over()])
            return not left
        wait_until(over, what="every child is gone, and the holders are told")

    def report(self, rounds):
        for kind, claim in itertools.product((FrozenBroker, CutNetwork, FrozenDaemon), WAYS):
            mine = [one for one in rounds if isinstance(one, kind) and one.claim == claim]
            child = max(one.after_answer(max(one.last_beat(), one.ended_at), one.ear.safe_until) for one in mine)
            words = f"the child gone after {child:.2f} s at worst"
            if kind.daemon_lives:
                words += f", told after {max(one.after_answer(one.lost_at, one.safe_until) for one in mine):.2f} s"
            if issubclass(kind, Rivalled):
                words += (", the slot somebody else's after "
                          f"{min(one.after_answer(one.taken_at, one.safe_until) for one in mine):.2f} s at least")
            print(f"{kind.kind} silent, {claim}, {len(mine)} rounds: {words}; {2 * HEARTBEAT} s allowed")


if __name__ == "__main__":
    tap.main()
