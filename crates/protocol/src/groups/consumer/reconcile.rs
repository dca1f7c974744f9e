//! One member's way from what it has to what it is to have (KIP-848, server-side reconciliation).
//!
//! First it gives up what is not its own any more, then it gets what nobody else has. It must never get a partition
//! that another member has or may still have.
//!
//! ```text
//!             must give up                  has given up, or had nothing to
//!   Stable ───────────────► Unrevoked ───────────────────────┐
//!     │                                                      ▼
//!     └──────────────────────────────────────► others have it? Unreleased : Stable
//! ```

use record::PartitionId;

use super::super::Assignment;
use super::super::records::{CurrentValue, Progress};

/// Takes a member as far towards its target as is safe now. `owned` is what it says that it has; `is_free` says whether
/// nobody else has a partition.
pub(super) fn reconcile(
    current: &CurrentValue,
    target: &Assignment,
    target_epoch: i32,
    owned: Option<&Assignment>,
    is_free: impl Fn(PartitionId) -> bool,
) -> CurrentValue {
    match current.progress {
        Progress::Stable if current.epoch == target_epoch => return current.clone(),
        Progress::Unrevoked if !has_let_go(owned, &current.revoking) => return current.clone(),
        Progress::Stable | Progress::Unrevoked | Progress::Unreleased => {}
    }
    let keeps = current.assigned.and(target);
    let gives_up = current.assigned.without(&keeps);
    if !gives_up.is_empty() && !has_let_go(owned, &gives_up) {
        return CurrentValue {
            progress: Progress::Unrevoked,
            assigned: keeps,
            revoking: gives_up,
            ..*current
        };
    }
    let mut assigned = keeps;
    let mut progress = Progress::Stable;
    for partition in target.iter() {
        if is_free(partition) {
            assigned.insert(partition);
        } else {
            progress = Progress::Unreleased;
        }
    }
    CurrentValue {
        epoch: target_epoch,
        // The one it may still be at, if the answer with the new one is lost.
        previous_epoch: if current.epoch == target_epoch {
            current.previous_epoch
        } else {
            current.epoch
        },
        progress,
        assigned,
        revoking: Assignment::default(),
    }
}

/// A member that does not say what it has may have anything.
fn has_let_go(owned: Option<&Assignment>, partitions: &Assignment) -> bool {
    owned.is_some_and(|owned| owned.is_apart_from(partitions))
}
