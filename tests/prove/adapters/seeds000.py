#!/usr/bin/python3
"""The adapter of a client of seeds/000, as the document has it: tests/interop/pika_client.py.

	seeds000.py URL [slow] [no-second-look] [no-verify] [ignores-loss]

slow: it pauses before each claim. no-second-look: it does not verify a slot that it has just claimed.
"""

import os
import random
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../interop"))
from adapter import Hold, main
from pika_client import Client
from pika_service import PikaService


class PausedClient(Client):
    """options: of the adapter."""

    options = ()
    acquires = False

    def declare_exclusive(self, queue):
        if "slow" in self.options:
            time.sleep(random.uniform(0, 0.1))
        return super().declare_exclusive(queue)

    def acquire(self, name):
        self.acquires = True
        try:
            return super().acquire(name)
        finally:
            self.acquires = False

    def verify(self, name, slot):
        return self.acquires and "no-second-look" in self.options or super().verify(name, slot)


class Seeds000(PikaService):
    def __init__(self, url, options):
        self.client = PausedClient(url, "amqp-locks", heartbeat=10)
        self.client.options = options
        self.mutexes = set()  # its connection could declare them again
        super().__init__(self.client.connection)

    def create(self, name, slots):
        self.client.create(name, slots)
        return slots

    def acquire(self, name, kind, ident):
        if kind != "mutex":
            slot = self.client.acquire(name)
            return slot and Hold(name, slot)
        if name in self.mutexes or not self.client.acquire_mutex(name):
            return None
        self.mutexes.add(name)
        return Hold(name, token="mutex")

    def verify(self, hold):
        if hold.token == "mutex":
            return self.client.exists(self.client.naming.mutex(hold.name))
        return self.client.verify(hold.name, hold.slot)

    def release(self, hold):
        if hold.token == "mutex":
            self.client.release_mutex(hold.name)
            self.mutexes.discard(hold.name)
        else:
            self.client.release(hold.name, hold.slot)


if __name__ == "__main__":
    main(Seeds000)
