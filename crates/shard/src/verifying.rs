//! Batches that would open a transaction: examined, they wait here for the word of its coordinator, which alone knows that somebody
//! will end it (KIP-890).
//!
//! ```text
//!   append ─► examined ─► here ─► question ─► the coordinator says that the partition is in the transaction ─► staged
//! ```
//! Whoever carries questions (`next_question` on) asks the coordinator, once for all that wait of one producer in one partition. Later batches of that
//! producer wait behind the first, so that they keep their order. The permit of a question is the leader's: it is void when a marker comes
//! meanwhile, and whatever the coordinator has said then is of no use any more.
//!
//! A batch may come before the marker of its producer's transaction before that one, as the producer goes on when the outcome is decided. Then
//! there is a question more: a coordinator answers about a transaction when the one before it has ended everywhere. A client that were
//! told to send its batch again would do so only after a rest.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque, btree_map};
use std::sync::Arc;

use bytes::Bytes;
use protocol::leader::{AppendError, Checked, EndMarker, Permit, TransactionError};
use protocol::{ProducerId, Stamp};
use record::{BatchHeader, Examined, Marker, Offset, PartitionId};
use storage::Reserve;
use tokio::sync::Notify;

use super::append::Approved;
use super::append::append_of;
use super::waiting_room::{Attempt, WaitingRoom};
use super::{Acks, AppendAnswer, AppendRefusal, AppendRequest, Shard};

/// Producers of one shard that wait for their coordinators, at most.
const QUESTIONS_MAX: usize = 10_000;
/// Batches that wait behind one question, at most: clients have five under way.
const BEHIND_ONE_MAX: usize = 64;

/// The transaction that a producer says its batch is part of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The transactional id.
    pub transactional_id: Arc<str>,
    /// The partition is to be added to the transaction, if it is not in it (transaction version 2). Else its producer has added it.
    pub adds: bool,
}

/// A question to a coordinator.
#[derive(Debug, Clone)]
pub struct Question {
    /// The partition that is to be in the transaction.
    pub partition: PartitionId,
    /// The transaction.
    pub claim: Claim,
    /// Its producer.
    pub producer: ProducerId,
    /// The producer's epoch.
    pub producer_epoch: i16,
    permit: Permit,
}

/// Why a transaction does not open in a partition. Nothing was appended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unverified {
    /// The batch is in a transaction, and its request names none.
    #[error("the batch is part of a transaction, and its request has no transactional id")]
    NoTransactionalId,
    /// The partition is not part of the producer's transaction.
    #[error("the partition was not added to the producer's transaction")]
    NotAdded,
    /// The producer has no transaction that could go on.
    #[error("the producer's transaction cannot be appended to: {0}")]
    NoTransaction(String),
    /// The coordinator knows a later tenure of the producer.
    #[error("a later producer has the transactional id")]
    Fenced,
    /// Nobody was given the id with this producer.
    #[error("the transactional id belongs to another producer id")]
    UnknownProducer,
    /// The transaction before this one has not ended.
    #[error("the transaction before this one is being ended; send the batch again")]
    Busy,
    /// The coordinator cannot be asked now, or too many ask.
    #[error("the transaction's coordinator cannot be asked now; send the batch again: {0}")]
    Unreachable(String),
    /// The topic has one order, which knows nothing of transactions yet.
    #[error("a topic with ropewalk.order=total takes no transactions")]
    Ordered,
}

/// See the module.
#[derive(Default)]
pub(super) struct Verifying {
    waiting: RefCell<BTreeMap<(PartitionId, ProducerId), Waiting>>,
    next_permit: Cell<u64>,
    questions: RefCell<VecDeque<Question>>,
    came: Notify,
}

/// The batches that wait for the answer to one question.
struct Waiting {
    permit: Permit,
    /// The answer only says that the producer's transaction before theirs has ended.
    is_for_end: bool,
    room: WaitingRoom<Attempt>,
}

impl Verifying {
    /// Takes all that wait.
    pub(super) fn take_all(&self) -> impl Iterator<Item = AppendRequest> + use<> {
        let waiting = self.waiting.take();
        waiting
            .into_values()
            .flat_map(|mut waiting| waiting.room.take_all())
    }
}

impl AppendRequest {
    /// Names the transaction that its producer is in.
    pub fn in_transaction(self, claim: Option<Claim>) -> AppendRequest {
        AppendRequest { claim, ..self }
    }

    /// The request to end a producer's transaction in a partition. Its answer comes when the end is committed, or was before.
    pub fn ending(partition: PartitionId, marker: EndMarker) -> (AppendRequest, AppendAnswer) {
        let (request, answer) = AppendRequest::new(partition, bytes_of(&marker, None), Acks::Quorum);
        let request = AppendRequest {
            marker: Some(marker),
            reserve: Reserve::UseHalf,
            ..request
        };
        (request, answer)
    }
}

/// A marker as a batch. One that aborts names the first offset that it does.
fn bytes_of(marker: &EndMarker, first: Option<Offset>) -> Bytes {
    let written = Marker {
        producer_id: marker.producer.0,
        producer_epoch: marker.epoch,
        commit: marker.commit,
        coordinator_epoch: marker.coordinator_epoch,
        first,
    };
    written.build(marker.timestamp_ms)
}

impl Attempt {
    /// The append of a marker, which nobody has to examine.
    pub(super) fn of_marker(request: AppendRequest) -> Attempt {
        let header = BatchHeader::read(&request.batch).expect("it was made here");
        let examined = Examined {
            header,
            max_timestamp_found_ms: header.max_timestamp_ms,
            decompressed_bytes: 0,
        };
        let approved = Approved {
            examined,
            has_keys: true,
            grown_bytes: 0,
        };
        Attempt { request, approved }
    }

    /// The same of a marker that has its place: it says now what it aborts.
    pub(super) fn with_first(self, aborts: Option<Offset>) -> Attempt {
        let Some(marker) = self.request.marker.filter(|_| aborts.is_some()) else {
            return self;
        };
        Attempt::of_marker(AppendRequest {
            batch: bytes_of(&marker, aborts).into(),
            ..self.request
        })
    }
}

impl Shard {
    /// Has an examined append wait for its coordinator's word, if it needs one or others of its producer wait for theirs; else gives it back.
    pub(super) fn verify_first(&self, attempt: Attempt) -> Option<Attempt> {
        let header = &attempt.approved.examined.header;
        let (request, stamp) = (&attempt.request, Stamp::of(header));
        let is_inside = header.attributes.is_transactional() && request.marker.is_none();
        let Some(stamp) = stamp.filter(|_| is_inside) else {
            return Some(attempt);
        };
        let key = (request.partition, stamp.id);
        let mut waiting = self.verifying.waiting.borrow_mut();
        if let Some(Waiting { room, .. }) = waiting.get_mut(&key) {
            if room.len() < BEHIND_ONE_MAX {
                room.push(attempt);
                return None;
            }
            drop(waiting);
            self.refuse_unverified(
                attempt.request,
                Unverified::Unreachable("too many batches wait".into()),
            );
            return None;
        }
        let Some(is_for_end) = self.wanted_word(&attempt) else {
            return Some(attempt);
        };
        let Some(claim) = request.claim.clone() else {
            drop(waiting);
            self.refuse_unverified(attempt.request, Unverified::NoTransactionalId);
            return None;
        };
        if waiting.len() >= QUESTIONS_MAX {
            drop(waiting);
            self.refuse_unverified(
                attempt.request,
                Unverified::Unreachable("too many producers wait".into()),
            );
            return None;
        }
        let mut partitions = self.partitions.borrow_mut();
        let partition = partitions.get_mut(&request.partition);
        let leader = partition.and_then(|partition| partition.role.leader_mut().ok());
        let permit = Permit(self.verifying.next_permit.get());
        self.verifying.next_permit.set(permit.0 + 1);
        let leader = leader.expect("it was asked just now");
        leader.handle_permit(stamp.id, permit);
        self.verifying.questions.borrow_mut().push_back(Question {
            partition: request.partition,
            claim,
            producer: stamp.id,
            producer_epoch: stamp.epoch,
            permit,
        });
        let mut room = WaitingRoom::default();
        room.push(attempt);
        let waits = Waiting {
            permit,
            is_for_end,
            room,
        };
        waiting.insert(key, waits);
        self.counters.verifications.add(1);
        self.verifying.came.notify_one();
        None
    }

    /// Says whether a batch would open a transaction, or (true) comes before the end of the one before that. One that is refused in any case
    /// does not; one that was there before is answered.
    fn wanted_word(&self, attempt: &Attempt) -> Option<bool> {
        let request = &attempt.request;
        let partitions = self.partitions.borrow();
        let partition = partitions.get(&request.partition)?;
        let append = append_of(request, &attempt.approved.examined).ok()?;
        if partition.is_ordered() {
            // It is refused when its turn comes.
            return None;
        }
        let admission = self.producer_room.admission(self.clock.monotonic(), request.from);
        match partition.role.check_append(&append, &admission) {
            Ok(Checked::Unverified) => Some(false),
            Err(AppendError::Transaction(TransactionError::NotEnded)) if !request.is_behind_end => Some(true),
            _ => None,
        }
    }

    fn refuse_unverified(&self, request: AppendRequest, why: Unverified) {
        self.refuse(request, AppendRefusal::Unverified(why));
    }

    /// Returns when a batch waits for a coordinator that did not before.
    pub async fn until_questions(&self) {
        self.verifying.came.notified().await;
    }

    /// Takes the next question. Its answer is to be told with [`Shard::verified`], whatever it is.
    pub fn next_question(&self) -> Option<Question> {
        self.verifying.questions.borrow_mut().pop_front()
    }

    /// Takes a coordinator's answer: what waited for it is appended or refused, in its order.
    pub fn verified(&self, question: &Question, answer: Result<(), Unverified>) {
        let key = (question.partition, question.producer);
        let is_of_question = |waiting: &Waiting| waiting.permit == question.permit;
        let waiting = match self.verifying.waiting.borrow_mut().entry(key) {
            btree_map::Entry::Occupied(waiting) if is_of_question(waiting.get()) => waiting.remove(),
            // Those that waited were refused meanwhile.
            _ => return,
        };
        let Waiting {
            mut room, is_for_end, ..
        } = waiting;
        if answer.is_err() {
            self.counters.refused_verifications.add(1);
            self.revoke_permit(question);
        }
        while let Some(mut attempt) = room.pop_wanted() {
            let epoch = attempt.approved.examined.header.producer_epoch;
            match &answer {
                // Another tenure of the producer, of which nothing was asked.
                _ if epoch != question.producer_epoch => self.append_verified(attempt),
                Err(why) => self.refuse_unverified(attempt.request, why.clone()),
                Ok(()) if is_for_end => {
                    attempt.request.is_behind_end = true;
                    self.append_verified(attempt);
                }
                Ok(()) => {
                    // The first of them opens the transaction. Where it has to wait for room, the others wait behind it.
                    attempt.request.permit = Some(question.permit);
                    self.append_in_turn(attempt);
                }
            }
        }
    }

    fn revoke_permit(&self, question: &Question) {
        let mut partitions = self.partitions.borrow_mut();
        let partition = partitions.get_mut(&question.partition);
        if let Some(Ok(leader)) = partition.map(|partition| partition.role.leader_mut()) {
            leader.revoke_permit(question.producer);
        }
    }

    /// Ends a producer's transaction in a partition.
    pub fn end_transaction(&self, request: AppendRequest) {
        if let Some(refusal) = self.refuses_from(request.partition) {
            return self.refuse(request, refusal);
        }
        self.append_in_turn(Attempt::of_marker(request));
    }
}
