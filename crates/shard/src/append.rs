//! One append, on the core that owns the partition: examine, check, number, stage, wait.
//!
//! Read from `Shard::append` on, downwards: it is the way of a batch from the produce handler to the journal. What follows
//! is in `flush.rs`: the flush, and the leader's commit that answers the producer.

mod allowance;
mod bad_records;
mod contract;
mod examine;

use std::cell::RefCell;

use planted::{Bug, planted};
use platform::turns;
use protocol::leader::{Append, AppendError, Appended, Checked, Inside, Numbered};
use protocol::metadata::topic_config::TimestampType;
use protocol::order::LANE;
use protocol::{Durability, SequenceError, Stamp};
use record::{BatchHeader, Examined, Offset, PartitionId, Position};
use storage::{BatchBytes, Reserve, StageError};

pub use allowance::Allowance;
pub use bad_records::{BadRecord, BadRecords};
pub use contract::{
    Acks, AppendAnswer, AppendOutcome, AppendRefusal, AppendRequest, Conditions, DiskShortage,
};
pub(super) use examine::Approved;

use super::claims::Claimed;
use super::flush::MEMORY_GATHERED_BYTES_MAX;
use super::member::AtHand;
use super::partition::Waiting;
use super::verifying::Unverified;
use super::waiting_room::{Attempt, WaitingRoom};
use super::{Partition, Role, Shard};
use crate::TopicCounters;
use protocol::metadata::METADATA_PARTITION;

/// The outcome of an attempt to append.
enum Attempted {
    /// Nothing is left to do: it is in the journal, was there already, or is refused.
    Done,
    /// The journal has no room for it now.
    NoRoomInJournal(Attempt),
    /// Batches answered before it are to be flushed or laid out first, or others of its partition wait for that.
    NoRoomInMemory(Attempt),
    /// Its partition holds as much that is not committed as it may, or others of it wait for that.
    NoRoomToCommit(Attempt),
}

/// Why a batch was not put into the journal.
pub(super) enum Unstaged {
    Error(StageError),
    Refused(AppendRefusal),
}

impl Shard {
    /// Examines a batch and appends it, or has it examined first where that takes long: appends of a partition keep the order
    /// they came in, here and wherever they wait from here on.
    pub fn append(&self, request: AppendRequest) {
        // Before anything else: a batch that is refused must not wait, nor hold memory, behind those that wait for room. The waiting
        // ones are told where the reason comes about.
        if let Some(refusal) = self.refuses_from(request.partition) {
            return self.refuse(request, refusal);
        }
        if self.examinations.has_before(&request) {
            return self.examinations.push(request);
        }
        match self.examine_here(&request) {
            Some(examined) => self.append_examined(request, examined),
            None => self.examinations.push(request),
        }
    }

    /// Stages a batch that was examined, or queues it while there is no room.
    pub(super) fn append_examined(&self, request: AppendRequest, examined: Result<Approved, AppendRefusal>) {
        let attempt = match examined {
            Ok(approved) => Attempt { request, approved },
            Err(refusal) => return self.refuse(request, refusal),
        };
        self.append_verified(attempt);
    }

    /// The same, behind all of its producer that wait for the word of a coordinator.
    pub(super) fn append_verified(&self, attempt: Attempt) {
        let Some(attempt) = self.verify_first(attempt) else {
            return;
        };
        if self.waits_for_position(&attempt) {
            return self.wait_for_position(attempt);
        }
        self.append_in_turn(attempt);
    }

    /// Stages a batch, or has it wait for room behind those that came before it.
    pub(super) fn append_in_turn(&self, attempt: Attempt) {
        if self.waits_behind_others(&attempt.request) {
            return self.wait_for_journal(attempt);
        }
        match self.append_in_order(attempt) {
            Attempted::Done => return,
            Attempted::NoRoomInJournal(attempt) => self.wait_for_journal(attempt),
            Attempted::NoRoomInMemory(attempt) => self.waiting.for_memory.borrow_mut().push(attempt),
            Attempted::NoRoomToCommit(attempt) => self.wait_for_commit(attempt),
        }
        self.background.notify_one();
    }

    /// Says if an append has its turn only after those that wait for the journal. One that may use the journal's reserve waits
    /// behind its own partition's alone: it is there to help the others.
    fn waits_behind_others(&self, request: &AppendRequest) -> bool {
        let room = self.waiting.for_journal.borrow();
        match request.reserve {
            Reserve::Keep => !room.is_empty() && !planted(Bug::WaitingOvertaken),
            Reserve::UseHalf | Reserve::Use => room.has(request.partition),
        }
    }

    fn wait_for_journal(&self, attempt: Attempt) {
        if attempt.request.waits {
            self.waiting.for_journal.borrow_mut().push(attempt);
        } else {
            let why = self.why_journal_is_full();
            self.refuse(attempt.request, AppendRefusal::JournalFull { why });
        }
    }

    /// Returns the reason for which appends to a partition are refused, if they are. The metadata may use the disk's reserve: a full
    /// disk is helped by deleting a topic or giving it retention. It is taken before the node serves, too: a start is over only
    /// when the metadata says so.
    pub(super) fn refuses_from(&self, partition: PartitionId) -> Option<AppendRefusal> {
        self.refuses().filter(|refusal| {
            let reserved = matches!(refusal, AppendRefusal::DiskFull(_) | AppendRefusal::Starting);
            !(reserved && partition == METADATA_PARTITION)
        })
    }

    /// Appends one batch, unless others of its partition wait already: also if the topic is not in memory any more, it must
    /// not overtake them.
    fn append_in_order(&self, attempt: Attempt) -> Attempted {
        let id = attempt.request.partition;
        if self.waiting.for_memory.borrow().has(id) {
            return Attempted::NoRoomInMemory(attempt);
        }
        if self.waiting.for_commit.borrow().contains_key(&id) {
            return Attempted::NoRoomToCommit(attempt);
        }
        self.append_one(attempt)
    }

    /// Appends one batch that was not refused: checks its place, then stages it. A duplicate waits for the batch that it repeats.
    fn append_one(&self, attempt: Attempt) -> Attempted {
        let (id, is_for_tail) = (
            attempt.request.partition,
            attempt.request.conditions.tail.is_some(),
        );
        let strand = attempt.request.is_cut_at_once().then(|| {
            // Earlier batches have their positions before it.
            self.stage_cuts();
            self.orders.strand_of(id.topic)
        });
        let attempted = {
            let mut partitions = self.partitions.borrow_mut();
            match strand.flatten() {
                None => self.append_to([partitions.get_mut(&id), None].map(whole), attempt),
                Some(strand) => {
                    self.append_to(partitions.get_disjoint_mut([&id, &strand]).map(whole), attempt)
                }
            }
        };
        if is_for_tail {
            // Others may have waited for it to be refused.
            self.show_ordered(id.topic);
        }
        attempted
    }

    fn append_to(&self, [partition, strand]: [Option<&mut Partition>; 2], attempt: Attempt) -> Attempted {
        let Some(partition) = partition else {
            let absence = self.absence(attempt.request.partition);
            refuse(attempt.request, absence.into());
            return Attempted::Done;
        };
        if let Some(marker) = &attempt.request.marker
            && let Ok(leader) = partition.role.leader_mut()
        {
            // Also if it ends nothing here: nothing that was verified before may open a transaction after it.
            leader.revoke_permit(marker.producer);
        }
        match self.check(partition, &attempt) {
            Ok(Checked::New(numbered)) => {
                let attempt = attempt.with_first(numbered.aborts());
                return self.stage(partition, strand, attempt, numbered);
            }
            // A marker has come since its coordinator was asked, or this one leads anew.
            Ok(Checked::Unverified) => {
                let refusal = AppendRefusal::Unverified(Unverified::Busy);
                self.refuse_for(partition, attempt.request, refusal);
            }
            Ok(Checked::Duplicate(written)) => {
                let mut request = attempt.request;
                if planted(Bug::RepeatAnsweredEarly) {
                    request.acks = Acks::None;
                }
                self.wait(partition, written, None, request);
            }
            Err(refusal) => self.refuse_for(partition, attempt.request, refusal),
        }
        Attempted::Done
    }

    /// The place that the batch gets or has already. Nothing has changed yet.
    fn check(&self, partition: &Partition, attempt: &Attempt) -> Result<Checked, AppendRefusal> {
        let (leader, topic) = (partition.role.leader()?, &partition.topic);
        if attempt.request.epoch.is_some_and(|epoch| epoch != leader.epoch()) {
            return Err(AppendRefusal::NotLeader);
        }
        if attempt.request.acks != Acks::Quorum && self.is_forsaken(&partition.role) {
            return Err(AppendRefusal::NotLeader);
        }
        if attempt.request.acks == Acks::Quorum {
            let checked = partition.role.check_insync(topic.insync_replicas_min);
            checked.map_err(AppendRefusal::Leader)?;
        }
        if partition.is_ordered()
            && let Some(reason) = self.orders.why_ended(attempt.request.partition.topic)
        {
            return Err(AppendRefusal::JournalDead(reason));
        }
        if topic.compaction.is_some() && !attempt.approved.has_keys {
            return Err(AppendRefusal::BecameCompacted);
        }
        let from = attempt.request.from;
        let admission = self.producer_room.admission(self.clock.monotonic(), from);
        let id = attempt.request.partition;
        let checked = match &attempt.request.marker {
            Some(marker) => partition.role.check_marker(marker),
            None => {
                let append = append_of(&attempt.request, &attempt.approved.examined)?;
                if append.inside.is_some() && partition.is_ordered() {
                    return Err(AppendRefusal::Unverified(Unverified::Ordered));
                }
                partition.role.check_append(&append, &admission)
            }
        };
        if matches!(checked, Err(AppendError::Sequence(_))) && !self.holds_lease(id, &partition.role) {
            // A later leader may have what is missing here.
            return Err(AppendRefusal::NotLeader);
        }
        let checked = checked.map_err(AppendRefusal::Leader)?;
        let ends_nothing = attempt.request.marker.is_some() && matches!(checked, Checked::Duplicate(_));
        if ends_nothing && !self.holds_lease(id, &partition.role) {
            // The transaction may be open at a later leader.
            return Err(AppendRefusal::NotLeader);
        }
        if matches!(&checked, Checked::New(numbered) if numbered.takes_on_producer) {
            let admitted = self.producer_room.check_share(from);
            admitted.map_err(|error| AppendRefusal::Leader(error.into()))?;
        }
        if let (Checked::New(numbered), Some(wanted)) = (&checked, attempt.request.conditions.offset)
            && numbered.first_offset != wanted
        {
            let next = numbered.first_offset;
            // Another leader may have another end by now.
            return Err(match self.holds_lease(id, &partition.role) {
                true => AppendRefusal::OffsetMoved { wanted, next },
                false => AppendRefusal::NotLeader,
            });
        }
        if let (Checked::New(numbered), Some(wanted)) = (&checked, attempt.request.conditions.tail)
            && self.orders.strand_of(id.topic).is_none()
        {
            self.check_promised(partition, id, numbered.first_offset, wanted)?;
        }
        Ok(checked)
    }

    /// Checks that a position is promised to what is appended at an offset.
    fn check_promised(
        &self,
        partition: &Partition,
        id: PartitionId,
        first: Offset,
        wanted: Position,
    ) -> Result<(), AppendRefusal> {
        let epoch = partition.role.leader()?.epoch();
        match partition.claimed.get() {
            _ if !partition.is_ordered() => Err(AppendRefusal::NoOrder),
            _ if !self.settings.has_scribes => Err(AppendRefusal::OrderNotOpen),
            _ if id.index != LANE => Err(AppendRefusal::NotInLane),
            Some(claimed) if claimed == (Claimed { epoch, first }) => Ok(()),
            // Another one was staged there meanwhile.
            _ => Err(AppendRefusal::TailMoved { wanted, tail: wanted }),
        }
    }

    /// Puts a batch into the journal if there is room, and makes its number final.
    fn stage(
        &self,
        partition: &mut Partition,
        strand: Option<&mut Partition>,
        mut attempt: Attempt,
        numbered: Numbered,
    ) -> Attempted {
        let leader = partition.role.leader();
        let leader = leader.expect("it has numbered the batch in this turn");
        let (durability, producers_before) = (leader.durability(), leader.producers().len());
        if !self.has_room_in_memory(durability) {
            return Attempted::NoRoomInMemory(attempt);
        }
        let (id, batch_bytes) = (attempt.request.partition, attempt.request.batch.len() as u64);
        let is_member = matches!(partition.role, Role::Member(_));
        if is_member && !self.replication.has_room(id, batch_bytes) {
            return Attempted::NoRoomToCommit(attempt);
        }
        let examined = attempt.approved.examined;
        let append_time_ms =
            (partition.topic.timestamp_type == TimestampType::LogAppendTime).then(|| self.clock.wall_ms());
        let in_place = matches!(attempt.request.batch, BatchBytes::Alone(_));
        let place = storage::Append {
            epoch: numbered.epoch,
            first: numbered.first_offset,
            next: numbered.next_offset,
            max_timestamp_ms: examined.max_timestamp_found_ms,
            append_time_ms,
            producer_id: attempt
                .request
                .is_of_twin
                .then(|| on_twin(&examined.header))
                .flatten(),
            aborts: numbered.aborts(),
            reserve: attempt.request.reserve,
        };
        let is_cut = match self.stage_batch(strand, (id, &place), &mut attempt.request) {
            Ok(is_cut) => is_cut,
            Err(Unstaged::Error(StageError::Full)) => {
                self.layout.want_room();
                return Attempted::NoRoomInJournal(attempt);
            }
            Err(unstaged) => {
                let refusal = match unstaged {
                    Unstaged::Error(error) => AppendRefusal::of(error, || self.why_journal_is_full()),
                    Unstaged::Refused(refusal) => refusal,
                };
                self.refuse_for(partition, attempt.request, refusal);
                return Attempted::Done;
            }
        };
        let appended = partition.role.handle_append(self.clock.monotonic(), numbered);
        assert_eq!(
            self.store.borrow().bounds(id),
            Some((partition.role.log_start(), appended.next_offset)),
            "leader and store know the same log"
        );
        if partition.is_ordered() && !is_cut {
            self.orders.note(id, appended.first_offset..appended.next_offset);
        }
        if let Role::Member(member) = &mut partition.role {
            member.note_uncommitted(appended.next_offset, batch_bytes);
            self.replication.take_room(id, batch_bytes);
        }
        let leader = partition.role.leader_mut();
        let leader = leader.expect("an append does not end an epoch");
        self.producer_room.note(producers_before, leader);
        self.note_appended(&examined.header, in_place, durability);
        note_of_topic(partition.counters(id.topic, &self.topic_book), &examined.header);
        self.wait(partition, appended, append_time_ms, attempt.request);
        self.wake_flush(durability);
        partition.act();
        self.carry_out(id, partition, AtHand::Staged);
        Attempted::Done
    }

    /// Puts a batch into the journal. With a strand it takes its positions at once, and its cut follows it; says whether that is so.
    fn stage_batch(
        &self,
        strand: Option<&mut Partition>,
        (id, place): (PartitionId, &storage::Append),
        request: &mut AppendRequest,
    ) -> Result<bool, Unstaged> {
        let tail = request.conditions.tail;
        if let Some(strand) = strand {
            let staged = self.stage_with_cut(strand, (id, place), &mut request.batch, tail);
            let has_no_room = matches!(staged, Err(Unstaged::Error(_)));
            if tail.is_some() || !has_no_room {
                return staged.map(|()| true);
            }
            // There may be room for the batch alone: it gets its positions with the next frame.
        }
        let staged = self.store.borrow_mut().append(id, place, &mut request.batch);
        staged.map(|()| false).map_err(Unstaged::Error)
    }

    /// Says if more may be answered before it is flushed: nothing else slows down producers that do not wait for flushes. Where they
    /// have overtaken the round of layout under way they wait for its end: each round would be larger than the one before, until
    /// memory does not hold it.
    fn has_room_in_memory(&self, durability: Durability) -> bool {
        match durability {
            Durability::Flushed => true,
            Durability::Memory => {
                self.waiting.unflushed.borrow().bytes() < self.settings.memory_unflushed_bytes_max
                    && !self.store.borrow().layout_is_overtaken()
            }
        }
    }

    fn note_appended(&self, header: &BatchHeader, in_place: bool, durability: Durability) {
        if durability == Durability::Memory {
            let frame = self.store.borrow().staged_before() - 1;
            assert!(
                !self.store.borrow().is_durable(frame),
                "what was staged just now is not flushed yet"
            );
            self.waiting
                .unflushed
                .borrow_mut()
                .note(frame, header.length_bytes);
        }
        let counters = &self.counters;
        counters.appended_batches.add(1);
        counters.batches_in_place.add(u64::from(in_place));
        counters.appended_records.add(header.record_count as u64);
        counters.appended_bytes.add(header.length_bytes as u64);
    }

    /// Has the staged batches flushed: at once, or, if no producer waits and few bytes do, together with those of the next moment.
    fn wake_flush(&self, durability: Durability) {
        let has_time = match durability {
            Durability::Flushed => false,
            Durability::Memory => self.store.borrow().unflushed_bytes() < MEMORY_GATHERED_BYTES_MAX,
        };
        match has_time {
            true => self.flushing.want_soon(),
            false => self.flushing.want(),
        }
    }

    /// Has the producer answered once its acks are met for the batch at this place.
    fn wait(
        &self,
        partition: &mut Partition,
        appended: Appended,
        append_time_ms: Option<i64>,
        request: AppendRequest,
    ) {
        let Appended {
            first_offset,
            next_offset,
        } = appended;
        let leader = partition.role.leader();
        let leader = leader.expect("it has said in this turn where the batch stands");
        assert!(
            next_offset <= leader.next_offset(),
            "a batch that is waited for was appended"
        );
        let outcome = AppendOutcome {
            first_offset,
            log_start: leader.log_start(),
            append_time_ms,
            position: None,
        };
        let (durable_here, tail) = (leader.durable_here(), partition.tail());
        let (queue, reached) = match request.acks {
            // No client is told; but code that holds the other end learns that it was not refused.
            Acks::None => {
                let _ = request.reply.send(Ok(outcome));
                return;
            }
            Acks::Leader => (&mut partition.waiting_durable, durable_here),
            Acks::Quorum => (&mut partition.waiting_committed, tail),
        };
        if next_offset <= reached || planted(Bug::AnsweredWhenStaged) {
            let _ = request.reply.send(Ok(outcome));
            return;
        }
        // A duplicate of a batch still under way waits among those that came before it.
        let place = queue.partition_point(|waiting| waiting.next_offset <= next_offset);
        queue.insert(
            place,
            Waiting {
                next_offset,
                outcome,
                wanted: request.conditions.tail,
                reply: request.reply,
            },
        );
    }

    /// Tries again what there was no room for: deletions, then appends that wait for the journal alone, among them the
    /// metadata's, and last those that wait for memory. An append may go from the first room to the other one, behind those of
    /// its partition. When the turn is spent, the rest waits for the next one.
    pub(super) fn append_waiting(&self) {
        if !self.waiting.for_journal.borrow().is_empty() {
            // They would take the room for the cuts of what was staged before them.
            self.stage_cuts();
        }
        self.layout.note_room();
        self.examinations.note_room();
        self.delete_refused();
        self.hear_deferred();
        while let Some(attempt) = take_first(&self.waiting.for_journal) {
            match self.append_in_order(attempt) {
                Attempted::Done => {}
                Attempted::NoRoomInMemory(attempt) => self.waiting.for_memory.borrow_mut().push(attempt),
                Attempted::NoRoomToCommit(attempt) => self.wait_for_commit(attempt),
                Attempted::NoRoomInJournal(attempt) => {
                    return self.waiting.for_journal.borrow_mut().put_back(attempt);
                }
            }
            if turns::is_spent() {
                return self.flushing.want_another_turn();
            }
        }
        while let Some(attempt) = take_first(&self.waiting.for_memory) {
            let id = attempt.request.partition;
            if self.waiting.for_commit.borrow().contains_key(&id) {
                self.wait_for_commit(attempt);
                continue;
            }
            match self.append_one(attempt) {
                Attempted::Done => {}
                Attempted::NoRoomToCommit(attempt) => self.wait_for_commit(attempt),
                Attempted::NoRoomInJournal(attempt) | Attempted::NoRoomInMemory(attempt) => {
                    return self.waiting.for_memory.borrow_mut().put_back(attempt);
                }
            }
            if turns::is_spent() {
                return self.flushing.want_another_turn();
            }
        }
        self.append_committing();
    }

    fn wait_for_commit(&self, attempt: Attempt) {
        if !attempt.request.waits {
            let why = "the partition holds as much that is not committed as it may".into();
            return self.refuse(attempt.request, AppendRefusal::JournalFull { why });
        }
        let mut rooms = self.waiting.for_commit.borrow_mut();
        rooms.entry(attempt.request.partition).or_default().push(attempt);
    }

    /// Tries again the appends of partitions that held too much that was not committed.
    pub(super) fn append_committing(&self) {
        let waiting: Vec<PartitionId> = self.waiting.for_commit.borrow().keys().copied().collect();
        for id in waiting {
            // Its place is kept meanwhile: what comes has to queue.
            let take = || self.waiting.for_commit.borrow_mut().get_mut(&id)?.pop_wanted();
            while let Some(attempt) = take() {
                turns::spend(attempt.request.batch.len());
                match self.append_one(attempt) {
                    Attempted::Done => {}
                    Attempted::NoRoomInJournal(attempt)
                    | Attempted::NoRoomInMemory(attempt)
                    | Attempted::NoRoomToCommit(attempt) => {
                        let mut rooms = self.waiting.for_commit.borrow_mut();
                        rooms.entry(id).or_default().put_back(attempt);
                        break;
                    }
                }
                if turns::is_spent() {
                    return self.flushing.want_another_turn();
                }
            }
            let mut rooms = self.waiting.for_commit.borrow_mut();
            if rooms.get(&id).is_some_and(WaitingRoom::is_empty) {
                rooms.remove(&id);
            }
        }
    }

    /// Refuses all batches that wait to be appended.
    pub(super) fn refuse_waiting(&self, refusal: &AppendRefusal) {
        let rooms = [&self.waiting.for_journal, &self.waiting.for_memory];
        let for_room = rooms.into_iter().flat_map(|room| room.borrow_mut().take_all());
        let for_commit = std::mem::take(&mut *self.waiting.for_commit.borrow_mut());
        let for_commit = for_commit.into_values().flat_map(|mut room| room.take_all());
        let for_position = self.claims.take_all();
        let for_word = self.verifying.take_all();
        for request in for_room
            .chain(for_commit)
            .chain(for_position)
            .chain(for_word)
            .chain(self.examinations.take_all())
        {
            self.refuse(request, refusal.clone());
        }
        assert!(self.waiting.len() == 0, "all that waited for room were told");
        self.examinations.note_room();
    }

    pub(super) fn refuse(&self, request: AppendRequest, refusal: AppendRefusal) {
        match self.partitions.borrow().get(&request.partition) {
            Some(partition) => self.refuse_for(partition, request, refusal),
            None => refuse(request, refusal),
        }
    }

    fn refuse_for(&self, partition: &Partition, request: AppendRequest, refusal: AppendRefusal) {
        let is_condition = matches!(
            refusal,
            AppendRefusal::TailMoved { .. } | AppendRefusal::OffsetMoved { .. }
        );
        if !is_condition {
            let counters = partition.counters(request.partition.topic, &self.topic_book);
            counters.failed_appends.add(1);
        }
        refuse(request, refusal);
    }
}

fn whole(partition: Option<&mut Box<Partition>>) -> Option<&mut Partition> {
    partition.map(|partition| &mut **partition)
}

fn note_of_topic(counters: &TopicCounters, header: &BatchHeader) {
    counters.appended_records.add(header.record_count as u64);
    counters.appended_bytes.add(header.length_bytes as u64);
}

/// The facts about a batch that its leader needs.
///
/// # Errors
/// Its producer is one that is never handed out, or it is inside a transaction of no id.
pub(super) fn append_of(request: &AppendRequest, examined: &Examined) -> Result<Append, AppendRefusal> {
    let header = &examined.header;
    let mut producer = Stamp::of(header);
    if let Some(stamp) = &mut producer {
        if stamp.id.is_on_twin() {
            let unknown = SequenceError::NotHandedOut { id: stamp.id.0 };
            return Err(AppendRefusal::Leader(unknown.into()));
        }
        if request.is_of_twin && !planted(Bug::TwinSharesSequences) {
            stamp.id = stamp.id.on_twin();
        }
    }
    let is_inside = header.attributes.is_transactional();
    if is_inside && request.claim.is_none() && request.marker.is_none() {
        return Err(AppendRefusal::Unverified(Unverified::NoTransactionalId));
    }
    Ok(Append {
        record_count: header.record_count,
        max_timestamp_ms: examined.max_timestamp_found_ms,
        producer,
        inside: is_inside.then(|| Inside {
            permit: request.permit,
            from_zero: request.claim.as_ref().is_some_and(|claim| claim.adds),
        }),
    })
}

/// The id on the twin of a batch's producer, if it has one.
fn on_twin(header: &BatchHeader) -> Option<i64> {
    Stamp::of(header).map(|stamp| stamp.id.on_twin().0)
}

/// Takes the first append that is still wanted, and counts it to the turn.
fn take_first(room: &RefCell<WaitingRoom<Attempt>>) -> Option<Attempt> {
    let attempt = room.borrow_mut().pop_wanted()?;
    turns::spend(attempt.request.batch.len());
    Some(attempt)
}

fn refuse(request: AppendRequest, refusal: AppendRefusal) {
    // A client that has gone does not wait any more.
    let _ = request.reply.send(Err(refusal));
}
