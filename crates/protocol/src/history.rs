//! The knowledge that a partition has of its batches beyond their bytes: its epochs and its producers.
//!
//! One value that storage keeps as opaque bytes in a checkpoint. Recovery restores it, cuts it to the end
//! of the log it found, and replays the batches that came after the checkpoint. It must never claim a batch
//! that is not in the log: a producer would be told that a lost batch was written.

use std::time::Duration;

use bytes::Bytes;
use planted::{Bug, planted};
use record::{Epoch, Logged, Offset};

use crate::encoding::{DecodeError, Reader, Writer};
use crate::epochs::{EpochError, Epochs};
use crate::leader::NodeId;
use crate::producers::{ProducerLimits, Producers, Stamp, WrittenBatch};

/// A replica set that may still decide what is committed, because no later one is known to have taken its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Configuration {
    /// The first epoch with these replicas and this quorum.
    pub epoch: Epoch,
    /// The nodes of the replicas, each once.
    pub replicas: Vec<NodeId>,
    /// The number of them that must acknowledge; between one and all.
    pub ack_quorum: u16,
}

/// The epochs that a replica is bound to. Neither ever falls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Vows {
    /// Nothing of an older epoch is appended here.
    pub promised: Option<Epoch>,
    /// The log here is the one of this epoch's leader, as far as that leader's log reached when it began.
    pub accepted: Option<Epoch>,
}

/// The epochs and the producers of one partition, and what its replica here is bound to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct History {
    /// The replica's; none where it is the only one, or keeps them elsewhere.
    pub vows: Vows,
    /// In the order of their epochs.
    pub unsettled: Vec<Configuration>,
    /// The offsets that each epoch wrote.
    pub epochs: Epochs,
    /// The idempotent producers.
    pub producers: Producers,
}

/// A batch found in the log, as far as the history is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchFacts {
    /// The leader's epoch that wrote it.
    pub epoch: Epoch,
    /// The offset of its first record.
    pub first_offset: Offset,
    /// The number of its offsets: of its records, as it was written. At least one.
    pub record_count: i32,
    /// The largest timestamp in it, milliseconds since 1970.
    pub max_timestamp_ms: i64,
    /// Its producer; `None` if the producer is not idempotent.
    pub producer: Option<Stamp>,
    /// Its part in a transaction of that producer.
    pub part: Part,
}

/// The part of a batch in a transaction of its producer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Part {
    /// It is in none.
    #[default]
    Outside,
    /// Its records count if the transaction is committed. The first such batch of a producer opens a transaction.
    Inside,
    /// It ends the transaction.
    Ends(Ending),
}

/// The end of a transaction in one partition, as its marker tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ending {
    /// Its records count.
    pub commit: bool,
    /// The tenure of the coordinator that decided.
    pub coordinator_epoch: i32,
    /// The offset of the first record that does not count; `None` where nothing is aborted.
    pub aborts: Option<Offset>,
}

impl BatchFacts {
    /// Reads the facts of a batch in the log.
    #[must_use]
    pub fn of(batch: &Logged) -> BatchFacts {
        let header = &batch.header;
        let ending = batch.marker.map(|marker| Ending {
            commit: marker.commit,
            coordinator_epoch: marker.coordinator_epoch,
            aborts: marker.first.filter(|_| !marker.commit),
        });
        BatchFacts {
            part: match ending {
                Some(ending) => Part::Ends(ending),
                None if header.attributes.is_control() => Part::Outside,
                None if header.attributes.is_transactional() => Part::Inside,
                None => Part::Outside,
            },
            epoch: header.leader_epoch,
            first_offset: header.base_offset,
            // Compaction may have taken records since.
            record_count: header.last_offset_delta.saturating_add(1),
            max_timestamp_ms: header.max_timestamp_ms,
            // A control batch that ends nothing is of no producer.
            producer: Stamp::of(header).filter(|_| ending.is_some() || !header.attributes.is_control()),
        }
    }

    /// The first offset after it.
    #[must_use]
    pub fn next_offset(&self) -> Offset {
        self.first_offset.advance(i64::from(self.record_count))
    }
}

/// Why a partition cannot be led over what recovery found.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecoverError {
    /// The snapshot is corrupt or of an unknown version.
    #[error(transparent)]
    Snapshot(#[from] DecodeError),
    /// The batches contradict each other.
    #[error(transparent)]
    Batches(#[from] EpochError),
    /// The log has batches of the epoch that the metadata opens, or of a later one: one of the two is not of this history.
    #[error("the metadata opens epoch {epoch}, which is used already: the log's latest is {latest}")]
    EpochPassed {
        /// The epoch to open.
        epoch: Epoch,
        /// The latest one in the log.
        latest: Epoch,
    },
}

const FORMAT: &str = "partition history";
/// Nothing is accepted that was not promised: such a replica would let in the leader of an epoch between the two.
const ACCEPTED: &str = "the accepted epoch of a partition history (at most the promised one)";
const VERSION: u8 = 3;
/// Stands where there is no epoch.
const NO_EPOCH: i32 = -1;
/// Epoch, quorum, the number of replicas.
const CONFIGURATION_BYTES_MIN: usize = 4 + 2 + 4;
const NODE_BYTES: usize = 4;

impl History {
    /// The history of a partition in which nothing was ever written.
    #[must_use]
    pub fn new(limits: ProducerLimits) -> History {
        History {
            vows: Vows::default(),
            unsettled: Vec::new(),
            epochs: Epochs::new(),
            producers: Producers::new(limits),
        }
    }

    /// The history of a log that ends at `next_offset`: out of the bytes of its last snapshot (none, if there never was one)
    /// and the batches that these do not cover.
    ///
    /// # Errors
    /// They are corrupt, or contradict each other.
    pub fn recover(
        now: Duration,
        limits: ProducerLimits,
        snapshot: &[u8],
        next_offset: Offset,
        batches: impl IntoIterator<Item = BatchFacts>,
    ) -> Result<History, RecoverError> {
        let mut history = match snapshot.is_empty() {
            true => History::new(limits),
            false => History::restore(now, limits, snapshot)?,
        };
        if planted(Bug::ProducersForgotten) {
            history.producers = Producers::new(limits);
        }
        history.cut_to(next_offset);
        for batch in batches {
            history.replay(now, &batch)?;
        }
        Ok(history)
    }

    /// Takes note of a batch found in the log. Batches come in the order of their offsets, each once; those that a
    /// snapshot covers already must be left out.
    ///
    /// # Errors
    /// An older epoch follows a newer one: the log is corrupt.
    pub fn replay(&mut self, now: Duration, batch: &BatchFacts) -> Result<(), EpochError> {
        self.epochs.replay(batch.epoch, batch.first_offset)?;
        if let Some(stamp) = batch.producer
            && !planted(Bug::LaterBatchesForgotten)
        {
            let written = WrittenBatch {
                first_sequence: stamp.first_sequence,
                record_count: batch.record_count,
                first_offset: batch.first_offset,
                max_timestamp_ms: batch.max_timestamp_ms,
            };
            match batch.part {
                Part::Outside => self.producers.note(now, stamp, written),
                Part::Inside => self.producers.note_inside(now, stamp, written),
                Part::Ends(ending) => self.producers.note_end(now, stamp, &ending, batch.first_offset),
            }
        }
        Ok(())
    }

    /// The history of the batches below `next_offset`, as bytes. Pass the offset up to which the checkpoint
    /// stands for the log: batches above it are not claimed, because they may still be lost.
    #[must_use]
    pub fn snapshot(&self, now: Duration, next_offset: Offset) -> Bytes {
        self.snapshot_of(now, next_offset, self.vows)
    }

    /// The same for a replica that keeps its vows elsewhere.
    #[must_use]
    pub fn snapshot_of(&self, now: Duration, next_offset: Offset, vows: Vows) -> Bytes {
        let mut epochs = self.epochs.clone();
        epochs.cut_to(next_offset);
        let next_offset = match planted(Bug::UncommittedInSnapshot) {
            true => Offset(i64::MAX),
            false => next_offset,
        };
        let mut writer = Writer::open(VERSION);
        self.write_bonds(&mut writer, vows);
        epochs.write(&mut writer);
        self.producers.write_below(next_offset, now, &mut writer);
        writer.close()
    }

    /// Reads a snapshot back. Recovery then calls [`History::cut_to`] with the end of the log if that lies below the
    /// offset of the snapshot, and [`History::replay`] for what lies above.
    ///
    /// # Errors
    /// The bytes are corrupt or of an unknown version.
    pub fn restore(now: Duration, limits: ProducerLimits, bytes: &[u8]) -> Result<History, DecodeError> {
        let mut reader = Reader::open_only(bytes, FORMAT, VERSION)?;
        let vows = read_vows(&mut reader)?;
        let unsettled = read_configurations(&mut reader)?;
        let epochs = Epochs::read(&mut reader)?;
        let producers = Producers::read(now, limits, &mut reader)?;
        reader.close()?;
        Ok(History {
            vows,
            unsettled,
            epochs,
            producers,
        })
    }

    /// The vows of a snapshot, without the rest of it.
    ///
    /// # Errors
    /// The bytes are corrupt at their beginning, or of an unknown version.
    pub fn vows_in(snapshot: &[u8]) -> Result<Vows, DecodeError> {
        read_vows(&mut Reader::open_only(snapshot, FORMAT, VERSION)?)
    }

    fn write_bonds(&self, writer: &mut Writer, vows: Vows) {
        for epoch in [vows.promised, vows.accepted] {
            writer.i32(epoch.map_or(NO_EPOCH, |epoch| epoch.0));
        }
        writer.count(self.unsettled.len());
        for configuration in &self.unsettled {
            writer.i32(configuration.epoch.0);
            writer.u16(configuration.ack_quorum);
            writer.count(configuration.replicas.len());
            for node in &configuration.replicas {
                writer.i32(node.0);
            }
        }
    }

    /// Forgets what lies at `next_offset` and above.
    pub fn cut_to(&mut self, next_offset: Offset) {
        self.epochs.cut_to(next_offset);
        self.producers.cut_to(next_offset);
    }
}

fn read_vows(reader: &mut Reader<'_>) -> Result<Vows, DecodeError> {
    let promised = read_epoch(reader)?;
    let accepted = read_epoch(reader)?;
    match accepted > promised {
        true => Err(DecodeError::Impossible { field: ACCEPTED }),
        false => Ok(Vows { promised, accepted }),
    }
}

fn read_epoch(reader: &mut Reader<'_>) -> Result<Option<Epoch>, DecodeError> {
    match reader.i32(FORMAT)? {
        NO_EPOCH => Ok(None),
        epoch @ 0.. => Ok(Some(Epoch(epoch))),
        _ => Err(DecodeError::Impossible { field: FORMAT }),
    }
}

fn read_configurations(reader: &mut Reader<'_>) -> Result<Vec<Configuration>, DecodeError> {
    let count = reader.count(FORMAT, CONFIGURATION_BYTES_MIN)?;
    let mut configurations: Vec<Configuration> = Vec::with_capacity(count);
    for _ in 0..count {
        let epoch = Epoch(reader.i32(FORMAT)?);
        let ack_quorum = reader.u16(FORMAT)?;
        let nodes = reader.count(FORMAT, NODE_BYTES)?;
        let mut replicas = Vec::with_capacity(nodes);
        for _ in 0..nodes {
            replicas.push(NodeId(reader.i32(FORMAT)?));
        }
        let rises = configurations.last().is_none_or(|last| last.epoch < epoch);
        let is_twice = |(index, node): (usize, &NodeId)| replicas[..index].contains(node);
        let possible = rises
            && epoch >= Epoch(0)
            && (1..=nodes).contains(&usize::from(ack_quorum))
            && replicas.iter().all(|node| node.0 >= 0)
            && !replicas.iter().enumerate().any(is_twice);
        if !possible {
            return Err(DecodeError::Impossible { field: FORMAT });
        }
        configurations.push(Configuration {
            epoch,
            replicas,
            ack_quorum,
        });
    }
    Ok(configurations)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vows(promised: i32, accepted: i32) -> Vows {
        Vows {
            promised: Some(Epoch(promised)),
            accepted: Some(Epoch(accepted)),
        }
    }

    fn bound() -> History {
        History {
            vows: vows(7, 6),
            unsettled: vec![
                Configuration {
                    epoch: Epoch(3),
                    replicas: vec![NodeId(1), NodeId(2), NodeId(3)],
                    ack_quorum: 2,
                },
                Configuration {
                    epoch: Epoch(5),
                    replicas: vec![NodeId(4)],
                    ack_quorum: 1,
                },
            ],
            ..History::new(ProducerLimits::default())
        }
    }

    fn restore(bytes: &[u8]) -> Result<History, DecodeError> {
        History::restore(Duration::ZERO, ProducerLimits::default(), bytes)
    }

    #[test]
    fn promises_and_configurations_read_back() {
        let bytes = bound().snapshot(Duration::ZERO, Offset::ZERO);
        assert_eq!(restore(&bytes), Ok(bound()));
        assert_eq!(History::vows_in(&bytes), Ok(bound().vows));
        for length in 0..bytes.len() {
            assert!(restore(&bytes[..length]).is_err(), "{length} bytes");
        }
        let none = History::new(ProducerLimits::default());
        assert_eq!(restore(&none.snapshot(Duration::ZERO, Offset::ZERO)), Ok(none));
    }

    #[test]
    fn configurations_that_cannot_be_are_refused() {
        type Forge = fn(&mut History);
        let forgeries: [Forge; 7] = [
            |history| history.vows = vows(-2, -2),
            |history| history.unsettled[1].epoch = Epoch(3),
            |history| history.unsettled[0].epoch = Epoch(-1),
            |history| history.unsettled[0].ack_quorum = 0,
            |history| history.unsettled[0].ack_quorum = 4,
            |history| history.unsettled[0].replicas[2] = NodeId(1),
            |history| history.unsettled[0].replicas[2] = NodeId(-3),
        ];
        for (index, forge) in forgeries.into_iter().enumerate() {
            let mut forged = bound();
            forge(&mut forged);
            let read = restore(&forged.snapshot(Duration::ZERO, Offset::ZERO));
            assert_eq!(read, Err(DecodeError::Impossible { field: FORMAT }), "{index}");
        }
    }

    #[test]
    fn an_epoch_that_is_accepted_above_the_promised_one_is_refused() {
        let never = Vows {
            promised: None,
            ..vows(0, 6)
        };
        for vows in [vows(5, 6), never] {
            let forged = History { vows, ..bound() };
            let refused = restore(&forged.snapshot(Duration::ZERO, Offset::ZERO));
            assert_eq!(refused, Err(DecodeError::Impossible { field: ACCEPTED }));
        }
        let equal = History {
            vows: vows(6, 6),
            ..bound()
        };
        assert_eq!(restore(&equal.snapshot(Duration::ZERO, Offset::ZERO)), Ok(equal));
    }

    #[test]
    fn other_versions_are_refused() {
        let mut bytes = bound().snapshot(Duration::ZERO, Offset::ZERO).to_vec();
        for version in [0, 1, 2, 4] {
            bytes[0] = version;
            let refused = restore(&bytes).expect_err("it is not of this version");
            assert!(matches!(refused, DecodeError::UnknownVersion { .. }), "{refused}");
        }
    }
}
