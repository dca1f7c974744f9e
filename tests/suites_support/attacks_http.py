"""What clients that mean harm do to a node over HTTP: see `attacks`."""

import itertools
import json
import time

from suites_support.attacks import BOMB_TIME_MS, BOMBS, REST_SECONDS, WIDE, _connect, _crowd, _hold

RECORDS = "/v1/topics/{}/partitions/{}/records"


def _get(path, accept="application/json"):
    return f"GET {path} HTTP/1.1\r\nHost: n\r\nAccept: {accept}\r\n\r\n".encode()


def _patch(path, content):
    body = json.dumps(content).encode()
    return f"PATCH {path} HTTP/1.1\r\nHost: n\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def _patches(node, path, content):
    """PATCH requests one after the other, on one connection; path and content are made of their numbers."""
    with _connect(node, http=True) as connection:
        for number in itertools.count(1):
            connection.sendall(_patch(path(number), content(number)))
            connection.recv(64 << 10)
            yield


def waiting_reads(node):
    """As many reads that wait for a record as there are connections."""
    path = RECORDS.format(WIDE, 9) + "?offset=latest&wait_ms=60000"
    with _crowd(node, 300, http=True) as crowd:
        for connection in crowd:
            connection.sendall(_get(path))
        yield from _hold()


def reads_of_bombs(node):
    """Reads and followers of what is far more than it seems, and questions for a time in it; nobody waits for the answers. Most want
    what stands behind it: all of it must be unpacked for them."""
    asks = [_get(RECORDS.format(BOMBS, 0) + "?offset=0&limit=1"),
            _get(RECORDS.format(BOMBS, 0) + "?offset=0", "text/event-stream"),
            _get(RECORDS.format(BOMBS, 1) + "?offset=0"),
            _get(RECORDS.format(BOMBS, 2) + f"?timestamp_ms={BOMB_TIME_MS + 500}"),
            _get(RECORDS.format(BOMBS, 3) + "?offset=1", "text/event-stream"),
            *[_get(RECORDS.format(BOMBS, 4) + "?offset=1")] * 20]
    while True:
        with _crowd(node, len(asks), http=True) as crowd:
            for connection, ask in zip(crowd, asks):
                connection.sendall(ask)
            time.sleep(REST_SECONDS)
            yield


def lists_of_all(node):
    """Very long lists, again and again on connections that take nothing of them."""
    with _crowd(node, 40, http=True) as crowd:
        for connection in crowd:
            connection.sendall(_get(f"/v1/topics/{WIDE}") * 3)
        yield from _hold()


def groups_without_end(node):
    """Offsets of groups that nobody has heard of before."""
    return _patches(node, lambda number: f"/v1/groups/unheard-{number}/offsets",
                    lambda _: [{"topic": WIDE, "partition": 0, "offset": 0}])


def growing_configs(node):
    """Numbers with hundreds of zeros before them, set again and again."""
    return _patches(node, lambda _: f"/v1/topics/{BOMBS}/configs", lambda number: {"retention.ms": str(10 ** 9 + number).zfill(255)})


ALL = [waiting_reads, reads_of_bombs, lists_of_all, groups_without_end, growing_configs]
