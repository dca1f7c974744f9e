//! Flushes that a test holds up or has fail: a simulated disk whose durable writes ask here first.
//!
//! The disk is slow, so that the node flushes on a thread of its own. While a flush is held up other calls on the disk
//! wait, too; what the node has in memory it still serves.

use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use platform::disk::{Applied, Call, FaultKind, OperationKind, SimulatedDisk};

/// EIO, as errno(3) numbers it.
const INPUT_OUTPUT_ERROR: i32 = 5;

/// The least time that every durable write takes.
const SLOWNESS: Duration = Duration::from_millis(5);

/// The fate of a durable write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Done,
    HeldUp,
    Failed,
}

/// Decides about the durable writes of a disk.
#[derive(Clone)]
pub(crate) struct Flushes {
    fate: Arc<(Mutex<Fate>, Condvar)>,
}

/// Flushes are held up until this is dropped.
pub(crate) struct HeldUp(Flushes);

impl Flushes {
    /// Of the files below `directory`; the root for all of them. They are done until told otherwise.
    pub(crate) fn of(disk: &SimulatedDisk, directory: &str) -> Flushes {
        let flushes = Flushes {
            fate: Arc::new((Mutex::new(Fate::Done), Condvar::new())),
        };
        let (asked, directory) = (flushes.clone(), directory.to_owned());
        disk.fail_when(move |call: &Call| {
            let is_flush = call.kind == OperationKind::WriteDurable;
            if is_flush {
                thread::sleep(SLOWNESS);
            }
            let ours = is_flush && call.path.starts_with(Path::new(&directory));
            (ours && asked.wait() == Fate::Failed).then_some(FaultKind::Error {
                errno: INPUT_OUTPUT_ERROR,
                applied: Applied::Nothing,
            })
        });
        flushes
    }

    /// Holds flushes up. Drop the answer before the node: it cannot stop in the middle of one.
    pub(crate) fn hold_up(&self) -> HeldUp {
        self.decide(Fate::HeldUp);
        HeldUp(self.clone())
    }

    /// Has flushes fail from now on, those that are held up as well.
    pub(crate) fn fail(&self) {
        self.decide(Fate::Failed);
    }

    fn decide(&self, fate: Fate) {
        *self.lock() = fate;
        self.fate.1.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Fate> {
        self.fate.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait(&self) -> Fate {
        let held_up = |fate: &mut Fate| *fate == Fate::HeldUp;
        let decided = self.fate.1.wait_while(self.lock(), held_up);
        *decided.unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for HeldUp {
    fn drop(&mut self) {
        if *self.0.lock() == Fate::HeldUp {
            self.0.decide(Fate::Done);
        }
    }
}
