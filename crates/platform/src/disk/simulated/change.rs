//! Changes that operations make on a simulated disk: to names in directories, and to the content of files.
//!
//! A change knows only how it is carried out. When it reaches the platter, and whether a crash may lose it, is the model's.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;

use super::content::Content;

pub(super) type FileId = u64;
pub(super) type DirectoryId = u64;
/// The place of a name: the directory it is in, and the name.
pub(super) type Place = (DirectoryId, String);

pub(super) const ROOT: DirectoryId = 0;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Entry {
    File(FileId),
    Directory(DirectoryId),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    Durable,
    Pending,
    Doubtful,
}

/// One change of the names that reaches the disk whole or not at all.
#[derive(Debug, Clone)]
pub(super) enum NameChange {
    Put {
        place: Place,
        entry: Entry,
    },
    Drop {
        place: Place,
    },
    /// A rename inside one directory: atomic.
    Move {
        from: Place,
        to: Place,
        entry: Entry,
    },
    /// The second half of a rename between directories, never there without the `Put` just before it.
    DropMoved {
        place: Place,
    },
}

#[derive(Debug, Clone)]
pub(super) enum ContentChange {
    Write { position: u64, bytes: Bytes },
    Zeros { position: u64, length: u64 },
    Grow { length: u64 },
}

/// The changes of one operation, for the model and (without the standing) for the view of the running process.
#[derive(Debug, Clone)]
pub(super) enum Effect {
    Name(NameChange),
    Content {
        file: FileId,
        change: ContentChange,
        standing: Standing,
    },
    SyncFile {
        file: FileId,
    },
    /// A sync that reported an error: what it was to make durable is in doubt for ever.
    FailSync {
        file: FileId,
    },
    SyncDirectory {
        directory: DirectoryId,
    },
    /// As `FailSync`, for the names in a directory.
    FailSyncDirectory {
        directory: DirectoryId,
    },
    /// The page cache is dropped: what is in doubt is gone.
    DropDoubtful,
    /// Corruption from outside: this is the file from now on.
    Overwrite {
        file: FileId,
        content: Arc<Content>,
    },
}

impl Entry {
    pub(super) fn file(&self) -> Option<FileId> {
        match self {
            Entry::File(file) => Some(*file),
            Entry::Directory(_) => None,
        }
    }
}

impl NameChange {
    pub(super) fn apply(&self, names: &mut BTreeMap<Place, Entry>) {
        match self {
            NameChange::Put { place, entry } => {
                names.insert(place.clone(), *entry);
            }
            NameChange::Drop { place } | NameChange::DropMoved { place } => {
                names.remove(place);
            }
            NameChange::Move { from, to, entry } => {
                names.remove(from);
                names.insert(to.clone(), *entry);
            }
        }
    }

    /// The directory whose sync makes the change durable.
    pub(super) fn directory(&self) -> DirectoryId {
        match self {
            NameChange::Put { place, .. } | NameChange::Drop { place } | NameChange::DropMoved { place } => {
                place.0
            }
            NameChange::Move { to, .. } => to.0,
        }
    }

    pub(super) fn places(&self) -> Vec<&Place> {
        match self {
            NameChange::Put { place, .. } | NameChange::Drop { place } | NameChange::DropMoved { place } => {
                vec![place]
            }
            NameChange::Move { from, to, .. } => vec![from, to],
        }
    }

    /// The place that has the entry afterwards.
    pub(super) fn target(&self) -> Option<&Place> {
        match self {
            NameChange::Put { place, .. } | NameChange::Move { to: place, .. } => Some(place),
            NameChange::Drop { .. } | NameChange::DropMoved { .. } => None,
        }
    }

    pub(super) fn entry(&self) -> Option<&Entry> {
        match self {
            NameChange::Put { entry, .. } | NameChange::Move { entry, .. } => Some(entry),
            NameChange::Drop { .. } | NameChange::DropMoved { .. } => None,
        }
    }
}

impl ContentChange {
    pub(super) fn apply(&self, content: &mut Content) {
        match self {
            ContentChange::Write { position, bytes } => content.write(*position, bytes),
            ContentChange::Zeros { position, length } => content.write_zeros(*position, *length),
            ContentChange::Grow { length } => content.grow(*length),
        }
    }

    /// The bytes it writes, as first and end; none for a change of the length.
    pub(super) fn range(&self) -> Option<(u64, u64)> {
        match self {
            ContentChange::Write { position, bytes } => Some((*position, position + bytes.len() as u64)),
            ContentChange::Zeros { position, length } => Some((*position, position + length)),
            ContentChange::Grow { .. } => None,
        }
    }
}

/// The entries that can be reached from the root.
pub(super) fn reachable(names: &BTreeMap<Place, Entry>) -> BTreeMap<Place, Entry> {
    let mut found = BTreeMap::new();
    let mut seen = BTreeSet::from([ROOT]);
    let mut open = vec![ROOT];
    while let Some(directory) = open.pop() {
        for (place, entry) in entries_of(names, directory) {
            found.insert(place.clone(), *entry);
            if let Entry::Directory(below) = entry
                && seen.insert(*below)
            {
                open.push(*below);
            }
        }
    }
    found
}

/// The entries of one directory, by name.
pub(super) fn entries_of(
    names: &BTreeMap<Place, Entry>,
    directory: DirectoryId,
) -> impl Iterator<Item = (&Place, &Entry)> {
    names.range((directory, String::new())..(directory + 1, String::new()))
}
