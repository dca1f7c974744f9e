//! What all nodes of a run did and said, held against what a group promises.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use bytes::Bytes;
use metadata_group::{Entry, EntryId, Member, Summary};

/// Names a proposal: each is made once.
pub(crate) type Value = u64;

/// Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct History(Rc<RefCell<Facts>>);

#[derive(Default)]
struct Facts {
    /// What was committed where, by the first node that applied it.
    committed: BTreeMap<i64, (u64, Value)>,
    values: BTreeMap<Value, i64>,
    /// What an image amounts to behind each offset.
    digests: BTreeMap<i64, u64>,
    acknowledged: BTreeMap<Value, EntryId>,
    refused: BTreeSet<Value>,
    leaders: BTreeMap<u64, Member>,
    /// The greatest term that a node has told.
    terms: BTreeMap<Member, u64>,
    votes: BTreeMap<(Member, u64), Member>,
    wrong: Option<String>,
}

/// The value that a proposal's bytes begin with.
pub(crate) fn value_of(bytes: &[u8]) -> Value {
    u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"))
}

fn mix(digest: u64, number: u64) -> u64 {
    (digest ^ number)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .rotate_left(29)
}

impl Facts {
    fn wrong(&mut self, what: String) {
        self.wrong.get_or_insert(what);
    }
}

impl History {
    pub(crate) fn wrong(&self) -> Option<String> {
        self.0.borrow().wrong.clone()
    }

    pub(crate) fn is_wrong(&self) -> bool {
        self.0.borrow().wrong.is_some()
    }

    pub(crate) fn complain(&self, what: String) {
        self.0.borrow_mut().wrong(what);
    }

    /// A node applies an entry on an image; returns what the image amounts to then.
    fn applied(&self, node: Member, entry: &Entry, before: u64) -> u64 {
        let mut facts = self.0.borrow_mut();
        let (offset, term) = (entry.id.offset.0, entry.id.term);
        let value = value_of(&entry.bytes);
        let digest = entry
            .bytes
            .iter()
            .fold(mix(before, offset as u64), |d, byte| mix(d, u64::from(*byte)));
        let known = *facts.committed.entry(offset).or_insert((term, value));
        if known != (term, value) {
            facts.wrong(format!(
                "node {node} applies {term}, {value} at {offset}, where another applied {known:?}"
            ));
        }
        let place = *facts.values.entry(value).or_insert(offset);
        if place != offset {
            facts.wrong(format!("{value} is committed twice, at {place} and {offset}"));
        }
        let same = *facts.digests.entry(offset).or_insert(digest);
        if same != digest {
            facts.wrong(format!("the image of node {node} differs behind {offset}"));
        }
        if facts.refused.contains(&value) {
            facts.wrong(format!("{value} was refused, and is committed at {offset}"));
        }
        digest
    }

    fn installed(&self, node: Member, state: State) {
        let mut facts = self.0.borrow_mut();
        if state.last >= 0 && facts.digests.get(&state.last) != Some(&state.digest) {
            facts.wrong(format!(
                "node {node} installs an image that nobody had: {state:?}"
            ));
        }
    }

    pub(crate) fn acknowledged(&self, value: Value, id: EntryId) {
        let mut facts = self.0.borrow_mut();
        facts.acknowledged.insert(value, id);
        if facts.committed.get(&id.offset.0) != Some(&(id.term, value)) {
            facts.wrong(format!(
                "{value} is acknowledged at {id}, and is not committed there"
            ));
        }
    }

    pub(crate) fn refused(&self, value: Value) {
        let mut facts = self.0.borrow_mut();
        facts.refused.insert(value);
        if facts.values.contains_key(&value) {
            facts.wrong(format!("{value} is refused, and committed"));
        }
    }

    pub(crate) fn acknowledged_count(&self) -> usize {
        self.0.borrow().acknowledged.len()
    }

    /// Returns the leader of the greatest term, if it is new.
    pub(crate) fn leads(&self, node: Member, term: u64) -> bool {
        let mut facts = self.0.borrow_mut();
        let is_new = !facts.leaders.contains_key(&term);
        let leader = *facts.leaders.entry(term).or_insert(node);
        if leader != node {
            facts.wrong(format!("nodes {leader} and {node} lead in term {term}"));
        }
        is_new
    }

    /// A node has told others in which term it is.
    fn told(&self, node: Member, term: u64, how: &str) {
        self.is_in(node, term, how);
        self.0.borrow_mut().terms.insert(node, term);
    }

    /// A node is in a term, that is none before one that it has told. What it has not told may be gone with a crash.
    pub(crate) fn is_in(&self, node: Member, term: u64, how: &str) {
        let mut facts = self.0.borrow_mut();
        let told = *facts.terms.entry(node).or_default();
        if term < told {
            facts.wrong(format!("node {node} goes back from term {told} to {term}: {how}"));
        }
    }

    pub(crate) fn sent(&self, from: Member, summary: &Summary) {
        let Some(term) = summary.term else { return };
        let vote = match (summary.kind, summary.verdict) {
            ("vote", _) => Some(from),
            ("verdict", Some(verdict)) => verdict.is_granted.then_some(verdict.voted_for),
            _ => return,
        };
        self.told(from, term, summary.kind);
        if let Some(vote) = vote {
            let mut facts = self.0.borrow_mut();
            let before = *facts.votes.entry((from, term)).or_insert(vote);
            if before != vote {
                facts.wrong(format!(
                    "node {from} votes for {before} and {vote} in term {term}"
                ));
            }
        }
    }

    /// In the end: that a node's image has all that was ever committed or acknowledged.
    pub(crate) fn has_all(&self, node: Member, state: State) {
        let mut facts = self.0.borrow_mut();
        let last = facts
            .digests
            .last_key_value()
            .map(|(offset, digest)| (*offset, *digest));
        if last.is_some_and(|last| last != (state.last, state.digest)) {
            facts.wrong(format!(
                "node {node} ends with {state:?}, and the log with {last:?}"
            ));
        }
        let missing = facts.acknowledged.iter().find(|(value, id)| {
            facts.committed.get(&id.offset.0) != Some(&(id.term, **value)) || id.offset.0 > state.last
        });
        if let Some((value, id)) = missing.map(|(value, id)| (*value, *id)) {
            facts.wrong(format!(
                "{value} was acknowledged at {id}, and node {node} has it no more"
            ));
        }
    }
}

/// What an image amounts to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct State {
    /// The offset of the last entry; −1 for none.
    pub(crate) last: i64,
    pub(crate) digest: u64,
}

impl State {
    pub(crate) const EMPTY: State = State { last: -1, digest: 0 };
}

/// The image of a simulated node.
pub(crate) struct Image {
    pub(crate) node: Member,
    pub(crate) history: History,
    pub(crate) state: Rc<RefCell<State>>,
    /// Bytes that make its snapshots longer.
    pub(crate) padding: usize,
}

impl metadata_group::Image for Image {
    fn apply(&mut self, entry: Entry) -> Result<(), metadata_group::Unusable> {
        let mut state = self.state.borrow_mut();
        if entry.id.offset.0 <= state.last {
            self.history.complain(format!(
                "node {} goes back from {} to {}",
                self.node, state.last, entry.id
            ));
        }
        state.digest = self.history.applied(self.node, &entry, state.digest);
        state.last = entry.id.offset.0;
        Ok(())
    }

    fn snapshot(&self) -> Bytes {
        let state = self.state.borrow();
        let mut bytes = Vec::with_capacity(16 + self.padding);
        bytes.extend_from_slice(&state.last.to_le_bytes());
        bytes.extend_from_slice(&state.digest.to_le_bytes());
        bytes.resize(16 + self.padding, 7);
        bytes.into()
    }

    fn install(&mut self, last: EntryId, snapshot: Bytes) -> Result<(), metadata_group::Unusable> {
        let state = State {
            last: value_of(&snapshot) as i64,
            digest: value_of(&snapshot[8..]),
        };
        if state.last > last.offset.0 {
            self.history
                .complain(format!("a snapshot of {last} has {state:?}"));
        }
        self.history.installed(self.node, state);
        *self.state.borrow_mut() = state;
        Ok(())
    }
}
