//! Panics of the code that runs in a seed. Where panics unwind, as in tests, the runtime catches those of its tasks and goes on without
//! them: nobody would hear of it.

use std::cell::{Cell, RefCell};
use std::sync::Once;

thread_local! {
    static SEED: Cell<u64> = const { Cell::new(0) };
    static HEARD: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Keeps the first panic on this thread from now on, and tells the seed with each.
pub(crate) fn listen(seed: u64) {
    static LISTENS: Once = Once::new();
    LISTENS.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            before(panic);
            let seed = SEED.get();
            eprintln!("seed {seed} panicked; run it again: make sim SEED={seed}");
            HEARD.with_borrow_mut(|heard| {
                heard.get_or_insert_with(|| panic.to_string());
            });
        }));
    });
    SEED.set(seed);
    HEARD.take();
}

/// The first panic since `listen`.
pub(crate) fn heard() -> Option<String> {
    HEARD.with_borrow(Clone::clone)
}
