//! The settings of a transaction coordinator: timeouts, and the limits that come before every allocation.
//!
//! Names in parentheses are Kafka's broker configs. Data only.

use std::time::Duration;

/// The settings of a coordinator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The longest time that a transaction may stay open (`transaction.max.timeout.ms`).
    pub timeout_max: Duration,
    /// Transactional ids of one coordinator.
    pub ids_max: usize,
    /// The longest transactional id, in bytes; a record's key has room for 32,767.
    pub id_bytes_max: usize,
    /// Partitions of one transaction.
    pub partitions_max: usize,
    /// The time after which an id without an open transaction is forgotten (`transactional.id.expiration.ms`).
    pub expiration: Duration,
    /// The pause before something that the coordinator does by itself is tried again when the log refused it.
    pub check_interval: Duration,
    /// Bytes that changes may take that wait for the log, all of one coordinator together.
    pub waiting_bytes_max: usize,
    /// Bytes that all ids and their partitions may take in memory, roughly. Beyond that nothing grows.
    pub held_bytes_max: usize,
    /// Bytes of one record: it must fit into one batch of the log.
    pub record_bytes_max: usize,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            timeout_max: Duration::from_secs(15 * 60),
            ids_max: 100_000,
            id_bytes_max: 32_767,
            partitions_max: 10_000,
            expiration: Duration::from_secs(7 * 24 * 60 * 60),
            check_interval: Duration::from_secs(10),
            waiting_bytes_max: 64 * 1024 * 1024,
            held_bytes_max: 256 * 1024 * 1024,
            record_bytes_max: 7 * 1024 * 1024,
        }
    }
}
