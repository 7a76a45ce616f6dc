"""The socket below a core: where it is, and moving bytes without blocking."""

from __future__ import annotations

import logging
import os
import socket
import struct
import weakref

from ._core import PATIENCE, Core, closed_by_daemon
from .errors import Closed, NoAccess, NoAnswer, NoDaemon

DEFAULT_SOCKET = "/run/lockbroker/lockbroker.sock"
# Read in one pass at most this often, so that a flood of notifications does not keep lapse() from its turn.
READS_A_PASS = 64

log = logging.getLogger("lockbroker")


def socket_path(path: str | os.PathLike[str] | None = None) -> str:
    """The path, else $LOCKBROKER_SOCKET (not in a set-user-ID process, as secure_getenv(3)), else the default."""
    trusted = os.getuid() == os.geteuid() and os.getgid() == os.getegid()
    return os.fspath(path or "") or (os.environ.get("LOCKBROKER_SOCKET", "") if trusted else "") or DEFAULT_SOCKET


def connect(path: str) -> socket.socket:
    """A non-blocking socket. Blocks only while the daemon's backlog is full. A failed system call is an OSError, except
    for those that name the daemon or the user."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # connect() to a Unix socket waits for room in the backlog no longer than this. A non-blocking one never waits.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("@ll", int(PATIENCE), 0))
        connection.connect(path)
        connection.setblocking(False)
        return connection
    except BaseException as error:
        connection.close()
        if isinstance(error, (FileNotFoundError, NotADirectoryError, ConnectionRefusedError)):
            raise NoDaemon(f"{path}: {error.strerror}") from error
        if isinstance(error, PermissionError):
            raise NoAccess(f"{path}: {error.strerror}") from error
        if isinstance(error, BlockingIOError):
            raise NoAnswer(f"{path}: the daemon does not accept connections") from error
        raise


class Link:
    def __init__(self, connection: socket.socket, core: Core) -> None:
        self.socket = connection
        self.core = core
        _links.add(self)

    def move(self) -> None:
        """Sends and reads as much as is possible now, and then ends the holds that are not safe any more."""
        self._write()
        self._read()
        self._write()
        self.core.lapse()

    def _read(self) -> None:
        for _ in range(READS_A_PASS):
            if self.core.closed is not None:
                return
            try:
                data = self.socket.recv(65536)
            except BlockingIOError:
                return
            except OSError as error:
                self.core.close(Closed(f"the connection to the daemon: {error}"))
                return
            if not data:
                self.core.close(closed_by_daemon())
                return
            self.core.feed(data)

    def _write(self) -> None:
        output = self.core.output
        while output and self.core.closed is None:
            try:
                del output[:self.socket.send(output)]
            except BlockingIOError:
                return
            except OSError as error:
                # Messages that the daemon sent before it closed are still unread.
                self._read()
                self.core.close(Closed(f"the connection to the daemon: {error}"))

    def call_due(self) -> None:
        """Calls the program's callbacks. An exception in one is logged, and the next one is called."""
        while self.core.due:
            function = self.core.due.popleft()
            try:
                function()
            except Exception:
                log.exception("a callback raised an exception")

    def close(self) -> None:
        """Ends the connection, also for copies of the socket in other processes. The core is closed already."""
        try:
            self.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # the daemon was faster
        self.socket.close()

    def forget(self) -> None:
        """For the child after fork(): closes the copy of this process alone."""
        self.core.forget()
        self.socket.close()


_links: weakref.WeakSet[Link] = weakref.WeakSet()


def _forget_all() -> None:
    for link in list(_links):
        link.forget()


# A hold lives until the last copy of its socket is closed. A child must not keep its parent's locks.
os.register_at_fork(after_in_child=_forget_all)
