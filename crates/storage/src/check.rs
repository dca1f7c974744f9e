//! Offline verification of one journal and its segments: every checksum, every batch, every offset. Changes nothing.
//!
//! It must not run beside a store that is open: what that is writing would look damaged. Recovery checks what it needs to
//! start; this checks everything that is stored, and goes on after a fault to find them all.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use platform::disk::Disk;
use record::PartitionId;

use crate::checkpoint::Checkpoint;
use crate::checksum::JournalIdentity;
use crate::fault::{Doing, Fault};
use crate::journal::survey;
use crate::partition::PartitionLog;
use crate::segment::{
    PARTITIONS, Segment, check_batch, check_chunk, directory, open_segment, path, read_piece, read_table,
};
use crate::store::{Replay, recover};
use crate::witness::Witness;

/// The progress of a check.
#[derive(Debug, Clone, Copy)]
pub struct CheckProgress<'a> {
    /// The file that was checked last.
    pub file: &'a str,
    /// Bytes of segments checked so far.
    pub bytes: u64,
    /// Bytes of all segments.
    pub bytes_total: u64,
}

/// The findings of a check.
#[derive(Debug, Default)]
pub struct CheckReport {
    /// Frames that recovery would replay; of a damaged journal, those that are whole.
    pub frames: u64,
    /// Their bytes, padding included, which is not checked: it holds nothing.
    pub journal_bytes: u64,
    /// Batches in these frames that are whole and in order.
    pub journal_batches: u64,
    /// Bytes of a torn, never acknowledged frame that recovery would cut off.
    pub cut_bytes: u64,
    /// The last frame has a turned bit that recovery would put right.
    pub mended: bool,
    /// Partitions with anything stored.
    pub partitions: u64,
    /// Segments looked through.
    pub segments: u64,
    /// Chunks of segments whose checksums held.
    pub chunks: u64,
    /// Batches of segments that are whole and in order; some may be in the journal, too.
    pub segment_batches: u64,
    /// Bytes of segments looked through.
    pub segment_bytes: u64,
    /// Files that nothing refers to, left behind by a crash. They do no harm: layout removes them as it comes by, and what a
    /// compaction left goes soon after a node's start.
    pub orphans: Vec<String>,
    /// Witnesses of other nodes' journals, one for each of these.
    pub witnesses: Vec<Witness>,
    /// The partitions that may have a directory: for `stray_directories`.
    pub known: BTreeSet<PartitionId>,
    /// Everything that is wrong.
    pub faults: Vec<Fault>,
}

impl CheckReport {
    /// Says whether nothing is wrong.
    pub fn is_sound(&self) -> bool {
        self.faults.is_empty()
    }
}

/// Checks everything of one journal: its checkpoint, its files, and the segments of its partitions. Blocks.
///
/// # Errors
/// When the checkpoint cannot be read or believed: then nothing says what should be there. All else is in the report.
pub fn check(
    disk: &Arc<dyn Disk>,
    identity: &JournalIdentity,
    progress: &mut dyn FnMut(CheckProgress<'_>),
) -> Result<CheckReport, Fault> {
    let checkpoint = Checkpoint::read(disk, identity)?;
    let mut check = Check {
        disk,
        identity,
        report: CheckReport::default(),
    };
    let replay = check.journal(checkpoint.as_ref());
    let replay = replay.unwrap_or_else(|| Replay::new(checkpoint));
    check.report.witnesses = replay.witnesses.list();
    let removed = replay.removals.iter().map(|(removal, _)| removal.partition);
    check.report.known = replay.logs.keys().copied().chain(removed).collect();
    let mut logs: Vec<&PartitionLog> = replay.logs.values().map(Box::as_ref).collect();
    logs.sort_unstable_by_key(|log| log.id);
    let bytes_total = logs.iter().map(|log| log.segment_bytes()).sum();
    for log in logs {
        check.report.partitions += 1;
        check.continuity(log);
        for segment in &log.segments {
            let file = check.file_name(&log.id, segment);
            if let Err(fault) = check.segment(&log.id, segment, &file) {
                check.report.faults.push(fault);
            }
            check.report.segments += 1;
            check.report.segment_bytes += segment.stored_bytes();
            progress(CheckProgress {
                file: &file,
                bytes: check.report.segment_bytes,
                bytes_total,
            });
        }
        check.orphans(log, &replay);
    }
    Ok(check.report)
}

/// Names in the directory of all partitions that belong to none of those that are `known`: those of all journals. Blocks.
///
/// # Errors
/// The disk's.
pub fn stray_directories(disk: &Arc<dyn Disk>, known: &BTreeSet<PartitionId>) -> Result<Vec<String>, Fault> {
    let all = Path::new(PARTITIONS);
    let shown = |path: &Path| disk.root().join(path).display().to_string();
    let names = disk.list(all);
    let names = names.map_err(|error| Doing::Reading.failed(error).at(shown(all)))?;
    let known: BTreeSet<_> = known.iter().map(directory).collect();
    let paths = names.iter().map(|name| all.join(name));
    let strays = paths.filter(|path| !known.contains(path));
    Ok(strays.map(|path| shown(&path)).collect())
}

struct Check<'a> {
    disk: &'a Arc<dyn Disk>,
    identity: &'a JournalIdentity,
    report: CheckReport,
}

impl Check<'_> {
    fn file_name(&self, id: &PartitionId, segment: &Segment) -> String {
        self.disk
            .root()
            .join(path(id, segment.name()))
            .display()
            .to_string()
    }

    /// The journal since the checkpoint; `None` if it is damaged: then the checkpoint alone says what segments hold.
    fn journal(&mut self, checkpoint: Option<&Checkpoint>) -> Option<Replay> {
        let mut batches = 0;
        let recovered = recover(self.disk, self.identity, &mut |entry, payload| {
            batches += check_entry(entry.partition, payload)?;
            Ok(())
        });
        match recovered {
            Ok((replay, scanned)) => {
                self.report.journal_batches = batches;
                self.report.frames = scanned.frames.len() as u64;
                let bytes = scanned.frames.iter().map(|frame| u64::from(frame.total_bytes));
                self.report.journal_bytes = bytes.sum();
                self.report.cut_bytes = scanned.cut_bytes;
                self.report.mended = scanned.mended.is_some();
                Some(replay)
            }
            Err(fault) => {
                self.damaged_journal(checkpoint, fault);
                None
            }
        }
    }

    /// Looks at each frame by itself, also behind those where recovery would give up with `fault`.
    fn damaged_journal(&mut self, checkpoint: Option<&Checkpoint>, fault: Fault) {
        let start = checkpoint.map(|checkpoint| checkpoint.replay);
        let held = checkpoint.map_or_else(BTreeSet::new, Checkpoint::held_files);
        let mut batches = 0;
        let surveyed = survey(
            self.disk,
            self.identity,
            start,
            &held,
            &mut |_, frame, entries| {
                for entry in entries {
                    let payload = &frame[entry.payload_start..][..entry.header.payload_bytes as usize];
                    batches += check_entry(entry.header.partition, payload)?;
                }
                Ok(())
            },
        );
        self.report.journal_batches = batches;
        self.report.frames = surveyed.frames;
        self.report.journal_bytes = surveyed.bytes;
        self.report.faults.extend(surveyed.faults_with(fault));
    }

    /// Segments follow each other without gaps, from the log's start to where the journal goes on.
    fn continuity(&mut self, log: &PartitionLog) {
        let ends = log.segments.iter().map(|segment| segment.next);
        let begins = log
            .segments
            .iter()
            .skip(1)
            .map(|segment| segment.first)
            .chain([log.laid_out]);
        let gap = ends.zip(begins).find(|(end, begin)| end != begin);
        let start = log.segments.first().map_or(log.laid_out, |segment| segment.first);
        let what = match gap {
            Some((end, begin)) => format!("offsets {end}..{begin} are in no segment"),
            None if start > log.log_start => format!("offsets {}..{start} are in no segment", log.log_start),
            None => return,
        };
        let file = self.disk.root().join(directory(&log.id)).display().to_string();
        self.report.faults.push(Fault::Damaged {
            file,
            position: 0,
            what,
        });
    }

    /// Every chunk is read, also behind a bad one.
    fn segment(&mut self, id: &PartitionId, segment: &Segment, name: &str) -> Result<(), Fault> {
        let file = open_segment(self.disk, self.identity, id, segment)?;
        let mut next = segment.first;
        for chunk in read_table(&file, segment)? {
            let damaged = |what| Fault::Damaged {
                file: name.to_string(),
                position: chunk.position,
                what,
            };
            let gaps = segment.sparse;
            let checked = read_piece(&file, &[chunk]).and_then(|piece| {
                check_chunk(&chunk, next, gaps, &piece.to_vec(), |_| Ok(())).map_err(damaged)
            });
            match checked {
                Ok(batches) => {
                    self.report.chunks += 1;
                    self.report.segment_batches += batches;
                }
                Err(fault) => self.report.faults.push(fault),
            }
            next = chunk.next;
        }
        Ok(())
    }

    fn orphans(&mut self, log: &PartitionLog, replay: &Replay) {
        let removals = replay
            .removals
            .iter()
            .filter(|(removal, _)| removal.partition == log.id);
        let removed = removals.filter_map(|(removal, _)| removal.segment);
        let known = log.segments.iter().map(Segment::name).chain(removed);
        let known: BTreeSet<_> = known.map(|name| path(&log.id, name)).collect();
        let directory = directory(&log.id);
        match self.disk.list(&directory) {
            Ok(names) => {
                let unknown = names
                    .iter()
                    .map(|name| directory.join(name))
                    .filter(|path| !known.contains(path));
                let unknown = unknown.map(|path| self.disk.root().join(path).display().to_string());
                self.report.orphans.extend(unknown);
            }
            Err(error) => {
                let file = self.disk.root().join(&directory).display().to_string();
                self.report.faults.push(Doing::Reading.failed(error).at(file));
            }
        }
    }
}

/// The number of batches of an entry of the journal: one, or none if it says something else of its partition.
fn check_entry(partition: PartitionId, payload: &[u8]) -> Result<u64, String> {
    if payload.is_empty() {
        return Ok(0);
    }
    check_batch(payload).map_err(|what| format!("{partition}: {what}"))?;
    Ok(1)
}

#[cfg(test)]
mod tests;
