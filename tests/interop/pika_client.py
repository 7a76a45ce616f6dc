"""Another client of the scheme: seeds/000 and the true mutex of seeds/003, step by step. It has another AMQP library
and one thread. It shares no code with lockbroker, and must not: the daemon has to work beside other clients.

	pika_client.py URL NAMING PROBES	# one object a line in, one a line out: {"do": "acquire", "name": "n"}
	pika_client.py URL NAMING PROBES hammer NAME SECONDS SEED BOLD	# prints its holds, as JSON

PROBES is publish or passive: how it asks whether a queue exists. NAMING is amqp-locks ({name}-{slot}-A) or
amqp-locks-python ({name}-A-{slot}). Runs under /usr/bin/python3, which has Debian's pika.
"""

import json
import random
import select
import sys
import time

import pika
from pika.exceptions import AMQPConnectionError, ChannelClosedByBroker, NackError, UnroutableError

RESOURCE_LOCKED = 405
NOT_FOUND = 404
MOST_RACES = 50  # "a maximum number of failed second-stage lock acquire attempts"


class Naming:
    def __init__(self, word):
        self.python = {"amqp-locks": False, "amqp-locks-python": True}[word]

    def a(self, name, slot):
        return f"{name}-A-{slot}" if self.python else f"{name}-{slot}-A"

    def b(self, name, slot):
        return f"{name}-B-{slot}" if self.python else f"{name}-{slot}-B"

    def admin(self, name):
        return name

    def mutex(self, name):
        return name if self.python else f"{name}-M"


class Client:
    def __init__(self, url, naming, probes="publish", heartbeat=600):
        """Its locks must not outlive it, nor may a busy machine end it: heartbeats are long."""
        self.naming = Naming(naming)
        self.exists = {"publish": self.exists_by_publishing, "passive": self.exists_passively}[probes]
        self.url = f"{url}?heartbeat={heartbeat}"
        self.connect()

    def connect(self):
        self.connection = pika.BlockingConnection(pika.URLParameters(self.url))
        self.open_channel()

    def open_channel(self):
        self.channel = self.connection.channel()
        self.channel.confirm_delivery()

    # ---- Determining Queue Existence ----

    def exists_by_publishing(self, queue):
        """With confirms: no channel breaks."""
        try:
            self.channel.basic_publish("", queue, b"", mandatory=True)
        except UnroutableError:
            return False
        except NackError:
            pass  # RabbitMQ 4.3 says so of a queue that is being deleted: not known, so it is taken
        return True

    def exists_passively(self, queue):
        """A channel breaks when there is none, or another has it. An alarm of RabbitMQ does not block it."""
        try:
            self.channel.queue_declare(queue, passive=True)
            return True
        except ChannelClosedByBroker as error:
            self.open_channel()
            if error.reply_code not in (NOT_FOUND, RESOURCE_LOCKED):
                raise
            return error.reply_code == RESOURCE_LOCKED

    def declare_exclusive(self, queue):
        """Whether it is ours now."""
        try:
            self.channel.queue_declare(queue, exclusive=True)
            return True
        except ChannelClosedByBroker as error:
            self.open_channel()
            if error.reply_code != RESOURCE_LOCKED:
                raise
            return False

    def publish(self, queue, text):
        """Publishes a message that the receiver does not expect."""
        self.channel.basic_publish("", queue, text.encode(), mandatory=True)

    def flood(self, queues, count, size):
        """So many messages in all, one queue after the other; how many of them the queues have rejected."""
        body, rejected = b"x" * size, 0
        for number in range(count):
            try:
                self.channel.basic_publish("", queues[number % len(queues)], body, mandatory=True)
            except NackError:
                rejected += 1
        return rejected

    def declare(self, queue, arguments=None):
        """Declares a queue, without arguments or with others than a daemon's."""
        self.channel.queue_declare(queue, durable=True, arguments=arguments)

    def purge(self, queue):
        self.channel.queue_purge(queue)

    def delete(self, queue):
        """By hand, as an administrator might."""
        self.channel.queue_delete(queue)

    # ---- Determining the Maximum Number of Slots ----

    def size(self, name):
        slots = 0
        while self.exists(self.naming.a(name, slots + 1)):
            slots += 1
        return slots

    # ---- Lock Administration: each under take_admin() ----

    def take_admin(self, name):
        return self.declare_exclusive(self.naming.admin(name))

    def drop_admin(self, name):
        self.channel.queue_delete(self.naming.admin(name))

    def create(self, name, slots, durable=True, arguments=None):
        for slot in range(1, slots + 1):
            self.channel.queue_declare(self.naming.a(name, slot), durable=durable,
                                       arguments=arguments)

    def add_to_the_letter(self, name, slots):
        """Adding Slots, as it is written: "declaring the `A` queue for C + X", and no other."""
        self.channel.queue_declare(self.naming.a(name, self.size(name) + slots), durable=True)

    def resize(self, name, slots):
        """Adding Slots, every one of them, as it must be meant; Removing Slots."""
        before = self.size(name)
        for slot in range(before + 1, slots + 1):
            self.channel.queue_declare(self.naming.a(name, slot), durable=True)
        for slot in range(before, slots, -1):
            self.channel.queue_delete(self.naming.a(name, slot))

    def destroy(self, name):
        self.resize(name, 0)

    # ---- Lock Clients ----

    def acquire_boldly(self, name, slot):
        """As if its probe had been too early to see a holder queue: it declares at once."""
        if not self.declare_exclusive(self.naming.b(name, slot)):
            return None
        if self.verify(name, slot):
            return slot
        self.release(name, slot)
        return None

    def acquire(self, name):
        """The slot; None: lock-acquire failure."""
        races, slot = 0, 1
        while races < MOST_RACES:
            if not self.exists(self.naming.a(name, slot)):
                return None
            if self.exists(self.naming.b(name, slot)):
                slot += 1
            elif self.declare_exclusive(self.naming.b(name, slot)):
                # "It is recommended that clients verify their held lock before returning success."
                if self.verify(name, slot):
                    return slot
                self.release(name, slot)
                return None
            else:
                races, slot = races + 1, 1
        return None

    def verify(self, name, slot):
        return self.exists(self.naming.a(name, slot))

    def release(self, name, slot):
        """Deleting B; to close the channel frees nothing, whatever the seed says."""
        self.channel.queue_delete(self.naming.b(name, slot))

    def held(self, name, slot):
        """Waiting on Lock Holders: whether somebody has the slot."""
        return self.exists(self.naming.b(name, slot))

    def acquire_mutex(self, name):
        return self.declare_exclusive(self.naming.mutex(name))

    def release_mutex(self, name):
        self.channel.queue_delete(self.naming.mutex(name))

    # ---- the hammer (tests/harness/hammer.py) ----

    def hang_up(self):
        """Its connection goes, and with it what it holds."""
        self.connection.close()
        self.connect()

    def hammer(self, name, seconds, seed, bold):
        """Acquires and releases until the time is over, or its input ends. Returns its holds as (from, to, slot)."""
        dice = random.Random(seed)
        until = time.monotonic() + seconds
        spans, refused, hung_up, revoked = [], 0, 0, 0
        while time.monotonic() < until and not select.select([sys.stdin], [], [], 0)[0]:
            slot = self.acquire_boldly(name, dice.randint(1, 3)) if bold else self.acquire(name)
            if slot is None:
                refused += 1
                time.sleep(dice.random() * 0.005)
                continue
            began = time.monotonic()
            time.sleep(dice.random() * 0.004)
            if not self.verify(name, slot):
                revoked += 1
            spans.append((began, time.monotonic(), slot))
            if dice.random() < 0.05:
                hung_up += 1
                self.hang_up()
            else:
                self.release(name, slot)
            # Others have a try: it polls, and would win every race.
            time.sleep(dice.random() * 0.004)
        self.connection.close()
        return {"spans": spans, "refused": refused, "hung_up": hung_up, "revoked": revoked}


def serve(client):
    for line in sys.stdin:
        words = json.loads(line)
        do = words.pop("do")
        try:
            answer = {"result": getattr(client, do)(**words)}
        except (AMQPConnectionError, ChannelClosedByBroker) as error:
            answer = {"error": repr(error)}
            if client.connection.is_open and not client.channel.is_open:
                client.open_channel()
        print(json.dumps(answer), flush=True)
    client.connection.close()


def main():
    client = Client(*sys.argv[1:4])
    if len(sys.argv) == 4:
        serve(client)
    else:
        name, seconds, seed, bold = sys.argv[5:]
        print("ready", flush=True)
        sys.stdin.readline()
        print(json.dumps(client.hammer(name, float(seconds), int(seed), bold == "1")))


if __name__ == "__main__":
    main()
