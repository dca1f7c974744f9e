//! The cores' way to each other: a closure is sent to a core and runs there. Nothing else is shared between them.
//!
//! Letters from one core to another arrive in the order they were sent.

use std::future::Future;
use std::panic::Location;
use std::rc::Rc;

use futures_util::TryFutureExt;
use platform::slices::{Origin, work_for};
use platform::turns;
use tokio::sync::{mpsc, oneshot};

use crate::core::Core;

/// A closure that one core asks another to run.
pub(crate) type Letter = Box<dyn FnOnce(&Rc<Core>) + Send>;

/// The core is gone: the node is stopping.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the node is stopping")]
pub(crate) struct Stopping;

/// The addresses of all cores.
#[derive(Clone)]
pub(crate) struct Mailboxes {
    senders: Vec<mpsc::UnboundedSender<Letter>>,
}

/// One core's letters.
pub(crate) type Mailbox = mpsc::UnboundedReceiver<Letter>;

/// A mailbox for each of `cores`. What waits in them is bounded by the budgets of the connections that send it.
pub(crate) fn mailboxes(cores: usize) -> (Mailboxes, Vec<Mailbox>) {
    let (senders, receivers) = (0..cores).map(|_| mpsc::unbounded_channel()).unzip();
    (Mailboxes { senders }, receivers)
}

impl Mailboxes {
    /// The number of cores.
    pub(crate) fn cores(&self) -> usize {
        self.senders.len()
    }

    /// Runs `letter` on `core`, after what was sent there before. Lost if the node stops first.
    pub(crate) fn send(&self, core: usize, letter: impl FnOnce(&Rc<Core>) + Send + 'static) {
        // A closed mailbox means that the node is stopping: nobody waits for the outcome any more.
        let _ = self.senders[core].send(Box::new(letter));
    }

    /// Runs the future that `letter` makes on `core` and brings its outcome here. It ends with the call: it is dropped when the
    /// call is, and not begun if that was before. So it must be one that may end at any point, as a question may.
    #[track_caller]
    pub(crate) fn call<T, F>(
        &self,
        core: usize,
        letter: impl FnOnce(Rc<Core>) -> F + Send + 'static,
    ) -> impl Future<Output = Result<T, Stopping>>
    where
        T: Send + 'static,
        F: Future<Output = T> + 'static,
    {
        self.ask(core, Ends::WithCall, letter)
    }

    /// The same, but carried out to its end whether or not anybody waits for it: as a change, of which half must never be made.
    #[track_caller]
    pub(crate) fn carry_out<T, F>(
        &self,
        core: usize,
        letter: impl FnOnce(Rc<Core>) -> F + Send + 'static,
    ) -> impl Future<Output = Result<T, Stopping>>
    where
        T: Send + 'static,
        F: Future<Output = T> + 'static,
    {
        self.ask(core, Ends::WhenDone, letter)
    }

    #[track_caller]
    fn ask<T, F>(
        &self,
        core: usize,
        ends: Ends,
        letter: impl FnOnce(Rc<Core>) -> F + Send + 'static,
    ) -> impl Future<Output = Result<T, Stopping>>
    where
        T: Send + 'static,
        F: Future<Output = T> + 'static,
    {
        let (begun_at, origin) = (Location::caller(), Origin::current());
        let ends_with_call = ends == Ends::WithCall;
        let (mut reply, answer) = oneshot::channel();
        self.send(core, move |core| {
            if ends_with_call && reply.is_closed() {
                return;
            }
            let outcome = letter(core.clone());
            let answering = async move {
                tokio::select! {
                    biased;
                    // Only whoever calls can be gone, and then nobody misses the answer.
                    outcome = outcome => drop(reply.send(outcome)),
                    () = reply.closed(), if ends_with_call => {}
                }
            };
            turns::spawn_from(begun_at, work_for(origin, answering));
        });
        answer.map_err(|_| Stopping)
    }
}

/// When work for another core ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ends {
    WithCall,
    WhenDone,
}
