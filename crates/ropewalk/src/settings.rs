//! The settings of an opening. Data only; each has a default that will do.

use storage::JournalSizes;

/// Sizes of an open directory, in bytes. `Settings::default()` suits a log that is appended to in small records.
///
/// They may differ from one opening to the next, whatever is stored. Logs that are there keep the `batch_bytes_max` and
/// `segment_bytes` that they were made with. [`Logs::open_with`](crate::Logs::open_with) has an example.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The size of one journal file, a multiple of 4 KiB from 16 KiB to 2 GiB. Two are made and filled with zeros when a
    /// directory is opened for the first time.
    pub journal_file_bytes: u64,
    /// The most files that the journal may have, from 3 to 1,000,000. When all wait for their layout into segments, appends
    /// wait too.
    pub journal_files_max: usize,
    /// Journal bytes that have the layout into segments begin. An opening reads about as much.
    pub layout_trigger_bytes: u64,
    /// Memory for the records that were appended last: readers at the tail need no disk.
    pub tail_cache_bytes: usize,
    /// Memory for records that were read from segments lately.
    pub read_cache_bytes: usize,
    /// Free bytes of the disk below which appends are refused, so that the journal's records still fit into segments.
    pub disk_reserve_bytes: u64,
    /// The largest batch, of logs that are created from now on, from 1 KiB to `journal_file_bytes` less 8 KiB and the part of it
    /// that is kept for trims, a 64th. A record is in one batch.
    pub batch_bytes_max: usize,
    /// The size at which a log's segment is complete, of logs that are created from now on, from 1 MiB to 2 GiB less one byte.
    /// Trimmed records leave the disk a segment at a time.
    pub segment_bytes: u64,
    /// The most bytes that a compressed batch may unpack to when it is read. The library compresses nothing; a node takes such
    /// batches, up to its `limits.decompressed_bytes`.
    pub decompressed_bytes_max: u64,
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
/// More journal files are of no use.
const FILES_MAX: usize = 1_000_000;
/// Bytes of a journal file that headers take.
const FRAME_OVERHEAD_BYTES: u64 = 8 * KIB;

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            journal_file_bytes: 16 * MIB,
            journal_files_max: 8,
            layout_trigger_bytes: 16 * MIB,
            tail_cache_bytes: 16 << 20,
            read_cache_bytes: 16 << 20,
            disk_reserve_bytes: 128 * MIB,
            batch_bytes_max: 8 << 20,
            segment_bytes: 64 * MIB,
            // As a node's.
            decompressed_bytes_max: 256 * MIB,
        }
    }
}

/// A setting that is out of its bounds.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name} must be {rule}, not {got}")]
pub struct SettingError {
    /// The field of [`Settings`].
    pub name: &'static str,
    /// The bounds, as words that follow "must be".
    pub rule: String,
    /// The value that was given.
    pub got: u64,
}

impl Settings {
    /// Checks that all settings are within their bounds.
    pub(crate) fn check(&self) -> Result<(), SettingError> {
        let batch_bytes_max = self.batch_bytes_max as u64;
        let sizes = JournalSizes {
            file_bytes: self.journal_file_bytes,
            files_max: self.journal_files_max,
        };
        let overhead_bytes = FRAME_OVERHEAD_BYTES + sizes.reserve_bytes();
        let most_of_a_file = self.journal_file_bytes.saturating_sub(overhead_bytes);
        let of_files = format!("from {} to {FILES_MAX}", JournalSizes::FILES_MIN);
        let in_file = format!("from 1024 to {most_of_a_file}, so that it fits into a journal file");
        let rules = [
            (
                "journal_file_bytes",
                self.journal_file_bytes,
                self.journal_file_bytes.is_multiple_of(4 * KIB)
                    && (16 * KIB..=1 << 31).contains(&self.journal_file_bytes),
                "a multiple of 4096 from 16 KiB to 2 GiB",
            ),
            (
                "journal_files_max",
                self.journal_files_max as u64,
                (JournalSizes::FILES_MIN..=FILES_MAX).contains(&self.journal_files_max),
                of_files.as_str(),
            ),
            (
                "batch_bytes_max",
                batch_bytes_max,
                (KIB..=most_of_a_file).contains(&batch_bytes_max),
                in_file.as_str(),
            ),
            (
                "segment_bytes",
                self.segment_bytes,
                (MIB..=i32::MAX as u64).contains(&self.segment_bytes),
                "from 1 MiB to 2 GiB less one byte",
            ),
        ];
        match rules.into_iter().find(|(_, _, holds, _)| !holds) {
            None => Ok(()),
            Some((name, got, _, rule)) => Err(SettingError {
                name,
                rule: rule.to_owned(),
                got,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_is_named() {
        assert_eq!(Settings::default().check(), Ok(()));
        let wrong = [
            Settings {
                journal_file_bytes: 20_000,
                ..Settings::default()
            },
            Settings {
                journal_files_max: 2,
                ..Settings::default()
            },
            Settings {
                batch_bytes_max: 16 << 20,
                ..Settings::default()
            },
            Settings {
                segment_bytes: 1,
                ..Settings::default()
            },
        ];
        let names = wrong.map(|settings| settings.check().expect_err("it cannot be").name);
        assert_eq!(
            names,
            [
                "journal_file_bytes",
                "journal_files_max",
                "batch_bytes_max",
                "segment_bytes"
            ]
        );
        let error = Settings {
            segment_bytes: 1,
            ..Settings::default()
        }
        .check()
        .expect_err("too small");
        assert_eq!(
            error.to_string(),
            "segment_bytes must be from 1 MiB to 2 GiB less one byte, not 1"
        );
    }
}
