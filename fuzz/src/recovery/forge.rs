//! Makes the checksums of a damaged file hold again, so that what is behind them is reached: a decoder that trusted its
//! bytes because of a checksum would show here. Written from `docs/formats`, not from the code that it tests.

use std::path::Path;

use crc_fast::{CrcAlgorithm, Digest};

use super::rig::IDENTITY;

const BLOCK_BYTES: usize = 4_096;
const TRAILER_BYTES: usize = 128;
const TABLE_ENTRY_BYTES: usize = 56;
const ABORTED_BYTES: usize = 24;
/// Of segments that were not compacted.
const GENERATION: [u8; 4] = [0; 4];
/// In the header of a journal file; the checksum stands at the same place in a frame's header.
const SEQUENCE_AT: usize = 16;
const SALT_AT: usize = 40;
const SUM_AT: usize = 48;

/// Seals a file as its name says what it is.
pub(super) fn seal_again(path: &Path, bytes: &mut [u8]) {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("journal") => seal_journal(bytes),
        Some("checkpoint") if bytes.len() >= 24 => {
            let sum = sum(&journal_identity(), &[&bytes[..16], &bytes[24..]]);
            put(bytes, 16, sum);
        }
        Some("segment") => {
            if let Some(identity) = segment_identity(path) {
                seal_segment(&identity, bytes);
            }
        }
        _ => {}
    }
}

/// Gives a journal file another salt, which its store drew by chance: the same input must always mean the same.
pub(super) fn salt_again(bytes: &mut [u8], salt: u64) {
    put(bytes, SALT_AT, salt);
    seal_journal(bytes);
}

fn seal_journal(bytes: &mut [u8]) {
    let identity = journal_identity();
    if bytes.len() < BLOCK_BYTES {
        return;
    }
    put(bytes, SUM_AT, sum(&identity, &[&bytes[..SUM_AT]]));
    let salt: [u8; 8] = bytes[SALT_AT..][..8].try_into().expect("eight bytes");
    let sequence = get(bytes, SEQUENCE_AT);
    for start in (BLOCK_BYTES..bytes.len()).step_by(BLOCK_BYTES) {
        let frame = &mut bytes[start..];
        // What an earlier use left behind stays so.
        if frame.len() < 64 || frame[..4] != *b"RWFR" || get(frame, 8) != sequence {
            continue;
        }
        let body_bytes = u32::from_le_bytes(frame[4..8].try_into().expect("four bytes")) as usize;
        if let Some(body) = frame.get(64..).and_then(|rest| rest.get(..body_bytes)) {
            put(frame, 32, sum(&identity, &[&salt, &frame[8..24], body]));
        }
        put(
            frame,
            SUM_AT,
            sum(&identity, &[&salt, &frame[..SUM_AT], &frame[SUM_AT + 8..64]]),
        );
    }
}

/// Every run, wherever a trailer says that one ends.
fn seal_segment(identity: &[u8; 44], bytes: &mut [u8]) {
    for end in (BLOCK_BYTES..=bytes.len()).step_by(BLOCK_BYTES) {
        let trailer = end - TRAILER_BYTES;
        if bytes[trailer..][..8] != *b"RWSEGRUN" {
            continue;
        }
        let chunk_count =
            u32::from_le_bytes(bytes[trailer + 12..][..4].try_into().expect("four bytes")) as usize;
        let aborted_count =
            u32::from_le_bytes(bytes[trailer + 48..][..4].try_into().expect("four bytes")) as usize;
        let table = get(bytes, trailer + 16) as usize;
        let chunks_end = chunk_count
            .checked_mul(TABLE_ENTRY_BYTES)
            .and_then(|length| table.checked_add(length));
        let ends = chunks_end.and_then(|end| Some((end, end.checked_add(aborted_count * ABORTED_BYTES)?)));
        if let Some((chunks_end, table_end)) = ends.filter(|(_, table_end)| *table_end <= trailer) {
            for entry in (table..chunks_end).step_by(TABLE_ENTRY_BYTES) {
                let position = get(bytes, entry + 8) as usize;
                let length =
                    u32::from_le_bytes(bytes[entry + 16..][..4].try_into().expect("four bytes")) as usize;
                if let Some(chunk) = bytes.get(position..).and_then(|rest| rest.get(..length)) {
                    let sum = sum(identity, &[&(position as u64).to_le_bytes(), &GENERATION, chunk]);
                    put(bytes, entry + 32, sum);
                }
            }
            let sum = sum(
                identity,
                &[
                    &(table as u64).to_le_bytes(),
                    &GENERATION,
                    &bytes[table..table_end],
                ],
            );
            put(bytes, trailer + 24, sum);
        }
        let sum = sum(
            identity,
            &[&(end as u64).to_le_bytes(), &GENERATION, &bytes[trailer..end - 8]],
        );
        put(bytes, end - 8, sum);
    }
}

fn journal_identity() -> [u8; 24] {
    let mut identity = [0; 24];
    identity[..16].copy_from_slice(&IDENTITY.cluster.0);
    identity[16..20].copy_from_slice(&IDENTITY.node.to_le_bytes());
    identity[20..].copy_from_slice(&IDENTITY.journal.to_le_bytes());
    identity
}

/// Out of `partitions/<topic>-<index>/<first offset>.segment`; without the position, which differs for each checksum.
fn segment_identity(path: &Path) -> Option<[u8; 44]> {
    let first: i64 = path.file_stem()?.to_str()?.parse().ok()?;
    let (topic, index) = path.parent()?.file_name()?.to_str()?.split_once('-')?;
    let mut identity = [0; 44];
    identity[..16].copy_from_slice(&IDENTITY.cluster.0);
    identity[16..32].copy_from_slice(&u128::from_str_radix(topic, 16).ok()?.to_be_bytes());
    identity[32..36].copy_from_slice(&index.parse::<i32>().ok()?.to_le_bytes());
    identity[36..].copy_from_slice(&first.to_le_bytes());
    Some(identity)
}

fn sum(identity: &[u8], parts: &[&[u8]]) -> u64 {
    let mut digest = Digest::new(CrcAlgorithm::Crc64Nvme);
    digest.update(identity);
    parts.iter().for_each(|part| digest.update(part));
    digest.finalize()
}

fn get(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

fn put(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}
