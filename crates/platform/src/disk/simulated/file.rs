//! An open file of a simulated disk. It goes on working when its name is gone, as a descriptor does.
//!
//! Alignment is checked as strictly as O_DIRECT does it, the address included.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;

use super::SimulatedDisk;
use super::change::FileId;
use super::faults::OperationKind;
use super::state::About;
use crate::disk::{BLOCK_BYTES, File, Pace};

/// The number of times that filling asks for its pace, more or less. All is written, at once, whatever that is.
const FILL_STEPS: u64 = 8;

pub(super) struct SimulatedFile {
    disk: SimulatedDisk,
    file: FileId,
    /// The path it was opened by, for the journal and the fault plan.
    path: PathBuf,
}

impl SimulatedFile {
    pub(super) fn new(disk: SimulatedDisk, file: FileId, path: PathBuf) -> SimulatedFile {
        SimulatedFile { disk, file, path }
    }

    fn write_as(&self, kind: OperationKind, position: u64, bytes: &[u8]) -> io::Result<()> {
        let aligned = position.is_multiple_of(BLOCK_BYTES as u64)
            && bytes.len().is_multiple_of(BLOCK_BYTES)
            && (bytes.is_empty() || (bytes.as_ptr() as usize).is_multiple_of(BLOCK_BYTES));
        if !aligned {
            let message = format!(
                "write of {} bytes at {position} is not aligned to {BLOCK_BYTES}",
                bytes.len()
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let about = About {
            kind,
            path: &self.path,
            position,
            length: bytes.len() as u64,
        };
        self.disk
            .state()
            .write(self.file, about, &Bytes::copy_from_slice(bytes))
    }
}

impl File for SimulatedFile {
    fn write_durable(&self, position: u64, bytes: &[u8]) -> io::Result<()> {
        self.write_as(OperationKind::WriteDurable, position, bytes)
    }

    fn write(&self, position: u64, bytes: &[u8]) -> io::Result<()> {
        self.write_as(OperationKind::Write, position, bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.state().sync(self.file, &self.path)
    }

    fn read(&self, position: u64, length: usize) -> io::Result<Bytes> {
        let mut state = self.disk.state();
        let about = About {
            kind: OperationKind::Read,
            path: &self.path,
            position,
            length: length as u64,
        };
        state.look_at(about)?;
        let content = state.content(self.file);
        match position.checked_add(length as u64) {
            None => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "the range to read ends beyond any file",
            )),
            Some(end) if end > content.length() => {
                let message = format!("the file ends before {length} bytes at {position}");
                Err(io::Error::new(io::ErrorKind::UnexpectedEof, message))
            }
            Some(_) => Ok(content.read(position, length)),
        }
    }

    fn length(&self) -> io::Result<u64> {
        let mut state = self.disk.state();
        state.look(OperationKind::Length, &self.path)?;
        Ok(state.content(self.file).length())
    }

    fn shrink_unnamed(&self, length: u64) -> io::Result<()> {
        self.disk.state().shrink_unnamed(self.file, &self.path, length)
    }

    fn fill_with_zeros_at(&self, length: u64, pace: Pace<'_>) -> io::Result<()> {
        if !length.is_multiple_of(BLOCK_BYTES as u64) {
            let message = format!("zeros up to {length} are not aligned to {BLOCK_BYTES}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        self.disk.state().fill_with_zeros(self.file, &self.path, length)?;
        let step = (length / FILL_STEPS).next_multiple_of(BLOCK_BYTES as u64);
        let mut filled = step;
        while filled > 0 && filled < length && pace(filled, Duration::ZERO).is_continue() {
            filled += step;
        }
        Ok(())
    }
}
