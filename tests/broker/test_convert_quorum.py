"""Conversion to slots by quorum and back, over a real RabbitMQ. Slots are free or busy, and clients go on meanwhile. There is
an alarm, and kill -9 ends the daemon or RabbitMQ.
"""

import threading
import unittest

import tap
from daemon import Daemon
from rabbit import Rabbit
from wire import Wire, WireError, wait_until

RABBIT = Rabbit.lease()
# 3.10 of Debian 12 is refused otherwise.
UNTESTED = ("--quorum-servers", "untested")
GRACE = 5  # seconds; the least
SLOTS = 3
CLIENTS = 6
CLASSIC = "exclusive-queue", "consumer"
TROUBLE = ("connection", "lost", "broker")

setUpModule = RABBIT.serve_module


class Convert(unittest.TestCase):
    deadline = 300

    def setUp(self):
        self.name = ".".join(self.id().split(".")[-2:])

    def daemon(self, *options, **more):
        daemon = Daemon(self, *UNTESTED, *options, broker=RABBIT.url, **more)
        daemon.wait_broker()
        return daemon

    def create(self, wire, claim, slots=SLOTS):
        more = {"takeover_grace": GRACE} if claim == "quorum" else {}
        wire.call("create", name=self.name, slots=slots, claim=claim, **more)

    def params(self, claim, **more):
        if claim == "quorum":
            more["takeover_grace"] = GRACE
        return {"name": self.name, "repair": True, "convert": claim, **more}

    def convert(self, wire, claim, **more):
        return wire.call("fsck", within=120, **self.params(claim, **more))

    def check(self, wire, claim, slots=SLOTS):
        """All slots are held so, each of them can be acquired, and there is nothing to repair."""
        found = wire.call("fsck", name=self.name)
        self.assertEqual((found["clean"], found["claim"]), (True, claim), found)
        locks = [wire.call("acquire", name=self.name, timeout=60) for _ in range(slots)]
        self.assertEqual({lock.get("fence") is not None for lock in locks}, {claim == "quorum"})
        self.assertEqual(wire.error("acquire", name=self.name, timeout=0).reason, "would-block")
        for lock in locks:
            wire.call("release", lock=lock["lock"])
        queues = [queue for queue in RABBIT.queues() if self.name in queue]
        self.assertEqual(f"{self.name}-1-A" in queues, claim != "quorum", queues)
        self.assertEqual(f"lockbroker=q={self.name}=1" in queues, claim == "quorum", queues)
        self.assertEqual(f"{self.name}-G" in queues, claim == "quorum", queues)

    def test_each_direction(self):
        admin, other = Wire(self.daemon()), Wire(self.daemon())
        self.create(admin, "exclusive-queue")
        for claim in "quorum", "consumer", "quorum", "exclusive-queue":
            done = self.convert(admin, claim)
            self.assertEqual((done["clean"], done["converted"], done["claim"]), (True, SLOTS, claim), done)
            self.check(other, claim)
            self.assertEqual(self.convert(admin, claim)["converted"], 0)

    def test_busy_slots(self):
        """They stay, and the other slots are used meanwhile. With `wait`, the rest follows when they are free."""
        admin, holder, other = Wire(self.daemon()), Wire(self.daemon()), Wire(self.daemon())
        first = CLASSIC[0]
        self.create(admin, first)
        for before, after in (first, "quorum"), ("quorum", "consumer"):
            with self.subTest(before=before):
                locks = [holder.call("acquire", name=self.name) for _ in range(SLOTS)]
                lock = next(lock for lock in locks if lock["slot"] == 2)
                for one in locks:
                    if one is not lock:
                        holder.call("release", lock=one["lock"])
                left = self.convert(admin, after)
                self.assertEqual([(finding["problem"], finding["slot"]) for finding in left["findings"]],
                                 [("claim", 1), ("claim", 2)])
                request = admin.request("fsck", **self.params(after, wait=None, progress=True))
                self.assertEqual([held["slot"] for held in admin.notification("holders")["holders"]], [1, 2])
                other.call("release", lock=other.call("acquire", name=self.name, timeout=60)["lock"])
                if after == "quorum":
                    error = other.error("resize", name=self.name, slots=5)
                    self.assertEqual(error.reason, "would-block")
                    self.assertIn("its conversion is not complete", str(error))
                self.assertEqual(holder.call("verify", lock=lock["lock"])["name"], self.name)
                holder.call("release", lock=lock["lock"])
                done = admin.answer(request, within=120)
                # The slot that went before was made again first.
                self.assertEqual({finding["repaired"] for finding in done["findings"]} - {True}, set(), done)
                self.assertEqual(done["claim"], after)
                self.check(other, after)

    def work(self, wire, stop, holders, failures):
        """Takes a slot again and again. `holders` has those of this moment."""
        while not stop.is_set():
            try:
                lock = wire.call("acquire", name=self.name, timeout=1)
            except WireError as error:
                if error.reason not in ("timeout", "would-block", "contended"):
                    failures.append(str(error))
                continue
            holders.append(lock["lock"])
            if len(holders) > SLOTS:
                failures.append(f"{len(holders)} holders")
            holders.pop()
            wire.call("release", lock=lock["lock"])

    def test_clients_go_on(self):
        daemons = [self.daemon() for _ in range(3)]
        admin, stop, holders, failures = Wire(daemons[0]), threading.Event(), [], []
        self.create(admin, "consumer")
        clients = [threading.Thread(target=self.work, args=(Wire(daemons[1 + number % 2]), stop, holders, failures))
                   for number in range(CLIENTS)]
        for client in clients:
            client.start()
        try:
            for claim in "quorum", "exclusive-queue":
                done = self.convert(admin, claim, wait=100)
                self.assertEqual((done["clean"], done["claim"]), (True, claim), done)
        finally:
            stop.set()
            for client in clients:
                client.join()
        self.assertEqual(failures, [])
        self.check(admin, "exclusive-queue")

    def test_an_alarm(self):
        daemon = self.daemon(expect=["the broker accepts no messages"])
        admin = Wire(daemon)
        self.create(admin, "consumer")
        RABBIT.perform("set_vm_memory_high_watermark", "0.0000001")
        try:
            self.assertIn(admin.error("fsck", within=120, **self.params("quorum")).reason,
                          ("broker-blocked", "broker-unavailable"))
        finally:
            RABBIT.perform("set_vm_memory_high_watermark", "0.4")
        daemon.wait_broker()
        wait_until(lambda: not admin.call("info")["broker"].get("blocked"), what="the alarm is over")
        self.assertTrue(self.convert(admin, "quorum")["clean"])
        self.check(admin, "quorum")

    # ---- deaths ----

    def cut(self, before, after, moment, kill, daemon):
        """A conversion is cut as soon as `moment` is true. A repair completes it or undoes it, and the same command, too."""
        there = Wire(self.daemon("--rescan-interval", "0.5", expect=TROUBLE))
        self.create(there, before)
        Wire(daemon).request("fsck", **self.params(after))
        wait_until(lambda: moment({queue for queue in RABBIT.queues() if self.name in queue}), what="the moment to kill")
        kill()
        granted = 0
        while granted <= SLOTS:
            try:
                there.call("acquire", name=self.name, timeout=0)
                granted += 1
            except WireError:
                break
        self.assertLessEqual(granted, SLOTS)
        there.hang_up()
        there = Wire(self.daemon("--rescan-interval", "0.5", expect=TROUBLE))
        wait_until(lambda: self.repaired(there, before), what="a repair")
        self.assertEqual(self.convert(there, after, wait=60)["claim"], after)
        self.check(there, after)

    def repaired(self, wire, before):
        """Whether nothing is left to repair. Just after a kill of RabbitMQ, no node leads its queues."""
        try:
            found = wire.call("fsck", within=400, name=self.name, repair=True)
        except WireError:
            return False
        lost = [finding["slot"] for finding in found["findings"] if finding["problem"] == "unreachable"]
        # RabbitMQ has lost them (QUORUM.md, "Queues that RabbitMQ loses"). Slots with As stay until then.
        if lost:
            self.assertEqual(found["claim"], before)
        for slot in lost:
            RABBIT.ctl("delete_queue", f"lockbroker=q={self.name}={slot}", check=False)
        return not [finding for finding in found["findings"] if not finding["repaired"]]

    def moments(self, claim):
        by_quorum, a = f"lockbroker=q={self.name}=1", f"{self.name}-%d-A"
        if claim == "quorum":
            return (lambda queues: by_quorum in queues, lambda queues: f"{self.name}-G" in queues,
                    lambda queues: a % SLOTS not in queues)
        return (lambda queues: f"lockbroker=q={self.name}={SLOTS}" not in queues, lambda queues: by_quorum not in queues,
                lambda queues: a % 1 in queues)

    def test_a_killed_daemon(self):
        name = self.name
        for before, after in ("exclusive-queue", "quorum"), ("quorum", "consumer"):
            for number in range(3):
                with self.subTest(before=before, after=after, number=number):
                    self.name = f"{name}-{after}-{number}"
                    doomed = self.daemon()
                    self.cut(before, after, self.moments(after)[number], doomed.kill, doomed)

    def kill_broker(self):
        RABBIT.kill()
        RABBIT.start()

    def test_a_killed_broker(self):
        name = self.name
        for before, after in ("consumer", "quorum"), ("quorum", "consumer"):
            with self.subTest(before=before, after=after):
                self.name = f"{name}-{after}"
                self.cut(before, after, self.moments(after)[0], self.kill_broker, self.daemon(expect=TROUBLE))


if __name__ == "__main__":
    tap.main()
