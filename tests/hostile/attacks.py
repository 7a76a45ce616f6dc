"""The hostile user: attacks of an unprivileged client within every configured limit.

Each attack is a function of a Hostile. It says `ready` when it has all that it wanted, or all that the daemon gives
it. Then it goes on until it is killed.
"""

import itertools
import json
import select
import socket
import struct
import time

COUNTED = ("connections", "requests", "lines", "granted", "refused", "closed")
CHUNK = 1 << 16
# Escape, line ends, DEL, and CSI as one character of C1; then a line of the command, forged.
WORDS = "\x1b[2J\r\nlockbroker: forged\x7f\x9b31m"
UNREAD_MAX = 1 << 20  # bytes that are kept to be sent, a connection


class Peer:
    """A connection that never blocks. keep: whether its lines are wanted, not only counted."""

    def __init__(self, hostile, keep, reads):
        self.hostile = hostile
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.out = bytearray()
        self.rest = b""
        self.lines = []
        self.keep = keep
        self.reads = reads
        self.last_id = 0

    def ask(self, method, **params):
        self.last_id += 1
        self.hostile.user.count("requests")
        self.write(b'{"id":%d,"method":"%s","params":%s}\n' % (
            self.last_id, method.encode(), json.dumps(params).encode()))

    def write(self, data):
        self.out += data
        self.hostile.want(self)

    def take(self, data):
        count = self.hostile.user.count
        count("lines", data.count(b"\n"))
        count("refused", data.count(b'"too-many-'))
        count("granted", data.count(b'"safe_for"'))
        if self.keep:
            *lines, self.rest = (self.rest + data).split(b"\n")
            self.lines += lines


class Hostile:
    def __init__(self, user, path):
        self.user = user
        self.path = path
        self.poll = select.epoll()
        self.peers = {}

    def connect(self, count, keep=False, reads=True, receive_buffer=None):
        """As many connections as it gets of `count`."""
        made = []
        for _ in range(count):
            try:
                peer = Peer(self, keep, reads)
                if receive_buffer:
                    peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
                # Not settimeout(): a connect that does not block fails at once while the daemon's backlog is full.
                peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", 20, 0))
                peer.socket.connect(self.path)
            except OSError:
                break
            peer.socket.setblocking(False)
            self.peers[peer.socket.fileno()] = peer
            self.poll.register(peer.socket, select.EPOLLIN if reads else 0)
            self.user.count("connections")
            made.append(peer)
        return made

    def want(self, peer):
        """Tells epoll the events that the connection waits for."""
        if peer.socket.fileno() in self.peers:
            self.poll.modify(peer.socket, (select.EPOLLIN if peer.reads else 0)
                             | (select.EPOLLOUT if peer.out else 0))

    def hang_up(self, peer):
        if self.peers.pop(peer.socket.fileno(), None) is not None:
            self.poll.unregister(peer.socket)
            peer.socket.close()

    def alive(self, peer):
        return peer.socket.fileno() in self.peers

    def pump(self, seconds):
        """Sends and reads for so long."""
        end = time.monotonic() + seconds
        while True:
            for fd, what in self.poll.poll(max(0, end - time.monotonic()), 256):
                peer = self.peers.get(fd)
                if peer is None:
                    continue
                try:
                    if what & select.EPOLLOUT and peer.out:
                        del peer.out[:peer.socket.send(peer.out[:CHUNK])]
                        self.want(peer)
                    if what & (select.EPOLLIN | select.EPOLLHUP | select.EPOLLERR):
                        data = peer.socket.recv(CHUNK)
                        if not data:
                            raise ConnectionError
                        peer.take(data)
                except BlockingIOError:
                    pass
                except OSError:
                    self.user.count("closed")
                    self.hang_up(peer)
            if time.monotonic() >= end:
                return

    def settle(self):
        """Until nothing more comes, or ten seconds have passed; then it is ready."""
        end = time.monotonic() + 10
        while time.monotonic() < end:
            before = list(self.user.counters)
            self.pump(0.3)
            if before == list(self.user.counters) and not any(p.out for p in self.peers.values()):
                break
        self.user.set_ready()

    def keep_busy(self, peers, asks, per_peer):
        """Keeps per_peer requests of each client unanswered: asks(peer) makes one."""
        for peer in peers:
            for _ in range(per_peer):
                asks(peer)
        self.pump(0.2)
        self.user.set_ready()
        while True:
            self.pump(0.01)
            for peer in peers:
                answered, peer.lines = len(peer.lines), []
                if self.alive(peer):
                    for _ in range(answered):
                        asks(peer)


def channels(it):
    """As many locks as it may have, and it asks again for each that it is refused."""
    peers = it.connect(4, keep=True)
    for at, peer in enumerate(peers):
        for number in range(1000):
            peer.ask("acquire", name=f"hostile/{at}-{number}", kind="mutex")
    it.settle()
    while True:
        it.pump(0.05)
        for at, peer in enumerate(peers):
            lines, peer.lines = peer.lines, []
            if not it.alive(peer):
                continue
            refused = sum(b'"too-many-' in line for line in lines)
            for number in range(refused):
                peer.ask("acquire", name=f"hostile/again-{at}-{peer.last_id}-{number}", kind="mutex")


def watches(it):
    """Thousands of watches, and acquires that come, wait and go all the time."""
    for at in range(4000):
        for peer in it.connect(1, reads=at % 2 == 0):
            peer.ask("watch")
            it.pump(0)
    workers = []

    def work():
        for peer in workers:
            it.hang_up(peer)
        workers[:] = it.connect(40)
        for number, peer in enumerate(workers):
            for wanted in range(32):
                peer.ask("acquire", name=f"hostile/{(number + wanted) % 40}", kind="mutex", who="x" * 256,
                         why="y" * 256, command="z" * 256)
    work()
    it.pump(0.5)
    it.user.set_ready()
    while True:
        it.pump(1)
        work()


def unread(it):
    """Connections that ask for what is long and read nothing."""
    peers = it.connect(1000, reads=False)
    methods = ("rpc.discover", "rpc.discover", "info", "list", "metrics", "show")
    it.user.set_ready()
    while True:
        for peer in peers:
            if it.alive(peer) and len(peer.out) < CHUNK:
                for method in methods:
                    peer.ask(method, **({"name": "shared/big"} if method == "show" else {}))
        it.pump(0.05)


def trickle(it):
    """Connections that ask for what is long and read a byte a second."""
    peers = it.connect(500, reads=False, receive_buffer=4096)
    for peer in peers:
        peer.ask("watch")
        for _ in range(200):
            peer.ask("rpc.discover")
    it.pump(0.5)
    it.user.set_ready()
    while True:
        it.pump(1)
        for peer in peers:
            if it.alive(peer):
                try:
                    it.user.count("lines", len(peer.socket.recv(1)))
                except OSError:
                    pass


def queries(it):
    """As many show, list, size, info and metrics as are worked on at once, and the next for each answer."""
    methods = ("show", "size", "list", "show", "metrics", "size", "info")

    def asks(peer):
        method = methods[peer.last_id % len(methods)]
        peer.ask(method, **({"name": "shared/big"} if method in ("show", "size") else {}))
    it.keep_busy(it.connect(500, keep=True), asks, 64)


def rows(it):
    """Thousands of waiters for one lock, with long words, and as many requests to show them all."""
    for peer in it.connect(18):
        for _ in range(1000):
            peer.ask("acquire", name="hostile/line", kind="mutex", who="x" * 256, why="y" * 256, command="z" * 256)
        it.pump(0.01)
    it.settle()
    it.keep_busy(it.connect(100, keep=True), lambda peer: peer.ask("show", name="hostile/line"), 16)


def explains(it):
    """explain and fsck, as many as it may; those that are refused come again."""
    def asks(peer):
        peer.ask("fsck" if peer.last_id % 2 else "explain", name="shared/big")
    it.keep_busy(it.connect(100, keep=True), asks, 64)


def pings(it):
    """Short requests, wrong ones too, as fast as they are answered."""
    def asks(peer):
        if peer.last_id % 10:
            peer.ask("ping")
        else:
            peer.last_id += 1
            peer.write(b'{"id":1,"method":"no-such-method"}\n' if peer.last_id % 20 < 10 else b"}{\n")
    it.keep_busy(it.connect(100, keep=True), asks, 256)


def locks(it):
    """Locks that are taken and given back, as fast as they are answered."""
    peers = it.connect(32, keep=True)
    for at, peer in enumerate(peers):
        for number in range(16):
            peer.ask("acquire", name=f"hostile/{at}-{number}", kind="mutex")
    it.pump(0.2)
    it.user.set_ready()
    while True:
        it.pump(0.005)
        for at, peer in enumerate(peers):
            lines, peer.lines = peer.lines, []
            if not it.alive(peer):
                continue
            for line in lines:
                result = json.loads(line).get("result", {})
                if "safe_for" in result:
                    peer.ask("release", lock=result["lock"])
                else:
                    peer.ask("acquire", name=f"hostile/{at}-{peer.last_id % 16}", kind="mutex")


def floods(it):
    """Requests that the access rules forbid, as fast as they are answered. Each wants a line of the log."""
    it.keep_busy(it.connect(16, keep=True), lambda peer: peer.ask("destroy", name="shared/big"), 256)


def names(it):
    """Mutexes of ever new names. Each fourth is an old one again, whose queue does not end then."""
    peers = it.connect(16, keep=True)
    numbers = itertools.count()

    def acquire(peer):
        number = next(numbers)
        peer.ask("acquire", name=f"hostile/{number // 2 if number % 4 == 0 else number}", kind="mutex", timeout=0)
    for peer in peers:
        for _ in range(8):
            acquire(peer)
    it.pump(0.2)
    it.user.set_ready()
    while True:
        it.pump(0.005)
        for peer in peers:
            lines, peer.lines = peer.lines, []
            if not it.alive(peer):
                continue
            for line in lines:
                result = json.loads(line).get("result", {})
                if "safe_for" in result:
                    peer.ask("release", lock=result["lock"])
                else:
                    acquire(peer)


def words(it):
    """Holders and waiters whose words have control characters, and forge a line of the command."""
    for at, peer in enumerate(it.connect(8)):
        for name, kind in ("hostile/words", "mutex"), (f"hostile/words-{at}", "mutex"), ("shared/big", "semaphore"):
            peer.ask("acquire", name=name, kind=kind, who=WORDS, why=WORDS, command=WORDS)
    it.settle()
    while True:
        it.pump(1)


def awaits(it):
    """Awaits of slots that stay free: as many as one user may have waiting."""
    for at, peer in enumerate(it.connect(20)):
        for slot in range(1, 1001):
            peer.ask("await", name=f"hostile/{at}", slot=slot, state="busy")
        it.pump(0.01)
    it.settle()
    while True:
        it.pump(1)


def priorities(it):
    """Acquires of every priority that there is, on eleven names that it holds itself."""
    holder, *peers = it.connect(12)
    for at in range(len(peers)):
        holder.ask("acquire", name=f"hostile/{at}", kind="mutex")
    it.pump(0.3)
    for at, peer in enumerate(peers):
        for priority in range(-100, 101):
            peer.ask("acquire", name=f"hostile/{at}", kind="mutex", priority=priority)
    it.settle()
    while True:
        it.pump(1)


def waiters(it):
    """Thousands of waiters for a lock that goes from one to the next, with notices of their positions."""
    peers = it.connect(19, keep=True)
    for peer in peers:
        for _ in range(1000):
            peer.ask("acquire", name="hostile/line", kind="mutex", progress=True)
        it.pump(0.01)
    it.settle()
    while True:
        it.pump(0.005)
        for peer in peers:
            lines, peer.lines = peer.lines, []
            for line in lines:
                if b'"safe_for"' in line and it.alive(peer):
                    peer.ask("release", lock=json.loads(line)["result"]["lock"])
                    peer.ask("acquire", name="hostile/line", kind="mutex", progress=True)


def cancels(it):
    """Acquires that wait and are cancelled at once."""
    holder, *peers = it.connect(21)
    holder.ask("acquire", name="hostile/held", kind="mutex")
    it.pump(0.2)
    it.user.set_ready()
    while True:
        for peer in peers:
            if it.alive(peer) and len(peer.out) < UNREAD_MAX:
                for _ in range(100):
                    peer.ask("acquire", name="hostile/held", kind="mutex", progress=True)
                    peer.ask("cancel", id=peer.last_id)
        it.pump(0.01)


def connections(it):
    """As many as it may have, which do nothing any more; those that are closed are made again."""
    it.connect(100000)
    for peer in list(it.peers.values()):
        peer.ask("ping")
    it.settle()
    while True:
        it.pump(0.1)
        for peer in it.connect(1):
            peer.ask("ping")


def churn(it):
    """Connections that come, ask for a lock, and go before they are answered."""
    it.user.set_ready()
    while True:
        peers = it.connect(50)
        for number, peer in enumerate(peers):
            peer.ask("acquire", name=f"hostile/{number % 25}", kind="mutex")
        it.pump(0)
        for peer in peers:
            it.hang_up(peer)


def bytewise(it):
    """The longest line that there may be, a byte at a time, over and over."""
    line = b'{"id":1,"method":"ping"' + b" " * (65535 - 24) + b"}\n"
    peers = it.connect(50)
    it.user.set_ready()
    at = 0
    while True:
        for peer in peers:
            if it.alive(peer):
                try:
                    peer.socket.send(line[at:at + 1])
                except OSError:
                    pass
        at = (at + 1) % len(line)
        it.user.count("requests", at == 0)
        if at % 100 == 0:
            it.pump(0)


def left_lines(it):
    """As many connections as it may have, each with the first byte of a line behind one that was long."""
    peers = it.connect(100000, keep=True)
    it.pump(0.1)
    for at in range(0, len(peers), 100):
        some = [peer for peer in peers[at:at + 100] if it.alive(peer)]
        for peer in some:
            peer.write(b'{"id":1,"method":"ping"' + b" " * 60000 + b"}\n{")
        end = time.monotonic() + 1
        while time.monotonic() < end and not all(peer.lines for peer in some):
            it.pump(0.001)
    it.user.set_ready()
    while True:
        it.pump(1)


def half_lines(it):
    """As many connections as it may have, each with a line that never ends."""
    half = b'{"id":1,"method":"' + b"x" * 65000
    for peer in it.connect(100000, reads=True):
        peer.write(half)
        it.pump(0)
    it.settle()
    while True:
        it.pump(1)
