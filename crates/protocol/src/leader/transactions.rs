//! The leader's part in transactions: it lets a producer's batch open one only when the coordinator has said that it may, and ends
//! it by the coordinator's marker.
//!
//! A late batch must not open a transaction that nobody will end, and a late marker must not end a later transaction (KIP-890,
//! KAFKA-17754). For the first there is a *permit*: a number that nobody has had before, void as soon as anything else of the producer
//! is seen. For the second a marker carries a higher epoch than the transaction's batches, where the producer knows of that.

use planted::{Bug, planted};
use record::Offset;
use thiserror::Error;

use super::{Append, AppendError, Appended, Checked, Leader};
use crate::history::{Ending, Part};
use crate::producers::{Admission, ProducerId, SequenceError, Stamp};

/// The claim of a batch to be part of its producer's transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Inside {
    /// The coordinator's word that the transaction may open here, if it was asked for.
    pub permit: Option<Permit>,
    /// The producer begins each transaction in a new epoch, and so with sequence 0 (transaction version 2).
    pub from_zero: bool,
}

/// Allows one producer to open one transaction. See the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Permit(pub u64);

/// The end of a transaction, as its coordinator wants it written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndMarker {
    /// The producer whose transaction ends.
    pub producer: ProducerId,
    /// The epoch in which it ends.
    pub epoch: i16,
    /// The tenure of the coordinator.
    pub coordinator_epoch: i32,
    /// The records count.
    pub commit: bool,
    /// The epoch is above that of the transaction's batches (transaction version 2).
    pub has_own_epoch: bool,
    /// The time of the marker, milliseconds since 1970.
    pub timestamp_ms: i64,
}

/// Why a batch or a marker does not fit the transactions of its producer. Nothing has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum TransactionError {
    /// The producer's transaction is open, and the batch is not in it (Kafka: INVALID_TXN_STATE).
    #[error("the producer's transaction is open, and the batch is not part of it")]
    Outside,
    /// The batch has no producer that could have a transaction.
    #[error("a batch in a transaction must have an idempotent producer")]
    NoProducer,
    /// The producer's last transaction has not ended here: the batch is to be sent again (Kafka: CONCURRENT_TRANSACTIONS).
    #[error("the producer's transaction before this one has not ended here yet")]
    NotEnded,
    /// The marker ends an earlier transaction than the one that is open (Kafka: INVALID_PRODUCER_EPOCH).
    #[error(
        "the marker is of epoch {epoch}, in which the open transaction has begun: it ends an earlier one"
    )]
    LateMarker {
        /// The epoch of both.
        epoch: i16,
    },
    /// A later tenure of the coordinator has ended a transaction here (Kafka: TRANSACTION_COORDINATOR_FENCED).
    #[error("the marker is of coordinator epoch {got}, and {current} has written here")]
    CoordinatorFenced {
        /// The newest one.
        current: i32,
        /// The marker's.
        got: i32,
    },
}

impl Leader {
    /// Gives a producer a permit that nobody was ever given. One that it had before is void.
    pub fn handle_permit(&mut self, producer: ProducerId, permit: Permit) {
        self.permits.insert(producer, permit);
    }

    /// Makes a producer's permit void.
    pub fn revoke_permit(&mut self, producer: ProducerId) {
        if !planted(Bug::PermitSurvives) {
            self.permits.remove(&producer);
        }
    }

    /// Says whether a batch that comes next is to wait for the coordinator's word.
    pub(super) fn check_inside(&self, append: &Append) -> Result<bool, AppendError> {
        let producers = self.producers();
        let Some(stamp) = append.producer else {
            return match append.inside {
                Some(_) => Err(TransactionError::NoProducer.into()),
                None => Ok(false),
            };
        };
        let open = producers.transaction_of(stamp.id);
        let Some(inside) = append.inside else {
            return match open {
                Some(_) => Err(TransactionError::Outside.into()),
                None => Ok(false),
            };
        };
        match (open, producers.has(stamp.id)) {
            (Some(open), _) if open.epoch == stamp.epoch => return Ok(false),
            (Some(_), _) => return Err(TransactionError::NotEnded.into()),
            (None, false) if inside.from_zero && stamp.first_sequence != 0 => {
                if !planted(Bug::BegunBehindZero) {
                    return Err(SequenceError::OutOfOrder {
                        expected: 0,
                        got: stamp.first_sequence,
                    }
                    .into());
                }
            }
            (None, _) if producers.marker_behind(stamp.id, self.tail).is_some() => {
                return Err(TransactionError::NotEnded.into());
            }
            (None, _) => {}
        }
        let is_permitted = inside.permit.is_some() && inside.permit == self.permits.get(&stamp.id).copied();
        Ok(!is_permitted)
    }

    /// Numbers a marker, or finds that there is nothing that it could end. Changes nothing; the producer's permit should be revoked before.
    ///
    /// # Errors
    /// See [`AppendError`].
    pub fn check_marker(&self, marker: &EndMarker) -> Result<Checked, AppendError> {
        if self.sealed {
            return Err(AppendError::Sealed {
                epoch: self.state.epoch,
            });
        }
        let producers = self.producers();
        let (first, epoch) = match producers.transaction_of(marker.producer) {
            Some(open) => (open.first, open.epoch),
            // Whatever its epoch: nothing is open here that it could end, or it has ended it.
            None if !planted(Bug::RepeatedMarkerRefused) => {
                return Ok(Checked::Duplicate(self.ended_before(marker.producer)));
            }
            None => return Err(TransactionError::LateMarker { epoch: marker.epoch }.into()),
        };
        let fences = producers.fences_of(marker.producer);
        let coordinator_epoch = fences.map_or(marker.coordinator_epoch, |(_, coordinator)| coordinator);
        if marker.coordinator_epoch < coordinator_epoch && !planted(Bug::LowerCoordinatorTaken) {
            return Err(TransactionError::CoordinatorFenced {
                current: coordinator_epoch,
                got: marker.coordinator_epoch,
            }
            .into());
        }
        if marker.epoch < epoch {
            return Err(SequenceError::StaleEpoch {
                current: epoch,
                got: marker.epoch,
            }
            .into());
        }
        // The marker of an earlier transaction, late: this one has begun in that epoch. Where epochs are used up there is no higher one.
        let is_late = marker.has_own_epoch && marker.epoch == epoch && epoch < i16::MAX;
        if is_late && !planted(Bug::LateMarkerTaken) {
            return Err(TransactionError::LateMarker { epoch }.into());
        }
        let ending = Ending {
            commit: marker.commit,
            coordinator_epoch: marker.coordinator_epoch,
            aborts: Some(first).filter(|_| !marker.commit),
        };
        let append = Append {
            record_count: 1,
            max_timestamp_ms: marker.timestamp_ms,
            producer: Some(Stamp {
                id: marker.producer,
                epoch: marker.epoch,
                first_sequence: MARKER_SEQUENCE,
            }),
            inside: None,
        };
        let numbered = self.number(&append, &Admission::NOBODY, false, Part::Ends(ending))?;
        Ok(Checked::New(numbered))
    }

    /// The place of the marker that has ended a producer's last transaction, or what stands for it: the marker counts once this is committed.
    fn ended_before(&self, producer: ProducerId) -> Appended {
        let marker = self.producers().marker_behind(producer, self.tail);
        let next_offset = marker.map_or(self.tail, |marker| marker.advance(1));
        Appended {
            first_offset: marker.unwrap_or(self.tail),
            next_offset,
        }
    }

    /// The end of what readers of committed records may see: nothing below it is in a transaction that is open, or whose marker is not
    /// committed (Kafka's last stable offset). Never below the log's start, nor above the tail.
    #[must_use]
    pub fn stable(&self) -> Offset {
        self.producers()
            .stable(self.tail)
            .max(self.state.log_start)
            .min(self.tail)
    }
}

/// Stands in a marker for the sequence that it does not have.
const MARKER_SEQUENCE: i32 = -1;
