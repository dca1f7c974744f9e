"""What producers were told and what readers saw, and the judgement whether the log agrees with it.

A record's value is made from its producer's name and its number, so the ledger need not keep the bytes.
"""

import random
import zlib
from collections import Counter, defaultdict

from suites_support.suite import Violation

# Retried until acknowledged, exactly once and in order.
IDEMPOTENT = "idempotent"
# Sent once: at most once, and what was acknowledged is in order. What the client gave up may come late: it lay in a
# connection that the client had closed while the node stood still, and between two connections there is no order.
ONCE = "once"
# Retried without a sequence: what was acknowledged is there; it may be there again.
RETRYING = "retrying"

# A producer with this in its name writes large values.
BULK = "bulk"
_FILLER = random.Random(20).randbytes(192 << 10)
_SHOWN_MAX = 20


def value_of(producer, partition, number):
    """The bytes of one record: who wrote it, and a filling of 0 to 1,500 bytes (of bulk: 90,000) that follows from that."""
    head = f"{producer} {partition} {number} ".encode()
    mix = zlib.crc32(head)
    begin, length = mix % 90000, (mix >> 15) % (90000 if BULK in producer else 1500)
    return head + _FILLER[begin : begin + length]


def author_of(value):
    """The producer, partition and number that a value claims."""
    producer, partition, number, _ = value.split(b" ", 3)
    return producer.decode(), int(partition), int(number)


class Ledger:
    """Producers and readers of several threads write here; each of its dictionaries is changed by one thread only,
    or one key at a time."""

    def __init__(self):
        self.modes = {}
        # (producer, topic, partition) -> the numbers given to the client library, in order
        self.sent = defaultdict(list)
        # (topic, partition) -> offset -> (producer, number)
        self.acknowledged = defaultdict(dict)
        # Acknowledged as written earlier, with no offset told.
        self.acknowledged_somewhere = []
        # (topic, partition) -> offset -> value, as a reader saw it while faults went on
        self.seen = defaultdict(dict)
        self.refused = Counter()
        self.violations = []

    def violation(self, text):
        self.violations.append(text)

    def note_acknowledged(self, topic, partition, offset, producer, number):
        # The library has no offset to tell of a batch that the log had already: it says none, or a negative number.
        if offset is None or offset < 0:
            self.acknowledged_somewhere.append((topic, partition, producer, number))
            return
        before = self.acknowledged[topic, partition].setdefault(offset, (producer, number))
        if before != (producer, number):
            self.violation(f"{topic}/{partition}: offset {offset} acknowledged to {before} and {(producer, number)}")

    def note_seen(self, topic, partition, offset, value):
        before = self.seen[topic, partition].setdefault(offset, zlib.crc32(value))
        if before != zlib.crc32(value):
            self.violation(f"{topic}/{partition}: a reader saw offset {offset} with two values")

    def acknowledged_count(self):
        return sum(map(len, self.acknowledged.values())) + len(self.acknowledged_somewhere)

    def check(self, log):
        """Judges `log`: (topic, partition) -> list of (offset, value) from the first offset to the tail. Gives the
        number of acknowledged records that were checked."""
        for (topic, partition), records in log.items():
            self._check_partition(topic, partition, records)
        for place in set(self.acknowledged) | set(self.seen):
            if place not in log:
                self.violation(f"{place} was not read, but records of it were acknowledged or seen")
        self.raise_violations()
        return self.acknowledged_count()

    def raise_violations(self):
        if self.violations:
            more = len(self.violations) - _SHOWN_MAX
            shown = self.violations[:_SHOWN_MAX] + ([f"and {more} more"] if more > 0 else [])
            raise Violation("\n".join(shown))

    def _check_partition(self, topic, partition, records):
        where = f"{topic}/{partition}"
        numbers = defaultdict(list)
        in_order = defaultdict(list)
        by_offset = {}
        for index, (offset, value) in enumerate(records):
            if offset != index:
                self.violation(f"{where}: offset {offset} where {index} was expected: a gap, or a step back")
                return
            by_offset[offset] = value
            author = self._check_value(where, partition, offset, value)
            if author is not None:
                producer, number = author
                numbers[producer].append(number)
                if self.modes[producer] == IDEMPOTENT or offset in self.acknowledged[topic, partition]:
                    in_order[producer].append(number)
        self._check_acknowledged(topic, partition, by_offset)
        for offset, checksum in self.seen[topic, partition].items():
            if offset not in by_offset or zlib.crc32(by_offset[offset]) != checksum:
                self.violation(f"{where}: a reader saw offset {offset}; now it is gone or another")
        for producer, found in numbers.items():
            self._check_producer(topic, partition, producer, found, in_order[producer])
        for producer, sent_topic, sent_partition in self.sent:
            if (sent_topic, sent_partition) == (topic, partition) and producer not in numbers:
                self._check_producer(topic, partition, producer, [], [])

    def _check_value(self, where, partition, offset, value):
        try:
            producer, claimed, number = author_of(value)
        except ValueError:
            self.violation(f"{where}: offset {offset} has bytes that nobody wrote: {value[:60]!r}")
            return None
        if claimed != partition or value != value_of(producer, claimed, number):
            self.violation(f"{where}: offset {offset} has bytes of {producer} {number} that it did not write there")
        return producer, number

    def _check_acknowledged(self, topic, partition, by_offset):
        for offset, (producer, number) in self.acknowledged[topic, partition].items():
            if offset not in by_offset:
                self.violation(f"{topic}/{partition}: lost: offset {offset}, {producer} {number}; "
                               f"the tail is {len(by_offset)}")
            elif by_offset[offset] != value_of(producer, partition, number):
                self.violation(f"{topic}/{partition}: offset {offset} was acknowledged to {producer} {number}, "
                               f"and is {by_offset[offset][:40]!r}")

    def _check_producer(self, topic, partition, producer, found, in_order):
        where = f"{topic}/{partition}: {producer}"
        sent = self.sent[producer, topic, partition]
        mode = self.modes[producer]
        if mode == RETRYING:
            return
        twice = [number for number, times in Counter(found).items() if times > 1]
        if twice:
            self.violation(f"{where}: {len(twice)} records appear twice, the first {twice[0]}")
        if in_order != sorted(in_order):
            bad = next(index for index in range(1, len(in_order)) if in_order[index] < in_order[index - 1])
            self.violation(f"{where}: out of order: {in_order[max(0, bad - 3):bad + 3]}")
        unknown = set(found) - set(sent)
        if unknown:
            self.violation(f"{where}: never sent: {sorted(unknown)[:5]}")
        if mode == IDEMPOTENT and len(found) < len(sent):
            missing = sorted(set(sent) - set(found))
            self.violation(f"{where}: acknowledged in the end, but missing: {missing[:5]} ({len(missing)})")
