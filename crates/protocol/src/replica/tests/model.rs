//! A model of replication and sealing, explored to its end: three replicas, three epochs, two offsets, one change of the ack
//! quorum, one lost disk, any crashes of leaders, any order of steps.
//!
//! It is written from docs/protocols/replication.md and shares no code with the replica: a mistake in the thought shows here, one
//! in the code in the runs by seed. Batches are one record long and named by the epoch that wrote them. What a follower takes
//! is durable at once; a leader's own batches are so when it flushes. Acknowledgements arrive late, and of a lost disk too.

use stateright::{Checker, HasDiscoveries, Model, Property};

const REPLICAS: usize = 3;
const EPOCHS: u8 = 3;
const LENGTH_MAX: usize = 2;
const NOTHING: u8 = u8::MAX;

/// A cure that is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flaw {
    CatchUpKeepsAccepted,
    ResentAcceptCuts,
    ShortcutDespiteChange,
    SettledWhenAssigned,
    LossNotNoticed,
    AssignmentIsNoFloor,
    AcksOutliveLink,
    DoubtProvesAbsence,
    PromiseTooFew,
    BestByEnd,
    TailBeforeAccepts,
}

/// The epochs that wrote the batches of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
struct Log {
    writers: [u8; LENGTH_MAX],
    length: u8,
}

impl Log {
    fn end(&self) -> usize {
        usize::from(self.length)
    }

    fn as_slice(&self) -> &[u8] {
        &self.writers[..self.end()]
    }

    fn push(&mut self, writer: u8) {
        self.writers[self.end()] = writer;
        self.length += 1;
    }

    fn cut_to(&mut self, end: usize) {
        for writer in self.writers.iter_mut().skip(end) {
            *writer = 0;
        }
        self.length = self.length.min(u8::try_from(end).expect("it is short"));
    }

    fn common(&self, other: &Log) -> usize {
        let pairs = self.as_slice().iter().zip(other.as_slice());
        pairs.take_while(|(one, other)| one == other).count()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
enum Role {
    #[default]
    Following,
    /// Asks for promises.
    Sealing { epoch: u8 },
    /// Copies the best log of those that promised.
    Copying { epoch: u8, best: u8, sealed_by: u8 },
    Leading {
        epoch: u8,
        first: u8,
        tail: u8,
        acknowledged: [u8; REPLICAS],
        linked: u8,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
struct Replica {
    log: Log,
    durable: u8,
    promised: u8,
    accepted: u8,
    tail: u8,
    floor: u8,
    role: Role,
    /// The greatest acknowledgement on its way, by epoch.
    acknowledges: [u8; EPOCHS as usize + 1],
    /// The same of the disk that was lost.
    acknowledged_before: [u8; EPOCHS as usize + 1],
    /// What was promised in answer to each epoch.
    promises: [Option<Promise>; EPOCHS as usize + 1],
}

/// Where a replica stood when it promised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Promise {
    accepted: u8,
    log: Log,
    tail: u8,
    is_certain: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
struct Given {
    leader: u8,
    /// Which of the two ack quorums.
    quorum: u8,
    /// The ack quorums that have to be met, as bits.
    earlier: u8,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct State {
    replicas: [Replica; REPLICAS],
    given: [Given; EPOCHS as usize + 1],
    epoch: u8,
    unsettled: u8,
    uncertain: u8,
    has_lost: bool,
    committed: Log,
    /// The epoch that committed each of them.
    committed_in: [u8; LENGTH_MAX],
    is_broken: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Assign { leader: u8, quorum: u8 },
    Seal { leader: u8, node: u8 },
    Choose { leader: u8, sealed_by: u8 },
    Copy { leader: u8 },
    Write { leader: u8 },
    Flush { leader: u8 },
    Compare { leader: u8, node: u8 },
    Append { leader: u8, node: u8 },
    Accept { leader: u8, node: u8 },
    Acknowledge { leader: u8, node: u8 },
    Link { leader: u8, node: u8 },
    Settle { leader: u8 },
    CatchUp { leader: u8, node: u8 },
    Crash { node: u8 },
    Lose { node: u8 },
}

struct Cluster {
    flaw: Option<Flaw>,
}

const QUORUMS: [usize; 2] = [2, 3];

impl Cluster {
    fn has(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    fn listens(&self, replica: &Replica, epoch: u8) -> bool {
        let floor = match self.has(Flaw::AssignmentIsNoFloor) {
            true => replica.promised,
            false => replica.promised.max(replica.floor),
        };
        epoch >= floor
    }

    /// Says whether enough of these have promised for every ack quorum that may have committed something.
    fn is_sealed(&self, state: &State, epoch: u8, sealed_by: u8) -> bool {
        let counts = |node: &usize| {
            let promise = state.replicas[*node].promises[usize::from(epoch)];
            let is_certain = promise.is_some_and(|of| of.is_certain || self.has(Flaw::DoubtProvesAbsence));
            sealed_by & (1 << node) != 0 && is_certain
        };
        let promised = (0..REPLICAS).filter(counts).count();
        let earlier = state.given[usize::from(epoch)].earlier;
        let wanted = |quorum: usize| match self.has(Flaw::PromiseTooFew) {
            true => REPLICAS - QUORUMS[quorum],
            false => REPLICAS + 1 - QUORUMS[quorum],
        };
        (0..QUORUMS.len()).all(|quorum| earlier & (1 << quorum) == 0 || promised >= wanted(quorum))
    }

    fn open(&self, state: &mut State, leader: usize, epoch: u8, sealed_by: u8) {
        let given = state.given[usize::from(epoch)];
        let own = state.replicas[leader];
        let first = own.log.length;
        let sealed = || (0..REPLICAS).filter(|node| sealed_by & (1 << node) != 0);
        let promise = |node: usize| state.replicas[node].promises[usize::from(epoch)];
        let alike = |node: usize| {
            let is_same = |of: Promise| (of.accepted, of.log) == (own.accepted, own.log);
            node == leader || promise(node).is_some_and(is_same)
        };
        let unchanged = given.earlier & !(1 << given.quorum) == 0;
        let told = sealed().filter_map(promise).map(|of| of.tail).max();
        let tail = told.unwrap_or(0).max(own.tail);
        let is_new = given.earlier == 0;
        let shortcut = unchanged || self.has(Flaw::ShortcutDespiteChange);
        let is_clean = is_new || (shortcut && sealed().all(alike) && tail == first);
        let mut tail = tail.min(first);
        if self.has(Flaw::TailBeforeAccepts) {
            tail = first;
        }
        let mut acknowledged = [NOTHING; REPLICAS];
        let own = &mut state.replicas[leader];
        if !is_clean {
            (own.accepted, own.durable) = (epoch, first);
            acknowledged[leader] = first;
        } else if self.has(Flaw::ShortcutDespiteChange) && state.epoch == epoch {
            state.unsettled = 1 << given.quorum;
        }
        own.role = Role::Leading {
            epoch,
            first,
            tail,
            acknowledged,
            linked: u8::MAX,
        };
        own.tail = own.tail.max(tail);
        let holds = own.log.common(&state.committed);
        let earlier = |at: usize| at < state.committed.end() && state.committed_in[at] < epoch;
        state.is_broken |= (holds..LENGTH_MAX).any(earlier);
        self.commit_to(state, leader, epoch, tail);
    }

    /// Counts what is acknowledged to a leader.
    fn count(&self, state: &mut State, leader: usize) {
        let Role::Leading {
            epoch,
            tail,
            acknowledged,
            ..
        } = state.replicas[leader].role
        else {
            return;
        };
        let quorum = QUORUMS[usize::from(state.given[usize::from(epoch)].quorum)];
        let certain = (0..REPLICAS).filter(|node| state.uncertain & (1 << node) == 0);
        let mut ends: Vec<_> = certain
            .map(|node| acknowledged[node])
            .filter(|end| *end != NOTHING)
            .collect();
        ends.sort_unstable_by(|one, other| other.cmp(one));
        if let Some(reached) = ends.get(quorum - 1).filter(|reached| **reached > tail) {
            self.commit_to(state, leader, epoch, *reached);
        }
    }

    fn commit_to(&self, state: &mut State, leader: usize, epoch: u8, reached: u8) {
        let log = state.replicas[leader].log;
        let own = &mut state.replicas[leader];
        if let Role::Leading { tail, .. } = &mut own.role {
            *tail = (*tail).max(reached);
        }
        own.tail = own.tail.max(reached);
        for (at, writer) in log.as_slice().iter().enumerate().take(usize::from(reached)) {
            if at < state.committed.end() {
                state.is_broken |= state.committed.writers[at] != *writer;
                continue;
            }
            state.committed.push(*writer);
            state.committed_in[at] = epoch;
            for other in &state.replicas {
                let is_later = matches!(other.role, Role::Leading { epoch: later, .. } if later > epoch);
                state.is_broken |= is_later && other.log.as_slice().get(at) != Some(writer);
            }
        }
    }

    fn accept_by_append(&self, replica: &mut Replica, writer: u8) {
        if !self.has(Flaw::CatchUpKeepsAccepted) {
            replica.accepted = replica.accepted.max(writer);
        }
    }

    fn cut(replica: &mut Replica, end: usize) {
        replica.log.cut_to(end);
        replica.durable = replica.log.length;
    }

    fn promise(state: &mut State, node: usize, epoch: u8) {
        let is_certain = state.uncertain & (1 << node) == 0;
        let replica = &mut state.replicas[node];
        Cluster::listen(replica, epoch);
        replica.promises[usize::from(epoch)] = Some(Promise {
            accepted: replica.accepted,
            log: replica.log,
            tail: replica.tail,
            is_certain,
        });
    }

    /// Forgets what nobody can ask for any more, so that states that go on alike are one.
    fn tidy(state: &mut State) {
        for epoch in 1..=state.epoch {
            let leader = state.replicas[at(state.given[usize::from(epoch)].leader)];
            let (opens, leads) = match leader.role {
                Role::Sealing { epoch: of } | Role::Copying { epoch: of, .. } => (of == epoch, of == epoch),
                Role::Leading { epoch: of, .. } => (false, of == epoch),
                Role::Following => (false, false),
            };
            let given = &mut state.given[usize::from(epoch)];
            if !opens {
                given.earlier = 0;
            }
            if !leads && epoch < state.epoch {
                *given = Given::default();
            }
            for replica in &mut state.replicas {
                if !opens {
                    replica.promises[usize::from(epoch)] = None;
                }
                if !leads {
                    replica.acknowledges[usize::from(epoch)] = 0;
                    replica.acknowledged_before[usize::from(epoch)] = 0;
                }
            }
        }
    }

    /// Whatever a node led or opened is over once it listens to a later epoch.
    fn listen(replica: &mut Replica, epoch: u8) {
        replica.promised = replica.promised.max(epoch);
        replica.role = Role::Following;
        replica.durable = replica.log.length;
    }
}

fn at(node: u8) -> usize {
    usize::from(node)
}

impl Model for Cluster {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            replicas: [Replica::default(); REPLICAS],
            given: [Given::default(); EPOCHS as usize + 1],
            epoch: 0,
            unsettled: 0,
            uncertain: 0,
            has_lost: false,
            committed: Log::default(),
            committed_in: [0; LENGTH_MAX],
            is_broken: false,
        }]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        if state.is_broken {
            return;
        }
        for node in 0..3 {
            let replica = &state.replicas[at(node)];
            let is_certain = state.uncertain & (1 << node) == 0;
            let may_begin = is_certain && replica.promised <= state.epoch;
            if state.epoch < EPOCHS && may_begin && (state.epoch > 0 || node == 0) {
                let known = state.given[usize::from(state.epoch)].quorum;
                steps.push(Step::Assign {
                    leader: node,
                    quorum: known,
                });
                if state.epoch > 0 && known == 0 && state.unsettled.count_ones() == 1 {
                    steps.push(Step::Assign {
                        leader: node,
                        quorum: 1,
                    });
                }
            }
            if !state.has_lost && state.epoch > 0 && state.unsettled & 1 != 0 {
                steps.push(Step::Lose { node });
            }
            if replica.role != Role::Following {
                steps.push(Step::Crash { node });
            }
            let others = (0..3).filter(|other| *other != node);
            match replica.role {
                Role::Following => {}
                Role::Sealing { .. } => {
                    steps.extend(others.map(|other| Step::Seal {
                        leader: node,
                        node: other,
                    }));
                    let sets = (1..8).filter(|sealed_by| sealed_by & (1 << node) != 0);
                    steps.extend(sets.map(|sealed_by| Step::Choose {
                        leader: node,
                        sealed_by,
                    }));
                }
                Role::Copying { .. } => steps.push(Step::Copy { leader: node }),
                Role::Leading { .. } => {
                    let leader = node;
                    steps.extend([
                        Step::Write { leader },
                        Step::Flush { leader },
                        Step::Settle { leader },
                    ]);
                    for node in others {
                        steps.extend([
                            Step::Compare { leader, node },
                            Step::Append { leader, node },
                            Step::Accept { leader, node },
                            Step::Acknowledge { leader, node },
                            Step::Link { leader, node },
                            Step::CatchUp { leader, node },
                        ]);
                    }
                }
            }
        }
    }

    fn next_state(&self, before: &State, step: Step) -> Option<State> {
        let mut state = before.clone();
        match step {
            Step::Assign { leader, quorum } => {
                state.epoch += 1;
                let earlier = state.unsettled;
                state.given[usize::from(state.epoch)] = Given {
                    leader,
                    quorum,
                    earlier,
                };
                state.unsettled = match self.has(Flaw::SettledWhenAssigned) {
                    true => 1 << quorum,
                    false => earlier | 1 << quorum,
                };
                let epoch = state.epoch;
                Cluster::promise(&mut state, at(leader), epoch);
                state.replicas[at(leader)].role = Role::Sealing { epoch };
            }
            Step::Seal { leader, node } => {
                let Role::Sealing { epoch } = state.replicas[at(leader)].role else {
                    return None;
                };
                let replica = &state.replicas[at(node)];
                let is_known = replica.promises[usize::from(epoch)].is_some();
                if is_known || !self.listens(replica, epoch) {
                    return None;
                }
                Cluster::promise(&mut state, at(node), epoch);
            }
            Step::Choose { leader, sealed_by } => {
                let Role::Sealing { epoch } = state.replicas[at(leader)].role else {
                    return None;
                };
                let promise = |node: usize| state.replicas[node].promises[usize::from(epoch)];
                let mut sealed = (0..REPLICAS).filter(|node| sealed_by & (1 << node) != 0);
                if !sealed.clone().all(|node| promise(node).is_some())
                    || !self.is_sealed(&state, epoch, sealed_by)
                {
                    return None;
                }
                let rank = |node: &usize| {
                    let of = promise(*node)?;
                    let accepted = if self.has(Flaw::BestByEnd) { 0 } else { of.accepted };
                    Some((accepted, of.log.length, *node == at(leader)))
                };
                let best = sealed.clone().max_by_key(rank).or(sealed.next())?;
                match best == at(leader) {
                    true => self.open(&mut state, best, epoch, sealed_by),
                    false => {
                        let best = u8::try_from(best).expect("one of three");
                        state.replicas[at(leader)].role = Role::Copying {
                            epoch,
                            best,
                            sealed_by,
                        };
                    }
                }
            }
            Step::Copy { leader } => {
                let Role::Copying {
                    epoch,
                    best,
                    sealed_by,
                } = state.replicas[at(leader)].role
                else {
                    return None;
                };
                let other = state.replicas[at(best)];
                let promised = other.promises[usize::from(epoch)]?;
                let end = promised.log.length;
                // A disk that was lost since does not serve what it promised, nor does one that promised more.
                if other.promised != epoch || other.log != promised.log {
                    return None;
                }
                let own = &mut state.replicas[at(leader)];
                let common = own.log.common(&other.log);
                if common < own.log.end() {
                    Cluster::cut(own, common);
                } else if own.log.length < end {
                    let writer = other.log.writers[common];
                    own.log.push(writer);
                    own.durable = own.log.length;
                    self.accept_by_append(own, writer);
                } else {
                    self.open(&mut state, at(leader), epoch, sealed_by);
                }
            }
            Step::Write { leader } => {
                let own = &mut state.replicas[at(leader)];
                let Role::Leading { epoch, .. } = own.role else {
                    return None;
                };
                // One batch an epoch is enough to differ in.
                if own.log.end() == LENGTH_MAX || own.log.as_slice().contains(&epoch) {
                    return None;
                }
                own.log.push(epoch);
                self.accept_by_append(own, epoch);
            }
            Step::Flush { leader } => {
                let own = &mut state.replicas[at(leader)];
                let end = own.log.length;
                let Role::Leading { acknowledged, .. } = &mut own.role else {
                    return None;
                };
                if own.durable == end {
                    return None;
                }
                own.durable = end;
                acknowledged[at(leader)] = end;
                self.count(&mut state, at(leader));
            }
            Step::Compare { leader, node } => {
                let (epoch, own) = leading(&state, leader)?;
                let replica = &mut state.replicas[at(node)];
                let common = replica.log.common(&own.log);
                if !self.listens(replica, epoch) || replica.accepted >= epoch || common == replica.log.end() {
                    return None;
                }
                Cluster::listen(replica, epoch);
                Cluster::cut(replica, common);
            }
            Step::Append { leader, node } => {
                let (epoch, own) = leading(&state, leader)?;
                let replica = &mut state.replicas[at(node)];
                let end = replica.log.end();
                let continues = own.log.common(&replica.log) == end && end < own.log.end();
                if !self.listens(replica, epoch) || !continues {
                    return None;
                }
                Cluster::listen(replica, epoch);
                let writer = own.log.writers[end];
                replica.log.push(writer);
                replica.durable = replica.log.length;
                self.accept_by_append(replica, writer);
                if writer == epoch || replica.accepted == epoch {
                    replica.acknowledges[usize::from(epoch)] = replica.log.length;
                    replica.tail = replica.tail.max(own.tail.min(replica.log.length));
                }
            }
            Step::Accept { leader, node } => {
                let (epoch, own) = leading(&state, leader)?;
                let Role::Leading { first, .. } = own.role else {
                    return None;
                };
                let replica = &mut state.replicas[at(node)];
                let again = self.has(Flaw::ResentAcceptCuts) && replica.log.length > first;
                let reaches = own.log.common(&replica.log) >= usize::from(first);
                let is_late = replica.accepted >= epoch && !again;
                if !self.listens(replica, epoch) || is_late || !reaches {
                    return None;
                }
                Cluster::listen(replica, epoch);
                Cluster::cut(replica, usize::from(first));
                replica.accepted = replica.accepted.max(epoch);
                let acknowledges = &mut replica.acknowledges[usize::from(epoch)];
                *acknowledges = (*acknowledges).max(first);
            }
            Step::Acknowledge { leader, node } => {
                let (epoch, own) = leading(&state, leader)?;
                let Role::Leading {
                    first,
                    mut acknowledged,
                    linked,
                    tail,
                    ..
                } = own.role
                else {
                    return None;
                };
                let replica = state.replicas[at(node)];
                let end = match linked & (1 << node) != 0 {
                    true => replica.acknowledges[usize::from(epoch)],
                    false => replica.acknowledged_before[usize::from(epoch)],
                };
                let is_accepted = linked & (1 << node) == 0 || replica.accepted >= epoch;
                let known = acknowledged[at(node)];
                let is_new = known == NOTHING || known < end;
                let says_something = end > 0 || (is_accepted && first == 0 && linked & (1 << node) != 0);
                if !is_new || !says_something {
                    return None;
                }
                acknowledged[at(node)] = end;
                state.replicas[at(leader)].role = Role::Leading {
                    epoch,
                    first,
                    tail,
                    acknowledged,
                    linked,
                };
                self.count(&mut state, at(leader));
            }
            Step::Link { leader, node } => {
                let (_, own) = leading(&state, leader)?;
                let Role::Leading {
                    epoch,
                    first,
                    tail,
                    mut acknowledged,
                    linked,
                } = own.role
                else {
                    return None;
                };
                if linked & (1 << node) != 0 {
                    return None;
                }
                if !self.has(Flaw::AcksOutliveLink) {
                    acknowledged[at(node)] = NOTHING;
                }
                state.replicas[at(leader)].role = Role::Leading {
                    epoch,
                    first,
                    tail,
                    acknowledged,
                    linked: linked | 1 << node,
                };
            }
            Step::Settle { leader } => {
                let (epoch, own) = leading(&state, leader)?;
                let Role::Leading {
                    first, acknowledged, ..
                } = own.role
                else {
                    return None;
                };
                let quorum = state.given[usize::from(epoch)].quorum;
                let accepted = |node: &usize| {
                    let end = acknowledged[*node];
                    state.uncertain & (1 << node) == 0 && end != NOTHING && end >= first
                };
                let accepted = (0..REPLICAS).filter(accepted).count();
                if epoch != state.epoch
                    || state.unsettled == 1 << quorum
                    || accepted < QUORUMS[usize::from(quorum)]
                {
                    return None;
                }
                state.unsettled = 1 << quorum;
            }
            Step::CatchUp { leader, node } => {
                let (epoch, own) = leading(&state, leader)?;
                let Role::Leading {
                    first,
                    tail,
                    acknowledged,
                    linked,
                    ..
                } = own.role
                else {
                    return None;
                };
                let end = acknowledged[at(node)];
                let holds_all = end != NOTHING && end >= first.max(tail);
                let is_linked = linked & (1 << node) != 0;
                let is_doubted = state.uncertain & (1 << node) != 0;
                if epoch != state.epoch || !is_doubted || !is_linked || !holds_all {
                    return None;
                }
                state.uncertain &= !(1 << node);
                self.count(&mut state, at(leader));
            }
            Step::Crash { node } => {
                let replica = &mut state.replicas[at(node)];
                replica.role = Role::Following;
                replica.tail = 0;
                let durable = usize::from(replica.durable);
                replica.log.cut_to(durable);
            }
            Step::Lose { node } => {
                state.has_lost = true;
                let lost = state.replicas[at(node)];
                state.replicas[at(node)] = Replica {
                    acknowledged_before: lost.acknowledges,
                    promises: lost.promises,
                    floor: match self.has(Flaw::LossNotNoticed) {
                        true => 0,
                        false => state.epoch,
                    },
                    ..Replica::default()
                };
                if !self.has(Flaw::LossNotNoticed) {
                    state.uncertain |= 1 << node;
                    // Its promises stand; what it says from now on it says in doubt.
                }
                for replica in &mut state.replicas {
                    if let Role::Leading { linked, .. } = &mut replica.role {
                        *linked &= !(1 << node);
                    }
                }
            }
        }
        Cluster::tidy(&mut state);
        Some(state).filter(|state| state != before)
    }

    fn properties(&self) -> Vec<Property<Cluster>> {
        vec![
            Property::<Cluster>::always("what is committed stays", |_, state| !state.is_broken),
            Property::<Cluster>::sometimes("the last epoch commits", |_, state| {
                state.committed.as_slice().contains(&EPOCHS)
            }),
            Property::<Cluster>::sometimes("a change settles", |_, state| state.unsettled == 2),
            Property::<Cluster>::sometimes("a lost disk catches up", |_, state| {
                state.has_lost && state.uncertain == 0
            }),
        ]
    }
}

/// The epoch that a node leads, and the node.
fn leading(state: &State, leader: u8) -> Option<(u8, Replica)> {
    let own = state.replicas[at(leader)];
    match own.role {
        Role::Leading { epoch, .. } => Some((epoch, own)),
        _ => None,
    }
}

#[test]
fn every_run_keeps_what_is_committed() {
    let explored = Cluster { flaw: None }.checker();
    let explored = explored.finish_when(HasDiscoveries::AnyFailures);
    let explored = explored.threads(2).spawn_bfs().join();
    eprintln!(
        "{} different states, {} deep",
        explored.unique_state_count(),
        explored.max_depth()
    );
    explored.assert_properties();
}

#[test]
fn each_flaw_loses_something() {
    for flaw in [
        Flaw::CatchUpKeepsAccepted,
        Flaw::ResentAcceptCuts,
        Flaw::ShortcutDespiteChange,
        Flaw::SettledWhenAssigned,
        Flaw::LossNotNoticed,
        Flaw::AssignmentIsNoFloor,
        Flaw::AcksOutliveLink,
        Flaw::DoubtProvesAbsence,
        Flaw::PromiseTooFew,
        Flaw::BestByEnd,
        Flaw::TailBeforeAccepts,
    ] {
        let explored = Cluster { flaw: Some(flaw) };
        let explored = explored.checker().finish_when(HasDiscoveries::AnyFailures);
        let explored = explored.threads(2).spawn_bfs().join();
        let found = explored.discovery("what is committed stays");
        eprintln!("{flaw:?}: {} different states", explored.unique_state_count());
        let path = found.unwrap_or_else(|| panic!("{flaw:?} loses nothing"));
        eprintln!("{:?}", path.into_actions());
    }
}
