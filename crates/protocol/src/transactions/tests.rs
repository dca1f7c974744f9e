//! Scenarios of state and actions, runs by seed with failures and restarts, and the proof that these catch planted bugs.

mod ends;
mod init;
mod limits;
mod markers;
mod partitions;
mod planted_bugs;
mod random;
mod tally;
mod timeouts;
mod world;
