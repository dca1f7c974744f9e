"""A trial of transactions: clients of several kinds, each a process, do random ones while nodes and clients are harmed. They reach the nodes through a proxy, which has their requests
arrive late. Then all comes to rest, everything is read, and the history goes to `transaction_judge`. Harm to the nodes is the suite's business, which calls `during`."""

import random
import signal
import time
from collections import Counter

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from suites_support.client_program import Client, Process
from suites_support.load import client
from suites_support.proxy import UNANSWERED
from suites_support.suite import demand, wait_until
from suites_support.transaction_history import TransactionHistory
from suites_support.transaction_judge import judge

TOPICS = ["left", "right"]
PARTITIONS = [(topic, partition) for topic in TOPICS for partition in range(2)]
# Numbers below 100 are those of transactional ids: of librdkafka (transactions of version 1), of Java (version 2, all of them in one process); and of readers. A client is told apart
# by its incarnation, too.
IDS = 100
LIBRDKAFKA = range(5)
JAVA = range(10, 17)
READERS = {20: "committed", 21: "committed", 22: "uncommitted"}
# One that leaves a transaction open and is never heard of again; for so long it may be open.
SILENT = 30
SILENT_SECONDS = 3
# Those that read everything at the end.
LAST = {"committed": -1, "uncommitted": -2}
PATIENCE = 60
# So many transactions each client must commit when faults have stopped.
COMMITS_AT_REST = 3
# While requests are late, such a share of them is, until so many ends and records have arrived when their client had gone on with its next transaction, and so many answers of ends were lost.
LATE_SHARE, LATE_ENDS, LATE_RECORDS, LOST_ANSWERS = 0.3, 1, 1, 1


class Trial:
    def __init__(self, nodes, proxy, folder, seed, replicas):
        self.nodes, self.proxy, self.folder, self.seed, self.replicas = nodes, proxy, folder, seed, replicas
        self.address = ",".join(proxy.addresses)
        self.chance = random.Random(seed)
        self.history = TransactionHistory()
        self.troubles = Counter()
        self.lines_of_trouble = []
        # (begin, end, name) of each fault.
        self.windows = []
        self.ended, self.committed = Counter(), Counter()
        self.processes, self.incarnations = {}, Counter()
        # Processes that others have replaced.
        self.zombies = []
        self.commands = {"librdkafka": _program("librdkafka", "main.py", "transactor.py"), "java": _program("java", "ContractClient", "Transactor")}

    def begin(self):
        admin = AdminClient(self._client())
        wanted = [NewTopic(topic, num_partitions=2, replication_factor=self.replicas) for topic in TOPICS]
        for future in admin.create_topics(wanted, operation_timeout=30).values():
            future.result(PATIENCE)
        # Those that start slowly first.
        self._start("java", *JAVA)
        self._wait_until_each_commits(JAVA)
        for number in LIBRDKAFKA:
            self._start("librdkafka", number)
        for number in READERS:
            self._start_reader(number)
        self._wait_until_each_commits(LIBRDKAFKA)

    def _client(self):
        return client(self.nodes, bootstrap_servers=self.address)

    @staticmethod
    def transactors():
        return [*LIBRDKAFKA, *JAVA]

    def _wait_until_each_commits(self, numbers):
        wait_until(lambda: self._drain() or all(self.committed[number] for number in numbers), PATIENCE, "each client has committed", self._tell_troubles)

    def _start(self, kind, *numbers):
        self.incarnations[numbers] += 1
        self.processes[numbers] = self._process(kind, "transact", self.incarnations[numbers], *numbers)

    def _start_reader(self, number):
        self.processes[number,] = self._process("librdkafka", "read", READERS[number], number)

    def _process(self, kind, role, trait, *numbers):
        words = [*self.commands[kind], self.address, role, trait, self.seed, *numbers]
        return Process([str(word) for word in words], self.folder / f"client-{numbers[0]}.log")

    def _drain(self):
        """Takes note of what the clients have said."""
        for process in [*self.processes.values(), *self.zombies]:
            for line in process.texts():
                words = line.split()
                if not words or not words[0].isdigit():
                    # Java's machine says there, too, what it does not like.
                    self.lines_of_trouble.append(line.rstrip())
                    continue
                if words[1] == "trouble":
                    self.troubles[" ".join(words[2:])] += 1
                    self.lines_of_trouble.append(f"{time.monotonic_ns()} {line.rstrip()}")
                    continue
                self.history.note(line)
                self.ended[int(words[0]) % IDS] += words[1] == "ended"
                self.committed[int(words[0]) % IDS] += words[1] == "ended" and words[3] == "committed"

    def wait_for_one_to_give_up(self):
        """Waits until a client says that something was not done in its time."""
        before = self.troubles.total()
        wait_until(lambda: self._drain() or self.troubles.total() > before, PATIENCE, "a client has given something up")

    def wait_for_more(self, count):
        """Waits until so many more transactions have ended, whoever's they are."""
        goal = self.ended.total() + count

        def are_there():
            self._drain()
            self._demand_alive()
            return self.ended.total() >= goal

        wait_until(are_there, PATIENCE, f"{count} more transactions end", self._tell_troubles)

    def _demand_alive(self):
        """A reader that librdkafka (2.16) has ended with a fault of memory, which was seen when all nodes were away for long, begins again."""
        for numbers, process in list(self.processes.items()):
            if numbers[0] in READERS and process.process.poll() == -signal.SIGSEGV:
                self.troubles["reader: SIGSEGV"] += 1
                process.kill()
                self._drain()
                self._start_reader(numbers[0])
            else:
                process.demand_alive()

    def _tell_troubles(self):
        return f"{dict(self.troubles)}; the last: {self.lines_of_trouble[-20:]}"

    def during(self, fault):
        """Does what harms nodes or clients, and remembers when that was."""
        begin = time.monotonic_ns()
        fault()
        self.windows.append((begin, time.monotonic_ns(), fault.__name__))

    def _some_client(self):
        """One of librdkafka, or all of Java."""
        numbers = self.chance.choice([numbers for numbers in self.processes if numbers[0] not in READERS])
        return ("java" if numbers[0] in JAVA else "librdkafka"), numbers

    def kill_client(self):
        """kill -9; another one goes on with the same transactional ids and groups."""
        kind, numbers = self._some_client()
        self.processes[numbers].kill()
        self._drain()
        self._start(kind, *numbers)
        self.wait_for_more(len(self.transactors()))

    def wake_zombie(self):
        """A client stands still, another one takes its place, and the first goes on in the middle of whatever it did: it is fenced. It fences the other one when it begins anew."""
        kind, numbers = self._some_client()
        zombie = self.processes[numbers]
        zombie.process.send_signal(signal.SIGSTOP)
        self.zombies.append(zombie)
        before = {number: self.committed[number] for number in numbers}
        self._start(kind, *numbers)
        wait_until(lambda: self._drain() or all(self.committed[number] > count for number, count in before.items()), PATIENCE, "another client has taken over", self._tell_troubles)
        zombie.process.send_signal(signal.SIGCONT)
        self.wait_for_more(len(self.transactors()))
        zombie.kill()
        self._drain()
        self.zombies.remove(zombie)

    def delay_requests(self):
        """Ends, records and offsets of transactions arrive late, or clients hear late or never that they have arrived."""
        def met():
            return self.proxy.overtaken["EndTxn"], self.proxy.overtaken["Produce"], self.proxy.met["EndTxn", UNANSWERED]

        before, usual = met(), self.proxy.share

        def are_met():
            self._drain()
            self._demand_alive()
            return all(now - begun >= goal for now, begun, goal in zip(met(), before, [LATE_ENDS, LATE_RECORDS, LOST_ANSWERS]))

        self.proxy.share = LATE_SHARE
        wait_until(are_met, PATIENCE, "requests arrive late", lambda: f"{met()} after {before}; {self._tell_troubles()}")
        self.proxy.share = usual

    def leave_open(self):
        """A transaction that nobody ends: its coordinator must, whatever happens to that meanwhile."""
        name = f"{SILENT}-1"
        producer = Producer({**self._client(), "transactional.id": "silent", "transaction.timeout.ms": SILENT_SECONDS * 1000, "socket.timeout.ms": SILENT_SECONDS * 1000, "linger.ms": 0})
        producer.init_transactions(PATIENCE)
        producer.begin_transaction()
        self.history.note(f"{SILENT} begin {name} {time.monotonic_ns()}")

        def delivered(error, message):
            if error is None:
                self.history.note(f"{SILENT} told {name} {message.value().decode()} {message.offset()}")

        for index, (topic, partition) in enumerate(PARTITIONS):
            value = f"{name}.{index}"
            self.history.note(f"{SILENT} send {name} {topic}-{partition} {value}")
            producer.produce(topic, value, partition=partition, on_delivery=delivered)
        demand(producer.flush(PATIENCE) == 0, "what is left open is written")

    def come_to_rest(self):
        """Each client commits again and ends; no transaction is left open."""
        self.proxy.share = 0.0
        goals = {number: self.committed[number] + COMMITS_AT_REST for number in self.transactors()}
        ending = set()

        def are_ending():
            self._drain()
            for numbers, process in self.processes.items():
                if numbers not in ending and all(self.committed[number] >= goals.get(number, 0) for number in numbers if number not in READERS):
                    process.end_input()
                    ending.add(numbers)
            return len(ending) == len(self.processes)

        left = lambda: {number: goal - self.committed[number] for number, goal in goals.items() if self.committed[number] < goal}
        wait_until(are_ending, PATIENCE, "each client commits again", lambda: f"missing {left()}; {self._tell_troubles()}")
        for process in self.processes.values():
            process.finish()
        self._drain()
        self._read_everything()

    def _read_everything(self):
        """The last stable offset is the tail of each partition, and all is read, both as committed and whatever it is; then what the groups have committed."""
        readers = {isolation: _reader(self._client(), isolation) for isolation in LAST}
        bounds = lambda isolation: {place: _tail(readers[isolation], place) for place in PARTITIONS}
        wait_until(lambda: None not in (all_of := bounds("uncommitted")).values() and bounds("committed") == all_of, PATIENCE,
                   "nothing is open in any partition", lambda: f"stable {bounds('committed')}, tails {bounds('uncommitted')}")
        tails = bounds("uncommitted")
        for isolation, reader in readers.items():
            self._read_all(reader, isolation, tails)
            reader.close()
        for number in self.transactors():
            self._fetch(f"group-{number}")

    def _read_all(self, reader, isolation, tails):
        number, passed = LAST[isolation], {}
        self.history.note(f"{number} seek {isolation} {' '.join(f'{topic}-{partition} 0' for topic, partition in PARTITIONS)}")
        reader.assign([TopicPartition(*place, 0) for place in PARTITIONS])

        def is_read():
            call, records = time.monotonic_ns(), []
            for message in reader.consume(5000, timeout=0.2):
                place = message.topic(), message.partition()
                if message.error() is None:
                    records.append(f"{place[0]}-{place[1]} {message.offset()} {message.value().decode()}")
                elif message.error().code() == KafkaError._PARTITION_EOF:
                    passed[place] = message.offset()
            if records:
                self.history.note(f"{number} polled - {call} {time.monotonic_ns()} {' '.join(records)}")
            return passed == tails

        wait_until(is_read, PATIENCE, f"all is read as {isolation}", lambda: f"up to {passed} of {tails}")
        for (topic, partition), end in passed.items():
            self.history.note(f"{number} passed {topic}-{partition} {end}")

    def _fetch(self, group):
        """Asks where a group begins, when nothing of it is pending."""
        admin = AdminClient(self._client())
        wanted = ConsumerGroupTopicPartitions(group, [TopicPartition(*place) for place in PARTITIONS])
        call = time.monotonic_ns()
        told = wait_until(lambda: _answer(admin, wanted, group), PATIENCE, f"{group} is told where to begin")
        words = [f"{each.topic}-{each.partition} {max(each.offset, -1)}" for each in told.topic_partitions]
        self.history.note(f"{LAST['committed']} fetched {group} {call} {time.monotonic_ns()} {' '.join(words)}")

    def of_nodes(self, faults):
        """Those that harm more than clients and their requests."""
        return [fault for fault in faults if not hasattr(self, fault.__name__)]

    def overlapping(self):
        """How many transactions were under way during a fault of a node."""
        of_nodes = [(begin, end) for begin, end, name in self.windows if not hasattr(self, name)]
        return sum(any(each.begin < end and each.end > begin for begin, end in of_nodes) for each in self.history.transactions.values())

    def tell_faults(self):
        late = {" ".join(kind): count for kind, count in sorted(self.proxy.met.items())}
        return f"{dict(Counter(name for _, _, name in self.windows))}; {late}, overtaken {dict(self.proxy.overtaken)}"

    def keep(self):
        """Writes down the history, the faults and what troubled clients; gives the path of the history."""
        (self.folder / "faults").write_text("".join(f"{begin} {end} {name}\n" for begin, end, name in self.windows))
        (self.folder / "troubles").write_text("\n".join(self.lines_of_trouble))
        self.history.write(self.folder / "history")
        return self.folder / "history"

    def has_met_faults(self):
        """Says if a fifth of the transactions will have done so at the end: more come until each client has committed again."""
        return self.overlapping() > len(self.history.transactions) / 3

    def demand_sound(self):
        verdict = judge(self.history)
        demand(not verdict.found, f"this is no history of transactions:\n{verdict.tell()}")
        overlapping = self.overlapping()
        demand(overlapping >= len(self.history.transactions) / 5, f"only {overlapping} of {verdict.counts['transactions']} transactions overlap a fault of a node")
        return {**verdict.counts, "during a fault of a node": overlapping, "late": self.proxy.met.total(), "overtaken": self.proxy.overtaken.total()}


def _program(name, known, wanted):
    """The command of another program of a client of tests/clients."""
    *command, last = Client(name).command
    demand(last.endswith(known), f"the command of {name} ends with {last}")
    return [*command, last.removesuffix(known) + wanted]


def _reader(settings, isolation):
    return Consumer({**settings, "group.id": "none", "enable.auto.commit": False, "auto.offset.reset": "error", "isolation.level": f"read_{isolation}",
                     "enable.partition.eof": True, "fetch.wait.max.ms": 100})


def _tail(reader, place):
    """The offset up to which such a reader may read; none while that is not told."""
    try:
        return reader.get_watermark_offsets(TopicPartition(*place), timeout=10)[1]
    except KafkaException:
        return None


def _answer(admin, wanted, group):
    try:
        return admin.list_consumer_group_offsets([wanted], require_stable=True, request_timeout=10)[group].result()
    except KafkaException:
        return None
