//! The log's file as bytes (docs/formats/metadata-group.md): a header block, then frames. No I/O.
//!
//! ```text
//! file   | header block | frame | frame | … | zeros |
//! frame  | header 32 B | record | record | … | zeros up to a whole block |
//! ```
//! A frame is what one durable write makes durable. Checksums cover whose file it is, and its salt, so that neither another node's file
//! nor bytes that somebody chose pass for a frame.

use bytes::{BufMut, Bytes};
use crc_fast::{CrcAlgorithm, Digest};
use platform::disk::BLOCK_BYTES;

use crate::GroupIdentity;

const FILE_MAGIC: &[u8; 8] = b"RWMETALG";
const FRAME_MAGIC: &[u8; 4] = b"RWMF";
const VERSION: u32 = 1;
pub(super) const FRAME_HEADER_BYTES: usize = 32;
/// Where the checksum of the file's header stands.
const FILE_CHECKSUM_AT: usize = 40;

/// CRC-64/NVME over whose bytes they are, and then the bytes.
pub(super) fn checksum(identity: &GroupIdentity, parts: &[&[u8]]) -> u64 {
    let mut digest = Digest::new(CrcAlgorithm::Crc64Nvme);
    digest.update(&identity.cluster.0);
    digest.update(&identity.own.node.to_le_bytes());
    digest.update(&identity.own.directory.0);
    parts.iter().for_each(|part| digest.update(part));
    digest.finalize()
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

pub(super) fn whole_blocks(bytes: usize) -> usize {
    bytes.next_multiple_of(BLOCK_BYTES)
}

/// The head of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileHeader {
    /// Drawn anew for each file.
    pub(super) salt: u64,
    /// The sequence of its first frame.
    pub(super) first: u64,
}

/// Why a file's header is of no use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HeaderFault {
    Invalid,
    UnknownVersion(u32),
}

impl FileHeader {
    /// The header's block.
    pub(super) fn encode(&self, identity: &GroupIdentity) -> Vec<u8> {
        let mut block = Vec::with_capacity(BLOCK_BYTES);
        block.put_slice(FILE_MAGIC);
        block.put_u32_le(VERSION);
        block.put_i32_le(identity.own.node);
        block.put_u64_le(self.salt);
        block.put_u64_le(self.first);
        block.put_u64_le(0);
        let sum = checksum(identity, &[&block]);
        block.put_u64_le(sum);
        block.resize(BLOCK_BYTES, 0);
        block
    }

    pub(super) fn decode(block: &[u8], identity: &GroupIdentity) -> Result<FileHeader, HeaderFault> {
        let is_ours = block.len() >= BLOCK_BYTES && block[..8] == *FILE_MAGIC;
        if !is_ours || u64_at(block, FILE_CHECKSUM_AT) != checksum(identity, &[&block[..FILE_CHECKSUM_AT]]) {
            return Err(HeaderFault::Invalid);
        }
        match u32_at(block, 8) {
            VERSION => Ok(FileHeader {
                salt: u64_at(block, 16),
                first: u64_at(block, 24),
            }),
            version => Err(HeaderFault::UnknownVersion(version)),
        }
    }
}

/// What the frames of one file are checked against.
#[derive(Debug, Clone, Copy)]
pub(super) struct FrameIdentity {
    pub(super) group: GroupIdentity,
    pub(super) salt: u64,
}

impl FrameIdentity {
    fn checksum(&self, bytes: &[u8]) -> u64 {
        checksum(&self.group, &[&self.salt.to_le_bytes(), bytes])
    }

    fn body_checksum(&self, sequence: u64, body: &[u8]) -> u64 {
        let parts = [&self.salt.to_le_bytes()[..], &sequence.to_le_bytes(), body];
        checksum(&self.group, &parts)
    }
}

/// The head of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FrameHeader {
    pub(super) sequence: u64,
    pub(super) body_bytes: u32,
    body_checksum: u64,
}

impl FrameHeader {
    /// Completes a frame, whose first bytes are kept for its header and whose rest is its body, up to whole blocks.
    pub(super) fn complete(frame: &mut Vec<u8>, identity: &FrameIdentity, sequence: u64) {
        let body = &frame[FRAME_HEADER_BYTES..];
        let body_bytes = u32::try_from(body.len()).expect("a frame is far smaller than 4 GiB");
        let body_checksum = identity.body_checksum(sequence, body);
        let mut header = Vec::with_capacity(FRAME_HEADER_BYTES);
        header.put_slice(FRAME_MAGIC);
        header.put_u32_le(body_bytes);
        header.put_u64_le(sequence);
        header.put_u64_le(body_checksum);
        let sum = identity.checksum(&header);
        header.put_u64_le(sum);
        frame[..FRAME_HEADER_BYTES].copy_from_slice(&header);
        frame.resize(whole_blocks(frame.len()), 0);
    }

    /// `None` if the bytes are no header of this file's frames.
    pub(super) fn decode(bytes: &[u8], identity: &FrameIdentity) -> Option<FrameHeader> {
        let is_ours = bytes.len() >= FRAME_HEADER_BYTES && bytes[..4] == *FRAME_MAGIC;
        if !is_ours || u64_at(bytes, 24) != identity.checksum(&bytes[..24]) {
            return None;
        }
        Some(FrameHeader {
            sequence: u64_at(bytes, 8),
            body_bytes: u32_at(bytes, 4),
            body_checksum: u64_at(bytes, 16),
        })
    }

    pub(super) fn body_holds(&self, body: &Bytes, identity: &FrameIdentity) -> bool {
        self.body_checksum == identity.body_checksum(self.sequence, body)
    }

    /// The frame's length in the file.
    pub(super) fn frame_bytes(&self) -> usize {
        whole_blocks(FRAME_HEADER_BYTES + self.body_bytes as usize)
    }
}
