//! Inputs: standard input or files, one behind the other, in chunks as they arrive.
//!
//! A thread of its own reads, so that its owner can see whether there is more before it waits. All files are opened once
//! before anything is sent: a name that is wrong must not be found out halfway. What is no regular file stays open from then
//! on: a pipe loses what is in it when its last reader goes.

use std::fs::{self, File};
use std::io::{self, Read, stdin};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use anyhow::{Context, Result, bail};

use super::stop::Stop;
use crate::signals::{self, Watched};

/// The most bytes of one read.
const CHUNK_BYTES: usize = 64 << 10;
/// Chunks that wait for their turn.
const CHUNKS_WAITING: usize = 16;
/// The name of standard input in place of a file's.
const STANDARD_INPUT: &str = "-";

/// The outcome of reading.
pub(super) enum News {
    /// Bytes of the input that is being read.
    Chunk(Vec<u8>),
    /// An input has ended; the next one's bytes follow.
    End,
    /// The input of this index cannot be read further. Nothing follows.
    Failed(usize, io::Error),
    /// The end was asked for.
    Stopped,
}

/// An input to be read.
struct Input {
    path: PathBuf,
    /// The file, if it is no regular one, until it is read.
    opened: Option<File>,
}

/// The inputs in their order.
pub(super) struct Inputs {
    inputs: Vec<Input>,
    /// Bytes of all of them, if that is known.
    pub(super) bytes_total: Option<u64>,
}

impl Inputs {
    /// Of these files; of standard input if there is none.
    ///
    /// # Errors
    /// Which file cannot be read, and why.
    pub(super) fn open(paths: &[PathBuf]) -> Result<Inputs> {
        let standard_input = [PathBuf::from(STANDARD_INPUT)];
        let paths = if paths.is_empty() { &standard_input } else { paths };
        let mut inputs = Vec::with_capacity(paths.len());
        let mut bytes_total = Some(0);
        for path in paths {
            let (bytes, opened) = match is_standard_input(path) {
                true => (file_bytes(Path::new("/dev/stdin")), None),
                false => {
                    let file = try_open(path)?;
                    let bytes = file_bytes(path);
                    (bytes, bytes.is_none().then_some(file))
                }
            };
            bytes_total = bytes_total
                .zip(bytes)
                .map(|(sum, bytes): (u64, u64)| sum.saturating_add(bytes));
            let path = path.clone();
            inputs.push(Input { path, opened });
        }
        Ok(Inputs { inputs, bytes_total })
    }

    /// The number of inputs: one at least.
    pub(super) fn count(&self) -> usize {
        self.inputs.len()
    }

    /// The name of an input in a sentence: `standard input`, or its path.
    pub(super) fn name(&self, index: usize) -> String {
        match &self.inputs[index].path {
            path if is_standard_input(path) => "standard input".to_owned(),
            path => path.display().to_string(),
        }
    }

    /// Reads them all until the last has ended, one fails, or `stop` is asked for, which signals do from now on.
    pub(super) fn read(&mut self, stop: &Stop) -> Result<Receiver<News>> {
        let (give, take) = sync_channel(CHUNKS_WAITING);
        let (signalled, told) = (stop.clone(), give.clone());
        let tell = move |signal| {
            signalled.ask(signal);
            // A reader that has other news to take sees it without this.
            let _ = told.try_send(News::Stopped);
            true
        };
        signals::watch(Watched::Asked, tell, || {})?;
        let sources = self.inputs.iter_mut();
        let sources: Vec<_> = sources
            .map(|input| (input.path.clone(), input.opened.take()))
            .collect();
        let stop = stop.clone();
        let read = move || {
            for (index, (path, opened)) in sources.into_iter().enumerate() {
                let outcome = match opened {
                    Some(pipe) => read_one(pipe, &give, &stop),
                    None if is_standard_input(&path) => read_one(stdin().lock(), &give, &stop),
                    None => File::open(&path).and_then(|file| read_one(file, &give, &stop)),
                };
                let news = match outcome {
                    Ok(true) => News::End,
                    Ok(false) => return,
                    Err(error) => News::Failed(index, error),
                };
                let is_last = matches!(news, News::Failed(..));
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

fn try_open(path: &Path) -> Result<File> {
    let file = File::open(path).with_context(|| format!("{} cannot be read", path.display()))?;
    if file.metadata().is_ok_and(|metadata| metadata.is_dir()) {
        bail!("{} is a directory; name the files in it", path.display());
    }
    Ok(file)
}

/// The size of what is a file and not a pipe or a terminal.
fn file_bytes(path: &Path) -> Option<u64> {
    let metadata = fs::metadata(path).ok()?;
    metadata.is_file().then_some(metadata.len())
}

/// Hands on chunks until the input ends, or until nobody wants more; whether it has ended.
fn read_one(mut input: impl Read, give: &SyncSender<News>, stop: &Stop) -> io::Result<bool> {
    while stop.check().is_ok() {
        let mut chunk = vec![0; CHUNK_BYTES];
        match input.read(&mut chunk) {
            Ok(0) => return Ok(true),
            Ok(bytes) => chunk.truncate(bytes),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        }
        if give.send(News::Chunk(chunk)).is_err() {
            break;
        }
    }
    Ok(false)
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
        let mut inputs =
            Inputs::open(&[file("a", "one"), file("b", ""), file("c", &long)]).expect("readable");
        assert_eq!(inputs.bytes_total, Some(3 + long.len() as u64));
        assert_eq!(
            all_of(&mut inputs),
            [b"one".to_vec(), Vec::new(), long.into_bytes()]
        );
    }

    /// The bytes of each input.
    fn all_of(inputs: &mut Inputs) -> Vec<Vec<u8>> {
        let news = inputs.read(&Stop::default()).expect("a thread");
        let mut read = vec![Vec::new()];
        while read.len() <= inputs.count() {
            match news.recv().expect("all ends are told") {
                News::Chunk(chunk) => read.last_mut().expect("one at least").extend(chunk),
                News::End => read.push(Vec::new()),
                News::Failed(index, error) => panic!("{index}: {error}"),
                News::Stopped => panic!("nobody asked for it"),
            }
        }
        read.pop();
        read
    }

    #[test]
    fn nothing_of_a_pipe_is_lost() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&path).status();
        assert!(made.expect("it is a tool that every system has").success());
        let writer = {
            let path = path.clone();
            thread::spawn(move || fs::write(path, "one\ntwo\n"))
        };
        let mut inputs = Inputs::open(&[path]).expect("readable");
        // All is written before anything is read.
        writer.join().expect("no panic").expect("somebody reads");
        assert_eq!(inputs.bytes_total, None);
        assert_eq!(all_of(&mut inputs), [b"one\ntwo\n"]);
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
