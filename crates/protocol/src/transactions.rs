//! The transaction coordinator: which producer has a transactional id, and how its transactions end (KIP-98, KIP-890).
//!
//! A pure state machine. One [`Coordinator`] holds the transactional ids of one shard; an id belongs to the coordinator that a hash
//! of it gives. It never tells an outcome before that is durable, and never lets a transaction count as completed before
//! every partition has its marker.
//!
//! # How a server drives it
//! ```text
//! start    Coordinator::new(settings, coordinator epoch, wall clock)
//!          replay(key, value)  every record of the transactions' log, in its order
//!          handle_loaded(now)  from here on requests are taken; before, they are refused as "loading"
//! run      handle_request(now, ticket, request)      one door for all; the ticket comes back with the answer
//!          handle_persisted(now, id, Ok or Err)      in the order of the ids
//!          handle_marked(now, marker, outcome)       what became of a marker, in any order
//!          handle_producer_id(now, id, Ok or Err)    what a taking of a producer id has given, in any order
//!          handle_time(now)                          when `deadline()` has come, as long as it has; late is no harm
//!          handle_wall_clock(now, milliseconds)      before each of these, or now and then
//! always   while let Some(action) = next_action() { .. }   after each of these
//! ```
//! An [`Action::Persist`] is appended to the transactions' log ([`TRANSACTIONS_TOPIC`]). Several may be under way, and may ride
//! in one batch; each is all or nothing. `Err` says that the records are *not* in the log and never will be: the change is
//! dropped and the client is told to retry. If the server cannot know (its disk died), it must not report at all, but
//! drop the coordinator and replay.
//!
//! # How a transaction ends
//! ```text
//! EndTxn -> PREPARE durable -> EndTxn is answered -> markers, again and again -> each partition has its own or is gone
//!        -> the next transaction may begin; COMPLETE is written, or what is next stands in its place
//! ```
//! State changes only when a record is durable, to the value that replay would read; a completion alone is known before (see `entry`). One change of an id is under way at a time; other
//! requests are told to come again. A coordinator that starts has a higher epoch than those before it and sends the markers of all
//! that is decided once more: partitions take them a second time without harm.
//!
//! `now` is monotonic time since the process started. Records carry the wall clock's time, as it is told. Transactions that began since
//! the start time out by monotonic time, those that were read by the least that the wall clock has shown.

mod clock;
mod context;
mod contract;
mod describe;
mod end;
mod entry;
mod init;
mod markers;
mod partitions;
mod record;
mod settings;
mod state;
mod tally;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

pub use contract::*;
pub use record::TRANSACTIONS_TOPIC;
pub use settings::Settings;
pub use tally::Figures;

use crate::{DecodeError, ProducerId};
use context::Context;
use entry::Entry;

/// Ids that are woken in one call.
const WAKES_AT_ONCE: usize = 1_000;

/// The transactional ids of one shard. See the module.
#[derive(Debug)]
pub struct Coordinator {
    cx: Context,
    entries: BTreeMap<Name, Entry>,
    /// The time when each id is to be looked at.
    wakes: BTreeSet<(Duration, Name)>,
    loaded: bool,
}

impl Coordinator {
    /// A coordinator without ids, waiting for the replay. `coordinator_epoch` is above that of any coordinator that had these ids before,
    /// `unix_ms_at_zero` the wall clock at `now` zero, milliseconds since 1970.
    #[must_use]
    pub fn new(settings: Settings, coordinator_epoch: i32, unix_ms_at_zero: i64) -> Coordinator {
        Coordinator {
            cx: Context::new(settings, coordinator_epoch, unix_ms_at_zero),
            entries: BTreeMap::new(),
            wakes: BTreeSet::new(),
            loaded: false,
        }
    }

    /// Takes a record of the transactions' log. The same records in the same order give the same ids.
    ///
    /// # Errors
    /// The record is damaged or newer than this program: the coordinator must not be used then.
    ///
    /// # Panics
    /// The replay was declared over.
    pub fn replay(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<(), DecodeError> {
        assert!(!self.loaded, "the log is replayed before requests are taken");
        let (name, state) = record::decode(key, value)?;
        if state.is_none() {
            self.entries.remove(&name);
            return Ok(());
        }
        let entry = self.entries.entry(Name::clone(&name));
        entry.or_insert_with(|| Entry::new(&name)).state = state;
        Ok(())
    }

    /// The replay is over. Partitions of transactions whose outcome is decided are told once more; those that are open go on
    /// with their timeout.
    pub fn handle_loaded(&mut self, now: Duration) {
        self.cx.clock.advance(now);
        self.loaded = true;
        let names: Vec<Name> = self.entries.keys().cloned().collect();
        for name in names {
            self.at_entry(&name, Entry::handle_loaded);
        }
    }

    /// Takes what the clock on the wall shows now, in milliseconds since 1970: it may have been set, and while the machine
    /// slept it went on.
    pub fn handle_wall_clock(&mut self, now: Duration, unix_ms: i64) {
        self.cx.clock.advance(now);
        self.cx.clock.set_wall_clock(unix_ms);
    }

    /// Takes a request. Its answer comes as an action, at once or later, exactly once.
    pub fn handle_request(&mut self, now: Duration, ticket: Ticket, request: Request) {
        self.cx.clock.advance(now);
        if let Err(error) = self.check(&request) {
            self.cx.answer(ticket, request.refused(error));
            return;
        }
        match &request {
            Request::List(filter) => {
                let listed = describe::list(&self.entries, filter, self.cx.clock.unix_ms());
                return self.cx.answer(ticket, Answer::List(Ok(listed)));
            }
            Request::Describe(asked) => {
                let described = describe::describe(&self.entries, asked);
                return self.cx.answer(ticket, Answer::Describe(described));
            }
            _ => {}
        }
        let name = Name::clone(
            request
                .transactional_id()
                .expect("all but ListTransactions name an id"),
        );
        if matches!(request, Request::Init(_)) {
            self.entries
                .entry(Name::clone(&name))
                .or_insert_with(|| Entry::new(&name));
        }
        self.at_entry(&name, |entry, cx| entry.handle(cx, ticket, request));
    }

    /// Says what became of an [`Action::Persist`].
    ///
    /// # Panics
    /// Ids out of order: the order of the log decides what holds.
    pub fn handle_persisted(&mut self, now: Duration, id: PersistId, result: Result<(), NotPersisted>) {
        self.cx.clock.advance(now);
        let done = self.cx.finish_first(id);
        let name = Name::clone(&done.transactional_id);
        self.at_entry(&name, |entry, cx| entry.finish(cx, done, result));
    }

    /// Says what became of an [`Action::WriteMarker`]. Word of a marker that is over counts for nothing.
    pub fn handle_marked(&mut self, now: Duration, id: MarkerId, marked: Marked) {
        self.cx.clock.advance(now);
        match marked {
            Marked::Done | Marked::PartitionGone => {
                if let Some(job) = self.cx.markers.finish(id) {
                    let name = Name::clone(&job.transactional_id);
                    self.at_entry(&name, |entry, cx| entry.finish_marker(cx, id, &job));
                }
            }
            Marked::Retry => self.cx.markers.retry(id, self.cx.clock.now()),
            Marked::Fenced => {
                if let Some(name) = self.cx.markers.owner(id) {
                    self.at_entry(&name, |entry, cx| entry.give_up(cx, id));
                }
            }
        }
    }

    /// Says what became of an [`Action::TakeProducerId`].
    ///
    /// # Panics
    /// It was not asked for, or was reported before.
    pub fn handle_producer_id(
        &mut self,
        now: Duration,
        id: TakeId,
        result: Result<ProducerId, NoProducerId>,
    ) {
        self.cx.clock.advance(now);
        let (name, want) = self.cx.finish_take(id);
        self.at_entry(&name, |entry, cx| entry.finish_take(cx, want, result));
    }

    /// Does what time brings: transactions time out, markers are sent again, idle ids are forgotten. Not all at once: as long as
    /// there is more to do, [`Coordinator::deadline`] is this very moment.
    pub fn handle_time(&mut self, now: Duration) {
        self.cx.clock.advance(now);
        let now = self.cx.clock.now();
        let markers = self.cx.markers.due(now);
        self.cx.send_markers(markers);
        let due: Vec<_> = self
            .wakes
            .iter()
            .take_while(|(at, _)| *at <= now)
            .take(WAKES_AT_ONCE)
            .cloned()
            .collect();
        for (_, name) in due {
            self.at_entry(&name, Entry::wake);
        }
    }

    /// Returns the time when [`Coordinator::handle_time`] has something to do.
    #[must_use]
    pub fn deadline(&self) -> Option<Duration> {
        let wake = self.wakes.first().map(|(at, _)| *at);
        wake.into_iter().chain(self.cx.markers.deadline()).min()
    }

    /// The next thing to be done; call until `None`.
    pub fn next_action(&mut self) -> Option<Action> {
        self.cx.next_action()
    }

    /// Every record that the transactions' log must hold, so that replay gives what is durable now: what compaction may
    /// leave, or a snapshot take. Sorted by id.
    pub fn image(&self) -> impl Iterator<Item = StoredRecord> + '_ {
        let states = self
            .entries
            .values()
            .filter_map(|entry| Some((&entry.name, entry.state.as_ref()?)));
        states.map(|(name, state)| record::encode(name, Some(state)))
    }

    /// The same, of ids from a name on, until their records come to so many bytes; and the name of the next one.
    #[must_use]
    pub fn image_from(&self, first: &Name, bytes_max: usize) -> (Vec<StoredRecord>, Option<Name>) {
        let (mut records, mut bytes) = (Vec::new(), 0);
        for (name, entry) in self.entries.range(Name::clone(first)..) {
            if bytes >= bytes_max {
                return (records, Some(Name::clone(name)));
            }
            let Some(state) = &entry.state else { continue };
            let record = record::encode(name, Some(state));
            bytes += record.key.len() + record.value.as_ref().map_or(0, |value| value.len());
            records.push(record);
        }
        (records, None)
    }

    /// Returns the bytes that the ids take in memory, roughly.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.cx.held_bytes
    }

    /// Returns the number of transactional ids.
    #[must_use]
    pub fn id_count(&self) -> usize {
        self.entries.len()
    }

    /// Returns what operators watch. It costs the same however many ids there are.
    #[must_use]
    pub fn figures(&self) -> Figures {
        Figures {
            ids: self.entries.len(),
            markers_waiting: self.cx.markers.waiting(),
            markers_retried: self.cx.markers.retried(),
            ..self.cx.tally.figures()
        }
    }

    /// Refuses what no entry needs to be looked at for, before anything is allocated.
    fn check(&self, request: &Request) -> Result<(), TransactionError> {
        if !self.loaded {
            return Err(TransactionError::CoordinatorLoading);
        }
        let Some(name) = request.transactional_id() else {
            return Ok(());
        };
        if name.is_empty() || name.len() > self.cx.settings.id_bytes_max {
            let what = "a transactional id that is empty or too long";
            return Err(TransactionError::InvalidRequest { what });
        }
        let is_known = self.entries.contains_key(name);
        match request {
            Request::Init(request) => self.check_init(request, is_known),
            Request::Describe(_) => Ok(()),
            _ if is_known => Ok(()),
            Request::Abort(_) => Err(TransactionError::TransactionalIdNotFound {
                transactional_id: Name::clone(name),
            }),
            _ => Err(TransactionError::InvalidProducerIdMapping),
        }
    }

    fn check_init(&self, request: &InitProducer, is_known: bool) -> Result<(), TransactionError> {
        let max = self.cx.settings.timeout_max;
        let got_ms = request.timeout_ms;
        let is_possible = u64::try_from(got_ms).is_ok_and(|ms| ms > 0 && Duration::from_millis(ms) <= max);
        if !is_possible {
            return Err(TransactionError::InvalidTimeout { max, got_ms });
        }
        if is_known {
            return Ok(());
        }
        let max = self.cx.settings.ids_max;
        if self.entries.len() >= max {
            let what = "transactional ids in one coordinator";
            return Err(TransactionError::LimitReached { what, max });
        }
        self.cx.check_growth()
    }

    /// Lets an id work, then notes when it is to be looked at again.
    fn at_entry(&mut self, name: &Name, work: impl FnOnce(&mut Entry, &mut Context)) {
        let entry = self
            .entries
            .get_mut(name)
            .expect("only ids that are there are named");
        work(entry, &mut self.cx);
        if let Some(at) = entry.wake_at.take() {
            self.wakes.remove(&(at, Name::clone(name)));
        }
        if entry.is_hollow() {
            entry.forget_bytes(&mut self.cx);
            self.entries.remove(name);
            return;
        }
        if let Some(at) = entry.due_at(&self.cx) {
            entry.wake_at = Some(at);
            self.wakes.insert((at, Name::clone(name)));
        }
    }
}
