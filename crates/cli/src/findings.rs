//! The places of a directory at rest where something is wrong: damaged, or not readable, which says nothing about the bytes.

use std::path::Path;

use anyhow::{Result, bail};
use storage::Fault;

use crate::output::counted;

/// Places that could not be read, and nothing that is known to be damaged: an exit code of its own, since neither "sound" nor
/// "restore a backup" follows from it.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Unreadable(pub(crate) String);

/// The remedies against what cannot be read.
const DENIED: &str = "run this as the user that owns the directory";
const FAILING: &str =
    "the kernel's log may say why the disk or its file system refuses; nothing is known to be damaged";

/// Everything that is wrong, each place once.
#[derive(Default)]
pub(crate) struct Findings {
    damaged: Vec<String>,
    unread: Vec<String>,
    /// Says whether a permission was missing.
    is_denied: bool,
}

impl Findings {
    /// Takes a fault in, and tells whether it was new.
    pub(crate) fn add(&mut self, fault: &Fault) -> bool {
        let text = fault.to_string();
        self.is_denied |= fault.is_denied();
        let known = match fault.is_unreadable() {
            true => &mut self.unread,
            false => &mut self.damaged,
        };
        let is_new = !known.contains(&text);
        if is_new {
            known.push(text);
        }
        is_new
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.damaged.is_empty() && self.unread.is_empty()
    }

    /// Fails if anything was found. Against damage, `remedy` helps.
    pub(crate) fn verdict(&self, remedy: &str) -> Result<()> {
        let unread = counted(self.unread.len(), "place");
        let how = if self.is_denied { DENIED } else { FAILING };
        match (self.damaged.len(), self.unread.is_empty()) {
            (0, true) => Ok(()),
            (0, false) => Err(Unreadable(format!("{unread} could not be read: {how}")).into()),
            (damaged, true) => bail!("{} found: {remedy}", counted(damaged, "damaged place")),
            (damaged, false) => bail!(
                "{} found: {remedy}; {unread} more could not be read: {how}",
                counted(damaged, "damaged place")
            ),
        }
    }
}

/// One fault as a line for people.
pub(crate) fn line_of(fault: &Fault) -> String {
    match fault.is_unreadable() {
        true => format!("COULD NOT BE READ: {fault}"),
        false => format!("DAMAGED: {fault}"),
    }
}

/// The error of a directory that cannot be read, or whose identity cannot.
pub(crate) fn unreadable(path: &Path, error: &std::io::Error) -> Unreadable {
    let how = match error.kind() {
        std::io::ErrorKind::PermissionDenied => DENIED,
        _ => FAILING,
    };
    Unreadable(format!("{} cannot be read: {error}; {how}", path.display()))
}
