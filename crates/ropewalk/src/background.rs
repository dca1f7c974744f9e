//! The work beside appends and reads, on a thread of its own: journal files are made ready, their batches are laid out
//! into segments, and files that nothing needs are removed.
//!
//! It goes in passes. A pass does all there is to do and ends; appends that wait for room are told then. A step that fails is left
//! out for the rest of its pass, and leaves everything as it was: nothing is lost, and the next pass tries again, after a while or
//! as soon as an append asks.

use std::fmt::Display;

use bytes::Bytes;
use record::{Offset, PartitionId};
use storage::{REMOVAL_PAUSE, RETRY_AFTER};

use crate::engine::{Engine, Guard, State};

/// One kind of work: returns `true` if there was any, or the reason for its failure.
type Step = fn(&Engine) -> Result<bool, String>;

const STEPS: [Step; 4] = [
    Engine::prepare_file,
    Engine::lay_out,
    Engine::write_checkpoint,
    Engine::remove_files,
];

/// Tells the appends that wait for room when the background ends by a panic: no more room is made.
struct Ending<'a>(&'a Engine);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        let engine = self.0;
        let mut state = engine.state_to_end();
        state.background.is_gone = true;
        engine.room.notify_all();
    }
}

/// The body of the background's thread.
pub(crate) fn run(engine: &Engine) {
    let _ending = Ending(engine);
    loop {
        let mut state = engine.state();
        while !state.background.wanted && !state.background.stopping {
            state = engine.until_work(state);
        }
        if state.background.stopping {
            return;
        }
        engine.begin_pass(state);
        let trouble = engine.pass();
        engine.end_pass(trouble);
    }
}

impl Engine {
    /// Waits to be asked; after trouble that may pass, not for long.
    fn until_work<'a>(&'a self, state: Guard<'a>) -> Guard<'a> {
        if state.background.trouble.is_none() || state.store.dead().is_some() {
            return self.wait(&self.work, state);
        }
        let (mut state, is_over) = self.wait_for(&self.work, state, RETRY_AFTER);
        state.background.wanted |= is_over;
        state
    }

    /// After a flush: whether the background has something to do. Not while it is in trouble: it tries again by itself.
    pub(crate) fn note_work(&self, state: &mut State) {
        if state.background.trouble.is_some() {
            return;
        }
        if state.background.preparation.is_none() {
            state.background.preparation = state.store.next_preparation();
        }
        if state.background.preparation.is_some() || state.store.layout_is_due() {
            self.ask_background(state);
        }
    }

    fn begin_pass(&self, mut state: Guard<'_>) {
        state.background.wanted = false;
        state.background.begun += 1;
    }

    /// Before each round of steps, so that they know whether to give files away, and so that the reserve is kept however long a
    /// pass goes on; and after them, as they may have freed what was missing.
    fn look_at_disk(&self) {
        // Not knowing is no reason to refuse: a full disk will say so itself.
        let free_bytes = self.disk.free_bytes().unwrap_or(u64::MAX);
        let short = (free_bytes < self.settings.disk_reserve_bytes).then_some(free_bytes);
        let mut state = self.state();
        state.background.short_of_space = short;
        state.store.set_short_of_space(short.is_some());
    }

    /// Does all there is to do; says what failed first, if anything did.
    fn pass(&self) -> Option<String> {
        self.begin_wanted_layout();
        let mut steps = STEPS.to_vec();
        let mut trouble = None;
        loop {
            self.look_at_disk();
            let mut worked = false;
            steps.retain(|step| match step(self) {
                Ok(did) => {
                    worked |= did;
                    true
                }
                Err(error) => {
                    trouble.get_or_insert(error);
                    false
                }
            });
            let state = self.state();
            if let Some(reason) = state.store.dead() {
                return Some(reason.to_owned());
            }
            if !worked || state.background.stopping {
                return trouble;
            }
        }
    }

    fn end_pass(&self, trouble: Option<String>) {
        self.look_at_disk();
        let mut state = self.state();
        match &trouble {
            Some(error) => {
                if let Some(times) = state.background.told.note(self.clock.monotonic()) {
                    tracing::warn!(
                        times,
                        error,
                        "the logs' background work failed and is tried again"
                    );
                }
            }
            None if state.background.told.end() => tracing::info!("the logs' background work works again"),
            None => {}
        }
        state.background.trouble = trouble;
        state.background.ended += 1;
        self.room.notify_all();
    }

    /// Begins a layout of everything that was staged, due or not, if an append waits for room.
    fn begin_wanted_layout(&self) {
        let mut state = self.state();
        if std::mem::take(&mut state.background.room_wanted)
            && let Ok(mut state) = self.until_all_durable(state)
        {
            state.store.begin_layout();
        }
    }

    fn prepare_file(&self) -> Result<bool, String> {
        let mut state = self.state();
        let preparation = state.background.preparation.take();
        let Some(job) = preparation.or_else(|| state.store.next_preparation()) else {
            return Ok(false);
        };
        drop(state);
        let result = job.run();
        self.state().store.prepared(job, result).map_err(sentence)?;
        self.room.notify_all();
        Ok(true)
    }

    fn lay_out(&self) -> Result<bool, String> {
        let now_ms = self.clock.wall_ms();
        let mut state = self.state();
        if state.store.layout_is_due() {
            state.store.begin_layout();
        }
        let Some(job) = state.store.next_layout(now_ms) else {
            return Ok(false);
        };
        drop(state);
        let result = job.run();
        self.state().store.laid_out(job, result).map_err(sentence)?;
        Ok(true)
    }

    fn write_checkpoint(&self) -> Result<bool, String> {
        let mut state = self.state();
        if state.store.dead().is_some() || !state.store.checkpoint_is_due() {
            return Ok(false);
        }
        let now = self.clock.monotonic();
        let State {
            store, partitions, ..
        } = &mut *state;
        let mut history = |id: PartitionId| -> Option<(Bytes, Offset)> {
            let (next, history) = partitions.get(&id)?.leader.snapshot_history(now);
            Some((history, next))
        };
        let job = store.begin_checkpoint(&mut history);
        // The checkpoint must not know of records that could still be lost.
        let state = self.until_all_durable(state)?;
        assert!(
            state.store.checkpoint_may_run(&job),
            "everything it reflects is durable"
        );
        drop(state);
        let result = job.run();
        self.state().store.checkpointed(job, result).map_err(sentence)?;
        self.room.notify_all();
        Ok(true)
    }

    fn remove_files(&self) -> Result<bool, String> {
        let mut state = self.state();
        let Some(job) = state.store.next_removal() else {
            return Ok(false);
        };
        drop(state);
        let result = job.run();
        let wants_pause = job.wants_pause();
        let mut state = self.state();
        state.store.removed(job, result).map_err(sentence)?;
        if wants_pause && !state.background.stopping && !state.background.wanted {
            // A thread that asks meanwhile is not kept waiting.
            drop(self.wait_for(&self.work, state, REMOVAL_PAUSE));
        }
        Ok(true)
    }
}

fn sentence(error: impl Display) -> String {
    error.to_string()
}
