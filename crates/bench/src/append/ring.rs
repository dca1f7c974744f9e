//! The payloads of an append run: those of the contract, a few thousand of them made before the run and then used round and round.
//!
//! Made one by one as the comparison's driver must, whose records are told apart by number, small records would cost the client a
//! third more of its time. Here a record is found again by its offset.

use crate::contract::payload::Payloads;

/// Bytes of all payloads together, about: read in order, they cost next to nothing.
const RING_BYTES: usize = 1 << 20;
/// The fewest payloads, however large each is.
const PAYLOADS_MIN: usize = 8;
/// The most: more would not make records more different.
const PAYLOADS_MAX: usize = 8192;
/// So far apart producers begin, so that those of one partition send different payloads.
const APART: u64 = 997;

/// Payloads of one length, the same for every run.
#[derive(Debug)]
pub(super) struct Ring {
    bytes: Vec<u8>,
    record_bytes: usize,
    count: usize,
}

impl Ring {
    /// Payloads of `record_bytes` each.
    pub(super) fn new(record_bytes: usize) -> Ring {
        let count = (RING_BYTES / record_bytes.max(1)).clamp(PAYLOADS_MIN, PAYLOADS_MAX);
        let payloads = Payloads::of_any_length(record_bytes);
        let mut bytes = vec![0; count * record_bytes];
        // Records of no bytes at all leave nothing to write.
        for (number, payload) in (0..).zip(bytes.chunks_exact_mut(record_bytes.max(1))) {
            payloads.write(0, number, payload);
        }
        Ring {
            bytes,
            record_bytes,
            count,
        }
    }

    /// That of a producer's record of this number.
    #[inline]
    pub(super) fn payload(&self, producer: u32, sequence: u64) -> &[u8] {
        let number = (u64::from(producer) * APART + sequence) % self.count as u64;
        let start = number as usize * self.record_bytes;
        &self.bytes[start..start + self.record_bytes]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_have_the_length_asked_for_and_differ() {
        for record_bytes in [1, 15, 16, 100, 4096, 1 << 20] {
            let ring = Ring::new(record_bytes);
            for sequence in 0..20 {
                let payload = ring.payload(3, sequence);
                assert_eq!(payload.len(), record_bytes);
                assert!(payload.iter().all(u8::is_ascii_alphanumeric));
            }
            assert!(record_bytes == 1 || ring.payload(0, 0) != ring.payload(0, 1));
        }
        assert_eq!(Ring::new(0).payload(1, 7), b"");
    }

    #[test]
    fn they_are_the_same_in_every_run_and_come_round() {
        let (one, other) = (Ring::new(100), Ring::new(100));
        assert_eq!(one.payload(2, 17), other.payload(2, 17));
        assert_eq!(one.payload(0, 17), one.payload(0, 17 + one.count as u64));
        assert_ne!(one.payload(0, 17), one.payload(1, 17));
    }
}
