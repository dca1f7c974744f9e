"""Restarts after kill -9: how long until the node is ready, and until it acknowledges an append, by how much it stores.

Each broker gets a node of its own, which grows from size to size and is removed afterwards. The page cache stays warm,
as it does when a process dies and the machine lives.
"""
import shutil
import subprocess
import sys
import time

from one_node.brokers import Broker, KafkaNode, NotReady, RopewalkNode, why_no_kafka
from one_node.clients import Failed
from one_node.machine import cpu_seconds, resident_mb

TOPIC = "stored"
LOAD = ["--record-bytes", 1000, "--batch-records", 500, "--in-flight", 8]
# What one record of that load takes in a batch.
STORED_BYTES = 1010
# Room for the journal, and for others on this disk.
SPARE_GB = 5
IDLE_S = 10
IDLE_TOPICS, IDLE_PARTITIONS = 10, 1000


def nodes(binary, directory):
    yield RopewalkNode(binary, directory)
    if why_no_kafka() is None:
        yield KafkaNode(directory)


def stored_gb(node):
    return int(subprocess.run(["du", "-s", "-B1", str(node.data)], capture_output=True, text=True).stdout.split()[0]) / 1e9


def seconds_of(action):
    began = time.monotonic()
    action()
    return time.monotonic() - began


def restart(node, client, topic):
    """The figures of one kill -9. An append again shows what of the first one is the client's own start."""
    broker = Broker(node.kind, node, [])
    append = lambda: client.append(broker, topic, "--records", 1)
    append()
    node.kill()
    began = time.monotonic()
    node.start()
    ready_s = time.monotonic() - began
    append()
    first_ack_s = time.monotonic() - began
    return {"ready_s": ready_s, "first_ack_s": first_ack_s, "same_append_again_s": seconds_of(append)}


def grow(node, client, gb, holds_gb):
    free = shutil.disk_usage(node.data).free / 1e9
    if free < gb - holds_gb + SPARE_GB:
        raise Failed(f"{free:.0f} GB are free, too few to store {gb:g} GB")
    records = int((gb - holds_gb) * 1e9 / STORED_BYTES)
    if records > 0:
        client.append(Broker(node.kind, node, []), TOPIC, *LOAD, "--records", records)


def measure_sizes(binary, directory, client, sizes, repetitions):
    """One row for each broker and size; a size that cannot be had says why."""
    rows = []
    for node in nodes(binary, directory):
        try:
            node.start()
            client.create_topic(Broker(node.kind, node, []), TOPIC, [])
            holds_gb = 0
            for gb in sorted(sizes):
                grow(node, client, gb, holds_gb)
                holds_gb = gb
                runs = [restart(node, client, TOPIC) for _ in range(repetitions)]
                rows.append({"broker": node.kind, "asked_gb": gb, "stored_gb": stored_gb(node), "runs": runs})
                print(f"restart: {node.kind} with {gb:g} GB", file=sys.stderr)
        except (Failed, NotReady) as failure:
            rows.append({"broker": node.kind, "failed": str(failure)})
        finally:
            node.stop()
            shutil.rmtree(node.data, ignore_errors=True)
    return rows


def measure_idle(binary, directory, client, repetitions):
    """10,000 idle partitions of one Ropewalk node: memory, CPU ticks while nothing happens, restart."""
    node = RopewalkNode(binary, directory)
    try:
        node.start()
        for number in range(IDLE_TOPICS):
            to = ["--bootstrap", f"127.0.0.1:{node.port}", "--partitions", str(IDLE_PARTITIONS)]
            subprocess.run([binary, "topic", "create", f"idle-{number}", *to], check=True, capture_output=True)
        # A topic of its own: one with 1,000 partitions would measure how long the client takes to look at them all.
        client.create_topic(Broker(node.kind, node, []), TOPIC, [])
        runs = [restart(node, client, TOPIC) for _ in range(repetitions)]
        before = cpu_seconds(node.pid)
        time.sleep(IDLE_S)
        idle_cpu_s = cpu_seconds(node.pid) - before
        return [{"broker": node.kind, "partitions": IDLE_TOPICS * IDLE_PARTITIONS, "runs": runs,
                 "server_rss_mb": resident_mb(node.pid), "cpu_s_in_10_idle_s": idle_cpu_s}]
    except (Failed, NotReady, subprocess.CalledProcessError) as failure:
        return [{"broker": node.kind, "failed": str(failure)}]
    finally:
        node.stop()
        shutil.rmtree(node.data, ignore_errors=True)
