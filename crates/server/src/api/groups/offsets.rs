//! OffsetCommit, OffsetFetch and OffsetDelete: where groups are.
//!
//! Names and ids of topics are found here, in the metadata; coordinators know topics by name.

mod commit;
mod delete;
mod fetch;

use protocol::groups::PartitionOutcome;

use super::Refusal;
use crate::error_codes::group_code;

pub(in crate::api) use commit::offset_commit;
pub(in crate::api) use delete::offset_delete;
pub(in crate::api) use fetch::{fetched_bytes, offset_fetch};

/// From these versions on: topics by id, members with epochs.
const FIRST_WITH_TOPIC_IDS: i16 = 10;
const FIRST_WITH_MEMBER_EPOCHS: i16 = 9;

/// The outcomes of partitions, in the order asked; or one refusal for all of them.
struct Outcomes {
    each: std::vec::IntoIter<PartitionOutcome>,
    all: Option<i16>,
}

impl Outcomes {
    fn new(outcomes: Result<Vec<PartitionOutcome>, Refusal>) -> Outcomes {
        let (each, all) = match outcomes {
            Ok(each) => (each, None),
            Err(refusal) => (Vec::new(), Some(refusal.code.code())),
        };
        Outcomes {
            each: each.into_iter(),
            all,
        }
    }

    fn next_code(&mut self) -> i16 {
        let next = || {
            let outcome = self
                .each
                .next()
                .expect("one outcome for each partition asked")
                .outcome;
            outcome.err().map_or(0, |error| group_code(&error).code())
        };
        self.all.unwrap_or_else(next)
    }
}
