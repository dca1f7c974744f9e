//! Which calls on a simulated disk fail, and how.
//!
//! Calls are counted from zero since the disk was made. A test runs once to count them, then once for each `k` and kind.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The kinds of calls on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "each is named as the call it stands for")]
pub enum OperationKind {
    Open,
    Create,
    ReadWhole,
    Read,
    Length,
    List,
    WriteDurable,
    Write,
    Sync,
    FillWithZeros,
    ShrinkUnnamed,
    Rename,
    Remove,
    CreateDirectory,
    RemoveDirectory,
    SyncDirectory,
    FreeBytes,
    Lock,
    /// Bits flipped, bytes cut or files swapped from outside.
    Corrupt,
    /// The page cache was dropped.
    DropPageCache,
}

impl OperationKind {
    /// Says whether the call only looks.
    pub fn is_read(self) -> bool {
        use OperationKind::{FreeBytes, Length, List, Lock, Open, Read, ReadWhole};
        matches!(self, Open | ReadWhole | Read | Length | List | FreeBytes | Lock)
    }

    /// Says whether the call can need room on the disk.
    fn takes_room(self) -> bool {
        use OperationKind::{Create, CreateDirectory, FillWithZeros, Rename, Write, WriteDurable};
        matches!(
            self,
            Create | CreateDirectory | FillWithZeros | Rename | Write | WriteDurable
        )
    }
}

/// One call, as a fault plan sees it before it is carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Which call this is, from 0; reads count only if `count_reads` says so.
    pub index: u64,
    /// Its kind.
    pub kind: OperationKind,
    /// The file or directory.
    pub path: PathBuf,
    /// Where in the file, in bytes; 0 where it does not apply.
    pub position: u64,
    /// The number of bytes; for `FillWithZeros` the length asked for; 0 where it does not apply.
    pub length: u64,
}

/// The part of a failed call that took effect. The caller cannot tell; a crash may still lose each block of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Applied {
    /// None of it.
    Nothing,
    /// The first half of the blocks of a write (none if there is only one).
    Part,
    /// All of it: only the answer is wrong.
    All,
}

/// The way in which a call fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// The call returns this `errno`, having taken effect or not. On `Sync`, whatever is said here, what was not yet durable
    /// in the file becomes doubtful: the process still reads it, later syncs report success, a crash may lose it.
    Error {
        /// The error number, as in errno(3).
        errno: i32,
        /// The effect on the data.
        applied: Applied,
    },
    /// The system takes the first half of the blocks of a write, and the rest when asked again, as the real disk does by
    /// itself: the call succeeds, as two operations between which a crash may fall. Nothing on other calls.
    ShortWrite,
    /// ENOSPC for this call, if it is one that can need room.
    NoSpace {
        /// Also for every later call that needs room, until `lift_no_space`.
        until_lifted: bool,
    },
    /// A signal interrupts the call, which is then made again, as the real disk does by itself: it succeeds. On `Sync` and
    /// `SyncDirectory` the error is passed on, as a sync is never made twice.
    Interrupted,
}

/// The plan for one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Go,
    Short,
    Fail { errno: i32, applied: Applied },
}

type Planner = Box<dyn Fn(&Call) -> Option<FaultKind> + Send>;

/// The faults to come, and the count of calls.
#[derive(Default)]
pub(super) struct FaultPlan {
    at: BTreeMap<u64, FaultKind>,
    planner: Option<Planner>,
    pub(super) counts_reads: bool,
    pub(super) calls: u64,
    /// No room for anything, until lifted.
    pub(super) full: bool,
}

impl FaultPlan {
    pub(super) fn fail_at(&mut self, index: u64, kind: FaultKind) {
        self.at.insert(index, kind);
    }

    pub(super) fn fail_when(&mut self, planner: Planner) {
        self.planner = Some(planner);
    }

    pub(super) fn clear(&mut self) {
        self.at.clear();
        self.planner = None;
        self.full = false;
    }

    pub(super) fn lift_no_space(&mut self) {
        self.full = false;
        let lasts = |kind: &FaultKind| matches!(kind, FaultKind::NoSpace { until_lifted: true });
        self.at.retain(|_, kind| !lasts(kind));
    }

    /// Counts a call and says what becomes of it.
    pub(super) fn judge(&mut self, kind: OperationKind, path: &Path, position: u64, length: u64) -> Verdict {
        if kind.is_read() && !self.counts_reads {
            return Verdict::Go;
        }
        let call = Call {
            index: self.calls,
            kind,
            path: path.to_path_buf(),
            position,
            length,
        };
        self.calls += 1;
        let planned = self.planner.as_ref().and_then(|planner| planner(&call));
        let no_space = Verdict::Fail {
            errno: NO_SPACE,
            applied: Applied::Nothing,
        };
        match self.at.get(&call.index).copied().or(planned) {
            None | Some(FaultKind::ShortWrite | FaultKind::Interrupted)
                if self.full && is_name_call(kind) =>
            {
                no_space
            }
            None => Verdict::Go,
            Some(FaultKind::Error { errno, applied }) => Verdict::Fail { errno, applied },
            Some(FaultKind::ShortWrite) => Verdict::Short,
            Some(FaultKind::Interrupted) if is_sync(kind) => Verdict::Fail {
                errno: INTERRUPTED,
                applied: Applied::Nothing,
            },
            Some(FaultKind::Interrupted) => Verdict::Go,
            Some(FaultKind::NoSpace { until_lifted }) => {
                self.full |= until_lifted;
                if kind.takes_room() { no_space } else { Verdict::Go }
            }
        }
    }
}

/// Calls that need room for a name; those that need it for data are judged block by block.
fn is_name_call(kind: OperationKind) -> bool {
    matches!(
        kind,
        OperationKind::Create | OperationKind::CreateDirectory | OperationKind::Rename
    )
}

fn is_sync(kind: OperationKind) -> bool {
    matches!(kind, OperationKind::Sync | OperationKind::SyncDirectory)
}

pub(super) const NO_SPACE: i32 = rustix::io::Errno::NOSPC.raw_os_error();
const INTERRUPTED: i32 = rustix::io::Errno::INTR.raw_os_error();
