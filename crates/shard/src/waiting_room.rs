//! Appends that wait in the order they came: to be examined (`examinations`), then for room in the journal, or, in topics in
//! memory, for flushes and layout to catch up. Each of the three has a room of its own.
//!
//! Appends here must not keep more memory than their senders were given. A sender that gives up waiting has its room again and
//! may send as much anew. So appends that nobody waits for are dropped before they are more than all that came before them.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use record::PartitionId;
use storage::BatchBytes;
use tokio::sync::Notify;

use super::append::Approved;
use super::unflushed::Unflushed;
use super::{Acks, AppendRequest};

/// Bytes that may come before they are worth a look at all that waits.
const SWEEP_BYTES_MIN: usize = 1 << 20;

/// An append whose batch was examined: what was found is the same at the next attempt.
pub(super) struct Attempt {
    pub(super) request: AppendRequest,
    pub(super) approved: Approved,
}

/// An append that waits in a room, examined or not.
pub(super) trait Waits {
    fn request(&self) -> &AppendRequest;
    fn request_mut(&mut self) -> &mut AppendRequest;
    fn into_request(self) -> AppendRequest;

    /// Bytes of its batch that nobody has sent.
    fn grown_bytes(&self) -> usize {
        0
    }
}

impl Waits for AppendRequest {
    fn request(&self) -> &AppendRequest {
        self
    }

    fn request_mut(&mut self) -> &mut AppendRequest {
        self
    }

    fn into_request(self) -> AppendRequest {
        self
    }
}

impl Waits for Attempt {
    fn request(&self) -> &AppendRequest {
        &self.request
    }

    fn request_mut(&mut self) -> &mut AppendRequest {
        &mut self.request
    }

    fn into_request(self) -> AppendRequest {
        self.request
    }

    fn grown_bytes(&self) -> usize {
        self.approved.grown_bytes
    }
}

/// See the module.
pub(super) struct WaitingRoom<A> {
    queue: VecDeque<A>,
    /// The number of appends in the queue for each partition.
    partitions: BTreeMap<PartitionId, usize>,
    /// Bytes of the appends that were still waited for at the last look at all.
    swept_bytes: usize,
    /// Bytes that have come since. The next look is made when they are as many: each byte pays for one.
    added_bytes: usize,
    /// Bytes by which the batches in the queue have grown.
    grown_bytes: usize,
}

impl<A> Default for WaitingRoom<A> {
    fn default() -> WaitingRoom<A> {
        WaitingRoom {
            queue: VecDeque::new(),
            partitions: BTreeMap::new(),
            swept_bytes: 0,
            added_bytes: 0,
            grown_bytes: 0,
        }
    }
}

impl<A: Waits> WaitingRoom<A> {
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    /// Bytes that the batches that wait here have beside those that were sent.
    pub(super) fn grown_bytes(&self) -> usize {
        self.grown_bytes
    }

    /// Says whether an append to this partition waits here.
    pub(super) fn has(&self, partition: PartitionId) -> bool {
        self.partitions.contains_key(&partition)
    }

    /// Puts an append behind all others.
    pub(super) fn push(&mut self, mut attempt: A) {
        let request = attempt.request_mut();
        // The request whose memory it shares may be of any size, and its rest is of no use any more.
        if let BatchBytes::Shared(batch) = &request.batch {
            request.batch = Bytes::copy_from_slice(batch).into();
        }
        self.added_bytes += held_bytes(&attempt);
        self.grown_bytes += attempt.grown_bytes();
        self.note(attempt.request().partition);
        self.queue.push_back(attempt);
        if self.added_bytes > self.swept_bytes.max(SWEEP_BYTES_MIN) {
            self.sweep();
        }
    }

    /// Takes the first one.
    pub(super) fn pop(&mut self) -> Option<A> {
        let attempt = self.queue.pop_front()?;
        self.forget(attempt.request().partition);
        self.swept_bytes = self.swept_bytes.saturating_sub(held_bytes(&attempt));
        self.grown_bytes -= attempt.grown_bytes();
        if self.queue.is_empty() {
            assert!(
                self.partitions.is_empty(),
                "an empty room holds no partition's appends up"
            );
            assert!(
                self.grown_bytes == 0,
                "the bytes that are counted are those that wait"
            );
            self.added_bytes = 0;
        }
        Some(attempt)
    }

    /// Takes the first one that is still wanted, and lets go of those before it.
    pub(super) fn pop_wanted(&mut self) -> Option<A> {
        loop {
            let attempt = self.pop()?;
            let request = attempt.request();
            if !request.reply.is_closed() || request.acks == Acks::None {
                return Some(attempt);
            }
        }
    }

    /// Gives the first one back.
    pub(super) fn put_back(&mut self, attempt: A) {
        self.swept_bytes += held_bytes(&attempt);
        self.grown_bytes += attempt.grown_bytes();
        self.note(attempt.request().partition);
        self.queue.push_front(attempt);
    }

    /// Takes all.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = AppendRequest> + use<A> {
        let all = std::mem::take(self).queue;
        all.into_iter().map(Waits::into_request)
    }

    /// Drops the appends that nobody waits for any more: clients that gave up will send them again. Those whose clients want no
    /// answer go as well: they have no place but memory while there is no room.
    fn sweep(&mut self) {
        self.queue.retain(|attempt| !attempt.request().reply.is_closed());
        self.partitions.clear();
        for attempt in &self.queue {
            *self.partitions.entry(attempt.request().partition).or_default() += 1;
        }
        self.swept_bytes = self.queue.iter().map(held_bytes).sum();
        self.grown_bytes = self.queue.iter().map(Waits::grown_bytes).sum();
        self.added_bytes = 0;
    }

    fn note(&mut self, partition: PartitionId) {
        *self.partitions.entry(partition).or_default() += 1;
    }

    fn forget(&mut self, partition: PartitionId) {
        let left = self
            .partitions
            .get_mut(&partition)
            .expect("what waits was noted when it came");
        *left -= 1;
        if *left == 0 {
            self.partitions.remove(&partition);
        }
    }
}

/// The rooms in front of the journal and of memory, and the bytes that fill the latter.
#[derive(Default)]
pub(super) struct WaitingRooms {
    /// Appends that the journal had no room for. While there are any, all others queue behind.
    pub(super) for_journal: RefCell<WaitingRoom<Attempt>>,
    /// Appends to topics in memory that are too far ahead of their flushes or of layout. Only those of the same partitions queue
    /// behind. None here came after one of its partition in the other room.
    pub(super) for_memory: RefCell<WaitingRoom<Attempt>>,
    /// Appends of partitions with other replicas that hold as much that is not committed as they may, each partition's in a room of
    /// its own: one that has no quorum holds up no other. None here came after one of its partition in the other rooms.
    pub(super) for_commit: RefCell<BTreeMap<PartitionId, WaitingRoom<Attempt>>>,
    /// Batches of topics in memory that were answered: those of other topics are not before they are flushed.
    pub(super) unflushed: RefCell<Unflushed>,
    /// Background work failed while appends wait for room: they may for long.
    pub(super) starved: Notify,
}

impl WaitingRooms {
    /// The number of appends that wait for room, in the journal, in memory or for what is not committed.
    pub(super) fn len(&self) -> usize {
        let for_commit = self.for_commit.borrow();
        let for_commit: usize = for_commit.values().map(WaitingRoom::len).sum();
        self.for_journal.borrow().len() + self.for_memory.borrow().len() + for_commit
    }
}

/// Bytes that an append takes while it waits here: nothing is shared any more.
fn held_bytes<A: Waits>(attempt: &A) -> usize {
    let kept = match &attempt.request().batch {
        BatchBytes::Alone(memory) => memory.bytes(),
        BatchBytes::Shared(copy) => copy.len(),
    };
    size_of_val(attempt) + kept
}

#[cfg(test)]
mod tests {
    use bytes::BufMut;
    use record::TopicId;
    use storage::BatchMemory;

    use super::super::AppendAnswer;
    use super::*;

    fn attempt(batch: Bytes) -> (AppendRequest, AppendAnswer) {
        attempt_of(batch.into())
    }

    fn attempt_of(batch: BatchBytes) -> (AppendRequest, AppendAnswer) {
        AppendRequest::new(partition(0), batch, Acks::Quorum)
    }

    fn partition(index: i32) -> PartitionId {
        PartitionId {
            topic: TopicId([1; 16]),
            index,
        }
    }

    /// A batch received where it can stay, with so much of its request behind it.
    fn alone(batch_bytes: usize, rest_bytes: usize) -> BatchBytes {
        let mut memory = BatchMemory::for_request(0, batch_bytes + rest_bytes);
        memory.rest().put_bytes(7, batch_bytes + rest_bytes);
        let (request, memory) = memory.share();
        let batch = request.slice(..batch_bytes);
        drop(request);
        memory.reclaim(batch)
    }

    fn held(room: &WaitingRoom<AppendRequest>) -> usize {
        room.queue.iter().map(held_bytes).sum()
    }

    #[test]
    fn what_nobody_waits_for_goes_wherever_it_stands() {
        let mut room = WaitingRoom::default();
        let mut answers = Vec::new();
        let mut waited_for = 0;
        for number in 0..4_000_u32 {
            // The first waits for ever, and others in between.
            let waits = number % 40 == 0;
            let mut batch = vec![0; 20_000];
            batch[..4].copy_from_slice(&number.to_be_bytes());
            let (attempt, answer) = attempt(batch.into());
            if waits {
                waited_for += held_bytes(&attempt);
                answers.push(answer);
            }
            room.push(attempt);
            let most = waited_for + waited_for.max(SWEEP_BYTES_MIN) + 50_000;
            assert!(held(&room) <= most, "{number}");
        }
        let mut kept = Vec::new();
        while let Some(request) = room.pop_wanted() {
            kept.push(u32::from_be_bytes(
                request.batch[..4].try_into().expect("four bytes"),
            ));
        }
        let expected: Vec<u32> = (0..4_000).step_by(40).collect();
        assert_eq!(kept, expected, "who waits keeps its place");
    }

    #[test]
    fn what_waited_before_makes_no_room_for_what_nobody_waits_for() {
        const BATCH_BYTES: usize = 100_000;
        let batch = Bytes::from(vec![7; BATCH_BYTES]);
        for left in [0, 1] {
            let mut room = WaitingRoom::default();
            let mut answers = Vec::new();
            for _ in 0..200 {
                let (attempt, answer) = attempt(batch.clone());
                room.push(attempt);
                answers.push(answer);
            }
            while room.len() > left {
                room.pop();
            }
            if let Some(first) = room.pop() {
                room.put_back(first);
            }
            let most = (left + 2) * (BATCH_BYTES + 1_000) + SWEEP_BYTES_MIN;
            for _ in 0..200 {
                let (attempt, _) = attempt(batch.clone());
                room.push(attempt);
                assert!(held(&room) <= most, "{} after {left}", held(&room));
            }
        }
    }

    #[test]
    fn a_batch_does_not_keep_the_request_that_it_shares() {
        let frame = Bytes::from(vec![7; 1 << 20]);
        for batch_bytes in [10, 300_000, 1 << 20] {
            let mut room = WaitingRoom::default();
            let (attempt, _answer) = attempt(frame.slice(..batch_bytes));
            assert!(!frame.is_unique());
            room.push(attempt);
            assert!(frame.is_unique(), "{batch_bytes}");
            let request = room.pop().expect("it waits");
            assert_eq!(request.batch.len(), batch_bytes);
            assert!(request.batch.iter().all(|byte| *byte == 7));
        }
    }

    #[test]
    fn a_batch_that_is_alone_counts_with_all_its_memory_or_gives_it_up() {
        for (batch_bytes, rest_bytes, stays) in [
            (300_000, 10, true),
            (300_000, 30_000, true),
            (300_000, 60_000, false),
            (10, 300_000, false),
        ] {
            let mut room = WaitingRoom::default();
            let (attempt, _answer) = attempt_of(alone(batch_bytes, rest_bytes));
            assert_eq!(matches!(attempt.batch, BatchBytes::Alone(_)), stays);
            room.push(attempt);
            let taken = match stays {
                true => batch_bytes + rest_bytes,
                false => batch_bytes,
            };
            let counted = room.added_bytes;
            assert!((taken..taken + 10_000).contains(&counted), "{counted} of {taken}");
            let request = room.pop().expect("it waits");
            assert_eq!(request.batch.len(), batch_bytes);
        }
    }

    #[test]
    fn the_first_can_be_given_back_and_all_be_taken() {
        let mut room = WaitingRoom::default();
        let answers: Vec<AppendAnswer> = [b"a", b"b", b"c"]
            .map(|batch| {
                let (attempt, answer) = attempt(Bytes::from_static(batch));
                room.push(attempt);
                answer
            })
            .into();
        let first = room.pop().expect("it waits");
        room.put_back(first);
        let batches = room.take_all().map(|request| request.batch[0]);
        assert_eq!(batches.collect::<Vec<_>>(), b"abc");
        assert!(room.is_empty());
        drop(answers);
    }

    #[test]
    fn a_partition_is_here_for_as_long_as_one_of_its_appends_is() {
        let mut room = WaitingRoom::default();
        let answers: Vec<AppendAnswer> = [1, 2, 1]
            .map(|index| {
                let (mut attempt, answer) = attempt(Bytes::from_static(b"a"));
                attempt.partition = partition(index);
                room.push(attempt);
                answer
            })
            .into();
        let here = |room: &WaitingRoom<AppendRequest>| [0, 1, 2].map(|index| room.has(partition(index)));
        let first = room.pop().expect("it waits");
        assert_eq!(here(&room), [false, true, true]);
        room.put_back(first);
        room.pop();
        room.pop();
        assert_eq!(here(&room), [false, true, false]);
        drop(answers);
        room.sweep();
        assert_eq!(here(&room), [false; 3]);
        assert!(room.pop().is_none());
    }
}
