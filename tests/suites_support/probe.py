"""A well-behaved client beside the hostile ones: it appends one record after another."""

import threading

from confluent_kafka import Producer

from suites_support.load import client
from suites_support.suite import demand, wait_until

STALL_SECONDS = 60


class Probe:
    """Appends one by one, flushed, from a thread of its own until `finish`."""

    def __init__(self, node, topic):
        self.topic = topic
        settings = {**client(node), "linger.ms": 0, "acks": -1, "enable.idempotence": True, "message.timeout.ms": 0}
        self.producer = Producer(settings)
        self.appended = 0
        self.failure = None
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self._append, daemon=True)
        self.thread.start()

    def _append(self):
        try:
            while not self.stopping.is_set():
                self.producer.produce(self.topic, b"x" * 100, on_delivery=self._told)
                while len(self.producer):
                    self.producer.poll(1)
                self.appended += 1
        except Exception as error:
            self.failure = error

    def _told(self, error, _message):
        if error is not None:
            self.failure = error

    def measure(self, appends):
        """Waits for so many appends."""
        first = self.appended
        wait_until(lambda: self.failure or self.appended >= first + appends, STALL_SECONDS,
                   f"{appends} more appends of a client that does nothing wrong")
        demand(self.failure is None, f"the client that does nothing wrong was told: {self.failure}")

    def finish(self):
        """Ends; gives how many records were acknowledged."""
        self.stopping.set()
        self.thread.join()
        demand(self.failure is None, f"the client that does nothing wrong was told: {self.failure}")
        return self.appended
