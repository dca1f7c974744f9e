//! Producer ids for idempotent producers, handed out from blocks that the metadata reserves.
//!
//! A block belongs to one core; what is left of it at a stop is never used again. No id is handed out twice.

use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;

use protocol::ApplyError;
use protocol::metadata::{Command, Metadata, PlanError};

use crate::controller::ChangeError;
use crate::core::Core;

/// The rest of this core's block.
#[derive(Default)]
pub(crate) struct ProducerIds {
    block: Cell<Range<i64>>,
}

/// A block that another node was quicker to take is planned again so often.
const ATTEMPTS: u32 = 20;

/// Says whether another node has taken the block.
fn was_taken(error: &ChangeError) -> bool {
    matches!(
        error,
        ChangeError::Plan(PlanError::Refused(ApplyError::ProducerIdsTaken { .. }))
    )
}

impl Core {
    /// The next producer id.
    ///
    /// # Errors
    /// The metadata could not be changed.
    pub(crate) async fn next_producer_id(self: &Rc<Self>) -> Result<i64, ChangeError> {
        let mut attempts = ATTEMPTS;
        loop {
            let mut block = self.producer_ids.block.take();
            let next = block.next();
            self.producer_ids.block.set(block);
            if let Some(id) = next {
                return Ok(id);
            }
            match self.change(Metadata::plan_producer_ids).await? {
                Ok(Command::AllocateProducerIds { first, next }) => {
                    self.producer_ids.block.set(first.0..next.0)
                }
                Ok(_) => unreachable!("ids were planned"),
                Err(error) if was_taken(&error) && attempts > 1 => attempts -= 1,
                Err(error) => return Err(error),
            }
        }
    }
}
