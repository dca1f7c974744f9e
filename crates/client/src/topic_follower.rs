//! Follows many partitions of one topic for as long as its caller likes, over few connections.
//!
//! A fetch waits at the broker for all partitions of its connection at once, and the next is under way while the caller still
//! has the last in hand. Partitions that cannot be read for now are lost until their leader is found again; the others go on
//! meanwhile. A partition is never asked for twice at a time: so its records come in order.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::{Duration, Instant};

use kafka_wire::fetch::PartitionData;
use kafka_wire::{ApiKey, ErrorCode, FetchRequest, FetchResponse, Text};
use record::{Offset, TopicId};

use crate::cluster::{Cluster, PartitionMetadata, TopicMetadata};
use crate::connection::{Connection, wait_readable};
use crate::consumer::{ConsumerOptions, Fetched};
use crate::error::{ClientError, Result};
use crate::offsets::OffsetQuery;
use crate::position::{Position, fetch_request, partition_answers};
use crate::truncation::check_truncation;

/// The number of partitions that are followed over one connection: enough that the largest topics need few, few enough that
/// naming them all in each fetch is no wait that a record would notice.
const PARTITIONS_PER_CONNECTION: usize = 500;
/// The pause before the leaders of lost partitions are looked for again; longer, if that holds up the fetches of the
/// others because a broker hangs.
const LOOK_PAUSE: Duration = Duration::from_millis(500);
const LOOK_PAUSE_LOOKS: u32 = 2;
/// The pause before looking again for new partitions of the topic, and the least ratio of the pause to the look, which holds up
/// the fetches if a broker hangs.
const GROWTH_PAUSE: Duration = Duration::from_secs(5);
const GROWTH_PAUSE_LOOKS: u32 = 10;
/// A topic that brokers have not known for so long was deleted. One that was just made, or just moved, is known sooner.
const DELETED_AFTER: Duration = Duration::from_secs(5);

/// The next events.
#[derive(Debug, Default)]
pub struct Followed {
    /// The batches that were fetched, with the partition of each; no partition twice.
    pub fetched: Vec<(i32, Fetched)>,
    /// The partition that was lost.
    pub lost: Option<Lost>,
}

/// Partitions that cannot be read for now. Their leaders are looked for by themselves.
#[derive(Debug)]
pub struct Lost {
    /// Which.
    pub partitions: Vec<i32>,
    /// Why the first of them was.
    pub error: ClientError,
}

/// Follows partitions of one topic.
#[derive(Debug)]
pub struct TopicFollower {
    topic: Text,
    topic_id: TopicId,
    options: ConsumerOptions,
    /// The time that the answer to a fetch may take.
    patience: Duration,
    /// In the order in which their answers are taken, so that none waits for those that always have one.
    lanes: VecDeque<Lane>,
    lost: Vec<Position>,
    /// When lost partitions' leaders are looked for again.
    look_at: Instant,
    /// Since when nobody knows the topic.
    unknown_since: Option<Instant>,
    /// The number of partitions that it is known to have, and the moment of the next look at that.
    partition_count: usize,
    count_at: Instant,
    /// The error that ends the following, told behind the batches that came with it.
    failed: Option<ClientError>,
}

/// A connection to one broker, and the partitions that are followed over it.
#[derive(Debug)]
struct Lane {
    connection: Connection,
    /// The positions that the next fetch asks for, in this order.
    waiting: VecDeque<Position>,
    /// The positions that the fetch under way asks for, but for those that ended since.
    asked: Vec<Position>,
    /// Since when a fetch is under way.
    asked_at: Option<Instant>,
}

/// The outcome of an answer.
#[derive(Debug, Default)]
struct Outcome {
    /// The batches that were fetched, with the partition of each.
    fetched: Vec<(i32, Fetched)>,
    /// The positions that were refused, with the errors.
    refused: Vec<(Position, ClientError)>,
}

impl TopicFollower {
    /// Connects to the leaders of all partitions of `starts`, each with the offset of its first record in `topic` as it was
    /// described then. Nothing is fetched yet. Of the options, `fetch_ahead` is always on.
    ///
    /// # Errors
    /// `NoLeader`; `TopicDeleted` if another topic has that name by now; as `Cluster::topic` and `Connection::connect`.
    pub fn new(
        cluster: &mut Cluster,
        topic: &TopicMetadata,
        starts: &[(i32, Offset)],
        options: ConsumerOptions,
    ) -> Result<TopicFollower> {
        let name = Text::from(topic.name.as_str());
        let position = |(partition, first): &(i32, Offset)| Position::new(name.clone(), *partition, *first);
        let now = Instant::now();
        let mut follower = TopicFollower {
            topic_id: topic.id,
            patience: cluster.options().request_timeout + options.wait_max,
            options,
            lanes: VecDeque::new(),
            lost: starts.iter().map(position).collect(),
            look_at: now,
            unknown_since: None,
            partition_count: topic.partitions.len(),
            count_at: now + GROWTH_PAUSE,
            failed: None,
            topic: name,
        };
        follower.find_leaders(cluster)?;
        if let Some(position) = follower.lost.first() {
            return Err(ClientError::NoLeader {
                topic: position.topic.to_string(),
                partition: position.partition,
            });
        }
        Ok(follower)
    }

    /// Says if no partition is followed any more.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.lanes.is_empty() && self.lost.is_empty() && self.failed.is_none()
    }

    /// Follows a partition no longer.
    pub fn end(&mut self, partition: i32) {
        let is_other = |position: &Position| position.partition != partition;
        self.lost.retain(is_other);
        for lane in &mut self.lanes {
            lane.waiting.retain(is_other);
            lane.asked.retain(is_other);
        }
        self.lanes.retain(|lane| !lane.is_empty());
    }

    /// Follows the partitions that the topic has got meanwhile, too, each from its first record on; which these are. Looks every
    /// few seconds only: it may be called before every `fetch`.
    ///
    /// # Errors
    /// `TopicDeleted`, and others that would be met again.
    pub fn follow_new(&mut self, cluster: &mut Cluster) -> Result<Vec<i32>> {
        let began = Instant::now();
        if began < self.count_at {
            return Ok(Vec::new());
        }
        let found = self.find_new(cluster);
        let ended = Instant::now();
        self.count_at = ended + GROWTH_PAUSE.max((ended - began) * GROWTH_PAUSE_LOOKS);
        let starts = match found {
            Err(error) if error.is_retriable() => return Ok(Vec::new()),
            found => found?,
        };
        self.partition_count += starts.len();
        let position =
            |(partition, first): &(i32, Offset)| Position::new(self.topic.clone(), *partition, *first);
        self.lost.extend(starts.iter().map(position));
        if !starts.is_empty() {
            self.look_at = ended;
        }
        Ok(starts.into_iter().map(|(partition, _)| partition).collect())
    }

    /// The partitions that the topic has got, each with the offset of its first record.
    fn find_new(&mut self, cluster: &mut Cluster) -> Result<Vec<(i32, Offset)>> {
        let mut described = self.describe(cluster)?;
        let known = self.partition_count.min(described.partitions.len());
        described.partitions.drain(..known);
        if described.partitions.is_empty() {
            return Ok(Vec::new());
        }
        let firsts = cluster.offsets(&described, OffsetQuery::Earliest)?.into_iter();
        Ok(firsts
            .map(|(partition, first)| (partition, first.unwrap_or(Offset::ZERO)))
            .collect())
    }

    /// The topic as it is now, if it is still the same.
    fn describe(&mut self, cluster: &mut Cluster) -> Result<TopicMetadata> {
        let deleted = |made_again| ClientError::TopicDeleted {
            topic: self.topic.to_string(),
            made_again,
        };
        match cluster.topic(&self.topic) {
            Ok(described) if described.id != self.topic_id => Err(deleted(true)),
            Err(error) if error.code() == Some(ErrorCode::UnknownTopicOrPartition) => {
                let since = *self.unknown_since.get_or_insert_with(Instant::now);
                match since.elapsed() < DELETED_AFTER {
                    true => Err(error),
                    false => Err(deleted(false)),
                }
            }
            described => {
                self.unknown_since = None;
                described
            }
        }
    }

    /// Waits for one fetch to come back, of whichever broker. Nothing is no error: there was nothing new.
    ///
    /// # Errors
    /// What would be met again: `Broker`, with `OffsetOutOfRange` if a position is trimmed or beyond the tail; `TopicDeleted`,
    /// also if another one has its name; `Batch`, `FetchTooSmall`. Following does not go on after one.
    pub fn fetch(&mut self, cluster: &mut Cluster) -> Result<Followed> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        self.look_for_lost(cluster)?;
        for index in 0..self.lanes.len() {
            if let Err(error) = self.lanes[index].ask(self.topic_id, &self.options) {
                return self.lose_lane(index, error);
            }
        }
        self.wait();
        for index in 0..self.lanes.len() {
            match self.lanes[index].answer(self.patience) {
                None => {}
                Some(Ok(response)) => return self.take(index, response),
                Some(Err(error)) => return self.lose_lane(index, error),
            }
        }
        Ok(Followed::default())
    }

    /// Waits until there is something to do: an answer, an overdue one, or lost partitions.
    fn wait(&self) {
        let asked_first = self.lanes.iter().filter_map(|lane| lane.asked_at).min();
        let overdue_at = asked_first.map(|asked_at| asked_at + self.patience);
        let look_at = (!self.lost.is_empty()).then_some(self.look_at);
        let Some(until) = overdue_at.into_iter().chain(look_at).min() else {
            return;
        };
        let connections: Vec<&Connection> = self.lanes.iter().map(|lane| &lane.connection).collect();
        // An error that the system cannot tell here shows below, connection by connection.
        let _ = wait_readable(&connections, until.saturating_duration_since(Instant::now()));
    }

    /// Reads an answer, and asks for what comes behind it.
    fn take(&mut self, index: usize, response: FetchResponse) -> Result<Followed> {
        let answers = match partition_answers(response, || format!("reading topic {}", self.topic)) {
            Ok(answers) => answers,
            Err(error) => return self.lose_lane(index, error),
        };
        let mut lane = self.lanes.remove(index).expect("its answer was taken");
        let Outcome { fetched, refused } = lane.read(answers, &self.options);
        // The fetched batches are behind the positions and must be handed out. An error of the next question comes again with
        // the next fetch.
        let _ = lane.ask(self.topic_id, &self.options);
        if !lane.is_empty() {
            self.lanes.push_back(lane);
        }
        let lost = self.lose_refused(refused);
        Ok(Followed { fetched, lost })
    }

    /// Gives a connection up, unless that is no remedy.
    fn lose_lane(&mut self, index: usize, error: ClientError) -> Result<Followed> {
        if !error.is_retriable() {
            return Err(error);
        }
        let lane = self.lanes.remove(index).expect("it was asked");
        let positions: Vec<Position> = lane.asked.into_iter().chain(lane.waiting).collect();
        let partitions = positions.iter().map(|position| position.partition).collect();
        self.set_aside(positions);
        Ok(Followed {
            fetched: Vec::new(),
            lost: Some(Lost { partitions, error }),
        })
    }

    /// Sets aside what a broker refuses for now. A refusal for good is kept for the next fetch.
    fn lose_refused(&mut self, refused: Vec<(Position, ClientError)>) -> Option<Lost> {
        let mut positions = Vec::new();
        let mut lost: Option<Lost> = None;
        for (position, error) in refused {
            if !error.is_retriable() {
                self.failed = Some(error);
                continue;
            }
            let partitions = Vec::new();
            let lost = lost.get_or_insert(Lost { partitions, error });
            lost.partitions.push(position.partition);
            positions.push(position);
        }
        self.set_aside(positions);
        lost
    }

    fn set_aside(&mut self, mut positions: Vec<Position>) {
        if self.lost.is_empty() {
            self.look_at = Instant::now() + LOOK_PAUSE;
        }
        self.lost.append(&mut positions);
    }

    fn look_for_lost(&mut self, cluster: &mut Cluster) -> Result<()> {
        if self.lost.is_empty() || Instant::now() < self.look_at {
            return Ok(());
        }
        let began = Instant::now();
        let found = self.find_leaders(cluster);
        self.look_at = Instant::now() + LOOK_PAUSE.max(began.elapsed() * LOOK_PAUSE_LOOKS);
        match found {
            Err(error) if !error.is_retriable() => Err(error),
            _ => Ok(()),
        }
    }

    /// Has lost partitions followed where their leaders are. Those without one stay lost, and tell no error.
    fn find_leaders(&mut self, cluster: &mut Cluster) -> Result<()> {
        let described = self.describe(cluster)?;
        let address = |metadata: &PartitionMetadata| {
            let broker = cluster.broker_of(metadata)?;
            Some((metadata.index, broker.address.clone()))
        };
        let leaders: HashMap<i32, String> = described.partitions.iter().filter_map(address).collect();
        let mut by_address: BTreeMap<&str, Vec<Position>> = BTreeMap::new();
        for position in std::mem::take(&mut self.lost) {
            match leaders.get(&position.partition) {
                Some(address) => by_address.entry(address).or_default().push(position),
                None => self.lost.push(position),
            }
        }
        let mut outcome = Ok(());
        for (address, mut positions) in by_address {
            let followed = match check_truncation(cluster, address, &positions) {
                Ok(()) => self.follow_at(cluster, address, positions),
                Err(error) => {
                    self.lost.append(&mut positions);
                    Err(error)
                }
            };
            // One broker that is away is no reason to leave the others' partitions lost.
            outcome = match (outcome, followed) {
                (Ok(()), followed) => followed,
                (Err(first), Err(stays)) if first.is_retriable() && !stays.is_retriable() => Err(stays),
                (first, _) => first,
            };
        }
        outcome
    }

    /// Has these partitions followed over connections to one broker. If it cannot be reached, they are lost.
    fn follow_at(&mut self, cluster: &Cluster, address: &str, mut positions: Vec<Position>) -> Result<()> {
        while !positions.is_empty() {
            let has_room = |lane: &Lane| lane.connection.address() == address && lane.room() > 0;
            let index = match self.lanes.iter().position(has_room) {
                Some(index) => index,
                None => match Connection::connect(address, cluster.options()) {
                    Ok(connection) => {
                        self.lanes.push_back(Lane::new(connection));
                        self.lanes.len() - 1
                    }
                    Err(error) => {
                        self.lost.append(&mut positions);
                        return Err(error);
                    }
                },
            };
            let lane = &mut self.lanes[index];
            let count = lane.room().min(positions.len());
            lane.waiting.extend(positions.drain(..count));
        }
        Ok(())
    }
}

impl Lane {
    fn new(connection: Connection) -> Lane {
        Lane {
            connection,
            waiting: VecDeque::new(),
            asked: Vec::new(),
            asked_at: None,
        }
    }

    fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.asked.is_empty()
    }

    /// The number of partitions that it can still take.
    fn room(&self) -> usize {
        PARTITIONS_PER_CONNECTION.saturating_sub(self.waiting.len() + self.asked.len())
    }

    /// Sends a fetch for all partitions, unless one is under way.
    fn ask(&mut self, topic_id: TopicId, options: &ConsumerOptions) -> Result<()> {
        if self.asked_at.is_some() || self.waiting.is_empty() {
            return Ok(());
        }
        let positions: Vec<&Position> = self.waiting.iter().collect();
        let request = fetch_request(topic_id, &positions, options);
        self.connection.send(&request)?;
        self.asked = self.waiting.drain(..).collect();
        self.asked_at = Some(Instant::now());
        Ok(())
    }

    /// The answer, if it is here; an error if it is overdue.
    fn answer(&mut self, patience: Duration) -> Option<Result<FetchResponse>> {
        let asked_at = self.asked_at?;
        match self.connection.is_readable(Duration::ZERO) {
            Ok(true) => {
                self.asked_at = None;
                Some(self.connection.receive::<FetchRequest>())
            }
            Ok(false) if asked_at.elapsed() < patience => None,
            Ok(false) => Some(Err(ClientError::Timeout {
                address: self.connection.address().to_owned(),
                api: ApiKey::Fetch,
                after: patience,
            })),
            Err(error) => Some(Err(error)),
        }
    }

    /// Reads what each partition got. Those that brought nothing come first in the next fetch, else those that always have
    /// records would take all the room of an answer.
    fn read(&mut self, answers: Vec<PartitionData>, options: &ConsumerOptions) -> Outcome {
        let is_alone = answers.len() == 1;
        let answers: HashMap<i32, PartitionData> = answers
            .into_iter()
            .map(|answer| (answer.partition_index, answer))
            .collect();
        let mut outcome = Outcome::default();
        let mut served = Vec::new();
        for mut position in self.asked.drain(..) {
            let partition = position.partition;
            match position.read_answer(answers.get(&partition), options) {
                Ok(fetched) if fetched.is_empty() => self.waiting.push_back(position),
                Ok(fetched) => {
                    outcome.fetched.push((partition, fetched));
                    served.push(position);
                }
                // Another partition took the room: the next fetch begins with this one.
                Err(ClientError::FetchTooSmall { .. }) if !is_alone => self.waiting.push_front(position),
                Err(error) => outcome.refused.push((position, error)),
            }
        }
        self.waiting.extend(served);
        outcome
    }
}
