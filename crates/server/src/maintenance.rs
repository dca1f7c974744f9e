//! What a core does now and then: retention, compaction, forgetting silent producers, closing quiet journals.

use std::rc::Rc;
use std::time::Duration;

use protocol::metadata::broker_config::{CLEANER_BACKOFF, CLEANER_BUFFER, CLEANER_RATE};
use record::PartitionId;
use tokio::time::Instant;

use crate::core::Core;
use crate::shard::{CompactionMeans, Shard, Work};

/// How often a core looks whether its journals are quiet.
const LOOK_AT_JOURNALS_EVERY: Duration = Duration::from_secs(1);
/// How often partitions are looked at, at least: what is too large should go soon, however long records stand before they go for
/// their age.
const LOOK_AFTER_EVERY: Duration = Duration::from_secs(10);
/// How soon a change of what is rested for is seen.
const LOOK_AT_CONFIGS_EVERY: Duration = Duration::from_secs(1);

/// Looks after a core's partitions until the node stops. A look is cheap: at numbers in memory.
pub(crate) async fn keep(core: Rc<Core>) {
    let stand = core.facts.config.retention.check_interval;
    loop {
        tokio::time::sleep(stand.min(LOOK_AFTER_EVERY)).await;
        for shard in core.shards() {
            retain(shard, stand).await;
        }
    }
}

/// Closes the journals of a core that are quiet, until the node stops.
pub(crate) async fn close_quiet_journals(core: Rc<Core>) {
    loop {
        tokio::time::sleep(LOOK_AT_JOURNALS_EVERY).await;
        core.shards().for_each(|shard| shard.close_quiet_journal());
    }
}

/// Compacts what needs it until the node stops: one partition of the core at a time, so that the memory for keys is there
/// once for each core.
pub(crate) async fn compact(core: Rc<Core>) {
    loop {
        rest_before_compaction(&core).await;
        loop {
            core.shards().for_each(|shard| shard.lay_out_for_compaction());
            let Some((shard, id)) = neediest(&core) else { break };
            shard.compact(id, &|| means_in_force(&core)).await;
        }
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

/// What a compaction may use from now on.
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
fn neediest(core: &Core) -> Option<(Rc<Shard>, PartitionId)> {
    let needs = core
        .shards()
        .filter_map(|shard| shard.compaction_need().map(|(id, need)| (shard, id, need)));
    let most = needs.max_by(|(.., one), (.., other)| one.compare(other));
    most.map(|(shard, id, _)| (shard.clone(), id))
}

async fn retain(shard: &Rc<Shard>, stand: Duration) {
    for id in shard.expire(stand) {
        match shard.retain(id).await {
            Ok(()) => shard.note_success(Work::Retention),
            Err(refusal) => shard.note_failure(Work::Retention, &format!("{id}: {refusal}")),
        }
    }
}
