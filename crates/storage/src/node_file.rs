//! The file that says whose directory this is: `node.toml`, made with the directory.
//!
//! Every checksum covers this identity, so a directory without it, or with another one, is never written to.

use std::io;
use std::path::Path;

use platform::disk::{Disk, RealDisk};
use platform::random::Random;
use record::ClusterId;

use crate::checksum::{DirectoryId, JournalIdentity};
use crate::fault;

const NAME: &str = "node.toml";
const FORMAT: u32 = 2;
const KEYS: [&str; 6] = [
    "format",
    "cluster",
    "directory",
    "node",
    "last_incarnation",
    "journals",
];
/// The node of a directory that nobody gave another number.
const FIRST_NODE: i32 = 1;
/// Where no incarnation was proposed yet.
const NO_INCARNATION: i64 = -1;
const BYTES_MAX: usize = 64 << 10;
/// The directory that a file system itself makes in the root of a volume (ext4).
const LOST_AND_FOUND: &str = "lost+found";

/// Whose directory it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeIdentity {
    /// The cluster.
    pub cluster: ClusterId,
    /// The directory: drawn at random when it was made.
    pub directory: DirectoryId,
    /// The node in the cluster.
    pub node: i32,
    /// The last incarnation that the node proposed of itself to the metadata group; 0 before the first. `None` of a node that has been
    /// alone, and keeps the metadata in its journal.
    pub last_incarnation: Option<u64>,
    /// The number of its journals. Fixed: partitions are spread over them by number.
    pub journals: usize,
}

impl NodeIdentity {
    /// The identities that the bytes of each journal are checked against.
    pub fn journal_identities(&self) -> impl Iterator<Item = JournalIdentity> + use<> {
        let NodeIdentity {
            cluster,
            directory,
            node,
            journals,
            ..
        } = *self;
        (0..journals as u32).map(move |journal| JournalIdentity {
            cluster,
            directory,
            node,
            journal,
        })
    }

    /// Reads the identity of a directory, and changes nothing.
    ///
    /// # Errors
    /// It is none of ropewalk's, or of a version that is not known here.
    pub fn read(disk: &dyn Disk) -> Result<NodeIdentity, DirectoryError> {
        let directory = disk.root().display().to_string();
        match disk.read_whole(Path::new(NAME), BYTES_MAX) {
            Ok(bytes) => decode(&bytes, &directory),
            Err(error) if error.kind() == io::ErrorKind::NotFound => match foreign_name(disk) {
                Ok(Some(found)) => Err(DirectoryError::Foreign { directory, found }),
                Ok(None) => Err(DirectoryError::Empty { directory }),
                Err(error) => Err(DirectoryError::Disk { directory, error }),
            },
            Err(error) => Err(DirectoryError::Disk { directory, error }),
        }
    }
}

/// The name of something that is not ours in a directory without the file, if there is anything. A crash while the directory
/// was made may have left the file half replaced; it says nothing yet.
fn foreign_name(disk: &dyn Disk) -> io::Result<Option<String>> {
    let names = disk.list(Path::new(""))?;
    let is_foreign = |name: &String| !name.starts_with(NAME) && name != LOST_AND_FOUND;
    Ok(names.into_iter().find(is_foreign))
}

/// Refuses a directory of this machine that cannot be a node's, before anything is written to it: opening it to write leaves
/// files there. What is missing, or no directory, is left to the opening. To be asked again with the lock held.
///
/// # Errors
/// As [`NodeIdentity::read`], but an empty directory is none.
pub fn look_before_opening(root: &Path) -> Result<(), DirectoryError> {
    let Ok(disk) = RealDisk::open_to_read(root) else {
        return Ok(());
    };
    match NodeIdentity::read(&disk) {
        Ok(_) | Err(DirectoryError::Empty { .. }) => Ok(()),
        Err(DirectoryError::Disk { error, .. }) if error.kind() == io::ErrorKind::NotADirectory => Ok(()),
        Err(refusal) => Err(refusal),
    }
}

/// Why a directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    /// Files of somebody else.
    #[error("{directory} is not a ropewalk directory (it has {found} and no {NAME}); choose another one")]
    Foreign {
        /// The directory.
        directory: String,
        /// One of the files there.
        found: String,
    },
    /// There is nothing in it.
    #[error("{directory} is empty; there is no ropewalk directory here")]
    Empty {
        /// The directory.
        directory: String,
    },
    /// Written by another version.
    #[error("{directory} has format {format}{}; nothing was changed", fault::remedy(*format, FORMAT))]
    UnknownFormat {
        /// The directory.
        directory: String,
        /// Its format.
        format: u32,
    },
    /// The configured node is another one.
    #[error(
        "{directory} belongs to node {stored}, the configuration says node.id = {configured}; set node.id = {stored}, or choose another directory"
    )]
    OtherNode {
        /// The directory.
        directory: String,
        /// Whose it is.
        stored: i32,
        /// The configured node.
        configured: i32,
    },
    /// The file is damaged.
    #[error("{directory}/{NAME} cannot be understood: {what}")]
    Damaged {
        /// The directory.
        directory: String,
        /// Why.
        what: String,
    },
    /// The disk's error.
    #[error("the directory {directory} cannot be used: {error}{}", remedy(.error))]
    Disk {
        /// The directory.
        directory: String,
        /// The disk's error.
        #[source]
        error: io::Error,
    },
}

/// The way out of what a disk refuses, where there is one.
fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "; run this as the user that owns it, or choose another directory",
        io::ErrorKind::NotFound => "; choose a directory that exists or can be made",
        io::ErrorKind::ReadOnlyFilesystem => {
            "; mount its file system for writing, or choose another directory"
        }
        io::ErrorKind::StorageFull => "; free some space there, or choose another directory",
        _ => "",
    }
}

/// Says whether the directory is empty: no node's yet, and nobody else's.
///
/// # Errors
/// It is somebody else's, or cannot be read.
pub fn is_empty_directory(disk: &dyn Disk) -> Result<bool, DirectoryError> {
    match NodeIdentity::read(disk) {
        Ok(_) => Ok(false),
        Err(DirectoryError::Empty { .. }) => Ok(true),
        Err(refusal) => Err(refusal),
    }
}

/// Makes an empty directory a node's of a cluster that there is, or keeps a later incarnation of it.
///
/// # Errors
/// The disk's.
pub fn keep_identity(disk: &dyn Disk, identity: &NodeIdentity) -> Result<(), DirectoryError> {
    let kept = disk.replace(Path::new(NAME), encode(identity).as_bytes());
    kept.map_err(|error| DirectoryError::Disk {
        directory: disk.root().display().to_string(),
        error,
    })
}

/// Reads the identity, or makes a new one of an empty directory: that of `node`, or of node 1, with so many journals.
///
/// # Errors
/// The directory is somebody else's, or another node's. Nothing has changed then.
pub fn identify(
    disk: &dyn Disk,
    random: &Random,
    node: Option<i32>,
    journals: usize,
) -> Result<NodeIdentity, DirectoryError> {
    let directory = disk.root().display().to_string();
    let failed = |error| DirectoryError::Disk {
        directory: directory.clone(),
        error,
    };
    match disk.read_whole(Path::new(NAME), BYTES_MAX) {
        Ok(bytes) => {
            let identity = decode(&bytes, &directory)?;
            match node.filter(|node| *node != identity.node) {
                Some(configured) => Err(DirectoryError::OtherNode {
                    directory,
                    stored: identity.node,
                    configured,
                }),
                None => Ok(identity),
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if let Some(found) = foreign_name(disk).map_err(failed)? {
                return Err(DirectoryError::Foreign { directory, found });
            }
            let identity = NodeIdentity {
                cluster: ClusterId(random.bytes()),
                directory: DirectoryId(random.bytes()),
                node: node.unwrap_or(FIRST_NODE),
                last_incarnation: None,
                journals,
            };
            keep_identity(disk, &identity)?;
            Ok(identity)
        }
        Err(error) => Err(failed(error)),
    }
}

fn encode(identity: &NodeIdentity) -> String {
    let NodeIdentity {
        cluster,
        directory,
        node,
        last_incarnation,
        journals,
    } = identity;
    let last_incarnation = match last_incarnation {
        Some(incarnation) => incarnation.to_string(),
        None => NO_INCARNATION.to_string(),
    };
    format!(
        "# Identifies this directory. Do not edit.\nformat = {FORMAT}\ncluster = \"{cluster}\"\ndirectory = \"{directory}\"\nnode = {node}\n\
         last_incarnation = {last_incarnation}\njournals = {journals}\n"
    )
}

fn decode(bytes: &[u8], directory: &str) -> Result<NodeIdentity, DirectoryError> {
    let damaged = |what: &str| DirectoryError::Damaged {
        directory: directory.to_string(),
        what: what.to_string(),
    };
    let text = std::str::from_utf8(bytes).map_err(|error| damaged(&error.to_string()))?;
    let table: toml::Table = text
        .parse()
        .map_err(|error: toml::de::Error| damaged(error.message()))?;
    let number = |key: &str| table.get(key).and_then(toml::Value::as_integer);
    let format = number("format").and_then(|format| u32::try_from(format).ok());
    let format = format.ok_or_else(|| damaged("no format"))?;
    if format != FORMAT {
        return Err(DirectoryError::UnknownFormat {
            directory: directory.to_string(),
            format,
        });
    }
    if let Some(unknown) = table.keys().find(|key| !KEYS.contains(&key.as_str())) {
        return Err(damaged(&format!("format {FORMAT} has no {unknown}")));
    }
    let id = |key: &str| {
        let text = table.get(key).and_then(toml::Value::as_str);
        text.and_then(decode_hex)
            .ok_or_else(|| damaged(&format!("{key} is not 32 hexadecimal digits")))
    };
    let last_incarnation = match number("last_incarnation") {
        Some(NO_INCARNATION) => None,
        Some(incarnation @ 0..) => Some(incarnation as u64),
        _ => return Err(damaged("last_incarnation is neither -1 nor a number of a start")),
    };
    let node = number("node").and_then(|node| i32::try_from(node).ok());
    let journals = number("journals").and_then(|journals| usize::try_from(journals).ok());
    Ok(NodeIdentity {
        cluster: ClusterId(id("cluster")?),
        directory: DirectoryId(id("directory")?),
        last_incarnation,
        node: node.ok_or_else(|| damaged("node is not a number of a node"))?,
        journals: journals
            .filter(|journals| *journals > 0)
            .ok_or_else(|| damaged("journals must be at least 1"))?,
    })
}

fn decode_hex(text: &str) -> Option<[u8; 16]> {
    if text.len() != 32 || !text.is_ascii() {
        return None;
    }
    let mut bytes = [0; 16];
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * index..2 * index + 2], 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use platform::disk::SimulatedDisk;

    use super::*;

    #[test]
    fn an_empty_directory_is_told_from_somebody_elses() {
        let disk = SimulatedDisk::new();
        let error = NodeIdentity::read(&disk).expect_err("there is nothing");
        assert!(matches!(error, DirectoryError::Empty { .. }), "{error}");
        // Left by a crash: it says nothing yet.
        disk.replace(Path::new("node.toml.replacing"), b"format")
            .expect("there is room");
        let error = NodeIdentity::read(&disk).expect_err("there is still nothing");
        assert!(matches!(error, DirectoryError::Empty { .. }), "{error}");
        disk.replace(Path::new("photo.jpg"), b"not ours")
            .expect("there is room");
        let error = NodeIdentity::read(&disk).expect_err("it is somebody else's");
        assert!(
            matches!(&error, DirectoryError::Foreign { found, .. } if found == "photo.jpg"),
            "{error}"
        );
        let error = identify(&disk, &Random::SYSTEM, Some(1), 1).expect_err("it is somebody else's");
        assert!(matches!(error, DirectoryError::Foreign { .. }), "{error}");
    }

    #[test]
    fn a_directory_that_cannot_be_used_is_told_with_a_way_out() {
        let told = |kind| {
            DirectoryError::Disk {
                directory: "/x/y".to_owned(),
                error: io::Error::new(kind, "the system says no"),
            }
            .to_string()
        };
        let refused = "the directory /x/y cannot be used: the system says no";
        for (kind, remedy) in [
            (
                io::ErrorKind::PermissionDenied,
                "; run this as the user that owns it, or",
            ),
            (io::ErrorKind::NotFound, "; choose a directory that exists"),
            (
                io::ErrorKind::ReadOnlyFilesystem,
                "; mount its file system for writing",
            ),
            (io::ErrorKind::StorageFull, "; free some space there"),
            (io::ErrorKind::Other, ""),
        ] {
            let text = told(kind);
            assert!(text.starts_with(&format!("{refused}{remedy}")), "{text}");
        }
    }

    #[test]
    fn a_volume_that_was_just_made_is_empty() {
        let disk = SimulatedDisk::new();
        disk.create_directory(Path::new(LOST_AND_FOUND))
            .expect("there is room");
        let error = NodeIdentity::read(&disk).expect_err("there is nothing");
        assert!(matches!(error, DirectoryError::Empty { .. }), "{error}");
        identify(&disk, &Random::SYSTEM, Some(1), 1).expect("it is made a node's");
    }

    #[test]
    fn looking_refuses_what_is_not_ours_and_leaves_the_rest_to_the_opening() {
        let parent = tempfile::tempdir().expect("there is room for a temporary directory");
        let root = |name: &str| parent.path().join(name);
        let open = |name: &str| RealDisk::open(&root(name)).expect("it can be made");
        assert!(look_before_opening(&root("absent")).is_ok());
        let disk = open("other");
        assert!(look_before_opening(&root("other")).is_ok(), "it is empty");
        disk.replace(Path::new("photo.jpg"), b"not ours")
            .expect("there is room");
        let refused = look_before_opening(&root("other"));
        assert!(
            matches!(refused, Err(DirectoryError::Foreign { .. })),
            "{refused:?}"
        );
        let refused = look_before_opening(&root("other/photo.jpg"));
        assert!(
            refused.is_ok(),
            "the opening says that it is no directory: {refused:?}"
        );
        for (name, content) in [("newer", "format = 999"), ("torn", "format")] {
            open(name)
                .replace(Path::new(NAME), content.as_bytes())
                .expect("there is room");
            assert!(look_before_opening(&root(name)).is_err(), "{content}");
        }
        identify(&open("ours"), &Random::SYSTEM, Some(1), 1).expect("it is empty");
        assert!(look_before_opening(&root("ours")).is_ok());
    }
}
