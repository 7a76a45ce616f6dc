"""The client for asyncio. The event loop moves the bytes; no thread is used."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import socket
import types
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, Concatenate, ParamSpec, TypeVar

from . import _calls
from ._core import LOOK_AT_CLOCK, PATIENCE, Core, Hold, Request
from ._link import Link, connect, socket_path
from .errors import Closed, Error, Lost, NoAnswer, Revoked

P = ParamSpec("P")
T = TypeVar("T")


class LoopLink(Link):
    def __init__(self, connection: socket.socket, core: Core) -> None:
        super().__init__(connection, core)
        self.loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._writing = False
        self.loop.add_reader(connection, self.turn)

    def turn(self) -> None:
        """Moves bytes, and arranges for its next call. Callbacks of the program come later, from the loop."""
        try:
            self.move()
        except BaseException as error:
            self.core.close(Closed(f"the client failed: {error!r}"))
            raise
        finally:
            if self._timer is not None:
                self._timer.cancel()
            if self.core.closed is not None:
                self.end()
            else:
                self._timer = self.loop.call_later(min(self.core.next_lapse(), LOOK_AT_CLOCK), self.turn)
                self._write_later(bool(self.core.output))
            if self.core.due:
                self.loop.call_soon(self.call_due)

    def _write_later(self, wanted: bool) -> None:
        if wanted and not self._writing:
            self.loop.add_writer(self.socket, self.turn)
        elif self._writing and not wanted:
            self.loop.remove_writer(self.socket)
        self._writing = wanted

    def end(self) -> None:
        """Closes the socket. Twice is fine."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.socket.fileno() >= 0:
            self.loop.remove_reader(self.socket)
            self._write_later(False)
            self.close()

    def stop(self) -> None:
        self.core.close(Closed("this client was closed"))
        self.core.due.clear()
        self.end()


class AsyncLock(Hold):
    """A lock that this process holds. At the end of its `async with` block it is released. If it is lost inside the
    block, the task is cancelled there, and the block raises Lost."""

    def __init__(self, client: AsyncClient, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._client = client
        self._task: asyncio.Task[Any] | None = None  # the task inside the block
        self._cancelled_task = False
        self._cancelling = 0

    def _settle(self) -> None:
        self._client._link.turn()
        if self.safe_for == 0.0:
            self._lapse()

    def _tell_lost(self) -> None:
        if self._task is not None:
            self._cancelled_task = self._task.cancel()
        super()._tell_lost()

    async def verify(self) -> None:
        """As Lock.verify()."""
        self.check()
        await self._client._ask(Request("verify", {"lock": self.id}, self._client._future(), hold=self), PATIENCE)
        self.check()
        if self.revoked:
            raise Revoked(f"{self.name}: the slot was removed", {"lock": self.id})

    async def release(self) -> None:
        """As Lock.release(). If the task is cancelled meanwhile, the lock is released nevertheless."""
        try:
            self.check()
        except Lost as error:
            if self._is_owed(error):
                self._client._give_back(self)
            raise
        self._releasing = True
        await self._client._ask(Request("release", {"lock": self.id}, self._client._future(), hold=self), PATIENCE)

    async def __aenter__(self) -> AsyncLock:
        self._task = asyncio.current_task()
        self._cancelling = self._task.cancelling() if self._task is not None else 0
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None,
                        _trace: types.TracebackType | None) -> None:
        task, self._task = self._task, None
        if self._cancelled_task and task is not None and task.uncancel() <= self._cancelling \
                and kind is asyncio.CancelledError:
            # Only the loss cancelled the task, so the task is told that. As asyncio.timeout() does it.
            error = None
        if self._released and self._lost is None:
            return
        try:
            await self.release()
        except Error as ours:
            # An exception of the block matters more.
            if error is None:
                raise
            error.add_note(f"lockbroker: {ours}")


class _Acquire(Awaitable[AsyncLock], contextlib.AbstractAsyncContextManager[AsyncLock]):
    """`await client.acquire(...)` and `async with client.acquire(...)`."""

    def __init__(self, acquire: Callable[[], Coroutine[Any, Any, AsyncLock]]) -> None:
        self._acquire = acquire

    def __await__(self) -> Generator[Any, Any, AsyncLock]:
        return self._acquire().__await__()

    async def __aenter__(self) -> AsyncLock:
        self._lock = await self._acquire()
        return await self._lock.__aenter__()

    async def __aexit__(self, *exception: Any) -> None:
        await self._lock.__aexit__(*exception)


def _method(build: Callable[P, _calls.Call[T]]) -> Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, T]]:
    @functools.wraps(build)
    async def method(self: AsyncClient, /, *args: P.args, **kwargs: P.kwargs) -> T:
        call = build(*args, **kwargs)
        return call.read(await self._ask(Request(call.method, call.params, self._future()), call.patience))
    return method


class AsyncClient:
    """A connection to the daemon, for the tasks of one event loop.

        async with lockbroker.AsyncClient() as client:
            async with client.acquire("db-slots", timeout=5) as lock:
                await work()        # cancelled if the lock is lost; the block then raises Lost

    If a task is cancelled in acquire(), the acquire is cancelled at the daemon. If the grant was faster, the lock is
    released. If a task is cancelled in the block, the lock is released.

    Callbacks run in the event loop. Only the thread of the loop may use the client. Otherwise it is as Client: loss,
    fork and exit, too. A coroutine that does not let the loop run must call lock.check() itself.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None, *,
                 on_notification: Callable[[str, dict[str, Any]], object] | None = None) -> None:
        """As Client(), but `async with` or connect() makes the connection."""
        self._path = path
        self._on_notification = on_notification
        self._connected: LoopLink | None = None

    async def connect(self) -> AsyncClient:
        """Raises NoDaemon, NoAccess, NoAnswer; OSError if another system call fails."""
        if self._connected is not None:
            raise RuntimeError("a client connects once")
        connection = await asyncio.to_thread(connect, socket_path(self._path))
        self._connected = LoopLink(connection, Core(self._on_notification))
        return self

    async def __aenter__(self) -> AsyncClient:
        return await self.connect()

    async def __aexit__(self, *_exception: object) -> None:
        await self.close()

    async def close(self) -> None:
        """As Client.close()."""
        if self._connected is not None:
            self._connected.stop()

    @property
    def closed(self) -> bool:
        """True if there is no connection: not yet, or not any more."""
        return self._connected is None or self._connected.core.closed is not None

    @property
    def _link(self) -> LoopLink:
        if self._connected is None:
            raise Closed("this client is not connected: use `async with` or connect()")
        return self._connected

    def acquire(self, name: str, *, timeout: float | None = None, kind: _calls.Kind = "semaphore", priority: int = 0,
                create: int | None = None, who: str | None = None, why: str | None = None, command: str | None = None,
                on_lost: Callable[[AsyncLock], object] | None = None,
                on_revoked: Callable[[AsyncLock], object] | None = None,
                on_evicted: Callable[[AsyncLock], object] | None = None,
                on_progress: Callable[[int, int | None], object] | None = None) -> _Acquire:
        """As Client.acquire(). Use it with `async with`, or with `await` for a lock that you release yourself."""
        async def acquire() -> AsyncLock:
            request = Request(*_calls.acquire(name, timeout, kind, priority, create, who, why, command, on_progress),
                              future=self._future(), on_progress=on_progress,
                              make=lambda result: AsyncLock(self, result, on_lost, on_revoked, on_evicted))
            lock: AsyncLock = await self._ask(request, _calls.patience(timeout))
            # It may have ended together with the grant, or its lease may be over by now. If no lock is returned, none
            # stays: the daemon may still have the hold.
            try:
                lock.check()
            except BaseException:
                self._give_back(lock)
                raise
            return lock
        return _Acquire(acquire)

    async def call(self, method: str, /, *, patience: float | None = PATIENCE, **params: Any) -> Any:
        """As Client.call()."""
        return await self._ask(Request(method, params, self._future()), patience)

    def _future(self) -> asyncio.Future[Any]:
        return self._link.loop.create_future()

    def _give_back(self, lock: AsyncLock) -> None:
        self._link.core.give_back(lock)
        self._link.turn()

    async def _ask(self, request: Request, patience: float | None) -> Any:
        link = self._link
        assert isinstance(request.future, asyncio.Future)
        link.core.send(request)
        link.turn()
        try:
            async with asyncio.timeout(patience):
                return await request.future
        except BaseException as error:
            if not request.future.done() or request.future.cancelled() or request.make is not None:
                link.core.abandon(request)
                link.turn()
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
