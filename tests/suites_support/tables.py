"""A compacted topic's table: keys written again and again, and what a reader must find of them."""

import random
import time

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from suites_support.load import client, reading
from suites_support.suite import demand

TOPIC = "table"
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
KEYS = 400
RECORDS = 6000
VALUE_BYTES_MAX = 3000


class Table:
    """What was acknowledged: of each offset the key and the value; no value is a tombstone."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.records = {}

    def write(self, node, round_number):
        codec = CODECS[round_number % len(CODECS)]
        producer = Producer(client(node, compression_codec=codec, linger_ms=2, enable_idempotence=True))
        for _ in range(RECORDS):
            key = f"key {self.random.randrange(KEYS)}".encode()
            value = None if self.random.random() < 0.1 else self.random.randbytes(self.random.randrange(VALUE_BYTES_MAX))
            producer.produce(TOPIC, value, key, 0, on_delivery=self.delivered)
            producer.poll(0)
        demand(producer.flush(60) == 0, "not all records were acknowledged in 60 s")

    def delivered(self, error, message):
        demand(error is None, f"a record was refused: {error}")
        self.records[message.offset()] = (message.key(), message.value())

    def latest(self):
        """Of each key the last offset."""
        return {self.records[offset][0]: offset for offset in sorted(self.records)}

    def check(self, found, when):
        """`found` is what a reader saw: offset, key, value. Returns how many tombstones it saw that are the latest."""
        offsets = [offset for offset, _, _ in found]
        demand(offsets == sorted(set(offsets)), f"{when}: offsets are not in order")
        for offset, key, value in found:
            demand(self.records.get(offset) == (key, value), f"{when}: at {offset} is what nobody wrote: {key}")
        last = {key: (offset, value) for offset, key, value in found}
        tombstones = 0
        for key, offset in self.latest().items():
            _, value = self.records[offset]
            if value is None and key not in last:
                continue
            demand(key in last, f"{when}: nothing is left of {key}")
            demand(last[key][0] == offset, f"{when}: the latest of {key} is at {offset}, {last[key][0]} was read last")
            tombstones += value is None
        return tombstones


def read_all(node):
    """Offset, key and value of all that a reader sees, from the beginning to the end."""
    consumer = Consumer(reading(node, enable_partition_eof=True))
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    found, limit = [], time.monotonic() + 60
    while True:
        demand(time.monotonic() < limit, f"a reader has not come to the end in 60 s; it is at {found[-1:]}")
        for message in consumer.consume(1000, timeout=1):
            if message.error() is None:
                found.append((message.offset(), message.key(), message.value()))
                continue
            demand(message.error().code() == KafkaError._PARTITION_EOF, f"reading: {message.error()}")
            low, high = consumer.get_watermark_offsets(TopicPartition(TOPIC, 0), timeout=30)
            demand(low == 0, f"the log begins at {low}")
            consumer.close()
            return found, high


def compacted(node):
    return node.figure("ropewalk_compaction_written_bytes_total")
