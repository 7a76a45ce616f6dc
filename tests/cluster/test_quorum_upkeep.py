"""Acts of operators of a cluster, on slots by quorum: members are removed and added, a node is drained, a majority is lost.
docs/OPERATIONS.md describes each of them ("A cluster by quorum")."""

import cluster
from contest import NET_TICKTIME, TROUBLE, release
from quorum_field import OPTIONS
from rabbit import version
from wait import wait_until
from wire import Wire, WireError

GRACE = 5
SLOTS = 3
QUEUES = ("--vhost-pattern", "^/$", "--queue-pattern", "^lockbroker=")
# Of each queue of ours: how many members it has, and how many of these run.
MEMBERS = """
    [begin Nodes = maps:get(nodes, amqqueue:get_type_state(Queue)),
         io:format("~s ~w~n", [element(4, amqqueue:get_name(Queue)), if is_map(Nodes) -> maps:size(Nodes); true -> length(Nodes) end])
     end || Queue <- rabbit_amqqueue:list(<<"/">>), lists:prefix("lockbroker=", binary_to_list(element(4, amqqueue:get_name(Queue)))),
            amqqueue:get_type(Queue) =:= rabbit_quorum_queue], done."""


class Upkeep(cluster.TestCase):
    deadline = 400

    def start(self):
        more = {"khepri": True} if release() >= (4, 0) else {"partition_handling": "ignore"}
        self.hosts = self.enterContext(cluster.Network())
        self.nodes = self.enterContext(cluster.Cluster(self.hosts, net_ticktime=NET_TICKTIME, **more))
        self.wires = {}
        for name in self.nodes.nodes:
            daemon = self.nodes.daemon(self, name, name, options=OPTIONS, expect=TROUBLE + ("quorum", "reclaim", "grace"))
            daemon.wait_broker()
            self.wires[name] = Wire(daemon)
        self.create()
        print(f"RabbitMQ {version()}, {more}, T {GRACE}")

    def create(self):
        self.wires["n2"].call("create", within=120, name="s", slots=SLOTS, claim="quorum", takeover_grace=GRACE)

    def members(self, at="n2"):
        """{queue: members}."""
        return dict(line.split() for line in self.nodes[at].eval(MEMBERS).splitlines()[:-1])

    def check_members(self, count):
        members = self.members()
        self.assertEqual(len(members), SLOTS + 1)
        self.assertEqual(set(members.values()), {str(count)}, members)

    def take(self, at, slots=1):
        """Grants at this daemon."""
        wire = self.wires[at]
        asked = [wire.request("acquire", name="s", timeout=90) for _ in range(slots)]
        return [wire.answer(request, 100) for request in asked]

    def give(self, at, grants):
        for grant in grants:
            self.wires[at].call("release", lock=grant["lock"])

    def check_all_can_be_had(self, at, held):
        """By a daemon; that slot with a larger fence than before."""
        grants = self.take(at, SLOTS)
        fences = {grant["slot"]: grant["fence"] for grant in grants}
        self.assertEqual(len(fences), SLOTS)
        self.assertGreater(fences[held["slot"]], held["fence"])
        self.give(at, grants)

    def repair(self):
        """None: RabbitMQ does not answer yet."""
        try:
            return self.wires["n1"].call("fsck", name="s", repair=True, within=120)
        except WireError as error:
            print("fsck --repair:", error)
            return None

    def test_members(self):
        self.start()
        held, = self.take("n2")
        third = self.nodes["n3"].node
        self.nodes["n2"].ctl("shrink", third, program="rabbitmq-queues")
        self.check_members(2)
        self.nodes["n2"].ctl("grow", third, "all", *QUEUES, program="rabbitmq-queues")
        self.check_members(3)
        self.assertGreater(self.wires["n2"].call("verify", lock=held["lock"])["fence"], held["fence"])
        self.give("n2", [held])
        # With the new member alone, a majority runs without n1.
        self.nodes["n1"].kill()
        self.check_all_can_be_had("n2", held)

    def test_drain(self):
        self.start()
        held, = self.take("n2")
        self.nodes["n1"].ctl("drain", program="rabbitmq-upgrade")
        self.assertGreater(self.wires["n2"].call("verify", lock=held["lock"])["fence"], held["fence"])
        with self.assertRaises(WireError) as refused:
            self.wires["n1"].call("acquire", name="s", timeout=0)
        self.assertEqual(refused.exception.reason, "broker-unavailable")
        self.nodes["n1"].ctl("revive", program="rabbitmq-upgrade")
        wait_until(lambda: self.wires["n1"].call("info")["broker"]["state"] == "up", 60, "the daemon is connected again")
        self.give("n2", [held])
        self.check_all_can_be_had("n1", held)

    def test_a_majority_is_lost(self):
        """Node 1 is alone for good."""
        self.start()
        held, = self.take("n1")
        for name in "n2", "n3":
            self.nodes[name].kill()
        self.wires["n1"].notification("lost", within=60)
        for method, more in (("acquire", {"timeout": 0}), ("fsck", {})):
            with self.assertRaises(WireError) as refused:
                self.wires["n1"].call(method, name="s", within=60, **more)
            print(f"{method} without a majority: {refused.exception}")
        shrink = "rabbit_quorum_queue:force_all_queues_shrink_member_to_current_member()."
        if release() >= (4, 0):
            self.nodes["n1"].ctl("force_standalone_khepri_boot")
        self.nodes["n1"].ctl("eval", shrink)
        self.check_all_can_be_had("n1", held)
        # The gate and the directory were queues of one node.
        for queue in "s-G", "lockbroker=amqp-locks":
            self.nodes["n1"].ctl("delete_queue", queue)
        found = wait_until(self.repair, 120, "a repair")
        print("findings:", found["findings"])
        self.assertTrue(all(finding["repaired"] for finding in found["findings"]))
        self.assertEqual(self.wires["n1"].call("fsck", name="s", within=120)["findings"], [])


if __name__ == "__main__":
    cluster.main()
