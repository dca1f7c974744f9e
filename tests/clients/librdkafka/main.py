# librdkafka, as confluent-kafka, by the contract of tests/clients/README.md.

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "contract/python"))

import contract
from confluent_kafka import (OFFSET_BEGINNING, Consumer, ConsumerGroupTopicPartitions, KafkaError, KafkaException, Producer,
                             TopicPartition)
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions, NewTopic, OffsetSpec
from contract import flush, tell
from transactions import Transactions

# A commit that is refused since the group has moved on.
REFUSED = {
    KafkaError.ILLEGAL_GENERATION, KafkaError.UNKNOWN_MEMBER_ID, KafkaError._STATE, KafkaError.STALE_MEMBER_EPOCH,
    KafkaError.FENCED_MEMBER_EPOCH, KafkaError._ASSIGNMENT_LOST,
}
# What a consumer is told while it goes on by itself.
PASSING = REFUSED | {
    KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT, KafkaError._TIMED_OUT_QUEUE, KafkaError._WAIT_COORD,
    KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.REQUEST_TIMED_OUT, KafkaError.REBALANCE_IN_PROGRESS,
}


def settings(address, **more):
    return {"bootstrap.servers": address, "reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 200, "log_level": 2,
            **{name.replace("_", "."): value for name, value in more.items()}}


def produce(address, topic):
    producer = Producer(settings(address, enable_idempotence=True))

    def delivered(error, message):
        if error:
            sys.exit(f"{message.value()} was given up: {error}")
        tell("acknowledged", message.partition(), message.offset(), message.key().decode(), message.value().decode())

    for words in contract.commands():
        for key, value in contract.records(words):
            producer.produce(topic, value, key, on_delivery=delivered)
        producer.flush()
        flush()


def protocol_settings(protocol):
    if protocol == "consumer":
        return {"group.protocol": "consumer"}
    return {"partition.assignment.strategy": protocol, "session.timeout.ms": contract.SESSION_MS,
            "heartbeat.interval.ms": contract.HEARTBEAT_MS}


# librdkafka (2.16) asks where a partition begins behind a fetch that waits. If a rebalance comes before the answer, it takes that for
# outdated, asks once more, and then begins there a second time, wherever it is by now, and even if it has the partition no more.
FETCH_WAIT_MS = 20


def consume(address, topic, group, protocol):
    consumer = Consumer({
        **settings(address, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False, fetch_wait_max_ms=FETCH_WAIT_MS),
        **protocol_settings(protocol),
    })
    uncommitted = {}

    def revoked(_consumer, places):
        contract.give_up(uncommitted, places)

    consumer.subscribe([topic], on_revoke=revoked, on_lost=revoked)
    leaving = contract.leaving()
    while not leaving.is_set():
        for message in consumer.consume(200, timeout=0.2):
            if error := message.error():
                if error.code() not in PASSING:
                    sys.exit(f"reading: {error}")
                continue
            tell("read", message.partition(), message.offset(), message.key().decode(), message.value().decode())
            uncommitted[TopicPartition(topic, message.partition())] = message.offset() + 1
        # What is committed must have been told: a kill may come in between.
        flush()
        commit(consumer, uncommitted)
        flush()
    consumer.close()
    flush()


def commit(consumer, uncommitted):
    if not uncommitted:
        return
    try:
        wanted = [TopicPartition(place.topic, place.partition, offset) for place, offset in uncommitted.items()]
        for place in consumer.commit(offsets=wanted, asynchronous=False):
            if place.error:
                raise KafkaException(place.error)
            tell("committed", place.partition, place.offset)
        uncommitted.clear()
    except KafkaException as failure:
        error = failure.args[0]
        if error.code() not in PASSING:
            sys.exit(f"committing: {error}")
        if error.code() in REFUSED:
            contract.give_up(uncommitted, list(uncommitted))


def codecs(address, topic):
    for codec in contract.CODECS:
        producer = Producer(settings(address, compression_codec=codec, linger_ms=20, enable_idempotence=True))
        for key, value, headers in contract.letters(codec):
            producer.produce(topic, value, key, headers=headers, on_delivery=sent)
        producer.flush()
        tell("sent", codec)
    consumer = Consumer(settings(address, group_id="none", enable_auto_commit=False))
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    left = len(contract.CODECS) * contract.LETTERS_OF_CODEC
    while left > 0:
        for message in consumer.consume(left, timeout=0.2):
            if message.error():
                sys.exit(f"reading: {message.error()}")
            contract.tell_letter(message.offset(), message.key(), message.value(), message.headers())
            left -= 1
    consumer.close()
    flush()


def sent(error, message):
    if error:
        sys.exit(f"{message.key()} was given up: {error}")


def admin(address):
    client = AdminClient(settings(address))

    def create(topic, partitions):
        client.create_topics([NewTopic(topic, int(partitions), -1)])[topic].result(30)
        return ["ok"]

    def delete(topic):
        client.delete_topics([topic])[topic].result(30)
        return ["ok"]

    def describe(topic):
        found = client.list_topics(topic, timeout=30).topics[topic]
        if found.error:
            raise KafkaException(found.error)
        return [len(found.partitions)]

    def offsets(group, topic):
        found = client.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(30)
        return [f"{place.partition}:{place.offset}" for place in found.topic_partitions if place.topic == topic]

    def resource(topic):
        return ConfigResource(ConfigResource.Type.TOPIC, topic)

    def config(topic, name):
        wanted = resource(topic)
        return [client.describe_configs([wanted])[wanted].result(30)[name].value]

    def change(topic, name, value):
        wanted = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)])
        client.incremental_alter_configs([wanted])[wanted].result(30)
        return ["ok"]

    def grow(topic, count):
        client.create_partitions([NewPartitions(topic, int(count))])[topic].result(30)
        return ["ok"]

    def since(topic, partition, ms):
        # The admin client keeps a leader's epoch for minutes, and is refused after a restart, by Kafka as well.
        fresh = AdminClient(settings(address))
        place = TopicPartition(topic, int(partition))
        return [fresh.list_offsets({place: OffsetSpec.for_timestamp(int(ms))})[place].result(30).offset]

    def trim(topic, partition, offset):
        place = TopicPartition(topic, int(partition), int(offset))
        client.delete_records([place])[place].result(30)
        return ["ok"]

    def state(group):
        return [client.describe_consumer_groups([group])[group].result(30).state.name.lower()]

    def forget(group):
        client.delete_consumer_groups([group])[group].result(30)
        return ["ok"]

    def transaction(topic):
        producer = Producer(settings(address, transactional_id="once"))
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce(topic, b"in a transaction")
        producer.commit_transaction(30)
        return ["ok"]

    contract.administer({
        "create": create, "delete": delete, "describe": describe, "offsets": offsets, "transaction": transaction,
        "config": config, "set": change, "grow": grow, "since": since, "trim": trim, "state": state, "forget": forget,
        "topics": lambda: list(client.list_topics(timeout=30).topics),
        "groups": lambda: [found.group_id for found in client.list_consumer_groups().result(30).valid],
    })


transactions = Transactions(settings)
contract.run(produce, consume, codecs, admin, follow=transactions.follow, transact=transactions.transact, transform=transactions.transform)
