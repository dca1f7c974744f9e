"""A client that sends each request once, to the node that it is told to, and tells what that node answered: no library that asks again stands
between. For what must be known of single requests: an error code, a time of sending, an answer that never came."""

import socket
import struct
import time

from suites_support import messages, raw_batches, wire
from suites_support.wire import text

# Kafka's retriable errors that a fault of the network or of another node may cause.
RETRIABLE = {
    5: "LEADER_NOT_AVAILABLE",
    6: "NOT_LEADER_OR_FOLLOWER",
    7: "REQUEST_TIMED_OUT",
    9: "REPLICA_NOT_AVAILABLE",
    19: "NOT_ENOUGH_REPLICAS",
    20: "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
    41: "NOT_CONTROLLER",
    74: "FENCED_LEADER_EPOCH",
    75: "UNKNOWN_LEADER_EPOCH",
    78: "OFFSET_NOT_AVAILABLE",
}
OFFSET_OUT_OF_RANGE = 1
# No answer: the connection was refused, broke, or nothing came in time.
SILENCE = None
_NO_OFFSET = -1


class PlainClient:
    """One connection to each node, made when it is needed. Whatever goes wrong with one, it is given up: an answer that comes late is nobody's.
    All methods give an error code, or SILENCE, first."""

    def __init__(self, nodes, seconds):
        self.nodes, self.seconds = nodes, seconds
        self.connections = {}

    def append(self, node, topic, partition, values, producer=raw_batches.NO_PRODUCER):
        """The code and the first offset of a batch of these values, `acks=all`. `producer` is its id, epoch and first sequence."""
        records = b"".join(raw_batches.record(value, delta) for delta, value in enumerate(values))
        batch = raw_batches.batch(records, len(values), producer=producer)
        answer = self._ask(node, messages.produce(topic, {partition: batch}, wait_ms=int(self.seconds * 1000)))
        return (SILENCE, _NO_OFFSET) if answer is None else messages.produced(answer, topic)

    def tail(self, node, topic, partition):
        """The code and the latest offset."""
        answer = self._ask(node, messages.list_offsets(topic, [partition]))
        return (SILENCE, _NO_OFFSET) if answer is None else messages.listed_offset(answer, topic)

    def read(self, node, topic, partition, offset, bytes_max=1 << 20):
        """The code, the tail that came with it, and (offset, value) of records from `offset` on. Batches of this client only: not compressed."""
        answer = self._ask(node, messages.fetch(topic, [(partition, offset)], 0, 0, bytes_max))
        if answer is None:
            return SILENCE, _NO_OFFSET, []
        code, tail, batches = messages.fetched(answer, topic)
        return code, tail, [each for each in raw_batches.values_in(batches) if each[0] >= offset]

    def leaders(self, node, topic):
        """The node that leads each partition, as its id, as `node` knows it; None if it does not answer, -1 for none."""
        answer = self._ask(node, messages.metadata([topic]))
        return None if answer is None else messages.leaders(answer)

    def producer_id(self, node):
        """The code, and the id and epoch of a new idempotent producer."""
        answer = self._ask(node, messages.init_producer_id())
        if answer is None:
            return SILENCE, _NO_OFFSET, _NO_OFFSET
        return struct.unpack_from(">hqh", answer, 4)

    def close(self):
        for node in list(self.connections):
            self._give_up(node)

    def _ask(self, node, request):
        limit = time.monotonic() + self.seconds
        try:
            connection = self._connection(node)
            connection.settimeout(max(0.001, limit - time.monotonic()))
            return wire.ask(connection, request)
        except OSError:
            self._give_up(node)
            return None

    def _connection(self, node):
        if node not in self.connections:
            host, port = self.nodes[node].kafka.split(":")
            self.connections[node] = socket.create_connection((host, int(port)), self.seconds)
        return self.connections[node]

    def _give_up(self, node):
        connection = self.connections.pop(node, None)
        if connection is not None:
            connection.close()


def name_of(code):
    """A code as people read it."""
    return "no answer" if code is SILENCE else RETRIABLE.get(code, f"error {code}")
