"""Slots that are held by quorum, and trouble of nodes, links, leaders, members, daemons and connections. No slot is held
twice, fences grow, and each waiter gets a slot in the end. docs/PROOF.md has the times.

Each daemon is connected to the node of its host. A semaphore has nine slots: for each node of a holder and each node of a
leader there is one. The faults concern n1. CLUSTER_FAULTS names them; by default these are all, with CLUSTER_LONG, and
otherwise one partition."""

import os
import signal

import cluster
from contest import LONG, OTHERS, now
from quorum_field import CLOSE, NODES, FieldCase
from wait import wait_until
from wire import Wire

# A fault, and the seconds for which it is observed.
FAULTS = {
    "cut-off": 24, "cut-off-released": 24, "hears-nothing": 24, "is-not-heard": 24, "one-link": 24, "reset-both": 20,
    "reset-both-released": 20, "n1-hears-reset": 24, "others-hear-reset": 24, "flaps": 30, "frozen": 24, "killed": 16,
    "stopped": 16, "leaders-moved": 1, "rebalance": 10, "members": 12, "connections-closed": 12, "daemon-killed": 12,
}
ROUNDS = os.environ.get("CLUSTER_FAULTS", " ".join(FAULTS) if LONG else "cut-off").split()
# Of each slot: the Ra cluster's members and leader.
LEADERS = """
    [case catch ra:members({element(1, amqqueue:get_pid(Queue)), node()}) of
         {ok, _, {_, Leader}} -> io:format("~s\t~s~n", [element(4, amqqueue:get_name(Queue)), Leader]);
         _ -> ok end
     || Queue <- rabbit_amqqueue:list(<<"/">>), lists:prefix("lockbroker=q=", binary_to_list(element(4, amqqueue:get_name(Queue))))],
    done."""
MOVE = """
    {ok, Queue} = rabbit_amqqueue:lookup(rabbit_misc:r(<<"/">>, queue, <<"%s">>)), Ra = element(1, amqqueue:get_pid(Queue)),
    {ok, _, Leader} = ra:members({Ra, node()}), ra:transfer_leadership(Leader, {Ra, '%s'})."""


class Faults(FieldCase):
    deadline = 180 + 90 * len(ROUNDS)

    # ---- leaders ----

    def leaders(self):
        """{slot: the host of its leader}."""
        hosts = {node.node: name for name, node in self.nodes.nodes.items()}
        rows = [line.split("\t") for line in self.nodes["n2"].eval(LEADERS).splitlines()[:-1]]
        return {int(queue.rpartition("=")[2]): hosts.get(leader) for queue, leader in rows}

    def move(self, wanted):
        """Asks for these leaders. Whether they were so before."""
        leaders = self.leaders()
        away = [slot for slot in wanted if leaders.get(slot) != wanted[slot]]
        for slot in away:
            self.nodes["n2"].eval(MOVE % (f"lockbroker=q=s={slot}", self.nodes[wanted[slot]].node), check=False)
        return not away

    def place(self, wanted):
        end = now() + 60
        while not self.move(wanted):
            self.assertLess(now(), end, "the leaders are where they should be")
            self.field.watch(0.2)

    # ---- faults of n1 ----

    def begin(self, fault):
        node = self.nodes["n1"]
        if fault.startswith("cut-off"):
            self.hosts.split(("n1",), OTHERS)
        elif fault == "one-link":
            self.hosts.split(("n1",), ("n2",))
        elif fault.startswith("reset-both"):
            self.hosts.break_off(("n1",), OTHERS)
        elif fault == "flaps":
            self.flap()
        elif fault == "frozen":
            node.freeze()
        elif fault == "killed":
            node.kill()
        elif fault == "stopped":
            os.kill(node.pid, signal.SIGTERM)
        elif fault == "leaders-moved":
            self.move_often()
        elif fault == "rebalance":
            self.nodes["n2"].eval('{ok, _} = rabbit_amqqueue:rebalance(quorum, <<".*">>, <<".*">>).')
        elif fault == "members":
            self.change_members()
        elif fault == "connections-closed":
            node.eval(CLOSE)
        elif fault == "daemon-killed":
            self.daemons["n1"].kill()
        for name in OTHERS:
            if fault == "hears-nothing":
                self.hosts.cut(name, "n1")
            elif fault == "is-not-heard":
                self.hosts.cut("n1", name)
            elif fault == "n1-hears-reset":
                self.hosts.reject("n1", name)
            elif fault == "others-hear-reset":
                self.hosts.reject(name, "n1")

    def flap(self):
        """n1 is isolated again and again by resets, and leaders move in between: within consumer-disconnected-timeout."""
        for number in range(6):
            self.hosts.break_off(("n1",), OTHERS)
            self.field.watch(0.3)
            self.hosts.heal()
            for name in OTHERS:
                self.nodes.meets("n1", name)
            leaders = self.leaders()
            self.move({slot: NODES[(slot + number) % 3] for slot in leaders})
            self.field.watch(0.1)

    def move_often(self):
        for number in range(10):
            leaders = self.leaders()
            self.move({slot: NODES[(NODES.index(leaders[slot]) + 1) % 3] for slot in leaders if leaders[slot]})
            self.field.watch(0.5)
        print(f"  moves: {10 * len(leaders)}")

    def change_members(self):
        there, away = self.nodes["n2"], self.nodes["n1"].node
        print("  shrink: " + there.eval(f"length(rabbit_quorum_queue:shrink_all('{away}'))."))
        self.field.watch(6)
        print("  grow: " + there.eval(f"length(rabbit_quorum_queue:grow('{away}', <<\"/\">>, <<\".*\">>, all))."))

    def end(self, fault):
        self.hosts.heal()
        node = self.nodes["n1"]
        if fault == "frozen":
            node.thaw()
        elif fault in ("killed", "stopped"):
            wait_until(lambda: node.pid is None, 60, "the node has ended")
            node.start()
        elif fault == "daemon-killed":
            self.daemons["n1"].start()

    # ---- a round ----

    def take(self, **more):
        """All slots, a third of them at each node."""
        field, earlier = self.field, len(self.field.holds)
        for name in NODES:
            field.add(name, len(NODES), **more)
        field.observe(lambda: not any(client.is_waiting for client in field.clients), 90, "all slots are held")
        return field.holds[earlier:]

    def round(self, fault):
        field = self.field
        first = self.take(releases=fault.endswith("released"))
        wanted = {}
        for name in NODES:
            wanted.update(zip(sorted(hold.slot for hold in first if hold.at == name), NODES))
        self.place(wanted)
        for name in NODES:
            field.add(name, 6)
        field.watch(1.5)
        self.assertEqual([hold for hold in first if hold.stopped_at], [])
        began = now()
        self.begin(fault)
        print(f"{fault}, for {now() - began:.1f} s" if now() - began > 1 else fault)
        field.watch(max(0, began + FAULTS[fault] - now()))
        self.show(began, first, wanted)
        self.end(fault)
        for name in NODES:
            self.await_node(name)
        if fault == "daemon-killed":
            field.add("n1", 6)
        print(f"  healed; the last waiter after {field.drain(120):.1f}; refused {dict(field.refused)}")
        healed = now()
        self.take()
        print(f"  all slots are held after {now() - healed:.1f}")
        field.drain(60)

    def await_node(self, name):
        """While it comes back, the clients go on."""
        asks = Wire(self.daemons[name])
        end = now() + 120
        while True:
            asked = asks.request("ping", broker=True)
            self.field.observe(lambda: asks.pump() or asks.replies, 60, "ping is answered")
            reply = asks.replies.popleft()
            self.assertEqual(reply["id"], asked)
            if reply.get("result", {}).get("broker", {}).get("state") == "up":
                asks.hang_up()
                return
            self.assertLess(now(), end, f"the daemon of {name} reaches its node")
            self.field.watch(0.3)

    def show(self, began, first, wanted):
        print("  seconds to the end of a hold / to the next grant")
        groups = {"holder at n1": [], "leader at n1, holder elsewhere": [], "neither": []}
        for hold in first:
            place = ("holder at n1" if hold.at == "n1" else
                     "leader at n1, holder elsewhere" if wanted[hold.slot] == "n1" else "neither")
            later = [other.granted_at for other in self.field.holds if other.slot == hold.slot and other is not hold]
            stopped = "kept" if hold.stopped_at is None else f"{hold.stopped_at - began:.1f}"
            groups[place].append(f"{stopped}/{f'{min(later) - began:.1f}' if later else '-'}")
        for place, rows in groups.items():
            print(f"  {place}: {'  '.join(sorted(rows))}")

    def test_faults(self):
        self.start()
        failures = []
        for fault in ROUNDS:
            with self.subTest(fault):
                try:
                    self.round(fault)
                finally:
                    failures += [f"{fault}: {one}" for found in self.field.faults() for one in found]
                    self.hosts.heal()
                    self.field.leave()
        self.assertFalse(failures, "\n".join(failures))


if __name__ == "__main__":
    cluster.main()
