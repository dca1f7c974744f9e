//! A small store on a simulated disk, and the jobs around it run in place.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::{BufMut, Bytes};
use platform::disk::{Disk, SimulatedDisk};
use platform::random::Random;
use record::{
    BatchBuilder, BatchHeader, ClusterId, Compression, Epoch, Offset, PartitionId, TopicId, batches,
};

use crate::batch_bytes::{BatchBytes, BatchMemory};
use crate::checksum::{DirectoryId, JournalIdentity};
use crate::fault::Fault;
use crate::journal::{Flush, JournalSizes, StageError};
use crate::partition::SegmentRolling;
use crate::store::{Append, CheckpointJob, Read, ReadError, Recovered, Store, StoreConfig};

pub(crate) const ROLLING: SegmentRolling = SegmentRolling {
    bytes: 8 << 10,
    age_ms: 60_000,
};

/// The rolling of a partition's segments. Those of every fourth one are as large as a journal file, so that they may adopt one.
pub(crate) fn rolling(id: PartitionId) -> SegmentRolling {
    match id.topic.0[0] % 4 {
        3 => SegmentRolling {
            bytes: 64 << 10,
            ..ROLLING
        },
        _ => ROLLING,
    }
}

/// Everything tiny, so that a short run passes through all of it.
pub(crate) fn config() -> StoreConfig {
    StoreConfig {
        identity: JournalIdentity {
            cluster: ClusterId([3; 16]),
            directory: DirectoryId([5; 16]),
            node: 1,
            journal: 0,
        },
        journal: JournalSizes {
            file_bytes: 32 << 10,
            files_max: 3,
        },
        layout_trigger_bytes: 12 << 10,
        tail_cache_bytes: 12 << 10,
        chunk_cache_bytes: 64 << 10,
        superseded_bytes_max: 12 << 10,
    }
}

pub(crate) fn partition(number: u8) -> PartitionId {
    PartitionId {
        topic: TopicId([number; 16]),
        index: i32::from(number),
    }
}

/// A batch of `records` records, each with a value of `value_bytes` bytes drawn from `fill`.
pub(crate) fn batch(records: i64, value_bytes: usize, timestamp_ms: i64, fill: u64) -> Bytes {
    let mut random = platform::random::SeededRandom::new(fill);
    let mut builder = BatchBuilder::new(Compression::None);
    for record in 0..records {
        let mut value = vec![0; value_bytes];
        random.fill(&mut value);
        builder.append(timestamp_ms + record, None, Some(&value), &[]);
    }
    builder.build()
}

/// A batch of records whose keys are few, one in five of them a tombstone.
pub(crate) fn keyed_batch(records: i64, value_bytes: usize, timestamp_ms: i64, fill: u64) -> Bytes {
    let mut random = platform::random::SeededRandom::new(fill);
    let codec = [Compression::None, Compression::Lz4][random.below(2) as usize];
    let mut builder = BatchBuilder::new(codec).with_producer(4, 1, (fill % 1_000) as i32);
    for record in 0..records {
        let mut value = vec![0; value_bytes];
        random.fill(&mut value);
        let key = random.below(12).to_string();
        let value = (!random.chance(1, 5)).then_some(&value[..]);
        builder.append(
            timestamp_ms + record,
            Some(key.as_bytes()),
            value,
            &[(b"h", value.map(|_| &b"x"[..]))],
        );
    }
    builder.build()
}

pub(crate) fn open(disk: &SimulatedDisk) -> Result<(Store, Recovered), Fault> {
    open_as(disk, config())
}

pub(crate) fn open_as(disk: &SimulatedDisk, config: StoreConfig) -> Result<(Store, Recovered), Fault> {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let (mut store, recovered) = Store::open(disk, Random::SYSTEM, config)?;
    for partition in &recovered.partitions {
        store.open_partition(partition.id, rolling(partition.id));
        store.commit_to(partition.id, partition.next);
    }
    Ok((store, recovered))
}

/// Applies a flush's outcome as a node that is its own ack quorum: what is durable is committed.
pub(crate) fn flushed(
    store: &mut Store,
    flush: Flush,
    result: std::io::Result<()>,
) -> Result<Vec<(PartitionId, Offset)>, StageError> {
    let durable = store.flushed(flush, result)?;
    for (id, next) in &durable {
        store.commit_to(*id, *next);
    }
    Ok(durable)
}

/// A copy of the disk as it is when nothing is on its way.
pub(crate) fn copy(disk: &SimulatedDisk) -> SimulatedDisk {
    disk.crash(8)
}

pub(crate) struct Rig {
    pub(crate) disk: SimulatedDisk,
    pub(crate) store: Store,
    pub(crate) now_ms: i64,
    pub(crate) fill: u64,
}

impl Rig {
    pub(crate) fn new() -> Rig {
        Rig::on(SimulatedDisk::new(), config())
    }

    pub(crate) fn on(disk: SimulatedDisk, config: StoreConfig) -> Rig {
        let (store, _) = open_as(&disk, config).expect("nothing is wrong with the disk");
        Rig {
            disk,
            store,
            now_ms: 1_000,
            fill: 0,
        }
    }

    /// Ends the process and starts another one on the same disk.
    pub(crate) fn restart(self) -> (Rig, Recovered) {
        let (store, recovered) =
            open_as(&self.disk, self.store.config).expect("nothing is wrong with the disk");
        (Rig { store, ..self }, recovered)
    }

    /// Appends a batch of one record; gives back what is to be read of it.
    pub(crate) fn append(&mut self, number: u8, value_bytes: usize) -> Bytes {
        self.try_append(number, 1, value_bytes).expect("there is room")
    }

    pub(crate) fn try_append(
        &mut self,
        number: u8,
        records: i64,
        value_bytes: usize,
    ) -> Result<Bytes, StageError> {
        self.fill += 1;
        self.now_ms += 1;
        let bytes = batch(records, value_bytes, self.now_ms, self.fill);
        stage(&mut self.store, partition(number), &bytes)
    }

    /// Flushes one frame; false if there was none.
    pub(crate) fn flush_one(&mut self) -> bool {
        let Some(flush) = self.store.next_flush() else {
            return false;
        };
        let result = flush.run();
        flushed(&mut self.store, flush, result).expect("the disk works");
        true
    }

    pub(crate) fn flush(&mut self) {
        while self.flush_one() {}
    }

    pub(crate) fn prepare(&mut self) {
        while let Some(job) = self.store.next_preparation() {
            let file = job.run();
            self.store.prepared(job, file).expect("the disk works");
        }
    }

    /// All steps of a round, without the checkpoint; the number of steps.
    pub(crate) fn lay_out_only(&mut self) -> usize {
        self.store.begin_layout();
        self.step()
    }

    /// The steps that are left of a round.
    pub(crate) fn step(&mut self) -> usize {
        let mut steps = 0;
        while let Some(job) = self.store.next_layout(self.now_ms) {
            let result = job.run();
            self.store.laid_out(job, result).expect("the disk works");
            steps += 1;
        }
        steps
    }

    pub(crate) fn checkpoint(&mut self) {
        assert!(self.store.checkpoint_is_due());
        let job = begin_checkpoint(&mut self.store);
        self.flush();
        assert!(self.store.checkpoint_may_run(&job));
        let result = job.run();
        self.store.checkpointed(job, result).expect("the disk works");
    }

    /// Rounds until all is laid out, and the files that they freed prepared.
    pub(crate) fn lay_out(&mut self) -> usize {
        let mut steps = 0;
        loop {
            let end = self.store.layout_end();
            let is_partial = self.store.end_of_first_to_read_back(end).is_some();
            steps += self.round();
            if !is_partial {
                return steps;
            }
        }
    }

    /// A whole round, if there is anything to do, and the file that it freed prepared.
    pub(crate) fn round(&mut self) -> usize {
        let steps = self.lay_out_only();
        if self.store.checkpoint_is_due() {
            self.checkpoint();
        }
        self.prepare();
        steps
    }

    /// Removes what may go; the number of removals.
    pub(crate) fn remove(&mut self) -> usize {
        let mut removals = 0;
        while let Some(job) = self.store.next_removal() {
            let result = job.run();
            self.store.removed(job, result).expect("the disk works");
            removals += 1;
        }
        removals
    }

    pub(crate) fn read(&mut self, number: u8) -> Vec<u8> {
        read_all(&mut self.store, partition(number), 4_000).expect("all of it can be read")
    }

    pub(crate) fn bounds(&self, number: u8) -> (i64, i64) {
        let (log_start, next) = self
            .store
            .bounds(partition(number))
            .expect("the partition is known");
        (log_start.0, next.0)
    }

    pub(crate) fn trim(&mut self, number: u8, log_start: i64) -> u64 {
        self.store
            .trim(partition(number), Offset(log_start))
            .expect("there is room")
    }

    pub(crate) fn segments(&self, number: u8) -> Vec<PathBuf> {
        let directory = crate::segment::directory(&partition(number));
        self.disk
            .paths()
            .into_iter()
            .filter(|path| path.starts_with(&directory))
            .collect()
    }
}

/// The batch as the server hands it over: every other large one alone in the memory that it was received in.
pub(crate) fn batch_bytes(bytes: &[u8], first: Offset) -> BatchBytes {
    if bytes.len() < 1_000 || first.0 % 2 == 0 {
        return Bytes::copy_from_slice(bytes).into();
    }
    let mut memory = BatchMemory::for_request(77, 77 + bytes.len());
    memory.rest().put_bytes(1, 77);
    memory.rest().put_slice(bytes);
    let (request, shared) = memory.share();
    let batch = request.slice(77..);
    drop(request);
    shared.reclaim(batch)
}

/// Appends a batch at the partition's end; gives back its bytes as they will be read.
pub(crate) fn stage(store: &mut Store, id: PartitionId, bytes: &[u8]) -> Result<Bytes, StageError> {
    if store.bounds(id).is_none() {
        store.open_partition(id, rolling(id));
    }
    let (_, first) = store.bounds(id).expect("just opened");
    let header = BatchHeader::read(bytes).expect("a whole batch");
    let epoch = Epoch(5);
    store.append(
        id,
        &Append {
            epoch,
            first,
            next: first.advance(i64::from(header.record_count)),
            max_timestamp_ms: header.max_timestamp_ms,
            append_time_ms: None,
            producer_id: None,
            aborts: None,
            reserve: crate::Reserve::Keep,
        },
        &mut batch_bytes(bytes, first),
    )?;
    let mut stored = bytes.to_vec();
    record::set_base_offset(&mut stored, first);
    record::set_leader_epoch(&mut stored, epoch);
    Ok(stored.into())
}

/// Takes a checkpoint whose states say up to where they reach, which includes what is only staged: it is committed by that.
pub(crate) fn begin_checkpoint(store: &mut Store) -> CheckpointJob {
    for log in store.partitions.values_mut() {
        log.committed = log.next;
    }
    let next: BTreeMap<_, _> = store.partitions.iter().map(|(id, log)| (*id, log.next)).collect();
    store.begin_checkpoint(&mut |id| {
        let next = next[&id];
        Some((Bytes::copy_from_slice(&next.to_le_bytes()), Offset(next)))
    })
}

/// Runs a read to its end, whatever jobs it takes, and what is to be read ahead then.
pub(crate) fn read(
    store: &mut Store,
    id: PartitionId,
    from: i64,
    until: i64,
    bytes_max: usize,
) -> Result<Vec<u8>, ReadError> {
    let mut read = store.read(id, Offset(from), Offset(until), bytes_max)?;
    loop {
        match read {
            Read::Ready(parts) | Read::Part(parts) => {
                while let Some(job) = store.next_read_ahead() {
                    store.finish_read_ahead(job.run());
                }
                return Ok(parts.concat());
            }
            Read::Job(job) => read = store.finish_read(job.run()).map_err(plain)?,
            Read::UnderWay => panic!("nothing is being read ahead here"),
        }
    }
}

/// A damage as the fault that it is, for tests that do not mend it.
pub(crate) fn plain(error: ReadError) -> ReadError {
    match error {
        ReadError::Damaged(damage) => ReadError::Fault(damage.into_fault()),
        other => other,
    }
}

/// All batches from the log's start on, `bytes_max` at a time; each whole and following the one before.
pub(crate) fn read_all(store: &mut Store, id: PartitionId, bytes_max: usize) -> Result<Vec<u8>, ReadError> {
    read_log(store, id, bytes_max, false)
}

/// The same; where compaction was there may be `gaps` between batches.
pub(crate) fn read_log(
    store: &mut Store,
    id: PartitionId,
    bytes_max: usize,
    gaps: bool,
) -> Result<Vec<u8>, ReadError> {
    let (log_start, next) = store.bounds(id).ok_or(ReadError::UnknownPartition(id))?;
    let (mut all, mut from) = (Vec::new(), log_start.0);
    while from < next.0 {
        let bytes = read(store, id, from, next.0, bytes_max)?;
        assert!(!bytes.is_empty(), "{id} has a batch with offset {from}");
        for batch in batches(&bytes) {
            let (header, _) = batch.expect("batches are read whole");
            assert!(
                (gaps || header.base_offset.0 <= from) && from < header.next_offset().0,
                "{id} goes on at {from}"
            );
            from = header.next_offset().0;
        }
        all.extend_from_slice(&bytes);
    }
    Ok(all)
}

/// Writes a new file with this content, outside of any store.
pub(crate) fn write_file(disk: &SimulatedDisk, path: &Path, content: &[u8]) {
    disk.replace(path, content)
        .expect("the directory is there and nothing fails");
}
