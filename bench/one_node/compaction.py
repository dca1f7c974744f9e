"""Appends beside a compaction: their latency before it, while it goes on, and after it.

One Ropewalk node of its own: a topic is filled that keeps everything, then told to keep the latest record of each key only.
Meanwhile another topic gets appends at a fixed rate, in windows of some seconds; in turn with them the disk gets bare durable
writes at the same rate, for a disk may be as late by itself.
"""
import random
import shutil
import statistics
import subprocess
import sys
import time
import urllib.request

from one_node.brokers import Broker, NotReady, RopewalkNode
from one_node.clients import Failed, output_of
from one_node.machine import resident_mb
from one_node.raw_flush import RawFlushes

FILLED, APPENDED = "keyed", "beside"
RECORD_BYTES = 1000
# Each key comes ten times: a compaction leaves a tenth.
RECORDS_OF_A_KEY = 10
LINES_AT_ONCE = 2000
RATE = 2000
LOAD = ["--rate", RATE, "--record-bytes", "100", "--batch-records", "1", "--in-flight", "1"]
WINDOWS_BEFORE_AND_AFTER = 6
# A node looks for what it should compact every 15 s.
BEGINS_WITHIN_S = 60
ENDS_WITHIN_S = 1800


def measure(binary, directory, client, gb, window_seconds):
    """One row for each phase, with the percentiles of all its windows and the largest memory."""
    node = RopewalkNode(binary, directory)
    broker = Broker(node.kind, node, [])
    raw = RawFlushes(directory)
    try:
        if shutil.disk_usage(directory).free < 2.5 * gb * 1e9:
            raise Failed(f"{gb:g} GB are stored in the journal, in segments and in compacted ones: this disk has too little room")
        node.start()
        client.create_topic(broker, FILLED, [])
        client.create_topic(broker, APPENDED, [])
        began = time.monotonic()
        fill(binary, broker, int(gb * 1e9 / RECORD_BYTES))
        print(f"compaction: {gb:g} GB are there after {time.monotonic() - began:.0f} s", file=sys.stderr)
        def window():
            appends = client.append(broker, APPENDED, *LOAD, "--seconds", window_seconds) | {"server_rss_mb": resident_mb(node.pid)}
            return {"appends": appends, "raw": raw.window(RATE, window_seconds)}

        windows = {"before": [window() for _ in range(WINDOWS_BEFORE_AND_AFTER)], "while it goes on": []}
        output_of([binary, "config", "set", "--topic", FILLED, "cleanup.policy=compact", "--bootstrap", broker.bootstrap])
        wait_until_it_begins(node)
        began = time.monotonic()
        while figure(node, "passes_total") == 0:
            windows["while it goes on"].append(window())
            if figure(node, "failures_total") or time.monotonic() > began + ENDS_WITHIN_S:
                raise Failed(f"the compaction failed, or did not end within {ENDS_WITHIN_S} s; {node.log.read_text()[-500:]}")
        took_s = time.monotonic() - began
        windows["after"] = [window() for _ in range(WINDOWS_BEFORE_AND_AFTER)]
        return {
            "gb": gb,
            "took_s": took_s,
            "read_gb": figure(node, "read_bytes_total") / 1e9,
            "written_gb": figure(node, "written_bytes_total") / 1e9,
            "removed_records": figure(node, "removed_records_total"),
            "windows": windows,
        }
    except (Failed, NotReady) as failure:
        return {"failed": str(failure)}
    finally:
        raw.close()
        node.stop()
        shutil.rmtree(node.data, ignore_errors=True)


def fill(binary, broker, records):
    """So many records of keys in random order."""
    letters = "".join(random.choices("abcdefghijklmnopqrstuvwxyz0123456789", k=1 << 16)).encode()
    command = [binary, "produce", FILLED, "--key-separator", ":", "--bootstrap", broker.bootstrap, "--no-create"]
    produce = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    keys = max(1, records // RECORDS_OF_A_KEY)
    try:
        for first in range(0, records, LINES_AT_ONCE):
            lines = []
            for _ in range(min(LINES_AT_ONCE, records - first)):
                key = b"%010d" % random.randrange(keys)
                begin = random.randrange(len(letters) - RECORD_BYTES)
                lines.append(key + b":" + letters[begin:begin + RECORD_BYTES - len(key)] + b"\n")
            produce.stdin.write(b"".join(lines))
        produce.stdin.close()
    except BrokenPipeError:
        pass
    words = produce.stderr.read().decode(errors="replace").strip()
    if produce.wait() != 0:
        raise Failed(f"`ropewalk produce` failed: {words[-300:]}")


def figure(node, name):
    """Of all cores together."""
    with urllib.request.urlopen(f"http://127.0.0.1:{node.http_port}/metrics", timeout=30) as response:
        lines = response.read().decode().splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"ropewalk_compaction_{name}"))


def wait_until_it_begins(node):
    end = time.monotonic() + BEGINS_WITHIN_S
    while figure(node, "read_bytes_total") == 0:
        if time.monotonic() > end:
            raise Failed(f"no compaction began within {BEGINS_WITHIN_S} s")
        time.sleep(0.1)


def phases(row):
    """Phase and what was timed → medians over the windows, and the worst p99 of one."""
    if "failed" in row:
        return {}
    names = ["p50_us", "p99_us", "p999_us"]
    return {
        (phase, what): {
            "windows": len(windows),
            **{name: statistics.median(window[what][name] for window in windows) for name in names},
            "worst_p99_us": max(window[what]["p99_us"] for window in windows),
            "server_rss_mb": max(window["appends"]["server_rss_mb"] for window in windows),
        }
        for phase, windows in row["windows"].items()
        for what in ("appends", "raw")
    }
