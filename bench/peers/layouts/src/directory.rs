//! The driver's directory: a folder for each log, with a note in it that makes it one.
//!
//! The note is written last when a log is made and removed first when it goes: what a crash leaves half done is no log.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

const NOTE: &str = "log.json";

/// What a log is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Note {
    pub(crate) layout: String,
    pub(crate) shards: u32,
}

/// Where a log is.
///
/// # Errors
/// If its name cannot be that of a folder.
pub(crate) fn folder(directory: &Path, log: &str) -> Result<PathBuf> {
    let allowed = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
    ensure!(
        !log.is_empty() && !log.starts_with('.') && log.chars().all(allowed),
        "{log:?} is no name for a log: take letters, digits, - and _"
    );
    Ok(directory.join(log))
}

/// What the log in this folder is; none if there is no log.
pub(crate) fn read_note(folder: &Path) -> Result<Option<Note>> {
    let path = folder.join(NOTE);
    match fs::read(&path) {
        Ok(note) => Ok(Some(
            serde_json::from_slice(&note).with_context(|| format!("{} is damaged", path.display()))?,
        )),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

/// Makes the folder of a new log, empty.
pub(crate) fn make(folder: &Path) -> Result<()> {
    clear(folder)?;
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    sync_directory(parent(folder))
}

/// Makes the folder a log, for good.
pub(crate) fn write_note(folder: &Path, note: &Note) -> Result<()> {
    let path = folder.join(NOTE);
    let aside = path.with_extension("new");
    let written = File::create(&aside).and_then(|mut file| {
        file.write_all(&serde_json::to_vec(note)?)?;
        file.sync_all()?;
        fs::rename(&aside, &path)
    });
    written.with_context(|| format!("cannot write {}", path.display()))?;
    sync_directory(folder)
}

/// Removes a log and its data.
pub(crate) fn remove(folder: &Path) -> Result<()> {
    let note = folder.join(NOTE);
    fs::remove_file(&note).with_context(|| format!("cannot remove {}", note.display()))?;
    sync_directory(folder)?;
    clear(folder)?;
    sync_directory(parent(folder))
}

/// Makes the names in a directory durable.
pub(crate) fn sync_directory(directory: &Path) -> Result<()> {
    let synced = File::open(directory).and_then(|directory| directory.sync_all());
    synced.with_context(|| format!("cannot flush the directory {}", directory.display()))
}

fn clear(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", folder.display()))
        }
        _ => Ok(()),
    }
}

fn parent(folder: &Path) -> &Path {
    folder
        .parent()
        .expect("a log's folder is in the driver's directory")
}
