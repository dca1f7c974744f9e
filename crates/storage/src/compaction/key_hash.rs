//! SipHash-2-4 with 128 bits (Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012), for keys of records.
//!
//! The map of a pass keeps hashes instead of keys: two keys with the same hash would be taken for one, and the older one's
//! record would be lost. A keyed hash with a secret drawn for each pass leaves that to chance alone (about one in 2^87 for
//! a map of 2^20 keys and 2^21 records compared), also where somebody chooses keys to make it happen.

use record::KeyDigest;

/// The secret of a pass.
pub(super) type HashKey = [u64; 2];

/// The hash of a key, or of what was shown of it.
#[derive(Debug, Clone)]
pub(crate) struct KeyHash {
    v0: u64,
    v1: u64,
    v2: u64,
    v3: u64,
    /// Bytes that do not fill a word yet; the length tells their number.
    waiting: [u8; 8],
    length: usize,
}

impl KeyHash {
    /// Of no bytes yet, under `key`.
    pub(super) fn new(key: HashKey) -> KeyHash {
        KeyHash {
            v0: key[0] ^ 0x736f_6d65_7073_6575,
            v1: key[1] ^ 0x646f_7261_6e64_6f6d ^ 0xee,
            v2: key[0] ^ 0x6c79_6765_6e65_7261,
            v3: key[1] ^ 0x7465_6462_7974_6573,
            waiting: [0; 8],
            length: 0,
        }
    }

    fn rounds(&mut self, count: usize) {
        for _ in 0..count {
            self.v0 = self.v0.wrapping_add(self.v1);
            self.v1 = self.v1.rotate_left(13) ^ self.v0;
            self.v0 = self.v0.rotate_left(32);
            self.v2 = self.v2.wrapping_add(self.v3);
            self.v3 = self.v3.rotate_left(16) ^ self.v2;
            self.v0 = self.v0.wrapping_add(self.v3);
            self.v3 = self.v3.rotate_left(21) ^ self.v0;
            self.v2 = self.v2.wrapping_add(self.v1);
            self.v1 = self.v1.rotate_left(17) ^ self.v2;
            self.v2 = self.v2.rotate_left(32);
        }
    }

    fn absorb(&mut self, word: u64) {
        self.v3 ^= word;
        self.rounds(2);
        self.v0 ^= word;
    }

    fn sum(&self) -> u64 {
        self.v0 ^ self.v1 ^ self.v2 ^ self.v3
    }

    /// The 128 bits.
    pub(super) fn finish(&self) -> [u64; 2] {
        let mut state = self.clone();
        // The rest, and the length's lowest byte on top.
        let mut last = [0; 8];
        let left = self.length % 8;
        last[..left].copy_from_slice(&self.waiting[..left]);
        last[7] = self.length as u8;
        state.absorb(u64::from_le_bytes(last));
        state.v2 ^= 0xee;
        state.rounds(4);
        let low = state.sum();
        state.v1 ^= 0xdd;
        state.rounds(4);
        [low, state.sum()]
    }
}

impl KeyDigest for KeyHash {
    fn update(&mut self, mut piece: &[u8]) {
        let waiting = self.length % 8;
        self.length += piece.len();
        if waiting > 0 {
            let (some, rest) = piece.split_at(piece.len().min(8 - waiting));
            self.waiting[waiting..][..some.len()].copy_from_slice(some);
            if waiting + some.len() < 8 {
                return;
            }
            self.absorb(u64::from_le_bytes(self.waiting));
            piece = rest;
        }
        let mut words = piece.chunks_exact(8);
        for word in words.by_ref() {
            self.absorb(u64::from_le_bytes(word.try_into().expect("eight bytes")));
        }
        let left = words.remainder();
        self.waiting[..left.len()].copy_from_slice(left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(key: HashKey, bytes: &[u8]) -> [u64; 2] {
        let mut hash = KeyHash::new(key);
        hash.update(bytes);
        hash.finish()
    }

    /// The first of the reference implementation's test vectors: key 00…0f, input 00, 01, … of growing length.
    #[test]
    fn the_reference_vectors() {
        let key = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];
        let expected: [[u8; 16]; 3] = [
            [
                0xa3, 0x81, 0x7f, 0x04, 0xba, 0x25, 0xa8, 0xe6, 0x6d, 0xf6, 0x72, 0x14, 0xc7, 0x55, 0x02,
                0x93,
            ],
            [
                0xda, 0x87, 0xc1, 0xd8, 0x6b, 0x99, 0xaf, 0x44, 0x34, 0x76, 0x59, 0x11, 0x9b, 0x22, 0xfc,
                0x45,
            ],
            [
                0x81, 0x77, 0x22, 0x8d, 0xa4, 0xa4, 0x5d, 0xc7, 0xfc, 0xa3, 0x8b, 0xde, 0xf6, 0x0a, 0xff,
                0xe4,
            ],
        ];
        for (length, expected) in expected.iter().enumerate() {
            let input: Vec<u8> = (0..length as u8).collect();
            let [low, high] = hash(key, &input);
            assert_eq!([low.to_le_bytes(), high.to_le_bytes()].concat(), expected);
        }
    }

    #[test]
    fn every_byte_and_the_length_count() {
        let mut seen = std::collections::BTreeSet::new();
        for length in 0..40 {
            assert!(seen.insert(hash([1, 2], &vec![0; length])));
            for at in 0..length {
                let mut bytes = vec![0; length];
                bytes[at] = 1;
                assert!(seen.insert(hash([1, 2], &bytes)));
            }
        }
        assert_ne!(hash([1, 2], b"a"), hash([1, 3], b"a"));
    }
    #[test]
    fn pieces_make_what_the_whole_makes() {
        let bytes: Vec<u8> = (0..40).collect();
        for first in 0..=bytes.len() {
            for second in first..=bytes.len() {
                let mut hash_of_pieces = KeyHash::new([1, 2]);
                for piece in [&bytes[..first], &bytes[first..second], &bytes[second..]] {
                    hash_of_pieces.update(piece);
                }
                assert_eq!(hash_of_pieces.finish(), hash([1, 2], &bytes), "{first}, {second}");
            }
        }
    }
}
