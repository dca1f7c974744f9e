"""The letters that a client sends with each of its codecs (`codecs` in tests/clients/README.md), and the judgement, record by
record: the codec in the log, the key, the headers, the tombstones. A client's own reading and the witness's are judged alike.
"""

from itertools import zip_longest

from confluent_kafka import OFFSET_BEGINNING, TopicPartition

from suites_support import wire
from suites_support.suite import demand, wait_until

TOPIC = "letters"
# In the order of their numbers in a batch's attributes.
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
LETTERS_OF_CODEC = 20
WEAVE = "warp-weft-" * 20


def letters(codecs):
    """What the topic holds, by offset: (codec, key, value, headers)."""
    return [(codec, f"{codec}-{number}", None if number % 5 == 4 else f"{codec}:{number}", [("codec", codec), ("weave", WEAVE)])
            for codec in codecs for number in range(LETTERS_OF_CODEC)]


def check_told(client, lines, lacks):
    """What the client said: which codecs it has, and what it has read. Gives the codecs that it has."""
    has = [codec for codec in CODECS if codec not in lacks]
    said = [words for words in lines if words[0] != "read"]
    wanted = [["sent" if codec in has else "lacks", codec] for codec in CODECS]
    demand(said == wanted, f"{client} said of its codecs {said}, not {wanted}")
    read = [words[1:] for words in lines if words[0] == "read"]
    wanted = [[str(offset), key, value or "-", *(f"{name}={text}" for name, text in headers)]
              for offset, (_, key, value, headers) in enumerate(letters(has))]
    _demand_alike(client, read, wanted)
    return has


def check_batches(client, node, has):
    """Each letter is in the log under the codec that was asked for: whoever reads it does not see that."""
    wanted = [codec for codec, *_ in letters(has)]
    found = []
    for first, count, codec in wire.batches(node.leader_of(TOPIC, 0), TOPIC, 0, len(wanted)):
        demand(first == len(found), f"{client}: a batch of {TOPIC} begins at {first}, not at {len(found)}")
        found += [CODECS[codec]] * count
    _demand_alike(f"{client}, codecs in the log", found, wanted)


def check_log(client, consumer, has):
    """What somebody else, an impartial consumer of librdkafka's, reads."""
    wanted = [(key.encode(), value and value.encode(), [(name, text.encode()) for name, text in headers])
              for _, key, value, headers in letters(has)]
    found = []

    def whole():
        for message in consumer.consume(len(wanted), timeout=1):
            demand(message.error() is None, f"reading {TOPIC}: {message.error()}")
            found.append((message.key(), message.value(), message.headers()))
        return len(found) >= len(wanted)

    consumer.assign([TopicPartition(TOPIC, 0, OFFSET_BEGINNING)])
    wait_until(whole, 60, f"all of {TOPIC} is read")
    consumer.unassign()
    _demand_alike(f"{client}, read by another", found, wanted)


def _demand_alike(who, found, wanted):
    for offset, (one, other) in enumerate(zip_longest(found, wanted)):
        demand(one == other, f"{who}: the letter at {offset} came back as {one}, was sent as {other}")
