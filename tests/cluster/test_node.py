"""A node of a cluster that is killed, restarted or stopped, and daemons that have another one to go to. This is what is
so, not what ought to be: docs/SAFETY.md names it."""

import cluster
from contest import HEARTBEAT, NET_TICKTIME, OPTIONS, SLACK, Contest, ContestCase, now, observe, release
from wire import Wire

# Whose lease, 1.9 s, is over before a node counts as dead; and whose, 18 s, is not.
IMPATIENT = ("--heartbeat", "1", "--margin", "0.1", *OPTIONS[2:])
PATIENT = ("--heartbeat", "10", "--margin", "2", *OPTIONS[2:])
AT_ONCE = 1.0


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
        observe(contests, lambda: mutex.lost_at and slot.lost_at and mutex.granted_at, SLACK, "it is told")
        for contest in mutex, slot:
            self.assertLess(contest.lost_at - self.began, AT_ONCE, contest.name)
        print(f"  {mutex.name}: overlap {mutex.overlap():.3f}")
        # A slot queue that is durable and classic is where its node is. Until that is back, nobody gets its slot.
        looks_absent = release() < (3, 11)
        observe(contests, lambda: now() > self.began + 2 * NET_TICKTIME, 3 * NET_TICKTIME, "time has passed")
        self.assertIsNone(slot.granted_at)
        self.assertEqual(slot.rival_was_refused(), looks_absent)
        self.assertTrue(elsewhere.is_held())
        self.verify([elsewhere])
        print(f"  {elsewhere.name}: the holder is told {elsewhere.said['holder']}")
        self.show("down", contests)

        self.nodes["n1"].start()
        back = now()
        here.wait_broker(60)
        print(f"  back {back - self.began:.1f}, its daemon has a broker again {now() - self.began:.1f}")
        if looks_absent:
            slot.wait()
        observe(contests, lambda: slot.granted_at, 60, "the slot is there again, and free")
        self.assertEqual(Wire(there).call("size", name=slot.name)["slots"], 1)
        self.verify([elsewhere])
        print(f"  {elsewhere.name}: the holder is told {elsewhere.said['holder']}")
        self.assertTrue(elsewhere.is_held())
        elsewhere.holder.hang_up()
        observe([elsewhere], lambda: elsewhere.granted_at, 60, "it is free when its holder has left")
        self.show("back", contests)

    def test_frozen(self):
        """A node that is silent counts as dead after net_ticktime, for the other nodes; for its daemons, when their
        lease is over. Where the lease is the longer one, a lock is held twice meanwhile."""
        self.start()
        there = self.daemon("n2", "n2")
        impatient = Contest("mutex-lease-1.9", self.daemon("n1", "n1", options=IMPATIENT), there)
        patient = Contest("mutex-lease-18", self.daemon("n1", "n1", options=PATIENT), there)
        contests = [impatient, patient]
        self.began = now()
        self.nodes["n1"].freeze()
        observe(contests, lambda: all(c.lost_at and c.granted_at for c in contests), 60, "lost, and granted")
        self.show("frozen", contests)
        for contest in contests:
            print(f"  {contest.name}: overlap {contest.overlap():.1f}")
            self.assertGreater(contest.granted_at - self.began, NET_TICKTIME * 3 / 4)
            self.assertLess(contest.granted_at - self.began, NET_TICKTIME * 5 / 4 + SLACK)
        self.assertEqual(impatient.overlap(), 0)
        self.assertGreater(patient.overlap(), 0)
        self.assertLessEqual(patient.lost_at, patient.safe_until + AT_ONCE)

    def test_failover(self):
        """A daemon goes to the next node of its list when its own is killed, and when its own is silent."""
        self.start()
        rival = self.daemon("n2", "n2")
        daemon = self.daemon("n1", "n1", "n3", "n2")
        self.assertEqual(self.host(daemon), self.address("n1"))
        killed = Contest("mutex-of-killed", daemon, rival)
        self.began = now()
        self.nodes["n1"].kill()
        self.fail_over(daemon, "n3", [killed])
        self.assertLess(killed.lost_at - self.began, AT_ONCE)

        silent = Contest("mutex-of-frozen", daemon, rival)
        self.began = now()
        self.nodes["n3"].freeze()
        self.fail_over(daemon, "n2", [silent])
        self.assertLess(silent.lost_at - self.began, 2 * HEARTBEAT + AT_ONCE)

    def fail_over(self, daemon, name, contests):
        observe(contests, lambda: all(c.lost_at and c.granted_at for c in contests), 60, "lost, and granted")
        daemon.wait_broker(60)
        after = now() - self.began
        self.assertEqual(self.host(daemon), self.address(name))
        self.show(f"over to {name} after {after:.1f}", contests)
        Wire(daemon).call("acquire", name=f"new-{name}", kind="mutex", timeout=10)


if __name__ == "__main__":
    cluster.main()
