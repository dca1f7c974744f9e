//! The assignor `range`: each topic's partitions are cut into runs, one for each reader, in the order of the readers.
//!
//! Readers are ordered by instance id, else by member id: topics with the same readers and as many partitions are
//! cut alike, so that partitions with the same number meet (Kafka's co-partitioning).

use record::PartitionId;

use super::super::Assignment;
use super::assign::{GroupSpec, readers};

pub(super) fn assign_range(group_spec: &GroupSpec) -> Vec<Assignment> {
    // The members' places, in the order of their turns.
    let mut turns: Vec<usize> = (0..group_spec.members.len()).collect();
    turns.sort_by_key(|place| {
        let member_spec = &group_spec.members[*place];
        (
            member_spec.instance.is_none(),
            &member_spec.instance,
            &member_spec.member,
        )
    });
    let mut assigned = vec![Assignment::default(); group_spec.members.len()];
    for (topic, readers) in readers(turns.iter().map(|place| &group_spec.members[*place])) {
        let count = group_spec.topics.get(&topic).copied().unwrap_or(0);
        let reader_count = i32::try_from(readers.count()).expect("members are limited");
        let (each, one_more) = (count / reader_count, count % reader_count);
        // No more readers than partitions get any.
        let first = readers.first(usize::try_from(count).unwrap_or(0));
        let mut next = 0;
        for (nth, turn) in (0..count).zip(first) {
            let run = each + i32::from(nth < one_more);
            let place = turns[turn];
            assigned[place].extend((next..next + run).map(|index| PartitionId { topic, index }));
            next += run;
        }
    }
    assigned
}
