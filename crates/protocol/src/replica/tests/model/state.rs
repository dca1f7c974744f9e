//! The state of the modelled cluster: logs, replicas, and the metadata's decisions; and which states are alike.

pub(super) const NODES: usize = 4;
pub(super) const EPOCHS: u8 = 3;
/// The longest log that any bound allows.
pub(super) const LENGTH_MAX: usize = 2;

/// A batch of one record: the epoch that wrote it, which the replicas know, and the node, which tells two batches of one epoch apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub(super) struct Batch {
    pub(super) epoch: u8,
    pub(super) node: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub(super) struct Log {
    batches: [Batch; LENGTH_MAX],
    pub(super) length: u8,
}

impl Log {
    pub(super) fn end(&self) -> usize {
        usize::from(self.length)
    }

    pub(super) fn as_slice(&self) -> &[Batch] {
        &self.batches[..self.end()]
    }

    pub(super) fn push(&mut self, batch: Batch) {
        self.batches[self.end()] = batch;
        self.length += 1;
    }

    pub(super) fn cut_to(&mut self, end: usize) {
        for batch in self.batches.iter_mut().skip(end) {
            *batch = Batch::default();
        }
        self.length = self.length.min(u8::try_from(end).expect("it is short"));
    }

    /// The end of what two logs have in common, as far as epochs can tell.
    pub(super) fn common(&self, other: &Log) -> usize {
        let pairs = self.as_slice().iter().zip(other.as_slice());
        pairs.take_while(|(one, other)| one.epoch == other.epoch).count()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub(super) enum Role {
    #[default]
    Following,
    /// Asks for promises.
    Sealing {
        epoch: u8,
    },
    /// Copies the best log of those that promised.
    Copying {
        epoch: u8,
        best: u8,
    },
    Leading(Leading),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Leading {
    pub(super) epoch: u8,
    pub(super) first: u8,
    pub(super) tail: u8,
    /// The nodes, as bits, whose link is of their present disk.
    pub(super) linked: u8,
}

impl Role {
    /// The epoch that is opened or led.
    pub(super) fn epoch(&self) -> Option<u8> {
        match self {
            Role::Following => None,
            Role::Sealing { epoch } | Role::Copying { epoch, .. } => Some(*epoch),
            Role::Leading(leading) => Some(leading.epoch),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub(super) struct Replica {
    pub(super) log: Log,
    pub(super) durable: u8,
    pub(super) promised: u8,
    pub(super) accepted: u8,
    pub(super) tail: u8,
    pub(super) floor: u8,
    pub(super) role: Role,
    /// The greatest end that was acknowledged, by epoch.
    pub(super) acknowledged: [Option<u8>; EPOCHS as usize + 1],
    /// The same from the disk that was lost.
    pub(super) acknowledged_before: [Option<u8>; EPOCHS as usize + 1],
    /// The promises in answer to each epoch.
    pub(super) promises: [Option<Promise>; EPOCHS as usize + 1],
}

impl Replica {
    pub(super) fn cut(&mut self, end: usize) {
        self.log.cut_to(end);
        self.durable = self.log.length;
    }

    pub(super) fn acknowledge(&mut self, epoch: u8, end: u8) {
        let acknowledged = &mut self.acknowledged[usize::from(epoch)];
        *acknowledged = (*acknowledged).max(Some(end));
    }

    /// Whatever a node led or opened is over once it listens to a later epoch.
    pub(super) fn listen(&mut self, epoch: u8) {
        self.promised = self.promised.max(epoch);
        self.role = Role::Following;
        self.durable = self.log.length;
    }
}

/// The state of a replica when it promised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Promise {
    pub(super) accepted: u8,
    pub(super) log: Log,
    pub(super) tail: u8,
    pub(super) is_certain: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub(super) struct Given {
    /// The index of the configuration.
    pub(super) configuration: u8,
    /// The configurations that have to be met, as bits.
    pub(super) earlier: u8,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub(super) struct State {
    pub(super) replicas: [Replica; NODES],
    pub(super) given: [Given; EPOCHS as usize + 1],
    pub(super) epoch: u8,
    pub(super) unsettled: u8,
    /// Nodes in doubt, as bits.
    pub(super) uncertain: u8,
    /// Says that the node beside the first configuration holds all that is committed.
    pub(super) is_ready: bool,
    pub(super) has_lost: bool,
    pub(super) committed: Log,
    /// The epoch that committed each of them.
    pub(super) committed_in: [u8; LENGTH_MAX],
    pub(super) is_broken: bool,
}

/// Two nodes that no configuration tells apart: a state is kept in one of its two forms.
const ALIKE: [u8; 2] = [1, 2];

impl State {
    pub(super) fn is_certain(&self, node: usize) -> bool {
        self.uncertain & (1 << node) == 0
    }

    /// The leader and its epoch, if the node leads one.
    pub(super) fn leading(&self, node: usize) -> Option<(Replica, Leading)> {
        let own = self.replicas[node];
        match own.role {
            Role::Leading(leading) => Some((own, leading)),
            _ => None,
        }
    }

    /// Forgets all that changes nothing any more, so that states that go on alike are one.
    pub(super) fn tidied(mut self) -> State {
        self.forget_answers();
        if self.epoch == EPOCHS {
            (self.unsettled, self.is_ready, self.has_lost) = (0, false, true);
            self.forget_who_listens_to_the_last();
        }
        let swapped = self.swapped();
        if swapped < self { swapped } else { self }
    }

    /// Promises to leaders that have opened, and acknowledgements to leaders that are no more, are asked for by nobody.
    fn forget_answers(&mut self) {
        for epoch in 1..=self.epoch {
            let roles = self.replicas.iter().map(|replica| replica.role);
            let mut roles = roles.filter(|role| role.epoch() == Some(epoch));
            let opens = roles.clone().any(|role| !matches!(role, Role::Leading(_)));
            let leads = roles.any(|role| matches!(role, Role::Leading(_)));
            let at = usize::from(epoch);
            if !opens {
                self.given[at].earlier = 0;
            }
            if !leads && !opens && epoch < self.epoch {
                self.given[at] = Given::default();
            }
            for replica in &mut self.replicas {
                if !opens {
                    replica.promises[at] = None;
                }
                if !leads {
                    replica.acknowledged[at] = None;
                    replica.acknowledged_before[at] = None;
                }
            }
        }
    }

    /// Once the last epoch is open, only leaders of earlier ones go on, with the replicas that do not listen to it yet. Of the others
    /// no more is wanted than what they have acknowledged.
    fn forget_who_listens_to_the_last(&mut self) {
        let epoch = |replica: &Replica| match replica.role {
            Role::Leading(leading) => Some(leading.epoch),
            _ => None,
        };
        if !self.replicas.iter().any(|replica| epoch(replica) == Some(EPOCHS)) {
            return;
        }
        let is_alone = self
            .replicas
            .iter()
            .all(|replica| epoch(replica).is_none_or(|of| of == EPOCHS));
        for replica in self
            .replicas
            .iter_mut()
            .filter(|replica| epoch(replica).is_none())
        {
            replica.tail = 0;
            if is_alone || replica.promised == EPOCHS {
                *replica = Replica {
                    promised: EPOCHS,
                    acknowledged: replica.acknowledged,
                    acknowledged_before: replica.acknowledged_before,
                    ..Replica::default()
                };
            }
        }
    }

    /// The same with the two like nodes in each other's place.
    fn swapped(&self) -> State {
        let mut state = self.clone();
        state.replicas.swap(usize::from(ALIKE[0]), usize::from(ALIKE[1]));
        state.uncertain = swapped_bits(state.uncertain);
        swap_names(&mut state.committed);
        for replica in &mut state.replicas {
            swap_names(&mut replica.log);
            for promise in replica.promises.iter_mut().flatten() {
                swap_names(&mut promise.log);
            }
            match &mut replica.role {
                Role::Following | Role::Sealing { .. } => {}
                Role::Copying { best, .. } => *best = swapped_node(*best),
                Role::Leading(leading) => leading.linked = swapped_bits(leading.linked),
            }
        }
        state
    }
}

fn swapped_node(node: u8) -> u8 {
    match node {
        _ if node == ALIKE[0] => ALIKE[1],
        _ if node == ALIKE[1] => ALIKE[0],
        _ => node,
    }
}

fn swapped_bits(bits: u8) -> u8 {
    let differ = (bits >> ALIKE[0] ^ bits >> ALIKE[1]) & 1;
    bits ^ (differ << ALIKE[0] | differ << ALIKE[1])
}

fn swap_names(log: &mut Log) {
    let length = log.end();
    for batch in &mut log.batches[..length] {
        batch.node = swapped_node(batch.node);
    }
}
