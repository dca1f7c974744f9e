//! Logs over simulated disks: what a crash, a full disk, a failed flush, a panic or another thread may do to them, and what
//! not.

mod appending;
mod closing;
mod crashes;
mod full_disk;
mod gate;
mod opening;
mod panics;
mod reading;
mod rig;
mod trimming;
