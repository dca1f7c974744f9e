"""Clients that append to a few partitions and read them, and write down each operation with its call, its return and what it was told: histories for
`tests/clients/log_judge`, which says whether they are those of a log."""

import json
import random
import subprocess
import threading
import time
from collections import Counter

from suites_support.client_program import Client
from suites_support.plain_client import OFFSET_OUT_OF_RANGE, RETRIABLE, SILENCE, PlainClient, name_of
from suites_support.raw_batches import NO_PRODUCER
from suites_support.suite import demand, wait_until

PARTITIONS = 3
ANSWER_SECONDS = 1.0
# For so long a client that has sequences tries an append.
APPEND_SECONDS = 8.0
# Of a read: whole batches, and some values at most.
READ_BYTES = 4 << 10
# Of all operations: the others ask for the tail.
APPENDS, READS = 0.5, 0.3
# Of those that are sent to a node whatever it leads.
STRAYS = 0.15
# Codes that a client with sequences may be told after a leader has changed: it begins anew.
SEQUENCE_LOST = {45: "OUT_OF_ORDER_SEQUENCE_NUMBER", 46: "DUPLICATE_SEQUENCE_NUMBER", 59: "UNKNOWN_PRODUCER_ID"}


class History:
    """One topic's history. Threads write to it."""

    def __init__(self, topic, wants_fresh):
        self.topic, self.wants_fresh = topic, wants_fresh
        self.operations = []
        self.refused = Counter()
        self.violations = []

    def note(self, client, node, partition, call, kind, **told):
        fresh = told.pop("fresh", self.wants_fresh)
        self.operations.append({"client": client, "node": node, "partition": partition, "call": call, "return": time.monotonic_ns(),
                                "kind": kind, "fresh": fresh, **told})

    def note_refused(self, request, code, allowed=()):
        self.refused[name_of(code)] += 1
        if code is not SILENCE and code not in RETRIABLE and code not in allowed:
            self.violations.append(f"the answer to a request for {request} was error {code}")

    def overlapping(self, begin, end):
        """How many operations were under way between these moments."""
        return sum(each["call"] < end and each["return"] > begin for each in self.operations)

    def judge(self, judge, path):
        """Has it judged; gives the counts of that."""
        demand(not self.violations, "\n".join(self.violations[:10]))
        with open(path, "w") as file:
            for operation in self.operations:
                file.write(json.dumps(operation) + "\n")
        return verdict(judge, path)


def verdict(judge, path):
    done = subprocess.run([*judge.command, path], capture_output=True, text=True)
    demand(done.returncode == 0, f"{path.name} is no history of a log:\n{done.stdout}{done.stderr}")
    words = done.stdout.splitlines()[-1].split()
    return {words[index]: int(words[index + 1]) for index in range(0, len(words), 2)}


class HistoryClient:
    """A thread that does one operation after the other. With sequences it repeats an append until that is acknowledged; without, it sends each once."""

    def __init__(self, number, nodes, history, seed, has_sequences):
        self.number, self.history, self.has_sequences = number, history, has_sequences
        self.client = PlainClient(nodes, ANSWER_SECONDS)
        self.nodes = range(len(nodes))
        self.chance = random.Random(f"{seed} {number}")
        self.leaders, self.tails = {}, Counter()
        self.producer, self.sequences, self.count = None, Counter(), 0
        self.stopping = threading.Event()
        self.failure = None
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def finish(self):
        self.stopping.set()
        self.thread.join()
        self.client.close()
        if self.failure:
            raise self.failure

    def _run(self):
        try:
            while not self.stopping.is_set():
                self._operate(self.chance.randrange(PARTITIONS))
                self.stopping.wait(self.chance.uniform(0, 0.03))
        except Exception as error:
            self.failure = error

    def _operate(self, partition):
        dice = self.chance.random()
        node = self._node_for(partition)
        if dice < APPENDS:
            self._append(node, partition)
        elif dice < APPENDS + READS:
            self._read(node, partition)
        else:
            self._ask_tail(node, partition)

    def _node_for(self, partition):
        if self.chance.random() < STRAYS:
            return self.chance.choice(self.nodes)
        if self.leaders.get(partition, -1) < 0:
            told = self.client.leaders(self.chance.choice(self.nodes), self.history.topic) or {}
            self.leaders = {index: leader - 1 for index, leader in told.items() if leader > 0}
        return self.leaders.get(partition, self.chance.choice(self.nodes))

    def _lost_sight(self, partition, request, code, allowed=()):
        self.history.note_refused(request, code, allowed)
        self.leaders.pop(partition, None)

    def _append(self, node, partition):
        self.count += 1
        value = f"{self.number}-{self.count}"
        call = time.monotonic_ns()
        code, offset = self._repeat(node, partition, value) if self.has_sequences else self._send(node, partition, value)
        # An error does not mean that it will not come about: a leader may have lost its place with the batch in its log.
        outcome = "ok" if code == 0 and offset >= 0 else "unknown"
        self.history.note(self.number, node, partition, call, "append", value=value, offset=offset, outcome=outcome)

    def _send(self, node, partition, value, producer=NO_PRODUCER):
        code, offset = self.client.append(node, self.history.topic, partition, [value.encode()], producer)
        if code != 0:
            self._lost_sight(partition, "append", code, SEQUENCE_LOST if producer is not NO_PRODUCER else ())
        return code, offset

    def _repeat(self, node, partition, value):
        limit = time.monotonic() + APPEND_SECONDS
        if self.producer is None:
            code, *given = self.client.producer_id(node)
            if code != 0:
                self._lost_sight(partition, "producer id", code)
                return code, -1
            self.producer, self.sequences = given, Counter()
        while time.monotonic() < limit:
            code, offset = self._send(node, partition, value, (*self.producer, self.sequences[partition]))
            if code == 0:
                self.sequences[partition] += 1
                return code, offset
            if code is not SILENCE and code not in RETRIABLE:
                break
            time.sleep(0.02)
            node = self._node_for(partition)
        # Nobody knows which sequence comes next.
        self.producer = None
        return code, -1

    def _read(self, node, partition):
        offset = self.chance.randint(0, self.tails[partition])
        call = time.monotonic_ns()
        code, tail, records = self.client.read(node, self.history.topic, partition, offset, READ_BYTES)
        if code != 0:
            return self._lost_sight(partition, "read", code, [OFFSET_OUT_OF_RANGE])
        values = [value.decode() for _, value in records]
        if [found for found, _ in records] != list(range(offset, offset + len(records))):
            self.history.violations.append(f"a read from {offset} gives the offsets {[found for found, _ in records]}")
        self.history.note(self.number, node, partition, call, "read", offset=offset, values=values, tail=tail)
        self.tails[partition] = max(self.tails[partition], tail)

    def _ask_tail(self, node, partition):
        call = time.monotonic_ns()
        code, tail = self.client.tail(node, self.history.topic, partition)
        if code != 0:
            return self._lost_sight(partition, "tail", code)
        self.history.note(self.number, node, partition, call, "tail", tail=tail, fresh=True)
        self.tails[partition] = max(self.tails[partition], tail)


def leaders_agreed(client, nodes, topic):
    """The index of the node that leads each partition, if all nodes name the same; else none."""
    told = [client.leaders(node, topic) for node in range(len(nodes))]
    is_known = told[0] and len(told[0]) == PARTITIONS and all(leader > 0 for leader in told[0].values())
    return {partition: leader - 1 for partition, leader in told[0].items()} if is_known and all(each == told[0] for each in told) else None


def read_to_the_end(nodes, history, seconds):
    """One more client, alone, reads all: what it finds is the log. Its tails must be those of the moment."""
    client = PlainClient(nodes, ANSWER_SECONDS)
    leaders = wait_until(lambda: leaders_agreed(client, nodes, history.topic), seconds, "all nodes name the same leaders")
    for partition, leader in leaders.items():
        wait_until(lambda: client.tail(leader, history.topic, partition)[0] == 0, seconds, f"partition {partition} tells its tail")
        offset, tail = 0, 1
        while offset < tail:
            call = time.monotonic_ns()
            code, tail, records = client.read(leader, history.topic, partition, offset)
            demand(code == 0 and (records or offset == tail), f"reading {partition} from {offset}: {name_of(code)}, tail {tail}, nothing")
            values = [value.decode() for _, value in records]
            history.note(-1, leader, partition, call, "read", offset=offset, values=values, tail=tail, fresh=True)
            offset += len(records)
    client.close()


def install_judge():
    return Client("log_judge")
