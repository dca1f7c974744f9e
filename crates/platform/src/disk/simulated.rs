//! A disk in memory that can lose, tear, fail and corrupt: the judge of everything that claims to survive a crash.
//!
//! It promises exactly what `Disk` and `File` promise and no more: what real file systems happen to do beyond that (names
//! made durable by a file's sync, changes kept in order) is not done here. Each change is recorded; from the record come the
//! disks that a power cut at any point could leave. Clones share one disk; a crash state is a disk of its own.

mod content;
mod crash;
mod faults;
mod file;
mod model;
mod state;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

pub use self::crash::{CrashPoint, CrashStates};
pub use self::faults::{Applied, Call, FaultKind, OperationKind};
pub use self::state::Operation;

use self::content::Content;
use self::crash::Inheritance;
use self::file::SimulatedFile;
use self::model::{Effect, Entry, FileId, NameChange, ROOT, Remains, entries_of};
use self::state::{About, State};
use super::relative_path::{names, parent_and_name, replacement_name};
use super::{Disk, DurableWriteMode, File, Lock};

/// A simulated disk.
#[derive(Clone)]
pub struct SimulatedDisk {
    shared: Arc<Mutex<State>>,
}

impl Default for SimulatedDisk {
    fn default() -> SimulatedDisk {
        SimulatedDisk::new()
    }
}

impl SimulatedDisk {
    /// An empty disk.
    pub fn new() -> SimulatedDisk {
        let nothing = Remains {
            names: BTreeMap::new(),
            contents: BTreeMap::new(),
        };
        let inheritance = Inheritance {
            capacity: None,
            sector_tears: false,
            next_id: ROOT + 1,
        };
        SimulatedDisk {
            shared: Arc::new(Mutex::new(State::new(&nothing, None, &inheritance))),
        }
    }

    pub(in crate::disk::simulated) fn from_crash(
        remains: &Remains,
        at: CrashPoint,
        left: &Inheritance,
    ) -> SimulatedDisk {
        SimulatedDisk {
            shared: Arc::new(Mutex::new(State::new(remains, Some(at), left))),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic of the code under test must not hide behind a second one here.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // What happened.

    /// The operations recorded so far (since `forget_operations`), oldest first. A rename or a `replace` shows as its steps.
    pub fn operations(&self) -> Vec<Operation> {
        self.state()
            .journal
            .iter()
            .map(|recorded| recorded.operation.clone())
            .collect()
    }

    /// How many operations there have been since the disk was made. Noted when something is acknowledged, it says from which
    /// `CrashPoint::completed` on that something must be there.
    pub fn operation_count(&self) -> u64 {
        self.state().operation_count()
    }

    /// Starts the record anew from here, to save memory or to look at crashes of what follows only. Indexes go on.
    pub fn forget_operations(&self) {
        let mut state = self.state();
        state.first_index = state.operation_count();
        state.journal.clear();
        state.start = state.model.clone();
    }

    /// Where this disk was cut off, if it is what a crash left.
    pub fn crash_point(&self) -> Option<CrashPoint> {
        self.state().crash_point.clone()
    }

    // Crashes.

    /// The disks that a power cut could leave, for every point of the recorded run: all subsets of what was in doubt if they
    /// are at most `limit` per point, else none, all, only the earlier, only the running operation's, each missing alone, each
    /// there alone, and (up to `limit`) subsets drawn from `seed`. The record is taken at the time of the call.
    pub fn crash_states(&self, limit: usize, seed: u64) -> CrashStates {
        let state = self.state();
        let (journal, start) = (state.journal.clone(), state.start.clone());
        CrashStates::new(
            journal,
            start,
            state.first_index,
            limit,
            seed,
            state.inheritance(),
        )
    }

    /// One disk that a power cut could leave when operation `index` had returned and no other was running, drawn from
    /// `choice_seed`. Panics if the operation is not in the record.
    pub fn crash_after(&self, index: u64, choice_seed: u64) -> SimulatedDisk {
        let state = self.state();
        assert!(
            index >= state.first_index && index < state.operation_count(),
            "operation {index} is not recorded"
        );
        let mut model = state.start.clone();
        for recorded in &state.journal[..=(index - state.first_index) as usize] {
            for effect in &recorded.effects {
                model.apply(effect, model::Progress::Returned);
            }
        }
        crash::draw(&model, index + 1, choice_seed, &state.inheritance())
    }

    /// One disk that a power cut could leave now, drawn from `choice_seed`.
    pub fn crash(&self, choice_seed: u64) -> SimulatedDisk {
        let state = self.state();
        crash::draw(
            &state.model,
            state.operation_count(),
            choice_seed,
            &state.inheritance(),
        )
    }

    /// Whether the operation running at a crash may be torn inside its blocks, at sectors of 512 bytes. Off at first.
    pub fn set_sector_tears(&self, allowed: bool) {
        self.state().sector_tears = allowed;
    }

    // Faults.

    /// Lets the call number `index` (from 0, counted since the disk was made) fail.
    pub fn fail_operation(&self, index: u64, kind: FaultKind) {
        self.state().faults.fail_at(index, kind);
    }

    /// Asks `planner` about every counted call that no `fail_operation` names; replaces an earlier one. It must not touch the disk.
    pub fn fail_when(&self, planner: impl Fn(&Call) -> Option<FaultKind> + Send + 'static) {
        self.state().faults.fail_when(Box::new(planner));
    }

    /// Whether calls that only look are counted and can fail. Off at first.
    pub fn count_reads(&self, counted: bool) {
        self.state().faults.counts_reads = counted;
    }

    /// How many calls have been counted.
    pub fn call_count(&self) -> u64 {
        self.state().faults.calls
    }

    /// Drops all faults to come, and `NoSpace` until lifted. Calls stay counted.
    pub fn clear_faults(&self) {
        self.state().faults.clear();
    }

    /// Ends a `NoSpace` that holds until lifted.
    pub fn lift_no_space(&self) {
        self.state().faults.full = false;
    }

    /// Limits the room for data, counted in blocks that were ever written; names take none. `None` for no limit.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.state().capacity = bytes;
    }

    /// Drops what the page cache still shows of data whose write or sync failed: it is gone now.
    pub fn drop_page_cache(&self) {
        let about = About::whole(OperationKind::DropPageCache, Path::new(""));
        self.state().perform(about, vec![Effect::DropDoubtful]);
    }

    // Corruption. What was on its way in the file counts as durable afterwards.

    /// Flips bit `bit` (8 × byte + bit, least significant first) of a file. Panics if there is none.
    pub fn flip_bit(&self, path: &Path, bit: u64) {
        self.corrupt(path, |content| content.flip_bit(bit));
    }

    /// Cuts or extends a file, durably. Panics if there is none.
    pub fn truncate(&self, path: &Path, length: u64) {
        self.corrupt(path, |content| content.set_length(length));
    }

    fn corrupt(&self, path: &Path, damage: impl FnOnce(&mut Content)) {
        let mut state = self.state();
        let file = state.file(path).expect("the file to corrupt exists");
        let mut content = state.content(file);
        damage(Arc::make_mut(&mut content));
        state.perform(
            About::whole(OperationKind::Corrupt, path),
            vec![Effect::Overwrite { file, content }],
        );
    }

    /// Gives each of two files the other's content, durably. Panics if either is missing.
    pub fn swap_files(&self, first: &Path, second: &Path) {
        let mut state = self.state();
        let a = state.file(first).expect("the first file to swap exists");
        let b = state.file(second).expect("the second file to swap exists");
        let (of_a, of_b) = (state.content(a), state.content(b));
        let effects = vec![
            Effect::Overwrite {
                file: a,
                content: of_b,
            },
            Effect::Overwrite {
                file: b,
                content: of_a,
            },
        ];
        state.perform(About::whole(OperationKind::Corrupt, first), effects);
    }

    /// The content of a file as the process sees it; none if there is no such file.
    pub fn file_bytes(&self, path: &Path) -> Option<Vec<u8>> {
        let state = self.state();
        let content = state.content(state.file(path).ok()?);
        Some(content.read(0, content.length() as usize))
    }

    /// All files as the process sees them, sorted.
    pub fn paths(&self) -> Vec<PathBuf> {
        let state = self.state();
        let mut found = Vec::new();
        let mut open = vec![(ROOT, PathBuf::new())];
        while let Some((directory, above)) = open.pop() {
            for ((_, name), entry) in entries_of(&state.names, directory) {
                match entry {
                    Entry::File(_) => found.push(above.join(name)),
                    Entry::Directory(below) => open.push((*below, above.join(name))),
                }
            }
        }
        found.sort();
        found
    }

    fn handle(&self, file: FileId, path: &Path) -> Arc<dyn File> {
        Arc::new(SimulatedFile::new(self.clone(), file, path.to_path_buf()))
    }

    fn write_aside(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        self.remove(path)?;
        self.create(path)?;
        let mut state = self.state();
        let file = state.file(path)?;
        let bytes = Bytes::copy_from_slice(content);
        let about = About {
            length: bytes.len() as u64,
            ..About::whole(OperationKind::Write, path)
        };
        state.write(file, about, &bytes)?;
        state.sync(file, path)
    }
}

impl State {
    fn content(&self, file: FileId) -> Arc<Content> {
        self.contents.get(&file).cloned().unwrap_or_default()
    }
}

impl Disk for SimulatedDisk {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let mut state = self.state();
        state.look(OperationKind::Open, path)?;
        let file = state.file(path)?;
        drop(state);
        Ok(self.handle(file, path))
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let mut state = self.state();
        let place = state.place(path)?;
        if state.names.contains_key(&place) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let file = state.new_id();
        let effects = vec![Effect::Name(NameChange::Put {
            place,
            entry: Entry::File(file),
        })];
        state.change_names(About::whole(OperationKind::Create, path), effects)?;
        drop(state);
        Ok(self.handle(file, path))
    }

    fn read_whole(&self, path: &Path, bytes_max: usize) -> io::Result<Vec<u8>> {
        let mut state = self.state();
        state.look(OperationKind::ReadWhole, path)?;
        let content = state.content(state.file(path)?);
        match usize::try_from(content.length()) {
            Ok(length) if length <= bytes_max => Ok(content.read(0, length)),
            _ => {
                let message = format!("{} is longer than {bytes_max} bytes", path.display());
                Err(io::Error::new(io::ErrorKind::InvalidData, message))
            }
        }
    }

    fn replace(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        let (above, name) = parent_and_name(path)?;
        let directory: PathBuf = above.iter().collect();
        let aside = directory.join(replacement_name(name));
        if let Err(error) = self
            .write_aside(&aside, content)
            .and_then(|()| self.rename(&aside, path))
        {
            // As on a real disk: the first error is the one to report.
            let _ = self.remove(&aside);
            return Err(error);
        }
        self.sync_directory(&directory)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        let mut state = self.state();
        state.look(OperationKind::List, directory)?;
        match state.directory(&names(directory)?) {
            Ok(id) => Ok(entries_of(&state.names, id)
                .map(|((_, name), _)| name.clone())
                .collect()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    fn create_directory(&self, directory: &Path) -> io::Result<()> {
        let mut state = self.state();
        let mut effects = Vec::new();
        let mut above = ROOT;
        let names = names(directory)?;
        for (depth, name) in names.iter().enumerate() {
            let place = (above, (*name).to_owned());
            above = match state.names.get(&place) {
                Some(Entry::Directory(below)) => *below,
                Some(Entry::File(_)) if depth + 1 == names.len() => {
                    return Err(io::ErrorKind::AlreadyExists.into());
                }
                Some(Entry::File(_)) => return Err(io::ErrorKind::NotADirectory.into()),
                None => {
                    let id = state.new_id();
                    effects.push(Effect::Name(NameChange::Put {
                        place,
                        entry: Entry::Directory(id),
                    }));
                    id
                }
            };
        }
        state.change_names(About::whole(OperationKind::CreateDirectory, directory), effects)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state();
        let entry = Entry::File(state.file(from)?);
        let (source, target) = (state.place(from)?, state.place(to)?);
        if let Some(Entry::Directory(_)) = state.names.get(&target) {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        let changes = if source == target {
            vec![]
        } else if source.0 == target.0 {
            vec![NameChange::Move {
                from: source,
                to: target,
                entry,
            }]
        } else {
            vec![
                NameChange::Put { place: target, entry },
                NameChange::DropMoved { place: source },
            ]
        };
        let effects = changes.into_iter().map(Effect::Name).collect();
        state.change_names(About::whole(OperationKind::Rename, from), effects)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        let effects = match state.file(path) {
            Ok(_) => vec![Effect::Name(NameChange::Drop {
                place: state.place(path)?,
            })],
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
        };
        state.change_names(About::whole(OperationKind::Remove, path), effects)
    }

    fn remove_directory(&self, directory: &Path) -> io::Result<()> {
        let mut state = self.state();
        parent_and_name(directory)?;
        let mut effects = Vec::new();
        match state.directory(&names(directory)?) {
            Ok(id) => {
                state.drops_below(id, &mut effects);
                effects.push(Effect::Name(NameChange::Drop {
                    place: state.place(directory)?,
                }));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        state.change_names(About::whole(OperationKind::RemoveDirectory, directory), effects)
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        let mut state = self.state();
        let id = state.directory(&names(directory)?)?;
        state.sync_directory(id, directory)
    }

    fn free_bytes(&self) -> io::Result<u64> {
        let mut state = self.state();
        state.look(OperationKind::FreeBytes, Path::new(""))?;
        Ok(state.free_bytes())
    }

    fn total_bytes(&self) -> io::Result<u64> {
        Ok(self.state().total_bytes())
    }

    fn lock(&self) -> io::Result<Box<dyn Lock>> {
        let mut state = self.state();
        state.look(OperationKind::Lock, Path::new(""))?;
        if state.locked {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        state.locked = true;
        drop(state);
        Ok(Box::new(HeldLock { disk: self.clone() }))
    }

    fn durable_write_mode(&self) -> DurableWriteMode {
        DurableWriteMode::Simulated
    }

    fn root(&self) -> PathBuf {
        PathBuf::from("simulated")
    }
}

struct HeldLock {
    disk: SimulatedDisk,
}

impl Lock for HeldLock {}

impl Drop for HeldLock {
    fn drop(&mut self) {
        self.disk.state().locked = false;
    }
}

#[cfg(test)]
mod tests;
