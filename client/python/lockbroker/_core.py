"""The client's half of the protocol without I/O: requests become bytes, and bytes become answers, locks and calls.

A core belongs to one connection, and one thread at a time uses it. It knows neither socket nor thread nor event loop.
Both clients put theirs around it. Sections in quotes are those of PROTOCOL.md.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import json
import math
import re
import time
from collections.abc import Callable
from typing import Any, Protocol

from .errors import BadAnswer, Closed, Error, Forked, Lost, NotHeld, Revoked

# "Framing": the longest line to the daemon, and from it.
LINE_MAX_OUT = 64 * 1024
LINE_MAX_IN = 4 * 1024 * 1024
# How long a client waits for an answer, in seconds, as in lockbroker.h. PATIENCE: if the request does not wait.
# GRACE: beyond the timeout of a request that waits. Both are longer than the daemon's request-timeout (default 10 s).
PATIENCE = 15.0
GRACE = 15.0
# poll() and event loops do not count while the machine sleeps, so leases are compared with the clock at least so often.
LOOK_AT_CLOCK = 60.0
# JSON for U+0000, which the daemon refuses ("Framing").
NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")


def now() -> float:
    """The clock of safe_until ("Holds and leases")."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _end(message: dict[str, Any], end: str = "safe_until", from_now: str = "safe_for") -> float | None:
    """The end of a lease, which is the earlier of safe_until, and of safe_for from now on. In another time namespace the
    daemon's clock is another one. A message that is read late would make safe_for too long. An eviction has its deadline
    and its grace in the same form."""
    until, left = _seconds(message[end]), _seconds(message.get(from_now))
    return until if until is None or left is None else min(until, now() + left)


class Future(Protocol):
    """The part that concurrent.futures.Future and asyncio.Future share."""

    def done(self) -> bool: ...
    def set_result(self, result: Any, /) -> None: ...
    def set_exception(self, exception: Any, /) -> None: ...


@dataclasses.dataclass(frozen=True)
class Eviction:
    """An administrator ends a hold at `deadline`, in seconds of CLOCK_BOOTTIME. uid and host are the administrator's."""

    deadline: float
    why: str | None
    uid: int | None
    host: str | None


class Hold:
    """A lock that was granted. The clients add verify(), release() and the with block to it."""

    def __init__(self, result: dict[str, Any], on_lost: Callable[[Any], object] | None,
                 on_revoked: Callable[[Any], object] | None, on_evicted: Callable[[Any], object] | None = None) -> None:
        self.id: str = _typed(result["lock"], str)
        self.name: str = _typed(result["name"], str)
        self.kind: str = _typed(result["kind"], str)
        #: From 1. None: a mutex, or a hold that takes no slot.
        self.slot: int | None = _typed(result["slot"], int, type(None))
        #: The fencing number of the grant, for a store that refuses late holders (docs/FENCING.md). It stays the same while
        #: the hold lasts. None: there is none, as the slot is not held by quorum.
        self.fence: int | None = _fence(result.get("fence"))
        #: Seconds from the request to the grant.
        self.waited: float = _seconds(result["waited"]) or 0.0
        #: The end of the lease, or the deadline of an eviction if that is earlier, in seconds of CLOCK_BOOTTIME. None: the
        #: hold has neither.
        self.safe_until: float | None = _end(result)
        #: True: the slot was removed. The hold continues: release it soon.
        self.revoked = False
        #: An administrator ends the hold: stop the work and release the lock before the deadline. A second eviction
        #: only makes it earlier.
        self.evicted: Eviction | None = None
        self._on_lost = on_lost
        self._on_revoked = on_revoked
        self._on_evicted = on_evicted
        self._suspect = False
        self._releasing = False
        self._released = False
        self._lost: tuple[str, str] | None = None  # the cause, and a text. Set once, by any thread

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r} {self.id} slot={self.slot}>"

    @property
    def safe_for(self) -> float:
        """Seconds until safe_until, from now on: 0.0 if it has passed, math.inf if that is None."""
        return math.inf if self.safe_until is None else max(self.safe_until - now(), 0.0)

    @property
    def held(self) -> bool:
        """Whether check() would return."""
        try:
            self.check()
        except NotHeld:
            return False
        return True

    def check(self) -> None:
        """Returns if the lock is held by all that is known here, and raises Lost or NotHeld otherwise.

        Asks nobody, and costs a look at the clock. A lock whose safe_until has passed is lost, and stays lost.
        """
        if self._lost is None and not self._released and self.safe_for == 0.0:
            self._settle()
        error = self._ended()
        if error is not None:
            raise error

    def _settle(self) -> None:
        """Reads what has come, and ends this hold if that did not extend its lease."""
        raise NotImplementedError

    def _ended(self) -> NotHeld | None:
        if self._lost is not None:
            cause, text = self._lost
            error = Lost(f"{self.name}: {text}", {"lock": self.id})
            error.cause = cause
            return error
        return NotHeld(f"{self.name}: the lock was released", {"lock": self.id}) if self._released else None

    def _is_owed(self, error: BaseException) -> bool:
        """Whether the daemon is to be told that the work under this lost lock has ended. After a lapse it may still have
        the hold, as at the deadline of an eviction. By quorum it frees the slot only then."""
        return isinstance(error, Lost) and (error.cause in ("lease", "evicted") or self.fence is not None)

    def _lapse(self) -> None:
        if self._lost is not None:
            return
        if self.evicted is not None and self.evicted.deadline <= now():
            self._lost = "evicted", "an administrator evicted this hold, and the deadline has passed"
        else:
            self._lost = "lease", "the daemon did not extend the lease in time"

    def _renew(self, until: float | None) -> None:
        """A newer time only extends the older one, and not beyond the deadline of an eviction."""
        if until is None or self.safe_until is None or self._lost is not None:
            return
        self.safe_until = max(self.safe_until, until)
        if self.evicted is not None:
            self.safe_until = min(self.safe_until, self.evicted.deadline)

    def _evict(self, eviction: Eviction) -> bool:
        """False: there was an earlier deadline."""
        if self.evicted is not None and self.evicted.deadline <= eviction.deadline:
            return False
        self.evicted = eviction
        self.safe_until = eviction.deadline if self.safe_until is None else min(self.safe_until, eviction.deadline)
        return True

    def _tell_lost(self) -> None:
        if self._on_lost is not None:
            self._on_lost(self)

    def _tell_revoked(self) -> None:
        if self._on_revoked is not None:
            self._on_revoked(self)

    def _tell_evicted(self) -> None:
        if self._on_evicted is not None:
            self._on_evicted(self)


ids = itertools.count(1)


@dataclasses.dataclass(eq=False)
class Request:
    """A request, from before it is sent until its answer. future None: the answer is ignored."""

    method: str
    params: dict[str, Any]
    future: Future | None
    # Of an acquire: makes the lock of its result. Of verify and release: the lock.
    make: Callable[[dict[str, Any]], Hold] | None = None
    hold: Hold | None = None
    on_progress: Callable[[int, int | None], object] | None = None
    abandoned: bool = False

    def __post_init__(self) -> None:
        """Raises ValueError for a request that the daemon would answer by closing the connection, and for a lock that
        nobody would look after."""
        if self.method == "acquire" and self.make is None:
            raise ValueError("locks are acquired by acquire()")
        self.id = next(ids)
        message = {"jsonrpc": "2.0", "id": self.id, "method": self.method, "params": self.params}
        text = json.dumps(message, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
        # Names of files and arguments can have bytes that are no UTF-8 (os.fsdecode).
        self.line = text.encode("utf-8", "replace") + b"\n"
        if len(self.line) > LINE_MAX_OUT:
            raise ValueError(f"{self.method}: the request has more than {LINE_MAX_OUT} bytes")
        if NUL.search(self.line):
            raise ValueError(f"{self.method}: a text has the character U+0000")

    def finish(self, result: Any) -> None:
        """An exception, or a result."""
        if self.future is None or self.future.done():
            return
        if isinstance(result, BaseException):
            self.future.set_exception(result)
        else:
            self.future.set_result(result)


class Core:
    def __init__(self, on_notification: Callable[[str, dict[str, Any]], object] | None = None) -> None:
        self.output = bytearray()
        #: Callbacks of the program that are due. The owner calls them, outside of the core.
        self.due: collections.deque[Callable[[], object]] = collections.deque()
        #: Why there is no connection any more.
        self.closed: Error | None = None
        self._on_notification = on_notification
        self._input = bytearray()
        self._pending: dict[int, Request] = {}
        self._holds: dict[str, Hold] = {}

    # ---- requests ----

    def send(self, request: Request) -> None:
        if self.closed is not None:
            request.finish(self.closed)
            return
        self._pending[request.id] = request
        self.output += request.line

    def abandon(self, request: Request) -> None:
        """Nobody waits for this request any more: it is cancelled, and its lock is released."""
        if request.abandoned:
            return
        request.abandoned = True
        if request.id in self._pending:
            self.send(Request("cancel", {"id": request.id}, None))
        elif request.make is not None and request.hold is not None:
            self.give_back(request.hold)

    def give_back(self, hold: Hold) -> None:
        """Releases a lock, and does not wait for the answer. A hold that was lost by its lease may still be one for
        the daemon ("Holds and leases"). Does nothing if the lock is released already."""
        if hold._released:
            return
        self._holds.pop(hold.id, None)
        hold._released = True
        self.send(Request("release", {"lock": hold.id}, None))

    # ---- what comes in ----

    def feed(self, data: bytes) -> None:
        """Takes bytes of the daemon. A line that makes no sense closes the connection."""
        self._input += data
        *lines, self._input = self._input.split(b"\n")
        try:
            for line in lines:
                if self.closed is None:
                    self._take(_strict(line))
        except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
            self.close(BadAnswer(f"the daemon's message is invalid: {error!r}"))
        if len(self._input) > LINE_MAX_IN:
            self.close(BadAnswer(f"the daemon's line has more than {LINE_MAX_IN} bytes"))

    def _take(self, message: dict[str, Any]) -> None:
        if "method" in message:
            self._notice(_typed(message["method"], str), _typed(message.get("params", {}), dict))
        elif message["id"] is None:
            # "A first session": it concerns the connection, or a line that the daemon did not accept.
            self.close(Error.of_answer(message["error"]))
        else:
            # It stays until its answer made sense: close() ends all requests that are left.
            request = self._pending[message["id"]]
            if "error" in message:
                self._refused(request, Error.of_answer(message["error"]))
            else:
                self._answered(request, _typed(message["result"], dict))
            self._pending.pop(request.id, None)

    def _answered(self, request: Request, result: dict[str, Any]) -> None:
        hold = request.hold
        if request.make is not None:
            hold = request.hold = request.make(result)
            if hold.id in self._holds:
                raise ValueError("two grants of one lock")
            self._holds[hold.id] = hold
            if request.abandoned or request.future is None or request.future.done():
                self.give_back(hold)
            request.finish(hold)
            return
        if hold is not None and request.method == "release":
            self._holds.pop(hold.id, None)
            hold._released = True
        elif hold is not None:
            hold._renew(_end(result))
        request.finish(result)

    def _refused(self, request: Request, error: Error) -> None:
        hold = request.hold
        if hold is not None:
            hold._releasing = False
            if isinstance(error, NotHeld):
                self._lose(hold, "lost", str(error))
            elif isinstance(error, Revoked):
                self._revoke(hold)
        request.finish(error)

    def _notice(self, method: str, params: dict[str, Any]) -> None:
        hold = self._holds.get(params.get("lock", ""))
        if method == "lease":
            until = _end(params)
            for extended in self._holds.values():
                if not extended._suspect:
                    extended._renew(until)
        elif method == "waiting":
            request = self._pending.get(params["id"])
            if request is not None and request.on_progress is not None and not request.abandoned:
                self._later(request.on_progress, _typed(params["position"], int), params.get("busy"))
        elif hold is not None and method in ("suspect", "restored"):
            hold._suspect = method == "suspect"
        elif hold is not None and method == "lost":
            self._lose(hold, _typed(params["reason"], str), str(params.get("why") or "the lock was lost"))
        elif hold is not None and method == "revoked":
            self._revoke(hold)
        elif hold is not None and method == "evicted":
            self._evict(hold, params)
        if self._on_notification is not None:
            self._later(self._on_notification, method, params)

    def _later(self, function: Callable[..., object], *arguments: Any) -> None:
        self.due.append(lambda: function(*arguments))

    # ---- the end of holds ----

    def _lose(self, hold: Hold, cause: str, text: str) -> None:
        if self._holds.pop(hold.id, None) is None:
            return
        if hold._lost is None:
            hold._lost = cause, text
        for request in self._pending.values():
            if request.hold is hold and request.method == "verify":
                request.finish(hold._ended())
        if not hold._releasing:
            self._later(hold._tell_lost)

    def _revoke(self, hold: Hold) -> None:
        if not hold.revoked:
            hold.revoked = True
            self._later(hold._tell_revoked)

    def _evict(self, hold: Hold, params: dict[str, Any]) -> None:
        deadline = _end(params, "deadline", "grace")
        if deadline is None:
            raise ValueError("an eviction has no deadline")
        eviction = Eviction(deadline, _typed(params.get("why"), str, type(None)),
                            _typed(params.get("uid"), int, type(None)), _typed(params.get("host"), str, type(None)))
        if hold._evict(eviction):
            self._later(hold._tell_evicted)

    def lapse(self) -> None:
        """Ends the holds that are not safe any more, by a fresh clock. Call it after feed(), which may extend them. A
        hold that is being released needs no protection."""
        at = now()
        for hold in list(self._holds.values()):
            if hold.safe_until is not None and hold.safe_until <= at and not hold._releasing:
                hold._lapse()
            if hold._lost is not None:
                self._lose(hold, *hold._lost)

    def next_lapse(self) -> float:
        """After so many seconds lapse() is due, even if nothing comes in."""
        ends = [hold.safe_until for hold in self._holds.values() if hold.safe_until is not None and not hold._releasing]
        return max(min(ends) - now(), 0.0) if ends else LOOK_AT_CLOCK

    def close(self, error: Error) -> None:
        """The connection has ended. The first reason stands: all requests fail with it, and all holds are lost."""
        if self.closed is not None:
            return
        self.closed = error
        self.output.clear()
        self._input.clear()
        for request in self._pending.values():
            request.finish(error)
        self._pending.clear()
        for hold in list(self._holds.values()):
            self._lose(hold, "closed", str(error))

    def forget(self) -> None:
        """For the child after fork(): takes no lock and calls nothing, as another thread may hold any lock."""
        self.closed = Forked("the client belongs to the parent of this process")
        for hold in self._holds.values():
            hold._lost = "closed", str(self.closed)


def closed_by_daemon() -> Closed:
    return Closed("the daemon closed the connection")


# ---- reading JSON ----

def _no_number(word: str) -> float:
    raise ValueError(f"{word} is no JSON")


def _strict(line: bytes | bytearray) -> dict[str, Any]:
    message: dict[str, Any] = _typed(json.loads(line, parse_constant=_no_number), dict)
    return message


def _typed(value: Any, *types: type) -> Any:
    if not isinstance(value, types) or isinstance(value, bool):
        raise TypeError(f"{value!r:.100} is not of the type {types[0].__name__}")
    return value


def _fence(value: Any) -> int | None:
    """To treat an invalid number as none would leave the program's writes unprotected."""
    fence: int | None = _typed(value, int, type(None))
    if fence is not None and not 0 < fence < 2**53:
        raise ValueError(f"{fence} is no fencing number")
    return fence


def _seconds(value: Any) -> float | None:
    if value is None:
        return None
    seconds = float(_typed(value, int, float))
    if not math.isfinite(seconds):
        raise ValueError("a time has no end")
    return seconds
