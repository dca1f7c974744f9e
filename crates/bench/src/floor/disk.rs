//! How long a flush takes, in the four ways that logs do it.
//!
//! `disk_filled` is the journal's: inside a file of written zeros nothing but the data changes. After a mere `fallocate`
//! each first write must also mark its extent as written, and a growing file changes its length each time.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context;
use platform::disk::{Disk, DurableWriteMode, File, RealDisk};
use platform::memory::AlignedBuffer;
use rustix::fs::{FallocateFlags, fallocate};

use super::{FloorOptions, FloorRate, FloorTimes, samples_of, times};
use crate::latency::LatencyRecorder;
use crate::report::mb_per_s;

/// What is flushed at a time.
const SIZES: [usize; 5] = [4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20];
/// A journal's file, about; writes go round in it. Short runs do with less.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// The same beside a node that runs, whose disk may be nearly full.
const SHORT_FILE_BYTES_MAX: u64 = 16 << 20;
/// How much the sequential writing writes for each sample that small operations get, within the limits below.
const SEQUENTIAL_BYTES_PER_SAMPLE: u64 = 1 << 20;
const SEQUENTIAL_BYTES_MIN: u64 = 16 << 20;
const SEQUENTIAL_BYTES_MAX: u64 = 512 << 20;

/// A folder that is removed again, also if measuring fails.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed is named after what it is.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Measures the disk under the directory; whether durable writes go round the page cache there.
pub(super) fn measure(
    options: &FloorOptions,
    rows: &mut Vec<FloorTimes>,
    rates: &mut Vec<FloorRate>,
) -> anyhow::Result<bool> {
    let (folder, disk) = open(&options.dir)?;
    for size in SIZES {
        let samples = samples_of(options.samples, size);
        let written_bytes = size as u64 * u64::from(samples);
        let file_bytes = file_bytes(size, samples);
        let mut add = |operation, recorder: &LatencyRecorder| rows.push(times(operation, size, recorder));
        add("disk_filled", &flush_filled(&disk, file_bytes, size, samples)?);

        let allocated = create_allocated(&disk, "allocated", written_bytes)?;
        add("disk_fallocated", &flush_onwards(&allocated, size, samples)?);
        disk.remove(Path::new("allocated"))?;

        let growing = disk.create(Path::new("growing"))?;
        add("disk_growing", &flush_onwards(&growing, size, samples)?);
        disk.remove(Path::new("growing"))?;

        let through_cache = sync_through_cache(&folder.0, file_bytes, size, samples)?;
        add("disk_fdatasync", &through_cache);
    }
    let bytes = (SEQUENTIAL_BYTES_PER_SAMPLE * u64::from(options.samples))
        .clamp(SEQUENTIAL_BYTES_MIN, SEQUENTIAL_BYTES_MAX);
    rates.push(FloorRate {
        operation: "disk_sequential",
        mb_per_s: write_sequentially(&disk, bytes)?,
    });
    Ok(disk.durable_write_mode() == DurableWriteMode::Direct)
}

/// Times the journal's way of flushing alone, in a folder of its own in `place`.
pub(super) fn time_filled(place: &Path, size: usize, samples: u32) -> anyhow::Result<LatencyRecorder> {
    let (_folder, disk) = open(place)?;
    let file_bytes = file_bytes(size, samples).min(SHORT_FILE_BYTES_MAX);
    flush_filled(&disk, file_bytes, size, samples)
}

/// Makes a folder to measure in.
fn open(place: &Path) -> anyhow::Result<(Folder, RealDisk)> {
    // A slip of the pen must not make a directory, on whatever disk that comes to lie.
    anyhow::ensure!(
        place.is_dir(),
        "there is no directory {}; --dir names one on the disk to measure",
        place.display()
    );
    let folder = Folder(place.join(format!("ropewalk-floor-{}", std::process::id())));
    let disk = RealDisk::open(&folder.0).with_context(|| format!("cannot measure in {}", place.display()))?;
    Ok((folder, disk))
}

/// The length of a file that this many writes of a size go round in.
fn file_bytes(size: usize, samples: u32) -> u64 {
    let written_bytes = size as u64 * u64::from(samples);
    written_bytes.min(FILE_BYTES_MAX).next_multiple_of(1 << 20)
}

/// Durable writes in a file of written zeros, from its start again when its end is reached.
fn flush_filled(
    disk: &RealDisk,
    file_bytes: u64,
    size: usize,
    samples: u32,
) -> anyhow::Result<LatencyRecorder> {
    let name = Path::new("filled");
    let file = disk.create(name)?;
    file.fill_with_zeros(file_bytes)?;
    let slots = file_bytes / size as u64;
    let recorder = time_flushes(samples, size, |index, bytes| {
        file.write_durable(u64::from(index) % slots * size as u64, bytes)
    })?;
    disk.remove(name)?;
    Ok(recorder)
}

/// Durable writes one behind the other, each to where none was before.
fn flush_onwards(file: &Arc<dyn File>, size: usize, samples: u32) -> anyhow::Result<LatencyRecorder> {
    time_flushes(samples, size, |index, bytes| {
        file.write_durable(u64::from(index) * size as u64, bytes)
    })
}

/// A file whose blocks are reserved and not written. Opened by the disk afterwards, which opens it as it opens a journal.
fn create_allocated(disk: &RealDisk, name: &str, length: u64) -> anyhow::Result<Arc<dyn File>> {
    let path = disk.root().join(name);
    let file = fs::File::create_new(path)?;
    fallocate(&file, FallocateFlags::empty(), 0, length).context("the file system cannot reserve blocks")?;
    file.sync_all()?;
    drop(file);
    Ok(disk.open(Path::new(name))?)
}

/// Writes to the page cache and fdatasync, inside a file of zeros.
fn sync_through_cache(
    folder: &Path,
    file_bytes: u64,
    size: usize,
    samples: u32,
) -> anyhow::Result<LatencyRecorder> {
    let path = folder.join("cached");
    let file = OpenOptions::new().write(true).create_new(true).open(&path)?;
    let zeros = vec![0; 1 << 20];
    for position in (0..file_bytes).step_by(zeros.len()) {
        file.write_all_at(&zeros, position)?;
    }
    file.sync_all()?;
    let slots = file_bytes / size as u64;
    let recorder = time_flushes(samples, size, |index, bytes| {
        file.write_all_at(bytes, u64::from(index) % slots * size as u64)?;
        file.sync_data()
    })?;
    fs::remove_file(path)?;
    Ok(recorder)
}

fn time_flushes(
    samples: u32,
    size: usize,
    mut flush: impl FnMut(u32, &[u8]) -> std::io::Result<()>,
) -> anyhow::Result<LatencyRecorder> {
    let mut bytes = AlignedBuffer::zeroed(size);
    let mut recorder = LatencyRecorder::new();
    for index in 0..samples {
        // Bytes that differ from what is there: some disks notice when they do not.
        bytes.as_mut_slice().fill(index as u8 | 1);
        let before = Instant::now();
        flush(index, bytes.as_slice())?;
        recorder.record(before.elapsed());
    }
    Ok(recorder)
}

/// Megabytes a second of direct writes of 1 MiB, flushed once at the end.
fn write_sequentially(disk: &RealDisk, bytes: u64) -> anyhow::Result<f64> {
    let name = Path::new("sequential");
    let file = disk.create(name)?;
    let mut block = AlignedBuffer::zeroed(1 << 20);
    block.as_mut_slice().fill(0x5a);
    let before = Instant::now();
    for position in (0..bytes).step_by(block.len()) {
        file.write(position, block.as_slice())?;
    }
    file.sync()?;
    let rate = mb_per_s(bytes, before.elapsed().as_secs_f64());
    disk.remove(name)?;
    Ok(rate)
}
