#!/usr/bin/python3
"""The adapter of the semaphore of seeds/002: a queue with a message for each slot. A holder is a consumer that has a
message and acknowledges nothing. A channel belongs to each acquire.

	seeds002.py URL [no-verify] [ignores-loss]
"""

import pika
from adapter import Hold, main
from pika_service import PikaService

# How long a try waits for a message, seconds.
PATIENCE = 0.02


class Seeds002(PikaService):
    def __init__(self, url, _options):
        super().__init__(pika.BlockingConnection(pika.URLParameters(url + "?heartbeat=10")))
        self.channels, self.tokens = {}, {}  # by ID

    def create(self, name, slots):
        channel = self.connection.channel()
        channel.confirm_delivery()
        channel.queue_declare(name, durable=True)
        for _ in range(slots):
            channel.basic_publish("", name, b"", pika.BasicProperties(delivery_mode=2), mandatory=True)
        channel.close()
        return slots

    def acquire(self, name, kind, ident):
        if ident not in self.channels:
            self.channels[ident] = channel = self.connection.channel()
            channel.basic_qos(prefetch_count=1)
            channel.basic_consume(name, lambda channel, method, *_: self.tokens.update({ident: method.delivery_tag}))
            self.connection.process_data_events(PATIENCE)
        return Hold(name, "-", token=ident) if ident in self.tokens else None

    def withdraw(self, ident):
        self.channels.pop(ident).close()
        self.tokens.pop(ident, None)

    def verify(self, hold):
        """Only that the channel is open: RabbitMQ cannot be asked."""
        self.connection.process_data_events(0)
        return self.channels[hold.token].is_open

    def release(self, hold):
        self.channels[hold.token].basic_reject(self.tokens[hold.token], requeue=True)
        self.withdraw(hold.token)


if __name__ == "__main__":
    main(Seeds002)
