//! What the APIs that change topics share: new identities, plans that keep within the cluster's limits together, and
//! answers that say what to do.

use std::time::Duration;

use kafka_wire::{ErrorCode, Text};
use platform::random::random_bytes;
use protocol::metadata::{Command, Metadata, NewTopic, PlanError, PlanLimits, check_topic_name};
use protocol::{ApplyError, NodeId};
use record::TopicId;

use crate::config::Config;
use crate::controller::ChangeError;
use crate::core::Core;
use crate::error_codes::change_code;
use crate::groups::is_internal;

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

/// What became of each plan; the outer refusal concerns all.
pub(super) type Made = Result<Vec<Result<(), Refusal>>, Refusal>;

/// Makes a change and waits for it as long as the client does.
pub(super) async fn change(
    core: &Core,
    patience: Duration,
    plan: impl FnOnce(&Metadata) -> Vec<Result<Command, PlanError>> + Send + 'static,
) -> Made {
    let Ok(changed) = tokio::time::timeout(patience, core.change(plan)).await else {
        let message = "not committed within the request's timeout; it may still be: look before trying again";
        return Err(Refusal::new(ErrorCode::RequestTimedOut, message));
    };
    let changed = changed.map_err(ChangeError::from)?;
    Ok(changed
        .into_iter()
        .map(|one| one.map(drop).map_err(Refusal::from))
        .collect())
}

/// Says what would become of a change, and makes none (`validate_only`).
pub(super) fn rehearse(core: &Core, plan: impl FnOnce(&Metadata) -> Vec<Result<Command, PlanError>>) -> Made {
    let planned = core.with_metadata(plan);
    Ok(planned
        .into_iter()
        .map(|one| one.map(drop).map_err(Refusal::from))
        .collect())
}

/// Puts what became of the plans in the places of the wishes that were planned, in order.
pub(super) fn conclude<T>(wishes: &mut [Result<T, Refusal>], made: Made) {
    let mut made = made.map(Vec::into_iter);
    for wish in wishes.iter_mut().filter(|wish| wish.is_ok()) {
        let refused = match &mut made {
            Ok(made) => made.next().expect("every plan has an outcome").err(),
            Err(refusal) => Some(refusal.clone()),
        };
        if let Some(refusal) = refused {
            *wish = Err(refusal);
        }
    }
}

/// A request's timeout.
pub(super) fn patience(timeout_ms: i32) -> Duration {
    Duration::from_millis(timeout_ms.max(0) as u64)
}

/// A topic's identity as Kafka makes them: a random UUID (RFC 9562, version 4), which none of the reserved ones is, and
/// whose Base64 form no tool takes for an option.
pub(crate) fn fresh_topic_id() -> TopicId {
    loop {
        let mut bytes = random_bytes::<16>();
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        // Six bits make a Base64 character; 62 is the minus sign.
        if bytes[0] >> 2 != 62 {
            return TopicId(bytes);
        }
    }
}

/// Plans the topics of one request. All plans are made on the same image, so what the earlier ones will add is counted
/// here: together they keep within the limits, too.
#[derive(Debug, Clone, Copy)]
pub(super) struct Planner {
    limits: PlanLimits,
    added: usize,
}

impl Planner {
    pub(super) fn new(config: &Config) -> Planner {
        let limits = PlanLimits {
            partitions_max: config.limits.partitions,
            ..PlanLimits::default()
        };
        Planner { limits, added: 0 }
    }

    /// Plans a new topic.
    pub(super) fn topic(&mut self, metadata: &Metadata, wanted: &NewTopic) -> Result<Command, PlanError> {
        self.count(|limits| metadata.plan_topic(wanted, limits))
    }

    /// Plans that a topic has `count` partitions.
    pub(super) fn partitions(
        &mut self,
        metadata: &Metadata,
        id: TopicId,
        count: i32,
    ) -> Result<Command, PlanError> {
        self.count(|limits| metadata.plan_partitions(id, count, limits))
    }

    fn count(
        &mut self,
        plan: impl FnOnce(&PlanLimits) -> Result<Command, PlanError>,
    ) -> Result<Command, PlanError> {
        let partitions_max = self.limits.partitions_max.saturating_sub(self.added);
        let planned = plan(&PlanLimits {
            partitions_max,
            ..self.limits
        })
        .map_err(|error| match error {
            PlanError::ClusterFull { wanted, .. } => PlanError::ClusterFull {
                max: self.limits.partitions_max,
                wanted: wanted + self.added,
            },
            error => error,
        })?;
        if let Command::CreateTopic { partitions, .. } | Command::CreatePartitions { partitions, .. } =
            &planned
        {
            self.added += partitions.len();
        }
        Ok(planned)
    }
}

/// The name of Kafka's own metadata topic: tools would take a topic of this name for it.
pub(super) const METADATA_NAME: &str = "__cluster_metadata";

/// Checks that a new topic may have this name.
pub(super) fn check_name(name: &str) -> Result<(), Refusal> {
    check_topic_name(name).map_err(ApplyError::from)?;
    check_not_internal(name)?;
    match name == METADATA_NAME {
        false => Ok(()),
        true => {
            let message = format!("{METADATA_NAME} is reserved; choose another name");
            Err(Refusal::new(ErrorCode::InvalidTopicException, message))
        }
    }
}

/// Checks that a topic is not one that the node keeps for itself: clients may read those, and change nothing about them.
pub(super) fn check_not_internal(name: &str) -> Result<(), Refusal> {
    match is_internal(name) {
        false => Ok(()),
        true => {
            let message = format!("{name} is kept by the node itself, which makes it when it is needed");
            Err(Refusal::new(ErrorCode::InvalidTopicException, message))
        }
    }
}

/// Checks the brokers that a client chose for one partition. `replica_count` is that of the partitions before it.
pub(super) fn check_replicas(
    metadata: &Metadata,
    brokers: &[i32],
    replica_count: usize,
) -> Result<(), Refusal> {
    let refused = |message: String| Err(Refusal::new(ErrorCode::InvalidReplicaAssignment, message));
    if brokers.is_empty() {
        return refused("an assigned partition needs at least one broker".into());
    }
    for (place, broker) in brokers.iter().enumerate() {
        if metadata.node(NodeId(*broker)).is_none() {
            return refused(format!(
                "broker {broker} is assigned a partition, but there is no such broker"
            ));
        }
        if brokers[..place].contains(broker) {
            return refused(format!("broker {broker} is assigned the same partition twice"));
        }
    }
    match brokers.len() == replica_count {
        true => Ok(()),
        false => refused(format!(
            "a partition is assigned {} brokers, another one {replica_count}; all need as many",
            brokers.len()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_are_random_uuids_that_tools_can_print() {
        for _ in 0..1000 {
            let id = fresh_topic_id();
            assert_eq!((id.0[6] >> 4, id.0[8] >> 6), (4, 2), "{id}");
            assert_ne!(id.0[0] >> 2, 62, "{id}");
        }
        assert_ne!(fresh_topic_id(), fresh_topic_id());
    }
}
