# Transactions with librdkafka, as confluent-kafka, by the contract of tests/clients/README.md.

import contract
from confluent_kafka import OFFSET_BEGINNING, Consumer, IsolationLevel, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from contract import flush, tell

STEP_SECONDS = 60
ISOLATIONS = {"committed": IsolationLevel.READ_COMMITTED, "uncommitted": IsolationLevel.READ_UNCOMMITTED}


class Transactions:
    def __init__(self, settings):
        self.settings = settings

    def follow(self, address, topic, isolation):
        consumer = Consumer(self.settings(address, group_id="none", enable_auto_commit=False, isolation_level=f"read_{isolation}"))
        partitions = consumer.list_topics(topic, timeout=STEP_SECONDS).topics[topic].partitions
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in partitions])
        while True:
            for message in consumer.consume(200, timeout=0.2):
                if message.error() is None:
                    tell("read", message.partition(), message.offset(), message.value().decode())
            flush()

    def _producer(self, address, name, timeout_ms):
        return Producer(self.settings(address, transactional_id=name, transaction_timeout_ms=int(timeout_ms)))

    def transact(self, address, name, timeout_ms):
        producer = self._producer(address, name, timeout_ms)
        admin = AdminClient(self.settings(address))

        def done(method):
            def do():
                method(STEP_SECONDS)
                return ["ok"]
            return do

        def begin():
            producer.begin_transaction()
            return ["ok"]

        def send(topic, partition, *values):
            return [deliver(producer, topic, [(int(partition), None, value) for value in values])[0]]

        def offsets(group, topic, partition, following):
            member = Consumer(self.settings(address, group_id=group)).consumer_group_metadata()
            producer.send_offsets_to_transaction([TopicPartition(topic, int(partition), int(following))], member, STEP_SECONDS)
            return ["ok"]

        def tail(topic, partition, isolation):
            place = TopicPartition(topic, int(partition))
            asked = admin.list_offsets({place: OffsetSpec.latest()}, isolation_level=ISOLATIONS[isolation])
            return [asked[place].result(STEP_SECONDS).offset]

        contract.administer({"init": done(producer.init_transactions), "begin": begin, "send": send, "offsets": offsets, "tail": tail,
                             "commit": done(producer.commit_transaction), "abort": done(producer.abort_transaction)})

    def transform(self, address, name, timeout_ms, group, source, target):
        producer = self._producer(address, name, timeout_ms)
        producer.init_transactions(STEP_SECONDS)
        consumer = Consumer(self.settings(
            address, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False, isolation_level="read_committed",
            session_timeout_ms=contract.SESSION_MS, heartbeat_interval_ms=contract.HEARTBEAT_MS))
        # Without them the client takes partitions away behind the transaction's back.
        consumer.subscribe([source], on_assign=lambda *_: None, on_revoke=lambda *_: None)
        lines = contract.commands()
        while True:
            handed = [message for message in consumer.consume(contract.IN_A_TRANSACTION, timeout=0.2) if message.error() is None]
            while handed:
                producer.begin_transaction()
                deliver(producer, target, [(message.partition(), message.key(), message.value()) for message in handed])
                following = {message.partition(): message.offset() + 1 for message in handed}
                places = [TopicPartition(source, partition, offset) for partition, offset in following.items()]

                def add():
                    producer.send_offsets_to_transaction(places, consumer.consumer_group_metadata(), STEP_SECONDS)

                if contract.end(lines, len(handed), add, lambda: producer.commit_transaction(STEP_SECONDS),
                                lambda: producer.abort_transaction(STEP_SECONDS)):
                    break


def deliver(producer, topic, records):
    """Sends (partition, key, value) and gives the offsets, once all are acknowledged."""
    offsets, errors = [], []

    def delivered(error, message):
        if error is None:
            offsets.append(message.offset())
        else:
            errors.append(error)

    for partition, key, value in records:
        producer.produce(topic, value, key, partition, on_delivery=delivered)
    try:
        producer.flush(STEP_SECONDS)
    except SystemError as broken:
        # The client raises what is fatal before it calls back, which then fails with an error of its own.
        raise broken.__cause__
    if errors:
        raise KafkaException(errors[0])
    return offsets
