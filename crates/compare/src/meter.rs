//! What a system's processes have used: processor time, memory, bytes sent to the disk.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use platform::process::{process_usage, written_bytes};
use serde::{Deserialize, Serialize};

/// What several processes together have used since they began; memory: now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Meter {
    /// Processor time, user and kernel.
    pub(super) cpu: Duration,
    pub(super) rss_bytes: u64,
    /// Bytes that went or will go to the disk.
    pub(super) written_bytes: u64,
}

impl Meter {
    pub(super) fn read(pids: &[u32]) -> Result<Meter> {
        let mut meter = Meter::default();
        for &pid in pids {
            let usage = process_usage(pid).with_context(|| format!("process {pid}"))?;
            // One that has ended and was not asked for its end yet has no memory any more.
            ensure!(usage.rss_bytes > 0, "process {pid} has ended");
            meter.cpu += usage.cpu_user + usage.cpu_system;
            meter.rss_bytes += usage.rss_bytes;
            meter.written_bytes += written_bytes(pid).with_context(|| format!("process {pid}"))?;
        }
        Ok(meter)
    }

    /// Adds what others have used.
    pub(super) fn add(&mut self, others: Meter) {
        self.cpu += others.cpu;
        self.rss_bytes += others.rss_bytes;
        self.written_bytes += others.written_bytes;
    }
}

/// The resident memory of those of them that live.
pub(super) fn rss_bytes(pids: &[u32]) -> u64 {
    let usages = pids.iter().filter_map(|pid| process_usage(*pid).ok());
    usages.map(|usage| usage.rss_bytes).sum()
}

/// Whether a process has not ended.
pub(super) fn is_alive(pid: u32) -> bool {
    // One that nobody has asked for its end yet has no memory any more.
    process_usage(pid).is_ok_and(|usage| usage.rss_bytes > 0)
}

/// What the disk holds for a directory and all below it. What vanishes meanwhile, or is not ours to see, does not count.
pub(super) fn stored_bytes(directory: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(directory) else {
        return 0;
    };
    let of_entry = |entry: fs::DirEntry| match entry.metadata() {
        Ok(facts) if facts.is_dir() => stored_bytes(&entry.path()),
        Ok(facts) => facts.blocks() * 512,
        Err(_) => 0,
    };
    entries.flatten().map(of_entry).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_has_ended_is_gone_even_if_nobody_asked_for_its_end() {
        let mut child = std::process::Command::new("sleep")
            .arg("1000")
            .spawn()
            .expect("it is there");
        assert!(Meter::read(&[child.id()]).is_ok() && is_alive(child.id()));
        child.kill().expect("it is ours");
        let end = std::time::Instant::now() + Duration::from_secs(10);
        while Meter::read(&[child.id()]).is_ok() && std::time::Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(Meter::read(&[child.id()]).is_err() && !is_alive(child.id()));
        child.wait().expect("it was killed");
    }

    #[test]
    fn a_directory_holds_what_its_files_hold() {
        let directory = tempfile::tempdir().expect("a directory");
        let below = directory.path().join("one/two");
        fs::create_dir_all(&below).expect("it is new");
        assert_eq!(stored_bytes(directory.path()), 0);
        fs::write(below.join("file"), vec![1; 100_000]).expect("there is room");
        // A file system that puts writes off tells of blocks when it has chosen them.
        fs::File::open(below.join("file"))
            .and_then(|file| file.sync_all())
            .expect("it is there");
        assert!((100_000..200_000).contains(&stored_bytes(directory.path())));
        fs::remove_dir_all(&below).expect("it is ours");
        assert_eq!(stored_bytes(directory.path()), 0);
        assert_eq!(stored_bytes(&below), 0);
    }
}
