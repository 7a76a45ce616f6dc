"""show, watch, grant and deny over the wire, of one daemon: rows, words, rights, and slow clients."""

import os
import signal
import unittest

import tap
from daemon import Daemon
from wait import wait_until
from wire import Wire

ROW = ["waiter", "lock", "state", "name", "kind", "slot", "position", "priority", "who", "why", "command",
       "host", "uid", "pid", "since", "age", "revoked", "evicted", "unknown", "fence"]


class View(unittest.TestCase):
    def setUp(self):
        self.daemon = Daemon(self, "--host-name", "here", "--query-timeout", "0.05")
        self.admin = Wire(self.daemon)
        self.admin.call("create", name="db")

    def acquire(self, **params):
        """A client that has asked for db, and its request."""
        peer = Wire(self.daemon)
        asked = peer.request("acquire", **{"name": "db", **params})
        peer.call("ping")
        return peer, asked

    def hold(self, **params):
        peer, asked = self.acquire(**params)
        return peer, peer.answer(asked)["lock"]

    def show(self):
        return self.admin.call("show", name="db")

    def end(self, watch, asked):
        """Cancels a watch and returns the error that ends it."""
        watch.send_line({"id": "end", "method": "cancel", "params": {"id": asked}})
        self.assertEqual(watch.answer("end"), {"cancelled": True})
        return watch.reply(asked)["error"]


class Rows(View):
    def test_a_row_has_the_words_of_the_client_and_of_the_kernel(self):
        peer, lock = self.hold(who="\u00e4 \"b\"", why="line\nbreak", command="\u0001")
        row, = self.show()["holders"]
        self.assertEqual(list(row), ROW)
        self.assertEqual((row["who"], row["why"], row["command"]), ("\u00e4 \"b\"", "line?break", "?"))
        self.assertEqual((row["uid"], row["pid"], row["host"]), (os.getuid(), os.getpid(), "here"))
        self.assertEqual((row["lock"], row["slot"], row["state"]), (lock, 1, "busy"))
        peer.hang_up()

    def test_waiters_are_shown_in_the_order_of_the_local_queue(self):
        self.hold()
        for priority in 0, 5, -5, 5:
            self.acquire(priority=priority)
        shown = self.show()
        self.assertEqual([(row["position"], row["priority"]) for row in shown["waiters"]],
                         [(1, 5), (2, 5), (3, 0), (4, -5)])
        self.assertEqual((shown["slots"], shown["busy"], shown["waiting"], shown["more"]), (1, 1, 4, 0))

    def test_nothing_is_there(self):
        self.assertEqual(self.show(), {"name": "db", "slots": 1, "busy": 0, "extra": 0, "waiting": 0,
                                       "claim": "exclusive-queue", "holders": [], "waiters": [], "more": 0, "silent_hosts": [],
                                       "reason": None})
        self.assertEqual(self.admin.error("show", name="nowhere").reason, "no-such-lock")

    def test_gate_and_unlimited(self):
        self.admin.call("resize", name="db", slots=0)
        peer, asked = self.acquire(who="A")
        self.assertEqual((self.show()["slots"], self.show()["waiting"]), (0, 1))
        self.admin.call("resize", name="db", slots="unlimited")
        peer.answer(asked)
        shown = self.show()
        self.assertEqual(shown["slots"], "unlimited")
        self.assertEqual([(row["slot"], row["state"]) for row in shown["holders"]], [(None, "busy")])

    def test_a_thousand_waiters(self):
        self.hold()
        many = Wire(self.daemon)
        for _ in range(1000):
            many.request("acquire", name="db", why="w" * 256)
        many.call("ping")
        shown = self.show()
        self.assertEqual((shown["waiting"], len(shown["waiters"]), shown["more"]), (1000, 1000, 0))
        listed, = self.admin.call("list")["semaphores"]
        self.assertEqual(listed["waiting"], 1000)
        self.assertEqual(self.admin.call("deny", name="db", all=True)["denied"], 1000)
        self.assertTrue(all(many.recv()["error"]["data"]["denied"] for _ in range(1000)))


class Steered(View):
    def test_granted_to_a_mutex(self):
        self.hold(name="m", kind="mutex")
        peer, asked = self.acquire(name="m", kind="mutex")
        row, = self.admin.call("show", name="m")["waiters"]
        self.admin.call("grant", waiter=row["waiter"])
        granted = peer.answer(asked)
        self.assertEqual((granted["kind"], granted["slot"], granted["lease"]), ("mutex", None, None))
        self.assertEqual(peer.call("verify", lock=granted["lock"])["safe_until"], None)
        self.assertEqual(peer.call("release", lock=granted["lock"]), {"lock": granted["lock"]})

    def test_ids_that_are_none(self):
        peer, lock = self.hold()
        row, = self.show()["holders"]
        for waiter in "x", "-", "0" * 64, "00000000-1", lock, row["waiter"], row["waiter"] + "0":
            self.assertEqual(self.admin.error("grant", waiter=waiter).reason, "not-held", waiter)
            self.assertEqual(self.admin.error("deny", waiter=waiter).reason, "not-held", waiter)
        for waiter in "", "w" * 65, 7, None, ["x"]:
            error = self.admin.error("grant", waiter=waiter)
            self.assertEqual((error.reason, error.data["parameter"]), ("invalid-params", "waiter"))
        self.assertEqual(peer.call("verify", lock=lock)["lock"], lock)

    def test_all_has_to_be_said(self):
        self.hold()
        self.acquire()
        for params, wrong in (({"name": "db"}, "all"), ({"name": "db", "all": False}, "all"),
                              ({"waiter": "x", "all": True}, "all"), ({}, "waiter"),
                              ({"all": True}, "waiter"), ({"name": "db", "waiter": "x"}, "waiter")):
            error = self.admin.error("deny", **params)
            self.assertEqual(error.reason, "invalid-params")
            self.assertIn(error.data["parameter"], (wrong, "name"))
        self.assertEqual(self.show()["waiting"], 1)
        self.assertEqual(self.admin.call("deny", name="nobody", all=True)["denied"], 0)

    def test_the_lock_log_says_who_did_it(self):
        self.hold()
        peer, asked = self.acquire()
        row, = self.show()["waiters"]
        self.admin.call("deny", waiter=row["waiter"])
        self.assertTrue(peer.reply(asked)["error"]["data"]["denied"])
        uid = os.getuid()
        self.daemon.wait_log(rf"requested deny: client .*, uid {uid} \(\w+\), pid {os.getpid()}, waiter {row['waiter']}")
        self.daemon.wait_log(f"denied db by an administrator: waiter {row['waiter']}, by uid {uid} of host here")
        self.daemon.wait_log(f"done deny: client .*, uid {uid}")

    def test_cancelled_by_the_client_is_not_denied(self):
        self.hold()
        peer, asked = self.acquire()
        peer.send_line({"id": "end", "method": "cancel", "params": {"id": asked}})
        self.assertEqual(peer.reply(asked)["error"]["data"], {"reason": "cancelled", "retry": False})


class Standing(View):
    def test_a_waiter_that_moves_up_is_notified(self):
        holder, _lock = self.hold()
        second, _asked = self.acquire(progress=True)
        third, asked = self.acquire(progress=True)
        self.assertEqual(third.notification("waiting"), {"id": asked, "position": 2, "busy": 1, "extra": 0})
        second.hang_up()
        self.assertEqual(third.notification("waiting"), {"id": asked, "position": 1, "busy": 1, "extra": 0})
        holder.hang_up()
        self.assertEqual(third.answer(asked)["slot"], 1)


class Watched(View):
    def watch(self, **params):
        watch = Wire(self.daemon)
        asked = watch.request("watch", **params)
        return watch, asked

    def test_a_watch_counts_as_waiting_and_ends_by_cancel(self):
        daemon = Daemon(self, "--max-waits-per-connection", "2")
        watch = Wire(daemon)
        asked = [watch.request("watch"), watch.request("watch", name="db")]
        for _ in asked:
            watch.notification("synced")
        self.assertEqual(watch.error("watch").reason, "too-many-waiters")
        error = self.end(watch, asked[0])
        self.assertEqual(error["data"], {"reason": "cancelled", "retry": False})
        again = watch.request("watch")
        self.assertEqual(watch.notification("synced")["id"], again)

    def test_rules_about_names_hold_for_a_watch_of_all(self):
        daemon = Daemon(self, config=f"[access]\nrule = deny uid:{os.getuid()} show,watch secret/*\n")
        for name in "secret/a", "open":
            Wire(daemon, self).call("acquire", name=name, kind="mutex", who=name)
        watch = Wire(daemon)
        self.assertEqual(watch.error("watch", name="secret/a").reason, "permission-denied")
        watch.request("watch")
        watch.notification("synced")
        Wire(daemon, self).call("acquire", name="secret/b", kind="mutex")
        Wire(daemon, self).call("acquire", name="also", kind="mutex")
        told = []
        while "also" not in told:
            told.append(watch.notification("row")["row"]["name"])
        self.assertEqual(sorted(set(told)), ["also", "open"])

    def test_rules_about_names_hold_for_a_list(self):
        me = f"uid:{os.getuid()}"
        daemon = Daemon(self, config=f"[access]\nrule = allow {me} show,list secret/mine\n"
                                     f"rule = deny {me} show secret/*\nrule = deny {me} list unlisted\n")
        peer = Wire(daemon)
        for name in "open", "secret/a", "secret/mine", "unlisted":
            peer.call("create", name=name)
        self.assertEqual(peer.error("show", name="secret/a").reason, "permission-denied")
        listed = peer.call("list")
        self.assertEqual(([row["name"] for row in listed["semaphores"]], listed["more"]), (["open", "secret/mine"], 0))
        self.assertEqual(peer.call("show", name="unlisted")["slots"], 1)
        for name in "open", "secret/a", "secret/mine", "unlisted":
            peer.call("acquire", name=name, kind="mutex")
        listed = peer.call("list")
        self.assertEqual(([row["name"] for row in listed["mutexes"]], listed["more"]), (["open", "secret/mine"], 0))

    def test_a_list_has_the_mutexes_that_are_held_or_waited_for(self):
        daemon = Daemon(self)
        peer = Wire(daemon)
        peer.call("create", name="m")
        lock = peer.call("acquire", name="m", kind="mutex")["lock"]
        waits = Wire(daemon)
        asked = [waits.request("acquire", name="m", kind="mutex") for _ in range(2)]
        waits.call("ping")
        listed = peer.call("list")
        self.assertEqual(listed["mutexes"], [{"name": "m", "kind": "mutex", "busy": 1, "waiting": 2, "extra": 0}])
        self.assertEqual([(row["name"], row["busy"], row["waiting"]) for row in listed["semaphores"]], [("m", 0, 0)])
        peer.call("release", lock=lock)
        waits.answer(asked[0])
        self.assertEqual(peer.call("list")["mutexes"], [{"name": "m", "kind": "mutex", "busy": 1, "waiting": 1, "extra": 0}])
        waits.hang_up()
        wait_until(lambda: peer.call("list")["mutexes"] == [], what="no mutex is listed")

    def test_the_stop_ends_it(self):
        watch, asked = self.watch()
        watch.notification("synced")
        self.daemon.stop()
        self.assertEqual(watch.reply(asked)["error"]["data"]["reason"], "draining")

    def test_a_watch_does_not_keep_a_daemon_that_stops(self):
        holder, lock = self.hold()
        watch, asked = self.watch()
        watch.notification("synced")
        self.daemon.signal(signal.SIGTERM)
        self.assertEqual(watch.reply(asked)["error"]["data"]["reason"], "draining")
        self.assertEqual(watch.error("watch").reason, "draining")
        holder.call("release", lock=lock)
        self.daemon.wait_exit()

    def test_the_notifications_of_a_watch(self):
        watch, asked = self.watch()
        watch.notification("synced")
        peer, lock = self.hold(who="A")
        # Of successive changes the last one is notified, and the others may be.
        while (state := watch.notification("row")["row"]["state"]) != "busy":
            self.assertEqual(state, "waiting")
        waits, denied = self.acquire(who="B")
        row = watch.notification("row")["row"]
        self.assertEqual((row["who"], row["state"], row["position"]), ("B", "waiting", 1))
        self.admin.call("deny", waiter=row["waiter"])
        self.assertTrue(waits.reply(denied)["error"]["data"]["denied"])
        self.assertEqual(watch.notification("row")["row"]["state"], "cancelled")
        self.assertEqual(watch.notification("gone"), {"id": asked, "waiter": row["waiter"]})
        self.admin.call("resize", name="db", slots=0)
        self.assertTrue(watch.notification("row")["row"]["revoked"])
        peer.call("release", lock=lock)
        watch.notification("gone")
        self.assertTrue(watch.quiet())

    def test_a_watch_that_is_read_too_slowly_begins_anew(self):
        watch, asked = self.watch()
        watch.notification("synced")
        noisy = Wire(self.daemon)
        words = {word: "\"" * 256 for word in ("who", "why", "command")}
        # Some 10 MB of rows that the client does not read: unsent rows do not fill the daemon.
        for _ in range(2400):
            self.assertEqual(noisy.error("acquire", name="none", timeout=0, **words).reason, "no-such-lock")
        self.hold(who="A")
        self.assertEqual(watch.notification("resync"), {"id": asked})
        watch.notifications.clear()
        row = watch.notification("row")["row"]
        self.assertEqual((row["who"], row["state"]), ("A", "busy"))
        self.assertEqual(watch.notification("synced")["more"], 0)


class Rights(View):
    def test_rules_go_by_the_name_that_is_waited_for(self):
        daemon = Daemon(self, config=f"[access]\nrule = deny uid:{os.getuid()} grant,deny db\n")
        self.daemon, self.admin = daemon, Wire(daemon)
        for name in "db", "other":
            self.admin.call("create", name=name)
            self.hold(name=name)
        waits = {name: self.acquire(name=name) for name in ("db", "other")}
        ids = {name: self.admin.call("show", name=name)["waiters"][0]["waiter"] for name in waits}
        for method in "grant", "deny":
            self.assertEqual(self.admin.error(method, waiter=ids["db"]).reason, "permission-denied")
        self.assertEqual(self.admin.error("deny", name="db", all=True).reason, "permission-denied")
        self.assertEqual(self.admin.call("grant", waiter=ids["other"])["name"], "other")
        peer, asked = waits["other"]
        self.assertIsNone(peer.answer(asked)["slot"])
        self.assertEqual(self.admin.call("show", name="db")["waiting"], 1)


if __name__ == "__main__":
    tap.main()
