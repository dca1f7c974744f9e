//! The work that a core does now and then: retention, compaction, scrubbing, forgetting silent producers, closing quiet journals.

use std::rc::Rc;
use std::time::Duration;

use platform::turns;
use protocol::groups::GROUPS_TOPIC;
use protocol::metadata::Metadata;
use protocol::metadata::broker_config::{CLEANER_BACKOFF, CLEANER_BUFFER, CLEANER_RATE};
use record::PartitionId;
use shard::{Chore, CompactionMeans, Outlived, ReplicatedCompaction, Shard, Trimmed};
use storage::write_last_ran;
use tokio::time::Instant;

use crate::clock_guard::{ClockGuard, Judgement};
use crate::config::ScrubSettings;
use crate::core::Core;

/// The time between two looks at whether a core's journals are quiet, and whether the log owes a sum of changes.
const LOOK_AT_JOURNALS_EVERY: Duration = Duration::from_secs(1);
/// The longest time between two looks at partitions. Those that are too large should shrink soon, however long records stand
/// before they go for their age.
const LOOK_AFTER_EVERY: Duration = Duration::from_secs(10);
/// The most partitions that have a line each when retention deletes.
const RETENTION_LINES_MAX: usize = 5;
/// The longest time until a change of the pause between compactions is seen.
const LOOK_AT_CONFIGS_EVERY: Duration = Duration::from_secs(1);

/// Looks after a core's partitions until the node stops. A look is cheap: at numbers in memory.
pub(crate) async fn keep(core: Rc<Core>) {
    let settings = &core.facts.config.retention;
    let stand = settings.check_interval;
    let clock = &core.facts.clock;
    let mut guard = ClockGuard::new(
        clock.monotonic(),
        clock.wall_ms(),
        core.facts.last_ran_ms,
        settings.clock_jump_wait,
    );
    loop {
        tokio::time::sleep(stand.min(LOOK_AFTER_EVERY)).await;
        let wall_ms = clock.wall_ms();
        let judgement = guard.look(clock.monotonic(), wall_ms);
        tell_of_clock(&core, judgement);
        let is_trusted = matches!(judgement, Judgement::Trusted | Judgement::TrustedAgain);
        core.clock_is_held.set(!is_trusted);
        // All cores have the same clock: one stores it for all.
        if core.index == 0 && guard.is_to_be_stored(clock.monotonic()) {
            store_clock(&core, wall_ms).await;
        }
        for shard in core.shards() {
            retain(&core, shard, stand, is_trusted.then_some(wall_ms)).await;
        }
    }
}

/// Stores the time for the next start to compare its clock with.
async fn store_clock(core: &Core, wall_ms: i64) {
    let disk = core.disk.clone();
    let stored = core.facts.pool.run(move || write_last_ran(&*disk, wall_ms)).await;
    if let Err(error) = stored {
        tracing::warn!(%error, "the time of the clock could not be stored; the next start may delete nothing for its age at first");
    }
}

fn tell_of_clock(core: &Core, judgement: Judgement) {
    match judgement {
        Judgement::Jumped { ahead_ms } => tracing::warn!(
            core = core.index,
            ahead_seconds = ahead_ms / 1_000,
            wait = ?core.facts.config.retention.clock_jump_wait,
            "the clock is far ahead of where it was: nothing is deleted for its age until it has gone on for \
             retention.clock_jump_wait; set the clock right, or restart with a shorter wait if it is"
        ),
        Judgement::TrustedAgain => tracing::info!(
            core = core.index,
            "the clock has gone on: records are deleted for their age again"
        ),
        Judgement::Trusted | Judgement::Held => {}
    }
}

/// Closes the journals of a core that are quiet, until the node stops.
pub(crate) async fn close_quiet_journals(core: Rc<Core>) {
    loop {
        tokio::time::sleep(LOOK_AT_JOURNALS_EVERY).await;
        core.shards().for_each(|shard| shard.close_quiet_journal());
        core.facts
            .change_log
            .tell_sum_in_time(core.facts.clock.monotonic());
    }
}

/// Compacts what needs it until the node stops: one partition of the core at a time, so that the memory for keys is there
/// once for each core.
pub(crate) async fn compact(core: Rc<Core>) {
    loop {
        rest_before_compaction(&core).await;
        loop {
            let which = core.with_metadata(replicated_compaction);
            for shard in core.shards() {
                shard.compact_replicated(which);
                shard.lay_out_for_compaction().await;
            }
            let Some((shard, id)) = neediest(&core).await else {
                break;
            };
            shard.compact(id, &|| means_in_force(&core)).await;
        }
    }
}

/// The groups' logs are written anew by their coordinators.
fn replicated_compaction(metadata: &Metadata) -> ReplicatedCompaction {
    let groups = || metadata.topic_named(GROUPS_TOPIC).map(|topic| topic.id);
    match metadata.replicates_compacted() {
        true => ReplicatedCompaction::AllBut(groups()),
        false => ReplicatedCompaction::Nothing,
    }
}

/// Has each shard of a core search its segments for damage, again and again, until the node stops.
pub(crate) fn scrub(core: &Rc<Core>) {
    let ScrubSettings { rate, rest } = core.facts.config.scrub;
    if rate == 0 {
        return;
    }
    for shard in core.shards() {
        let shard = shard.clone();
        turns::spawn(async move {
            loop {
                shard.scrub(rate).await;
                tokio::time::sleep(rest).await;
            }
        });
    }
}

/// Rests for as long as is in force, also if that changes meanwhile.
async fn rest_before_compaction(core: &Core) {
    let began = Instant::now();
    loop {
        let started_ms = core.facts.config.compaction.check_interval.as_millis() as u64;
        let interval = Duration::from_millis(core.number_in_force(CLEANER_BACKOFF, started_ms));
        let left = interval.saturating_sub(began.elapsed());
        if left.is_zero() {
            return;
        }
        tokio::time::sleep(left.min(LOOK_AT_CONFIGS_EVERY)).await;
    }
}

/// The means that a compaction may use from now on.
fn means_in_force(core: &Core) -> CompactionMeans {
    let settings = &core.facts.config.compaction;
    let key_map_bytes = core.number_in_force(CLEANER_BUFFER, settings.key_map_bytes as u64);
    CompactionMeans {
        key_map_bytes: usize::try_from(key_map_bytes).unwrap_or(usize::MAX),
        bytes_per_second: core.number_in_force(CLEANER_RATE, settings.rate),
        disk_reserve_bytes: core.facts.config.disk.reserve_bytes,
    }
}

/// The partition that needs compaction most, with its shard.
async fn neediest(core: &Core) -> Option<(Rc<Shard>, PartitionId)> {
    let mut needs = Vec::new();
    for shard in core.shards() {
        needs.extend(shard.compaction_need().await.map(|(id, need)| (shard, id, need)));
    }
    let most = needs
        .into_iter()
        .max_by(|(.., one), (.., other)| one.compare(other));
    most.map(|(shard, id, _)| (shard.clone(), id))
}

/// Carries retention out, and tells what has gone: of some partitions in a line each, of all together in one.
async fn retain(core: &Core, shard: &Rc<Shard>, stand: Duration, wall_ms: Option<i64>) {
    let (mut partitions, mut bytes) = (0_usize, 0);
    for id in shard.expire(stand, wall_ms).await {
        match shard.retain(id, wall_ms).await {
            Ok(None) => {}
            Ok(Some(outlived)) => {
                shard.note_success(Chore::Retention);
                partitions += 1;
                bytes += outlived.trimmed.bytes;
                if partitions <= RETENTION_LINES_MAX {
                    tell_of_retention(core, id, &outlived);
                }
            }
            Err(refusal) => shard.note_failure(Chore::Retention, &format!("{id}: {refusal}")),
        }
    }
    if partitions > RETENTION_LINES_MAX {
        tracing::info!(
            shard = shard.index,
            partitions,
            bytes,
            "all that retention has deleted now"
        );
    }
}

fn tell_of_retention(core: &Core, id: PartitionId, outlived: &Outlived) {
    let name = core.with_metadata(|metadata| metadata.topic(id.topic).map(|topic| topic.name.clone()));
    let Trimmed { first, next, bytes } = outlived.trimmed;
    tracing::info!(
        partition = format!("{}-{}", name.as_deref().unwrap_or("a deleted topic"), id.index),
        first = first.0,
        last = next.0 - 1,
        bytes,
        config = outlived.config,
        "records have gone by retention"
    );
}
