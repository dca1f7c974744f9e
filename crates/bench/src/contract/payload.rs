//! What each record of a comparison must hold, so that harness and drivers agree on it without exchanging it.

use std::ops::Range;

use anyhow::ensure;
use platform::memory::prefetch;

/// What payloads consist of: no compressor finds more in them than six bits a byte.
const LETTERS: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
/// The letters of consecutive records of one producer begin so far apart, or as far as a record is long: what shares nothing with the
/// records around it, nobody compresses or finds in a cache.
const STRIDE_MIN: u64 = 4_093;
/// So many records of a producer in a row have letters of their own, if that takes no more places to begin at than the most.
const APART: u64 = 64;
const STARTS_MIN: u64 = 1 << 20;
const STARTS_MAX: u64 = 1 << 26;
/// What the generator of letters starts from, before the record's length is mixed in.
const SEED: u64 = 0x9E37_79B9_7F4A_7C15;

/// The letters of a producer's records lie far apart, and no processor guesses where the next are: they are asked for so many records
/// ahead, and so many bytes of them. Without this, making a small record costs more than sending it.
const AHEAD: u64 = 8;
const AHEAD_BYTES: usize = 192;

/// Bytes of the stamp at the beginning of each payload.
pub const STAMP_BYTES: usize = 16;

/// The payloads of one length. Made before a run, so that making them is not measured.
#[derive(Debug)]
pub struct Payloads {
    pool: Vec<u8>,
    record_bytes: usize,
    /// Where the letters of a record begin is below this: a power of two, so that it is found quickly.
    starts: u64,
    /// How much later those of the next record begin: odd, so that every place has its turn.
    stride: u64,
}

/// Who made a record, and which of its records it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// The producer, from 0.
    pub producer: u32,
    /// The record's number among that producer's, from 0.
    pub sequence: u64,
}

impl Payloads {
    /// Those of `record_bytes` bytes each.
    ///
    /// # Errors
    /// If there is no room for the stamp.
    pub fn new(record_bytes: usize) -> anyhow::Result<Payloads> {
        ensure!(
            record_bytes >= STAMP_BYTES,
            "records of {record_bytes} bytes have no room for their stamp: they need {STAMP_BYTES} at least"
        );
        Ok(Payloads::of_any_length(record_bytes))
    }

    /// The same, also where there is no room for the stamp: then they are letters only.
    #[must_use]
    pub fn of_any_length(record_bytes: usize) -> Payloads {
        let bytes = record_bytes as u64;
        let apart = bytes.saturating_mul(APART).min(STARTS_MAX);
        let starts = apart.next_power_of_two().max(STARTS_MIN);
        let mut state = SEED ^ bytes;
        let letter = |_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            LETTERS[((state >> 32) % LETTERS.len() as u64) as usize]
        };
        Payloads {
            pool: (0..starts as usize + record_bytes).map(letter).collect(),
            record_bytes,
            starts,
            stride: STRIDE_MIN.max(bytes | 1),
        }
    }

    /// Bytes of each.
    #[must_use]
    pub fn record_bytes(&self) -> usize {
        self.record_bytes
    }

    /// Writes one payload over `out`, which is `record_bytes` long.
    ///
    /// # Panics
    /// If `out` has another length.
    #[inline]
    pub fn write(&self, producer: u32, sequence: u64, out: &mut [u8]) {
        assert_eq!(out.len(), self.record_bytes, "payloads have one length");
        let letters = match out.split_first_chunk_mut::<STAMP_BYTES>() {
            Some((stamp, letters)) => {
                *stamp = stamp_digits(producer, sequence);
                letters
            }
            None => out,
        };
        letters.copy_from_slice(self.letters(producer, sequence, letters.len()));
        prefetch(self.letters(producer, sequence + AHEAD, letters.len().min(AHEAD_BYTES)));
    }

    /// Whether `payload` is exactly what it must be; its stamp if so.
    #[must_use]
    pub fn check(&self, payload: &[u8]) -> Option<Stamp> {
        let stamp = Stamp::parse(payload)?;
        let letters = payload.get(STAMP_BYTES..)?;
        let is_right = payload.len() == self.record_bytes
            && letters == self.letters(stamp.producer, stamp.sequence, letters.len());
        is_right.then_some(stamp)
    }

    /// The sum of CRC-32 (ISO-HDLC) over a producer's records of those numbers.
    #[must_use]
    pub fn crc32_sum(&self, producer: u32, sequences: Range<u64>) -> u64 {
        let mut payload = vec![0; self.record_bytes];
        sequences
            .map(|sequence| {
                self.write(producer, sequence, &mut payload);
                crc32(&payload)
            })
            .sum()
    }

    fn letters(&self, producer: u32, sequence: u64, count: usize) -> &[u8] {
        let start = sequence
            .wrapping_mul(self.stride)
            .wrapping_add(u64::from(producer) * 65_537)
            & (self.starts - 1);
        &self.pool[start as usize..start as usize + count]
    }
}

impl Stamp {
    /// The stamp at the beginning of a payload; none if there is no such thing.
    #[must_use]
    pub fn parse(payload: &[u8]) -> Option<Stamp> {
        let digits = payload.get(..STAMP_BYTES)?;
        let mut value = 0u64;
        for digit in digits {
            let nibble = match digit {
                b'0'..=b'9' => digit - b'0',
                b'a'..=b'f' => digit - b'a' + 10,
                _ => return None,
            };
            value = value << 4 | u64::from(nibble);
        }
        Some(Stamp {
            producer: (value >> 48) as u32,
            sequence: value & 0xFFFF_FFFF_FFFF,
        })
    }
}

/// CRC-32 as zlib has it.
#[must_use]
pub fn crc32(payload: &[u8]) -> u64 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32IsoHdlc, payload)
}

fn stamp_digits(producer: u32, sequence: u64) -> [u8; STAMP_BYTES] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let value = u64::from(producer) << 48 | sequence & 0xFFFF_FFFF_FFFF;
    std::array::from_fn(|index| DIGITS[(value >> (60 - 4 * index) & 0xF) as usize])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sums_are_those_of_the_guide() {
        for (producer, records, record_bytes, sum) in [
            (0, 1, 16, 2_717_936_484),
            (0, 1, 100, 2_735_468_055),
            (3, 1_000, 100, 2_102_778_704_282),
            (7, 500, 4_096, 1_041_618_093_517),
            (1, 100, 50_000, 198_908_973_652),
            (65_535, 3, 1_000_000, 3_807_115_882),
        ] {
            let payloads = Payloads::new(record_bytes).expect("there is room for the stamp");
            assert_eq!(
                payloads.crc32_sum(producer, 0..records),
                sum,
                "{record_bytes} bytes"
            );
        }
    }

    #[test]
    fn records_of_a_producer_share_nothing_with_those_around_them() {
        for record_bytes in [100, 4_096, 50_000, 1_000_000] {
            let payloads = Payloads::new(record_bytes).expect("there is room for the stamp");
            let letters = |sequence| payloads.letters(3, sequence, record_bytes - STAMP_BYTES);
            let mut places: Vec<_> = (0..APART)
                .map(|sequence| letters(sequence).as_ptr_range())
                .collect();
            places.sort_by_key(|place| place.start);
            let are_apart = places.windows(2).all(|pair| pair[0].end <= pair[1].start);
            assert!(are_apart, "{record_bytes} bytes");
        }
    }

    #[test]
    fn a_payload_is_told_from_any_other() {
        let payloads = Payloads::new(64).expect("there is room for the stamp");
        let mut payload = vec![0; 64];
        payloads.write(7, 123_456, &mut payload);
        let stamp = Stamp {
            producer: 7,
            sequence: 123_456,
        };
        assert_eq!(payloads.check(&payload), Some(stamp));
        for index in 0..64 {
            let mut other = payload.clone();
            other[index] ^= 1;
            assert_ne!(payloads.check(&other), Some(stamp), "byte {index}");
        }
        assert_eq!(payloads.check(&payload[..63]), None);
        assert_eq!(payloads.check(b"short"), None);
        assert!(Payloads::new(15).is_err());
    }

    #[test]
    fn what_has_no_room_for_a_stamp_is_letters() {
        for record_bytes in [0, 1, 15] {
            let payloads = Payloads::of_any_length(record_bytes);
            let made = |sequence| {
                let mut payload = vec![0; record_bytes];
                payloads.write(3, sequence, &mut payload);
                payload
            };
            assert!(made(17).iter().all(u8::is_ascii_alphanumeric));
            assert_eq!(made(17), made(17));
            assert!(record_bytes < 15 || made(0) != made(1));
        }
    }
}
