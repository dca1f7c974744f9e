//! A gate before the durable writes of a simulated disk: closed, it holds up whoever flushes; it counts them, or has them fail.

use std::sync::{Arc, Condvar, Mutex};

use platform::disk::{Applied, Call, FaultKind, OperationKind, SimulatedDisk};

/// EIO, as errno(3) numbers it.
const INPUT_OUTPUT_ERROR: i32 = 5;

#[derive(Default)]
struct Passing {
    is_closed: bool,
    fails: bool,
    waiting: usize,
    passed: usize,
}

/// See the module.
#[derive(Clone, Default)]
pub(super) struct Gate(Arc<(Mutex<Passing>, Condvar)>);

impl Gate {
    /// An open gate before all flushes of the journal.
    pub(super) fn before(disk: &SimulatedDisk) -> Gate {
        let gate = Gate::default();
        let asked = gate.clone();
        disk.fail_when(move |call: &Call| {
            // At position 0 is a file's header, which is written when the file is made ready.
            let is_flush = call.kind == OperationKind::WriteDurable
                && call.path.starts_with("journals")
                && call.position > 0;
            (is_flush && asked.pass()).then_some(FaultKind::Error {
                errno: INPUT_OUTPUT_ERROR,
                applied: Applied::Nothing,
            })
        });
        gate
    }

    pub(super) fn close(&self) {
        self.change(|passing| passing.is_closed = true);
    }

    pub(super) fn open(&self) {
        self.change(|passing| passing.is_closed = false);
    }

    /// Flushes fail from now on, those that are held up as well.
    pub(super) fn fail(&self) {
        self.change(|passing| (passing.is_closed, passing.fails) = (false, true));
    }

    /// Returns when a flush is held up.
    pub(super) fn until_one_waits(&self) {
        let (passing, changed) = &*self.0;
        let passing = passing.lock().expect("no test thread panicked here");
        let nobody = |passing: &mut Passing| passing.waiting == 0;
        drop(
            changed
                .wait_while(passing, nobody)
                .expect("no test thread panicked here"),
        );
    }

    /// Flushes that were let through.
    pub(super) fn passed(&self) -> usize {
        self.0.0.lock().expect("no test thread panicked here").passed
    }

    fn change(&self, change: impl FnOnce(&mut Passing)) {
        let (passing, changed) = &*self.0;
        change(&mut passing.lock().expect("no test thread panicked here"));
        changed.notify_all();
    }

    /// Goes through; whether the flush fails.
    fn pass(&self) -> bool {
        let (passing, changed) = &*self.0;
        let mut passing = passing.lock().expect("no test thread panicked here");
        passing.waiting += 1;
        changed.notify_all();
        let closed = |passing: &mut Passing| passing.is_closed;
        let mut passing = changed
            .wait_while(passing, closed)
            .expect("no test thread panicked here");
        passing.waiting -= 1;
        passing.passed += 1;
        passing.fails
    }
}
