"""Requests of Kafka's protocol, whole, as bytes (see `wire`): in the oldest versions that say what is to be said."""

import struct

from suites_support import wire
from suites_support.suite import demand
from suites_support.wire import text

# Configs whose values are numbers, which may be written with as many zeros before them as one likes.
NUMBERS = ["retention.ms", "retention.bytes", "segment.ms", "max.compaction.lag.ms", "min.compaction.lag.ms", "delete.retention.ms"]


def _array(items):
    return struct.pack(">i", len(items)) + b"".join(items)


def _compact_text(value):
    encoded = value.encode()
    return bytes([len(encoded) + 1]) + encoded


def _unsigned_varint(number):
    written = bytearray()
    while number >= 0x80:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*written, number])


def produce(topic, batches, correlation=1, wait_ms=60_000):
    """An append of a batch to each partition that `batches` names, acks=all."""
    parts = [struct.pack(">ii", partition, len(batch)) + batch for partition, batch in batches.items()]
    body = struct.pack(">hhi", -1, -1, wait_ms) + _array([text(topic) + _array(parts)])
    return wire.request(wire.PRODUCE, 3, correlation, body)


def produced(answer, topic):
    """The error code and the first offset of the first partition of such an append."""
    code, offset = struct.unpack_from(">hq", answer, 4 + len(text(topic)) + 4 + 4)
    return code, offset


def fetch(topic, places, min_bytes, wait_ms, bytes_max=1 << 20, correlation=1):
    """A fetch of (partition, offset) that waits for so many bytes."""
    wanted = [struct.pack(">iqi", partition, offset, bytes_max) for partition, offset in places]
    body = struct.pack(">iiiib", -1, wait_ms, min_bytes, bytes_max, 0) + _array([text(topic) + _array(wanted)])
    return wire.request(wire.FETCH, 4, correlation, body)


def fetched(answer, topic):
    """The error code, the tail and the batches of the first partition of a fetch."""
    # Throttle time and the number of topics; the topic; the number of partitions and the partition.
    at = 4 + 4 + len(text(topic)) + 4 + 4
    code, tail, _stable, aborted = struct.unpack_from(">hqqi", answer, at)
    at += 2 + 8 + 8 + 4 + 16 * max(0, aborted)
    length, = struct.unpack_from(">i", answer, at)
    return code, tail, answer[at + 4:at + 4 + max(0, length)]


def fetch_session(topic, partitions, correlation=1):
    """A fetch that begins a session (KIP-227) of so many partitions, and waits for nothing."""
    wanted = [struct.pack(">iqqi", partition, 0, -1, 1) for partition in range(partitions)]
    body = struct.pack(">iiiibii", -1, 0, 0, 1, 0, 0, 0) + _array([text(topic) + _array(wanted)]) + _array([])
    return wire.request(wire.FETCH, 7, correlation, body)


def list_offsets(topic, partitions, timestamp_ms=-1, correlation=1):
    wanted = [struct.pack(">iq", partition, timestamp_ms) for partition in partitions]
    body = struct.pack(">i", -1) + _array([text(topic) + _array(wanted)])
    return wire.request(wire.LIST_OFFSETS, 1, correlation, body)


def listed_offset(answer, topic):
    """The error code and the offset of the first partition."""
    code, _timestamp, offset = struct.unpack_from(">hqq", answer, 4 + len(text(topic)) + 4 + 4)
    return code, offset


def metadata(topics, correlation=1):
    return wire.request(wire.METADATA, 1, correlation, _array([text(topic) for topic in topics]))


def leaders(answer):
    """The id of the node that leads each partition of the one topic of a metadata answer, -1 for none."""
    at = 0

    def take(form):
        nonlocal at
        taken = struct.unpack_from(form, answer, at)
        at += struct.calcsize(form)
        return taken[0]

    def pass_text():
        nonlocal at
        length = max(0, take(">h"))
        at += length

    for _ in range(take(">i")):
        take(">i")
        pass_text()
        take(">i")
        pass_text()
    take(">i")
    found = {}
    for _ in range(take(">i")):
        take(">h")
        pass_text()
        take(">b")
        for _ in range(take(">i")):
            take(">h")
            partition, leader = take(">i"), take(">i")
            for _ in range(2):
                for _ in range(take(">i")):
                    take(">i")
            found[partition] = leader
    return found


def join_group(group, member, protocols, session_ms=30_000, correlation=1):
    body = text(group) + struct.pack(">ii", session_ms, session_ms) + text(member) + text("consumer")
    body += _array([text(name) + struct.pack(">i", 0) for name in protocols])
    return wire.request(wire.JOIN_GROUP, 1, correlation, body)


def joined(answer):
    """The error code, generation, leader and member id of a join."""
    code, generation = struct.unpack_from(">hi", answer)
    at, words = 6, []
    for _ in range(3):
        length, = struct.unpack_from(">h", answer, at)
        words.append(answer[at + 2:at + 2 + length].decode())
        at += 2 + length
    return code, generation, words[1], words[2]


def sync_group(group, generation, member, correlation=1):
    """The leader's, who gives nobody anything."""
    body = text(group) + struct.pack(">i", generation) + text(member) + _array([text(member) + struct.pack(">i", 0)])
    return wire.request(wire.SYNC_GROUP, 0, correlation, body)


def heartbeat(group, generation, member, correlation=1):
    return wire.request(wire.HEARTBEAT, 0, correlation, text(group) + struct.pack(">i", generation) + text(member))


def consumer_heartbeat(group, member, epoch, topics, correlation=1):
    """A member of the consumer protocol (KIP-848) that joins (epoch 0) with these topics, or leaves (epoch -1)."""
    body = _compact_text(group) + _compact_text(member) + struct.pack(">i", epoch) + b"\0\0" + struct.pack(">i", 30_000)
    body += bytes([len(topics) + 1]) + b"".join(map(_compact_text, topics)) + b"\0" + (b"\x01" if epoch == 0 else b"\0") + b"\0"
    return wire.request(wire.CONSUMER_GROUP_HEARTBEAT, 0, correlation, body, flexible=True)


def commit(group, topic, partition, offset, generation=-1, member="", correlation=1):
    """An offset for a group; without a generation and a member as somebody who is in none."""
    place = struct.pack(">iq", partition, offset) + text("")
    body = text(group) + struct.pack(">i", generation) + text(member) + struct.pack(">q", -1) + _array([text(topic) + _array([place])])
    return wire.request(wire.OFFSET_COMMIT, 2, correlation, body)


def committed(answer, topic):
    """The error code of such a commit."""
    return struct.unpack_from(">h", answer, 4 + len(text(topic)) + 4 + 4)[0]


def init_producer_id(correlation=1):
    return wire.request(wire.INIT_PRODUCER_ID, 0, correlation, struct.pack(">hi", -1, 60_000))


def describe_all_log_dirs(correlation=1):
    return wire.request(wire.DESCRIBE_LOG_DIRS, 1, correlation, struct.pack(">i", -1))


def describe_producers(topic, partitions, correlation=1):
    wanted = _unsigned_varint(len(partitions) + 1) + b"".join(struct.pack(">i", partition) for partition in partitions)
    body = b"\x02" + _compact_text(topic) + wanted + b"\0\0"
    return wire.request(wire.DESCRIBE_PRODUCERS, 0, correlation, body, flexible=True)


def create_topics(names, configs, correlation=1):
    """Topics of one partition, each with these configs."""
    set_each = _array([text(name) + text(value) for name, value in configs.items()])
    body = _array([text(name) + struct.pack(">ihi", 1, 1, 0) + set_each for name in names]) + struct.pack(">ib", 60_000, 0)
    return wire.request(wire.CREATE_TOPICS, 2, correlation, body)


def created(answer):
    """The error code of each topic."""
    (count,), at, codes = struct.unpack_from(">i", answer, 4), 8, []
    for _ in range(count):
        (length,) = struct.unpack_from(">h", answer, at)
        code, told = struct.unpack_from(">hh", answer, at + 2 + length)
        codes.append(code)
        at += 6 + length + max(told, 0)
    return codes


def set_config(topics, name, value, correlation=1):
    """Sets one config of each topic."""
    change = text(name) + b"\0" + text(value)
    body = _array([b"\x02" + text(topic) + _array([change]) for topic in topics]) + b"\0"
    return wire.request(wire.INCREMENTAL_ALTER_CONFIGS, 0, correlation, body)


def given_producer_id(answer):
    code, producer = struct.unpack_from(">hq", answer, 4)
    demand(code == 0, f"a producer that asks for an id is told error {code}")
    return producer
