#!/usr/bin/env python3
"""Loads a broker with librdkafka itself and says how fast, as one line of JSON.

    librdkafka.py produce|consume BOOTSTRAP TOPIC RECORDS RECORD_BYTES [setting=value ...]

Calls the C library directly and in batches, since a Python object for each record would be the limit long before any
broker. Every setting is librdkafka's default (acks=all, linger 5 ms) unless given. Needs partition 0 only, no group.
"""
import ctypes
import ctypes.util
import glob
import json
import os
import sys
import time

PRODUCER, CONSUMER = 0, 1
EVENT_DELIVERY = 1
OFFSET_BEGINNING = -2
BATCH = 10_000
PATIENCE_S = 60


class Message(ctypes.Structure):
    """rd_kafka_message_t of rdkafka.h."""

    _fields_ = [
        ("error", ctypes.c_int), ("topic", ctypes.c_void_p), ("partition", ctypes.c_int32),
        ("payload", ctypes.c_void_p), ("payload_bytes", ctypes.c_size_t),
        ("key", ctypes.c_void_p), ("key_bytes", ctypes.c_size_t),
        ("offset", ctypes.c_int64), ("private", ctypes.c_void_p),
    ]


def find_library():
    """The library inside the Python package that tests/run installs, else the system's; None without either."""
    cache = os.environ.get("ROPEWALK_CACHE", os.path.expanduser("~/.cache/ropewalk"))
    packaged = sorted(glob.glob(f"{cache}/venv/lib/python3*/site-packages/confluent_kafka.libs/librdkafka*"))
    return packaged[0] if packaged else ctypes.util.find_library("rdkafka")


def load(path):
    library = ctypes.CDLL(path)
    pointer, size, text = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p
    shapes = {
        "rd_kafka_version_str": (text, []),
        "rd_kafka_err2str": (text, [ctypes.c_int]),
        "rd_kafka_conf_new": (pointer, []),
        "rd_kafka_conf_set": (ctypes.c_int, [pointer, text, text, text, size]),
        "rd_kafka_conf_set_events": (None, [pointer, ctypes.c_int]),
        "rd_kafka_new": (pointer, [ctypes.c_int, pointer, text, size]),
        "rd_kafka_topic_new": (pointer, [pointer, text, pointer]),
        "rd_kafka_queue_get_main": (pointer, [pointer]),
        "rd_kafka_queue_poll": (pointer, [pointer, ctypes.c_int]),
        "rd_kafka_event_type": (ctypes.c_int, [pointer]),
        "rd_kafka_event_error": (ctypes.c_int, [pointer]),
        "rd_kafka_event_message_count": (size, [pointer]),
        "rd_kafka_event_destroy": (None, [pointer]),
        "rd_kafka_produce_batch": (ctypes.c_int, [pointer, ctypes.c_int32, ctypes.c_int, pointer, ctypes.c_int]),
        "rd_kafka_consume_start": (ctypes.c_int, [pointer, ctypes.c_int32, ctypes.c_int64]),
        "rd_kafka_consume_batch": (ctypes.c_ssize_t, [pointer, ctypes.c_int32, ctypes.c_int, pointer, size]),
        "rd_kafka_message_destroy": (None, [pointer]),
    }
    for name, (result, arguments) in shapes.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def version():
    return load(find_library()).rd_kafka_version_str().decode()


def connect(library, kind, settings):
    conf, reason = library.rd_kafka_conf_new(), ctypes.create_string_buffer(512)
    for name, value in settings.items():
        if library.rd_kafka_conf_set(conf, name.encode(), value.encode(), reason, len(reason)) != 0:
            sys.exit(reason.value.decode())
    if kind == PRODUCER:
        library.rd_kafka_conf_set_events(conf, EVENT_DELIVERY)
    handle = library.rd_kafka_new(kind, conf, reason, len(reason))
    return handle or sys.exit(reason.value.decode())


def delivered(library, queue, wait_ms):
    """How many records the next report acknowledges; zero when none came in that time."""
    event = library.rd_kafka_queue_poll(queue, wait_ms)
    if not event:
        return 0
    error = library.rd_kafka_event_error(event)
    if error:
        sys.exit(f"delivery failed: {library.rd_kafka_err2str(error).decode()}")
    is_report = library.rd_kafka_event_type(event) == EVENT_DELIVERY
    count = library.rd_kafka_event_message_count(event) if is_report else 0
    library.rd_kafka_event_destroy(event)
    return count


def produce(library, handle, topic, records, record_bytes):
    """Seconds until the last of them was acknowledged."""
    payload = ctypes.create_string_buffer(os.urandom(record_bytes // 2).hex().encode().ljust(record_bytes, b"x"), record_bytes)
    # Without the copy flag the library sends from this memory, which must live until the end.
    batch = (Message * BATCH)(*(Message(payload=ctypes.addressof(payload), payload_bytes=record_bytes) for _ in range(BATCH)))
    queue = library.rd_kafka_queue_get_main(handle)
    sent = acknowledged = 0
    began = progressed = time.monotonic()
    while acknowledged < records:
        due = min(BATCH, records - sent)
        taken = library.rd_kafka_produce_batch(topic, 0, 0, batch, due) if due else 0
        sent += taken
        # All records are alike, so those that found the queue full need no telling apart.
        count = delivered(library, queue, 0 if due and taken == due else 10)
        while count:
            acknowledged, progressed = acknowledged + count, time.monotonic()
            count = delivered(library, queue, 0)
        if time.monotonic() - progressed > PATIENCE_S:
            sys.exit(f"only {acknowledged} of {records} records were acknowledged")
    return time.monotonic() - began


def consume(library, topic, records, record_bytes):
    """Seconds from the first fetch to the last record."""
    slots = (ctypes.c_void_p * BATCH)()
    began = progressed = time.monotonic()
    library.rd_kafka_consume_start(topic, 0, OFFSET_BEGINNING)
    got = 0
    while got < records:
        count = library.rd_kafka_consume_batch(topic, 0, 1000, slots, BATCH)
        if count > 0:
            last = Message.from_address(slots[count - 1])
            # One look at each batch finds any error or gap, since either would shift the count.
            if last.error or last.offset != got + count - 1 or last.payload_bytes != record_bytes:
                sys.exit(f"at offset {got}: error {last.error}, offset {last.offset} after {count} messages")
            for message in slots[:count]:
                library.rd_kafka_message_destroy(message)
            got, progressed = got + count, time.monotonic()
        elif time.monotonic() - progressed > PATIENCE_S:
            sys.exit(f"only {got} of {records} records came")
    return time.monotonic() - began


def main():
    action, bootstrap, name, records, record_bytes, *settings = sys.argv[1:]
    library = load(find_library() or sys.exit("librdkafka is missing"))
    settings = {"bootstrap.servers": bootstrap, **dict(setting.split("=", 1) for setting in settings)}
    handle = connect(library, PRODUCER if action == "produce" else CONSUMER, settings)
    topic = library.rd_kafka_topic_new(handle, name.encode(), None)
    if action == "produce":
        seconds = produce(library, handle, topic, int(records), int(record_bytes))
    else:
        seconds = consume(library, topic, int(records), int(record_bytes))
    print(json.dumps({"records": int(records), "seconds": seconds, "records_per_s": int(records) / seconds}), flush=True)
    # Nothing is left to hand over, and an orderly end of the library may take seconds.
    os._exit(0)


if __name__ == "__main__":
    main()
