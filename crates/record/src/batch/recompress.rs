//! Compresses a batch anew, if its topic wants its records compressed in another way than their producer did.
//!
//! Only the form of the records changes. They go from one codec into the other a buffer at a time, so a small batch that holds
//! hundreds of megabytes costs no memory: the new batch grows until it is too long for its topic. Everything else stays:
//! offsets, times, producer and sequences. So a retry is still known as the same batch.

use super::compress::{Compressor, Decompressor, Limits, Packing, failed};
use super::error::BatchError;
use super::header::{
    ATTRIBUTES_AT, BATCH_OVERHEAD_BYTES, BatchHeader, Compression, LENGTH_AT, LOG_OVERHEAD_BYTES,
};
use super::patch::{put, seal_checksum};
use super::validate::Examined;

/// Bytes that are taken from one codec to the other at a time.
const STEP_BYTES: usize = 16 * 1024;

/// Why a batch has no other form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecompressError {
    /// Its records do not come out as they did when they were examined.
    #[error(transparent)]
    Batch(BatchError),
    /// It would be longer than it may be.
    #[error("compressed anew ({compression}), the batch takes more than {bytes_max} bytes")]
    TooLarge {
        /// The compression that was wanted.
        compression: Compression,
        /// The bytes that it may have.
        bytes_max: usize,
    },
}

/// Gives a batch that `examine` has found sound with its records compressed as `packing` says, in `bytes_max` bytes at most.
///
/// # Errors
/// See [`RecompressError`].
///
/// # Panics
/// If `examined` is not of this batch.
pub fn recompress(
    batch: &[u8],
    examined: &Examined,
    packing: Packing,
    limits: &Limits,
    bytes_max: usize,
) -> Result<Vec<u8>, RecompressError> {
    assert_eq!(
        batch.len(),
        examined.header.length_bytes,
        "the batch was examined"
    );
    // The length in the header cannot say more.
    let bytes_max = bytes_max.min(i32::MAX as usize);
    let (head, records) = batch.split_at(BATCH_OVERHEAD_BYTES);
    let from = examined
        .header
        .attributes
        .compression()
        .map_err(RecompressError::Batch)?;
    let records_bytes = match from {
        Compression::None => records.len() as u64,
        _ => examined.decompressed_bytes,
    };
    let mut new = NewForm {
        out: Compressor::packing(packing, records_bytes, head.to_vec()),
        from,
        left_bytes: records_bytes,
        compression: packing.compression,
        bytes_max,
    };
    match from {
        Compression::None => records.chunks(STEP_BYTES).try_for_each(|step| new.write(step))?,
        _ => {
            let opened = Decompressor::new(from, records, limits).map_err(RecompressError::Batch)?;
            new.write_all_of(opened)?;
        }
    }
    let mut batch = new.finish()?;
    complete(&mut batch, &examined.header, packing.compression);
    Ok(batch)
}

/// The batch on its way to its new form.
struct NewForm {
    out: Compressor,
    /// The compression that the records came in.
    from: Compression,
    /// Bytes of them that are still to come.
    left_bytes: u64,
    compression: Compression,
    bytes_max: usize,
}

impl NewForm {
    fn write(&mut self, records: &[u8]) -> Result<(), RecompressError> {
        // The codec was told how many there are, and takes no others.
        let left_bytes = self.left_bytes.checked_sub(records.len() as u64);
        self.left_bytes = left_bytes.ok_or_else(|| self.others())?;
        self.out.write(records);
        self.check(self.out.out_bytes())
    }

    fn write_all_of(&mut self, mut records: Decompressor<&[u8]>) -> Result<(), RecompressError> {
        let mut step = vec![0; STEP_BYTES];
        loop {
            match records.read(&mut step).map_err(RecompressError::Batch)? {
                0 => return Ok(()),
                count => self.write(&step[..count])?,
            }
        }
    }

    fn others(&self) -> RecompressError {
        RecompressError::Batch(failed(self.from, "not the records that were examined"))
    }

    fn finish(self) -> Result<Vec<u8>, RecompressError> {
        if self.left_bytes > 0 {
            return Err(self.others());
        }
        let NewForm {
            out,
            compression,
            bytes_max,
            ..
        } = self;
        let mut batch = out.finish();
        check(batch.len(), compression, bytes_max)?;
        // It is kept for as long as the disk is slow.
        batch.shrink_to_fit();
        Ok(batch)
    }

    fn check(&self, bytes: usize) -> Result<(), RecompressError> {
        check(bytes, self.compression, self.bytes_max)
    }
}

fn check(bytes: usize, compression: Compression, bytes_max: usize) -> Result<(), RecompressError> {
    match bytes <= bytes_max {
        true => Ok(()),
        false => Err(RecompressError::TooLarge {
            compression,
            bytes_max,
        }),
    }
}

/// Fills in what depends on the records' form, and the checksum.
fn complete(batch: &mut [u8], before: &BatchHeader, compression: Compression) {
    let length = i32::try_from(batch.len() - LOG_OVERHEAD_BYTES).expect("a batch is below 2 GiB");
    put(batch, LENGTH_AT, &length.to_be_bytes());
    let attributes = before.attributes.with_compression(compression);
    put(batch, ATTRIBUTES_AT, &attributes.0.to_be_bytes());
    seal_checksum(batch);
}
