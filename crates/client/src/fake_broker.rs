//! A broker in memory, for the tests of whoever uses this client: real sockets, real frames, no disk.
//!
//! It keeps the batches that it is sent and gives them back, knows idempotent producers, and can be told to misbehave. It
//! checks nothing that a client could not have got wrong, and its panics are a test's failures.

mod answers;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use kafka_wire::{ApiKey, ErrorCode, Reader, RequestHeader};
use record::{BatchBuilder, Compression, Offset};
use rustix::net::sockopt::set_socket_linger;

/// The time to wait for effects that a test has caused.
const PATIENCE: Duration = Duration::from_secs(20);

/// Ways in which a broker can misbehave once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Announces an answer of this many bytes, and sends nothing more.
    Length(i32),
    /// Sends only the first bytes of the answer, then closes.
    CloseInside,
    /// Closes without an answer. The request was carried out.
    Close,
    /// Answers, then resets the connection: from then on the client cannot send.
    Reset,
    /// Answers with the number of another request.
    Correlation,
    /// Answers with bytes that are no message.
    Garbage,
    /// Answers nothing and keeps the connection.
    Silence,
    /// Refuses a produce, fetch, list-offsets or producer-id request, which is then not carried out.
    Refuse(ErrorCode),
    /// Damages the bytes of the first fetched batch.
    Damage,
    /// Cuts fetched bytes after this many.
    Cut(usize),
}

/// One partition's batches.
#[derive(Debug, Default)]
struct Partition {
    batches: Vec<Bytes>,
    start: i64,
    tail: i64,
    /// Base offsets by producer and sequence, so that a repeated batch is not appended again.
    sequences: HashMap<(i64, i32), i64>,
    /// From where on batches are acknowledged and not kept.
    forgets_after: Option<i64>,
    /// Where each of the leader's epochs ended.
    epoch_ends: Vec<i64>,
}

#[derive(Debug, Default)]
struct State {
    topics: BTreeMap<String, Topic>,
    faults: VecDeque<(ApiKey, Fault)>,
    next_producer_id: i64,
    next_topic: u8,
    requests: HashMap<ApiKey, u64>,
    groups: BTreeMap<String, Vec<Committed>>,
    /// The newest versions that are offered, where they are not the newest that there are.
    versions_last: HashMap<ApiKey, i16>,
    /// Connections that were reset.
    resets: u64,
}

/// Where a group is in one partition.
#[derive(Debug)]
struct Committed {
    topic: String,
    partition: i32,
    offset: Offset,
}

#[derive(Debug, Default)]
struct Topic {
    id: [u8; 16],
    partitions: Vec<Partition>,
    configs: Vec<(String, String)>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    appended: Condvar,
    reset: Condvar,
    stopping: AtomicBool,
    address: SocketAddr,
    streams: Mutex<Vec<TcpStream>>,
    /// The newest ApiVersions request that is understood.
    api_versions_last: i16,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A running broker; stops when dropped.
#[derive(Debug)]
pub struct FakeBroker {
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

impl FakeBroker {
    /// Starts on a free port of the loopback.
    ///
    /// # Panics
    /// If the system gives no socket or thread.
    #[must_use]
    pub fn start() -> FakeBroker {
        FakeBroker::start_with(ApiKey::ApiVersions.valid_versions().last)
    }

    /// Starts a broker that understands ApiVersions requests up to a version only.
    ///
    /// # Panics
    /// As `start`.
    #[must_use]
    pub fn start_with(api_versions_last: i16) -> FakeBroker {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("the loopback has free ports");
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            appended: Condvar::new(),
            reset: Condvar::new(),
            stopping: AtomicBool::new(false),
            address: listener.local_addr().expect("a bound socket has an address"),
            streams: Mutex::default(),
            api_versions_last,
        });
        let accepted = Arc::clone(&shared);
        let accepting = std::thread::spawn(move || accept(&listener, &accepted));
        FakeBroker {
            shared,
            accepting: Some(accepting),
        }
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> String {
        self.shared.address.to_string()
    }

    /// Misbehaves at the next request of `api` for which no earlier fault waits.
    pub fn inject(&self, api: ApiKey, fault: Fault) {
        self.shared.lock().faults.push_back((api, fault));
    }

    /// Offers `api` up to a version only, on connections made from now on.
    pub fn offer_up_to(&self, api: ApiKey, version_last: i16) {
        self.shared.lock().versions_last.insert(api, version_last);
    }

    /// Waits until `Fault::Reset` was carried out once.
    ///
    /// # Panics
    /// If that takes too long.
    pub fn wait_reset(&self) {
        let is_awaited = |state: &mut State| state.resets == 0;
        let waited = self
            .shared
            .reset
            .wait_timeout_while(self.shared.lock(), PATIENCE, is_awaited);
        let (_guard, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        assert!(!timeout.timed_out(), "no connection was reset");
    }

    /// Makes a group, if there is none of that name, and sets where it is in one partition.
    pub fn commit(&self, group: &str, topic: &str, partition: i32, offset: Offset) {
        let committed = Committed {
            topic: topic.to_owned(),
            partition,
            offset,
        };
        let mut state = self.shared.lock();
        state.groups.entry(group.to_owned()).or_default().push(committed);
    }

    /// Deletes a topic. Fetches that wait for its records are answered.
    pub fn delete_topic(&self, name: &str) {
        self.shared.lock().topics.remove(name);
        self.shared.appended.notify_all();
    }

    /// Gives a topic so many more partitions.
    ///
    /// # Panics
    /// If there is no such topic.
    pub fn grow_topic(&self, name: &str, more: usize) {
        let mut state = self.shared.lock();
        let topic = state.topics.get_mut(name).expect("the test created it");
        topic.partitions.extend((0..more).map(|_| Partition::default()));
    }

    /// Creates a topic.
    pub fn create_topic(&self, name: &str, partitions: usize) {
        self.shared.lock().create(name, partitions, Vec::new());
    }

    /// Appends a batch of records without keys and with empty values.
    ///
    /// # Panics
    /// If there is no such partition, or no record is wanted.
    pub fn append(&self, topic: &str, partition: usize, records: usize) {
        let mut builder = BatchBuilder::new(Compression::None);
        for _ in 0..records {
            builder.append(0, None, Some(b""), &[]);
        }
        let mut state = self.shared.lock();
        let topic = state.topics.get_mut(topic).expect("the test created it");
        let appended = topic.partitions[partition].append(Some(&builder.build()));
        appended.expect("the batch is sound");
        self.shared.appended.notify_all();
    }

    /// Gives up a partition's batches that lie wholly before `offset`.
    ///
    /// # Panics
    /// If there is no such partition.
    pub fn trim(&self, topic: &str, partition: usize, offset: i64) {
        let mut state = self.shared.lock();
        let topic = state.topics.get_mut(topic).expect("the test created it");
        topic.partitions[partition].start = offset;
    }

    /// Loses a partition's batches that begin at `offset` or later, as a leader does that comes back without them.
    ///
    /// # Panics
    /// If there is no such partition.
    pub fn lose_from(&self, topic: &str, partition: usize, offset: i64) {
        let mut state = self.shared.lock();
        let topic = state.topics.get_mut(topic).expect("the test created it");
        topic.partitions[partition].lose_from(offset);
    }

    /// Loses a partition's batches that begin at `offset` or later, sent from now on, yet acknowledges them.
    ///
    /// # Panics
    /// If there is no such partition.
    pub fn forget_after(&self, topic: &str, partition: usize, offset: i64) {
        let mut state = self.shared.lock();
        let topic = state.topics.get_mut(topic).expect("the test created it");
        topic.partitions[partition].forgets_after = Some(offset);
    }

    /// The batches that a partition holds.
    ///
    /// # Panics
    /// If there is no such partition.
    #[must_use]
    pub fn batches(&self, topic: &str, partition: usize) -> Vec<Bytes> {
        self.shared.lock().topics[topic].partitions[partition]
            .batches
            .clone()
    }

    /// The configs that a topic was created with.
    ///
    /// # Panics
    /// If there is no such topic.
    #[must_use]
    pub fn configs(&self, topic: &str) -> Vec<(String, String)> {
        self.shared.lock().topics[topic].configs.clone()
    }

    /// The number of requests of `api` that have come.
    #[must_use]
    pub fn requests(&self, api: ApiKey) -> u64 {
        self.shared.lock().requests.get(&api).copied().unwrap_or(0)
    }

    /// Ends all connections; new ones are still accepted.
    pub fn disconnect_all(&self) {
        let mut streams = self.shared.streams.lock().unwrap_or_else(PoisonError::into_inner);
        for stream in streams.drain(..) {
            // One that has ended by itself is what was wanted.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl Drop for FakeBroker {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::Release);
        self.shared.appended.notify_all();
        // Wakes the accepting thread, which then sees that it should stop.
        let _ = TcpStream::connect(self.shared.address);
        self.disconnect_all();
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        if shared.stopping.load(Ordering::Acquire) {
            return;
        }
        let Ok(stream) = stream else { continue };
        if let Ok(copy) = stream.try_clone() {
            let mut streams = shared.streams.lock().unwrap_or_else(PoisonError::into_inner);
            streams.push(copy);
        }
        let shared = Arc::clone(shared);
        std::thread::spawn(move || {
            // The stream's end is how every connection ends here.
            let _ = serve(stream, &shared);
        });
    }
}

/// Answers one connection's requests in their order until it ends.
fn serve(mut stream: TcpStream, shared: &Shared) -> io::Result<()> {
    stream.set_nodelay(true)?;
    loop {
        let mut prefix = [0; 4];
        stream.read_exact(&mut prefix)?;
        let mut frame = vec![0; u32::from_be_bytes(prefix) as usize];
        stream.read_exact(&mut frame)?;
        let mut reader = Reader::new(Bytes::from(frame));
        let header = RequestHeader::decode(&mut reader).expect("this client's headers can be read");
        let fault = shared.lock().next_fault(header.api_key);
        let Some(answer) = answers::answer(shared, &header, reader, fault) else {
            continue;
        };
        if !reply(&mut stream, &answer, fault)? {
            return stream.shutdown(Shutdown::Both);
        }
        if fault == Some(Fault::Reset) {
            return reset(stream, shared);
        }
    }
}

/// Ends a connection as the system does for a process that died: without waiting for what is under way.
fn reset(stream: TcpStream, shared: &Shared) -> io::Result<()> {
    let peer = stream.peer_addr()?;
    let is_other = |copy: &TcpStream| copy.peer_addr().ok() != Some(peer);
    // The copy would keep it open.
    let mut streams = shared.streams.lock().unwrap_or_else(PoisonError::into_inner);
    streams.retain(is_other);
    drop(streams);
    set_socket_linger(&stream, Some(Duration::ZERO))?;
    drop(stream);
    shared.lock().resets += 1;
    shared.reset.notify_all();
    Ok(())
}

/// Sends an answer, spoilt as the fault says; whether the connection stays.
fn reply(stream: &mut TcpStream, answer: &[u8], fault: Option<Fault>) -> io::Result<bool> {
    match fault {
        Some(Fault::Close) => return Ok(false),
        Some(Fault::Silence) => {}
        Some(Fault::CloseInside) => {
            stream.write_all(&answer[..answer.len() / 2])?;
            return Ok(false);
        }
        Some(Fault::Length(length)) => stream.write_all(&length.to_be_bytes())?,
        Some(Fault::Correlation) => {
            let mut wrong = answer.to_vec();
            wrong[7] = !wrong[7];
            stream.write_all(&wrong)?;
        }
        Some(Fault::Garbage) => {
            let mut garbage = answer.to_vec();
            garbage[8..].fill(0x7f);
            stream.write_all(&garbage)?;
        }
        Some(Fault::Reset | Fault::Refuse(_) | Fault::Damage | Fault::Cut(_)) | None => {
            stream.write_all(answer)?;
        }
    }
    Ok(true)
}

impl State {
    fn next_fault(&mut self, api: ApiKey) -> Option<Fault> {
        *self.requests.entry(api).or_default() += 1;
        let index = self.faults.iter().position(|(at, _)| *at == api)?;
        self.faults.remove(index).map(|(_, fault)| fault)
    }

    fn create(&mut self, name: &str, partitions: usize, configs: Vec<(String, String)>) {
        self.next_topic += 1;
        let topic = Topic {
            id: [self.next_topic; 16],
            partitions: (0..partitions).map(|_| Partition::default()).collect(),
            configs,
        };
        self.topics.insert(name.to_owned(), topic);
    }

    /// A topic by its name or, where newer requests leave that empty, by its identity.
    fn find(&mut self, name: &str, id: [u8; 16]) -> Option<&mut Topic> {
        if name.is_empty() {
            return self.topics.values_mut().find(|topic| topic.id == id);
        }
        self.topics.get_mut(name)
    }
}
