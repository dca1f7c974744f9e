//! Every key, in the order of `ropewalk config`: its name, where its value is kept, its range, what it does.
//!
//! A new setting is a field in `config`, its default there, and a line here. Topic defaults are not in this table: their
//! names and rules are the protocol's.

use protocol::producers::{PRODUCER_BYTES, PRODUCER_SNAPSHOT_BYTES_MAX};

use super::slot::{Range, Slot};
use super::{Config, KIB, MIB};

/// One key.
pub(super) struct Key {
    /// Its dotted name.
    pub(super) name: &'static str,
    /// The place of its value.
    pub(super) slot: fn(&mut Config) -> Slot<'_>,
    /// The range of a number.
    pub(super) range: Range,
    /// Its effect, in a sentence.
    pub(super) documentation: &'static str,
}

/// Topic configs follow this.
pub(super) const TOPIC_DEFAULTS: &str = "topics.defaults.";

/// A key whose value is not a number.
const fn word(name: &'static str, slot: fn(&mut Config) -> Slot<'_>, documentation: &'static str) -> Key {
    Key {
        name,
        slot,
        range: Range { min: 0, max: 0 },
        documentation,
    }
}

/// A key whose value is a number, a size in bytes or a time in milliseconds, with its least and its greatest.
const fn number(
    name: &'static str,
    slot: fn(&mut Config) -> Slot<'_>,
    (min, max): (usize, usize),
    documentation: &'static str,
) -> Key {
    Key {
        name,
        slot,
        range: Range {
            min: min as u64,
            max: max as u64,
        },
        documentation,
    }
}

const GIB: usize = 1 << 30;
const TIB: usize = 1 << 40;
const SECOND: usize = 1_000;
const HOUR: usize = 3_600 * SECOND;
const DAY: usize = 24 * HOUR;

/// A journal's checkpoint holds its producers, and is read back only up to 1 GiB: more than half of that is left to the
/// segments and the partitions.
const PRODUCER_BYTES_MAX: usize = GIB;
const _: () = assert!(PRODUCER_BYTES_MAX / PRODUCER_BYTES * PRODUCER_SNAPSHOT_BYTES_MAX < GIB / 2);

pub(super) static KEYS: &[Key] = &[
    word(
        "data",
        |c| Slot::Path(&mut c.data),
        "The directory that holds everything the node stores.",
    ),
    number(
        "cores",
        |c| Slot::Count(&mut c.cores),
        (0, 1_024),
        "Number of cores that the node uses, each with a thread of its own; 0 uses every CPU. The number at the first start fixes that of the directory's journals: cores beyond that serve connections only.",
    ),
    word(
        "pin_threads",
        |c| Slot::Switch(&mut c.pin_threads),
        "Keeps each core's thread on one CPU.",
    ),
    number(
        "idle_poll",
        |c| Slot::Time(&mut c.idle_poll),
        (0, 10),
        "Time for which a core looks for requests before its thread sleeps, while they come in quick succession; 0s sleeps at once.",
    ),
    number(
        "node.id",
        |c| Slot::Number(&mut c.node.id),
        (0, i32::MAX as usize),
        "The node's number in its cluster; a data directory belongs to the number it was made with. Unless it is set, a node that joins is given a free one.",
    ),
    word(
        "node.rack",
        |c| Slot::Name(&mut c.node.rack),
        "The rack of the node, or whatever it shares with nodes that fail at the same time. A partition's replicas are put in different racks where there are enough, and consumers with the same client.rack read from the replica there. Empty for a node in no rack.",
    ),
    word(
        "cluster.join",
        |c| Slot::Addresses(&mut c.cluster.join),
        "The addresses of nodes whose cluster a node with an empty directory joins, those where they listen for other nodes; later they are tried beside those that the node knows. Empty for a cluster that this node begins.",
    ),
    number(
        "cluster.default_replicas",
        |c| Slot::Number(&mut c.cluster.default_replicas),
        (1, super::REPLICAS_MAX as usize),
        "Replicas of each partition of a topic whose creator names no number, as far as there are so many nodes that others reach (peer.listen). Topics that are there keep theirs: ropewalk topic replicas.",
    ),
    word(
        "peer.listen",
        |c| Slot::ListenIfAny(&mut c.peer.listen),
        "Where other nodes connect; port 0 takes any free port. Empty lets no other node join.",
    ),
    word(
        "peer.advertised",
        |c| Slot::Advertised(&mut c.peer.advertised),
        "The address that other nodes are told to use; empty for the one that the node listens on.",
    ),
    number(
        "peer.catch_up_rate",
        |c| Slot::DiskBytes(&mut c.peer.catch_up_rate),
        (0, TIB),
        "Bytes that each journal sends in a second to replicas that lack them while clients append; twice what clients append for each such replica, if that is more. 0 sets no bound.",
    ),
    word(
        "kafka.listen",
        |c| Slot::Listen(&mut c.kafka.listen),
        "Where Kafka's clients connect; port 0 takes any free port.",
    ),
    word(
        "kafka.advertised",
        |c| Slot::Advertised(&mut c.kafka.advertised),
        "The address that clients are told to use; empty for the one that the node listens on.",
    ),
    word(
        "http.listen",
        |c| Slot::Listen(&mut c.http.listen),
        "Where HTTP is served: health, metrics, and the log itself under /v1; port 0 takes any free port.",
    ),
    word(
        "http.advertised",
        |c| Slot::Advertised(&mut c.http.advertised),
        "Where other nodes reach HTTP, to hand on what only this one can answer; empty for the address that the node listens on, with the host of peer.advertised if it listens on every address.",
    ),
    word(
        "http.request_log",
        |c| Slot::Switch(&mut c.http.request_log),
        "Logs each HTTP request at level info; otherwise it is at level debug.",
    ),
    number(
        "journal.file_bytes",
        |c| Slot::DiskBytes(&mut c.journal.file_bytes),
        (MIB, GIB),
        "The size of one journal file, which is also more than any batch may have.",
    ),
    number(
        "journal.bytes_max",
        |c| Slot::DiskBytes(&mut c.journal.bytes_max),
        (3 * MIB, TIB),
        "The most that the journal of one core takes; appends wait when it is full.",
    ),
    word(
        "journal.flush_on_core",
        |c| Slot::Switch(&mut c.journal.flush_on_core),
        "Runs small flushes on the core's own thread while the disk is quick; one that stalls then stalls the core.",
    ),
    number(
        "journal.layout_trigger",
        |c| Slot::DiskBytes(&mut c.journal.layout_trigger),
        (MIB, TIB),
        "Bytes of a core's journal that fill before its batches are laid out in segments.",
    ),
    number(
        "cache.tail_bytes",
        |c| Slot::MemoryBytes(&mut c.cache.tail_bytes),
        (0, TIB),
        "Memory for what was appended last, shared by the cores.",
    ),
    number(
        "cache.chunk_bytes",
        |c| Slot::MemoryBytes(&mut c.cache.chunk_bytes),
        (0, TIB),
        "Memory for what was read from segments lately, shared by the cores.",
    ),
    number(
        "disk.reserve_bytes",
        |c| Slot::DiskBytes(&mut c.disk.reserve_bytes),
        (0, TIB),
        "Appends are refused while the disk has less free space than this.",
    ),
    number(
        "limits.request_bytes",
        |c| Slot::MemoryBytes(&mut c.limits.request_bytes),
        (64 * KIB, GIB),
        "The largest request that is read; a client that announces more is disconnected.",
    ),
    number(
        "limits.connections",
        |c| Slot::Count(&mut c.limits.connections),
        (1, 1_000_000),
        "The most connections that may be open.",
    ),
    number(
        "limits.connections_per_address",
        |c| Slot::Count(&mut c.limits.connections_per_address),
        (1, 1_000_000),
        "The most connections that may be open from one address.",
    ),
    number(
        "limits.connection_idle",
        |c| Slot::Time(&mut c.limits.connection_idle),
        (SECOND, 30 * DAY),
        "Time for which a connection may be silent between requests before it is closed.",
    ),
    number(
        "limits.handshake",
        |c| Slot::Time(&mut c.limits.handshake),
        (100, HOUR),
        "Time that a connection's first request, and the rest of any request once begun, may take to arrive.",
    ),
    number(
        "limits.in_flight_bytes_per_connection",
        |c| Slot::MemoryBytes(&mut c.limits.in_flight_bytes_per_connection),
        (64 * KIB, GIB),
        "Bytes of unanswered requests that one connection may have before the node stops reading from it.",
    ),
    number(
        "limits.in_flight_bytes_per_core",
        |c| Slot::MemoryBytes(&mut c.limits.in_flight_bytes_per_core),
        (MIB, TIB),
        "Bytes of memory that the unanswered requests of one core may take, beyond 128 KiB for each connection.",
    ),
    number(
        "limits.answer_bytes_per_core",
        |c| Slot::MemoryBytes(&mut c.limits.answer_bytes_per_core),
        (MIB, TIB),
        "Bytes that the answers of one core hold until clients have taken them; readers wait for room beyond that.",
    ),
    number(
        "limits.in_flight_requests_per_connection",
        |c| Slot::Count(&mut c.limits.in_flight_requests_per_connection),
        (1, 65_536),
        "Number of unanswered requests that one connection may have before the node stops reading from it.",
    ),
    number(
        "limits.fetch_bytes",
        |c| Slot::MemoryBytes(&mut c.limits.fetch_bytes),
        (64 * KIB, GIB),
        "Bytes of records that one answer to a fetch holds at most, whatever the client asks for.",
    ),
    number(
        "limits.fetch_sessions",
        |c| Slot::Count(&mut c.limits.fetch_sessions),
        (0, 1_000_000),
        "Number of fetch sessions that one core keeps, half of them for one address; consumers beyond that fetch without one.",
    ),
    number(
        "limits.fetch_session_bytes_per_core",
        |c| Slot::MemoryBytes(&mut c.limits.fetch_session_bytes_per_core),
        (MIB, GIB),
        "Bytes that the fetch sessions of one core take, half of them for one address; consumers beyond that fetch without one.",
    ),
    number(
        "limits.partitions",
        |c| Slot::Count(&mut c.limits.partitions),
        (1, 10_000_000),
        "The most partitions that all topics may have together.",
    ),
    number(
        "limits.metadata_bytes_per_core",
        |c| Slot::MemoryBytes(&mut c.limits.metadata_bytes_per_core),
        (MIB, 64 * GIB),
        "Memory of each core for all topics, with their partitions and configs, half of it for one address; more are refused until some are deleted.",
    ),
    number(
        "limits.decompressed_bytes",
        |c| Slot::MemoryBytes(&mut c.limits.decompressed_bytes),
        (MIB, 2 * GIB),
        "Bytes that one compressed batch may unpack to; a batch that exceeds it is refused.",
    ),
    word(
        "topics.auto_create",
        |c| Slot::Switch(&mut c.topics.auto_create),
        "Creates a topic when a client asks for one that does not exist.",
    ),
    number(
        "topics.default_partitions",
        |c| Slot::Number(&mut c.topics.default_partitions),
        (1, 10_000),
        "Number of partitions of a topic whose creator does not say.",
    ),
    number(
        "retention.check_interval",
        |c| Slot::Time(&mut c.retention.check_interval),
        (10, DAY),
        "Time for which records stand at least before they go for their age, whatever time they bear; sizes and silent producers are looked at at least every 10 s.",
    ),
    number(
        "retention.clock_jump_wait",
        |c| Slot::Time(&mut c.retention.clock_jump_wait),
        (0, DAY),
        "Time for which nothing goes for its age after the clock has jumped forward, or a start long after the node last ran; 0s believes every clock.",
    ),
    number(
        "compaction.check_interval",
        |c| Slot::Time(&mut c.compaction.check_interval),
        (10, DAY),
        "Interval at which each core looks for partitions that need compaction.",
    ),
    number(
        "compaction.key_map_bytes",
        |c| Slot::MemoryBytes(&mut c.compaction.key_map_bytes),
        (64 * KIB, 64 * GIB),
        "Memory of each core for the keys of a compaction, 24 bytes each; with more keys than fit it takes several passes.",
    ),
    number(
        "compaction.rate",
        |c| Slot::DiskBytes(&mut c.compaction.rate),
        (64 * KIB, TIB),
        "Bytes a second that the compaction of one core reads and writes at most.",
    ),
    number(
        "scrub.rate",
        |c| Slot::DiskBytes(&mut c.scrub.rate),
        (0, TIB),
        "Bytes of segments that each journal reads in a second in search of damage, at most; what is damaged is written anew if another replica has it. 0 reads none.",
    ),
    number(
        "scrub.rest",
        |c| Slot::Time(&mut c.scrub.rest),
        (10, 365 * DAY),
        "Time from the end of a search for damage to the next one.",
    ),
    number(
        "producers.expiration",
        |c| Slot::Time(&mut c.producers.expiration),
        (SECOND, 365 * DAY),
        "Time for which a partition remembers an idempotent producer that is silent.",
    ),
    number(
        "producers.per_partition_max",
        |c| Slot::Count(&mut c.producers.per_partition_max),
        (1, 10_000_000),
        "Number of idempotent producers that one partition remembers, half of them for one address; more are refused until one has been silent for producers.retry_horizon.",
    ),
    number(
        "producers.retry_horizon",
        |c| Slot::Time(&mut c.producers.retry_horizon),
        (SECOND, DAY),
        "Time after its last batch in which an idempotent producer may still retry: for so long it is never forgotten for others.",
    ),
    number(
        "producers.bytes_per_journal",
        |c| Slot::MemoryBytes(&mut c.producers.bytes_per_journal),
        (64 * KIB, PRODUCER_BYTES_MAX),
        "Memory of each journal for idempotent producers, 512 bytes each; half of it for one address.",
    ),
    number(
        "groups.session_timeout_min",
        |c| Slot::Time(&mut c.groups.session_timeout_min),
        (1, HOUR),
        "The shortest session timeout that a member of a classic group may choose.",
    ),
    number(
        "groups.session_timeout_max",
        |c| Slot::Time(&mut c.groups.session_timeout_max),
        (SECOND, DAY),
        "The longest session timeout that a member of a classic group may choose.",
    ),
    number(
        "groups.initial_rebalance_delay",
        |c| Slot::Time(&mut c.groups.initial_rebalance_delay),
        (0, HOUR),
        "Time for which an empty classic group waits for more members before its first generation.",
    ),
    number(
        "groups.members_max",
        |c| Slot::Count(&mut c.groups.members_max),
        (1, 100_000),
        "The most members of a group.",
    ),
    number(
        "groups.offsets_retention",
        |c| Slot::Time(&mut c.groups.offsets_retention),
        (SECOND, 365 * DAY),
        "Time for which the offsets of a group without members are kept.",
    ),
    number(
        "groups.offsets_check_interval",
        |c| Slot::Time(&mut c.groups.offsets_check_interval),
        (10, DAY),
        "Interval at which each coordinator looks for offsets that have outlived their retention, or whose topics are gone.",
    ),
    number(
        "groups.lag_check_interval",
        |c| Slot::Time(&mut c.groups.lag_check_interval),
        (10, DAY),
        "The pause between two looks of each core at how far its groups are behind, for the metrics.",
    ),
    number(
        "groups.consumer_session_timeout",
        |c| Slot::Time(&mut c.groups.consumer_session_timeout),
        (SECOND, HOUR),
        "Time for which a member that speaks the consumer protocol may be silent.",
    ),
    number(
        "groups.consumer_heartbeat_interval",
        |c| Slot::Time(&mut c.groups.consumer_heartbeat_interval),
        (100, HOUR),
        "Interval at which such a member is to be heard of.",
    ),
    number(
        "metrics.topics_max",
        |c| Slot::Count(&mut c.metrics.topics_max),
        (0, 1_000_000),
        "Number of topics that each core counts one by one for the metrics, the first ones that are used; the rest count together as \"(others)\".",
    ),
    number(
        "shutdown.deadline",
        |c| Slot::Time(&mut c.shutdown.deadline),
        (0, HOUR),
        "Time that requests under way may take to be answered when the node stops.",
    ),
    word(
        "log.format",
        |c| Slot::LogFormat(&mut c.log.format),
        "Form of log lines: text or json.",
    ),
    word(
        "log.level",
        |c| Slot::LogLevel(&mut c.log.level),
        "The least important events that are logged: error, warn, info, debug or trace.",
    ),
];

/// The key called `name`.
pub(super) fn find(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
}
