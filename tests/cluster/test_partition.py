"""Partitions under pause_minority, autoheal and Khepri: for how long a lock is held twice. The tests state the
behaviour of today, which docs/SAFETY.md describes; it is not the behaviour to aim for.

CLUSTER_ROUNDS: how many partitions each test of pause_minority makes."""

import os

import cluster
from contest import ALONE, NET_TICKTIME, OTHERS, Contest, PartitionCase, now, observe, release
from rabbit import version

ROUNDS = int(os.environ.get("CLUSTER_ROUNDS", "4"))


class Strategies(PartitionCase):
    deadline = 120 + 60 * ROUNDS

    def mutexes(self, number):
        return [Contest(f"mutex-held-by-minority-{number}", self.alone, self.others),
                Contest(f"mutex-held-by-majority-{number}", self.others, self.alone)]

    def test_pause_minority(self):
        """The minority ends its connections when it notices the partition. The majority grants when it notices. Either
        side may be first. The minority of 4.0 can grant locks before it stops; their holders lose them."""
        self.start(partition_handling="pause_minority")
        for number in range(ROUNDS):
            self.pause(number, OTHERS)

    def test_pause_minority_short_setup(self):
        """The same with nodes that do not wait long for nodes that are away."""
        self.start(partition_handling="pause_minority", net_setuptime=1)
        for number in range(ROUNDS):
            self.pause(number, OTHERS)

    def test_pause_minority_one_link(self):
        """Two nodes do not hear each other, and both hear the third."""
        self.start(partition_handling="pause_minority")
        for number in range(ROUNDS):
            self.pause(number, ("n2",))

    def heal_all(self, contests):
        """Both daemons have a broker again, and their holders ask what they still hold."""
        self.heal(contests)
        self.wait_whole()
        for daemon in self.alone, self.others:
            daemon.wait_broker(60)
        self.verify(contests)
        self.show("healed", contests)

    def pause(self, number, right):
        contests = minority, majority = self.mutexes(number)
        self.split(ALONE, right)
        # If one link is cut, either side may stop.
        stopping = [minority] if right == OTHERS else contests
        observe(contests, lambda: now() > self.began + 2 * NET_TICKTIME and any(
            contest.is_ended() for contest in stopping), 60, "one side has stopped")
        for contest in contests:
            print(f"  {contest.name}: overlap {contest.overlap():.2f}")
        if right == OTHERS:
            self.assertIsNone(majority.lost_at)
        self.heal_all(contests)
        for contest in contests:
            self.assertLessEqual(list(contest.said.values()).count("held"), 1, contest.name)
            contest.leave()

    def test_autoheal(self):
        """Both sides go on until the network has healed; then one side is restarted."""
        self.start(partition_handling="autoheal")
        contests = self.mutexes(0)
        self.split()
        self.wait_decided(contests)
        self.judge_granted_twice(contests)
        self.heal(contests)
        observe(contests, lambda: all(contest.is_held_once() for contest in contests), 60, "one of two is told")
        for contest in contests:
            told = contest.granted_at + contest.overlap() - self.healed
            print(f"  {contest.name}: overlap {contest.overlap():.2f}, told {told:.1f} after healing")
        self.show("healed", contests)

    def test_reset(self):
        """A firewall answers the nodes with resets: they notice when they send next, and wait for no silence."""
        self.start()
        contests = self.mutexes(0)
        self.began = now()
        self.hosts.break_off(ALONE, OTHERS)
        self.wait_decided(contests)
        self.show("cut", contests)
        for contest in contests:
            self.assertLess(contest.granted_at - self.began, NET_TICKTIME * 3 / 4, contest.name)

    def test_khepri(self):
        """The minority can declare nothing. The majority of 4.0 deletes the holder queues of the minority, the majority
        of 4.3 keeps them."""
        if release() < (4, 0):
            self.skipTest(f"RabbitMQ {version()} has no Khepri")
        self.start(khepri=True)
        contests = minority, majority = self.mutexes(0)
        self.split()
        if release() < (4, 3):
            observe(contests, minority.is_granted_twice, 60, "the majority has what the minority has")
            self.judge_granted_twice([minority])
        else:
            observe(contests, lambda: now() > self.began + 8 * NET_TICKTIME, 60, "each node has long noticed")
            self.assertTrue(minority.is_held())
            self.verify(contests)
            print(f"  {minority.name}: {minority.said}; {majority.name}: {majority.said}")
        self.assertIsNone(majority.granted_at)
        self.heal_all(contests)
        print(f"  {minority.name}: {minority.said}; {majority.name}: {majority.said}")


if __name__ == "__main__":
    cluster.main()
