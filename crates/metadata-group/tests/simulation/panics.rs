//! Panics of a run: a task that panics does not end its unit, so that nobody would see it.

use std::cell::RefCell;

thread_local! {
    /// What panicked first; `None` outside of runs.
    static KEPT: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Has this thread's panics kept from here on.
pub(crate) fn keep() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let is_kept = KEPT.try_with(|kept| {
                let mut kept = kept.borrow_mut();
                if let Some(kept) = kept.as_mut().filter(|kept| kept.is_empty()) {
                    *kept = info.to_string().replace('\n', " ");
                }
                kept.is_some()
            });
            if !is_kept.unwrap_or(false) {
                before(info);
            }
        }));
    });
    KEPT.set(Some(String::new()));
}

/// Ends that; returns the first panic.
pub(crate) fn kept() -> Option<String> {
    KEPT.take().filter(|kept| !kept.is_empty())
}

pub(crate) fn has_any() -> bool {
    KEPT.with_borrow(|kept| kept.as_ref().is_some_and(|kept| !kept.is_empty()))
}
