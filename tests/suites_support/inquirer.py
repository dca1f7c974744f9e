"""Asks every node for everything, all the time and whatever happens: appends, tails, records. No answer but success and Kafka's retriable errors
may come, and what was acknowledged must be there at the end, once and where it was said to be."""

import threading
import time
from collections import Counter

from suites_support.load import PARTITIONS
from suites_support.plain_client import OFFSET_OUT_OF_RANGE, RETRIABLE, SILENCE, PlainClient, name_of
from suites_support.suite import demand, wait_until

TOPIC = "asked"
ANSWER_SECONDS = 1.0
PAUSE_SECONDS = 0.01
READ_BACK = 5


class Inquirer:
    def __init__(self, nodes):
        self.nodes = nodes
        self.client = PlainClient(nodes, ANSWER_SECONDS)
        self.said = Counter()
        # (partition, offset) -> the value that was acknowledged there
        self.acknowledged = {}
        self.count = 0
        self.violations = []
        # The inquirer's thread and that of `wait_for_all` both note what they are told.
        self.notes = threading.Lock()
        self.stopping = threading.Event()
        self.failure = None
        self.thread = threading.Thread(target=self._run, daemon=True)

    def start(self):
        self.thread.start()

    def _run(self):
        try:
            while not self.stopping.is_set():
                for node in range(len(self.nodes)):
                    for partition in range(PARTITIONS):
                        self._ask(node, partition)
                        self.stopping.wait(PAUSE_SECONDS)
        except Exception as error:
            self.failure = error

    def _ask(self, node, partition):
        if self.append(self.client, node, partition) is SILENCE:
            # Whoever does not answer one request answers no other one either, for so long.
            return
        code, tail = self.client.tail(node, TOPIC, partition)
        self._note("tail", code)
        if code == 0:
            self._read(node, partition, max(0, tail - READ_BACK))

    def _read(self, node, partition, offset):
        code, _, records = self.client.read(node, TOPIC, partition, offset)
        # A leader that has just lost its place may be asked for the tail, and its successor for the record: that is at least as far.
        self._note("read", code)
        with self.notes:
            for found, value in records:
                there = self.acknowledged.get((partition, found), value)
                if there != value:
                    self.violations.append(f"offset {found} of {partition} was acknowledged as {there!r} and read as {value!r}")

    def append(self, client, node, partition):
        """One record of its own; the code with which it is answered."""
        with self.notes:
            self.count += 1
            value = b"asked %d" % self.count
        code, offset = client.append(node, TOPIC, partition, [value])
        self._note("append", code)
        if code == 0:
            with self.notes:
                before = self.acknowledged.setdefault((partition, offset), value)
                if before != value:
                    self.violations.append(f"offset {offset} of {partition} was acknowledged for {before!r} and {value!r}")
        return code

    def _note(self, request, code):
        with self.notes:
            self.said[request, code] += 1
            if code not in (0, SILENCE) and code not in RETRIABLE:
                self.violations.append(f"the answer to a request for {request} was error {code}, which is not retriable")

    def wait_for_all(self, nodes, seconds, what):
        """Waits until each partition has acknowledged a record that is written from now on, by clients that know these nodes only; gives the
        seconds that took."""
        began = time.monotonic()
        client = PlainClient(self.nodes, ANSWER_SECONDS)
        for partition in range(PARTITIONS):
            wait_until(lambda: self._is_acknowledged(client, nodes, partition), seconds,
                       f"partition {partition} acknowledges a record ({what})", self.told)
        client.close()
        return time.monotonic() - began

    def _is_acknowledged(self, client, nodes, partition):
        for node in nodes:
            leader = (client.leaders(node, TOPIC) or {}).get(partition, -1) - 1
            if leader in nodes and self.append(client, leader, partition) == 0:
                return True
        time.sleep(PAUSE_SECONDS)
        return False

    def finish(self):
        self.stopping.set()
        self.thread.join()
        if self.failure:
            raise self.failure

    def check(self):
        """Holds what was acknowledged against the log; gives how many records that were."""
        tails, logs = {}, {}
        for partition in range(PARTITIONS):
            tails[partition], logs[partition] = wait_until(lambda: self._log_of(partition), 60, f"partition {partition} is read")
        for (partition, offset), value in self.acknowledged.items():
            found = logs[partition].get(offset)
            demand(found == value, f"offset {offset} of {partition} was acknowledged as {value!r} and is {found!r}; the tail is {tails[partition]}")
        for partition, log in logs.items():
            demand(sorted(log) == list(range(tails[partition])), f"the offsets of {partition} have gaps")
        twice = [value for value, times in Counter(value for log in logs.values() for value in log.values()).items() if times > 1]
        demand(not twice, f"written once, and there twice: {twice[:5]}")
        demand(not self.violations, "\n".join(self.violations[:20]))
        demand(self.said["append", 0] > 0 and self.said["tail", 0] > 0 and self.said["read", 0] > 0, f"nothing was answered: {self.told()}")
        return len(self.acknowledged)

    def _log_of(self, partition):
        """The tail, and all up to it as offset -> value; None while that is not told."""
        for node in range(len(self.nodes)):
            leader = (self.client.leaders(node, TOPIC) or {}).get(partition, -1) - 1
            code, tail = self.client.tail(leader, TOPIC, partition) if leader >= 0 else (SILENCE, 0)
            if code != 0:
                continue
            log = {}
            while len(log) < tail:
                code, _, records = self.client.read(leader, TOPIC, partition, len(log))
                if code != 0 or not records:
                    return None
                log.update(records)
            return tail, {offset: value for offset, value in log.items() if offset < tail}
        return None

    def told(self):
        """Errors and silences, as a line has them."""
        with self.notes:
            refused = Counter()
            for (_, code), times in self.said.items():
                if code != 0:
                    refused[name_of(code)] += times
        return ", ".join(f"{times} × {name}" for name, times in sorted(refused.items()))
