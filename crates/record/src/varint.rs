//! Zigzag variable-length integers, as they stand inside records: seven bits a byte, lowest first.
//!
//! Most numbers in a record fit one byte, so that case is inlined and the rest is kept out of the way. Bits beyond
//! the type are refused, not dropped: two readers must never see two different numbers in the same bytes.

/// The most bytes that an `i64` takes.
pub(crate) const VARLONG_BYTES_MAX: usize = 10;

/// Why no number could be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VarintError {
    /// The bytes end inside the number.
    CutShort,
    /// The number has more bits than its type.
    TooLong,
}

/// Reads an `i32` at `*at` and moves `*at` past it (unmoved on error).
#[inline(always)]
pub(crate) fn read_varint(bytes: &[u8], at: &mut usize) -> Result<i32, VarintError> {
    match read_short(bytes, at) {
        Some(bits) => Ok((bits >> 1) as i32 ^ -((bits & 1) as i32)),
        None => read_long::<32>(bytes, at).map(|value| value as i32),
    }
}

/// Reads an `i64` at `*at` and moves `*at` past it (unmoved on error).
#[inline(always)]
pub(crate) fn read_varlong(bytes: &[u8], at: &mut usize) -> Result<i64, VarintError> {
    match read_short(bytes, at) {
        Some(bits) => Ok(i64::from(bits >> 1) ^ -i64::from(bits & 1)),
        None => read_long::<64>(bytes, at),
    }
}

/// The bits of a number of one to three bytes: all but a few of a record's numbers. `None` leaves `*at` alone.
#[inline(always)]
fn read_short(bytes: &[u8], at: &mut usize) -> Option<u32> {
    let (bits, taken) = match *bytes.get(*at..)? {
        [a, ..] if a < 0x80 => (u32::from(a), 1),
        [a, b, ..] if b < 0x80 => (u32::from(a & 0x7f) | u32::from(b) << 7, 2),
        [a, b, c, ..] if c < 0x80 => (
            u32::from(a & 0x7f) | u32::from(b & 0x7f) << 7 | u32::from(c) << 14,
            3,
        ),
        _ => return None,
    };
    *at += taken;
    Some(bits)
}

/// The general case of a number of `BITS` bits.
#[inline(never)]
fn read_long<const BITS: u32>(bytes: &[u8], at: &mut usize) -> Result<i64, VarintError> {
    let mut bits = 0u64;
    let mut shift = 0;
    for (index, &byte) in bytes.get(*at..).unwrap_or_default().iter().enumerate() {
        let septet = u64::from(byte & 0x7f);
        // The last byte has room for only some of its seven bits.
        if shift + 7 > BITS && septet >> (BITS - shift) != 0 {
            return Err(VarintError::TooLong);
        }
        bits |= septet << shift;
        if byte < 0x80 {
            *at += index + 1;
            return Ok((bits >> 1) as i64 ^ -((bits & 1) as i64));
        }
        shift += 7;
        if shift >= BITS {
            return Err(VarintError::TooLong);
        }
    }
    Err(VarintError::CutShort)
}

/// The bytes that `value` takes; the same for an `i32` and the `i64` of its value.
#[inline]
pub(crate) fn varint_bytes(value: i64) -> usize {
    let bits = 64 - (zigzag(value) | 1).leading_zeros() as usize;
    bits.div_ceil(7)
}

/// Appends `value`; an `i32` is written by widening it, which changes no byte.
#[inline]
pub(crate) fn put_varint(out: &mut Vec<u8>, value: i64) {
    let mut bits = zigzag(value);
    while bits >= 0x80 {
        out.push(bits as u8 | 0x80);
        bits >>= 7;
    }
    out.push(bits as u8);
}

fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn written(value: i64) -> Vec<u8> {
        let mut out = Vec::new();
        put_varint(&mut out, value);
        out
    }

    #[test]
    fn known_bytes() {
        assert_eq!(written(0), [0]);
        assert_eq!(written(-1), [1]);
        assert_eq!(written(63), [0x7e]);
        assert_eq!(written(64), [0x80, 0x01]);
        assert_eq!(written(300), [0xd8, 0x04]);
        assert_eq!(written(i64::from(i32::MIN)), [0xff, 0xff, 0xff, 0xff, 0x0f]);
        assert_eq!(written(i64::MIN).len(), VARLONG_BYTES_MAX);
    }

    #[test]
    fn bits_beyond_the_type_are_refused() {
        let beyond_i32 = [0xff, 0xff, 0xff, 0xff, 0x1f];
        assert_eq!(read_varint(&beyond_i32, &mut 0), Err(VarintError::TooLong));
        assert_eq!(read_varint(&[0x80; 5], &mut 0), Err(VarintError::TooLong));
        assert_eq!(read_varint(&[0x80; 4], &mut 0), Err(VarintError::CutShort));
        let mut beyond_i64 = [0xff; 10];
        beyond_i64[9] = 0x02;
        assert_eq!(read_varlong(&beyond_i64, &mut 0), Err(VarintError::TooLong));
        assert_eq!(read_varlong(&[0x80; 10], &mut 0), Err(VarintError::TooLong));
        assert_eq!(read_varlong(&[], &mut 0), Err(VarintError::CutShort));
        assert_eq!(read_varlong(&[0], &mut 7), Err(VarintError::CutShort));
    }

    proptest! {
        #[test]
        fn i32_comes_back(value: i32) {
            let bytes = written(i64::from(value));
            prop_assert_eq!(bytes.len(), varint_bytes(i64::from(value)));
            let mut at = 0;
            prop_assert_eq!(read_varint(&bytes, &mut at), Ok(value));
            prop_assert_eq!(at, bytes.len());
        }

        #[test]
        fn i64_comes_back(value: i64, shift in 0u32..64) {
            let value = value >> shift;
            let bytes = written(value);
            prop_assert_eq!(bytes.len(), varint_bytes(value));
            let mut at = 0;
            prop_assert_eq!(read_varlong(&bytes, &mut at), Ok(value));
            prop_assert_eq!(at, bytes.len());
        }
    }
}
