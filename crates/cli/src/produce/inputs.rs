//! What is read: standard input or files, one behind the other, in chunks as they arrive.
//!
//! A thread of its own reads, so that its owner can see whether there is more before it waits. All files are opened once
//! before anything is sent: a name that is wrong must not be found out halfway.

use std::fs::{self, File};
use std::io::{self, Read, stdin};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use anyhow::{Context, Result, bail};

/// What one read takes at most.
const CHUNK_BYTES: usize = 64 << 10;
/// Chunks that wait for their turn.
const CHUNKS_WAITING: usize = 16;
/// The name of standard input in place of a file's.
const STANDARD_INPUT: &str = "-";

/// What reading brings.
pub(super) enum News {
    /// Bytes of the input that is being read.
    Chunk(Vec<u8>),
    /// An input has ended; the next one's bytes follow.
    End,
    /// The input of this index cannot be read further. Nothing follows.
    Failed(usize, io::Error),
}

/// The inputs in their order.
pub(super) struct Inputs {
    paths: Vec<PathBuf>,
    /// Bytes of all of them, if that is known.
    pub(super) bytes_total: Option<u64>,
}

impl Inputs {
    /// Of these files; of standard input if there is none.
    ///
    /// # Errors
    /// Which file cannot be read, and why.
    pub(super) fn open(paths: &[PathBuf]) -> Result<Inputs> {
        let mut paths = paths.to_vec();
        if paths.is_empty() {
            paths.push(PathBuf::from(STANDARD_INPUT));
        }
        let mut bytes_total = Some(0);
        for path in &paths {
            let bytes = match is_standard_input(path) {
                true => file_bytes(Path::new("/dev/stdin")),
                false => {
                    try_open(path)?;
                    file_bytes(path)
                }
            };
            bytes_total = bytes_total
                .zip(bytes)
                .map(|(sum, bytes): (u64, u64)| sum.saturating_add(bytes));
        }
        Ok(Inputs { paths, bytes_total })
    }

    /// How many there are: one at least.
    pub(super) fn count(&self) -> usize {
        self.paths.len()
    }

    /// What an input is called in a sentence: `standard input`, or its path.
    pub(super) fn name(&self, index: usize) -> String {
        match &self.paths[index] {
            path if is_standard_input(path) => "standard input".to_owned(),
            path => path.display().to_string(),
        }
    }

    /// Reads them all until the last has ended or one fails.
    pub(super) fn read(&self) -> Result<Receiver<News>> {
        let (give, take) = sync_channel(CHUNKS_WAITING);
        let paths = self.paths.clone();
        let read = move || {
            for (index, path) in paths.iter().enumerate() {
                let outcome = match is_standard_input(path) {
                    true => read_one(stdin().lock(), &give),
                    false => File::open(path).and_then(|file| read_one(file, &give)),
                };
                let is_last = outcome.is_err();
                let news = match outcome {
                    Ok(()) => News::End,
                    Err(error) => News::Failed(index, error),
                };
                // If nobody takes it, the command is over.
                if give.send(news).is_err() || is_last {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name("inputs".to_owned()).spawn(read);
        thread.context("a thread for the input could not be started")?;
        Ok(take)
    }
}

fn is_standard_input(path: &Path) -> bool {
    path == Path::new(STANDARD_INPUT)
}

fn try_open(path: &Path) -> Result<()> {
    let file = File::open(path).with_context(|| format!("{} cannot be read", path.display()))?;
    if file.metadata().is_ok_and(|metadata| metadata.is_dir()) {
        bail!("{} is a directory; name the files in it", path.display());
    }
    Ok(())
}

/// The size of what is a file and not a pipe or a terminal.
fn file_bytes(path: &Path) -> Option<u64> {
    let metadata = fs::metadata(path).ok()?;
    metadata.is_file().then_some(metadata.len())
}

/// Hands on chunks until the input ends, or until nobody wants more.
fn read_one(mut input: impl Read, give: &SyncSender<News>) -> io::Result<()> {
    loop {
        let mut chunk = vec![0; CHUNK_BYTES];
        match input.read(&mut chunk) {
            Ok(0) => return Ok(()),
            Ok(bytes) => chunk.truncate(bytes),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        }
        if give.send(News::Chunk(chunk)).is_err() {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_are_read_in_order_and_sizes_are_known() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let file = |name: &str, text: &str| {
            let path = directory.path().join(name);
            fs::write(&path, text).expect("writable");
            path
        };
        let long = "x".repeat(CHUNK_BYTES + 1);
        let inputs = Inputs::open(&[file("a", "one"), file("b", ""), file("c", &long)]).expect("readable");
        assert_eq!(inputs.bytes_total, Some(3 + long.len() as u64));
        let mut read = vec![Vec::new()];
        for news in inputs.read().expect("a thread") {
            match news {
                News::Chunk(chunk) => read.last_mut().expect("one at least").extend(chunk),
                News::End => read.push(Vec::new()),
                News::Failed(index, error) => panic!("{index}: {error}"),
            }
        }
        assert_eq!(read, [b"one".to_vec(), Vec::new(), long.into_bytes(), Vec::new()]);
    }

    #[test]
    fn what_cannot_be_read_is_told_before_anything_is() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let told = |path: &Path| match Inputs::open(&[path.to_owned()]) {
            Ok(_) => panic!("{} can be read", path.display()),
            Err(error) => error.to_string(),
        };
        let absent = directory.path().join("absent");
        assert_eq!(told(&absent), format!("{} cannot be read", absent.display()));
        let path = directory.path();
        assert_eq!(
            told(path),
            format!("{} is a directory; name the files in it", path.display())
        );
    }
}
