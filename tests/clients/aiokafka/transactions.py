# Transactions with aiokafka, by the contract of tests/clients/README.md.

import asyncio
import sys

import contract
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from contract import flush, tell


async def follow(address, topic, isolation):
    settings = {"bootstrap_servers": address, "auto_offset_reset": "earliest", "enable_auto_commit": False}
    async with AIOKafkaConsumer(isolation_level=f"read_{isolation}", **settings) as consumer:
        # The client knows the partitions of topics that it was asked for.
        partitions = (await consumer._client.fetch_all_metadata()).partitions_for_topic(topic)
        consumer.assign([TopicPartition(topic, partition) for partition in partitions])
        while True:
            for messages in (await consumer.getmany(timeout_ms=200)).values():
                for message in messages:
                    tell("read", message.partition, message.offset, message.value.decode())
            flush()


def producer_of(address, name, timeout_ms):
    return AIOKafkaProducer(bootstrap_servers=address, transactional_id=name, transaction_timeout_ms=int(timeout_ms))


async def transact(address, name, timeout_ms):
    producer = producer_of(address, name, timeout_ms)

    def done(method):
        async def do():
            await method()
            return ["ok"]
        return do

    async def send(topic, partition, *values):
        return [(await deliver(producer, topic, [(int(partition), None, value.encode()) for value in values]))[0]]

    async def offsets(group, topic, partition, following):
        await producer.send_offsets_to_transaction({TopicPartition(topic, int(partition)): int(following)}, group)
        return ["ok"]

    async def tail(topic, partition, isolation):
        place = TopicPartition(topic, int(partition))
        async with AIOKafkaConsumer(bootstrap_servers=address, isolation_level=f"read_{isolation}", enable_auto_commit=False) as consumer:
            return [(await consumer.end_offsets([place]))[place]]

    # The client begins with the producer's id.
    await administer({"init": done(producer.start), "begin": done(producer.begin_transaction), "send": send, "offsets": offsets, "tail": tail,
                      "commit": done(producer.commit_transaction), "abort": done(producer.abort_transaction)})


class Handover(ConsumerRebalanceListener):
    """Lets a rebalance wait until the transaction has ended: its offsets do not say of which generation they are."""

    def __init__(self, busy):
        self.busy = busy

    async def on_partitions_revoked(self, revoked):
        async with self.busy:
            pass

    async def on_partitions_assigned(self, assigned):
        pass


async def transform(address, name, timeout_ms, group, source, target):
    settings = {"session_timeout_ms": contract.SESSION_MS, "heartbeat_interval_ms": contract.HEARTBEAT_MS}
    consumer = AIOKafkaConsumer(
        bootstrap_servers=address, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False,
        isolation_level="read_committed", **settings)
    lines, busy = commands(), asyncio.Lock()
    consumer.subscribe([source], listener=Handover(busy))
    async with producer_of(address, name, timeout_ms) as producer, consumer:
        while True:
            found = await consumer.getmany(timeout_ms=200, max_records=contract.IN_A_TRANSACTION)
            handed = [message for messages in found.values() for message in messages]
            async with busy:
                while handed and not await copy(producer, handed, target, lines, source, group):
                    pass


async def copy(producer, handed, target, lines, source, group):
    """Makes one transaction, as the lines say; whether it was committed."""
    await producer.begin_transaction()
    await deliver(producer, target, [(message.partition, message.key, message.value) for message in handed])
    following = {TopicPartition(source, message.partition): message.offset + 1 for message in handed}
    return await end(lines, len(handed), producer, following, group)


async def end(lines, count, producer, following, group):
    """As `contract.end`."""
    tell("sent", count)
    flush()
    async for (word,) in lines:
        if word == "offsets":
            await producer.send_offsets_to_transaction(following, group)
            tell("added")
            flush()
        elif word == "commit":
            await producer.commit_transaction()
            tell("committed")
            flush()
            return True
        else:
            await producer.abort_transaction()
            tell("aborted")
            flush()
            return False
    sys.exit("the input has ended in the middle of a transaction")


async def deliver(producer, topic, records):
    """Sends (partition, key, value) and gives the offsets, once all are acknowledged."""
    sent = [await producer.send(topic, value, key, partition) for partition, key, value in records]
    return [acknowledged.offset for acknowledged in await asyncio.gather(*sent)]


async def commands():
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        yield line.split()


async def administer(deeds):
    """As `contract.administer`."""
    async for name, *arguments in commands():
        try:
            answer = await deeds[name](*arguments)
        except Exception as error:
            answer = ["error", type(error).__name__, str(error).replace("\n", " ")]
        tell(*answer)
        flush()
