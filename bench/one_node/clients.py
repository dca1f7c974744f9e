"""The clients that load a broker: `ropewalk bench`, Kafka's own Java tools, librdkafka. Each is one function.

All return figures under the same names (times in µs, memory in 10^6 bytes, CPU for each 10^9 bytes of values), or
`{"failed": reason}`: a row that cannot be measured says why and harms no other.
"""
import json
import pathlib
import re
import subprocess
import sys
import time

from one_node.brokers import KAFKA_RUN
from one_node.machine import ServerMeter

LIBRDKAFKA = pathlib.Path(__file__).resolve().parent / "librdkafka.py"
READ_PARTITION = KAFKA_RUN.parent / "ReadPartition.java"
TOOLS = "org.apache.kafka.tools."
# What librdkafka's own rdkafka_performance sets: with its default it stops fetching for a second at every 100,000 records.
LIBRDKAFKA_READER = ["queued.min.messages=1000000"]
LIMIT_S = 900
SUMMARY = re.compile(
    r"(\d+) records sent, ([\d.]+) records/sec .*?, [\d.]+ ms avg latency, ([\d.]+) ms max latency, "
    r"(\d+) ms 50th, (\d+) ms 95th, (\d+) ms 99th, (\d+) ms 99.9th"
)
# Start, end, MB, MB/s, records, records/s, rebalance ms, fetch ms, fetch MB/s, fetch records/s.
CONSUMER_LINE = re.compile(r"^[^,]+, [^,]+, [\d.]+, [\d.]+, (\d+), [\d.]+, -?\d+, -?\d+, [\d.]+, ([\d.]+)$", re.MULTILINE)

# Both brokers remove a deleted topic's files a second or two later.
FILES_GONE_SECONDS = 4


class Failed(Exception):
    """A client ended badly; the message is its own last word."""


def output_of(command, stderr=subprocess.PIPE):
    words = [str(word) for word in command]
    try:
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=stderr, text=True, timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        raise Failed(f"not done within {LIMIT_S} s") from None
    if done.returncode != 0:
        raise Failed(((done.stderr or "").strip() or done.stdout.strip() or "no message").splitlines()[-1])
    return done.stdout


def figures_or_failure(measure, *arguments):
    try:
        return measure(*arguments)
    except Failed as failure:
        return {"failed": str(failure)}


class Clients:
    """The clients, with the binary that holds ours."""

    def __init__(self, binary):
        self.binary = binary

    def floor(self, directory):
        # As many that a percentile of 99.9 means something.
        samples = ["--samples", "10000"]
        return json.loads(output_of([self.binary, "bench", "floor", "--dir", directory, *samples, "--json"]))

    def create_topic(self, broker, topic, configs):
        command = [self.binary, "topic", "create", topic, "--bootstrap", broker.bootstrap, "--partitions", "1"]
        output_of(command + [word for config in configs for word in ("--config", config)])

    def delete_topic(self, broker, topic):
        """Deletes it and waits until its files are gone: a disk that is told of freed blocks is slow for whoever is next."""
        output_of([self.binary, "topic", "delete", topic, "--bootstrap", broker.bootstrap])
        time.sleep(FILES_GONE_SECONDS)

    def append(self, broker, topic, *arguments):
        figures = self.own("append", broker, topic, *arguments)
        # The percentiles are those of requests, so their number is the number of batches; at a rate, those of records.
        figures["samples"] = figures["records"] // (1 if figures["rate"] else figures["batch_records"])
        if figures["errors"]:
            raise Failed(f"{figures['errors']} errors: {figures['first_error']}")
        return figures

    def read(self, broker, topic, *arguments):
        return self.own("read", broker, topic, *arguments)

    def own(self, command, broker, topic, *arguments):
        to = ["--bootstrap", broker.bootstrap, "--topic", topic, "--server-pid", broker.pid]
        return json.loads(output_of([self.binary, "bench", command, *to, *arguments, "--json"]))


def metered(broker, records, record_bytes, load):
    """What `load` reports, with the server's cost and the rate in 10^6 bytes of values."""
    meter = ServerMeter(broker.pid)
    figures = load()
    figures |= meter.stop(records * record_bytes)
    figures["mb_per_s"] = figures["records_per_s"] * record_bytes / 1e6
    return figures


def java_produce(broker, topic, records, record_bytes, *properties):
    """kafka-producer-perf-test, unthrottled; its latencies begin when a record is handed to the client."""
    command = [KAFKA_RUN, "tool", TOOLS + "ProducerPerformance", "--bootstrap-server", broker.bootstrap, "--topic", topic]
    command += ["--num-records", records, "--record-size", record_bytes, "--throughput", "-1"]
    command += ["--command-property", "acks=all", *properties]

    def load():
        output = output_of(command)
        summary = SUMMARY.search(output)
        if not summary or int(summary[1]) != records:
            raise Failed(f"kafka-producer-perf-test says: {(output.strip() or 'nothing').splitlines()[-1]}")
        names = ["max_us", "p50_us", "p95_us", "p99_us", "p999_us"]
        latency = {name: float(ms) * 1000 for name, ms in zip(names, summary.groups()[2:])}
        return {"records": records, "records_per_s": float(summary[2]), "samples": records, **latency}

    return metered(broker, records, record_bytes, load)


def java_consume(broker, topic, records, record_bytes):
    """kafka-consumer-perf-test; its fetch rate, which leaves the joining of the group out."""
    command = [KAFKA_RUN, "tool", TOOLS + "ConsumerPerformance", "--bootstrap-server", broker.bootstrap]
    command += ["--topic", topic, "--num-records", records, "--hide-header"]

    def load():
        # It ends with 0 even when it could not read, and says why among its warnings.
        output = output_of(command, stderr=subprocess.STDOUT)
        figures = CONSUMER_LINE.search(output)
        if not figures or int(figures[1]) < records:
            words = [line for line in output.splitlines() if "Exception" in line or "not support" in line]
            raise Failed(f"kafka-consumer-perf-test: {words[-1] if words else 'too few records'}")
        return {"records": int(figures[1]), "records_per_s": float(figures[2])}

    return metered(broker, records, record_bytes, load)


def java_read_partition(broker, topic, records, record_bytes):
    """Kafka's Java client without a group."""
    command = [KAFKA_RUN, "tool", READ_PARTITION, broker.bootstrap, topic, records]
    return metered(broker, records, record_bytes, lambda: json.loads(output_of(command)))


def librdkafka_produce(broker, topic, records, record_bytes):
    return librdkafka("produce", broker, topic, records, record_bytes)


def librdkafka_consume(broker, topic, records, record_bytes):
    return librdkafka("consume", broker, topic, records, record_bytes, *LIBRDKAFKA_READER)


def librdkafka(action, broker, topic, records, record_bytes, *properties):
    command = [sys.executable, LIBRDKAFKA, action, broker.bootstrap, topic, records, record_bytes, *properties]
    return metered(broker, records, record_bytes, lambda: json.loads(output_of(command)))
