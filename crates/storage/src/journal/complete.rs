//! Layout's questions about whole files of the journal: which are complete, and which look like one partition's.

use record::PartitionId;

use super::frame::FRAME_HEADER_BYTES;
use super::{Journal, Reserve};
use crate::slab::round_up_to_block;

/// A journal file that takes no more frames, all of which are durable.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CompleteFile {
    pub(crate) number: u32,
    pub(crate) sequence: u64,
    pub(crate) salt: u64,
    pub(crate) file_bytes: u64,
    /// The partition that most of it belongs to, if one does and the file was written since the start.
    pub(crate) majority: Option<PartitionId>,
    /// Others have a part in it, too, if one does.
    pub(crate) is_shared: bool,
    /// Its first frame.
    pub(crate) frames_begin: u64,
    /// Its frames come before this one.
    pub(crate) frames_end: u64,
}

impl Journal {
    /// Of the file that is being written: the partition that most of it belongs to, if one does, its first frame, and its
    /// size.
    pub(crate) fn dominated_file(&self) -> Option<(PartitionId, u64, u64)> {
        let (partition, file) = self.files.dominated()?;
        Some((partition, self.first_frame_from(file.sequence), file.file_bytes))
    }

    /// The first frame in the file that a sealed `frame` stands in.
    pub(crate) fn first_frame_beside(&self, frame: u64) -> u64 {
        let record = self.record(frame).expect("it is sealed and not released");
        self.first_frame_from(record.location.file_sequence)
    }

    /// Says whether entries of so many bytes have a place now as one frame.
    pub(crate) fn has_place_together(&self, bytes: u64) -> bool {
        let frame_bytes = round_up_to_block(FRAME_HEADER_BYTES + bytes as usize) as u64;
        let pending_bytes = round_up_to_block(self.slab.filled()) as u64;
        let reserve = Reserve::UseHalf;
        frame_bytes <= self.files.frame_bytes_max(reserve)
            && self.files.has_place_after(pending_bytes, frame_bytes, reserve)
    }

    /// Says whether a checkpoint that has recovery begin with `frame` would free a file.
    pub(crate) fn holds_file_before(&self, frame: u64) -> bool {
        self.files.oldest() < self.replay_start(frame).file_sequence
    }

    /// The first frame in the file of that sequence or a later one.
    fn first_frame_from(&self, file_sequence: u64) -> u64 {
        let earlier = self
            .records
            .partition_point(|record| record.location.file_sequence < file_sequence);
        self.first_record + earlier as u64
    }

    /// The file that `frame` stands in, if it takes no more frames and all of its frames come before `before_frame`.
    pub(crate) fn complete_file(&self, frame: u64, before_frame: u64) -> Option<CompleteFile> {
        let file = self.files.complete(self.record(frame)?.location.file_sequence)?;
        let frames_begin = self.first_frame_from(file.sequence);
        let frames_end = self.first_frame_from(file.sequence + 1);
        let number = file.number()?;
        (frames_end <= before_frame).then_some(CompleteFile {
            number,
            sequence: file.sequence,
            salt: file.salt,
            file_bytes: file.file_bytes,
            majority: file.majority,
            is_shared: file.is_shared,
            frames_begin,
            frames_end,
        })
    }

    /// The same, if that frame is not in memory any more.
    pub(crate) fn forgotten_file(&self, frame: u64, before_frame: u64) -> Option<CompleteFile> {
        let is_forgotten = frame < self.resident_from;
        self.complete_file(frame, before_frame).filter(|_| is_forgotten)
    }

    /// Says whether the journal still has that file: its frames are not all released.
    pub(crate) fn has_file(&self, sequence: u64) -> bool {
        self.files.is_used(sequence)
    }
}
