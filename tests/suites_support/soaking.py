"""What a soak keeps over all of its rounds: a table, which is a compacted topic, and a chronicle, which is written and followed over
HTTP. Each knows what must be in it."""

import json
import random
import threading
import urllib.error
import urllib.request

from confluent_kafka import Consumer, Producer, TopicPartition

from suites_support import load
from suites_support.suite import demand, wait_until

KEYS = 500
WRITTEN_EACH_ROUND = 20_000
# From then on most of what was written must have been compacted away.
COMPACTED_FROM_ROUND = 10
LINES_EACH_ROUND = 200
PATIENCE = 60


class Table:
    """A compacted topic of a few hundred keys, each written again and again."""

    TOPIC = "table"

    def __init__(self, node, seed):
        self.node = node
        self.random = random.Random(seed)
        self.latest = {}
        self.written = 0
        load.create_topics(node, [self.TOPIC], cleanup_policy="compact", segment_bytes=1 << 20, min_cleanable_dirty_ratio=0.2,
                           delete_retention_ms=1000)

    def write(self):
        """Writes each round's records. A few of them are tombstones."""
        refused = []
        producer = Producer({**load.client(self.node), "enable.idempotence": True, "linger.ms": 5})
        for _ in range(WRITTEN_EACH_ROUND):
            key = f"key {self.random.randrange(KEYS)}"
            value = None if self.random.random() < 0.05 else f"{self.written} {self.random.randbytes(100).hex()}"
            self.latest[key] = value
            self.written += 1
            # All keys go where their records are in order.
            producer.produce(self.TOPIC, value, key, partition=0, on_delivery=lambda error, _: error and refused.append(error))
            producer.poll(0)
        demand(producer.flush(PATIENCE) == 0 and not refused, f"writing the table was refused: {refused[:1]}")

    def check(self, rounds):
        """Who reads it from the beginning has the latest value of each key; gives how many records that takes."""
        reader = Consumer(load.reading(self.node, enable_partition_eof=True))
        reader.assign([TopicPartition(self.TOPIC, 0, 0)])
        found, read, last = {}, 0, -1

        def all_read():
            nonlocal read, last
            for message in reader.consume(5000, timeout=1):
                if message.error() is not None:
                    return True
                demand(message.offset() > last, f"the table has offset {message.offset()} behind {last}")
                last = message.offset()
                found[message.key().decode()] = message.value() and message.value().decode()
                read += 1
            return False

        wait_until(all_read, PATIENCE, "the table is read")
        reader.close()
        there = {key: value for key, value in found.items() if value is not None}
        wanted = {key: value for key, value in self.latest.items() if value is not None}
        wrong = [key for key in there.keys() | wanted.keys() if there.get(key) != wanted.get(key)]
        demand(not wrong, f"{len(wrong)} keys of the table have another value than their latest, such as {wrong[:3]}")
        if rounds >= COMPACTED_FROM_ROUND:
            demand(read < self.written / 2, f"of {self.written} records of the table {read} are still there: it is not compacted")
        return read


class Chronicle:
    """A topic that is written over HTTP, line by line, and followed all the time by server-sent events."""

    TOPIC = "chronicle"

    def __init__(self, node):
        self.node = node
        self.appended = {}
        self.followed = {}
        self.is_over = threading.Event()
        load.create_topics(node, [self.TOPIC])
        self.thread = threading.Thread(target=self._follow, daemon=True)
        self.thread.start()

    def write(self, number):
        """Appends each round's lines; the node is not killed meanwhile, so that none is appended twice."""
        for line in range(LINES_EACH_ROUND):
            value = f"round {number}, line {line}"
            request = urllib.request.Request(self._path(), value.encode(), {"Content-Type": "text/plain"})
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                self.appended[json.load(answer)["first_offset"]] = value

    def check(self):
        """All that was appended came to the follower, at its offset."""
        wait_until(lambda: len(self.followed) >= len(self.appended), PATIENCE, "what was appended over HTTP is followed")
        demand(self.followed == self.appended, "the follower over HTTP was told something else than what was appended")
        return len(self.followed)

    def finish(self):
        self.is_over.set()

    def _path(self, query=""):
        return f"http://{self.node.http}/v1/topics/{self.TOPIC}/partitions/0/records{query}"

    def _follow(self):
        """Goes on behind the last record whenever the stream ends: the node is killed now and then."""
        while not self.is_over.is_set():
            request = urllib.request.Request(self._path(f"?offset={len(self.followed)}"), headers={"Accept": "text/event-stream"})
            try:
                with urllib.request.urlopen(request, timeout=PATIENCE) as stream:
                    for line in stream:
                        if line.startswith(b"data: ") and b'"offset"' in line:
                            record = json.loads(line[6:])
                            self.followed[record["offset"]] = record["value"]
            except (OSError, urllib.error.URLError, ValueError):
                self.is_over.wait(0.2)
