"""Administration over a real RabbitMQ, from the outside: two daemons, holders behind both, brokers and
daemons that die in the middle.
"""

import random
import threading
import unittest

import tap
from daemon import Daemon
from rabbit import Rabbit
from wire import Wire, WireError, wait_until

TROUBLE = ("broker|amqp|connection",)
ROUNDS = 100
SEED = 4
RABBIT = Rabbit.lease()

setUpModule = RABBIT.serve_module


def slots_of(name):
    """The numbers of the A queues of a name that exist now."""
    parts = [queue.rpartition("-A")[0].rpartition("-") for queue in RABBIT.queues() if queue.endswith("-A")]
    return sorted(int(slot) for lock, _, slot in parts if lock == name)


class Admin(unittest.TestCase):
    def daemon(self, *options, **more):
        daemon = Daemon(self, *options, broker=RABBIT.url, **more)
        daemon.wait_broker()
        return daemon

    def name(self):
        """One that no other test uses."""
        return self.id().rpartition(".")[2]


class Revoked(Admin):
    def test_holders_of_both_daemons_are_told(self):
        here, there, name = self.daemon(), self.daemon(), self.name()
        admin, near, far = Wire(here), Wire(here), Wire(there)
        admin.call("create", name=name, slots=2)
        for _ in range(7):
            locks = {}
            for peer in near, far:
                locks[peer] = peer.call("acquire", name=name, timeout=5)["lock"]
            # Watched a moment after the grant; the consumers are seen by the broker then.
            wait_until(lambda: self.watched(name) == 2, what="both slots are watched")
            admin.call("resize", name=name, slots=0)
            near.call("ping")
            self.assertEqual([note["method"] for note in near.notifications], ["revoked"])  # before the administrator
            for peer in near, far:
                self.assertEqual(peer.notification("revoked")["lock"], locks[peer])
            for peer, lock in locks.items():
                self.assertEqual(peer.error("verify", lock=lock).reason, "revoked")
                peer.call("release", lock=lock)
            admin.call("resize", name=name, slots=2)

    @staticmethod
    def watched(name):
        return sum(queue.consumers for queue_name, queue in RABBIT.queues().items()
                   if queue_name.startswith(name) and queue_name.endswith("-A"))

    def test_a_slot_that_comes_back_is_nobody_elses(self):
        here, there, name = self.daemon(), self.daemon(), self.name()
        admin, holder, other = Wire(there), Wire(here), Wire(there)
        admin.call("create", name=name, slots=1)
        lock = holder.call("acquire", name=name, timeout=0)["lock"]
        wait_until(lambda: self.watched(name) == 1, what="the slot is watched")
        admin.call("resize", name=name, slots=0)
        self.assertEqual(holder.notification("revoked")["lock"], lock)
        admin.call("resize", name=name, slots=1)
        self.assertEqual(other.error("acquire", name=name, timeout=0).reason, "would-block")
        self.assertEqual(holder.error("verify", lock=lock).reason, "revoked")
        holder.call("release", lock=lock)
        other.call("acquire", name=name, timeout=5)

    def test_wait_ends_with_the_last_holder_behind_another_daemon(self):
        here, there, name = self.daemon(), self.daemon(), self.name()
        admin, holder = Wire(here), Wire(there)
        admin.call("create", name=name, slots=3)
        locks = [holder.call("acquire", name=name, timeout=0) for _ in range(3)]
        late = admin.error("resize", name=name, slots=1, wait=0.2)
        self.assertEqual((late.reason, late.data["target"]), ("timeout", 1))
        self.assertEqual(sorted(row["slot"] for row in late.data["holders"]), [2, 3])
        asked = admin.request("destroy", name=name, wait=30, progress=True)
        self.assertEqual(admin.notification("holders")["left"], 3)
        # No administrator is kept out meanwhile: the mutex was let go.
        self.assertEqual(Wire(there).error("destroy", name=name).reason, "no-such-lock")
        for held in locks:
            holder.call("release", lock=held["lock"])
        admin.answer(asked)


class TwoAdministrators(Admin):
    def test_random_resizes_leave_one_of_the_sizes_asked(self):
        name, dice = self.name(), random.Random(SEED)
        admins = [Wire(self.daemon()), Wire(self.daemon())]
        admins[0].call("create", name=name, slots=5)
        for round_number in range(ROUNDS):
            wanted = [dice.randint(1, 12) for _ in admins]
            asked = [admin.request("resize", name=name, slots=slots)
                     for admin, slots in zip(admins, wanted)]
            for admin, one in zip(admins, asked):
                admin.answer(one)
            self.assertIn(admins[0].call("size", name=name)["slots"], wanted, round_number)
            if round_number % 20 == 19:
                present = slots_of(name)
                self.assertEqual(present, list(range(1, len(present) + 1)))
        self.assertEqual(admins[1].call("fsck", name=name)["findings"], [])

    def test_only_one_of_ten_creates(self):
        name = self.name()
        peers = [Wire(daemon) for daemon in (self.daemon(), self.daemon()) for _ in range(5)]
        asked = [peer.request("create", name=name, slots=number) for number, peer in enumerate(peers, 1)]
        refused = []
        for peer, one in zip(peers, asked):
            try:
                peer.answer(one)
            except WireError as error:
                refused.append(error.reason)
        self.assertEqual(refused, ["already-exists"] * 9)


class InTheMiddle(Admin):
    """A resize of 200 slots whose broker or daemon is killed while it is at work."""

    slots = 200

    def setUp(self):
        self.addCleanup(RABBIT.start)
        self.here = self.daemon(expect=TROUBLE)
        self.there = self.daemon(expect=TROUBLE)

    def when_half_done(self, name, kill):
        """Begins to resize to 200, and kills when some are there."""
        admin, watcher = Wire(self.here), Wire(self.there)
        admin.call("create", name=name, slots=1)
        admin.request("resize", name=name, slots=self.slots)
        wait_until(lambda: watcher.call("size", name=name)["slots"] > 20, what="some are there")
        kill()

    def repair(self, name):
        """Both ways out: the same command again, or fsck --repair."""
        admin = Wire(self.there)
        before = admin.call("size", name=name)["slots"]
        print(f"killed with {before} of {self.slots}")
        report = admin.call("fsck", name=name, repair=True)
        self.assertTrue(all(finding["repaired"] for finding in report["findings"]), report)
        self.assertTrue(admin.call("fsck", name=name)["clean"])
        self.assertEqual(admin.call("resize", name=name, slots=self.slots)["slots"], self.slots)
        self.assertEqual(slots_of(name), list(range(1, self.slots + 1)))
        self.assertTrue(admin.call("fsck", name=name)["clean"])

    def test_daemon_killed(self):
        name = self.name()
        self.when_half_done(name, self.here.kill)
        self.repair(name)

    def test_broker_killed(self):
        name = self.name()
        self.when_half_done(name, RABBIT.kill)
        RABBIT.start()
        self.there.wait_broker()
        self.repair(name)

    def test_broker_restarted(self):
        name = self.name()
        self.when_half_done(name, RABBIT.stop)
        RABBIT.start()
        self.there.wait_broker()
        self.repair(name)


class Directory(Admin):
    def names(self, daemon):
        return {row["name"]: row["slots"] for row in Wire(daemon).call("list")["semaphores"]}

    def test_any_daemon_lists_also_after_all_were_restarted(self):
        prefix = self.name()
        here, there = self.daemon(), self.daemon()
        for number in range(1, 6):
            Wire(here if number % 2 else there).call("create", name=f"{prefix}.{number}", slots=number)
        wanted = {f"{prefix}.{number}": number for number in range(1, 6)}
        for daemon in here, there:
            listed = self.names(daemon)
            self.assertEqual({name: listed[name] for name in wanted}, wanted)
        here.stop()
        there.stop()
        anew = self.daemon()
        Wire(anew).call("destroy", name=f"{prefix}.3")
        del wanted[f"{prefix}.3"]
        listed = self.names(anew)
        self.assertEqual({name: size for name, size in listed.items() if name.startswith(prefix)}, wanted)

    def test_many_at_once_from_two_daemons(self):
        prefix, daemons = self.name(), [self.daemon(), self.daemon()]
        failures = []

        def create(daemon, numbers):
            try:
                peer = Wire(daemon)
                for number in numbers:
                    peer.call("create", name=f"{prefix}.{number}")
            except WireError as error:
                failures.append(error)

        threads = [threading.Thread(target=create, args=(daemon, range(start, 40, 2)))
                   for start, daemon in enumerate(daemons)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        self.assertEqual(failures, [])
        listed = self.names(daemons[0])
        self.assertEqual(sum(name.startswith(prefix) for name in listed), 40)


if __name__ == "__main__":
    tap.main()
