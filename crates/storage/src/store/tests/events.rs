//! Counts what is logged.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Runs it, and counts the events that are logged meanwhile.
pub(super) fn with_events<T>(run: impl FnOnce() -> T) -> (T, usize) {
    let events = Events::default();
    let outcome = tracing::subscriber::with_default(events.clone(), run);
    (outcome, events.0.load(Ordering::Relaxed))
}

#[derive(Clone, Default)]
struct Events(Arc<AtomicUsize>);

impl Subscriber for Events {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}
