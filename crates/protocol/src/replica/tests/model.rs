//! A model of replication and sealing, explored to its end: four nodes, three epochs, one change of the configuration (a replica
//! is replaced by a node that stood beside the set, or the ack quorum grows), one lost disk, any crashes of leaders, any order of
//! steps.
//!
//! It is written from docs/protocols/replication.md and shares no code with the replica: a mistake in the thought shows here, one
//! in the code in the runs by seed. Batches are one record long and named by the epoch that wrote them. What a follower takes
//! is durable at once; a leader's own batches are so when it flushes. An acknowledgement counts whenever the leader commits, so it
//! may be late, and of a lost disk too. The change and the loss come before the last epoch, whose leader only opens it: any harm
//! that it did would show in an epoch behind it.

mod state;

use state::{Batch, EPOCHS, Given, LENGTH_MAX, Leading, NODES, Promise, Replica, Role, State};
use stateright::{Checker, HasDiscoveries, Model, Property};

/// A cure that is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flaw {
    CatchUpKeepsAccepted,
    ResentAcceptCuts,
    ShortcutDespiteChange,
    SettledWhenAssigned,
    EpochGivenTwice,
    LossNotNoticed,
    AcksAfterSeal,
    AnswersUnconfirmed,
    TwoLeadersInOneTerm,
    AssignmentIsNoFloor,
    AcksOutliveLink,
    DoubtProvesAbsence,
    PromiseOutlivesDisk,
    JoiningCounts,
    PromiseTooFew,
    BestByEnd,
    TailBeforeAccepts,
}

/// A replica set as bits, and its ack quorum.
#[derive(Debug, Clone, Copy)]
struct Configuration {
    replicas: u8,
    ack_quorum: usize,
}

impl Configuration {
    fn holds(&self, node: usize) -> bool {
        self.replicas & (1 << node) != 0
    }

    fn seal_quorum(&self) -> usize {
        self.replicas.count_ones() as usize + 1 - self.ack_quorum
    }
}

/// The configurations before and after the one change. The latter two nodes of the first set are alike in both.
type Change = [Configuration; 2];

/// The first replica is replaced by the node that stands beside.
const REPLICA_REPLACED: Change = [
    Configuration {
        replicas: 0b0111,
        ack_quorum: 2,
    },
    Configuration {
        replicas: 0b1110,
        ack_quorum: 2,
    },
];
/// The ack quorum becomes all.
const QUORUM_GROWS: Change = [
    Configuration {
        replicas: 0b0111,
        ack_quorum: 2,
    },
    Configuration {
        replicas: 0b0111,
        ack_quorum: 3,
    },
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Assign { leader: usize, configuration: u8 },
    Seal { leader: usize, node: usize },
    Choose { leader: usize, best: usize },
    Copy { leader: usize },
    Write { leader: usize },
    Flush { leader: usize },
    Compare { leader: usize, node: usize },
    Append { leader: usize, node: usize },
    Accept { leader: usize, node: usize },
    Commit { leader: usize },
    Link { leader: usize, node: usize },
    Settle { leader: usize },
    CatchUp { leader: usize, node: usize },
    Crash { node: usize },
    Lose { node: usize },
}

struct Cluster {
    change: Change,
    /// The longest log.
    length_max: usize,
    flaw: Option<Flaw>,
}

impl Cluster {
    fn has(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    fn configuration(&self, state: &State, epoch: u8) -> Configuration {
        self.change[usize::from(state.given[usize::from(epoch)].configuration)]
    }

    /// The nodes that a leader sends its log to: the members, and before the change those that are to be.
    fn receives(&self, state: &State, epoch: u8, node: usize) -> bool {
        let is_first = state.given[usize::from(epoch)].configuration == 0;
        self.configuration(state, epoch).holds(node) || (is_first && self.change[1].holds(node))
    }

    /// The node is to become a member.
    fn joins(&self, state: &State, node: usize) -> bool {
        self.receives(state, state.epoch, node) && !self.configuration(state, state.epoch).holds(node)
    }

    fn listens(&self, replica: &Replica, epoch: u8) -> bool {
        let floor = match self.has(Flaw::AssignmentIsNoFloor) {
            true => replica.promised,
            false => replica.promised.max(replica.floor),
        };
        epoch >= floor
    }

    /// The epoch that a leader would be given next.
    fn next_epoch(&self, state: &State, leader: usize) -> u8 {
        let again = self.has(Flaw::EpochGivenTwice) && state.replicas[leader].promised < state.epoch;
        state.epoch + u8::from(!again)
    }

    /// Says whether enough have promised for every configuration that may have committed something.
    fn is_sealed(&self, state: &State, epoch: u8) -> bool {
        let promised = |node: &usize| {
            let promise = state.replicas[*node].promises[usize::from(epoch)];
            promise.is_some_and(|of| of.is_certain || self.has(Flaw::DoubtProvesAbsence))
        };
        let earlier = state.given[usize::from(epoch)].earlier;
        let mut earlier = (0..2).filter(|index| earlier & (1 << index) != 0);
        earlier.all(|index| {
            let configuration = self.change[index];
            let members = (0..NODES).filter(|node| configuration.holds(*node));
            let wanted = configuration.seal_quorum() - usize::from(self.has(Flaw::PromiseTooFew));
            members.filter(promised).count() >= wanted
        })
    }

    fn open(&self, state: &mut State, leader: usize, epoch: u8) {
        let given = state.given[usize::from(epoch)];
        let own = state.replicas[leader];
        let first = own.log.length;
        let promises = state.replicas.iter().map(|of| of.promises[usize::from(epoch)]);
        let others = promises.enumerate().filter(|(node, _)| *node != leader);
        let mut promised = others.filter_map(|(_, promise)| promise);
        let told = promised.clone().map(|of| of.tail).max();
        let all_alike = promised.all(|of| (of.accepted, of.log) == (own.accepted, own.log));
        let unchanged = given.earlier & !(1 << given.configuration) == 0;
        let tail = told.unwrap_or(0).max(own.tail);
        let shortcut = unchanged || self.has(Flaw::ShortcutDespiteChange);
        let is_clean = given.earlier == 0 || (shortcut && all_alike && tail == first);
        let mut tail = tail.min(first);
        if self.has(Flaw::TailBeforeAccepts) {
            tail = first;
        }
        let own = &mut state.replicas[leader];
        if !is_clean {
            (own.accepted, own.durable) = (epoch, first);
            own.acknowledge(epoch, first);
        } else if self.has(Flaw::ShortcutDespiteChange) && state.epoch == epoch {
            state.unsettled = 1 << given.configuration;
        }
        own.role = Role::Leading(Leading {
            epoch,
            first,
            tail,
            linked: u8::MAX,
        });
        own.tail = own.tail.max(tail);
        let log = own.log;
        let holds = |at: usize| log.as_slice().get(at) == state.committed.as_slice().get(at);
        let mut earlier = (0..state.committed.end()).filter(|at| state.committed_in[*at] < epoch);
        state.is_broken |= !earlier.all(holds);
        self.commit_to(state, leader, tail);
    }

    /// The most that a leader can have heard from a node: from its present disk once the link is of that, else from the one before.
    fn heard(&self, state: &State, leading: &Leading, node: usize) -> Option<u8> {
        let replica = &state.replicas[node];
        let epoch = usize::from(leading.epoch);
        let before = replica.acknowledged_before[epoch];
        match leading.linked & (1 << node) != 0 {
            true if self.has(Flaw::AcksOutliveLink) => before.max(replica.acknowledged[epoch]),
            true => replica.acknowledged[epoch],
            false => before,
        }
    }

    /// Counts what is acknowledged to a leader.
    fn commit(&self, state: &mut State, leader: usize) -> Option<()> {
        let (_, leading) = state.leading(leader)?;
        let configuration = self.configuration(state, leading.epoch);
        let counts = |node: &usize| {
            let is_member = configuration.holds(*node) || self.has(Flaw::JoiningCounts);
            is_member && state.is_certain(*node)
        };
        let nodes = (0..NODES).filter(counts);
        let mut ends: Vec<_> = nodes
            .filter_map(|node| self.heard(state, &leading, node))
            .collect();
        ends.sort_unstable_by(|one, other| other.cmp(one));
        let reached = ends.get(configuration.ack_quorum - 1)?;
        self.commit_to(state, leader, *reached);
        Some(())
    }

    fn commit_to(&self, state: &mut State, leader: usize, reached: u8) {
        let own = &mut state.replicas[leader];
        let Role::Leading(leading) = &mut own.role else {
            return;
        };
        leading.tail = leading.tail.max(reached);
        own.tail = own.tail.max(reached);
        let (epoch, log) = (leading.epoch, own.log);
        for (at, batch) in log.as_slice().iter().enumerate().take(usize::from(reached)) {
            if let Some(committed) = state.committed.as_slice().get(at) {
                state.is_broken |= committed != batch;
                continue;
            }
            state.committed.push(*batch);
            state.committed_in[at] = epoch;
            for other in &state.replicas {
                let is_later = matches!(other.role, Role::Leading(of) if of.epoch > epoch);
                state.is_broken |= is_later && other.log.as_slice().get(at) != Some(batch);
            }
        }
    }

    fn accept_by_append(&self, replica: &mut Replica, writer: u8) {
        if !self.has(Flaw::CatchUpKeepsAccepted) {
            replica.accepted = replica.accepted.max(writer);
        }
    }

    fn promise(&self, state: &mut State, node: usize, epoch: u8) {
        let is_certain = state.is_certain(node);
        let replica = &mut state.replicas[node];
        let role = replica.role;
        replica.listen(epoch);
        if self.has(Flaw::AcksAfterSeal) && matches!(role, Role::Leading(_)) {
            replica.role = role;
        }
        replica.promises[usize::from(epoch)] = Some(Promise {
            accepted: replica.accepted,
            log: replica.log,
            tail: replica.tail,
            is_certain,
        });
    }

    /// A leader whose epoch is open may answer the latest offset once an ack quorum has said, after the question, that it listens
    /// to no later epoch: such an answer holds everything that is committed.
    fn answers_are_right(&self, state: &State) -> bool {
        (0..NODES)
            .filter_map(|node| state.leading(node))
            .all(|(_, leading)| {
                let configuration = self.configuration(state, leading.epoch);
                let members = (0..NODES).filter(|node| configuration.holds(*node));
                let listening = members.filter(|node| self.listens(&state.replicas[*node], leading.epoch));
                let is_confirmed = listening.count() >= configuration.ack_quorum;
                let may_answer = is_confirmed || self.has(Flaw::AnswersUnconfirmed);
                let is_open = leading.tail >= leading.first;
                !(may_answer && is_open) || usize::from(leading.tail) >= state.committed.end()
            })
    }

    fn push_assignments(&self, state: &State, leader: usize, steps: &mut Vec<Step>) {
        let epoch = self.next_epoch(state, leader);
        let may_open = state.is_certain(leader) && state.replicas[leader].promised < epoch;
        // Which of the two like nodes leads first does not matter.
        if epoch > EPOCHS || !may_open || (state.epoch == 0 && leader > 1) {
            return;
        }
        let known = state.given[usize::from(state.epoch)].configuration;
        let joining = (0..NODES).any(|node| self.joins(state, node));
        let is_ready = state.is_ready || !joining;
        let is_between = state.epoch > 0 && epoch < EPOCHS;
        let may_change = is_between && known == 0 && state.unsettled.count_ones() == 1 && is_ready;
        let configurations = known..=known + u8::from(may_change);
        let configurations = configurations.filter(|of| self.change[usize::from(*of)].holds(leader));
        steps.extend(configurations.map(|configuration| Step::Assign {
            leader,
            configuration,
        }));
    }

    fn assign(&self, state: &mut State, leader: usize, configuration: u8) {
        let epoch = self.next_epoch(state, leader);
        state.epoch = epoch;
        let earlier = state.unsettled;
        state.given[usize::from(epoch)] = Given {
            configuration,
            earlier,
        };
        state.unsettled = match self.has(Flaw::SettledWhenAssigned) {
            true => 1 << configuration,
            false => earlier | 1 << configuration,
        };
        state.is_ready &= configuration == 0;
        let second = (leader + 1) % NODES;
        let is_twofold = self.has(Flaw::TwoLeadersInOneTerm)
            && self.change[usize::from(configuration)].holds(second)
            && state.replicas[second].promised < epoch;
        for leader in [leader, second].into_iter().take(1 + usize::from(is_twofold)) {
            self.promise(state, leader, epoch);
            state.replicas[leader].role = Role::Sealing { epoch };
        }
    }

    /// Takes the next step of copying the best log, or opens the epoch once the leader has it.
    fn copy(&self, state: &mut State, leader: usize) -> Option<()> {
        let Role::Copying { epoch, best } = state.replicas[leader].role else {
            return None;
        };
        let other = state.replicas[usize::from(best)];
        let promised = other.promises[usize::from(epoch)]?;
        // A disk that was lost since does not serve what it promised, nor does one that promised more.
        let is_other = other.promised != epoch || other.log != promised.log;
        if is_other && !self.has(Flaw::PromiseOutlivesDisk) {
            return None;
        }
        let own = &mut state.replicas[leader];
        let common = own.log.common(&other.log);
        if common < own.log.end() {
            own.cut(common);
        } else if let Some(batch) = other.log.as_slice().get(common) {
            own.log.push(*batch);
            own.durable = own.log.length;
            self.accept_by_append(own, batch.epoch);
        } else {
            self.open(state, leader, epoch);
        }
        Some(())
    }

    fn append(&self, state: &mut State, leader: usize, node: usize) -> Option<()> {
        let (own, leading) = state.leading(leader)?;
        let replica = &mut state.replicas[node];
        let end = replica.log.end();
        let continues = own.log.common(&replica.log) == end && end < own.log.end();
        if !self.listens(replica, leading.epoch) || !continues {
            return None;
        }
        replica.listen(leading.epoch);
        let batch = own.log.as_slice()[end];
        replica.log.push(batch);
        replica.durable = replica.log.length;
        self.accept_by_append(replica, batch.epoch);
        if replica.accepted == leading.epoch || batch.epoch == leading.epoch {
            replica.acknowledge(leading.epoch, replica.log.length);
            replica.tail = replica.tail.max(own.tail.min(replica.log.length));
        }
        Some(())
    }

    fn accept(&self, state: &mut State, leader: usize, node: usize) -> Option<()> {
        let (own, Leading { epoch, first, .. }) = state.leading(leader)?;
        let replica = &mut state.replicas[node];
        let again = self.has(Flaw::ResentAcceptCuts) && replica.log.length > first;
        let reaches = own.log.common(&replica.log) >= usize::from(first);
        let is_late = replica.accepted >= epoch && !again;
        if !self.listens(replica, epoch) || is_late || !reaches {
            return None;
        }
        replica.listen(epoch);
        replica.cut(usize::from(first));
        replica.accepted = replica.accepted.max(epoch);
        replica.acknowledge(epoch, first);
        Some(())
    }

    fn settle(&self, state: &mut State, leader: usize) -> Option<()> {
        let (_, leading) = state.leading(leader)?;
        let configuration = self.configuration(state, leading.epoch);
        let settled = 1 << state.given[usize::from(leading.epoch)].configuration;
        let accepted = |node: &usize| {
            let counts = configuration.holds(*node) && state.is_certain(*node);
            counts && self.heard(state, &leading, *node) >= Some(leading.first)
        };
        let accepted = (0..NODES).filter(accepted).count();
        if leading.epoch != state.epoch || state.unsettled == settled || accepted < configuration.ack_quorum {
            return None;
        }
        state.unsettled = settled;
        Some(())
    }

    fn catch_up(&self, state: &mut State, leader: usize, node: usize) -> Option<()> {
        let (_, leading) = state.leading(leader)?;
        let holds_all = self.heard(state, &leading, node) >= Some(leading.first.max(leading.tail));
        let is_linked = leading.linked & (1 << node) != 0;
        let joins = self.joins(state, node);
        let is_wanted = !state.is_certain(node) || (joins && !state.is_ready);
        if leading.epoch != state.epoch || !is_wanted || !is_linked || !holds_all {
            return None;
        }
        state.uncertain &= !(1 << node);
        state.is_ready |= joins;
        Some(())
    }

    fn lose(&self, state: &mut State, node: usize) {
        state.has_lost = true;
        let lost = state.replicas[node];
        let is_noticed = !self.has(Flaw::LossNotNoticed);
        // Its promises stand; what it says from now on it says in doubt.
        state.replicas[node] = Replica {
            acknowledged_before: lost.acknowledged,
            promises: lost.promises,
            floor: if is_noticed { state.epoch } else { 0 },
            ..Replica::default()
        };
        if is_noticed {
            state.uncertain |= 1 << node;
            state.is_ready &= !self.joins(state, node);
        }
        for replica in &mut state.replicas {
            if let Role::Leading(leading) = &mut replica.role {
                leading.linked &= !(1 << node);
            }
        }
    }
}

impl Model for Cluster {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![State::default()]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        if state.is_broken {
            return;
        }
        for node in 0..NODES {
            self.push_assignments(state, node, steps);
            let replica = &state.replicas[node];
            let is_last = state.epoch == EPOCHS;
            if !state.has_lost && state.epoch > 0 && !is_last {
                steps.push(Step::Lose { node });
            }
            // One that loses nothing is like a node that does nothing any more.
            let loses = replica.durable < replica.log.length || replica.tail > 0;
            if replica.role != Role::Following && loses && !is_last {
                steps.push(Step::Crash { node });
            }
            let leader = node;
            let others = (0..NODES).filter(|other| *other != node);
            match replica.role {
                Role::Following => {}
                Role::Sealing { .. } => {
                    steps.extend(others.map(|node| Step::Seal { leader, node }));
                    steps.extend((0..NODES).map(|best| Step::Choose { leader, best }));
                }
                Role::Copying { .. } => steps.push(Step::Copy { leader }),
                // Nothing that the last leader does can break anything but in the eyes of a later one.
                Role::Leading(leading) if leading.epoch == EPOCHS => {}
                Role::Leading(leading) => {
                    steps.extend([
                        Step::Write { leader },
                        Step::Flush { leader },
                        Step::Commit { leader },
                        Step::Settle { leader },
                    ]);
                    for node in others.filter(|node| self.receives(state, leading.epoch, *node)) {
                        steps.extend([
                            Step::Compare { leader, node },
                            Step::Append { leader, node },
                            Step::Accept { leader, node },
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
            Step::Assign {
                leader,
                configuration,
            } => self.assign(&mut state, leader, configuration),
            Step::Seal { leader, node } => {
                let epoch = state.replicas[leader].role.epoch()?;
                let given = state.given[usize::from(epoch)];
                let asked = given.earlier | 1 << given.configuration;
                let is_asked = (0..2).any(|of| asked & (1 << of) != 0 && self.change[of].holds(node));
                let replica = &state.replicas[node];
                let is_known = replica.promises[usize::from(epoch)].is_some();
                // More promises than enough change nothing that fewer in another order do not.
                let is_sealed = self.is_sealed(&state, epoch);
                if is_known || is_sealed || !is_asked || !self.listens(replica, epoch) {
                    return None;
                }
                self.promise(&mut state, node, epoch);
            }
            Step::Choose { leader, best } => {
                let epoch = state.replicas[leader].role.epoch()?;
                let rank = |node: usize| {
                    let of = state.replicas[node].promises[usize::from(epoch)]?;
                    let accepted = if self.has(Flaw::BestByEnd) { 0 } else { of.accepted };
                    Some((accepted, of.log.length, node == leader))
                };
                let is_best = rank(best).is_some() && rank(best) == (0..NODES).map(rank).max()?;
                if !is_best || !self.is_sealed(&state, epoch) {
                    return None;
                }
                match best == leader {
                    true => self.open(&mut state, leader, epoch),
                    false => {
                        let best = u8::try_from(best).expect("one of a few");
                        state.replicas[leader].role = Role::Copying { epoch, best };
                    }
                }
            }
            Step::Copy { leader } => self.copy(&mut state, leader)?,
            Step::Write { leader } => {
                let (own, leading) = state.leading(leader)?;
                let epoch = leading.epoch;
                // One batch an epoch is enough to differ in.
                let has_written = own.log.as_slice().iter().any(|batch| batch.epoch == epoch);
                if own.log.end() == self.length_max || has_written {
                    return None;
                }
                let node = u8::try_from(leader).expect("one of a few");
                let own = &mut state.replicas[leader];
                own.log.push(Batch { epoch, node });
                self.accept_by_append(own, epoch);
            }
            Step::Flush { leader } => {
                let (_, Leading { epoch, .. }) = state.leading(leader)?;
                let own = &mut state.replicas[leader];
                if own.durable == own.log.length {
                    return None;
                }
                own.durable = own.log.length;
                own.acknowledge(epoch, own.durable);
            }
            Step::Compare { leader, node } => {
                let (own, Leading { epoch, .. }) = state.leading(leader)?;
                let replica = &mut state.replicas[node];
                let common = replica.log.common(&own.log);
                if !self.listens(replica, epoch) || replica.accepted >= epoch || common == replica.log.end() {
                    return None;
                }
                replica.listen(epoch);
                replica.cut(common);
            }
            Step::Append { leader, node } => self.append(&mut state, leader, node)?,
            Step::Accept { leader, node } => self.accept(&mut state, leader, node)?,
            Step::Commit { leader } => self.commit(&mut state, leader)?,
            Step::Link { leader, node } => {
                let (_, mut leading) = state.leading(leader)?;
                if leading.linked & (1 << node) != 0 {
                    return None;
                }
                leading.linked |= 1 << node;
                state.replicas[leader].role = Role::Leading(leading);
            }
            Step::Settle { leader } => self.settle(&mut state, leader)?,
            Step::CatchUp { leader, node } => self.catch_up(&mut state, leader, node)?,
            Step::Crash { node } => {
                let replica = &mut state.replicas[node];
                replica.role = Role::Following;
                replica.tail = 0;
                replica.log.cut_to(usize::from(replica.durable));
            }
            Step::Lose { node } => self.lose(&mut state, node),
        }
        Some(state.tidied()).filter(|state| state != before)
    }

    fn properties(&self) -> Vec<Property<Cluster>> {
        vec![
            Property::<Cluster>::always(COMMITTED_STAYS, |_, state| !state.is_broken),
            Property::<Cluster>::always(ANSWERS_ARE_RIGHT, |cluster, state| {
                cluster.answers_are_right(state)
            }),
            Property::<Cluster>::sometimes("the last epoch opens", |_, state| {
                (0..NODES).any(|node| state.leading(node).is_some_and(|(_, of)| of.epoch == EPOCHS))
            }),
            Property::<Cluster>::sometimes("the change settles", |_, state| state.unsettled == 2),
            Property::<Cluster>::sometimes("a lost disk catches up", |_, state| {
                state.has_lost && state.uncertain == 0 && state.epoch < EPOCHS
            }),
        ]
    }
}

const COMMITTED_STAYS: &str = "what is committed stays";
const ANSWERS_ARE_RIGHT: &str = "a confirmed answer has everything that is committed";

fn explore(cluster: Cluster, until: HasDiscoveries) -> impl Checker<Cluster> {
    let explored = cluster.checker().finish_when(until);
    explored.threads(2).spawn_bfs().join()
}

fn explore_whole(change: Change, length_max: usize) {
    let explored = explore(
        Cluster {
            change,
            length_max,
            flaw: None,
        },
        HasDiscoveries::AnyFailures,
    );
    eprintln!(
        "{} different states, {} deep",
        explored.unique_state_count(),
        explored.max_depth()
    );
    explored.assert_properties();
}

#[test]
fn every_run_keeps_what_is_committed() {
    explore_whole(QUORUM_GROWS, LENGTH_MAX);
    explore_whole(REPLICA_REPLACED, 1);
}

#[test]
#[ignore = "explores many millions of states; make soak"]
fn many_runs_keep_what_is_committed() {
    explore_whole(REPLICA_REPLACED, LENGTH_MAX);
}

#[test]
fn each_flaw_breaks_something() {
    for flaw in [
        Flaw::CatchUpKeepsAccepted,
        Flaw::ResentAcceptCuts,
        Flaw::ShortcutDespiteChange,
        Flaw::SettledWhenAssigned,
        Flaw::EpochGivenTwice,
        Flaw::LossNotNoticed,
        Flaw::AcksAfterSeal,
        Flaw::AnswersUnconfirmed,
        Flaw::TwoLeadersInOneTerm,
        Flaw::AssignmentIsNoFloor,
        Flaw::AcksOutliveLink,
        Flaw::DoubtProvesAbsence,
        Flaw::PromiseOutlivesDisk,
        Flaw::JoiningCounts,
        Flaw::PromiseTooFew,
        Flaw::BestByEnd,
        Flaw::TailBeforeAccepts,
    ] {
        let broken = match flaw {
            Flaw::AnswersUnconfirmed => ANSWERS_ARE_RIGHT,
            _ => COMMITTED_STAYS,
        };
        let explored = explore(
            Cluster {
                change: REPLICA_REPLACED,
                length_max: 1,
                flaw: Some(flaw),
            },
            HasDiscoveries::AnyOf([broken].into()),
        );
        eprintln!("{flaw:?}: {} different states", explored.unique_state_count());
        let path = explored.discovery(broken);
        let path = path.unwrap_or_else(|| panic!("{flaw:?} breaks nothing"));
        eprintln!("{:?}", path.into_actions());
    }
}
