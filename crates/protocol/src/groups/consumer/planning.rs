//! Plans the next change of a group of the consumer protocol: in the call that asks for it, or beside the coordinator if there is
//! much to plan with. The same code either way, on what was seen when it was asked for.
//!
//! From then on until the change is durable or refused, the group's gate is closed: its members are as they were planned with. Only
//! its offsets, its timers' moments and the topics may change meanwhile. Topics that have changed make the group's epoch rise again
//! as soon as the change is durable, for it bears the hash of those that it was planned with.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::super::Assignment;
use super::super::context::{CHANGE_BYTES, Context, Gate, Then};
use super::super::contract::{
    Answer, DescribedConsumer, GroupError, Heard, Joined, Name, StoredRecord, Ticket,
};
use super::super::expressions::Matching;
use super::super::group::{Group, Kind};
use super::super::records::Change;
use super::super::topics::{Topic, Topics};
use super::Consumer;
use super::change_over::log_bytes_max;
use super::heartbeat::Sender;
use super::roster::Roster;
use super::target::Outlook;

/// Bytes that a partition, a member or a name takes that waits to be planned with.
const PLANNED_BYTES: usize = 64;

/// The part of the world around a group that its changes are planned with.
#[derive(Debug, Default)]
pub(crate) struct View {
    pub(super) topics: Arc<Topics>,
    /// The matches of each expression of the group.
    pub(super) matching: BTreeMap<Name, Seen>,
    pub(super) heartbeat_interval: Duration,
    pub(super) unix_ms: i64,
    /// Bytes that the members of a classic group may say of themselves, and that one change may make the log take.
    pub(super) classic_bytes_max: usize,
    pub(super) log_bytes_max: usize,
}

/// An expression as it is seen.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) matching: Arc<Matching>,
    /// A member has it already.
    pub(super) is_in_use: bool,
}

impl View {
    /// The topics that an expression matches.
    pub(super) fn matching(&self, regex: &Name) -> &[Name] {
        let seen = self.matching.get(regex);
        seen.map(|seen| seen.matching.names.as_slice())
            .unwrap_or_default()
    }
}

/// The change that is to be planned.
#[derive(Debug)]
pub(crate) enum Step {
    /// A member joins or is there. `owned` is what it says that it has; one that `tells_all` is told all.
    Presence {
        sender: Box<Sender>,
        owned: Option<Assignment>,
        tells_all: bool,
    },
    /// Members go.
    Departure {
        gone: BTreeSet<Name>,
        answer: PlannedAnswer,
    },
    /// Topics may have changed.
    Topics,
    /// Nothing changes: operators want to see the group.
    Describe,
    /// Nothing more: it is planned already.
    Done(Plan),
}

/// Changes to make durable, and what whoever asked for them is told then.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(super) changes: Vec<Change>,
    pub(super) answer: PlannedAnswer,
}

#[derive(Debug)]
pub(crate) enum PlannedAnswer {
    Nothing,
    Heard(Heard),
    Described(DescribedConsumer),
}

/// The origin of a change.
#[derive(Debug)]
pub(crate) enum Asker {
    /// Time did.
    Nobody,
    /// A member by its heartbeat.
    Member(Ticket),
    /// A member of the classic protocol that joins: its generation is the epoch that it hears of.
    Joining(Ticket, Box<Joined>),
    /// An operator.
    Describing(Ticket),
    /// Whoever is told this as soon as the change is durable.
    Waiting(Ticket, Answer),
}

impl Asker {
    fn answers(self, answer: PlannedAnswer) -> Vec<(Ticket, Answer)> {
        let answer = match (self, answer) {
            (Asker::Nobody, _) => return Vec::new(),
            (Asker::Waiting(ticket, answer), _) => (ticket, answer),
            (Asker::Member(ticket), PlannedAnswer::Heard(heard)) => {
                (ticket, Answer::ConsumerHeartbeat(Ok(heard)))
            }
            (Asker::Joining(ticket, mut joined), PlannedAnswer::Heard(heard)) => {
                joined.generation = heard.epoch;
                (ticket, Answer::Join(Ok(*joined)))
            }
            (Asker::Describing(ticket), PlannedAnswer::Described(group)) => {
                (ticket, Answer::DescribeConsumer(Ok(group)))
            }
            (asker, answer) => unreachable!("{asker:?} does not ask for {answer:?}"),
        };
        vec![answer]
    }
}

/// A change to be planned, with all that this needs. See the module.
#[derive(Debug)]
pub struct Planning {
    group: Name,
    roster: Arc<Roster>,
    view: View,
    step: Step,
    asker: Asker,
    /// The changes that turn a classic group to this protocol, if it is one.
    before: Option<Vec<Change>>,
    /// The topics are to be compared with those of the group's epoch; how often the group was told to do so before.
    looks: Option<u64>,
    /// Things that it is planned with, or so many that the number does not matter any more.
    work: usize,
    held_bytes: usize,
    /// The requests that others may make while the change is on its way to the log.
    gate: Gate,
}

/// A change that is planned.
#[derive(Debug)]
pub struct Planned {
    group: Name,
    changes: Vec<Change>,
    records: Vec<StoredRecord>,
    answers: Vec<(Ticket, Answer)>,
    same_topics: Option<SameTopics>,
    held_bytes: usize,
    gate: Gate,
    only_reads: bool,
}

/// The wanted topics are as they were when the group's epoch began.
#[derive(Debug)]
struct SameTopics {
    version: u64,
    look: u64,
}

impl Planning {
    /// Offsets to be committed, which depend on nothing: their records are to be made.
    pub(in super::super) fn of_offsets(
        group: &Name,
        changes: Vec<Change>,
        ticket: Ticket,
        answer: Answer,
    ) -> Planning {
        Planning {
            group: Name::clone(group),
            roster: Arc::default(),
            view: View::default(),
            work: changes.len(),
            held_bytes: changes.len() * CHANGE_BYTES,
            step: Step::Done(Plan {
                changes,
                answer: PlannedAnswer::Nothing,
            }),
            asker: Asker::Waiting(ticket, answer),
            before: None,
            looks: None,
            gate: Gate::Open,
        }
    }

    /// Plans the change.
    #[must_use]
    pub fn run(self) -> Planned {
        let (look, version) = (self.looks, self.view.topics.version());
        let topics_changed = look.is_some() && self.roster.topics_changed(&self.view);
        let only_reads = self.only_reads();
        let plan = self
            .roster
            .plan(&self.view, &self.group, self.step, topics_changed);
        let changes_over = self.before.is_some();
        let mut changes = self.before.unwrap_or_default();
        changes.extend(plan.changes);
        let mut records: Vec<StoredRecord> = changes.iter().map(Change::encode).collect();
        let mut answers = self.asker.answers(plan.answer);
        let bytes: usize = records.iter().map(StoredRecord::bytes).sum();
        let max = self.view.log_bytes_max;
        if changes_over && bytes > max {
            let what = "bytes of a group that changes over";
            for (_, answer) in &mut answers {
                *answer = Answer::ConsumerHeartbeat(Err(GroupError::LimitReached { what, max }));
            }
            changes.clear();
            records.clear();
        }
        Planned {
            records,
            answers,
            same_topics: look
                .filter(|_| !topics_changed)
                .map(|look| SameTopics { version, look }),
            held_bytes: self.held_bytes,
            gate: self.gate,
            only_reads,
            group: self.group,
            changes,
        }
    }

    /// Says whether nothing changes by it: somebody is told of the group as it was when that was asked.
    #[must_use]
    pub fn only_reads(&self) -> bool {
        matches!(self.step, Step::Describe)
    }

    /// The same behind the changes that turn a classic group to this protocol. All of it must fit into one batch of the log.
    pub(super) fn behind(mut self, changes: Vec<Change>) -> Planning {
        self.before = Some(changes);
        self
    }

    pub(in super::super) fn held_bytes(&self) -> usize {
        self.held_bytes
    }
}

impl Roster {
    fn plan(&self, view: &View, group: &Name, step: Step, topics_changed: bool) -> Plan {
        match step {
            Step::Presence {
                sender,
                owned,
                tells_all,
            } => self.plan_presence(view, group, owned.as_ref(), tells_all, topics_changed, *sender),
            Step::Departure { gone, answer } => Plan {
                changes: self.plan_departure(view, group, gone),
                answer,
            },
            Step::Topics => {
                let is_assigned_anew = topics_changed && !self.members.is_empty();
                let new = is_assigned_anew.then(|| self.plan_epoch(view, group, &Outlook::default()));
                Plan {
                    changes: new.map_or_else(Vec::new, |new| new.changes),
                    answer: PlannedAnswer::Nothing,
                }
            }
            Step::Describe => Plan {
                changes: Vec::new(),
                answer: PlannedAnswer::Described(self.describe(&view.topics)),
            },
            Step::Done(plan) => plan,
        }
    }
}

impl Planned {
    pub(in super::super) fn group(&self) -> &Name {
        &self.group
    }

    pub(in super::super) fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    pub(in super::super) fn only_reads(&self) -> bool {
        self.only_reads
    }

    /// Gives its answers: nothing changes.
    pub(in super::super) fn tell(self, cx: &mut Context) {
        for (ticket, answer) in self.answers {
            cx.answer(ticket, answer);
        }
    }
}

impl Group {
    /// Has a question answered, here if that is little work. Nothing waits for that.
    pub(in super::super) fn read_planned(&self, cx: &mut Context, planning: Planning) {
        if planning.work > cx.settings.planned_at_once_max {
            cx.plan_beside(planning);
        } else {
            planning.run().tell(cx);
        }
    }

    /// Has a change planned, here if that is little work. Says whether something is under way then.
    pub(in super::super) fn plan(&mut self, cx: &mut Context, planning: Planning) -> bool {
        if planning.work > cx.settings.planned_at_once_max {
            cx.plan(planning);
            return true;
        }
        self.take_plan(cx, planning.run())
    }

    /// Takes a change that is planned. Says whether it is under way then.
    pub(in super::super) fn take_plan(&mut self, cx: &mut Context, planned: Planned) -> bool {
        if let (Kind::Consumer(consumer), Some(same)) = (&mut self.kind, &planned.same_topics) {
            consumer.note_same_topics(same.version, same.look);
        }
        if planned.changes.is_empty() {
            planned.tell(cx);
            return false;
        }
        let then = Then::Answer(planned.answers);
        cx.persist_encoded(&self.name, planned.changes, planned.records, planned.gate, then);
        true
    }
}

impl Consumer {
    /// The group as it is now, and what is to be planned with it.
    pub(in super::super) fn planning(
        &self,
        cx: &Context,
        group: &Name,
        step: Step,
        asker: Asker,
    ) -> Planning {
        let compares = matches!(step, Step::Presence { .. } | Step::Topics) && self.needs_look(cx);
        let looks = compares.then_some(self.looks);
        let held = match &step {
            Step::Presence { sender, owned, .. } => {
                sender.said.topics.len() + owned.as_ref().map_or(0, Assignment::len)
            }
            Step::Departure { gone, .. } => gone.len(),
            Step::Topics | Step::Describe | Step::Done(_) => 0,
        };
        Planning {
            group: Name::clone(group),
            roster: Arc::clone(&self.roster),
            view: self.view(cx),
            work: self.work(cx, &step, looks.is_some()),
            step,
            asker,
            before: None,
            looks,
            held_bytes: (1 + held) * PLANNED_BYTES,
            gate: Gate::Closed,
        }
    }

    pub(super) fn view(&self, cx: &Context) -> View {
        let expressions = self.expressions.iter().map(|(regex, in_use)| {
            let seen = Seen {
                matching: cx.expressions.matching(regex),
                is_in_use: in_use.members > 0,
            };
            (Name::clone(regex), seen)
        });
        View {
            topics: Arc::clone(&cx.topics),
            matching: expressions.collect(),
            heartbeat_interval: cx.pace.heartbeat_interval,
            unix_ms: cx.unix_ms(),
            classic_bytes_max: cx.settings.classic_bytes_max,
            log_bytes_max: log_bytes_max(cx),
        }
    }

    /// Things that a step is planned with; counted no further than matters.
    pub(super) fn work(&self, cx: &Context, step: &Step, looks: bool) -> usize {
        let of_sender = match step {
            Step::Done(_) => return 0,
            Step::Presence { sender, owned, .. } => {
                let (is_settled, partitions) = sender.reconciles(self.roster.target_epoch);
                let owned = owned.as_ref().map_or(0, Assignment::len);
                match looks || sender.wants_else() {
                    false if is_settled => return 0,
                    false => return partitions + owned,
                    true => partitions + owned + sender.said.topics.len(),
                }
            }
            Step::Describe => return self.roster.members.len() + self.held_partitions + self.named_topics,
            Step::Departure { .. } | Step::Topics => 0,
        };
        let regexes = self.expressions.keys().map(|regex| {
            let matching = cx.expressions.matching(regex);
            matching.names.len() + matching.partitions
        });
        let members = &self.roster.members;
        let known = of_sender + members.len() + self.held_partitions + self.named_topics;
        let known = known + regexes.sum::<usize>();
        if known > cx.settings.planned_at_once_max {
            return known;
        }
        let said = members.values().map(|member| &member.said);
        let said = said.chain(match step {
            Step::Presence { sender, .. } => Some(&sender.said),
            _ => None,
        });
        let named = said.flat_map(|said| &said.topics);
        let partitions = named
            .filter_map(|name| cx.topics.named(name))
            .map(Topic::partitions);
        known + partitions.sum::<usize>()
    }
}
