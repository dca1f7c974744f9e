//! Tests of the store as a whole, cheapest first: reading, layout and removal; recovery; then everything that a disk can do
//! to it: crashes at every point, damage of every byte, failures of every call; and that these tests catch planted bugs.

mod aborted;
mod adoption;
mod behind;
mod compacted;
mod compaction;
mod compaction_beside;
mod corruption;
mod crashes;
mod cutting;
mod events;
mod failures;
mod forged_entries;
mod forgeries;
mod full_disks;
mod history;
mod importing;
mod layouts;
mod lost_frames;
mod model;
mod newer_formats;
mod open_segments;
mod pairs;
mod planted_bugs;
mod read_ahead;
mod reads;
mod recovery;
mod removals;
mod repairing;
mod returning;
pub(crate) mod rig;
mod tombstones;
mod unfinished_passes;
mod witnesses;
mod workload;
