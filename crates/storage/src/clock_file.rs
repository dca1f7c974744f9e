//! The file that says when a node last ran over the directory: `clock.toml`, replaced while the node runs.
//!
//! A start compares its clock with it. Nothing else is decided by it, so a directory without the file is complete.

use std::io;
use std::path::Path;

use platform::disk::Disk;

const NAME: &str = "clock.toml";
const KEY: &str = "last_ran_ms";
const BYTES_MAX: usize = 4096;

/// Returns the time, in milliseconds since 1970, at which a node last ran over this directory; `None` if there is no file. A
/// file that cannot be read or understood stands for 1970: a start then finds its clock far ahead, which deletes nothing.
pub fn read_last_ran(disk: &dyn Disk) -> Option<i64> {
    match disk.read_whole(Path::new(NAME), BYTES_MAX) {
        Ok(bytes) => Some(decode(&bytes).unwrap_or(0)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(_) => Some(0),
    }
}

/// Stores the time at which a node runs over this directory. Blocks.
///
/// # Errors
/// The disk's. The time before is there then.
pub fn write_last_ran(disk: &dyn Disk, wall_ms: i64) -> io::Result<()> {
    let text = format!(
        "# When a node last ran over this directory, by its clock. Written anew while it runs.\n{KEY} = {wall_ms}\n"
    );
    disk.replace(Path::new(NAME), text.as_bytes())
}

fn decode(bytes: &[u8]) -> Option<i64> {
    let table: toml::Table = std::str::from_utf8(bytes).ok()?.parse().ok()?;
    table.get(KEY)?.as_integer()
}

#[cfg(test)]
mod tests {
    use platform::disk::SimulatedDisk;

    use super::*;

    #[test]
    fn the_time_is_read_back_and_what_is_no_time_stands_for_1970() {
        let disk = SimulatedDisk::new();
        assert_eq!(read_last_ran(&disk), None);
        for wall_ms in [1_795_643_099_000, 5] {
            write_last_ran(&disk, wall_ms).expect("there is room");
            assert_eq!(read_last_ran(&disk), Some(wall_ms));
        }
        for content in [
            &b"last_ran_ms = \"never\""[..],
            b"\xff",
            b"",
            &[b'#'; BYTES_MAX + 1],
        ] {
            disk.replace(Path::new(NAME), content).expect("there is room");
            assert_eq!(read_last_ran(&disk), Some(0));
        }
    }
}
