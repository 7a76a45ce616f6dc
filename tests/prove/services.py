#!/usr/bin/env python3
"""Counts lost updates of other services: their clients are paused and killed, and so are the services (docs/PROOF.md).

	services.py [--minutes N] [--seed S] [--history FILE] [SERVICE...]

A SERVICE is redis, etcd or flock. The clients are those of prove.py, and they write to the same store: with a fence, if their
service has one. The record of each is FILE-SERVICE.
"""

import argparse
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../harness"))

from check import report
from clients import Load
from driver import Client, command
from history import History
from nemesis import STOPPED_AFTER, WRITES_LATE
from prove import prove
from rabbit import free_ports
from store import Store
from wait import wait_until
from world import LATE, Lock

CLIENTS = 9
LOCKS = 2
PAUSE = 2  # seconds, at most, between two faults
PATIENCE = 20  # seconds, until a client holds a lock for long
PAUSED = 5, 20  # seconds: most are longer than a lease, which is 5 s or 10 s


class Service:
    """Clients connect to it, as to a World. It has no administrators."""

    def __init__(self, name, record, folder):
        self.name, self.record, self.folder = name, record, folder
        self.store = Store(record)
        self.locks = [Lock(f"{name}-{number}", "mutex", 1, name) for number in range(LOCKS)]
        self.server, options = SERVERS[name]
        self.port, other = free_ports(2)
        self.command = [self.server, *options(folder, self.port, other)] if self.server else None  # flock is the kernel's
        self.process = None
        self.start()
        for lock in self.locks:
            record.note("world", "size", lock.name, 1)
            record.note("world", "way", lock.name, name)

    def start(self):
        if self.command:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                            stderr=subprocess.DEVNULL)
            wait_until(lambda: self.listens(0), what=f"{self.server} listens")

    def listens(self, _number):
        if not self.command:
            return True
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", self.port)) == 0

    def connect(self, number, actor, heard, *options):
        address = f"127.0.0.1:{self.port}" if self.command else self.folder
        return Client(self.record, actor, command(self.name, address, *options), [f"daemon={number}"], heard, store=self.store)

    def kill(self, process):
        process.kill()
        if process is self.process:
            process.wait()

    def wrong(self, *words):
        self.record.note("world", "wrong", " ".join(map(str, words)))


def redis(folder, port, _other):
    return ["--bind", "127.0.0.1", "--port", str(port), "--appendonly", "yes", "--dir", folder]


def etcd(folder, port, other):
    url, peers = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{other}"
    return ["--data-dir", f"{folder}/etcd", "--listen-client-urls", url, "--advertise-client-urls", url, "--listen-peer-urls",
            peers, "--initial-advertise-peer-urls", peers, "--initial-cluster", f"default={peers}"]


SERVERS = {"redis": ("redis-server", redis), "etcd": ("etcd", etcd), "flock": (None, None)}


class Harm:
    """Its faults, until it is told to stop."""

    def __init__(self, service, loads, dice):
        self.service, self.loads, self.dice, self.record = service, loads, dice, service.record
        self.count = 0

    def fault(self, kind, case, target, act):
        self.count += 1
        number = self.count
        self.record.note("nemesis", "begin", number, kind, case, "-", "-", target)
        act()
        self.record.note("nemesis", "end", number)

    def rest(self, least, most):
        time.sleep(self.dice.uniform(least, most))

    def stop_client(self):
        """One that holds a lock for long. It is about to write."""
        until = time.monotonic() + PATIENCE
        while not (held := [load for load in self.loads if load.long]) and time.monotonic() < until:
            time.sleep(0.02)
        load = self.dice.choice(held or self.loads)
        client = load.client
        load.write_late(WRITES_LATE)
        time.sleep(STOPPED_AFTER)

        def act():
            if client.pause():
                self.rest(*PAUSED)
                client.go_on()
        self.fault("stop-client", "a", f"client={client.actor}", act)

    def kill_client(self):
        client = self.dice.choice(self.loads).client
        self.fault("kill-client", "-", f"client={client.actor}", client.kill)

    def kill_service(self):
        def act():
            self.service.kill(self.service.process)
            self.rest(0, 1)
            self.service.start()
        self.fault("kill-service", "g", "all", act)

    def stop_service(self):
        def act():
            self.service.process.send_signal(signal.SIGSTOP)
            self.rest(*PAUSED)
            self.service.process.send_signal(signal.SIGCONT)
        self.fault("stop-service", "g", "all", act)

    def work(self, until):
        faults = [self.stop_client] * 3 + [self.kill_client] + [self.kill_service, self.stop_service] * bool(self.service.process)
        while time.monotonic() < until:
            for fault in self.dice.sample(faults, len(faults)):
                fault()
                self.rest(0, PAUSE)


def run(name, path, seed, minutes):
    record = History(path)
    folder = tempfile.mkdtemp(prefix="lb-services-")
    service = Service(name, record, folder)
    try:
        record.note("world", "prompt", 60 + LATE)
        loads = [Load(service, number, seed) for number in range(1, CLIENTS + 1)]
        for load in loads:
            load.start()
        wait_until(lambda: all(load.client for load in loads), 60)
        Harm(service, loads, random.Random(f"{seed} {name}")).work(time.monotonic() + 60 * minutes)
        for load in loads:
            load.stopping.set()
        for load in loads:
            load.join(120)
    finally:
        if service.process:
            service.process.kill()
            service.process.wait()
        record.close()
        shutil.rmtree(folder, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--history", default="services-history")
    parser.add_argument("services", nargs="*", default=list(SERVERS))
    options = parser.parse_args()
    sys.setswitchinterval(0.001)
    threads = [threading.Thread(target=run, args=(name, f"{options.history}-{name}", options.seed, options.minutes))
               for name in options.services]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = 0
    for name in options.services:
        check, lines = prove(f"{options.history}-{name}")
        found += len(check.violations)
        print(f"{name}, seed {options.seed}\n" + "\n".join(report(check, lines)), flush=True)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
