//! Producer ids for idempotent producers, handed out from blocks that the metadata reserves.
//!
//! A block belongs to one core; what is left of it at a stop is never used again. No id is handed out twice.

use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;

use protocol::metadata::{Command, Metadata};

use crate::controller::ChangeError;
use crate::core::Core;

/// The rest of this core's block.
#[derive(Default)]
pub(crate) struct ProducerIds {
    block: Cell<Range<i64>>,
}

impl Core {
    /// The next producer id.
    ///
    /// # Errors
    /// The metadata could not be changed.
    pub(crate) async fn next_producer_id(self: &Rc<Self>) -> Result<i64, ChangeError> {
        loop {
            let mut block = self.producer_ids.block.take();
            let next = block.next();
            self.producer_ids.block.set(block);
            if let Some(id) = next {
                return Ok(id);
            }
            let changed = self.change(Metadata::plan_producer_ids).await?;
            if let Command::AllocateProducerIds { first, next } = changed? {
                self.producer_ids.block.set(first.0..next.0);
            }
        }
    }
}
