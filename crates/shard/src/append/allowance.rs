//! Bounds on the compressed batches of one request together: on the bytes that they decompress to, for a request must not
//! keep a core for long, however many batches it has; and on the number of bad records that are named, for a few bytes may hold
//! many. A request of a single batch needs none of this: the batch has limits of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use record::{BatchError, Examined, Limits};

use super::bad_records::NAMED_MAX;
use super::contract::AppendRefusal;

/// Bytes that the batches may decompress to for each byte of theirs, beside the limit of a single batch. Programs' logs shrink to a
/// tenth; only bytes made for it shrink to less than a thirtieth in batch after batch.
const BYTES_PER_BYTE: u64 = 32;
/// The most bad records of all batches that are named; beyond them, the first of each batch is named.
const NAMED_TOGETHER_MAX: usize = 10 * NAMED_MAX;

/// The bounds of one request, shared by its batches on whatever cores they are examined: see [`AppendRequest::within`](crate::AppendRequest::within).
#[derive(Debug, Clone)]
pub struct Allowance {
    left: Arc<Left>,
    bytes_max: u64,
}

#[derive(Debug)]
struct Left {
    bytes: AtomicU64,
    named: AtomicUsize,
}

impl Allowance {
    /// The allowance of a request whose batches have `request_bytes` as they came, where a single one may be decompressed to
    /// `batch_bytes_max`.
    pub fn new(request_bytes: u64, batch_bytes_max: u64) -> Allowance {
        let bytes_max = batch_bytes_max.saturating_add(request_bytes.saturating_mul(BYTES_PER_BYTE));
        Allowance {
            left: Arc::new(Left {
                bytes: AtomicU64::new(bytes_max),
                named: AtomicUsize::new(NAMED_TOGETHER_MAX),
            }),
            bytes_max,
        }
    }

    /// The limits of a batch, with as much as is left.
    pub(super) fn limits(&self, limits: &Limits) -> Limits {
        let left = self.left.bytes.load(Ordering::Relaxed);
        Limits {
            decompressed_bytes_max: limits.decompressed_bytes_max.min(left),
            ..*limits
        }
    }

    /// Takes from the allowance the bytes that a batch was decompressed to; for a batch that was found unsound, all that it was
    /// `allowed` instead of `limits`.
    pub(super) fn settle(
        &self,
        examined: Result<Examined, BatchError>,
        allowed: &Limits,
        limits: &Limits,
    ) -> Result<Examined, AppendRefusal> {
        let is_short = allowed.decompressed_bytes_max < limits.decompressed_bytes_max;
        let taken = match &examined {
            Ok(examined) => examined.decompressed_bytes,
            Err(
                BatchError::Decompress { .. }
                | BatchError::DecompressedTooLarge { .. }
                | BatchError::Record { .. }
                | BatchError::TrailingRecords { .. },
            ) => allowed.decompressed_bytes_max,
            Err(_) => 0,
        };
        self.take(taken);
        examined.map_err(|error| match error {
            BatchError::DecompressedTooLarge { .. } if is_short => {
                AppendRefusal::RequestDecompressesTooLarge {
                    bytes_max: self.bytes_max,
                }
            }
            error => AppendRefusal::Batch(error),
        })
    }

    fn take(&self, bytes: u64) {
        let subtract = |left: u64| Some(left.saturating_sub(bytes));
        let _ = self
            .left
            .bytes
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, subtract);
    }

    /// The number of bad records of one batch that may be named now.
    pub(super) fn named_max(&self) -> usize {
        self.left.named.load(Ordering::Relaxed).min(NAMED_MAX)
    }

    /// Counts bad records that were named.
    pub(super) fn take_named(&self, count: usize) {
        let subtract = |left: usize| Some(left.saturating_sub(count));
        let _ = self
            .left
            .named
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, subtract);
    }
}
