//! Checks that a checkpoint is one that a store can have written, before anything is built on it.
//!
//! Its checksum says only that these bytes were meant. What contradicts itself (a mistake of an earlier version, or
//! somebody's own) is damage like any other: the store behind this relies on all that is said here.

use std::collections::BTreeSet;

use platform::disk::BLOCK_BYTES;

use super::{Checkpoint, PartitionCheckpoint};
use crate::journal::ReplayStart;
use crate::journal::frame::FILE_HEADER_BYTES;
use crate::segment::{AdoptedFile, Segment};
use crate::witness::Witness;

/// Offsets that no log comes near; what is added to them never overflows.
pub(crate) const OFFSET_MAX: i64 = 1 << 62;
/// Numbers of journal files: far from what counting up could reach.
const NUMBER_MAX: u32 = u32::MAX / 2;
/// Sequences, positions and sums of sizes: as far as a file can reach.
const REACH_MAX: u64 = i64::MAX as u64;

impl Checkpoint {
    /// Looks for a contradiction in it. Things that only the journal can tell (where logs end, which partitions were
    /// deleted) is for the recovery to compare.
    pub(super) fn verify(&self) -> Result<(), String> {
        verify_replay(&self.replay)?;
        let mut bytes = 0u64;
        for partition in &self.partitions {
            partition
                .verify()
                .map_err(|what| format!("{}: {what}", partition.id))?;
            let ends = partition.segments.iter().map(|segment| {
                segment
                    .end
                    .saturating_add(segment.adopted.map_or(0, |file| file.bytes))
            });
            bytes = ends.fold(bytes, u64::saturating_add);
        }
        if bytes > REACH_MAX {
            return Err("its segments are larger than any disk".into());
        }
        if let Some(removal) = self.removals.iter().find(|removal| removal.partition.index < 0) {
            return Err(format!(
                "there is no partition {} to remove files of",
                removal.partition
            ));
        }
        self.verify_adopted()?;
        self.verify_witnesses()?;
        // Also that no partition is there twice.
        if let Some(pair) = self.partitions.windows(2).find(|pair| pair[0].id >= pair[1].id) {
            return Err(format!("{} stands before {}", pair[0].id, pair[1].id));
        }
        Ok(())
    }
}

impl Checkpoint {
    /// A journal file is adopted by one segment, and never while recovery still needs it.
    fn verify_adopted(&self) -> Result<(), String> {
        let mut numbers = BTreeSet::new();
        let segments = self.partitions.iter().flat_map(|partition| &partition.segments);
        let adopted = segments.filter_map(|segment| segment.adopted);
        let removed = self.removals.iter().filter_map(|removal| removal.adopted);
        for AdoptedFile { number, sequence, .. } in adopted.chain(removed) {
            if number > NUMBER_MAX {
                return Err(format!("there is no journal file {number}"));
            }
            if !numbers.insert(number) {
                return Err(format!("journal file {number} is two segments"));
            }
            if sequence >= self.replay.file_sequence {
                return Err(format!(
                    "journal file {number} with sequence {sequence} is a segment, but needed for recovery"
                ));
            }
        }
        Ok(())
    }

    /// Of each journal of another node there is one.
    fn verify_witnesses(&self) -> Result<(), String> {
        if let Some(Witness { node, frame, .. }) =
            self.witnesses.iter().find(|witness| !witness.is_possible())
        {
            return Err(format!("there is no frame {frame} of node {node}"));
        }
        let mut pairs = self.witnesses.windows(2);
        match pairs.find(|pair| pair[0].of() >= pair[1].of()) {
            Some(pair) => Err(format!(
                "a witness of journal {} of node {} stands before one of journal {} of node {}",
                pair[0].journal, pair[0].node, pair[1].journal, pair[1].node
            )),
            None => Ok(()),
        }
    }
}

fn verify_replay(replay: &ReplayStart) -> Result<(), String> {
    let ReplayStart {
        file_sequence,
        position,
        frame,
    } = *replay;
    let is_place = (FILE_HEADER_BYTES as u64..=REACH_MAX).contains(&position)
        && position.is_multiple_of(BLOCK_BYTES as u64);
    if !is_place || file_sequence > REACH_MAX || frame > REACH_MAX {
        return Err(format!(
            "frame {frame} at byte {position} of the journal file with sequence {file_sequence} cannot be"
        ));
    }
    Ok(())
}

impl PartitionCheckpoint {
    /// The first offset that its segments hold, or that the first one will hold.
    fn kept_from(&self) -> i64 {
        self.segments
            .first()
            .map_or(self.laid_out, |segment| segment.first)
    }

    fn verify(&self) -> Result<(), String> {
        let PartitionCheckpoint {
            log_start,
            laid_out,
            state_next,
            ..
        } = *self;
        if self.id.index < 0 {
            return Err("there is no such partition".into());
        }
        if [log_start, laid_out, state_next]
            .iter()
            .any(|offset| !(0..=OFFSET_MAX).contains(offset))
        {
            return Err(format!(
                "there are no offsets like {log_start}, {laid_out} and {state_next}"
            ));
        }
        if self.kept_from() > log_start {
            return Err(format!(
                "offsets {log_start}..{} are in no segment",
                self.kept_from()
            ));
        }
        if state_next < laid_out {
            return Err(format!(
                "the state ends at offset {state_next}, before offset {laid_out} that was laid out"
            ));
        }
        self.verify_segments()?;
        self.verify_cleaned()
    }

    /// Passes of compaction reach further and further, and never beyond what was laid out.
    fn verify_cleaned(&self) -> Result<(), String> {
        let reach = self.cleaned.iter().map(|cleaned| cleaned.until);
        let ascends = reach.clone().is_sorted_by(|one, next| one < next);
        if !ascends || reach.clone().any(|until| until <= 0 || until > self.laid_out) {
            let reach: Vec<_> = reach.collect();
            return Err(format!("it was compacted up to the offsets {reach:?}"));
        }
        Ok(())
    }

    /// Segments follow each other up to where the journal goes on, and only the last one may be open.
    fn verify_segments(&self) -> Result<(), String> {
        let begins = self.segments.iter().skip(1).map(|segment| segment.first);
        let next_begins = begins.chain([self.laid_out]);
        for (index, (segment, next_begins)) in self.segments.iter().zip(next_begins).enumerate() {
            let Segment { first, next, end, .. } = *segment;
            if next <= first || next != next_begins {
                return Err(format!(
                    "a segment holds offsets {first}..{next}, and what follows begins at {next_begins}"
                ));
            }
            if end == 0 || !end.is_multiple_of(BLOCK_BYTES as u64) {
                return Err(format!("the segment of offset {first} cannot end at byte {end}"));
            }
            if segment.adopted.is_some() && !segment.sealed {
                return Err(format!(
                    "the segment of offset {first} is a journal file, but open"
                ));
            }
            let laid_out_only = segment.sealed && segment.adopted.is_none();
            if segment.generation > 0 && !laid_out_only {
                return Err(format!(
                    "the segment of offset {first} was written anew, but is open or a journal file"
                ));
            }
            if !segment.sealed && index + 1 < self.segments.len() {
                return Err(format!("the segment of offset {first} is open, but not the last"));
            }
        }
        Ok(())
    }
}
