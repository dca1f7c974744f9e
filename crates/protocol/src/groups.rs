//! The group coordinator: consumer groups by both of Kafka's protocols, and the offsets that they commit.
//!
//! A pure state machine. One [`Coordinator`] holds the groups of one shard; a group belongs to the coordinator that a hash
//! of its name gives. It never answers before what the answer promises is durable, and never gives a partition
//! to a second member before the first has let go of it (KIP-848).
//!
//! # How a server drives it
//! ```text
//! start    Coordinator::new(settings, wall clock)
//!          handle_topics(..)   every topic there is
//!          handle_pace(..)     each group with configs
//!          replay(key, value)  every record of the groups' log, in its order
//!          handle_loaded(now)  from here on requests are taken; before, all but heartbeats are refused as "loading"
//! run      handle_request(now, ticket, request)      one door for all; the ticket comes back with the answer
//!          handle_topics(now, changes)               whenever topics are made, grow or go
//!          handle_pace(group, configs)               whenever a group's configs change
//!          handle_time(now)                          when `deadline()` has come, as long as it has; late is no harm
//!          handle_persisted(now, id, Ok or Err)      in the order of the ids
//!          handle_planned(now, planned)              what an `Action::Plan` has given
//!          handle_wall_clock(now, milliseconds)      before each of these, or now and then
//! always   while let Some(action) = next_action() { .. }   after each of these
//! ```
//! An [`Action::Persist`] is appended to the groups' log ([`GROUPS_TOPIC`]). Several may be under way, and may ride
//! in one batch; each is all or nothing. `Err` says that the records are *not* in the log and never will be: the change is
//! dropped and the clients are told to retry. If the server cannot know (its disk died), it must not report at all, but
//! drop the coordinator and replay.
//!
//! Offsets that are committed in a transaction are *pending* until [`EndTransaction`] comes, which the transaction coordinator
//! sends for all groups at once, again and again until it is told that all is done.
//!
//! # How state changes
//! Offsets and consumer groups change only when a record is durable, by the very code that replay runs. So no
//! failure has to be undone. While such a change is under way, the group's *gate* is closed and its other requests wait,
//! as many as have room; commits leave it open, as they do not depend on each other. Classic groups live in memory (who
//! has joined, who waits) and store a generation when its leader has assigned; after a restart a group goes on with that one.
//!
//! `now` is monotonic time since the process started. Records carry the wall clock's time, as it is told. Offsets are old by the
//! least that this clock has shown, with `now` counted on from there: a wall clock that jumps expires nothing.

mod assignment;
mod classic;
mod consumer;
mod consumer_protocol;
mod context;
mod contract;
mod describe;
mod expressions;
mod group;
mod offsets;
mod pace;
mod records;
mod rounds;
mod settings;
mod shares;
mod topics;
mod transactions;
mod waiting;
mod walk;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

pub use assignment::Assignment;
pub use consumer::{Planned, Planning};
pub use consumer_protocol::{CONSUMER_TYPE, named_assignment};
pub use contract::*;
pub use pace::OwnPace;
pub use records::GROUPS_TOPIC;
pub use settings::Settings;
pub use topics::TopicChange;
pub use walk::OffsetsPlace;

use crate::DecodeError;
use context::{Context, Gate};
use group::Group;
use pace::Pace;
use records::Change;
use rounds::{Rounds, Visit, WORK_AT_ONCE};

/// The time that timers wait after the log refused what they asked for.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The groups of one shard. See the module.
#[derive(Debug)]
pub struct Coordinator {
    cx: Context,
    groups: BTreeMap<Name, Group>,
    /// The time when each group is to be woken.
    wakes: BTreeSet<(Duration, Name)>,
    rounds: Rounds,
    loaded: bool,
    offsets_check_at: Duration,
}

impl Coordinator {
    /// A coordinator without groups, waiting for the replay. `unix_ms_at_zero` is the wall clock at `now` zero,
    /// milliseconds since 1970.
    #[must_use]
    pub fn new(settings: Settings, unix_ms_at_zero: i64) -> Coordinator {
        Coordinator {
            offsets_check_at: settings.offsets_check_interval,
            cx: Context::new(settings, unix_ms_at_zero),
            groups: BTreeMap::new(),
            wakes: BTreeSet::new(),
            rounds: Rounds::default(),
            loaded: false,
        }
    }

    /// Takes a record of the groups' log. The same records in the same order give the same groups.
    ///
    /// # Errors
    /// The record is damaged or newer than this program: the coordinator must not be used then.
    ///
    /// # Panics
    /// The replay was declared over.
    pub fn replay(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<(), DecodeError> {
        assert!(!self.loaded, "the log is replayed before requests are taken");
        let Change { group, what } = Change::decode(key, value)?;
        let known = self
            .groups
            .entry(Name::clone(&group))
            .or_insert_with(|| Group::new(&group));
        let news = what.pending_news();
        known.replay(what);
        if let Some(news) = news {
            self.cx.transactions.note(known, news);
        }
        Ok(())
    }

    /// The replay is over: members have a full session from now on to be heard of. Every topic must have been told by
    /// then: offsets of topics that are not there, or have another id, are taken away.
    pub fn handle_loaded(&mut self, now: Duration) {
        self.advance(now);
        self.loaded = true;
        self.offsets_check_at = self.cx.now + self.cx.settings.offsets_check_interval;
        for group in self.groups.values_mut() {
            if let Some(client) = group.find_maker() {
                self.cx.shares.add_group(client);
            }
        }
        self.for_every_group(Group::handle_loaded);
    }

    /// Takes what the clock on the wall shows now, in milliseconds since 1970: it may have been set, and while the machine
    /// slept it went on.
    pub fn handle_wall_clock(&mut self, now: Duration, unix_ms: i64) {
        self.advance(now);
        self.cx.set_wall_clock(unix_ms);
    }

    /// Takes a request. Its answer comes as an action, at once or later, exactly once.
    pub fn handle_request(&mut self, now: Duration, ticket: Ticket, request: Request) {
        self.advance(now);
        if let Err(error) = self.check(&request) {
            let answer = match (&request, error) {
                // Nobody is silent before the log is read, and who is a member need not look for another coordinator.
                (Request::Heartbeat(_), GroupError::Loading) => Answer::Heartbeat(Ok(())),
                (_, error) => request.refused(error),
            };
            self.cx.answer(ticket, answer);
            return;
        }
        if let Request::List(filter) = &request {
            let answer = Answer::List(Ok(describe::list(&self.groups, filter)));
            self.cx.answer(ticket, answer);
            return;
        }
        if let Request::EndTransaction(end) = request {
            self.end_transaction(ticket, end);
            return;
        }
        let name = Name::clone(request.group().expect("all others name a group"));
        if !self.groups.contains_key(&name) {
            if !describe::makes_group(&request) {
                let answer = describe::answer_without_group(&request);
                self.cx.answer(ticket, answer);
                return;
            }
            self.make_group(&name, describe::maker(&request));
        }
        if let Request::CommitPending(pending) = &request {
            self.cx.transactions.note_coming(ticket, pending.producer, &name);
        }
        self.at_group(&name, |group, cx| {
            if request.only_reads() {
                group.read(cx, ticket, &request);
            } else {
                group.take(cx, ticket, request);
            }
        });
    }

    /// Takes changes of topics: all of them at the start, later what has become of some. Groups see them as
    /// [`Coordinator::handle_time`] gets to them.
    pub fn handle_topics(&mut self, now: Duration, changes: impl IntoIterator<Item = TopicChange>) {
        self.advance(now);
        let topics = Arc::make_mut(&mut self.cx.topics);
        let gone: Vec<_> = changes
            .into_iter()
            .filter_map(|change| topics.apply(change))
            .collect();
        if self.loaded {
            self.rounds.begin(Visit {
                topics_version: Some(self.cx.topics.version()),
                gone,
                ..Visit::default()
            });
        }
    }

    /// Takes what a group's configs set now: its members are told with their next heartbeats. The group need not be there.
    pub fn handle_pace(&mut self, group: Name, own: OwnPace) {
        match own == OwnPace::default() {
            true => self.cx.paces.remove(&group),
            false => self.cx.paces.insert(group, own),
        };
    }

    /// Says what became of an [`Action::Persist`].
    ///
    /// # Panics
    /// Ids out of order: the order of the log decides what holds.
    pub fn handle_persisted(&mut self, now: Duration, id: PersistId, result: Result<(), NotPersisted>) {
        self.advance(now);
        let done = self.cx.finish_first(id);
        self.at_group(&done.group, |group, cx| {
            group.under_way = group
                .under_way
                .checked_sub(1)
                .expect("every change under way is counted");
            if done.gate == Gate::Closed {
                group.closed = false;
                // A timer that asked for this has no other moment to be woken at.
                group.missed_wake = true;
            }
            if result.is_ok() {
                for change in done.changes {
                    let news = change.what.pending_news();
                    group.apply(change.what);
                    if let Some(news) = news {
                        cx.transactions.note(group, news);
                    }
                }
            }
            group.finish(cx, done.then, result);
            if result.is_ok() {
                group.note_applied(cx);
            } else {
                // Not again and again: the next look for old offsets finds them.
                group.gone_topics.clear();
            }
            group.forget_topics(cx);
            if std::mem::take(&mut group.missed_wake) {
                // After a refusal not at once: the next one would be refused as well.
                let pause = if result.is_ok() {
                    Duration::ZERO
                } else {
                    RETRY_AFTER
                };
                cx.wake_at(cx.now + pause);
            }
        });
    }

    /// Takes what an [`Action::Plan`] has given.
    pub fn handle_planned(&mut self, now: Duration, planned: Planned) {
        self.advance(now);
        self.cx.waiting_bytes -= planned.held_bytes();
        if planned.only_reads() {
            planned.tell(&mut self.cx);
            return;
        }
        let name = Name::clone(planned.group());
        self.at_group(&name, |group, cx| {
            group.under_way = group
                .under_way
                .checked_sub(1)
                .expect("every plan under way is counted");
            group.closed = false;
            group.take_plan(cx, planned);
            group.forget_topics(cx);
            // A timer that asked for this has no other moment to be woken at.
            group.missed_wake = false;
            cx.wake_at(cx.now);
        });
    }

    /// Does what time brings: sessions end, rebalances time out, groups see which topics have changed, old offsets go. Not
    /// all at once: as long as there is more to do, [`Coordinator::deadline`] is this very moment.
    pub fn handle_time(&mut self, now: Duration) {
        self.advance(now);
        if !self.loaded {
            return;
        }
        for due in self.due() {
            self.wakes.remove(&due);
            self.at_group(&due.1, |group, cx| {
                group.wake_at = None;
                group.wake(cx);
            });
        }
        if self.cx.now >= self.offsets_check_at {
            self.offsets_check_at = self.cx.now + self.cx.settings.offsets_check_interval;
            self.rounds.begin(Visit {
                expires_offsets: true,
                ..Visit::default()
            });
        }
        self.go_round();
    }

    /// Returns the time when [`Coordinator::handle_time`] has something to do.
    #[must_use]
    pub fn deadline(&self) -> Option<Duration> {
        if !self.loaded {
            return None;
        }
        let wake = self.wakes.first().map(|(at, _)| *at);
        let round = self.rounds.is_under_way().then_some(self.cx.now);
        wake.into_iter().chain(round).chain([self.offsets_check_at]).min()
    }

    /// The next thing to be done; call until `None`.
    pub fn next_action(&mut self) -> Option<Action> {
        if let Some(action) = self.cx.next_action() {
            return Some(action);
        }
        self.hand_out_ends();
        self.cx.next_action()
    }

    /// Every record that the groups' log must hold, so that replay gives what is durable now: what compaction may
    /// leave, or a snapshot take. Sorted by group.
    pub fn image(&self) -> impl Iterator<Item = StoredRecord> + '_ {
        self.groups
            .values()
            .flat_map(|group| group.image())
            .map(|change| change.encode())
    }

    /// The same, of groups from a name on, until their records come to so many bytes; and the name of the next one.
    #[must_use]
    pub fn image_from(&self, first: &Name, bytes_max: usize) -> (Vec<StoredRecord>, Option<Name>) {
        let (mut records, mut bytes) = (Vec::new(), 0);
        for (name, group) in self.groups.range(Name::clone(first)..) {
            if bytes >= bytes_max {
                return (records, Some(Name::clone(name)));
            }
            for change in group.image() {
                let record = change.encode();
                bytes += record.key.len() + record.value.as_ref().map_or(0, |value| value.len());
                records.push(record);
            }
        }
        (records, None)
    }

    /// Returns the bytes that the groups take in memory: more than their records have.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.cx.held_bytes
    }

    /// Returns the number of groups.
    #[must_use]
    pub fn group_count(&self) -> usize {
        self.groups.len()
    }

    fn check(&self, request: &Request) -> Result<(), GroupError> {
        self.cx.settings.check(request)?;
        if !self.loaded {
            return Err(GroupError::Loading);
        }
        let max = self.cx.settings.groups_max;
        let is_new = request
            .group()
            .is_some_and(|group| !self.groups.contains_key(group));
        if is_new && describe::makes_group(request) && self.groups.len() >= max {
            return Err(GroupError::LimitReached {
                what: "groups in one coordinator: delete some",
                max,
            });
        }
        match describe::maker(request) {
            Some(client) if is_new => self.cx.shares.check_group(client, &self.cx.settings),
            _ => Ok(()),
        }
    }

    fn make_group(&mut self, name: &Name, maker: Option<&Name>) {
        let mut group = Group::new(name);
        group.maker = maker.cloned();
        if let Some(client) = maker {
            self.cx.shares.add_group(client);
        }
        self.groups.insert(Name::clone(name), group);
    }

    /// The groups that are to be woken now, as many as may be at once. Each once: what asks to be woken at this very moment
    /// waits for the next call.
    fn due(&self) -> Vec<(Duration, Name)> {
        let mut work = 0;
        self.wakes
            .iter()
            .take_while(|(at, name)| {
                let has_room = work < WORK_AT_ONCE;
                let group = self.groups.get(name);
                work += group.map_or(0, |group| group.weight(&self.cx.expressions));
                has_room && *at <= self.cx.now
            })
            .cloned()
            .collect()
    }

    /// Goes on with the round that is under way. Expressions come first: groups are to see what they match now.
    fn go_round(&mut self) {
        if let Some(version) = self.rounds.topics_version()
            && !self.cx.expressions.match_some(&self.cx.topics, version)
        {
            return;
        }
        let (visit, names) = self.rounds.step(&self.groups, &self.cx.expressions);
        for name in names {
            self.at_group(&name, |group, cx| group.see_topics(cx, &visit));
            if visit.expires_offsets {
                self.at_group(&name, Group::expire_offsets);
            }
        }
    }

    fn for_every_group(&mut self, mut work: impl FnMut(&mut Group, &mut Context)) {
        let names: Vec<Name> = self.groups.keys().cloned().collect();
        for name in names {
            self.at_group(&name, &mut work);
        }
    }

    /// Lets a group work, then whatever waited for that, then notes what it asked for.
    fn at_group(&mut self, name: &Name, work: impl FnOnce(&mut Group, &mut Context)) {
        let Some(group) = self.groups.get_mut(name) else {
            return;
        };
        self.cx.maker.clone_from(&group.maker);
        self.cx.pace = Pace::of(&self.cx.settings, self.cx.paces.get(name));
        work(group, &mut self.cx);
        let mut asked = note_asked(group, &mut self.cx);
        while let Some((ticket, request)) = group.next_waiting(&mut self.cx) {
            group.handle(&mut self.cx, ticket, request);
            asked = earlier(asked, note_asked(group, &mut self.cx));
        }
        group.count_bytes(&mut self.cx);
        if group.is_hollow() {
            if let Some(at) = group.wake_at {
                self.wakes.remove(&(at, Name::clone(name)));
            }
            group.forget_bytes(&mut self.cx);
            self.groups.remove(name);
            return;
        }
        if let Some(at) = asked
            && group.wake_at.is_none_or(|known| at < known)
        {
            if let Some(known) = group.wake_at.replace(at) {
                self.wakes.remove(&(known, Name::clone(name)));
            }
            self.wakes.insert((at, Name::clone(name)));
        }
    }

    /// A clock that steps back is not believed.
    fn advance(&mut self, now: Duration) {
        self.cx.now = self.cx.now.max(now);
    }
}

fn note_asked(group: &mut Group, cx: &mut Context) -> Option<Duration> {
    let asked = cx.take_asked();
    group.under_way += asked.changes;
    group.closed |= asked.closes;
    asked.wake_at
}

fn earlier(one: Option<Duration>, other: Option<Duration>) -> Option<Duration> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}
