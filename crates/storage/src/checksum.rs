//! Checksums that cover bytes together with whose bytes they are.
//!
//! A block that is intact but stands in the wrong place (another node's disk, a swapped file, a stale journal
//! file) must fail its check like a damaged one. So the identity is hashed first, the bytes after it.

use crc_fast::{CrcAlgorithm, Digest};
use planted::{Bug, planted};
pub use record::DirectoryId;
use record::{ClusterId, PartitionId};

use crate::segment::SegmentName;

/// CRC-64/NVME over `identity` followed by `parts` in order.
fn checksum(identity: &[u8], parts: &[&[u8]]) -> u64 {
    let mut digest = Digest::new(CrcAlgorithm::Crc64Nvme);
    digest.update(identity);
    for part in parts {
        digest.update(part);
    }
    digest.finalize()
}

/// The polynomial of CRC-64/NVME, lowest power last (NVM Express, "Command Set Specification", 64-bit guard).
const REFLECTED_POLYNOMIAL: u64 = 0x9a6c_9329_ac4b_c9b5;

/// The one bit (8 × byte + bit, least significant first) of the last `length` bytes under a checksum that makes a
/// `difference` between the stored and the computed one; `None` if no single bit does.
pub(crate) fn turned_bit(difference: u64, length: usize) -> Option<u64> {
    // The difference that the very last bit (the highest of the last byte) makes; each bit before it, one step of the division more.
    let mut made = REFLECTED_POLYNOMIAL;
    for bit in (0..8 * length as u64).rev() {
        if made == difference {
            return Some(bit);
        }
        made = (made >> 1) ^ if made & 1 == 1 { REFLECTED_POLYNOMIAL } else { 0 };
    }
    None
}

/// Whose journal a journal file belongs to. A node's journals are numbered from zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JournalIdentity {
    /// The cluster.
    pub cluster: ClusterId,
    /// The directory that it is in. The checkpoint has it as a field; it is under no checksum of the journal's.
    pub directory: DirectoryId,
    /// The node in it.
    pub node: i32,
    /// The journal's number on that node.
    pub journal: u32,
}

impl JournalIdentity {
    /// The checksum of `parts` as bytes of this journal.
    pub(crate) fn checksum(&self, parts: &[&[u8]]) -> u64 {
        let mut identity = [0u8; 24];
        identity[..16].copy_from_slice(&self.cluster.0);
        identity[16..20].copy_from_slice(&self.node.to_le_bytes());
        identity[20..].copy_from_slice(&self.journal.to_le_bytes());
        checksum(&identity, parts)
    }
}

/// Whose frames a journal file holds in its current use.
///
/// The salt is drawn anew for each use and never leaves the disk. A record's bytes lie in the journal as their producer
/// chose them: without the salt they could be made to look like a frame where recovery searches for lost ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FrameIdentity {
    pub(crate) journal: JournalIdentity,
    pub(crate) salt: u64,
}

impl FrameIdentity {
    /// The checksum of two parts as bytes of this journal file.
    pub(crate) fn checksum(&self, first: &[u8], second: &[u8]) -> u64 {
        let salt = if planted(Bug::StaleFrameAccepted) {
            0
        } else {
            self.salt
        };
        self.journal.checksum(&[&salt.to_le_bytes(), first, second])
    }
}

/// Whose segment a segment file is: stable when the partition moves to another node of the same cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SegmentIdentity {
    pub(crate) cluster: ClusterId,
    pub(crate) partition: PartitionId,
    /// Which of the partition's segments: also its file's name.
    pub(crate) segment: SegmentName,
}

impl SegmentIdentity {
    /// The checksum of `bytes` that stand at `position` of this segment's file.
    pub(crate) fn checksum(&self, position: u64, bytes: &[u8]) -> u64 {
        if planted(Bug::SegmentWithoutIdentity) {
            return checksum(&[], &[bytes]);
        }
        let mut identity = [0u8; 56];
        identity[..16].copy_from_slice(&self.cluster.0);
        identity[16..32].copy_from_slice(&self.partition.topic.0);
        identity[32..36].copy_from_slice(&self.partition.index.to_le_bytes());
        identity[36..44].copy_from_slice(&self.segment.first.to_le_bytes());
        identity[44..52].copy_from_slice(&position.to_le_bytes());
        identity[52..].copy_from_slice(&self.segment.generation.to_le_bytes());
        checksum(&identity, &[bytes])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turned_bit_is_found_wherever_it_is() {
        let identity = JournalIdentity {
            cluster: ClusterId([7; 16]),
            directory: DirectoryId([9; 16]),
            node: 1,
            journal: 2,
        };
        for length in [1_usize, 8, 48, 700] {
            let bytes: Vec<u8> = (0..length).map(|index| (index * 31) as u8).collect();
            let whole = identity.checksum(&[b"in front", &bytes]);
            for bit in 0..8 * length {
                let mut turned = bytes.clone();
                turned[bit / 8] ^= 1 << (bit % 8);
                let difference = whole ^ identity.checksum(&[b"in front", &turned]);
                assert_eq!(turned_bit(difference, length), Some(bit as u64));
                turned[0] ^= if bit < 8 { 0b11 << 6 | 0b11 } else { 0b110 };
                let difference = whole ^ identity.checksum(&[b"in front", &turned]);
                assert!(
                    turned_bit(difference, length).is_none() || length == 1,
                    "two or three bits are no single one"
                );
            }
        }
    }

    #[test]
    fn the_same_bytes_of_another_owner_have_another_checksum() {
        let identity = JournalIdentity {
            cluster: ClusterId([7; 16]),
            directory: DirectoryId([9; 16]),
            node: 1,
            journal: 2,
        };
        let others = [
            JournalIdentity {
                cluster: ClusterId([8; 16]),
                ..identity
            },
            JournalIdentity { node: 2, ..identity },
            JournalIdentity {
                journal: 1,
                ..identity
            },
        ];
        assert!(
            others
                .iter()
                .all(|other| other.checksum(&[b"x"]) != identity.checksum(&[b"x"]))
        );
    }
}
