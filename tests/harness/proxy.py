"""A TCP proxy between a daemon and its broker. Its network can fail while the connections stay open.

	proxy = Proxy(self, rabbit.port)
	daemon = Daemon(self, broker=f"amqp://guest:guest@127.0.0.1:{proxy.port}")

	proxy.cut()		# Freezes all connections, and new ones too.
	proxy.mute("client")	# Nothing arrives at this end.
	proxy.slow(0.1)		# All bytes arrive so much later.
	proxy.trickle()		# They arrive one by one.
	proxy.mend()		# Ends all this, and delivers the bytes sent meanwhile.

	proxy.spoil("client", noise)	# noise arrives in the middle of the next bytes for this end
	proxy.end("server")	# closes all connections at this end. The other end hears of it at mend()

	Proxy(self, port, rename=(b"RabbitMQ", b"OtherMQ!"))	# the broker introduces itself otherwise

	proxy.strand()		# cuts the present connections, but not new ones, for good;
				# the broker still gets heartbeats on them
	proxy.abandon()		# ends those heartbeats
	proxy.end_but_first()	# ends all connections but the oldest, a daemon's lock connection
"""

import collections
import os
import select
import socket
import threading
import time

HEARTBEAT_FRAME = b"\x08\x00\x00\x00\x00\x00\x00\xce"
# Of frames in the name of a stranded client, seconds.
HEARTBEAT_EVERY = 0.2
ENDS = ("client", "server")


class Pair:
    """Two sockets that hear each other through the proxy. The client is the daemon, the server is the broker."""

    def __init__(self, client, server):
        self.client = client
        self.server = server
        self.stranded = False
        self.is_read = True
        self.ended = False
        self.left = None  # the end that is still open, and hears nothing
        self.late = {end: collections.deque() for end in ENDS}  # (due, bytes) on their way there; b"" is the end

    def close(self):
        self.ended = True
        self.client.close()
        self.server.close()


class Proxy:
    def __init__(self, test, port, host="127.0.0.1", rename=(b"", b"")):
        """host, port: of the broker. rename: words and, as long as these, the others in their place. Ends with the test."""
        self.broker = host, port
        self.rename = rename
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.woken, self.waker = os.pipe()
        self.lock = threading.Lock()
        self.pairs = []
        self.muted = set()
        self.delay = 0
        self.one_by_one = False
        self.noise = {}  # end: bytes
        self.closing = set()  # ends
        self.beating = False
        self.stopped = False
        self.last_from_broker = 0.0  # CLOCK_BOOTTIME at which its last bytes were forwarded
        self.heard = None  # called with a pair, the end to which bytes have gone, and the bytes
        self.failure = None
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()
        test.addCleanup(self._close)

    # ---- what tests ask for ----

    def cut(self):
        self.mute(*ENDS)

    def mute(self, *ends):
        with self.lock:
            self.muted.update(ends)

    def slow(self, seconds):
        with self.lock:
            self.delay = seconds

    def trickle(self):
        with self.lock:
            self.one_by_one = True

    def spoil(self, end, noise):
        with self.lock:
            self.noise[end] = noise

    def end(self, *ends):
        with self.lock:
            self.closing.update(ends)
        self._wake()

    def mend(self):
        with self.lock:
            self.muted.clear()
            self.noise.clear()
            self.delay, self.one_by_one = 0, False
            for pair in self.pairs:
                if pair.left:
                    pair.late[pair.left].append((0, b""))
        self._wake()

    def strand(self):
        with self.lock:
            for pair in self.pairs:
                pair.stranded = True
            self.beating = True
        self._wake()

    def abandon(self):
        with self.lock:
            self.beating = False

    def end_but_first(self):
        """Returns how many it were."""
        with self.lock:
            for pair in self.pairs[1:]:
                # The thread may be waiting for them: it reads their end, and closes.
                pair.client.shutdown(socket.SHUT_RDWR)
                pair.server.shutdown(socket.SHUT_RDWR)
            return len(self.pairs) - 1

    # ---- the thread ----

    def _run(self):
        try:
            while not self.stopped:
                self._pass()
        except Exception as error:  # pylint: disable=broad-except
            self.failure = error

    def _pass(self):
        with self.lock:
            readers = self._readers()
            is_cut = self.muted == set(ENDS)
            until = min((queue[0][0] for pair in self.pairs for end, queue in pair.late.items()
                         if queue and end not in self.muted), default=None)
            beating = self.beating
        wanted = [self.woken, *readers, *([] if is_cut else [self.listener])]
        timeout = HEARTBEAT_EVERY if beating else None if until is None else max(0, until - time.monotonic())
        ready = select.select(wanted, [], [], timeout)[0]
        with self.lock:
            if self.woken in ready:
                os.read(self.woken, 64)
            if self.beating:
                self._beat()
            self._end_some()
            if self.listener in ready and self.muted != set(ENDS):
                self._accept()
            still = self._readers()  # mute() has returned: nothing passes any more
            for reader in ready:
                if reader in still:
                    self._receive(reader, still[reader])
            for pair in list(self.pairs):
                self._deliver(pair)

    def _readers(self):
        """The sockets to read, each with its pair and the end to which its bytes go."""
        return {getattr(pair, one): (pair, other) for pair in self.pairs if pair.is_read and not pair.stranded
                for one, other in (ENDS, ENDS[::-1]) if other not in self.muted}

    def _accept(self):
        client, _ = self.listener.accept()
        try:
            server = socket.create_connection(self.broker, 5)
        except OSError:
            client.close()
            return
        for end in (client, server):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.pairs.append(Pair(client, server))

    def _receive(self, reader, where):
        pair, end = where
        try:
            data = reader.recv(65536)
        except OSError:
            data = b""
        if data and end in self.noise:
            data = data[:len(data) // 2] + self.noise.pop(end) + data[len(data) // 2:]
        if end == "client":
            data = data.replace(*self.rename)
        pair.late[end].append((time.monotonic() + self.delay, data))
        pair.is_read = bool(data)

    def _deliver(self, pair):
        for end in ENDS:
            queue = pair.late[end]
            while queue and not pair.ended and end not in self.muted and (
                    queue[0][0] <= time.monotonic() or not self.delay):
                self._pass_on(pair, end, queue.popleft()[1])

    def _pass_on(self, pair, end, data):
        step = 1 if self.one_by_one else max(1, len(data))
        try:
            for start in range(0, len(data), step):
                getattr(pair, end).sendall(data[start:start + step])
        except OSError:
            data = b""
        if data and self.heard:
            self.heard(pair, end, data)
        if not data:
            pair.close()
            self.pairs.remove(pair)
        elif end == "client":
            self.last_from_broker = time.clock_gettime(time.CLOCK_BOOTTIME)

    def _end_some(self):
        for pair in list(self.pairs) if self.closing else ():
            left = {pair.left} if pair.left else set(ENDS)
            if left <= self.closing:
                pair.close()
                self.pairs.remove(pair)
            elif left & self.closing:
                pair.left, pair.is_read = (left - self.closing).pop(), False
                getattr(pair, *self.closing).close()
        self.closing.clear()

    def _beat(self):
        for pair in self.pairs:
            if pair.stranded:
                try:
                    pair.server.sendall(HEARTBEAT_FRAME)
                except OSError:
                    pass  # the broker has ended it

    def _wake(self):
        os.write(self.waker, b".")

    def _close(self):
        self.stopped = True
        self._wake()
        self.thread.join(10)
        for pair in self.pairs:
            pair.close()
        self.listener.close()
        os.close(self.woken)
        os.close(self.waker)
        if self.failure is not None:
            raise self.failure
