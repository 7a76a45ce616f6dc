#!/usr/bin/python3
"""A client of lockbrokerd made of Python's standard library alone (protocol/PROTOCOL.md).

    with LockBroker() as broker, broker.acquire("db", timeout=30) as lock:
        migrate()               # lock.slot says which slot
        lock.verify()           # still ours? Lost or Revoked if not; broker.read() and lock.held
                                # say it without asking the broker
        write_the_result()

One object is one connection, and a connection's end releases all that it holds. Use one per thread,
and none across fork(). On the command line it holds a lock until its standard input ends:

    lockbroker_client.py NAME [TIMEOUT]
"""

from __future__ import annotations

import collections
import dataclasses
import json
import os
import select
import socket
import sys
import time
from typing import Any, Deque, Dict, Optional, Set

DEFAULT_SOCKET = "/run/lockbroker/lockbroker.sock"


class Error(Exception):
    """The daemon's answer was an error. Decide by `reason`; `retry`: may succeed later by itself."""

    def __init__(self, error: Dict[str, Any]) -> None:
        super().__init__(error["message"])
        self.code: int = error["code"]
        self.data: Dict[str, Any] = error.get("data", {})
        self.reason: str = self.data.get("reason", "")
        self.retry: bool = self.data.get("retry", False)


class NotAcquired(Error):
    """Every slot is busy: at once (would-block), until the deadline (timeout), or contended."""


class NoSuchLock(Error):
    """There is no semaphore of that name: create it first."""


class Lost(Error):
    """The lock is not held (any more): stop what runs under it."""


class Revoked(Error):
    """The slot was taken out of service: finish and release."""


class Unavailable(Error):
    """The daemon is stopping, or its broker cannot be reached, blocks, or refuses the daemon."""


class Disconnected(Exception):
    """The daemon closed the connection: nothing is held any more."""


ERRORS = {
    "would-block": NotAcquired, "timeout": NotAcquired, "contended": NotAcquired,
    "no-such-lock": NoSuchLock, "not-held": Lost, "lost": Lost, "revoked": Revoked,
    "draining": Unavailable, "broker-unavailable": Unavailable, "broker-blocked": Unavailable,
    "broker-refused": Unavailable,
}


@dataclasses.dataclass
class Notification:
    """Notifications of the daemon: lost, suspect, restored, revoked, evicted, waiting, holders, broker, draining. A
    lost with the reason "lease" is our own: the daemon did not say in time that the hold goes on."""
    method: str
    params: Dict[str, Any]


@dataclasses.dataclass
class Lock:
    """A hold. As a context it is released at the end of the block."""
    broker: LockBroker
    id: str
    name: str
    kind: str
    slot: Optional[int]
    fence: Optional[int]  # of the grant, for a store that refuses late holders; None: the slot is not held by quorum
    waited: float
    # now() at which it is lost, unless a lease comes before; None: it takes no slot, nothing can free it
    safe_until: Optional[float]
    ended: bool = False  # released or lost, by all that was read

    @property
    def held(self) -> bool:
        """By all that was read, and by the clock."""
        return not self.ended and (self.safe_until is None or now() < self.safe_until)

    def verify(self) -> None:
        """Asks the broker. Lost or Revoked when it is not simply held."""
        result = self.broker.call("verify", lock=self.id)
        self.broker.renew(self, end_of_lease(result))
        self.broker.read()
        if not self.held:
            raise Lost({"code": 8, "message": "the lock was lost", "data": {"reason": "lost"}})

    def release(self) -> None:
        """Returns when the broker has confirmed that the slot is free."""
        try:
            self.broker.call("release", lock=self.id)
        except Lost:
            self.broker.forget(self.id)
            raise
        self.broker.forget(self.id)

    def __enter__(self) -> Lock:
        return self

    def __exit__(self, kind: object, _error: object, _trace: object) -> None:
        try:
            if not self.ended:
                self.release()
        except (Error, Disconnected):
            # An error inside the block matters more than a slot that was gone by then.
            if kind is None:
                raise


def now() -> float:
    """The clock of safe_until."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def end_of_lease(message: Dict[str, Any]) -> Optional[float]:
    """The earlier of safe_until, and of safe_for from now on: in another time namespace, safe_until is of another clock."""
    until, left = message.get("safe_until"), message.get("safe_for")
    return until if until is None or left is None else min(until, now() + left)


class LockBroker:
    """A connection. Requests may be pipelined: request() only sends, result() waits for one answer,
    and answers that come meanwhile are kept. Notifications are kept for notification()."""

    def __init__(self, path: Optional[str] = None) -> None:
        self.locks: Dict[str, Lock] = {}
        self._suspect: Set[str] = set()  # a lease does not extend these; also before granted() has made the lock
        self.notifications: Deque[Notification] = collections.deque()
        self._answers: Dict[int, Dict[str, Any]] = {}
        # Requests whose answers nobody waits for; True: a grant among them is to be released.
        self._abandoned: Dict[int, bool] = {}
        self._last_id = 0
        self._received = b""
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.connect(path or os.environ.get("LOCKBROKER_SOCKET") or DEFAULT_SOCKET)
        except OSError:
            self._socket.close()
            raise

    def __enter__(self) -> LockBroker:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Hangs up: the daemon releases what is held and forgets what was asked."""
        self._socket.close()
        self._lose_all()

    def fileno(self) -> int:
        """For select(): readable when there is something for notification(0)."""
        return self._socket.fileno()

    def timeout(self) -> Optional[float]:
        """For select(): in so many seconds notification(0) is due though nothing can be read."""
        ends = [lock.safe_until for lock in self.locks.values() if lock.safe_until is not None]
        return max(min(ends) - now(), 0.0) if ends else None

    # ---- requests and answers ----

    def request(self, method: str, **params: Any) -> int:
        """Sends a request and returns its id."""
        self._last_id += 1
        message = {"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params}
        self._socket.settimeout(None)
        try:
            self._socket.sendall(json.dumps(message).encode() + b"\n")
        except (BrokenPipeError, ConnectionResetError):
            # Messages that the daemon sent before it closed, perhaps a `lost`, can still be read.
            pass
        return self._last_id

    def result(self, request_id: int, within: Optional[float] = None) -> Any:
        """The result of one request, or its Error. TimeoutError after `within` seconds: then the
        request is still under way, and result() may be called again."""
        end = None if within is None else now() + within
        while request_id not in self._answers:
            if not self._receive(end):
                raise TimeoutError(f"no answer within {within} s")
        answer = self._answers.pop(request_id)
        if "error" in answer:
            error = answer["error"]
            raise ERRORS.get(error.get("data", {}).get("reason"), Error)(error)
        return answer["result"]

    def call(self, method: str, **params: Any) -> Any:
        """A request and its result."""
        return self.result(self.request(method, **params))

    def notification(self, within: Optional[float] = None) -> Optional[Notification]:
        """The next notification; None when `within` seconds pass without one."""
        end = None if within is None else now() + within
        while not self.notifications:
            if not self._receive(end):
                return None
        return self.notifications.popleft()

    # ---- locks ----

    def acquire(self, name: str, timeout: Optional[float] = None, **params: Any) -> Lock:
        """Waits for a slot: for ever, `timeout` seconds, or not at all (0). More parameters as in
        PROTOCOL.md: kind, priority, create, progress, who, why, command."""
        return self.granted(self.request("acquire", name=name, timeout=timeout, lease=True, **params))

    def granted(self, request_id: int) -> Lock:
        """The lock of an acquire that was sent by request()."""
        try:
            grant = self.result(request_id)
        except (Error, Disconnected):
            raise
        except BaseException:
            # Interrupted (Ctrl-C): a grant that nobody waits for any more must not stay.
            self.abandon(request_id)
            raise
        lock = Lock(self, grant["lock"], grant["name"], grant["kind"], grant["slot"], grant.get("fence"),
                    grant["waited"], end_of_lease(grant))
        self.locks[lock.id] = lock
        return lock

    def renew(self, lock: Lock, safe_until: Optional[float]) -> None:
        """A newer `safe_until` only extends the older one."""
        if lock.safe_until is not None and safe_until is not None:
            lock.safe_until = max(lock.safe_until, safe_until)

    def abandon(self, request_id: int) -> None:
        """Gives up an acquire; if it was granted nevertheless, the lock is released unseen."""
        answer = self._answers.pop(request_id, None)
        if answer is None:
            self._abandoned[request_id] = True
            self._abandoned[self.request("cancel", id=request_id)] = False
        else:
            self._release_unseen(answer)

    def forget(self, lock_id: str) -> None:
        """The lock has ended."""
        lock = self.locks.pop(lock_id, None)
        self._suspect.discard(lock_id)
        if lock is not None:
            lock.ended = True

    # ---- what comes in ----

    def read(self) -> None:
        """Reads what is there. By then `held` says how things are."""
        while self._receive(0.0):
            pass

    def _receive(self, end: Optional[float]) -> bool:
        """Reads one message, or loses what is not safe any more; False when `end` passed without."""
        while b"\n" not in self._received:
            waits = [self.timeout(), None if end is None else max(end - now(), 0.0)]
            # For settimeout() zero means non-blocking: data that has arrived is still read.
            self._socket.settimeout(min((wait for wait in waits if wait is not None), default=None))
            try:
                data = self._socket.recv(65536)
            except (TimeoutError, BlockingIOError):
                if self._lapse():
                    return True
                if end is not None and now() >= end:
                    return False
                continue
            except ConnectionResetError:
                data = b""
            if not data:
                self._lose_all()
                raise Disconnected("the daemon closed the connection")
            self._received += data
        line, self._received = self._received.split(b"\n", 1)
        self._take(json.loads(line))
        return True

    def _lapse(self) -> bool:
        """Loses what is not safe any more: by a fresh clock, when nothing is unread that may renew it."""
        over = [lock for lock in self.locks.values()
                if lock.safe_until is not None and now() >= lock.safe_until]
        for lock in over:
            self.forget(lock.id)
            self.notifications.append(Notification("lost", {
                "lock": lock.id, "name": lock.name, "slot": lock.slot, "reason": "lease",
                "why": "the daemon did not say in time that the broker still answers"}))
        return bool(over)

    def _take(self, message: Dict[str, Any]) -> None:
        if "method" in message:
            notification = Notification(message["method"], message.get("params", {}))
            if notification.method == "lease":
                for lock in self.locks.values():
                    if lock.id not in self._suspect:
                        self.renew(lock, end_of_lease(notification.params))
                return
            if notification.method == "suspect":
                self._suspect.add(notification.params["lock"])
            if notification.method in ("restored", "lost"):
                self._suspect.discard(notification.params["lock"])
            if notification.method == "lost":
                self.forget(notification.params["lock"])
            self.notifications.append(notification)
        elif message["id"] is None:
            raise Error(message["error"])
        elif message["id"] in self._abandoned:
            if self._abandoned.pop(message["id"]):
                self._release_unseen(message)
        else:
            self._answers[message["id"]] = message

    def _release_unseen(self, answer: Dict[str, Any]) -> None:
        if "result" in answer:
            self._abandoned[self.request("release", lock=answer["result"]["lock"])] = False

    def _lose_all(self) -> None:
        for lock_id in list(self.locks):
            self.forget(lock_id)


def hold_until_input_ends(broker: LockBroker, lock: Lock) -> bool:
    """False when the lock was lost meanwhile."""
    while lock.held:
        ready = select.select([sys.stdin, broker], [], [], broker.timeout())[0]
        if sys.stdin in ready and not os.read(sys.stdin.fileno(), 4096):
            return True
        while broker.notification(0) is not None:
            pass
    return False


def main() -> int:
    if len(sys.argv) not in (2, 3):
        print(f"usage: {sys.argv[0]} NAME [TIMEOUT]", file=sys.stderr)
        return 64
    timeout = float(sys.argv[2]) if len(sys.argv) == 3 else None
    try:
        with LockBroker() as broker, broker.acquire(sys.argv[1], timeout) as lock:
            print(json.dumps({"lock": lock.id, "name": lock.name, "slot": lock.slot}), flush=True)
            return 0 if hold_until_input_ends(broker, lock) else 79
    except NotAcquired as error:
        status, words = 75, str(error)
    except NoSuchLock as error:
        status, words = 66, str(error)
    except (Lost, Disconnected) as error:
        status, words = 79, str(error)
    except (Error, OSError) as error:
        status, words = 69, str(error)
    print(f"{sys.argv[1]}: {words}", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
