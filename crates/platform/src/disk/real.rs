//! A directory of the machine's file system as a `Disk`.
//!
//! Durable writes go round the page cache (O_DIRECT with RWF_DSYNC) where the file system can do that, which is found out
//! once at opening by a real write; elsewhere they go through it and are followed by fdatasync. Whoever opens the disk
//! reads the mode and warns. Nothing here repeats a failed write or sync.

mod file;
mod pace;

use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{self, Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{FlockOperation, OFlags, flock, fsync, statfs, statvfs};
use rustix::io::Errno;

use self::file::RealFile;
use self::pace::ReadPace;
use super::relative_path::{names, parent_and_name, replacement_name};
use super::{BLOCK_BYTES, Disk, DurableWriteMode, File, Lock};
use crate::memory::AlignedBuffer;

/// The file in the root whose lock is the lock of the tree. It is no part of the tree: `list` leaves it out.
const LOCK_NAME: &str = "lock";
/// With the process's id behind it, the file of a probe. It stays if the process is killed then, and is no part of the tree.
const PROBE_PREFIX: &str = "probe.";

/// File systems that live in memory. Recent kernels accept O_DIRECT on them and ignore it, so a probe cannot tell.
const TMPFS_MAGIC: i128 = 0x0102_1994;
const RAMFS_MAGIC: i128 = 0x8584_58f6;

/// A directory tree of the machine.
#[derive(Debug, Clone)]
pub struct RealDisk {
    root: PathBuf,
    mode: DurableWriteMode,
    /// Files are opened to be read only, the lock is not made, and what would change the tree is refused.
    only_reads: bool,
    pace: Arc<ReadPace>,
}

impl RealDisk {
    /// Opens the tree at `root`, creating the directory if it is missing, and finds out how durable writes work there.
    pub fn open(root: &Path) -> io::Result<RealDisk> {
        create_durably(root)?;
        let root = root.canonicalize()?;
        let mode = probe(&root)?;
        Ok(RealDisk {
            root,
            mode,
            only_reads: false,
            pace: Arc::default(),
        })
    }

    /// Opens the tree at `root` to look at it: nothing is written, so it may be on a file system that is mounted for reading
    /// only. What would change the tree is refused with `ReadOnlyFilesystem`. `NotFound` if there is none.
    pub fn open_to_read(root: &Path) -> io::Result<RealDisk> {
        Ok(RealDisk {
            root: root.canonicalize()?,
            // Only writes would tell the difference.
            mode: DurableWriteMode::Buffered,
            only_reads: true,
            pace: Arc::default(),
        })
    }

    fn absolute(&self, path: &Path) -> io::Result<PathBuf> {
        let mut absolute = self.root.clone();
        absolute.extend(names(path)?);
        Ok(absolute)
    }

    /// That the tree was not opened to be read only.
    fn may_write(&self) -> io::Result<()> {
        match self.only_reads {
            true => Err(io::ErrorKind::ReadOnlyFilesystem.into()),
            false => Ok(()),
        }
    }

    /// The absolute path of something that must not be the root itself.
    fn absolute_below(&self, path: &Path) -> io::Result<PathBuf> {
        parent_and_name(path)?;
        self.absolute(path)
    }

    fn open_with(&self, path: &Path, options: &mut OpenOptions) -> io::Result<Arc<dyn File>> {
        let absolute = self.absolute_below(path)?;
        options.read(true).write(!self.only_reads);
        if self.mode == DurableWriteMode::Direct {
            options.custom_flags(OFlags::DIRECT.bits() as i32);
        }
        Ok(Arc::new(RealFile::new(
            options.open(absolute)?,
            self.mode,
            self.pace.clone(),
        )))
    }
}

/// Creates a directory where it is missing, and those above it. Their names are durable on return: without them nothing in the
/// directory would be found again, however often it was synced.
fn create_durably(directory: &Path) -> io::Result<()> {
    // The parent of a single name would be none.
    let directory = path::absolute(directory)?;
    let parents = parents_of_missing(&directory);
    fs::create_dir_all(&directory)?;
    for parent in parents {
        match sync_directory_at(parent) {
            // Whoever may put names into a directory may not always open it.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
            synced => synced?,
        }
    }
    Ok(())
}

/// The directories that get a new name when `directory`, an absolute path, is created, the innermost first; none if it is
/// there.
fn parents_of_missing(directory: &Path) -> Vec<&Path> {
    let missing = directory.ancestors().take_while(|path| !path.exists());
    missing.filter_map(Path::parent).collect()
}

/// Writes one block beside the data to see whether O_DIRECT with RWF_DSYNC works in this directory.
fn probe(root: &Path) -> io::Result<DurableWriteMode> {
    let magic = i128::from(statfs(root)?.f_type);
    if magic == TMPFS_MAGIC || magic == RAMFS_MAGIC {
        return Ok(DurableWriteMode::Buffered);
    }
    let path = root.join(format!("{PROBE_PREFIX}{}", std::process::id()));
    let outcome = probe_at(&path);
    remove_if_there(&path)?;
    match outcome {
        Ok(()) => Ok(DurableWriteMode::Direct),
        Err(error) => match Errno::from_io_error(&error) {
            Some(Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS) => Ok(DurableWriteMode::Buffered),
            // A full disk must still open, to be read and trimmed. That the open itself was accepted speaks for O_DIRECT.
            Some(Errno::NOSPC | Errno::DQUOT) => Ok(DurableWriteMode::Direct),
            _ => Err(error),
        },
    }
}

fn probe_at(path: &Path) -> io::Result<()> {
    // A probe that a killed process of the same id left behind is simply overwritten.
    let mut options = OpenOptions::new();
    options
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .custom_flags(OFlags::DIRECT.bits() as i32);
    let file = RealFile::new(options.open(path)?, DurableWriteMode::Direct, Arc::default());
    file.write_durable(0, &AlignedBuffer::zeroed(BLOCK_BYTES))?;
    file.read(0, BLOCK_BYTES).map(|_| ())
}

/// Says whether a name in the root is that of a file of our own beside the tree.
fn is_beside_tree(name: &str) -> bool {
    let process = name.strip_prefix(PROBE_PREFIX);
    let is_probe = process.is_some_and(|process| process.bytes().all(|byte| byte.is_ascii_digit()));
    name == LOCK_NAME || is_probe
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Writes `content` to a new file at `path` and syncs it.
fn write_aside(path: &Path, content: &[u8]) -> io::Result<()> {
    remove_if_there(path)?;
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    file.write_all(content)?;
    Ok(fsync(&file)?)
}

fn sync_directory_at(absolute: &Path) -> io::Result<()> {
    Ok(fsync(&fs::File::open(absolute)?)?)
}

impl Disk for RealDisk {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.open_with(path, &mut OpenOptions::new())
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.may_write()?;
        self.open_with(path, OpenOptions::new().create_new(true))
    }

    fn read_whole(&self, path: &Path, bytes_max: usize) -> io::Result<Vec<u8>> {
        let file = fs::File::open(self.absolute_below(path)?)?;
        let mut content = Vec::new();
        // One byte more than allowed tells a file that is too long, however long, without reading it.
        file.take((bytes_max as u64).saturating_add(1))
            .read_to_end(&mut content)?;
        if content.len() > bytes_max {
            let message = format!("{} is longer than {bytes_max} bytes", path.display());
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        Ok(content)
    }

    fn replace(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        self.may_write()?;
        let (_, name) = parent_and_name(path)?;
        let target = self.absolute(path)?;
        let aside = target.with_file_name(replacement_name(name));
        if let Err(error) = write_aside(&aside, content).and_then(|()| fs::rename(&aside, &target)) {
            // The first error is the one to report; a file left aside does no harm.
            let _ = remove_if_there(&aside);
            return Err(error);
        }
        sync_directory_at(target.parent().expect("a path below the root has a parent"))
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        let is_root = names(directory)?.is_empty();
        let entries = match fs::read_dir(self.absolute(directory)?) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other?,
        };
        let mut found = Vec::new();
        for entry in entries {
            let name = entry?.file_name().into_string().map_err(|name| {
                let message = format!("{} holds a name that is not UTF-8: {name:?}", directory.display());
                io::Error::new(io::ErrorKind::InvalidData, message)
            })?;
            if !(is_root && is_beside_tree(&name)) {
                found.push(name);
            }
        }
        found.sort();
        Ok(found)
    }

    fn create_directory(&self, directory: &Path) -> io::Result<()> {
        self.may_write()?;
        fs::create_dir_all(self.absolute(directory)?)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.may_write()?;
        let (from, to) = (self.absolute_below(from)?, self.absolute_below(to)?);
        if fs::symlink_metadata(&from)?.is_dir() {
            return Err(io::Error::from(io::ErrorKind::IsADirectory));
        }
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.may_write()?;
        remove_if_there(&self.absolute_below(path)?)
    }

    fn remove_directory(&self, directory: &Path) -> io::Result<()> {
        self.may_write()?;
        match fs::remove_dir_all(self.absolute_below(directory)?) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        sync_directory_at(&self.absolute(directory)?)
    }

    fn free_bytes(&self) -> io::Result<u64> {
        let status = statvfs(&self.root)?;
        // f_bavail, not f_bfree: the difference is kept back for the superuser.
        Ok(status.f_bavail.saturating_mul(status.f_frsize))
    }

    fn total_bytes(&self) -> io::Result<u64> {
        let status = statvfs(&self.root)?;
        Ok(status.f_blocks.saturating_mul(status.f_frsize))
    }

    fn lock(&self) -> io::Result<Box<dyn Lock>> {
        let file = OpenOptions::new()
            .read(true)
            .write(!self.only_reads)
            .create(!self.only_reads)
            .truncate(false)
            .open(self.root.join(LOCK_NAME));
        let file = match file {
            // Nobody has ever opened the tree to write.
            Err(error) if self.only_reads && error.kind() == io::ErrorKind::NotFound => None,
            other => Some(other?),
        };
        if let Some(file) = &file {
            flock(file, FlockOperation::NonBlockingLockExclusive)?;
        }
        Ok(Box::new(HeldLock { file }))
    }

    fn durable_write_mode(&self) -> DurableWriteMode {
        self.mode
    }

    fn root(&self) -> PathBuf {
        self.root.clone()
    }
}

/// The open lock file. The file itself stays, for removing it would let two processes lock two files of one name.
struct HeldLock {
    file: Option<fs::File>,
}

/// To close the file is not enough: a child that the process has just forked, and that runs no other program yet, has it open, too.
impl Drop for HeldLock {
    fn drop(&mut self) {
        if let Some(file) = &self.file {
            let _ = flock(file, FlockOperation::Unlock);
        }
    }
}

impl Lock for HeldLock {}

#[cfg(test)]
mod tests;
