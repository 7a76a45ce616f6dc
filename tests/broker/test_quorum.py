"""Slots that are held by quorum, over a real RabbitMQ, from the outside: create, hold, verify, resize, destroy, and unclean
ends.
"""

import os
import subprocess
import time
import unittest

import guide
import tap
from daemon import Daemon, clean_environment, program
from rabbit import Rabbit
from wire import Wire, WireError, wait_until

RABBIT = Rabbit.lease()
# 3.10 of Debian 12 is refused otherwise.
OPTIONS = ("--quorum-servers", "untested")
GRACE = 5  # seconds; the least
# The number of slots that one dead daemon leaves. `make` with a larger one measures (QUORUM.md).
SLOTS = int(os.environ.get("LOCKBROKER_QUORUM_SLOTS", "40"))
TROUBLE = ("connection", "lost")

setUpModule = RABBIT.serve_module


class Quorum(unittest.TestCase):
    def daemon(self, *options, **more):
        daemon = Daemon(self, *OPTIONS, *options, broker=more.pop("url", RABBIT.url), **more)
        daemon.wait_broker()
        return daemon

    def create(self, wire, slots, grace=GRACE):
        name = ".".join(self.id().split(".")[-2:])
        wire.call("create", name=name, slots=slots, claim="quorum", takeover_grace=grace)
        return name

    def refusal(self, wire, method, **params):
        return wire.error(method, **params).reason

    def test_the_life_of_slots(self):
        admin, one, two = Wire(self.daemon()), Wire(self.daemon()), Wire(self.daemon())
        name = self.create(admin, 2)
        first = one.call("acquire", name=name, timeout=0)
        self.assertEqual(first["lease"]["length"], GRACE * 0.9)
        second = two.call("acquire", name=name, timeout=0)
        self.assertEqual(sorted([first["slot"], second["slot"]]), [1, 2])
        self.assertEqual(self.refusal(two, "acquire", name=name, timeout=0), "would-block")
        verified = one.call("verify", lock=first["lock"])
        self.assertGreater(verified["fence"], first["fence"])
        listed = {row["name"]: row for row in admin.call("list")["semaphores"]}[name]
        self.assertEqual((listed["slots"], listed["busy"], listed["claim"]), (2, 2, "quorum"))
        explained = admin.call("explain", name=name)
        self.assertEqual((explained["verdict"], explained["slots"], explained["claim"]), ("full", 2, "quorum"))
        self.assertTrue(admin.call("fsck", name=name)["clean"])
        # A waiter gets the slot by a hint.
        waiting = two.request("acquire", name=name, timeout=60)
        one.call("release", lock=first["lock"])
        third = two.answer(waiting)
        self.assertEqual(third["slot"], first["slot"])
        self.assertGreater(third["fence"], verified["fence"])
        two.call("release", lock=third["lock"])
        two.call("release", lock=second["lock"])
        self.assertEqual(admin.call("resize", name=name, slots=3)["slots"], 3)
        self.assertEqual(admin.call("resize", name=name, remove=2)["slots"], 1)
        one.call("release", lock=one.call("acquire", name=name, timeout=0)["lock"])
        self.assertEqual(self.refusal(one, "resize", name=name, slots="unlimited"), "invalid-params")
        admin.call("destroy", name=name)
        self.assertEqual(self.refusal(one, "acquire", name=name, timeout=0), "no-such-lock")
        self.assertEqual([queue for queue in RABBIT.queues() if name in queue], [])

    def test_a_held_slot_is_removed(self):
        """Its holder is told, and keeps it. Nobody else gets it, and it is deleted after the release."""
        admin, one, two = Wire(self.daemon()), Wire(self.daemon()), Wire(self.daemon())
        name = self.create(admin, 2)
        held = one.call("acquire", name=name, timeout=0), two.call("acquire", name=name, timeout=0)
        admin.call("resize", name=name, slots=1)
        last, first = (one, two) if held[0]["slot"] == 2 else (two, one)
        lock = max(held, key=lambda grant: grant["slot"])
        self.assertEqual(last.notification("revoked")["slot"], 2)
        self.assertEqual(self.refusal(last, "verify", lock=lock["lock"]), "revoked")
        self.assertIn("slot 2: the slot is held", str(admin.error("resize", name=name, slots=2)))
        admin.call("resize", name=name, slots=1)
        waiting = first.request("acquire", name=name, timeout=60)
        destroyed = admin.request("destroy", name=name, wait=60)
        self.assertEqual(first.notification("revoked")["slot"], 1)
        first.call("release", lock=min(held, key=lambda grant: grant["slot"])["lock"])
        last.call("release", lock=lock["lock"])
        admin.answer(destroyed)
        with self.assertRaisesRegex(WireError, "no-such-lock"):
            first.answer(waiting)
        wait_until(lambda: not [queue for queue in RABBIT.queues() if name in queue], what="no queue is left")

    def test_a_killed_daemon_leaves_a_grace(self):
        doomed, there = self.daemon(), self.daemon()
        name = self.create(Wire(there), 1)
        fence = Wire(doomed).call("acquire", name=name, timeout=0)["fence"]
        waiting = Wire(there)
        request = waiting.request("acquire", name=name, timeout=60)
        doomed.kill()
        impatient = Wire(there)
        wait_until(lambda: "slot 1 is free in" in str(impatient.error("acquire", name=name, timeout=0)),
                   what="the end of the grace is told")
        answer = waiting.answer(request)
        self.assertGreaterEqual(answer["waited"], GRACE)
        self.assertGreater(answer["fence"], fence)

    def test_a_client_that_hangs_up_leaves_no_grace(self):
        daemon = self.daemon()
        name = self.create(Wire(daemon), 1)
        holder, waiting = Wire(daemon), Wire(self.daemon())
        holder.call("acquire", name=name, timeout=0)
        request = waiting.request("acquire", name=name, timeout=60)
        holder.hang_up()
        self.assertLess(waiting.answer(request)["waited"], GRACE)

    def hold_all(self, daemon, name, slots):
        wire = Wire(daemon)
        asked = [wire.request("acquire", name=name, timeout=60) for _ in range(slots)]
        return wire, [wire.answer(one) for one in asked]

    def reclaimed(self, daemon):
        return Wire(daemon).call("info")["broker"]["quorum"]["reclaimed"]

    def test_a_restart_leaves_no_grace(self):
        """RabbitMQ is away for longer than a lease, and all clients stop. Each slot is granted at once afterwards, with a larger number."""
        slots = 20
        self.addCleanup(RABBIT.start)
        daemon, there = self.daemon(expect=TROUBLE), self.daemon(expect=TROUBLE)
        name = self.create(Wire(there), slots)
        holder, grants = self.hold_all(daemon, name, slots)
        quorum = Wire(daemon).call("info")["broker"]["quorum"]
        self.assertEqual([one["state"] for one in quorum["connections"]], ["up", "up"])
        self.assertEqual(sum(one["holds"] for one in quorum["connections"]), slots)
        RABBIT.stop()
        for _ in grants:
            holder.notification("lost")
        for one in grants:
            self.assertEqual(holder.error("release", lock=one["lock"]).reason, "not-held")
        RABBIT.start()
        wait_until(lambda: self.reclaimed(daemon) == slots, what="the slots are clean")
        there.wait_broker()
        _, again = self.hold_all(there, name, slots)
        self.assertLess(max(one["waited"] for one in again), GRACE)
        before = {one["slot"]: one["fence"] for one in grants}
        for one in again:
            self.assertGreater(one["fence"], before[one["slot"]])

    def test_a_restart_costs_no_hold(self):
        """RabbitMQ is away for less than a lease. The holds go on."""
        self.outlive(lambda: (RABBIT.stop(), RABBIT.start()))

    def test_closed_connections_cost_no_hold(self):
        self.outlive(lambda: RABBIT.perform("close_all_connections", "test"))

    def outlive(self, act):
        slots = 50
        self.addCleanup(RABBIT.start)
        daemon, there = self.daemon(expect=TROUBLE), self.daemon(expect=TROUBLE)
        name = self.create(Wire(there), slots, grace=120)
        holder, grants = self.hold_all(daemon, name, slots)
        act()
        for _ in grants:
            holder.notification("restored", within=100)
        for one in grants:
            self.assertGreater(holder.call("verify", lock=one["lock"])["fence"], one["fence"])
        self.assertEqual(Wire(daemon).call("info")["counts"]["lost"], 0)
        there.wait_broker()
        self.assertEqual(self.refusal(Wire(there), "acquire", name=name, timeout=0), "would-block")
        for one in grants:
            holder.call("release", lock=one["lock"])
        _, again = self.hold_all(there, name, slots)
        self.assertLess(max(one["waited"] for one in again), GRACE)

    def away(self):
        """RabbitMQ stops for longer than a lease."""
        self.addCleanup(RABBIT.start)
        RABBIT.stop()

    def test_a_client_that_hears_of_its_loss_and_releases(self):
        self.lose(hangs_up=False)

    def test_a_client_that_hears_of_its_loss_and_hangs_up(self):
        self.lose(hangs_up=True)

    def lose(self, hangs_up):
        """RabbitMQ is away. The client works on for a moment. Its slot needs no grace when it stops."""
        daemon, there = self.daemon(expect=TROUBLE), self.daemon(expect=TROUBLE)
        name = self.create(Wire(there), 1)
        holder = Wire(daemon)
        lock = holder.call("acquire", name=name, timeout=0)["lock"]
        self.away()
        self.assertIn("the lease ran out", holder.notification("lost")["why"])
        RABBIT.start()
        daemon.wait_broker()
        self.assertEqual(self.reclaimed(daemon), 0)
        if hangs_up:  # its lease is over
            holder.hang_up()
        else:
            self.assertEqual(holder.error("release", lock=lock).reason, "not-held")
        wait_until(lambda: self.reclaimed(daemon) == 1, what="the slot is clean")
        there.wait_broker()
        self.assertLess(Wire(there).call("acquire", name=name, timeout=60)["waited"], GRACE)

    def test_a_daemon_that_stops_waits_for_its_reclaims(self):
        daemon, there = self.daemon(expect=TROUBLE), self.daemon(expect=TROUBLE)
        name = self.create(Wire(there), 5)
        holder, grants = self.hold_all(daemon, name, 5)
        self.away()
        for _ in range(5):
            holder.notification("lost")
        RABBIT.start()
        daemon.wait_broker()
        there.wait_broker()
        for one in grants:
            holder.error("release", lock=one["lock"])
        daemon.stop()
        _, again = self.hold_all(there, name, 5)
        self.assertLess(max(one["waited"] for one in again), GRACE - 1)

    def test_many_graces_at_once(self):
        """A killed daemon leaves many slots. All are free after one grace."""
        slots = SLOTS
        doomed, there = self.daemon(), self.daemon()
        name = self.create(Wire(there), slots)
        self.hold_all(doomed, name, slots)
        doomed.kill()
        began = time.monotonic()
        _, again = self.hold_all(there, name, slots)
        took = time.monotonic() - began
        print(f"{slots} slots were granted {took:.1f} s after the end of their daemon (T = {GRACE} s)")
        self.assertGreaterEqual(min(one["waited"] for one in again), GRACE - 1)

    def test_show_has_the_fence(self):
        daemon = self.daemon()
        name = self.create(Wire(daemon), 1)
        holder = Wire(daemon)
        grant = holder.call("acquire", name=name, timeout=0)
        holder.call("verify", lock=grant["lock"])
        holders = Wire(self.daemon()).call("show", name=name)["holders"]
        self.assertEqual([row["fence"] for row in holders], [grant["fence"]])

    def test_run_after_a_loss(self):
        """COMMAND has ended, so that the slot is free at once."""
        daemon, there = self.daemon(expect=TROUBLE), self.daemon(expect=TROUBLE)
        name = self.create(Wire(there), 1)
        run = subprocess.Popen([program("lockbroker"), "run", "--socket", daemon.socket, name, "--", "sleep", "600"],
                               env=clean_environment(), stderr=subprocess.DEVNULL)
        self.addCleanup(run.wait)
        self.addCleanup(run.terminate)
        wait_until(lambda: Wire(daemon).call("info")["counts"]["holds"] == 1, what="it holds")
        self.away()
        self.assertNotEqual(run.wait(20), 0)
        RABBIT.start()
        wait_until(lambda: self.reclaimed(daemon) == 1, what="the slot is clean")

    def test_run(self):
        daemon = self.daemon()
        name = self.create(Wire(daemon), 1)
        for _ in range(3):
            done = subprocess.run([program("lockbroker"), "run", "--socket", daemon.socket, name, "--", "true"],
                                  env=clean_environment(), check=False, capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stderr), (0, ""))

    # ---- mutexes ----

    def mutex(self, wire, name, **more):
        return wire.call("acquire", name=name, kind="mutex", **more)

    def test_a_mutex(self):
        """The first use makes it. Daemons with each setting take it in this way, and nothing of others is in its place."""
        wires = [Wire(self.daemon("--claim", way)) for way in ("quorum", "exclusive-queue", "consumer")]
        name, fences = self.id().rpartition(".")[2], []
        for wire in wires:
            lock = self.mutex(wire, name)
            for other in wires:
                if other is not wire:
                    error = other.error("acquire", name=name, kind="mutex", timeout=0)
                    self.assertEqual(error.reason, "would-block")
                self.assertEqual(other.call("explain", name=name, kind="mutex")["verdict"], "full")
            waiting = wires[0].request("acquire", name=name, kind="mutex", timeout=60)
            wire.call("release", lock=lock["lock"])
            again = wires[0].answer(waiting)
            fences += [lock["fence"], again["fence"]]
            wires[0].call("release", lock=again["lock"])
        self.assertEqual(sorted(set(fences)), fences)
        self.assertEqual(wires[1].call("explain", name=name, kind="mutex")["claim"], "quorum")

    def test_two_first_users_of_a_mutex(self):
        """At once, on two daemons: one set of beads, and one holder at a time."""
        wires = [Wire(self.daemon("--claim", "quorum")) for _ in range(2)]
        for number in range(4):
            name, fences = f"{self.id().rpartition('.')[2]}-{number}", []
            asked = [wire.request("acquire", name=name, kind="mutex", timeout=60) for wire in wires]
            while asked[0] or asked[1]:
                wait_until(lambda: any(wire.pump() or wire.replies for wire in wires), what="a grant")
                self.assertFalse(wires[0].replies and wires[1].replies)
                winner = 0 if wires[0].replies else 1
                lock = wires[winner].answer(asked[winner])
                fences.append(lock["fence"])
                wires[winner].call("release", lock=lock["lock"])
                asked[winner] = None
            self.assertEqual(sorted(set(fences)), fences)
            wait_until(lambda name=name: self.queues("messages")[f"lockbroker=q={name}"] == "3", what="three beads")

    def queues(self, item):
        rows = RABBIT.ctl("list_queues", "-p", RABBIT.vhost, "--quiet", "--no-table-headers", "name", item)
        return dict(row.split("\t", 1) for row in rows.splitlines())

    def test_the_arguments_of_a_mutex(self):
        """They end by themselves, the post after the queue, and the beads stay."""
        wire, name = Wire(self.daemon("--claim", "quorum")), self.id().rpartition(".")[2]
        wire.call("release", lock=self.mutex(wire, name)["lock"])
        arguments = self.queues("arguments")
        self.assertIn('{"x-expires",3600000}', arguments[f"lockbroker=q={name}"])
        self.assertIn('{"x-single-active-consumer",true}', arguments[f"lockbroker=q={name}"])
        self.assertIn('{"x-expires",7200000}', arguments[f"{name}-M"])
        self.assertIn('{"x-single-active-consumer",true}', arguments[f"{name}-M"])

    def test_least_permissions(self):
        """The permissions of the operations guide suffice: those for everything, and those for acquiring slots alone."""
        everything, taking = guide.PERMISSIONS.findall(guide.TEXT)
        RABBIT.perform("add_vhost", "locks")
        clients = {}
        for user, permissions in ("all", everything), ("worker", taking):
            RABBIT.perform("add_user", user, "secret")
            RABBIT.perform("set_permissions", "-p", "locks", user, *permissions)
            url = f"amqp://{user}:secret@127.0.0.1:{RABBIT.port}/locks"
            clients[user] = Wire(self.daemon(url=url, expect=["ACCESS_REFUSED"]))
        admin, worker = clients["all"], clients["worker"]
        name = self.create(admin, 1)
        for _ in range(2):
            lock = worker.call("acquire", name=name, timeout=60)["lock"]
            worker.call("verify", lock=lock)
            worker.call("release", lock=lock)
        self.assertEqual(self.refusal(worker, "create", name="new", slots=1, claim="quorum"), "broker-refused")
        self.assertEqual(self.refusal(worker, "destroy", name=name), "broker-refused")
        admin.call("resize", name=name, add=1)
        admin.call("destroy", name=name)

    def test_old_servers_are_refused(self):
        daemon = Daemon(self, broker=RABBIT.url)
        daemon.wait_broker()
        if int(Wire(daemon).call("info")["broker"]["version"].split(".")[0]) >= 4:
            self.skipTest("this RabbitMQ is no old one")
        error = Wire(daemon).error("create", name="old", slots=1, claim="quorum")
        self.assertEqual(error.reason, "invalid-params")
        self.assertIn("RabbitMQ 4.0", str(error))


if __name__ == "__main__":
    tap.main()
