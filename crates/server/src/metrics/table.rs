//! Every metric there is: name, unit, kind, help, and where its value is found. What is rendered and what
//! docs/metrics.md says both come from here.
//!
//! A metric's full name is `ropewalk_NAME`, then its unit, then `_total` for a counter: `received` in bytes is
//! `ropewalk_received_bytes_total`. Units are base units.

use std::time::Duration;

use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

use crate::latency::HistogramFigures;
use crate::shard::AppendRefusal;

use super::{CoreAnswer, CoreFigures, JournalFigures, Snapshot};

/// One value of a metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Value {
    Whole(u64),
    Time(Duration),
    Histogram(HistogramFigures),
}

impl From<u64> for Value {
    fn from(value: u64) -> Value {
        Value::Whole(value)
    }
}

impl From<usize> for Value {
    fn from(value: usize) -> Value {
        Value::Whole(value as u64)
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Value {
        Value::Whole(value.into())
    }
}

impl From<Duration> for Value {
    fn from(value: Duration) -> Value {
        Value::Time(value)
    }
}

impl From<HistogramFigures> for Value {
    fn from(value: HistogramFigures) -> Value {
        Value::Histogram(value)
    }
}

/// One metric of subjects of type `S`.
pub(super) struct Metric<S> {
    pub(super) name: &'static str,
    pub(super) unit: Option<Unit>,
    pub(super) kind: MetricType,
    pub(super) help: &'static str,
    /// `None` if it is not known now.
    pub(super) value: fn(&S) -> Option<Value>,
}

type Read<S> = fn(&S) -> Option<Value>;

const fn counter<S>(name: &'static str, unit: Option<Unit>, value: Read<S>, help: &'static str) -> Metric<S> {
    Metric {
        name,
        unit,
        kind: MetricType::Counter,
        help,
        value,
    }
}

const fn gauge<S>(name: &'static str, unit: Option<Unit>, value: Read<S>, help: &'static str) -> Metric<S> {
    Metric {
        name,
        unit,
        kind: MetricType::Gauge,
        help,
        value,
    }
}

/// Of durations; in seconds, as all times are.
const fn histogram<S>(name: &'static str, value: Read<S>, help: &'static str) -> Metric<S> {
    Metric {
        name,
        unit: Some(Unit::Seconds),
        kind: MetricType::Histogram,
        help,
        value,
    }
}

fn known(value: impl Into<Value>) -> Option<Value> {
    Some(value.into())
}

/// Of the build; an info metric, so its value is always 1 and its label says all.
pub(super) const BUILD: (&str, &str) = ("build", "The version of the program that runs, as a label.");

/// Of the node, without labels.
pub(super) static OF_NODE: &[Metric<Snapshot>] = &[
    gauge(
        "uptime",
        Some(Unit::Seconds),
        |node| known(node.uptime),
        "Time since the node started.",
    ),
    gauge(
        "cores",
        None,
        |node| known(node.cores.len()),
        "Cores that the node runs, each a thread.",
    ),
    gauge(
        "topics",
        None,
        |node| node.metadata().and_then(|core| known(core.topics)),
        "Topics that the node knows.",
    ),
    gauge(
        "disk_free",
        Some(Unit::Bytes),
        |node| node.disk_free_bytes().and_then(known),
        "Free space of the disk that holds the data directory; below disk.reserve_bytes appends are refused.",
    ),
    gauge(
        "http_connections",
        None,
        |node| known(node.http.connections),
        "HTTP connections that are open.",
    ),
    gauge(
        "http_followers",
        None,
        |node| known(node.http.followers),
        "HTTP connections that follow a partition by server-sent events.",
    ),
    counter(
        "http_connections_refused",
        None,
        |node| known(node.http.refused_connections),
        "HTTP connections that were refused, or closed while they waited for a request, because there were too many.",
    ),
    counter(
        "http_connections_cut_off",
        None,
        |node| known(node.http.cut_off),
        "HTTP connections that were closed because their answers were not taken in time.",
    ),
    counter(
        "http_requests",
        None,
        |node| known(node.http.requests),
        "HTTP requests, refused ones and those whose clients left included.",
    ),
    counter(
        "http_requests_gone",
        None,
        |node| known(node.http.gone),
        "HTTP requests whose clients left before they were answered; what they asked for may be done.",
    ),
    counter(
        "http_client_errors",
        None,
        |node| known(node.http.client_errors),
        "HTTP requests that were answered with a status from 400 to 499.",
    ),
    counter(
        "http_server_errors",
        None,
        |node| known(node.http.server_errors),
        "HTTP requests that were answered with a status from 500 on.",
    ),
    counter(
        "process_cpu",
        Some(Unit::Seconds),
        |node| {
            node.process
                .and_then(|process| known(process.cpu_user + process.cpu_system))
        },
        "Processor time that the process has used, in user mode and in the kernel.",
    ),
    gauge(
        "process_resident_memory",
        Some(Unit::Bytes),
        |node| node.process.and_then(|process| known(process.rss_bytes)),
        "Memory of the process that is resident now.",
    ),
];

/// Of each core, also of one that does not answer.
pub(super) static OF_CORE_ANSWER: &[Metric<CoreAnswer>] = &[gauge(
    "core_up",
    None,
    |core| known(core.outcome.is_ok()),
    "1 if the core answers, 0 if it does not; then its other figures are missing.",
)];

/// Of each core that answers.
pub(super) static OF_CORE: &[Metric<CoreFigures>] = &[
    gauge(
        "connections",
        None,
        |core| known(core.connections),
        "Kafka connections that are open.",
    ),
    counter(
        "connections_opened",
        None,
        |core| known(core.connections_opened),
        "Kafka connections that were let in since the start.",
    ),
    counter(
        "connections_refused",
        None,
        |core| known(core.connections_refused),
        "Kafka connections that were refused because there were too many, altogether or from one address.",
    ),
    counter(
        "connections_moved",
        None,
        |core| known(core.connections_moved),
        "Kafka connections that went on at another core, because they wanted only that core's partitions.",
    ),
    counter(
        "connections_cut_off",
        None,
        |core| known(core.connections_cut_off),
        "Kafka connections that were closed because their answers were not taken in time.",
    ),
    counter(
        "requests",
        None,
        |core| known(core.requests),
        "Kafka requests that were read.",
    ),
    counter(
        "malformed_requests",
        None,
        |core| known(core.malformed_requests),
        "Kafka requests that were too large or could not be understood; each cost its sender the connection.",
    ),
    counter(
        "received",
        Some(Unit::Bytes),
        |core| known(core.received_bytes),
        "Bytes received on Kafka connections.",
    ),
    counter(
        "sent",
        Some(Unit::Bytes),
        |core| known(core.sent_bytes),
        "Bytes sent on Kafka connections.",
    ),
    histogram(
        "produce_latency",
        |core| known(core.produce_latency),
        "Time from when a Kafka Produce request was read until its answer was written, refusals included; without an answer (acks=0) it does not count.",
    ),
    histogram(
        "fetch_latency",
        |core| known(core.fetch_latency),
        "Time from when a Kafka Fetch request was read until its answer was written, if it did not wait for records to come; a client that takes them slowly counts, too.",
    ),
    gauge(
        "answer",
        Some(Unit::Bytes),
        |core| known(core.answer_bytes),
        "Memory that answers to Kafka requests hold until they are written; see limits.answer_bytes_per_core.",
    ),
    gauge(
        "fetch_sessions",
        None,
        |core| known(core.fetch_sessions),
        "Fetch sessions that consumers have open (KIP-227).",
    ),
    gauge(
        "groups",
        None,
        |core| known(core.groups),
        "Consumer groups that the core coordinates, those without members included.",
    ),
];

/// Of each journal of a core that answers.
pub(super) static OF_JOURNAL: &[Metric<JournalFigures>] = &[
    gauge(
        "partitions",
        None,
        |journal| known(journal.partitions),
        "Partitions that write to the journal, the internal one of the metadata included.",
    ),
    counter(
        "appended_batches",
        None,
        |journal| known(journal.appended_batches),
        "Record batches appended.",
    ),
    counter(
        "batches_in_place",
        None,
        |journal| known(journal.batches_in_place),
        "Record batches appended that were not copied between the socket and the journal: large ones, each alone in its request.",
    ),
    counter(
        "appended_records",
        None,
        |journal| known(journal.appended_records),
        "Records appended.",
    ),
    counter(
        "appended",
        Some(Unit::Bytes),
        |journal| known(journal.appended_bytes),
        "Bytes of the record batches appended.",
    ),
    counter(
        "flushes",
        None,
        |journal| known(journal.flush_latency.count()),
        "Durable writes to the journal, failed ones included.",
    ),
    counter(
        "flushed",
        Some(Unit::Bytes),
        |journal| known(journal.flushed_bytes),
        "Bytes given to durable writes, with frames and padding.",
    ),
    counter(
        "flush",
        Some(Unit::Seconds),
        |journal| known(journal.flush_latency.sum()),
        "Time that durable writes took; divided by flushes, the mean of one.",
    ),
    histogram(
        "flush_latency",
        |journal| known(journal.flush_latency),
        "Time that each durable write to the journal took, failed ones included.",
    ),
    gauge(
        "unflushed",
        Some(Unit::Bytes),
        |journal| known(journal.store.unflushed_bytes),
        "Bytes staged for the journal and not yet durable.",
    ),
    gauge(
        "journal",
        Some(Unit::Bytes),
        |journal| known(journal.store.journal_bytes),
        "Bytes of the journal that are not released yet.",
    ),
    gauge(
        "journal_max",
        Some(Unit::Bytes),
        |journal| known(journal.store.journal_bytes_max),
        "The most bytes that the journal may hold; appends wait when it is full.",
    ),
    gauge(
        "tail_cache",
        Some(Unit::Bytes),
        |journal| known(journal.store.tail_cache_bytes),
        "Memory that holds what was written lately.",
    ),
    gauge(
        "chunk_cache",
        Some(Unit::Bytes),
        |journal| known(journal.store.chunk_cache_bytes),
        "Memory that holds pieces and indexes of segments that were read lately or ahead of a reader.",
    ),
    counter(
        "chunk_cache_hits",
        None,
        |journal| known(journal.store.chunk_cache_hits),
        "Pieces of segments that were found in the chunk cache.",
    ),
    counter(
        "chunk_cache_misses",
        None,
        |journal| known(journal.store.chunk_cache_misses),
        "Pieces of segments that were not found in the chunk cache.",
    ),
    counter(
        "disk_reads",
        None,
        |journal| known(journal.disk_reads),
        "Reads that went to the disk, those ahead of a reader included.",
    ),
    counter(
        "read",
        Some(Unit::Bytes),
        |journal| known(journal.read_bytes),
        "Bytes of record batches read for consumers, from memory or disk.",
    ),
    counter(
        "layout_rounds",
        None,
        |journal| known(journal.layout_rounds),
        "Checkpoints that were tried, each after a round of layout from the journal into segments.",
    ),
    counter(
        "compaction_passes",
        None,
        |journal| known(journal.compaction.passes),
        "Passes of compaction over a partition that came to their end.",
    ),
    counter(
        "compaction_failures",
        None,
        |journal| known(journal.compaction.failures),
        "Passes of compaction that failed: the log says why. Each partition is tried again after five minutes.",
    ),
    counter(
        "compaction",
        Some(Unit::Seconds),
        |journal| known(journal.compaction.time),
        "Time that steps of compaction took, without the rests between them.",
    ),
    counter(
        "compaction_read",
        Some(Unit::Bytes),
        |journal| known(journal.compaction.read_bytes),
        "Bytes of segments that compaction has read, most of them twice: for their keys, and for what stays.",
    ),
    counter(
        "compaction_written",
        Some(Unit::Bytes),
        |journal| known(journal.compaction.written_bytes),
        "Bytes of segments that compaction has written.",
    ),
    counter(
        "compaction_removed_records",
        None,
        |journal| known(journal.compaction.removed_records),
        "Records that compaction has removed, tombstones among them.",
    ),
    counter(
        "compaction_removed_tombstones",
        None,
        |journal| known(journal.compaction.removed_tombstones),
        "Tombstones that compaction has removed after delete.retention.ms.",
    ),
    counter(
        "compaction_freed",
        Some(Unit::Bytes),
        |journal| known(journal.compaction.freed_bytes),
        "Bytes by which compaction has made segments smaller.",
    ),
    gauge(
        "compaction_waiting",
        Some(Unit::Bytes),
        |journal| known(journal.compaction.waiting_bytes),
        "Bytes of complete segments that wait for a compaction that is due.",
    ),
    counter(
        "faults",
        None,
        |journal| known(journal.faults),
        "Failures of the disk and damaged data that the journal and its segments have met.",
    ),
    gauge(
        "journal_dead",
        None,
        |journal| known(matches!(journal.refusal, Some(AppendRefusal::JournalDead(_)))),
        "1 if a durable write has failed: the journal takes no appends until the node is started again.",
    ),
    gauge(
        "disk_full",
        None,
        |journal| known(matches!(journal.refusal, Some(AppendRefusal::DiskFull))),
        "1 if appends are refused because the disk has less than its reserve left.",
    ),
];
