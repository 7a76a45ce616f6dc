"""The faults of a run. docs/SAFETY.md says which of them may cause an overlap, and for how long.

The nemesis has several hands, which work at the same time. Each deals its faults in a random order, and then again. A
fault is a generator:

	def kill_daemon(self, dice):
		yield "kill-daemon", "e", LATE, "daemon=1"	# its kind, case, longest overlap, and targets
		daemon.kill()					# it begins
		yield						# other hands may begin another fault
		daemon.start()					# it ends
"""

import contextlib
import itertools
import os
import random
import signal
import threading

from world import CLUSTER, DAEMONS, FAKETIME, HEARTBEAT, KEEPALIVE, LEASE, NET_TICKTIME, WAYS

# How much later than published a client may hear of a loss, because the machine is busy.
LATE = float(os.environ.get("PROVE_LATE", "1"))
NODE_PAUSES = 7  # a pause after a fault of the node is so much longer: nothing happens without it
NOISE = 64  # bytes
DAY = 86400


class Nemesis:
    """loads: of clients.py. pause: at most, between two faults of one hand, seconds. rounds: 1: each fault once. None:
    until it is told to stop."""

    def __init__(self, world, loads, seed, pause, rounds=None):
        self.world, self.loads, self.seed, self.pause, self.rounds = world, loads, seed, pause, rounds
        self.record = world.record
        self.numbers = itertools.count(1)
        self.turn = threading.Lock()
        self.active = set()  # numbers of faults that can delay the news of a loss
        self.stopping, self.over = threading.Event(), threading.Event()
        faults = {"node": [self.kill_node, self.stop_node, self.restart_node, self.memory_alarm, self.disk_alarm],
                  "cluster": [self.reboot_node, self.lose_disk, self.partition, self.hears_nothing, self.is_not_heard,
                              self.one_link, self.reset, self.reset_one_side],
                  "daemon": [self.kill_daemon, self.stop_daemon, self.restart_daemon, self.close_connection, self.cut,
                             self.blackhole, self.mute_to_daemon, self.mute_to_broker, self.end_at_daemon,
                             self.end_at_broker, self.delay, self.trickle, self.noise_to_daemon, self.noise_to_broker],
                  "client": [self.kill_client, self.stop_client] + [self.step_clock] * bool(FAKETIME),
                  "queue": [self.delete_holder_queue]}
        of_cluster = faults.pop("cluster")
        if CLUSTER:
            faults["node"] += of_cluster
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
        for fault in self.deck(dice, faults, self.stopping):
            try:
                (self.play_beside if name == "client" else self.play)(fault(dice))
            except Exception as error:  # pylint: disable=broad-except
                self.world.wrong(fault.__name__, repr(error))
            self.stopping.wait(dice.uniform(0, self.pause * (NODE_PAUSES if name == "node" else 1)))
        self.idle.release()
        self.over.wait()  # a node ends with the thread that started it

    def deck(self, dice, cards, stopping):
        """Each of them in a random order, and again."""
        for _ in itertools.count() if self.rounds is None else range(self.rounds):
            for card in dice.sample(cards, len(cards)):
                if stopping.is_set():
                    return
                yield card

    def play(self, steps):
        """A fault. If it may cause an overlap that is shorter than the lease, no other fault begins meanwhile. If
        another one is in effect already, the overlap can be as long as the lease."""
        with contextlib.ExitStack() as stack:
            with self.turn:
                step = next(steps, None)
                if step is None:
                    return
                kind, case, longest, *targets = step
                if case in "cde" and self.active:
                    longest = max(longest, LEASE + LATE)
                number = stack.enter_context(self.fault(kind, case, longest, "-" if case == "c" else longest, *targets))
                self.active.add(number)
                stack.callback(self.active.discard, number)
                next(steps, None)
                if case in "cde" and longest < LEASE:
                    self.over.wait(longest)
            for _ in steps:
                pass

    def play_beside(self, steps):
        """A fault of a client. It makes no other overlap longer."""
        kind, case, after, *targets = next(steps)
        with self.fault(kind, case, "-", after, *targets):
            for _ in steps:
                pass

    @contextlib.contextmanager
    def fault(self, kind, case, longest, after, *targets):
        number = next(self.numbers)
        self.record.note("nemesis", "begin", number, kind, case, longest, after, *targets)
        try:
            yield number
        finally:
            self.record.note("nemesis", "end", number)

    def last(self, dice, least, most):
        """The fault is in effect for so many seconds; in a short run for less."""
        self.over.wait(dice.uniform(least, most) * (0.5 if self.rounds else 1))

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
            self.world.make_whole(name)
        self.world.wait_brokers()

    def kill_node(self, dice, kind="kill-node", most=2 * HEARTBEAT):
        name, node = self.node(dice)
        yield kind, "d", LATE, *self.everybody()
        with self.world.whole:
            node.kill()
            yield
            self.last(dice, 0, most)
            self.come_back(name)

    def restart_node(self, dice):
        name, node = self.node(dice)
        yield "restart-node", "d", LATE, *self.everybody()
        with self.world.whole:
            node.stop()
            yield
            self.come_back(name)

    def stop_node(self, dice):
        name, node = self.node(dice)
        yield "stop-node", "-", 0, *self.everybody()
        with self.world.whole:
            node.freeze()
            yield
            self.last(dice, 0, 2 * LEASE)
            node.thaw()
            self.come_back(name)

    def alarm(self, dice, kind, how, back):
        yield kind, "-", 0, *self.everybody()
        self.world.ctl(*how)
        yield
        self.last(dice, 0, 2 * HEARTBEAT)
        self.world.ctl(*back)

    def memory_alarm(self, dice):
        yield from self.alarm(dice, "memory-alarm", ("set_vm_memory_high_watermark", "0.0000001"),
                              ("set_vm_memory_high_watermark", "0.4"))

    def disk_alarm(self, dice):
        yield from self.alarm(dice, "disk-alarm", ("set_disk_free_limit", "1000000GB"), ("set_disk_free_limit", "1MB"))

    # ---- a cluster ----

    def reboot_node(self, dice):
        """It is back before the others count it as dead."""
        yield from self.kill_node(dice, "reboot-node", 0)

    def lose_disk(self, dice):
        name, _ = self.node(dice, "n1")
        yield "lose-disk", "d", LATE, *self.everybody()
        with self.world.whole:
            self.world.lose_disk(name)
            yield
            self.come_back(name)

    def between_nodes(self, dice, kind, longest, harm):
        """longest: of an overlap by consumer. By queue it has no limit."""
        name, _ = self.node(dice)
        by = {way: [f"name={lock.name}" for lock in self.world.locks if lock.way == way] for way in WAYS}
        yield kind, "g" if longest else "-", longest, *by.get("consumer", ())
        with self.world.whole, self.fault(f"{kind}-by-queue", "g", "-", "-", *by.get("exclusive-queue", ())):
            harm(self.world.hosts, name, [other for other in self.world.nodes if other != name])
            yield
            self.last(dice, NET_TICKTIME / 2, 2 * NET_TICKTIME)
            self.come_back(name)

    def partition(self, dice):
        yield from self.between_nodes(dice, "partition", 0, lambda hosts, name, others: hosts.split([name], others))

    def hears_nothing(self, dice):
        yield from self.between_nodes(dice, "hears-nothing", 0, lambda hosts, name, others: [
            hosts.cut(other, name) for other in others])

    def is_not_heard(self, dice):
        yield from self.between_nodes(dice, "is-not-heard", 0, lambda hosts, name, others: [
            hosts.cut(name, other) for other in others])

    def one_link(self, dice):
        yield from self.between_nodes(dice, "one-link", LEASE + LATE, lambda hosts, name, others: hosts.split(
            [name], others[:1]))

    def reset(self, dice):
        yield from self.between_nodes(dice, "reset", LEASE + LATE, lambda hosts, name, others: hosts.break_off(
            [name], others))

    def reset_one_side(self, dice):
        """One side hears it, and the other one hears nothing."""
        def harm(hosts, name, others):
            for other in others:
                hosts.reject(name, other)
                hosts.cut(other, name)
        yield from self.between_nodes(dice, "reset-one-side", LEASE + LATE, harm)

    # ---- daemons ----

    def daemon(self, dice):
        """(Daemon, the target of its clients)."""
        number = dice.choice(DAEMONS)
        return self.world.daemons[number], f"daemon={number}"

    def kill_daemon(self, dice):
        daemon, target = self.daemon(dice)
        yield "kill-daemon", "e", LATE, target
        self.world.kill(daemon)
        yield
        self.last(dice, 0, 1)
        daemon.start()

    def restart_daemon(self, dice):
        daemon, target = self.daemon(dice)
        yield "restart-daemon", "-", 0, target
        daemon.stop()
        yield
        daemon.start()

    def stop_daemon(self, dice):
        daemon, target = self.daemon(dice)
        yield "stop-daemon", "-", 0, target
        daemon.freeze()
        yield
        self.last(dice, 0, 2 * LEASE)
        daemon.thaw()

    def close_connection(self, dice):
        number = dice.choice(DAEMONS)
        while not (pids := self.world.connections(number)):
            self.last(dice, 0, 1)
        yield "close-connection", "d", LATE, f"daemon={number}"
        self.world.ctl("close_connection", dice.choice(pids), "prover", check=False)  # it may be gone

    # ---- the network between a daemon and the broker ----

    def network(self, dice, kind, case, longest, harm, least=0.0, most=2 * LEASE):
        number = dice.choice(DAEMONS)
        yield kind, case, longest, f"daemon={number}"
        for proxy in self.world.proxies[number]:
            harm(proxy)
        yield
        self.last(dice, least, most)
        for proxy in self.world.proxies[number]:
            proxy.mend()

    def cut(self, dice):
        yield from self.network(dice, "cut", "d", LATE, lambda proxy: proxy.end("client", "server"), 0, 0)

    def blackhole(self, dice):
        yield from self.network(dice, "blackhole", "-", 0, lambda proxy: proxy.cut())

    def mute_to_daemon(self, dice):
        yield from self.network(dice, "mute-to-daemon", "-", 0, lambda proxy: proxy.mute("client"))

    def mute_to_broker(self, dice):
        yield from self.network(dice, "mute-to-broker", "-", 0, lambda proxy: proxy.mute("server"))

    def end_at_daemon(self, dice):
        yield from self.network(dice, "end-at-daemon", "-", 0, lambda proxy: proxy.end("client"))

    def end_at_broker(self, dice):
        yield from self.network(dice, "end-at-broker", "d", LEASE + LATE, lambda proxy: proxy.end("server"), LEASE)

    def delay(self, dice):
        seconds = dice.uniform(0.02, 0.5)
        yield from self.network(dice, "delay", "-", 0, lambda proxy: proxy.slow(seconds), 1)

    def trickle(self, dice):
        yield from self.network(dice, "one-byte-writes", "-", 0, lambda proxy: proxy.trickle(), 1)

    def noise(self, dice, kind, end):
        # The byte that ends each frame, 206, is not among them. The reader therefore finds that the frame is broken.
        noise = bytes(dice.randrange(206) for _ in range(NOISE))
        # It comes with the next answer to a keepalive at the latest.
        yield from self.network(dice, kind, "d", KEEPALIVE + LATE, lambda proxy: proxy.spoil(end, noise), 0, 0)

    def noise_to_daemon(self, dice):
        yield from self.noise(dice, "noise-to-daemon", "client")

    def noise_to_broker(self, dice):
        yield from self.noise(dice, "noise-to-broker", "server")

    # ---- clients ----

    def kill_client(self, dice):
        client = dice.choice(self.loads).client
        yield "kill-client", "-", 0, f"client={client.actor}"
        if not client.over:
            self.world.kill(client)

    def stop_client(self, dice):
        client = dice.choice(self.loads).client
        yield "stop-client", "a", LATE, f"client={client.actor}"
        if client.over:
            return
        os.kill(client.pid, signal.SIGSTOP)
        yield
        self.last(dice, 0, 2 * LEASE)
        os.kill(client.pid, signal.SIGCONT)

    def step_clock(self, dice):
        daemon, target = self.daemon(dice)
        yield "step-clock", "-", 0, target
        self.world.step_clock(daemon, dice.randrange(-DAY, DAY))

    # ---- queues ----

    def delete_holder_queue(self, dice):
        """By hand."""
        lock = dice.choice(self.world.locks)
        slot = dice.choice(lock.slots)
        yield "delete-holder-queue", "c", KEEPALIVE + LATE, f"slot={lock.name}/{slot}"
        self.world.delete_queue(lock.holder_queue(slot))
