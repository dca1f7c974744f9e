//! The effect of a change near a batch's front on its checksum, without a look at the bytes behind it.
//!
//! A CRC is a remainder modulo a polynomial, and remainders of sums are sums of remainders: bytes that are changed add
//! the checksum of their difference, multiplied by x to the power of the bits that follow. So a header that a broker puts
//! right costs the same for a batch of 100 bytes and of 100 MB, and damage elsewhere in the batch stays visible.
//! Source: Ross Williams, "A painless guide to CRC error detection algorithms"; Mark Adler on combining checksums.

/// CRC-32C's polynomial without its x³². The highest bit is the term 1, the lowest x³¹.
const POLYNOMIAL: u32 = 0x82f6_3b78;
/// Bits of a batch's length in bytes.
const LENGTH_BITS: usize = 31;
/// At `k`: x to the power of the bits in 2ᵏ bytes.
const POWERS: [u32; LENGTH_BITS] = powers();

/// The checksum of bytes that had `checksum`, once those that summed up to `part_before` sum up to `part_after` instead:
/// as many as before, with `behind_bytes` behind them. All are CRC-32C.
pub(super) fn resum(checksum: u32, part_before: u32, part_after: u32, behind_bytes: usize) -> u32 {
    assert!(
        behind_bytes >> LENGTH_BITS == 0,
        "a batch's length is a positive i32"
    );
    let mut difference = part_before ^ part_after;
    for (bit, &power) in POWERS.iter().enumerate() {
        if behind_bytes >> bit & 1 != 0 {
            difference = multiply(difference, power);
        }
    }
    checksum ^ difference
}

/// The product of two remainders, which is a remainder again.
const fn multiply(a: u32, mut b: u32) -> u32 {
    let mut product = 0;
    let mut term = 1 << 31;
    while term != 0 {
        // All ones or none instead of branches, which no CPU could foresee.
        product ^= b & 0u32.wrapping_sub((a & term != 0) as u32);
        b = b >> 1 ^ POLYNOMIAL & 0u32.wrapping_sub(b & 1);
        term >>= 1;
    }
    product
}

const fn powers() -> [u32; LENGTH_BITS] {
    // x⁸, the bits of one byte; each power is the square of the one before.
    let mut powers = [1 << (31 - 8); LENGTH_BITS];
    let mut k = 1;
    while k < LENGTH_BITS {
        powers[k] = multiply(powers[k - 1], powers[k - 1]);
        k += 1;
    }
    powers
}

#[cfg(test)]
mod tests {
    use super::*;
    use crc_fast::crc32_iscsi;
    use proptest::prelude::*;

    fn resummed(bytes: &[u8], changed: &[u8], part: std::ops::Range<usize>) -> u32 {
        resum(
            crc32_iscsi(bytes),
            crc32_iscsi(&bytes[part.clone()]),
            crc32_iscsi(&changed[part.clone()]),
            bytes.len() - part.end,
        )
    }

    #[test]
    fn every_power_of_two_behind() {
        for bit in 0..24 {
            let mut bytes = vec![0x5a; (1 << bit) + 3];
            let before = bytes.clone();
            bytes[1] = 7;
            assert_eq!(resummed(&before, &bytes, 0..3), crc32_iscsi(&bytes), "2^{bit}");
        }
    }

    proptest! {
        #[test]
        fn like_summing_up_again(
            bytes in proptest::collection::vec(any::<u8>(), 22..2_000),
            part in proptest::array::uniform22(any::<u8>()),
            at in any::<proptest::sample::Index>(),
        ) {
            let at = at.index(bytes.len() - part.len() + 1);
            let mut changed = bytes.clone();
            changed[at..at + part.len()].copy_from_slice(&part);
            prop_assert_eq!(resummed(&bytes, &changed, at..at + part.len()), crc32_iscsi(&changed));
        }
    }
}
