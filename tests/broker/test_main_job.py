"""The main job over a real RabbitMQ, from the outside. The daemon grants and verifies slots. A slot is free again at
once when its client, its daemon or its broker is gone. Clients get the broker's own words with a refusal.
"""

import json
import os
import subprocess
import time
import unittest

import guide
import tap
from daemon import CLAIM, Daemon, clean_environment, program
from openrpc import SOURCE
from rabbit import Rabbit
from wire import Wire, WireError, wait_until

# While the broker is away, both of these are said; nothing else may be.
BROKER_TROUBLE = "broker|amqp|connection"
RABBIT = Rabbit.lease()
BOTH_WAYS = ("exclusive-queue", "consumer")

setUpModule = RABBIT.serve_module


def held_queues(name):
    """The holder queues of a name that are held now: {queue: the connection of its holder}."""
    return {queue: pid for queue, pid in RABBIT.holders().items() if queue.startswith(name) and queue.endswith("-B")}


class Main(unittest.TestCase):
    claim = CLAIM  # how the slots are held

    def daemon(self, *options, url=None, **more):
        daemon = Daemon(self, *options, broker=url or RABBIT.url, **more)
        daemon.wait_broker()
        return daemon

    def create(self, daemon, slots=1):
        """A semaphore of a name that no other test uses."""
        name = ".".join(self.id().split(".")[-2:])
        Wire(daemon).call("create", name=name, slots=slots, claim=self.claim)
        return name


class Freed(Main):
    """A slot is free again for a client of another daemon, long before two heartbeats."""

    def free_after(self, there, name, act):
        """act() frees the slot for a client of the other daemon, which asks again and again."""
        other = Wire(there)
        self.assertEqual(other.error("acquire", name=name, timeout=0).reason, "would-block")
        act()

        def taken():
            try:
                return other.call("acquire", name=name, timeout=0)["lock"]
            except WireError as error:
                if error.reason != "would-block":
                    raise
                return None
        other.call("release", lock=wait_until(taken, what="the slot is free"))

    def test_a_hang_up_frees(self):
        here, there = self.daemon("--heartbeat", "60"), self.daemon()
        name = self.create(here)
        for _ in range(7):
            holder = Wire(here)
            holder.call("acquire", name=name, timeout=0)
            self.free_after(there, name, holder.hang_up)

    def test_a_killed_daemon_frees(self):
        here, there = self.daemon("--heartbeat", "60"), self.daemon()
        name = self.create(here)
        holder = Wire(here)
        holder.call("acquire", name=name, timeout=0)
        self.free_after(there, name, here.kill)
        holder.wait_closed()

    def test_stopped_daemon_leaves_nothing(self):
        here = self.daemon("--stop-timeout", "0.2", expect=["the stop timeout has passed; locks ended: 3", "warning: lost "])
        name = self.create(here, 3)
        holder = Wire(here)
        for _ in range(3):
            holder.call("acquire", name=name, timeout=0)
        self.assertEqual(len(held_queues(name)), 3)
        here.stop()
        self.assertEqual(held_queues(name), {})


class FreedByConsumers(Freed):
    claim = "consumer"


class Held(Main):
    def test_a_grant_is_a_holder_queue_of_the_lock_connection(self):
        here = self.daemon()
        name = self.create(here, 2)
        peer = Wire(here)
        first = peer.call("acquire", name=name, timeout=0)
        second = peer.call("acquire", name=name, timeout=0)
        self.assertEqual({first["slot"], second["slot"]}, {1, 2})
        self.assertEqual(set(held_queues(name)), {f"{name}-1-B", f"{name}-2-B"})
        self.assertEqual(peer.call("verify", lock=first["lock"])["slot"], first["slot"])
        refused = peer.error("acquire", name=name, timeout=0)
        self.assertEqual((refused.reason, refused.data["slots"]), ("would-block", 2))
        peer.call("release", lock=first["lock"])
        self.assertEqual(set(held_queues(name)), {f"{name}-{second['slot']}-B"})
        self.assertEqual(peer.error("verify", lock=first["lock"]).reason, "not-held")

    def test_500_clients_share_one_connection_with_a_channel_each(self):
        count = 500
        here = self.daemon()
        name = self.create(here, count)
        before = here.rss()
        peers = [Wire(here) for _ in range(count)]
        asked = [peer.request("acquire", name=name, timeout=60) for peer in peers]
        slots = {peer.answer(one)["slot"] for peer, one in zip(peers, asked)}
        self.assertEqual(slots, set(range(1, count + 1)))
        print(f"RSS of the daemon: {before} KiB with none, {here.rss()} KiB with {count} holds")

        owners = set(held_queues(name).values())
        self.assertEqual(len(owners), 1, "one connection holds all")
        channels = {}
        for owner, _ in RABBIT.channels("connection", "pid"):
            channels[owner] = channels.get(owner, 0) + 1
        on_lock_connection = channels[owners.pop()]
        counted = Wire(here).call("info")["broker"]["channels"]
        self.assertEqual(on_lock_connection, counted)
        self.assertGreaterEqual(on_lock_connection, count)
        self.assertLess(on_lock_connection, count * 1.1, "one channel a hold, and a few idle ones")

        for peer in peers:
            peer.hang_up()
        wait_until(lambda: not held_queues(name), what="no slot is held")

    def test_least_permissions(self):
        """The permissions of the operations guide suffice: those for everything, and those for acquiring slots alone."""
        everything, taking = guide.PERMISSIONS.findall(guide.TEXT)
        with open(os.path.join(SOURCE, "man/lockbrokerd.8.in"), encoding="utf-8") as file:
            self.assertEqual(guide.PERMISSIONS.findall(file.read().replace(r"\e", "\\")), [everything])
        RABBIT.perform("add_vhost", "locks")
        for user, permissions in ("lockbroker", everything), ("worker", taking):
            RABBIT.perform("add_user", user, "secret")
            RABBIT.perform("set_permissions", "-p", "locks", user, *permissions)
        for way in BOTH_WAYS:
            with self.subTest(way=way):
                self.work_with_least_permissions(way)

    def work_with_least_permissions(self, way):
        name = f"least-{way}"
        admin = self.daemon("--claim", way, url=f"amqp://lockbroker:secret@127.0.0.1:{RABBIT.port}/locks")
        peer = Wire(admin)
        peer.call("create", name=name, slots=2)
        self.use(admin, name)
        for slots in ("unlimited", 0, 3, 2):
            peer.call("resize", name=name, slots=slots)
        self.assertIn(name, [row["name"] for row in peer.call("list")["semaphores"]])
        self.assertTrue(peer.call("fsck", name=name, repair=True)["clean"])
        for other in *BOTH_WAYS, way:
            self.assertEqual(peer.call("fsck", name=name, repair=True, convert=other)["claim"], other)
        peer.call("create", name=name + "-3", slots=1)
        peer.call("destroy", name=name + "-3")

        # One that only takes and gives back: no A, no administration.
        worker = self.daemon("--claim", way, url=f"amqp://worker:secret@127.0.0.1:{RABBIT.port}/locks",
                             expect=["ACCESS_REFUSED"])
        self.use(worker, name)
        for method, params in (("create", {"name": name + "-2", "slots": 1}), ("list", {})):
            refused = Wire(worker).error(method, **params)
            self.assertEqual(refused.reason, "broker-refused")
            self.assertIn("ACCESS_REFUSED", refused.message)

    def use(self, daemon, name):
        peer = Wire(daemon)
        for kind, lock in (("semaphore", name), ("mutex", name + "-m")):
            held = peer.call("acquire", name=lock, kind=kind, timeout=0)["lock"]
            peer.call("verify", lock=held)
            peer.call("release", lock=held)
        self.assertEqual(peer.call("size", name=name)["slots"], 2)


class OldPermissions(Main):
    """A daemon that holds slots by consumers, with the permissions that exclusive queues needed."""

    EVERYTHING = (".*", r"^amq\.default$|^lockbroker=", "^lockbroker=|.-(W|A(-[0-9]+)?)$")

    def setUp(self):
        self.vhost = self.id().rpartition(".")[2]
        everything, all_of_it = ", ".join(f"<<{json.dumps(one)}>>" for one in self.EVERYTHING), '<<".*">>'
        RABBIT.eval(f"""
            Vhost = <<"{self.vhost}">>, User = Vhost, By = <<"tests">>,
            Permit = fun(Who, Configure, Write, Read) ->
                ok = rabbit_auth_backend_internal:set_permissions(Who, Vhost, Configure, Write, Read, By) end,
            ok = rabbit_vhost:add(Vhost, By),
            ok = rabbit_auth_backend_internal:add_user(User, <<"secret">>, By),
            Permit(<<"guest">>, {all_of_it}, {all_of_it}, {all_of_it}), Permit(User, {everything}).""")
        self.peer = Wire(self.daemon("--claim", "consumer", expect=["ACCESS_REFUSED"],
                                     url=f"amqp://{self.vhost}:secret@127.0.0.1:{RABBIT.port}/{self.vhost}"))

    def permit(self, *patterns):
        RABBIT.perform("set_permissions", "-p", self.vhost, self.vhost, *patterns)

    def refused(self, permission, queue, method="acquire", **params):
        """The request is refused, in words that name the permission and the queue."""
        error = self.peer.error(method, **params)
        print(error.message)
        self.assertEqual(error.reason, "broker-refused")
        self.assertRegex(error.message, f"ACCESS_REFUSED - {permission} access to (queue|exchange) '{queue}' "
                         f"in vhost '{self.vhost}' refused for user '{self.vhost}'")

    def locks(self, **params):
        held = self.peer.call("acquire", timeout=5, **params)["lock"]
        self.peer.call("verify", lock=held)
        self.peer.call("release", lock=held)

    def test_no_read_permission(self):
        """Slots held by exclusive queues go on as before."""
        for name, claim in ("old", "exclusive-queue"), ("new", "consumer"):
            self.peer.call("create", name=name, slots=1, claim=claim)
        for timeout in (0, 30):
            self.refused("read", "new-1-B", name="new", timeout=timeout)
            self.refused("read", "m-M", name="m", kind="mutex", timeout=timeout)
        self.locks(name="old")
        # Another user has the permission, and gets the locks.
        other = Wire(self.daemon("--claim", "consumer", url=f"{RABBIT.url}/{self.vhost}"))
        for params in {"name": "new"}, {"name": "m", "kind": "mutex"}:
            other.call("release", lock=other.call("acquire", timeout=0, **params)["lock"])
        self.permit(".*", self.EVERYTHING[1], "^lockbroker=|.-([MW]|[AB](-[0-9]+)?)$")
        self.locks(name="new")
        self.locks(name="m", kind="mutex")

    def test_no_configure_permission(self):
        """To create a semaphore declares its holder queues; so does a mutex with its own."""
        self.permit("^lockbroker=|^new$|.-([AW]|1-B)$", ".*", ".*")
        self.refused("configure", "new-2-B", "create", name="new", slots=2)
        self.assertEqual([row["exists"] for row in self.peer.call("list")["semaphores"]], [])
        self.refused("configure", "m-M", name="m", kind="mutex", timeout=0)
        self.permit(".*", ".*", ".*")
        self.peer.call("create", name="new", slots=2)
        self.locks(name="new")
        self.locks(name="m", kind="mutex")

    def test_no_write_permission(self):
        """Nothing can be probed; a slot is claimed unseen."""
        admin = Wire(self.daemon(url=f"{RABBIT.url}/{self.vhost}"))
        admin.call("create", name="new", slots=1, claim="consumer")
        self.permit(".*", "^$", ".*")
        self.refused("write", "amq.default", "size", name="new")
        self.refused("write", "amq.default", "create", name="newer")
        self.locks(name="new")


class Broker(Main):
    """A broker that goes away, is not there, or will not have us."""

    def setUp(self):
        self.addCleanup(RABBIT.start)

    def test_holders_are_told_when_the_broker_dies(self):
        here = self.daemon(expect=[BROKER_TROUBLE, "lost"])
        name = self.create(here, 2)
        peer = Wire(here)
        lock = peer.call("acquire", name=name, timeout=0)["lock"]
        run = self.run_job(here, name)
        began = time.monotonic()
        RABBIT.kill()
        lost = peer.notification("lost")
        print(f"lost came after {time.monotonic() - began:.2f} s, most of it the kill")
        self.assertEqual((lost["lock"], lost["name"]), (lock, name))
        self.assertEqual(run.wait(60), 79)
        self.assertIn(peer.error("verify", lock=lock).reason, ("lost", "not-held"))
        self.assertEqual(peer.error("acquire", name=name, timeout=0).reason, "broker-unavailable")
        # One that waits is served when the broker is back; its As are durable.
        waiting = peer.request("acquire", name=name, timeout=60)
        RABBIT.start()
        self.assertEqual(peer.answer(waiting)["slot"], 1)

    def run_job(self, daemon, name):
        """`lockbroker run`, when it holds its slot."""
        ready = os.path.join(daemon.dir, "ready")
        run = subprocess.Popen(
            [program("lockbroker"), "run", name, "--", "/bin/sh", "-c", 'echo "$LOCKBROKER_SLOT" >"$0"; '
             "exec sleep 60", ready], env=clean_environment(LOCKBROKER_SOCKET=daemon.socket),
            stdin=subprocess.DEVNULL)
        self.addCleanup(run.wait)
        self.addCleanup(run.kill)
        wait_until(lambda: os.path.exists(ready) or run.poll() is not None, what="the job runs")
        self.assertIsNone(run.poll())
        return run

    def test_broker_unreachable_at_the_start(self):
        RABBIT.stop()
        here = Daemon(self, broker=RABBIT.url, expect=[BROKER_TROUBLE])
        here.wait_notice(r"STATUS=.*(unreachable|refused|down|connect)")
        peer = Wire(here)
        broker = peer.call("info")["broker"]
        self.assertEqual(broker["state"], "down")
        wait_until(lambda: "refused" in peer.call("info")["broker"]["why"].lower(), what="info says why")
        self.assertEqual(peer.error("acquire", name="x", timeout=0).reason, "broker-unavailable")
        self.assertEqual(peer.error("acquire", name="x", timeout=0.2).reason, "broker-unavailable")
        here.wait_log("refused")
        RABBIT.start()
        here.wait_broker()
        self.assertEqual(peer.call("info")["broker"]["state"], "up")
        wait_until(lambda: any(n.startswith("STATUS=") and str(RABBIT.port) in n
                               for n in here.read_notices()[-3:]), what="STATUS says where it is")

    def denied(self, url, words):
        here = Daemon(self, broker=url, expect=[BROKER_TROUBLE, words])
        peer = Wire(here)
        wait_until(lambda: peer.call("info")["broker"]["state"] == "refused", what="it is refused")
        self.assertRegex(peer.call("info")["broker"]["why"], words)
        for timeout in (0, 600):  # waiting would not help: at once
            error = peer.error("acquire", name="x", timeout=timeout)
            self.assertEqual(error.reason, "broker-refused")
            self.assertRegex(error.message, f"^the broker refused the daemon: .*{words}")
        found = peer.call("explain", name="x")
        self.assertEqual(found["reason"], "broker-refused")
        self.assertRegex(found["text"], f"^the broker refused the daemon: .*{words}")
        here.wait_log(words)

    def test_wrong_password(self):
        self.denied(f"amqp://guest:wrong@127.0.0.1:{RABBIT.port}", "ACCESS_REFUSED")

    def test_missing_vhost(self):
        self.denied(f"amqp://guest:guest@127.0.0.1:{RABBIT.port}/nowhere", "vhost nowhere not found")

    def test_missing_permission(self):
        RABBIT.perform("add_vhost", "guarded")
        RABBIT.perform("set_permissions", "-p", "guarded", "guest", ".*", ".*", ".*")
        RABBIT.perform("add_user", "reader", "secret")
        RABBIT.perform("set_permissions", "-p", "guarded", "reader", "^$", r"^amq\.default$", "^$")
        owner = self.daemon(url=f"{RABBIT.url}/guarded")
        name = self.create(owner)
        words = "ACCESS_REFUSED"
        here = self.daemon(url=f"amqp://reader:secret@127.0.0.1:{RABBIT.port}/guarded",
                           expect=[words])
        error = Wire(here).error("acquire", name=name, timeout=5)
        self.assertEqual(error.reason, "broker-refused")
        self.assertIn(words, error.message)
        here.wait_log(words)

    def test_missing_permission_to_probe(self):
        RABBIT.perform("add_vhost", "mute")
        RABBIT.perform("add_user", "mute", "secret")
        RABBIT.perform("set_permissions", "-p", "mute", "mute", ".*", "^$", "^$")
        words = "ACCESS_REFUSED"
        here = Wire(self.daemon(url=f"amqp://mute:secret@127.0.0.1:{RABBIT.port}/mute",
                                expect=[words]))
        for method in ("create", "size", "destroy"):
            error = here.error(method, name="mute")
            self.assertEqual(error.reason, "broker-refused", method)
            self.assertIn(words, error.message)
        found = here.call("explain", name="mute")
        self.assertEqual((found["verdict"], found["reason"]), (None, "broker-refused"))
        self.assertIn(words, found["text"])


if __name__ == "__main__":
    tap.main()
