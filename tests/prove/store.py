"""The store that the clients of a run write to, each time with the fence of its hold. It applies the check of docs/FENCING.md.

	store = Store(record)
	end = store.connect("c1")	# the file descriptor of that client, which writes lines: ID NAME SLOT FENCE
	store.close()

A FENCE of "-" is none: the write is taken. The answer is `ok`, or `late` if the write is refused. The record has each write.
"""

import contextlib
import socket
import threading


class Store:
    def __init__(self, record):
        self.record = record
        self.lock = threading.Lock()
        self.fences = {}  # (name, slot): the largest one that was seen

    def connect(self, actor):
        """Serves this client until it ends. The socket of the client: close it when the client has it."""
        mine, theirs = socket.socketpair()
        threading.Thread(target=self.serve, args=(actor, mine), daemon=True).start()
        return theirs

    def serve(self, actor, peer):
        # Its end can be a reset.
        with peer, peer.makefile() as lines, contextlib.suppress(ConnectionResetError, BrokenPipeError):
            for line in lines:
                peer.sendall(self.write(actor, *line.split()) + b"\n")

    def write(self, actor, ident, name, slot, fence):
        """To compare, to keep and to write is one step."""
        with self.lock:
            late = fence != "-" and int(fence) < self.fences.get((name, slot), 0)
            if fence != "-" and not late:
                self.fences[name, slot] = int(fence)
            self.record.note("store", "denied" if late else "took", actor, ident, name, slot, fence)
        return b"late" if late else b"ok"
