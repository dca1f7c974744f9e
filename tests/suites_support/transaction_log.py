"""The fate of each record that was written into one topic, in transactions or without: what readers of either isolation must see of it.

By offset, in one partition, with `x` for what is open, `-` for what is aborted and `|` for the last stable offset:

    a b - | x c x d        a reader with `committed` sees a b, one with `uncommitted` all of them, aborted ones as well
"""

from suites_support.suite import demand

PARTITIONS = 3
ISOLATIONS = ("committed", "uncommitted")
OPEN, COMMITTED, ABORTED = "open", "committed", "aborted"


class Written:
    def __init__(self, owner, offset, value, state):
        self.owner, self.offset, self.value, self.state = owner, offset, value, state


class TransactionLog:
    def __init__(self):
        self.written = {partition: [] for partition in range(PARTITIONS)}
        # All that the client's own readers have told so far, by isolation and partition.
        self.told = {isolation: {partition: [] for partition in range(PARTITIONS)} for isolation in ISOLATIONS}
        self.values = 0
        # How many records were written outside of any transaction.
        self.plain = 0

    @classmethod
    def of(cls, partitions):
        """A log that holds these, (offset, value), all of them committed."""
        log = cls()
        for partition, records in partitions.items():
            for offset, value in records:
                log.sent(None, partition, offset, [value])
        return log

    def new_values(self, prefix, count):
        self.values += count
        return [f"{prefix}:{number}" for number in range(self.values - count, self.values)]

    def sent(self, owner, partition, first, values):
        """These are acknowledged, in the transaction of `owner`, or in none."""
        written = self.written[partition]
        demand(not written or first > written[-1].offset, f"{values} got the offset {first} of {partition}, behind {written and written[-1].offset}")
        written += [Written(owner, first + at, value, COMMITTED if owner is None else OPEN) for at, value in enumerate(values)]

    def ended(self, owner, is_committed):
        """The owner's open records are committed or aborted."""
        for written in self.written.values():
            for record in written:
                if record.owner == owner and record.state == OPEN:
                    record.state = COMMITTED if is_committed else ABORTED

    def first_open(self):
        """The first offset of each partition that is open, None where nothing is."""
        return [next((record.offset for record in self.written[partition] if record.state == OPEN), None) for partition in self.written]

    def seen(self, isolation):
        """partition -> list of (offset, value) that a reader of that isolation sees, no more and no less."""
        seen = {}
        for (partition, written), first_open in zip(self.written.items(), self.first_open()):
            if isolation == "committed":
                written = [record for record in written if record.state == COMMITTED and (first_open is None or record.offset < first_open)]
            seen[partition] = [(record.offset, record.value) for record in written]
        return seen

    def take(self, who, isolation, lines):
        """Notes what a reader tells; whether it has seen all. Anything else than what it must see is a violation."""
        seen, told = self.seen(isolation), self.told[isolation]
        for word, partition, offset, value in lines:
            demand(word == "read", f"{who}: a reader said {word!r}")
            told[int(partition)].append((int(offset), value))
        for partition, found in told.items():
            demand(found == seen[partition][:len(found)], f"{who}, {isolation}: of {partition} {found} was read, not {seen[partition]}")
        return told == seen

    def committed_count(self):
        return self._count(COMMITTED)

    def aborted_count(self):
        return self._count(ABORTED)

    def _count(self, state):
        return sum(record.state == state for written in self.written.values() for record in written)
