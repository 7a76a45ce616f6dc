"""A proxy that knows the beads of slots that are held by quorum, and holds one of their frames back (proxy.py).

	proxy = FrameProxy(self, rabbit.port)
	proxy.hold("flip")		# the next flip stays in the proxy, with all that comes behind it
	proxy.hold("flip", answered=True)	# RabbitMQ performs it, and the delivery that answers it stays
	proxy.held.wait(60)
	proxy.let_go()			# they go on

A frame is on a connection that consumes from such a slot. A daemon has one slot at a time here.
"""

import socket
import struct
import threading
import time

from proxy import Proxy

CONSUME, DELIVER, REJECT = (60, 20), (60, 60), (60, 90)
PROTOCOL_HEADER = 8
HEAD = struct.Struct(">BHL")


class Stream:
    """Bytes to one end of a pair."""

    def __init__(self):
        self.unread = b""  # of a frame that is not whole
        self.kept = None   # bytes that are held back; None: nothing is
        self.headed = False


class Slot:
    """The deliveries that a channel has, in their order. answers: the request that the next delivery answers."""

    def __init__(self):
        self.tags, self.answers = [], "beads"

    def delivered(self, tag):
        """The request that it answers."""
        self.tags.append(tag)
        if self.answers == "beads" and len(self.tags) < 3:
            return ""
        answers, self.answers = self.answers, ""
        return answers

    def rejected(self, tag):
        """As a delivery has come for each earlier reject, the place says what this one is for."""
        place = self.tags.index(tag)
        self.tags.remove(tag)
        self.answers = ("turn", "flip", "proof")[place]
        return self.answers


def words_end(payload, at):
    """Behind a short string."""
    return at + 1 + payload[at]


class FrameProxy(Proxy):
    def __init__(self, *arguments, **more):
        self.streams, self.slots = {}, {}
        self.wanted = self.answered = None
        self.held = threading.Event()
        super().__init__(*arguments, **more)

    def hold(self, what, answered=False):
        """what: "beads" (the third delivery of a claim), "flip" or "proof". From the next one on."""
        with self.lock:
            self.held.clear()
            self.wanted, self.answered = what, answered

    def let_go(self):
        with self.lock:
            self.wanted = None
            for (pair, end), stream in self.streams.items():
                for data in stream.kept or ():
                    pair.late[end].append((0, data))
                stream.kept = None
        self._wake()

    def _receive(self, reader, where):
        pair, end = where
        super()._receive(reader, where)
        _, data = pair.late[end].pop()
        stream = self.streams.setdefault((pair, end), Stream())
        for piece in self._pieces(pair, end, stream, data):
            if stream.kept is not None:
                stream.kept.append(piece)
            else:
                pair.late[end].append((time.monotonic() + self.delay, piece))

    def _pass_on(self, pair, end, data):
        """With unread bytes, the end of a connection is a reset, and the broker may not read what came before it."""
        if not data and end == "server":
            try:
                pair.server.shutdown(socket.SHUT_WR)
                pair.server.settimeout(60)
                while pair.server.recv(65536):
                    pass
            except OSError:
                pass
        super()._pass_on(pair, end, data)

    def _pieces(self, pair, end, stream, data):
        """Whole frames, and b"" at the end."""
        if not data:
            yield from filter(None, [stream.unread])
            yield b""
            return
        stream.unread += data
        if end == "server" and not stream.headed and len(stream.unread) >= PROTOCOL_HEADER:
            stream.headed = True
            head, stream.unread = stream.unread[:PROTOCOL_HEADER], stream.unread[PROTOCOL_HEADER:]
            yield head
        while len(stream.unread) >= HEAD.size:
            kind, channel, size = HEAD.unpack_from(stream.unread)
            size += HEAD.size + 1
            if len(stream.unread) < size:
                return
            frame, stream.unread = stream.unread[:size], stream.unread[size:]
            if kind == 1 and self._is_wanted(pair, end, channel, frame[HEAD.size:-1]):
                self.wanted = None
                stream.kept = []
                self.held.set()
            yield frame

    def _is_wanted(self, pair, end, channel, payload):
        method, at = struct.unpack_from(">HH", payload), 4
        if end == "server" and method == CONSUME and b"lockbroker=q=" in payload:
            self.slots[pair, channel] = Slot()
        slot = self.slots.get((pair, channel))
        if slot is None:
            return False
        if end == "server" and method == REJECT:
            return slot.rejected(struct.unpack_from(">Q", payload, at)[0]) == self.wanted and not self.answered
        if end == "client" and method == DELIVER:
            tag, = struct.unpack_from(">Q", payload, words_end(payload, at))
            return slot.delivered(tag) == self.wanted and (self.answered or self.wanted == "beads")
        return False
