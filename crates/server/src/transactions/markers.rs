//! Markers: the ends of transactions on their way from the coordinator to the leaders of partitions, and to the groups whose offsets they
//! end. The word on one is true of what is committed; whatever is not known is tried again.

use std::rc::Rc;
use std::time::Duration;

use kafka_wire::write_txn_markers::{WritableTxnMarker, WritableTxnMarkerTopic};
use kafka_wire::{ErrorCode, Text, WriteTxnMarkersRequest, WriteTxnMarkersResponse};
use protocol::groups::{Answer, EndTransaction, GROUPS_TOPIC};
use protocol::leader::{AppendError, EndMarker, NodeId, TransactionError};
use protocol::transactions::{Marked, WriteMarker};
use protocol::{Durability, Leader, ProducerId, SequenceError};
use record::PartitionId;
use shard::{AppendRefusal, AppendRequest, Shard};
use tokio::time::{sleep, timeout};

use crate::core::Core;
use crate::error_codes::{append_code, group_code};

/// The version in which nodes send each other markers: the first that tells the transaction's own.
const VERSION: i16 = 2;
/// The time for which a marker's outcome is waited for. It may come to be written all the same: it is sent again then, without harm.
const PATIENCE: Duration = Duration::from_secs(30);

/// Before a node is asked again that does not answer.
const NETWORK_REST: Duration = Duration::from_secs(1);

/// The end of a producer's transaction, wherever it is to be written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EndOf {
    pub(crate) producer: ProducerId,
    pub(crate) producer_epoch: i16,
    pub(crate) coordinator_epoch: i32,
    pub(crate) commit: bool,
    /// The version of transactions by which it ended.
    pub(crate) version: u8,
}

impl From<&WriteMarker> for EndOf {
    fn from(marker: &WriteMarker) -> EndOf {
        EndOf {
            producer: marker.producer,
            producer_epoch: marker.producer_epoch,
            coordinator_epoch: marker.coordinator_epoch,
            commit: marker.commit,
            version: marker.version,
        }
    }
}

/// Transactions end by markers of their own epoch from this version on (KIP-890).
const FIRST_WITH_OWN_EPOCH: u8 = 2;

impl Core {
    /// Has a marker written where its partition is led.
    pub(super) async fn write_marker(self: &Rc<Self>, marker: &WriteMarker) -> Marked {
        let end = EndOf::from(marker);
        let place = &marker.partition;
        let Some((partition, leader)) = self.find_led(&place.topic, place.index) else {
            return Marked::PartitionGone;
        };
        let code = match leader == self.facts.node {
            true => self.end_here(partition, end).await,
            false => self.end_there(leader, marker).await,
        };
        match code {
            ErrorCode::None => Marked::Done,
            ErrorCode::TransactionCoordinatorFenced | ErrorCode::InvalidProducerEpoch => Marked::Fenced,
            code => {
                tracing::debug!(topic = %place.topic, index = place.index, ?code, "a transaction could not be ended yet");
                if code == ErrorCode::NetworkException {
                    sleep(NETWORK_REST).await;
                }
                Marked::Retry
            }
        }
    }

    /// A partition by its topic's name, and who leads it.
    fn find_led(&self, topic: &str, index: i32) -> Option<(PartitionId, NodeId)> {
        self.with_metadata(|metadata| {
            let topic = metadata.topic_named(topic)?;
            let partition = PartitionId {
                topic: topic.id,
                index,
            };
            Some((partition, metadata.partition(partition)?.leader))
        })
    }

    /// Ends a producer's transaction in a partition that this node leads.
    pub(crate) async fn end_here(self: &Rc<Self>, partition: PartitionId, end: EndOf) -> ErrorCode {
        let is_of_groups = self.with_metadata(|metadata| {
            let topic = metadata.topic(partition.topic);
            topic.is_some_and(|topic| &*topic.name == GROUPS_TOPIC)
        });
        match is_of_groups {
            true => self.end_offsets(partition, end).await,
            false => self.end_records(partition, end).await,
        }
    }

    async fn end_records(self: &Rc<Self>, partition: PartitionId, end: EndOf) -> ErrorCode {
        let marker = EndMarker {
            producer: end.producer,
            epoch: end.producer_epoch,
            coordinator_epoch: end.coordinator_epoch,
            commit: end.commit,
            has_own_epoch: end.version >= FIRST_WITH_OWN_EPOCH,
            timestamp_ms: self.facts.clock.wall_ms(),
        };
        let shard = self.facts.shard_of(partition);
        let end = move |core: Rc<Core>| async move {
            let shard = core.shard(shard).clone();
            let (request, answer) = AppendRequest::ending(partition, marker);
            shard.end_transaction(request);
            match answer.await {
                Ok(Ok(_)) => durable(&shard, partition).await,
                Ok(Err(refusal)) => ended_code(&refusal),
                Err(_) => ErrorCode::NotLeaderOrFollower,
            }
        };
        let ended = self.facts.mailboxes.call(self.facts.core_of(shard), end);
        match timeout(PATIENCE, ended).await {
            Ok(Ok(code)) => code,
            Ok(Err(_)) => ErrorCode::NotLeaderOrFollower,
            Err(_) => ErrorCode::RequestTimedOut,
        }
    }

    async fn end_offsets(self: &Rc<Self>, partition: PartitionId, end: EndOf) -> ErrorCode {
        let end = EndTransaction {
            producer: end.producer,
            producer_epoch: end.producer_epoch,
            coordinator_epoch: end.coordinator_epoch,
            version: end.version.into(),
            commit: end.commit,
        };
        let asked = self.ask_partition(partition.topic, partition.index, end.into(), None);
        match timeout(PATIENCE, asked).await {
            Ok(Ok(Answer::EndTransaction(Ok(())))) => ErrorCode::None,
            Ok(Ok(Answer::EndTransaction(Err(error)))) => group_code(&error),
            Ok(Ok(_)) => unreachable!("an answer is of its request's kind"),
            Ok(Err(code)) => code,
            Err(_) => ErrorCode::RequestTimedOut,
        }
    }

    /// Has another node end it.
    async fn end_there(self: &Rc<Self>, leader: NodeId, marker: &WriteMarker) -> ErrorCode {
        let request = WriteTxnMarkersRequest {
            markers: vec![WritableTxnMarker {
                producer_id: marker.producer.0,
                producer_epoch: marker.producer_epoch,
                transaction_result: marker.commit,
                coordinator_epoch: marker.coordinator_epoch,
                transaction_version: i8::try_from(marker.version).unwrap_or(i8::MAX),
                topics: vec![WritableTxnMarkerTopic {
                    name: Text::from(&*marker.partition.topic),
                    partition_indexes: vec![marker.partition.index],
                }],
            }],
        };
        let told: Option<WriteTxnMarkersResponse> = self.ask_node(leader, request, VERSION).await;
        let code = told.and_then(|told| {
            let topic = told.markers.into_iter().next()?.topics.into_iter().next()?;
            let code = topic.partitions.first()?.error_code;
            ErrorCode::from_code(code)
        });
        code.unwrap_or(ErrorCode::NetworkException)
    }
}

/// Waits until a marker is on the disk, where its topic is answered before that: a power cut that takes it would leave the transaction open,
/// and its coordinator would know of no more to do.
async fn durable(shard: &Rc<Shard>, partition: PartitionId) -> ErrorCode {
    match shard.with_leader(partition, Leader::durability) {
        Ok(Durability::Flushed) => ErrorCode::None,
        Ok(Durability::Memory) => match shard.until_staged_is_durable().await {
            Ok(()) => ErrorCode::None,
            Err(refusal) => append_code(&refusal),
        },
        Err(_) => ErrorCode::NotLeaderOrFollower,
    }
}

/// The code for a marker that was not written.
fn ended_code(refusal: &AppendRefusal) -> ErrorCode {
    match refusal {
        AppendRefusal::Leader(AppendError::Transaction(TransactionError::LateMarker { .. }))
        | AppendRefusal::Leader(AppendError::Sequence(SequenceError::StaleEpoch { .. })) => {
            ErrorCode::InvalidProducerEpoch
        }
        refusal => append_code(refusal),
    }
}
