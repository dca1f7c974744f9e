//! Batches of topics in memory that are answered and not flushed yet, by their frames: the bytes that a crash may cost.

use std::collections::VecDeque;

/// See the module.
#[derive(Default)]
pub(super) struct Unflushed {
    /// Frames of the journal in order, with the bytes of such batches in each.
    frames: VecDeque<(u64, usize)>,
    bytes: usize,
}

impl Unflushed {
    /// The bytes in all frames.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Counts a batch to a frame, which is the last or a new one.
    pub(super) fn note(&mut self, frame: u64, bytes: usize) {
        assert!(
            self.frames.back().is_none_or(|(last, _)| *last <= frame),
            "batches are staged in the order of frames"
        );
        match self.frames.back_mut() {
            Some((last, sum)) if *last == frame => *sum += bytes,
            _ => self.frames.push_back((frame, bytes)),
        }
        self.bytes += bytes;
    }

    /// Forgets the frames that are durable by now.
    pub(super) fn settle(&mut self, is_durable: impl Fn(u64) -> bool) {
        while let Some((frame, bytes)) = self.frames.front().copied() {
            if !is_durable(frame) {
                return;
            }
            self.frames.pop_front();
            self.bytes -= bytes;
        }
        assert!(self.bytes == 0, "all that was answered is counted to a frame");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_durable_counts_no_more() {
        let mut unflushed = Unflushed::default();
        for (frame, bytes) in [(3, 10), (3, 20), (5, 1)] {
            unflushed.note(frame, bytes);
        }
        assert_eq!(unflushed.bytes(), 31);
        unflushed.settle(|frame| frame < 3);
        assert_eq!(unflushed.bytes(), 31);
        unflushed.settle(|frame| frame < 5);
        assert_eq!(unflushed.bytes(), 1);
        unflushed.note(5, 2);
        unflushed.settle(|_| true);
        assert_eq!(unflushed.bytes(), 0);
    }
}
