//! Going through all that groups have committed, some of it at a time: for figures, so that whoever makes them holds up nobody.
//! Changes nothing. Groups may come and go in between.

use std::ops::Bound;

use record::Offset;

use super::Coordinator;
use super::contract::{GroupOffset, Name, TopicPartition};
use super::group::Kind;

/// The place that a walk has come to: behind a group, or behind an offset of one. By default the beginning.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OffsetsPlace {
    group: Option<Name>,
    /// The last partition of the group that was seen; `None` if the group is through.
    partition: Option<TopicPartition>,
}

impl Coordinator {
    /// Returns the offset that a group has committed of a partition, as far as the log has it.
    #[must_use]
    pub fn committed(&self, group: &str, partition: &TopicPartition) -> Option<Offset> {
        let offsets = &self.groups.get(group)?.offsets;
        let value = offsets.get(&partition.topic, partition.index)?;
        Some(value.committed.offset)
    }

    /// Says whether consumers have ever been members of a group, rather than only committing in its name.
    #[must_use]
    pub fn has_had_members(&self, group: &str) -> bool {
        self.groups.get(group).is_some_and(|group| match &group.kind {
            Kind::Classic(classic) => classic.protocol_type().is_some(),
            Kind::Consumer(_) => true,
        })
    }

    /// Returns the offsets that groups have committed from a place on, in the order of groups, topics and partitions; and the
    /// place to go on from, unless that was all. Looks at `work_max` offsets and groups at most. There is nothing before the log
    /// is read.
    #[must_use]
    pub fn offsets_from(
        &self,
        place: OffsetsPlace,
        work_max: usize,
    ) -> (Vec<GroupOffset>, Option<OffsetsPlace>) {
        let mut found = Vec::new();
        if !self.loaded {
            return (found, None);
        }
        let begin = match (&place.group, &place.partition) {
            (None, _) => Bound::Unbounded,
            (Some(group), None) => Bound::Excluded(group),
            (Some(group), Some(_)) => Bound::Included(group),
        };
        let mut work = 0;
        for (name, group) in self.groups.range::<Name, _>((begin, Bound::Unbounded)) {
            let is_begun = place.group.as_ref() == Some(name);
            let last = place.partition.as_ref().filter(|_| is_begun);
            for (topic, index, value) in group.offsets.after(last) {
                let partition = TopicPartition {
                    topic: Name::clone(topic),
                    index,
                };
                found.push(GroupOffset {
                    group: Name::clone(name),
                    partition: partition.clone(),
                    topic_id: value.topic_id,
                    offset: value.committed.offset,
                });
                work += 1;
                if work >= work_max {
                    return (found, Some(OffsetsPlace::behind(name, Some(partition))));
                }
            }
            work += 1;
            if work >= work_max {
                return (found, Some(OffsetsPlace::behind(name, None)));
            }
        }
        (found, None)
    }
}

impl OffsetsPlace {
    fn behind(group: &Name, partition: Option<TopicPartition>) -> OffsetsPlace {
        OffsetsPlace {
            group: Some(Name::clone(group)),
            partition,
        }
    }
}
