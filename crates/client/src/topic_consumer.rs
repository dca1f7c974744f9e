//! Reads stretches of many partitions of one topic over one connection to each broker that leads some of them.
//!
//! For who reads much from many partitions, where a `Consumer` for each would be a connection for each. A fetch asks for
//! several partitions at once; the next is under way while the caller still reads the last.

use std::collections::VecDeque;

use kafka_wire::fetch::PartitionData;
use kafka_wire::{FetchRequest, Text};
use record::{Offset, TopicId};

use crate::cluster::Cluster;
use crate::connection::Connection;
use crate::consumer::{ConsumerOptions, Fetched};
use crate::error::{ClientError, Result};
use crate::position::{Position, fetch_request, partition_answers};

/// The number of partitions in one fetch: enough that small ones need few fetches, few enough that naming them is
/// little beside what they hold.
const PARTITIONS_PER_FETCH: usize = 64;

/// A part of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stretch {
    /// The partition.
    pub partition: i32,
    /// Its first record.
    pub first: Offset,
    /// The offset behind its last record.
    pub end: Offset,
}

/// A partition that is not read to its end yet.
#[derive(Debug)]
struct Open {
    position: Position,
    end: Offset,
}

/// A connection to one broker, and what is read over it.
#[derive(Debug)]
struct Lane {
    connection: Connection,
    waiting: VecDeque<Open>,
    /// Those that the fetch under way asks for; none if there is no fetch under way.
    asked: Vec<Open>,
}

/// Reads stretches of partitions of one topic, each from its first record to its last.
#[derive(Debug)]
pub struct TopicConsumer {
    topic_id: TopicId,
    options: ConsumerOptions,
    lanes: VecDeque<Lane>,
}

impl TopicConsumer {
    /// Connects to the leaders of all `stretches`. Nothing is fetched yet. Of the options, `fetch_ahead` is always on.
    ///
    /// # Errors
    /// `NoLeader`; as `Cluster::topic` and `Connection::connect`.
    pub fn new(
        cluster: &mut Cluster,
        topic: &str,
        stretches: &[Stretch],
        options: ConsumerOptions,
    ) -> Result<TopicConsumer> {
        let mut described = cluster.topic(topic)?;
        let is_wanted = |partition: i32| {
            let of_it = |stretch: &&Stretch| stretch.partition == partition && stretch.first < stretch.end;
            stretches.iter().find(of_it)
        };
        described
            .partitions
            .retain(|partition| is_wanted(partition.index).is_some());
        let mut lanes = VecDeque::new();
        for (broker, partitions) in cluster.by_leader(&described)? {
            let open = |stretch: &Stretch| Open {
                position: Position::new(Text::from(topic), stretch.partition, stretch.first),
                end: stretch.end,
            };
            lanes.push_back(Lane {
                connection: Connection::connect(&broker.address, cluster.options())?,
                waiting: partitions.into_iter().filter_map(is_wanted).map(open).collect(),
                asked: Vec::new(),
            });
        }
        Ok(TopicConsumer {
            topic_id: described.id,
            options,
            lanes,
        })
    }

    /// Waits for the next fetch: what it brought, with the partition of each. `None` when all is read.
    ///
    /// # Errors
    /// `Broker`, `Batch`, `FetchTooSmall`, and those of the connection. Reading does not go on after one.
    pub fn fetch(&mut self) -> Result<Option<Vec<(i32, Fetched)>>> {
        for lane in self.lanes.iter_mut().filter(|lane| lane.asked.is_empty()) {
            lane.ask(self.topic_id, &self.options)?;
        }
        let Some(mut lane) = self.lanes.pop_front() else {
            return Ok(None);
        };
        let fetched = lane.take_answer(&self.options)?;
        lane.ask(self.topic_id, &self.options)?;
        if !lane.asked.is_empty() {
            self.lanes.push_back(lane);
        }
        Ok(Some(fetched))
    }
}

impl Lane {
    /// Sends a fetch for the partitions whose turn it is, if there are any.
    fn ask(&mut self, topic_id: TopicId, options: &ConsumerOptions) -> Result<()> {
        let count = self.waiting.len().min(PARTITIONS_PER_FETCH);
        self.asked = self.waiting.drain(..count).collect();
        if self.asked.is_empty() {
            return Ok(());
        }
        let positions: Vec<&Position> = self.asked.iter().map(|open| &open.position).collect();
        let request = fetch_request(topic_id, &positions, options);
        self.connection.send(&request).map(|_| ())
    }

    fn take_answer(&mut self, options: &ConsumerOptions) -> Result<Vec<(i32, Fetched)>> {
        let response = self.connection.receive::<FetchRequest>()?;
        let first = self.asked.first().expect("an answer is awaited after a fetch");
        let answers = partition_answers(response, || first.position.operation())?;
        let mut all_fetched = Vec::with_capacity(self.asked.len());
        let is_alone = self.asked.len() == 1;
        for mut open in self.asked.drain(..) {
            let partition = open.position.partition;
            let is_its = |answer: &&PartitionData| answer.partition_index == partition;
            let fetched = match open.position.read_answer(answers.iter().find(is_its), options) {
                Ok(fetched) => fetched,
                // Another partition took the room: the next fetch begins with this one.
                Err(ClientError::FetchTooSmall { .. }) if !is_alone => {
                    self.waiting.push_front(open);
                    continue;
                }
                Err(error) => return Err(error),
            };
            match (fetched.is_empty(), open.position.next_offset < open.end) {
                (true, true) => self.waiting.push_front(open),
                (false, true) => self.waiting.push_back(open),
                (_, false) => {}
            }
            all_fetched.push((partition, fetched));
        }
        Ok(all_fetched)
    }
}
