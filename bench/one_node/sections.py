"""What is measured: each section is a list of workloads, and a table of its own.

A workload gets a fresh topic on each broker in turn, runs its steps one after the other on it, and the topic is deleted
again. Before each the disk is synced, so that no broker pays for what another one left unwritten.
"""
import os
import sys
from dataclasses import dataclass, field
from typing import Callable

from one_node import clients, librdkafka
from one_node.brokers import why_no_kafka
from one_node.clients import Failed, figures_or_failure

READ = ["records_per_s", "mb_per_s", "server_cpu_s_per_gb", "server_rss_mb"]
ONE_BY_ONE = ["--in-flight", "1", "--batch-records", "1"]


@dataclass
class Workload:
    """Steps are rows of the table: a name, and what measures it, called with a broker and a topic."""

    steps: list[tuple[str, Callable]]
    ropewalk_configs: list[str] = field(default_factory=list)


@dataclass
class Section:
    name: str
    title: str
    columns: list[str]
    workloads: list[Workload]
    skipped: str | None = None


def measure(section, brokers, client, repetitions):
    """Row → broker → the figures of each repetition."""
    rows = {name: {broker.name: [] for broker in brokers} for workload in section.workloads for name, _ in workload.steps}
    for workload in section.workloads:
        for repetition in range(repetitions):
            for broker in brokers:
                for name, figures in run(workload, broker, client).items():
                    rows[name][broker.name].append(figures)
            print(f"{section.name}: {workload.steps[0][0]}: {repetition + 1} of {repetitions}", file=sys.stderr)
    return rows


def run(workload, broker, client):
    topic = broker.new_topic_name()
    configs = broker.topic_configs + (workload.ropewalk_configs if broker.is_ropewalk else [])
    os.sync()
    try:
        client.create_topic(broker, topic, configs)
        figures = {name: figures_or_failure(step, broker, topic) for name, step in workload.steps}
        client.delete_topic(broker, topic)
        return figures
    except Failed as failure:
        return {name: {"failed": str(failure)} for name, _ in workload.steps}


def warm_up(brokers, client, seconds):
    """Brings a young process to its usual speed: a cold JVM needs nearly twice as long for an append as a warm one."""
    for broker in brokers:
        for load in (ONE_BY_ONE, ["--in-flight", 8, "--batch-records", 1000]):
            topic = broker.new_topic_name()
            client.append(broker, topic, *load, "--record-bytes", 100, "--seconds", seconds)
            client.delete_topic(broker, topic)


def all_sections(client, seconds):
    """Every section; `seconds` is how long each timed step lasts, and scales those that count records instead."""
    return [
        one_by_one(client, seconds),
        batched(client, seconds),
        percentiles(client, seconds),
        fixed_rate(client, seconds),
        java(client, seconds),
        with_librdkafka(client, seconds),
    ]


def appending(client, *arguments):
    return lambda broker, topic: client.append(broker, topic, *arguments)


def one_by_one(client, seconds):
    def row(name, record_bytes, warmup, *more, configs=()):
        arguments = [*ONE_BY_ONE, "--record-bytes", record_bytes, "--warmup-records", warmup, "--seconds", seconds, *more]
        return Workload([(name, appending(client, *arguments))], list(configs))

    return Section(
        "sync",
        "One by one: each producer waits for each record. `samples` is how many the percentiles are made of",
        ["samples", "p50_us", "p99_us", "p999_us", "max_us", "records_per_s", "server_cpu_s_per_gb", "server_rss_mb"],
        [
            row("sync 100 B", 100, 2000),
            row("sync 50 KB", 50_000, 200),
            row("sync 1 MB", 1_000_000, 50),
            row("sync 100 B, durability=memory", 100, 2000, configs=["ropewalk.durability=memory"]),
            row("16 producers, sync 4 KB", 4096, 1600, "--producers", 16),
        ],
    )


def batched(client, seconds):
    load = ["--in-flight", 8, "--batch-records", 5000, "--record-bytes", 100, "--records", int(2_500_000 * seconds)]
    return Section(
        "batched",
        "Batches of 5,000 records of 100 B, 8 in flight, and what was written read back",
        ["records_per_s", "mb_per_s", "p50_us", "p99_us", "max_us", "server_cpu_s_per_gb", "server_rss_mb"],
        [
            Workload([
                ("1 producer, 5,000 per batch, 100 B", appending(client, *load)),
                ("read back, 100 B", lambda broker, topic: client.read(broker, topic)),
            ]),
            Workload([("3 producers, 5,000 per batch, 100 B", appending(client, *load, "--producers", 3))]),
        ],
    )


def percentiles(client, seconds):
    def row(producers, batch_records, in_flight):
        arguments = ["--record-bytes", 100, "--producers", producers, "--batch-records", batch_records]
        arguments += ["--in-flight", in_flight, "--seconds", seconds, "--warmup-records", batch_records * 100]
        plural = "producers" if producers > 1 else "producer"
        return Workload([(f"{producers} {plural}, {batch_records:,} per batch, {in_flight} in flight", appending(client, *arguments))])

    return Section(
        "percentiles",
        "Unthrottled load of 100 B records, latency of a batch from its sending to its acknowledgement. 8,196 per batch and "
        "1 in flight is how smf's table was made; Kafka's side of that table is its Java tool's (section `java`)",
        ["samples", "p50_us", "p90_us", "p99_us", "p999_us", "p9999_us", "max_us", "records_per_s"],
        [row(producers, *batch) for batch in ((8196, 1), (5000, 8)) for producers in (1, 3)],
    )


def fixed_rate(client, seconds):
    def row(name, rate, batch_records, in_flight):
        arguments = ["--record-bytes", 100, "--rate", rate, "--batch-records", batch_records, "--in-flight", in_flight]
        return Workload([(name, appending(client, *arguments, "--seconds", seconds))])

    return Section(
        "rate",
        "Fixed rate, 100 B, latency of each record from the time at which it was due",
        ["samples", "p50_us", "p99_us", "p999_us", "max_us", "records_per_s", "server_cpu_s_per_gb"],
        [
            row("2,000 records/s, one by one", 2000, 1, 1),
            row("200,000 records/s, up to 200 per batch, 8 in flight", 200_000, 200, 8),
        ],
    )


def written_for_readers(client, record_bytes, batch_records, records):
    """A step that writes what the next ones read. A client's own batches are the larger the longer it waits for a broker, and larger
    batches are read faster: so readers find the same batches everywhere, whoever writes how fast."""
    arguments = ["--record-bytes", record_bytes, "--batch-records", batch_records, "--in-flight", 8, "--records", records]
    return f"written for the next: {record_bytes} B, {batch_records} per batch", appending(client, *arguments)


def counted(measure, records, record_bytes, *more):
    """A step of a client that is told how many records there are."""
    return lambda broker, topic: measure(broker, topic, records, record_bytes, *more)


def java(client, seconds):
    def writing(name, record_bytes, records, *properties):
        return Workload([(f"kafka-producer-perf-test, {name}", counted(clients.java_produce, records, record_bytes, *properties))])

    def reading(record_bytes, batch_records, records):
        return Workload([
            written_for_readers(client, record_bytes, batch_records, records),
            (f"kafka-consumer-perf-test, {record_bytes} B", counted(clients.java_consume, records, record_bytes)),
            (f"Java consumer without a group, {record_bytes} B", counted(clients.java_read_partition, records, record_bytes)),
        ])

    return Section(
        "java",
        "Kafka's own Java client on both sides, acks=all, unthrottled. Latency is from handing a record to the client, so most "
        "of it is waiting there. Readers find batches of 16 KB, the client's default",
        [*READ, "p50_us", "p99_us", "p999_us", "max_us"],
        [
            writing("100 B", 100, int(1_000_000 * seconds)),
            writing("100 B, linger.ms=5 batch.size=65536", 100, int(1_000_000 * seconds), "linger.ms=5", "batch.size=65536"),
            writing("512 B", 512, int(300_000 * seconds)),
            reading(100, 150, int(2_000_000 * seconds)),
            reading(512, 31, int(600_000 * seconds)),
        ],
        why_no_kafka(),
    )


def with_librdkafka(client, seconds):
    def writing(record_bytes, records):
        return Workload([(f"produce {record_bytes} B", counted(clients.librdkafka_produce, records, record_bytes))])

    def reading(record_bytes, batch_records, records):
        return Workload([
            written_for_readers(client, record_bytes, batch_records, records),
            (f"consume {record_bytes} B", counted(clients.librdkafka_consume, records, record_bytes)),
        ])

    return Section(
        "librdkafka",
        f"librdkafka on both sides, acks=all, its defaults; the consumer with {clients.LIBRDKAFKA_READER[0]}. Readers find batches of 500 KB",
        READ,
        [
            writing(100, int(1_000_000 * seconds)),
            writing(512, int(300_000 * seconds)),
            reading(100, 5000, int(2_000_000 * seconds)),
            reading(512, 1000, int(600_000 * seconds)),
        ],
        None if librdkafka.find_library() else "librdkafka is missing: run tests/run once, or install librdkafka1",
    )
