//! What is done to the files, as the input says.

use std::path::{Path, PathBuf};

use platform::disk::{Disk, SimulatedDisk};
use storage::Fault;

use super::forge::seal_again;
use crate::input::Input;

const TURN_BIT: u8 = 0;
const OVERWRITE: u8 = 1;
const CUT: u8 = 2;
const SWAP: u8 = 3;
const COPY_BLOCK: u8 = 4;
const REMOVE: u8 = 5;
const COPY_FILE: u8 = 6;
const ZERO_BLOCK: u8 = 7;
const SEAL_AGAIN: u8 = 8;

/// All kinds of damage.
pub(super) const KINDS: [u8; 9] = [
    TURN_BIT, OVERWRITE, CUT, SWAP, COPY_BLOCK, REMOVE, COPY_FILE, ZERO_BLOCK, SEAL_AGAIN,
];

/// More would only be slower.
const STEPS_MAX: usize = 12;
const BLOCK_BYTES: usize = 4_096;

/// What was done to a disk.
#[derive(Debug, Default)]
pub(super) struct Damage {
    turned_bits: usize,
    otherwise: usize,
    forged: bool,
}

impl Damage {
    /// Damages `disk` as the input says.
    pub(super) fn apply(disk: &SimulatedDisk, input: &mut Input<'_>) -> Damage {
        let mut damage = Damage::default();
        for _ in 0..STEPS_MAX {
            if input.is_empty() {
                break;
            }
            let paths = disk.paths();
            if paths.is_empty() {
                break;
            }
            damage.step(disk, &paths, input);
        }
        damage
    }

    /// Whether all that happened is that one bit turned.
    pub(super) fn is_one_bit(&self) -> bool {
        (self.turned_bits, self.otherwise, self.forged) == (1, 0, false)
    }

    /// Whether anything was done at all.
    pub(super) fn is_any(&self) -> bool {
        self.turned_bits + self.otherwise > 0
    }

    /// Whether checksums hold over bytes that were never written.
    pub(super) fn is_forged(&self) -> bool {
        self.forged
    }

    /// A fault is right where there is damage, and only there; nothing else is wrong with this disk.
    pub(super) fn assert_blamed(&self, fault: &Fault) {
        assert!(self.is_any(), "nothing was damaged, but: {fault}");
        let fits = match fault {
            Fault::Damaged { .. } => true,
            // Layout goes on where a segment ended, and may be the first to miss its file.
            Fault::Disk { error, .. } => error.kind() == std::io::ErrorKind::NotFound,
            Fault::UnknownVersion { .. } => false,
        };
        assert!(fits || self.forged, "damage is reported as: {fault}");
    }

    fn step(&mut self, disk: &SimulatedDisk, paths: &[PathBuf], input: &mut Input<'_>) {
        let kind = KINDS[input.below(KINDS.len())];
        let path = &paths[input.below(paths.len())];
        let mut bytes = disk.file_bytes(path).expect("it is listed");
        match kind {
            TURN_BIT if !bytes.is_empty() => {
                disk.flip_bit(path, input.below(8 * bytes.len()) as u64);
                self.turned_bits += 1;
                return;
            }
            OVERWRITE if !bytes.is_empty() => {
                let at = input.below(bytes.len());
                let count = usize::from(input.u8() % 16) + 1;
                for (old, new) in bytes[at..].iter_mut().zip(input.bytes(count)) {
                    *old = *new;
                }
                write(disk, path, &bytes);
            }
            CUT => disk.truncate(path, input.below(2 * bytes.len() + 1) as u64),
            SWAP => disk.swap_files(path, &paths[input.below(paths.len())]),
            COPY_BLOCK => {
                let other = &paths[input.below(paths.len())];
                copy_block(disk, &bytes, other, input);
            }
            REMOVE => disk.remove(path).expect("nothing fails on this disk"),
            COPY_FILE => {
                let extension = path.extension().unwrap_or_default();
                let copy = path
                    .with_file_name(format!("{:06}", input.u8()))
                    .with_extension(extension);
                write(disk, &copy, &bytes);
            }
            ZERO_BLOCK => {
                let block = input.below(bytes.len() / BLOCK_BYTES + 1);
                bytes
                    .iter_mut()
                    .skip(block * BLOCK_BYTES)
                    .take(BLOCK_BYTES)
                    .for_each(|byte| *byte = 0);
                write(disk, path, &bytes);
            }
            SEAL_AGAIN => {
                seal_again(path, &mut bytes);
                write(disk, path, &bytes);
                self.forged = true;
            }
            _ => return,
        }
        self.otherwise += 1;
    }
}

/// A write that went to the wrong place, of the same file or another.
fn copy_block(disk: &SimulatedDisk, from: &[u8], to: &Path, input: &mut Input<'_>) {
    let mut bytes = disk.file_bytes(to).expect("it is listed");
    let source = input.below(from.len() / BLOCK_BYTES + 1) * BLOCK_BYTES;
    let target = input.below(bytes.len() / BLOCK_BYTES + 1) * BLOCK_BYTES;
    for (new, old) in from[source..].iter().zip(&mut bytes[target..]).take(BLOCK_BYTES) {
        *old = *new;
    }
    write(disk, to, &bytes);
}

fn write(disk: &SimulatedDisk, path: &Path, content: &[u8]) {
    disk.replace(path, content).expect("nothing fails on this disk");
}
