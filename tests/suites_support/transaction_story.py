"""The story that every client with transactions lives through: what is committed, aborted, fenced and timed out, and the copying of one topic into another,
exactly once, while the copier and then the node are killed. `run_stories` is all that a suite calls.

Clients tell what they did and read (`follow`, `transact`, `transform` in tests/clients/README.md). They are judged by `TransactionLog`, and by librdkafka as
an impartial witness, which reads from the beginning until it is told that there is no more.
"""

import queue
import signal
import threading
import time
from collections import Counter, deque

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec
from kafka import KafkaAdminClient

from suites_support.client_program import Client
from suites_support.kafka_node import node_in
from suites_support.load import client
from suites_support.node import TINY
from suites_support.suite import demand, run, wait_until
from suites_support.transaction_log import ISOLATIONS, PARTITIONS, TransactionLog

# The seconds that a step may take: those that settings make it wait, and these for a slow machine.
PATIENCE = 60
# The server looks for transactions that are too old every 10 s, unless told otherwise.
WITHIN_TIMEOUT = 10 + PATIENCE
# Members that are silent are given up after 3 s; what they had open times out after 6 s; clients rest for some seconds after their node was away.
TRANSFORM_TIMEOUT_MS = 6000
WITHIN_TRANSFORM = 120
NEVER_MS = 60_000
# A copier that says nothing for so long is killed, as those do who watch over programs: librdkafka may wait for its coordinator for longer than it was told to.
STUCK_SECONDS = 45
SHORT_MS = 1000
# Records of which `transform` makes transactions of 20 at most, and those that come before somebody is killed.
RECORDS, BEFORE = 360, 240
# Two versions of transactions (KIP-890): by the second one each transaction has an epoch of its own.
FIRST_VERSION, SECOND_VERSION = 1, 2

SETTINGS = {
    **TINY,
    "topics.auto_create": "false",
    "groups.initial_rebalance_delay": "100ms",
    "groups.session_timeout_min": "1s",
}


def plain(words):
    return words.replace("_", "").replace(" ", "").lower()


class Traits:
    """A client on trial. `version` is that of the transactions it makes on a server that has both; `lacks` names what it has no way to do. `fenced` is what
    it says, without regard to case, spaces and underscores, when it may not go on: another producer has its id, or its transaction has timed out. `members`
    says whether its offsets carry the member's generation, so that one that was given up cannot add any (KIP-447). `changes` are the versions that the node is
told to have (`transaction.version`) before the story, while a producer goes on with transactions."""

    def __init__(self, name, fenced, version=FIRST_VERSION, lacks=(), members=True, changes=()):
        self.name, self.version, self.lacks, self.members, self.changes = name, version, lacks, members, changes
        self.fenced = [plain(word) for word in fenced]
        # By the second version an abort that nobody asked for is the next epoch, and a commit in the one before contradicts it.
        self.timed_out = [*self.fenced, plain("InvalidTxnState")] if version == SECOND_VERSION else self.fenced


def run_stories(*rounds):
    """Runs the whole suite: one round of clients after the other on one node."""

    def main(_seed, work):
        demand(all(rounds), "there is no client in a round, so nothing would be proved")
        node = node_in(work, SETTINGS)
        began = time.monotonic()
        programs = [[Client(traits.name) for traits in clients] for clients in rounds]
        node.start()
        stories = []
        for number, clients in enumerate(rounds):
            stories += run_round([TransactionStory(*of, node, work) for of in zip(programs[number], clients)], node)
        node.stop()
        told = "; ".join(story.told() for story in stories)
        print(f"transactions, seen as committed and aborted by all readers, in {time.monotonic() - began:.0f} s: {told}")

    run(main)


def run_round(stories, node):
    """All of them at the same time; the node is killed while all of them copy."""
    at_the_same_time(stories, TransactionStory.tell_of_the_log)
    at_the_same_time(stories, TransactionStory.begin_to_copy)
    for each in node.nodes:
        at_the_same_time(stories, TransactionStory.open_one)
        disturb(node, each)
        at_the_same_time(stories, TransactionStory.copy_on)
        node.make_whole()
    at_the_same_time(stories, TransactionStory.end_copying)
    return stories


def disturb(node, each):
    """kill -9; but Kafka 4.3.1 alone may lose markers by that: its coordinator takes partitions whose leader it does not see, after such a start, for deleted
    ("likely deleted already and hence can be skipped"), and the producer's next transaction then commits what was to be aborted."""
    if node.is_kafka:
        node.restart()
    else:
        node.lose(each)


def at_the_same_time(stories, chapter):
    ends = queue.SimpleQueue()

    def tell(story):
        try:
            began = time.monotonic()
            chapter(story)
            print(f"{story.label}: {chapter.__name__} in {time.monotonic() - began:.1f} s")
            ends.put(None)
        except BaseException as error:
            ends.put(error)

    for story in stories:
        threading.Thread(target=tell, args=[story], daemon=True).start()
    for _ in stories:
        end = ends.get()
        if isinstance(end, BaseException):
            raise end


class Witness:
    """The node's word on a topic, on groups and on transactions, asked anew each time."""

    def __init__(self, node):
        self.node = node
        self.admin = AdminClient(client(node))

    def create(self, topic, partitions):
        self.admin.create_topics([NewTopic(topic, partitions, -1)])[topic].result(30)
        wait_until(lambda: self._partitions(topic) == partitions, PATIENCE, f"{topic} is there")

    def _partitions(self, topic):
        found = self.admin.list_topics(topic, timeout=30).topics[topic]
        return None if found.error else sum(partition.leader >= 0 for partition in found.partitions.values())

    def tails(self, topic, isolation, partitions=PARTITIONS):
        """The offset behind what those can read who read with that isolation."""
        return wait_until(lambda: self._tails(topic, isolation, partitions), PATIENCE, f"the ends of {topic} are told")

    def _tails(self, topic, isolation, partitions):
        """None while a partition has no leader, or another one than the client thinks, which it does not look for again."""
        level = IsolationLevel.READ_COMMITTED if isolation == "committed" else IsolationLevel.READ_UNCOMMITTED
        places = {TopicPartition(topic, partition): OffsetSpec.latest() for partition in range(partitions)}
        found = self.admin.list_offsets(places, isolation_level=level)
        try:
            return [found[place].result(30).offset for place in places]
        except KafkaException as refused:
            if refused.args[0].code() not in (KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE):
                raise
            return None

    def read(self, topic, isolation, partitions=PARTITIONS):
        """Everything that one can read now: partition -> list of (offset, value)."""
        return {partition: [(message.offset(), message.value().decode()) for message in messages]
                for partition, messages in self.messages(topic, isolation, partitions).items()}

    def messages(self, topic, isolation, partitions=PARTITIONS):
        """The same as they came."""
        consumer = Consumer(client(self.node, group_id="none", enable_auto_commit=False, enable_partition_eof=True, check_crcs=True, fetch_wait_max_ms=20,
                                   isolation_level=f"read_{isolation}"))
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
        found, reading = {partition: [] for partition in range(partitions)}, set(range(partitions))
        limit = time.monotonic() + PATIENCE
        while reading:
            demand(time.monotonic() < limit, f"{topic}, {isolation}: the end of {reading} was not reached")
            for message in consumer.consume(5000, timeout=0.1):
                if message.error() is None:
                    found[message.partition()].append(message)
                elif message.error().code() == KafkaError._PARTITION_EOF:
                    reading.discard(message.partition())
        consumer.close()
        return found

    def committed(self, group, topic, partitions=PARTITIONS):
        """The offsets of a group, -1001 for none; None while some are pending, or not to be had."""
        asked = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, partition) for partition in range(partitions)])
        try:
            told = self.admin.list_consumer_group_offsets([asked], require_stable=True, request_timeout=30)[group].result(30)
        except KafkaException:
            return None
        if any(place.error for place in told.topic_partitions):
            return None
        return [place.offset for place in told.topic_partitions]

    def transaction(self, name):
        """A transactional id, as the coordinator tells it."""
        admin = KafkaAdminClient(bootstrap_servers=self.node.kafka)
        try:
            return admin.describe_transactions([name])[name]
        finally:
            admin.close()


class Producer:
    """The program `transact`, told what to do. Its records are noted."""

    def __init__(self, story, name, timeout_ms=NEVER_MS):
        self.story, self.name = story, name
        self.program = story.start("transact", name, str(timeout_ms))

    def init(self):
        """From now on the others of this id are fenced, and what they have open is aborted."""
        self.do("init")
        return self

    def begin(self):
        self.do("begin")
        return self

    def do(self, line):
        answer = self.program.ask(line, PATIENCE)
        demand(answer == ["ok"], f"{self.story.traits.name}, {self.name}: {line!r} is answered with {answer}{self.program.errors()}")

    def send(self, partition, count=1):
        """Sends so many records, and notes them as open."""
        values = self.story.log.new_values(self.story.traits.name, count)
        answer = self.program.ask(" ".join(["send", self.story.topic, str(partition), *values]), PATIENCE)
        demand(answer[0].isdigit(), f"{self.story.traits.name}, {self.name}: a record was answered with {answer}{self.program.errors()}")
        self.story.log.sent(self.name, partition, int(answer[0]), values)
        return self

    def end(self, word):
        self.do(word)
        self.story.log.ended(self.name, word == "commit")

    def demand_fenced(self, line, wanted=None):
        """The client is refused, and says why."""
        answer = self.program.ask(line, PATIENCE)
        said = plain("".join(answer))
        wanted = wanted or self.story.traits.fenced
        demand(answer[0] == "error" and any(word in said for word in wanted),
               f"{self.name}: {line.split()[0]!r} was not answered with one of {wanted}, but with {answer}{self.program.errors()}")

    def close(self):
        self.program.kill()


class TransactionStory:
    def __init__(self, program, traits, node, work):
        self.program, self.traits, self.node = program, traits, node
        label = f"{traits.name}-{traits.version}"
        self.work = work / label
        self.work.mkdir()
        self.topic, self.source, self.target, self.group = (f"{what}-{label}" for what in ("strands", "source", "target", "weavers"))
        self.label = label
        self.log = TransactionLog()
        self.witness = Witness(node)
        self.number = 0
        # Of `transform`: the program that runs, how often one was started, and how often one has ended by itself.
        self.copier, self.copiers, self.gave_up, self.stuck = None, 0, 0, 0
        # The number in its id: who is started anew has that of the one before, and who takes over from a living member has another one.
        self.copies = 0
        self.sent, self.transactions = 0, 0

    def new_number(self):
        self.number += 1
        return self.number

    def start(self, *arguments):
        return self.program.start(self.node, self.work / f"{arguments[0]}-{self.new_number()}.log", *arguments)

    def producer(self, name, timeout_ms=NEVER_MS):
        return Producer(self, f"{name}-{self.label}", timeout_ms)

    def told(self):
        return (f"{self.label}: {self.log.committed_count()} records committed and {self.log.aborted_count()} aborted, {RECORDS} copied once in "
                f"{self.transactions} transactions by {self.copiers} copiers, {self.gave_up} of which gave up"
                f"{f' and {self.stuck} were stuck' if self.stuck else ''}")

    # The chapters on one log.

    def tell_of_the_log(self):
        self.witness.create(self.topic, PARTITIONS)
        self.followers = {isolation: self.start("follow", self.topic, isolation) for isolation in ISOLATIONS}
        self._change_version()
        self._commit()
        self._abort()
        self._end_at_once()
        self._interleave()
        self._fence()
        self._time_out()
        if "offsets" not in self.traits.lacks:
            self._commit_offsets()
        for follower in self.followers.values():
            follower.kill()

    def _change_version(self):
        if not self.traits.changes:
            return
        admin = self.start("inspect")
        producer = self.producer("lives").init().begin().send(0)
        producer.end("commit")
        for version in self.traits.changes:
            producer.begin().send(0)
            before = int(admin.ask("version", PATIENCE)[0])
            answer = admin.ask(f"change {version} {'up' if version > before else 'down'}", PATIENCE)
            demand(answer == ["ok"], f"{self.label}: the change to version {version} is answered with {answer}{admin.errors()}")
            wait_until(lambda: admin.ask("version", PATIENCE) == [str(version)], PATIENCE, f"{self.label}: the node has version {version}")
            producer.send(1)
            producer.end("commit")
            producer.begin().send(0).send(2)
            producer.end("abort")
            producer.begin().send(0).send(2)
            producer.end("commit")
            self._demand_seen()
        producer.close()
        admin.finish()

    def _commit(self):
        producer = self.producer("commits").init().begin()
        for partition in range(PARTITIONS):
            producer.send(partition, 3)
        self._demand_seen()
        before = self.witness.transaction(producer.name)
        demand(before.state == "Ongoing", f"{self.label}: a transaction with records is {before}")
        producer.end("commit")
        self._demand_seen()
        after = wait_until(lambda: self._completed(producer.name, "CompleteCommit"), PATIENCE, "the transaction is complete")
        grown = after.producer_epoch - before.producer_epoch
        demand(grown == self.traits.version - FIRST_VERSION, f"{self.label}: by a transaction the epoch has grown by {grown}")
        producer.close()

    def _completed(self, name, state):
        told = self.witness.transaction(name)
        return told if told.state == state else None

    def _abort(self):
        """Aborted records are never seen; those that the same producer commits then are."""
        producer = self.producer("aborts").init().begin().send(0, 2).send(1, 2)
        self._demand_seen()
        self._demand_tails(producer)
        producer.end("abort")
        self._demand_seen()
        producer.begin().send(1, 2).send(2)
        self._demand_seen()
        producer.end("commit")
        self._demand_seen()
        self._demand_tails(producer)
        producer.close()

    def _end_at_once(self):
        producer = self.producer("empty").init()
        for word in ("commit", "abort", "commit"):
            producer.begin().end(word)
        producer.begin().send(0).end("commit")
        producer.begin().end("abort")
        producer.begin().send(0).end("abort")
        self._demand_seen()
        producer.close()

    def _interleave(self):
        """Two transactions and a producer without any in one partition: what comes behind an open transaction waits for it."""
        idle = self.start("produce", self.topic)
        one, other = self.producer("one").init(), self.producer("other").init()
        one.begin().send(0).send(1)
        self._produce(idle, 6)
        other.begin().send(0, 2).send(1)
        self._produce(idle, 6)
        self._demand_seen()
        other.end("commit")
        self._demand_seen()
        one.send(0)
        one.end("abort")
        self._demand_seen()
        self._produce(idle, 6)
        other.begin().send(2)
        self._produce(idle, 6)
        self._demand_seen()
        other.end("commit")
        self._demand_seen()
        idle.finish()
        one.close()
        other.close()

    def _produce(self, idle, count):
        """Records outside of any transaction, by the client's idempotent producer, into the partitions that it likes."""
        idle.say(f"{self.log.plain} {count}")
        self.log.plain += count
        lines = []
        wait_until(lambda: lines.extend(idle.lines()) or len(lines) == count, PATIENCE, "records without a transaction are acknowledged", idle.errors)
        for _word, partition, offset, _key, value in lines:
            self.log.sent(None, int(partition), int(offset), [value])

    def _fence(self):
        """A second producer of the same id takes over: the first one can neither commit nor send, and what it had open is aborted."""
        for line, ways in (("commit", "committing"), (f"send {self.topic} 1 fenced", "sending")):
            first = self.producer(ways).init().begin().send(0).send(1)
            second = self.producer(ways).init()
            self.log.ended(first.name, False)
            first.demand_fenced(line)
            self._demand_seen()
            second.begin().send(0)
            second.end("commit")
            self._demand_seen()
            first.close()
            second.close()

    def _time_out(self):
        """A producer that is silent for too long keeps nobody waiting. It is fenced; the next one of its id goes on."""
        silent, other = self.producer("silent", SHORT_MS).init(), self.producer("busy").init()
        silent.begin().send(0).send(2)
        other.begin().send(0)
        other.end("commit")
        self.log.ended(silent.name, False)
        wait_until(self._is_stable, WITHIN_TIMEOUT, "an old transaction is aborted")
        self._demand_seen()
        silent.demand_fenced("commit", self.traits.timed_out)
        self._demand_seen()
        following = self.producer("silent").init().begin().send(2)
        following.end("commit")
        self._demand_seen()
        for producer in (silent, other, following):
            producer.close()

    def _commit_offsets(self):
        """Offsets are the group's when the transaction is committed, and pending before."""
        group = f"sums-{self.label}"
        unset = self.witness.committed(group, self.topic)
        producer = self.producer("offsets").init()
        producer.begin().do(f"offsets {group} {self.topic} 0 3")
        is_pending = self.witness.committed(group, self.topic) is None
        demand(is_pending != ("pending offsets" in self.traits.lacks), f"{self.label}: an offset of an open transaction is pending: {is_pending}")
        producer.do("abort")
        self._wait_for_offsets(group, unset)
        producer.begin().do(f"offsets {group} {self.topic} 0 4")
        producer.do(f"offsets {group} {self.topic} 1 5")
        producer.send(0).end("commit")
        self._wait_for_offsets(group, [4, 5, *unset[2:]])
        producer.begin().do(f"offsets {group} {self.topic} 0 6")
        producer.do("abort")
        self._wait_for_offsets(group, [4, 5, *unset[2:]])
        self._demand_seen()
        producer.close()

    def _wait_for_offsets(self, group, wanted):
        wait_until(lambda: self.witness.committed(group, self.topic) == wanted, PATIENCE, f"{self.label}: the group's offsets are {wanted}",
                   lambda: f"but {self.witness.committed(group, self.topic)}")

    # The things that everybody must see at any time.

    def _is_stable(self):
        """Nobody waits for a marker of a transaction that has ended."""
        opened = self.log.first_open()
        tails, stable = self.witness.tails(self.topic, "uncommitted"), self.witness.tails(self.topic, "committed")
        return stable == [tail if first is None else first for tail, first in zip(tails, opened)]

    def _demand_seen(self):
        wait_until(self._is_stable, PATIENCE, f"{self.label}: the last stable offsets are those of {self.log.first_open()}",
                   lambda: f"but {self.witness.tails(self.topic, 'committed')} of {self.witness.tails(self.topic, 'uncommitted')}")
        for isolation in ISOLATIONS:
            wanted, found = self.log.seen(isolation), self.witness.read(self.topic, isolation)
            demand(found == wanted, f"{self.label}, {isolation}: {found} was read, not {wanted}")
        for isolation in ISOLATIONS:
            wait_until(lambda: self._take(isolation), PATIENCE, f"{self.label}: a reader with the isolation {isolation} has seen {self.log.seen(isolation)}",
                       lambda: f"but {self.log.told[isolation]}{self.followers[isolation].errors()}")

    def _take(self, isolation):
        """Says if the client's own reader has seen all; it may never have seen more."""
        follower = self.followers[isolation]
        follower.demand_alive()
        return self.log.take(self.label, isolation, follower.lines())

    def _demand_tails(self, producer):
        for isolation in ISOLATIONS:
            for partition, wanted in enumerate(self.witness.tails(self.topic, isolation)):
                answer = producer.program.ask(f"tail {self.topic} {partition} {isolation}", PATIENCE)
                lacks = f"{isolation} tail" in self.traits.lacks
                demand(answer == ["lacks" if lacks else str(wanted)], f"{self.label}: the {isolation} tail of {partition} is {wanted}, but {answer}")

    # The chapters of the copier.

    def begin_to_copy(self):
        """Transactions are aborted, and the copier is killed at each of its steps."""
        for topic in (self.source, self.target):
            self.witness.create(topic, PARTITIONS)
        self.follower = self.start("follow", self.target, "committed")
        self.source_producer = self.start("produce", self.source)
        self._write_source(BEFORE)
        self._start_copier()
        self._wait_for("sent")
        self._say("abort")
        self._wait_for("aborted")
        self._wait_for("sent")
        self._say("offsets")
        self._wait_for("added")
        self._say("commit")
        self._wait_for("committed", "aborted")
        self._wait_for("sent")
        self._kill_copier("its records are written")
        self._wait_for("sent")
        self._say("offsets")
        self._wait_for("added")
        self._kill_copier("its offsets are added")
        self._wait_for("sent")
        self._say("offsets")
        self._wait_for("added")
        self._say("commit")
        self._kill_copier("it commits")
        if self.traits.members:
            self._take_over()

    def open_one(self):
        """A transaction is begun, and nobody ends it before the node is killed."""
        goal = self.transactions + 1
        self._copy_until(lambda: self.transactions >= goal and "sent" in self._hear(), "a transaction is open")

    def _take_over(self):
        """A copier is so slow that it loses its membership; another one, of another id, takes over. The slow one is refused then, whatever it says."""
        for stop_at in ("sent", "added"):
            self._wait_for("sent")
            if stop_at == "added":
                self._say("offsets")
                self._wait_for("added")
            slow = self.copier
            slow.process.send_signal(signal.SIGSTOP)
            self.copies += 1
            self._start_copier()
            # The other one waits until the group has given up the slow one, and for its pending offsets until the transaction has timed out.
            self._wait_for("sent")
            self._say("offsets")
            self._wait_for("added")
            self._say("commit")
            self._wait_for("committed")
            slow.process.send_signal(signal.SIGCONT)
            self._tell(slow, *["offsets", "commit"][stop_at == "added":])
            lines = []
            wait_until(lambda: lines.extend(slow.lines()) or ["aborted"] in lines or slow.process.poll() is not None, PATIENCE,
                       f"{self.label}: a member that was given up is refused", lambda: f"but says {lines}{slow.errors()}")
            demand(["committed"] not in lines, f"{self.label}: a member that was given up has committed")
            slow.kill()

    def copy_on(self):
        """The node is back: what was open when it was killed ends, and copying goes on."""
        # librdkafka's admin client may abort the process when it loses a connection.
        self.witness = Witness(self.node)
        goal = self.transactions + 2
        self._copy_until(lambda: self.transactions >= goal or self._is_copied(), "copying goes on")

    def end_copying(self):
        self._write_source(RECORDS - self.sent)
        self.source_producer.finish()
        self._copy_until(self._is_copied, "all is copied")
        self.copier.kill()
        wanted = Counter(value for values in self.witness.read(self.source, "committed").values() for _, value in values)
        demand(len(wanted) == RECORDS and set(wanted.values()) == {1}, f"{self.label}: the source has {len(wanted)} values")
        copies = self.witness.read(self.target, "committed")
        found = Counter(value for values in copies.values() for _, value in values)
        demand(found == wanted, f"{self.label}: missing {wanted - found}, more than once {found - wanted}")
        attempts = sum(map(len, self.witness.read(self.target, "uncommitted").values()))
        demand(attempts > RECORDS, f"{self.label}: {attempts} records were written: none of an aborted transaction, so nothing was proved")
        self.follower_log = TransactionLog.of(copies)
        wait_until(lambda: self.follower_log.take(self.label, "committed", self.follower.lines()), PATIENCE,
                   f"{self.label}: a reader of the copies has seen all", self.follower.errors)
        self.follower.kill()

    def _is_copied(self):
        if self.sent < RECORDS or self._hear():
            return False
        return self.witness.committed(self.group, self.source) == self.witness.tails(self.source, "committed")

    def _write_source(self, count):
        self.source_producer.say(f"{self.sent} {count}")
        self.sent += count
        told = []
        wait_until(lambda: told.extend(self.source_producer.lines()) or len(told) == count, WITHIN_TRANSFORM, "the source is written",
                   self.source_producer.errors)

    def _start_copier(self):
        self.copiers += 1
        self.heard, self.active = deque(), time.monotonic()
        self.copier = self.start("transform", f"copies-{self.copies}-{self.label}", str(TRANSFORM_TIMEOUT_MS), self.group, self.source, self.target)

    def _kill_copier(self, _when):
        self.copier.kill()
        self._start_copier()

    def _wait_for(self, *words):
        """The copier says one of these words next."""
        word = self._next(words)
        demand(word in words, f"{self.label}: the copier says {word!r}, not {words}{self.copier.errors()}")

    def _next(self, wanted):
        wait_until(self._hear, WITHIN_TRANSFORM, f"{self.label}: the copier says {wanted}", lambda: self.copier.errors())
        word = self.heard.popleft()
        self.transactions += word == "committed"
        return word

    def _copy_until(self, condition, what):
        limit = time.monotonic() + WITHIN_TRANSFORM
        answers = {"sent": "offsets", "added": "commit"}
        while not condition():
            demand(time.monotonic() < limit, f"{self.label}: not within {WITHIN_TRANSFORM} s: {what}{self.copier.errors()}")
            if not self._hear():
                time.sleep(0.02)
            elif (word := self._next(answers)) in answers:
                self._say(answers[word])

    def _hear(self):
        """Reads all that the copier has said and was not answered yet. Whoever gives up is followed by the next one."""
        words = [word for word, *_ in self.copier.lines()]
        if words:
            self.heard.extend(words)
            self.active = time.monotonic()
        elif self.copier.process.poll() is not None:
            self.gave_up += 1
            self._start_copier()
        elif not self.heard and time.monotonic() - self.active > STUCK_SECONDS:
            self.stuck += 1
            self._kill_copier("it is stuck")
        return self.heard

    def _say(self, word):
        self.active = time.monotonic()
        self._tell(self.copier, word)

    @staticmethod
    def _tell(copier, *words):
        try:
            for word in words:
                copier.say(word)
        except BrokenPipeError:
            # It has given up.
            pass
