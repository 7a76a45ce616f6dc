"""A partition under cluster_partition_handling = ignore, the default: each side grants locks that the other side has
granted. The test states the behaviour of today, which docs/SAFETY.md describes; it is not the behaviour to aim for.

The short form is part of ./check, and ends when the network has healed. With CLUSTER_LONG the test goes on: an operator
restarts the side that was cut off."""

import cluster
from contest import LONG, NET_TICKTIME, Contest, PartitionCase, now, observe, release


class Ignore(PartitionCase):
    def test_granted_twice(self):
        self.start()
        twice = [Contest("mutex-held-by-minority", self.alone, self.others),
                 Contest("mutex-held-by-majority", self.others, self.alone),
                 Contest("held-by-minority/slot-of-majority", self.alone, self.others, self.others),
                 Contest("held-by-majority/slot-of-minority", self.others, self.alone, self.alone)]
        # A classic queue is at one node only, and the rival's side does not have it.
        once = [Contest("held-by-minority/slot-of-minority", self.alone, self.others, self.alone),
                Contest("held-by-majority/slot-of-majority", self.others, self.alone, self.others)]
        # The daemon's own link is cut. Here the lease ends in time.
        leased = Contest("held-across", self.across, self.third, self.others)
        contests = [*twice, *once, leased]

        self.split()
        observe(contests, lambda: leased.granted_at, 60, "the slot is free when the daemon was silent")
        self.wait_decided(twice)
        self.judge_granted_twice(twice)
        for contest in once:
            self.assertIsNone(contest.granted_at, contest.name)
            self.assertTrue(contest.is_held(), contest.name)
        self.assertLess(leased.lost_at, leased.granted_at)

        self.heal(contests)
        self.wait_whole()
        # Nobody is told, though all hear each other again.
        self.verify(twice[:2])
        for contest in twice[:2]:
            self.assertEqual(contest.said, {"holder": "held", "rival": "held"}, contest.name)
        self.show("healed", contests)
        if LONG:
            waiting = [contest for contest in once if not contest.rival_was_refused()]
            if release() >= (3, 11):
                # The node of a rival that still waits for a slot has forgotten the holder.
                observe(waiting, lambda: all(contest.is_granted_twice() for contest in waiting), 60, "granted twice")
            else:
                # It goes on saying that the node of the slot queue is down. Until a restart nobody gets the slot.
                end = now() + 2 * NET_TICKTIME
                observe(waiting, lambda: now() > end, 60, "the end of the observation")
                self.assertFalse([contest.name for contest in waiting if contest.granted_at])
            self.restart(twice[:2], contests)

    def restart(self, mutexes, contests):
        """The operator ends the partition by a restart of the minority, whose locks are lost then."""
        self.nodes["n1"].stop()
        self.nodes["n1"].start()
        self.alone.wait_broker()
        self.verify(mutexes)
        minority, majority = mutexes
        self.assertIn(minority.said["holder"], ("lost", "not-held"))
        self.assertEqual(minority.said["rival"], "held")
        self.assertEqual(majority.said["holder"], "held")
        self.assertIn(majority.said["rival"], ("lost", "not-held"))
        self.show("restarted", contests)


if __name__ == "__main__":
    cluster.main()
