"""An AMQP proxy that shares one connection to the broker among all its clients, as connection pools do. The broker sees
the channels of several daemons as channels of one connection. Nobody must use such a proxy for locks.

	proxy = SharingProxy(self, rabbit.port)
	daemon = Daemon(self, broker=f"amqp://guest:guest@127.0.0.1:{proxy.port}")

The first client logs in. The others get the same answers. Each gives its channels numbers of its own, which the proxy
translates. rename: (old, new), of the same length, changes the words in which the broker introduces itself.
"""

import socket
import struct
import threading

HEADER = b"AMQP\x00\x00\x09\x01"
METHOD, HEARTBEAT = 1, 8
END = b"\xce"
# Class and method.
START, START_OK, TUNE, TUNE_OK, OPEN, OPEN_OK, CLOSE, CLOSE_OK = (
    (10, 10), (10, 11), (10, 30), (10, 31), (10, 40), (10, 41), (10, 50), (10, 51))
CHANNEL_CLOSE, CHANNEL_CLOSE_OK = (20, 40), (20, 41)


def read_exactly(sock, count):
    data = b""
    while len(data) < count:
        more = sock.recv(count - len(data))
        if not more:
            raise EOFError
        data += more
    return data


def read_frame(sock):
    """Kind, channel and payload."""
    kind, channel, size = struct.unpack(">BHI", read_exactly(sock, 7))
    return kind, channel, read_exactly(sock, size + 1)[:-1]


def frame(kind, channel, payload):
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + END


def method(payload):
    return struct.unpack_from(">HH", payload)


class SharingProxy:
    def __init__(self, test, port, rename=(b"", b"")):
        """port: of the broker, on this host. Ends with the test."""
        self.rename = rename
        self.lock = threading.Lock()  # of all below, and of what is sent to the broker
        self.server = socket.create_connection(("127.0.0.1", port))
        self.greetings = []  # start, tune and open-ok, as the broker sent them
        self.last = 0  # channel number at the broker
        self.clients = {}  # channel at the broker: (client, its channel)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.open = []
        threading.Thread(target=self._accept, daemon=True).start()
        test.addCleanup(self._close)

    def _close(self):
        with self.lock:
            for sock in (self.listener, self.server, *self.open):
                try:
                    sock.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass  # it has ended
                sock.close()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            with self.lock:
                self.open.append(client)
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    # ---- the handshake ----

    def _greet(self, client):
        """The first client logs in at the broker; to the others the proxy repeats the broker's words."""
        first = not self.greetings
        read_exactly(client, len(HEADER))
        if first:
            self.server.sendall(HEADER)
        for step, answers in enumerate(([START_OK], [TUNE_OK, OPEN], [])):
            if first:
                kind, channel, payload = read_frame(self.server)
                self.greetings.append(frame(kind, channel, payload.replace(*self.rename)))
            client.sendall(self.greetings[step])
            for answer in answers:
                kind, channel, payload = read_frame(client)
                assert method(payload) == answer, payload
                if first:
                    self.server.sendall(frame(kind, channel, payload))
        if first:
            threading.Thread(target=self._deliver, daemon=True).start()

    # ---- frames ----

    def _serve(self, client):
        numbers = {}  # this client's channel: that at the broker
        try:
            with self.lock:
                self._greet(client)
            while self._forward(client, numbers, *read_frame(client)):
                pass
        except (EOFError, OSError):
            pass
        try:
            with self.lock:
                for number in numbers.values():
                    if self.clients.pop(number, None):
                        self.server.sendall(frame(METHOD, number, struct.pack(">HHHBHH", *CHANNEL_CLOSE, 200, 0, 0, 0)))
        except OSError:
            pass  # the broker has ended it
        client.close()

    def _forward(self, client, numbers, kind, channel, payload):
        """Returns whether the client goes on."""
        if channel == 0 and kind == METHOD:
            if method(payload) == CLOSE:
                client.sendall(frame(METHOD, 0, struct.pack(">HH", *CLOSE_OK)))
            return method(payload) != CLOSE
        with self.lock:
            if channel != 0 and channel not in numbers:
                self.last += 1
                numbers[channel] = self.last
                self.clients[self.last] = client, channel
            number = numbers.get(channel, 0)
            self.server.sendall(frame(kind, number, payload))
            if kind == METHOD and method(payload) == CHANNEL_CLOSE_OK:
                self.clients.pop(numbers.pop(channel))
        return True

    def _deliver(self):
        try:
            while True:
                kind, number, payload = read_frame(self.server)
                with self.lock:
                    if number == 0:
                        self._tell_all(frame(kind, 0, payload))
                    elif number in self.clients:
                        client, channel = self.clients[number]
                        self._tell(client, frame(kind, channel, payload))
        except (EOFError, OSError):
            self._close()

    def _tell_all(self, data):
        for client in self.open:
            self._tell(client, data)

    @staticmethod
    def _tell(client, data):
        try:
            client.sendall(data)
        except OSError:
            pass  # it has gone
