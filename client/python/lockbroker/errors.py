"""Errors by reason. Each reason of PROTOCOL.md ("Answers and errors") is a class, and so is each failure on this side.

    Error
        Busy                WouldBlock, Timeout, Contended: try again later
        Unavailable         NoDaemon, NoAccess, NoAnswer, Closed, BadAnswer, Draining,
                            BrokerUnavailable, BrokerBlocked, BrokerRefused: there is no service now
        NotHeld             Lost: the lock is not held, or not any more
        Revoked, Cancelled, NoSuchLock, AlreadyExists, PermissionDenied,
        TooManyRequests, TooManyLocks, TooManyWaiters,
        ParseError, InvalidRequest, MethodNotFound, InvalidParams, Internal
"""

from __future__ import annotations

from typing import Any, ClassVar


class Error(Exception):
    """Decide by the class or by `reason`; the text is for people. `retry`: the same request can succeed later."""

    reason: str = "internal"
    retry: bool = False
    code: int | None = None
    by_reason: ClassVar[dict[str, type[Error]]] = {}

    def __init__(self, text: str, data: dict[str, Any] | None = None) -> None:
        super().__init__(text)
        self.data: dict[str, Any] = data or {}

    def __init_subclass__(cls) -> None:
        if "reason" in cls.__dict__:
            Error.by_reason[cls.reason] = cls

    @staticmethod
    def of_answer(answer: dict[str, Any]) -> Error:
        """The exception for the member `error` of an answer. A reason that is not known here is a plain Error."""
        data = dict(answer.get("data") or {})
        reason = str(data.get("reason", ""))
        error = Error.by_reason.get(reason, Error)(str(answer["message"]), data)
        error.reason = reason
        error.retry = data.get("retry") is True
        error.code = int(answer["code"])
        return error


class Busy(Error):
    """Every slot was busy, or holders or another administrator were in the way: try again later."""


class WouldBlock(Busy):
    """The timeout is 0, and every slot is busy."""

    reason = "would-block"


class Timeout(Busy):
    """The deadline passed. The daemon kept it, so it is no TimeoutError of this process."""

    reason = "timeout"


class Contended(Busy):
    """Slots were free, but others claimed them first too often."""

    reason = "contended"


class Unavailable(Error):
    """There is no service now: no daemon, no connection, or no broker."""


class NoDaemon(Unavailable):
    """The socket does not exist, or no process listens on it."""

    reason = "no-daemon"


class NoAccess(Unavailable):
    """This user may not open the socket."""

    reason = "no-access"


class NoAnswer(Unavailable):
    """The daemon did not answer in time. An acquire is cancelled then; another request can still succeed."""

    reason = "deadline"


class Closed(Unavailable):
    """There is no connection. Everything that it held is lost."""

    reason = "closed"


class BadAnswer(Closed):
    """The daemon broke the protocol, so the connection was closed."""

    reason = "bad-answer"


class Forked(Closed):
    """The client belongs to the process that made it, and this is a child of that process."""

    reason = "forked"


class Draining(Unavailable):
    """The daemon stops and grants no more locks."""

    reason = "draining"


class BrokerUnavailable(Unavailable):
    """The broker is unreachable or did not answer in time."""

    reason = "broker-unavailable"


class BrokerBlocked(Unavailable):
    """The broker has raised a resource alarm."""

    reason = "broker-blocked"


class BrokerRefused(Unavailable):
    """The broker refused the daemon: credentials, vhost or permissions."""

    reason = "broker-refused"


class NotHeld(Error):
    """The lock is not held, or not by this client; or no waiter has this id."""

    reason = "not-held"


class Lost(NotHeld):
    """The hold ended without a release. `cause` is "lost" or "draining" (the daemon says so), "evicted" (an
    administrator ended it), "lease" (safe_until passed), or "closed" (the connection ended)."""

    reason = "lost"
    cause: str = "lost"


class Revoked(Error):
    """The slot was removed. The hold continues until it is released: release it soon."""

    reason = "revoked"


class Cancelled(Error):
    """An administrator denied the acquire, or ended the request."""

    reason = "cancelled"


class NoSuchLock(Error):
    """The semaphore does not exist: an administrator must create it."""

    reason = "no-such-lock"


class AlreadyExists(Error):
    """The semaphore exists. It was not changed."""

    reason = "already-exists"


class PermissionDenied(Error):
    """The access rules of the daemon do not allow the request."""

    reason = "permission-denied"


class TooManyRequests(Error):
    """The user has too many connections. The daemon closed this one."""

    reason = "too-many-requests"


class TooManyLocks(Error):
    """The connection, the user or the daemon holds as many locks as it may."""

    reason = "too-many-locks"


class TooManyWaiters(Error):
    """The connection or the user has as many waiting requests as it may."""

    reason = "too-many-waiters"


class ParseError(Error):
    reason = "parse-error"


class InvalidRequest(Error):
    reason = "invalid-request"


class MethodNotFound(Error):
    reason = "method-not-found"


class InvalidParams(Error):
    """A parameter is unknown, missing or invalid. `data["parameter"]` is its name."""

    reason = "invalid-params"


class Internal(Error):
    """A defect of the daemon."""

    reason = "internal"
