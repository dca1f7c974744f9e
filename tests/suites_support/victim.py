"""Whoever does nothing wrong beside those who do: requests of every kind and size, each kind from a connection of its own, one
after the other. All must be answered as if nobody else were there; how many turns of the cores each waited for is counted."""

import http.client
import json
import struct
import threading
import time
import urllib.request

from suites_support import messages, raw_batches, wire
from suites_support.suite import Violation, demand, wait_until

TOPIC = "victim"
PARTITIONS = 4
GROUP = "victims"
# Of those for which something must be found in the log.
FETCHED = "victim-read"
STALL_SECONDS = 60
ANSWER_SECONDS = 60
# No turn of a core takes longer than this of its thread's own time.
TURN_SECONDS = 0.02
COORDINATOR_LOAD_IN_PROGRESS = 14
# Between two requests of a kind: they are there to wait, not to be a load.
PAUSE_SECONDS = 0.002


class Errand:
    """One kind of request, again and again: `begin(node)` gives the function that asks once, and judges the answer."""

    def __init__(self, node, name, begin, is_over):
        self.node, self.name, self.begin, self.is_over = node, name, begin, is_over
        # Of each answered request: the cores' own time from its sending to its answer, in seconds, and the wall clock's.
        self.waited, self.times = [], []
        self.failure = None
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        try:
            ask = self.begin(self.node)
            while not self.is_over.wait(PAUSE_SECONDS):
                used, began = self.node.core_seconds(), time.perf_counter()
                ask()
                self.times.append(time.perf_counter() - began)
                self.waited.append(self.node.core_seconds() - used)
        except (Violation, OSError, http.client.HTTPException, ValueError, struct.error) as failure:
            self.failure = failure


def _append(size, partition):
    def begin(node):
        connection = _connect(node)
        batch = raw_batches.plain(size)
        request = messages.produce(TOPIC, {partition: batch})

        def ask():
            code, _ = messages.produced(wire.ask(connection, request), TOPIC)
            demand(code == 0, f"an append of {size} bytes is answered with error {code}")

        return ask

    return begin


def _fetch(node):
    connection = _connect(node)
    request = messages.fetch(FETCHED, [(0, 0)], 1, 30_000)

    def ask():
        answer = wire.ask(connection, request)
        demand(len(answer) > 100_000, f"a fetch of 100 KB is answered with {len(answer)} bytes")

    return ask


def _list_offsets(node):
    connection = _connect(node)
    request = messages.list_offsets(TOPIC, range(PARTITIONS))
    return lambda: _demand_code(wire.ask(connection, request), 4 + len(wire.text(TOPIC)) + 4 + 4, "a list of offsets")


def _metadata(node):
    connection = _connect(node)
    request = messages.metadata([TOPIC])

    def ask():
        demand(TOPIC.encode() in wire.ask(connection, request), "metadata is answered without the topic that it is about")

    return ask


def _member(node):
    """A member of a group that stays one: its heartbeats and its commits are taken, in one generation."""
    connection = _connect(node)
    code, generation, _, member = messages.joined(wire.ask(connection, messages.join_group(GROUP, "", ["range"])))
    demand(code == 0, f"a member that joins is answered with error {code}")
    _demand_code(wire.ask(connection, messages.sync_group(GROUP, generation, member)), 0, "a member's sync")
    offset = 0

    def ask():
        nonlocal offset
        offset += 1
        _demand_code(wire.ask(connection, messages.heartbeat(GROUP, generation, member)), 0, "a heartbeat")
        told = wire.ask(connection, messages.commit(GROUP, TOPIC, 0, offset, generation, member))
        demand(messages.committed(told, TOPIC) == 0, f"a member's commit is answered with error {messages.committed(told, TOPIC)}")

    return ask


def _newcomer(node):
    """Groups that are new may commit, and producers that are new are given an id."""
    connection = _connect(node)
    number = 0

    def ask():
        nonlocal number
        number += 1
        commit = messages.commit(f"newcomer {number % 20}", TOPIC, 1, number)
        code = COORDINATOR_LOAD_IN_PROGRESS
        # As clients do: the first request about groups has made their topic a moment ago.
        while code == COORDINATOR_LOAD_IN_PROGRESS:
            code = messages.committed(wire.ask(connection, commit), TOPIC)
        demand(code == 0, f"a new group's commit is answered with error {code}")
        _demand_code(wire.ask(connection, messages.init_producer_id()), 4, "a producer that asks for an id")

    return ask


def _health(node):
    def ask():
        with urllib.request.urlopen(f"http://{node.http}/health", timeout=ANSWER_SECONDS) as answer:
            demand(answer.status == 200, f"/health is answered with {answer.status}")

    return ask


def _append_over_http(node):
    def ask():
        request = urllib.request.Request(f"http://{node.http}/v1/topics/{TOPIC}/partitions/2/records", b"x" * 100,
                                         {"Content-Type": "application/octet-stream"})
        with urllib.request.urlopen(request, timeout=ANSWER_SECONDS) as answer:
            demand("first_offset" in json.load(answer), "an append over HTTP is answered without its offset")

    return ask


def _read_over_http(node):
    def ask():
        path = f"http://{node.http}/v1/topics/{FETCHED}/partitions/0/records?offset=0&limit=1"
        with urllib.request.urlopen(path, timeout=ANSWER_SECONDS) as answer:
            demand(len(json.load(answer)["records"]) == 1, "a read over HTTP is answered without its record")

    return ask


def _connect(node):
    return wire.connect(node, seconds=ANSWER_SECONDS, receive_bytes=1 << 20)


def _demand_code(answer, at, what):
    code, = struct.unpack_from(">h", answer, at)
    demand(code == 0, f"{what} is answered with error {code}")


ERRANDS = {
    "append 100 B": _append(100, 0),
    "append 100 KB": _append(100_000, 1),
    "append 900 KB": _append(900_000, 2),
    "fetch 100 KB": _fetch,
    "list offsets": _list_offsets,
    "metadata": _metadata,
    "heartbeat and commit": _member,
    "new group, new producer": _newcomer,
    "/health": _health,
    "append over HTTP": _append_over_http,
    "read over HTTP": _read_over_http,
}


class Victim:
    """All errands at once until `finish`."""

    def __init__(self, node, errands=ERRANDS):
        node.ask_http("POST", "/v1/topics", {"name": TOPIC, "partitions": PARTITIONS})
        node.ask_http("POST", "/v1/topics", {"name": FETCHED, "partitions": 1})
        with _connect(node) as connection:
            wire.ask(connection, messages.produce(FETCHED, {0: raw_batches.plain(100_000)}))
        self.is_over = threading.Event()
        self.errands = [Errand(node, name, begin, self.is_over) for name, begin in errands.items()]

    def measure(self, rounds):
        """Waits until each errand was answered so often from now; gives the turns each waited for and its seconds, sorted."""
        firsts = [len(errand.waited) for errand in self.errands]
        wait_until(lambda: self._failed() or all(len(errand.waited) >= first + rounds for errand, first in zip(self.errands, firsts)),
                   STALL_SECONDS, f"{rounds} more answers to each kind of request that does nothing wrong",
                   lambda: self._stragglers(firsts))
        demand(not self._failed(), f"somebody who does nothing wrong was told: {self._failed()}")
        return {errand.name: (sorted(used / TURN_SECONDS for used in errand.waited[first:]), sorted(errand.times[first:]))
                for errand, first in zip(self.errands, firsts)}

    def _failed(self):
        return "; ".join(f"{errand.name}: {errand.failure}" for errand in self.errands if errand.failure)

    def _stragglers(self, firsts):
        return "; ".join(f"{errand.name}: {len(errand.waited) - first}" for errand, first in zip(self.errands, firsts))

    def finish(self):
        """Ends; gives how many requests were answered."""
        self.is_over.set()
        for errand in self.errands:
            errand.thread.join(ANSWER_SECONDS)
        demand(not self._failed(), f"somebody who does nothing wrong was told: {self._failed()}")
        return sum(len(errand.waited) for errand in self.errands)
