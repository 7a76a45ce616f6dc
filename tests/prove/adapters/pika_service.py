"""A Service over RabbitMQ by Debian's python3-pika."""

import select
import threading

from adapter import Service
from pika.exceptions import AMQPError


class PikaService(Service):
    """connection: a BlockingConnection. It keeps the heartbeats while the adapter waits."""

    ENDED = (OSError, AMQPError)

    def __init__(self, connection):
        self.connection = connection
        self.waits = threading.Event()
        threading.Thread(target=self.wake, daemon=True).start()

    def wake(self):
        """The connection hides its socket, so a thread looks at the input."""
        while True:
            self.waits.wait()
            self.waits.clear()
            select.select([0], [], [])
            try:
                self.connection.add_callback_threadsafe(lambda: None)
            except AMQPError:
                return  # the adapter hears of it, too

    def wait(self, seconds):
        self.waits.set()
        self.connection.process_data_events(time_limit=seconds)
