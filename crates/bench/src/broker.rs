//! The broker that a workload asks: the option that all workloads share.

use client::{ClientError, Cluster, Connection, ConnectionOptions};

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

    /// Connects to it alone.
    pub(crate) fn connection(&self) -> Result<Connection, ClientError> {
        Connection::connect(&self.bootstrap, &ConnectionOptions::default())
    }
}
