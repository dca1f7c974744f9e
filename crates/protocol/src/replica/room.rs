//! The room of a shard for batches that are not committed yet, shared out among its partitions.
//!
//! Stands before the numbering of an append, and is given back as the tail moves on or batches are cut off. A partition without a quorum
//! keeps all that it has taken: it must never keep so much that partitions with a quorum have none (run 7 in
//! docs/protocols/replication.md). So each may hold a fixed part of what is left free, as in a switch whose ports share one memory
//! (Choudhury and Hahne, "Dynamic Queue Length Thresholds for Shared-Memory Packet Switches", 1998): however many hold
//! what they may, there is some left for the next.

use std::collections::BTreeMap;

use planted::{Bug, planted};
use record::PartitionId;

/// A partition holds at most one of so many parts of the bytes that stay free. With so many, one partition alone gets a ninth of
/// the room.
const FREE_PARTS: u64 = 8;
/// A partition that holds nothing may take a batch of one of so many parts: batches are of any size.
const FREE_PARTS_OF_FIRST: u64 = 2;

/// See the module. All sizes are bytes of batches.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct UncommittedRoom {
    bytes_max: u64,
    partition_bytes_max: u64,
    bytes: u64,
    /// The bytes of each partition that holds some.
    held: BTreeMap<PartitionId, u64>,
}

impl UncommittedRoom {
    /// Room for `bytes_max` of all partitions together, and for `partition_bytes_max` of each.
    #[must_use]
    pub fn new(bytes_max: u64, partition_bytes_max: u64) -> UncommittedRoom {
        UncommittedRoom {
            bytes_max,
            partition_bytes_max,
            bytes: 0,
            held: BTreeMap::new(),
        }
    }

    /// Says whether a partition may take a batch of so many bytes now. If not, the append waits until some of the partition's
    /// batches are committed. The first batch of a partition may be larger, and of any size where nobody holds anything.
    #[must_use]
    pub fn has_room(&self, partition: PartitionId, batch_bytes: u64) -> bool {
        if self.bytes == 0 {
            return true;
        }
        let Some(free) = self.bytes_max.checked_sub(self.bytes + batch_bytes) else {
            return false;
        };
        let held = self.held_by(partition);
        let most = match held {
            0 => free / FREE_PARTS_OF_FIRST,
            _ => self.partition_bytes_max.min(free / FREE_PARTS),
        };
        planted(Bug::OnePartitionTakesAll) || held + batch_bytes <= most
    }

    /// Counts a batch that was appended.
    pub fn take(&mut self, partition: PartitionId, batch_bytes: u64) {
        self.bytes += batch_bytes;
        *self.held.entry(partition).or_default() += batch_bytes;
    }

    /// Counts batches that are committed or cut off.
    ///
    /// # Panics
    /// The partition does not hold so many bytes.
    pub fn give_back(&mut self, partition: PartitionId, batch_bytes: u64) {
        let held = self.held_by(partition).checked_sub(batch_bytes);
        match held.expect("what is given back was taken") {
            0 => self.held.remove(&partition),
            left => self.held.insert(partition, left),
        };
        self.bytes -= batch_bytes;
    }

    /// Returns the bytes of a partition's batches that are not committed.
    #[must_use]
    pub fn held_by(&self, partition: PartitionId) -> u64 {
        self.held.get(&partition).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use planted::with;
    use record::TopicId;
    use stateright::{Checker, HasDiscoveries, Model, Property};

    use super::*;

    const BATCH_BYTES: u64 = 10;

    fn partition(index: i32) -> PartitionId {
        PartitionId {
            topic: TopicId::default(),
            index,
        }
    }

    fn fill(room: &mut UncommittedRoom, index: i32) {
        while room.has_room(partition(index), BATCH_BYTES) {
            room.take(partition(index), BATCH_BYTES);
        }
    }

    /// Run 7: what partitions without a quorum have taken is never given back, and another one goes on.
    fn others_go_on() {
        let mut room = UncommittedRoom::new(10_000, 1_000);
        for without_quorum in 0..20 {
            fill(&mut room, without_quorum);
        }
        let healthy = partition(20);
        for _ in 0..100 {
            assert!(room.has_room(healthy, BATCH_BYTES), "a healthy partition goes on");
            room.take(healthy, BATCH_BYTES);
            room.give_back(healthy, BATCH_BYTES);
        }
    }

    #[test]
    fn run_7_a_partition_without_a_quorum_stops_no_other() {
        others_go_on();
        let outcome = with(Bug::OnePartitionTakesAll, || {
            std::panic::catch_unwind(others_go_on)
        });
        assert!(outcome.is_err(), "a partition takes all, and nobody notices");
    }

    #[test]
    fn a_partition_holds_no_more_than_its_bound_and_its_part() {
        let mut room = UncommittedRoom::new(10_000, 500);
        fill(&mut room, 0);
        assert_eq!(room.held_by(partition(0)), 500);
        let mut room = UncommittedRoom::new(900, 500);
        fill(&mut room, 0);
        assert_eq!(room.held_by(partition(0)), 100);
        room.give_back(partition(0), 100);
        assert_eq!(room, UncommittedRoom::new(900, 500));
    }

    /// All ways in which three partitions take room, of which the last alone has a quorum.
    struct Shard;

    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    enum Step {
        Append(i32),
        Commit,
    }

    const HEALTHY: i32 = 2;

    impl Model for Shard {
        type State = UncommittedRoom;
        type Action = Step;

        fn init_states(&self) -> Vec<UncommittedRoom> {
            vec![UncommittedRoom::new(1_000, 500)]
        }

        fn actions(&self, room: &UncommittedRoom, steps: &mut Vec<Step>) {
            let appends = (0..=HEALTHY).filter(|index| room.has_room(partition(*index), BATCH_BYTES));
            steps.extend(appends.map(Step::Append));
            if room.held_by(partition(HEALTHY)) > 0 {
                steps.push(Step::Commit);
            }
        }

        fn next_state(&self, room: &UncommittedRoom, step: Step) -> Option<UncommittedRoom> {
            let mut room = room.clone();
            match step {
                Step::Append(index) => room.take(partition(index), BATCH_BYTES),
                Step::Commit => room.give_back(partition(HEALTHY), BATCH_BYTES),
            }
            Some(room)
        }

        fn properties(&self) -> Vec<Property<Shard>> {
            vec![Property::<Shard>::always("the healthy one goes on", |_, room| {
                let holds_some = room.held_by(partition(HEALTHY)) > 0;
                holds_some || room.has_room(partition(HEALTHY), BATCH_BYTES)
            })]
        }
    }

    #[test]
    fn run_7_as_a_model() {
        let explored = Shard.checker().finish_when(HasDiscoveries::AnyFailures);
        explored.spawn_bfs().join().assert_properties();
    }
}
