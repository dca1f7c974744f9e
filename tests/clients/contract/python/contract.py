"""The lines of tests/clients/README.md, for the clients in Python."""

import signal
import sys
import threading

KEYS = 18
SESSION_MS = 3000
HEARTBEAT_MS = 500
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
LETTERS_OF_CODEC = 20
IN_A_TRANSACTION = 20


def commands(lines=sys.stdin):
    """The lines that come in, as words."""
    # Not by iteration, which would wait for more than a line.
    for line in iter(lines.readline, ""):
        yield line.split()


def records(words):
    """The (key, value) pairs that a line `FIRST COUNT` asks for."""
    first, count = map(int, words)
    for number in range(first, first + count):
        key = f"k{number % KEYS}"
        yield key.encode(), f"{key}:{number}".encode()


def letters(codec):
    """The (key, value, headers) that are sent with a codec; a tombstone has no value."""
    # So long that it pays to compress a letter alone: a client may leave what would not get smaller.
    headers = [("codec", codec.encode()), ("weave", b"warp-weft-" * 20)]
    for number in range(LETTERS_OF_CODEC):
        value = None if number % 5 == 4 else f"{codec}:{number}".encode()
        yield f"{codec}-{number}".encode(), value, headers


def tell_letter(offset, key, value, headers):
    texts = [f"{name}={text.decode()}" for name, text in headers]
    tell("read", offset, key.decode(), "-" if value is None else value.decode(), *texts)


def tell(*words):
    print(*words)


def give_up(uncommitted, places):
    """These are taken away: what of them waits in `uncommitted` (a dictionary by place) will not be committed."""
    for place in places:
        if uncommitted.pop(place, None) is not None:
            tell("uncommitted", place.partition)


def flush():
    sys.stdout.flush()


def leaving():
    """Becomes set when the member is to leave its group."""
    told = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: told.set())
    return told


def run(produce, consume, codecs, admin, **more):
    """`more` are the programs that only clients with transactions have."""
    address, command, *arguments = sys.argv[1:]
    {"produce": produce, "consume": consume, "codecs": codecs, "admin": admin, **more}[command](address, *arguments)


def administer(deeds):
    """Answers lines with what the function of that name in `deeds` gives for the rest of the line."""
    for name, *arguments in commands():
        try:
            answer = deeds[name](*arguments)
        except Exception as error:
            answer = ["error", type(error).__name__, str(error).replace("\n", " ")]
        tell(*answer)
        flush()


def end(lines, count, add, commit, abort):
    """Takes a transaction of `transform` through its last steps, as the lines say; whether it was committed."""
    tell("sent", count)
    for (word,) in told(lines):
        if word == "offsets":
            add()
            tell("added")
        elif word == "commit":
            commit()
            tell("committed")
            flush()
            return True
        else:
            abort()
            tell("aborted")
            flush()
            return False
    sys.exit("the input has ended in the middle of a transaction")


def told(lines):
    """The lines, before each of which what was told is flushed."""
    flush()
    for line in lines:
        yield line
        flush()
