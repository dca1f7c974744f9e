//! The disks that brokers keep their logs on.

use kafka_wire::DescribeLogDirsRequest;

use crate::cluster::Cluster;
use crate::error::{Result, succeeded};

/// A directory of logs, and the room on its disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogDirectory {
    /// The broker that has it.
    pub broker: i32,
    /// Its path at the broker.
    pub directory: String,
    /// Bytes that are free.
    pub free_bytes: u64,
}

impl Cluster {
    /// The directories of every broker that tells how much room there is.
    ///
    /// # Errors
    /// `Broker`, and what a connection meets.
    pub fn disks(&mut self) -> Result<Vec<LogDirectory>> {
        let brokers = self.metadata(Some(&[]))?.brokers;
        // No topic: the sizes of partitions are not asked for.
        let request = DescribeLogDirsRequest {
            topics: Some(Vec::new()),
        };
        let mut disks = Vec::new();
        for broker in brokers {
            let response = self.ask_at(&broker.address, |connection| {
                let response = connection.call(&request)?;
                succeeded("asking for the room on disks", Some((response.error_code, None)))
                    .map(|()| response)
            })?;
            disks.extend(response.results.iter().filter_map(|found| {
                Some(LogDirectory {
                    broker: broker.node_id,
                    directory: String::from(&found.log_dir),
                    free_bytes: u64::try_from(found.usable_bytes).ok()?,
                })
            }));
        }
        Ok(disks)
    }
}
