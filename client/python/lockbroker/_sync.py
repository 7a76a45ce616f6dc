"""The client for threads. A thread of its own, the reader, owns the socket and the core. Other threads hand commands to
it and wait. Thus a signal that interrupts the main thread never interrupts the bookkeeping."""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import functools
import os
import select
import socket
import threading
import types
import weakref
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

from . import _calls
from ._core import LOOK_AT_CLOCK, PATIENCE, Core, Hold, Request
from ._link import Link, connect, socket_path
from .errors import Closed, Error, NoAnswer, Revoked

P = ParamSpec("P")
T = TypeVar("T")
# A reader is that late only if a callback blocks it. A lease that has passed then counts without it.
SETTLE_WITHIN = 1.0


class Reader(Link):
    def __init__(self, connection: socket.socket, core: Core) -> None:
        super().__init__(connection, core)
        self._commands: collections.deque[Callable[[], object]] = collections.deque()
        self._settled: list[threading.Event] = []
        self._wake, self._waker = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        for end in (self._wake, self._waker):
            weakref.finalize(self, os.close, end).atexit = False
        self.thread = threading.Thread(target=self._run, name="lockbroker", daemon=True)

    def here(self) -> bool:
        """Whether this is the reader itself, so a callback of the program."""
        return threading.current_thread() is self.thread

    def post(self, command: Callable[[], object]) -> None:
        """Hands over a command. The reader performs them in order. After the end each thread performs its own."""
        self._commands.append(command)
        if self.core.closed is not None:
            self._perform()
        else:
            with contextlib.suppress(BlockingIOError):  # a full pipe wakes it, too
                os.write(self._waker, b"w")

    def settle(self) -> None:
        """Returns when the reader has read what is there, and has ended the holds that are not safe any more."""
        done = threading.Event()
        self.post(lambda: self._settled.append(done))
        if self.core.closed is None:
            done.wait(SETTLE_WITHIN)

    def stop(self) -> None:
        """Closes, without a callback. Waits for nothing, as the garbage collector calls it, in any thread."""
        self.post(self._stop)

    def _stop(self) -> None:
        self.core.close(Closed("this client was closed"))
        self.core.due.clear()

    def forget(self) -> None:
        self._commands.clear()
        super().forget()

    def _run(self) -> None:
        try:
            poll = select.poll()
            poll.register(self._wake, select.POLLIN)
            while self.core.closed is None:
                poll.register(self.socket, select.POLLIN | (select.POLLOUT if self.core.output else 0))
                poll.poll(1000 * min(self.core.next_lapse(), LOOK_AT_CLOCK))
                self._turn()
        except BaseException as error:
            self.core.close(Closed(f"the reader thread died: {error!r}"))
            raise
        finally:
            self.close()
            self._perform()
            self.call_due()

    def _turn(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake, 65536)
        self._perform()
        self.move()
        for done in self._settled:
            done.set()
        self._settled.clear()
        self.call_due()

    def _perform(self) -> None:
        while self._commands:
            try:
                command = self._commands.popleft()
            except IndexError:
                return  # after the end several threads can be here
            command()


class Lock(Hold):
    """A lock that this process holds. Any of its threads can use it. As a context, it is released at the end."""

    def __init__(self, client: Client, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._client = client

    def _settle(self) -> None:
        if not self._client._reader.here():
            self._client._reader.settle()
        if self.safe_for == 0.0:
            self._lapse()

    def verify(self) -> None:
        """Asks the daemon, and it asks the broker, whether the lock is held. Raises Lost, or Revoked: it is held, but
        its slot was removed. Raises Unavailable if it is not known. Does not wait beyond safe_until."""
        self.check()
        self._client._ask(Request("verify", {"lock": self.id}, concurrent.futures.Future(), hold=self), PATIENCE)
        self.check()
        if self.revoked:
            raise Revoked(f"{self.name}: the slot was removed", {"lock": self.id})

    def release(self) -> None:
        """Ends the hold. Returns when another client can have the slot. Raises Lost if the lock was lost before. If it
        is interrupted, for example by Ctrl-C, the lock is released, and nobody waits for that."""
        reader = self._client._reader
        try:
            self.check()
            self._releasing = True
            self._client._ask(Request("release", {"lock": self.id}, concurrent.futures.Future(), hold=self), PATIENCE)
        except BaseException as error:
            interrupted = not isinstance(error, Error) and not reader.here()
            if interrupted or self._is_owed(error):
                reader.post(lambda: reader.core.give_back(self))
            raise

    def __enter__(self) -> Lock:
        return self

    def __exit__(self, _type: type[BaseException] | None, error: BaseException | None,
                 _trace: types.TracebackType | None) -> None:
        if self._released and self._lost is None:
            return
        try:
            self.release()
        except Error as ours:
            # An exception of the block matters more.
            if error is None:
                raise
            error.add_note(f"lockbroker: {ours}")


def _method(build: Callable[P, _calls.Call[T]]) -> Callable[Concatenate[Client, P], T]:
    @functools.wraps(build)
    def method(self: Client, /, *args: P.args, **kwargs: P.kwargs) -> T:
        call = build(*args, **kwargs)
        return call.read(self._ask(Request(call.method, call.params, concurrent.futures.Future()), call.patience))
    return method


class Client:
    """A connection to the daemon, for threads.

        with lockbroker.Client() as client, client.acquire("db-slots", timeout=5) as lock:
            for part in work:
                lock.check()        # raises Lost if the lock is not held any more
                part()

    All threads of the process can share one client. Its locks live until they are released or lost, or until the
    client is closed. A client that nobody refers to, and that holds nothing, is closed.

    Loss. A lock is lost if the daemon says so, if the connection ends, or if safe_until passes without news. check(),
    verify(), release() and the end of the with block then raise Lost, in the thread that calls them. `on_lost` is
    called at once ("Holds and leases").

    Evictions. An administrator can end a hold at a deadline. `on_evicted` is called at once, and `evicted` of the lock has
    the deadline. The lock is lost then, with the cause "evicted". `on_evicted` cannot call release(), which waits. Let it
    set an event that the work looks at, and leave the `with` block, which releases the lock:

        stop = threading.Event()
        with client.acquire("nightly", on_evicted=lambda lock: stop.set()):
            while not stop.is_set():
                do_a_part()

    Callbacks run in the client's own thread. They must be short, as leases are extended in this thread, too. They
    cannot call methods that wait. An exception in one is logged (logger "lockbroker").

    Fork. A child has no connection: its copy of the socket is closed at once (os.register_at_fork), and the parent
    keeps its locks. Calls in the child raise Forked, and the locks of the parent count as lost there. Make a new
    client in the child. A child that was not made by Python's os.fork(), and does not exec, keeps the locks.

    Exit. When the process ends, the daemon releases its locks.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None, *,
                 on_notification: Callable[[str, dict[str, Any]], object] | None = None) -> None:
        """Connects to the socket at path; None: $LOCKBROKER_SOCKET, else /run/lockbroker/lockbroker.sock.
        on_notification(method, params) is called for each notification of the daemon ("Notifications"). With
        "draining", for example, the daemon says that it stops in params["grace"] seconds.

        Raises NoDaemon, NoAccess, NoAnswer; OSError if another system call fails.
        """
        self._reader = Reader(connect(socket_path(path)), Core(on_notification))
        try:
            self._reader.thread.start()
        except BaseException:
            self._reader.close()
            raise
        weakref.finalize(self, self._reader.stop).atexit = False

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the connection. The daemon releases all locks, and requests that wait fail with Closed. A lock that
        another thread still uses counts as lost. No callback is called afterwards. A second time it does nothing."""
        self._reader.stop()
        if not self._reader.here():
            self._reader.thread.join()

    @property
    def closed(self) -> bool:
        """True if there is no connection: it was closed by the daemon, or here."""
        return self._reader.core.closed is not None

    def acquire(self, name: str, *, timeout: float | None = None, kind: _calls.Kind = "semaphore", priority: int = 0,
                create: int | None = None, who: str | None = None, why: str | None = None, command: str | None = None,
                on_lost: Callable[[Lock], object] | None = None, on_revoked: Callable[[Lock], object] | None = None,
                on_evicted: Callable[[Lock], object] | None = None,
                on_progress: Callable[[int, int | None], object] | None = None) -> Lock:
        """Waits for a lock: for ever, `timeout` seconds, or not at all (0). The parameters are those of the method
        "acquire". on_progress(position, busy) is called while it waits.

        Raises Busy, NoSuchLock, Cancelled (an administrator denied it), Unavailable and other Errors. If it is
        interrupted, for example by Ctrl-C, the acquire is cancelled. If the grant was faster, the lock is released.
        """
        request = Request(*_calls.acquire(name, timeout, kind, priority, create, who, why, command, on_progress),
                          future=concurrent.futures.Future(), on_progress=on_progress,
                          make=lambda result: Lock(self, result, on_lost, on_revoked, on_evicted))
        try:
            lock: Lock = self._ask(request, _calls.patience(timeout))
            lock.check()  # it may have ended together with the grant, or its lease may be over by now
            return lock
        except BaseException:
            self._reader.post(lambda: self._reader.core.abandon(request))
            raise

    def call(self, method: str, /, *, patience: float | None = PATIENCE, **params: Any) -> Any:
        """Any method of the protocol, and its result. NoAnswer after `patience` seconds; None: no limit. For
        locks there is acquire()."""
        return self._ask(Request(method, params, concurrent.futures.Future()), patience)

    def _ask(self, request: Request, patience: float | None) -> Any:
        reader = self._reader
        if reader.here():
            raise RuntimeError("a callback cannot wait for the daemon")
        assert isinstance(request.future, concurrent.futures.Future)
        try:
            reader.post(lambda: reader.core.send(request))
            return request.future.result(patience)
        except BaseException as error:
            if not request.future.done():
                reader.post(lambda: reader.core.abandon(request))
            if isinstance(error, TimeoutError):
                raise NoAnswer(f"{request.method}: the daemon did not answer in time") from None
            raise

    create = _method(_calls.create)
    resize = _method(_calls.resize)
    destroy = _method(_calls.destroy)
    size = _method(_calls.size)
    await_slot = _method(_calls.await_slot)
    list_semaphores = _method(_calls.list_semaphores)
    show = _method(_calls.show)
    explain = _method(_calls.explain)
    fsck = _method(_calls.fsck)
    grant = _method(_calls.grant)
    deny = _method(_calls.deny)
    deny_all = _method(_calls.deny_all)
    evict = _method(_calls.evict)
    evict_all = _method(_calls.evict_all)
    info = _method(_calls.info)
    metrics = _method(_calls.metrics)
    ping = _method(_calls.ping)
