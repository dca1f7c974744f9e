//! The journal's bytes: file header, frame header, entry header. Pure encoding and checking, no I/O.
//!
//! ```text
//! file   | header block | frame | frame | … | what an earlier use left behind
//! frame  | header 64 B | entry | entry | … | zeros up to a whole block |
//! entry  | header 64 B | payload: one record batch, or nothing |
//! ```
//! A frame is what one flush makes durable. All integers are little-endian. Nothing here trusts a length
//! before the checksum over it held.

use planted::{Bug, planted};
use record::{Epoch, Offset, PartitionId, TopicId};

use crate::checksum::{DirectoryId, FrameIdentity, JournalIdentity, turned_bit};
use crate::witness::Witness;

/// The version of the journal's layout that this code writes and reads.
pub(crate) const FORMAT_VERSION: u32 = 2;
pub(crate) const FILE_HEADER_BYTES: usize = platform::disk::BLOCK_BYTES;
pub(crate) const FRAME_HEADER_BYTES: usize = 64;
pub(crate) const ENTRY_HEADER_BYTES: usize = 64;

const FILE_MAGIC: [u8; 8] = *b"RWJOURNL";
const FRAME_MAGIC: u32 = u32::from_le_bytes(*b"RWFR");
/// Where the checksum of either header stands: over what is before it, and of a frame's header over what is behind it, too.
const CHECKSUM_AT: usize = 48;
const CHECKSUM_END: usize = CHECKSUM_AT + 8;

/// The header block of a journal file. `sequence` grows with every reuse of any file of the journal, so that what an
/// earlier use left behind is recognised as stale. Everything that counts lies in the block's first sector, which the
/// disk writes whole or not at all: a file that was complete once has a good header ever after.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileHeader {
    pub(crate) sequence: u64,
    /// The sequence of the file whose frames come before this one's, by which a lost file is noticed; zero if none.
    pub(crate) previous: u64,
    pub(crate) file_bytes: u64,
    /// Part of the identity of its frames in this use.
    pub(crate) salt: u64,
}

/// Why a file header was not accepted.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FileHeaderError {
    /// Not a journal file, damaged, or another journal's.
    Invalid,
    /// Whole and ours, but of a version this code does not know.
    UnknownVersion(u32),
    /// Something stands where this version has nothing.
    UnknownFields,
}

impl FileHeader {
    pub(crate) fn encode(&self, identity: &JournalIdentity) -> Vec<u8> {
        let mut block = vec![0u8; FILE_HEADER_BYTES];
        block[..8].copy_from_slice(&FILE_MAGIC);
        put_u32(&mut block, 8, FORMAT_VERSION);
        put_u32(&mut block, 12, identity.journal);
        put_u64(&mut block, 16, self.sequence);
        put_u64(&mut block, 24, self.file_bytes);
        put_u64(&mut block, 32, self.previous);
        put_u64(&mut block, 40, self.salt);
        let checksum = identity.checksum(&[&block[..CHECKSUM_AT]]);
        put_u64(&mut block, CHECKSUM_AT, checksum);
        block
    }

    pub(crate) fn decode(block: &[u8], identity: &JournalIdentity) -> Result<FileHeader, FileHeaderError> {
        if block.len() < FILE_HEADER_BYTES || block[..8] != FILE_MAGIC {
            return Err(FileHeaderError::Invalid);
        }
        if get_u64(block, CHECKSUM_AT) != identity.checksum(&[&block[..CHECKSUM_AT]]) {
            return Err(FileHeaderError::Invalid);
        }
        let version = get_u32(block, 8);
        if version != FORMAT_VERSION {
            return Err(FileHeaderError::UnknownVersion(version));
        }
        if block[CHECKSUM_END..FILE_HEADER_BYTES]
            .iter()
            .any(|byte| *byte != 0)
        {
            return Err(FileHeaderError::UnknownFields);
        }
        Ok(FileHeader {
            sequence: get_u64(block, 16),
            file_bytes: get_u64(block, 24),
            previous: get_u64(block, 32),
            salt: get_u64(block, 40),
        })
    }
}

/// The header of a frame: where it stands in the journal's history, and how much body follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FrameHeader {
    pub(crate) file_sequence: u64,
    pub(crate) frame_sequence: u64,
    /// Bytes of entries after the header, without the padding.
    pub(crate) body_bytes: u32,
    pub(crate) entry_count: u32,
    /// Something stands in the reserved bytes: the frame was written by a version that has a use for them.
    pub(crate) has_unknown: bool,
    body_checksum: u64,
}

impl FrameHeader {
    /// Completes `frame`, whose first `FRAME_HEADER_BYTES` are reserved for the header and whose rest is the body.
    pub(crate) fn complete(
        frame: &mut [u8],
        identity: &FrameIdentity,
        file_sequence: u64,
        frame_sequence: u64,
        entry_count: u32,
    ) {
        let (header, body) = frame.split_at_mut(FRAME_HEADER_BYTES);
        let body_bytes = u32::try_from(body.len()).expect("a frame is far smaller than 4 GiB");
        header.fill(0);
        put_u32(header, 0, FRAME_MAGIC);
        put_u32(header, 4, body_bytes);
        put_u64(header, 8, file_sequence);
        put_u64(header, 16, frame_sequence);
        put_u32(header, 24, entry_count);
        // The body's place in history is part of its identity: a frame of an earlier use must not pass for this one.
        let body_checksum = identity.checksum(&header[8..24], body);
        put_u64(header, 32, body_checksum);
        let header_checksum = FrameHeader::checksum(header, identity);
        put_u64(header, CHECKSUM_AT, header_checksum);
    }

    /// The checksum that a header should have: of all its other bytes.
    fn checksum(header: &[u8], identity: &FrameIdentity) -> u64 {
        identity.checksum(&header[..CHECKSUM_AT], &header[CHECKSUM_END..FRAME_HEADER_BYTES])
    }

    /// Reads a header; `None` if these bytes are not a whole, undamaged frame header of this journal.
    pub(crate) fn decode(header: &[u8], identity: &FrameIdentity) -> Option<FrameHeader> {
        if header.len() < FRAME_HEADER_BYTES || get_u32(header, 0) != FRAME_MAGIC {
            return None;
        }
        if get_u64(header, CHECKSUM_AT) != FrameHeader::checksum(header, identity) {
            return None;
        }
        let reserved = (
            get_u32(header, 28),
            get_u64(header, 40),
            get_u64(header, CHECKSUM_END),
        );
        Some(FrameHeader {
            body_bytes: get_u32(header, 4),
            file_sequence: get_u64(header, 8),
            frame_sequence: get_u64(header, 16),
            entry_count: get_u32(header, 24),
            has_unknown: reserved != (0, 0, 0),
            body_checksum: get_u64(header, 32),
        })
    }

    /// Says whether `body` is the body that this header was written for.
    pub(crate) fn body_holds(&self, body: &[u8], identity: &FrameIdentity) -> bool {
        let holds = body.len() == self.body_bytes as usize && self.body_difference(body, identity) == 0;
        holds || planted(Bug::FrameChecksumIgnored)
    }

    /// The difference between the checksum of `body` and the one that this header was written with.
    pub(crate) fn body_difference(&self, body: &[u8], identity: &FrameIdentity) -> u64 {
        let mut history = [0u8; 16];
        history[..8].copy_from_slice(&self.file_sequence.to_le_bytes());
        history[8..].copy_from_slice(&self.frame_sequence.to_le_bytes());
        identity.checksum(&history, body) ^ self.body_checksum
    }

    /// The single bit of a header that has turned (`Some(None)`: none has); `None` if that does not explain its state.
    pub(crate) fn turned_bit(header: &[u8], identity: &FrameIdentity) -> Option<Option<u64>> {
        let stored = get_u64(header.get(..FRAME_HEADER_BYTES)?, CHECKSUM_AT);
        let difference = stored ^ FrameHeader::checksum(header, identity);
        let (begin, end) = (8 * CHECKSUM_AT as u64, 8 * CHECKSUM_END as u64);
        match difference.count_ones() {
            0 => Some(None),
            // One of the checksum's own.
            1 => Some(Some(begin + u64::from(difference.trailing_zeros()))),
            _ => {
                let bit = turned_bit(difference, FRAME_HEADER_BYTES - 8)?;
                Some(Some(if bit < begin { bit } else { bit - begin + end }))
            }
        }
    }

    /// The frame's bytes on disk: header, body, padding.
    pub(crate) fn frame_bytes(&self) -> usize {
        crate::slab::round_up_to_block(FRAME_HEADER_BYTES + self.body_bytes as usize)
    }
}

/// The effect of an entry on its partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EntryKind {
    /// Appends the record batch that is its payload at `first`, up to `next`. Offsets may be missing before the batch's own first
    /// one, where compaction took them: a copy of a compacted log has gaps, too.
    Batch,
    /// Gives up everything below `first`.
    Trim,
    /// Gives up the partition for ever.
    Delete,
    /// Cuts off everything from `first` on; with an epoch of at least 0 the log is that of this epoch's leader from then on.
    Accept,
    /// Promises to append nothing of an older epoch than `epoch`.
    Promise,
    /// Gives up all that a log has, and has it begin at `first`.
    Base,
    /// Says how far another node's journal was durable. It is of no partition: see [`Witness`].
    Witness,
    /// As `Batch`; the batch ends a transaction by aborting it.
    AbortBatch,
}

impl EntryKind {
    /// All kinds and their bytes.
    pub(crate) const ALL: [(EntryKind, u8); 8] = [
        (EntryKind::Batch, 1),
        (EntryKind::Trim, 2),
        (EntryKind::Delete, 3),
        (EntryKind::Accept, 4),
        (EntryKind::Promise, 5),
        (EntryKind::Base, 6),
        (EntryKind::Witness, 7),
        (EntryKind::AbortBatch, 8),
    ];

    /// Says whether the payload is a record batch. All other kinds have none.
    pub(crate) fn is_batch(self) -> bool {
        matches!(self, EntryKind::Batch | EntryKind::AbortBatch)
    }

    fn byte(self) -> u8 {
        let found = EntryKind::ALL.iter().find(|(kind, _)| *kind == self);
        found.expect("every kind has a byte").1
    }
}

/// Where a field of an entry holds nothing.
pub(crate) const NONE: i64 = -1;

/// The header of an entry. The fields of the format that have no use yet, the lane of the batch's sequence and its position in
/// an order, are written as none and refused as anything else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EntryHeader {
    pub(crate) kind: EntryKind,
    pub(crate) partition: PartitionId,
    /// Of a batch its leader's, of `Accept` and `Promise` the epoch that they are for, of a witness the node, else 0.
    pub(crate) epoch: Epoch,
    /// Of a promise the node that it was given to.
    pub(crate) first: Offset,
    /// Of a batch the offset after its last record; of `Accept` the epoch of the record before `first`, or -1 if there is
    /// none; else as `first`.
    pub(crate) next: Offset,
    pub(crate) payload_bytes: u32,
    /// The first offset of the transaction that an `AbortBatch` ends; else none.
    pub(crate) aborts: i64,
}

impl EntryHeader {
    /// The header of an entry without a payload.
    pub(crate) fn bare(kind: EntryKind, partition: PartitionId, epoch: Epoch, first: Offset) -> EntryHeader {
        EntryHeader {
            kind,
            partition,
            epoch,
            first,
            next: first,
            payload_bytes: 0,
            aborts: NONE,
        }
    }

    /// The header that says what a witness says.
    pub(crate) fn of_witness(witness: &Witness) -> EntryHeader {
        let partition = PartitionId {
            topic: TopicId(witness.directory.0),
            index: witness.journal as i32,
        };
        let frame = Offset(witness.frame as i64);
        EntryHeader::bare(EntryKind::Witness, partition, Epoch(witness.node), frame)
    }

    /// The witness that an entry of that kind is.
    pub(crate) fn witness(&self) -> Witness {
        Witness {
            node: self.epoch.0,
            directory: DirectoryId(self.partition.topic.0),
            journal: self.partition.index as u32,
            frame: self.first.0 as u64,
        }
    }

    /// Of an `Accept`: the epoch of the record before `first`, if there is one.
    pub(crate) fn epoch_before(&self) -> Option<Epoch> {
        (self.next.0 != NONE).then_some(Epoch(self.next.0 as i32))
    }

    /// The offset up to which the partition's log reaches behind this entry, if that is what it changes.
    pub(crate) fn log_end(&self) -> Option<i64> {
        match self.kind {
            EntryKind::Batch | EntryKind::AbortBatch => Some(self.next.0),
            EntryKind::Accept | EntryKind::Base => Some(self.first.0),
            EntryKind::Trim | EntryKind::Delete | EntryKind::Promise | EntryKind::Witness => None,
        }
    }

    pub(crate) fn encode(&self) -> [u8; ENTRY_HEADER_BYTES] {
        let mut bytes = [0u8; ENTRY_HEADER_BYTES];
        bytes[0] = self.kind.byte();
        put_u32(&mut bytes, 4, self.payload_bytes);
        bytes[8..24].copy_from_slice(&self.partition.topic.0);
        put_u32(&mut bytes, 24, self.partition.index as u32);
        put_u32(&mut bytes, 28, self.epoch.0 as u32);
        put_u64(&mut bytes, 32, self.first.0 as u64);
        put_u64(&mut bytes, 40, self.next.0 as u64);
        put_u64(&mut bytes, 48, NONE as u64);
        put_u64(&mut bytes, 56, self.aborts as u64);
        bytes
    }

    /// Reads the entry at the start of `bytes`.
    ///
    /// # Errors
    /// Its fault: it is cut short, or says what this version does not know.
    pub(crate) fn decode(bytes: &[u8]) -> Result<EntryHeader, String> {
        if bytes.len() < ENTRY_HEADER_BYTES {
            return Err(format!("an entry has {} bytes", bytes.len()));
        }
        let known = EntryKind::ALL.iter().find(|(_, byte)| *byte == bytes[0]);
        let Some((kind, _)) = known.copied() else {
            return Err(format!("there is no kind {} of entries", bytes[0]));
        };
        let header = EntryHeader {
            kind,
            payload_bytes: get_u32(bytes, 4),
            partition: PartitionId {
                topic: TopicId(bytes[8..24].try_into().expect("sixteen bytes")),
                index: get_u32(bytes, 24) as i32,
            },
            epoch: Epoch(get_u32(bytes, 28) as i32),
            first: Offset(get_u64(bytes, 32) as i64),
            next: Offset(get_u64(bytes, 40) as i64),
            aborts: get_u64(bytes, 56) as i64,
        };
        if bytes[1..4] != [0; 3] || get_u64(bytes, 48) as i64 != NONE {
            return Err(
                "an entry has flags or a position, which this version does not know: a newer one wrote it"
                    .into(),
            );
        }
        if bytes.len() - ENTRY_HEADER_BYTES < header.payload_bytes as usize {
            return Err(format!("an entry's {} bytes are not there", header.payload_bytes));
        }
        match header.agrees_with_kind() {
            true => Ok(header),
            false => Err(format!(
                "an entry of kind {kind:?} has fields that such an entry has not"
            )),
        }
    }

    /// Says whether the fields are those that an entry of its kind can have.
    fn agrees_with_kind(&self) -> bool {
        let EntryHeader {
            epoch, first, next, ..
        } = *self;
        // A witness has the number of a journal there.
        let is_of_partition = self.partition.index >= 0 || self.kind == EntryKind::Witness;
        let fields_agree = match self.kind {
            EntryKind::Batch | EntryKind::AbortBatch => next > first && first.0 >= 0,
            EntryKind::Trim => epoch.0 == 0 && next == first,
            EntryKind::Delete => epoch.0 == 0 && next == first && first == Offset::ZERO,
            EntryKind::Base => epoch.0 == 0 && next == first && first > Offset::ZERO,
            // Of no record's epoch, or of that of a record that was there before the epoch that is accepted.
            EntryKind::Accept => {
                let latest = if epoch.0 == -1 { i32::MAX } else { epoch.0 };
                epoch.0 >= -1 && (NONE..=i64::from(latest)).contains(&next.0)
            }
            EntryKind::Promise => epoch.0 >= 0 && next == first && first.0 <= i64::from(i32::MAX),
            EntryKind::Witness => epoch.0 >= 0 && next == first,
        };
        let aborts_agree = match self.kind {
            EntryKind::AbortBatch => (0..=first.0).contains(&self.aborts),
            _ => self.aborts == NONE,
        };
        let payload_agrees = self.kind.is_batch() || self.payload_bytes == 0;
        is_of_partition && fields_agree && aborts_agree && payload_agrees && first >= Offset::ZERO
    }
}

/// One entry of a frame's body, with where its payload stands in the frame.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) header: EntryHeader,
    /// The payload's first byte, counted from the frame's first byte.
    pub(crate) payload_start: usize,
}

/// The entries of a frame whose checksums held.
///
/// # Errors
/// The fault of the first that is not an entry, or that the body does not consist of exactly `entry_count`; or the header
/// says what this version does not know.
pub(crate) fn entries(header: &FrameHeader, body: &[u8]) -> Result<Vec<Entry>, String> {
    if header.has_unknown {
        return Err("its header has fields that this version does not know: a newer one wrote it".into());
    }
    let mut entries = Vec::new();
    let mut at = 0;
    while at < body.len() {
        let entry = EntryHeader::decode(&body[at..])?;
        let payload_start = FRAME_HEADER_BYTES + at + ENTRY_HEADER_BYTES;
        at += ENTRY_HEADER_BYTES + entry.payload_bytes as usize;
        entries.push(Entry {
            header: entry,
            payload_start,
        });
    }
    match entries.len() == header.entry_count as usize {
        true => Ok(entries),
        false => Err(format!(
            "it has {} entries, not {}",
            entries.len(),
            header.entry_count
        )),
    }
}

pub(crate) fn put_u32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

pub(crate) fn put_u64(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

pub(crate) fn get_u32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

pub(crate) fn get_u64(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}
