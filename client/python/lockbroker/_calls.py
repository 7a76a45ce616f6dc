"""The calls that ask one thing: their parameters, and the results that PROTOCOL.md lists for the method of that name.

Each function makes a Call. Both clients turn these functions into methods with the same parameters and results.
Administrators alone may create, resize, destroy, fsck, grant, deny and evict.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable
from typing import Any, Generic, Literal, NotRequired, TypedDict, TypeVar

from ._core import GRACE, PATIENCE, Hold

T = TypeVar("T")

Kind = Literal["semaphore", "mutex", "persistent-mutex"]
Claim = Literal["exclusive-queue", "consumer", "quorum"]
Size = int | Literal["unlimited"]


@dataclasses.dataclass
class Call(Generic[T]):
    method: str
    params: dict[str, Any]
    read: Callable[[Any], T]
    patience: float | None = PATIENCE


class Change(TypedDict):
    """`slots` and `target` are of create and resize. `warning` is for people."""

    name: str
    kind: NotRequired[str]
    slots: NotRequired[Size]
    target: NotRequired[Size]
    warning: NotRequired[str]


class Row(TypedDict):
    """One holder or one waiter."""

    waiter: str | None
    lock: str | None
    state: str
    name: str
    kind: str
    slot: int | None
    position: int | None
    priority: int | None
    who: str | None
    why: str | None
    command: str | None
    host: str | None
    uid: int | None
    pid: int | None
    since: str | None
    age: float | None
    revoked: bool | None
    unknown: bool
    fence: int | None
    evicted: NotRequired[bool]


class Shown(TypedDict):
    name: str
    slots: Size | None
    busy: int | None
    extra: NotRequired[int | None]
    waiting: int
    claim: str | None
    holders: list[Row]
    waiters: list[Row]
    more: int
    silent_hosts: list[str]
    reason: str | None


class Semaphore(TypedDict):
    name: str
    slots: Size | None
    busy: int | None
    exists: bool
    claim: str | None
    waiting: int | None
    extra: NotRequired[int | None]


class Mutex(TypedDict):
    """One that clients hold or wait for."""

    name: str
    kind: str
    busy: int
    waiting: int
    extra: NotRequired[int]


class Listed(TypedDict):
    semaphores: list[Semaphore]
    mutexes: list[Mutex]
    more: int
    silent_hosts: list[str]


class Explained(TypedDict):
    name: str
    kind: str
    verdict: str | None
    slots: Size | None
    busy: int | None
    here: int | None
    waiting: int | None
    uncounted: int | None
    extra: NotRequired[int | None]
    claim: str | None
    reason: str | None
    text: str


class Finding(TypedDict):
    problem: str
    slot: int | None
    text: str
    repaired: bool


class Checked(TypedDict):
    name: str
    clean: bool
    findings: list[Finding]
    more: int
    converted: int
    claim: str | None
    extra: NotRequired[int]
    holders: NotRequired[list[dict[str, int]]]


class Granted(TypedDict):
    waiter: str
    name: str
    host: str


def patience(timeout: float | None) -> float | None:
    """How long to wait for the answer to a request that the daemon may hold for `timeout` seconds."""
    if timeout is None:
        return None
    return timeout + GRACE if timeout > 0 else PATIENCE


def _params(**given: Any) -> dict[str, Any]:
    """Without the ones that are not given. None stands for that, as for no limit of `timeout` ("Values")."""
    return {name: value for name, value in given.items() if value is not None and value is not False}


def acquire(name: str, timeout: float | None, kind: Kind, priority: int, create: int | None, who: str | None,
            why: str | None, command: str | None, on_progress: object) -> tuple[str, dict[str, Any]]:
    """The method and the parameters of an acquire."""
    return "acquire", {"lease": True} | _params(
        name=name, timeout=timeout, kind=kind, priority=priority, create=create, who=who, why=why, command=command,
        progress=on_progress is not None)


def _result(result: Any) -> Any:
    return result


def _nothing(_result: Any) -> None:
    return None


def _removing(method: str, wait: float | None, **given: Any) -> Call[Change]:
    params = _params(**given)
    if wait != 0:
        params["wait"] = wait
    return Call(method, params, _result, None if wait is None else wait + PATIENCE)


def create(name: str, slots: Size = 1, *, kind: Kind = "semaphore", claim: Claim | None = None, overshoot: int = 0,
           exist_ok: bool = False, takeover_grace: float | None = None, force: bool | None = None) -> Call[Change]:
    """Creates a semaphore. After any error the same call, with exist_ok, completes it.

    takeover_grace (seconds) and force are for slots by quorum: see `create` in PROTOCOL.md.
    """
    return Call("create", _params(name=name, slots=slots, kind=kind, claim=claim, overshoot=overshoot,
                                  exist_ok=exist_ok, takeover_grace=takeover_grace, force=force), _result)


def resize(name: str, slots: Size | None = None, *, add: int | None = None, remove: int | None = None,
           claim: Claim | None = None, order: Literal["descending", "ascending"] = "descending", overshoot: int = 0,
           wait: float | None = 0, takeover_grace: float | None = None,
           force: bool | None = None) -> Call[Change]:
    """Changes the size to `slots`, or by `add` or `remove`. Returns after the holders of removed slots are gone, if
    that takes no longer than `wait` seconds; None: no limit.

    After an error of add or remove, resize to `error.data["target"]` instead of repeating the call. takeover_grace
    and force as in create.
    """
    return _removing("resize", wait, name=name, slots=slots, add=add, remove=remove, claim=claim, order=order,
                     overshoot=overshoot, takeover_grace=takeover_grace, force=force)


def destroy(name: str, *, order: Literal["descending", "ascending"] = "descending", overshoot: int = 0,
            wait: float | None = 0) -> Call[Change]:
    """Removes a semaphore. Holders keep their slots until they release them; `wait` as in resize."""
    return _removing("destroy", wait, name=name, order=order, overshoot=overshoot)


def size(name: str) -> Call[Size]:
    """The size of a semaphore."""
    return Call("size", {"name": name}, operator.itemgetter("slots"))


def await_slot(name: str, slot: int, state: Literal["free", "busy"], *, timeout: float | None = None) -> Call[None]:
    """Waits until a slot is free or busy (the method await)."""
    return Call("await", _params(name=name, slot=slot, state=state) | {"timeout": timeout}, _nothing,
                patience(timeout))


def list_semaphores() -> Call[Listed]:
    """The semaphores of all hosts, and the mutexes in use (the method list)."""
    return Call("list", {}, _result)


def show(name: str) -> Call[Shown]:
    """The holders and the waiters of a lock, on all hosts."""
    return Call("show", {"name": name}, _result)


def explain(name: str, *, kind: Kind = "semaphore") -> Call[Explained]:
    """Says whether an acquire would succeed now, and why not."""
    return Call("explain", {"name": name, "kind": kind}, _result)


def fsck(name: str, *, repair: bool = False, convert: Claim | None = None, takeover_grace: float | None = None,
         wait: float | None = 0) -> Call[Checked]:
    """Finds problems of a semaphore, and repairs them if told to. takeover_grace (seconds) is for slots by quorum."""
    params = _params(name=name, repair=repair, convert=convert, takeover_grace=takeover_grace)
    if wait != 0:
        params["wait"] = wait
    # By quorum, a repair waits until earlier holders have stopped: 5 minutes at most.
    return Call("fsck", params, _result, None if wait is None else wait + (600 if repair else PATIENCE))


def grant(waiter: str) -> Call[Granted]:
    """Lets a waiter in at once, without a slot. The id is from a row of show()."""
    return Call("grant", {"waiter": waiter}, _result)


def deny(waiter: str) -> Call[int]:
    """Ends the acquire of a waiter. Returns the number of ended requests."""
    return Call("deny", {"waiter": waiter}, operator.itemgetter("denied"))


def deny_all(name: str) -> Call[int]:
    """Ends the acquires of all waiters of a lock."""
    return Call("deny", {"name": name, "all": True}, operator.itemgetter("denied"))


def evict(holder: str, *, grace: float | None = None, why: str | None = None) -> Call[int]:
    """Ends the hold of a holder (the `waiter` of its row) after `grace` seconds; None: 30. The holder is told at once, with
    `why`. Returns the number of holders that have a deadline now. Timeout: its daemon did not answer, and nothing is
    freed."""
    return Call("evict", _params(holder=holder, grace=grace, why=why), operator.itemgetter("evicted"))


def evict_all(name: str, *, grace: float | None = None, why: str | None = None) -> Call[int]:
    """The same for all holders of a lock, on all hosts that answer. Hosts that do not answer are not reported."""
    return Call("evict", _params(name=name, all=True, grace=grace, why=why), operator.itemgetter("evicted"))


def info() -> Call[dict[str, Any]]:
    """Describes the daemon and its broker."""
    return Call("info", {}, _result)


def metrics(*, format: Literal["prometheus", "openmetrics"] = "prometheus") -> Call[str]:
    """The counts, ages and histograms of the daemon, as text for Prometheus."""
    return Call("metrics", {"format": format}, operator.itemgetter("text"))


def ping() -> Call[None]:
    """Checks that the daemon answers."""
    return Call("ping", {}, _nothing)
