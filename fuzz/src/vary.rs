//! Makes inputs out of seeds for the short run: the same ones every time.
//!
//! No match for a fuzzer that looks at coverage; enough to notice within seconds that a target or what it tests has
//! changed its mind.

use platform::random::SeededRandom;

/// Numbers that lengths and counts go wrong at.
const EDGES: [u8; 8] = [0, 1, 0x7f, 0x80, 0x81, 0xfe, 0xff, 0x40];
const BYTES_MAX: usize = 4_096;

/// An endless supply of inputs near some seeds.
pub struct Vary {
    random: SeededRandom,
    seeds: Vec<Vec<u8>>,
}

impl Vary {
    /// Of these seeds, of which there is at least one; the same number gives the same inputs.
    pub fn new(number: u64, seeds: Vec<Vec<u8>>) -> Vary {
        assert!(!seeds.is_empty(), "inputs are made out of others");
        Vary {
            random: SeededRandom::new(number),
            seeds,
        }
    }

    /// A seed with a few changes.
    pub fn next_input(&mut self) -> Vec<u8> {
        let mut input = self.any_seed().to_vec();
        for _ in 0..=self.random.below(4) {
            self.change(&mut input);
        }
        input.truncate(BYTES_MAX);
        input
    }

    fn any_seed(&mut self) -> &[u8] {
        let index = self.random.below(self.seeds.len() as u64) as usize;
        &self.seeds[index]
    }

    fn change(&mut self, input: &mut Vec<u8>) {
        let at = self.random.below(input.len() as u64 + 1) as usize;
        let byte = self.random.next_u64() as u8;
        match (self.random.below(7), input.get_mut(at)) {
            (0, Some(old)) => *old ^= 1 << (byte % 8),
            (1, Some(old)) => *old = byte,
            (2, Some(old)) => *old = EDGES[usize::from(byte) % EDGES.len()],
            (3, Some(_)) => drop(input.drain(at..(at + usize::from(byte % 8)).min(input.len()))),
            (4, _) => input.insert(at, byte),
            (5, _) => {
                // The head of this one, the end of another.
                let other = self.any_seed().to_vec();
                let from = self.random.below(other.len() as u64 + 1) as usize;
                input.truncate(at);
                input.extend_from_slice(&other[from..]);
            }
            (_, _) => {
                let mut noise = vec![0; usize::from(byte % 16)];
                self.random.fill(&mut noise);
                input.extend_from_slice(&noise);
            }
        }
    }
}
