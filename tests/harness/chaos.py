"""Clients that send random requests, from a seed.

Every request gets one answer, as described. When all clients have hung up, nothing is left.
"""

import os
import random
import socket

from wait import wait_until
from wire import Closed, Wire

SEED = int(os.environ.get("LOCKBROKER_TEST_SEED", "1120"))
STEPS = int(os.environ.get("CHAOS_STEPS", "2500"))
NAMES = ("db", "big", "gone")
MUTEXES = ("m", "n")


class Peer:
    """One connection; remembers what it asked and what it holds."""

    def __init__(self, daemon, dice, made):
        """made: members of each create."""
        self.made = made
        self.wire = Wire(daemon)
        self.dice = dice
        self.asked = {}
        self.locks = []
        self.ended = False

    def ask(self, method, **params):
        self.asked[self.wire.request(method, **params)] = method

    def acquire(self):
        params = {"timeout": self.dice.choice((0, 0.01, 0.5, None)),
                  "priority": self.dice.randrange(-3, 4), "progress": self.dice.random() < 0.3}
        if self.dice.random() < 0.4:
            params.update(name=self.dice.choice(MUTEXES), kind="mutex")
        else:
            params.update(name=self.dice.choice(NAMES))
        self.ask("acquire", **params)

    def cancel(self):
        """By hand: request() has an `id` of its own."""
        self.wire.last_id += 1
        self.asked[self.wire.last_id] = "cancel"
        self.wire.methods[self.wire.last_id] = "cancel", True
        self.wire.send_line({"id": self.wire.last_id, "method": "cancel",
                             "params": {"id": self.dice.randrange(1, self.wire.last_id + 1)}})

    def with_lock(self, method):
        lock = self.dice.choice(self.locks) if self.locks else "00000000-1"
        self.ask(method, lock=lock)

    def act(self):
        roll = self.dice.random()
        if roll < 0.40:
            self.acquire()
        elif roll < 0.60:
            self.with_lock("release")
        elif roll < 0.70:
            self.with_lock("verify")
        elif roll < 0.80:
            self.cancel()
        elif roll < 0.86:
            self.ask("size", name=self.dice.choice(NAMES))
        elif roll < 0.90:
            self.ask("create", name=self.dice.choice(NAMES), slots=self.dice.randrange(1, 5),
                     exist_ok=True, **self.made)
        elif roll < 0.92:
            self.ask("destroy", name="gone")
        elif roll < 0.96:
            self.ask("info")
        else:
            self.wire.send_bytes(self.dice.choice((b"\n", b"{}\n", b"[1]\n", b'{"id":"x"}\n', b"}\n")))

    def read(self):
        """Takes what has come; whatever is answered was asked, and only once."""
        try:
            self.wire.pump()
        except Closed:
            self.ended = True
        while self.wire.replies:
            reply = self.wire.replies.popleft()
            if reply["id"] is None or reply["id"] == "x":
                continue
            method = self.asked.pop(reply["id"])
            if method == "acquire" and "result" in reply:
                self.locks.append(reply["result"]["lock"])
            elif method == "release" and "result" in reply:
                self.locks.remove(reply["result"]["lock"])
        self.wire.notifications.clear()

    def leave(self):
        if self.dice.random() < 0.3:
            self.wire.socket.shutdown(socket.SHUT_WR)
            self.wire.wait_closed()
            self.read()
            # A client that ended its side is owed all but its acquires.
            assert not set(self.asked.values()) - {"acquire"}, self.asked
        elif self.dice.random() < 0.3:
            self.wire.send_bytes(b'{"id":1,"method":')
        self.wire.hang_up()


def chaos(test, daemons, seed, steps, **made):
    """Lets clients loose on daemons of one broker, which is empty. made: members of each create."""
    print(f"LOCKBROKER_TEST_SEED={seed}")
    dice = random.Random(seed)
    watchers = [Wire(daemon) for daemon in daemons]
    for number, name in enumerate(NAMES):
        watchers[number % len(watchers)].call("create", name=name, slots=2, **made)
    peers = []
    for step in range(steps):
        if not peers or len(peers) < 25 and dice.random() < 0.1:
            peers.append(Peer(dice.choice(daemons), dice, made))
        peer = dice.choice(peers)
        peer.read()
        peer.act()
        if dice.random() < 0.03:
            peers.remove(peer)
            peer.leave()
        if step % 500 == 250:
            daemons[0].reload()
    for peer in peers:
        peer.read()
        test.assertFalse(peer.ended)
        peer.leave()
    for watcher in watchers:
        wait_until(lambda: watcher.call("info")["counts"]["connections"] == 1)
        wait_until(lambda: not any(watcher.call("info")["counts"][count]
                                   for count in ("holds", "waiting", "in_flight")))
        counts = watcher.call("info")["counts"]
        # Claims of clients that left meanwhile are dropped without having been granted.
        test.assertEqual(counts["granted"], counts["released"] + counts["lost"], counts)
        test.assertGreater(counts["granted"], steps / 250, "so little happened that it shows nothing")
        for name in MUTEXES:
            lock = watcher.call("acquire", name=name, kind="mutex", timeout=5)["lock"]
            watcher.call("release", lock=lock)
