//! Reads of batches that are in memory, in frames that wait to be laid out.
//!
//! An answer shares the memory that frames lie in, often many of them side by side. Where it takes little of such memory it takes
//! a copy: else a reader who is slow to take a few bytes would keep far more than is counted for it, and readers together
//! whatever is appended meanwhile.

use bytes::Bytes;

use super::pieces::SHARED_PART;
use crate::slab::FrameMemory;

/// The batches of a read, out of one memory after the other.
#[derive(Default)]
pub(super) struct Resident {
    batches: Vec<Bytes>,
    /// The memory of the last ones, from `shared_from` on; none if they are copies.
    memory: Option<FrameMemory>,
    shared_from: usize,
    shared_bytes: usize,
}

impl Resident {
    /// Takes the next batch, which lies in this memory; in none if it is a copy.
    pub(super) fn push(&mut self, batch: Bytes, memory: Option<FrameMemory>) {
        if memory != self.memory {
            self.leave_memory();
            self.memory = memory;
            self.shared_from = self.batches.len();
            self.shared_bytes = 0;
        }
        self.shared_bytes += batch.len();
        self.batches.push(batch);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    /// All of them, in order. Those that were copied together are one element.
    pub(super) fn into_batches(mut self) -> Vec<Bytes> {
        self.leave_memory();
        self.batches
    }

    fn leave_memory(&mut self) {
        let is_little = |memory: FrameMemory| self.shared_bytes < memory.bytes / SHARED_PART;
        if self.memory.is_some_and(is_little) {
            let copied = self.batches[self.shared_from..].concat();
            self.batches.truncate(self.shared_from);
            self.batches.push(copied.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(bytes: &Bytes) -> Option<FrameMemory> {
        Some(FrameMemory::of(bytes))
    }

    #[test]
    fn most_of_a_memory_is_shared_and_little_is_copied() {
        let (first, second) = (Bytes::from(vec![1; 1_000]), Bytes::from(vec![2; 1_000]));
        let mut found = Resident::default();
        found.push(first.slice(0..300), memory(&first));
        found.push(first.slice(400..700), memory(&first));
        found.push(second.slice(0..200), memory(&second));
        found.push(second.slice(500..700), memory(&second));
        let batches = found.into_batches();
        assert_eq!(batches.concat(), [[1; 600].as_slice(), &[2; 400]].concat());
        let lengths: Vec<_> = batches.iter().map(Bytes::len).collect();
        assert_eq!(lengths, [300, 300, 400]);
        assert_eq!(batches[0].as_ptr(), first.as_ptr());
        assert!(second.is_unique(), "nothing refers to it any more");
    }

    #[test]
    fn copies_stay_as_they_are() {
        let (frame, copy) = (Bytes::from(vec![1; 1_000]), Bytes::from(vec![2; 10]));
        let mut found = Resident::default();
        found.push(frame.slice(..10), memory(&frame));
        found.push(copy.clone(), None);
        let batches = found.into_batches();
        assert_eq!(batches.len(), 2);
        assert_eq!(batches[1].as_ptr(), copy.as_ptr());
    }
}
