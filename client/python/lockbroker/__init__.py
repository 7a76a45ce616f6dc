"""Locks that processes of many hosts share: a client of lockbrokerd, made of Python's standard library alone.

    import lockbroker

    with lockbroker.Client() as client:
        try:
            with client.acquire("db-slots", timeout=5) as lock:
                for part in work:
                    lock.check()        # raises Lost if the lock is not held any more
                    part()
        except lockbroker.Busy:
            ...                         # no slot became free

`Client` is for threads, `AsyncClient` for asyncio. `Lock` and `AsyncLock` are what their acquire() gives. `Error` and
its subclasses are in lockbroker.errors, which shows their tree.

No lock service can stop a holder that is paused. If two holders at once would destroy data, the data store must refuse
the late one. docs/SAFETY.md of lockbroker has the promises and their conditions.

Facts about the socket and the daemon come from protocol/PROTOCOL.md of lockbroker. Its sections are named in quotes.
"""

from ._async import AsyncClient, AsyncLock
from ._core import Eviction
from ._link import DEFAULT_SOCKET
from ._sync import Client, Lock
from .errors import (AlreadyExists, BadAnswer, BrokerBlocked, BrokerRefused, BrokerUnavailable, Busy, Cancelled, Closed,
                     Contended, Draining, Error, Forked, Internal, InvalidParams, InvalidRequest, Lost, MethodNotFound,
                     NoAccess, NoAnswer, NoDaemon, NoSuchLock, NotHeld, ParseError, PermissionDenied, Revoked, Timeout,
                     TooManyLocks, TooManyRequests, TooManyWaiters, Unavailable, WouldBlock)

__version__ = "0.2.0"

__all__ = [
    "DEFAULT_SOCKET", "AsyncClient", "AsyncLock", "Client", "Eviction", "Lock",
    "AlreadyExists", "BadAnswer", "BrokerBlocked", "BrokerRefused", "BrokerUnavailable", "Busy", "Cancelled", "Closed",
    "Contended", "Draining", "Error", "Forked", "Internal", "InvalidParams", "InvalidRequest", "Lost", "MethodNotFound",
    "NoAccess", "NoAnswer", "NoDaemon", "NoSuchLock", "NotHeld", "ParseError", "PermissionDenied", "Revoked", "Timeout",
    "TooManyLocks", "TooManyRequests", "TooManyWaiters", "Unavailable", "WouldBlock",
]
