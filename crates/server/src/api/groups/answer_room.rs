//! Room for answers that say all there is about groups: as long as what was stored, however short the request.
//!
//! Answers that may be long are asked of coordinators one at a time on a core. What a coordinator has found is not counted yet,
//! but mostly shares memory with its groups; room in the core's answer budget is taken before any of it is copied for the wire.
//! A request that finds none lets go of what was found, waits without holding any room, and asks again. An answer that has
//! begun never waits: entries that do not fit any more are refused with an error at which clients ask again.

use std::rc::Rc;

use kafka_wire::ErrorCode;
use protocol::groups::Ask;

use super::{Refusal, ask};
use crate::answer_budget::{AnswerBudget, Held};
use crate::core::Core;

/// Up to this size an answer is made whether there is room or not: clients that only want to know where to go on need not
/// wait for those that take their records too slowly.
pub(super) const SMALL_BYTES: usize = 64 << 10;

/// The length of the answer that a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    /// The answer takes little, so that it is found beside others.
    Little,
    /// Nobody knows how much is found, and one at a time finds it.
    Much,
}

/// The room of one answer while it is made. Held until the response is there; from then on the connection holds the room of its
/// frame, and nothing comes between.
pub(super) struct AnswerRoom {
    budget: Rc<AnswerBudget>,
    held: Held,
}

impl AnswerRoom {
    /// Room for nothing yet.
    pub(super) fn new(budget: &Rc<AnswerBudget>) -> AnswerRoom {
        AnswerRoom {
            budget: budget.clone(),
            held: budget.hold(0),
        }
    }

    /// Asks the coordinator of one group. Takes the room that telling the answer needs, which `measure` says in bytes.
    ///
    /// # Errors
    /// What the coordinator says, or that nothing is left beside what the answer says already.
    pub(super) async fn ask<Q: Ask + Clone>(
        &mut self,
        core: &Rc<Core>,
        asked: Asked,
        request: Q,
        measure: impl Fn(&Q::Answer) -> usize,
    ) -> Result<Q::Answer, Refusal> {
        // If it has to be made, the disk has to be waited for: in nobody's turn.
        core.groups_topic().await?;
        self.take(asked, || ask(core, request.clone()), measure).await
    }

    /// The same for whatever else is found.
    ///
    /// # Errors
    /// What `find` says, or that nothing is left beside what the answer says already.
    pub(super) async fn take<T, F>(
        &mut self,
        asked: Asked,
        find: impl Fn() -> F,
        measure: impl Fn(&T) -> usize,
    ) -> Result<T, Refusal>
    where
        F: Future<Output = Result<T, Refusal>>,
    {
        let budget = &self.budget;
        let mut is_long = false;
        loop {
            if is_long {
                budget.room().await;
            }
            let _turn = match asked == Asked::Much || is_long {
                true => Some(budget.turn().await),
                false => None,
            };
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

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::{pending, ready};

    use futures_util::FutureExt;

    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn who_asks_for_little_is_answered_while_others_look_for_much() {
        let budget = AnswerBudget::new(MIB);
        let mut much = AnswerRoom::new(&budget);
        let mut much = Box::pin(much.take(Asked::Much, pending::<Result<(), Refusal>>, |()| 0));
        assert!((&mut much).now_or_never().is_none());

        let find = || ready(Ok(7));
        let mut little = AnswerRoom::new(&budget);
        let found = little.take(Asked::Little, find, |_| 100).now_or_never();
        assert!(matches!(found, Some(Ok(7))));
        assert_eq!(budget.held_bytes(), 100);

        let mut more = AnswerRoom::new(&budget);
        let mut more = Box::pin(more.take(Asked::Much, find, |_| 100));
        assert!((&mut more).now_or_never().is_none(), "it is another one's turn");
        drop(much);
        assert!(matches!((&mut more).now_or_never(), Some(Ok(7))));
    }

    #[test]
    fn what_turns_out_to_be_long_waits_for_room_and_is_found_in_turn() {
        let budget = AnswerBudget::new(MIB);
        let all = budget.hold(MIB);
        let looked = Cell::new(0);
        let find = || {
            looked.set(looked.get() + 1);
            ready(Ok(()))
        };
        let mut room = AnswerRoom::new(&budget);
        let mut taking = Box::pin(room.take(Asked::Little, find, |()| 2 * SMALL_BYTES));
        assert!((&mut taking).now_or_never().is_none());
        let turn = budget.turn().now_or_never().expect("it is nobody's turn");
        drop(all);
        assert!((&mut taking).now_or_never().is_none());
        assert_eq!(looked.get(), 1);
        drop(turn);
        assert!(matches!((&mut taking).now_or_never(), Some(Ok(()))));
        assert_eq!((looked.get(), budget.held_bytes()), (2, 2 * SMALL_BYTES));
    }
}
