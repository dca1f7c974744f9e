//! What the entries amount to: the seam towards whoever gives them a meaning.

use bytes::Bytes;

use crate::EntryId;

/// A committed entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its identity.
    pub id: EntryId,
    /// Its bytes, as they were proposed.
    pub bytes: Bytes,
}

/// The state that committed entries amount to. It is in memory only: a start begins with the last snapshot and goes on from there.
///
/// Calls come from the thread of the group, one at a time, in the order of the log. Each entry is applied once, or a snapshot that has it
/// is installed. The same entries must make the same image on every node.
pub trait Image: 'static {
    /// Takes in the next committed entry. Offsets rise, with gaps where the group's own entries are.
    ///
    /// # Errors
    /// It cannot be read here. The group stops then: a node that went on would come to another image than the others.
    fn apply(&mut self, entry: Entry) -> Result<(), Unusable>;

    /// Returns the whole image as bytes, at most [`SNAPSHOT_BYTES_MAX`](crate::SNAPSHOT_BYTES_MAX) of them.
    fn snapshot(&self) -> Bytes;

    /// Replaces the whole image by a snapshot, which has all entries up to `last`.
    ///
    /// # Errors
    /// The bytes are no snapshot of this image. The group stops then: a node without an image must not go on.
    fn install(&mut self, last: EntryId, snapshot: Bytes) -> Result<(), Unusable>;
}

/// An entry or a snapshot cannot be read by the image that it is for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("what the metadata group has committed is of no use here: {0}")]
pub struct Unusable(pub String);
