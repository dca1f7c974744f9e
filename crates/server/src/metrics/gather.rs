//! Asks every core for its figures, at most one question to a core at a time.
//!
//! A core that hangs must not collect a letter for every scrape that waits for it: whoever asks while a question is
//! open waits for the answer to that one.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared, join_all};
use platform::clock::Clock;
use platform::process::process_usage;
use platform::slices::Slices;
use record::TopicId;
use shard::TopicCounters;
use shard::{BY_AGE, BY_SIZE, RetentionCounters, Shard};
use tokio::task::yield_now;
use tokio::time::timeout;

use crate::controller::MetadataLog;
use crate::core::Core;
use crate::http::HttpCounters;
use crate::mailbox::{Mailboxes, Stopping};

use super::{
    ClusterFigures, CoreAnswer, CoreFigures, JournalFigures, RetentionFigures, Silence, Snapshot,
    TopicFigures,
};

/// A core that answers nothing for this long is not well: its longest turn is a matter of milliseconds.
pub(crate) const ANSWER_WAIT: Duration = Duration::from_secs(2);

/// Topics that are read in one turn of a core.
const TOPICS_AT_A_TIME: usize = 1_000;
/// Partitions that are counted before others of the core have their turn.
const PARTITIONS_IN_ONE_TURN: usize = 5_000;
/// The name that stands for all topics without counters of their own. No topic can be called that.
const OTHER_TOPICS: &str = "(others)";

/// A question to a core, perhaps asked by several.
type Question = Shared<BoxFuture<'static, Result<CoreFigures, Stopping>>>;

/// See the module.
pub(crate) struct Gatherer {
    mailboxes: Mailboxes,
    clock: Arc<dyn Clock>,
    http: Arc<HttpCounters>,
    started_at: Duration,
    disk_reserve_bytes: u64,
    answer_wait: Duration,
    /// For each core, what it was asked last.
    questions: Vec<Mutex<Option<Question>>>,
}

impl Gatherer {
    /// Waits for a core's answer for `answer_wait` at most. `clock` says how long the node has run.
    pub(crate) fn new(
        mailboxes: Mailboxes,
        clock: Arc<dyn Clock>,
        http: Arc<HttpCounters>,
        disk_reserve_bytes: u64,
        answer_wait: Duration,
    ) -> Gatherer {
        let questions = (0..mailboxes.cores()).map(|_| Mutex::default()).collect();
        let now = Duration::from_millis(clock.wall_ms().try_into().unwrap_or(0));
        let started_at = now.saturating_sub(clock.monotonic());
        Gatherer {
            mailboxes,
            clock,
            http,
            started_at,
            disk_reserve_bytes,
            answer_wait,
            questions,
        }
    }

    /// The node's figures; returns within the wait whatever the cores do.
    pub(crate) async fn gather(&self) -> Snapshot {
        let cores = join_all((0..self.questions.len()).map(|core| self.ask(core))).await;
        Snapshot {
            uptime: self.clock.monotonic(),
            started_at: self.started_at,
            disk_reserve_bytes: self.disk_reserve_bytes,
            process: process_usage(std::process::id()).ok(),
            http: self.http.figures(),
            cores,
        }
    }

    async fn ask(&self, index: usize) -> CoreAnswer {
        let outcome = match timeout(self.answer_wait, self.question(index)).await {
            Ok(Ok(figures)) => Ok(figures),
            Ok(Err(Stopping)) => Err(Silence::Gone),
            Err(_) => Err(Silence::Late(self.answer_wait)),
        };
        CoreAnswer { index, outcome }
    }

    /// The open question to a core, or a new one. An answer that waits from earlier says nothing about now.
    fn question(&self, index: usize) -> Question {
        let mut last = self.questions[index]
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(open) = last
            .as_ref()
            .filter(|question| (*question).clone().now_or_never().is_none())
        {
            return open.clone();
        }
        let mailboxes = self.mailboxes.clone();
        let question = async move {
            mailboxes
                .call(index, |core| async move { core_figures(&core).await })
                .await
        };
        last.insert(question.boxed().shared()).clone()
    }
}

async fn core_figures(core: &Rc<Core>) -> CoreFigures {
    let unstable = unstable_records(core).await;
    let by_topic = topic_figures(core, unstable).await;
    let counters = &core.counters;
    let mut journals = Vec::new();
    for shard in core.shards() {
        journals.push(journal_figures(shard).await);
    }
    journals.sort_by_key(|journal| journal.index);
    let cluster = cluster_figures(core).await;
    CoreFigures {
        connections: counters.connections.get(),
        connections_opened: counters.connections_opened.get(),
        connections_refused: counters.connections_refused.get(),
        connections_moved: counters.connections_moved.get(),
        connections_cut_off: counters.connections_cut_off.get(),
        requests: counters.requests.get(),
        requests_by_api: counters.requests_by_api.figures(),
        errors: counters.errors.figures(),
        by_topic,
        clock_is_held: core.clock_is_held.get(),
        malformed_requests: counters.malformed_requests.get(),
        received_bytes: counters.received_bytes.get(),
        sent_bytes: counters.sent_bytes.get(),
        produce_latency: counters.produce_latency.figures(),
        fetch_latency: counters.fetch_latency.figures(),
        request_bytes: core.requests.held_bytes(),
        answer_bytes: core.answers.held_bytes(),
        fetch_sessions: core.sessions.borrow().len(),
        long_turns: core.long_turns.count(),
        longest_turn: core.long_turns.longest(),
        groups: core.groups.count(),
        closed_coordinators: {
            let of_groups = core.groups.closed_coordinators().into_iter();
            of_groups.chain(core.transactions.closed_coordinators()).collect()
        },
        group_lags: core.groups.lags(),
        transactions: core.transactions.figures(),
        oldest_transaction: oldest_transaction(core),
        topics: core.with_metadata(|metadata| metadata.topics().len()),
        partitions: core.with_metadata(|metadata| metadata.partition_count()),
        disk_free_bytes: core.disk_free_bytes.get(),
        draining: core.is_draining(),
        peers: core.peers.figures(),
        cluster,
        journals,
    }
}

/// Looks through all partitions, some topics at a time.
async fn cluster_figures(core: &Rc<Core>) -> Option<ClusterFigures> {
    let status = core.metadata_log.as_ref().and_then(MetadataLog::status)?;
    let mut figures = core.with_metadata(|metadata| {
        let away = metadata.nodes().filter(|(node, _)| !core.is_here(*node));
        ClusterFigures {
            nodes: metadata.nodes().count(),
            nodes_away: away.count(),
            leads_metadata: status.is_leader,
            leaderless_partitions: 0,
            moving_partitions: 0,
            doubted_replicas: 0,
            unclean_partitions: 0,
        }
    });
    let mut slices = Slices::of_own(PARTITIONS_IN_ONE_TURN);
    for (_, id) in core.all_topics().await {
        let partitions = core.with_metadata(|metadata| {
            let topic = metadata.topic(id)?;
            for state in metadata.partitions(topic) {
                figures.leaderless_partitions += usize::from(!core.is_here(state.leader));
                figures.moving_partitions += usize::from(state.target.is_some());
                figures.doubted_replicas += state.uncertain.len();
                figures.unclean_partitions += usize::from(!state.unclean.is_empty());
            }
            Some(topic.partition_count())
        });
        slices.did(1 + partitions.unwrap_or(0) as usize).await;
    }
    Some(figures)
}

/// The figures of the topics that are counted, read some at a time: there may be many.
async fn topic_figures(core: &Core, mut unstable: BTreeMap<TopicId, u64>) -> Vec<TopicFigures> {
    // A transaction may be open in a topic that nobody has used since the start.
    for topic in unstable.keys() {
        core.topic_book.counters_of(*topic);
    }
    let counted = core.topic_book.topics();
    let mut figures = Vec::with_capacity(counted.len() + 1);
    for some in counted.chunks(TOPICS_AT_A_TIME) {
        core.with_metadata(|metadata| {
            let known = some.iter().filter_map(|(id, counters)| {
                // It may have been deleted meanwhile.
                let topic = metadata.topic(*id)?;
                let unstable = unstable.remove(id).unwrap_or(0);
                Some(figures_of(topic.name.clone(), counters, unstable))
            });
            figures.extend(known);
        });
        yield_now().await;
    }
    let others = core.topic_book.others();
    let unstable = unstable.into_values().max().unwrap_or(0);
    figures.extend(others.map(|counters| figures_of(OTHER_TOPICS.into(), counters, unstable)));
    figures
}

/// The records that readers of committed records do not see yet, by topic: the most in one partition on the core.
async fn unstable_records(core: &Core) -> BTreeMap<TopicId, u64> {
    let mut by_topic: BTreeMap<TopicId, u64> = BTreeMap::new();
    for shard in core.shards() {
        for (topic, unstable) in shard.unstable_records().await {
            let most = by_topic.entry(topic).or_default();
            *most = (*most).max(unstable);
        }
    }
    by_topic
}

/// The time for which the oldest open transaction has been open; zero if there is none.
fn oldest_transaction(core: &Core) -> Duration {
    let start_ms = core.transactions.figures().oldest_start_ms;
    let open_ms = start_ms.map(|start_ms| core.facts.clock.wall_ms().saturating_sub(start_ms));
    Duration::from_millis(open_ms.map_or(0, |open_ms| open_ms.try_into().unwrap_or(0)))
}

fn figures_of(topic: Arc<str>, counters: &TopicCounters, unstable_records: u64) -> TopicFigures {
    TopicFigures {
        topic,
        appended_records: counters.appended_records.get(),
        appended_bytes: counters.appended_bytes.get(),
        failed_appends: counters.failed_appends.get(),
        read_bytes: counters.read_bytes.get(),
        unstable_records,
    }
}

fn retention_figures(config: &'static str, counters: &RetentionCounters) -> RetentionFigures {
    RetentionFigures {
        config,
        trims: counters.trims.get(),
        records: counters.records.get(),
        bytes: counters.bytes.get(),
    }
}

async fn journal_figures(shard: &Shard) -> JournalFigures {
    let counters = &shard.counters;
    JournalFigures {
        index: shard.index,
        partitions: shard.partition_count(),
        appended_batches: counters.appended_batches.get(),
        batches_in_place: counters.batches_in_place.get(),
        appended_records: counters.appended_records.get(),
        appended_bytes: counters.appended_bytes.get(),
        flush_latency: counters.flush_latency.figures(),
        flushed_bytes: counters.flushed_bytes.get(),
        read_bytes: counters.read_bytes.get(),
        disk_reads: counters.disk_reads.get(),
        layout_rounds: counters.layout_rounds.get(),
        faults: counters.faults.get(),
        compaction: shard.compaction_figures().await,
        retention: [
            retention_figures(BY_AGE, &counters.by_age),
            retention_figures(BY_SIZE, &counters.by_size),
        ],
        producers: shard.producers_remembered(),
        stalled_appends: shard.appends_without_room(),
        store: shard.store_status(),
        refusal: shard.refuses(),
        disk_full: shard.disk_shortage().is_some(),
        led: shard.led_figures().await,
        epochs_opened: counters.epochs_opened.get(),
        epochs_ended: counters.epochs_ended.get(),
        shipped_bytes: counters.shipped_bytes.get(),
        scrubbed_bytes: counters.scrub.bytes.get(),
        scrub_passes: counters.scrub.passes.get(),
        damages: counters.repair.damages.get(),
        lent_reads: counters.repair.lent_reads.get(),
        repairs: counters.repair.repairs.get(),
        failed_repairs: counters.repair.failures.get(),
        deferred_bytes: shard.deferred_bytes(),
        verifications: counters.verifications.get(),
        refused_verifications: counters.refused_verifications.get(),
    }
}
