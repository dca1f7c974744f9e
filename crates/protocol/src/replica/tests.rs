//! Several replicas, their disks, their links and the metadata in one place: scenarios as text, runs by seed, a model of all
//! runs of a small cluster, and the proof that these catch planted bugs.

mod bytes;
mod checker;
mod model;
mod planted_bugs;
mod random;
mod scenarios;
mod simulation;
mod traps;
mod world;
