//! Storage of one core: the journal that makes appends durable, the segments they are laid out into, the caches
//! they are read from, and recovery.
//!
//! Everything is synchronous and owned by one thread. What must block is a job: *planned on the owner's thread, run on
//! any, applied on the owner's thread*. Nothing here knows topics' names or clients, nor decides what is committed.

mod batch_bytes;
mod check;
mod checkpoint;
mod checksum;
mod clock_file;
mod compaction;
mod damage;
mod encoding;
mod fault;
mod import;
mod inspect;
mod journal;
mod node_file;
mod partition;
mod peers_file;
mod repair;
mod scrub;
mod segment;
mod slab;
mod store;
mod trouble;
mod witness;

pub use batch_bytes::{BatchBytes, BatchMemory, SharedMemory};
pub use check::{CheckProgress, CheckReport, check, stray_directories};
pub use checksum::{DirectoryId, JournalIdentity};
pub use clock_file::{read_last_ran, write_last_ran};
pub use compaction::{CompactionPolicy, KEY_BYTES, StepResult};
pub use damage::{Damage, Mark};
pub use fault::{Doing, Fault};
pub use import::{Import, ImportError, ImportedFile, SegmentOffer};
pub use inspect::{
    ChunkListing, EntryListing, FrameListing, SegmentListing, list_frames, list_segments, list_witnesses,
    stored_batches,
};
pub use journal::{Flush, JournalSizes, PrepareFile, Reserve, StageError};
pub use node_file::{
    DirectoryError, NodeIdentity, identify, is_empty_directory, keep_identity, look_before_opening,
};
pub use partition::SegmentRolling;
pub use peers_file::{read_peers, write_peers};
pub use repair::{Repair, RepairStep, Rewrite};
pub use scrub::{Scrub, Scrubbed};
pub use store::{
    Aborted, AbortedFound, AbortedJob, AbortedOutcome, AgeLimit, Append, CheckpointJob, Compacted,
    CompactionJob, CompactionNeed, CompactionOrder, LayoutJob, Located, NotNow, REMOVAL_PAUSE, RETRY_AFTER,
    Read, ReadError, ReadJob, ReadOutcome, Recovered, RecoveredPartition, RemovalJob, Removed, RepairEnd,
    SealedSegment, SegmentRead, StepFailed, Store, StoreConfig, StoreStatus,
};
pub use trouble::Trouble;
pub use witness::Witness;
