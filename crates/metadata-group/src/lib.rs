//! The metadata group: one small log that a few nodes agree on, by Raft, in which a cluster keeps its metadata.
//!
//! The algorithm is a library's (decision 0024). It stands behind the types here and nowhere else: no other crate names it. What the
//! entries mean is their user's ([`Image`]), and so is how messages reach other nodes ([`Transport`]): to this crate both are
//! bytes. It orders reconfigurations, never records, and must never be on the way of an append.
//!
//! ```text
//! propose ─► library ─► store (log, vote) ─► durable ─┐
//!               │                                     ├─► committed by a majority ─► Image::apply ─► proposer is answered
//!               └────► Transport ─► other voters ─────┘
//! ```

mod codec;
mod errors;
mod group;
mod identity;
mod image;
mod library;
mod machine;
mod message;
mod network;
mod receiver;
mod runtime;
mod settings;
mod snapshots;
mod status;
mod store;

pub use errors::{ChangeError, FoundError, ProposeError, StartError};
pub use group::{Group, Parts};
pub use identity::{EntryId, GroupIdentity, Member};
pub use image::{Entry, Image, Unusable};
pub use message::{
    ENTRY_BYTES_MAX, MESSAGE_BYTES_MAX, MessageError, SNAPSHOT_BYTES_MAX, Summary, Verdict, summary,
};
pub use network::Transport;
pub use settings::{Settings, SettingsError};
pub use status::{Status, Watch};
pub use store::{AtRest, StoreError, has_part, read_at_rest};
