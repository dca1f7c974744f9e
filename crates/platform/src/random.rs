//! Randomness: from the operating system for identities and secrets, from a seed for simulation. The maker of a node hands it a
//! `Random`, so that one seed can decide all that it draws.
//!
//! The seeded generator is repeatable on every machine and for ever: a failing seed must stay a failing seed. It must
//! never be used for anything that someone could gain by guessing.

use std::sync::{Arc, Mutex, PoisonError};

use rustix::io::retry_on_intr;
use rustix::rand::{GetRandomFlags, getrandom};

/// `N` bytes from the operating system's generator, fit for identities and secrets. Panics if the system has none, for
/// then nothing that needs them could be done safely.
pub fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    let mut filled = 0;
    while filled < N {
        let count = retry_on_intr(|| getrandom(&mut bytes[filled..], GetRandomFlags::empty()))
            .expect("getrandom is there on every Linux this runs on");
        filled += count;
    }
    bytes
}

/// Where a node's random bytes come from. Clones draw from the same source.
#[derive(Debug, Clone)]
pub struct Random(Source);

#[derive(Debug, Clone)]
enum Source {
    System,
    Seeded(Arc<Mutex<SeededRandom>>),
}

impl Random {
    /// The operating system's generator, fit for identities and secrets.
    pub const SYSTEM: Random = Random(Source::System);

    /// A generator for simulations: whoever knows the seed knows all that is drawn.
    pub fn seeded(generator: SeededRandom) -> Random {
        Random(Source::Seeded(Arc::new(Mutex::new(generator))))
    }

    /// Draws `N` bytes. Panics if the system has none, for then nothing that needs them could be done safely.
    pub fn bytes<const N: usize>(&self) -> [u8; N] {
        match &self.0 {
            Source::System => random_bytes(),
            Source::Seeded(generator) => {
                let mut bytes = [0; N];
                let mut generator = generator.lock().unwrap_or_else(PoisonError::into_inner);
                generator.fill(&mut bytes);
                bytes
            }
        }
    }
}

/// A small seeded generator (splitmix64: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
#[derive(Debug, Clone)]
pub struct SeededRandom {
    state: u64,
}

impl SeededRandom {
    /// The generator of this seed.
    pub fn new(seed: u64) -> SeededRandom {
        SeededRandom { state: seed }
    }

    /// 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.state;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// A number in `[0, bound)`; `bound` must not be zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "an empty range has no number to draw");
        // The high half of the product spreads 2^64 draws over the range; the bias is below bound / 2^64.
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// True in `numerator` of `denominator` draws.
    pub fn chance(&mut self, numerator: u64, denominator: u64) -> bool {
        self.below(denominator) < numerator
    }

    /// Fills `bytes`.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let drawn = self.next_u64().to_le_bytes();
            chunk.copy_from_slice(&drawn[..chunk.len()]);
        }
    }

    /// A generator of its own, so that one part of a simulation drawing more does not shift another's numbers.
    pub fn split(&mut self) -> SeededRandom {
        SeededRandom::new(self.next_u64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_systems_bytes_differ() {
        assert_ne!(random_bytes::<32>(), random_bytes::<32>());
        assert_eq!(random_bytes::<0>(), []);
    }

    #[test]
    fn clones_of_a_seeded_source_draw_from_one_sequence() {
        let draws = || {
            let source = Random::seeded(SeededRandom::new(9));
            let other = source.clone();
            [source.bytes::<3>(), other.bytes(), source.bytes()]
        };
        assert_eq!(draws(), draws());
        assert_ne!(draws()[0], draws()[1]);
        assert_ne!(Random::SYSTEM.bytes::<32>(), Random::SYSTEM.bytes::<32>());
    }

    #[test]
    fn a_seed_gives_its_numbers_for_ever() {
        let mut random = SeededRandom::new(0);
        assert_eq!(random.next_u64(), 0xe220_a839_7b1d_cdaf);
        assert_eq!(random.next_u64(), 0x6e78_9e6a_a1b9_65f4);
    }

    #[test]
    fn draws_stay_in_range_and_reach_all_of_it() {
        let mut random = SeededRandom::new(7);
        let mut seen = [0; 5];
        for _ in 0..1_000 {
            seen[random.below(5) as usize] += 1;
        }
        assert!(seen.iter().all(|count| *count > 100), "{seen:?}");
        assert_eq!(random.below(1), 0);
        assert!(!random.chance(0, 3) && random.chance(3, 3));
    }

    #[test]
    fn fill_and_split_are_repeatable() {
        let run = || {
            let mut random = SeededRandom::new(3);
            let mut bytes = [0; 13];
            random.split().fill(&mut bytes);
            (bytes, random.next_u64())
        };
        assert_eq!(run(), run());
        assert_ne!(run().0, [0; 13]);
    }
}
