"""Record batches made byte by byte: sound ones for those who do nothing wrong, and those that are far more than they seem."""

import functools
import struct
import time
import zlib

from suites_support.wire import BATCH_HEADER

MEBI = 1 << 20
GZIP = 1
NO_PRODUCER = -1, -1, -1

# A header without a key and without a value.
_EMPTY_HEADER = b"\x00\x01"
_POLYNOMIAL = 0x82F63B78


def _crc_table():
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ _POLYNOMIAL * (value & 1)
        table.append(value)
    return table


_CRC_TABLE = _crc_table()


def crc32c(content):
    crc = 0xFFFFFFFF
    for byte in content:
        crc = crc >> 8 ^ _CRC_TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def varint(number):
    """A signed number as Kafka's records have them: zigzag, seven bits a byte."""
    number = number << 1 ^ number >> 63
    written = bytearray()
    while number >= 0x80:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*written, number])


def _take_varint(content, at):
    number = shift = 0
    while True:
        byte = content[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return number >> 1 ^ -(number & 1), at


def values_in(batches):
    """(offset, value) of each record of whole batches that are not compressed and whose records are as `record` makes them."""
    at = 0
    while at + BATCH_HEADER <= len(batches):
        first, length = struct.unpack_from(">qi", batches, at)
        end = at + 12 + length
        if end > len(batches):
            return
        at += BATCH_HEADER
        while at < end:
            body_length, body = _take_varint(batches, at)
            _, inside = _take_varint(batches, body + 1)
            delta, inside = _take_varint(batches, inside)
            _, inside = _take_varint(batches, inside)
            value_length, inside = _take_varint(batches, inside)
            yield first + delta, bytes(batches[inside:inside + value_length])
            at = body + body_length


def record(value, offset_delta=0, timestamp_delta=0, headers=b"\x00"):
    """One record without a key; `headers` are their number and what they are."""
    body = b"\0" + varint(timestamp_delta) + varint(offset_delta) + varint(-1) + varint(len(value)) + value + headers
    return varint(len(body)) + body


def batch(records, count, codec=0, producer=NO_PRODUCER, timestamp_ms=None, last_timestamp_delta=0):
    """A sound batch of `count` records, which are compressed already if `codec` says so. `producer` is its id, epoch and first sequence."""
    begin_ms = int(time.time() * 1000) if timestamp_ms is None else timestamp_ms
    summed = struct.pack(">hiqqqhii", codec, count - 1, begin_ms, begin_ms + last_timestamp_delta, *producer, count) + records
    return struct.pack(">qiibI", 0, 9 + len(summed), -1, 2, crc32c(summed)) + summed


def gzipped(pieces):
    """The pieces one behind the other, compressed: they need not be in memory together."""
    packer = zlib.compressobj(6, wbits=31)
    return b"".join([*map(packer.compress, pieces), packer.flush()])


@functools.cache
def header_bomb(headers):
    """A batch of one record with so many empty headers: two bytes each, of which a thousandth is sent."""
    counted = varint(headers)
    rest = b"\0\0\0" + varint(-1) + varint(0) + counted
    head = varint(len(rest) + headers * len(_EMPTY_HEADER)) + rest
    pieces = [head, *[_EMPTY_HEADER * (MEBI // 2)] * (headers // (MEBI // 2)), _EMPTY_HEADER * (headers % (MEBI // 2))]
    return batch(gzipped(pieces), 1, GZIP)


@functools.cache
def zero_bomb(mebibytes, timestamp_ms=None):
    """A batch of a record of so many zeros, and one of a second later."""
    head = b"\0\0\0" + varint(-1) + varint(mebibytes * MEBI)
    zeros = [bytes(MEBI)] * mebibytes
    length = len(head) + mebibytes * MEBI + 1
    pieces = [varint(length), head, *zeros, b"\0", record(b"", 1, 1000)]
    return batch(gzipped(pieces), 2, GZIP, timestamp_ms=timestamp_ms, last_timestamp_delta=1000)


@functools.cache
def many_records(count):
    """A batch of so many records of nothing: as many as fit."""
    return batch(gzipped(record(b"", number) for number in range(count)), count, GZIP)


@functools.cache
def plain(size):
    """A batch of one record of that size."""
    return batch(record(bytes(range(256)) * (size // 256) + bytes(size % 256)), 1)
