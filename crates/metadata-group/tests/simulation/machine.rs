//! A machine with a disk and a node of the group: started, killed, cut from its power, stopped.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use metadata_group::{
    ChangeError, Group, GroupIdentity, Member, Parts, ProposeError, Settings, StartError, StoreError,
    Transport,
};
use platform::disk::{Applied, FaultKind, SimulatedDisk};
use platform::random::{Random, SeededRandom};
use record::{ClusterId, DirectoryId};
use tokio::sync::mpsc;

use crate::engine::{Engine, UnitId};
use crate::history::{History, Image, State, value_of};
use crate::net::Net;
use crate::trace::Trace;
use crate::work::DelayedWork;

/// The errno of a disk that fails.
const EIO: i32 = 5;

/// A change of members, and its outcome when there is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    AddLearner(Member),
    AddVoter(Member),
    RemoveVoter(Member),
    RemoveLearner(Member),
    End,
}

pub(crate) type Outcome = Rc<RefCell<Option<Result<(), ChangeError>>>>;

pub(crate) struct Machine {
    pub(crate) member: Member,
    pub(crate) disk: SimulatedDisk,
    pub(crate) state: Rc<RefCell<State>>,
    random: SeededRandom,
    settings: Settings,
    padding: usize,
    slowness: u64,
    net: Net,
    history: History,
    trace: Trace,
    alive: Option<Alive>,
    /// The power is to be cut: a call of the disk is under way.
    cut_is_due: Arc<AtomicBool>,
}

struct Alive {
    unit: UnitId,
    group: Rc<RefCell<Option<Group>>>,
    asked: mpsc::UnboundedSender<Asked>,
    has_failed: Rc<Cell<bool>>,
}

enum Asked {
    Propose(Bytes),
    Change(Change, Outcome),
    HandOver(Member),
}

/// The member that a node is with its n-th disk.
fn member_of(node: i32, disk: u8) -> Member {
    let mut directory = [node as u8; 16];
    directory[0] = disk;
    Member {
        node,
        directory: DirectoryId(directory),
    }
}

impl Machine {
    pub(crate) fn new(
        node: i32,
        settings: Settings,
        net: Net,
        history: History,
        trace: Trace,
        mut random: SeededRandom,
    ) -> Machine {
        let disk = SimulatedDisk::new();
        Machine {
            member: member_of(node, 0),
            disk,
            state: Rc::new(RefCell::new(State::EMPTY)),
            settings,
            padding: if random.chance(1, 60) {
                700_000
            } else {
                random.below(3_000) as usize
            },
            slowness: random.below(3),
            random,
            net,
            history,
            trace,
            alive: None,
            cut_is_due: Arc::default(),
        }
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.alive.is_some()
    }

    /// Its group, once it has started.
    pub(crate) fn group(&self) -> Option<Group> {
        self.alive.as_ref()?.group.borrow().clone()
    }

    /// Says whether its group cannot go on, as its disk has failed.
    pub(crate) fn has_failed(&self) -> bool {
        let failed = |group: Group| group.status().failure.is_some();
        self.alive.as_ref().is_some_and(|alive| alive.has_failed.get()) || self.group().is_some_and(failed)
    }

    pub(crate) fn cut_is_due(&self) -> bool {
        self.cut_is_due.load(Ordering::Relaxed)
    }

    pub(crate) fn start(&mut self, engine: &mut Engine, founds: bool) {
        assert!(self.alive.is_none(), "it runs already");
        self.cut_is_due.store(false, Ordering::Relaxed);
        self.disk.clear_faults();
        let (inbox, arriving) = mpsc::unbounded_channel();
        let (asked, asking) = mpsc::unbounded_channel();
        *self.state.borrow_mut() = State::EMPTY;
        let life = Life {
            identity: GroupIdentity {
                cluster: ClusterId([7; 16]),
                own: self.member,
            },
            disk: self.disk.clone(),
            work: DelayedWork::new(self.random.split(), self.slowness),
            random: Random::seeded(self.random.split()),
            transport: self.net.of(self.member),
            settings: self.settings.clone(),
            image: Image {
                node: self.member,
                history: self.history.clone(),
                state: self.state.clone(),
                padding: self.padding,
            },
            history: self.history.clone(),
            trace: self.trace.clone(),
            group: Rc::default(),
            has_failed: Rc::default(),
            founds,
        };
        let (group, has_failed) = (life.group.clone(), life.has_failed.clone());
        let unit = engine.add(life.live(arriving, asking));
        self.net.connect(self.member, Some(inbox));
        self.alive = Some(Alive {
            unit,
            group,
            asked,
            has_failed,
        });
    }

    pub(crate) fn kill(&mut self, engine: &mut Engine) {
        if let Some(alive) = self.alive.take() {
            self.net.connect(self.member, None);
            engine.kill(alive.unit);
        }
    }

    pub(crate) fn cut_power(&mut self, engine: &mut Engine) {
        self.kill(engine);
        self.note_operations();
        self.disk = self.disk.crash(self.random.next_u64());
    }

    /// Has the power cut in one of the next calls that change the disk. Whoever sees `cut_is_due` cuts it.
    pub(crate) fn cut_power_in_call(&mut self) {
        let left = AtomicU64::new(self.random.below(6));
        let applied = [Applied::Nothing, Applied::Part, Applied::All][self.random.below(3) as usize];
        let cut_is_due = self.cut_is_due.clone();
        self.disk.fail_when(move |call| {
            let is_over = cut_is_due.load(Ordering::Relaxed);
            if !is_over && (call.kind.is_read() || left.fetch_sub(1, Ordering::Relaxed) > 0) {
                return None;
            }
            cut_is_due.store(true, Ordering::Relaxed);
            let applied = if is_over { Applied::Nothing } else { applied };
            Some(FaultKind::Error { errno: EIO, applied })
        });
    }

    /// Has one of the next calls fail.
    pub(crate) fn fail_call(&mut self) {
        let left = AtomicU64::new(self.random.below(6));
        let applied = [Applied::Nothing, Applied::Part, Applied::All][self.random.below(3) as usize];
        self.disk.fail_when(move |call| {
            let is_due = !call.kind.is_read() && left.load(Ordering::Relaxed) == 0;
            if !call.kind.is_read() {
                let _ = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                    Some(left.wrapping_sub(1))
                });
            }
            is_due.then_some(FaultKind::Error { errno: EIO, applied })
        });
    }

    pub(crate) fn exchange_disk(&mut self) {
        self.note_operations();
        self.disk = SimulatedDisk::new();
        self.member = member_of(self.member.node, self.member.directory.0[0] + 1);
    }

    pub(crate) fn note_operations(&self) {
        for operation in self.disk.operations() {
            self.trace
                .note(format_args!("disk of {}: {operation}", self.member));
        }
        self.disk.forget_operations();
    }

    pub(crate) fn stop(&self, engine: &mut Engine, is_stopped: bool) {
        if let Some(alive) = &self.alive {
            engine.stop(alive.unit, is_stopped);
        }
    }

    pub(crate) fn propose(&self, entry: Bytes) {
        self.ask(Asked::Propose(entry));
    }

    pub(crate) fn hand_over(&self, to: Member) {
        self.ask(Asked::HandOver(to));
    }

    pub(crate) fn change(&self, change: Change) -> Outcome {
        let outcome = Outcome::default();
        self.ask(Asked::Change(change, outcome.clone()));
        outcome
    }

    fn ask(&self, asked: Asked) {
        if let Some(alive) = &self.alive {
            let _ = alive.asked.send(asked);
        }
    }
}

/// What a node's unit begins with.
struct Life {
    identity: GroupIdentity,
    disk: SimulatedDisk,
    work: DelayedWork,
    random: Random,
    transport: Rc<dyn Transport>,
    settings: Settings,
    image: Image,
    history: History,
    trace: Trace,
    group: Rc<RefCell<Option<Group>>>,
    has_failed: Rc<Cell<bool>>,
    founds: bool,
}

impl Life {
    async fn live(
        self,
        mut arriving: mpsc::UnboundedReceiver<(Member, Bytes)>,
        mut asking: mpsc::UnboundedReceiver<Asked>,
    ) {
        let parts = Parts {
            disk: Arc::new(self.disk),
            work: Arc::new(self.work),
            random: self.random,
            transport: self.transport,
        };
        let (node, history) = (self.identity.own, self.history);
        let group = match Group::start(self.identity, parts, &self.settings, Box::new(self.image)).await {
            Ok(group) => group,
            Err(StartError::Store(StoreError::Failed { .. }) | StartError::Refused(_)) => {
                self.has_failed.set(true);
                return;
            }
            Err(error) => return history.complain(format!("node {node} does not start: {error}")),
        };
        if self.founds
            && let Err(error) = group.found().await
        {
            history.complain(format!("node {node} cannot found a group: {error}"));
        }
        *self.group.borrow_mut() = Some(group.clone());
        drop(platform::turns::spawn_own(follow(
            node,
            group.clone(),
            history.clone(),
            self.trace.clone(),
        )));
        loop {
            tokio::select! {
                biased;
                message = arriving.recv() => {
                    let Some((from, message)) = message else { return };
                    if let Err(error) = group.receive(from, message) {
                        history.complain(format!("node {node} cannot read a message of {from}: {error}"));
                    }
                }
                asked = asking.recv() => {
                    let Some(asked) = asked else { return };
                    drop(platform::turns::spawn_own(carry_out(asked, group.clone(), history.clone(), self.trace.clone())));
                }
            }
        }
    }
}

/// Sees each status of a node.
async fn follow(node: Member, group: Group, history: History, trace: Trace) {
    let mut watch = group.watch();
    let mut status = watch.now();
    loop {
        history.is_in(node, status.term, "status");
        if status.is_leader && history.leads(node, status.term) {
            trace.note(format_args!("node {node} leads in term {}", status.term));
            trace.count("leaders");
        }
        match watch.changed().await {
            Some(next) => status = next,
            None => return,
        }
    }
}

async fn carry_out(asked: Asked, group: Group, history: History, trace: Trace) {
    match asked {
        Asked::Propose(entry) => {
            let value = value_of(&entry);
            match group.propose(entry).await {
                Ok(id) => {
                    trace.note(format_args!("{value} is acknowledged at {id}"));
                    trace.count("acknowledged");
                    history.acknowledged(value, id);
                }
                Err(
                    error @ (ProposeError::NotLeader { .. } | ProposeError::Busy | ProposeError::TooLong(_)),
                ) => {
                    trace.note(format_args!("{value} is refused: {error}"));
                    trace.count("refused");
                    history.refused(value);
                }
                Err(error) => {
                    trace.note(format_args!("{value}: {error}"));
                    trace.count("fate unknown");
                }
            }
        }
        Asked::Change(change, outcome) => {
            let done = match change {
                Change::AddLearner(node) => group.add_learner(node).await,
                Change::AddVoter(node) => group.add_voters([node].into()).await,
                Change::RemoveVoter(node) => group.remove_voter(node).await,
                Change::RemoveLearner(node) => group.remove_learner(node).await,
                Change::End => group.end_change().await,
            };
            trace.note(format_args!("{change:?}: {done:?}"));
            trace.count(if done.is_ok() {
                "changes made"
            } else {
                "changes not made"
            });
            *outcome.borrow_mut() = Some(done);
        }
        Asked::HandOver(to) => drop(group.hand_over(to).await),
    }
}
