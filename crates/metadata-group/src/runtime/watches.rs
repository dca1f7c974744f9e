//! Values that are watched: who waits for a change is woken in the order in which the waiting began.
//!
//! All ends of a channel are in one thread. The value must not be held while anybody waits.

use std::cell::{Cell, Ref, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use openraft::async_runtime::{RecvError, Watch, WatchReceiver, WatchSender, watch};

/// See the module.
pub(crate) struct Watches;

struct Shared<T> {
    value: RefCell<T>,
    /// Counts the changes.
    version: Cell<u64>,
    senders: Cell<usize>,
    receivers: Cell<usize>,
    waiting: RefCell<Waiting>,
}

#[derive(Default)]
struct Waiting {
    next: u64,
    wakers: BTreeMap<u64, Waker>,
}

impl<T> Shared<T> {
    fn wake_all(&self) {
        let woken = std::mem::take(&mut self.waiting.borrow_mut().wakers);
        woken.into_values().for_each(Waker::wake);
    }

    fn note_change(&self) {
        self.version.set(self.version.get() + 1);
        self.wake_all();
    }
}

/// The end that changes the value.
pub(crate) struct Sender<T>(Rc<Shared<T>>);

/// An end that watches it.
pub(crate) struct Receiver<T> {
    shared: Rc<Shared<T>>,
    seen: u64,
}

impl<T> Sender<T> {
    fn of(shared: &Rc<Shared<T>>) -> Sender<T> {
        shared.senders.set(shared.senders.get() + 1);
        Sender(Rc::clone(shared))
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Sender<T> {
        Sender::of(&self.0)
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.0.senders.set(self.0.senders.get() - 1);
        if self.0.senders.get() == 0 {
            self.0.wake_all();
        }
    }
}

impl<T> Receiver<T> {
    fn of(shared: &Rc<Shared<T>>, seen: u64) -> Receiver<T> {
        shared.receivers.set(shared.receivers.get() + 1);
        Receiver {
            shared: Rc::clone(shared),
            seen,
        }
    }

    fn poll_changed(
        &mut self,
        place: &mut Place<'_, T>,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), RecvError>> {
        let version = self.shared.version.get();
        if version != self.seen {
            self.seen = version;
            return Poll::Ready(Ok(()));
        }
        if self.shared.senders.get() == 0 {
            return Poll::Ready(Err(RecvError(())));
        }
        place.wait(context.waker());
        Poll::Pending
    }
}

/// A place in the line of those who wait.
struct Place<'a, T> {
    shared: &'a Shared<T>,
    number: Option<u64>,
}

impl<T> Place<'_, T> {
    fn wait(&mut self, waker: &Waker) {
        let mut waiting = self.shared.waiting.borrow_mut();
        let number = *self.number.get_or_insert_with(|| {
            waiting.next += 1;
            waiting.next
        });
        waiting.wakers.insert(number, waker.clone());
    }
}

impl<T> Drop for Place<'_, T> {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.shared.waiting.borrow_mut().wakers.remove(&number);
        }
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Receiver<T> {
        Receiver::of(&self.shared, self.seen)
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.shared.receivers.set(self.shared.receivers.get() - 1);
    }
}

impl Watch for Watches {
    type Sender<T> = Sender<T>;
    type Receiver<T> = Receiver<T>;
    type Ref<'a, T: 'a> = Ref<'a, T>;

    fn channel<T>(first: T) -> (Sender<T>, Receiver<T>) {
        let shared = Rc::new(Shared {
            value: RefCell::new(first),
            version: Cell::new(0),
            senders: Cell::new(0),
            receivers: Cell::new(0),
            waiting: RefCell::default(),
        });
        (Sender::of(&shared), Receiver::of(&shared, 0))
    }
}

impl<T> WatchSender<Watches, T> for Sender<T> {
    fn send(&self, value: T) -> Result<(), watch::SendError<T>> {
        if self.0.receivers.get() == 0 {
            return Err(watch::SendError(value));
        }
        self.0.value.replace(value);
        self.0.note_change();
        Ok(())
    }

    fn send_if_modified<F: FnOnce(&mut T) -> bool>(&self, modify: F) -> bool {
        let is_modified = modify(&mut self.0.value.borrow_mut());
        if is_modified {
            self.0.note_change();
        }
        is_modified
    }

    fn borrow_watched(&self) -> Ref<'_, T> {
        self.0.value.borrow()
    }

    fn subscribe(&self) -> Receiver<T> {
        Receiver::of(&self.0, self.0.version.get())
    }
}

impl<T> WatchReceiver<Watches, T> for Receiver<T> {
    async fn changed(&mut self) -> Result<(), RecvError> {
        let shared = Rc::clone(&self.shared);
        let mut place = Place {
            shared: &shared,
            number: None,
        };
        poll_fn(|context| self.poll_changed(&mut place, context)).await
    }

    fn borrow_watched(&self) -> Ref<'_, T> {
        self.shared.value.borrow()
    }

    fn borrow_and_update(&mut self) -> Ref<'_, T> {
        self.seen = self.shared.version.get();
        self.shared.value.borrow()
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn a_change_is_seen_once() {
        let (sender, mut receiver) = Watches::channel(1);
        assert!(receiver.changed().now_or_never().is_none());
        sender.send(2).expect("somebody watches");
        assert!(receiver.changed().now_or_never().is_some());
        assert!(receiver.changed().now_or_never().is_none());
        assert_eq!(*receiver.borrow_watched(), 2);
        assert!(!sender.send_if_modified(|_| false));
        assert!(sender.subscribe().changed().now_or_never().is_none());
        drop(sender);
        assert!(matches!(receiver.changed().now_or_never(), Some(Err(_))));
    }

    #[test]
    fn without_watchers_nothing_is_sent() {
        let (sender, receiver) = Watches::channel(1);
        drop(receiver);
        assert!(sender.send(2).is_err());
        assert_eq!(*sender.borrow_watched(), 1);
    }

    #[test]
    fn who_waits_no_more_leaves_the_line() {
        let (sender, mut receiver) = Watches::channel(1);
        {
            let waits = pin!(receiver.changed());
            assert!(waits.now_or_never().is_none());
        }
        assert!(sender.0.waiting.borrow().wakers.is_empty());
    }
}
