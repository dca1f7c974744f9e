//! The one lock-protected state behind all handles of a simulated disk: what the process sees, what the platter may hold,
//! and the journal of what was done.
//!
//! Every change goes through `perform`, as effects that are applied alike to the view, to the model, and once more when the
//! crash states are replayed; so the three cannot drift apart.

mod writing;

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::change::{DirectoryId, Effect, Entry, FileId, NameChange, Place, ROOT, entries_of};
use super::content::Content;
use super::crash::{CrashPoint, Inheritance};
use super::faults::{Applied, FaultPlan, OperationKind, Verdict};
use super::model::{Model, Progress, Remains};
use crate::disk::relative_path;

/// One call that changed something, in the journal of a simulated disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// Its number among the operations, from 0 since the disk was made.
    pub index: u64,
    /// Its kind.
    pub kind: OperationKind,
    /// The file or directory; of a rename, the source.
    pub path: PathBuf,
    /// Where in the file, in bytes; 0 where it does not apply.
    pub position: u64,
    /// The number of bytes that took effect; for `FillWithZeros` the length asked for.
    pub length: u64,
}

impl fmt::Display for Operation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Operation {
            index,
            kind,
            path,
            position,
            length,
        } = self;
        write!(
            formatter,
            "#{index} {kind:?} {} {position}+{length}",
            path.display()
        )
    }
}

/// An operation with what it did, to be replayed.
#[derive(Debug)]
pub(super) struct Recorded {
    pub(super) operation: Operation,
    pub(super) effects: Vec<Effect>,
}

/// The subject of a call: its kind, its path and its range.
#[derive(Clone, Copy)]
pub(super) struct About<'a> {
    pub(super) kind: OperationKind,
    pub(super) path: &'a Path,
    pub(super) position: u64,
    pub(super) length: u64,
}

impl<'a> About<'a> {
    pub(super) fn whole(kind: OperationKind, path: &'a Path) -> About<'a> {
        About {
            kind,
            path,
            position: 0,
            length: 0,
        }
    }
}

pub(super) struct State {
    /// The files as the process sees them.
    pub(super) names: BTreeMap<Place, Entry>,
    pub(super) contents: BTreeMap<FileId, Arc<Content>>,
    /// The states that the platter may have.
    pub(super) model: Model,
    /// The platter where the journal begins.
    pub(super) start: Model,
    pub(super) journal: Vec<Arc<Recorded>>,
    pub(super) first_index: u64,
    pub(super) faults: FaultPlan,
    pub(super) capacity: Option<u64>,
    pub(super) sector_tears: bool,
    pub(super) next_id: u64,
    pub(super) locked: bool,
    pub(super) crash_point: Option<CrashPoint>,
}

impl State {
    pub(super) fn new(remains: &Remains, at: Option<CrashPoint>, inheritance: &Inheritance) -> State {
        let model = Model::from_remains(remains);
        State {
            names: remains.names.clone(),
            contents: remains.contents.clone(),
            start: model.clone(),
            model,
            journal: Vec::new(),
            first_index: 0,
            faults: FaultPlan::default(),
            capacity: inheritance.capacity,
            sector_tears: inheritance.sector_tears,
            next_id: inheritance.next_id,
            locked: false,
            crash_point: at,
        }
    }

    pub(super) fn inheritance(&self) -> Inheritance {
        Inheritance {
            capacity: self.capacity,
            sector_tears: self.sector_tears,
            next_id: self.next_id,
        }
    }

    pub(super) fn operation_count(&self) -> u64 {
        self.first_index + self.journal.len() as u64
    }

    pub(super) fn new_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id - 1
    }

    /// Carries out and records one operation.
    pub(super) fn perform(&mut self, about: About<'_>, effects: Vec<Effect>) {
        let About {
            kind,
            path,
            position,
            length,
        } = about;
        for effect in &effects {
            self.show(effect);
            self.model.apply(effect, Progress::Returned);
        }
        let index = self.operation_count();
        let operation = Operation {
            index,
            kind,
            path: path.to_path_buf(),
            position,
            length,
        };
        self.journal.push(Arc::new(Recorded { operation, effects }));
    }

    /// Lets the process see an effect.
    fn show(&mut self, effect: &Effect) {
        match effect {
            Effect::Name(change) => change.apply(&mut self.names),
            Effect::Content { file, change, .. } => {
                change.apply(Arc::make_mut(self.contents.entry(*file).or_default()));
            }
            Effect::Overwrite { file, content } => {
                self.contents.insert(*file, Arc::clone(content));
            }
            Effect::DropDoubtful => {
                for (file, content) in &mut self.contents {
                    *content = self.model.content_without_doubtful(*file);
                }
            }
            Effect::SyncFile { .. }
            | Effect::FailSync { .. }
            | Effect::SyncDirectory { .. }
            | Effect::FailSyncDirectory { .. } => {}
        }
    }

    /// Counts a call that only looks, and fails it if the plan says so.
    pub(super) fn look(&mut self, kind: OperationKind, path: &Path) -> io::Result<()> {
        self.look_at(About::whole(kind, path))
    }

    pub(super) fn look_at(&mut self, about: About<'_>) -> io::Result<()> {
        match self
            .faults
            .judge(about.kind, about.path, about.position, about.length)
        {
            Verdict::Fail { errno, .. } => Err(io::Error::from_raw_os_error(errno)),
            Verdict::Go | Verdict::Short => Ok(()),
        }
    }

    /// A change of names: carried out whole, or not at all, or whole with an error for an answer.
    pub(super) fn change_names(&mut self, about: About<'_>, effects: Vec<Effect>) -> io::Result<()> {
        let verdict = self.faults.judge(about.kind, about.path, 0, 0);
        if !effects.is_empty()
            && !matches!(
                verdict,
                Verdict::Fail {
                    applied: Applied::Nothing,
                    ..
                }
            )
        {
            self.perform(about, effects);
        }
        answer(verdict)
    }

    pub(super) fn sync_directory(&mut self, directory: DirectoryId, path: &Path) -> io::Result<()> {
        let about = About::whole(OperationKind::SyncDirectory, path);
        let verdict = self.faults.judge(about.kind, path, 0, 0);
        let failed = matches!(verdict, Verdict::Fail { .. });
        let effect = if failed {
            Effect::FailSyncDirectory { directory }
        } else {
            Effect::SyncDirectory { directory }
        };
        self.perform(about, vec![effect]);
        answer(verdict)
    }

    /// The directory at the end of `names`.
    pub(super) fn directory(&self, names: &[&str]) -> io::Result<DirectoryId> {
        let mut directory = ROOT;
        for name in names {
            match self.names.get(&(directory, (*name).to_owned())) {
                Some(Entry::Directory(below)) => directory = *below,
                Some(Entry::File(_)) => return Err(io::ErrorKind::NotADirectory.into()),
                None => return Err(io::ErrorKind::NotFound.into()),
            }
        }
        Ok(directory)
    }

    /// Where the last name of `path` is or would be; its directory must exist.
    pub(super) fn place(&self, path: &Path) -> io::Result<Place> {
        let (above, name) = relative_path::parent_and_name(path)?;
        Ok((self.directory(&above)?, name.to_owned()))
    }

    pub(super) fn file(&self, path: &Path) -> io::Result<FileId> {
        match self.names.get(&self.place(path)?) {
            Some(Entry::File(file)) => Ok(*file),
            Some(Entry::Directory(_)) => Err(io::ErrorKind::IsADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Drops of everything below a directory, deepest first.
    pub(super) fn drops_below(&self, directory: DirectoryId, drops: &mut Vec<Effect>) {
        for (place, entry) in entries_of(&self.names, directory) {
            if let Entry::Directory(below) = entry {
                self.drops_below(*below, drops);
            }
            drops.push(Effect::Name(NameChange::Drop { place: place.clone() }));
        }
    }
}

/// The answer to the caller.
fn answer(verdict: Verdict) -> io::Result<()> {
    match verdict {
        Verdict::Fail { errno, .. } => Err(io::Error::from_raw_os_error(errno)),
        Verdict::Go | Verdict::Short => Ok(()),
    }
}
