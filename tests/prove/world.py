"""The servers of a run of the prover, and its locks: RabbitMQ, and three daemons, each behind proxies.

	with World(record) as world:
		daemon = world.daemons[1]	# Daemon number 1
		for proxy in world.proxies[1]:	# to each node that it can use

CLUSTER=1 in the environment: three nodes with PARTITIONS=ignore, pause_minority or autoheal. Each daemon prefers a node
of its own. Run it from cluster.enter_machine(). Otherwise there is one node.
"""

import contextlib
import glob
import os
import random
import re
import shutil
import threading
import time
from typing import NamedTuple

from cluster import Cluster, Network
from daemon import UNTESTED, WAYS, Daemon
from driver import Client, command
from proxy import Proxy
from rabbit import Rabbit, RabbitError
from store import Store
from wait import wait_until
from wire import Closed, Wire, WireError

CLUSTER = bool(os.environ.get("CLUSTER"))
PARTITIONS = os.environ.get("PARTITIONS", "pause_minority")
KHEPRI = os.environ.get("RABBITMQ_KHEPRI", "0") != "0"
DAEMONS = (1, 2, 3)
HEARTBEAT = 3 if CLUSTER else 2
# A node counts as dead after this silence, a quarter more or less. Leases end before that (docs/SAFETY.md).
NET_TICKTIME = 3 * HEARTBEAT
# Nodes that do not meet so soon need an operator.
MEET = 4 * NET_TICKTIME
# Nodes that hear each other again, and know for so long that they did not, need one, too. RabbitMQ ends a partition by
# itself under autoheal alone: under pause_minority a node that stopped does not know of a partition.
PARTED = MEET if PARTITIONS == "autoheal" else 5
RESCAN = 0.5
# Of docs/SAFETY.md, with this heartbeat: the default margin, and "Takeover time".
LEASE = 2 * HEARTBEAT - HEARTBEAT / 5
TAKEOVER = 3 * HEARTBEAT + RESCAN
KEEPALIVE = HEARTBEAT / 3
REQUEST_TIMEOUT = 2 * HEARTBEAT
# How much later than published a client may hear of something, because the machine is busy.
LATE = float(os.environ.get("PROVE_LATE", "1"))
OPTIONS = ("--heartbeat", str(HEARTBEAT), "--rescan-interval", str(RESCAN), "--request-timeout", str(REQUEST_TIMEOUT),
           "--probe-timeout", "1", "--connect-timeout", "3", "--stop-timeout", "1", *UNTESTED)
# A command of an administrator is answered by then, also if its daemon or the broker is harmed meanwhile.
ANSWERED = 120 if CLUSTER else 60
UP = 90
UNLED = 30  # a queue without a leader for so long, though all nodes run, is lost
EVALS = 10  # tries
QUORUM, EITHER = "quorum", "either"  # ways
# Those of this run, and those between which a lock changes.
ALL_WAYS = WAYS if len(WAYS) == 1 else (*WAYS, QUORUM)
CHANGING_WAYS = WAYS
# So much longer a command can take, if it waits for the T of a record that fsck has made anew (docs/PROOF.md).
LONGEST_GRACE = 300 if QUORUM in ALL_WAYS else 0
# T of semaphores, and of mutexes, which cannot choose it (docs/QUORUM.md).
GRACE, GRACE_OF_MUTEX = 5, 20
SLOTS_BY_QUORUM = "lockbroker=q="
MEMORY_IS_ENOUGH = "vm_memory_monitor:set_vm_memory_high_watermark(0.4)."
DISK_IS_ENOUGH = 'rabbit_disk_monitor:set_disk_free_limit("1MB").'
# None: it is not installed (Debian: libfaketime), and wall clocks do not step.
FAKETIME = next(iter(glob.glob("/usr/lib/*/faketime/libfaketime.so.1")), None)
# The directory, the records, the inboxes of daemons that run, and queues of mutexes, which go by themselves.
LEFT_ALONE = re.compile(rf"lockbroker=(?!q=)|{SLOTS_BY_QUORUM}[^=]*$|.*-M$")
# For each slot by quorum, and for the records: Ra is its Ra cluster. A queue that has no leader now is left out.
EACH_BY_QUORUM = """
    [case catch ra:members({{Ra, node()}}, 2000) of {{ok, Members, Leader}} -> {act}; _ -> ok end
     || Queue <- rabbit_amqqueue:list(<<"/">>), {{Ra, _}} <- [amqqueue:get_pid(Queue)],
        lists:prefix("lockbroker=q", binary_to_list(element(4, amqqueue:get_name(Queue))))], done."""
MOVE = EACH_BY_QUORUM.format(act="""case Members -- [Leader] of
        [] -> ok;
        Others -> catch ra:transfer_leadership(Leader, lists:nth(rand:uniform(length(Others)), Others)) end""")
REBALANCE = 'rabbit_amqqueue:rebalance(quorum, <<".*">>, <<".*">>).'
# Members of all queues. An operator adds them after a node has joined.
SHRINK = "length(rabbit_quorum_queue:shrink_all('{}'))."
GROW = """length(rabbit_quorum_queue:grow('{}', <<"/">>, <<".*">>, all))."""
CLOSE_ALL = """
    [rabbit_networking:close_connection(Pid, <<"prover">>)
     || Pid <- rabbit_networking:connections(), node(Pid) =:= node()], done."""


class Lock(NamedTuple):
    """way: how its slots are held; EITHER: it changes. size: outside of changes."""
    name: str
    kind: str
    size: int
    way: str

    @property
    def slots(self):
        return range(1, self.size + 1)

    @property
    def takeover(self):
        grace = 0 if self.way != QUORUM else GRACE_OF_MUTEX if self.kind == "mutex" else GRACE
        return TAKEOVER + grace

    def holder_queue(self, slot):
        if self.way == QUORUM:
            return f"{SLOTS_BY_QUORUM}{self.name}" + ("" if self.kind == "mutex" else f"={slot}")
        return f"{self.name}-M" if self.kind == "mutex" else f"{self.name}-{slot}-B"


def locks():
    """Of all kinds, and of all ways, unless CLAIM chooses one. Those that can be held in either of two ways show what happens
    when it changes. A mutex changes it by itself, as the daemons' settings differ."""
    either = WAYS[0] if len(WAYS) == 1 else EITHER
    made = [Lock("mutex-1", "mutex", 1, either), Lock("mutex-2", "mutex", 1, either)]
    if either == EITHER:
        made += [Lock("two-either", "semaphore", 2, either), Lock("persistent-either", "persistent-mutex", 1, either)]
    for way in ALL_WAYS:
        made += [Lock(f"three-{way}", "semaphore", 3, way), Lock(f"two-{way}", "semaphore", 2, way),
                 Lock(f"persistent-{way}", "persistent-mutex", 1, way)]
    return made


class World:
    def __init__(self, record):
        self.record = record
        self.store = Store(record)
        self.locks = locks()
        self.semaphores = [lock for lock in self.locks if lock.kind != "mutex"]
        self.cleanups = []
        self.whole = threading.RLock()  # all nodes run, hear each other, and are let alone
        self.hosts, self.nodes, self.proxies, self.daemons = None, {}, {}, {}

    def start(self):
        if CLUSTER:
            self.hosts = Network()
            self.addCleanup(self.hosts.close)
            made = Cluster(self.hosts, partition_handling=PARTITIONS, khepri=KHEPRI, net_ticktime=NET_TICKTIME)
            self.nodes = made.nodes
        else:
            made = Rabbit()
            self.nodes = {"n1": made}
            made.start()
        self.addCleanup(made.close)
        for number in DAEMONS:
            self.proxies[number] = [Proxy(self, node.port, node.host.address) for node in self.preferred(number)]
            self.daemons[number] = self.make_daemon(number)
        self.wait_brokers()
        for lock in self.semaphores:
            # Each daemon makes some of them, so that the holder queues are not all on one node.
            self.create(lock)
        self.record.note("world", "prompt", REQUEST_TIMEOUT + LATE)
        for lock in self.locks:
            self.record.note("world", "size", lock.name, lock.size)
            self.record.note("world", "way", lock.name, lock.way)

    def preferred(self, number):
        """The nodes, in the order in which this daemon tries them."""
        nodes = list(self.nodes.values())
        first = (number - 1) % len(nodes)
        return nodes[first:] + nodes[:first]

    def make_daemon(self, number):
        daemon = Daemon(self, *OPTIONS, "--claim", WAYS[number % len(WAYS)], start=False, expect=[".*"],
                        broker=[f"amqp://guest:guest@127.0.0.1:{proxy.port}" for proxy in self.proxies[number]])
        daemon.clock = os.path.join(daemon.dir, "clock")
        daemon.env.update(self.clock(daemon))
        self.step_clock(daemon, 0)
        daemon.start()
        return daemon

    def listens(self, number):
        return self.daemons[number].listens()

    def connect(self, number, actor, heard, *options):
        """A Client of that daemon."""
        daemon = self.daemons[number]
        return Client(self.record, actor, command("lockbroker", daemon.socket, *options), [f"daemon={number}"], heard,
                      self.clock(daemon), self.store)

    # ---- the wall clock of a daemon and its clients ----

    def clock(self, daemon):
        """The environment of a process whose wall clock can step. Its other clocks are the kernel's."""
        return {"LD_PRELOAD": FAKETIME, "FAKETIME_TIMESTAMP_FILE": daemon.clock, "FAKETIME_NO_CACHE": "1",
                "FAKETIME_DONT_FAKE_MONOTONIC": "1",
                "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"} if FAKETIME else {}

    @staticmethod
    def step_clock(daemon, seconds):
        with open(daemon.clock + ".new", "w", encoding="ascii") as file:
            file.write(f"{seconds:+}s\n")
        os.rename(daemon.clock + ".new", daemon.clock)

    @staticmethod
    def kill(process):
        """Kills a Daemon or a Client. libfaketime would have deleted its files at an orderly end."""
        pid = process.pid
        process.kill()
        for name in (f"faketime_shm_{pid}", f"sem.faketime_sem_{pid}"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"/dev/shm/{name}")

    # ---- requests, as an administrator ----

    def ask(self, method, dice=random, **params):
        """The result, from any daemon that answers. WireError."""
        while True:
            try:
                peer = Wire(dice.choice(list(self.daemons.values())).socket)
            except OSError:
                time.sleep(0.05)  # it is down
                continue
            try:
                return peer.call(method, within=ANSWERED + LONGEST_GRACE, **params)
            except (Closed, BrokenPipeError):
                pass
            finally:
                peer.hang_up()

    def create(self, lock):
        return self.ask("create", name=lock.name, kind=lock.kind, slots=lock.size, takeover_grace=GRACE,
                        claim=random.choice(CHANGING_WAYS) if lock.way == EITHER else lock.way)

    def wait_brokers(self):
        """Until each daemon has its broker again. Another fault can end the daemon meanwhile."""
        def is_up(daemon):
            try:
                daemon.wait_broker(1)
            except (OSError, Closed, AssertionError):
                return False
            return True
        for number, daemon in self.daemons.items():
            wait_until(lambda one=daemon: is_up(one), UP, f"daemon {number} has its broker")

    # ---- the broker ----

    def eval(self, expressions, check=True):
        """erl_call can fail to connect on a busy machine."""
        with self.whole:
            for _ in range(EVALS if check else 0):
                with contextlib.suppress(RabbitError):
                    return self.nodes["n1"].eval(expressions)
            return self.nodes["n1"].eval(expressions, check=check)

    def delete_queue(self, queue):
        """By hand, even if it is in use. It may be missing, or go at this moment."""
        self.eval(f"""
            {{ok, Queue}} = rabbit_amqqueue:lookup(rabbit_misc:r(<<"/">>, queue, <<"{queue}">>)),
            rabbit_amqqueue:delete(Queue, false, false, <<"prover">>).""", check=False)

    def connections(self, number):
        """The broker's connections of a daemon."""
        ports = {str(pair.server.getsockname()[1]) for proxy in self.proxies[number] for pair in list(proxy.pairs)
                 if pair.server.fileno() >= 0}
        rows = self.eval("""
            [io:format("~s ~b~n", [rabbit_misc:pid_to_string(Pid), Port])
             || [{pid, Pid}, {peer_port, Port}] <- rabbit_networking:connection_info_all([pid, peer_port])],
            done.""").splitlines()[:-1]
        return [pid for pid, port in map(str.split, rows) if port in ports]

    def close_connection(self, pid):
        """It may be gone."""
        self.eval(f"""rabbit_networking:close_connection(rabbit_misc:string_to_pid("{pid}"), <<"prover">>).""", check=False)

    # ---- the cluster ----

    def grow(self):
        """Each node is a member of each quorum queue. One that was made while a node was away has fewer."""
        for node in self.nodes.values():
            self.eval(GROW.format(node.node), check=False)


    def make_whole(self, suspect, fault=contextlib.nullcontext):
        """Ends partitions, as an operator does. Returns when all nodes are members again. suspect: the node to restart
        if RabbitMQ does not end the partition by itself. fault: makes the context of a restart."""
        self.hosts.heal()
        for name in (suspect, *self.nodes):
            if self.meet(MEET):
                return
            with fault():
                self.nodes[name].stop()
                self.nodes[name].start()
        if not self.meet(UP):
            raise AssertionError(f"the nodes do not meet within {UP} s")

    def meet(self, within):
        """Whether they do in time. False at once if RabbitMQ leaves a partition to the operator."""
        began, parted = time.monotonic(), 0
        while (now := time.monotonic()) < began + within:
            states = {self.state(node) for node in self.nodes.values()}
            if states == {"whole"}:
                return True
            parted = (parted or now) if states <= {"whole", "parted"} else 0
            if parted and now > parted + PARTED:
                return False
            time.sleep(0.2)
        return False

    def meets(self, name, other):
        """Whether one node reaches the other one, now that it tries."""
        return "pong" in self.nodes[name].eval(f"net_adm:ping('{self.nodes[other].node}').", check=False)

    def state(self, node):
        """whole, parted: it hears the others, and knows that it did not; or away."""
        if node.pid is None:
            node.start()
        others = ",".join(f"'{other.node}'" for other in self.nodes.values() if other is not node)
        return node.eval(f"""
            case {{[net_adm:ping(N) || N <- [{others}]], rabbit:is_running(), catch rabbit_node_monitor:partitions()}} of
                {{[pong, pong], true, []}} -> whole;
                {{[pong, pong], true, {{'EXIT', {{undef, _}}}}}} -> whole;
                {{[pong, pong], true, _}} -> parted;
                _ -> away end.""", check=False) or "away"

    def lose_disk(self, name):
        """Kills the node. The others forget it, and it joins anew. It is not n1, which has nothing to join."""
        node = self.nodes[name]
        node.kill()
        shutil.rmtree(os.path.join(node.directory, "mnesia"))
        os.makedirs(os.path.join(node.directory, "mnesia"))
        # It fails if a quorum queue has no leader at this moment. Then grow() finds a member that knows nothing.
        self.nodes["n1"].ctl("forget_cluster_node", node.node, check=False)

    # ---- the end ----

    def heal(self):
        """Ends what is left of the faults."""
        for proxies in self.proxies.values():
            for proxy in proxies:
                proxy.mend()
        for node in self.nodes.values():
            if node.pid is None:
                node.start()
            node.thaw()
        if CLUSTER:
            self.make_whole("n1")
        self.eval(MEMORY_IS_ENOUGH)
        self.eval(DISK_IS_ENOUGH)
        for daemon in self.daemons.values():
            if daemon.process is None:
                daemon.start()
            daemon.thaw()
        self.wait_brokers()

    def keep_logs(self, folder):
        """Those of the daemons and the nodes. The folder is made anew."""
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        for number, daemon in self.daemons.items():
            shutil.copy(os.path.join(daemon.dir, "log"), os.path.join(folder, f"daemon-{number}"))
        for name, node in self.nodes.items():
            shutil.copy(os.path.join(node.directory, "log/node.log"), os.path.join(folder, name))

    def wrong(self, *words):
        self.record.note("world", "wrong", " ".join(map(str, words)).replace("\n", " | "))

    def repair(self, lock):
        """After the last fault: the semaphore has its size again."""
        self.record.note("world", "sizing", lock.name, lock.size)
        since = {}
        wait_until(lambda: self.try_to_repair(lock, since), UP + LONGEST_GRACE, f"{lock.name} is repaired")
        self.record.note("world", "size", lock.name, lock.size)

    def try_to_repair(self, lock, since):
        """since: {slot: since when each fsck finds it unreachable}."""
        try:
            found = self.ask("fsck", name=lock.name, repair=True)["findings"]
            now, unled = time.monotonic(), [one["slot"] for one in found if one["problem"] == "unreachable"]
            for slot in {*since} - {*unled}:
                del since[slot]
            for slot in unled if lock.way == QUORUM else ():
                if since.setdefault(slot, now) < now - UNLED:
                    self.delete_lost(lock, since, slot)
            # A resize to the size that it has does not touch such a slot.
            return not since and self.ask("resize", name=lock.name, slots=lock.size,
                                          **({"claim": lock.way} if lock.way != EITHER else {}))
        except WireError as error:
            missing = error.reason == "no-such-lock"
        try:
            return missing and self.create(lock)
        except WireError:
            return False

    def delete_lost(self, lock, since, slot):
        """As an operator does, if all nodes run and no node leads a queue: RabbitMQ has lost its files (docs/QUORUM.md). It is a
        fault, and not of the nemesis: the result names it."""
        number = f"lost-{lock.name}-{slot}-{since.pop(slot)}"
        self.record.note("world", "begin", number, "lost-queue", "c", GRACE, 2 * GRACE, f"slot={lock.name}/{slot}")
        self.delete_queue(lock.holder_queue(slot))
        self.record.note("world", "end", number)

    def try_to_destroy(self, lock):
        try:
            self.ask("fsck", name=lock.name, repair=True)
            return self.ask("destroy", name=lock.name, wait=TAKEOVER)
        except WireError as error:
            if not error.retry:
                raise
            return False  # the broker was slow

    def look_for_leftovers(self):
        """After all clients have left."""
        for number, daemon in self.daemons.items():
            def busy(peer=Wire(daemon.socket)):
                counts = peer.call("info")["counts"]
                return {word: counts[word] for word in ("holds", "waiting", "in_flight") if counts[word]}
            try:
                wait_until(lambda: not busy(), TAKEOVER)
            except AssertionError:
                self.wrong(f"daemon {number} has {busy()}")
        for lock in self.semaphores:
            wait_until(lambda: self.try_to_destroy(lock), UP + LONGEST_GRACE, f"{lock.name} is destroyed")

        def left():
            return [name for name in self.nodes["n1"].queues() if not LEFT_ALONE.match(name)]
        try:
            # After a fault of the network, a channel can hang in RabbitMQ for a minute.
            wait_until(lambda: not left(), UP if CLUSTER else TAKEOVER)
            wait_until(lambda: not self.nodes["n1"].slots_held(), TAKEOVER + GRACE_OF_MUTEX)
        except AssertionError:
            self.wrong("queues are left:", left(), "and held:", self.nodes["n1"].slots_held())

    def addCleanup(self, function, *args):
        self.cleanups.append((function, args))

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exc):
        for function, args in reversed(self.cleanups):
            try:
                function(*args)
            except (AssertionError, RabbitError, OSError) as error:
                self.wrong(error)
