//! The runtime that the library runs on: the core's own thread, the runtime's timers, and random numbers of the group's generator.
//!
//! The library draws its numbers (election time-outs, the phase of its ticks) by a call without an argument. So the generator goes with the
//! tasks: each task has that of the task that began it. Several groups in one thread, as in a simulation, do not share one.

use std::cell::RefCell;
use std::convert::Infallible;
use std::future::Future;
use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::rc::Rc;
use std::time::Duration;

use openraft::async_runtime::{
    AsyncRuntime, Instant, Mpsc, MpscReceiver, MpscSender, MpscWeakSender, Mutex, Oneshot, OneshotSender,
    SendError, TryRecvError,
};
use platform::random::SeededRandom;
use tokio::sync;

use self::watches::Watches;

mod watches;

tokio::task_local! {
    static RANDOM: Rc<RefCell<SeededRandom>>;
}

/// Runs a future with a generator of its own. So do the tasks that it begins.
pub(crate) async fn with_random<T>(random: SeededRandom, future: impl Future<Output = T>) -> T {
    RANDOM.scope(Rc::new(RefCell::new(random)), future).await
}

/// See the module.
#[derive(Debug)]
pub(crate) struct CoreRuntime(());

impl AsyncRuntime for CoreRuntime {
    type JoinError = tokio::task::JoinError;
    type JoinHandle<T: 'static> = tokio::task::JoinHandle<T>;
    type Sleep = tokio::time::Sleep;
    type Instant = Moment;
    type TimeoutError = tokio::time::error::Elapsed;
    type Timeout<R, T: Future<Output = R>> = tokio::time::Timeout<T>;
    type ThreadLocalRng = Draws;
    type Mpsc = Channels;
    type Watch = Watches;
    type Oneshot = Channels;
    type Mutex<T: 'static> = Lock<T>;

    #[track_caller]
    fn spawn<T>(future: T) -> Self::JoinHandle<T::Output>
    where
        T: Future + 'static,
        T::Output: 'static,
    {
        match RANDOM.try_with(Rc::clone) {
            Ok(random) => platform::turns::spawn_own(RANDOM.scope(random, future)),
            Err(_) => platform::turns::spawn_own(future),
        }
    }

    fn sleep(duration: Duration) -> Self::Sleep {
        tokio::time::sleep(duration)
    }

    fn sleep_until(deadline: Moment) -> Self::Sleep {
        tokio::time::sleep_until(deadline.0)
    }

    fn timeout<R, F: Future<Output = R>>(duration: Duration, future: F) -> Self::Timeout<R, F> {
        tokio::time::timeout(duration, future)
    }

    fn timeout_at<R, F: Future<Output = R>>(deadline: Moment, future: F) -> Self::Timeout<R, F> {
        tokio::time::timeout_at(deadline.0, future)
    }

    fn is_panic(error: &Self::JoinError) -> bool {
        error.is_panic()
    }

    fn thread_rng() -> Draws {
        Draws(RANDOM.with(Rc::clone))
    }

    fn new(_threads: usize) -> CoreRuntime {
        CoreRuntime(())
    }

    fn block_on<F, T>(&mut self, _future: F) -> T
    where
        F: Future<Output = T>,
    {
        unreachable!("the library asks for this in its own tests only")
    }
}

/// Numbers of the generator of the task that runs.
pub(crate) struct Draws(Rc<RefCell<SeededRandom>>);

impl rand_core::TryRng for Draws {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok((self.0.borrow_mut().next_u64() >> 32) as u32)
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(self.0.borrow_mut().next_u64())
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        self.0.borrow_mut().fill(bytes);
        Ok(())
    }
}

/// A moment of the runtime's time, which a simulation has stand still.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(tokio::time::Instant);

impl Instant for Moment {
    fn now() -> Moment {
        Moment(tokio::time::Instant::now())
    }
}

impl Add<Duration> for Moment {
    type Output = Moment;

    fn add(self, duration: Duration) -> Moment {
        Moment(self.0 + duration)
    }
}

impl AddAssign<Duration> for Moment {
    fn add_assign(&mut self, duration: Duration) {
        self.0 += duration;
    }
}

impl Sub<Duration> for Moment {
    type Output = Moment;

    fn sub(self, duration: Duration) -> Moment {
        Moment(self.0 - duration)
    }
}

impl Sub<Moment> for Moment {
    type Output = Duration;

    fn sub(self, earlier: Moment) -> Duration {
        self.0 - earlier.0
    }
}

impl SubAssign<Duration> for Moment {
    fn sub_assign(&mut self, duration: Duration) {
        self.0 -= duration;
    }
}

/// The runtime's channels under the library's names. Its `watch` is not among them: that wakes who waits in an order of its own random
/// numbers.
pub(crate) struct Channels;

pub(crate) struct Sender<T>(sync::mpsc::Sender<T>);
pub(crate) struct Receiver<T>(sync::mpsc::Receiver<T>);
pub(crate) struct WeakSender<T>(sync::mpsc::WeakSender<T>);

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Sender(self.0.clone())
    }
}

impl<T> Clone for WeakSender<T> {
    fn clone(&self) -> Self {
        WeakSender(self.0.clone())
    }
}

impl Mpsc for Channels {
    type Sender<T> = Sender<T>;
    type Receiver<T> = Receiver<T>;
    type WeakSender<T> = WeakSender<T>;

    fn channel<T>(buffer: usize) -> (Sender<T>, Receiver<T>) {
        let (sender, receiver) = sync::mpsc::channel(buffer);
        (Sender(sender), Receiver(receiver))
    }
}

impl<T> MpscSender<Channels, T> for Sender<T> {
    async fn send(&self, message: T) -> Result<(), SendError<T>> {
        self.0.send(message).await.map_err(|error| SendError(error.0))
    }

    fn downgrade(&self) -> WeakSender<T> {
        WeakSender(self.0.downgrade())
    }
}

impl<T> MpscReceiver<T> for Receiver<T> {
    async fn recv(&mut self) -> Option<T> {
        self.0.recv().await
    }

    fn try_recv(&mut self) -> Result<T, TryRecvError> {
        self.0.try_recv().map_err(|error| match error {
            sync::mpsc::error::TryRecvError::Empty => TryRecvError::Empty,
            sync::mpsc::error::TryRecvError::Disconnected => TryRecvError::Disconnected,
        })
    }
}

impl<T> MpscWeakSender<Channels, T> for WeakSender<T> {
    fn upgrade(&self) -> Option<Sender<T>> {
        self.0.upgrade().map(Sender)
    }
}

pub(crate) struct Once<T>(sync::oneshot::Sender<T>);

impl Oneshot for Channels {
    type Sender<T> = Once<T>;
    type Receiver<T> = sync::oneshot::Receiver<T>;
    type ReceiverError = sync::oneshot::error::RecvError;

    fn channel<T>() -> (Once<T>, sync::oneshot::Receiver<T>) {
        let (sender, receiver) = sync::oneshot::channel();
        (Once(sender), receiver)
    }
}

impl<T> OneshotSender<T> for Once<T> {
    fn send(self, value: T) -> Result<(), T> {
        self.0.send(value)
    }
}

/// The runtime's lock under the library's name.
pub(crate) struct Lock<T>(sync::Mutex<T>);

impl<T: 'static> Mutex<T> for Lock<T> {
    type Guard<'a> = sync::MutexGuard<'a, T>;

    fn new(value: T) -> Self {
        Lock(sync::Mutex::new(value))
    }

    async fn lock(&self) -> sync::MutexGuard<'_, T> {
        self.0.lock().await
    }
}
