//! A producer with a transactional id: it begins, appends, and commits or aborts, and tries again what may be tried again. Now and then it dies in the
//! middle and begins anew, or goes silent for longer than its transaction may stay open.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::Duration;

use bytes::Bytes;
use kafka_wire::add_partitions_to_txn::AddPartitionsToTxnTopic;
use kafka_wire::produce::{PartitionProduceData, TopicProduceData};
use kafka_wire::{
    AddPartitionsToTxnRequest, ApiKey, EndTxnRequest, ErrorCode, FindCoordinatorRequest,
    InitProducerIdRequest, ProduceRequest, Text,
};
use platform::random::SeededRandom;
use record::{BatchBuilder, Compression};
use tokio::time::sleep;

use super::ledger::{Fate, Value};
use super::straggler::{Straggler, Stragglers};
use super::{Bank, Caller, IDS, PARTITIONS, TOPIC};

/// Coordinators of transactions, among those that FindCoordinator finds.
const OF_TRANSACTIONS: i8 = 1;
const FIND_COORDINATOR: i16 = 4;
const INIT_PRODUCER_ID: i16 = 4;
/// Of the first version of transactions, in which producers add partitions.
const ADD_PARTITIONS: i16 = 3;
const FIRST: Versions = Versions { produce: 9, end: 3 };
/// Of the second, in which leaders add them, and each transaction has its own epoch.
const SECOND: Versions = Versions { produce: 12, end: 5 };
/// A request is tried so often before its producer gives up its transaction.
const TRIES_MAX: usize = 60;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Versions {
    produce: i16,
    end: i16,
}

/// The identity that its coordinator has given it.
#[derive(Debug, Clone, Copy)]
struct Identity {
    id: i64,
    epoch: i16,
}

/// How a transaction is meant to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Plan {
    Commit,
    Abort,
    /// Its producer is gone before it ends.
    Die,
    /// Its producer comes to commit when the time is up.
    Silence,
}

/// The outcome of a request that was tried until something is known.
enum Told {
    Done,
    /// Something can be said for certain: it was refused, and never carried out.
    Refused,
    /// An earlier one of the same may have been carried out.
    Unknown,
}

struct Producer {
    caller: Caller,
    transactional_id: &'static str,
    versions: Versions,
    timeout: Duration,
    identity: Option<Identity>,
    coordinator: Option<usize>,
    leaders: Vec<usize>,
    /// The next sequence in each partition.
    sequences: BTreeMap<i32, i32>,
    /// Partitions that the open transaction is known to be in.
    added: BTreeSet<i32>,
    /// The batch that was acknowledged last, and its partition.
    last_batch: Option<(i32, Bytes)>,
    stragglers: Stragglers,
}

/// Has transactions, one after the other, until the world ends.
pub(super) async fn produce(bank: Bank, transactional_id: &'static str, random: SeededRandom) {
    let mut producer = Producer::new(&bank, transactional_id, random);
    while !bank.ends.get() {
        match producer.identity {
            None => producer.begin().await,
            Some(identity) => producer.transact(identity).await,
        }
        let pause = producer.caller.random.below(60);
        sleep(Duration::from_millis(pause)).await;
    }
    bank.finish();
}

/// Begins each id anew: what it had left open is aborted.
pub(super) async fn begin_all_anew(bank: &Bank, mut random: SeededRandom) {
    for id in IDS {
        let mut producer = Producer::new(bank, id, random.split());
        while producer.identity.is_none() {
            bank.await_still(format!("no producer can begin with the id {id}"));
            producer.begin().await;
        }
    }
}

/// Commits transactions of both versions over all partitions, without a node.
pub(super) async fn commit_everywhere(bank: &Bank, away: usize, mut random: SeededRandom) {
    for (id, versions) in [("fifth", FIRST), ("sixth", SECOND)] {
        let mut producer = Producer::new(bank, id, random.split());
        producer.caller.away = Some(away);
        let mut is_done = false;
        while !is_done {
            bank.await_still(format!("the transaction of {id} cannot be committed"));
            match producer.identity {
                None => {
                    producer.begin().await;
                    producer.versions = versions;
                }
                Some(identity) => {
                    let partitions: Vec<i32> = (0..PARTITIONS).collect();
                    let number = bank.ledger.begin();
                    is_done = producer
                        .carry_out(identity, number, Plan::Commit, &partitions)
                        .await;
                }
            }
        }
    }
}

impl Producer {
    fn new(bank: &Bank, transactional_id: &'static str, mut random: SeededRandom) -> Producer {
        let stragglers = Stragglers::new(Caller::new(bank, random.split()));
        Producer {
            caller: Caller::new(bank, random),
            transactional_id,
            versions: SECOND,
            timeout: Duration::ZERO,
            identity: None,
            coordinator: None,
            leaders: Vec::new(),
            sequences: BTreeMap::new(),
            added: BTreeSet::new(),
            last_batch: None,
            stragglers,
        }
    }

    fn bank(&self) -> &Bank {
        &self.caller.bank
    }

    /// Tries once to be given an identity.
    async fn begin(&mut self) {
        let ms = 1_000 + self.caller.random.below(9_000);
        let request = InitProducerIdRequest {
            transactional_id: Some(Text::from(self.transactional_id)),
            transaction_timeout_ms: ms as i32,
            producer_id: -1,
            producer_epoch: -1,
        };
        let Ok(node) = self.coordinator().await else {
            return self.caller.rest().await;
        };
        let told = self.caller.call(node, INIT_PRODUCER_ID, &request).await;
        let Ok(told) = told else {
            self.coordinator = None;
            return self.caller.rest().await;
        };
        match self.bank().reached(ApiKey::InitProducerId, told.error_code) {
            None => {
                self.timeout = Duration::from_millis(ms);
                let (id, epoch) = (told.producer_id, told.producer_epoch);
                self.identity = Some(Identity { id, epoch });
                self.sequences.clear();
                let is_second = self.caller.random.chance(2, 3);
                self.versions = if is_second { SECOND } else { FIRST };
            }
            Some(_) => {
                self.coordinator = None;
                self.caller.rest().await;
            }
        }
    }

    async fn coordinator(&mut self) -> io::Result<usize> {
        if let Some(node) = self.coordinator {
            return Ok(node);
        }
        let request = FindCoordinatorRequest {
            key_type: OF_TRANSACTIONS,
            coordinator_keys: vec![Text::from(self.transactional_id)],
            ..FindCoordinatorRequest::default()
        };
        let node = self.caller.any();
        let told = self.caller.call(node, FIND_COORDINATOR, &request).await?;
        let found = &told.coordinators[0];
        if let Some(error) = self.bank().reached(ApiKey::FindCoordinator, found.error_code) {
            return Err(io::Error::other(format!("{error:?}")));
        }
        let node = self.bank().place_of(found.node_id)?;
        self.coordinator = Some(node);
        Ok(node)
    }

    async fn leader(&mut self, partition: i32) -> io::Result<usize> {
        if self.leaders.is_empty() {
            let known = self.caller.partitions().await?;
            self.leaders = known.iter().map(|known| known.leader).collect();
        }
        Ok(self.leaders[partition as usize])
    }

    /// Has one transaction.
    async fn transact(&mut self, identity: Identity) {
        let random = &mut self.caller.random;
        let plan = match random.below(30) {
            0..10 => Plan::Abort,
            10..12 => Plan::Die,
            12 => Plan::Silence,
            _ => Plan::Commit,
        };
        let mut partitions: Vec<i32> = (0..PARTITIONS).collect();
        for _ in 0..random.below(3) {
            partitions.remove(random.below(partitions.len() as u64) as usize);
        }
        if plan == Plan::Abort && random.chance(1, 8) {
            // An empty one.
            partitions.clear();
        }
        let number = self.bank().ledger.begin();
        self.carry_out(identity, number, plan, &partitions).await;
    }

    /// Says whether it is committed.
    async fn carry_out(&mut self, identity: Identity, number: u64, plan: Plan, partitions: &[i32]) -> bool {
        self.added.clear();
        if self.versions == SECOND {
            // Each has an epoch of its own.
            self.sequences.clear();
        }
        let ledger = self.bank().ledger.clone();
        let more = self.caller.random.below(4) as usize;
        for place in 0..partitions.len() + more.min(3 * partitions.len()) {
            let partition = partitions[place % partitions.len()];
            if !self.append(identity, number, plan, partition).await {
                ledger.settle(number, Fate::Aborted);
                self.identity = None;
                return false;
            }
            if self.caller.random.chance(1, 8) {
                self.stragglers.let_one_come().await;
            }
            if self.caller.random.chance(1, 3) {
                let pause = self.caller.random.below(100);
                sleep(Duration::from_millis(pause)).await;
            }
        }
        match plan {
            Plan::Die => {
                ledger.settle(number, Fate::Aborted);
                self.identity = None;
                // Until the next one comes nobody but the time ends it.
                let pause = self.caller.random.below(3_000);
                sleep(Duration::from_millis(pause)).await;
                return false;
            }
            Plan::Silence => {
                let more = self.caller.random.below(2_000);
                sleep(self.timeout + Duration::from_millis(more)).await;
            }
            Plan::Commit | Plan::Abort => {}
        }
        let commits = plan != Plan::Abort;
        ledger.settle(number, if commits { Fate::Asked } else { Fate::Aborted });
        let is_given_up = !commits && !partitions.is_empty() && self.caller.random.chance(1, 3);
        let told = match is_given_up {
            true => self.give_up(identity, number, partitions[0]).await,
            false => self.end(identity, commits).await,
        };
        self.hold_stragglers(identity);
        match told {
            Told::Done if commits => ledger.settle(number, Fate::Committed),
            Told::Refused if commits => ledger.settle(number, Fate::Aborted),
            _ => {}
        }
        commits && matches!(told, Told::Done)
    }

    /// Aborts the transaction while a batch of it is on its way, whose answer nobody waits for any more.
    async fn give_up(&mut self, identity: Identity, number: u64, partition: i32) -> Told {
        let values = [self.bank().ledger.next_value(number, partition)];
        let straggler = Straggler::Batch {
            partition,
            version: self.versions.produce,
            transactional_id: self.transactional_id,
            batch: self.batch(identity, Plan::Abort, partition, &values),
        };
        let bank = self.bank().clone();
        let idle = Stragglers::new(Caller::new(&bank, self.caller.random.split()));
        let mut stragglers = std::mem::replace(&mut self.stragglers, idle);
        let (told, ()) = tokio::join!(self.end(identity, false), stragglers.come_soon(straggler));
        self.stragglers = stragglers;
        if self.versions == FIRST {
            // Nobody knows which sequence is next.
            self.identity = None;
        }
        told
    }

    /// Now and then something of the transaction that has ended comes once more, later. Of the first version no end does: nothing
    /// tells it from that of the next transaction (KAFKA-17754).
    fn hold_stragglers(&mut self, identity: Identity) {
        let (version, transactional_id) = (self.versions, self.transactional_id);
        if let Some((partition, batch)) = self.last_batch.take()
            && self.caller.random.chance(1, 4)
        {
            self.stragglers.hold(Straggler::Batch {
                partition,
                version: version.produce,
                transactional_id,
                batch,
            });
        }
        if version == SECOND && self.caller.random.chance(1, 4) {
            let committed = self.caller.random.chance(1, 2);
            self.stragglers.hold(Straggler::End {
                version: version.end,
                request: end_request(transactional_id, identity, committed),
            });
        }
    }

    /// Appends a batch; says whether it was acknowledged. If not, the transaction cannot go on.
    async fn append(&mut self, identity: Identity, number: u64, plan: Plan, partition: i32) -> bool {
        let ledger = self.bank().ledger.clone();
        let count = 1 + self.caller.random.below(3);
        let values: Vec<Value> = (0..count).map(|_| ledger.next_value(number, partition)).collect();
        let batch = self.batch(identity, plan, partition, &values);
        for _ in 0..TRIES_MAX {
            let told = match self.versions == FIRST && !self.added.contains(&partition) {
                true => self.add(identity, partition).await,
                false => self.try_to_append(partition, batch.clone()).await,
            };
            match told {
                Ok(Ok(Some(first))) => {
                    ledger.acknowledge(partition, first, &values);
                    *self.sequences.entry(partition).or_default() += count as i32;
                    self.last_batch = Some((partition, batch));
                    return true;
                }
                // The partition is added.
                Ok(Ok(None)) => continue,
                Ok(Err(error)) if is_passing(error) => {}
                Ok(Err(error)) => {
                    let is_of_sequence = matches!(
                        error,
                        ErrorCode::OutOfOrderSequenceNumber | ErrorCode::DuplicateSequenceNumber
                    );
                    if is_of_sequence {
                        ledger.violate(format!(
                            "{error:?} is told of a batch of {identity:?} in partition {partition}, whose sequences are in order"
                        ));
                    }
                    return false;
                }
                Err(_) => {}
            }
            self.leaders.clear();
            self.caller.rest().await;
        }
        self.bank().trace.count("transactions: given up");
        false
    }

    fn batch(&mut self, identity: Identity, plan: Plan, partition: i32, values: &[Value]) -> Bytes {
        let superseded = match plan {
            // Aborted records supersede nothing.
            Plan::Abort | Plan::Die => self.bank().ledger.seen_value(partition),
            Plan::Commit | Plan::Silence => None,
        };
        let padding = match self.caller.random.below(8) {
            0 => self.caller.random.below(20_000),
            _ => self.caller.random.below(200),
        };
        let sequence = self.sequences.get(&partition).copied().unwrap_or(0);
        let mut builder = BatchBuilder::new(Compression::None);
        builder.set_producer(identity.id, identity.epoch, sequence);
        builder.set_transactional(true);
        for value in values {
            let key = superseded.unwrap_or(*value).to_le_bytes();
            let mut bytes = value.to_le_bytes().to_vec();
            bytes.resize(8 + padding as usize, 0);
            builder.append(0, Some(&key), Some(&bytes), &[]);
        }
        builder.build()
    }

    async fn try_to_append(
        &mut self,
        partition: i32,
        batch: Bytes,
    ) -> io::Result<Result<Option<i64>, ErrorCode>> {
        let leader = self.leader(partition).await?;
        let request = produce_request(self.transactional_id, partition, batch);
        let told = self.caller.call(leader, self.versions.produce, &request).await?;
        let told = &told.responses[0].partition_responses[0];
        Ok(match self.bank().reached(ApiKey::Produce, told.error_code) {
            None => Ok(Some(told.base_offset)),
            Some(error) => Err(error),
        })
    }

    /// Adds a partition to the transaction.
    async fn add(
        &mut self,
        identity: Identity,
        partition: i32,
    ) -> io::Result<Result<Option<i64>, ErrorCode>> {
        let node = self.coordinator().await?;
        let request = AddPartitionsToTxnRequest {
            v3_and_below_transactional_id: Text::from(self.transactional_id),
            v3_and_below_producer_id: identity.id,
            v3_and_below_producer_epoch: identity.epoch,
            v3_and_below_topics: vec![AddPartitionsToTxnTopic {
                name: Text::from(TOPIC),
                partitions: vec![partition],
            }],
            ..AddPartitionsToTxnRequest::default()
        };
        let coordinator = self.coordinator.take();
        let told = self.caller.call(node, ADD_PARTITIONS, &request).await?;
        let code = told.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code;
        if let Some(error) = self.bank().reached(ApiKey::AddPartitionsToTxn, code) {
            return Ok(Err(error));
        }
        self.coordinator = coordinator;
        self.added.insert(partition);
        Ok(Ok(None))
    }

    /// Ends the transaction, and takes the identity for the next one, if that is known.
    async fn end(&mut self, identity: Identity, committed: bool) -> Told {
        let request = end_request(self.transactional_id, identity, committed);
        let (mut is_lost, mut is_known) = (false, true);
        loop {
            let told = match self.coordinator().await {
                Ok(node) => self.caller.call(node, self.versions.end, &request).await,
                Err(_) => {
                    self.caller.rest().await;
                    continue;
                }
            };
            let error = match told {
                Ok(told) => match self.bank().reached(ApiKey::EndTxn, told.error_code) {
                    None => {
                        self.identity = match self.versions {
                            SECOND => Some(Identity {
                                id: told.producer_id,
                                epoch: told.producer_epoch,
                            }),
                            // A request on its way still could end the next one, which has the same epoch.
                            _ => Some(identity).filter(|_| !is_lost),
                        };
                        return Told::Done;
                    }
                    Some(error) => error,
                },
                Err(_) => {
                    (is_lost, is_known) = (true, false);
                    ErrorCode::NetworkException
                }
            };
            if !is_passing(error) {
                self.identity = None;
                return if is_known { Told::Refused } else { Told::Unknown };
            }
            let is_untried = matches!(
                error,
                ErrorCode::ConcurrentTransactions
                    | ErrorCode::NotCoordinator
                    | ErrorCode::CoordinatorLoadInProgress
            );
            is_known &= is_untried;
            self.coordinator = None;
            self.caller.rest().await;
        }
    }
}

/// A request to append a batch to a partition.
pub(super) fn produce_request(transactional_id: &str, partition: i32, batch: Bytes) -> ProduceRequest {
    ProduceRequest {
        transactional_id: Some(Text::from(transactional_id)),
        acks: -1,
        timeout_ms: 3_000,
        topic_data: vec![TopicProduceData {
            name: Text::from(TOPIC),
            partition_data: vec![PartitionProduceData {
                index: partition,
                records: Some(batch),
                ..PartitionProduceData::default()
            }],
            ..TopicProduceData::default()
        }],
    }
}

fn end_request(transactional_id: &str, identity: Identity, committed: bool) -> EndTxnRequest {
    EndTxnRequest {
        transactional_id: Text::from(transactional_id),
        producer_id: identity.id,
        producer_epoch: identity.epoch,
        committed,
    }
}

/// Says whether the same request may be answered otherwise the next time.
fn is_passing(error: ErrorCode) -> bool {
    !matches!(
        error,
        ErrorCode::InvalidProducerEpoch
            | ErrorCode::ProducerFenced
            | ErrorCode::InvalidTxnState
            | ErrorCode::TransactionAbortable
            | ErrorCode::InvalidProducerIdMapping
            | ErrorCode::OutOfOrderSequenceNumber
            | ErrorCode::DuplicateSequenceNumber
            | ErrorCode::UnknownProducerId
            | ErrorCode::InvalidRequest
    )
}
