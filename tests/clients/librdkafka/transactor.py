# Clients that do random transactions with librdkafka, as confluent-kafka, and readers; both print what they do as the lines of `suites_support/transaction_history.py`, and what
# went wrong as `N trouble WHAT`. At the end of its input the program ends its transactions and itself.
#
#   transactor.py ADDRESS transact INCARNATION SEED NUMBER …     each number stands for a transactional id and a group; as a client it is INCARNATION times 100 and NUMBER
#   transactor.py ADDRESS read ISOLATION SEED NUMBER …

import os
import random
import sys
import threading
import time
import traceback

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

PARTITIONS = [("left", 0), ("left", 1), ("right", 0), ("right", 1)]
SENDS_MAX = 4
READS_MAX = 5
# Shares of the transactions.
TRANSFORMS, ABORTS, SLOW = 0.5, 0.2, 0.2
# Of the commits, those whose answer the client does not wait for: it begins anew while they are under way.
GIVEN_UP = 0.05
REST_SECONDS = 0.08
TRY_SECONDS = 2.0
# For so long an end is asked for again. Then the client begins anew, which decides about the transaction.
END_SECONDS = 20.0
# librdkafka (2.16) may wait for ever to commit a transaction's offsets at a coordinator that it has given up with all brokers
# (confluentinc/librdkafka#5511): it keeps those that it knows.
SETTINGS = {"reconnect.backoff.ms": 10, "reconnect.backoff.max.ms": 100, "log_level": 2, "topic.metadata.refresh.interval.ms": 2000, "metadata.recovery.strategy": "none"}
# Some clients give up a request while a node is stopped, and send it again elsewhere; others wait.
REQUEST_SECONDS = [1.5, 10]

_printing = threading.Lock()
_over = threading.Event()


def tell(*words):
    with _printing:
        sys.stdout.write(" ".join(map(str, words)) + "\n")
        sys.stdout.flush()


def now():
    return time.monotonic_ns()


def named(topic, partition):
    return f"{topic}-{partition}"


def pairs(offsets):
    return [word for place, offset in offsets.items() for word in (named(*place), offset)]


class Reader:
    """A consumer of all partitions that is told where to begin."""

    def __init__(self, address, number, isolation, group):
        self.number, self.isolation = number, isolation
        self.consumer = Consumer({**SETTINGS, "bootstrap.servers": address, "group.id": group, "isolation.level": f"read_{isolation}", "enable.auto.commit": False,
                                  "auto.offset.reset": "error", "fetch.wait.max.ms": 50, "check.crcs": True, "socket.timeout.ms": 10_000})
        self.next = {}

    def go_to(self, offsets):
        tell(self.number, "seek", self.isolation, *pairs(offsets))
        self.consumer.assign([TopicPartition(*place, offset) for place, offset in offsets.items()])
        self.next = dict(offsets)

    def poll(self, most, seconds, transaction="-"):
        """Tells what came; gives how far each partition was read before and after, of those of which something came."""
        call, records, ranges = now(), [], {}
        for message in self.consumer.consume(most, seconds):
            if message.error():
                tell(self.number, "trouble", "reading:", message.error().name())
                continue
            place = message.topic(), message.partition()
            records += [named(*place), message.offset(), message.value().decode()]
            ranges[place] = (ranges.get(place, (self.next[place],))[0], message.offset() + 1)
        if records:
            tell(self.number, "polled", transaction, call, now(), *records)
        self.next.update({place: end for place, (_, end) in ranges.items()})
        return ranges


class Transactor:
    def __init__(self, address, number, incarnation, seed):
        self.address, self.id = address, number
        self.number = int(incarnation) * 100 + number
        self.chance = random.Random(f"{seed} {self.number}")
        self.request_seconds = REQUEST_SECONDS[number % len(REQUEST_SECONDS)]
        self.group = f"group-{number}"
        self.reader = Reader(address, self.number, "committed", self.group)
        self.producer, self.count = None, 0
        self.is_placed = False
        # True once a record was given up that may have been written. librdkafka (2.16) uses its sequence again for the next one when the transaction is aborted
        # (`epoch_base_msgid`), which a broker must take for the same record: it is only sound to begin anew, with another epoch.
        self.is_doubtful = False
        # (transaction, error, message) of records of which something was heard. The callback only takes note of that: it may be called while an exception is raised, and then
        # no call in it is sound, least of all that of a lock.
        self.reports = []

    def run(self):
        while not _over.is_set():
            try:
                if self.producer is None:
                    self._begin_anew()
                if not self.is_placed:
                    self._place()
                self._transact()
            except KafkaException as error:
                self._trouble("transaction", error)
                self.producer = None
            except SystemError as error:
                # A fatal error is raised within a call of the binding for Python, and again by the callbacks of that call.
                tell(self.number, "trouble", "transaction:", type(error.__cause__).__name__, "within a callback")
                self.producer = None
            self._tell_reports()
            if self.is_doubtful:
                self.producer, self.is_doubtful = None, False
            time.sleep(self.chance.uniform(0, REST_SECONDS))

    def _trouble(self, what, error):
        cause = error.args[0]
        traits = [name for name, has in [("fatal", cause.fatal()), ("retriable", cause.retriable()), ("abort", cause.txn_requires_abort())] if has]
        tell(self.number, "trouble", f"{what}:", cause.name(), *traits)

    def _begin_anew(self):
        """Decides about whatever this transactional id has left open."""
        self.is_placed = False
        producer = Producer({**SETTINGS, "bootstrap.servers": self.address, "transactional.id": f"transactor-{self.id}", "transaction.timeout.ms": 15_000, "linger.ms": 0,
                             "socket.timeout.ms": int(self.request_seconds * 1000), "retry.backoff.ms": 20, "retry.backoff.max.ms": 200})
        while not _over.is_set():
            try:
                producer.init_transactions(TRY_SECONDS)
                self.producer = producer
                return
            except KafkaException as error:
                self._trouble("init", error)
                if not error.args[0].retriable():
                    raise

    def _place(self):
        """Begins where the group has committed, or at the beginning."""
        places, call = [TopicPartition(*place) for place in PARTITIONS], now()
        told = self.reader.consumer.committed(places, timeout=10)
        offsets = {(each.topic, each.partition): each.offset if each.offset >= 0 else -1 for each in told}
        tell(self.number, "fetched", self.group, call, now(), *pairs(offsets))
        self.reader.go_to({place: max(0, offset) for place, offset in offsets.items()})
        self.is_placed = True

    def _transact(self):
        self.count += 1
        name = f"{self.number}-{self.count}"
        tell(self.number, "begin", name, now())
        self.producer.begin_transaction()
        try:
            self._fill(name)
            self.producer.flush(TRY_SECONDS)
        except KafkaException as error:
            self._trouble("filling", error)
            self.is_placed = False
            if error.args[0].fatal():
                raise
            self._end(name, "abort")
            return
        how = "abort" if self.chance.random() < ABORTS else "commit"
        is_committed = self._end(name, how)
        self.is_placed = self.is_placed and is_committed

    def _fill(self, name):
        ranges = {}
        if self.chance.random() < TRANSFORMS:
            ranges = self.reader.poll(self.chance.randint(1, READS_MAX), 0.05, name)
        is_slow = self.chance.random() < SLOW
        for index in range(self.chance.randint(1, SENDS_MAX)):
            topic, partition = self.chance.choice(PARTITIONS)
            value = f"{name}.{index}"
            tell(self.number, "send", name, named(topic, partition), value)
            self.producer.produce(topic, value, partition=partition, on_delivery=lambda error, message: self.reports.append((name, error, message)))
            self.producer.poll(self.chance.uniform(0, REST_SECONDS) if is_slow else 0)
        if ranges:
            tell(self.number, "consumed", name, self.group, *(word for place, (begin, end) in ranges.items() for word in (named(*place), begin, end)))
            offsets = [TopicPartition(*place, end) for place, (_, end) in ranges.items()]
            self._again_while_retriable("offsets", lambda: self.producer.send_offsets_to_transaction(offsets, self.reader.consumer.consumer_group_metadata(), TRY_SECONDS))

    def _tell_reports(self):
        reports, self.reports = self.reports, []
        for name, error, message in reports:
            if error:
                tell(self.number, "trouble", "delivery:", error.name())
                self.is_doubtful = True
            else:
                tell(self.number, "told", name, message.value().decode(), -1 if message.offset() is None else message.offset())

    def _again_while_retriable(self, what, do):
        limit = time.monotonic() + END_SECONDS
        while True:
            try:
                return do()
            except KafkaException as error:
                self._trouble(what, error)
                if not error.args[0].retriable() or time.monotonic() > limit:
                    raise

    def _end(self, name, how):
        """Says if it was committed."""
        tell(self.number, "ending", name, how, now())
        if how == "commit" and self.chance.random() < GIVEN_UP:
            return self._give_up(name)
        try:
            end = self.producer.commit_transaction if how == "commit" else self.producer.abort_transaction
            self._again_while_retriable(how, lambda: end(TRY_SECONDS))
            tell(self.number, "ended", name, "committed" if how == "commit" else "aborted", now())
            return how == "commit"
        except KafkaException as error:
            if how == "commit" and error.args[0].txn_requires_abort():
                return self._end(name, "abort")
            self.producer = None
            return False

    def _give_up(self, name):
        """Asks for a commit and waits for no answer, or hardly."""
        try:
            self.producer.commit_transaction(self.chance.choice([0.0001, 0.001, 0.01]))
            tell(self.number, "ended", name, "committed", now())
            return True
        except KafkaException:
            self.producer = None
            return False


def read(address, number, isolation, seed):
    """Reads all the time; now and then it begins anew somewhere before."""
    chance = random.Random(f"{seed} {number}")
    reader = Reader(address, number, isolation, f"reader-{number}")
    reader.go_to(dict.fromkeys(PARTITIONS, 0))
    while not _over.is_set():
        reader.poll(100, 0.1)
        if chance.random() < 0.02:
            reader.go_to({place: chance.randint(0, following) for place, following in reader.next.items()})


def alone(work):
    """A client that fails ends the program."""
    try:
        work()
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def main():
    address, role, trait, seed, *numbers = sys.argv[1:]
    if role == "transact":
        works = [Transactor(address, int(number), trait, seed).run for number in numbers]
    else:
        works = [lambda number=number: read(address, int(number), trait, seed) for number in numbers]
    threads = [threading.Thread(target=alone, args=[work]) for work in works]
    for thread in threads:
        thread.start()
    sys.stdin.read()
    _over.set()
    for thread in threads:
        thread.join()


main()
