"""The servers of a run of the prover, and its locks: one RabbitMQ node, and three daemons, each behind a proxy.

	with World(record, "run.faketime") as world:
		daemon = world.daemons[1]	# Daemon number 1, with its proxy
"""

import contextlib
import os
import random
import re
import threading
import time
from typing import NamedTuple

from daemon import WAYS, Daemon
from proxy import Proxy
from rabbit import Rabbit, RabbitError
from wait import wait_until
from wire import Closed, Wire, WireError

DAEMONS = (1, 2, 3)
HEARTBEAT = 2
RESCAN = 0.5
# Of docs/SAFETY.md, with this heartbeat: the default margin, and "Takeover time".
LEASE = 2 * HEARTBEAT - HEARTBEAT / 5
TAKEOVER = 3 * HEARTBEAT + RESCAN
KEEPALIVE = HEARTBEAT / 3
OPTIONS = ("--heartbeat", str(HEARTBEAT), "--rescan-interval", str(RESCAN), "--request-timeout", "4", "--probe-timeout", "1",
           "--connect-timeout", "3", "--stop-timeout", "1")
# A command of an administrator is answered by then, also if its daemon or the broker is harmed meanwhile.
ANSWERED = 60
UP = 60
FAKETIME = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1"
# The directory, the inboxes of daemons that run, and holder queues of mutexes, which go after a minute.
LEFT_ALONE = re.compile(r"lockbroker=|.*-M$")


class Lock(NamedTuple):
    """way: how its slots are held at first; None for a mutex. size: outside of changes."""
    name: str
    kind: str
    size: int
    way: str = None

    @property
    def slots(self):
        return range(1, self.size + 1)


def locks():
    """Of all kinds, and of both ways, unless CLAIM chooses one."""
    made = [Lock("mutex-1", "mutex", 1), Lock("mutex-2", "mutex", 1)]
    for way in WAYS:
        made += [Lock(f"three-{way}", "semaphore", 3, way), Lock(f"two-{way}", "semaphore", 2, way),
                 Lock(f"persistent-{way}", "persistent-mutex", 1, way)]
    return made


class World:
    def __init__(self, record):
        self.record = record
        self.locks = locks()
        self.cleanups = []
        self.node = threading.Lock()  # it runs, and is let alone
        self.faketime = os.path.exists(FAKETIME)
        self.rabbit, self.proxies, self.daemons = None, {}, {}

    def start(self):
        self.rabbit = Rabbit()
        self.addCleanup(self.rabbit.close)
        self.rabbit.start()
        for number in DAEMONS:
            self.proxies[number] = Proxy(self, self.rabbit.port)
            self.daemons[number] = self.make_daemon(number)
        self.wait_brokers()
        for lock in self.locks:
            if lock.way:
                self.ask("create", name=lock.name, kind=lock.kind, slots=lock.size, claim=lock.way)
            self.record.note("world", "size", lock.name, lock.size)

    def make_daemon(self, number):
        # If their settings differ, mutexes change their way.
        daemon = Daemon(self, *OPTIONS, "--claim", WAYS[number % len(WAYS)], start=False, expect=[".*"],
                        broker=f"amqp://guest:guest@127.0.0.1:{self.proxies[number].port}")
        daemon.clock = os.path.join(daemon.dir, "clock")
        daemon.env.update(self.clock(daemon))
        self.step_clock(daemon, 0)
        daemon.start()
        return daemon

    # ---- the wall clock of a daemon and its clients ----

    def clock(self, daemon):
        """The environment of a process whose wall clock can step. Its other clocks are the kernel's."""
        return {"LD_PRELOAD": FAKETIME, "FAKETIME_TIMESTAMP_FILE": daemon.clock, "FAKETIME_NO_CACHE": "1",
                "FAKETIME_DONT_FAKE_MONOTONIC": "1",
                "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"} if self.faketime else {}

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
                return peer.call(method, within=ANSWERED, **params)
            except Closed:
                pass
            finally:
                peer.hang_up()

    def wait_brokers(self):
        for daemon in self.daemons.values():
            daemon.wait_broker(UP)

    # ---- the broker ----

    def ctl(self, *words, check=True):
        with self.node:
            return self.rabbit.ctl(*words, check=check)

    def delete_queue(self, queue):
        """By hand, even if it is in use. It may be missing, or go at this moment."""
        self.ctl("eval", f"""{{ok, Queue}} = rabbit_amqqueue:lookup(rabbit_misc:r(<<"/">>, queue, <<"{queue}">>)),
                 rabbit_amqqueue:delete(Queue, false, false, <<"prover">>).""", check=False)

    def connections(self, number):
        """The broker's connections of a daemon."""
        ports = {str(pair.server.getsockname()[1]) for pair in list(self.proxies[number].pairs)
                 if pair.server.fileno() >= 0}
        rows = [row.split("\t") for row in self.ctl("list_connections", "--no-table-headers", "pid", "peer_port").splitlines()]
        return [row[0] for row in rows if row[-1] in ports]

    # ---- the end ----

    def heal(self):
        """Ends what is left of the faults."""
        for proxy in self.proxies.values():
            proxy.mend()
        if self.rabbit.pid is None:
            self.rabbit.start()
        self.rabbit.thaw()
        self.ctl("set_vm_memory_high_watermark", "0.4")
        self.ctl("set_disk_free_limit", "1MB")
        for daemon in self.daemons.values():
            if daemon.process is None:
                daemon.start()
            daemon.thaw()
        self.wait_brokers()

    def wrong(self, *words):
        self.record.note("world", "wrong", " ".join(map(str, words)).replace("\n", " | "))

    def repair(self, lock):
        """After the last fault: the semaphore has its size again."""
        self.record.note("world", "sizing", lock.name, lock.size)
        while True:
            try:
                self.ask("fsck", name=lock.name, repair=True)
                self.ask("resize", name=lock.name, slots=lock.size)
                break
            except WireError as error:
                if error.reason == "no-such-lock":
                    self.try_to_create(lock)
                elif not error.retry:
                    raise
        self.record.note("world", "size", lock.name, lock.size)

    def try_to_create(self, lock):
        try:
            self.ask("create", name=lock.name, kind=lock.kind, slots=lock.size, claim=lock.way)
        except WireError as error:
            if not error.retry and error.reason != "already-exists":
                raise

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
        for lock in self.locks:
            if lock.way:
                self.ask("fsck", name=lock.name, repair=True)
                self.ask("destroy", name=lock.name, wait=TAKEOVER)

        def left():
            return [queue for queue in self.ctl("list_queues", "--no-table-headers", "name").splitlines() if not LEFT_ALONE.match(queue)]
        try:
            wait_until(lambda: not left(), TAKEOVER)
            held = self.rabbit.holders()
            if [queue for queue in held if queue.endswith(("-B", "-M"))]:
                self.wrong("still held:", held)
        except AssertionError:
            self.wrong("queues are left:", left())

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
