//! The records of one fetched partition, as the slices they lie in: tail cache, chunk cache and disk each
//! hand out their own, and no step between them and the socket joins them.

use bytes::Bytes;

/// Record batches, possibly in several pieces that follow each other. Cuts may fall anywhere, even inside a
/// batch.
#[derive(Debug, Clone, Default)]
pub struct RecordChunks {
    /// The pieces in order. Decoding gives at most one.
    pub chunks: Vec<Bytes>,
}

impl RecordChunks {
    /// The bytes of all pieces together.
    #[must_use]
    pub fn total_bytes(&self) -> usize {
        self.chunks.iter().map(Bytes::len).sum()
    }

    /// Says if there is no byte at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.chunks.iter().all(Bytes::is_empty)
    }

    /// The records in one piece: without a copy if they already are.
    #[must_use]
    pub fn joined(&self) -> Bytes {
        match self.chunks.as_slice() {
            [] => Bytes::new(),
            [only] => only.clone(),
            several => Bytes::from(several.concat()),
        }
    }
}

impl From<Bytes> for RecordChunks {
    fn from(records: Bytes) -> RecordChunks {
        RecordChunks {
            chunks: if records.is_empty() {
                Vec::new()
            } else {
                vec![records]
            },
        }
    }
}

impl From<Vec<Bytes>> for RecordChunks {
    fn from(chunks: Vec<Bytes>) -> RecordChunks {
        RecordChunks { chunks }
    }
}

/// Equal bytes are equal records, wherever the cuts are.
impl PartialEq for RecordChunks {
    fn eq(&self, other: &RecordChunks) -> bool {
        self.total_bytes() == other.total_bytes()
            && self.chunks.iter().flatten().eq(other.chunks.iter().flatten())
    }
}
