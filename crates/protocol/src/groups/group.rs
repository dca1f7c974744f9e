//! One group: its members by either protocol, its offsets, and what waits while a change is under way.
//!
//! Stands between the coordinator, which finds groups by name, and the protocols. It decides what may start: a change
//! behind a closed gate must be durable, or refused, before the next request is looked at. `waiting` has how they wait.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use record::TopicId;

use super::classic::Classic;
use super::consumer::Consumer;
use super::context::Context;
use super::contract::{Answer, CommitOffsets, GroupError, GroupState, GroupType, Name, Request, Ticket};
use super::expressions::Expressions;
use super::offsets::Offsets;
use super::records::{Change, OffsetValue, What};
use super::rounds::Visit;

/// The cost of a visit beside the members and offsets that are looked at.
const VISIT_WORK: usize = 10;

/// See the module.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) name: Name,
    /// The address of the client that made it; `None` if the log does not say.
    pub(crate) maker: Option<Name>,
    pub(crate) kind: Kind,
    pub(crate) offsets: Offsets,
    /// Changes on their way to the log.
    pub(crate) under_way: u32,
    /// Set while a change is under way that others must wait for.
    pub(crate) closed: bool,
    /// Requests that wait, in order.
    pub(crate) waiting: VecDeque<(Ticket, Request)>,
    /// Topics that are gone, whose offsets are to go as soon as nothing is under way.
    pub(crate) gone_topics: BTreeSet<TopicId>,
    /// The time when the coordinator wakes this group; never later than the group needs it.
    pub(crate) wake_at: Option<Duration>,
    /// It was woken while it could do nothing: again as soon as something that was under way is done.
    pub(crate) missed_wake: bool,
    /// Members came, went or said something since their bytes were counted.
    pub(super) members_changed: bool,
    members_bytes: usize,
    /// The share of this group in the coordinator's count.
    pub(crate) counted_bytes: usize,
}

/// The protocol that the group speaks. A group that nobody ever joined is an empty classic one, as in Kafka.
#[derive(Debug)]
pub(crate) enum Kind {
    Classic(Box<Classic>),
    Consumer(Box<Consumer>),
}

impl Group {
    pub(crate) fn new(name: &Name) -> Group {
        Group {
            name: Name::clone(name),
            maker: None,
            kind: Kind::Classic(Box::default()),
            offsets: Offsets::default(),
            under_way: 0,
            closed: false,
            waiting: VecDeque::new(),
            gone_topics: BTreeSet::new(),
            wake_at: None,
            missed_wake: false,
            members_changed: true,
            members_bytes: 0,
            counted_bytes: 0,
        }
    }

    /// Says whether a request may be handled now. Those that take things away wait until nothing is under way, and so do the end
    /// of a transaction, and one that would turn the group to the other protocol. All wait for the offsets of topics that are gone.
    pub(crate) fn may_start(&self, request: &Request) -> bool {
        let needs_quiet = match request {
            Request::DeleteGroup(_) | Request::DeleteOffsets(_) | Request::EndTransaction(_) => true,
            Request::ConsumerHeartbeat(_) => matches!(self.kind, Kind::Classic(_)),
            Request::Join(_) => matches!(self.kind, Kind::Consumer(_)),
            _ => false,
        };
        !self.closed && self.gone_topics.is_empty() && (!needs_quiet || self.under_way == 0)
    }

    /// Says that timers may do their work: they change things, too.
    pub(crate) fn is_quiet(&self) -> bool {
        !self.closed && self.waiting.is_empty()
    }

    /// Brings the coordinator's count of bytes up to date. Members are counted anew only if they changed: what members send
    /// all the time changes nothing about them.
    pub(crate) fn count_bytes(&mut self, cx: &mut Context) {
        if std::mem::take(&mut self.members_changed) {
            self.members_bytes = match &self.kind {
                Kind::Classic(classic) => classic.held_bytes(),
                Kind::Consumer(consumer) => consumer.held_bytes(),
            };
        }
        let bytes = self.members_bytes + self.offsets.held_bytes();
        cx.held_bytes = cx.held_bytes - self.counted_bytes + bytes;
        if let Some(client) = &self.maker {
            cx.shares.count_bytes(client, self.counted_bytes, bytes);
        }
        self.counted_bytes = bytes;
    }

    /// The group goes, and with it what was counted of it.
    pub(crate) fn forget_bytes(&mut self, cx: &mut Context) {
        cx.held_bytes -= self.counted_bytes;
        if let Some(client) = &self.maker {
            cx.shares.count_bytes(client, self.counted_bytes, 0);
            cx.shares.remove_group(client);
        }
        self.counted_bytes = 0;
    }

    /// Handles a request that may start.
    pub(crate) fn handle(&mut self, cx: &mut Context, ticket: Ticket, request: Request) {
        // Members may have gone since: what only they had must not keep others out.
        cx.expressions.forget_unused();
        self.members_changed |= match &request {
            Request::Leave(_) => true,
            Request::Sync(sync) => !sync.assignments.is_empty(),
            _ => false,
        };
        match request {
            Request::CommitOffsets(request) => self.commit_offsets(cx, ticket, request),
            Request::CommitPending(request) => self.commit_pending(cx, ticket, request),
            Request::EndTransaction(request) => self.end_transaction(cx, ticket, request),
            Request::DeleteOffsets(request) => self.delete_offsets(cx, ticket, request),
            Request::DeleteGroup(request) => self.delete(cx, ticket, request),
            Request::ConsumerHeartbeat(request) => self.consumer_heartbeat(cx, ticket, &request),
            Request::Join(request) => self.join(cx, ticket, request),
            Request::Sync(request) => self.sync(cx, ticket, request),
            Request::Heartbeat(request) => self.heartbeat(cx, ticket, &request),
            Request::Leave(request) => self.leave(cx, ticket, request),
            Request::FetchOffsets(_)
            | Request::DescribeClassic(_)
            | Request::DescribeConsumer(_)
            | Request::List(_) => unreachable!("requests that only read are answered at once"),
        }
    }

    /// Answers a request that only reads.
    pub(crate) fn read(&self, cx: &mut Context, ticket: Ticket, request: &Request) {
        let answer = match request {
            Request::DescribeConsumer(_) => return self.describe_consumer(cx, ticket),
            Request::FetchOffsets(request) => Answer::FetchOffsets(self.fetch_offsets(&cx.topics, request)),
            Request::DescribeClassic(_) => Answer::DescribeClassic(self.describe_classic(cx)),
            other => unreachable!("{other:?} does not only read"),
        };
        cx.answer(ticket, answer);
    }

    /// Takes a durable change of this group while it runs: a classic group is ahead of its record already.
    pub(crate) fn apply(&mut self, change: What) {
        self.members_changed |= !matches!(change, What::Offset(..) | What::Pending(..));
        match (change, &mut self.kind) {
            (What::Offset(partition, value), _) => self.offsets.apply(partition, value),
            (What::Pending(producer, partition, value), _) => {
                self.offsets.apply_pending(producer, partition, value);
            }
            (What::Classic(Some(value)), Kind::Classic(classic)) => classic.stored = Some(value),
            (What::Classic(Some(value)), Kind::Consumer(_)) => {
                self.kind = Kind::Classic(Box::new(Classic::from_stored(value)));
            }
            (What::Classic(None), Kind::Classic(_)) => self.kind = Kind::Classic(Box::default()),
            (What::Classic(None), Kind::Consumer(_)) => {}
            (change, _) => self.apply_consumer(change),
        }
    }

    /// Takes a change from the log before anything runs.
    pub(crate) fn replay(&mut self, change: What) {
        match change {
            What::Classic(Some(value)) => {
                self.kind = Kind::Classic(Box::new(Classic::from_stored(value)));
            }
            What::Offset(partition, Some(mut value)) => {
                self.share_maker(&mut value);
                self.offsets.apply(partition, Some(value));
            }
            What::Pending(producer, partition, Some(mut value)) => {
                self.share_maker(&mut value.offset);
                self.offsets.apply_pending(producer, partition, Some(value));
            }
            other => self.apply(other),
        }
    }

    /// Keeps one copy of a maker for all offsets that have the same.
    fn share_maker(&mut self, value: &mut OffsetValue) {
        match value.maker == self.maker {
            true => value.maker.clone_from(&self.maker),
            false => self.maker.clone_from(&value.maker),
        }
    }

    /// The address of the client that made it, as far as the log says: with its offsets, else by its first member.
    pub(crate) fn find_maker(&mut self) -> Option<&Name> {
        let first_host = || match &self.kind {
            Kind::Classic(classic) => classic.first_host(),
            Kind::Consumer(consumer) => consumer.first_host(),
        };
        let maker = match self.offsets.is_empty() {
            true => first_host(),
            false => self.offsets.find_maker(),
        };
        self.maker = maker.cloned();
        self.maker.as_ref()
    }

    /// A change of the consumer protocol. What takes away never makes a consumer group of another.
    fn apply_consumer(&mut self, change: What) {
        let takes_away = matches!(
            change,
            What::Consumer(None)
                | What::Member(_, None)
                | What::TargetEpoch(None)
                | What::Target(_, None)
                | What::Current(_, None)
        );
        if let Kind::Classic(_) = self.kind {
            if takes_away {
                return;
            }
            self.kind = Kind::Consumer(Box::default());
        }
        if let (What::Consumer(None), Kind::Consumer(_)) = (&change, &self.kind) {
            self.kind = Kind::Classic(Box::default());
        } else if let Kind::Consumer(consumer) = &mut self.kind {
            consumer.apply(change);
        }
    }

    /// Checks that the committer may commit now.
    pub(crate) fn check_committer(
        &mut self,
        cx: &mut Context,
        commit: &CommitOffsets,
    ) -> Result<(), GroupError> {
        match &mut self.kind {
            Kind::Classic(classic) => classic.check_committer(cx, &commit.committer),
            Kind::Consumer(consumer) => consumer.check_committer(commit),
        }
    }

    /// Checks that the committer may commit in a transaction now.
    pub(crate) fn check_pending_committer(&self, commit: &CommitOffsets) -> Result<(), GroupError> {
        match &self.kind {
            Kind::Classic(classic) => classic.check_pending_committer(&commit.committer),
            Kind::Consumer(consumer) => consumer.check_pending_committer(commit),
        }
    }

    pub(crate) fn check_fetcher(&self, member: &Name, epoch: i32) -> Result<(), GroupError> {
        match &self.kind {
            Kind::Classic(_) => Ok(()),
            Kind::Consumer(consumer) => consumer.check_fetcher(member, epoch),
        }
    }

    /// That nobody is in it, nor about to be: one that prepares a generation may have no members just now.
    pub(crate) fn check_empty(&self) -> Result<(), GroupError> {
        if self.state() == GroupState::Empty {
            return Ok(());
        }
        Err(GroupError::NonEmptyGroup {
            members: self.member_count(),
        })
    }

    /// OffsetDelete is for empty groups, and for consumers, whose topics are known.
    pub(crate) fn check_offsets_deletable(&self) -> Result<(), GroupError> {
        if self.knows_subscriptions() {
            return Ok(());
        }
        self.check_empty()
    }

    pub(crate) fn knows_subscriptions(&self) -> bool {
        match &self.kind {
            Kind::Classic(classic) => classic.is_of_consumers(),
            Kind::Consumer(_) => true,
        }
    }

    /// The topics that members want; `None` if they might want any.
    pub(crate) fn subscribed(&self, cx: &Context) -> Option<BTreeSet<Name>> {
        match &self.kind {
            Kind::Classic(classic) => classic.subscribed(),
            Kind::Consumer(consumer) => Some(consumer.subscribed(cx)),
        }
    }

    pub(crate) fn member_count(&self) -> usize {
        match &self.kind {
            Kind::Classic(classic) => classic.member_count(),
            Kind::Consumer(consumer) => consumer.members().len(),
        }
    }

    /// Says whether it is known who reads what: nobody does, or all have their assignments.
    pub(crate) fn is_settled(&self) -> bool {
        match &self.kind {
            Kind::Classic(classic) => classic.is_settled(),
            Kind::Consumer(_) => true,
        }
    }

    /// The time since which there are no members, milliseconds since 1970; `None` if there are, or if there never were.
    pub(crate) fn empty_since_ms(&self) -> Option<i64> {
        match &self.kind {
            Kind::Classic(classic) => classic.empty_since_ms(),
            Kind::Consumer(consumer) => consumer.empty_since_ms,
        }
    }

    /// Says whether an empty group may be forgotten: nobody is about to join.
    pub(crate) fn may_go(&self) -> bool {
        match &self.kind {
            Kind::Classic(classic) => classic.may_go(),
            Kind::Consumer(consumer) => consumer.members().is_empty(),
        }
    }

    /// The changes that take away what the log has of the group, apart from offsets.
    pub(crate) fn kind_removals(&self) -> Vec<Change> {
        match &self.kind {
            Kind::Classic(classic) if classic.stored.is_some() => {
                vec![Change::of(&self.name, What::Classic(None))]
            }
            Kind::Classic(_) => Vec::new(),
            Kind::Consumer(consumer) => consumer.removals(&self.name),
        }
    }

    /// Says that there is nothing to remember.
    pub(crate) fn is_hollow(&self) -> bool {
        let kind_is_hollow = match &self.kind {
            Kind::Classic(classic) => classic.stored.is_none() && classic.may_go(),
            Kind::Consumer(consumer) => consumer.is_hollow(),
        };
        kind_is_hollow && self.offsets.is_empty() && self.under_way == 0 && self.waiting.is_empty()
    }

    /// Every record that the log must hold for this group to come back as it is.
    pub(crate) fn image(&self) -> Vec<Change> {
        let offsets = self.offsets.image();
        let mut changes: Vec<Change> = offsets.map(|what| Change::of(&self.name, what)).collect();
        match &self.kind {
            Kind::Classic(classic) => {
                if let Some(stored) = &classic.stored {
                    changes.push(Change::of(&self.name, What::Classic(Some(stored.clone()))));
                }
            }
            Kind::Consumer(consumer) => changes.extend(consumer.image(&self.name)),
        }
        changes
    }

    /// Every record has been replayed: the members' time begins.
    pub(crate) fn handle_loaded(&mut self, cx: &mut Context) {
        match &mut self.kind {
            Kind::Classic(classic) => classic.handle_loaded(cx, &self.name),
            Kind::Consumer(consumer) => consumer.handle_loaded(cx),
        }
        self.forget_lost_topics(cx);
    }

    /// Returns the number of things to look at.
    pub(crate) fn weight(&self, expressions: &Expressions) -> usize {
        let members = match &self.kind {
            Kind::Classic(classic) => classic.member_count(),
            Kind::Consumer(consumer) => consumer.weight(expressions),
        };
        VISIT_WORK + members + self.offsets.len() + self.offsets.pendings().len()
    }

    /// Does what is due, as soon as nothing stands in its way.
    pub(crate) fn wake(&mut self, cx: &mut Context) {
        if !self.is_quiet() {
            self.missed_wake = true;
        } else if let Some(next) = self.handle_time(cx) {
            cx.wake_at(next);
        }
    }

    /// Topics have come, grown or gone.
    pub(crate) fn see_topics(&mut self, cx: &mut Context, visit: &Visit) {
        let gone = visit.gone.iter();
        let known = gone.filter(|(topic, id)| self.offsets.know_topic(topic, *id));
        self.gone_topics.extend(known.map(|(_, id)| *id));
        self.forget_topics(cx);
        if visit.topics_version.is_some()
            && let Kind::Consumer(consumer) = &mut self.kind
        {
            consumer.compare_again();
            self.wake(cx);
        }
    }

    /// Does what is due, and says when it wants to be woken next.
    fn handle_time(&mut self, cx: &mut Context) -> Option<Duration> {
        match &mut self.kind {
            Kind::Classic(classic) => {
                self.members_changed = true;
                classic.handle_time(cx, &self.name);
                classic.deadline()
            }
            Kind::Consumer(_) => self.handle_consumer_time(cx),
        }
    }

    pub(crate) fn state(&self) -> GroupState {
        match &self.kind {
            Kind::Classic(classic) => classic.state(),
            Kind::Consumer(consumer) => consumer.state(),
        }
    }

    pub(crate) fn group_type(&self) -> GroupType {
        match &self.kind {
            Kind::Classic(_) => GroupType::Classic,
            Kind::Consumer(_) => GroupType::Consumer,
        }
    }
}
