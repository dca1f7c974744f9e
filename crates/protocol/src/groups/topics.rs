//! The topics as a coordinator knows them: names, ids, numbers of partitions. Told by `handle_topics`, never asked for.

use std::collections::BTreeMap;

use record::TopicId;

use super::contract::Name;

/// A change of a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TopicChange {
    /// It is there, with this many partitions.
    There {
        /// Its name.
        topic: Name,
        /// Its id.
        id: TopicId,
        /// Its number of partitions.
        partition_count: i32,
    },
    /// It was deleted.
    Gone {
        /// Its id.
        id: TopicId,
    },
}

/// All topics.
#[derive(Debug, Clone, Default)]
pub(crate) struct Topics {
    by_name: BTreeMap<Name, Topic>,
    names: BTreeMap<TopicId, Name>,
    /// Rises with every change.
    version: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Topic {
    pub(crate) id: TopicId,
    pub(crate) partition_count: i32,
}

impl Topic {
    /// The number of its partitions, for sums.
    pub(crate) fn partitions(self) -> usize {
        usize::try_from(self.partition_count).unwrap_or(0)
    }
}

impl Topics {
    /// Takes a change; says whether a topic is gone, and its name.
    pub(crate) fn apply(&mut self, change: TopicChange) -> Option<(Name, TopicId)> {
        self.version += 1;
        match change {
            TopicChange::There {
                topic,
                id,
                partition_count,
            } => {
                let new = Topic { id, partition_count };
                self.names.insert(id, Name::clone(&topic));
                let old = self.by_name.insert(Name::clone(&topic), new);
                // Made anew under the same name, and the deletion was not told.
                let replaced = old.filter(|old| old.id != id)?;
                self.names.remove(&replaced.id);
                Some((topic, replaced.id))
            }
            TopicChange::Gone { id } => {
                let topic = self.names.remove(&id)?;
                if self.by_name.get(&topic).is_some_and(|known| known.id == id) {
                    self.by_name.remove(&topic);
                }
                Some((topic, id))
            }
        }
    }

    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    pub(crate) fn count(&self) -> usize {
        self.by_name.len()
    }

    pub(crate) fn named(&self, name: &str) -> Option<Topic> {
        self.by_name.get(name).copied()
    }

    pub(crate) fn with_id(&self, id: TopicId) -> Option<(&Name, Topic)> {
        let name = self.names.get(&id)?;
        Some((name, self.named(name)?))
    }

    /// All topics, sorted by name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Name, Topic)> + '_ {
        self.by_name.iter().map(|(name, topic)| (name, *topic))
    }
}
