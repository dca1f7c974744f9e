//! The file that says where other nodes of the cluster were last: `peers.toml`, replaced when the metadata tells of others.
//!
//! The addresses are for the start alone: a node must find others before it has the metadata, which says where they are. Nothing else is
//! decided by it, so a directory without the file is complete.

use std::io;
use std::path::Path;

use platform::disk::Disk;

const NAME: &str = "peers.toml";
const KEY: &str = "addresses";
const BYTES_MAX: usize = 1 << 20;

/// Returns the addresses; none if there is no file, or none that can be read.
pub fn read_peers(disk: &dyn Disk) -> Vec<String> {
    let bytes = disk.read_whole(Path::new(NAME), BYTES_MAX);
    bytes.ok().and_then(|bytes| decode(&bytes)).unwrap_or_default()
}

/// Stores the addresses. Blocks.
///
/// # Errors
/// The disk's. The addresses before are there then.
pub fn write_peers(disk: &dyn Disk, addresses: &[String]) -> io::Result<()> {
    let text = format!(
        "# Where this node finds the others when it starts. Written anew when that changes.\n{KEY} = {addresses:?}\n"
    );
    disk.replace(Path::new(NAME), text.as_bytes())
}

fn decode(bytes: &[u8]) -> Option<Vec<String>> {
    let table: toml::Table = std::str::from_utf8(bytes).ok()?.parse().ok()?;
    let addresses = table.get(KEY)?.as_array()?.iter();
    addresses
        .map(|address| address.as_str().map(str::to_owned))
        .collect()
}

#[cfg(test)]
mod tests {
    use platform::disk::SimulatedDisk;

    use super::*;

    #[test]
    fn addresses_are_read_back_and_what_is_none_is_no_obstacle() {
        let disk = SimulatedDisk::new();
        assert!(read_peers(&disk).is_empty());
        let addresses = ["hemp:9192", "[::1]:9193"].map(str::to_owned);
        for kept in [&addresses[..], &addresses[..1], &[]] {
            write_peers(&disk, kept).expect("there is room");
            assert_eq!(read_peers(&disk), kept);
        }
        for content in [&b"addresses = 7"[..], b"addresses = [7]", b"\xff", b""] {
            disk.replace(Path::new(NAME), content).expect("there is room");
            assert!(read_peers(&disk).is_empty());
        }
    }
}
