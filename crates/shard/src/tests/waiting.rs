//! Producers that wait for a batch that is committed on fewer replicas than its topic wants.

use protocol::leader::{Action, NodeId};
use protocol::{History, Leader, LeaderState, ProducerLimits};
use record::{Epoch, Offset};
use tokio::sync::oneshot;

use super::settings_of;
use crate::append::{AppendOutcome, AppendRefusal};
use crate::partition::{Partition, Waiting};
use crate::role::Role;

#[test]
fn producers_are_answered_up_to_what_is_held_and_told_why_up_to_the_tail() {
    let history = History::new(ProducerLimits::default());
    let state = LeaderState::single(NodeId(1), Epoch(0), Offset::ZERO, Offset(2), history);
    let mut partition = Partition::in_role(Role::Lone(Leader::open(state)), settings_of(&[]));
    let wait = |first: i64| {
        let (reply, answer) = oneshot::channel();
        let outcome = AppendOutcome {
            first_offset: Offset(first),
            log_start: Offset::ZERO,
            append_time_ms: None,
            position: None,
        };
        let waiting = Waiting {
            next_offset: Offset(first + 1),
            outcome,
            wanted: None,
            reply,
        };
        (waiting, answer)
    };
    let mut answers = Vec::new();
    for first in 0..3 {
        let (waiting, answer) = wait(first);
        partition.waiting_committed.push_back(waiting);
        answers.push(answer);
    }
    partition.act_on(Action::Commit {
        tail: Offset(2),
        held: Offset(1),
    });
    let told: Vec<_> = answers.iter_mut().map(oneshot::Receiver::try_recv).collect();
    assert_eq!(told[0].as_ref().map(Result::is_ok), Ok(true));
    assert_eq!(told[1], Ok(Err(AppendRefusal::TooFewHold)));
    assert_eq!(told[2], Err(oneshot::error::TryRecvError::Empty));
}
