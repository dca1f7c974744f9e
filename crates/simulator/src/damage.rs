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
    /// Turns a bit of what was written to a file of these kinds, often one of what was written last; `None` if there is none.
    pub(crate) fn draw(
        disk: &SimulatedDisk,
        extensions: &[&str],
        random: &mut SeededRandom,
    ) -> Option<Damage> {
        let mut written = disk.operations();
        written.retain(|operation| {
            is_write_to(operation, extensions) && disk.file_length(&operation.path).is_some()
        });
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

fn is_write_to(operation: &Operation, extensions: &[&str]) -> bool {
    let is_write = matches!(operation.kind, OperationKind::WriteDurable | OperationKind::Write);
    let extension = operation.path.extension();
    let is_one_of_them = extension.is_some_and(|own| extensions.iter().any(|wanted| own == *wanted));
    is_write && is_one_of_them && operation.length > 0
}
