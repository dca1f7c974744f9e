"""The history that clients of transactions were told, as `transaction_judge` takes it: lines of words that each client prints about what it does, put together into transactions,
readers and commits of offsets. A file of them can be judged again. Nothing is judged here, and nothing is assumed of an outcome that nobody was told.

A line begins with the client's number. Times are nanoseconds of the machine's monotonic clock, a partition is TOPIC-NUMBER, a value is written once in the whole history.

    N begin T TIME                            a transaction begins; T is unique
    N send T PARTITION VALUE                  is about to be sent
    N told T VALUE OFFSET                     is acknowledged; -1 if the offset was not told
    N consumed T GROUP PARTITION FROM TO …    what the group has read, from FROM to before TO, is about to be committed with T
    N ending T commit|abort TIME              is about to be asked for
    N ended T committed|aborted TIME          was told
    N seek committed|uncommitted PARTITION OFFSET …   N reads these partitions from there on
    N polled T|- CALL BACK PARTITION OFFSET VALUE …   what N was given, within T if that is named
    N passed PARTITION NEXT                   N has read all that is before NEXT
    N fetched GROUP CALL BACK PARTITION NEXT …        where the group begins, when nothing of it is pending; -1 for nowhere. At the end N is negative
"""

from dataclasses import dataclass, field

# Outcomes as clients know them.
COMMITTED, ABORTED, UNKNOWN = "committed", "aborted", "unknown"
NEVER = float("inf")


@dataclass
class Send:
    transaction: "Transaction"
    partition: str
    value: str
    offset: int | None = None


@dataclass
class Read:
    """One record as a reader was given it."""
    offset: int
    value: str
    poll: "Poll"


@dataclass
class Poll:
    client: int
    call: int
    back: int
    transaction: "Transaction | None"


@dataclass
class Session:
    """The records that one client read of one partition from some offset on, until it went elsewhere. `passed` is the first offset that it has not passed."""
    client: int
    partition: str
    committed_only: bool
    start: int
    reads: list = field(default_factory=list)
    passed: int = 0
    # True if the reader said so itself, and not only by a record that stands behind.
    is_whole: bool = False


@dataclass
class Transaction:
    name: str
    client: int
    begin: int
    sends: list = field(default_factory=list)
    # (group, partition) -> (from, to)
    consumed: dict = field(default_factory=dict)
    commit_call: float = NEVER
    commit_back: float = NEVER
    end: float = NEVER

    @property
    def outcome(self):
        """An abort that is told behind a commit that was not answered tells nothing of that commit: a client may be given a new epoch in place of an answer."""
        if self.commit_call == NEVER:
            return ABORTED
        return COMMITTED if self.commit_back != NEVER else UNKNOWN


@dataclass
class Fetch:
    client: int
    group: str
    call: int
    back: int
    offsets: dict


def _triples(words):
    return [(words[index], int(words[index + 1]), words[index + 2]) for index in range(0, len(words), 3)]


def _pairs(words):
    return [(words[index], int(words[index + 1])) for index in range(0, len(words), 2)]


class TransactionHistory:
    def __init__(self, lines=()):
        self.lines = []
        self.transactions = {}
        # By value: all that was ever sent.
        self.sends = {}
        self.sessions, self.fetches = [], []
        # By client and partition: where it reads now.
        self.reading = {}
        for line in lines:
            self.note(line)

    def note(self, line):
        words = line.split()
        getattr(self, f"_{words[1]}")(int(words[0]), words[2:])
        self.lines.append(line.rstrip("\n"))

    def write(self, path):
        path.write_text("".join(f"{line}\n" for line in self.lines))

    def _begin(self, client, words):
        name, time = words
        assert name not in self.transactions, f"two transactions are named {name}"
        self.transactions[name] = Transaction(name, client, int(time))

    def _send(self, _client, words):
        name, partition, value = words
        assert value not in self.sends, f"{value} is sent twice by its client"
        transaction = self.transactions[name]
        self.sends[value] = Send(transaction, partition, value)
        transaction.sends.append(self.sends[value])

    def _told(self, _client, words):
        _, value, offset = words
        if int(offset) >= 0:
            self.sends[value].offset = int(offset)

    def _consumed(self, _client, words):
        name, group, *places = words
        for partition, begin, end in _triples(places):
            self.transactions[name].consumed[group, partition] = (begin, int(end))

    def _ending(self, _client, words):
        name, how, time = words
        if how == "commit":
            self.transactions[name].commit_call = int(time)

    def _ended(self, _client, words):
        name, how, time = words
        transaction = self.transactions[name]
        transaction.end = int(time)
        if how == COMMITTED:
            transaction.commit_back = int(time)

    def _seek(self, client, words):
        isolation, *places = words
        for partition, offset in _pairs(places):
            session = Session(client, partition, isolation == COMMITTED, offset, passed=offset)
            self.sessions.append(session)
            self.reading[client, partition] = session

    def _polled(self, client, words):
        name, call, back, *records = words
        poll = Poll(client, int(call), int(back), self.transactions.get(name))
        for partition, offset, value in _triples(records):
            session = self.reading[client, partition]
            session.reads.append(Read(offset, value, poll))
            session.passed = max(session.passed, offset + 1)

    def _passed(self, client, words):
        partition, end = words
        session = self.reading[client, partition]
        session.passed = max(session.passed, int(end))
        session.is_whole = True

    def _fetched(self, client, words):
        group, call, back, *places = words
        self.fetches.append(Fetch(client, group, int(call), int(back), dict(_pairs(places))))
