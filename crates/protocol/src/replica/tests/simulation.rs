//! Runs by seed: clients that append and retry, crashes, lost disks, links that break, metadata that changes its mind and is
//! heard of late. At the end everything is repaired, and the replicas have to agree and go on.

use record::{Epoch, Offset};

use super::random::Random;
use super::world::{Mistake, NOW, World, index, node_id};
use crate::leader::{AppendError, NodeId};
use crate::producers::{ProducerId, Stamp};
use crate::replica::{Configuration, Replica, RoleName};

const STEPS: usize = 500;
/// Some are run with the other tests; this variable asks for more.
const SEEDS: &str = "ROPEWALK_REPLICA_SEEDS";

#[test]
fn many_seeds() {
    let seeds = std::env::var(SEEDS).map_or(10_000, |seeds| seeds.parse().expect("a number of seeds"));
    let batches: usize = (0..seeds).map(run_or_tell).sum();
    eprintln!("{seeds} seeds committed {batches} batches");
    assert!(batches > 0, "a run that commits nothing proves nothing");
}

/// Nothing that a replica really sends is refused by its own codec, or comes out of it as something else.
#[test]
fn messages_go_as_bytes() {
    for seed in 0..300 {
        let mut simulation = Simulation::new(seed, None);
        simulation.world.goes_as_bytes = true;
        simulation.play();
    }
}

/// Plays the run of a seed; tells what happened if it fails.
fn run_or_tell(seed: u64) -> usize {
    std::panic::catch_unwind(|| run(seed, None)).unwrap_or_else(|cause| {
        let mut simulation = Simulation::new(seed, None);
        simulation.world.story = Some(Vec::new());
        let again = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| simulation.play()));
        let story = simulation.world.story.unwrap_or_default();
        eprintln!("seed {seed}:\n{}", story.join("\n"));
        std::panic::resume_unwind(again.err().unwrap_or(cause))
    })
}

#[test]
fn a_seed_replays_a_run() {
    for seed in 0..20 {
        let mut stories = [Vec::new(), Vec::new()];
        for story in &mut stories {
            let mut simulation = Simulation::new(seed, None);
            simulation.world.story = Some(Vec::new());
            simulation.play();
            *story = simulation.world.story.take().expect("it was written");
        }
        assert_eq!(stories[0], stories[1], "seed {seed}");
    }
}

/// Plays the run of a seed; gives how many batches were committed. A violation is a panic.
pub(super) fn run(seed: u64, mistake: Option<Mistake>) -> usize {
    let mut simulation = Simulation::new(seed, mistake);
    simulation.play();
    simulation.world.checker.committed().len()
}

struct Simulation {
    world: World,
    random: Random,
    clients: Vec<Client>,
    /// The steps of a hundred that bring trouble.
    trouble: usize,
}

/// An idempotent producer with one batch under way, which it sends again until it is acknowledged.
struct Client {
    id: ProducerId,
    next_sequence: i32,
    record_count: i32,
    waits: Option<Wait>,
}

#[derive(Clone, Copy)]
struct Wait {
    node: usize,
    epoch: Epoch,
    incarnation: u32,
    first_offset: Offset,
    next_offset: Offset,
}

impl Simulation {
    fn new(seed: u64, mistake: Option<Mistake>) -> Simulation {
        let mut random = Random::new(seed);
        let nodes = 3 + usize::from(random.chance(40));
        let replicas = if random.chance(15) { 2 } else { 3 };
        let ack_quorum = match random.below(10) {
            0 => 1,
            1 => replicas,
            _ => 2,
        };
        let mut world = World::new(nodes, replicas, ack_quorum);
        world.mistake = mistake;
        world.ships_late = true;
        let client = |id| Client {
            id: ProducerId(id),
            next_sequence: 0,
            record_count: 1,
            waits: None,
        };
        Simulation {
            world,
            clients: (1..=2).map(client).collect(),
            trouble: [3, 6, 12, 25][random.below(4)],
            random,
        }
    }

    fn play(&mut self) {
        self.assign();
        for _ in 0..STEPS {
            self.step();
            self.acknowledge();
        }
        self.repair();
    }

    fn step(&mut self) {
        if self.random.chance(self.trouble) {
            return self.make_trouble();
        }
        match self.random.below(100) {
            0..55 => self.deliver(),
            55..75 => {
                if let Some(node) = self.any_up() {
                    self.world.flush(node);
                }
            }
            75..88 => self.append(),
            _ => {
                let node = self.random.below(self.world.nodes.len());
                self.world.learn(node);
            }
        }
    }

    fn make_trouble(&mut self) {
        match self.random.below(100) {
            0..14 => self.assign(),
            14..26 => self.crash(),
            26..44 => self.start(),
            44..76 => self.link(),
            76..84 => self.checkpoint_or_trim(),
            84..90 => self.join(),
            90..95 => {
                if let Some(node) = self.any_up() {
                    self.world.tell_tail(node, true);
                }
            }
            _ => {
                self.world.shipped_max = 1 + self.random.below(4);
                self.world.tells_all = self.random.chance(50);
            }
        }
    }

    fn any_up(&mut self) -> Option<usize> {
        let up: Vec<_> = (0..self.world.nodes.len())
            .filter(|node| self.world.is_up(*node))
            .collect();
        self.random.pick(&up)
    }

    /// Mostly the oldest letter of a pair; now and then any, or one that stays on its way as well.
    fn deliver(&mut self) {
        if self.world.letters.is_empty() {
            return;
        }
        let drawn = self.random.below(self.world.letters.len());
        let (from, to) = (self.world.letters[drawn].from, self.world.letters[drawn].to);
        let mut letters = self.world.letters.iter();
        let at = match self.random.chance(80) {
            true => letters
                .position(|letter| (letter.from, letter.to) == (from, to))
                .expect("the letter that was drawn is one"),
            false => drawn,
        };
        if !self.world.can_arrive(&self.world.letters[at]) {
            return;
        }
        let letter = match self.random.chance(5) {
            true => self.world.letters[at].clone(),
            false => self.world.letters.remove(at),
        };
        self.world.deliver(letter);
    }

    fn append(&mut self) {
        let leading = |node: &usize| {
            let replica = self.world.nodes[*node].replica.as_ref();
            replica.is_some_and(|replica| replica.role() == RoleName::Leading)
        };
        let leaders: Vec<_> = (0..self.world.nodes.len()).filter(leading).collect();
        let Some(node) = self.random.pick(&leaders) else {
            return;
        };
        let client = self.random.below(self.clients.len());
        let client = &mut self.clients[client];
        let stamp = Stamp {
            id: client.id,
            epoch: 0,
            first_sequence: client.next_sequence,
        };
        match self.world.append(node, Some(stamp), client.record_count) {
            Ok(appended) => {
                let known = &self.world.nodes[node];
                let leader = known.replica.as_ref().and_then(|replica| replica.leader());
                client.waits = leader.map(|leader| Wait {
                    node,
                    epoch: leader.epoch(),
                    incarnation: known.incarnation,
                    first_offset: appended.first_offset,
                    next_offset: appended.next_offset,
                });
            }
            Err(AppendError::NotEnoughReplicas { .. } | AppendError::Sealed { .. }) => {}
            Err(error) => panic!("a producer with one batch under way is refused: {error}"),
        }
    }

    /// Tells clients what is committed, as the leader that took their batch sees it.
    fn acknowledge(&mut self) {
        for client in &mut self.clients {
            let Some(wait) = client.waits else { continue };
            let known = &self.world.nodes[wait.node];
            let leader = known.replica.as_ref().and_then(|replica| replica.leader());
            let leader =
                leader.filter(|leader| leader.epoch() == wait.epoch && known.incarnation == wait.incarnation);
            let Some(leader) = leader else {
                client.waits = None;
                continue;
            };
            if leader.tail() >= wait.next_offset {
                let committed = self.world.checker.committed();
                let at = committed.binary_search_by_key(&wait.first_offset, |batch| batch.first_offset);
                let stands = at.ok().and_then(|at| committed[at].producer);
                assert!(
                    stands.is_some_and(
                        |stamp| stamp.id == client.id && stamp.first_sequence == client.next_sequence
                    ),
                    "an acknowledged batch stands where the client was told"
                );
                client.next_sequence += client.record_count;
                client.record_count = 1 + client.next_sequence % 3;
                client.waits = None;
            }
        }
    }

    fn crash(&mut self) {
        let Some(node) = self.any_up() else { return };
        let kept = self.random.below(3);
        self.world
            .tell(|| format!("{node} crashes, {kept} more entries are on the disk"));
        self.world.crash(node, kept);
        let quorums = self.world.metadata.unsettled.iter();
        let may_lose =
            self.world.metadata.uncertain.is_empty() && quorums.clone().all(|of| of.ack_quorum >= 2);
        if may_lose && self.random.chance(30) {
            let kept = if self.random.chance(60) {
                0
            } else {
                self.random.below(8)
            };
            self.world
                .tell(|| format!("{node} loses its disk but for {kept} entries"));
            self.world.lose(node, kept);
        }
    }

    fn start(&mut self) {
        let down = (0..self.world.nodes.len()).filter(|node| !self.world.is_up(*node));
        let down: Vec<_> = down.collect();
        if let Some(node) = self.random.pick(&down) {
            self.world.tell(|| format!("{node} starts"));
            self.world.start(node);
        }
    }

    /// Takes a link that is missing, or breaks one; what was on its way is lost, or comes late.
    fn link(&mut self) {
        let pairs = self.pairs();
        let missing: Vec<_> = pairs
            .iter()
            .copied()
            .filter(|(one, other)| !self.world.is_linked(*one, *other))
            .collect();
        let pair = match missing.is_empty() {
            true if self.random.chance(30) => self.random.pick(&pairs),
            _ => self.random.pick(&missing),
        };
        if let Some((one, other)) = pair {
            let random = &mut self.random;
            self.world.letters.retain(|letter| {
                let is_between =
                    (letter.from, letter.to) == (one, other) || (letter.from, letter.to) == (other, one);
                !is_between || random.chance(30)
            });
            self.world.tell(|| format!("{one} and {other} connect anew"));
            self.world.link(one, other);
        }
    }

    fn pairs(&self) -> Vec<(usize, usize)> {
        let up: Vec<_> = (0..self.world.nodes.len())
            .filter(|node| self.world.is_up(*node))
            .collect();
        let pair = |one: &usize| {
            let (one, up) = (*one, &up);
            up.iter()
                .copied()
                .filter(move |other| one < *other)
                .map(move |other| (one, other))
        };
        up.iter().flat_map(pair).collect()
    }

    fn checkpoint_or_trim(&mut self) {
        let Some(node) = self.any_up() else { return };
        let log = &self.world.nodes[node].log;
        let offsets: Vec<_> = log
            .iter()
            .flat_map(|batch| (batch.first_offset.0..batch.next_offset().0).map(Offset))
            .collect();
        match self.random.pick(&offsets) {
            Some(first_kept) if self.random.chance(40) => {
                self.world.tell(|| format!("{node} trims to {first_kept}"));
                self.world.trim(node, first_kept);
            }
            _ => {
                self.world.tell(|| format!("{node} makes a checkpoint"));
                self.world.checkpoint(node);
            }
        }
    }

    fn join(&mut self) {
        let members = &self.world.metadata.configuration.replicas;
        let others = (0..self.world.nodes.len()).map(node_id);
        let others: Vec<_> = others.filter(|node| !members.contains(node)).collect();
        if let Some(node) = self.random.pick(&others) {
            self.world.metadata.joining.insert(node);
            self.assign();
        }
    }

    /// Gives the next epoch to a certain member, now and then of another configuration.
    fn assign(&mut self) {
        let metadata = &self.world.metadata;
        let mut configuration = metadata.configuration.clone();
        let ready: Vec<_> = metadata.ready.iter().copied().collect();
        if metadata.unsettled.len() <= 1 && self.random.chance(40) {
            self.reconfigure(&mut configuration, &ready);
        }
        let certain = |node: &NodeId| !self.world.metadata.uncertain.contains(node);
        let candidates: Vec<_> = configuration.replicas.iter().copied().filter(certain).collect();
        if let Some(leader) = self.random.pick(&candidates) {
            self.world
                .tell(|| format!("the next epoch is of {leader} with {configuration:?}"));
            self.world.assign(index(leader), configuration);
        }
    }

    fn reconfigure(&mut self, configuration: &mut Configuration, ready: &[NodeId]) {
        match self.random.pick(ready) {
            Some(node) => {
                let leaves = self.random.below(configuration.replicas.len());
                configuration.replicas[leaves] = node;
            }
            None => {
                let most = configuration.replicas.len();
                configuration.ack_quorum = if self.random.chance(50) { 2 } else { most };
            }
        }
    }

    /// Ends all trouble. One more epoch opens, commits, and brings every member to the same log.
    fn repair(&mut self) {
        for node in 0..self.world.nodes.len() {
            if !self.world.is_up(node) {
                self.world.start(node);
            }
        }
        self.come_to_rest();
        let configuration = self.world.metadata.configuration.clone();
        let certain = |node: &&NodeId| !self.world.metadata.uncertain.contains(node);
        let leader = configuration.replicas.iter().find(certain);
        let leader = index(*leader.expect("one disk at most is in doubt"));
        self.world.assign(leader, configuration.clone());
        self.come_to_rest();
        let is_open = |world: &World| {
            world.nodes[leader]
                .replica
                .as_ref()
                .is_some_and(|replica| replica.is_open())
        };
        assert!(is_open(&self.world), "the last epoch opens");
        let before = self.world.checker.committed_end();
        let log_start = self.world.nodes[leader].replica.as_ref().map(Replica::log_start);
        let appended = self.world.append(leader, None, 1).expect("all replicas are live");
        assert!(appended.first_offset >= before, "offsets go on");
        self.come_to_rest();
        self.world.tell_tail(leader, true);
        self.come_to_rest();
        assert_eq!(self.world.checker.committed_end(), appended.next_offset);
        assert_eq!(
            self.world.metadata.unsettled,
            std::slice::from_ref(&configuration),
            "the last epoch is settled"
        );
        for member in configuration.replicas.iter().map(|node| index(*node)) {
            let replica = self.world.nodes[member].replica.as_ref().expect("all are up");
            assert_eq!(
                (replica.tail(), replica.next_offset()),
                (appended.next_offset, appended.next_offset),
                "node {member} has caught up"
            );
            assert!(
                Some(replica.log_start()) >= log_start,
                "node {member} has given up what the leader has"
            );
            assert!(
                !self.world.metadata.uncertain.contains(&node_id(member)),
                "node {member} is certain again"
            );
        }
        self.acknowledge();
    }

    fn come_to_rest(&mut self) {
        for (one, other) in self.pairs() {
            self.world.link(one, other);
        }
        for _ in 0..10_000 {
            let nodes = 0..self.world.nodes.len();
            let mut moves = false;
            for node in nodes {
                moves |= self.world.learn(node);
                self.world.flush(node);
            }
            if !self.world.letters.is_empty() {
                let letter = self.world.letters.remove(0);
                self.world.deliver(letter);
                moves = true;
            }
            if !moves {
                return;
            }
        }
        panic!("the replicas do not come to rest at {NOW:?}");
    }
}
