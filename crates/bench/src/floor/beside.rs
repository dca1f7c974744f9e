//! The floor beside a result: what one flush and one round trip of a request's size take on the machine of the node, in less
//! than a second and before the load.
//!
//! Another machine's disk cannot be measured from here, and what a loopback there takes neither: then the report says so.

use std::net::{IpAddr, TcpListener, ToSocketAddrs};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use client::Cluster;
use rustix::fs::{Access, access};
use serde::Serialize;

use super::disk::time_filled;
use super::loopback::round_trips;

/// Flushes and round trips that are timed.
const FLUSHES: u32 = 100;
const ROUND_TRIPS: u32 = 500;
/// The largest request that is timed: beyond it, both take as long as their bytes.
const REQUEST_BYTES_MAX: usize = 1 << 20;
/// A direct write's least bytes.
const BLOCK_BYTES: usize = 4 << 10;

/// Times that the machine alone takes for a request of a size, without any broker.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Beside {
    /// Bytes of the request.
    pub floor_bytes: usize,
    /// Half of the loopback's round trips were faster. `None` if the broker is on another machine.
    pub floor_loopback_p50_us: Option<f64>,
    /// Half of the flushes were faster. `None` if the broker's disk cannot be measured.
    pub floor_flush_p50_us: Option<f64>,
    /// Where flushes were timed, or why they were not.
    pub floor_disk: String,
}

impl Beside {
    /// Measures for requests of `request_bytes` to the brokers of a cluster. A broker elsewhere is told as not measured.
    pub(crate) fn measure(cluster: &mut Cluster, request_bytes: usize) -> Beside {
        let floor_bytes = request_bytes.clamp(1, REQUEST_BYTES_MAX);
        if !is_local(cluster) {
            return Beside {
                floor_bytes,
                floor_disk: "the broker is on another machine; `ropewalk bench floor` there measures it"
                    .to_owned(),
                ..Beside::default()
            };
        }
        let loopback = round_trips(floor_bytes, ROUND_TRIPS).ok();
        let (floor_flush_p50_us, floor_disk) = match flushes(cluster, floor_bytes) {
            Ok((p50_us, place)) => (Some(p50_us), place.display().to_string()),
            Err(why) => (None, format!("{why}; `ropewalk bench floor --dir` times a flush")),
        };
        Beside {
            floor_bytes,
            floor_loopback_p50_us: loopback.map(|recorder| recorder.summary().p50_us),
            floor_flush_p50_us,
            floor_disk,
        }
    }
}

/// Tells whether the first broker's address is one of this machine's: only then can it be listened on.
fn is_local(cluster: &mut Cluster) -> bool {
    let Ok(metadata) = cluster.metadata(Some(&[])) else {
        return false;
    };
    let broker = metadata.brokers.first();
    let addresses = broker.and_then(|broker| broker.address.to_socket_addrs().ok());
    let is_own = |ip: IpAddr| TcpListener::bind((ip, 0)).is_ok();
    addresses
        .into_iter()
        .flatten()
        .any(|address| is_own(address.ip()))
}

/// The time of half the flushes on a broker's disk, and the directory they were made in; or why there are none.
fn flushes(cluster: &mut Cluster, request_bytes: usize) -> Result<(f64, PathBuf), String> {
    let disks = cluster.disks().map_err(|error| error.to_string())?;
    let directory = disks.first().ok_or("the broker does not tell its directory")?;
    let place = place_beside(Path::new(&directory.directory))?;
    let size = request_bytes.next_multiple_of(BLOCK_BYTES);
    let recorder = time_filled(&place, size, FLUSHES).map_err(|error| format!("{error:#}"))?;
    Ok((recorder.summary().p50_us, place))
}

/// A directory on the same disk as that of a broker, and never in it.
fn place_beside(directory: &Path) -> Result<PathBuf, String> {
    let shown = directory.display();
    let disk = directory
        .metadata()
        .map_err(|error| format!("{shown}: {error}"))?
        .dev();
    let own = std::env::current_dir().ok();
    let places = [
        directory.parent().map(Path::to_owned),
        own,
        Some(std::env::temp_dir()),
    ];
    let is_on_it = |place: &PathBuf| {
        let is_same = place.metadata().is_ok_and(|found| found.dev() == disk);
        is_same && !place.starts_with(directory) && is_writable(place)
    };
    let found = places.into_iter().flatten().find(is_on_it);
    found.ok_or_else(|| format!("no directory beside {shown} can be written to"))
}

fn is_writable(place: &Path) -> bool {
    access(place, Access::WRITE_OK | Access::EXEC_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_beside_is_on_the_same_disk_and_never_inside() {
        let parent = tempfile::tempdir().expect("a temporary directory");
        let data = parent.path().join("data");
        std::fs::create_dir(&data).expect("writable");
        assert_eq!(place_beside(&data), Ok(parent.path().to_owned()));
        let refused = place_beside(&parent.path().join("absent")).expect_err("it is not there");
        assert!(refused.contains("absent: "), "{refused}");
        // Its parent, this test and temporary files are on other disks.
        let refused = place_beside(Path::new("/proc")).expect_err("nothing else is on it");
        assert_eq!(refused, "no directory beside /proc can be written to");
    }
}
