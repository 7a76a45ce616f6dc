"""A TCP proxy between a daemon and its broker. Its network can fall silent while the connections stay open.

	proxy = Proxy(self, rabbit.port)
	daemon = Daemon(self, broker=f"amqp://guest:guest@127.0.0.1:{proxy.port}")

	proxy.cut()		# freezes all connections, and new ones too
	proxy.mend()		# delivers the bytes sent meanwhile
	proxy.strand()		# cuts the present connections, but not new ones, for good;
				# the broker still gets heartbeats on them
	proxy.abandon()		# ends those heartbeats
	proxy.end_but_first()	# ends all connections but the oldest, a daemon's lock connection
"""

import os
import select
import socket
import threading
import time

HEARTBEAT_FRAME = b"\x08\x00\x00\x00\x00\x00\x00\xce"
# Of frames in the name of a stranded client, seconds.
HEARTBEAT_EVERY = 0.2


class Pair:
    """Two sockets that hear each other through the proxy."""

    def __init__(self, client, server):
        self.client = client
        self.server = server
        self.stranded = False
        self.ended = False

    def close(self):
        self.ended = True
        self.client.close()
        self.server.close()


class Proxy:
    def __init__(self, test, port):
        """port: of the broker, on 127.0.0.1. Ends with the test."""
        self.broker_port = port
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.woken, self.waker = os.pipe()
        self.lock = threading.Lock()
        self.pairs = []
        self.is_cut = False
        self.beating = False
        self.stopped = False
        self.last_from_broker = 0.0  # CLOCK_BOOTTIME at which its last bytes were forwarded
        self.failure = None
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()
        test.addCleanup(self._close)

    # ---- what tests ask for ----

    def cut(self):
        with self.lock:
            self.is_cut = True

    def mend(self):
        with self.lock:
            self.is_cut = False
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
            readers = {} if self.is_cut else self._readers()
            beating = self.beating
        wanted = [self.woken, *readers, *([] if self.is_cut else [self.listener])]
        ready = select.select(wanted, [], [], HEARTBEAT_EVERY if beating else None)[0]
        with self.lock:
            if self.woken in ready:
                os.read(self.woken, 64)
            if self.beating:
                self._beat()
            if self.is_cut:
                return  # cut() has returned: nothing passes any more
            if self.listener in ready:
                self._accept()
            for reader in ready:
                if reader in readers:
                    self._forward(reader, readers[reader])

    def _readers(self):
        return {end: pair for pair in self.pairs if not pair.stranded
                for end in (pair.client, pair.server)}

    def _accept(self):
        client, _ = self.listener.accept()
        try:
            server = socket.create_connection(("127.0.0.1", self.broker_port), 5)
        except OSError:
            client.close()
            return
        for end in (client, server):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.pairs.append(Pair(client, server))

    def _forward(self, reader, pair):
        if pair.ended:
            return
        to = pair.server if reader is pair.client else pair.client
        try:
            data = reader.recv(65536)
            to.sendall(data)
        except OSError:
            data = b""
        if not data:
            pair.close()
            self.pairs.remove(pair)
        elif reader is pair.server:
            self.last_from_broker = time.clock_gettime(time.CLOCK_BOOTTIME)

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
