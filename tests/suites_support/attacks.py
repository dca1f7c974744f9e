"""What clients that mean harm, or know no better, do to a node over Kafka's protocol: a few KB each that cost the node far more.

An attack is a generator: each `next` is one blow, and what it holds open it lets go of when it is closed. `Attack` strikes with
one from a thread of its own, again and again, whatever the node answers; a connection that the node ends is repelled, and begins anew.
"""

import contextlib
import itertools
import struct
import threading
import time

from suites_support import messages, raw_batches, wire
from suites_support.suite import wait_until

# The address of attackers; clients that do nothing wrong have another.
ADDRESS = "127.0.0.2"
# A topic of many partitions, and one that holds what is far more than it seems.
WIDE, WIDE_PARTITIONS = "wide", 10_000
BOMBS, BOMB_PARTITIONS = "bombs", 8
BOMB_MEBIBYTES = 200
BOMB_TIME_MS = int(time.time() * 1000)
# The pause of an attacker that was refused.
REST_SECONDS = 0.05
ALL_BYTES = 0x7FFF_FFFF
FOR_EVER_MS = 0x7FFF_FFFF
# The first id of producers that were never given one.
INVENTED_IDS = 1_000_000
# Blows of an attack by which it is at its worst; its crowd is there before the first.
BLOWS_AT_WORST = 10
MEMBERS, STRANGERS_AT_ONCE = 800, 50
# So many that their answers, each of which has 0.75 MiB, would be far more than a node may have.
DESCRIBERS = 400


class Attack:
    """`blows(node)` again and again until `finish`."""

    @staticmethod
    def name_of(blows):
        return f"{blows.__module__.rpartition('.')[2]}.{blows.__name__}"

    def __init__(self, node, blows):
        self.node, self.blows = node, blows
        self.name = self.name_of(blows)
        self.struck, self.repelled, self.failure = 0, 0, None
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self._strike, daemon=True)
        self.thread.start()

    def _strike(self):
        while not self.is_over.is_set():
            try:
                with contextlib.closing(self.blows(self.node)) as blows:
                    for _ in blows:
                        self.struck += 1
                        if self.is_over.is_set():
                            break
            except OSError:
                self.repelled += 1
                self.is_over.wait(REST_SECONDS)
            except Exception as failure:
                self.failure = failure
                return

    def wait_for_worst(self, blows=BLOWS_AT_WORST):
        """Waits until its crowd is there, if it has one, a blow was struck, and so many have been struck or repelled."""
        wait_until(lambda: self.failure or self.struck and self.struck + self.repelled >= blows, 240, f"{self.name} strikes")

    def finish(self):
        self.is_over.set()
        self.thread.join(60)
        if self.failure:
            raise self.failure


def prepare(node):
    """The topics that attacks are about. Bombs of a kind that the node refuses are not there then."""
    node.ask_http("POST", "/v1/topics", {"name": WIDE, "partitions": WIDE_PARTITIONS})
    node.ask_http("POST", "/v1/topics", {"name": BOMBS, "partitions": BOMB_PARTITIONS})
    with _connect(node) as connection:
        zeros = raw_batches.zero_bomb(BOMB_MEBIBYTES, BOMB_TIME_MS)
        for partition in range(1, BOMB_PARTITIONS):
            wire.ask(connection, messages.produce(BOMBS, {partition: zeros}))
        wire.ask(connection, messages.produce(BOMBS, {0: raw_batches.header_bomb(8 << 20)}))


def _connect(node, http=False):
    return wire.connect(node, ADDRESS, seconds=60, http=http, receive_bytes=64 << 10)


@contextlib.contextmanager
def _crowd(node, size, http=False):
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(_connect(node, http)) for _ in range(size)]


def _one_by_one(node, requests):
    """Asks one after the other, on one connection."""
    with _connect(node) as connection:
        for request in requests:
            wire.ask(connection, request)
            yield


def _and_gone(node, request):
    """Asks on a connection that is reset before there is an answer, again and again."""
    while True:
        connection = _connect(node)
        connection.sendall(request)
        time.sleep(REST_SECONDS)
        wire.reset(connection)
        yield


def _hold():
    """Keeps what is open."""
    while True:
        time.sleep(REST_SECONDS)
        yield


def header_bombs(node):
    """Batches of one record with millions of headers of two bytes."""
    return _one_by_one(node, itertools.repeat(messages.produce(BOMBS, {0: raw_batches.header_bomb(32 << 20)})))


def zero_bombs(node):
    """Batches that unpack to a thousand times as much: each partition's in one request, at the end of all budgets."""
    bomb = raw_batches.zero_bomb(BOMB_MEBIBYTES, BOMB_TIME_MS)
    return _one_by_one(node, itertools.repeat(messages.produce(BOMBS, {partition: bomb for partition in range(3)})))


def sifting(node):
    """Offsets by a time for which batches must be unpacked; nobody waits for the answer."""
    return _and_gone(node, messages.list_offsets(BOMBS, list(range(BOMB_PARTITIONS)) * 8, BOMB_TIME_MS + 500))


def questions_of_the_gone(node):
    """A question about very many partitions, whose client is gone before it is answered."""
    return _and_gone(node, messages.list_offsets(WIDE, list(range(WIDE_PARTITIONS)) * 8, 0))


def descriptions_of_all(node):
    """Requests of twenty bytes whose answers are about everything, from many connections that take none of them."""
    with _crowd(node, DESCRIBERS) as crowd:
        for number, connection in enumerate(crowd):
            asks_all = messages.describe_producers(WIDE, range(WIDE_PARTITIONS)) if number % 4 == 0 else messages.describe_all_log_dirs()
            connection.sendall(asks_all * 3)
        yield from _hold()


def trickles(node):
    """Large requests of which the beginning is shown, and then so little at a time that they are never there."""
    with _crowd(node, 6) as crowd:
        head = messages.metadata([])[4:-4]
        for connection in crowd:
            connection.sendall(struct.pack(">i", 12 * raw_batches.MEBI) + head + struct.pack(">i", 1_000_000) + bytes(64 << 10))
        while True:
            for connection in crowd:
                connection.sendall(bytes(8 << 10))
            yield
            time.sleep(REST_SECONDS * 2)


def refused_joins(node):
    """A group of many members that name many protocols, and then joins of strangers that are refused, as fast as that goes. Of each
    protocol but the last there is one member that does not know it: until then it seems to be everybody's."""
    protocols = [f"p{number}" for number in range(32)]
    refused = messages.join_group("crowded", "stranger", protocols) * STRANGERS_AT_ONCE
    with _crowd(node, MEMBERS) as members, _crowd(node, 8) as strangers:
        for number, connection in enumerate(members):
            known = [name for name in protocols if name != f"p{number}" or name == protocols[-1]]
            connection.sendall(messages.join_group("crowded", "", known))
        while True:
            for connection in strangers:
                connection.sendall(refused)
            for connection in strangers:
                for _ in range(STRANGERS_AT_ONCE):
                    wire.answer(connection)
                yield


def joins_of_much(node):
    """Members that subscribe to very many partitions, and leave again."""
    return _one_by_one(node, (messages.consumer_heartbeat("greedy", f"member-{number}", epoch, topics)
                              for number in itertools.count(1) for epoch, topics in [(0, [WIDE, BOMBS]), (-1, [])]))


def waiting_fetches(node):
    """Fetches of thousands of partitions that wait for more than there will be, beside appends that each of them looks at."""
    places = [(partition, 0) for partition in range(4000)]
    request = messages.fetch(WIDE, places, ALL_BYTES, FOR_EVER_MS, ALL_BYTES)
    small = messages.produce(WIDE, {0: raw_batches.plain(1)})
    with _crowd(node, 200) as crowd, _connect(node) as appender:
        for connection in crowd:
            connection.sendall(request)
        while True:
            wire.ask(appender, small)
            yield
            time.sleep(REST_SECONDS)


def fetch_sessions(node):
    """Sessions of as many partitions as one may have, none of which there is: a connection has one of them."""
    request = messages.fetch_session("nowhere", 10_000)
    with _crowd(node, 60) as crowd:
        while True:
            for connection in crowd:
                wire.ask(connection, request)
            yield


def growing_configs(node):
    """Numbers with hundreds of zeros before them, set again and again."""
    return _one_by_one(node, (messages.set_config([BOMBS], name, str(1_000_000 + number).zfill(255))
                              for number, name in enumerate(itertools.cycle(messages.NUMBERS))))


def groups_without_end(node):
    """Commits of groups that nobody has heard of before."""
    with _connect(node) as connection:
        for number in itertools.count(0, 200):
            commit_of_groups(connection, number, 200)
            yield


def commit_of_groups(connection, first, count):
    """A commit of each of so many groups."""
    connection.sendall(b"".join(messages.commit(f"group {first + number}", WIDE, 0, 1) for number in range(count)))
    for _ in range(count):
        wire.answer(connection)


def invented_producers(node):
    """Appends of producers that have never asked for an id."""
    with _connect(node) as connection:
        for number in itertools.count(0, 200):
            append_of_producers(connection, WIDE, 1, number, 200)
            yield


def append_of_producers(connection, topic, partition, first, count):
    """An append of each of so many producers, whose ids are invented; gives the error codes."""
    for number in range(first, first + count):
        one = raw_batches.batch(raw_batches.record(b"x"), 1, producer=(INVENTED_IDS + number, 0, 0))
        connection.sendall(messages.produce(topic, {partition: one}))
    return {messages.produced(wire.answer(connection), topic)[0] for _ in range(count)}


def topics_without_end(node):
    """New topics with configs as long as they may be, again and again."""
    with _connect(node) as connection:
        for number in itertools.count(0, 20):
            create_topics(connection, number, 20)
            yield


def create_topics(connection, first, count):
    """Creates so many topics, each with lists of 32 KB; gives the error codes."""
    lists = {f"{of}.replication.throttled.replicas": "0:1," * 8191 + "0:1" for of in ["leader", "follower"]}
    names = [f"endless-{number}" for number in range(first, first + count)]
    return messages.created(wire.ask(connection, messages.create_topics(names, lists)))


ALL = [header_bombs, zero_bombs, sifting, questions_of_the_gone, descriptions_of_all, trickles, refused_joins, joins_of_much,
       waiting_fetches, fetch_sessions, growing_configs, topics_without_end, groups_without_end, invented_producers]
