//! All that happened, as one number: the same seed must give the same.
//!
//! Each step of the engine, each event that a client saw and each operation of the disk goes in, with the time at which it was. `show` tells the events as they
//! come, for whoever follows a seed that failed.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::rc::Rc;

use platform::disk::Operation;
use tokio::time::Instant;

/// Clones are the same trace.
#[derive(Clone)]
pub(crate) struct Trace(Rc<Inner>);

struct Inner {
    began: Instant,
    hash: Cell<u64>,
    steps: Cell<u64>,
    counts: RefCell<BTreeMap<String, u64>>,
    shows: bool,
}

impl Trace {
    /// An empty trace that begins now.
    pub(crate) fn new(shows: bool) -> Trace {
        Trace(Rc::new(Inner {
            began: Instant::now(),
            // FNV-1a, 64 bits (Fowler, Noll, Vo).
            hash: Cell::new(0xcbf2_9ce4_8422_2325),
            steps: Cell::new(0),
            counts: RefCell::default(),
            shows,
        }))
    }

    fn add(&self, bytes: &[u8]) {
        let hash = bytes.iter().fold(self.0.hash.get(), |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
        self.0.hash.set(hash);
    }

    fn add_time(&self) {
        let elapsed = self.0.began.elapsed();
        self.add(&elapsed.as_nanos().to_le_bytes());
    }

    /// Takes note of a step of a unit.
    pub(crate) fn note_step(&self, unit: u32) {
        self.0.steps.set(self.0.steps.get() + 1);
        self.add_time();
        self.add(&unit.to_le_bytes());
        if self.0.shows {
            tracing::debug!("{:>10.6} unit {unit}", self.0.began.elapsed().as_secs_f64());
        }
    }

    /// Takes note of an event.
    pub(crate) fn note(&self, event: impl Display) {
        let event = event.to_string();
        self.add_time();
        self.add(event.as_bytes());
        if self.0.shows {
            tracing::info!("{:>10.6} {event}", self.0.began.elapsed().as_secs_f64());
        }
    }

    /// Takes note of an operation of a disk.
    pub(crate) fn note_operation(&self, operation: &Operation) {
        self.add(&[operation.kind as u8]);
        self.add(operation.path.as_os_str().as_encoded_bytes());
        self.add(&operation.position.to_le_bytes());
        self.add(&operation.length.to_le_bytes());
    }

    /// Counts something that was reached.
    pub(crate) fn count(&self, what: impl Into<String>) {
        *self.0.counts.borrow_mut().entry(what.into()).or_default() += 1;
    }

    /// All that was counted.
    pub(crate) fn counts(&self) -> BTreeMap<String, u64> {
        self.0.counts.borrow().clone()
    }

    /// The number of the whole trace.
    pub(crate) fn hash(&self) -> u64 {
        self.0.hash.get()
    }

    /// How many steps the engine took.
    pub(crate) fn steps(&self) -> u64 {
        self.0.steps.get()
    }
}
