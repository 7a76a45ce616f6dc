"""Slots that are held by consumers, and trouble of single nodes. Links are reset, and nodes are frozen, killed or
restarted at once. Administrators work at the other side of a partition. docs/PROOF.md has the results.

CLUSTER_ROUNDS: how often each test of resets resets."""

import os
import signal

import cluster
from consumers import LEASE, ConsumerCase, ConsumerContest
from contest import ALONE, LONG, OTHERS, SLACK, Contest, now, observe, release
from wire import Wire, WireError

ROUNDS = int(os.environ.get("CLUSTER_ROUNDS", "3" if LONG else "1"))
EACH = 4
AT_ONCE = 1.0


class Resets(ConsumerCase):
    """A firewall answers with resets. A node that hears one frees the slots of the other side at once. The lease does
    not protect the holder, because the node waits for no silence."""

    deadline = 120 + 60 * ROUNDS

    def start(self, **more):
        if release() >= (4, 3):
            more["khepri"] = True
        super().start(**more)

    def rounds(self, reset, most):
        """most: of the overlap, in seconds."""
        overlaps = []
        for number in range(ROUNDS):
            contests = [ConsumerContest(self, holder, home, near=False, label=f"/{number}-{each}")
                        for each in range(EACH) for holder, home in (("n1", "n2"), ("n2", "n1"))]
            self.began = now()
            reset()
            self.wait_noticed(contests)
            self.show("reset", contests)
            overlaps += [contest.overlap() for contest in contests]
            for contest in contests:
                self.assertIsNotNone(contest.lost_at, contest.name)
                self.assertLessEqual(contest.overlap(), most, contest.name)
            self.hosts.heal()
            for contest in contests:
                contest.leave()
            if number + 1 < ROUNDS:
                # A node that has lost the others for a moment can make all nodes forget queues of these (3.10.8).
                self.restart(*ALONE, *OTHERS)
        print(f"  overlap in {sum(overlap > 0 for overlap in overlaps)} of {len(overlaps)}, at most {max(overlaps):.3f}")
        return overlaps

    def test_both_sides_hear_it(self):
        """The holder is told at about the time at which the rival gets the slot."""
        self.start()
        self.rounds(lambda: self.hosts.break_off(ALONE, OTHERS), AT_ONCE)

    def test_one_side_hears_it(self):
        """n1 hears resets, the others hear nothing. n1 frees the slots of a holder at n2, which is told when its lease
        ends. The test states the behaviour of today."""
        self.start()

        def reset():
            for name in OTHERS:
                self.hosts.reject("n1", name)
        self.assertGreater(max(self.rounds(reset, LEASE)), AT_ONCE)


class Nodes(ConsumerCase):
    deadline = 400

    def start(self, **more):
        if release() >= (4, 3):
            more["khepri"] = True
        super().start(**more)

    def test_frozen(self):
        """The leases of both connection and hold end before the other nodes count the frozen node as dead."""
        self.start()
        contests = self.contests()
        self.began = now()
        self.nodes["n1"].freeze()
        self.wait_noticed(contests)
        self.show("frozen", contests)
        self.judge(contests)
        for contest in contests:
            if contest.home == "n1":
                self.assertIsNone(contest.granted_at, contest.name)
                self.assertNotIn("near granted", contest.times, contest.name)
            if "n1" in (contest.at, contest.home):
                self.assertLessEqual(contest.lost_at - self.began, LEASE + AT_ONCE, contest.name)
            else:
                self.assertTrue(contest.is_held(), contest.name)
        self.nodes["n1"].thaw()
        self.heal(contests, meet=())

    def test_stopped(self):
        """A node that stops in order tells its clients, and then frees their slots."""
        self.start()
        contests = self.contests()
        self.began = now()
        os.kill(self.nodes["n2"].pid, signal.SIGTERM)
        observe(contests, lambda: all(contest.lost_at for contest in contests if "n2" in (contest.at, contest.home)),
                SLACK, "the holders are told")
        self.wait_noticed(contests)
        self.show("stopped", contests)
        self.judge(contests, AT_ONCE)

    def reboot(self, silent):
        """The node of the holder queues is back before the others could miss it."""
        self.start()
        contests = [ConsumerContest(self, holder, "n2", kind, label=f"/{each}") for kind in ("semaphore", "mutex")
                    for holder in ("n1", "n2") for each in range(EACH)]
        self.began = now()
        if silent:
            self.hosts.split(("n2",), ("n1", "n3"))
        self.nodes["n2"].kill()
        self.hosts.heal()
        self.nodes["n2"].launch()
        observe(contests, lambda: all(contest.lost_at for contest in contests), SLACK, "the holders are told")
        self.nodes["n2"].wait_up()
        print(f"  up again {now() - self.began:.1f}")
        observe(contests, lambda: all({"granted", "near granted"} & set(contest.times) for contest in contests), 60,
                "one rival has it")
        self.show("rebooted", contests)
        self.judge(contests)
        for contest in contests:
            self.assertLess(contest.lost_at - self.began, AT_ONCE, contest.name)

    def test_fast_reboot(self):
        self.reboot(silent=False)

    def test_fast_reboot_without_a_word(self):
        """As when the power fails: the other nodes hear nothing until the machine is back."""
        self.reboot(silent=True)

    def try_to_acquire(self, daemon, name, kind="semaphore"):
        try:
            peer = Wire(daemon)
            grant = peer.call("acquire", within=SLACK, name=name, kind=kind, timeout=3)
            peer.hang_up()
            return grant and "held"
        except WireError as error:
            return error.reason

    def test_home_is_down(self):
        """A slot cannot be had while the node of its holder queue is down. It comes back with the node."""
        self.start()
        one, _, two, three = self.daemons
        admin = Wire(one)
        admin.call("create", name="free", slots=1, claim="consumer")
        self.assertEqual(self.try_to_acquire(two, "free"), "held")
        self.assertEqual(self.try_to_acquire(one, "free-mutex", "mutex"), "held")
        contests = [ConsumerContest(self, "n2", "n1", kind) for kind in ("semaphore", "mutex")]
        self.began = now()
        self.nodes["n1"].kill()
        observe(contests, lambda: all(contest.lost_at for contest in contests), AT_ONCE, "the broker tells the holders")
        for daemon in two, three:
            for name, kind in ("free", "semaphore"), ("free-mutex", "mutex"):
                said = self.try_to_acquire(daemon, name, kind)
                print(f"  {name}: {said}; {Wire(daemon).call('explain', name=name, kind=kind)}")
                self.assertNotIn(said, ("held", "no-such-lock"))
            for method, more in ("destroy", {}), ("resize", {"slots": 2}), ("fsck", {"repair": True}):
                with self.assertRaises(WireError) as caught:
                    Wire(daemon).call(method, within=SLACK, name="free", **more)
                print(f"  {method}: {caught.exception.message}")
                self.assertEqual(caught.exception.reason, "broker-unavailable")
                if release() < (3, 11):  # later ones do not answer a question about such a queue
                    self.assertIn("slot 1", caught.exception.message)
        self.wait_noticed(contests)
        self.show("down", contests)
        for contest in contests:
            self.assertFalse({"granted", "near granted"} & set(contest.times), contest.name)
        self.nodes["n1"].start()
        print(f"  up again {now() - self.began:.1f}")
        self.daemons[0].wait_broker(60)
        observe(contests, lambda: all({"granted", "near granted"} & set(contest.times) or
                                      contest.rival_was_refused() for contest in contests), 60, "a rival has it")
        self.show("back", contests)
        self.judge(contests)
        for daemon in two, three:
            self.assertEqual(self.try_to_acquire(daemon, "free"), "held")

    def test_forgotten_home(self):
        """An operator gives up a node. Its slots are gone then, and can be made again."""
        self.start()
        one, _, two, _ = self.daemons
        Wire(one).call("create", name="gone", slots=1, claim="consumer")
        self.nodes["n1"].kill()
        self.assertNotEqual(self.try_to_acquire(two, "gone"), "held")
        self.nodes["n2"].ctl("forget_cluster_node", self.nodes["n1"].node)
        self.assertEqual(self.try_to_acquire(two, "gone"), "no-such-lock")
        Wire(two).call("create", within=SLACK, name="gone", slots=1, claim="consumer")
        self.assertEqual(self.try_to_acquire(two, "gone"), "held")


class Administration(ConsumerCase):
    """An administrator at n2 removes slots whose holder queues are at n1, which is cut off. Nothing is granted twice."""

    deadline = 300

    def start(self, **more):
        if release() >= (4, 3):
            more["khepri"] = True
        super().start(**more)

    def ask(self, daemon, method, **params):
        """The result, or the error in words."""
        try:
            return Wire(daemon).call(method, within=60, **params)
        except WireError as error:
            return f"{error.reason}: {error.message}"

    def contest(self, label, queues):
        """queues: the node of the slot queue. The holder queue is at n1, which has converted the slot."""
        one, near, two, _ = self.daemons
        name = f"{label}/slot-{queues}"
        Wire(two if queues == "n2" else one).call("create", name=name, slots=1, claim="exclusive-queue")
        fsck = Wire(one).call("fsck", name=name, repair=True, convert="consumer")
        self.assertEqual((fsck["converted"], fsck["claim"]), (1, "consumer"))
        return Contest(name, one, two, None, near, "semaphore")

    def administrate(self, noticed):
        two = self.daemons[2]
        Wire(two).call("create", name="the-directory-is-at-n2")
        contests = [self.contest(method, queues) for queues in ("n2", "n1") for method in ("destroy", "resize")]
        self.began = now()
        self.hosts.split(ALONE, OTHERS)
        if noticed:
            self.wait_noticed(contests)
        for contest in contests:
            self.remove_and_make(contest, two, contest.name.partition("/")[0], noticed)
        for contest in contests:
            contest.wait()
        self.wait_noticed(contests)
        self.show("cut", contests)
        self.judge(contests)
        for contest in contests:
            self.assertTrue(contest.is_held(), contest.name)
        self.heal(contests)
        for contest in contests:
            fsck = self.ask(two, "fsck", name=contest.name, repair=True)
            print(f"  {contest.name}: fsck {fsck}")
            if not noticed and release() >= (3, 11):
                self.assertEqual((fsck["claim"], fsck["findings"]), ("consumer", []), "slot 1 is as it was")
            self.assertTrue(contest.is_held(), contest.name)
        observe(contests, lambda: True, 1, "nothing")
        self.judge(contests)

    def remove_and_make(self, contest, daemon, method, noticed):
        """The holder queue stays. An error names the slot, or from 3.11 on says that the broker does not answer."""
        said = self.ask(daemon, method, name=contest.name, **({"slots": 0} if method == "resize" else {}))
        print(f"  {contest.name}: {now() - self.began:.1f} {said}")
        if noticed:
            self.assertIn("slot 1" if release() < (3, 11) else "broker-unavailable", said)
        for again, more in ("create", {"slots": 1, "claim": "consumer"}), ("fsck", {"repair": True}):
            print(f"    {again} {self.ask(daemon, again, name=contest.name, **more)}")

    def test_when_noticed(self):
        self.start()
        self.administrate(noticed=True)

    def test_at_once(self):
        self.start()
        self.administrate(noticed=False)


if __name__ == "__main__":
    cluster.main()
