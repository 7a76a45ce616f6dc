"""The faults of a run. docs/SAFETY.md says which of them may cause an overlap, and for how long.

The nemesis has several hands, which work at the same time. Each deals its faults in a random order, and then again. A
fault of the case "+" causes no overlap, but makes those of other faults at the same daemon as long as the lease.
"""

import contextlib
import itertools
import random
import threading

from world import (CLOSE_ALL, CLUSTER, DAEMONS, DISK_IS_ENOUGH, EITHER, FAKETIME, GRACE, GRACE_OF_MUTEX, HEARTBEAT, KEEPALIVE,
                   LATE, LEASE, MEMORY_IS_ENOUGH, MOVE, NET_TICKTIME, PARTITIONS, QUORUM, REBALANCE, SHRINK, TAKEOVER)

DELAYED = LEASE + LATE
# The pauses of these hands are so much longer. Nothing happens without a node, and an alarm stops administrators.
PAUSES = {"node": 1.5 if CLUSTER else 12, "alarm": 20}
# A client looks at its lease, is stopped so many seconds after the request, and writes when it runs again.
WRITES_LATE, STOPPED_AFTER = 1000, 0.3  # ms; s
FLAPS = 6
PATIENCE = 250  # looks for a client that holds a lock for long: 5 s
NOISE = 64  # bytes
DAY = 86400


class Nemesis:
    """loads: of clients.py. pause: at most, between two faults of one hand, seconds. once: each fault once, and shorter
    ones, instead of until it is told to stop."""

    def __init__(self, world, loads, seed, pause, once=False):
        self.world, self.loads, self.seed, self.pause, self.once = world, loads, seed, pause, once
        self.rounds = {}  # hand, or administrator: how often each of its faults has occurred
        self.record = world.record
        self.numbers = itertools.count(1)
        self.stopping, self.over = threading.Event(), threading.Event()
        faults = {"node": [self.kill_node, self.stop_node, self.restart_node],
                  "alarm": [self.memory_alarm, self.disk_alarm],
                  "daemon": [self.kill_daemon, self.stop_daemon, self.restart_daemon, self.close_connection, self.cut,
                             self.blackhole, self.mute_to_daemon, self.mute_to_broker, self.end_at_daemon,
                             self.end_at_broker, self.delay, self.trickle, self.noise_to_daemon, self.noise_to_broker,
                             self.close_node_connections] + [self.suspend_host, self.stop_clients] * (1 if once else 2),
                  "client": [self.kill_client, self.stop_client] + [self.step_clock] * bool(FAKETIME),
                  "queue": [self.delete_holder_queue]}
        if CLUSTER:
            faults["node"] += [self.reboot_node, self.lose_disk, self.partition, self.hears_nothing, self.is_not_heard,
                               self.one_link, self.reset, self.reset_one_side, self.flap, self.remove_members]
            faults["leader"] = [self.move_leaders, self.rebalance]
        self.hands = [threading.Thread(target=self.work, args=item, daemon=True) for item in faults.items()]
        self.idle = threading.Semaphore(0)

    def start(self):
        for hand in self.hands:
            hand.start()

    def wait(self, seconds=None):
        """Until each hand has ended its last fault. False: not within seconds."""
        return all(self.idle.acquire(timeout=seconds) for _ in self.hands)

    def work(self, name, faults):
        dice = random.Random(f"{self.seed} {name}")
        for fault in self.deck(name, dice, faults, self.stopping):
            try:
                fault(dice)
            except Exception as error:  # pylint: disable=broad-except
                self.world.wrong(fault.__name__, repr(error))
            self.stopping.wait(dice.uniform(0, self.pause * PAUSES.get(name, 1)))
        self.idle.release()
        self.over.wait()  # a node ends with the thread that started it

    def deck(self, name, dice, cards, stopping):
        """Each of them in a random order, and again."""
        for number in range(1) if self.once else itertools.count():
            self.rounds[name] = number
            for card in dice.sample(cards, len(cards)):
                if stopping.is_set():
                    return
                yield card

    @contextlib.contextmanager
    def fault(self, kind, case, longest, *targets, after=None):
        """longest: of its overlaps, seconds. after: from its end until they have all ended; by default the same."""
        number = next(self.numbers)
        self.record.note("nemesis", "begin", number, kind, case, longest, after or longest, *targets)
        if case == "g" and PARTITIONS != "pause_minority":
            self.record.note("nemesis", "undoes", number)
        try:
            yield
        finally:
            self.record.note("nemesis", "end", number)

    def last(self, dice, least, most):
        """The fault is in effect for so many seconds; in a short run for less."""
        self.over.wait(dice.uniform(least, most) * (0.5 if self.once else 1))

    # ---- nodes ----

    def everybody(self):
        return [f"daemon={number}" for number in DAEMONS]

    def node(self, dice, but=""):
        """(name, Rabbit) of one."""
        return dice.choice([item for item in self.world.nodes.items() if item[0] != but])

    def come_back(self, name):
        if self.world.nodes[name].pid is None:
            self.world.nodes[name].start()
        if CLUSTER:
            self.world.make_whole(name, lambda: self.fault("operator-restarts-node", "d", LATE, *self.everybody()))
            self.world.grow()
        self.world.wait_brokers()

    def kill_node(self, dice, kind="kill-node", most=2 * HEARTBEAT):
        name, node = self.node(dice)
        with self.world.whole, self.fault(kind, "d", LATE, *self.everybody()):
            node.kill()
            self.last(dice, 0, most)
            self.come_back(name)

    def restart_node(self, dice):
        name, node = self.node(dice)
        with self.world.whole, self.fault("restart-node", "d", LATE, *self.everybody()):
            node.stop()
            self.come_back(name)

    def stop_node(self, dice):
        name, node = self.node(dice)
        with self.world.whole, self.fault("stop-node", "+", DELAYED, *self.everybody()):
            node.freeze()
            self.last(dice, 0, 2 * LEASE)
            node.thaw()
            self.come_back(name)

    def alarm(self, dice, kind, how, back):
        with self.fault(kind, "-", 0, *self.everybody()):
            self.world.eval(how)
            self.last(dice, 0, 2 * HEARTBEAT)
            self.world.eval(back)

    def memory_alarm(self, dice):
        self.alarm(dice, "memory-alarm", "vm_memory_monitor:set_vm_memory_high_watermark(0.0000001).", MEMORY_IS_ENOUGH)

    def disk_alarm(self, dice):
        self.alarm(dice, "disk-alarm", 'rabbit_disk_monitor:set_disk_free_limit("1000000GB").', DISK_IS_ENOUGH)

    # ---- a cluster ----

    def reboot_node(self, dice):
        """It is back before the others count it as dead."""
        self.kill_node(dice, "reboot-node", 0)

    def lose_disk(self, dice):
        name, _ = self.node(dice, "n1")
        with self.world.whole, self.fault("lose-disk", "d", LATE, *self.everybody()):
            for act in lambda: self.world.lose_disk(name), lambda: self.come_back(name), lambda: None:
                # An administrator's success can be older than the loss.
                for lock in self.world.semaphores:
                    self.record.note("nemesis", "sizing", lock.name, "missing")
                act()

    def between_nodes(self, dice, kind, longest, harm):
        """longest: of an overlap by consumer. By queue it has no limit. RabbitMQ can end connections meanwhile, also when
        the nodes meet again."""
        name, _ = self.node(dice)
        # A lock that is held in either way can be held by queue.
        by_consumer = [f"name={lock.name}" for lock in self.world.locks if lock.way == "consumer"]
        others = [f"name={lock.name}" for lock in self.world.locks if lock.way != "consumer"]
        with self.world.whole, self.fault(f"{kind}-ends-connections", "d", LATE, *self.everybody()), \
                self.fault(kind, "g", longest, *by_consumer), self.fault(f"{kind}-by-queue", "g", "-", *others):
            harm(self.world.hosts, name, [other for other in self.world.nodes if other != name])
            self.last(dice, NET_TICKTIME / 2, 2 * NET_TICKTIME)
            self.come_back(name)

    def partition(self, dice):
        self.between_nodes(dice, "partition", 0, lambda hosts, name, others: hosts.split([name], others))

    def hears_nothing(self, dice):
        self.between_nodes(dice, "hears-nothing", 0, lambda hosts, name, others: [
            hosts.cut(other, name) for other in others])

    def is_not_heard(self, dice):
        self.between_nodes(dice, "is-not-heard", 0, lambda hosts, name, others: [
            hosts.cut(name, other) for other in others])

    def one_link(self, dice):
        self.between_nodes(dice, "one-link", DELAYED, lambda hosts, name, others: hosts.split([name], others[:1]))

    def reset(self, dice):
        self.between_nodes(dice, "reset", DELAYED, lambda hosts, name, others: hosts.break_off([name], others))

    def reset_one_side(self, dice):
        """One side hears it, and the other one hears nothing."""
        def harm(hosts, name, others):
            for other in others:
                hosts.reject(name, other)
                hosts.cut(other, name)
        self.between_nodes(dice, "reset-one-side", DELAYED, harm)

    def flap(self, dice):
        """A node is isolated again and again by resets, and leaders move in between."""
        def harm(hosts, name, others):
            for _ in range(FLAPS):
                hosts.break_off([name], others)
                self.over.wait(0.3)
                hosts.heal()
                for other in others:
                    self.world.meets(name, other)
                self.world.eval(MOVE, check=False)
                self.over.wait(0.1)
        self.between_nodes(dice, "flap", DELAYED, harm)

    def remove_members(self, dice):
        """A node is no member of the quorum queues any more, and then again."""
        name, node = self.node(dice, "n1")
        with self.world.whole, self.fault("remove-members", "d", LATE, *self.everybody()):
            self.world.eval(SHRINK.format(node.node))
            self.last(dice, 0, 2 * LEASE)
            self.come_back(name)

    def move_leaders(self, _dice):
        with self.world.whole, self.fault("move-leaders", "-", 0, *self.everybody()):
            self.world.eval(MOVE)

    def rebalance(self, _dice):
        with self.world.whole, self.fault("rebalance", "-", 0, *self.everybody()):
            self.world.eval(REBALANCE)

    # ---- daemons ----

    def daemon(self, dice):
        """(Daemon, the target of its clients)."""
        number = dice.choice(DAEMONS)
        return self.world.daemons[number], f"daemon={number}"

    def kill_daemon(self, dice):
        daemon, target = self.daemon(dice)
        with self.fault("kill-daemon", "e", LATE, target):
            self.world.kill(daemon)
            self.last(dice, 0, 1)
            daemon.start()

    def restart_daemon(self, dice):
        daemon, target = self.daemon(dice)
        with self.fault("restart-daemon", "h", LATE, target):
            daemon.stop()
            daemon.start()

    def stop_daemon(self, dice):
        daemon, target = self.daemon(dice)
        with self.fault("stop-daemon", "+", DELAYED, target):
            daemon.freeze()
            self.last(dice, 0, 2 * LEASE)
            daemon.thaw()

    def suspend_host(self, dice):
        """A daemon and all its clients. Others can have the slots meanwhile, and the clients write then."""
        daemon, target = self.daemon(dice)
        with self.fault("suspend-host-daemon", "+", DELAYED, target), self.stopped_clients("suspend-host", target):
            daemon.freeze()
            self.last(dice, TAKEOVER, TAKEOVER + 2 * GRACE)
            daemon.thaw()

    def stop_clients(self, dice):
        """The same, and the daemon dies."""
        daemon, target = self.daemon(dice)
        with self.stopped_clients("stop-clients", target), self.fault("kill-daemon", "e", LATE, target):
            self.world.kill(daemon)
            self.last(dice, GRACE, 3 * GRACE)
            daemon.start()

    @contextlib.contextmanager
    def stopped_clients(self, kind, target):
        """All clients of a daemon, if possible while one of them holds a lock for long. They are about to write."""
        loads = [load for load in self.loads if f"daemon={load.daemon_number}" == target and load.client]
        for _ in range(PATIENCE):
            if any(load.long for load in loads) or self.over.wait(0.02):
                break
        clients = [load.client for load in loads]
        for load in loads:
            load.write_late(WRITES_LATE)
        self.over.wait(STOPPED_AFTER)
        with self.fault(kind, "a", "-", *[f"client={client.actor}" for client in clients], after=LATE):
            clients = [client for client in clients if client.pause()]
            try:
                yield
            finally:
                for client in clients:
                    client.go_on()

    def close_connection(self, dice):
        number = dice.choice(DAEMONS)
        while not (pids := self.world.connections(number)):
            self.last(dice, 0, 1)
        with self.fault("close-connection", "d", LATE, f"daemon={number}"):
            self.world.close_connection(dice.choice(pids))

    def close_node_connections(self, dice):
        _, node = self.node(dice)
        with self.fault("close-node-connections", "d", LATE, *self.everybody()):
            node.eval(CLOSE_ALL, check=False)

    # ---- the network between a daemon and the broker ----

    def network(self, dice, kind, case, longest, harm, least=0.0, most=2 * LEASE):
        number = dice.choice(DAEMONS)
        with self.fault(kind, case, longest, f"daemon={number}"):
            for proxy in self.world.proxies[number]:
                harm(proxy)
            self.last(dice, least, most)
            for proxy in self.world.proxies[number]:
                proxy.mend()

    def cut(self, dice):
        self.network(dice, "cut", "d", LATE, lambda proxy: proxy.end("client", "server"), 0, 0)

    def blackhole(self, dice):
        self.network(dice, "blackhole", "+", DELAYED, lambda proxy: proxy.cut())

    def mute_to_daemon(self, dice):
        self.network(dice, "mute-to-daemon", "+", DELAYED, lambda proxy: proxy.mute("client"))

    def mute_to_broker(self, dice):
        self.network(dice, "mute-to-broker", "+", DELAYED, lambda proxy: proxy.mute("server"))

    def end_at_daemon(self, dice):
        self.network(dice, "end-at-daemon", "-", 0, lambda proxy: proxy.end("client"))

    def end_at_broker(self, dice):
        self.network(dice, "end-at-broker", "d", DELAYED, lambda proxy: proxy.end("server"), LEASE)

    def delay(self, dice):
        seconds = dice.uniform(0.02, 0.5)
        self.network(dice, "delay", "+", DELAYED, lambda proxy: proxy.slow(seconds), 1)

    def trickle(self, dice):
        self.network(dice, "one-byte-writes", "+", DELAYED, lambda proxy: proxy.trickle(), 1)

    def noise(self, dice, kind, end):
        # The byte that ends each frame, 206, is not among them. The reader therefore finds that the frame is broken.
        noise = bytes(dice.randrange(206) for _ in range(NOISE))
        # It comes with the next answer to a keepalive at the latest.
        self.network(dice, kind, "d", LATE, lambda proxy: proxy.spoil(end, noise), KEEPALIVE + 1, KEEPALIVE + 1)

    def noise_to_daemon(self, dice):
        self.noise(dice, "noise-to-daemon", "client")

    def noise_to_broker(self, dice):
        self.noise(dice, "noise-to-broker", "server")

    # ---- clients ----

    def kill_client(self, dice):
        client = dice.choice(self.loads).client
        with self.fault("kill-client", "-", 0, f"client={client.actor}"):
            if not client.over:
                self.world.kill(client)

    def stop_client(self, dice):
        load = dice.choice(self.loads)
        client = load.client
        load.write_late(WRITES_LATE)
        self.over.wait(STOPPED_AFTER)
        with self.fault("stop-client", "a", "-", f"client={client.actor}", after=LATE):
            if client.pause():
                self.last(dice, 0, 2 * LEASE)
                client.go_on()

    def step_clock(self, dice):
        daemon, target = self.daemon(dice)
        with self.fault("step-clock", "-", 0, target):
            self.world.step_clock(daemon, dice.randrange(-DAY, DAY))

    # ---- queues ----

    def delete_holder_queue(self, dice):
        """By hand, of a long hold. B can be made durable before the daemon asks for it. Then the hold goes on until a
        rival has B."""
        # By quorum an administrator does it to semaphores, as this is the slot, too.
        while not (held := [long for long in [load.long for load in self.loads] if long and
                            (long[0].way != QUORUM or long[0].kind == "mutex")]):
            if self.over.wait(0.05):
                return
        lock, slot = dice.choice(held)
        # Without its durable B a slot is held by queue until fsck makes one. If a slot is held by queue and its way changes
        # then, the daemon finds the durable B, and the hold goes on.
        longest = GRACE_OF_MUTEX if lock.way == QUORUM else KEEPALIVE + LATE if lock.way != EITHER else "-"
        with self.fault("delete-holder-queue", "c", longest, f"slot={lock.name}/{slot}", after="-"):
            self.world.delete_queue(lock.holder_queue(slot))
