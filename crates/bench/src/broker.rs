//! The broker that a workload asks: the option that all workloads share.

use std::time::Duration;

use client::{ClientError, Cluster, Connection, ConnectionOptions, ErrorCode, NewTopic, TopicMetadata};

/// How long a topic that was just created may take to have leaders.
const TOPIC_PATIENCE: Duration = Duration::from_secs(30);

/// Where it is.
#[derive(Debug, Clone, clap::Args)]
pub struct Broker {
    /// A broker's address (of the one that coordinates, for groups), or several with commas between
    #[arg(
        short,
        long,
        env = "ROPEWALK_BOOTSTRAP",
        value_name = "HOST:PORT",
        default_value = "127.0.0.1:9092"
    )]
    pub bootstrap: String,
}

impl Broker {
    /// Connects to the cluster that it is of.
    pub(crate) fn cluster(&self) -> Result<Cluster, ClientError> {
        Cluster::connect(&self.bootstrap, ConnectionOptions::default())
    }

    /// Makes a topic unless it is there, and waits until it can be used. Whether it was made.
    pub(crate) fn have_topic(
        cluster: &mut Cluster,
        topic: &NewTopic,
    ) -> client::Result<(TopicMetadata, bool)> {
        let is_made = match cluster.create_topic(topic) {
            Err(error) if error.code() == Some(ErrorCode::TopicAlreadyExists) => false,
            made => made.map(|()| true)?,
        };
        Ok((cluster.wait_topic(&topic.name, TOPIC_PATIENCE)?, is_made))
    }

    pub(crate) fn connection(&self) -> Result<Connection, ClientError> {
        Connection::connect(&self.bootstrap, &ConnectionOptions::default())
    }
}
