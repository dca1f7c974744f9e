//! The configuration that a node is given before it starts: one value for each key, and where each value came from.
//!
//! Data only. The program's edge reads files and arguments and hands their text to [`Config::load`]; the cores get the
//! result at their start and nobody changes it after that. The keys, with their documentation, stand in `keys`.

mod describe;
mod error;
mod keys;
mod load;
mod plain;
mod slot;
mod suggest;
mod values;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use protocol::metadata::PlanLimits;
use protocol::metadata::topic_config::TopicConfig;

pub use describe::{KeyDescription, KeyKind};
pub use error::ConfigError;
pub use load::{FileText, Flag, Variable};
pub use plain::plain_value;
pub use suggest::suggest;
pub(crate) use suggest::{kafka_names, key_of, name_while_running};
pub use values::{HostPort, LogFormat, LogLevel};

/// The effective configuration of one node. `Config::default()` is what a node has without file or arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The directory that holds everything the node stores.
    pub data: PathBuf,
    /// The number of cores; 0 takes every CPU that the process may use.
    pub cores: usize,
    /// Says whether each core's thread stays on a CPU of its own.
    pub pin_threads: bool,
    /// The time that a core looks for requests before its thread sleeps, while they come in quick succession.
    pub idle_poll: Duration,
    /// This node's place in its cluster.
    pub node: NodeSettings,
    /// The cluster.
    pub cluster: ClusterSettings,
    /// Where Kafka's clients come in.
    pub kafka: KafkaSettings,
    /// Where other nodes come in.
    pub peer: PeerSettings,
    /// Where HTTP comes in.
    pub http: HttpSettings,
    /// Sizes of each core's journal.
    pub journal: JournalSettings,
    /// Memory for what was written and read lately.
    pub cache: CacheSettings,
    /// The data directory's disk.
    pub disk: DiskSettings,
    /// Bounds on what clients may make the node use.
    pub limits: LimitSettings,
    /// Configs of topics that do not choose for themselves.
    pub topics: TopicDefaults,
    /// The work of retention.
    pub retention: RetentionSettings,
    /// The work of compaction.
    pub compaction: CompactionSettings,
    /// The search for damage.
    pub scrub: ScrubSettings,
    /// The memory of idempotent producers.
    pub producers: ProducerSettings,
    /// Consumer groups.
    pub groups: GroupSettings,
    /// Things that are counted one by one.
    pub metrics: MetricsSettings,
    /// The node's stop.
    pub shutdown: ShutdownSettings,
    /// The lines that the node logs.
    pub log: LogSettings,
    /// Where the values that were set come from, by key.
    sources: BTreeMap<String, Source>,
}

/// Keys under `node`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeSettings {
    /// This node's number in its cluster.
    pub id: i32,
    /// The rack that it shares with nodes that fail at the same time; `None` for a node in no rack.
    pub rack: Option<String>,
}

/// Keys under `cluster`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterSettings {
    /// The addresses of nodes whose cluster an empty directory joins; none for a cluster that this node begins.
    pub join: Vec<HostPort>,
    /// Replicas of each partition of a topic whose creator names no number, if there are so many nodes.
    pub default_replicas: i32,
}

/// Keys under `peer`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerSettings {
    /// `host:port` to listen on; port 0 takes any free one. Without it no other node can join.
    pub listen: Option<String>,
    /// The address that other nodes are told; without it, the one listened on.
    pub advertised: Option<HostPort>,
    /// Bytes a second that each journal's shard sends replicas of what they lack while clients append; 0 sets no bound.
    pub catch_up_rate: u64,
}

/// Keys under `kafka`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KafkaSettings {
    /// `host:port` to listen on; port 0 takes any free one.
    pub listen: String,
    /// The address that clients are told; without it, the one listened on.
    pub advertised: Option<HostPort>,
}

/// Keys under `http`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpSettings {
    /// `host:port` to listen on; port 0 takes any free one.
    pub listen: String,
    /// The address that other nodes are told; without it, the one listened on.
    pub advertised: Option<HostPort>,
    /// Says whether every answered request is a log line of its own at level info; else it is one at level debug.
    pub request_log: bool,
}

/// Keys under `journal`. Sizes in bytes, each for one core.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalSettings {
    /// The size of one journal file, a multiple of 4 KiB.
    pub file_bytes: u64,
    /// The most that all files of one journal take.
    pub bytes_max: u64,
    /// Says whether small flushes run on the core's thread while they are usually short.
    pub flush_on_core: bool,
    /// Journal bytes that have layout begin.
    pub layout_trigger: u64,
}

/// Keys under `cache`. Bytes of the whole node; the cores share them evenly.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheSettings {
    /// Memory for what was appended last.
    pub tail_bytes: usize,
    /// Memory for chunks that were read from segments.
    pub chunk_bytes: usize,
}

/// Keys under `disk`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskSettings {
    /// Free bytes below which appends are refused.
    pub reserve_bytes: u64,
}

/// Keys under `limits`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitSettings {
    /// The largest request, in bytes.
    pub request_bytes: usize,
    /// Connections to the node.
    pub connections: usize,
    /// Connections from one address.
    pub connections_per_address: usize,
    /// The longest silence of a connection between requests.
    pub connection_idle: Duration,
    /// The longest time that the first request, and the rest of any begun request, may take to arrive.
    pub handshake: Duration,
    /// Bytes of unanswered requests of one connection.
    pub in_flight_bytes_per_connection: usize,
    /// Memory of unanswered requests on one core, beyond 128 KiB for each connection.
    pub in_flight_bytes_per_core: usize,
    /// Bytes of answers on one core that are not written yet.
    pub answer_bytes_per_core: usize,
    /// Unanswered requests of one connection.
    pub in_flight_requests_per_connection: usize,
    /// Bytes of records in one answer to a fetch.
    pub fetch_bytes: usize,
    /// Fetch sessions kept on one core.
    pub fetch_sessions: usize,
    /// Bytes that fetch sessions take on one core.
    pub fetch_session_bytes_per_core: usize,
    /// Partitions of all topics.
    pub partitions: usize,
    /// Memory of one core for all topics, with their partitions and configs.
    pub metadata_bytes_per_core: usize,
    /// Bytes that one compressed batch may unpack to.
    pub decompressed_bytes: usize,
}

/// Keys under `topics`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicDefaults {
    /// Says whether a client's use of an unknown topic creates it.
    pub auto_create: bool,
    /// Partitions of a topic whose creator does not say how many.
    pub default_partitions: i32,
    /// Topic configs that differ from the built-in ones, for all topics that do not set them.
    pub defaults: TopicConfig,
}

/// Keys under `retention`. How long and how much is kept is each topic's config.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetentionSettings {
    /// The time that records stand before they may go for their age.
    pub check_interval: Duration,
    /// The time for which nothing goes for its age after the clock has jumped forward; zero believes every clock.
    pub clock_jump_wait: Duration,
}

/// Keys under `compaction`. What is compacted, and when, is each topic's config.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompactionSettings {
    /// The time between two looks at what needs compaction.
    pub check_interval: Duration,
    /// Memory of each core for the keys of one pass, in bytes.
    pub key_map_bytes: usize,
    /// Bytes that compaction reads and writes in a second on each core, at most.
    pub rate: u64,
}

/// Keys under `scrub`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScrubSettings {
    /// Bytes of segments that each journal's shard reads in a second in search of damage, at most; 0 reads none.
    pub rate: u64,
    /// The time from the end of a pass over all segments to the next one.
    pub rest: Duration,
}

/// Keys under `producers`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProducerSettings {
    /// The time for which a silent producer is remembered.
    pub expiration: Duration,
    /// The most producers that one partition remembers.
    pub per_partition_max: usize,
    /// The time for which a silent producer is never forgotten to make room for others.
    pub retry_horizon: Duration,
    /// Memory for the producers of all partitions of one journal.
    pub bytes_per_journal: usize,
}

/// Keys under `groups`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupSettings {
    /// The shortest and the longest session timeout that a member of a classic group may choose.
    pub session_timeout_min: Duration,
    /// See `session_timeout_min`.
    pub session_timeout_max: Duration,
    /// The time that an empty classic group waits for more members before its first generation.
    pub initial_rebalance_delay: Duration,
    /// The most members of a group.
    pub members_max: usize,
    /// The time for which the offsets of a group without members are kept.
    pub offsets_retention: Duration,
    /// The time between two looks at which offsets these are.
    pub offsets_check_interval: Duration,
    /// The pause between two looks at how far groups are behind.
    pub lag_check_interval: Duration,
    /// The longest silence of a member that speaks the consumer protocol.
    pub consumer_session_timeout: Duration,
    /// The time between two heartbeats of a member that speaks the consumer protocol.
    pub consumer_heartbeat_interval: Duration,
}

/// Keys under `metrics`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetricsSettings {
    /// The most topics that each core counts one by one.
    pub topics_max: usize,
}

/// Keys under `shutdown`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShutdownSettings {
    /// The longest time that requests under way may take when the node stops.
    pub deadline: Duration,
}

/// Keys under `log`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogSettings {
    /// The form of a line.
    pub format: LogFormat,
    /// The least level that is worth a line.
    pub level: LogLevel,
}

/// Where a value comes from; what stands lower here wins over what stands higher.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// Nobody set it.
    Default,
    /// The configuration file of this name.
    File(String),
    /// The environment variable of this name.
    Variable(&'static str),
    /// A `--set` on the command line.
    Set,
    /// A flag of its own on the command line.
    Flag(&'static str),
    /// The program that embeds the node.
    Program,
}

impl fmt::Display for Source {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Default => out.write_str("default"),
            Source::File(name) => out.write_str(name),
            Source::Variable(name) => out.write_str(name),
            Source::Set => out.write_str("--set"),
            Source::Flag(flag) => out.write_str(flag),
            Source::Program => out.write_str("the program"),
        }
    }
}

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

impl Default for Config {
    fn default() -> Config {
        Config {
            data: PathBuf::from("./ropewalk-data"),
            cores: 0,
            pin_threads: true,
            idle_poll: Duration::from_micros(50),
            node: NodeSettings {
                id: NODE_ID,
                rack: None,
            },
            cluster: ClusterSettings {
                join: Vec::new(),
                default_replicas: 3,
            },
            peer: PeerSettings {
                listen: None,
                advertised: None,
                catch_up_rate: 64 * MIB as u64,
            },
            kafka: KafkaSettings {
                listen: "127.0.0.1:9092".to_owned(),
                advertised: None,
            },
            http: HttpSettings {
                listen: "127.0.0.1:8092".to_owned(),
                advertised: None,
                request_log: false,
            },
            journal: JournalSettings {
                file_bytes: 64 * MIB as u64,
                bytes_max: 512 * MIB as u64,
                flush_on_core: true,
                layout_trigger: 32 * MIB as u64,
            },
            cache: CacheSettings {
                tail_bytes: 128 * MIB,
                chunk_bytes: 64 * MIB,
            },
            disk: DiskSettings {
                reserve_bytes: 256 * MIB as u64,
            },
            limits: LimitSettings::default(),
            topics: TopicDefaults {
                auto_create: true,
                default_partitions: 1,
                defaults: TopicConfig::new(),
            },
            retention: RetentionSettings {
                check_interval: Duration::from_secs(5 * 60),
                clock_jump_wait: Duration::from_secs(60 * 60),
            },
            compaction: CompactionSettings {
                check_interval: Duration::from_secs(15),
                key_map_bytes: 32 * MIB,
                rate: 64 * MIB as u64,
            },
            scrub: ScrubSettings {
                rate: 8 * MIB as u64,
                rest: Duration::from_secs(7 * 24 * 60 * 60),
            },
            producers: ProducerSettings {
                expiration: Duration::from_secs(24 * 60 * 60),
                per_partition_max: 10_000,
                retry_horizon: Duration::from_secs(10 * 60),
                bytes_per_journal: 128 * MIB,
            },
            groups: GroupSettings {
                session_timeout_min: Duration::from_secs(6),
                session_timeout_max: Duration::from_secs(30 * 60),
                initial_rebalance_delay: Duration::from_secs(3),
                members_max: 10_000,
                offsets_retention: Duration::from_secs(7 * 24 * 60 * 60),
                offsets_check_interval: Duration::from_secs(10 * 60),
                lag_check_interval: Duration::from_secs(15),
                consumer_session_timeout: Duration::from_secs(45),
                consumer_heartbeat_interval: Duration::from_secs(5),
            },
            metrics: MetricsSettings { topics_max: 1_000 },
            shutdown: ShutdownSettings {
                deadline: Duration::from_secs(30),
            },
            log: LogSettings {
                format: LogFormat::Text,
                level: LogLevel::Info,
            },
            sources: BTreeMap::new(),
        }
    }
}

impl Default for LimitSettings {
    fn default() -> LimitSettings {
        LimitSettings {
            request_bytes: 100 * MIB,
            connections: 10_000,
            connections_per_address: 5_000,
            connection_idle: Duration::from_secs(10 * 60),
            handshake: Duration::from_secs(30),
            in_flight_bytes_per_connection: 16 * MIB,
            in_flight_bytes_per_core: 128 * MIB,
            answer_bytes_per_core: 256 * MIB,
            in_flight_requests_per_connection: 256,
            fetch_bytes: 16 * MIB,
            fetch_sessions: 1_000,
            fetch_session_bytes_per_core: 64 * MIB,
            partitions: 100_000,
            metadata_bytes_per_core: 64 * MIB,
            decompressed_bytes: 256 * MIB,
        }
    }
}

/// The number of a node that nobody gave another.
const NODE_ID: i32 = 1;
/// Replicas of a partition at most: with five, two nodes may be lost.
const REPLICAS_MAX: i32 = 5;

impl Config {
    /// The node's number, if somebody chose it: else it is the directory's, or given by the cluster.
    pub(crate) fn chosen_node(&self) -> Option<i32> {
        let is_chosen = self.node.id != NODE_ID || self.source("node.id") != Source::Default;
        is_chosen.then_some(self.node.id)
    }

    /// Bounds on what clients can make of the metadata.
    pub(crate) fn plan_limits(&self) -> PlanLimits {
        PlanLimits {
            partitions_max: self.limits.partitions,
            replicas_max: REPLICAS_MAX,
            bytes_max: self.limits.metadata_bytes_per_core,
            ..PlanLimits::default()
        }
    }
}

#[cfg(test)]
mod tests;
