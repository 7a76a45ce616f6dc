#!/usr/bin/env python3
"""Checks the record of a run (history.py) against the promises of docs/SAFETY.md.

	check.py FILE		# prints the verdict; exit status 1: there is a violation

Nothing is asked of the servers: the record alone decides. The time is O(n log n) of its events, apart from overlaps. Each
overlap is compared with the faults that touched its older holder.
"""

import bisect
import collections
import heapq
import math
import sys

from history import read

SECOND = 1_000_000_000
UNLIMITED = math.inf
MISSING = -1  # the size of a semaphore that does not exist
WORTH_A_LOOK = SECOND // 10  # of an answer beyond the timeout of its request
STOPS = "stop-client", "stop-clients", "stop-daemon", "suspend-host-daemon"  # faults
QUORUM = "quorum"  # a way
BY_QUEUE = "exclusive-queue", "either"  # ways; a slot of the second one is held by queue at times
EVICTED = "evicted"  # the reason of a loss, and a violation
ITS_CASES = "ac"  # alone explain an overlap of a slot that is held by quorum
SHOWN = 20  # violations that are printed in full


class Violation(Exception):
    """kind: a word. lines: numbers of the lines that show it."""

    def __init__(self, kind, text, lines):
        super().__init__(f"{kind}: {text}")
        self.kind, self.lines = kind, lines


class Belief:
    """The time in which one client, or an administrator, believes that a slot is its own. actor None: an administrator
    that has waited for holders believes that no client has the slot. wrong_since, wrong_until: another one believed the same
    then."""

    __slots__ = ("actor", "name", "slot", "start", "end", "capacity", "safe_until", "lines", "wrong_since", "wrong_until", "lost",
                 "evicted")

    def __init__(self, actor, name, slot, start, line, capacity=1, safe_until=UNLIMITED):
        self.actor, self.name, self.slot, self.start = actor, name, slot, start
        self.end, self.capacity, self.safe_until = UNLIMITED, capacity, safe_until
        self.lines, self.wrong_since, self.wrong_until, self.lost, self.evicted = [line], None, None, False, False

    def __lt__(self, other):
        return self.end < other.end


class Request:
    """One acquire of a client, and the hold that came of it. state: asked, held, releasing, over."""

    __slots__ = ("state", "name", "asked", "timeout", "line", "belief", "verify_asked", "release_asked")

    def __init__(self, name, asked, timeout, line):
        self.state, self.name, self.asked, self.timeout, self.line = "asked", name, asked, timeout, line
        self.belief = self.verify_asked = self.release_asked = None


class Fault:
    """case: of the exceptions in docs/SAFETY.md; "-": it may cause no overlap; "+": the same, but overlaps that others
    cause may be longer. longest: an overlap, ns; 0: there may be none. after: the time from its end until all its overlaps have ended, ns."""

    def __init__(self, kind, case, longest, after, targets, begin):
        self.kind, self.case, self.longest, self.after, self.targets = kind, case, longest, after, targets
        self.begin, self.end = begin, UNLIMITED

    def explains(self, belief, start, end, others, handed_off):
        """others: faults that also touched the holder. handed_off: the belief is the newer one. Its daemon did not know of
        the loss yet, and handed the slot off."""
        delay = max((fault.longest for fault in others if fault.case == "+" and self.begin <= fault.end and fault.begin <= end),
                    default=0)
        longest, after = max(self.longest, delay), max(self.after, delay)
        late = min(longest, after) if handed_off else 0
        return (self.case not in "+-" and self.longest > 0 and self.begin <= start and end - start <= longest and end <= self.end + after
                and belief.start <= self.end + (0 if late == UNLIMITED else late))


class Check:
    """The verdict on a list of events, from its constructor on."""

    def __init__(self, events):
        self.violations = []
        self.counts = collections.Counter()  # (word, reason): events of clients
        self.excused = {}  # (wrong belief, since when): (its cause, its overlap)
        self.unexcused = {}  # wrong belief: a violation, with the last rival
        self.exceptions = collections.defaultdict(list)  # (case, kind of fault, way): [(overlap, ns, its line)]
        self.ways = {}  # name: how its slots are held
        self.worst = {}  # what: (ns, line)
        self.requests = {}  # actor: {ID: Request}
        self.targets = {}  # actor: its words of `started`
        self.over, self.killed = set(), set()  # actors whose connection or process has ended
        self.beliefs = collections.defaultdict(list)  # (name, slot)
        self.faults = {}  # number
        self.sizes = {}  # name: ([time], [the smallest size since then], [the largest one])
        self.emptied = collections.defaultdict(list)  # name: [(size, Belief)]
        self.undoing = []  # faults in effect that can undo what administrators do meanwhile
        self.expected = []
        self.prompt = UNLIMITED  # the limit of an answer beyond the timeout of its request, ns
        self.late = []  # (what, when it was asked, Event, time beyond the timeout)
        self.fences = {}  # (name, slot): (the largest fence of a grant, its line)
        self.written = {}  # (name, slot): (the begin of the hold that wrote last, the largest fence, its line)
        self.gaps = collections.defaultdict(list)  # way: [(from the end of a belief that was lost until the next one, ns, its line)]
        self.lost_updates = collections.defaultdict(list)  # way: [(how much older the hold is, ns, its line)]
        for event in events:
            # A process can speak between the note that it is killed and its end.
            if event.actor in self.killed:
                continue
            try:
                WORDS[event.word](self, event, *event.words)
            except Violation as violation:
                self.violations.append(violation)
        self.at_the_end()

    # ---- clients ----

    def on_started(self, event, *targets):
        self.requests[event.actor] = {}
        self.targets[event.actor] = targets

    def on_ready(self, event):
        pass

    def on_acquire(self, event, ident, name, _kind, timeout):
        if event.actor in self.over:
            return  # its end was not read yet
        if ident in self.requests[event.actor]:
            raise Violation("twice", f"{event.actor} is asked for {ident} twice", [event.line])
        self.requests[event.actor][ident] = Request(name, event.time, int(timeout), event.line)

    def request(self, event, ident, *states):
        """The request that an event is about. Its state must be one of these."""
        request = self.requests[event.actor].get(ident)
        if request is None:
            raise Violation("unasked", f"{event.actor} did not ask for {ident}", [event.line])
        if request.state not in states:
            raise Violation("twice", f"{event.word} of {event.actor} {ident}, which is {request.state}",
                            [*(request.belief.lines if request.belief else [request.line]), event.line])
        return request

    def on_held(self, event, ident, slot, safe_until, fence="-"):
        request = self.request(event, ident, "asked")
        request.state = "held"
        self.counts["held", self.ways.get(request.name, "")] += 1
        self.answered("acquire", request.asked, event, request.timeout)
        _, size = self.bounds(request.name, request.asked)
        belief = request.belief = Belief(event.actor, request.name, slot, event.time, event.line,
                                         size if slot == "-" else 1,
                                         UNLIMITED if safe_until == "-" else int(safe_until))
        if slot != "0":
            self.beliefs[request.name, slot].append(belief)
            self.compare_fence(event, belief, fence)
        if (1 if slot == "-" else int(slot)) > size:
            raise Violation("removed-slot", f"slot {slot} of {request.name} is granted to {event.actor}, of {size} slots",
                            [request.line, event.line])

    def compare_fence(self, event, belief, fence):
        """Each grant has a larger one than all before. A client that was paused can read its grant after the next one."""
        key = belief.name, belief.slot
        largest, line = self.fences.get(key, (0, event.line))
        if fence == "-":
            if self.is_by_quorum(belief.name):
                raise Violation("fence", f"slot {belief.slot} of {belief.name} has none", [event.line])
        elif belief.safe_until > event.time:
            self.fences[key] = max((largest, line), (int(fence), event.line))
            if int(fence) <= largest:
                raise Violation("fence", f"slot {belief.slot} of {belief.name} had {largest} before", [line, event.line])

    def is_by_quorum(self, name):
        return self.ways.get(name) == QUORUM

    def on_write(self, event, ident, _pause):
        pass  # the adapter ignores it if the hold is lost already

    def on_writing(self, _event, _ident):
        pass

    def on_wrote(self, event, ident, answer):
        self.request(event, ident, "held", "releasing", "over")
        self.counts["wrote", answer] += 1

    def on_denied(self, _event, _actor, _ident, name, _slot, _fence):
        """The store has refused a late write."""
        self.counts["denied by the store", self.ways.get(name, "")] += 1

    def on_took(self, event, actor, ident, name, slot, fence):
        """The store has taken a write. The value before is lost if it is of a later holder. Fences tell the store that."""
        self.counts["taken by the store", self.ways.get(name, "")] += 1
        request = self.requests[actor].get(ident)
        # Without a belief, the client was killed before its grant was read.
        began = request.belief.start if request and request.belief else event.time
        if slot in ("-", "0"):
            return
        latest, largest, line = self.written.get((name, slot), (0, 0, event.line))
        number = 0 if fence == "-" else int(fence)
        self.written[name, slot] = began, max(number, largest), event.line
        if began < latest:
            self.lost_updates[self.ways.get(name, "")].append((latest - began, event.line))
        if number and (began < latest or number < largest):
            raise Violation("lost-update", f"{actor} {ident} overwrites what a later holder of slot {slot} of {name} wrote",
                            [line, event.line])

    def on_refused(self, event, ident, reason):
        request = self.request(event, ident, "asked")
        request.state = "over"
        self.answered("acquire", request.asked, event, request.timeout)
        exists = self.bounds(request.name, request.asked)[0] != MISSING
        if reason == "no-such-lock" and exists and self.is_parted(request.name, request.asked):
            reason = "no-such-lock in a partition"
        self.counts["refused", reason] += 1
        if reason == "no-such-lock" and exists:
            raise Violation("missing", f"{request.name} exists, and {event.actor} is told otherwise", [request.line, event.line])

    def is_parted(self, name, since):
        """Whether a node could answer from old metadata since then (case g)."""
        return any(fault.case == "g" and f"name={name}" in fault.targets and fault.end >= since for fault in self.faults.values())

    def on_lease(self, event, ident, safe_until):
        belief = self.request(event, ident, "held", "releasing").belief
        was, belief.safe_until = belief.safe_until, int(safe_until)
        if belief.safe_until < was:
            raise Violation("lease", f"the lease of {event.actor} {ident} moves back", [*belief.lines, event.line])

    def on_evicted(self, event, ident, safe_until):
        """An administrator ends the hold at a deadline. From now on safe_until is no later than that."""
        belief = self.request(event, ident, "held", "releasing").belief
        self.counts["evicted", self.ways.get(belief.name, "")] += 1
        belief.safe_until, belief.evicted = min(belief.safe_until, int(safe_until)), True

    def on_revoked(self, event, ident):
        request = self.request(event, ident, "held", "releasing")
        self.counts["revoked", ""] += 1
        if self.bounds(request.name, request.asked)[0] >= int(request.belief.slot):
            raise Violation("revoked", f"slot {request.belief.slot} of {request.name} exists, and {event.actor} is told otherwise",
                            [*request.belief.lines, event.line])

    def on_lost(self, event, ident, reason):
        # A loss while the release is on its way changes nothing: `released` is still to come.
        request = self.request(event, ident, "held", "releasing")
        if request.state == "held":
            request.state = "over"
            self.counts["lost", reason] += 1
            request.belief.lost = reason != EVICTED
            self.end_belief(request.belief, event)
            if reason == EVICTED and request.belief.evicted and event.time < request.belief.safe_until:
                raise Violation(EVICTED, f"{event.actor} {ident} before the deadline", request.belief.lines)

    def on_release(self, event, _ident):
        pass  # the adapter ignores it if the hold is lost already

    def on_releasing(self, event, ident):
        request = self.request(event, ident, "held")
        request.state, request.release_asked = "releasing", event.time
        self.end_belief(request.belief, event)

    def on_released(self, event, ident, reason):
        request = self.request(event, ident, "releasing")
        request.state = "over"
        self.counts["released", reason] += 1
        self.answered("release", request.release_asked, event)

    def on_verify(self, event, ident):
        request = self.requests[event.actor].get(ident)
        if request is not None:
            request.verify_asked = event.time

    def on_verified(self, event, ident, answer):
        request = self.request(event, ident, "held", "over")
        self.counts["verified", answer] += 1
        self.answered("verify", request.verify_asked, event)
        slot = request.belief.slot
        _, size = self.bounds(request.name, request.verify_asked)
        if answer == "yes" and slot not in ("-", "0") and int(slot) > size:
            raise Violation("verify", f"{event.actor} verifies slot {slot} of {request.name}, of {size} slots",
                            [*request.belief.lines, event.line])

    def on_ended(self, event):
        """The end of the client's process or connection: all its requests end."""
        self.over.add(event.actor)
        self.counts[event.word, ""] += 1
        for request in self.requests[event.actor].values():
            if request.state == "held":
                self.end_belief(request.belief, event)
            request.state = "over"

    def on_killed(self, event):
        self.on_ended(event)
        self.killed.add(event.actor)

    @staticmethod
    def end_belief(belief, event):
        belief.end = event.time
        belief.lines.append(event.line)

    def answered(self, what, asked, event, timeout=0):
        """timeout: of the request, ms."""
        self.took(what, event.time - asked, event)
        late = event.time - asked - timeout * 1_000_000
        if late > WORTH_A_LOOK:
            self.late.append((what, asked, event, late))

    def took(self, what, time, event):
        self.worst[what] = max(self.worst.get(what, (0, 0)), (time, event.line))

    def on_way(self, _event, name, way):
        self.ways[name] = way

    def on_prompt(self, _event, seconds):
        self.prompt = float(seconds) * SECOND

    # ---- administrators ----

    def bounds(self, name, since):
        """The smallest and the largest size of name, from then until the present event."""
        since = min([since, *[fault.begin for fault in self.undoing if f"name={name}" in fault.targets]])
        times, smallest, largest = self.sizes.get(name, ((), (), ()))
        at = bisect.bisect_right(times, since) - 1
        return (MISSING, UNLIMITED) if at < 0 else (min(smallest[at:]), max(largest[at:]))

    def note_size(self, event, name, smallest, largest):
        for values, value in zip(self.sizes.setdefault(name, ([], [], [])), (event.time, smallest, largest)):
            values.append(value)

    def on_sizing(self, event, name, size):
        """The size changes from now on: both sizes are in effect."""
        smallest, largest = self.bounds(name, event.time)
        self.note_size(event, name, min(smallest, slots(size)), max(largest, number(size)))
        for _, belief in self.emptied[name]:
            belief.end = min(belief.end, event.time)

    def on_size(self, event, name, size):
        """The size is in effect."""
        self.note_size(event, name, slots(size), number(size))

    def on_emptied(self, event, name, size):
        """An administrator has waited until no client has a slot above size."""
        self.emptied[name].append((number(size), Belief(None, name, "", event.time, event.line)))

    # ---- nemesis and world ----

    def on_begin(self, event, ident, kind, case, longest, after, *targets):
        longest, after = (UNLIMITED if word == "-" else float(word) * SECOND for word in (longest, after))
        self.faults[ident] = Fault(kind, case, longest, after, targets, event.time)

    def on_undoes(self, _event, ident):
        """The broker can undo changes that are made during this fault, until it ends."""
        self.undoing.append(self.faults[ident])

    def on_end(self, event, ident):
        fault = self.faults[ident]
        fault.end = event.time
        if fault not in self.undoing:
            return
        for name in [target.removeprefix("name=") for target in fault.targets]:
            self.note_size(event, name, *self.bounds(name, fault.begin))
            for _, belief in self.emptied[name]:
                belief.end = min(belief.end, max(belief.start, fault.begin))
        self.undoing.remove(fault)

    def on_expect(self, event, name, slot, seconds):
        self.expected.append((event, (name, slot), event.time + float(seconds) * SECOND))

    def on_wrong(self, event, *words):
        raise Violation("wrong", " ".join(words), [event.line])

    # ---- at the end ----

    def at_the_end(self):
        for actor, requests in self.requests.items():
            for ident, request in requests.items():
                if request.state != "over":
                    self.violations.append(Violation(
                        "no-end", f"{actor} {ident} is {request.state} at the end", [request.line]))
        self.targeted = collections.defaultdict(list)  # target: faults, by their begin
        for fault in self.faults.values():
            for target in fault.targets:
                self.targeted[target].append(fault)
        for name, emptied in self.emptied.items():
            for (_, slot), beliefs in [item for item in self.beliefs.items() if item[0][0] == name and item[0][1] != "-"]:
                beliefs += [belief for size, belief in emptied if int(slot) > size]
        for (name, slot), beliefs in self.beliefs.items():
            for belief in beliefs:
                self.end_with_the_lease(belief)
            self.find_overlaps(name, slot, sorted(beliefs, key=lambda belief: belief.start))
        self.violations += self.unexcused.values()
        for cause, overlap in self.excused.values():
            self.exceptions[cause].append(overlap)
        for answer in self.late:
            self.judge_answer(*answer)
        for event, key, until in self.expected:
            self.find_expected(event, key, until)

    def end_with_the_lease(self, belief):
        """A client that was paused when its lease ended looks at the clock when it runs again."""
        if belief.safe_until < belief.end:
            runs_again = [fault.end for fault in self.targeted[f"client={belief.actor}"]
                          if fault.case == "a" and fault.begin <= belief.safe_until]
            belief.end = min(belief.end, max([belief.safe_until, *runs_again]))

    def judge_answer(self, what, asked, event, late):
        """The time in which the client or its daemon was stopped does not count."""
        for target in (f"client={event.actor}", *self.targets[event.actor]):
            late -= sum(max(0, min(fault.end, event.time) - max(fault.begin, asked))
                        for fault in self.targeted[target] if fault.kind in STOPS)
        self.took(f"{what}, beyond its timeout", late, event)
        if late > self.prompt:
            self.violations.append(Violation("late", f"{what} of {event.actor} {event.words[0]}: {seconds(late)}", [event.line]))

    def find_overlaps(self, name, slot, beliefs):
        """latest: as many beliefs as the slot has room for, those that end last. If even the first of these has not
        ended, there is no room."""
        latest = []
        for belief in beliefs:
            while len(latest) > belief.capacity:
                heapq.heappop(latest)
            if latest and len(latest) == belief.capacity and min(latest[0].end, belief.end) > belief.start:
                self.judge_overlap(name, slot, latest[0], belief)
            if latest and latest[0].lost and belief.start >= latest[0].end and belief.capacity == 1 and belief.actor:
                self.gaps[self.ways.get(name, "")].append((belief.start - latest[0].end, belief.lines[0]))
            heapq.heappush(latest, belief)

    def judge_overlap(self, name, slot, older, newer):
        """If several others have the slot one after the other, the older belief is wrong from the first one on."""
        over = min(older.end, newer.end)
        if self.is_deleted_again(name, slot, older, newer):
            older.wrong_since = None
        older.wrong_until = over
        for belief, start in (older, older.wrong_since or newer.start), (newer, newer.start):
            targets = "all", f"client={belief.actor}", f"name={name}", f"slot={name}/{slot}", *self.targets.get(belief.actor, ())
            end = self.heard_at(belief, start, over)
            faults = [fault for target in targets for fault in self.targeted[target] if fault.begin <= end]
            causes = [fault for fault in faults if fault.explains(belief, start, end, faults, belief is newer)
                      and (fault.case in ITS_CASES or not self.is_by_quorum(name))]
            if causes and older.actor is not None:
                cause = max(causes, key=lambda fault: fault.begin)
                belief.wrong_since = start
                self.excused[belief, start] = (cause.case, cause.kind, self.ways.get(name, "")), (over - start, newer.lines[0])
                return
        start = older.wrong_since = older.wrong_since or newer.start
        names = [belief.actor or "an administrator that waited for holders" for belief in (older, newer)]
        self.unexcused[older] = Violation(
            "overlap", f"slot {slot} of {name}: {names[0]} and {names[1]} for {seconds(over - start)}",
            older.lines + newer.lines)

    def is_deleted_again(self, name, slot, older, newer):
        """By queue the daemon of the older holder declares a deleted holder queue again. If nobody else has the slot then, the
        older hold goes on until the queue is deleted once more."""
        return self.ways.get(name) in BY_QUEUE and older.wrong_until is not None and any(
            fault.case == "c" and older.wrong_until <= fault.begin <= newer.start for fault in self.targeted[f"slot={name}/{slot}"])

    def heard_at(self, belief, start, end):
        """The end of an overlap. If the believer was stopped meanwhile, it could not hear of the loss from then on."""
        stops = [fault for fault in self.targeted[f"client={belief.actor}"]
                 if fault.case == "a" and start < fault.begin and end <= fault.end + fault.after]
        return min([end, *[fault.begin for fault in stops]])

    def find_expected(self, event, key, until):
        """Takeover: after event, a client believes in time that the slot is its own."""
        starts = [belief.start for belief in self.beliefs.get(key, ()) if belief.end > event.time and belief.actor]
        first = max(event.time, min(starts, default=UNLIMITED))
        if first > until:
            self.violations.append(Violation(
                "takeover", f"no client gets slot {key[1]} of {key[0]} within {seconds(until - event.time)}", [event.line]))
        else:
            self.took("takeover", first - event.time, event)


WORDS = {name[3:]: method for name, method in vars(Check).items() if name.startswith("on_")}


def number(size):
    return UNLIMITED if size == "unlimited" else MISSING if size == "missing" else int(size)


def slots(size):
    """How many exist."""
    return 0 if size == "unlimited" else number(size)


def seconds(ns):
    return f"{ns / SECOND:.4f} s"


def report(check, lines):
    """The verdict as lines of text. lines: those of the record, for its violations."""
    yield "events of clients:"
    yield from (f"  {count:>9} {word} {reason}" for (word, reason), count in sorted(check.counts.items()))
    yield "faults:"
    kinds = collections.Counter(fault.kind for fault in check.faults.values())
    yield from (f"  {count:>9} {kind}" for kind, count in sorted(kinds.items()))
    yield "overlaps, by exception of SAFETY.md, with the median and the longest:"
    for (case, kind, way), overlaps in sorted(check.exceptions.items()):
        overlaps.sort()
        longest, line = overlaps[-1]
        yield f"  {len(overlaps):>9} {case} {kind} {way}: {seconds(overlaps[len(overlaps) // 2][0])}, {seconds(longest)} (line {line})"
    yield "lost updates, by way, with the longest time between the begins of the two holds:"
    for way, lost in sorted(check.lost_updates.items()):
        longest, line = max(lost)
        yield f"  {len(lost):>9} {way}: {seconds(longest)} (line {line})"
    yield "from a loss until the next holder of the slot, by way, the shortest and the longest:"
    for way, gaps in sorted(check.gaps.items()):
        (least, line), (most, other) = min(gaps), max(gaps)
        yield f"  {len(gaps):>9} {way}: {seconds(least)} (line {line}), {seconds(most)} (line {other})"
    yield "worst times:"
    yield from (f"  {what}: {seconds(ns)} (line {line})" for what, (ns, line) in sorted(check.worst.items()))
    yield f"violations: {len(check.violations)}"
    kinds = collections.Counter(violation.kind for violation in check.violations)
    yield from (f"  {count:>9} {kind}" for kind, count in sorted(kinds.items()))
    for violation in check.violations[:SHOWN]:
        yield str(violation)
        yield from (f"  {number}: {lines[number - 1].rstrip()}" for number in violation.lines)


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        lines = file.readlines()
    check = Check(read(lines))
    print("\n".join(report(check, lines)))
    sys.exit(1 if check.violations else 0)


if __name__ == "__main__":
    main()
