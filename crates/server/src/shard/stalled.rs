//! Appends that the journal has no room for, in the order they came.
//!
//! What waits here must not keep more memory than its senders were given. Whoever gives up waiting has that room again and may
//! send as much anew: so what nobody waits for goes, before it is more than all that came before it.

use std::collections::VecDeque;

use bytes::Bytes;
use storage::BatchMemory;

use super::AppendRequest;

/// So much may come before it is worth a look at all that waits.
const SWEEP_BYTES_MIN: usize = 1 << 20;

/// See the module.
#[derive(Default)]
pub(super) struct Stalled {
    queue: VecDeque<AppendRequest>,
    /// What was waited for when all were looked at.
    swept_bytes: usize,
    /// What has come since. Only when it is as much is there another look: each byte pays for one.
    added_bytes: usize,
}

impl Stalled {
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Puts an append behind all others.
    pub(super) fn push(&mut self, mut request: AppendRequest) {
        if request.batch.len() < BatchMemory::REQUEST_BYTES_MIN {
            // Small batches would keep all of the request that they came in.
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
        self.queue.pop_front()
    }

    /// Gives the first one back.
    pub(super) fn put_back(&mut self, request: AppendRequest) {
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

fn held_bytes(request: &AppendRequest) -> usize {
    size_of_val(request) + request.batch.len()
}

#[cfg(test)]
mod tests {
    use record::{PartitionId, TopicId};
    use tokio::sync::oneshot;

    use super::super::{Acks, AppendOutcome, AppendRefusal};
    use super::*;

    type Answer = oneshot::Receiver<Result<AppendOutcome, AppendRefusal>>;

    fn request(batch: Bytes) -> (AppendRequest, Answer) {
        let (reply, answer) = oneshot::channel();
        let partition = PartitionId {
            topic: TopicId([1; 16]),
            index: 0,
        };
        let request = AppendRequest {
            partition,
            batch: batch.into(),
            acks: Acks::Quorum,
            reply,
        };
        (request, answer)
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
    fn a_small_batch_does_not_keep_its_request() {
        let mut stalled = Stalled::default();
        let frame = Bytes::from(vec![7; 1 << 20]);
        let (request, _answer) = request(frame.slice(10..20));
        assert!(!frame.is_unique());
        stalled.push(request);
        assert!(frame.is_unique());
        let request = stalled.pop().expect("it waits");
        assert_eq!(&request.batch[..], [7; 10]);
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
