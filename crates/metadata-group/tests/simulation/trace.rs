//! All that happened in a run, as one number, and as text for whoever wants to read it: the same seed must give the same.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::rc::Rc;

use tokio::time::Instant;

#[derive(Clone)]
pub(crate) struct Trace(Rc<Inner>);

struct Inner {
    began: Instant,
    hash: Cell<u64>,
    steps: Cell<u64>,
    counts: RefCell<BTreeMap<&'static str, u64>>,
    /// Kept if somebody wants to compare or read it.
    text: Option<RefCell<String>>,
}

impl Trace {
    pub(crate) fn new(keeps_text: bool) -> Trace {
        Trace(Rc::new(Inner {
            began: Instant::now(),
            // FNV-1a, 64 bits.
            hash: Cell::new(0xcbf2_9ce4_8422_2325),
            steps: Cell::new(0),
            counts: RefCell::default(),
            text: keeps_text.then(RefCell::default),
        }))
    }

    fn add(&self, bytes: &[u8]) {
        let hash = bytes.iter().fold(self.0.hash.get(), |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
        self.0.hash.set(hash);
    }

    pub(crate) fn step(&self, unit: u32) {
        self.0.steps.set(self.0.steps.get() + 1);
        self.add(&self.elapsed_us().to_le_bytes());
        self.add(&unit.to_le_bytes());
        if let Some(text) = &self.0.text {
            text.borrow_mut()
                .push_str(&format!("{} unit {unit}\n", self.elapsed_us()));
        }
    }

    pub(crate) fn note(&self, event: impl Display) {
        let event = event.to_string();
        self.add(&self.elapsed_us().to_le_bytes());
        self.add(event.as_bytes());
        if let Some(text) = &self.0.text {
            text.borrow_mut()
                .push_str(&format!("{} {event}\n", self.elapsed_us()));
        }
    }

    pub(crate) fn count(&self, what: &'static str) {
        *self.0.counts.borrow_mut().entry(what).or_default() += 1;
    }

    pub(crate) fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.0.counts.borrow().clone()
    }

    pub(crate) fn elapsed_us(&self) -> u64 {
        self.0.began.elapsed().as_micros() as u64
    }

    pub(crate) fn hash(&self) -> u64 {
        self.0.hash.get()
    }

    pub(crate) fn steps(&self) -> u64 {
        self.0.steps.get()
    }

    pub(crate) fn text(&self) -> String {
        self.0
            .text
            .as_ref()
            .map(|text| text.borrow().clone())
            .unwrap_or_default()
    }
}
