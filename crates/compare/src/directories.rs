//! Where the data of systems is while they run: on the disk, and on a RAM disk if some table wants one.
//!
//! Each comparison has directories of its own, named after its process, and removes them at its end. What one left that was
//! killed is removed by the next: no system may start on another's data.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

const RAM_DISK: &str = "/dev/shm";
/// What the names of all such directories begin with; the number of the process follows.
const PREFIX: &str = "ropewalk-compare-";

pub(super) struct Directories {
    /// On the disk, and on the RAM disk (which is only made if it is wanted).
    pub(super) paths: [PathBuf; 2],
    /// What holds the first; ours only if nothing else is in it.
    data: PathBuf,
}

impl Directories {
    /// Makes them, below `data` and where the RAM disk is.
    pub(super) fn make(data: &Path, in_memory: bool) -> Result<Directories> {
        fs::create_dir_all(data).with_context(|| format!("cannot make {}", data.display()))?;
        let data = fs::canonicalize(data)?;
        let own = format!("{PREFIX}{}", std::process::id());
        let parents = [data.as_path(), Path::new(RAM_DISK)];
        let paths = parents.map(|parent| parent.join(&own));
        // What was left on the RAM disk takes memory from whatever is measured now.
        parents.into_iter().for_each(remove_left);
        for path in &paths[..=usize::from(in_memory)] {
            // A process that had our id left it: in containers one often has the id of the one before.
            let _ = fs::remove_dir_all(path);
            fs::create_dir(path).with_context(|| format!("cannot make {}", path.display()))?;
        }
        Ok(Directories { paths, data })
    }
}

/// Removes what comparisons left here whose process is gone. What cannot be removed only takes room: nobody uses its name again
/// while it is there.
fn remove_left(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        let pid: Option<u32> = pid.and_then(|pid| pid.parse().ok());
        if pid.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

impl Drop for Directories {
    fn drop(&mut self) {
        for path in &self.paths {
            let _ = fs::remove_dir_all(path);
        }
        // It may be the user's own, with other things in it.
        let _ = fs::remove_dir(&self.data);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_dead_comparison_left_goes_and_nothing_else() {
        let data = tempfile::tempdir().expect("a directory");
        // Above the most that Linux gives to a process.
        let dead = data.path().join(format!("{PREFIX}4194305"));
        let alive = data.path().join(format!("{PREFIX}1"));
        let foreign = data.path().join(format!("{PREFIX}notes"));
        let own = data.path().join(format!("{PREFIX}{}", std::process::id()));
        for path in [&dead, &alive, &foreign, &own] {
            fs::create_dir(path).expect("it is new");
            fs::write(path.join("log"), "old").expect("there is room");
        }
        let directories = Directories::make(data.path(), false).expect("there is room");
        assert!(!dead.exists() && alive.exists() && foreign.exists());
        assert!(own.exists() && !own.join("log").exists(), "ours is a new one");
        drop(directories);
        assert!(!own.exists() && alive.exists() && data.path().exists());
    }
}
