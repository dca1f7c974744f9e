//! The decision about the hello of a peer: it is admitted, or refused with the thing that is wrong and its remedy.
//!
//! Decided by what this node is and what its metadata says of the peer, and by nothing that the peer says of itself beyond its hello.
//! A node that was lost, replaced or copied must not get in under the id of another.

use record::{ClusterId, DirectoryId, Offset};

use super::hello::{Hello, Reason, Refused, ShardPair, Versions};
use crate::leader::NodeId;
use crate::metadata::FeatureLevel;

/// The node that decides, as its own hellos tell it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Own {
    /// The versions of the messages that it speaks: [`super::WIRE_VERSIONS`], but in tests.
    pub versions: Versions,
    /// Its cluster.
    pub cluster: ClusterId,
    /// Its id.
    pub node: NodeId,
    /// The directory that it runs over.
    pub directory: DirectoryId,
    /// The number of its start, as the metadata counts them.
    pub incarnation: u64,
    /// The number of its shards.
    pub shards: u16,
    /// The newest feature level that it knows.
    pub feature_level: FeatureLevel,
    /// Its cluster's, as far as it knows.
    pub cluster_level: FeatureLevel,
    /// Its image of the metadata reflects every command below this offset of the metadata log.
    pub image_offset: Offset,
}

impl Own {
    /// The hello of this node, of a connection between two shards.
    #[must_use]
    pub fn hello(&self, pair: ShardPair) -> Hello {
        Hello {
            versions: self.versions,
            cluster: self.cluster,
            node: self.node,
            directory: self.directory,
            incarnation: self.incarnation,
            shards: self.shards,
            pair,
            feature_level: self.feature_level,
            image_offset: self.image_offset,
        }
    }
}

/// A node as this node's metadata has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownNode {
    /// Its directory.
    pub directory: DirectoryId,
    /// Its latest incarnation.
    pub incarnation: u64,
}

/// A peer that was admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Admitted {
    /// The version of the messages from here on: the newest that both speak.
    pub version: u16,
    /// The peer's hello.
    pub peer: Hello,
}

/// Decides about a hello. `known` is what the metadata has under the node id of the hello.
///
/// An incarnation that the metadata has not heard of yet is admitted: this node's image may be older than the peer's start.
///
/// # Errors
/// The refusal, to be sent before the connection is closed. The first that applies, in the order of [`Reason::ALL`]; a feature level comes last.
pub fn admit(own: &Own, known: Option<&KnownNode>, hello: &Hello) -> Result<Admitted, Refused> {
    // First: fields of other versions may mean something else.
    let version = check_versions(own, hello)?;
    check_cluster(own, hello)?;
    check_other(own, hello)?;
    let known = known.ok_or_else(|| unknown_node(own, hello))?;
    check_directory(own, known, hello)?;
    check_incarnation(known, hello)?;
    check_shards(own, hello)?;
    check_level(own, hello)?;
    Ok(Admitted {
        version,
        peer: *hello,
    })
}

fn refuse<T>(reason: Reason, text: String) -> Result<T, Refused> {
    Err(Refused::new(reason, text))
}

fn check_versions(own: &Own, hello: &Hello) -> Result<u16, Refused> {
    if let Some(version) = own.versions.newest_common(hello.versions) {
        return Ok(version);
    }
    let (ours, theirs) = (own.versions, hello.versions);
    let older = match theirs.highest < ours.lowest {
        true => hello.node,
        false => own.node,
    };
    let text = format!(
        "node {} speaks versions {} to {} of the messages between nodes, and node {} speaks {} to {}: upgrade node {older}",
        hello.node, theirs.lowest, theirs.highest, own.node, ours.lowest, ours.highest,
    );
    refuse(Reason::Versions, text)
}

fn check_cluster(own: &Own, hello: &Hello) -> Result<(), Refused> {
    if hello.cluster == own.cluster {
        return Ok(());
    }
    let text = format!(
        "node {} is of cluster {}, and node {} at this address is of cluster {}: give node {0} the addresses of its own cluster, or \
         have it join this one with an empty directory",
        hello.node, hello.cluster, own.node, own.cluster,
    );
    refuse(Reason::Cluster, text)
}

/// Two processes over copies of one directory look like one to each other.
fn check_other(own: &Own, hello: &Hello) -> Result<(), Refused> {
    if (hello.node, hello.directory) != (own.node, own.directory) {
        return Ok(());
    }
    let text = format!(
        "node {} with directory {} speaks to itself: take its own address out of the addresses that it connects to; if two processes \
         run over copies of this directory, stop one and start it as another node with an empty directory",
        hello.node, hello.directory,
    );
    refuse(Reason::Itself, text)
}

fn unknown_node(own: &Own, hello: &Hello) -> Refused {
    let text = format!(
        "node {} is not a member as far as node {} knows, whose metadata ends at offset {}: have it join the cluster; if it has \
         joined already, try again when node {1} has heard of it",
        hello.node, own.node, own.image_offset,
    );
    Refused::new(Reason::UnknownNode, text)
}

fn check_directory(own: &Own, known: &KnownNode, hello: &Hello) -> Result<(), Refused> {
    if hello.directory == own.directory {
        // Another id over this node's own directory.
        let text = format!(
            "directory {} belongs to node {}, not to node {}: start node {2} over a directory of its own",
            hello.directory, own.node, hello.node,
        );
        return refuse(Reason::Directory, text);
    }
    if hello.directory == known.directory {
        return Ok(());
    }
    let text = format!(
        "node id {} belongs to directory {}, and was used with directory {}: start the node over the first, or have it replaced; a \
         node that is new needs an id of its own",
        hello.node, known.directory, hello.directory,
    );
    refuse(Reason::Directory, text)
}

fn check_incarnation(known: &KnownNode, hello: &Hello) -> Result<(), Refused> {
    if hello.incarnation >= known.incarnation {
        return Ok(());
    }
    let text = format!(
        "node {} comes as its incarnation {}, and incarnation {} has started since: stop the older process; if there is none, the \
         directory is an older copy, and the node is to be replaced",
        hello.node, hello.incarnation, known.incarnation,
    );
    refuse(Reason::Incarnation, text)
}

fn check_shards(own: &Own, hello: &Hello) -> Result<(), Refused> {
    if hello.pair == ShardPair::METADATA {
        return Ok(());
    }
    if hello.shards != own.shards {
        let text = format!(
            "node {} has {} shards, and node {} has {}: nodes with partitions in common have equally many, have it join anew with an empty directory",
            hello.node, hello.shards, own.node, own.shards,
        );
        return refuse(Reason::Shards, text);
    }
    for (node, shard, shards) in [
        (hello.node, hello.pair.from, hello.shards),
        (own.node, hello.pair.to, own.shards),
    ] {
        if shard >= shards {
            let text = format!(
                "the connection is of shard {shard} of node {node}, which has {shards}, counted from 0: ask for a lower one"
            );
            return refuse(Reason::Shards, text);
        }
    }
    Ok(())
}

/// A program of before the cluster's level could not read its metadata.
fn check_level(own: &Own, hello: &Hello) -> Result<(), Refused> {
    if hello.feature_level >= own.cluster_level {
        return Ok(());
    }
    let text = format!(
        "the cluster has feature level {}, and node {} runs a release that knows levels up to {}: start it with a newer release",
        own.cluster_level, hello.node, hello.feature_level,
    );
    refuse(Reason::Versions, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::{REFUSED_TEXT_BYTES_MAX, WIRE_VERSIONS};

    /// Node 1.
    fn own() -> Own {
        Own {
            versions: WIRE_VERSIONS,
            cluster: ClusterId([0xcc; 16]),
            node: NodeId(1),
            directory: DirectoryId([0xd1; 16]),
            incarnation: 7,
            shards: 4,
            feature_level: FeatureLevel(3),
            cluster_level: FeatureLevel(2),
            image_offset: Offset(120),
        }
    }

    /// Node 2, as node 1 has heard of it.
    fn known() -> KnownNode {
        KnownNode {
            directory: DirectoryId([0xd2; 16]),
            incarnation: 5,
        }
    }

    /// The hello of node 2.
    fn hello() -> Hello {
        Hello {
            node: NodeId(2),
            directory: known().directory,
            incarnation: known().incarnation,
            ..own().hello(ShardPair { from: 3, to: 3 })
        }
    }

    fn assert_refused(own: &Own, known: Option<&KnownNode>, hello: &Hello, reason: Reason, text: &str) {
        let refused = admit(own, known, hello).expect_err("it is refused");
        assert_eq!((refused.reason(), refused.text()), (reason, text));
    }

    #[test]
    fn a_member_is_admitted_with_the_newest_common_version() {
        let admitted = Admitted {
            version: WIRE_VERSIONS.highest,
            peer: hello(),
        };
        assert_eq!(admit(&own(), Some(&known()), &hello()), Ok(admitted));
        let (old, new) = (
            Versions {
                lowest: 1,
                highest: 3,
            },
            Versions {
                lowest: 2,
                highest: 9,
            },
        );
        for (ours, theirs) in [(old, new), (new, old)] {
            let own = Own {
                versions: ours,
                ..own()
            };
            let hello = Hello {
                versions: theirs,
                ..hello()
            };
            let admitted = admit(&own, Some(&known()), &hello).expect("they have 2 and 3 in common");
            assert_eq!(admitted.version, 3);
        }
    }

    #[test]
    fn an_incarnation_that_is_news_is_admitted() {
        let hello = Hello {
            incarnation: 6,
            ..hello()
        };
        assert!(admit(&own(), Some(&known()), &hello).is_ok());
    }

    #[test]
    fn versions_without_a_common_one_are_refused() {
        let newer = Hello {
            versions: Versions {
                lowest: 8,
                highest: 9,
            },
            ..hello()
        };
        assert_refused(
            &own(),
            Some(&known()),
            &newer,
            Reason::Versions,
            "node 2 speaks versions 8 to 9 of the messages between nodes, and node 1 speaks 1 to 7: upgrade node 1",
        );
        let own = Own {
            versions: newer.versions,
            ..own()
        };
        assert_refused(
            &own,
            Some(&known()),
            &hello(),
            Reason::Versions,
            "node 2 speaks versions 1 to 7 of the messages between nodes, and node 1 speaks 8 to 9: upgrade node 2",
        );
    }

    #[test]
    fn a_release_of_before_the_clusters_level_is_refused() {
        let of_level = |level| Hello {
            feature_level: FeatureLevel(level),
            ..hello()
        };
        assert!(admit(&own(), Some(&known()), &of_level(2)).is_ok());
        assert_refused(
            &own(),
            Some(&known()),
            &of_level(1),
            Reason::Versions,
            "the cluster has feature level 2, and node 2 runs a release that knows levels up to 1: start it with a newer release",
        );
    }

    #[test]
    fn another_cluster_is_refused() {
        let hello = Hello {
            cluster: ClusterId([0xee; 16]),
            ..hello()
        };
        assert_refused(
            &own(),
            Some(&known()),
            &hello,
            Reason::Cluster,
            "node 2 is of cluster eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee, and node 1 at this address is of cluster \
             cccccccccccccccccccccccccccccccc: give node 2 the addresses of its own cluster, or have it join this one with an \
             empty directory",
        );
    }

    #[test]
    fn a_node_does_not_speak_to_itself() {
        let hello = own().hello(ShardPair { from: 0, to: 0 });
        let known = KnownNode {
            directory: own().directory,
            incarnation: 7,
        };
        assert_refused(
            &own(),
            Some(&known),
            &hello,
            Reason::Itself,
            "node 1 with directory d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1 speaks to itself: take its own address out of the addresses \
             that it connects to; if two processes run over copies of this directory, stop one and start it as another node with an \
             empty directory",
        );
    }

    #[test]
    fn a_stranger_is_refused() {
        let hello = Hello {
            node: NodeId(9),
            ..hello()
        };
        assert_refused(
            &own(),
            None,
            &hello,
            Reason::UnknownNode,
            "node 9 is not a member as far as node 1 knows, whose metadata ends at offset 120: have it join the cluster; if it has \
             joined already, try again when node 1 has heard of it",
        );
    }

    #[test]
    fn a_node_id_belongs_to_one_directory() {
        let other = DirectoryId([0xdd; 16]);
        let refusal = |node| {
            format!(
                "node id {node} belongs to directory {}, and was used with directory {other}: start the node over the first, or \
                 have it replaced; a node that is new needs an id of its own",
                if node == 1 {
                    own().directory
                } else {
                    known().directory
                },
            )
        };
        let moved = Hello {
            directory: other,
            ..hello()
        };
        assert_refused(&own(), Some(&known()), &moved, Reason::Directory, &refusal(2));
        // A node of the same id as this one.
        let double = Hello {
            node: NodeId(1),
            directory: other,
            ..hello()
        };
        let known_self = KnownNode {
            directory: own().directory,
            incarnation: 7,
        };
        assert_refused(&own(), Some(&known_self), &double, Reason::Directory, &refusal(1));
        // A node of another id over this one's directory.
        let thief = Hello {
            directory: own().directory,
            ..hello()
        };
        assert_refused(
            &own(),
            Some(&known()),
            &thief,
            Reason::Directory,
            "directory d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1 belongs to node 1, not to node 2: start node 2 over a directory of its own",
        );
    }

    #[test]
    fn an_older_incarnation_is_refused() {
        let hello = Hello {
            incarnation: 4,
            ..hello()
        };
        assert_refused(
            &own(),
            Some(&known()),
            &hello,
            Reason::Incarnation,
            "node 2 comes as its incarnation 4, and incarnation 5 has started since: stop the older process; if there is none, the \
             directory is an older copy, and the node is to be replaced",
        );
    }

    #[test]
    fn shards_that_are_not_there_are_refused() {
        for (pair, node, shard) in [
            (ShardPair { from: 0, to: 4 }, 1, 4),
            (ShardPair { from: 4, to: 0 }, 2, 4),
        ] {
            let hello = Hello { pair, ..hello() };
            let text = format!(
                "the connection is of shard {shard} of node {node}, which has 4, counted from 0: ask for a lower one"
            );
            assert_refused(&own(), Some(&known()), &hello, Reason::Shards, &text);
        }
    }

    #[test]
    fn the_longest_texts_are_refusals() {
        let versions = Versions {
            lowest: u16::MAX,
            highest: u16::MAX,
        };
        let own = Own {
            node: NodeId(i32::MAX),
            image_offset: Offset(i64::MAX),
            ..own()
        };
        let hello = Hello {
            node: NodeId(i32::MAX),
            incarnation: u64::MAX - 1,
            ..hello()
        };
        let late = KnownNode {
            incarnation: u64::MAX,
            ..known()
        };
        let moved = KnownNode {
            directory: DirectoryId([0; 16]),
            ..known()
        };
        let cases = [
            (None, Hello { versions, ..hello }),
            (
                None,
                Hello {
                    cluster: ClusterId::default(),
                    ..hello
                },
            ),
            (
                None,
                Hello {
                    directory: own.directory,
                    ..hello
                },
            ),
            (None, hello),
            (Some(&moved), hello),
            (Some(&late), hello),
        ];
        for (known, hello) in cases {
            let refused = admit(&own, known, &hello).expect_err("it is refused");
            assert!(refused.text().len() <= REFUSED_TEXT_BYTES_MAX);
        }
    }
}
