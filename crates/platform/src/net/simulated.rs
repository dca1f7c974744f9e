//! A network in memory, of which a seed decides what is slow and whoever simulates what is cut.
//!
//! Bytes of one direction of a connection arrive in order and once, as TCP has it, each write a while after it was made. A cut
//! holds back what is sent from one host to another until it is mended; a reset ends connections with an error at both ends; a host
//! that vanishes says nothing to anyone, and those who were connected to it learn of it when they write and it is back.
//! Time is that of the runtime (tokio), which a simulation pauses.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep, sleep_until};

use super::{Bound, BoundKind, Connecting, Net, Stream};
use crate::random::SeededRandom;

/// Bytes that one direction of a connection holds at most, sent and not read yet.
const HELD_BYTES_MAX: usize = 256 << 10;
/// Ports that are given to those who connect, or who bind port 0.
const FIRST_FREE_PORT: u16 = 40_000;
/// The longest wait for an answer to a connection that is being made.
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);

/// A network of hosts. Clones are the same network.
#[derive(Debug, Clone)]
pub struct SimulatedNet(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    random: SeededRandom,
    listeners: BTreeMap<SocketAddr, Arc<Mutex<Waiting>>>,
    /// Each connection that is not over, and the hosts at its ends: first the one that connected.
    connections: BTreeMap<u64, Connection>,
    next_connection: u64,
    next_port: u16,
    /// From whom to whom nothing comes through.
    cuts: BTreeSet<(IpAddr, IpAddr)>,
}

#[derive(Debug)]
struct Connection {
    ends: (IpAddr, IpAddr),
    /// From the first to the second, and back.
    ways: (Way, Way),
}

/// Clients that wait to be let in.
#[derive(Debug, Default)]
struct Waiting {
    /// Others are refused until then.
    is_open: bool,
    clients: VecDeque<(Ends, SocketAddr)>,
    accepting: Option<Waker>,
}

/// One direction of a connection.
#[derive(Debug, Clone)]
struct Way(Arc<Mutex<Pipe>>);

#[derive(Debug, Default)]
struct Pipe {
    connection: u64,
    under_way: VecDeque<(Instant, Bytes)>,
    held_bytes: usize,
    /// Nothing of it arrives before what was sent earlier.
    last_arrival: Option<Instant>,
    /// The writing end is gone: behind what is under way, the reader finds the end.
    ended: bool,
    /// The reading end is gone: who writes gets an error.
    unread: bool,
    is_reset: bool,
    is_cut: bool,
    /// The reading host has vanished: what is written goes nowhere.
    into_nothing: bool,
    reading: Option<Waker>,
    writing: Option<Waker>,
}

/// Both ends of what one side of a connection has.
pub(super) type Ends = (ReadEnd, WriteEnd);

/// See `ReadHalf`.
#[derive(Debug)]
pub struct ReadEnd {
    net: SimulatedNet,
    way: Way,
    arrival: Option<Pin<Box<Sleep>>>,
}

/// See `WriteHalf`.
#[derive(Debug)]
pub struct WriteEnd {
    net: SimulatedNet,
    way: Way,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn wake(waker: &mut Option<Waker>) {
    if let Some(waker) = waker.take() {
        waker.wake();
    }
}

impl SimulatedNet {
    /// A network without hosts whose delays are those of the generator.
    pub fn new(random: SeededRandom) -> SimulatedNet {
        SimulatedNet(Arc::new(Mutex::new(State {
            random,
            listeners: BTreeMap::new(),
            connections: BTreeMap::new(),
            next_connection: 0,
            next_port: FIRST_FREE_PORT,
            cuts: BTreeSet::new(),
        })))
    }

    /// The network as one host sees it.
    pub fn host(&self, address: IpAddr) -> Arc<dyn Net> {
        Arc::new(Host {
            net: self.clone(),
            address,
        })
    }

    /// Holds back what `from` sends to `to`, on the connections that are there and on those that come.
    pub fn cut(&self, from: IpAddr, to: IpAddr) {
        let mut state = lock(&self.0);
        state.cuts.insert((from, to));
        state.each_way(from, to, |pipe| pipe.is_cut = true);
    }

    /// Lets through again all that was cut.
    pub fn mend(&self) {
        let mut state = lock(&self.0);
        for (from, to) in std::mem::take(&mut state.cuts) {
            state.each_way(from, to, |pipe| {
                pipe.is_cut = false;
                wake(&mut pipe.reading);
            });
        }
    }

    /// Ends all connections between two hosts with an error at both ends. Returns how many there were.
    pub fn reset(&self, one: IpAddr, other: IpAddr) -> usize {
        let mut state = lock(&self.0);
        let between =
            |connection: &Connection| connection.ends == (one, other) || connection.ends == (other, one);
        let (mut count, mut ended) = (0, Vec::new());
        for (id, connection) in &state.connections {
            if between(connection) {
                connection.ways.0.reset();
                connection.ways.1.reset();
                count += 1;
                ended.push(*id);
            }
        }
        for id in ended {
            state.connections.remove(&id);
        }
        count
    }

    /// Has a host fall silent, as by a loss of power: its ends of connections say nothing any more, not even that they are gone.
    pub fn vanish(&self, host: IpAddr) {
        let mut state = lock(&self.0);
        let (listeners, gone) = std::mem::take(&mut state.listeners)
            .into_iter()
            .partition(|(address, _)| address.ip() != host);
        state.listeners = listeners;
        for connection in state.connections.values() {
            let (to_host, from_host) = match connection.ends {
                (one, _) if one == host => (&connection.ways.1, &connection.ways.0),
                (_, other) if other == host => (&connection.ways.0, &connection.ways.1),
                _ => continue,
            };
            let mut to_host = lock(&to_host.0);
            to_host.into_nothing = true;
            to_host.under_way.clear();
            wake(&mut to_host.writing);
            lock(&from_host.0).into_nothing = true;
        }
        // Connections that wait to be let in there are dropped without the lock: a dropped end takes it.
        drop(state);
        drop::<BTreeMap<_, _>>(gone);
    }

    fn delay(&self) -> Duration {
        lock(&self.0).delay()
    }

    /// Returns whether somebody listens at the host where a connection's way leads.
    fn is_back(&self, connection: u64, way: &Way) -> bool {
        let state = lock(&self.0);
        let Some(connection) = state.connections.get(&connection) else {
            return true;
        };
        let leads_to = match Arc::ptr_eq(&connection.ways.0.0, &way.0) {
            true => connection.ends.1,
            false => connection.ends.0,
        };
        state.listeners.keys().any(|address| address.ip() == leads_to)
    }

    fn free_port(&self, host: IpAddr) -> SocketAddr {
        let mut state = lock(&self.0);
        let port = state.next_port;
        state.next_port = port.checked_add(1).unwrap_or(FIRST_FREE_PORT);
        SocketAddr::new(host, port)
    }

    /// Makes a connection and has it wait to be let in.
    fn join(&self, from: SocketAddr, to: SocketAddr) -> io::Result<Ends> {
        let mut state = lock(&self.0);
        let listener = state.listeners.get(&to).cloned();
        let listener = listener.filter(|waiting| lock(waiting).is_open);
        let Some(listener) = listener else {
            return Err(io::ErrorKind::ConnectionRefused.into());
        };
        let id = state.next_connection;
        state.next_connection += 1;
        let way = |is_cut| {
            Way(Arc::new(Mutex::new(Pipe {
                connection: id,
                is_cut,
                ..Pipe::default()
            })))
        };
        let there = way(state.cuts.contains(&(from.ip(), to.ip())));
        let back = way(state.cuts.contains(&(to.ip(), from.ip())));
        let ends = |read: &Way, write: &Way| {
            let read = ReadEnd {
                net: self.clone(),
                way: read.clone(),
                arrival: None,
            };
            let write = WriteEnd {
                net: self.clone(),
                way: write.clone(),
            };
            (read, write)
        };
        state.connections.insert(
            id,
            Connection {
                ends: (from.ip(), to.ip()),
                ways: (there.clone(), back.clone()),
            },
        );
        let mut waiting = lock(&listener);
        waiting.clients.push_back((ends(&there, &back), from));
        wake(&mut waiting.accepting);
        Ok(ends(&back, &there))
    }
}

impl State {
    /// Mostly some tens of microseconds, now and then milliseconds, and seldom many.
    fn delay(&mut self) -> Duration {
        let most_us = match self.random.below(1_000) {
            0 => 100_000,
            1..20 => 10_000,
            20..100 => 1_000,
            _ => 100,
        };
        Duration::from_micros(10 + self.random.below(most_us))
    }

    fn each_way(&self, from: IpAddr, to: IpAddr, mut change: impl FnMut(&mut Pipe)) {
        for connection in self.connections.values() {
            if connection.ends == (from, to) {
                change(&mut lock(&connection.ways.0.0));
            }
            if connection.ends == (to, from) {
                change(&mut lock(&connection.ways.1.0));
            }
        }
    }
}

impl Way {
    fn reset(&self) {
        let mut pipe = lock(&self.0);
        pipe.is_reset = true;
        pipe.under_way.clear();
        wake(&mut pipe.reading);
        wake(&mut pipe.writing);
    }
}

struct Host {
    net: SimulatedNet,
    address: IpAddr,
}

impl Net for Host {
    /// Of the address only the port counts: a host has one address.
    fn listen(&self, address: &str) -> io::Result<Bound> {
        let (_, port) = address.rsplit_once(':').ok_or(io::ErrorKind::InvalidInput)?;
        let port: u16 = port.parse().map_err(|_| io::ErrorKind::InvalidInput)?;
        let address = match port {
            0 => self.net.free_port(self.address),
            port => SocketAddr::new(self.address, port),
        };
        let mut state = lock(&self.net.0);
        if state.listeners.contains_key(&address) {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        let waiting = Arc::new(Mutex::new(Waiting::default()));
        state.listeners.insert(address, Arc::clone(&waiting));
        Ok(Bound(BoundKind::Simulated(Listener {
            net: self.net.clone(),
            address,
            waiting,
        })))
    }

    /// Hosts have no names.
    fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        let address = host.parse().map_err(|_| io::ErrorKind::NotFound)?;
        Ok(vec![SocketAddr::new(address, port)])
    }

    fn connect(&self, to: SocketAddr) -> Connecting {
        let (net, from) = (self.net.clone(), self.net.free_port(self.address));
        Box::pin(async move {
            sleep(net.delay()).await;
            let is_cut = {
                let state = lock(&net.0);
                state.cuts.contains(&(from.ip(), to.ip())) || state.cuts.contains(&(to.ip(), from.ip()))
            };
            if is_cut {
                sleep(CONNECT_PATIENCE).await;
                return Err(io::ErrorKind::TimedOut.into());
            }
            net.join(from, to).map(Stream::from)
        })
    }
}

/// See `super::Listener`. Dropping it frees the address and resets who waits.
#[derive(Debug)]
pub(super) struct Listener {
    net: SimulatedNet,
    address: SocketAddr,
    waiting: Arc<Mutex<Waiting>>,
}

impl Listener {
    /// Lets clients connect.
    pub(super) fn open(self) -> Listener {
        lock(&self.waiting).is_open = true;
        self
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) async fn accept(&self) -> (Ends, SocketAddr) {
        std::future::poll_fn(|context| {
            let mut waiting = lock(&self.waiting);
            match waiting.clients.pop_front() {
                Some(client) => Poll::Ready(client),
                None => {
                    waiting.accepting = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let mut state = lock(&self.net.0);
        // A host that vanished may listen anew by now.
        if let Some(waiting) = state.listeners.get(&self.address)
            && Arc::ptr_eq(waiting, &self.waiting)
        {
            state.listeners.remove(&self.address);
        }
        drop(state);
        let clients = std::mem::take(&mut lock(&self.waiting).clients);
        for ((input, output), _) in clients {
            input.way.reset();
            output.way.reset();
        }
    }
}

impl ReadEnd {
    pub(super) fn is_of(&self, output: &WriteEnd) -> bool {
        let connection = |way: &Way| lock(&way.0).connection;
        connection(&self.way) == connection(&output.way)
    }

    /// Ready when bytes have arrived, or the end or a reset has.
    pub(super) fn poll_readable(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let mut pipe = lock(&self.way.0);
        if pipe.is_reset {
            return Poll::Ready(());
        }
        pipe.reading = Some(context.waker().clone());
        if pipe.is_cut {
            return Poll::Pending;
        }
        match pipe.under_way.front() {
            Some((arrives, _)) if *arrives <= Instant::now() => Poll::Ready(()),
            Some((arrives, _)) => {
                let arrives = *arrives;
                drop(pipe);
                let arrival = self.arrival.insert(Box::pin(sleep_until(arrives)));
                arrival.as_mut().poll(context)
            }
            None if pipe.ended => Poll::Ready(()),
            None => Poll::Pending,
        }
    }
}

impl AsyncRead for ReadEnd {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_readable(context));
        let mut pipe = lock(&this.way.0);
        if pipe.is_reset {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        if let Some((_, bytes)) = pipe.under_way.front_mut() {
            let taken = bytes.len().min(buffer.remaining());
            buffer.put_slice(&bytes[..taken]);
            bytes.advance(taken);
            if bytes.is_empty() {
                pipe.under_way.pop_front();
            }
            pipe.held_bytes -= taken;
            wake(&mut pipe.writing);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for WriteEnd {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let (connection, into_nothing) = {
            let pipe = lock(&self.way.0);
            (pipe.connection, pipe.into_nothing)
        };
        if into_nothing {
            // A host that is back knows nothing of the connection and says so; else nobody does.
            if self.net.is_back(connection, &self.way) {
                lock(&self.way.0).is_reset = true;
            } else {
                return Poll::Ready(Ok(bytes.len()));
            }
        }
        let delay = self.net.delay();
        let mut pipe = lock(&self.way.0);
        if pipe.is_reset {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        if pipe.unread {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let taken = bytes.len().min(HELD_BYTES_MAX - pipe.held_bytes);
        if taken == 0 && !bytes.is_empty() {
            pipe.writing = Some(context.waker().clone());
            return Poll::Pending;
        }
        let arrives = pipe
            .last_arrival
            .map_or(Instant::now() + delay, |last| last.max(Instant::now() + delay));
        pipe.last_arrival = Some(arrives);
        pipe.held_bytes += taken;
        pipe.under_way
            .push_back((arrives, Bytes::copy_from_slice(&bytes[..taken])));
        wake(&mut pipe.reading);
        Poll::Ready(Ok(taken))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let all: Vec<&[u8]> = slices.iter().map(|slice| &**slice).collect();
        self.poll_write(context, &all.concat())
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.end();
        Poll::Ready(Ok(()))
    }
}

impl WriteEnd {
    fn end(&self) {
        let mut pipe = lock(&self.way.0);
        // A host that vanished says nothing.
        if !pipe.into_nothing {
            pipe.ended = true;
            wake(&mut pipe.reading);
        }
    }
}

impl Drop for WriteEnd {
    fn drop(&mut self) {
        self.end();
    }
}

impl Drop for ReadEnd {
    fn drop(&mut self) {
        let mut pipe = lock(&self.way.0);
        pipe.unread = !pipe.into_nothing;
        wake(&mut pipe.writing);
        let (connection, both_gone) = (pipe.connection, pipe.ended);
        drop(pipe);
        if both_gone {
            lock(&self.net.0).connections.remove(&connection);
        }
    }
}

#[cfg(test)]
mod tests;
