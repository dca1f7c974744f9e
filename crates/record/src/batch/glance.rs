//! The common record, seen at once: what every append spends its time on before its bytes go to the journal.
//!
//! The general walk learns where a number stands from the numbers before it, and where the next record stands from all
//! of them, so the CPU waits for one load after another. Here the next record's place comes out of the length alone; that
//! the numbers lead there too is only compared, and the CPU has several records in hand. A glance never judges: of what is
//! unusual or wrong it says nothing, and the general walk looks (`validate`).

/// No timestamp delta that a glance takes is farther from zero.
pub(super) const TIMESTAMP_DELTA_MAX: i64 = 1 << 27;
/// Where the numbers before a common record's key lie: length, attributes and both deltas, the last of them read as four
/// bytes.
const FRONT_BYTES: usize = 16;
/// An offset delta below this takes one byte; each further byte has room for seven bits more.
const ONE_BYTE_OFFSETS: u32 = 1 << 6;
const TWO_BYTE_OFFSETS: u32 = 1 << 13;
const THREE_BYTE_OFFSETS: u32 = 1 << 20;

/// Common records on end, off the front of a batch's records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run<'a> {
    /// The bytes behind them.
    pub(super) rest: &'a [u8],
    /// The index of the record that `rest` begins with.
    pub(super) next_index: u32,
    /// The largest of their timestamp deltas, if there is a record.
    pub(super) timestamp_delta_max: i32,
}

/// Takes the records from `first_index` on that stand at the front of `bytes`, until one is not common or `end_index` is
/// reached.
pub(super) fn take_run(bytes: &[u8], first_index: u32, end_index: u32) -> Run<'_> {
    let none = Run {
        rest: bytes,
        next_index: first_index,
        timestamp_delta_max: i32::MIN,
    };
    let run = take_more::<1>(none, end_index.min(ONE_BYTE_OFFSETS));
    let run = take_more::<2>(run, end_index.min(TWO_BYTE_OFFSETS));
    take_more::<3>(run, end_index.min(THREE_BYTE_OFFSETS))
}

/// Goes on with a run while offset deltas take `OFFSET_BYTES`.
#[inline(always)]
fn take_more<const OFFSET_BYTES: usize>(run: Run<'_>, end_index: u32) -> Run<'_> {
    // Locals, because the fields of a struct that is given back would be stored for each record.
    let Run {
        mut rest,
        mut next_index,
        mut timestamp_delta_max,
    } = run;
    let continued = continuation_bits(OFFSET_BYTES);
    let mut offset = natural_bytes(next_index, OFFSET_BYTES);
    while next_index < end_index {
        let Some((timestamp_delta, behind)) = glance::<OFFSET_BYTES>(rest, offset) else {
            break;
        };
        rest = behind;
        next_index += 1;
        timestamp_delta_max = timestamp_delta_max.max(timestamp_delta);
        // The next number's bytes: the set bits pass the carry on to the byte behind.
        offset = (offset + 2) | continued;
    }
    Run {
        rest,
        next_index,
        timestamp_delta_max,
    }
}

/// The timestamp delta of the record that `bytes` begin with, and the bytes behind it, if it is sound and common: its
/// offset delta has just these bytes, its other numbers have at most four, and it has no headers.
#[inline(always)]
fn glance<const OFFSET_BYTES: usize>(bytes: &[u8], offset: u32) -> Option<(i32, &[u8])> {
    let front: &[u8; FRONT_BYTES] = bytes.first_chunk()?;
    let (length, start) = natural(four_at(front, 0)?)?;
    let end = start + length as usize;
    let rest = bytes.get(end..)?;
    // Record attributes have no meaning: one byte unseen.
    let at = start + 1;
    let (timestamp_delta, taken) = integer(four_at(front, at)?)?;
    let at = at + taken;
    let beyond = 32 - 8 * OFFSET_BYTES as u32;
    if four_at(front, at)? << beyond != offset << beyond {
        return None;
    }
    let at = at + OFFSET_BYTES;
    let at = at + field_bytes(four_at(bytes, at)?)?;
    let at = at + field_bytes(four_at(bytes, at)?)?;
    // Just one byte is left: a header count of zero.
    if at + 1 != end || *bytes.get(at)? != 0 {
        return None;
    }
    Some((timestamp_delta, rest))
}

#[inline(always)]
fn four_at(bytes: &[u8], at: usize) -> Option<u32> {
    let four = bytes.get(at..at + 4)?;
    Some(u32::from_le_bytes(*four.first_chunk()?))
}

/// The number that `four` bytes begin with, and how many of them it takes, if it ends among them and is not below zero.
#[inline(always)]
fn natural(four: u32) -> Option<(u32, usize)> {
    // The lowest bit is the sign.
    let (bits, taken) = septets(four)?;
    (bits & 1 == 0).then_some((bits >> 1, taken))
}

/// The same of any number.
#[inline(always)]
fn integer(four: u32) -> Option<(i32, usize)> {
    let (bits, taken) = septets(four)?;
    Some(((bits >> 1) as i32 ^ -((bits & 1) as i32), taken))
}

/// The bits of the number that `four` bytes begin with: seven a byte, lowest first.
#[inline(always)]
fn septets(four: u32) -> Option<(u32, usize)> {
    let one = four & 0x7f;
    let two = one | four >> 1 & 0x7f << 7;
    let three = two | four >> 2 & 0x7f << 14;
    if four & 0x80 == 0 {
        Some((one, 1))
    } else if four & 0x8000 == 0 {
        Some((two, 2))
    } else if four & 0x80_0000 == 0 {
        Some((three, 3))
    } else if four & 0x8000_0000 == 0 {
        Some((three | four >> 3 & 0x7f << 21, 4))
    } else {
        None
    }
}

/// The bytes of `number`, lowest first, as `natural` reads them: `bytes` of them, even if fewer would do.
fn natural_bytes(number: u32, bytes: usize) -> u32 {
    let bits = number << 1;
    let septets = bits & 0x7f | (bits & 0x7f << 7) << 1 | (bits & 0x7f << 14) << 2;
    septets | continuation_bits(bytes)
}

/// The bits of a number's bytes that say that another byte follows.
fn continuation_bits(bytes: usize) -> u32 {
    0x80_8080 >> (8 * (4 - bytes))
}

/// The bytes that a key or value takes with its length, which `four` begin with. Null, of length -1, is only that.
#[inline(always)]
fn field_bytes(four: u32) -> Option<usize> {
    if four & 0xff == 1 {
        return Some(1);
    }
    let (length, taken) = natural(four)?;
    Some(taken + length as usize)
}

#[cfg(test)]
mod tests;
