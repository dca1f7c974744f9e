//! The values of records: random letters and digits, made before the run so that making them is not measured.

use platform::random::SeededRandom;

/// What values consist of: no compressor finds more in them than six bits a byte.
const LETTERS: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
/// Bytes of all values together, about: they should stay in the CPU's cache.
const POOL_BYTES: usize = 1 << 20;
/// The fewest values, however large each is.
const VALUES_MIN: usize = 8;
/// The most values: more would not make records more different.
const VALUES_MAX: usize = 8192;

/// A ring of values of one length, the same for every run.
#[derive(Debug)]
pub(crate) struct Payloads {
    bytes: Vec<u8>,
    record_bytes: usize,
    count: usize,
}

impl Payloads {
    /// Values of `record_bytes` each.
    pub(crate) fn new(record_bytes: usize) -> Payloads {
        let count = (POOL_BYTES / record_bytes.max(1)).clamp(VALUES_MIN, VALUES_MAX);
        let mut random = SeededRandom::new(record_bytes as u64);
        let letter = |_| LETTERS[random.below(LETTERS.len() as u64) as usize];
        Payloads {
            bytes: (0..count * record_bytes).map(letter).collect(),
            record_bytes,
            count,
        }
    }

    /// The value of a producer's `index`-th record.
    #[inline]
    pub(crate) fn value(&self, index: u64) -> &[u8] {
        let start = (index % self.count as u64) as usize * self.record_bytes;
        &self.bytes[start..start + self.record_bytes]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_letters_of_the_length_asked_for_and_differ() {
        for record_bytes in [1, 100, 4096, 1 << 20] {
            let payloads = Payloads::new(record_bytes);
            for index in 0..20 {
                let value = payloads.value(index);
                assert_eq!(value.len(), record_bytes);
                assert!(value.iter().all(u8::is_ascii_alphanumeric));
            }
            assert!(record_bytes == 1 || payloads.value(0) != payloads.value(1));
        }
        assert_eq!(Payloads::new(0).value(7), b"");
    }

    #[test]
    fn they_are_the_same_in_every_run_and_come_round() {
        let (one, other) = (Payloads::new(100), Payloads::new(100));
        assert_eq!(one.value(17), other.value(17));
        assert_eq!(one.value(17), one.value(17 + one.count as u64));
    }
}
