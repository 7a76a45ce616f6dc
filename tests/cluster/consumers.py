"""Contests for slots that are held by consumers. The lease of such a hold ends before a node counts as dead, because
net_ticktime is longer than 2.7 heartbeats here."""

from contest import HEARTBEAT, OTHERS, Contest, ContestCase, now, observe
from wait import wait_until

OPTIONS = ("--heartbeat", str(HEARTBEAT), "--rescan-interval", "0.1", "--request-timeout", "6", "--probe-timeout", "2",
           "--claim", "consumer")
# Of a hold, from the last answered question. A margin makes it shorter.
LEASE = 2 * HEARTBEAT


class ConsumerContest(Contest):
    """holder, home: names of nodes. near: also a rival at the holder's side."""

    def __init__(self, case, holder, home, kind="semaphore", near=True, label=""):
        self.at, self.home = holder, home
        one, one_more, two, three = case.daemons
        rival = one if holder != "n1" else two
        near = (one_more if holder == "n1" else three) if near else None
        super().__init__(f"{kind}/at-{holder}/home-{home}{label}", two if holder == "n2" else one, rival,
                         two if home == "n2" else one, near, kind, "consumer")


class ConsumerCase(ContestCase):
    """Two daemons at n1, one at n2 and one at n3. Each is connected to the node of its host."""

    net_ticktime = 3 * HEARTBEAT

    def start(self, **more):
        super().start(**more)
        self.daemons = [self.daemon(name, name, options=OPTIONS) for name in ("n1", "n1", "n2", "n3")]

    def contests(self, label=""):
        """The holder at n1 or n2, and its holder queue at n1 or n2: slots, and mutexes that were used just now."""
        return [ConsumerContest(self, holder, home, kind, label=label) for kind in ("semaphore", "mutex")
                for holder in ("n1", "n2") for home in ("n1", "n2")]

    def wait_noticed(self, contests):
        """Until each node that hears too little has noticed, and has waited for the lost node (net_setuptime)."""
        noticed = self.began + self.net_ticktime * 5 / 4 + 9
        observe(contests, lambda: now() > noticed, 60, "each node has noticed")

    def judge(self, contests, overlap=0):
        """overlap: at most, in seconds."""
        for contest in contests:
            if contest.overlap() > 0:
                print(f"  {contest.name}: overlap {contest.overlap():.3f}")
        for contest in contests:
            self.assertLessEqual(contest.overlap(), overlap, contest.name)

    def heal(self, contests, overlap=0, meet=OTHERS):
        """Nothing is granted twice after the network has healed, and all daemons have a broker again. meet: nodes that
        n1 calls."""
        print(f"  healed {now() - self.began:.1f}")
        self.hosts.heal()
        for name in meet:
            wait_until(lambda: self.restart_ended() or self.nodes.meets("n1", name), 90, f"n1 sees {name}")
        for daemon in self.daemons:
            daemon.wait_broker(90)
        end = now() + LEASE
        observe(contests, lambda: now() > end, 60, "a lease has passed")
        self.show("healed", contests)
        self.judge(contests, overlap)

    def restart_ended(self):
        """A node of RabbitMQ 3.10 can end after a pause, when it cannot come back. An operator starts it."""
        for node in self.nodes:
            if node.pid is None:
                print(f"  {node.node} had ended {now() - self.began:.1f}")
                node.start()

    def restart(self, *names):
        """Ends a partition that RabbitMQ does not end by itself."""
        for name in names:
            self.nodes[name].stop()
            self.nodes[name].start()
        for daemon in self.daemons:
            daemon.wait_broker(90)
