//! Names of the topics of a directory at rest: files know them by their ids alone. Reads only.

use std::collections::BTreeMap;
use std::sync::Arc;

use platform::disk::Disk;
use protocol::metadata::{METADATA_NAME, METADATA_PARTITION, Metadata, Replay, TopicConfig};
use protocol::order::keeper_of;
use record::{Limits, Offset, PartitionId, TopicId};
use shard::replay_batches;
use storage::{NodeIdentity, stored_batches};

use crate::controller::take_record;
use crate::metadata_at_rest::MetadataAtRest;

/// The names of topics that were not deleted.
#[derive(Debug, Default)]
pub struct TopicNames {
    names: BTreeMap<TopicId, Arc<str>>,
}

impl TopicNames {
    /// Reads the metadata of a directory that no node is running on. Blocks.
    ///
    /// # Errors
    /// A sentence: the metadata, or a journal before it, is damaged or cannot be read.
    pub fn read(disk: &Arc<dyn Disk>, identity: &NodeIdentity) -> Result<TopicNames, String> {
        // Names of topics that were just being made or deleted may be among a group's, or not.
        let of_group = MetadataAtRest::read(disk, identity).map_err(|fault| fault.to_string())?;
        let metadata = match of_group {
            Some(found) => found.image,
            None => of_journals(disk, identity)?,
        };
        // What keeps a topic's order is called after it, though nobody else can name it.
        let named = metadata.topics().flat_map(|topic| {
            let keeper: Arc<str> = format!("{}@order", topic.name).into();
            [(topic.id, topic.name.clone()), (keeper_of(topic.id), keeper)]
        });
        let own = (METADATA_PARTITION.topic, METADATA_NAME.into());
        Ok(TopicNames {
            names: named.chain([own]).collect(),
        })
    }

    /// The name of a partition's topic, if it is known.
    #[must_use]
    pub fn topic(&self, partition: PartitionId) -> Option<&str> {
        self.names.get(&partition.topic).map(AsRef::as_ref)
    }

    /// The name of a partition: `NAME-INDEX`, or `ID-INDEX` if the topic's name is not known.
    #[must_use]
    pub fn partition(&self, partition: PartitionId) -> String {
        match self.topic(partition) {
            Some(name) => format!("{name}-{}", partition.index),
            None => partition.to_string(),
        }
    }

    /// Says if this partition may be meant by `words`: `NAME`, `NAME-INDEX`, `ID` or `ID-INDEX`.
    #[must_use]
    pub fn is_meant(&self, words: &str, partition: PartitionId) -> bool {
        words == self.partition(partition)
            || Some(words) == self.topic(partition)
            || words == partition.to_string()
            || words == partition.topic.to_string()
    }
}

/// The metadata of a node that is alone.
fn of_journals(disk: &Arc<dyn Disk>, identity: &NodeIdentity) -> Result<Metadata, String> {
    let mut replay = Replay::new(Metadata::new(TopicConfig::new()));
    for journal in identity.journal_identities() {
        let stored = stored_batches(disk, &journal, METADATA_PARTITION);
        for batches in stored.map_err(|fault| fault.to_string())? {
            replay_batches(&batches, Offset::ZERO, &Limits::default(), &mut |record| {
                take_record(&mut replay, record)
            })
            .map_err(|error| error.to_string())?;
        }
    }
    let (metadata, _) = replay
        .finish(identity.cluster)
        .map_err(|error| error.to_string())?;
    Ok(metadata)
}
