//! A frame of the journal that layout needs and that cannot be read back. Nothing else has its records, so layout stops there:
//! no file behind the frame is used again, and the journal fills.
//!
//! The way out while the process runs is to give up the partitions that have records in the frame. It is the operator's to
//! choose, so the fault says what stands there.

use record::PartitionId;

use super::super::{PartitionLog, Store};
use super::step::Failure;
use crate::fault::{Doing, Fault};
use crate::journal::{MissingFrame, RereadError, directory};

/// Says what is wrong with the bytes in its place.
pub(in crate::store) fn does_not_match(missing: &MissingFrame) -> String {
    format!("frame {} does not match its checksum", missing.frame)
}

/// The most partitions of a frame that are named.
const NAMED_MAX: usize = 10;

impl Store {
    /// The fault of a step that failed, with the file's name and what else is stopped.
    pub(super) fn fault_of(&self, failure: Failure) -> Fault {
        match failure {
            Failure::Fault(fault) => fault,
            Failure::Reread(RereadError::Disk { file, error }) => {
                Doing::Reading.failed(error).at(self.journal_file(file))
            }
            Failure::Reread(RereadError::NotThere(missing)) => {
                let (what, held) = (does_not_match(&missing), self.held_by(missing.frame));
                Fault::Damaged {
                    file: self.journal_file(missing.file),
                    position: missing.position,
                    what: format!(
                        "{what}, and no other place has its records: {held}; layout of the journal stops there, and the next \
                         start is refused, until these partitions are deleted: see \"Damage\" in docs/operating.md"
                    ),
                }
            }
        }
    }

    /// The path of a journal file.
    pub(in crate::store) fn journal_file(&self, sequence: u64) -> String {
        let directory = self.disk.root().join(directory(&self.config.identity));
        let file = match self.journal.name_of(sequence) {
            Some(name) => directory.join(name),
            None => directory,
        };
        file.display().to_string()
    }

    /// The records that the journal alone has in a frame, in words.
    fn held_by(&self, frame: u64) -> String {
        let of_log = |log: &PartitionLog| {
            let unlaid = log
                .tail
                .iter()
                .filter(|batch| batch.frame == frame && batch.next > log.laid_out);
            let offsets = unlaid.map(|batch| (batch.first, batch.next));
            let found = offsets.reduce(|(first, _), (_, next)| (first, next));
            found.map(|(first, next)| (log.id, first, next))
        };
        let mut held: Vec<(PartitionId, i64, i64)> =
            self.partitions.values().filter_map(|log| of_log(log)).collect();
        held.sort_unstable_by_key(|(id, ..)| *id);
        let named = held.iter().take(NAMED_MAX);
        let named: Vec<String> = named
            .map(|(id, first, next)| format!("offsets {first} to {} of {id}", next - 1))
            .collect();
        match held.len().saturating_sub(NAMED_MAX) {
            0 => named.join(", "),
            more => format!("{} and those of {more} more partitions", named.join(", ")),
        }
    }
}
