//! Room for answers that say all there is about groups: as long as what was stored, however short the request.
//!
//! Coordinators are asked one at a time on a core. What one has found is not counted yet, but mostly shares what it keeps; room
//! in the core's answer budget is taken before any of it is copied for the wire. Who finds none lets go of what was found,
//! waits without holding any room, and asks again. An answer that has begun never waits: what does not fit any more is
//! refused with an error at which clients ask again.

use std::rc::Rc;

use kafka_wire::ErrorCode;

use super::Refusal;
use crate::answer_budget::Held;
use crate::core::Core;

/// Up to this size an answer is made whether there is room or not: clients that only want to know where to go on need not
/// wait for those that take their records too slowly.
const SMALL_BYTES: usize = 64 << 10;

/// What one answer takes while it is made. Held until the response is there; whoever writes it holds what its frame takes
/// from then on, and nothing comes between.
pub(super) struct AnswerRoom {
    core: Rc<Core>,
    held: Held,
}

impl AnswerRoom {
    /// Room for nothing yet.
    pub(super) fn new(core: &Rc<Core>) -> AnswerRoom {
        AnswerRoom {
            core: core.clone(),
            held: core.answers.hold(0),
        }
    }

    /// Has something found, and takes the room that telling it needs, which `measure` says in bytes.
    ///
    /// # Errors
    /// What `find` says, or that nothing is left beside what the answer says already.
    pub(super) async fn take<T, F>(
        &mut self,
        find: impl Fn() -> F,
        measure: impl Fn(&T) -> usize,
    ) -> Result<T, Refusal>
    where
        F: Future<Output = Result<T, Refusal>>,
    {
        let budget = &self.core.answers;
        let mut is_long = false;
        loop {
            if is_long {
                budget.room().await;
            }
            let _turn = budget.turn().await;
            if is_long && budget.is_used_up() {
                // Somebody was faster.
                continue;
            }
            let found = find().await?;
            let bytes = measure(&found);
            is_long = self.held.bytes() + bytes > SMALL_BYTES;
            if !is_long || !budget.is_used_up() {
                self.held.grow(bytes);
                return Ok(found);
            }
            if self.held.bytes() > 0 {
                return Err(no_room());
            }
        }
    }
}

fn no_room() -> Refusal {
    Refusal {
        code: ErrorCode::CoordinatorLoadInProgress,
        message: Some("this answer has no room for one more group now; ask again".to_owned()),
    }
}
