//! Batches for replicas that lack them: read, sent in pieces, and no more at a time than there is room for on their way.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use platform::turns;
use protocol::history::BatchFacts;
use protocol::leader::NodeId;
use protocol::replica::Prompt;
use record::{Epoch, Offset, PartitionId};
use storage::RETRY_AFTER;
use tokio::task::yield_now;
use tokio::time::sleep;

use super::gaps::{Missing, Piece, Source, without_gaps};
use super::words::{Letter, Message, Word};
use crate::member::{AtHand, Shipment};
use crate::role::Role;
use crate::{AppendRefusal, ReadRefusal, Shard};

/// Read at a time for a replica that lacks batches: some 1,500 of the smallest, whose number takes the time.
const SHIPMENT_BYTES: usize = 256 << 10;
/// A batch makes as much work as looking through so many bytes, besides its own.
const BATCH_WORK_BYTES: usize = 2 << 10;
/// A producer that is looked at, likewise.
const PRODUCER_WORK_BYTES: usize = 64;

impl Shard {
    pub(super) fn ship_later(&self, id: PartitionId, shipment: Shipment) {
        let before = self.store.borrow().staged_before();
        let mut shipments = self.replication.shipments.borrow_mut();
        // An earlier order is void.
        shipments.retain(|(_, of, before)| (*of, before.to) != (id, shipment.to));
        match shipment.is_urgent {
            true => shipments.push_front((before, id, shipment)),
            false => shipments.push_back((before, id, shipment)),
        }
        self.replication.ships.notify_one();
    }

    pub(super) fn find_first_later(&self, id: PartitionId, log_start: Offset) {
        if self.replication.finds_again.borrow().contains(&id) {
            return;
        }
        let before = self.store.borrow().staged_before();
        let mut finds = self.replication.finds.borrow_mut();
        finds.retain(|(_, of, _)| *of != id);
        finds.push_back((before, id, log_start));
        self.replication.ships.notify_one();
    }

    /// Sends replicas the batches that they lack, one piece after the other, and answers where logs begin, in turn: neither keeps the other waiting.
    pub(super) async fn ship_for_ever(self: Rc<Self>) {
        loop {
            let Ok(found) = self.find_next().await else { return };
            let Ok(shipped) = self.ship_next().await else {
                return;
            };
            if !found && !shipped {
                self.replication.ships.notified().await;
            }
            if turns::is_spent() {
                yield_now().await;
            }
        }
    }

    /// Answers the next replica that asks where its first batch begins. Says whether there was one; an error ends all.
    async fn find_next(self: &Rc<Self>) -> Result<bool, AppendRefusal> {
        let next = self.replication.finds.borrow_mut().pop_front();
        let Some((before, id, log_start)) = next else {
            return Ok(false);
        };
        self.until_flushed(before).await?;
        self.find_first(id, log_start).await;
        Ok(true)
    }

    /// Sends the next piece. Says whether there was one; an error ends all.
    async fn ship_next(self: &Rc<Self>) -> Result<bool, AppendRefusal> {
        let next = self.replication.shipments.borrow_mut().pop_front();
        let Some((before, id, shipment)) = next else {
            return Ok(false);
        };
        self.until_flushed(before).await?;
        if let Err(error) = self.ship(id, &shipment).await {
            tracing::warn!(partition = %id, to = shipment.to.0, %error, "a replica could not be sent what it lacks");
            let shard = self.clone();
            turns::spawn(async move {
                sleep(RETRY_AFTER).await;
                // It may be gone.
                let _ = shard.hear(id, Word::Link(shipment.to));
            });
        }
        Ok(true)
    }

    /// Tells a replica where the batch at its log's start begins, or has it looked for again.
    async fn find_first(self: &Rc<Self>, id: PartitionId, log_start: Offset) {
        let found = self.read_batches(id, log_start, Offset(i64::MAX), 1).await;
        let first = match &found {
            Ok(bytes) => bytes
                .iter()
                .flat_map(|bytes| record::batches(bytes))
                .find_map(Result::ok),
            // The log begins elsewhere by now, and the replica asks for that.
            Err(ReadRefusal::OutOfRange { .. }) => None,
            Err(ReadRefusal::UnknownPartition) => return,
            Err(error) => {
                tracing::warn!(partition = %id, %log_start, %error, "the beginning of a log could not be read for a replica that lacks it");
                // Another question meanwhile has the same answer.
                self.replication.finds_again.borrow_mut().insert(id);
                let shard = self.clone();
                turns::spawn(async move {
                    sleep(RETRY_AFTER).await;
                    shard.replication.finds_again.borrow_mut().remove(&id);
                    shard.find_first_later(id, log_start);
                });
                return;
            }
        };
        let first = match first {
            Some((header, _)) if header.base_offset > log_start => self.start_of_gap(id, log_start),
            found => found.map_or(log_start, |(header, _)| header.base_offset),
        };
        // It may be gone.
        let _ = self.hear(id, Word::First { log_start, first });
    }

    /// An offset for a log to begin at whose own start lies in a gap. A batch began there in every copy of the log, and one epoch wrote all from
    /// there up to the start. The batches themselves are not known any more.
    fn start_of_gap(&self, id: PartitionId, log_start: Offset) -> Offset {
        let of_segment = self.store.borrow().segment_start(id, log_start);
        let partitions = self.partitions.borrow();
        match partitions.get(&id).map(|partition| &partition.role) {
            Some(Role::Member(member)) => {
                let of_epoch = member.replica.epoch_at_start();
                of_segment.map_or(of_epoch, |of_segment| of_segment.max(of_epoch))
            }
            _ => log_start,
        }
    }

    async fn ship(self: &Rc<Self>, id: PartitionId, shipment: &Shipment) -> Result<(), ReadRefusal> {
        let (first, until) = (shipment.first, shipment.next_offset);
        let room = self.replication.shipped.clone();
        let room = room.acquire_many_owned(SHIPMENT_BYTES as u32).await;
        let room = room.expect("nobody closes it");
        // The first batch may begin below the log.
        let log_start = self.log_start_of(id).unwrap_or(first);
        let found = self
            .read_batches(id, first.max(log_start), until, SHIPMENT_BYTES)
            .await;
        let bytes = match found {
            Err(ReadRefusal::UnknownPartition) => return Ok(()),
            // The beginning was given up meanwhile: the two compare again.
            Err(ReadRefusal::OutOfRange { .. }) => None,
            found => Some(found?),
        };
        let piece = match bytes {
            Some(bytes) => self.piece_of(id, shipment, bytes)?,
            None => Some(Piece::default()),
        };
        let Some(piece) = piece else { return Ok(()) };
        let Piece {
            facts: batches,
            bytes,
            producers,
            ..
        } = piece;
        let length = bytes.iter().map(Bytes::len).sum::<usize>();
        turns::spend(length + batches.len() * BATCH_WORK_BYTES + producers * PRODUCER_WORK_BYTES);
        self.counters.shipped_bytes.add(length as u64);
        let end = batches.last().map_or(first, BatchFacts::next_offset);
        let sent = batches.first().map(|batch| batch.first_offset);
        if let Some(writer_before) = sent.and_then(|sent| self.writer_before(id, sent)) {
            let prompt = Prompt::Append {
                epoch: shipment.epoch,
                writer_before,
                batches,
            };
            let mut letter = Letter::new(id, Message::Prompt(prompt, bytes));
            letter.room = Some(Arc::new(room));
            self.send_letter(shipment.to, letter);
        }
        self.shipped(id, shipment, end);
        if !shipment.is_urgent {
            self.keep_pace(shipment.to, length).await;
        }
        Ok(())
    }

    /// Makes a piece out of the batches that were found; `None` if the replica is gone.
    fn piece_of(
        &self,
        id: PartitionId,
        shipment: &Shipment,
        found: Vec<Bytes>,
    ) -> Result<Option<Piece>, ReadRefusal> {
        let partitions = self.partitions.borrow();
        let role = partitions.get(&id).map(|partition| &partition.role);
        let Some(Role::Member(member)) = role else {
            return Ok(None);
        };
        let store = self.store.borrow();
        let source = Source {
            replica: &member.replica,
            may_lack: &|first, next| store.may_lack(id, first, next),
        };
        let made = without_gaps(&source, shipment.first, shipment.next_offset, found);
        made.map(Some).map_err(|Missing { first, next }| {
            self.counters.faults.add(1);
            ReadRefusal::Fault(format!(
                "batches of offsets {first}..{next} are missing, and compaction has not taken them"
            ))
        })
    }

    /// The writer before an offset of a replica's log; `None` if it is gone.
    fn writer_before(&self, id: PartitionId, first: Offset) -> Option<Epoch> {
        match &self.partitions.borrow().get(&id)?.role {
            Role::Member(member) => Some(member.replica.writer_before(first)),
            Role::Lone(_) => None,
        }
    }

    /// Rests after a piece for a node. Each that is being filled may be sent twice what is appended.
    async fn keep_pace(&self, to: NodeId, length: usize) {
        let now = self.clock.monotonic();
        let filled: BTreeSet<NodeId> = {
            let shipments = self.replication.shipments.borrow();
            let waiting = shipments.iter().map(|(_, _, shipment)| shipment.to);
            waiting.chain([to]).collect()
        };
        let appended = self.counters.appended_bytes.get();
        let rate = self.settings.catch_up_rate;
        let rest = (self.replication.pace.borrow_mut()).rest_after(now, length, appended, rate, filled.len());
        if rest > Duration::ZERO {
            sleep(rest).await;
        }
    }

    /// Goes on with a replica that was sent something in the epoch that is led here still.
    fn shipped(&self, id: PartitionId, shipment: &Shipment, end: Offset) {
        let mut partitions = self.partitions.borrow_mut();
        let Some(partition) = partitions.get_mut(&id) else {
            return;
        };
        if let Role::Member(member) = &mut partition.role
            && member.led_epoch() == Some(shipment.epoch)
            && !member.is_given_up()
        {
            // It can lay out what is committed, and has room for more.
            self.send_tail(id, member, shipment.to);
            member.replica.handle_shipped(shipment.to, end);
            self.carry_out(id, partition, AtHand::nothing());
        }
    }
}
