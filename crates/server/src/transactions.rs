//! Transactions: carries out what the coordinators of `protocol::transactions` decide, and decides nothing itself.
//!
//! Every partition of the transactions' topic has a coordinator, on the core that owns the partition. A request goes to the one that its
//! transactional id gives (`host`). The leaders of partitions ask it before they let a transaction open (`questions`), and it has them end one
//! (`markers`); where it is on another node, by Kafka's own requests between brokers (`peers/asking.rs`).

mod host;
mod markers;
mod questions;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use kafka_wire::ErrorCode;
use protocol::Leader;
use protocol::leader::NodeId;
use protocol::metadata::Topic;
use protocol::transactions::{
    Ask, Figures, ListTransactions, ListedTransaction, Settings, TRANSACTIONS_TOPIC, TransactionError,
};
use record::{PartitionId, TopicId};
use tokio::sync::mpsc;

use crate::core::Core;
use crate::groups::{ClosedCoordinator, partition_of};

pub(crate) use host::carry_acts;
pub(crate) use markers::EndOf;
pub(crate) use questions::carry_questions;

use host::{Acts, TransactionHost};

/// The time for which a client's request waits for the id's last transaction to be completed, which takes two flushes. Clients that are told
/// that it is not come again much later, or give up.
const COMPLETION_PATIENCE: Duration = Duration::from_millis(100);

/// The coordinators of one core, by the partition of the transactions' topic that each writes to.
pub(crate) struct Transactions {
    hosts: RefCell<BTreeMap<i32, Rc<TransactionHost>>>,
    /// The counts of those that are not here any more.
    past: Cell<Figures>,
    /// The acts that coordinators want done elsewhere; the other end is taken once, by whoever does it.
    acts: mpsc::UnboundedSender<Acts>,
    to_do: RefCell<Option<mpsc::UnboundedReceiver<Acts>>>,
}

impl Default for Transactions {
    fn default() -> Transactions {
        let (acts, to_do) = mpsc::unbounded_channel();
        Transactions {
            hosts: RefCell::default(),
            past: Cell::default(),
            acts,
            to_do: RefCell::new(Some(to_do)),
        }
    }
}

impl Transactions {
    /// Tells nobody anything any more: whoever waits is sent to look for another coordinator.
    pub(crate) fn close(&self) {
        for host in self.hosts.borrow().values() {
            host.close();
        }
    }

    /// The coordinators that have failed, in order of their partitions.
    pub(crate) fn closed_coordinators(&self) -> Vec<ClosedCoordinator> {
        let hosts = self.hosts.borrow();
        let closed = hosts.iter().filter_map(|(partition, host)| {
            host.failure().map(|reason| ClosedCoordinator {
                topic: TRANSACTIONS_TOPIC,
                partition: *partition,
                reason,
            })
        });
        closed.collect()
    }

    /// The figures of all coordinators together, and the counts of those that were here.
    pub(crate) fn figures(&self) -> Figures {
        let hosts = self.hosts.borrow();
        let here = hosts.values().map(|host| host.figures());
        here.fold(self.past.get(), Figures::and)
    }

    /// A coordinator is not here any more. Its counts stay.
    fn leave(&self, host: &TransactionHost) {
        host.close();
        self.past.set(self.past.get().and(host.figures()));
    }

    fn host(&self, partition: i32) -> Option<Rc<TransactionHost>> {
        self.hosts.borrow().get(&partition).cloned()
    }
}

impl Core {
    /// Has the coordinator of the request's transactional id answer it, which is to be on this node. While the id's last transaction is
    /// being completed, a client's request waits a little.
    ///
    /// # Errors
    /// It is not here, or cannot be had now: the client looks for it again. Or what it says.
    pub(crate) async fn ask_transactions<A: Ask>(
        self: &Rc<Self>,
        request: A,
    ) -> Result<Result<A::Answer, TransactionError>, ErrorCode> {
        self.ask_transactions_for(COMPLETION_PATIENCE, request).await
    }

    /// The same, for so long while the last transaction is being completed.
    pub(crate) async fn ask_transactions_for<A: Ask>(
        self: &Rc<Self>,
        patience: Duration,
        request: A,
    ) -> Result<Result<A::Answer, TransactionError>, ErrorCode> {
        let request = request.into();
        let id = request.transactional_id();
        let id = id.expect("requests about all ids go to all coordinators");
        // None was ever asked for where there is no topic.
        let (topic, count) = self.transactions_topic().ok_or(ErrorCode::NotCoordinator)?;
        let index = partition_of(id, count);
        let answer = self.ask_transactions_of(PartitionId { topic, index }, patience, request);
        Ok(A::take(answer.await?).expect("an answer is of its request's kind"))
    }

    /// The same of one partition's coordinator.
    pub(crate) async fn ask_transactions_of(
        self: &Rc<Self>,
        partition: PartitionId,
        patience: Duration,
        request: protocol::transactions::Request,
    ) -> Result<protocol::transactions::Answer, ErrorCode> {
        if self.leader_of(partition) != Some(self.facts.node) {
            return Err(ErrorCode::NotCoordinator);
        }
        let ask = move |core: Rc<Core>| async move {
            // Another node may coordinate by now.
            let shard = core.shard(core.facts.shard_of(partition));
            shard.until_lease(partition).await.ok()?;
            let host = core.transactions.host(partition.index)?;
            host.ask_for(patience, request).await
        };
        let owner = self.facts.owner_of(partition);
        let answer = match owner == self.index {
            true => ask(self.clone()).await,
            false => self.facts.mailboxes.call(owner, ask).await.unwrap_or(None),
        };
        answer.ok_or(ErrorCode::CoordinatorNotAvailable)
    }

    /// The transactional ids of all coordinators that are here: who wants all asks every node for its own.
    ///
    /// # Errors
    /// A coordinator cannot be had now, or what it says.
    pub(crate) async fn list_transactions(
        self: &Rc<Self>,
        filter: &ListTransactions,
    ) -> Result<Result<Vec<ListedTransaction>, TransactionError>, ErrorCode> {
        let mut listed = Vec::new();
        let Some((topic, count)) = self.transactions_topic() else {
            return Ok(Ok(listed));
        };
        for index in 0..count {
            let partition = PartitionId { topic, index };
            if self.leader_of(partition) != Some(self.facts.node) {
                continue;
            }
            let answer = self
                .ask_transactions_of(partition, COMPLETION_PATIENCE, filter.clone().into())
                .await?;
            match ListTransactions::take(answer).expect("an answer is of its request's kind") {
                Ok(of_one) => listed.extend(of_one),
                Err(error) => return Ok(Err(error)),
            }
        }
        Ok(Ok(listed))
    }

    /// The node that coordinates a transactional id, and its partition of the transactions' topic, once that is there.
    pub(crate) fn transaction_coordinator_of(&self, id: &str) -> Option<(NodeId, PartitionId)> {
        let (topic, count) = self.transactions_topic()?;
        let index = partition_of(id, count);
        let partition = PartitionId { topic, index };
        Some((self.leader_of(partition)?, partition))
    }

    /// The transactions' topic, with its number of partitions.
    pub(crate) fn transactions_topic(&self) -> Option<(TopicId, i32)> {
        self.with_metadata(|metadata| {
            let topic = metadata.topic_named(TRANSACTIONS_TOPIC)?;
            Some((topic.id, topic.partition_count()))
        })
    }

    /// Opens the coordinators of the topic's partitions that are here and have none yet, and closes those whose epoch is over.
    pub(crate) fn open_transaction_coordinators(&self) {
        self.with_metadata(|metadata| {
            if let Some(topic) = metadata.topic_named(TRANSACTIONS_TOPIC) {
                self.open_coordinators_of(topic);
            }
        });
    }

    fn open_coordinators_of(&self, topic: &Topic) {
        let own = self.own_partitions(topic, 0);
        let mut hosts = self.transactions.hosts.borrow_mut();
        hosts.retain(|index, host| {
            let stays = own.iter().any(|id| id.index == *index);
            if !stays {
                self.transactions.leave(host);
            }
            stays
        });
        for partition in own {
            let shard = self.shard(self.facts.shard_of(partition));
            let led = shard.with_leader(partition, Leader::epoch).ok();
            let is_shared = topic.is_shared(partition.index);
            let known = hosts.get(&partition.index);
            // The only replica goes on with its coordinator, whatever its epoch.
            let is_over = |host: &Rc<TransactionHost>| is_shared && led != Some(host.epoch());
            if let Some(host) = known.filter(|host| is_over(host)) {
                self.transactions.leave(host);
                hosts.remove(&partition.index);
            }
            if let Some(epoch) = led {
                hosts.entry(partition.index).or_insert_with(|| {
                    let acts = self.transactions.acts.clone();
                    TransactionHost::open(
                        (partition, epoch, is_shared),
                        shard.clone(),
                        self.transaction_settings(),
                        acts,
                    )
                });
            }
        }
    }

    fn transaction_settings(&self) -> Settings {
        Settings::default()
    }
}
