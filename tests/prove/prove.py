#!/usr/bin/env python3
"""The prover: runs clients of three daemons while it harms them, and checks what the clients believed (docs/PROOF.md).

	prove.py [--minutes N] [--faults N] [--seed S] [--history FILE]

Without --minutes each fault occurs once. With --faults the run goes on until each has occurred so often. The seed determines what the clients and the nemesis draw, but not the times
at which things happen. CLAIM chooses how slots are held (tests/harness/daemon.py), and RABBITMQ_ROOT and RABBITMQ_KHEPRI
choose the broker (tests/harness/rabbit.py). With CLUSTER=1 it is a cluster (world.py). If there is a violation, the exit
status is 1.
"""

import argparse
import os
import random
import sys
import threading
import time
import traceback

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../harness"))

import cluster
import driver
from check import Check, report
from clients import CLIENTS, Administrator, Load, fill
from efficiency import measure
from history import History, read
from nemesis import Nemesis
from rabbit import version
from wait import wait_until
from world import CLUSTER, World

ADMINISTRATORS = 2
LIMIT = 600  # seconds for one round of all faults
PAUSE = 2  # seconds, at most, between two faults


def run(path, seed, minutes=None, faults=0, logs=None):
    """Leaves a record there, and the logs of the servers in that folder. Returns the lines about efficiency."""
    sys.setswitchinterval(0.001)
    record = History(path)
    with World(record) as world:
        threading.excepthook = lambda error: world.wrong(f"{error.thread.name}:", "".join(traceback.format_exception(
            error.exc_type, error.exc_value, error.exc_traceback)))
        loads = [Load(world, number, seed) for number in range(1, CLIENTS + 1)]
        for load in loads:
            load.start()
        wait_until(lambda: all(load.client for load in loads), LIMIT)
        nemesis = Nemesis(world, loads, seed, PAUSE if minutes else 0, once=not minutes)
        administrators = [Administrator(world, nemesis, number, world.semaphores[number::ADMINISTRATORS], seed, nemesis.pause)
                          for number in range(ADMINISTRATORS)]
        for one in (nemesis, *administrators):
            one.start()
        if minutes:
            time.sleep(60 * minutes)
            wait_until(lambda: min(nemesis.rounds.values()) >= faults, LIMIT * faults, f"each fault occurs {faults} times")
            for one in (nemesis, *administrators):
                one.stopping.set()
        if not nemesis.wait(LIMIT):
            world.wrong("a fault does not end")
        for one in administrators:
            one.join(LIMIT)
        try:
            efficiency = finish(world, loads)
        except Exception as error:  # pylint: disable=broad-except
            efficiency = []
            world.wrong("at the end:", repr(error))
        if logs:
            world.keep_logs(logs)
    nemesis.over.set()
    record.close()
    return efficiency


def finish(world, loads):
    """After the last fault."""
    world.heal()
    for lock in world.semaphores:
        world.repair(lock)
    for load in loads:
        load.stopping.set()
    for load in loads:
        load.join(LIMIT)
    fill(world)
    efficiency = list(measure(world))
    world.look_for_leftovers()
    return efficiency


def prove(path):
    """The verdict on a record: (Check, its lines)."""
    with open(path, encoding="utf-8") as file:
        lines = file.readlines()
    return Check(read(lines)), lines


def main():
    if (reason := driver.missing() or (CLUSTER and cluster.missing())):
        sys.exit(f"prove.py: {reason}")
    if CLUSTER:
        cluster.enter_machine()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--faults", type=int, default=0)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--history", default="prove-history")
    options = parser.parse_args()
    print(f"RabbitMQ {version()}, seed {options.seed}, record {os.path.abspath(options.history)}", flush=True)
    began = time.monotonic()
    efficiency = run(options.history, options.seed, options.minutes, options.faults, options.history + "-logs")
    print(f"{time.monotonic() - began:.0f} s")
    check, lines = prove(options.history)
    print("\n".join([*efficiency, *report(check, lines)]))
    sys.exit(1 if check.violations else 0)


if __name__ == "__main__":
    main()
