//! Entries: the records of a space's log, as JSON. The key of each record says so, and which version it is.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::{Error, Result};

/// The key of an entry's record. Records with other keys are no entries, and are passed over.
pub(crate) const ENTRY_KEY: &[u8] = b"objects 1";
/// The beginning of the keys of all versions.
pub(crate) const ANY_ENTRY: &[u8] = b"objects ";
/// As much of a name as errors tell.
const NAME_CHARS_TOLD: usize = 40;
/// The longest name of an object, and the longest key of a map, in bytes.
const NAME_BYTES_MAX: usize = 1 << 10;

/// The place of something in a queue: the position of the entry that has put it there, and its step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ItemId(pub u64, pub u32);

/// Something that a transaction has read: it takes effect only if nobody has changed that since.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Read {
    /// The object.
    pub object: String,
    /// A key of a map; of other objects, and of a map as a whole, none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The position of its last change; `None` if it is not there.
    pub at: Option<u64>,
}

/// One thing that an entry does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Step {
    /// Gives a key of a map a value.
    Put {
        /// The map.
        map: String,
        /// The key.
        key: String,
        /// The value.
        value: Value,
    },
    /// Takes a key out of a map, if it is there.
    Remove {
        /// The map.
        map: String,
        /// The key.
        key: String,
    },
    /// Puts something at the end of a queue.
    Enqueue {
        /// The queue.
        queue: String,
        /// The value.
        value: Value,
    },
    /// Takes the first thing out of a queue, if there is one: whatever that is when the entry is played.
    Take {
        /// The queue.
        queue: String,
    },
    /// Takes something out of a queue, if it is there.
    Discard {
        /// The queue.
        queue: String,
        /// Its place.
        id: ItemId,
    },
    /// Adds to a counter.
    Add {
        /// The counter.
        counter: String,
        /// The summand.
        count: i64,
    },
    /// Gives a register a value.
    Set {
        /// The register.
        register: String,
        /// The value; null is none.
        value: Value,
    },
}

impl Step {
    /// The object that it changes.
    #[must_use]
    pub fn object(&self) -> &str {
        match self {
            Step::Put { map, .. } | Step::Remove { map, .. } => map,
            Step::Enqueue { queue, .. } | Step::Take { queue } | Step::Discard { queue, .. } => queue,
            Step::Add { counter, .. } => counter,
            Step::Set { register, .. } => register,
        }
    }
}

/// The reads and the steps of one transaction, which takes effect whole or not at all.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// All that it depends on.
    #[serde(rename = "if", default, skip_serializing_if = "Vec::is_empty")]
    pub reads: Vec<Read>,
    /// The steps, in this order.
    #[serde(rename = "do")]
    pub steps: Vec<Step>,
}

impl Entry {
    /// An entry of one step that depends on nothing.
    #[must_use]
    pub fn of(step: Step) -> Entry {
        Entry {
            reads: Vec::new(),
            steps: vec![step],
        }
    }

    /// The bytes of its record.
    ///
    /// # Errors
    /// `Name`: an object or a key has a name that is too long, or none.
    pub fn encode(&self) -> Result<Vec<u8>> {
        let objects = self.steps.iter().map(|step| (step.object(), true));
        let keys = self.steps.iter().filter_map(|step| match step {
            Step::Put { key, .. } | Step::Remove { key, .. } => Some((key.as_str(), false)),
            _ => None,
        });
        for (name, is_object) in objects.chain(keys) {
            if name.len() > NAME_BYTES_MAX || (is_object && name.is_empty()) {
                let kind = if is_object { "the name" } else { "the key" };
                let begin: String = name.chars().take(NAME_CHARS_TOLD).collect();
                return Err(Error::Name {
                    what: format!("{kind} {begin:?}"),
                    bytes: name.len(),
                    bytes_max: NAME_BYTES_MAX,
                });
            }
        }
        Ok(serde_json::to_vec(self).expect("its maps have text as keys"))
    }

    /// Reads the entry at a position of the log.
    ///
    /// # Errors
    /// `Unreadable`: a later version has written it, or it is damaged.
    pub fn decode(position: u64, bytes: &[u8]) -> Result<Entry> {
        serde_json::from_slice(bytes).map_err(|error| Error::Unreadable {
            position,
            why: error.to_string(),
        })
    }
}
