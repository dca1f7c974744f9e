//! Standard input as it arrives, and the lines in it. A thread of its own reads, so that its owner can see whether
//! there is more before it waits.

use std::io::{self, Read, stdin};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;

use anyhow::{Context, Result, ensure};

/// What one read takes at most.
const CHUNK_BYTES: usize = 64 << 10;
/// Chunks that wait for their turn.
const CHUNKS_WAITING: usize = 16;
/// The longest line: no broker takes a record nearly as large.
const LINE_BYTES_MAX: usize = 64 << 20;

/// Reads standard input until it ends or fails.
pub(super) fn standard_input() -> Result<Receiver<io::Result<Vec<u8>>>> {
    let (give, take) = sync_channel(CHUNKS_WAITING);
    let read = move || {
        let mut input = stdin().lock();
        loop {
            let mut chunk = vec![0; CHUNK_BYTES];
            let outcome = match input.read(&mut chunk) {
                Ok(0) => return,
                Ok(bytes) => {
                    chunk.truncate(bytes);
                    Ok(chunk)
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => Err(error),
            };
            let failed = outcome.is_err();
            if give.send(outcome).is_err() || failed {
                return;
            }
        }
    };
    let thread = thread::Builder::new().name("stdin".to_owned()).spawn(read);
    thread.context("a thread for standard input could not be started")?;
    Ok(take)
}

/// Puts lines together from chunks that end anywhere.
#[derive(Default)]
pub(super) struct Lines {
    /// The beginning of a line whose end has not come.
    begun: Vec<u8>,
}

impl Lines {
    /// Calls `each` with every line that ends in `chunk`, without its line feed.
    pub(super) fn take(&mut self, chunk: &[u8], mut each: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let mut pieces = chunk.split(|byte| *byte == b'\n').peekable();
        while let Some(piece) = pieces.next() {
            let ends = pieces.peek().is_some();
            if ends && self.begun.is_empty() {
                each(piece)?;
                continue;
            }
            self.begun.extend_from_slice(piece);
            ensure!(
                self.begun.len() <= LINE_BYTES_MAX,
                "a line is longer than {} MiB",
                LINE_BYTES_MAX >> 20
            );
            if ends {
                each(&self.begun)?;
                self.begun.clear();
            }
        }
        Ok(())
    }

    /// Calls `each` with the last line if it does not end in a line feed.
    pub(super) fn end(self, mut each: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        match self.begun.is_empty() {
            true => Ok(()),
            false => each(&self.begun),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_of(text: &str, chunk_bytes: usize) -> Vec<String> {
        let mut found = Vec::new();
        let mut each = |line: &[u8]| {
            found.push(String::from_utf8(line.to_vec())?);
            Ok(())
        };
        let mut lines = Lines::default();
        for chunk in text.as_bytes().chunks(chunk_bytes) {
            lines.take(chunk, &mut each).expect("text");
        }
        lines.end(&mut each).expect("text");
        found
    }

    #[test]
    fn lines_are_the_same_however_they_arrive() {
        for chunk_bytes in 1..12 {
            assert_eq!(
                lines_of("one\n\ntwo\nthree", chunk_bytes),
                ["one", "", "two", "three"]
            );
            assert_eq!(lines_of("\n", chunk_bytes), [""]);
            assert_eq!(lines_of("one\n", chunk_bytes), ["one"]);
        }
        assert!(lines_of("", 1).is_empty());
    }

    #[test]
    fn an_endless_line_is_refused() {
        let mut lines = Lines::default();
        let chunk = vec![b'x'; LINE_BYTES_MAX];
        lines.take(&chunk, |_| Ok(())).expect("as long as allowed");
        let refused = lines.take(b"x", |_| Ok(())).expect_err("too long");
        assert_eq!(refused.to_string(), "a line is longer than 64 MiB");
    }
}
