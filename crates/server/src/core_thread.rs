//! The thread of one core: opens its journals, reads its letters, and ends when it is told to.
//!
//! Everything else that a core does begins with a letter, or with a task that one starts.

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc;

use platform::disk::Disk;
use platform::threads;
use protocol::ProducerLimits;
use storage::{Fault, JournalIdentity, JournalSizes, NodeIdentity, RecoveredPartition, Store, StoreConfig};
use tokio::task::LocalSet;

use crate::config::Config;
use crate::core::{Core, NodeFacts};
use crate::core_death::DeathNotice;
use crate::groups;
use crate::lane::Lane;
use crate::mailbox::Mailbox;
use crate::maintenance;
use crate::shard::{Shard, ShardSettings, ShardThreads};
use crate::topic_counters::TopicBook;
use crate::turns::{LongTurns, meter_this_thread, metered, spawn};

/// Threads that run a core's other blocking storage jobs, at most: reads and compaction. Shards have threads of their own besides.
const STORAGE_THREADS_MAX: usize = 4;
/// What one journal's compaction may have on the disk twice before it waits for a checkpoint, which costs a round of layout.
const SUPERSEDED_BYTES_MAX: u64 = 256 << 20;
/// What one journal's topics in memory are answered before it is flushed, at most: so much a crash may cost, and a disk slower
/// than its producers take of memory.
const MEMORY_UNFLUSHED_BYTES_MAX: usize = 16 << 20;

/// What the thread of a core is given.
pub(crate) struct CorePlan {
    pub(crate) index: usize,
    pub(crate) cpu: Option<usize>,
    pub(crate) facts: NodeFacts,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) long_turns: Arc<LongTurns>,
    pub(crate) identity: NodeIdentity,
    pub(crate) mailbox: Mailbox,
    pub(crate) stop: tokio::sync::oneshot::Receiver<()>,
    pub(crate) death_notice: DeathNotice,
    pub(crate) opened: mpsc::Sender<Result<(), String>>,
}

impl CorePlan {
    /// The journals that this core owns.
    fn journals(&self) -> impl Iterator<Item = JournalIdentity> {
        let is_owned = |journal: &JournalIdentity| self.facts.core_of(journal.journal as usize) == self.index;
        self.identity.journal_identities().filter(is_owned)
    }
}

/// The thread of one core.
pub(crate) fn run_core(plan: CorePlan) {
    if let Some(cpu) = plan.cpu
        && let Err(error) = threads::pin_to_cpu(cpu)
    {
        tracing::warn!(core = plan.index, cpu, %error, "the core's thread could not be pinned");
    }
    meter_this_thread(plan.index, plan.facts.clock.clone(), plan.long_turns.clone());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(STORAGE_THREADS_MAX)
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            let _ = plan
                .opened
                .send(Err(format!("core {} could not start: {error}", plan.index)));
            return plan.death_notice.end_in_order();
        }
    };
    LocalSet::new().block_on(&runtime, async move {
        match open_core(&plan) {
            Ok(core) => {
                let _ = plan.opened.send(Ok(()));
                // Whoever waits for the cores must notice when one dies instead of answering.
                drop(plan.opened);
                let reading = spawn(core.clone().read_mailbox(plan.mailbox));
                spawn(maintenance::keep(core.clone()));
                spawn(maintenance::compact(core.clone()));
                spawn(maintenance::close_quiet_journals(core.clone()));
                spawn(groups::watch_lags(core.clone()));
                tokio::spawn(metered(core.idle_poll.clone().run()));
                tokio::select! {
                    // Either way the core ends: told to, or because nobody can tell it any more.
                    _ = plan.stop => plan.death_notice.end_in_order(),
                    // A letter has panicked, and with it the reading. A core that nobody reaches is as good as dead.
                    _ = reading => {}
                }
            }
            Err(error) => {
                let _ = plan.opened.send(Err(error));
                plan.death_notice.end_in_order();
            }
        }
    });
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
fn open_core(plan: &CorePlan) -> Result<Rc<Core>, String> {
    let facts = &plan.facts;
    let (mut shards, mut recovered) = (Vec::new(), Vec::new());
    let topic_book = TopicBook::of_topics(facts.config.metrics.topics_max);
    for journal in plan.journals() {
        let (shard, found) = open_shard(plan, &topic_book, journal)?;
        shards.push(shard);
        recovered.extend(found);
    }
    let start = |purpose: &str| Lane::start(format!("{purpose}-{}", plan.index)).map_err(without_thread);
    let (codec, planner) = (start("codec")?, start("plan")?);
    Ok(Core::new(
        plan.index,
        facts.clone(),
        plan.disk.clone(),
        plan.long_turns.clone(),
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
    plan: &CorePlan,
    topic_book: &Rc<TopicBook>,
    journal: JournalIdentity,
) -> Result<(Rc<Shard>, Vec<RecoveredPartition>), String> {
    let facts = &plan.facts;
    let index = journal.journal as usize;
    let store_config = store_config(journal, plan.identity.journals, &facts.config);
    let opened = Store::open(plan.disk.clone(), store_config);
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
    let threads = ShardThreads::start(index).map_err(without_thread)?;
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
    }
}
