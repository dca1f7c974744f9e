"""A proxy between clients and nodes, which has requests of transactions arrive late, and answers late or never: so clients ask again, or are fenced, while what they asked for is on
its way. It understands the head of Kafka's requests, and of some the transactional id. Nodes tell clients its addresses as theirs (`kafka.advertised`).

With version 1 of transactions nothing tells a late end of one from an end of the next (KAFKA-17754, docs/transactions.md), nor its late offsets from those of the next. So ends and offsets
of that version never arrive after later ones of the same client. Those of version 2 do: their epoch is over, and the node must know.
"""

import asyncio
import random
import socket
import struct
import threading
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field

from suites_support.node import free_port
from suites_support.wire import END_TXN, INIT_PRODUCER_ID, PRODUCE, TXN_OFFSET_COMMIT

NAMES = {PRODUCE: "Produce", END_TXN: "EndTxn", TXN_OFFSET_COMMIT: "TxnOffsetCommit"}
# The first versions with tagged fields (KIP-482), and those of transactions of version 2 (KIP-890).
FLEXIBLE = {PRODUCE: 9, INIT_PRODUCER_ID: 2, END_TXN: 3, TXN_OFFSET_COMMIT: 3}
SAFE = {END_TXN: 5, TXN_OFFSET_COMMIT: 5}
LATE, ANSWERED_LATE, UNANSWERED = "late", "answered late", "unanswered"
# The longest that something is late, from and to.
LATE_SECONDS = 1, 5


@dataclass(eq=False)
class Request:
    api: int
    version: int
    correlation: int
    # None if it has none, or is of another kind.
    transactional_id: bytes | None
    fate: str | None = None
    is_sent: bool = False
    # Set by the node's answer, and by the end of the link.
    is_over: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(eq=False)
class Link:
    """A client's connection, and the one that goes on to a node."""
    node: str
    client: asyncio.StreamWriter
    server: asyncio.StreamWriter
    # By correlation id: requests of transactions that the node has not answered.
    open: dict = field(default_factory=dict)

    def close(self):
        self.client.close()
        self.server.close()
        for request in self.open.values():
            request.is_over.set()

    def forget(self):
        """Closes both so that nothing which is on its way to the node arrives later."""
        self.server.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.server.transport.abort()
        self.close()


class Proxy:
    """`share`, 0 to 1, of the requests of transactions meet a fate. `met` counts them by kind and fate, `overtaken` those that were late until their client's next transaction was
    under way."""

    def __init__(self, seed):
        self.chance = random.Random(f"{seed} proxy")
        self.share = 0.0
        self.addresses = []
        self.met, self.overtaken = Counter(), Counter()
        # By transactional id: how many transactions have begun; and those whose next record begins one.
        self.begun, self.have_ended = Counter(), set()
        # By transactional id: (link, request) of ends and offsets of version 1 that may arrive yet.
        self.under_way = defaultdict(list)
        self.tasks = set()
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()

    def stand_before(self, node):
        """Gives the address at which clients find this node from now on."""
        port = free_port()
        listening = asyncio.start_server(lambda *ends: self._begin(self._connect(node, *ends)), "127.0.0.1", port)
        asyncio.run_coroutine_threadsafe(listening, self.loop).result(10)
        self.addresses.append(f"127.0.0.1:{port}")
        return self.addresses[-1]

    def _begin(self, work):
        """Else nobody would have the task, and it might be taken away."""
        task = self.loop.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    async def _connect(self, node, from_client, to_client):
        try:
            from_node, to_node = await asyncio.open_connection(*node.split(":"))
        except OSError:
            return to_client.close()
        link = Link(node, to_client, to_node)
        answering = self._begin(self._carry_answers(link, from_node))
        await self._carry_requests(link, from_client)
        # A node gets what it was sent, though the client is gone.
        for request in list(link.open.values()):
            await request.is_over.wait()
        link.close()
        await answering

    async def _carry_requests(self, link, from_client):
        while (frame := await _frame(from_client)) and not link.client.is_closing():
            request = _request(frame)
            if request.transactional_id is not None:
                link.open[request.correlation] = request
                self._note(request)
                await self._make_way(link, request)
                if request.api in NAMES and self.chance.random() < self.share:
                    request.fate = self.chance.choice([LATE, ANSWERED_LATE, UNANSWERED])
                if request.fate == LATE:
                    await self._hold(request, request.is_over.is_set)
            request.is_sent = True
            if not link.server.is_closing():
                link.server.write(frame)

    async def _carry_answers(self, link, from_node):
        while frame := await _frame(from_node):
            request = link.open.pop(struct.unpack_from(">i", frame, 4)[0], None)
            if request:
                request.is_over.set()
                if request.fate:
                    self.met[NAMES[request.api], request.fate] += 1
                if request.fate == UNANSWERED:
                    break
                if request.fate == ANSWERED_LATE:
                    await self._hold(request, link.client.is_closing)
            if not link.client.is_closing():
                link.client.write(frame)
        link.close()

    def _note(self, request):
        """Takes note of the beginnings of transactions."""
        if request.api in (END_TXN, INIT_PRODUCER_ID):
            self.have_ended.add(request.transactional_id)
        elif request.transactional_id in self.have_ended:
            self.have_ended.remove(request.transactional_id)
            self.begun[request.transactional_id] += 1

    async def _make_way(self, link, request):
        """Has an end or offsets of version 1 arrive behind those that the client has sent before, or instead of them. A node that stands still has received them, and takes them up when it goes
        on. Those to another node may be on their way, and would arrive when the network heals."""
        if request.version >= SAFE.get(request.api, 0):
            return
        under_way = self.under_way[request.transactional_id]
        earlier = [(other, each) for other, each in under_way if other is not link and not each.is_over.is_set()]
        under_way[:] = [*earlier, (link, request)]
        for other, each in earlier:
            if each.is_sent and other.node == link.node:
                await each.is_over.wait()
            else:
                other.forget()

    async def _hold(self, request, is_in_vain):
        """Waits until the client has gone on with another transaction, though not for ever."""
        limit, begun = time.monotonic() + self.chance.uniform(*LATE_SECONDS), self.begun[request.transactional_id]
        while time.monotonic() < limit and not is_in_vain():
            if self.begun[request.transactional_id] > begun:
                self.overtaken[NAMES[request.api]] += request.fate == LATE
                return
            await asyncio.sleep(0.002)


async def _frame(reader):
    """The next frame with its length; none at the end of the connection."""
    try:
        length = await reader.readexactly(4)
        return length + await reader.readexactly(*struct.unpack(">i", length))
    except (EOFError, OSError):
        return None


def _request(frame):
    """The head of a request. Its transactional id is the first field of all that have one, and shorter than 127 bytes."""
    api, version, correlation, length = struct.unpack_from(">hhih", frame, 4)
    at = 14 + max(0, length)
    if api not in FLEXIBLE:
        return Request(api, version, correlation, None)
    if version >= FLEXIBLE[api]:
        # No client has tagged fields in the head. A length is one more than it is, 0 for none.
        length, at = frame[at + 1] - 1, at + 2
    else:
        length, at = struct.unpack_from(">h", frame, at)[0], at + 2
    return Request(api, version, correlation, frame[at:at + length] if length >= 0 else None)
