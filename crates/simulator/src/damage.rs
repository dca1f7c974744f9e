//! A bit of a stored file that turns while its node is down, and later turns back: what is damaged is not lost.

use std::path::PathBuf;

use platform::disk::{Operation, OperationKind, SimulatedDisk};
use platform::random::SeededRandom;

/// What is written last: the frames that a journal ends with, of each of two.
const LAST_WRITES: usize = 6;

/// A bit that has turned.
pub(crate) struct Damage {
    path: PathBuf,
    bit: u64,
    /// The block as the bit left it.
    block: Vec<u8>,
}

impl Damage {
    /// Turns a bit of what was written to a journal or a segment, often one of what was written last; `None` if there is none.
    pub(crate) fn draw(disk: &SimulatedDisk, random: &mut SeededRandom) -> Option<Damage> {
        let written = writes(disk, &["journal", "segment"]);
        let least = match random.chance(1, 2) {
            true => written.len().saturating_sub(LAST_WRITES),
            false => 0,
        };
        let chosen = least as u64 + random.below((written.len() - least).max(1) as u64);
        let Operation {
            path,
            position,
            length,
            ..
        } = written.into_iter().nth(chosen as usize)?;
        let bit = (position + random.below(length)) * 8 + random.below(8);
        Damage::turn(disk, path, bit)
    }

    /// The same of a segment, and of what stands there: blocks are mostly zeros behind a few records.
    pub(crate) fn draw_of_segments(disk: &SimulatedDisk, random: &mut SeededRandom) -> Option<Damage> {
        let written = writes(disk, &["segment"]);
        let chosen = random.below(written.len().max(1) as u64);
        let Operation {
            path,
            position,
            length,
            ..
        } = written.into_iter().nth(chosen as usize)?;
        let bytes = disk.file_bytes(&path)?;
        let end = bytes.len().min((position + length) as usize);
        let own = bytes.get(position as usize..end)?;
        let used: Vec<u64> = (position..)
            .zip(own)
            .filter(|(_, byte)| **byte != 0)
            .map(|(at, _)| at)
            .collect();
        let at = *used.get(random.below(used.len().max(1) as u64) as usize)?;
        Damage::turn(disk, path, at * 8 + random.below(8))
    }

    fn turn(disk: &SimulatedDisk, path: PathBuf, bit: u64) -> Option<Damage> {
        let before = disk.block_of(&path, bit / 8)?;
        disk.flip_bit(&path, bit);
        let block = disk.block_of(&path, bit / 8)?;
        assert_ne!(before, block, "a bit has turned");
        Some(Damage { path, bit, block })
    }

    /// Turns the bit back, if nothing was written over it since.
    pub(crate) fn repair(self, disk: &SimulatedDisk) {
        if disk.block_of(&self.path, self.bit / 8).as_ref() == Some(&self.block) {
            disk.flip_bit(&self.path, self.bit);
        }
    }
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "bit {} of {}", self.bit, self.path.display())
    }
}

/// Writes to files of these kinds that are there still.
fn writes(disk: &SimulatedDisk, extensions: &[&str]) -> Vec<Operation> {
    let mut written = disk.operations();
    written.retain(|operation| {
        is_write_to(operation, extensions) && disk.file_length(&operation.path).is_some()
    });
    written
}

fn is_write_to(operation: &Operation, extensions: &[&str]) -> bool {
    let is_write = matches!(operation.kind, OperationKind::WriteDurable | OperationKind::Write);
    let extension = operation.path.extension();
    let is_one_of_them = extension.is_some_and(|own| extensions.iter().any(|wanted| own == *wanted));
    is_write && is_one_of_them && operation.length > 0
}
