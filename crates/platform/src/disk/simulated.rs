//! A disk in memory that can lose, tear, fail and corrupt: the judge of everything that claims to survive a crash.
//!
//! It promises exactly what `Disk` and `File` promise and no more: what real file systems happen to do beyond that (names
//! made durable by a file's sync, changes kept in order) is not done here. Each change is recorded; from the record come the
//! disks that a power cut at any point could leave. Clones share one disk; a crash state is a disk of its own.

mod as_disk;
mod change;
mod content;
mod crash;
mod faults;
mod file;
mod model;
mod state;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use self::crash::{CrashPoint, CrashStates};
pub use self::faults::{Applied, Call, FaultKind, OperationKind};
pub use self::state::Operation;

use self::change::{Effect, Entry, FileId, ROOT, entries_of};
use self::content::Content;
use self::crash::Inheritance;
use self::model::Remains;
use self::state::{About, State};
use crate::disk::BLOCK_BYTES;

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

    // The operations so far.

    /// The operations recorded so far (since `forget_operations`), oldest first. A rename or a `replace` shows as its steps.
    pub fn operations(&self) -> Vec<Operation> {
        self.state()
            .journal
            .iter()
            .map(|recorded| recorded.operation.clone())
            .collect()
    }

    /// The number of operations since the disk was made. Noted when something is acknowledged, it says from which
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

    /// Lets the operation running at a crash be torn inside its blocks, at sectors of 512 bytes, or not. Off at first.
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

    /// Has calls that only look counted, so that they can fail, or not. Off at first.
    pub fn count_reads(&self, counted: bool) {
        self.state().faults.counts_reads = counted;
    }

    /// The number of calls that were counted.
    pub fn call_count(&self) -> u64 {
        self.state().faults.calls
    }

    /// Drops all faults to come, and `NoSpace` until lifted. Calls stay counted.
    pub fn clear_faults(&self) {
        self.state().faults.clear();
    }

    /// Ends a `NoSpace` that holds until lifted, be it still to come.
    pub fn lift_no_space(&self) {
        self.state().faults.lift_no_space();
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
        Some(content.read(0, content.length() as usize).into())
    }

    /// The length of a file as the process sees it; none if there is no such file.
    pub fn file_length(&self, path: &Path) -> Option<u64> {
        let state = self.state();
        let file = state.file(path).ok()?;
        Some(state.content(file).length())
    }

    /// The block of a file that holds a byte, as the process sees it; none if there is no such byte.
    pub fn block_of(&self, path: &Path, byte: u64) -> Option<Vec<u8>> {
        let state = self.state();
        let content = state.content(state.file(path).ok()?);
        let block = BLOCK_BYTES as u64;
        let begin = byte / block * block;
        let end = (begin + block).min(content.length());
        (byte < end).then(|| content.read(begin, (end - begin) as usize).into())
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
}

impl State {
    fn content(&self, file: FileId) -> Arc<Content> {
        self.contents.get(&file).cloned().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
