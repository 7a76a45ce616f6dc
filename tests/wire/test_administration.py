"""Lock administration over the wire and the broker in memory: accepted requests, and the errors of others."""

import os
import signal
import unittest

import tap
from daemon import Daemon
from wait import wait_until
from wire import Wire, WireError

LONGEST = "n" * 200
BAD_NAMES = ["", "n" * 201, "a b", "a\n", "ä", "a*", "amq.x", "x-1-A", "x-B-1", "x-A", "x-G", "x-U",
             "x-W", "x-M", 7, None, ["x"]]
# Methods, and the params that each needs besides the name.
NAMED = {"create": {}, "destroy": {}, "resize": {"slots": 1}, "size": {},
         "await": {"slot": 1, "state": "free"}, "fsck": {}, "explain": {},
         "acquire": {"create": 1, "timeout": 0}}
BAD_SIZES = [-1, -2, 10001, 2 ** 31, 2 ** 32 + 1, 2 ** 63, 1e300, 1.5, "2", "Unlimited", "", None, True, [1]]
BAD_COUNTS = [0] + BAD_SIZES + ["unlimited"]
BAD_WAITS = [-1, -0.001, 315360001, 1e300, "1", True]
# Method, params beside the name, the parameter that is named.
BAD_PARAMS = (
    [("create", {"slots": value}, "slots") for value in BAD_SIZES]
    + [("create", {"kind": "persistent-mutex", "slots": value}, "slots") for value in (0, 2, "unlimited")]
    + [("resize", {"slots": value}, "slots") for value in BAD_SIZES]
    + [("resize", {"add": value}, "add") for value in BAD_COUNTS]
    + [("resize", {"remove": value}, "remove") for value in BAD_COUNTS]
    + [("acquire", {"create": value}, "create") for value in BAD_COUNTS]
    + [("await", {"slot": value, "state": "free"}, "slot") for value in BAD_COUNTS]
    + [(method, {**NAMED[method], "overshoot": value}, "overshoot")
       for method in ("create", "destroy", "resize") for value in BAD_SIZES + ["unlimited"]]
    + [(method, {**NAMED[method], "wait": value}, "wait")
       for method in ("destroy", "resize") for value in BAD_WAITS]
    + [(method, {**NAMED[method], "order": value}, "order")
       for method in ("destroy", "resize") for value in ("up", "Ascending", "", None, 0)]
    + [(method, {**NAMED[method], "claim": value}, "claim")
       for method in ("create", "resize") for value in ("queue", "Consumer", "mixed", "", None, 1)]
    + [("fsck", {"repair": True, "convert": value}, "convert") for value in ("queue", "mixed", "", None, 1)]
    + [("fsck", {"repair": True, "wait": value}, "wait") for value in BAD_WAITS]
    + [("await", {"slot": 1, "state": "free", "timeout": value}, "timeout") for value in BAD_WAITS]
    + [("await", {"slot": 1, "state": value}, "state") for value in ("held", "", None, 1)]
    + [(method, {**NAMED[method], "extra": 1}, "extra") for method in NAMED]
    + [
        ("create", {"kind": "mutex"}, "kind"),
        ("create", {"wait": 1}, "wait"),
        ("create", {"order": "ascending"}, "order"),
        ("create", {"exist_ok": 1}, "exist_ok"),
        ("acquire", {"kind": "mutex", "create": 1}, "create"),
        ("acquire", {"kind": "persistent-mutex", "create": 2}, "create"),
        ("destroy", {"slots": 1}, "slots"),
        ("destroy", {"progress": "yes"}, "progress"),
        ("resize", {}, "slots"),
        ("resize", {"wait": 1}, "slots"),
        ("resize", {"slots": 1, "add": 1}, "add"),
        ("resize", {"slots": 1, "remove": 1}, "remove"),
        ("resize", {"add": 1, "remove": 1}, "remove"),
        ("resize", {"add": 1, "remove": 1, "slots": 1}, "add"),
        ("resize", {"slots": 1, "exist_ok": True}, "exist_ok"),
        ("await", {"slot": 1}, "state"),
        ("await", {"state": "free"}, "slot"),
        ("fsck", {"repair": 1}, "repair"),
        ("fsck", {"convert": "consumer"}, "convert"),
        ("fsck", {"repair": False, "wait": 1}, "wait"),
        ("fsck", {"repair": True, "progress": 1}, "progress"),
        ("destroy", {"claim": "consumer"}, "claim"),
        ("acquire", {"claim": "consumer"}, "claim"),
        ("explain", {"kind": "gate"}, "kind"),
    ])


class Administration(unittest.TestCase):
    def setUp(self):
        self.daemon = Daemon(self)
        self.admin = Wire(self.daemon)

    def cancel(self, peer, id):
        peer.send_line({"id": "cancel", "method": "cancel", "params": {"id": id}})
        return peer.answer("cancel")["cancelled"]

    def size(self, name="db"):
        return self.admin.call("size", name=name)["slots"]

    def hold(self, *slots, name="db"):
        """A client that holds these slots, which must be the lowest that are free; and its locks by slot."""
        peer = Wire(self.daemon)
        locks = {}
        for slot in slots:
            grant = peer.call("acquire", name=name, timeout=0)
            self.assertEqual(grant["slot"], slot)
            locks[slot] = grant["lock"]
        return peer, locks


class BadInput(Administration):
    def expect_refused(self, method, params, parameter):
        error = self.admin.error(method, **params)
        self.assertEqual((error.code, error.data["parameter"]), (-32602, parameter), error)

    def test_names(self):
        for method, params in NAMED.items():
            for name in BAD_NAMES:
                with self.subTest(method=method, name=name):
                    self.expect_refused(method, {**params, "name": name}, "name")
            with self.subTest(method=method, name="left out"):
                self.expect_refused(method, params, "name")
        self.expect_refused("list", {"name": "db"}, "name")
        self.assertEqual(self.admin.call("list"), {"semaphores": [], "mutexes": [], "more": 0, "silent_hosts": []})

    def test_params(self):
        self.admin.call("create", name="db", slots=2)
        for method, params, parameter in BAD_PARAMS:
            with self.subTest(method=method, params=params):
                self.expect_refused(method, {"name": "db", **params}, parameter)
        self.assertEqual(self.size(), 2)
        counts = self.admin.call("info")["counts"]
        self.assertEqual((counts["holds"], counts["waiting"]), (0, 0))

    def test_the_longest_name(self):
        self.admin.call("create", name=LONGEST, slots=2)
        self.admin.call("resize", name=LONGEST, add=1)
        self.assertEqual(self.size(LONGEST), 3)
        self.assertTrue(self.admin.call("fsck", name=LONGEST)["clean"])
        self.assertEqual(self.admin.call("explain", name=LONGEST)["verdict"], "free")
        self.assertEqual([row["name"] for row in self.admin.call("list")["semaphores"]], [LONGEST])
        self.admin.call("await", name=LONGEST, slot=10000, state="free", timeout=0)
        self.assertEqual(self.admin.call("acquire", name=LONGEST, timeout=0, create=1)["slot"], 1)
        self.assertEqual(self.admin.call("destroy", name=LONGEST), {"name": LONGEST})

    def test_a_missing_semaphore_is_refused(self):
        self.assertEqual(self.admin.error("destroy", name="db").reason, "no-such-lock")
        self.assertEqual(self.admin.error("size", name="db").reason, "no-such-lock")
        error = self.admin.error("resize", name="db", slots=3)
        self.assertEqual((error.reason, error.data["target"]), ("no-such-lock", 3))
        self.assertEqual(self.admin.error("resize", name="db", add=3).reason, "no-such-lock")
        self.assertEqual(self.admin.error("destroy", name="db", order="ascending", overshoot=5, wait=1).reason,
                         "no-such-lock")
        self.assertEqual(self.admin.call("list")["semaphores"], [])


class Sizes(Administration):
    def test_create(self):
        for slots in (0, 1, 3, 10000, "unlimited"):
            with self.subTest(slots):
                name = f"db/{slots}"
                self.assertEqual(self.admin.call("create", name=name, slots=slots),
                                 {"name": name, "kind": "semaphore", "slots": slots})
                self.assertEqual(self.size(name), slots)
                again = self.admin.error("create", name=name, slots=slots)
                self.assertEqual((again.reason, again.data["slots"], again.data["target"]),
                                 ("already-exists", slots, slots))
                self.assertEqual(self.admin.call("create", name=name, slots=slots, exist_ok=True)["slots"], slots)
                if slots != 0:  # else it may be one that was interrupted, and is completed
                    other = self.admin.error("create", name=name, slots=2, exist_ok=True)
                    self.assertEqual((other.reason, other.data["slots"], other.data["target"]),
                                     ("already-exists", slots, 2))
                self.admin.call("destroy", name=name)
                self.assertEqual(self.admin.error("size", name=name).reason, "no-such-lock")

    def test_a_persistent_mutex(self):
        made = self.admin.call("create", name="db", kind="persistent-mutex", overshoot=3)
        self.assertEqual(made, {"name": "db", "kind": "persistent-mutex", "slots": 1})
        held = self.admin.call("acquire", name="db", kind="persistent-mutex", timeout=0)
        self.assertEqual((held["slot"], held["kind"]), (1, "persistent-mutex"))
        self.admin.call("resize", name="db", slots=0)
        self.admin.call("release", lock=held["lock"])
        self.assertEqual(self.admin.error("acquire", name="db", kind="persistent-mutex", timeout=0).reason,
                         "would-block")

    def resize(self, expected, **params):
        result = self.admin.call("resize", name="db", **params)
        self.assertEqual((result["name"], result["slots"], result["target"]), ("db", expected, expected))
        self.assertEqual(self.size(), expected)
        return result

    def test_resize(self):
        self.admin.call("create", name="db", slots=2)
        self.resize(5, slots=5)
        self.resize(5, slots=5)
        self.resize(8, add=3)
        self.resize(6, remove=2, overshoot=10)
        self.resize(1, slots=1)
        self.resize(0, remove=10000)
        self.resize(0, remove=1)
        self.resize(2, add=2)
        self.resize(0, slots=0)
        self.resize("unlimited", slots="unlimited")
        self.resize("unlimited", slots="unlimited")
        self.resize(3, slots=3)
        self.assertTrue(self.admin.call("fsck", name="db")["clean"])

    def test_unlimited_is_no_number_to_count_from(self):
        self.admin.call("create", name="db", slots="unlimited")
        for by in ("add", "remove"):
            error = self.admin.error("resize", name="db", **{by: 1})
            self.assertEqual((error.code, error.data["parameter"]), (-32602, by))
        self.assertEqual(self.size(), "unlimited")

    def test_there_are_at_most_10000(self):
        self.admin.call("create", name="db", slots=9999)
        self.resize(10000, add=1)
        error = self.admin.error("resize", name="db", add=1)
        self.assertEqual((error.code, error.data["parameter"]), (-32602, "add"))
        self.assertEqual(self.size(), 10000)

    def test_ascending_warns_unless_it_overshoots(self):
        self.admin.call("create", name="db", slots=3)
        self.assertIn("warning", self.resize(2, slots=2, order="ascending"))
        self.assertNotIn("warning", self.resize(1, slots=1, order="ascending", overshoot=5))
        self.assertNotIn("warning", self.resize(2, slots=2, order="descending"))
        self.assertIn("warning", self.admin.call("destroy", name="db", order="ascending"))

    def test_waiters_get_new_slots(self):
        self.admin.call("create", name="db", slots=0)
        waiter = Wire(self.daemon)
        request = waiter.request("acquire", name="db", progress=True)
        waiter.notification("waiting")
        self.assertTrue(waiter.quiet())
        self.resize(1, slots=1)
        self.assertEqual(waiter.answer(request)["slot"], 1)


class HeldSlots(Administration):
    def test_a_removed_slot_is_revoked_and_stays_its_holders(self):
        self.admin.call("create", name="db", slots=2)
        holder, locks = self.hold(1, 2)
        self.admin.call("resize", name="db", slots=1)
        note = holder.notification("revoked")
        self.assertEqual(note, {"lock": locks[2], "name": "db", "slot": 2, "reason": "revoked"})
        self.admin.call("resize", name="db", slots=2)
        self.assertEqual(holder.error("verify", lock=locks[2]).reason, "revoked")
        self.assertEqual(self.admin.error("acquire", name="db", timeout=0).reason, "would-block")
        holder.call("release", lock=locks[2])
        self.assertEqual(self.admin.call("acquire", name="db", timeout=0)["slot"], 2)

    def test_waiting_for_holders(self):
        self.admin.call("create", name="db", slots=3)
        holder, locks = self.hold(1, 2, 3)
        request = self.admin.request("resize", name="db", slots=1, wait=None, progress=True)
        self.assertEqual(self.admin.notification("holders"),
                         {"id": request, "left": 2, "holders": [{"slot": 2}, {"slot": 3}]})
        self.assertEqual(self.size(), 1)  # the resize is done, and other requests see it
        holder.call("release", lock=locks[3])
        self.assertEqual(self.admin.notification("holders"), {"id": request, "left": 1, "holders": [{"slot": 2}]})
        holder.call("release", lock=locks[2])
        self.assertEqual(self.admin.answer(request), {"name": "db", "slots": 1, "target": 1})

    def test_destroy_waits_too(self):
        self.admin.call("create", name="db")
        holder, _ = self.hold(1)
        request = self.admin.request("destroy", name="db", wait=None, progress=True)
        holder.notification("revoked")
        self.admin.notification("holders")
        self.assertTrue(self.admin.quiet())
        holder.hang_up()
        self.assertEqual(self.admin.answer(request), {"name": "db"})

    def test_the_time_is_up(self):
        self.admin.call("create", name="db", slots=3)
        self.hold(1, 2, 3)
        error = self.admin.error("resize", name="db", remove=2, wait=0.05)
        self.assertEqual((error.reason, error.data["target"], error.data["slots"]), ("timeout", 1, 1))
        self.assertEqual((error.data["left"], error.data["holders"]), (2, [{"slot": 2}, {"slot": 3}]))
        error = self.admin.error("destroy", name="db", wait=0.05)
        # Those of the slots that were removed before are waited for, too.
        self.assertEqual((error.reason, error.data["left"]), ("timeout", 3))
        self.assertEqual(error.data["holders"], [{"slot": 1}, {"slot": 2}, {"slot": 3}])
        self.assertEqual(self.admin.error("size", name="db").reason, "no-such-lock")

    def test_without_holders_nobody_waits(self):
        self.admin.call("create", name="db", slots=3)
        self.hold(1)
        self.assertEqual(self.admin.call("resize", name="db", slots=1, wait=None)["slots"], 1)

    def test_waiting_ends_by_cancel(self):
        self.admin.call("create", name="db", slots=2)
        self.hold(1, 2)
        request = self.admin.request("resize", name="db", slots=1, wait=None, progress=True)
        self.admin.notification("holders")
        self.assertTrue(self.cancel(self.admin, request))
        refused = self.admin.reply(request)["error"]["data"]
        self.assertEqual((refused["reason"], refused["target"]), ("cancelled", 1))
        self.assertEqual(self.size(), 1)

    def test_waiting_ends_with_its_client(self):
        self.admin.call("create", name="db", slots=2)
        self.hold(1, 2)
        other = Wire(self.daemon)
        other.request("resize", name="db", slots=1, wait=None, progress=True)
        other.request("await", name="db", slot=1, state="free")
        other.notification("holders")
        other.socket.shutdown(1)
        other.wait_closed()
        self.assertFalse(other.replies)
        self.assertEqual(self.size(), 1)

    def test_waiting_is_bounded_and_stops_nothing(self):
        daemon = Daemon(self, "--max-waits-per-connection", "3", "--max-requests-per-connection", "1")
        peer = Wire(daemon)
        peer.call("create", name="db", slots=2)
        for _ in range(2):
            peer.call("acquire", name="db", timeout=0)
        waiting = [peer.request("await", name="db", slot=1, state="free"),
                   peer.request("acquire", name="db"),
                   peer.request("resize", name="db", slots=1, wait=None)]
        for method, params in (("await", {"slot": 1, "state": "free", "timeout": 1}), ("acquire", {}),
                               ("resize", {"slots": 1, "wait": 1}), ("destroy", {"wait": None})):
            self.assertEqual(peer.error(method, name="db", **params).reason, "too-many-waiters", method)
        self.assertEqual(peer.call("resize", name="db", slots=1)["slots"], 1)
        self.assertEqual(peer.call("ping"), {})
        for id in waiting:
            self.assertTrue(self.cancel(peer, id))
        self.assertEqual(peer.call("await", name="db", slot=1, state="busy")["slot"], 1)


class Await(Administration):
    def test_a_slot_that_is_free(self):
        # Whether it exists is not asked.
        self.assertEqual(self.admin.call("await", name="db", slot=3, state="free"), {"name": "db", "slot": 3})

    def test_until_it_is_free(self):
        self.admin.call("create", name="db")
        holder, locks = self.hold(1)
        self.assertEqual(self.admin.call("await", name="db", slot=1, state="busy"), {"name": "db", "slot": 1})
        request = self.admin.request("await", name="db", slot=1, state="free")
        self.assertTrue(self.admin.quiet())
        holder.call("release", lock=locks[1])
        self.assertEqual(self.admin.answer(request)["slot"], 1)

    def test_until_it_is_taken(self):
        self.admin.call("create", name="db")
        request = self.admin.request("await", name="db", slot=1, state="busy")
        self.assertTrue(self.admin.quiet())
        self.hold(1)
        self.assertEqual(self.admin.answer(request), {"name": "db", "slot": 1})

    def test_deadlines(self):
        self.admin.call("create", name="db")
        for timeout in (0, 0.05):
            error = self.admin.error("await", name="db", slot=1, state="busy", timeout=timeout)
            self.assertEqual(error.reason, "timeout")

    def test_the_stop_ends_it(self):
        request = self.admin.request("await", name="db", slot=1, state="busy")
        self.admin.call("ping")
        self.daemon.signal(signal.SIGTERM)
        self.assertEqual(self.admin.reply(request)["error"]["data"]["reason"], "draining")
        self.daemon.wait_exit()


class CreatedByAcquire(Administration):
    def test_it_is_created(self):
        self.assertEqual(self.admin.call("acquire", name="db", create=3, timeout=0)["slot"], 1)
        self.assertEqual(self.size(), 3)
        # Now that it is there its size stays.
        self.assertEqual(self.admin.call("acquire", name="db", create=7, timeout=0)["slot"], 2)
        self.assertEqual(self.size(), 3)
        self.assertEqual([row["name"] for row in self.admin.call("list")["semaphores"]], ["db"])

    def test_a_persistent_mutex(self):
        grant = self.admin.call("acquire", name="db", kind="persistent-mutex", create=1)
        self.assertEqual((grant["kind"], grant["slot"]), ("persistent-mutex", 1))
        self.assertEqual(self.size(), 1)

    def test_without_it_nothing_is(self):
        self.assertEqual(self.admin.error("acquire", name="db", timeout=0).reason, "no-such-lock")
        self.assertEqual(self.admin.call("list")["semaphores"], [])


class Unlimited(Administration):
    def test_a_hold_takes_no_slot(self):
        self.admin.call("create", name="db", slots="unlimited")
        holds = [self.admin.call("acquire", name="db", timeout=0, lease=True) for _ in range(3)]
        for hold in holds:
            self.assertEqual([hold[name] for name in ("slot", "safe_for", "safe_until", "lease", "fence")], [None] * 5)
        self.assertEqual(len({hold["lock"] for hold in holds}), 3)
        first = holds[0]["lock"]
        self.assertEqual(self.admin.call("verify", lock=first),
                         {"lock": first, "name": "db", "kind": "semaphore", "slot": None,
                          "safe_for": None, "safe_until": None, "fence": None})
        self.admin.call("resize", name="db", slots=1)
        self.assertEqual(self.admin.call("acquire", name="db", timeout=0)["slot"], 1)
        self.assertIsNone(self.admin.call("verify", lock=first)["slot"])
        self.assertEqual(self.admin.call("release", lock=first), {"lock": first})
        self.assertEqual(self.admin.error("verify", lock=first).reason, "not-held")


class Looking(Administration):
    def test_list(self):
        self.assertEqual(self.admin.call("list"), {"semaphores": [], "mutexes": [], "more": 0, "silent_hosts": []})
        self.admin.call("create", name="b", slots=2)
        self.admin.call("create", name="a", slots="unlimited")
        self.admin.call("create", name="c", slots=0)
        self.hold(1, name="b")
        rows = {row["name"]: row for row in self.admin.call("list")["semaphores"]}
        self.assertEqual(rows["b"], {"name": "b", "slots": 2, "busy": 1, "exists": True, "claim": "exclusive-queue",
                                     "waiting": 0, "extra": 0})
        self.assertEqual((rows["a"]["slots"], rows["a"]["exists"]), ("unlimited", True))
        self.assertEqual((rows["c"]["slots"], rows["c"]["exists"]), (0, True))
        self.admin.call("destroy", name="b")
        def rows():
            return {row["name"]: row for row in self.admin.call("list")["semaphores"]}
        # It is listed while it has a holder, as soon as this is known to be revoked.
        wait_until(lambda: set(rows()) == {"a", "b", "c"}, what="its holder is listed")
        self.assertEqual(rows()["b"], {"name": "b", "slots": None, "busy": None, "exists": False, "claim": None,
                                       "waiting": 0, "extra": 1})

    def test_fsck(self):
        self.admin.call("create", name="db", slots=2)
        clean = {"name": "db", "clean": True, "findings": [], "converted": 0, "claim": "exclusive-queue", "more": 0,
                 "extra": 0, "holders": []}
        self.assertEqual(self.admin.call("fsck", name="db"), clean)
        self.assertEqual(self.admin.call("fsck", name="db", repair=True), clean)
        self.hold(1, 2)
        self.admin.call("resize", name="db", slots=1)
        found = self.admin.call("fsck", name="db", repair=True)
        self.assertEqual(found, {**clean, "extra": 1, "holders": [{"slot": 2}]})

    def held_by(self):
        """How the slots of db are held, in all that tells it."""
        (row,) = self.admin.call("list")["semaphores"]
        told = {row["claim"], *(self.admin.call(method, name="db")["claim"] for method in ("show", "explain", "fsck"))}
        self.assertEqual(len(told), 1, told)
        return told.pop()

    def test_how_slots_are_held(self):
        self.assertEqual(self.admin.call("info")["claim"], "exclusive-queue")
        self.admin.call("create", name="db", slots=0)
        self.assertIsNone(self.held_by())
        self.admin.call("resize", name="db", slots=3, claim="consumer")
        self.assertEqual(self.held_by(), "consumer")
        error = self.admin.error("resize", name="db", slots=4, claim="exclusive-queue")
        self.assertEqual((error.code, error.data["parameter"]), (-32602, "claim"))
        error = self.admin.error("create", name="db", slots=3, exist_ok=True, claim="exclusive-queue")
        self.assertEqual(error.reason, "already-exists")
        self.admin.call("create", name="db", slots=3, exist_ok=True, claim="consumer")

    def test_convert(self):
        self.admin.call("create", name="db", slots=2, claim="exclusive-queue")
        peer, locks = self.hold(1)
        found = self.admin.call("fsck", name="db", repair=True, convert="consumer")
        self.assertEqual((found["converted"], found["claim"]), (1, "mixed"))
        self.assertEqual([(one["problem"], one["slot"], one["repaired"]) for one in found["findings"]],
                         [("claim", 1, False)])
        waiting = Wire(self.daemon)
        waiting.request("fsck", id=1, name="db", repair=True, convert="consumer", wait=None, progress=True)
        self.assertEqual(waiting.notification("holders")["holders"], [{"slot": 1}])
        self.assertTrue(self.cancel(waiting, 1))
        with self.assertRaises(WireError) as refused:
            waiting.answer(1)
        self.assertEqual(refused.exception.reason, "cancelled")
        waiting.request("fsck", id=2, name="db", repair=True, convert="consumer", wait=30)
        peer.call("release", lock=locks[1])
        found = waiting.answer(2)
        self.assertEqual((found["clean"], found["converted"], found["claim"]), (True, 1, "consumer"))
        self.assertEqual(self.held_by(), "consumer")

    def explain(self, verdict, **params):
        found = self.admin.call("explain", name="db", **params)
        self.assertEqual(found["verdict"], verdict, found)
        return found

    def test_explain(self):
        self.explain("no-such-lock")
        self.admin.call("create", name="db", slots=2)
        self.assertEqual(self.explain("free")["text"], "0 of 2 slots are busy: an acquire gets a free one; "
                         "its slots are held by exclusive queues")
        self.hold(1, 2)
        waiter = Wire(self.daemon)
        waiter.request("acquire", name="db", progress=True)
        waiter.notification("waiting")
        found = self.explain("full")
        self.assertEqual([found[name] for name in ("kind", "slots", "busy", "here", "waiting", "uncounted")],
                         ["semaphore", 2, 2, 2, 1, 0])
        self.admin.call("resize", name="db", slots=0)
        self.assertEqual(self.explain("gate")["slots"], 0)
        self.admin.call("resize", name="db", slots="unlimited")
        self.assertEqual(self.explain("unlimited")["slots"], "unlimited")

    def test_explain_a_mutex(self):
        self.assertEqual(self.explain("free", kind="mutex")["kind"], "mutex")
        self.admin.call("acquire", name="db", kind="mutex")
        self.assertIn("by a client of this daemon", self.explain("full", kind="mutex")["text"])

    def test_explain_says_that_the_daemon_stops(self):
        self.admin.call("create", name="db")
        holder, _ = self.hold(1)
        self.daemon.signal(signal.SIGTERM)
        self.admin.notification("draining")
        self.assertTrue(self.explain("full")["text"].startswith("the daemon is stopping"))
        holder.hang_up()
        self.daemon.wait_exit()

    def test_explain_says_that_the_broker_is_away(self):
        daemon = Daemon(self, broker="amqp://127.0.0.1:1", expect=["127.0.0.1:1"])
        found = Wire(daemon).call("explain", name="db", kind="persistent-mutex")
        self.assertEqual([found[name] for name in ("verdict", "slots", "busy", "here", "waiting", "uncounted")],
                         [None] * 6)
        self.assertTrue(found["text"].startswith("the broker cannot be reached"), found)
        self.assertEqual(found["reason"], "broker-unavailable")

    def test_explain_says_that_the_rules_forbid_it(self):
        daemon = Daemon(self, config=f"[access]\nrule = deny uid:{os.getuid()} acquire db\n")
        peer = Wire(daemon)
        peer.call("create", name="db")
        found = peer.call("explain", name="db")
        self.assertEqual(found["verdict"], "free")
        self.assertTrue(found["text"].startswith(
            f"uid {os.getuid()} may not acquire it: an access rule denies it; 0 of 1"), found)
        self.assertEqual(found["reason"], "permission-denied")


class Rights(unittest.TestCase):
    def refused(self, peer, method, **params):
        error = peer.error(method, **params)
        self.assertEqual(error.reason, "permission-denied")
        return error.message

    def test_some_params_need_more(self):
        daemon = Daemon(self, config=f"[access]\nrule = deny uid:{os.getuid()} create,fsck db\n")
        peer = Wire(daemon)
        self.assertIn("may not create db",
                      self.refused(peer, "acquire", name="db", create=1, timeout=0))
        self.assertEqual(peer.error("acquire", name="db", timeout=0).reason, "no-such-lock")
        self.refused(peer, "fsck", name="db")
        self.refused(peer, "fsck", name="db", repair=True)
        self.assertEqual(peer.call("acquire", name="other", create=1, timeout=0)["slot"], 1)
        daemon.wait_log(r"refused db: .* may not create db")

    def test_create_needs_no_right_if_the_semaphore_exists(self):
        daemon = Daemon(self)
        peer = Wire(daemon)
        peer.call("create", name="db")
        daemon.write_config("[access]\nrule = deny any create *\n")
        daemon.reload()
        daemon.wait_log("reloaded")
        self.assertEqual(peer.call("acquire", name="db", create=2, timeout=0)["slot"], 1)
        self.assertEqual(peer.error("acquire", name="db", create=2, timeout=0).reason, "would-block")
        for timeout in 0, 60:
            self.refused(peer, "acquire", name="missing", create=2, timeout=timeout)


if __name__ == "__main__":
    tap.main()
