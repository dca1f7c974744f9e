//! Every metric there is: name, unit, kind, help, and where its value is found (those of journals in `journal`). What is
//! rendered and what docs/metrics.md says both come from here.
//!
//! A metric's full name is `ropewalk_NAME`, then its unit, then `_total` for a counter: `received` in bytes is
//! `ropewalk_received_bytes_total`. Units are base units.

mod cluster;
mod journal;
mod transactions;
mod uses;

use std::time::Duration;

use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

use platform::counters::HistogramFigures;

pub(super) use self::cluster::{OF_FOLLOWER, OF_PEER};
pub(super) use self::journal::{OF_JOURNAL, OF_RETENTION};
pub(super) use self::transactions::OF_COORDINATOR;
pub(super) use self::uses::{OF_API, OF_ERROR, OF_GROUP, OF_TOPIC};
use super::{CoreAnswer, CoreFigures, Snapshot};

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
        "start_time",
        Some(Unit::Seconds),
        |node| known(node.started_at),
        "When the node started, in seconds since 1970.",
    ),
    gauge(
        "ready",
        None,
        |node| known(node.hindrances().is_empty()),
        "1 if the node serves in full, 0 if it does not: GET /ready says why.",
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
        "nodes",
        None,
        |node| node.cluster().and_then(|cluster| known(cluster.nodes)),
        "Nodes of the cluster, this one among them; missing of a node that is alone, as the next five are.",
    ),
    gauge(
        "nodes_away",
        None,
        |node| node.cluster().and_then(|cluster| known(cluster.nodes_away)),
        "Nodes that this one has no connection with.",
    ),
    gauge(
        "metadata_leader",
        None,
        |node| node.cluster().and_then(|cluster| known(cluster.leads_metadata)),
        "1 of the node that leads the metadata group, 0 of the others; if it is 0 of all, nothing can be changed.",
    ),
    gauge(
        "leaderless_partitions",
        None,
        |node| {
            node.cluster()
                .and_then(|cluster| known(cluster.leaderless_partitions))
        },
        "Partitions whose leader this node has no connection with.",
    ),
    gauge(
        "moving_partitions",
        None,
        |node| {
            node.cluster()
                .and_then(|cluster| known(cluster.moving_partitions))
        },
        "Partitions whose replicas change.",
    ),
    gauge(
        "doubted_replicas",
        None,
        |node| node.cluster().and_then(|cluster| known(cluster.doubted_replicas)),
        "Replicas that count for nothing, because their disk has lost something, until they are filled again.",
    ),
    gauge(
        "unclean_partitions",
        None,
        |node| {
            node.cluster()
                .and_then(|cluster| known(cluster.unclean_partitions))
        },
        "Partitions that were ever opened uncleanly: acknowledged records may be lost.",
    ),
    gauge(
        "disk_free",
        Some(Unit::Bytes),
        |node| node.disk_free_bytes().and_then(known),
        "Free space of the disk that holds the data directory; below disk.reserve_bytes appends are refused.",
    ),
    gauge(
        "disk_reserve",
        Some(Unit::Bytes),
        |node| known(node.disk_reserve_bytes),
        "Free space below which appends are refused: disk.reserve_bytes.",
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
        "HTTP connections on which only probes were answered, or that made way for others, because there were too many.",
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
        "request",
        Some(Unit::Bytes),
        |core| known(core.request_bytes),
        "Memory that large requests by Kafka's protocol hold until nothing of them is left; see limits.in_flight_bytes_per_core.",
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
    counter(
        "long_turns",
        None,
        |core| known(core.long_turns),
        "Times that one task kept the core to itself for more than 20 ms of its thread's processor time, while all other clients of the core waited. The log names the task.",
    ),
    gauge(
        "longest_turn",
        Some(Unit::Seconds),
        |core| known(core.longest_turn),
        "Processor time of the longest of these since the start; 0 if there was none.",
    ),
    gauge(
        "clock_held",
        None,
        |core| known(core.clock_is_held),
        "1 while nothing is deleted for its age, because the clock has jumped forward; see retention.clock_jump_wait.",
    ),
    gauge(
        "groups",
        None,
        |core| known(core.groups),
        "Consumer groups that the core coordinates, those without members included.",
    ),
    gauge(
        "closed_coordinators",
        None,
        |core| known(core.closed_coordinators.len()),
        "Coordinators of consumer groups and transactions that have failed: GET /ready says why. Their groups and transactional ids are refused until the node is started again.",
    ),
];
