"""Clients that append to a topic with one order and read it, over HTTP and by its twin, and write down each operation: histories for `tests/clients/log_judge`."""

import http.client
import json
import random
import threading
import time

from suites_support.histories import ANSWER_SECONDS
from suites_support.plain_client import PlainClient
from suites_support.suite import Violation, demand, wait_until

PARTITIONS = 3
# Of all operations: the others ask for the tail. Of the appends some go to the twin, and of those over HTTP some are conditional; where there are several nodes, these go to
# the partition that takes such appends.
APPENDS, READS = 0.5, 0.3
TO_TWIN, CONDITIONAL = 0.3, 0.5
LANE = 0


class OrderClient:
    """A thread that does one operation after the other, each once."""

    def __init__(self, number, nodes, history, seed):
        self.number, self.nodes, self.history = number, nodes, history
        self.is_alone = len(nodes) == 1
        self.chance = random.Random(f"{seed} {number}")
        self.kafka, self.http = PlainClient(nodes, ANSWER_SECONDS), {}
        self.count = self.tail = 0
        self.stopping, self.failure = threading.Event(), None
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def finish(self):
        self.stopping.set()
        self.thread.join()
        self.kafka.close()
        if self.failure:
            raise self.failure

    def _run(self):
        try:
            while not self.stopping.is_set():
                self._operate()
                self.stopping.wait(self.chance.uniform(0, 0.03))
        except Exception as error:
            self.failure = error

    def _operate(self):
        dice = self.chance.random()
        if dice < APPENDS:
            self._append()
        elif dice < APPENDS + READS:
            self.read(self.chance.randint(0, self.tail), self.chance.random() < 0.5)
        else:
            node, call = self._some_node(), time.monotonic_ns()
            status, told = self.ask(node, "GET", "/cut")
            if status == 200:
                self._note(node, call, "tail", tail=told["position"], fresh=True)

    def _some_node(self):
        return self.chance.randrange(len(self.nodes))

    def _keeper(self):
        """The node that keeps the order, as some node knows it."""
        told = None if self.is_alone else self.kafka.leaders(self._some_node(), f"{self.history.topic}@total")
        return max((told or {}).get(0, 1) - 1, 0)

    def ask(self, node, method, path, content=None, timeout=ANSWER_SECONDS):
        """The status and the JSON of an answer; none if there was none in time."""
        body = None if content is None else json.dumps(content)
        try:
            if node not in self.http:
                self.http[node] = http.client.HTTPConnection(self.nodes[node].http, timeout=timeout)
            self.http[node].request(method, f"/v1/topics/{self.history.topic}{path}", body, {"Content-Type": "application/json"})
            answer = self.http[node].getresponse()
            return answer.status, json.loads(answer.read())
        except (OSError, http.client.HTTPException):
            self.http.pop(node, None)
            self.history.refused["no answer"] += 1
            return None, None

    def _note(self, node, call, kind, **told):
        self.history.note(self.number, node, 0, call, kind, **told)
        self.tail = max(self.tail, told.get("tail", 0))

    def _append(self):
        self.count += 1
        value = f"{self.number}-{self.count}"
        node, call = self._some_node(), time.monotonic_ns()
        if self.chance.random() < TO_TWIN:
            node = self._keeper()
            code, position = self.kafka.append(node, f"{self.history.topic}@total", 0, [value.encode()])
            if code != 0:
                self.history.note_refused("append", code)
            outcome = "ok" if code == 0 else "unknown"
            return self._note(node, call, "append", value=value, offset=position if code == 0 else -1, outcome=outcome)
        wanted = self.tail if self.chance.random() < CONDITIONAL else None
        query = "" if wanted is None else f"?if_tail={wanted}"
        partition = self.chance.randrange(PARTITIONS) if self.is_alone or wanted is None else LANE
        status, told = self.ask(node, "POST", f"/partitions/{partition}/records{query}", [{"value": value}])
        condition = {} if wanted is None else {"wanted": wanted}
        # The position may be missing where the node that keeps the order was lost just then.
        if status == 200 and "first_position" in told:
            position = told["first_position"]
            self._note(node, call, "append", value=value, offset=position, outcome="ok", **condition)
            self.tail = max(self.tail, position + 1)
        elif status == 412:
            self._note(node, call, "append", value=value, offset=-1, outcome="refused", tail=told["ordered"], **condition)
        else:
            # 503 while it starts or stops, 504 where nobody knows, or nothing.
            demand(status in (None, 200, 503, 504), f"an append was answered {status}: {told}")
            self._note(node, call, "append", value=value, offset=-1, outcome="unknown", **condition)

    def read(self, position, by_kafka, timeout=ANSWER_SECONDS):
        """Reads some values; returns where to go on and the tail."""
        node = self._keeper() if by_kafka else self._some_node()
        call = time.monotonic_ns()
        if by_kafka:
            code, tail, records = self.kafka.read(node, f"{self.history.topic}@total", 0, position, 1 << 10)
            if code != 0:
                return self.history.note_refused("read", code)
            found = [(at, value.decode()) for at, value in records]
        else:
            status, told = self.ask(node, "GET", f"/records?position={position}&limit=20", timeout=timeout)
            if status != 200:
                return demand(status in (None, 503), f"a read was answered {status}: {told}")
            found, tail = [(record["position"], record["value"]) for record in told["records"]], told["ordered"]
        demand([at for at, _ in found] == list(range(position, position + len(found))), f"a read from {position} gives {found}")
        self._note(node, call, "read", offset=position, values=[value for _, value in found], tail=tail)
        return position + len(found), tail


def wait_for(clients, history, operations, patience):
    goal = len(history.operations) + operations

    def are_there():
        for client in clients:
            if client.failure:
                raise client.failure
        return len(history.operations) >= goal

    wait_until(are_there, patience, f"{operations} more operations", lambda: str(dict(history.refused)))


def read_whole(nodes, history, seed, patience):
    """One more client, alone, reads all over HTTP: what it finds is the log."""
    last, position, tail = OrderClient(-1, nodes, history, seed), 0, 1
    last.finish()
    while position < tail:
        before = position
        position, tail = wait_until(lambda: last.read(position, False, patience), patience, f"position {position} is read")
        if position == before and position < tail:
            raise Violation(f"nothing is found at {position}, and the tail is {tail}")
