"""The part of `transaction_judge` about offsets that are committed with transactions (consume, transform, produce): each is there exactly if the records of its transaction
are, so that a group reads everything once. Groups have one reader at a time, whoever it is."""

from collections import defaultdict

from suites_support.transaction_history import ABORTED, COMMITTED, UNKNOWN

ABORTED_OFFSETS = "aborted offsets"
PRECOMMITTED_OFFSETS = "precommitted offsets"
UNSENT_OFFSETS = "offsets that nobody committed"
LOST_OFFSETS = "lost offsets"
TWICE = "consumed twice"
NEVER_CONSUMED = "never consumed"
TORN_OFFSETS = "records without their offsets"


def _commits(history):
    """(group, partition) -> all transactions that were to commit something of it."""
    commits = defaultdict(list)
    for transaction in history.transactions.values():
        for place in transaction.consumed:
            commits[place].append(transaction)
    return commits


def _fetched(history):
    """(fetch, place, next) of all offsets that were told."""
    for fetch in history.fetches:
        for partition, following in fetch.offsets.items():
            if following >= 0:
                yield fetch, (fetch.group, partition), following


def seen_by_offsets(history):
    """Names of the transactions that must have been committed, for nobody else can have committed what a group was told."""
    commits, seen = _commits(history), set()
    for fetch, place, following in _fetched(history):
        may_be = [each for each in commits[place] if each.consumed[place][1] == following and each.outcome != ABORTED and each.commit_call <= fetch.back]
        if len(may_be) == 1 and may_be[0].outcome == UNKNOWN:
            seen.add(may_be[0].name)
    return seen


def judge_offsets(history, verdict):
    commits = _commits(history)
    for fetch, place, following in _fetched(history):
        _judge_fetch(fetch, place, following, commits[place], verdict)
    for place, transactions in commits.items():
        _judge_loss(history, place, transactions, verdict)
        _judge_ranges(history, place, [each for each in transactions if verdict.fate[each.name] == COMMITTED], verdict)


def _judge_fetch(fetch, place, following, transactions, verdict):
    where = f"{place[0]} was told to begin at {place[1]} {following}"
    meant = [each for each in transactions if each.consumed[place][1] == following]
    alive = [each for each in meant if each.outcome != ABORTED]
    if not meant:
        verdict.add(UNSENT_OFFSETS, where)
    elif not alive:
        verdict.add(ABORTED_OFFSETS, f"{where}, as {meant[0].name} was to commit", *meant)
    elif all(fetch.back < each.commit_call for each in alive):
        verdict.add(PRECOMMITTED_OFFSETS, f"{where} before the commit of {alive[0].name} was asked for", *alive)


def _judge_loss(history, place, transactions, verdict):
    """A client that asks after a commit was told is not told an earlier offset."""
    group, partition = place
    told = [each for each in transactions if each.outcome == COMMITTED]
    for fetch in history.fetches:
        if fetch.group == group and partition in fetch.offsets:
            lost = next((each for each in reversed(told) if each.commit_back < fetch.call and each.consumed[place][1] > fetch.offsets[partition]), None)
            if lost:
                verdict.add(LOST_OFFSETS, f"{group} was told to begin at {partition} {fetch.offsets[partition]} after {lost.name} had committed {lost.consumed[place][1]}", lost)


def _judge_ranges(history, place, committed, verdict):
    """All that committed transactions have consumed stands end to end, from the beginning to where the group was told to begin at last."""
    expected, before = 0, None
    for each in sorted(committed, key=lambda each: each.consumed[place]):
        begin, end = each.consumed[place]
        involved = [other for other in (before, each) if other]
        if begin < expected:
            verdict.add(TWICE, f"{place}: {each.name} consumed {begin} to {end}, and others up to {expected} before", *involved)
        elif begin > expected:
            verdict.add(NEVER_CONSUMED, f"{place}: {each.name} consumed {begin} to {end}, and others only up to {expected} before", *involved)
        expected, before = max(expected, end), each
    last = next((max(0, fetch.offsets[place[1]]) for fetch in reversed(history.fetches) if fetch.client < 0 and fetch.group == place[0] and place[1] in fetch.offsets), None)
    # Without a question at the end nothing is known of it.
    if last is not None and last < expected:
        verdict.add(TORN_OFFSETS, f"{place}: begins at {last} at last, and {before.name} is there, which consumed up to {expected}", before)
    elif last is not None and last > expected:
        verdict.add(NEVER_CONSUMED, f"{place}: begins at {last} at last, and only up to {expected} was consumed", *([before] if before else []))
