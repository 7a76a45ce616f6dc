"""`show`, `watch`, `grant` and `deny` across two daemons over a real RabbitMQ. One daemon may be frozen, and some
holders use no daemon at all.
"""

import os
import unittest

import tap
from daemon import Daemon
from rabbit import Rabbit
from wire import Wire, wait_until

RABBIT = Rabbit.lease(shared=True)
TROUBLE = ("broker|amqp|connection|heartbeat|lease",)

setUpModule = RABBIT.serve_module


class View(unittest.TestCase):
    def setUp(self):
        self.name = self.id().rpartition(".")[2]

    def daemon(self, host, *options, **more):
        daemon = Daemon(self, "--host-name", host, *options, broker=RABBIT.url, **more)
        daemon.wait_broker()
        return daemon

    def acquire(self, daemon, who):
        """A client that has asked, and its request."""
        peer = Wire(daemon)
        asked = peer.request("acquire", name=self.name, who=who)
        peer.call("ping")
        return peer, asked

    def hold(self, daemon, who):
        peer, asked = self.acquire(daemon, who)
        peer.answer(asked)
        return peer

    def rows(self, shown):
        return {row["who"]: (row["host"], row["state"], row["slot"])
                for row in shown["holders"] + shown["waiters"]}

    def wait_rows(self, peer, wanted):
        """Until show has exactly these; the last it gave."""
        shown = {}

        def there():
            shown.update(peer.call("show", name=self.name))
            return self.rows(shown) == wanted

        wait_until(there, what=f"{wanted} is shown")
        return shown


class Shown(View):
    def test_a_daemon_that_was_killed_and_started_again_is_not_silent(self):
        first, second = self.daemon("first"), self.daemon("second")
        admin = Wire(first)
        admin.call("create", name=self.name)
        a = self.hold(second, "A")
        self.wait_rows(admin, {"A": ("second", "busy", 1)})
        second.kill()
        a.hang_up()
        second.start()
        second.wait_broker()
        self.wait_rows(admin, {})
        wait_until(lambda: admin.call("list")["silent_hosts"] == [], what="no host is silent")

    def test_show_across_hosts(self):
        here, there = self.daemon("here"), self.daemon("there")
        admin = Wire(here)
        admin.call("create", name=self.name, slots=2)
        self.hold(there, "A")
        self.hold(here, "B")
        self.acquire(there, "C")
        self.acquire(here, "D")
        wanted = {"A": ("there", "busy", 1), "B": ("here", "busy", 2),
                  "C": ("there", "waiting", None), "D": ("here", "waiting", None)}
        shown = self.wait_rows(admin, wanted)
        self.assertEqual((shown["slots"], shown["busy"], shown["waiting"], shown["silent_hosts"]),
                         (2, 2, 2, []))
        self.wait_rows(Wire(there), wanted)
        rows = {row["name"]: row for row in admin.call("list")["semaphores"]}
        self.assertEqual((rows[self.name]["busy"], rows[self.name]["waiting"]), (2, 2))

    def test_a_silent_daemon_is_named_and_its_slot_has_an_unknown_holder(self):
        here = self.daemon("here")
        there = self.daemon("there", "--heartbeat", "60", expect=TROUBLE)
        admin = Wire(here)
        admin.call("create", name=self.name, slots=2)
        self.hold(here, "A")
        self.hold(there, "B")
        self.wait_rows(admin, {"A": ("here", "busy", 1), "B": ("there", "busy", 2)})
        there.freeze()
        shown = admin.call("show", name=self.name)
        there.thaw()
        self.assertEqual((shown["busy"], shown["silent_hosts"]), (2, ["there"]))
        self.assertEqual([(row["slot"], row["who"], row["unknown"]) for row in shown["holders"]],
                         [(1, "A", False), (2, None, True)])
        self.wait_rows(admin, {"A": ("here", "busy", 1), "B": ("there", "busy", 2)})

    def test_a_list_has_the_mutexes_of_all_hosts(self):
        here, there = self.daemon("here"), self.daemon("there")
        admin, holder = Wire(here), Wire(there)
        holder.call("acquire", name=self.name, kind="mutex", who="B")
        admin.request("acquire", name=self.name, kind="mutex", who="A")
        self.wait_rows(admin, {"B": ("there", "busy", None), "A": ("here", "waiting", None)})
        for peer in admin, holder:
            self.assertIn({"name": self.name, "kind": "mutex", "busy": 1, "waiting": 1, "extra": 0},
                          peer.call("list")["mutexes"])

    def listed(self, peer):
        """Slots, busy slots and holders beyond them, as the list has them; None: it is not listed."""
        rows = [row for row in peer.call("list")["semaphores"] if row["name"] == self.name]
        return (rows[0]["slots"], rows[0]["busy"], rows[0]["extra"]) if rows else None

    def test_a_holder_at_another_host_is_counted_when_its_slot_is_removed(self):
        here, there = self.daemon("here"), self.daemon("there")
        admin = Wire(here)
        admin.call("create", name=self.name, slots=60)
        holders = [self.hold(there, who) for who in map(str, range(50))]
        self.assertEqual(self.listed(admin), (60, 50, 0))
        admin.call("resize", name=self.name, slots=0)
        # The broker shows those of the first slots to each daemon. The others are named by theirs.
        wait_until(lambda: self.listed(admin) == (0, 0, 50), what="all are counted")
        self.assertEqual(admin.call("show", name=self.name)["extra"], 50)
        admin.call("destroy", name=self.name)
        self.assertEqual(self.listed(admin), (None, None, 50))
        for peer in holders:
            peer.hang_up()
        wait_until(lambda: self.listed(admin) is None, what="none is left")

    def test_a_mutex_of_a_silent_daemon_has_an_unknown_holder(self):
        here = self.daemon("here")
        there = self.daemon("there", "--heartbeat", "60", expect=TROUBLE)
        admin, holder = Wire(here), Wire(there)
        holder.call("acquire", name=self.name, kind="mutex", who="B")
        self.wait_rows(admin, {"B": ("there", "busy", None)})
        there.freeze()
        shown = admin.call("show", name=self.name)
        there.thaw()
        self.assertEqual([(row["kind"], row["state"], row["slot"], row["who"], row["unknown"]) for row in shown["holders"]],
                         [("mutex", "busy", None, None, True)])
        self.assertEqual((shown["slots"], shown["busy"], shown["silent_hosts"]), (None, None, ["there"]))
        self.wait_rows(admin, {"B": ("there", "busy", None)})

    def test_a_daemon_that_has_stopped_is_not_silent(self):
        here, there = self.daemon("here"), self.daemon("there")
        admin = Wire(here)
        admin.call("create", name=self.name, slots=2)
        self.hold(here, "A")
        peer = self.hold(there, "B")
        self.wait_rows(admin, {"A": ("here", "busy", 1), "B": ("there", "busy", 2)})
        peer.hang_up()
        there.stop()
        # Its bye may still be on its way. Without one it is silent for a minute.
        wait_until(lambda: admin.call("show", name=self.name)["silent_hosts"] == [], within=30)

    def test_watch_across_hosts(self):
        here, there = self.daemon("here"), self.daemon("there")
        admin = Wire(here)
        admin.call("create", name=self.name)
        holder = self.hold(there, "A")
        asked = admin.request("watch", name=self.name)
        self.assertEqual(admin.notification("synced"), {"id": asked, "more": 0, "silent_hosts": []})
        first = admin.notification("row")["row"]
        self.assertEqual((first["who"], first["host"], first["state"]), ("A", "there", "busy"))
        self.acquire(there, "B")
        second = admin.notification("row")["row"]
        self.assertEqual((second["who"], second["state"]), ("B", "waiting"))
        holder.hang_up()
        self.assertEqual(admin.notification("gone")["waiter"], first["waiter"])
        taken = admin.notification("row")["row"]
        self.assertEqual((taken["waiter"], taken["state"]), (second["waiter"], "busy"))
        admin.send_line({"id": "end", "method": "cancel", "params": {"id": asked}})
        self.assertEqual(admin.reply(asked)["error"]["data"]["reason"], "cancelled")
        self.assertEqual(admin.answer("end"), {"cancelled": True})


class Steered(View):
    def example(self, first, second, third, admin):
        """seeds/004, "Grant": A is busy, B and C wait; B is granted; A ends; C starts while B runs."""
        asker, admin = admin, Wire(admin)
        admin.call("create", name=self.name)
        a = self.hold(first, "A")
        b, b_asked = self.acquire(second, "B")
        c, c_asked = self.acquire(third, "C")
        waiting = {"A": (first.host, "busy", 1), "B": (second.host, "waiting", None),
                   "C": (third.host, "waiting", None)}
        shown = self.wait_rows(admin, waiting)
        waiter = next(row["waiter"] for row in shown["waiters"] if row["who"] == "B")
        self.assertEqual(admin.call("grant", waiter=waiter),
                         {"waiter": waiter, "name": self.name, "host": second.host})
        second.wait_log(f"granted {self.name} by an administrator: waiter {waiter}, by uid {os.getuid()} "
                        f"of host {asker.host}")
        granted = b.answer(b_asked)
        self.assertEqual((granted["slot"], granted["safe_until"], granted["lease"]), (None, None, None))
        self.wait_rows(admin, {**waiting, "B": (second.host, "granted", None)})
        a.hang_up()
        self.assertEqual(c.answer(c_asked)["slot"], 1)
        self.wait_rows(admin, {"B": (second.host, "granted", None), "C": (third.host, "busy", 1)})
        self.assertEqual(b.call("release", lock=granted["lock"]), {"lock": granted["lock"]})
        self.wait_rows(admin, {"C": (third.host, "busy", 1)})
        self.assertEqual(admin.error("grant", waiter=waiter).reason, "not-held")

    def named(self, host):
        daemon = self.daemon(host)
        daemon.host = host
        return daemon

    def test_the_example_of_the_seed_on_one_daemon(self):
        here = self.named("here")
        self.example(here, here, here, here)

    def test_the_example_of_the_seed_across_two(self):
        here, there = self.named("here"), self.named("there")
        self.example(here, there, here, here)

    def test_the_example_of_the_seed_across_two_the_other_way(self):
        here, there = self.named("here"), self.named("there")
        self.example(here, here, there, there)

    def test_denied_across_hosts(self):
        here, there = self.daemon("here"), self.daemon("there")
        admin = Wire(here)
        admin.call("create", name=self.name)
        self.hold(there, "A")
        b, b_asked = self.acquire(there, "B")
        c, c_asked = self.acquire(there, "C")
        d, d_asked = self.acquire(here, "D")
        busy = {"A": ("there", "busy", 1), "C": ("there", "waiting", None), "D": ("here", "waiting", None)}
        shown = self.wait_rows(admin, {**busy, "B": ("there", "waiting", None)})
        waiter = next(row["waiter"] for row in shown["waiters"] if row["who"] == "B")
        self.assertEqual(admin.call("deny", waiter=waiter), {"denied": 1, "silent_hosts": []})
        error = b.reply(b_asked)["error"]
        self.assertEqual((error["data"]["reason"], error["data"]["denied"]), ("cancelled", True))
        there.wait_log(f"denied {self.name} by an administrator: waiter {waiter}, by uid {os.getuid()} of host here")
        self.assertEqual(admin.error("deny", waiter=waiter).reason, "not-held")
        self.wait_rows(admin, busy)
        self.assertEqual(admin.call("deny", name=self.name, all=True), {"denied": 2, "silent_hosts": []})
        for peer, asked in (c, c_asked), (d, d_asked):
            self.assertTrue(peer.reply(asked)["error"]["data"]["denied"])
        self.wait_rows(admin, {"A": ("there", "busy", 1)})


if __name__ == "__main__":
    tap.main()
