//! A heartbeat by itself: whether it has what it must have, and what the member says now that it has come.

use std::collections::BTreeSet;
use std::time::Duration;

use super::super::Assignment;
use super::super::contract::{ConsumerHeartbeat, GroupError, MemberPresence, Name};
use super::super::records::{CurrentValue, MemberValue};

/// Checks that a heartbeat has all that its kind must have.
pub(super) fn check_shape(request: &ConsumerHeartbeat) -> Result<(), GroupError> {
    let must = |holds: bool, what| {
        if holds {
            Ok(())
        } else {
            Err(GroupError::InvalidRequest { what })
        }
    };
    match request.presence {
        MemberPresence::Joining => {
            must(
                request
                    .rebalance_timeout
                    .is_some_and(|time| time > Duration::ZERO),
                "a member that joins gives a rebalance timeout",
            )?;
            must(
                request.topics.is_some() || request.regex.is_some(),
                "a member that joins says what it wants",
            )?;
            must(
                request.owned.as_ref().is_some_and(Assignment::is_empty),
                "a member that joins has no partitions",
            )
        }
        MemberPresence::LeavingForAWhile => must(
            request.instance.is_some() && !request.member.is_empty(),
            "only a static member leaves for a while",
        ),
        MemberPresence::At(_) | MemberPresence::Leaving => {
            must(!request.member.is_empty(), "a member says who it is")
        }
    }
}

/// A member may be one epoch behind if it never got the last answer: then it has nothing that it should not have.
pub(super) fn check_member_epoch(
    current: &CurrentValue,
    request: &ConsumerHeartbeat,
) -> Result<(), GroupError> {
    let got = request.presence.epoch();
    let missed_an_answer = got == current.previous_epoch
        && got < current.epoch
        && request
            .owned
            .as_ref()
            .is_some_and(|owned| owned.is_within(&current.assigned));
    if got == current.epoch || missed_an_answer {
        return Ok(());
    }
    Err(GroupError::FencedMemberEpoch {
        current: current.epoch,
        got,
    })
}

/// Says whether the heartbeat repeats everything, as after a lost answer: then it gets everything.
pub(super) fn says_all(request: &ConsumerHeartbeat) -> bool {
    request.rebalance_timeout.is_some()
        && (request.topics.is_some() || request.regex.is_some())
        && request.owned.is_some()
}

/// Returns the member as it says it is now: what the heartbeat leaves out is as it was.
pub(super) fn merge(before: &MemberValue, request: &ConsumerHeartbeat) -> MemberValue {
    let topics = match &request.topics {
        Some(topics) => topics
            .iter()
            .cloned()
            .collect::<BTreeSet<Name>>()
            .into_iter()
            .collect(),
        None => before.topics.clone(),
    };
    let regex = match &request.regex {
        Some(regex) if regex.is_empty() => None,
        Some(regex) => Some(Name::clone(regex)),
        None => before.regex.clone(),
    };
    MemberValue {
        instance: request.instance.clone().or_else(|| before.instance.clone()),
        rack: request.rack.clone().or_else(|| before.rack.clone()),
        client_id: Name::clone(&request.client_id),
        client_host: Name::clone(&request.client_host),
        topics,
        regex,
        rebalance_timeout: request.rebalance_timeout.unwrap_or(before.rebalance_timeout),
        assignor: request.assignor.clone().or_else(|| before.assignor.clone()),
        classic: None,
    }
}

/// Says whether a member's wishes differ, so that the group must be assigned anew. Another assignor alone is no reason, as in
/// Kafka: it has its vote the next time.
pub(super) fn wishes_differ(before: &MemberValue, now: &MemberValue) -> bool {
    before.topics != now.topics || before.regex != now.regex
}
