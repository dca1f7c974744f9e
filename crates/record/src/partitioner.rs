//! Which partition a key belongs to: as Kafka's Java client chooses it, so that both put a key in the same place.
//!
//! The hash is MurmurHash2 (Austin Appleby, public domain), 32 bits, with Kafka's seed.

const SEED: u32 = 0x9747_b28c;
const MULTIPLIER: u32 = 0x5bd1_e995;

/// The partition of `key` among `partitions`, counted from zero.
///
/// # Panics
/// If there are no partitions.
#[must_use]
pub fn partition_of(key: &[u8], partitions: usize) -> usize {
    // Kafka clears the sign bit of a signed number.
    (murmur2(key) & 0x7fff_ffff) as usize % partitions
}

fn murmur2(bytes: &[u8]) -> u32 {
    let mut hash = SEED ^ bytes.len() as u32;
    let (words, rest) = bytes.as_chunks::<4>();
    for word in words {
        let mixed = u32::from_le_bytes(*word).wrapping_mul(MULTIPLIER);
        let mixed = (mixed ^ (mixed >> 24)).wrapping_mul(MULTIPLIER);
        hash = hash.wrapping_mul(MULTIPLIER) ^ mixed;
    }
    if !rest.is_empty() {
        for (index, byte) in rest.iter().enumerate() {
            hash ^= u32::from(*byte) << (8 * index);
        }
        hash = hash.wrapping_mul(MULTIPLIER);
    }
    hash = (hash ^ (hash >> 13)).wrapping_mul(MULTIPLIER);
    hash ^ (hash >> 15)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_that_of_kafkas_client() {
        // Values that Kafka's own client gives.
        assert_eq!(murmur2(b"21") as i32, -973_932_308);
        assert_eq!(murmur2(b"foobar") as i32, -790_332_482);
        assert_eq!(murmur2(b"a-little-bit-long-string") as i32, -985_981_536);
        assert_eq!(murmur2(b"abc") as i32, 479_470_107);
    }

    #[test]
    fn every_key_has_a_partition() {
        for key in 0..1_000_u32 {
            assert!(partition_of(&key.to_be_bytes(), 7) < 7);
        }
        assert_eq!(partition_of(b"", 1), 0);
    }
}
