//! Shared by the APIs that change topics: plans that keep within the cluster's limits together, and answers that say what
//! to do.

use std::collections::BTreeMap;
use std::time::Duration;

use kafka_wire::{ErrorCode, Text};
use platform::slices::Slices;
use protocol::metadata::{Command, Metadata, PlanError, Plans, ReplicaSet, check_new_name, is_internal};
use protocol::{ApplyError, NodeId};

use crate::budget::SharedRoom;
use crate::caller::Caller;
use crate::controller::ChangeError;
use crate::core::Core;
use crate::error_codes::change_code;
use crate::long::beside;

/// Wishes about topics that are planned in one turn of a core.
pub(super) const WISHES_IN_ONE_TURN: usize = 1_000;
/// Plans that are rehearsed before others have their turn; so many partitions count like one more of them.
const PLANS_IN_ONE_TURN: usize = 1_000;
const PARTITIONS_OF_A_PLAN: usize = 10;

/// Why something was not done, for one topic or all of a request: a code for the client, a sentence for its user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) code: ErrorCode,
    pub(super) message: String,
}

impl Refusal {
    pub(super) fn new(code: ErrorCode, message: impl Into<String>) -> Refusal {
        Refusal {
            code,
            message: message.into(),
        }
    }

    /// Of what a request names twice, nothing is done to either.
    pub(super) fn named_twice() -> Refusal {
        Refusal::new(ErrorCode::InvalidRequest, "Duplicate topic name.")
    }

    /// There is no topic of this name.
    pub(super) fn unknown_topic(name: &str) -> Refusal {
        let message = format!("The topic '{name}' does not exist.");
        Refusal::new(ErrorCode::UnknownTopicOrPartition, message)
    }

    /// The message as responses carry it.
    pub(super) fn text(&self) -> Option<Text> {
        Some(Text::from(self.message.as_str()))
    }
}

impl From<ChangeError> for Refusal {
    fn from(error: ChangeError) -> Refusal {
        Refusal {
            code: change_code(&error),
            message: error.to_string(),
        }
    }
}

impl From<PlanError> for Refusal {
    fn from(error: PlanError) -> Refusal {
        ChangeError::from(error).into()
    }
}

impl From<ApplyError> for Refusal {
    fn from(error: ApplyError) -> Refusal {
        PlanError::from(error).into()
    }
}

/// The outcome of each plan; the outer refusal concerns all.
pub(super) type Made = Result<Vec<Result<(), Refusal>>, Refusal>;

/// Makes a change and waits for it as long as the client does. It is made to its end even if the client goes: so long it shares the
/// request's `room`.
pub(super) async fn change<W: Send + 'static>(
    core: &Core,
    caller: &Caller,
    room: SharedRoom,
    patience: Duration,
    wanted: Vec<W>,
    plan: impl FnMut(&Metadata, W, &mut Plans) -> Result<Command, PlanError> + Send + 'static,
) -> Made {
    let count = wanted.len();
    let change = core.change_all(Some(caller.address()), room.clone(), wanted, plan);
    let Ok(changed) = tokio::time::timeout(patience, change).await else {
        let message = "not committed within the request's timeout; it may still be: look before trying again";
        return Err(Refusal::new(ErrorCode::RequestTimedOut, message));
    };
    let changed = changed.map_err(ChangeError::from)?;
    let told = move || {
        let made = changed.into_iter().map(|one| one.map_err(Refusal::from));
        (made.collect(), room)
    };
    let (made, _room) = beside(core, count, told).await;
    Ok(made)
}

/// Says what would become of a change, and makes none (`validate_only`).
pub(super) async fn rehearse<W>(
    core: &Core,
    caller: &Caller,
    wanted: Vec<W>,
    mut plan: impl FnMut(&Metadata, W, &mut Plans) -> Result<Command, PlanError>,
) -> Made {
    let mut plans = Plans::of(core.facts.config.plan_limits(), Some(caller.address()));
    let mut slices = Slices::of(PLANS_IN_ONE_TURN);
    let mut made = Vec::with_capacity(wanted.len());
    for wanted in wanted {
        let planned = core.with_metadata(|metadata| plan(metadata, wanted, &mut plans));
        let partitions = planned.as_ref().map_or(0, Command::new_partition_count);
        made.push(planned.map(drop).map_err(Refusal::from));
        slices.did(1 + partitions / PARTITIONS_OF_A_PLAN).await;
    }
    Ok(made)
}

/// Puts what became of the plans in the places of the wishes that were planned, in order.
pub(super) fn conclude<'a, T: 'a>(wishes: impl IntoIterator<Item = &'a mut Result<T, Refusal>>, made: Made) {
    let mut made = made.map(Vec::into_iter);
    for wish in wishes.into_iter().filter(|wish| wish.is_ok()) {
        let refused = match &mut made {
            Ok(made) => made.next().expect("every plan has an outcome").err(),
            Err(refusal) => Some(refusal.clone()),
        };
        if let Some(refusal) = refused {
            *wish = Err(refusal);
        }
    }
}

/// The wishes of a request, in the order of first appearances; `true` with those that it names only once. A topic that is named
/// twice is answered once: which of the two is meant is for the client to say.
pub(super) async fn each_once<T, K: Ord>(wanted: Vec<T>, key: impl Fn(&T) -> K) -> Vec<(T, bool)> {
    let mut slices = Slices::of(WISHES_IN_ONE_TURN);
    let mut times: BTreeMap<K, usize> = BTreeMap::new();
    for one in &wanted {
        *times.entry(key(one)).or_default() += 1;
        slices.did(1).await;
    }
    let mut each = Vec::with_capacity(times.len());
    for one in wanted {
        if let Some(times) = times.remove(&key(&one)) {
            each.push((one, times == 1));
        }
        slices.did(1).await;
    }
    each
}

/// A request's timeout.
pub(super) fn patience(timeout_ms: i32) -> Duration {
    Duration::from_millis(timeout_ms.max(0) as u64)
}

/// Checks that a topic is not one that the node keeps for itself: clients may read those, and change nothing about them.
pub(super) fn check_not_internal(name: &str) -> Result<(), Refusal> {
    match is_internal(name) {
        false => Ok(()),
        true => {
            let refused = check_new_name(name).expect_err("nobody makes one of the node's own");
            Err(ApplyError::from(refused).into())
        }
    }
}

/// Checks the brokers that a client chose for one partition. `replica_count` is that of the partitions before it, if it has to be the same.
pub(super) fn check_replicas(
    metadata: &Metadata,
    brokers: &[i32],
    replica_count: Option<usize>,
) -> Result<(), Refusal> {
    let refused = |message: String| Err(Refusal::new(ErrorCode::InvalidReplicaAssignment, message));
    if brokers.is_empty() {
        return refused("The manual partition assignment includes an empty replica list.".into());
    }
    for (place, broker) in brokers.iter().enumerate() {
        if metadata.node(NodeId(*broker)).is_none() {
            return refused(format!(
                "The manual partition assignment includes broker {broker}, but no such broker is registered."
            ));
        }
        if brokers[..place].contains(broker) {
            return refused(format!(
                "The manual partition assignment includes the broker {broker} more than once."
            ));
        }
    }
    match replica_count {
        Some(replica_count) if replica_count != brokers.len() => refused(format!(
            "The manual partition assignment includes a partition with {} replica(s), but this is not consistent with previous \
             partitions, which have {replica_count} replica(s).",
            brokers.len()
        )),
        _ => Ok(()),
    }
}

/// Checks how many partitions there would be with those that a client has chosen replicas for, before anything is made of these.
pub(super) fn check_chosen_count(min: i32, got: usize, max: i32) -> Result<(), Refusal> {
    let got = i32::try_from(got).unwrap_or(i32::MAX);
    match got > max {
        true => Err(PlanError::PartitionCount { min, max, got }.into()),
        false => Ok(()),
    }
}

pub(super) fn replica_set(brokers: &[i32]) -> ReplicaSet {
    brokers.iter().copied().map(NodeId).collect()
}
