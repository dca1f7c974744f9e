"""The story that every client lives through: one producer and a group whose members join, leave and are killed while the
node is killed and restarted, or each of three nodes; the client's codecs; the administration of topics and groups. `run_story` is all that a suite calls.

What the client says is judged by `group_ledger`; what the node says is asked with librdkafka, as an impartial witness.
"""

import queue
import threading
import time

from confluent_kafka import Consumer, ConsumerGroupState, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from suites_support import letters
from suites_support.client_program import Client
from suites_support.group_ledger import GroupLedger, Member
from suites_support.kafka_node import node_in
from suites_support.load import client, reading
from suites_support.node import TINY
from suites_support.suite import demand, run, wait_until

PARTITIONS = 6
CHUNK = 20
MORE = 200

# What a step may take, in seconds: what it waits for by what was set, and this for a slow machine.
PATIENCE = 30
# A silent member is given up (tests/clients/README.md).
SESSION = 3
# Members hear of a rebalance by their next heartbeat, and of a second one, when an assignor hands over in two steps.
REBALANCE = 5
# Clients rest after their node was away, by their own defaults: kafka-go and franz-go 5 s, sarama 2 s, and some twice.
REST = 10
WITHIN_RECORDS = PATIENCE
WITHIN_REBALANCE = REBALANCE + PATIENCE
WITHIN_KILLED_MEMBER = SESSION + WITHIN_REBALANCE
WITHIN_KILLED_NODE = REST + WITHIN_KILLED_MEMBER
# A real Kafka is not on trial.
WITHIN_OF_KAFKA = 120
LONGEST_SHOWN = 3

SETTINGS = {
    **TINY,
    # Asking for a deleted topic would create it again.
    "topics.auto_create": "false",
    "groups.initial_rebalance_delay": "100ms",
    "groups.session_timeout_min": "1s",
    "groups.consumer_session_timeout": "3s",
    "groups.consumer_heartbeat_interval": "500ms",
}


def run_story(name, protocols, exactly_once=True, **traits):
    """Runs the whole suite of one client: the story once for each group protocol. `traits` are those of `Client`."""
    run_stories(name, [(Story, protocol) for protocol in protocols], exactly_once, **traits)


def run_stories(name, stories, exactly_once=True, **traits):
    """Runs several stories of one client, each by a protocol, at the same time, each on a node of its own."""

    def main(_seed, work):
        program = Client(name, **traits)
        ends = queue.SimpleQueue()

        def tell(story, protocol):
            try:
                folder = work / f"{story.__name__}-{protocol}"
                folder.mkdir()
                ends.put(story(program, protocol, exactly_once, folder).tell())
            except BaseException as error:
                ends.put(error)

        for story in stories:
            threading.Thread(target=tell, args=story, daemon=True).start()
        told = []
        for _ in stories:
            end = ends.get()
            if isinstance(end, BaseException):
                raise end
            told.append(end)
        print("; ".join(told))

    run(main)


class Witness:
    """What the node says, asked with librdkafka; None while it cannot be asked. For each life of the node there is a new one:
    librdkafka's admin client may abort the process when it loses a connection."""

    def __init__(self, node, topic, group):
        self.node, self.topic, self.group = node, topic, group
        self.admin = AdminClient(client(node))
        # What was told of the group last, for the reports of failures.
        self.group_told = None
        self.consumer = Consumer({**reading(node), "group.id": group})

    def described(self):
        """The group; None while its coordinator does not tell."""
        try:
            return self.admin.describe_consumer_groups([self.group], request_timeout=10)[self.group].result()
        except KafkaException as error:
            self.group_told = error
            if error.args[0].code() == KafkaError.NOT_COORDINATOR:
                # An admin client keeps the coordinator that it has found once.
                self.admin = AdminClient(client(self.node))
            return None

    def members(self):
        """How many members the group has, each with partitions that are nobody else's; None while it is not at rest."""
        found = self.described()
        if found is None:
            return None
        if found.state == ConsumerGroupState.EMPTY:
            return 0
        owned = [[place.partition for place in member.assignment.topic_partitions] if member.assignment else []
                 for member in found.members]
        self.group_told = found.state, owned
        given = [partition for partitions in owned for partition in partitions]
        at_rest = found.state == ConsumerGroupState.STABLE and sorted(given) == list(range(PARTITIONS))
        return len(found.members) if at_rest else None

    def committed(self):
        try:
            found = self.consumer.committed([TopicPartition(self.topic, p) for p in range(PARTITIONS)], timeout=10)
        except KafkaException:
            return None
        # Partitions without a committed offset are told as negative.
        return [max(0, place.offset) for place in found]

    def tails(self):
        try:
            return [self.consumer.get_watermark_offsets(TopicPartition(self.topic, p), timeout=10)[1]
                    for p in range(PARTITIONS)]
        except KafkaException:
            return None

    def log(self):
        """Everything: partition -> list of (offset, (key, value))."""
        tails = wait_until(self.tails, WITHIN_RECORDS, "the tails are told")
        log = {partition: [] for partition in range(PARTITIONS)}
        self.consumer.assign([TopicPartition(self.topic, p, 0) for p in range(PARTITIONS)])

        def whole():
            for message in self.consumer.consume(5000, timeout=1):
                demand(message.error() is None, f"reading everything: {message.error()}")
                record = message.key().decode(), message.value().decode()
                log[message.partition()].append((message.offset(), record))
            return [len(log[partition]) for partition in range(PARTITIONS)] == tails

        wait_until(whole, 2 * WITHIN_RECORDS, "everything is read")
        self.consumer.unassign()
        return log


class Story:
    settings = SETTINGS

    def __init__(self, program, protocol, exactly_once, work):
        self.program, self.protocol, self.work = program, protocol, work
        self.topic, self.group = "strands", f"weavers-{protocol}"
        # What members ask for: the topic, or a regular expression.
        self.subscription = self.topic
        self.node = node_in(work, self.settings)
        self.ledger = GroupLedger(PARTITIONS, exactly_once)
        self.members = []
        self.joined = 0
        self.sent = 0
        self.writing = False
        # The seconds of each wait, and for what.
        self.waits = []

    def tell(self):
        """The whole story; gives one line that says how much it proved."""
        began = time.monotonic()
        self.node.start()
        self._renew_witness()
        self.admin = self.program.start(self.node, self.work / "admin.log", "admin")
        self._administer_topics()
        self.producer = self.program.start(self.node, self.work / "producer.log", "produce", self.topic)
        self._live()
        self.producer.finish()
        self.admin.finish()
        log = self.witness.log()
        self.ledger.check_log(log)
        self.node.stop()
        longest = ", ".join(f"{waited:.1f} s until {what}" for waited, what in sorted(self.waits, reverse=True)[:LONGEST_SHOWN])
        return (f"{self.program.name}, {self.protocol}: {self.sent} records, {self.ledger.read_again()} of them read again, "
                f"{self.joined} members, in {time.monotonic() - began:.0f} s, the longest waits {longest}")

    # The chapters.

    def _live(self):
        codecs = self._send_letters()
        self._read_at_rest()
        self._rebalance_under_load()
        self._kill_each_node_under_load()
        if len(self.node.nodes) > 1:
            self._roll_under_load()
        self._restart_in_order()
        letters.check_log(self.program.name, self.witness.consumer, codecs)
        self._administer_groups()

    def _send_letters(self):
        """Records of each codec, with headers and tombstones, come back to the client as it sent them. Gives the codecs."""
        self._ask_until(f"create {letters.TOPIC} 1", lambda words: words == ["ok"])
        self._ask_until(f"describe {letters.TOPIC}", lambda words: words == ["1"])
        process = self.program.start(self.node, self.work / "codecs.log", "codecs", letters.TOPIC)
        process.finish()
        codecs = letters.check_told(self.program.name, process.lines(), self.program.lacks)
        letters.check_batches(self.program.name, self.node, codecs)
        return codecs

    def _read_at_rest(self):
        """With nothing going on, every record is read once."""
        self._join(2)
        self._write_more()
        self._settle()
        self._demand_each_once("at rest")

    def _rebalance_under_load(self):
        self.writing = True
        self._join(1)
        self._wait_for_more("one joined")
        self._leave(self.members[0])
        self._wait_for_members("one left")
        self._wait_for_more("one left")
        self._kill(self.members[0])
        self._wait_for_members("one was killed", WITHIN_KILLED_MEMBER)
        self._wait_for_more("one was killed")
        self._join(1)

    def _kill_each_node_under_load(self):
        """Of three, leaders, the group's coordinator and the leader of the metadata are among them, and each time the two others go on."""
        for node in self.node.nodes:
            self._kill_under_load(node)
        self._come_to_rest("each node was killed once")

    def _roll_under_load(self):
        """A rolling restart: each node hands over before it stops."""
        self.writing = True
        for node in self.node.nodes:
            node.restart()
            self._wait_for_more("a node was restarted", WITHIN_KILLED_NODE)
        self._come_to_rest("all nodes were restarted")

    def _come_to_rest(self, what):
        self.writing = False
        self._renew_witness()
        # Before, a member that was given up and does not know of it may still read what others have committed.
        self._wait_for_members(what, WITHIN_KILLED_NODE)
        self._settle(WITHIN_KILLED_NODE)

    def _restart_in_order(self):
        """Offsets are where they were, and only what is new is read."""
        for member in list(self.members):
            self._leave(member)
        self._wait_for_members("all left")
        before = wait_until(self.witness.committed, WITHIN_RECORDS, "the committed offsets are told")
        again = self.ledger.read_again()
        self.node.restart()
        self._renew_witness()
        after = wait_until(self.witness.committed, WITHIN_RECORDS, "the committed offsets are told")
        demand(after == before, f"the group had committed {before}; after a restart {after}")
        self._join(2)
        self._write_more()
        # The producer has lost its node as if that had been killed.
        self._settle(WITHIN_KILLED_NODE)
        demand(self.ledger.read_again() == again, "after a restart at rest records were read again")

    def _administer_topics(self):
        self._ask_until("create strands 6", lambda words: words == ["ok"])
        self.node.demand_replicas("strands")
        self._ask_until("create passing 3", lambda words: words == ["ok"])
        self._ask_until("topics", lambda words: {"strands", "passing"} <= set(words))
        self._ask_until("describe passing", lambda words: words == ["3"])
        answer = self.admin.ask("create passing 3")
        demand(answer[0] == "error", f"a topic that exists was created again: {answer}")
        self._change("set passing retention.ms 1234567")
        self._ask_until("config passing retention.ms", lambda words: words == ["1234567"])
        self._demand_refused("set passing retention.ms soon")
        self._change("grow passing 5")
        self._ask_until("describe passing", lambda words: words == ["5"])
        self._demand_refused("grow passing 2")
        answer = self.admin.ask("transaction passing", WITHIN_OF_KAFKA)
        demand(answer == ["ok"], f"{self.program.name}: a transaction was answered with {answer}")
        self._ask_until("delete passing", lambda words: words == ["ok"])
        self._ask_until("topics", lambda words: "passing" not in words)
        self._ask_until("describe passing", lambda words: words[0] == "error")

    def _administer_groups(self):
        self._ask_until("groups", lambda words: self.group in words)
        expected = [f"{partition}:{offset}" for partition, offset in enumerate(self.witness.committed())]
        self._ask_until(f"offsets {self.group} {self.topic}", lambda words: sorted(words) == expected)
        self._ask_for_a_time()
        self._ask_until(f"state {self.group}", lambda words: words == ["stable"])
        self._demand_refused(f"forget {self.group}")
        for member in list(self.members):
            self._leave(member)
        self._wait_for_members("all left")
        self._ask_until(f"state {self.group}", lambda words: words == ["empty"])
        if self._change(f"forget {self.group}"):
            self._ask_until("groups", lambda words: self.group not in words)
        self._trim()

    def _ask_for_a_time(self):
        """The first record of a time is found, or of a later time: as the witness finds it."""
        reader = self.witness.consumer
        middle = TopicPartition(self.topic, 0, self.witness.tails()[0] // 2)
        reader.assign([middle])
        message = wait_until(lambda: reader.poll(1), WITHIN_RECORDS, "a record in the middle is read")
        _, ms = message.timestamp()
        reader.unassign()
        found, = reader.offsets_for_times([TopicPartition(self.topic, 0, ms)], timeout=30)
        demand(0 < found.offset <= middle.offset, f"the witness finds {found.offset} by the time of {middle.offset}")
        self._ask_until(f"since {self.topic} 0 {ms}", lambda words: words == [str(found.offset)])

    def _trim(self):
        """Records that are given up are gone."""
        if self._change(f"trim {letters.TOPIC} 0 {letters.LETTERS_OF_CODEC}"):
            place = TopicPartition(letters.TOPIC, 0)
            wait_until(lambda: self.witness.consumer.get_watermark_offsets(place, timeout=30)[0] == letters.LETTERS_OF_CODEC, WITHIN_RECORDS,
                       "the trimmed records are gone")

    # What they are made of.

    def _kill_under_load(self, node):
        self.node.lose(node)
        self._renew_witness()
        self._wait_for_more("a node was killed", WITHIN_KILLED_NODE)
        self.node.make_whole()

    def _coordinator(self):
        """The node that coordinates the group."""
        found = wait_until(self.witness.described, WITHIN_RECORDS, "the group is described").coordinator
        return next(node for node in self.node.nodes if node.kafka == f"{found.host}:{found.port}")

    def _renew_witness(self):
        self.witness = Witness(self.node, self.topic, self.group)

    def _join(self, count):
        for _ in range(count):
            self._start_member(self.protocol)
        self._wait_for_members(f"{count} joined")

    def _start_member(self, protocol, *instance):
        self.joined += 1
        name = f"member-{self.joined}"
        process = self.program.start(self.node, self.work / f"{name}.log", "consume", self.subscription, self.group, protocol,
                                     *instance)
        self.members.append((Member(name), process))
        return self.members[-1]

    def _leave(self, member):
        self.members.remove(member)
        member[1].leave()
        self.ledger.take_told(member[0], member[1].lines())

    def _kill(self, member):
        self.members.remove(member)
        member[1].kill()
        self.ledger.take_told(member[0], member[1].lines())

    def _pump(self):
        """Takes what was said, and writes on if that is wanted."""
        self.producer.demand_alive()
        self.ledger.take_produced(self.producer.lines())
        for member, process in self.members:
            process.demand_alive()
            self.ledger.take_told(member, process.lines())
        if self.writing and self.ledger.acknowledged_count == self.sent:
            self._write(CHUNK)

    def _write(self, count):
        self.producer.say(f"{self.sent} {count}")
        self.sent += count

    def _write_more(self):
        self._write(MORE)

    def _wait(self, condition, what, seconds):
        if self.node.is_kafka:
            seconds = WITHIN_OF_KAFKA
        pause = threading.Event()
        began = time.monotonic()
        while True:
            self._pump()
            waited = time.monotonic() - began
            if condition():
                self.waits.append((waited, what))
                return
            if waited >= seconds:
                said = "".join(f"\n{member.name}{process.errors(10)}" for member, process in self.members)
                demand(False, f"{self.program.name}, {self.protocol}: not within {seconds} s: {what}; "
                       f"{self.ledger.acknowledged_count} of {self.sent} acknowledged, {len(self.ledger.unread)} of them unread; "
                       f"the group: {self.witness.group_told}"
                       f"{said}\nthe producer{self.producer.errors(10)}")
            pause.wait(0.02)

    def _wait_for_members(self, what, seconds=WITHIN_REBALANCE):
        self._wait(lambda: self.witness.members() == len(self.members), f"{len(self.members)} members share all ({what})", seconds)

    def _wait_for_more(self, what, seconds=WITHIN_RECORDS):
        """Records that are written from now on are acknowledged and read."""
        goal = self.sent + MORE
        self._wait(lambda: self.ledger.acknowledged_count >= goal, f"{MORE} more are acknowledged ({what})", seconds)
        unread = set(self.ledger.unread)
        self._wait(lambda: not unread & self.ledger.unread, f"what is acknowledged is read ({what})", seconds)

    def _settle(self, seconds=WITHIN_RECORDS):
        """All is written, acknowledged, read and committed."""
        self._wait(lambda: self.ledger.acknowledged_count == self.sent, "all is acknowledged", seconds)
        tails = wait_until(self.witness.tails, WITHIN_RECORDS, "the tails are told")
        self._wait(lambda: self.witness.committed() == tails, f"the group has committed {tails}", seconds)
        self._wait(lambda: not self.ledger.unread, "all is read", seconds)
        self.ledger.settle(tails)

    def _demand_each_once(self, what):
        demand(self.ledger.read_again() == 0, f"{what} {self.ledger.read_again()} records were read again")

    def _change(self, line):
        """Has something done, unless the client has nothing for it; whether it was done."""
        lacks = line.split()[0] in self.program.lacks
        answer = self.admin.ask(line)
        demand(answer == (["lacks"] if lacks else ["ok"]), f"{self.program.name}: {line!r} is answered with {answer}{self.admin.errors()}")
        return not lacks

    def _demand_refused(self, line):
        if line.split()[0] not in self.program.lacks:
            answer = self.admin.ask(line)
            demand(answer[0] == "error", f"{self.program.name}: {line!r} is answered with {answer}")

    def _ask_until(self, line, wanted):
        """Kafka's own metadata may take a moment to show what was done; a deed is tried once only."""
        once = line.split()[0] in ("create", "delete")
        limit = time.monotonic() + 20
        while not wanted(answer := self.admin.ask(line)):
            demand(not once and time.monotonic() < limit,
                   f"{self.program.name}: {line!r} is answered with {answer}{self.admin.errors()}")
