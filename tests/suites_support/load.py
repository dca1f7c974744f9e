"""Producers of all kinds that write through whatever happens to the node, a reader that follows them, and the
reading of everything at the end. All of it is librdkafka's; what comes of it goes to the ledger."""

import random
import threading
import time
from collections import Counter

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from suites_support.ledger import BULK, IDEMPOTENT, ONCE, RETRYING, value_of
from suites_support.suite import Violation, demand, wait_until

PARTITIONS = 3
QUEUED_MAX = 3000
STALL_SECONDS = 60

# Reconnecting soon matters to the run's length only.
_CLIENT = {
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 100,
    "socket.timeout.ms": 10000,
    "log_level": 2,
    "topic.metadata.refresh.interval.ms": 2000,
}
_MODES = {
    IDEMPOTENT: {"enable.idempotence": True, "message.timeout.ms": 0},
    ONCE: {"message.send.max.retries": 0, "message.timeout.ms": 5000, "max.in.flight.requests.per.connection": 5},
    RETRYING: {"message.timeout.ms": 30000},
}

# (name, mode, codec, topic): every codec under sequences and without them.
WRITERS = [
    ("idempotent-none", IDEMPOTENT, "none", "storm-a"),
    ("idempotent-zstd", IDEMPOTENT, "zstd", "storm-a"),
    ("idempotent-lz4", IDEMPOTENT, "lz4", "storm-b"),
    ("once-none", ONCE, "none", "storm-a"),
    ("once-gzip", ONCE, "gzip", "storm-b"),
    ("retrying-snappy", RETRYING, "snappy", "storm-b"),
]
# A producer with this in its name has one request under way at a time; others have five.
IN_TURN = "in-turn"
# Fills the journal of its one partition nearly alone, so that whole files of it become segments.
BULK_WRITERS = [("idempotent-bulk", IDEMPOTENT, "none", BULK)]
# The same when nobody else writes: then it does not depend on how fast each is.
ALONE_WRITERS = [("idempotent-bulk-alone", IDEMPOTENT, "none", BULK)]


def partitions_of(topic):
    return 1 if topic == BULK else PARTITIONS


def client(node, **settings):
    """Settings of a client of `node`; dots in their names are written as underscores."""
    given = {name.replace("_", "."): value for name, value in settings.items()}
    return {**_CLIENT, "bootstrap.servers": node.kafka, **given}


def reading(node, **settings):
    """Settings of a consumer that is told what to read and commits nothing."""
    return client(node, group_id="none", enable_auto_commit=False, auto_offset_reset="error", check_crcs=True,
                  fetch_wait_max_ms=100, **settings)


def create_topics(node, names, replicas=1, **config):
    config = {name.replace("_", "."): str(value) for name, value in config.items()}
    wanted = [NewTopic(name, num_partitions=partitions_of(name), replication_factor=replicas, config=config)
              for name in names]
    # Held by name: a client that is dropped fails what it has under way.
    admin = AdminClient(client(node))
    for future in admin.create_topics(wanted, operation_timeout=30).values():
        future.result(60)


class Load:
    """Writes with all of WRITERS from one thread until `finish`."""

    def __init__(self, node, ledger, seed, writers=WRITERS):
        self.ledger = ledger
        self.random = random.Random(seed)
        self.writers = writers
        self.producers = {}
        self.numbers = {}
        # The numbers that were next when somebody began to wait for refusals, and what became of records from there on.
        self.since = {}, Counter()
        for name, mode, codec, _ in writers:
            settings = {"compression.codec": codec, "acks": -1, "linger.ms": 2, "batch.size": 64 << 10}
            limits = {"queue.buffering.max.messages": QUEUED_MAX}
            if IN_TURN in name:
                limits["max.in.flight"] = 1
            self.producers[name] = Producer({**client(node), **settings, **limits, **_MODES[mode]})
            self.numbers[name] = 0
            ledger.modes[name] = mode
        self.stopping = threading.Event()
        self.failure = None
        self.thread = threading.Thread(target=self._write, daemon=True)

    def start(self):
        self.thread.start()

    def _write(self):
        try:
            while not self.stopping.is_set():
                written = sum(self._burst(*writer) for writer in self.writers)
                if not written:
                    time.sleep(0.002)
        except Exception as error:
            self.failure = error

    def _burst(self, name, mode, _codec, topic):
        producer = self.producers[name]
        producer.poll(0)
        # What is queued while the node is down is bounded, so that a burst after a start is too.
        is_bulk = topic == BULK
        if len(producer) > (60 if is_bulk else QUEUED_MAX // 2):
            return 0
        count = self.random.randrange(10, 25) if is_bulk else self.random.randrange(1, 60)
        partition = self.random.randrange(partitions_of(topic))
        for _ in range(count):
            number = self.numbers[name]
            self.numbers[name] += 1
            self.ledger.sent[name, topic, partition].append(number)
            producer.produce(topic, value_of(name, partition, number), key=name, partition=partition,
                             on_delivery=self._told(name, mode, number))
        return count

    def _told(self, name, mode, number):
        def told(error, message):
            marks, fates = self.since
            if number >= marks.get(name, 0):
                fates["acknowledged" if error is None else "refused"] += 1
            if error is None:
                self.ledger.note_acknowledged(message.topic(), message.partition(), message.offset(), name, number)
            else:
                self.ledger.refused[error.name()] += 1
                if mode == IDEMPOTENT:
                    self.ledger.violation(f"{name} {number} was given up: {error}")

        return told

    def wait_for_more(self, records, seconds=STALL_SECONDS):
        """Waits until so many more records are acknowledged: proof that writes go on."""
        goal = self.ledger.acknowledged_count() + records
        wait_until(lambda: self.failure or self.ledger.acknowledged_count() >= goal, seconds,
                   f"{records} more records are acknowledged; refused so far: {dict(self.ledger.refused)}")
        if self.failure:
            raise self.failure

    def wait_for_refusals(self, records, seconds=90):
        """Waits until so many records are refused that nobody had written before this call; gives how many such records were
        acknowledged meanwhile. What was written before is left out: each producer hears of it in its own time."""
        fates = Counter()
        self.since = dict(self.numbers), fates
        wait_until(lambda: self.failure or fates["refused"] >= records, seconds, f"{records} more records are refused")
        if self.failure:
            raise self.failure
        return fates["acknowledged"]

    def finish(self):
        """Writes no more, and waits until the fate of every record is known."""
        self.stopping.set()
        self.thread.join()
        if self.failure:
            raise self.failure
        for name, producer in self.producers.items():
            left = producer.flush(STALL_SECONDS)
            demand(left == 0, f"{name} waits for {left} records after {STALL_SECONDS} s")


def write_until_adopted(node, ledger, seed):
    """Writes to the one partition only, until whole files of the journal are its segments."""
    alone = Load(node, ledger, seed, ALONE_WRITERS)
    alone.start()
    wait_until(node.adopted_files, 120, "journal files become segments")
    alone.finish()


class Follower:
    """Reads along from offset 0 and notes what it saw: none of that may ever change."""

    def __init__(self, node, ledger, topics):
        self.ledger = ledger
        self.unseen = set(topics)
        self.consumer = Consumer(reading(node))
        self.consumer.assign([TopicPartition(*place, 0) for place in places_of(topics)])
        self.stopping = threading.Event()
        self.failure = None
        self.thread = threading.Thread(target=self._read, daemon=True)

    def start(self):
        self.thread.start()

    def _read(self):
        try:
            while not self.stopping.is_set():
                for message in self.consumer.consume(2000, timeout=0.1):
                    self._note(message)
        except Exception as error:
            self.failure = error

    def _note(self, message):
        error = message.error()
        if error is None:
            self.ledger.note_seen(message.topic(), message.partition(), message.offset(), message.value())
            self.unseen.discard(message.topic())
        elif error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._BAD_MSG):
            self.ledger.violation(f"a reader was told: {error}")

    def finish(self, seconds=STALL_SECONDS):
        """Ends, once it has seen something of every topic: a reader that saw nothing proves nothing."""
        wait_until(lambda: self.failure or not self.unseen, seconds, f"a reader sees something of {sorted(self.unseen)}")
        self.stopping.set()
        self.thread.join()
        self.consumer.close()
        if self.failure:
            raise self.failure


def places_of(topics):
    return [(topic, partition) for topic in topics for partition in range(partitions_of(topic))]


def bounds_of(consumer, place):
    """Where a partition begins and ends. librdkafka asks whom it knows as the leader, once: after a change it has to ask again."""
    limit = time.monotonic() + STALL_SECONDS
    while True:
        try:
            return consumer.get_watermark_offsets(TopicPartition(*place), timeout=30)
        except KafkaException as refused:
            is_moved = refused.args[0].code() in (KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE)
            if not is_moved or time.monotonic() > limit:
                raise
            time.sleep(0.1)


def tails_of(node, topics):
    """The tails of partitions of which nothing was trimmed."""
    consumer = Consumer(reading(node))
    tails = {}
    for topic, partition in places_of(topics):
        first, tail = bounds_of(consumer, (topic, partition))
        demand(first == 0, f"{topic}/{partition} begins at {first}, and nothing was trimmed")
        tails[topic, partition] = tail
    consumer.close()
    return tails


def read_all(node, topics):
    """Everything from the first offset to the tail: (topic, partition) -> list of (offset, value)."""
    tails = tails_of(node, topics)
    consumer = Consumer(reading(node))
    log = {place: [] for place in tails}
    waiting = {place for place, tail in tails.items() if tail > 0}
    consumer.assign([TopicPartition(topic, partition, 0) for topic, partition in waiting])
    limit = time.monotonic() + STALL_SECONDS
    while waiting:
        for message in consumer.consume(5000, timeout=1):
            if message.error() is not None:
                raise Violation(f"reading everything: {message.error()}")
            limit = time.monotonic() + STALL_SECONDS
            place = message.topic(), message.partition()
            log[place].append((message.offset(), message.value()))
            if message.offset() + 1 >= tails[place]:
                waiting.discard(place)
        demand(time.monotonic() < limit, f"no record for {STALL_SECONDS} s; still to read: {sorted(waiting)}")
    consumer.close()
    return log


def read_to_end(node, topic, tail):
    """The offsets and values of a topic's only partition below its tail."""
    consumer = Consumer(reading(node))
    consumer.assign([TopicPartition(topic, 0, 0)])
    found, limit = [], time.monotonic() + STALL_SECONDS
    while not found or found[-1][0] < tail - 1:
        for message in consumer.consume(5000, timeout=1):
            if message.error() is not None:
                raise Violation(f"reading {topic}: {message.error()}")
            limit = time.monotonic() + STALL_SECONDS
            found.append((message.offset(), message.value()))
        demand(time.monotonic() < limit, f"{topic}: no record for {STALL_SECONDS} s behind {len(found)} of {tail}")
    consumer.close()
    return found


def report(ledger, checked, log, faults):
    """One line that says how much the run proved."""
    demand(checked > 0, "nothing was acknowledged, so nothing was proved")
    total = sum(map(len, log.values()))
    seen = sum(map(len, ledger.seen.values()))
    print(f"{faults}: {checked} acknowledged records checked, {total} in the log, {seen} seen by the reader, "
          f"refused {dict(ledger.refused)}")
