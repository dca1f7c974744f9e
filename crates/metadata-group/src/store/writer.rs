//! Has changes of the log written, in their order, several with one write. After a failed write nothing is written any more: what the file
//! holds is not known then, and every later change fails.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;

use openraft::storage::IOFlushed;
use platform::random::Random;
use platform::work::Lane;
use tokio::sync::{mpsc, oneshot};

use super::file::{LogFile, NewFile, Place};
use super::log::{Log, Record};
use crate::library::Library;

/// Changes that are written together are of so many bytes at most, but for one that is larger.
const WRITE_BYTES_MAX: usize = 1 << 20;

/// A change that memory has already.
pub(super) struct Change {
    pub(super) records: Vec<Record>,
    pub(super) done: Done,
}

/// Who is told when a change is durable, or has failed.
pub(super) enum Done {
    Waiting(oneshot::Sender<io::Result<()>>),
    Library(IOFlushed<Library>),
    Nobody,
}

impl Done {
    fn tell(self, outcome: io::Result<()>) {
        match self {
            Done::Waiting(waiting) => {
                let _ = waiting.send(outcome);
            }
            Done::Library(callback) => callback.io_completed(outcome),
            Done::Nobody => {}
        }
    }
}

/// The error of a change when nothing is written any more.
pub(super) fn stopped() -> io::Error {
    io::Error::other("the log of the metadata group has failed before, and takes nothing any more")
}

/// See the module.
pub(super) struct Writer {
    pub(super) place: Place,
    pub(super) lane: Lane,
    pub(super) random: Random,
    pub(super) log: Rc<RefCell<Log>>,
    pub(super) file: LogFile,
    pub(super) file_bytes: u64,
    pub(super) changes: mpsc::UnboundedReceiver<Change>,
}

impl Writer {
    /// Writes until nobody can change the log any more.
    pub(super) async fn write_for_ever(mut self) {
        let mut has_failed = false;
        while let Some(change) = self.changes.recv().await {
            if has_failed {
                change.done.tell(Err(stopped()));
                continue;
            }
            let mut waiting = Vec::new();
            let outcome = self.write(change, &mut waiting).await;
            has_failed = outcome.is_err();
            if let Err(error) = &outcome {
                tracing::error!(%error, "the log of the metadata group cannot be written: this node leaves its group");
            }
            for done in waiting {
                done.tell(match &outcome {
                    Ok(()) => Ok(()),
                    Err(error) => Err(io::Error::new(error.kind(), error.to_string())),
                });
            }
        }
    }

    /// Writes a change, and those that wait behind it.
    async fn write(&mut self, first: Change, waiting: &mut Vec<Done>) -> io::Result<()> {
        let mut body = Vec::with_capacity(first.records.iter().map(Record::bytes).sum());
        let mut next = Some(first);
        while let Some(change) = next {
            change.records.iter().for_each(|record| record.put(&mut body));
            waiting.push(change.done);
            next = match body.len() < WRITE_BYTES_MAX {
                true => self.changes.try_recv().ok(),
                false => None,
            };
        }
        if self.file.has_room(body.len()) {
            let (position, frame) = self.file.next_frame(&body);
            let file = Arc::clone(&self.file.file);
            return self.lane.run(move || file.write_durable(position, &frame)).await;
        }
        self.begin_file(waiting).await
    }

    /// Writes all that memory has to a new file.
    async fn begin_file(&mut self, waiting: &mut Vec<Done>) -> io::Result<()> {
        // Memory has them all, and nothing is awaited in between.
        while let Ok(change) = self.changes.try_recv() {
            waiting.push(change.done);
        }
        let salt = u64::from_le_bytes(self.random.bytes());
        let new = NewFile::of(
            &self.log.borrow(),
            salt,
            self.file.next_sequence(),
            self.file_bytes,
        );
        let place = self.place.clone();
        let file = self.lane.run(move || new.write(&place)).await?;
        self.lane.let_go(std::mem::replace(&mut self.file, file));
        Ok(())
    }
}
