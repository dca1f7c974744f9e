//! Giving up the beginning of a topic with one order: each partition at the same cut, so that the rest is the end of the order.

use std::rc::Rc;

use futures_util::future::join_all;
use protocol::metadata::Topic;
use record::{Offset, PartitionId, Position};
use shard::AppendRefusal;

use super::home::{Home, Unfound};
use crate::core::Core;

/// Why a topic was not trimmed. Some partitions may have been.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Untrimmed {
    /// No record has the position yet.
    #[error("no record has position {wanted} yet; the topic can be read up to {ordered}", wanted = .wanted.0, ordered = .ordered.0)]
    OutOfRange {
        /// The position that was asked for.
        wanted: Position,
        /// The first one that is not ordered.
        ordered: Position,
    },
    /// Another node leads one of its partitions.
    #[error(
        "another node leads partition {index}, and a trim at a position is for a node that leads all: read the cut at the position, and trim each partition at its \
         offset"
    )]
    Elsewhere {
        /// The partition.
        index: i32,
    },
    #[error(transparent)]
    Unfound(#[from] Unfound),
    #[error(transparent)]
    Refused(#[from] AppendRefusal),
}

impl Home {
    /// Gives up all records whose position is below this one, or all that are ordered, durably. Returns the first position that is kept.
    ///
    /// # Errors
    /// See [`Untrimmed`].
    pub(crate) async fn trim(
        self: &Rc<Self>,
        core: &Rc<Core>,
        before: Option<Position>,
    ) -> Result<Position, Untrimmed> {
        let ordered = self.ordered(core).await?;
        let wanted = before.unwrap_or(ordered);
        let vector = self.vector_at(core, wanted).await?;
        let vector = vector.ok_or(Untrimmed::OutOfRange { wanted, ordered })?;
        let topic = self.topic();
        // All of them are trimmed, or none.
        if let Some(index) = self.led_elsewhere(core) {
            return Err(Untrimmed::Elsewhere { index });
        }
        let trims = (0..).zip(vector).map(|(index, first_kept)| {
            let id = PartitionId { topic, index };
            let trim = move |core: Rc<Core>| async move { core.trim(id, first_kept).await };
            core.facts.mailboxes.carry_out(core.facts.owner_of(id), trim)
        });
        for trimmed in join_all(trims).await {
            trimmed.map_err(Unfound::from)??;
        }
        Ok(self.earliest(core).await?)
    }

    fn led_elsewhere(&self, core: &Rc<Core>) -> Option<i32> {
        core.with_metadata(|metadata| {
            let topic = metadata.topic(self.topic())?;
            let mut leaders = (0..).zip(metadata.partitions(topic));
            let elsewhere = leaders.find(|(_, state)| state.leader != core.facts.node);
            elsewhere.map(|(index, _)| index)
        })
    }

    /// The first position whose record is kept; the first that is not ordered if there is none.
    ///
    /// # Errors
    /// See [`Unfound`].
    pub(crate) async fn earliest(self: &Rc<Self>, core: &Rc<Core>) -> Result<Position, Unfound> {
        let topic = self.topic();
        let count = core.with_metadata(|metadata| metadata.topic(topic).map_or(0, Topic::partition_count));
        let asked = (0..count).map(|index| {
            let id = PartitionId { topic, index };
            let shard = core.facts.shard_of(id);
            let ask = move |core: Rc<Core>| async move { core.shard(shard).log_start(id) };
            core.facts.mailboxes.carry_out(core.facts.core_of(shard), ask)
        });
        let mut log_starts = Vec::new();
        for (index, log_start) in (0..).zip(join_all(asked).await) {
            let told = self.log_start(index);
            let here = log_start?.ok();
            // Nothing may be passed over of one whose leader has not told yet.
            log_starts.push(told.max(here).unwrap_or(Offset::ZERO));
        }
        self.first_kept(core, &log_starts).await
    }
}

impl Core {
    /// Gives up the beginning of a partition of this core, durably, and tells the log. Returns the first offset that is kept.
    ///
    /// # Errors
    /// As [`shard::Shard::trim`].
    pub(crate) async fn trim(&self, id: PartitionId, first_kept: Offset) -> Result<Offset, AppendRefusal> {
        let shard = self.shard(self.facts.shard_of(id)).clone();
        let trimmed = shard.trim(id, first_kept).await?;
        let now = self.facts.clock.monotonic();
        let name = self.with_metadata(|metadata| metadata.topic(id.topic).map(|topic| topic.name.clone()));
        if let Some(name) = name {
            self.facts.change_log.tell_trim(now, &name, id.index, trimmed);
        }
        Ok(trimmed.next)
    }
}
