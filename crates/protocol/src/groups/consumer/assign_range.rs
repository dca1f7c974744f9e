//! The assignor `range`: each topic's partitions are cut into runs, one for each reader, in the order of the readers.
//!
//! Readers are ordered by instance id, else by member id: topics with the same readers and as many partitions are
//! cut alike, so that partitions with the same number meet (Kafka's co-partitioning).

use record::PartitionId;

use super::super::Assignment;
use super::assign::Wishes;

pub(super) fn assign_range(wishes: &Wishes) -> Vec<Assignment> {
    let mut assigned = vec![Assignment::default(); wishes.members.len()];
    for (topic, mut readers) in wishes.readers() {
        readers.sort_by_key(|place| {
            let wish = &wishes.members[*place];
            (
                wish.instance.is_none(),
                wish.instance.clone(),
                wish.member.clone(),
            )
        });
        let count = wishes.topics.get(&topic).copied().unwrap_or(0);
        let reader_count = i32::try_from(readers.len()).expect("members are limited");
        let (each, one_more) = (count / reader_count, count % reader_count);
        let mut next = 0;
        for (turn, place) in (0..).zip(readers) {
            let run = each + i32::from(turn < one_more);
            assigned[place].extend((next..next + run).map(|index| PartitionId { topic, index }));
            next += run;
        }
    }
    assigned
}
