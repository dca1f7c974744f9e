//! Appends that the journal has no room for, in the order they came.
//!
//! What waits here must not keep more memory than its senders were given. Whoever gives up waiting has that room again and may
//! send as much anew: so what nobody waits for goes, before it is more than all that came before it.

use std::collections::VecDeque;

use bytes::Bytes;
use storage::BatchBytes;

use super::AppendRequest;

/// So much may come before it is worth a look at all that waits.
const SWEEP_BYTES_MIN: usize = 1 << 20;
/// A batch that keeps more than so many times its own bytes is copied.
const KEPT_TIMES_MAX: usize = 2;

/// See the module.
#[derive(Default)]
pub(super) struct Stalled {
    queue: VecDeque<AppendRequest>,
    /// What those of the queue take who were waited for when all were looked at.
    swept_bytes: usize,
    /// What has come since. Only when it is as much is there another look: each byte pays for one.
    added_bytes: usize,
}

impl Stalled {
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    /// Puts an append behind all others.
    pub(super) fn push(&mut self, mut request: AppendRequest) {
        if !is_most_of_what_it_keeps(&request.batch) {
            request.batch = Bytes::copy_from_slice(&request.batch).into();
        }
        self.added_bytes += held_bytes(&request);
        self.queue.push_back(request);
        if self.added_bytes > self.swept_bytes.max(SWEEP_BYTES_MIN) {
            self.sweep();
        }
    }

    /// Takes the first one.
    pub(super) fn pop(&mut self) -> Option<AppendRequest> {
        let request = self.queue.pop_front()?;
        self.swept_bytes = self.swept_bytes.saturating_sub(held_bytes(&request));
        if self.queue.is_empty() {
            self.added_bytes = 0;
        }
        Some(request)
    }

    /// Gives the first one back.
    pub(super) fn put_back(&mut self, request: AppendRequest) {
        self.swept_bytes += held_bytes(&request);
        self.queue.push_front(request);
    }

    /// Takes all.
    pub(super) fn take_all(&mut self) -> VecDeque<AppendRequest> {
        std::mem::take(self).queue
    }

    /// Drops what nobody waits for any more: clients that gave up will send it again. Nor is anything kept whose client wants no
    /// answer: it has no place but memory while the journal is full.
    fn sweep(&mut self) {
        self.queue.retain(|request| !request.reply.is_closed());
        self.swept_bytes = self.queue.iter().map(held_bytes).sum();
        self.added_bytes = 0;
    }
}

/// Whether little would be gained by copying a batch. What it shares may be a request of any size, whose rest nobody needs
/// any more.
fn is_most_of_what_it_keeps(batch: &BatchBytes) -> bool {
    match batch {
        BatchBytes::Alone(memory) => memory.bytes() <= KEPT_TIMES_MAX * batch.len(),
        BatchBytes::Shared(_) => false,
    }
}

/// What one that waits here takes: nothing is shared any more.
fn held_bytes(request: &AppendRequest) -> usize {
    let kept = match &request.batch {
        BatchBytes::Alone(memory) => memory.bytes(),
        BatchBytes::Shared(copy) => copy.len(),
    };
    size_of_val(request) + kept
}

#[cfg(test)]
mod tests {
    use bytes::BufMut;
    use record::{PartitionId, TopicId};
    use storage::BatchMemory;
    use tokio::sync::oneshot;

    use super::super::{Acks, AppendOutcome, AppendRefusal};
    use super::*;

    type Answer = oneshot::Receiver<Result<AppendOutcome, AppendRefusal>>;

    fn request(batch: Bytes) -> (AppendRequest, Answer) {
        request_of(batch.into())
    }

    fn request_of(batch: BatchBytes) -> (AppendRequest, Answer) {
        let (reply, answer) = oneshot::channel();
        let partition = PartitionId {
            topic: TopicId([1; 16]),
            index: 0,
        };
        let request = AppendRequest {
            partition,
            batch,
            acks: Acks::Quorum,
            reply,
        };
        (request, answer)
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

    fn held(stalled: &Stalled) -> usize {
        stalled.queue.iter().map(held_bytes).sum()
    }

    #[test]
    fn what_nobody_waits_for_goes_wherever_it_stands() {
        let mut stalled = Stalled::default();
        let mut answers = Vec::new();
        let mut waited_for = 0;
        for number in 0..4_000_u32 {
            // The first waits for ever, and others in between.
            let waits = number % 40 == 0;
            let mut batch = vec![0; 20_000];
            batch[..4].copy_from_slice(&number.to_be_bytes());
            let (request, answer) = request(batch.into());
            if waits {
                waited_for += held_bytes(&request);
                answers.push(answer);
            }
            stalled.push(request);
            let most = waited_for + waited_for.max(SWEEP_BYTES_MIN) + 50_000;
            assert!(held(&stalled) <= most, "{number}");
        }
        let mut kept = Vec::new();
        while let Some(request) = stalled.pop() {
            if !request.reply.is_closed() {
                kept.push(u32::from_be_bytes(
                    request.batch[..4].try_into().expect("four bytes"),
                ));
            }
        }
        let expected: Vec<u32> = (0..4_000).step_by(40).collect();
        assert_eq!(kept, expected, "who waits keeps its place");
    }

    #[test]
    fn what_waited_before_makes_no_room_for_what_nobody_waits_for() {
        const BATCH_BYTES: usize = 100_000;
        let batch = Bytes::from(vec![7; BATCH_BYTES]);
        for left in [0, 1] {
            let mut stalled = Stalled::default();
            let mut answers = Vec::new();
            for _ in 0..200 {
                let (request, answer) = request(batch.clone());
                stalled.push(request);
                answers.push(answer);
            }
            while stalled.len() > left {
                stalled.pop();
            }
            if let Some(first) = stalled.pop() {
                stalled.put_back(first);
            }
            let most = (left + 2) * (BATCH_BYTES + 1_000) + SWEEP_BYTES_MIN;
            for _ in 0..200 {
                let (request, _) = request(batch.clone());
                stalled.push(request);
                assert!(held(&stalled) <= most, "{} after {left}", held(&stalled));
            }
        }
    }

    #[test]
    fn a_batch_does_not_keep_the_request_that_it_shares() {
        let frame = Bytes::from(vec![7; 1 << 20]);
        for batch_bytes in [10, 300_000, 1 << 20] {
            let mut stalled = Stalled::default();
            let (request, _answer) = request(frame.slice(..batch_bytes));
            assert!(!frame.is_unique());
            stalled.push(request);
            assert!(frame.is_unique(), "{batch_bytes}");
            let request = stalled.pop().expect("it waits");
            assert_eq!(request.batch.len(), batch_bytes);
            assert!(request.batch.iter().all(|byte| *byte == 7));
        }
    }

    #[test]
    fn a_batch_that_is_alone_counts_with_all_its_memory_or_gives_it_up() {
        for (batch_bytes, rest_bytes, stays) in [
            (300_000, 10, true),
            (300_000, 200_000, true),
            (300_000, 600_000, false),
            (10, 300_000, false),
        ] {
            let mut stalled = Stalled::default();
            let (request, _answer) = request_of(alone(batch_bytes, rest_bytes));
            assert!(matches!(request.batch, BatchBytes::Alone(_)));
            stalled.push(request);
            let taken = match stays {
                true => batch_bytes + rest_bytes,
                false => batch_bytes,
            };
            let counted = stalled.added_bytes;
            assert!((taken..taken + 10_000).contains(&counted), "{counted} of {taken}");
            let request = stalled.pop().expect("it waits");
            assert_eq!(matches!(request.batch, BatchBytes::Alone(_)), stays);
            assert_eq!(request.batch.len(), batch_bytes);
        }
    }

    #[test]
    fn the_first_can_be_given_back_and_all_be_taken() {
        let mut stalled = Stalled::default();
        let answers: Vec<Answer> = [b"a", b"b", b"c"]
            .map(|batch| {
                let (request, answer) = request(Bytes::from_static(batch));
                stalled.push(request);
                answer
            })
            .into();
        let first = stalled.pop().expect("it waits");
        stalled.put_back(first);
        let batches = stalled.take_all().into_iter().map(|request| request.batch[0]);
        assert_eq!(batches.collect::<Vec<_>>(), b"abc");
        assert!(stalled.is_empty());
        drop(answers);
    }
}
