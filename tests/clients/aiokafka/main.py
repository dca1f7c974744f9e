# aiokafka by the contract of tests/clients/README.md.

import asyncio
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "contract/python"))

import aiokafka.codec
import contract
import transactions
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.errors import CommitFailedError, IllegalStateError, KafkaError, for_code
from contract import flush, tell
from transactions import administer, commands

ASSIGNORS = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor, "sticky": StickyPartitionAssignor}


async def produce(address, topic):
    async with AIOKafkaProducer(bootstrap_servers=address, enable_idempotence=True) as producer:
        async for words in commands():
            sent = [(key, value, await producer.send(topic, value, key)) for key, value in contract.records(words)]
            for key, value, acknowledged in sent:
                told = await acknowledged
                tell("acknowledged", told.partition, told.offset, key.decode(), value.decode())
            flush()


class Handover(ConsumerRebalanceListener):
    """Lets a rebalance wait until what was read is committed."""

    def __init__(self, busy, uncommitted):
        self.busy, self.uncommitted = busy, uncommitted

    async def on_partitions_revoked(self, revoked):
        async with self.busy:
            contract.give_up(self.uncommitted, revoked)

    async def on_partitions_assigned(self, assigned):
        pass


async def consume(address, topic, group, protocol):
    consumer = AIOKafkaConsumer(
        bootstrap_servers=address, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False,
        partition_assignment_strategy=[ASSIGNORS[protocol]], session_timeout_ms=contract.SESSION_MS,
        heartbeat_interval_ms=contract.HEARTBEAT_MS)
    leaving, busy, uncommitted = asyncio.Event(), asyncio.Lock(), {}
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, leaving.set)
    consumer.subscribe([topic], listener=Handover(busy, uncommitted))
    async with consumer:
        while not leaving.is_set():
            # In a rebalance this waits until it is over, so nothing may be held here that a rebalance waits for.
            found = await consumer.getmany(timeout_ms=200)
            async with busy:
                for place, messages in found.items():
                    for message in messages:
                        tell("read", message.partition, message.offset, message.key.decode(), message.value.decode())
                    uncommitted[place] = messages[-1].offset + 1
                # What is committed must have been told: a kill may come in between.
                flush()
                await commit(consumer, uncommitted)
            flush()
    flush()


async def commit(consumer, uncommitted):
    if not uncommitted:
        return
    try:
        await consumer.commit(dict(uncommitted))
        for place, offset in uncommitted.items():
            tell("committed", place.partition, offset)
        uncommitted.clear()
    except (CommitFailedError, IllegalStateError):
        contract.give_up(uncommitted, list(uncommitted))
    except KafkaError as error:
        print(f"committing: {error!r}; to be tried again", file=sys.stderr)


async def codecs(address, topic):
    left = 0
    for codec in contract.CODECS:
        # The client asks for a library of its users' for each codec but gzip.
        if codec != "none" and not getattr(aiokafka.codec, f"has_{codec}")():
            tell("lacks", codec)
            continue
        compression = None if codec == "none" else codec
        settings = {"bootstrap_servers": address, "enable_idempotence": True, "linger_ms": 20, "compression_type": compression}
        async with AIOKafkaProducer(**settings) as producer:
            sent = [await producer.send(topic, value, key, headers=headers) for key, value, headers in contract.letters(codec)]
            await asyncio.gather(*sent)
        tell("sent", codec)
        left += len(sent)
    async with AIOKafkaConsumer(bootstrap_servers=address, auto_offset_reset="earliest", enable_auto_commit=False) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        while left > 0:
            for messages in (await consumer.getmany(timeout_ms=200)).values():
                for message in messages:
                    contract.tell_letter(message.offset, message.key, message.value, message.headers)
                    left -= 1
    flush()


def demand(code):
    if code:
        raise for_code(code)


async def admin(address):
    client = AIOKafkaAdminClient(bootstrap_servers=address)
    await client.start()

    async def create(topic, partitions):
        # The client has no word for "as many replicas as there usually are".
        replicas = len(address.split(","))
        answer = await client.create_topics([NewTopic(topic, int(partitions), replicas)])
        demand(answer.topic_errors[0][1])
        return ["ok"]

    async def delete(topic):
        answer = await client.delete_topics([topic])
        demand(answer.topic_error_codes[0][1])
        return ["ok"]

    async def describe(topic):
        found, = await client.describe_topics([topic])
        demand(found["error_code"])
        return [len(found["partitions"])]

    async def groups():
        return [name for name, _ in await client.list_consumer_groups()]

    async def offsets(group, topic):
        found = await client.list_consumer_group_offsets(group)
        return [f"{place.partition}:{told.offset}" for place, told in found.items() if place.topic == topic]

    async def config(topic, name):
        told, = await client.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic, {name: None})])
        code, _message, _type, _name, entries, *_ = told.resources[0]
        demand(code)
        return [value for found, value, *_ in entries if found == name]

    async def change(topic, name, value):
        told, = await client.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, {name: value})])
        demand(told.resources[0][0])
        return ["ok"]

    async def grow(topic, count):
        await client.create_partitions({topic: NewPartitions(int(count))})
        return ["ok"]

    async def since(topic, partition, ms):
        place = TopicPartition(topic, int(partition))
        async with AIOKafkaConsumer(bootstrap_servers=address, enable_auto_commit=False) as consumer:
            return [(await consumer.offsets_for_times({place: int(ms)}))[place].offset]

    async def trim(topic, partition, offset):
        await client.delete_records({TopicPartition(topic, int(partition)): RecordsToDelete(int(offset))})
        return ["ok"]

    async def state(group):
        told, = await client.describe_consumer_groups([group])
        code, _name, found, *_ = told.groups[0]
        demand(code)
        return [found.lower()]

    # The client deletes no groups.
    async def forget(_group):
        return ["lacks"]

    async def transaction(topic):
        async with AIOKafkaProducer(bootstrap_servers=address, transactional_id="once") as producer:
            async with producer.transaction():
                await producer.send_and_wait(topic, b"in a transaction")
        return ["ok"]

    deeds = {"create": create, "delete": delete, "describe": describe, "topics": client.list_topics, "groups": groups,
             "offsets": offsets, "transaction": transaction, "config": config, "set": change, "grow": grow, "since": since,
             "trim": trim, "state": state, "forget": forget}
    await administer(deeds)
    await client.close()


def waited_for(work):
    return lambda *arguments: asyncio.run(work(*arguments))


contract.run(*map(waited_for, (produce, consume, codecs, admin)), follow=waited_for(transactions.follow),
             transact=waited_for(transactions.transact), transform=waited_for(transactions.transform))
