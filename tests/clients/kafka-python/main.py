# kafka-python by the contract of tests/clients/README.md.

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "contract/python"))

import contract
import transactions
import kafka.codec
from contract import flush, tell
from kafka import ConsumerRebalanceListener, KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import CommitFailedError, KafkaError, NoError, for_code
from kafka.structs import OffsetAndMetadata

ASSIGNORS = {"range": RangePartitionAssignor, "cooperative-sticky": CooperativeStickyAssignor}


def produce(address, topic):
    # Idempotent by itself.
    producer = KafkaProducer(bootstrap_servers=address)
    for words in contract.commands():
        sent = [(key, value, producer.send(topic, value, key)) for key, value in contract.records(words)]
        for key, value, acknowledged in sent:
            told = acknowledged.get(timeout=120)
            tell("acknowledged", told.partition, told.offset, key.decode(), value.decode())
        flush()
    producer.close()


class Handover(ConsumerRebalanceListener):
    def __init__(self, uncommitted):
        self.uncommitted = uncommitted

    def on_partitions_revoked(self, revoked):
        contract.give_up(self.uncommitted, revoked)

    def on_partitions_assigned(self, assigned):
        pass


def consume(address, topic, group, protocol):
    consumer = KafkaConsumer(
        bootstrap_servers=address, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False,
        partition_assignment_strategy=[ASSIGNORS[protocol]], session_timeout_ms=contract.SESSION_MS,
        heartbeat_interval_ms=contract.HEARTBEAT_MS)
    uncommitted = {}
    consumer.subscribe([topic], listener=Handover(uncommitted))
    leaving = contract.leaving()
    while not leaving.is_set():
        for place, messages in consumer.poll(timeout_ms=200).items():
            for message in messages:
                tell("read", message.partition, message.offset, message.key.decode(), message.value.decode())
            uncommitted[place] = messages[-1].offset + 1
        # What is committed must have been told: a kill may come in between.
        flush()
        commit(consumer, uncommitted)
        flush()
    consumer.close(autocommit=False)
    flush()


def commit(consumer, uncommitted):
    if not uncommitted:
        return
    try:
        consumer.commit({place: OffsetAndMetadata(offset, "", -1) for place, offset in uncommitted.items()})
        for place, offset in uncommitted.items():
            tell("committed", place.partition, offset)
        uncommitted.clear()
    except CommitFailedError:
        contract.give_up(uncommitted, list(uncommitted))
    except KafkaError as error:
        print(f"committing: {error!r}; to be tried again", file=sys.stderr)


def codecs(address, topic):
    left = 0
    for codec in contract.CODECS:
        # The client asks for a library of its users' for each codec but gzip.
        if codec != "none" and not getattr(kafka.codec, f"has_{codec}")():
            tell("lacks", codec)
            continue
        producer = KafkaProducer(bootstrap_servers=address, linger_ms=20, compression_type=None if codec == "none" else codec)
        sent = [producer.send(topic, value, key, headers) for key, value, headers in contract.letters(codec)]
        for acknowledged in sent:
            acknowledged.get(timeout=60)
        producer.close()
        tell("sent", codec)
        left += len(sent)
    consumer = KafkaConsumer(bootstrap_servers=address, auto_offset_reset="earliest", enable_auto_commit=False)
    consumer.assign([TopicPartition(topic, 0)])
    while left > 0:
        for messages in consumer.poll(timeout_ms=200).values():
            for message in messages:
                contract.tell_letter(message.offset, message.key, message.value, message.headers)
                left -= 1
    consumer.close(autocommit=False)
    flush()


def admin(address):
    client = KafkaAdminClient(bootstrap_servers=address)

    def create(topic, partitions):
        client.create_topics({topic: {"num_partitions": int(partitions), "replication_factor": -1}})
        return ["ok"]

    def delete(topic):
        client.delete_topics([topic])
        return ["ok"]

    def describe(topic):
        found, = client.describe_topics([topic])
        if found["error_code"]:
            raise for_code(found["error_code"])
        return [len(found["partitions"])]

    def offsets(group, topic):
        found = client.list_group_offsets({group: None})[group]
        return [f"{place.partition}:{told.offset}" for place, told in found.items() if place.topic == topic]

    def config(topic, name):
        found = client.describe_configs([ConfigResource("topic", topic, [name])], config_filter="all")
        return [found["topic"][topic][name]["value"]]

    def change(topic, name, value):
        told = client.alter_configs([ConfigResource("topic", topic, {name: value})])["topic"][topic]
        if told != "OK":
            raise ValueError(told)
        return ["ok"]

    def grow(topic, count):
        client.create_partitions({topic: int(count)})
        return ["ok"]

    def since(topic, partition, ms):
        place = TopicPartition(topic, int(partition))
        return [client.list_partition_offsets({place: int(ms)})[place].offset]

    def trim(topic, partition, offset):
        client.delete_records({TopicPartition(topic, int(partition)): int(offset)})
        return ["ok"]

    def state(group):
        return [client.describe_groups([group])[group]["group_state"].lower()]

    def forget(group):
        told = client.delete_groups([group])[group]
        if told not in ("OK", NoError):
            raise ValueError(told)
        return ["ok"]

    def transaction(topic):
        producer = KafkaProducer(bootstrap_servers=address, transactional_id="once")
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"in a transaction")
        producer.commit_transaction()
        return ["ok"]

    contract.administer({
        "create": create, "delete": delete, "describe": describe, "offsets": offsets, "transaction": transaction,
        "config": config, "set": change, "grow": grow, "since": since, "trim": trim, "state": state, "forget": forget,
        "topics": client.list_topics, "groups": lambda: [found["group_id"] for found in client.list_groups()],
    })
    client.close()


contract.run(produce, consume, codecs, admin, follow=transactions.follow, transact=transactions.transact, transform=transactions.transform)
