"""A node of a cluster that is killed, restarted or frozen, and daemons that go to another node. The tests state the
behaviour of today, which docs/SAFETY.md describes."""

import cluster
from contest import HEARTBEAT, NET_TICKTIME, OPTIONS, SLACK, Contest, ContestCase, now, observe, release
from wire import Wire

# A lease of 1.9 s, which ends before a node counts as dead, and one of 18 s, which ends after that.
IMPATIENT = ("--heartbeat", "1", "--margin", "0.1", *OPTIONS[2:])
PATIENT = ("--heartbeat", "10", "--margin", "2", *OPTIONS[2:])
AT_ONCE = 1.0
# From 4.3 on, a holder queue whose node is away exists until that node is back; before, until it counts as dead.
KEPT = release() >= (4, 3)


def is_decided(contests):
    """Each holder is told, and each rival has what it can have."""
    return all(contest.lost_at and (contest.granted_at or KEPT) for contest in contests)


class Nodes(ContestCase):
    def host(self, daemon):
        return Wire(daemon).call("info")["broker"]["host"].partition(":")[0]

    def address(self, name):
        return self.hosts.hosts[name].address

    def test_killed_and_restarted(self):
        """n1 has slot queues, holder queues and a daemon's connection."""
        self.start()
        here, there, third = (self.daemon(name, name) for name in ("n1", "n2", "n3"))
        mutex = Contest("mutex-held-there", here, there)
        slot = Contest("held-there/slot-there", here, there, here)
        elsewhere = Contest("held-elsewhere/slot-there", there, third, here)
        contests = [mutex, slot, elsewhere]
        self.began = now()
        self.nodes["n1"].kill()
        observe(contests, lambda: slot.lost_at and is_decided([mutex]), SLACK, "it is told")
        for contest in mutex, slot:
            self.assertLess(contest.lost_at - self.began, AT_ONCE, contest.name)
        print(f"  {mutex.name}: overlap {mutex.overlap():.3f}")
        # A slot queue that is durable and classic is where its node is. Until that is back, its slot counts as busy.
        observe(contests, lambda: now() > self.began + 2 * NET_TICKTIME, 3 * NET_TICKTIME, "time has passed")
        self.assertEqual(mutex.granted_at is None, KEPT)
        self.assertIsNone(slot.granted_at)
        self.assertFalse(slot.rival_was_refused())
        self.assertTrue(elsewhere.is_held())
        self.verify([elsewhere])
        print(f"  {elsewhere.name}: the holder is told {elsewhere.said['holder']}")
        self.show("down", contests)

        self.nodes["n1"].start()
        back = now()
        here.wait_broker(60)
        print(f"  back {back - self.began:.1f}, its daemon has a broker again {now() - self.began:.1f}")
        observe(contests, lambda: mutex.granted_at and slot.granted_at, 60, "the slot is there again, and free")
        self.assertEqual(Wire(there).call("size", name=slot.name)["slots"], 1)
        self.verify([elsewhere])
        print(f"  {elsewhere.name}: the holder is told {elsewhere.said['holder']}")
        self.assertTrue(elsewhere.is_held())
        elsewhere.holder.hang_up()
        observe([elsewhere], lambda: elsewhere.granted_at, 60, "it is free when its holder has left")
        self.show("back", contests)

    def test_frozen(self):
        """The other nodes count a silent node as dead after net_ticktime, and its daemons do when their lease is over.
        If the lease is longer, a lock is held twice meanwhile."""
        self.start()
        there = self.daemon("n2", "n2")
        impatient = Contest("mutex-lease-1.9", self.daemon("n1", "n1", options=IMPATIENT), there)
        patient = Contest("mutex-lease-18", self.daemon("n1", "n1", options=PATIENT), there)
        contests = [impatient, patient]
        self.began = now()
        self.nodes["n1"].freeze()
        observe(contests, lambda: is_decided(contests) and now() > self.began + 2 * NET_TICKTIME, 60, "it is told")
        self.show("frozen", contests)
        self.assertLessEqual(patient.lost_at, patient.safe_until + AT_ONCE)
        for contest in contests:
            print(f"  {contest.name}: overlap {contest.overlap():.1f}")
            self.assertEqual(contest.granted_at is None, KEPT)
            if KEPT:
                continue
            self.assertGreater(contest.granted_at - self.began, NET_TICKTIME * 3 / 4)
            self.assertLess(contest.granted_at - self.began, NET_TICKTIME * 5 / 4 + SLACK)
        self.assertEqual(impatient.overlap(), 0)
        self.assertEqual(patient.overlap() == 0, KEPT)

    def test_failover(self):
        """A daemon goes to the next node of its list when its own is killed, and when its own is silent."""
        self.start()
        rival = self.daemon("n2", "n2")
        daemon = self.daemon("n1", "n1", "n3", "n2")
        self.assertEqual(self.host(daemon), self.address("n1"))
        killed = Contest("mutex-of-killed", daemon, rival)
        self.began = now()
        self.nodes["n1"].kill()
        self.fail_over(daemon, "n3", killed)
        self.assertLess(killed.lost_at - self.began, AT_ONCE)
        self.nodes["n1"].start()

        silent = Contest("mutex-of-frozen", daemon, rival)
        self.began = now()
        self.nodes["n3"].freeze()
        self.fail_over(daemon, "n2", silent)
        self.assertLess(silent.lost_at - self.began, 2 * HEARTBEAT + AT_ONCE)

    def fail_over(self, daemon, name, contest):
        observe([contest], lambda: is_decided([contest]), 60, "lost, and granted")
        daemon.wait_broker(60)
        after = now() - self.began
        self.assertEqual(self.host(daemon), self.address(name))
        self.show(f"over to {name} after {after:.1f}", [contest])
        Wire(daemon).call("acquire", name=f"new-{name}", kind="mutex", timeout=10)


if __name__ == "__main__":
    cluster.main()
