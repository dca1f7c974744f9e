"""The order of a topic as its node tells it: nothing of it ever changes, and it has all that the partitions have."""

import zlib
from base64 import b64decode
from collections import defaultdict

from suites_support.ledger import author_of
from suites_support.load import read_to_end
from suites_support.suite import demand

# The config of a topic that has one order.
TOTAL = {"ropewalk_order": "total"}
# Positions that are read each time, up to the last one.
_LAST = 5000


def _value_of(record):
    return b64decode(record["value_base64"]) if "value_base64" in record else record["value"].encode()


class OrderBook:
    def __init__(self, topic):
        self.topic = topic
        # Of positions that were told: the partition, the offset, and the checksum of the value.
        self.known = {}
        self.tail = 0

    def read(self, node):
        """Takes note of what has the last positions now."""
        tail = node.ask_http("GET", f"/v1/topics/{self.topic}/cut")["position"]
        demand(tail >= self.tail, f"{self.topic}: ends at position {tail}, and was told to end at {self.tail} before")
        self.tail = tail
        position = max(0, tail - _LAST)
        while position < tail:
            page = node.ask_http("GET", f"/v1/topics/{self.topic}/records?position={position}")
            for record in page["records"]:
                demand(record["position"] == position, f"{self.topic}: position {record['position']} where {position} is next")
                told = (record["partition"], record["offset"], zlib.crc32(_value_of(record)))
                known = self.known.setdefault(position, told)
                demand(known == told, f"{self.topic}: position {position} was {known} and is {told}")
                position += 1
            demand(page["next_position"] == position, f"{self.topic}: goes on at {page['next_position']} behind {position}")

    def check(self, node, log):
        """Reads the twin whole. It has exactly the records of the partitions, each partition's in the order of its offsets, and all that was told is where
        it was. Gives the number of positions."""
        partitions = {partition: records for (topic, partition), records in log.items() if topic == self.topic}
        twin = read_to_end(node, f"{self.topic}@total", sum(map(len, partitions.values())))
        demand([position for position, _ in twin] == list(range(len(twin))), f"{self.topic}@total has a gap")
        of_partitions = defaultdict(list)
        for _, value in twin:
            of_partitions[author_of(value)[1]].append(value)
        for partition, records in partitions.items():
            there = [value for _, value in records]
            demand(of_partitions[partition] == there, f"{self.topic}/{partition}: the twin has other records, or in another order")
        for position, (partition, offset, checksum) in self.known.items():
            demand(position < len(twin) and zlib.crc32(twin[position][1]) == checksum, f"{self.topic}: position {position} has another record")
            demand(zlib.crc32(partitions[partition][offset][1]) == checksum, f"{self.topic}/{partition}: offset {offset} is not that of {position}")
        demand(self.tail <= len(twin), f"{self.topic}: {self.tail} positions were told, and {len(twin)} are there")
        return len(twin)
