"""What a client's producer was told, what the members of its group read and committed, and the judgement of it.

What at-least-once allows: a record may be read more than once, but of all its readings at most one is followed by an
acknowledged commit that covers it. Once a commit is acknowledged, whoever is given the partition afterwards begins behind it;
and who was given it before is refused its commit. That holds without comparing any clocks.
"""

from collections import Counter, defaultdict

from suites_support.suite import demand


class Member:
    """A member's readings that wait for their commit: partition -> offsets."""

    def __init__(self, name):
        self.name = name
        self.waiting = defaultdict(list)


class GroupLedger:
    def __init__(self, partitions, exactly_once):
        self.partitions = partitions
        # Whether the producer writes each record once; else a retry may have written it twice.
        self.exactly_once = exactly_once
        # partition -> offset -> (key, value)
        self.acknowledged = defaultdict(dict)
        self.acknowledged_count = 0
        # What was acknowledged and nobody has read yet.
        self.unread = set()
        # (partition, offset) -> (key, value), and how often
        self.seen = {}
        self.readings = Counter()
        # (partition, offset) -> the member whose reading was committed
        self.committed_by = {}
        # Everything up to here was committed when the group was last at rest: partition -> offset
        self.settled = [0] * partitions

    def take_produced(self, lines):
        for words in lines:
            demand(words[0] == "acknowledged", f"the producer: {' '.join(words)}")
            partition, offset, key, value = int(words[1]), int(words[2]), words[3], words[4]
            before = self.acknowledged[partition].setdefault(offset, (key, value))
            demand(before == (key, value), f"{partition}@{offset} was acknowledged to {before} and to {(key, value)}")
            self.acknowledged_count += 1
            if (partition, offset) not in self.seen:
                self.unread.add((partition, offset))

    def take_told(self, member, lines):
        for words in lines:
            if words[0] == "read":
                self._read(member, int(words[1]), int(words[2]), (words[3], words[4]))
            elif words[0] == "committed":
                self._committed(member, int(words[1]), int(words[2]))
            elif words[0] == "uncommitted":
                member.waiting[int(words[1])].clear()
            else:
                demand(False, f"{member.name}: {' '.join(words)}")

    def _read(self, member, partition, offset, record):
        place = partition, offset
        before = self.seen.setdefault(place, record)
        demand(before == record, f"{place} was read as {before} and, by {member.name}, as {record}")
        demand(offset >= self.settled[partition],
               f"{member.name} read {place} again, long after all before {self.settled[partition]} was committed")
        waiting = member.waiting[partition]
        if waiting and offset != waiting[-1] + 1:
            # The partition was somebody else's meanwhile.
            waiting.clear()
        waiting.append(offset)
        self.readings[place] += 1
        self.unread.discard(place)

    def _committed(self, member, partition, until):
        waiting = member.waiting[partition]
        while waiting and waiting[0] < until:
            place = partition, waiting.pop(0)
            before = self.committed_by.get(place)
            demand(before is None, f"{place} was read and committed by {before}, and then by {member.name}")
            self.committed_by[place] = member.name

    def settle(self, committed):
        """The group is at rest with these offsets committed: nothing before them may be read from now on."""
        self.settled = list(committed)

    def read_again(self):
        """How many readings were not a record's first."""
        return sum(self.readings.values()) - len(self.readings)

    def check_log(self, log):
        """Judges the whole log: partition -> list of (offset, (key, value))."""
        home, last, values = {}, {}, Counter()
        for partition, records in log.items():
            found = dict(records)
            for offset, record in self.acknowledged[partition].items():
                demand(found.get(offset) == record, f"{partition}@{offset} was acknowledged as {record}, is {found.get(offset)}")
            for (offset, (key, value)) in records:
                self._check_record(partition, offset, key, value, home, last, values)
            unread = [offset for offset in found if (partition, offset) not in self.seen]
            demand(not unread, f"{len(unread)} records of {partition} were never read: {unread[:5]}")
        sent = {value for found in self.acknowledged.values() for _, value in found.values()}
        demand(set(values) == sent, f"{len(set(values) ^ sent)} records are only in the log or only acknowledged")
        if self.exactly_once:
            twice = [value for value, times in values.items() if times > 1]
            demand(not twice, f"{len(twice)} records are in the log more than once: {twice[:5]}")

    def _check_record(self, partition, offset, key, value, home, last, values):
        demand(self.seen.get((partition, offset), (key, value)) == (key, value),
               f"{partition}@{offset} was read as {self.seen.get((partition, offset))}, is {(key, value)}")
        demand(home.setdefault(key, partition) == partition, f"key {key} is in {home[key]} and in {partition}")
        number = int(value.partition(":")[2])
        demand(value == f"{key}:{number}", f"{partition}@{offset}: {value} under the key {key}")
        if not values[value]:
            demand(last.get(key, -1) < number, f"key {key}: {number} stands after {last.get(key)}")
            last[key] = number
        values[value] += 1
