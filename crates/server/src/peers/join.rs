//! A node with an empty directory asks to be let into a cluster: before anything of the node runs.

use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use platform::disk::Disk;
use platform::net::Net;
use platform::random::Random;
use protocol::leader::NodeId;
use protocol::metadata::Home;
use protocol::peer::{Decoder, Join, Joined, Message, WIRE_VERSIONS};
use record::DirectoryId;
use storage::{DirectoryError, NodeIdentity, is_empty_directory, keep_identity};
use tokio::time::timeout;

use super::dial::connect;
use super::link::{BODY_BYTES_MAX, Ended, next_message, write_message};
use crate::config::{Config, HostPort};

/// The longest that a member may take to answer: it makes a change of the metadata durable.
const ANSWER: Duration = Duration::from_secs(40);

/// Why a node could not join.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// The directory cannot be used.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// No member let it in.
    #[error("no node at {addresses} (cluster.join) lets this one in: {why}")]
    Refused {
        /// The addresses.
        addresses: String,
        /// What was said last.
        why: String,
    },
}

/// Has an empty directory become that of a new node of the cluster at the addresses to join. Does nothing if there are none, or if
/// the directory is a node's already.
pub(crate) async fn join(
    disk: &Arc<dyn Disk>,
    net: &Arc<dyn Net>,
    random: &Random,
    config: &Config,
    journals: usize,
) -> Result<(), JoinError> {
    let addresses = &config.cluster.join;
    if addresses.is_empty() || !is_empty_directory(&**disk)? {
        return Ok(());
    }
    let directory = DirectoryId(random.bytes());
    let home = Home {
        directory,
        shards: u16::try_from(journals).unwrap_or(u16::MAX),
        peer: None,
        start: 0,
    };
    let mut why = String::new();
    for address in addresses {
        let asked = timeout(ANSWER, ask(net, address, config.chosen_node().map(NodeId), &home)).await;
        match asked.unwrap_or(Err(Ended::Silent)) {
            Ok(Joined { cluster, node }) => {
                let identity = NodeIdentity {
                    cluster,
                    directory,
                    node: node.0,
                    last_incarnation: Some(0),
                    journals,
                };
                keep_identity(&**disk, &identity)?;
                tracing::info!(node = node.0, %cluster, %address, "this node has joined a cluster");
                return Ok(());
            }
            Err(error) => why = error.to_string(),
        }
    }
    let addresses: Vec<String> = addresses.iter().map(HostPort::to_string).collect();
    Err(JoinError::Refused {
        addresses: addresses.join(", "),
        why,
    })
}

async fn ask(
    net: &Arc<dyn Net>,
    address: &HostPort,
    wanted: Option<NodeId>,
    home: &Home,
) -> Result<Joined, Ended> {
    let stream = connect(net, &net.resolve(&address.host, address.port)?).await?;
    let (mut input, mut output) = stream.split();
    let join = Message::Join(Join {
        versions: WIRE_VERSIONS,
        wanted,
        home: home.clone(),
    });
    write_message(&mut output, &join.encode()).await?;
    let (mut decoder, mut received) = (Decoder::new(BODY_BYTES_MAX), BytesMut::new());
    match next_message(&mut input, &mut decoder, &mut received, ANSWER).await? {
        Message::Joined(joined) => Ok(joined),
        Message::Refused(refused) => Err(Ended::Refused(refused)),
        _ => Err(Ended::OutOfPlace),
    }
}
