//! The figures that a node tells about itself. A snapshot is gathered from all cores through their mailboxes and
//! rendered for Prometheus; health and readiness are read from the same snapshot.
//!
//! Off the record's way: nothing here may hold a core up, and a core that does not answer holds nothing up here.

mod gather;
mod render;
mod table;
mod text_format;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use kafka_wire::{ApiKey, ErrorCode};
use platform::counters::HistogramFigures;
use platform::process::ProcessUsage;
use protocol::groups::GROUPS_TOPIC;
use protocol::transactions;
use shard::{AppendRefusal, CompactionFigures, LedFigures};
use storage::StoreStatus;

use crate::groups::{ClosedCoordinator, GroupLag};
use crate::http::HttpFigures;
use crate::peers::PeerFigures;

pub(crate) use gather::{ANSWER_WAIT, Gatherer};
pub(crate) use render::render;
pub(crate) use text_format::TextFormat;

/// The figures of a whole node at about one moment.
#[derive(Debug, Clone)]
pub(crate) struct Snapshot {
    /// Since the node started.
    pub(crate) uptime: Duration,
    /// When the node started, since 1970.
    pub(crate) started_at: Duration,
    pub(crate) disk_reserve_bytes: u64,
    /// `None` where the system does not tell.
    pub(crate) process: Option<ProcessUsage>,
    pub(crate) http: HttpFigures,
    /// One for each core, in order.
    pub(crate) cores: Vec<CoreAnswer>,
}

/// The answer of one core.
#[derive(Debug, Clone)]
pub(crate) struct CoreAnswer {
    pub(crate) index: usize,
    pub(crate) outcome: Result<CoreFigures, Silence>,
}

/// Why a core told nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Silence {
    /// Its thread runs, at best, something that does not end.
    #[error("has not answered within {0:?}")]
    Late(Duration),
    /// Its thread is gone, or about to go.
    #[error("is not running any more")]
    Gone,
}

/// The figures of one core.
#[derive(Debug, Clone)]
pub(crate) struct CoreFigures {
    pub(crate) connections: u64,
    pub(crate) connections_opened: u64,
    pub(crate) connections_refused: u64,
    pub(crate) connections_moved: u64,
    pub(crate) connections_cut_off: u64,
    pub(crate) requests: u64,
    /// Only of those APIs that were asked for.
    pub(crate) requests_by_api: Vec<(ApiKey, u64)>,
    /// Answers that told an error; only of errors that were told.
    pub(crate) errors: Vec<(ApiKey, ErrorCode, u64)>,
    /// Only topics that were used.
    pub(crate) by_topic: Vec<TopicFigures>,
    /// Nothing is deleted for its age: the clock has jumped.
    pub(crate) clock_is_held: bool,
    pub(crate) malformed_requests: u64,
    pub(crate) received_bytes: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) produce_latency: HistogramFigures,
    /// Of fetches that did not wait for records.
    pub(crate) fetch_latency: HistogramFigures,
    /// Held by large requests.
    pub(crate) request_bytes: usize,
    /// Held by answers that are not written yet.
    pub(crate) answer_bytes: usize,
    pub(crate) fetch_sessions: usize,
    /// Turns that took more than 20 ms of processor time.
    pub(crate) long_turns: u64,
    /// The longest of them; zero if there was none.
    pub(crate) longest_turn: Duration,
    /// Consumer groups that the core coordinates.
    pub(crate) groups: usize,
    /// Those that have failed: their groups are not served.
    pub(crate) closed_coordinators: Vec<ClosedCoordinator>,
    /// The lags of groups, as they were found some seconds ago.
    pub(crate) group_lags: Arc<[GroupLag]>,
    /// The transactions that the core coordinates.
    pub(crate) transactions: transactions::Figures,
    /// The time for which the oldest of them that is open has been so; zero if none is.
    pub(crate) oldest_transaction: Duration,
    /// Topics in this core's image of the metadata: the same on every core, but for what is on its way.
    pub(crate) topics: usize,
    /// Partitions of these topics, likewise.
    pub(crate) partitions: usize,
    /// The data directory's free space, on the core that watches it.
    pub(crate) disk_free_bytes: Option<u64>,
    /// The core lets nobody in any more and ends when its connections are answered.
    pub(crate) draining: bool,
    /// The core's connections with other nodes.
    pub(crate) peers: Vec<PeerFigures>,
    /// On the core that watches the other nodes, of a member of a cluster.
    pub(crate) cluster: Option<ClusterFigures>,
    /// The journals that the core owns, in order.
    pub(crate) journals: Vec<JournalFigures>,
}

/// The figures of the cluster as one node sees it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClusterFigures {
    /// The nodes of the metadata, this one among them.
    pub(crate) nodes: usize,
    /// Those that this one has no connection with.
    pub(crate) nodes_away: usize,
    pub(crate) leads_metadata: bool,
    /// Partitions whose leader is away.
    pub(crate) leaderless_partitions: usize,
    /// Partitions whose replicas change.
    pub(crate) moving_partitions: usize,
    /// Replicas that count for nothing until they are filled again.
    pub(crate) doubted_replicas: usize,
    /// Partitions that were ever opened uncleanly.
    pub(crate) unclean_partitions: usize,
}

/// The figures of one topic on one core.
#[derive(Debug, Clone)]
pub(crate) struct TopicFigures {
    pub(crate) topic: Arc<str>,
    pub(crate) appended_records: u64,
    pub(crate) appended_bytes: u64,
    pub(crate) failed_appends: u64,
    pub(crate) read_bytes: u64,
    /// The most in one partition that readers of committed records do not see yet.
    pub(crate) unstable_records: u64,
}

/// The figures of what retention has deleted by one config.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RetentionFigures {
    pub(crate) config: &'static str,
    pub(crate) trims: u64,
    pub(crate) records: u64,
    pub(crate) bytes: u64,
}

/// The figures of one journal and its partitions.
#[derive(Debug, Clone)]
pub(crate) struct JournalFigures {
    pub(crate) index: usize,
    pub(crate) partitions: usize,
    pub(crate) appended_batches: u64,
    pub(crate) batches_in_place: u64,
    pub(crate) appended_records: u64,
    pub(crate) appended_bytes: u64,
    pub(crate) flush_latency: HistogramFigures,
    pub(crate) flushed_bytes: u64,
    pub(crate) read_bytes: u64,
    pub(crate) disk_reads: u64,
    pub(crate) layout_rounds: u64,
    pub(crate) faults: u64,
    pub(crate) compaction: CompactionFigures,
    pub(crate) retention: [RetentionFigures; 2],
    /// Idempotent producers remembered.
    pub(crate) producers: usize,
    pub(crate) stalled_appends: usize,
    pub(crate) store: StoreStatus,
    /// Why appends are refused, if they are.
    pub(crate) refusal: Option<AppendRefusal>,
    /// The disk has less than its reserve left. `refusal` may name another reason then.
    pub(crate) disk_full: bool,
    pub(crate) led: LedFigures,
    pub(crate) epochs_opened: u64,
    pub(crate) epochs_ended: u64,
    pub(crate) shipped_bytes: u64,
    pub(crate) scrubbed_bytes: u64,
    pub(crate) scrub_passes: u64,
    pub(crate) damages: u64,
    pub(crate) lent_reads: u64,
    pub(crate) repairs: u64,
    pub(crate) failed_repairs: u64,
    /// Batches of other leaders that wait for room.
    pub(crate) deferred_bytes: usize,
    /// Questions to coordinators of transactions, and those that they refused.
    pub(crate) verifications: u64,
    pub(crate) refused_verifications: u64,
}

impl Snapshot {
    /// Why the node is not healthy: one sentence for each core that does not answer. Empty if it is.
    pub(crate) fn ailments(&self) -> Vec<String> {
        let silent = self
            .cores
            .iter()
            .filter_map(|core| core.outcome.as_ref().err().map(|why| (core.index, why)));
        silent.map(|(core, why)| format!("core {core} {why}")).collect()
    }

    /// Why the node does not serve in full: what ails it, that it is about to stop, the journals that refuse appends, and
    /// the coordinators that serve no groups. Empty if it does.
    pub(crate) fn hindrances(&self) -> Vec<String> {
        let draining = self.answered().any(|(_, core)| core.draining);
        let draining = draining.then(|| "the node is draining".to_owned());
        let refusals = self.journals().filter_map(|(_, journal)| {
            journal
                .refusal
                .as_ref()
                .map(|refusal| format!("journal {}: {refusal}", journal.index))
        });
        let closed = self
            .answered()
            .flat_map(|(_, core)| &core.closed_coordinators)
            .map(|closed| {
                let ClosedCoordinator {
                    topic,
                    partition,
                    reason,
                } = closed;
                let what = match *topic {
                    GROUPS_TOPIC => "groups",
                    _ => "transactions",
                };
                format!("the {what} of {topic}-{partition} are not served: {reason}")
            });
        self.ailments()
            .into_iter()
            .chain(draining)
            .chain(refusals)
            .chain(closed)
            .collect()
    }

    /// A core that tells how many topics and partitions there are: any that answers.
    pub(crate) fn metadata(&self) -> Option<&CoreFigures> {
        self.answered().next().map(|(_, core)| core)
    }

    /// The data directory's free space, if a core that answers knows it.
    pub(crate) fn disk_free_bytes(&self) -> Option<u64> {
        self.answered().find_map(|(_, core)| core.disk_free_bytes)
    }

    /// The cluster, if the core that watches it answers; `None` too of a node that is alone.
    pub(crate) fn cluster(&self) -> Option<ClusterFigures> {
        self.answered().find_map(|(_, core)| core.cluster)
    }

    /// The cores that answered.
    fn answered(&self) -> impl Iterator<Item = (usize, &CoreFigures)> {
        self.cores
            .iter()
            .filter_map(|core| core.outcome.as_ref().ok().map(|figures| (core.index, figures)))
    }

    /// The journals of the cores that answered, each with its core.
    fn journals(&self) -> impl Iterator<Item = (usize, &JournalFigures)> {
        self.answered()
            .flat_map(|(core, figures)| figures.journals.iter().map(move |journal| (core, journal)))
    }
}
