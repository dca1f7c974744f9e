//! A batch of a log as those see it who keep account of producers: its header, and what it ends if it is a marker.

use super::error::BatchError;
use super::header::BatchHeader;
use super::marker::Marker;

/// See the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Logged {
    /// The header.
    pub header: BatchHeader,
    /// The transaction that it ends; `None` of all but markers.
    pub marker: Option<Marker>,
}

impl Logged {
    /// Reads the batch that `bytes` begins with. Records are looked at in a control batch alone.
    ///
    /// # Errors
    /// As `BatchHeader::read` and `Marker::read`.
    pub fn read(bytes: &[u8]) -> Result<Logged, BatchError> {
        Logged::of(BatchHeader::read(bytes)?, bytes)
    }

    /// The same of a batch whose header was read already.
    ///
    /// # Errors
    /// As `Marker::read`.
    pub fn of(header: BatchHeader, bytes: &[u8]) -> Result<Logged, BatchError> {
        let marker = Marker::read(&header, bytes)?;
        Ok(Logged { header, marker })
    }
}
