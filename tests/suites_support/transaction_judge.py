"""The judge of histories of transactions (`transaction_history`): whether what clients read is what committed transactions wrote, each of them whole and in order. What is looked
for is what Jepsen's analysis of Kafka looks for (jepsen.tests.kafka), beside it the offsets that are committed with transactions.

Nothing is assumed of a transaction whose outcome nobody was told: once a part of it is seen, it is one that was committed; at the end, when all was read and none of it is
there, one that was aborted. Allowed is what Kafka allows: records of several transactions stand between each other in a partition (G0), and a transaction becomes visible in
one partition earlier than in another.

    python3 -m suites_support.transaction_judge FILE      judges a history again
"""

import sys
from bisect import bisect_left
from collections import Counter, defaultdict

from suites_support.transaction_history import ABORTED, COMMITTED, NEVER, UNKNOWN, TransactionHistory
from suites_support.transaction_offsets import judge_offsets, seen_by_offsets

# The names of what is found.
UNSENT = "a value that nobody sent"
INCONSISTENT = "inconsistent offsets"
DUPLICATE = "duplicate"
ABORTED_READ = "aborted read (G1a)"
PRECOMMITTED = "precommitted read"
LOST = "lost write"
UNSEEN = "unseen at the end"
TORN = "torn transaction"
CIRCULAR = "circular information flow (G1c)"
# Each within a transaction or a poll, or between two of them.
SKIP = "poll skip, {}"
BACK = "poll that goes back, {}"
SEND_BACK = "send that goes back, {}"
WITHIN, BETWEEN = "within", "between"


class Verdict:
    """`found` has what is wrong, by its name; `fate` what became of each transaction."""

    def __init__(self, history):
        self.history = history
        self.found = defaultdict(list)
        self.fate = {}
        self.counts = Counter()

    def add(self, kind, message, *transactions):
        self.found[kind].append((message, [each.name for each in transactions]))

    def tell(self, most=5):
        """All kinds, some cases of each, and the lines of the history that belong to these."""
        told, names = [], set()
        for kind, cases in self.found.items():
            told.append(f"{kind}: {len(cases)}")
            for message, involved in cases[:most]:
                told.append(f"  {message}")
                names.update(involved)
        for line in self.history.lines:
            words = line.split()
            # Of polls, those that gave something of theirs.
            values = {words[index].rsplit(".", 1)[0] for index in range(7, len(words), 3)} if words[1] == "polled" else set()
            if words[2] in names or values & names:
                told.append(f"    {line[:300]}")
                if len(told) > 400:
                    break
        return "\n".join(told)


def judge(history):
    verdict = Verdict(history)
    places = _places(history, verdict)
    _decide(history, verdict)
    _judge_reads(history, verdict)
    _judge_sends(history, verdict, places)
    _judge_order(history, verdict)
    _judge_coverage(history, verdict, places)
    _judge_end(history, verdict, places)
    _judge_flow(history, verdict)
    judge_offsets(history, verdict)
    _count(history, verdict)
    return verdict


def _places(history, verdict):
    """The partition and offset of each value, by those who sent it and those who read it."""
    places, holders = {}, {}

    def note(value, partition, offset, by):
        known = places.setdefault(value, (partition, offset))
        if known != (partition, offset):
            verdict.add(DUPLICATE, f"{value} stands at {known} and, as {by}, at {(partition, offset)}", *_senders(history, value))
        holder = holders.setdefault((partition, offset), value)
        if holder != value:
            verdict.add(INCONSISTENT, f"{partition} {offset} has {holder} and, as {by}, {value}", *_senders(history, holder), *_senders(history, value))

    for send in history.sends.values():
        if send.offset is not None:
            note(send.value, send.partition, send.offset, "its sender was told")
    for session in history.sessions:
        for read in session.reads:
            note(read.value, session.partition, read.offset, f"client {session.client} read")
            if read.value not in history.sends:
                verdict.add(UNSENT, f"client {session.client} read {read.value} at {session.partition} {read.offset}")
            elif history.sends[read.value].partition != session.partition:
                verdict.add(INCONSISTENT, f"{read.value} was sent to another partition than {session.partition}", *_senders(history, read.value))
    return places


def _senders(history, value):
    return [history.sends[value].transaction] if value in history.sends else []


def _committed_reads(history):
    """(session, read, send) of all that was read as committed."""
    for session in history.sessions:
        if session.committed_only:
            for read in session.reads:
                if read.value in history.sends:
                    yield session, read, history.sends[read.value]


def _decide(history, verdict):
    """Whoever was told an outcome is believed; the rest is decided by what was seen of it."""
    seen = {send.transaction.name for _, _, send in _committed_reads(history)} | seen_by_offsets(history)
    for name, each in history.transactions.items():
        verdict.fate[name] = each.outcome if each.outcome != UNKNOWN else COMMITTED if name in seen else ABORTED


def _judge_reads(history, verdict):
    """G1a, and what was seen before anybody had asked for its commit. Each transaction is told once of each."""
    told = set()
    for session, read, send in _committed_reads(history):
        transaction = send.transaction
        where = f"client {session.client} read {read.value} at {session.partition} {read.offset}"
        if transaction.outcome == ABORTED:
            kind, why = ABORTED_READ, "its commit was never asked for"
        elif read.poll.back < transaction.commit_call:
            kind, why = PRECOMMITTED, f"{(transaction.commit_call - read.poll.back) / 1e6:.3f} ms before its commit was asked for"
        else:
            continue
        if (kind, transaction.name) not in told:
            told.add((kind, transaction.name))
            verdict.add(kind, f"{where}, {why}", transaction)


def _judge_sends(history, verdict, places):
    """All that one client sends to a partition stands there in that order, as far as it is known where it stands."""
    last = {}
    for transaction in history.transactions.values():
        for send in transaction.sends:
            place = places.get(send.value)
            if place is None or place[0] != send.partition:
                continue
            before, offset = last.get((transaction.client, send.partition)), place[1]
            last[transaction.client, send.partition] = (offset, send)
            if before and offset <= before[0]:
                where = WITHIN if before[1].transaction is transaction else BETWEEN
                verdict.add(SEND_BACK.format(where), f"{send.value} stands at {place}, and {before[1].value}, sent before, at {before[0]}", transaction)


def _judge_order(history, verdict):
    """A reader that goes nowhere else is given ascending offsets."""
    for session in history.sessions:
        before = None
        for read in session.reads:
            if read.offset < session.start:
                verdict.add(BACK.format(BETWEEN), f"client {session.client} began at {session.partition} {session.start} and was given {read.offset}",
                            *_senders(history, read.value))
            if before and read.offset <= before.offset:
                message = f"client {session.client} was given {session.partition} {read.offset} behind {before.offset}"
                verdict.add(BACK.format(_where(before, read)), message, *_senders(history, read.value))
            before = read


def _where(before, read):
    """Says if two reads are of one poll or one transaction."""
    is_same = before.poll is read.poll or before.poll.transaction is not None and before.poll.transaction is read.poll.transaction
    return WITHIN if is_same else BETWEEN


def _committed_log(history, verdict, places):
    """Of each partition (offset, send) of all that transactions wrote that were committed, as far as it is known where it stands."""
    log = defaultdict(list)
    for value, (partition, offset) in places.items():
        send = history.sends.get(value)
        if send and verdict.fate[send.transaction.name] == COMMITTED:
            log[partition].append((offset, send))
    for entries in log.values():
        entries.sort(key=lambda entry: entry[0])
    return log


def _judge_coverage(history, verdict, places):
    """A reader that has passed an offset was given what stands there, if its transaction was committed: before that is decided nobody passes it."""
    log = _committed_log(history, verdict, places)
    seen_by_any = {read.value for _, read, _ in _committed_reads(history)}
    given_by_client = defaultdict(set)
    for session, read, send in _committed_reads(history):
        given_by_client[session.client].add(send.transaction.name)
    for session in history.sessions:
        if not session.committed_only:
            continue
        entries, given = log[session.partition], {read.offset for read in session.reads}
        first = bisect_left(entries, session.start, key=lambda entry: entry[0])
        last = bisect_left(entries, session.passed, key=lambda entry: entry[0])
        for offset, send in entries[first:last]:
            if offset in given:
                continue
            message = f"client {session.client} has passed {session.partition} {offset} up to {session.passed} and was not given {send.value}"
            is_lost = session.is_whole or send.value not in seen_by_any
            verdict.add(LOST if is_lost else SKIP.format(_where_skipped(session, offset)), message, send.transaction)
            if send.transaction.name in given_by_client[session.client]:
                verdict.add(TORN, f"{message}, but another part of its transaction", send.transaction)


def _where_skipped(session, offset):
    reads = session.reads
    behind = next((index for index, read in enumerate(reads) if read.offset > offset), None)
    return _where(reads[behind - 1], reads[behind]) if behind else BETWEEN


def _judge_end(history, verdict, places):
    """At the end all is read: each transaction that was committed is there whole."""
    ends = defaultdict(int)
    for session in history.sessions:
        if session.committed_only and session.is_whole:
            ends[session.partition] = max(ends[session.partition], session.passed)
    there = {read.value for session, read, _ in _committed_reads(history) if session.is_whole}
    for transaction in history.transactions.values():
        if verdict.fate[transaction.name] != COMMITTED:
            continue
        missing = [send for send in transaction.sends if send.value not in there]
        for send in missing:
            place = places.get(send.value)
            if place is None or place[1] >= ends[send.partition]:
                verdict.add(UNSEEN, f"{send.value} was committed ({transaction.outcome} to its client) and is not in {send.partition} at the end", transaction)
        if missing and len(missing) < len(transaction.sends):
            verdict.add(TORN, f"of {transaction.name} ({transaction.outcome} to its client) {[send.value for send in missing]} are not there at the end", transaction)


def _judge_flow(history, verdict):
    """G1c: no transaction depends on itself, by what it read from others and by the order of its own client."""
    behind = defaultdict(set)
    last = {}
    for transaction in history.transactions.values():
        if verdict.fate[transaction.name] == COMMITTED:
            if transaction.client in last:
                behind[last[transaction.client]].add(transaction.name)
            last[transaction.client] = transaction.name
    for _, read, send in _committed_reads(history):
        reader, writer = read.poll.transaction, send.transaction
        if reader and reader is not writer and COMMITTED == verdict.fate[reader.name] == verdict.fate[writer.name]:
            behind[writer.name].add(reader.name)
    for circle in _circles(behind):
        verdict.add(CIRCULAR, f"{' -> '.join(circle)} -> {circle[0]}", *(history.transactions[name] for name in circle))


def _circles(behind):
    """Groups of names that can all be reached from each other (Tarjan's algorithm, without recursion), each as one way around."""
    number, low, stack, on_stack, groups = {}, {}, [], set(), []
    for root in list(behind):
        if root in number:
            continue
        work = [(root, iter(behind[root]))]
        number[root] = low[root] = len(number)
        stack.append(root)
        on_stack.add(root)
        while work:
            name, rest = work[-1]
            following = next(rest, None)
            if following is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[name])
                if low[name] == number[name]:
                    at = stack.index(name)
                    groups.append(stack[at:])
                    on_stack.difference_update(stack[at:])
                    del stack[at:]
            elif following not in number:
                number[following] = low[following] = len(number)
                stack.append(following)
                on_stack.add(following)
                work.append((following, iter(behind.get(following, ()))))
            elif following in on_stack:
                low[name] = min(low[name], number[following])
    return [_way_around(group, behind) for group in groups if len(group) > 1]


def _way_around(group, behind):
    """The shortest way from the first of a group back to it."""
    members, first = set(group), group[0]
    came_from, queue = {}, [first]
    for name in queue:
        for following in behind.get(name, ()):
            if following == first:
                way = [name]
                while way[-1] != first:
                    way.append(came_from[way[-1]])
                return way[::-1]
            if following in members and following not in came_from:
                came_from[following] = name
                queue.append(following)
    raise AssertionError("a group of names that reach each other has a way around")


def _count(history, verdict):
    counts = verdict.counts
    for name, each in history.transactions.items():
        counts["transactions"] += 1
        counts[each.outcome] += 1
        if each.outcome == UNKNOWN:
            counts[f"unknown, {verdict.fate[name]}"] += 1
        counts["with offsets"] += bool(each.consumed)
    counts["sends"] = len(history.sends)
    counts["reads"] = sum(len(session.reads) for session in history.sessions)
    counts["reads within transactions"] = sum(read.poll.transaction is not None for session in history.sessions for read in session.reads)
    counts["without an end"] = sum(transaction.end == NEVER for transaction in history.transactions.values())


if __name__ == "__main__":
    with open(sys.argv[1]) as file:
        outcome = judge(TransactionHistory(file))
    print(outcome.tell() or "sound", dict(outcome.counts))
    sys.exit(bool(outcome.found))
