//! The deeds of a replica beside appends: its tail lags, it cuts a suffix off, accepts and promises epochs, copies what others wrote.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use record::{BatchBuilder, Compression, Epoch, Offset, PartitionId};

use super::{Driver, Event, History, partition};
use crate::checksum::DirectoryId;
use crate::partition::PartitionLog;
use crate::store::CheckpointJob;
use crate::store::tests::importing::{donate, receive};
use crate::store::tests::rig::rolling;
use crate::witness::Witness;

#[derive(Debug, Clone, Copy)]
pub(in super::super) enum Replicate {
    /// Stops committing what becomes durable of the partition, or goes on.
    Hold,
    Cut,
    Accept,
    Promise,
    /// Appends a batch as another node wrote it, now and then behind a gap, or one that ends a transaction.
    Copy,
    /// Has an empty log begin elsewhere.
    Begin,
    /// Gives a log up for one that begins higher up.
    BeginAnew,
    /// Takes over a segment of another node, or begins to.
    Import,
    Witness,
}

#[derive(Default)]
pub(super) struct Replicating {
    /// These have no quorum.
    held: BTreeSet<PartitionId>,
    /// Promised and accepted.
    vows: BTreeMap<PartitionId, (i32, i32)>,
    epoch: i32,
}

impl Replicating {
    /// Forgets promises and accepts of frames that are lost: they were never told to anybody.
    pub(super) fn start_again(&mut self, history: &History) {
        let state = history.state_after(u64::MAX);
        let vows = state.iter().map(|(id, log)| (*id, (log.promised, log.accepted)));
        self.vows = vows.collect();
        self.held.clear();
    }
}

impl Driver {
    pub(super) fn commit(&mut self, durable: Vec<(PartitionId, Offset)>) {
        for (id, next) in durable {
            if !self.replicating.held.contains(&id) {
                self.store.commit_to(id, next);
            }
        }
    }

    fn release(&mut self, id: PartitionId) {
        self.replicating.held.remove(&id);
        if let Some((_, next)) = self.store.bounds(id) {
            self.store.commit_to(id, next);
        }
    }

    pub(in super::super) fn release_all(&mut self) {
        let held = self.replicating.held.clone();
        held.into_iter().for_each(|id| self.release(id));
    }

    /// Takes a checkpoint whose states reflect what is staged, which is committed by that; of those without a quorum what was committed
    /// before.
    pub(super) fn begin_checkpoint(&mut self) -> CheckpointJob {
        let Replicating { held, vows, .. } = &self.replicating;
        for log in self.store.partitions.values_mut() {
            if !held.contains(&log.id) {
                log.committed = log.next;
            }
        }
        let logs = self.store.partitions.values();
        let committed: BTreeMap<_, _> = logs.map(|log| (log.id, log.committed)).collect();
        self.store.begin_checkpoint(&mut |id| {
            let next = committed[&id];
            let (promised, accepted) = vows.get(&id).copied().unwrap_or((-1, -1));
            let state = [
                &next.to_le_bytes()[..],
                &promised.to_le_bytes(),
                &accepted.to_le_bytes(),
            ];
            Some((Bytes::from(state.concat()), Offset(next)))
        })
    }

    pub(super) fn replicate(&mut self, number: u8, what: Replicate, eighths: i64) {
        let id = self.id(number);
        self.store.open_partition(id, rolling(id));
        self.replicating.epoch += 1;
        let epoch = self.replicating.epoch;
        let is_closed = self.store.awaits_checkpoint(id);
        match what {
            Replicate::Cut | Replicate::Accept | Replicate::Copy | Replicate::BeginAnew if is_closed => {}
            Replicate::Import => self.import(id, eighths),
            Replicate::Hold if self.replicating.held.contains(&id) => self.release(id),
            Replicate::Hold => {
                self.replicating.held.insert(id);
            }
            Replicate::Cut => self.cut(id, eighths, -1),
            Replicate::Accept => self.cut(id, eighths, epoch),
            Replicate::Promise => {
                let staged = self.with_room(|store| store.promise(id, Epoch(epoch), 3));
                if staged.is_some() {
                    self.replicating.vows.entry(id).or_insert((-1, -1)).0 = epoch;
                    self.note(Event::Promise { partition: id, epoch });
                }
            }
            Replicate::Copy => self.copy(id, eighths),
            Replicate::Begin => {
                let log = &self.store.partitions[&id];
                let is_empty = log.next == 0 && log.cuts_before == 0;
                if is_empty {
                    self.begin_at(id, |_| 500 + eighths);
                }
            }
            // Now and then where the log ends, or before what is not committed.
            Replicate::BeginAnew => self.begin_at(id, |log| match eighths {
                0 => log.committed.max(1),
                1 => log.next.max(1),
                _ => log.next + 100 * eighths,
            }),
            Replicate::Witness => {
                let witness = Witness {
                    node: 3,
                    directory: DirectoryId([3; 16]),
                    journal: eighths as u32 / 3,
                    frame: epoch as u64,
                };
                if self.with_room(|store| store.witness(&witness)).is_some() {
                    self.note(Event::Witness(witness));
                }
            }
        }
    }

    /// Cuts the partition off where a batch ends that is not committed, or where those end that are.
    fn cut(&mut self, id: PartitionId, eighths: i64, epoch: i32) {
        let log = &self.store.partitions[&id];
        let ends = log.tail.iter().map(|batch| batch.next);
        let ends = std::iter::once(log.laid_out).chain(ends).chain([log.next]);
        let ends: Vec<i64> = ends.filter(|end| *end >= log.committed).collect();
        let first = ends[(ends.len() - 1) * (eighths as usize).min(7) / 7];
        let staged = self.with_room(|store| {
            // Room may have been made by committing it.
            let log = &store.partitions[&id];
            let first = Offset(if first < log.committed { log.next } else { first });
            let frame = match epoch {
                -1 => store.cut(id, first),
                _ => store.accept(id, Epoch(epoch), first, Some(Epoch(epoch - 1))),
            };
            frame.map(|_| first.0)
        });
        if let Some(first) = staged {
            if epoch >= 0 {
                self.replicating.vows.entry(id).or_insert((-1, -1)).1 = epoch;
            }
            self.note(Event::Cut {
                partition: id,
                first,
                accepted: epoch,
            });
        }
    }

    fn begin_at(&mut self, id: PartitionId, first: impl Fn(&PartitionLog) -> i64) {
        let begun = self.with_room(|store| {
            let first = first(&store.partitions[&id]);
            store.begin_at(id, Offset(first)).map(|_| first)
        });
        if let Some(first) = begun {
            self.note(Event::Base { partition: id, first });
        }
    }

    /// Takes over a segment of another node; now and then the other node goes away before its end.
    fn import(&mut self, id: PartitionId, eighths: i64) {
        self.fill += 1;
        let begin = |driver: &mut Driver| {
            let next = driver.store.bounds(id).expect("it was opened").1.0;
            let first = if next == 0 { 300 * (eighths % 2) } else { next };
            let donation = donate(id, first, driver.fill);
            let begun = driver.store.begin_import(id, &donation.offer, Some(Epoch(4)));
            begun.map(|import| (import, donation))
        };
        let begun = begin(self).or_else(|_| {
            self.release_all();
            self.store.begin_overdue_layout();
            self.settle();
            begin(self)
        });
        let Ok((mut import, donation)) = begun else {
            return;
        };
        if eighths == 7 {
            return match import.write(&donation.file[..4096]) {
                Ok(()) => import.abandon(),
                Err(error) => panic!("{error}"),
            };
        }
        let file = receive(import, &donation.file).expect("it is sound, and the disk works");
        self.store.imported(file).expect("it is known");
        self.imports += 1;
        self.note(Event::Import {
            partition: id,
            first: donation.offer.first.0,
            next: donation.offer.next.0,
            batches: donation.batches,
            staged_before: self.store.staged_before(),
        });
    }

    fn copy(&mut self, id: PartitionId, eighths: i64) {
        self.fill += 1;
        let gap = if eighths > 5 { eighths } else { 0 };
        let mut builder = BatchBuilder::new(Compression::None).with_producer(4, 0, 0);
        for record in 0..=eighths % 3 {
            let value = format!("value {} {}", self.fill, "=".repeat(300));
            builder.append(self.now_ms + record, None, Some(value.as_bytes()), &[]);
        }
        let mut staged = builder.build().to_vec();
        let appended = self.with_room(|store| {
            let first = store.bounds(id).expect("it was opened").1.advance(gap);
            record::set_base_offset(&mut staged, first);
            record::set_leader_epoch(&mut staged, Epoch(5));
            let aborts = (eighths == 2).then_some(Offset(first.0 / 2));
            let bytes = Bytes::copy_from_slice(&staged);
            store.append_copy(id, &mut bytes.into(), aborts, crate::Reserve::Keep)
        });
        if appended.is_some() {
            let next = self.store.bounds(id).expect("appended to").1.0;
            self.note(Event::Batch {
                partition: id,
                next,
                bytes: staged.into(),
            });
        }
    }
}

#[test]
fn a_cut_is_made_where_a_batch_ends() {
    let disk = platform::disk::SimulatedDisk::new();
    let mut driver = Driver::new(&disk).expect("nothing is wrong with the disk");
    driver.replicate(0, Replicate::Hold, 0);
    (0..3).for_each(|_| driver.append(0, 100));
    driver.replicate(0, Replicate::Cut, 4);
    let (_, next) = driver.store.bounds(partition(0)).expect("it is known");
    assert_eq!(next, Offset(2));
}
