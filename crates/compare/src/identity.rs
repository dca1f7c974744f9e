//! Which program measures, and what it measures: runs of different builds, versions or settings are never taken for the same.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use crc_fast::CrcAlgorithm;

use super::fleet::Way;
use super::record::CellKey;
use bench::contract::payload::crc32;

/// What a peer's folder holds beyond this is no source: installed things lie elsewhere.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Version and commit (where it is known), as tables show it.
pub(super) fn version() -> String {
    match bench::version::COMMIT {
        "" => env!("CARGO_PKG_VERSION").to_owned(),
        commit => format!("{} ({commit})", env!("CARGO_PKG_VERSION")),
    }
}

/// That, and a sum of the bytes of this program and of the node's: what was built of changed sources is another build.
pub(super) fn build() -> Result<String> {
    let path = std::env::current_exe().context("this program does not know its own path")?;
    let own = sum_of_file(&path).with_context(|| format!("cannot read {}", path.display()))?;
    // Where there is no node beside this program, none can take part.
    let node = sum_of_file(&node_binary()?).unwrap_or(0);
    Ok(format!("{}, sum {:08x}", version(), own ^ node))
}

/// The binary `ropewalk` beside this program, wherever it was built or installed.
pub(super) fn node_binary() -> Result<PathBuf> {
    let path = std::env::current_exe().context("this program does not know its own path")?;
    Ok(path.with_file_name("ropewalk"))
}

/// What a way through a system is: its variant with all settings, and the folders of system and driver as they were.
pub(super) fn of(way: &Way) -> String {
    let (system, driver) = (&way.system, &way.driver);
    let text = format!(
        "{:?} {} {:?} {} {}",
        system.variant, system.peer.sum, driver.file, driver.peer.sum, way.in_memory
    );
    format!("{:08x}", crc32(text.as_bytes()))
}

/// A sum over all files in a folder and below it.
pub(super) fn of_folder(folder: &Path) -> u64 {
    let mut text = String::new();
    add_folder(&mut text, folder, folder);
    crc32(text.as_bytes())
}

/// A number in 0..`below` that is the same each time for a cell, and as good as drawn by lot from cell to cell.
pub(super) fn lot(cell: &CellKey, below: u32) -> u32 {
    let text = format!("{} {} {} {}", cell.experiment, cell.row, cell.system, cell.driver);
    (crc32(text.as_bytes()) % u64::from(below.max(1))) as u32
}

/// Adds the names and sums of all files below a folder. What cannot be read is named without a sum.
fn add_folder(text: &mut String, top: &Path, folder: &Path) {
    let mut paths: Vec<_> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .collect();
    paths.sort();
    for path in paths {
        let name = path.strip_prefix(top).unwrap_or(&path).display().to_string();
        let Ok(facts) = fs::symlink_metadata(&path) else {
            continue;
        };
        if facts.is_dir() {
            add_folder(text, top, &path);
        } else if facts.is_file() && facts.len() <= FILE_BYTES_MAX {
            text.push_str(&format!("{name} {:?}\n", sum_of_file(&path).ok()));
        }
    }
}

fn sum_of_file(path: &Path) -> io::Result<u64> {
    let path = path.to_str().ok_or(io::ErrorKind::InvalidFilename)?;
    crc_fast::checksum_file(CrcAlgorithm::Crc32IsoHdlc, path, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_file_is_another_identity() {
        let directory = tempfile::tempdir().expect("a directory");
        let text = || {
            let mut text = String::new();
            add_folder(&mut text, directory.path(), directory.path());
            text
        };
        fs::create_dir(directory.path().join("src")).expect("it is new");
        fs::write(directory.path().join("src/main"), "one").expect("there is room");
        let before = text();
        assert!(before.starts_with("src/main Some("), "{before}");
        fs::write(directory.path().join("src/main"), "two").expect("there is room");
        assert_ne!(text(), before);
        let lots: std::collections::BTreeSet<u32> = (0..30)
            .map(|row| lot(&CellKey::made_up(&row.to_string()), 3))
            .collect();
        assert_eq!(lots.len(), 3, "every repetition is drawn by some cell");
        assert_eq!(build().expect("we are running"), build().expect("we are running"));
    }
}
