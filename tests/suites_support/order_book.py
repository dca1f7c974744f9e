"""The order of a topic as its node tells it by position: nothing of it ever changes, and it has all that the partitions have."""

import base64
import zlib

from suites_support.load import read_to_end
from suites_support.suite import Violation, demand

# The config of a topic that has one order.
TOTAL = {"ropewalk_order": "total"}
_AT_A_TIME = 5000
# Positions that are read again each time.
_AGAIN = 10_000


def _value_of(record):
    if "value_base64" in record:
        return base64.b64decode(record["value_base64"])
    return record["value"].encode()


class OrderBook:
    def __init__(self, topic):
        self.topic = topic
        # Of each position its partition, its offset, and the checksum of its value.
        self.known = []

    def read(self, node, everything=False):
        """Reads on from where the book ends, and some of what is in it once more; or all of it."""
        position = 0 if everything else max(0, len(self.known) - _AGAIN)
        while True:
            page = node.ask_http("GET", f"/v1/topics/{self.topic}/records?position={position}&limit={_AT_A_TIME}")
            for record in page["records"]:
                demand(record["position"] == position,
                       f"{self.topic}: position {record['position']} is told where {position} is next")
                self._note(position, (record["partition"], record["offset"], zlib.crc32(_value_of(record))))
                position += 1
            demand(page["next_position"] == position, f"{self.topic}: goes on at {page['next_position']} behind {position}")
            if position == page["ordered"]:
                demand(position >= len(self.known), f"{self.topic}: ends at {position}, and {len(self.known)} were told before")
                return

    def _note(self, position, told):
        if position == len(self.known):
            self.known.append(told)
        elif self.known[position] != told:
            raise Violation(f"{self.topic}: position {position} was {self.known[position]} and is {told}")

    def check(self, node, log):
        """Holds it against the partitions as they are read: each has exactly its records here, in the order of their offsets. And against the twin,
        which has all of them at their positions."""
        twin = [(offset, zlib.crc32(value)) for offset, value in read_to_end(node, f"{self.topic}@total", len(self.known))]
        there = [(position, checksum) for position, (_, _, checksum) in enumerate(self.known)]
        demand(twin == there, f"{self.topic}@total: {len(twin)} records, {len(there)} by position, or other ones")
        of_partitions = {}
        for partition, offset, checksum in self.known:
            of_partitions.setdefault(partition, []).append((offset, checksum))
        for (topic, partition), records in log.items():
            if topic == self.topic:
                told = of_partitions.get(partition, [])
                there = [(offset, zlib.crc32(value)) for offset, value in records]
                demand(told == there, f"{self.topic}/{partition}: {len(told)} records by position, {len(there)} by offset, "
                                      f"or other ones: {[pair for pair in zip(told, there) if pair[0] != pair[1]][:3]}")
        return len(self.known)
