"""Kafka requests as bytes, for clients that no library would be: those that stop in mid-request, never read, or ask for
more than there is. Only what the suites send; the protocol's guide names the fields."""

import socket
import struct

from suites_support.suite import demand

PRODUCE, FETCH, LIST_OFFSETS, METADATA, API_VERSIONS = 0, 1, 2, 3, 18
OFFSET_COMMIT, JOIN_GROUP, HEARTBEAT, SYNC_GROUP, CREATE_TOPICS = 8, 11, 12, 14, 19
INIT_PRODUCER_ID, END_TXN, TXN_OFFSET_COMMIT, DESCRIBE_LOG_DIRS, INCREMENTAL_ALTER_CONFIGS, DESCRIBE_PRODUCERS, CONSUMER_GROUP_HEARTBEAT = 22, 26, 28, 35, 44, 61, 68

# The bytes of a batch before its first record.
BATCH_HEADER = 61

# An answer to it is as long as all topics' names and partitions.
METADATA_OF_ALL = struct.pack(">i", -1)


def text(value):
    encoded = value.encode()
    return struct.pack(">h", len(encoded)) + encoded


def request(api, version, correlation, body=b"", flexible=False):
    """A whole request with its length before it, header version 1; with `flexible` version 2, which has tagged fields (KIP-482)."""
    header = struct.pack(">hhi", api, version, correlation) + text("hostile") + b"\0" * flexible
    return struct.pack(">i", len(header) + len(body)) + header + body


def fetch(topic, partition, offset, bytes_max, correlation=1):
    """A fetch of version 4 that waits for nothing and takes up to `bytes_max`."""
    wanted = text(topic) + struct.pack(">iiqi", 1, partition, offset, bytes_max)
    body = struct.pack(">iiiibi", -1, 0, 1, bytes_max, 0, 1) + wanted
    return request(FETCH, 4, correlation, body)


def connect(node, address="127.0.0.1", seconds=10, http=False, receive_bytes=4096):
    """A connection from a loopback address of one's choice, with the smallest receive buffer that the system allows unless told."""
    host, port = (node.http if http else node.kafka).split(":")
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    connection.settimeout(seconds)
    connection.bind((address, 0))
    connection.connect((host, int(port)))
    return connection


def reset(connection):
    """Ends a connection so that the other side hears of it at once, whatever is on its way."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def answer(connection):
    """The next answer, from behind its correlation id."""
    return _receive(connection, struct.unpack(">i", _receive(connection, 4))[0])[4:]


def ask(connection, content):
    """The answer to a request."""
    connection.sendall(content)
    return answer(connection)


def batches(node, topic, partition, tail):
    """The batches of a partition up to `tail` as they are in the log: (first offset, records, number of the codec)."""
    with connect(node) as connection:
        offset = 0
        while offset < tail:
            connection.sendall(fetch(topic, partition, offset, 1 << 20))
            answer = _receive(connection, struct.unpack(">i", _receive(connection, 4))[0])
            for first, last_delta, codec in _batches_in(answer, topic):
                yield first, last_delta + 1, codec
                offset = first + last_delta + 1


def _batches_in(answer, topic):
    """The whole batches in the answer to `fetch`, which has one topic with one partition."""
    # Correlation id, throttle time and the number of topics; the topic; the number of partitions and the partition.
    at = 4 + 4 + 4 + len(text(topic)) + 4 + 4
    error, _high_watermark, _stable, aborted = struct.unpack_from(">hqqi", answer, at)
    demand(error == 0, f"a fetch of {topic} is answered with error {error}")
    at += 2 + 8 + 8 + 4 + 16 * max(0, aborted)
    end = at + 4 + struct.unpack_from(">i", answer, at)[0]
    at += 4
    demand(at < end, f"a fetch of {topic} is answered with nothing")
    while at + BATCH_HEADER <= end:
        # The leader's epoch, magic and checksum stand between the length and the attributes.
        first, length, attributes, last_delta = struct.unpack_from(">qi9xhi", answer, at)
        at += 12 + length
        if at <= end:
            yield first, last_delta, attributes & 7


def _receive(connection, count):
    found = bytearray()
    while len(found) < count:
        piece = connection.recv(min(1 << 20, count - len(found)))
        if not piece:
            raise ConnectionResetError(f"the connection ended after {len(found)} of {count} bytes")
        found += piece
    return bytes(found)


def is_closed(connection):
    """Whether the other side has ended a connection from which nothing is expected."""
    connection.setblocking(False)
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def send_until_stuck(connection, content, bytes_max, patience=1.0):
    """Sends `content` again and again until the other side takes no more; gives how many bytes it took. More than
    `bytes_max` ends it too: then the other side takes whatever comes."""
    connection.settimeout(patience)
    sent = 0
    view = memoryview(content)
    while sent < bytes_max:
        try:
            sent += connection.send(view[sent % len(content) :])
        except TimeoutError:
            break
        except OSError:
            break
    return sent
