//! Batches that stand one after the other, as in a produce request, a fetch response or a segment.

use super::error::BatchError;
use super::header::BatchHeader;

/// Walks over concatenated batches, headers only. A batch that is cut at the end is the error `Truncated`, which readers
/// of fetch responses take for the end. After an error there is nothing more.
#[must_use]
pub fn batches(records: &[u8]) -> Batches<'_> {
    Batches { rest: records }
}

/// The batches of a run of bytes: each one's header and all of its bytes.
#[derive(Debug, Clone)]
pub struct Batches<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Batches<'a> {
    type Item = Result<(BatchHeader, &'a [u8]), BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        match BatchHeader::read(self.rest) {
            Ok(header) => {
                let (batch, rest) = self.rest.split_at(header.length_bytes);
                self.rest = rest;
                Some(Ok((header, batch)))
            }
            Err(error) => {
                self.rest = &[];
                Some(Err(error))
            }
        }
    }
}

impl std::iter::FusedIterator for Batches<'_> {}
