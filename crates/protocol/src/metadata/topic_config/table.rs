//! The table of topic configs. Names and built-in values are Kafka 4's; those under `ropewalk.` are our own.
//!
//! Tools set some of Kafka's configs on every topic, though they change nothing here. Those are checked, kept and told as all
//! others are, and their documentation begins with "No effect".

use super::known::{Rule, bytes, milliseconds, number, word};
use super::{ConfigKind, KnownConfig};

/// The only value of a switch for something that is not done here.
const NEVER: &[&str] = &["false"];
const EITHER: &[&str] = &["false", "true"];

/// Says how batches reach the replicas.
pub(super) const REPLICATION: &str = "ropewalk.replication";

/// Says which records have an order.
pub(super) const ORDER: &str = "ropewalk.order";
/// All of the topic's.
pub(super) const TOTAL: &str = "total";

/// Every config that is served, sorted by name.
pub static KNOWN: &[KnownConfig] = &[
    KnownConfig {
        name: "cleanup.policy",
        default: "delete",
        kind: ConfigKind::List,
        documentation: "What happens to old records: they are deleted by age and size, or of each key only the latest record is kept (compact), or both. Empty: they stay.",
        unit: None,
        rule: Rule::SomeOf(&["compact", "delete"]),
    },
    word(
        "compression.gzip.level",
        ConfigKind::Int,
        "-1",
        &["-1", "1", "2", "3", "4", "5", "6", "7", "8", "9"],
        "How hard gzip tries where compression.type is gzip; -1 is its own middle, 6.",
    ),
    number(
        "compression.lz4.level",
        ConfigKind::Int,
        "9",
        1,
        "No effect: LZ4 is written at one level.",
    )
    .at_most(17),
    word(
        "compression.type",
        ConfigKind::String,
        "producer",
        &["gzip", "lz4", "producer", "snappy", "uncompressed", "zstd"],
        "How batches are compressed: as their producer sent them (producer), or each in this way. Those that came in another one are compressed anew.",
    ),
    number(
        "compression.zstd.level",
        ConfigKind::Int,
        "3",
        -131_072,
        "How hard Zstandard tries where compression.type is zstd.",
    )
    .at_most(22),
    milliseconds(
        "delete.retention.ms",
        "86400000",
        0,
        "How long the record that says that a key is gone is kept after the compaction that found it first.",
    ),
    milliseconds(
        "file.delete.delay.ms",
        "60000",
        0,
        "No effect: files go as soon as nobody reads them.",
    ),
    number(
        "flush.messages",
        ConfigKind::Long,
        "9223372036854775807",
        1,
        "No effect: every append is flushed before it is answered; see ropewalk.durability.",
    ),
    milliseconds(
        "flush.ms",
        "9223372036854775807",
        0,
        "No effect: every append is flushed before it is answered; see ropewalk.durability.",
    ),
    KnownConfig {
        name: "follower.replication.throttled.replicas",
        default: "",
        kind: ConfigKind::List,
        documentation: "No effect: replicas are sent what they lack at a pace of their own.",
        unit: None,
        rule: Rule::Replicas,
    },
    bytes(
        "index.interval.bytes",
        ConfigKind::Int,
        "4096",
        0,
        "No effect: segments have an index of another kind.",
    ),
    KnownConfig {
        name: "leader.replication.throttled.replicas",
        default: "",
        kind: ConfigKind::List,
        documentation: "No effect: replicas are sent what they lack at a pace of their own.",
        unit: None,
        rule: Rule::Replicas,
    },
    bytes(
        "local.retention.bytes",
        ConfigKind::Long,
        "-2",
        -2,
        "No effect: there is no tiered storage.",
    ),
    milliseconds(
        "local.retention.ms",
        "-2",
        -2,
        "No effect: there is no tiered storage.",
    ),
    milliseconds(
        "max.compaction.lag.ms",
        "9223372036854775807",
        1,
        "How long a segment that is complete may wait for its compaction, however few others wait.",
    ),
    bytes(
        "max.message.bytes",
        ConfigKind::Int,
        "1048588",
        0,
        "The largest batch that is accepted, as it is sent, with its header; `journal.file_bytes` and `limits.request_bytes` of a node allow no larger ones, whatever this is.",
    ),
    word(
        "message.downconversion.enable",
        ConfigKind::Boolean,
        "false",
        EITHER,
        "No effect: batches are never converted to the formats of before Kafka 0.11.",
    ),
    milliseconds(
        "message.timestamp.after.max.ms",
        "3600000",
        0,
        "How far a record's own timestamp may lie ahead of the node's clock.",
    ),
    milliseconds(
        "message.timestamp.before.max.ms",
        "9223372036854775807",
        0,
        "How far a record's own timestamp may lie behind the node's clock.",
    ),
    word(
        "message.timestamp.type",
        ConfigKind::String,
        "CreateTime",
        &["CreateTime", "LogAppendTime"],
        "Whether records keep the timestamp of their producer or get that of their append.",
    ),
    KnownConfig {
        name: "min.cleanable.dirty.ratio",
        default: "0.5",
        kind: ConfigKind::Double,
        documentation: "The share of a partition's complete segments that no compaction has seen, above which one begins.",
        unit: None,
        rule: Rule::Share,
    },
    milliseconds(
        "min.compaction.lag.ms",
        "0",
        0,
        "How old the newest record of a segment must be before the segment is compacted.",
    ),
    number(
        "min.insync.replicas",
        ConfigKind::Int,
        "1",
        1,
        "How many replicas must hold a batch before a producer that waits for all is answered.",
    ),
    word(
        "preallocate",
        ConfigKind::Boolean,
        "false",
        EITHER,
        "No effect: segments grow as they are written.",
    ),
    word(
        "remote.log.copy.disable",
        ConfigKind::Boolean,
        "false",
        EITHER,
        "No effect: there is no tiered storage.",
    ),
    word(
        "remote.log.delete.on.disable",
        ConfigKind::Boolean,
        "false",
        EITHER,
        "No effect: there is no tiered storage.",
    ),
    word(
        "remote.storage.enable",
        ConfigKind::Boolean,
        "false",
        NEVER,
        "Records are on the node's own disk alone.",
    ),
    bytes(
        "retention.bytes",
        ConfigKind::Long,
        "-1",
        -1,
        "How many bytes a partition keeps before its oldest segments are deleted; -1 keeps all.",
    ),
    milliseconds(
        "retention.ms",
        "604800000",
        -1,
        "How long a segment is kept after its newest record; -1 keeps it for ever.",
    ),
    word(
        "ropewalk.durability",
        ConfigKind::String,
        "fsync",
        &["fsync", "memory"],
        "When a batch counts as written: once it is flushed to disk, or as soon as it is in memory, where a power cut loses it.",
    ),
    word(
        ORDER,
        ConfigKind::String,
        "partition",
        &["partition", TOTAL],
        "Which records have an order that all readers see: those of each partition, or all of the topic's (total), each of which has a position then.",
    ),
    word(
        REPLICATION,
        ConfigKind::String,
        "quorum",
        &["quorum", "chain"],
        "The way in which batches reach the replicas: the leader sends each to all of them, or to the next one, which passes it on. Both count the same quorum.",
    ),
    bytes(
        "segment.bytes",
        ConfigKind::Int,
        "1073741824",
        1_048_576,
        "The size at which a new segment is begun.",
    ),
    bytes(
        "segment.index.bytes",
        ConfigKind::Int,
        "10485760",
        4,
        "No effect: segments have an index of another kind.",
    ),
    milliseconds(
        "segment.jitter.ms",
        "0",
        0,
        "No effect: segments end at their age and size.",
    ),
    milliseconds(
        "segment.ms",
        "604800000",
        1,
        "The age at which a new segment is begun.",
    ),
    word(
        "unclean.leader.election.enable",
        ConfigKind::Boolean,
        "false",
        EITHER,
        "No effect: only a replica that has everything that was acknowledged leads, unless an operator has the partition opened uncleanly.",
    ),
];
