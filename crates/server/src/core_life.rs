//! The life of one core: it opens its journals, reads its letters, and ends when it is told to.
//!
//! Everything else that a core does begins with a letter, or with a task that one starts. A life is a future that whoever assembled
//! the node polls, on a thread of the core's own or in a simulation; it must not know which.

use std::io;
use std::rc::Rc;
use std::sync::Arc;

use platform::disk::Disk;
use platform::turns::{LongTurns, metered, spawn};
use platform::work::{Lane, Work};
use protocol::ProducerLimits;
use shard::{Shard, ShardSettings, ShardThreads, TopicBook};
use storage::{Fault, JournalIdentity, JournalSizes, NodeIdentity, RecoveredPartition, Store, StoreConfig};
use tokio::sync::{mpsc, oneshot};

use crate::config::Config;
use crate::core::{Core, NodeFacts};
use crate::core_death::DeathNotice;
use crate::groups;
use crate::mailbox::Mailbox;
use crate::maintenance;
use crate::order::{carry_claims, carry_reports};
use crate::peers;
use crate::transactions::{carry_acts, carry_questions};

/// Bytes that one journal's compaction may have on the disk twice before it waits for a checkpoint, which costs a round of
/// layout.
const SUPERSEDED_BYTES_MAX: u64 = 256 << 20;
/// The most bytes that one journal's topics in memory are answered before they are flushed: a crash may cost them, and they
/// take memory if the disk is slower than their producers.
const MEMORY_UNFLUSHED_BYTES_MAX: usize = 16 << 20;

/// A core that is not alive yet.
pub struct CoreLife {
    pub(crate) index: usize,
    pub(crate) facts: NodeFacts,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) work: Arc<dyn Work>,
    pub(crate) long_turns: Arc<LongTurns>,
    pub(crate) identity: NodeIdentity,
    pub(crate) mailbox: Mailbox,
    pub(crate) stop: oneshot::Receiver<()>,
    pub(crate) death_notice: DeathNotice,
    pub(crate) opened: mpsc::UnboundedSender<Result<(), String>>,
}

impl CoreLife {
    /// Lives until the node stops. To be polled within a `LocalSet` of its own: dropping that ends all that the core does, as a
    /// kill would.
    pub async fn live(self) {
        let core = match open_core(&self) {
            Ok(core) => core,
            Err(error) => return self.end_before_birth(error),
        };
        let _ = self.opened.send(Ok(()));
        // The node that waits for its cores must notice when one dies instead of answering.
        drop(self.opened);
        let reading = spawn(core.clone().read_mailbox(self.mailbox));
        spawn(maintenance::keep(core.clone()));
        spawn(maintenance::compact(core.clone()));
        maintenance::scrub(&core);
        spawn(maintenance::close_quiet_journals(core.clone()));
        spawn(groups::watch_lags(core.clone()));
        spawn(carry_acts(core.clone()));
        for shard in core.shards() {
            spawn(carry_questions(core.clone(), shard.clone()));
        }
        spawn(peers::keep_links(core.clone()));
        if core.facts.is_member {
            for shard in core.shards() {
                spawn(carry_reports(core.clone(), shard.clone()));
                spawn(carry_claims(core.clone(), shard.clone()));
            }
        }
        if core.idle_poll.looks() {
            tokio::spawn(metered(core.idle_poll.clone().run()));
        }
        tokio::select! {
            biased;
            // Either way the core ends: told to, or because nobody can tell it any more.
            _ = self.stop => self.death_notice.end_in_order(),
            // A letter has panicked, and with it the reading. A core that nobody reaches is as good as dead.
            _ = reading => {}
            () = core.lost.notified() => {}
        }
    }

    /// Ends without having lived: it could not open what it owns.
    pub(crate) fn end_before_birth(self, error: String) {
        let _ = self.opened.send(Err(error));
        self.death_notice.end_in_order();
    }

    /// The journals that this core owns.
    fn journals(&self) -> impl Iterator<Item = JournalIdentity> {
        let is_owned = |journal: &JournalIdentity| self.facts.core_of(journal.journal as usize) == self.index;
        self.identity.journal_identities().filter(is_owned)
    }
}

/// A fault for the operator. For damage there is more to know before anything is restored.
fn told(fault: &Fault, config: &Config) -> String {
    match fault {
        Fault::Damaged { .. } => format!(
            "{fault}; `ropewalk check {}` tells what else is damaged, docs/operating.md what to do",
            config.data.display()
        ),
        Fault::Disk { .. } | Fault::UnknownVersion { .. } => fault.to_string(),
    }
}

/// Opens the journals that this core owns. Blocks; nothing else runs on the core yet.
fn open_core(life: &CoreLife) -> Result<Rc<Core>, String> {
    let facts = &life.facts;
    let (mut shards, mut recovered) = (Vec::new(), Vec::new());
    let topic_book = TopicBook::of_topics(facts.config.metrics.topics_max);
    for journal in life.journals() {
        let (shard, found) = open_shard(life, &topic_book, journal)?;
        shards.push(shard);
        recovered.extend(found);
    }
    let begin = |purpose: &str| Lane::begin(&*life.work, format!("{purpose}-{}", life.index));
    let codec = begin("codec").map_err(without_thread)?;
    let planner = begin("plan").map_err(without_thread)?;
    Ok(Core::new(
        life.index,
        facts.clone(),
        life.disk.clone(),
        life.long_turns.clone(),
        topic_book,
        (shards, recovered),
        (codec, planner),
    ))
}

fn without_thread(error: io::Error) -> String {
    format!("a thread could not be started: {error}")
}

/// Opens one journal; the partitions that are found in it are not open yet.
fn open_shard(
    life: &CoreLife,
    topic_book: &Rc<TopicBook>,
    journal: JournalIdentity,
) -> Result<(Rc<Shard>, Vec<RecoveredPartition>), String> {
    let facts = &life.facts;
    let index = journal.journal as usize;
    let store_config = store_config(journal, life.identity.journals, &facts.config);
    let opened = Store::open(life.disk.clone(), facts.random.clone(), store_config);
    let (store, found) = opened.map_err(|fault| told(&fault, &facts.config))?;
    if found.frames > 0 || found.cut_bytes > 0 {
        tracing::info!(
            journal = index,
            frames = found.frames,
            bytes = found.journal_bytes,
            cut_bytes = found.cut_bytes,
            "a journal was replayed"
        );
    }
    let threads = ShardThreads::start(&*life.work, index).map_err(without_thread)?;
    let (settings, clock) = (shard_settings(facts), facts.clock.clone());
    let shard = Shard::new(index, settings, clock, topic_book.clone(), store, threads);
    shard.start_examining();
    shard.start_flushing();
    Ok((shard, found.partitions))
}

/// Of one of so many journals: they share the caches' memory.
fn store_config(identity: JournalIdentity, journals: usize, config: &Config) -> StoreConfig {
    StoreConfig {
        identity,
        journal: JournalSizes {
            file_bytes: config.journal.file_bytes,
            files_max: (config.journal.bytes_max / config.journal.file_bytes) as usize,
        },
        layout_trigger_bytes: config.journal.layout_trigger,
        tail_cache_bytes: config.cache.tail_bytes / journals,
        chunk_cache_bytes: config.cache.chunk_bytes / journals,
        superseded_bytes_max: SUPERSEDED_BYTES_MAX,
    }
}

fn shard_settings(facts: &NodeFacts) -> ShardSettings {
    let config = &facts.config;
    ShardSettings {
        node: facts.node,
        producer_limits: ProducerLimits {
            producers_max: config.producers.per_partition_max,
            retry_horizon: config.producers.retry_horizon,
            expiration: config.producers.expiration,
        },
        producer_bytes_max: config.producers.bytes_per_journal,
        flush_on_core: config.journal.flush_on_core,
        memory_unflushed_bytes_max: MEMORY_UNFLUSHED_BYTES_MAX,
        batch_limits: record::Limits::up_to(config.limits.decompressed_bytes as u64),
        disk_reserve_bytes: config.disk.reserve_bytes,
        catch_up_rate: config.peer.catch_up_rate,
        has_scribes: facts.is_member,
    }
}
