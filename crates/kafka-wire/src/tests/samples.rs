//! Random content from a seed, the same for the same seed: the hand-written half of `generated::samples`.

use bytes::Bytes;

use crate::{ApiKey, Decode, Encode, RecordChunks, Text};

/// A value that can be filled with random content.
pub(crate) trait Sample: Sized {
    /// A value in which exactly the fields of `version` may differ from their defaults.
    fn sample(seed: &mut Seed, version: i16) -> Self;
}

/// Something to do with every message.
pub(crate) trait Visitor {
    /// Called once for each request and each response.
    fn visit<M: Sample + Decode + Encode + PartialEq + std::fmt::Debug + Default>(&mut self, api: ApiKey);
}

/// A source of numbers (splitmix64).
pub(crate) struct Seed(pub(crate) u64);

impl Seed {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    pub(crate) fn coin(&mut self) -> bool {
        self.below(2) == 0
    }

    pub(crate) fn maybe<T>(&mut self, value: impl FnOnce(&mut Seed) -> T) -> Option<T> {
        if self.below(3) == 0 {
            None
        } else {
            Some(value(self))
        }
    }

    pub(crate) fn several<T>(&mut self, mut value: impl FnMut(&mut Seed) -> T) -> Vec<T> {
        (0..self.below(3)).map(|_| value(self)).collect()
    }

    pub(crate) fn text(&mut self) -> Text {
        // Long enough at times that a compact length takes two bytes.
        let length = if self.below(8) == 0 {
            120 + self.below(40)
        } else {
            self.below(12)
        };
        let letters = ['a', 'Z', '.', 'é', '繩'];
        Text::from(
            (0..length)
                .map(|_| letters[self.below(5) as usize])
                .collect::<String>(),
        )
    }

    pub(crate) fn bytes(&mut self) -> Bytes {
        // On both sides of the size from which bytes are not copied.
        let length = if self.below(4) == 0 {
            1000 + self.below(100)
        } else {
            self.below(20)
        };
        (0..length).map(|_| self.next() as u8).collect()
    }

    pub(crate) fn uuid(&mut self) -> [u8; 16] {
        (u128::from(self.next()) << 64 | u128::from(self.next())).to_be_bytes()
    }

    pub(crate) fn record_chunks(&mut self) -> RecordChunks {
        RecordChunks {
            chunks: self.several(Seed::bytes),
        }
    }
}
