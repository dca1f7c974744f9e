//! The partition of the groups' topic that a group's name gives. Part of the format: a group's records must be found where
//! they were written, and Kafka's tools compute the same.

/// The partition of a group among `partition_count`, as Kafka has it: the hash that Java gives the name.
pub(crate) fn partition_of(group: &str, partition_count: i32) -> i32 {
    let hash = group.encode_utf16().fold(0i32, |hash, unit| {
        hash.wrapping_mul(31).wrapping_add(i32::from(unit))
    });
    // The one number whose absolute value is not one.
    hash.checked_abs().unwrap_or(0) % partition_count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_gives_the_partition_that_kafka_gives() {
        // Hashes as Java's `String.hashCode` computes them by its documentation: the sum of s[i] * 31^(n-1-i).
        assert_eq!(partition_of("", 50), 0);
        assert_eq!(partition_of("a", 50), 97 % 50);
        assert_eq!(partition_of("ab", 50), (97 * 31 + 98) % 50);
        // A known string whose hash is the least number there is.
        assert_eq!(partition_of("polygenelubricants", 50), 0);
        // Outside the basic plane, a character is two units.
        assert_eq!(
            partition_of("\u{1F9F5}", 1_000_000),
            (0xD83E * 31 + 0xDDF5) % 1_000_000
        );
        for name in ["orders", "billing-7", "ü", "繩"] {
            assert!((0..3).contains(&partition_of(name, 3)));
        }
    }
}
