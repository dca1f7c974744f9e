//! A power cut at every point of a run, with every legal subset of what was not yet durable: recovery must find what was
//! acknowledged, whole frames of the rest, and go on.

use platform::disk::{OperationKind, SimulatedDisk};
use record::PartitionId;

use super::history::History;
use super::returning::assert_accounted;
use super::rig::{batch, config, open, partition, rolling, stage};
use super::workload::{
    CompactionCounts, Driver, Op, draw, draw_compacting, draw_importing, draw_replicated, draw_returns,
    with_compaction,
};
use crate::store::StoreConfig;

#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) states: usize,
    pub(super) batches: usize,
    pub(super) torn: usize,
    checkpoints: usize,
    reused_files: usize,
    removed_files: usize,
    returned_files: usize,
    carries: usize,
    imports: usize,
    deleted_partitions: usize,
    compacted: CompactionCounts,
}

impl Counts {
    /// Adds the stages that the run itself went through.
    fn add_operations(&mut self, disk: &SimulatedDisk) {
        for operation in disk.operations() {
            let ends = |extension: &str| operation.path.extension().is_some_and(|end| end == extension);
            match operation.kind {
                OperationKind::Rename if ends("replacing") => self.checkpoints += 1,
                OperationKind::WriteDurable if ends("journal") && operation.position == 0 => {
                    self.reused_files += 1
                }
                OperationKind::Remove if ends("segment") => self.removed_files += 1,
                OperationKind::RemoveDirectory => self.deleted_partitions += 1,
                _ => {}
            }
        }
    }

    fn add(&mut self, other: &Counts) {
        self.states += other.states;
        self.batches += other.batches;
        self.torn += other.torn;
        self.checkpoints += other.checkpoints;
        self.reused_files += other.reused_files;
        self.removed_files += other.removed_files;
        self.returned_files += other.returned_files;
        self.carries += other.carries;
        self.imports += other.imports;
        self.deleted_partitions += other.deleted_partitions;
        self.compacted.passes += other.compacted.passes;
        self.compacted.rewritten += other.compacted.rewritten;
        self.compacted.abandoned += other.compacted.abandoned;
        self.compacted.records_removed += other.compacted.records_removed;
        self.compacted.tombstones_removed += other.compacted.tombstones_removed;
    }

    fn assert_all_reached(&self) {
        let reached = [
            self.states,
            self.torn,
            self.checkpoints,
            self.reused_files,
            self.removed_files,
        ];
        let all = reached
            .into_iter()
            .chain([self.deleted_partitions])
            .all(|count| count >= 3);
        assert!(all, "the runs reach what they are for: {self:?}");
    }
}

/// Runs a drawn workload and checks all of its crash states.
pub(super) fn enumerate(seed: u64, steps: usize, limit: usize, sector_tears: bool) -> Result<Counts, String> {
    enumerate_run(config(), &draw(seed, steps), seed, limit, sector_tears)
}

/// The same of a run that compacts.
pub(super) fn enumerate_compacting(seed: u64, steps: usize, limit: usize) -> Result<Counts, String> {
    let ops = draw_compacting(seed, steps);
    enumerate_run(config(), &ops, seed, limit, seed.is_multiple_of(2))
}

/// The same of a run in which logs are cut, lag, and begin elsewhere.
pub(super) fn enumerate_replicated(seed: u64, steps: usize, limit: usize) -> Result<Counts, String> {
    let ops = draw_replicated(seed, steps);
    enumerate_run(returning_config(), &ops, seed, limit, seed.is_multiple_of(2))
}

/// The same of a run in which segments of other nodes come, and logs begin anew.
pub(super) fn enumerate_importing(seed: u64, steps: usize, limit: usize) -> Result<Counts, String> {
    let ops = draw_importing(seed, steps);
    enumerate_run(returning_config(), &ops, seed, limit, seed.is_multiple_of(2))
}

/// The same for a workload in which journal files become segments and journal files again.
pub(super) fn enumerate_returns(seed: u64, steps: usize, limit: usize) -> Result<Counts, String> {
    let ops = draw_returns(seed, steps);
    enumerate_run(returning_config(), &ops, seed, limit, seed.is_multiple_of(2))
}

/// And for one in which compaction, too, takes the place of such files.
pub(super) fn enumerate_compacted_returns(seed: u64, steps: usize, limit: usize) -> Result<Counts, String> {
    let ops = with_compaction(seed, draw_returns(seed, steps));
    enumerate_run(returning_config(), &ops, seed, limit, seed.is_multiple_of(2))
}

/// With three files the journal has hardly ever a use of one more.
fn returning_config() -> StoreConfig {
    let mut config = config();
    config.journal.files_max = 6;
    config
}

fn enumerate_run(
    config: StoreConfig,
    ops: &[Op],
    seed: u64,
    limit: usize,
    sector_tears: bool,
) -> Result<Counts, String> {
    let disk = SimulatedDisk::new();
    disk.set_sector_tears(sector_tears);
    let mut driver = Driver::for_ops(&disk, config, ops).map_err(|fault| fault.to_string())?;
    driver.run(ops);
    let mut counts = Counts {
        compacted: driver.compacted,
        ..Counts::default()
    };
    counts.add_operations(&disk);
    counts.returned_files += driver.returned_files;
    counts.carries += driver.carries;
    counts.imports += driver.imports;
    for (index, crashed) in disk.crash_states(limit, seed).enumerate() {
        let at = crashed.crash_point().expect("a crash state knows its point");
        check_state(
            &driver.history,
            &crashed,
            at.completed,
            index % 8 == 0,
            &mut counts,
        )
        .map_err(|why| format!("seed {seed}, state {index}, {at}: {why}"))?;
    }
    Ok(counts)
}

/// Recovers twice, and appends.
fn check_state(
    history: &History,
    crashed: &SimulatedDisk,
    completed: u64,
    lay_out: bool,
    counts: &mut Counts,
) -> Result<(), String> {
    let (mut store, recovered) = open(crashed).map_err(|fault| fault.to_string())?;
    let acknowledged = history.acknowledged_at(completed);
    let (frames, batches) = history.check(&mut store, &recovered, acknowledged)?;
    history.check_imports(&store, completed)?;
    assert_accounted(&store, crashed);
    if crashed.paths().iter().any(|path| path.starts_with("imports")) {
        return Err("a start has left an import that was not ended".into());
    }
    drop(store);
    counts.states += 1;
    counts.batches += batches;
    counts.torn += usize::from(recovered.cut_bytes > 0);

    let (mut store, recovered) = open(crashed).map_err(|fault| format!("the second time: {fault}"))?;
    if store.journal.pending_frame() != frames {
        return Err(format!(
            "{frames} frames recovered first, then {}",
            store.journal.pending_frame()
        ));
    }
    let ids = recovered
        .partitions
        .first()
        .map(|partition| partition.id)
        .into_iter()
        .chain([partition(200)]);
    let expected = append_more(&mut store, ids, lay_out)?;
    drop(store);
    let (mut store, _) = open(crashed).map_err(|fault| format!("after going on: {fault}"))?;
    for (id, bytes) in expected {
        let next = store.bounds(id).ok_or("a new partition is gone")?.1;
        let found =
            super::rig::read(&mut store, id, next.0 - 1, next.0, 1).map_err(|error| error.to_string())?;
        if found != bytes {
            return Err("what was appended after the crash is not there".into());
        }
    }
    Ok(())
}

/// Appends to a partition that was there and to a new one; gives back the last batch of each.
fn append_more(
    store: &mut crate::store::Store,
    ids: impl Iterator<Item = PartitionId>,
    lay_out: bool,
) -> Result<Vec<(PartitionId, bytes::Bytes)>, String> {
    let mut appended = Vec::new();
    for id in ids {
        store.open_partition(id, rolling(id));
        let bytes = batch(2, 700, 5_000, appended.len() as u64);
        let mut staged = stage(store, id, &bytes);
        // After a start nothing is in memory: a round ends with the first file that is read back, and one that is adopted frees none.
        for _ in 0..8 {
            if staged.is_ok() {
                break;
            }
            make_room(store)?;
            staged = stage(store, id, &bytes);
        }
        appended.push((id, staged.map_err(|error| error.to_string())?));
    }
    flush(store)?;
    if lay_out {
        make_room(store)?;
    }
    Ok(appended)
}

fn flush(store: &mut crate::store::Store) -> Result<(), String> {
    while let Some(flush) = store.next_flush() {
        let result = flush.run();
        super::rig::flushed(store, flush, result).map_err(|error| error.to_string())?;
    }
    Ok(())
}

fn make_room(store: &mut crate::store::Store) -> Result<(), String> {
    flush(store)?;
    store.begin_layout();
    while let Some(job) = store.next_layout(9_000) {
        let result = job.run();
        store.laid_out(job, result).map_err(|error| error.to_string())?;
    }
    let job = super::rig::begin_checkpoint(store);
    let result = job.run();
    store
        .checkpointed(job, result)
        .map_err(|error| error.to_string())?;
    while let Some(job) = store.next_preparation() {
        let file = job.run();
        store.prepared(job, file).map_err(|error| error.to_string())?;
    }
    Ok(())
}

#[test]
fn every_crash_state_recovers() {
    let mut total = Counts::default();
    for seed in 1..=6 {
        total.add(&enumerate(seed, 120, 10, seed % 2 == 0).unwrap_or_else(|why| panic!("{why}")));
    }
    eprintln!("crash states: {total:?}");
    total.assert_all_reached();
}

#[test]
fn every_crash_state_of_a_compacting_run_recovers() {
    let mut total = Counts::default();
    for seed in 1..=6 {
        total.add(&enumerate_compacting(seed, 110, 6).unwrap_or_else(|why| panic!("{why}")));
    }
    eprintln!("crash states: {total:?}");
    total.assert_all_reached();
    let CompactionCounts {
        passes,
        rewritten,
        records_removed,
        tombstones_removed,
        ..
    } = total.compacted;
    assert!(
        passes >= 10 && rewritten >= 10 && records_removed >= 30 && tombstones_removed >= 5,
        "the runs reach what they are for: {total:?}"
    );
}

#[test]
fn every_crash_state_of_a_replica_recovers() {
    let mut total = Counts::default();
    for seed in 1..=9 {
        total.add(&enumerate_replicated(seed, 130, 8).unwrap_or_else(|why| panic!("{why}")));
    }
    eprintln!("crash states: {total:?}");
    let reached = [total.torn, total.checkpoints, total.reused_files, total.carries];
    assert!(
        reached.into_iter().all(|count| count >= 20),
        "the runs reach what they are for: {total:?}"
    );
}

#[test]
fn every_crash_state_of_an_importing_replica_recovers() {
    let mut total = Counts::default();
    for seed in 1..=5 {
        total.add(&enumerate_importing(seed, 90, 8).unwrap_or_else(|why| panic!("{why}")));
    }
    eprintln!("crash states: {total:?}");
    assert!(
        total.imports >= 20 && total.checkpoints >= 20 && total.removed_files >= 20,
        "the runs reach what they are for: {total:?}"
    );
}

#[test]
#[ignore = "takes minutes; for changes to recovery"]
fn every_crash_state_of_many_replicas_recovers() {
    let mut total = Counts::default();
    for seed in 100..200 {
        total.add(&enumerate_importing(seed, 120, 16).unwrap_or_else(|why| panic!("{why}")));
        total.add(&enumerate_replicated(seed, 150, 24).unwrap_or_else(|why| panic!("{why}")));
    }
    eprintln!("crash states: {total:?}");
}

#[test]
#[ignore = "takes minutes; for changes to recovery"]
fn every_crash_state_of_many_compacting_runs_recovers() {
    let mut total = Counts::default();
    for seed in 100..160 {
        total.add(&enumerate_compacting(seed, 140, 24).unwrap_or_else(|why| panic!("{why}")));
        total.add(&enumerate_compacted_returns(seed, 140, 24).unwrap_or_else(|why| panic!("{why}")));
    }
    eprintln!("crash states: {total:?}");
}

#[test]
fn every_crash_state_of_files_on_their_way_back_recovers() {
    let mut total = Counts::default();
    for seed in 1..=5 {
        total.add(&enumerate_returns(seed, 140, 6).unwrap_or_else(|why| panic!("{why}")));
    }
    eprintln!("crash states: {total:?}");
    assert!(total.returned_files >= 10, "{total:?}");
}

#[test]
fn every_crash_state_of_compacted_files_on_their_way_back_recovers() {
    let mut total = Counts::default();
    for seed in 1..=4 {
        total.add(&enumerate_compacted_returns(seed, 140, 4).unwrap_or_else(|why| panic!("{why}")));
    }
    eprintln!("crash states: {total:?}");
    assert!(
        total.returned_files >= 5 && total.compacted.rewritten >= 5 && total.compacted.abandoned >= 1,
        "{total:?}"
    );
}

#[test]
#[ignore = "takes minutes; for changes to recovery"]
fn every_crash_state_of_many_runs_recovers() {
    let mut total = Counts::default();
    for seed in 100..160 {
        total.add(&enumerate(seed, 150, 24, seed % 2 == 0).unwrap_or_else(|why| panic!("{why}")));
        total.add(&enumerate_returns(seed, 150, 24).unwrap_or_else(|why| panic!("{why}")));
    }
    eprintln!("crash states: {total:?}");
}
