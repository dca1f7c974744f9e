//! Feature levels: the forms that the nodes of a cluster may write, so that each of them can read all.
//!
//! A program knows every level up to its newest. The cluster's stands in the image: an operator raises it when all nodes run programs that know
//! the next one. Until then each node can be started with the program before, and afterwards such a program is refused. It never falls.

use std::fmt;

use record::ClusterId;

use super::topic_config::ConfigChange;
use super::{ApplyError, Command, Metadata, PlanError, is_order_log};
use crate::leader::NodeId;

/// A feature level; the first is 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FeatureLevel(pub u16);

impl fmt::Display for FeatureLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FeatureLevel {
    /// The level of every cluster that tells none.
    pub const FIRST: FeatureLevel = FeatureLevel(1);
    /// Several nodes may hold a compacted log, and each compacts its own.
    const COMPACTED_REPLICAS: FeatureLevel = FeatureLevel(3);
    /// Several nodes may hold a topic with one order, and the log of that order.
    const ORDERED_REPLICAS: FeatureLevel = FeatureLevel(4);
    /// Several nodes may hold logs with transactions, and ask each other about them.
    pub(super) const TRANSACTIONS: FeatureLevel = FeatureLevel(5);
    /// Groups may have configs.
    const GROUP_CONFIGS: FeatureLevel = FeatureLevel(5);
    /// The newest that this program knows. Levels themselves can be told since 2.
    pub const NEWEST: FeatureLevel = FeatureLevel(5);

    /// The least level that a program knows which speaks messages between nodes up to this version.
    #[must_use]
    pub fn of_wire_version(highest: u16) -> FeatureLevel {
        match highest {
            ..3 => FeatureLevel(1),
            3..5 => FeatureLevel(2),
            5 => FeatureLevel(3),
            6 => FeatureLevel(4),
            _ => FeatureLevel(5),
        }
    }
}

impl Command {
    /// The first level of a cluster in which it may stand in the log.
    fn level(&self) -> FeatureLevel {
        match self {
            Command::CreateTopic { name, .. } if is_order_log(name) => FeatureLevel::ORDERED_REPLICAS,
            Command::CreateTopic { config, .. }
            | Command::SetTopicConfig { changes: config, .. }
            | Command::SetBrokerConfig { changes: config, .. } => {
                let levels = config.iter().map(ConfigChange::level);
                levels.max().unwrap_or(FeatureLevel::FIRST)
            }
            Command::SetGroupConfig { .. } => FeatureLevel::GROUP_CONFIGS,
            _ => FeatureLevel::FIRST,
        }
    }
}

impl Metadata {
    /// The first commands of a new cluster: this program founds it, so it has the newest level.
    #[must_use]
    pub fn founding(cluster: ClusterId) -> [Command; 2] {
        let level = FeatureLevel::NEWEST;
        [
            Command::FormatCluster { cluster },
            Command::SetFeatureLevel { level },
        ]
    }

    /// The cluster's level.
    #[must_use]
    pub fn level(&self) -> FeatureLevel {
        self.level
    }

    /// Says whether several nodes may hold a compacted log: nodes of earlier releases take none with gaps.
    #[must_use]
    pub fn replicates_compacted(&self) -> bool {
        self.level >= FeatureLevel::COMPACTED_REPLICAS
    }

    /// Says whether several nodes may hold a topic with one order: nodes of earlier releases know nothing of it.
    #[must_use]
    pub fn orders_replicas(&self) -> bool {
        self.level >= FeatureLevel::ORDERED_REPLICAS
    }

    /// Says whether producers may have transactions: where other nodes can hold a log, or coordinate them, those must know of them.
    #[must_use]
    pub fn takes_transactions(&self) -> bool {
        self.level >= FeatureLevel::TRANSACTIONS || !self.can_be_joined()
    }

    pub(super) fn check_level(&self, command: &Command) -> Result<(), ApplyError> {
        match command.level() {
            wanted if wanted > self.level => Err(ApplyError::LevelTooLow {
                wanted,
                level: self.level,
            }),
            _ => Ok(()),
        }
    }

    pub(super) fn check_raise(&self, level: FeatureLevel) -> Result<(), ApplyError> {
        match level > self.level {
            true => Ok(()),
            false => Err(ApplyError::LevelReached { level: self.level }),
        }
    }

    /// Plans that the cluster gets the newest level that the programs of all its nodes know. `known_by` tells what a node's knows, if it is there.
    ///
    /// # Errors
    /// `LevelUnknown` if a node is away, and [`ApplyError::LevelReached`] if there is nothing to raise.
    pub fn plan_level(
        &self,
        known_by: impl Fn(NodeId) -> Option<FeatureLevel>,
    ) -> Result<Command, PlanError> {
        let mut level = FeatureLevel::NEWEST;
        for (node, _) in self.nodes() {
            level = level.min(known_by(node).ok_or(PlanError::LevelUnknown { node })?);
        }
        self.checked(Command::SetFeatureLevel { level })
    }
}

#[cfg(test)]
mod tests {
    use record::Offset;

    use super::*;
    use crate::encoding::DecodeError;
    use crate::metadata::ImageWriter;
    use crate::metadata::tests::{cluster_of, new_topic, planned, topic_id};

    const NODES: [NodeId; 2] = [NodeId(0), NodeId(1)];

    fn raise(level: u16) -> Command {
        Command::SetFeatureLevel {
            level: FeatureLevel(level),
        }
    }

    fn chain() -> Command {
        Command::SetTopicConfig {
            id: topic_id(1),
            changes: vec![ConfigChange::set("ropewalk.replication", "chain")],
            client: None,
        }
    }

    /// A cluster of the first level, with a topic.
    fn cluster() -> Metadata {
        let mut image = cluster_of(2);
        let topic = planned(
            &image,
            &new_topic(1, "orders", 1, 2),
            &mut crate::metadata::Plans::default(),
        );
        image.apply(&topic).expect("planned");
        image
    }

    fn written(image: &Metadata) -> bytes::Bytes {
        let mut writer = ImageWriter::begin(image, Offset::ZERO);
        while writer.go_on(image, 1 << 20) {}
        writer.finish()
    }

    #[test]
    fn a_level_rises_to_what_all_nodes_know_and_no_node_may_be_away() {
        let mut image = cluster();
        let plan = |image: &Metadata, known: [Option<u16>; 2]| {
            image.plan_level(|node| {
                let index = NODES
                    .iter()
                    .position(|known| *known == node)
                    .expect("a node of it");
                known[index].map(FeatureLevel)
            })
        };
        let away = PlanError::LevelUnknown { node: NODES[1] };
        assert_eq!(plan(&image, [Some(2), None]), Err(away));
        let reached = |level| {
            Err(ApplyError::LevelReached {
                level: FeatureLevel(level),
            }
            .into())
        };
        assert_eq!(plan(&image, [Some(2), Some(1)]), reached(1));
        assert_eq!(plan(&image, [Some(2), Some(3)]), Ok(raise(2)));
        assert_eq!(
            plan(&image, [Some(3), Some(9)]),
            Ok(raise(3)),
            "no further than this program"
        );
        image.apply(&raise(3)).expect("it is higher");
        assert_eq!(plan(&image, [Some(3), Some(3)]), reached(3));
        assert!(image.apply(&raise(2)).is_err(), "it never falls");
        assert_eq!(image.level(), FeatureLevel(3));
    }

    #[test]
    fn what_older_programs_do_not_read_waits_for_the_level() {
        let mut image = cluster();
        let before = image.clone();
        let too_low = ApplyError::LevelTooLow {
            wanted: FeatureLevel(2),
            level: FeatureLevel(1),
        };
        assert_eq!(image.apply(&chain()), Err(too_low));
        assert_eq!(image, before);
        // Those of the first level read images up to version 5, and commands up to 6.
        assert!(written(&image)[0] <= 5);
        image.apply(&raise(2)).expect("it is higher");
        image.apply(&chain()).expect("all nodes know it");
        assert_eq!(written(&image)[0], 6);
        let read =
            Metadata::new(crate::metadata::TopicConfig::new()).read_image(Offset::ZERO, &written(&image));
        assert_eq!(read, Ok(image));
    }

    #[test]
    fn a_level_that_this_program_does_not_know_ends_it_by_name() {
        let unknown = DecodeError::UnknownLevel {
            got: FeatureLevel::NEWEST.0 + 1,
            known: FeatureLevel::NEWEST.0,
        };
        let bytes = raise(FeatureLevel::NEWEST.0 + 1).encode();
        assert_eq!(Command::decode(&bytes), Err(unknown.clone()));
        assert!(unknown.to_string().contains("feature level 6"), "{unknown}");
        assert!(Command::decode(&raise(0).encode()).is_err());
    }

    #[test]
    fn a_release_takes_its_own_for_one_that_knows_all() {
        let own = FeatureLevel::of_wire_version(crate::peer::WIRE_VERSIONS.highest);
        assert_eq!(own, FeatureLevel::NEWEST);
    }

    #[test]
    fn a_new_cluster_has_the_newest_level() {
        let mut image = Metadata::new(crate::metadata::TopicConfig::new());
        for command in Metadata::founding(ClusterId([7; 16])) {
            image.apply(&command).expect("nothing was before");
        }
        assert_eq!(image.level(), FeatureLevel::NEWEST);
    }
}
