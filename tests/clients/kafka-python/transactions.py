# Transactions with kafka-python, by the contract of tests/clients/README.md.

import contract
from contract import flush, tell
from kafka import IsolationLevel, KafkaAdminClient, KafkaConsumer, KafkaProducer, OffsetSpec, TopicPartition
from kafka.structs import OffsetAndMetadata

STEP_SECONDS = 60
ISOLATIONS = {"committed": IsolationLevel.READ_COMMITTED, "uncommitted": IsolationLevel.READ_UNCOMMITTED}


def follow(address, topic, isolation):
    consumer = KafkaConsumer(bootstrap_servers=address, auto_offset_reset="earliest", enable_auto_commit=False,
                             isolation_level=f"read_{isolation}")
    consumer.assign([TopicPartition(topic, partition) for partition in consumer.partitions_for_topic(topic)])
    while True:
        for messages in consumer.poll(timeout_ms=200).values():
            for message in messages:
                tell("read", message.partition, message.offset, message.value.decode())
        flush()


def producer_of(address, name, timeout_ms):
    return KafkaProducer(bootstrap_servers=address, transactional_id=name, transaction_timeout_ms=int(timeout_ms))


def transact(address, name, timeout_ms):
    producer = producer_of(address, name, timeout_ms)
    admin = KafkaAdminClient(bootstrap_servers=address)

    def done(method):
        def do():
            method()
            return ["ok"]
        return do

    def send(topic, partition, *values):
        return [deliver(producer, topic, [(int(partition), None, value.encode()) for value in values])[0]]

    def offsets(group, topic, partition, following):
        places = {TopicPartition(topic, int(partition)): OffsetAndMetadata(int(following), "", -1)}
        producer.send_offsets_to_transaction(places, group)
        return ["ok"]

    def tail(topic, partition, isolation):
        place = TopicPartition(topic, int(partition))
        return [admin.list_partition_offsets({place: OffsetSpec.LATEST}, ISOLATIONS[isolation])[place].offset]

    contract.administer({"init": done(producer.init_transactions), "begin": done(producer.begin_transaction), "send": send, "offsets": offsets,
                         "tail": tail, "commit": done(producer.commit_transaction), "abort": done(producer.abort_transaction)})


def transform(address, name, timeout_ms, group, source, target):
    producer = producer_of(address, name, timeout_ms)
    producer.init_transactions()
    consumer = KafkaConsumer(
        source, bootstrap_servers=address, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False,
        isolation_level="read_committed", max_poll_records=contract.IN_A_TRANSACTION, session_timeout_ms=contract.SESSION_MS,
        heartbeat_interval_ms=contract.HEARTBEAT_MS)
    lines = contract.commands()
    while True:
        handed = [message for messages in consumer.poll(timeout_ms=200).values() for message in messages]
        while handed:
            producer.begin_transaction()
            deliver(producer, target, [(message.partition, message.key, message.value) for message in handed])
            following = {TopicPartition(source, message.partition): OffsetAndMetadata(message.offset + 1, "", -1) for message in handed}
            if contract.end(lines, len(handed), lambda: producer.send_offsets_to_transaction(following, consumer.group_metadata()),
                            producer.commit_transaction, producer.abort_transaction):
                break


def deliver(producer, topic, records):
    """Sends (partition, key, value) and gives the offsets, once all are acknowledged."""
    sent = [producer.send(topic, value, key, partition=partition) for partition, key, value in records]
    return [acknowledged.get(timeout=STEP_SECONDS).offset for acknowledged in sent]
