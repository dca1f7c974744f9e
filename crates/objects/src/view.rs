//! A view: what the entries of a log amount to, up to a position. Nothing here asks anything of anybody, so whoever plays the same entries has the same view.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::entry::{Entry, ItemId, Read, Step};
use crate::error::{Error, Refusal, Result};
use crate::handles::{Counter, Map, Queue, Register};

/// The effect of one step.
#[derive(Debug, Clone, PartialEq)]
pub enum Done {
    /// It was carried out.
    Changed,
    /// Something stands in a queue, here.
    Enqueued(ItemId),
    /// This was the first of a queue, if there was anything.
    Taken(Option<(ItemId, Value)>),
    /// The counter is at this.
    Sum(i64),
    /// Says if it was there to be taken away.
    Gone(bool),
}

/// The outcome of an entry.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// All its steps took effect.
    Done(Vec<Done>),
    /// Something that it has read was changed before it; nothing took effect.
    Conflict,
    /// Nothing took effect.
    Refused(Refusal),
}

/// See the module.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct View {
    /// The position behind the last record that was played.
    next: u64,
    objects: BTreeMap<String, Object>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Object {
    /// The position of its last change.
    changed: u64,
    state: State,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Map(BTreeMap<String, Kept>),
    Queue(#[serde(with = "as_list")] BTreeMap<ItemId, Value>),
    Counter(i64),
    Register(Value),
}

/// A value of a map.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Kept {
    /// The position of its last change.
    changed: u64,
    value: Value,
}

/// A queue in JSON, whose keys are no text.
mod as_list {
    use super::{BTreeMap, Deserialize, ItemId, Serialize, Value};

    pub(super) fn serialize<S: serde::Serializer>(
        items: &BTreeMap<ItemId, Value>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        items.iter().collect::<Vec<_>>().serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: serde::Deserializer<'de>>(
        deserializer: D,
    ) -> Result<BTreeMap<ItemId, Value>, D::Error> {
        let items = Vec::<(ItemId, Value)>::deserialize(deserializer)?;
        Ok(items.into_iter().collect())
    }
}

const MAP: &str = "map";
const QUEUE: &str = "queue";
const COUNTER: &str = "counter";
const REGISTER: &str = "register";

impl State {
    fn kind(&self) -> &'static str {
        match self {
            State::Map(_) => MAP,
            State::Queue(_) => QUEUE,
            State::Counter(_) => COUNTER,
            State::Register(_) => REGISTER,
        }
    }
}

/// The kind of object that a step is for.
fn kind_of(step: &Step) -> &'static str {
    match step {
        Step::Put { .. } | Step::Remove { .. } => MAP,
        Step::Enqueue { .. } | Step::Take { .. } | Step::Discard { .. } => QUEUE,
        Step::Add { .. } => COUNTER,
        Step::Set { .. } => REGISTER,
    }
}

impl View {
    /// The position behind the last record that was played.
    #[must_use]
    pub fn next(&self) -> u64 {
        self.next
    }

    /// The names of its objects, each with what it is, in their order.
    pub fn objects(&self) -> impl Iterator<Item = (&str, &'static str)> {
        let objects = self.objects.iter();
        objects.map(|(name, object)| (name.as_str(), object.state.kind()))
    }

    /// Plays an entry.
    ///
    /// # Panics
    /// The position was played already.
    pub fn apply(&mut self, position: u64, entry: &Entry) -> Outcome {
        self.pass(position + 1);
        if entry.reads.iter().any(|read| self.version(read) != read.at) {
            return Outcome::Conflict;
        }
        if let Err(refusal) = self.check(&entry.steps) {
            return Outcome::Refused(refusal);
        }
        let steps = (0..).zip(&entry.steps);
        Outcome::Done(
            steps
                .map(|(number, step)| self.step(ItemId(position, number), step))
                .collect(),
        )
    }

    /// Goes on behind records that are no entries.
    ///
    /// # Panics
    /// They were played already.
    pub(crate) fn pass(&mut self, next: u64) {
        assert!(next > self.next, "positions rise");
        self.next = next;
    }

    /// The position of the last change of what was read, if it is there.
    fn version(&self, read: &Read) -> Option<u64> {
        let object = self.objects.get(&read.object)?;
        match (&read.key, &object.state) {
            (Some(key), State::Map(map)) => Some(map.get(key)?.changed),
            (Some(_), _) => None,
            (None, _) => Some(object.changed),
        }
    }

    /// Checks that all steps can take effect, one behind the other.
    fn check(&self, steps: &[Step]) -> Result<(), Refusal> {
        let mut made: BTreeMap<&str, &'static str> = BTreeMap::new();
        let mut sums: BTreeMap<&str, i64> = BTreeMap::new();
        for step in steps {
            let (object, wanted) = (step.object(), kind_of(step));
            let known = self.objects.get(object).map(|object| object.state.kind());
            let is = known.unwrap_or_else(|| made.entry(object).or_insert(wanted));
            let object = || object.to_owned();
            if is != wanted {
                return Err(Refusal::Kind {
                    object: object(),
                    is,
                    wanted,
                });
            }
            if let Step::Add { counter, count } = step {
                let sum = sums.entry(counter).or_insert_with(|| self.sum(counter));
                *sum = sum
                    .checked_add(*count)
                    .ok_or_else(|| Refusal::Overflow { object: object() })?;
            }
        }
        Ok(())
    }

    /// Carries out a step that was checked.
    fn step(&mut self, at: ItemId, step: &Step) -> Done {
        let ItemId(changed, _) = at;
        match step {
            Step::Put { map, key, value } => {
                let kept = Kept {
                    changed,
                    value: value.clone(),
                };
                self.map_mut(map, changed).insert(key.clone(), kept);
                Done::Changed
            }
            // What changes nothing is no change: it is in nobody's way.
            Step::Remove { map, key } => {
                let is_there = matches!(self.state_of(map), Some(State::Map(map)) if map.contains_key(key));
                Done::Gone(is_there && self.map_mut(map, changed).remove(key).is_some())
            }
            Step::Enqueue { queue, value } => {
                self.queue_mut(queue, changed).insert(at, value.clone());
                Done::Enqueued(at)
            }
            Step::Take { queue } => {
                let is_there = matches!(self.state_of(queue), Some(State::Queue(queue)) if !queue.is_empty());
                Done::Taken(
                    is_there
                        .then(|| self.queue_mut(queue, changed).pop_first())
                        .flatten(),
                )
            }
            Step::Discard { queue, id } => {
                let is_there =
                    matches!(self.state_of(queue), Some(State::Queue(queue)) if queue.contains_key(id));
                Done::Gone(is_there && self.queue_mut(queue, changed).remove(id).is_some())
            }
            Step::Add { counter, count } => {
                let sum = self.sum(counter) + count;
                *self.state_mut(counter, changed, || State::Counter(0)) = State::Counter(sum);
                Done::Sum(sum)
            }
            Step::Set { register, value } => {
                let state = self.state_mut(register, changed, || State::Register(Value::Null));
                *state = State::Register(value.clone());
                Done::Changed
            }
        }
    }

    fn state_mut(&mut self, name: &str, changed: u64, new: fn() -> State) -> &mut State {
        let made = || Object {
            changed,
            state: new(),
        };
        let object = self.objects.entry(name.to_owned()).or_insert_with(made);
        object.changed = changed;
        &mut object.state
    }

    fn map_mut(&mut self, name: &str, changed: u64) -> &mut BTreeMap<String, Kept> {
        match self.state_mut(name, changed, || State::Map(BTreeMap::new())) {
            State::Map(map) => map,
            _ => unreachable!("it was checked"),
        }
    }

    fn queue_mut(&mut self, name: &str, changed: u64) -> &mut BTreeMap<ItemId, Value> {
        match self.state_mut(name, changed, || State::Queue(BTreeMap::new())) {
            State::Queue(queue) => queue,
            _ => unreachable!("it was checked"),
        }
    }

    fn state_of(&self, name: &str) -> Option<&State> {
        self.objects.get(name).map(|object| &object.state)
    }

    fn sum(&self, counter: &str) -> i64 {
        match self.state_of(counter) {
            Some(State::Counter(sum)) => *sum,
            _ => 0,
        }
    }

    fn state(&self, name: &str, wanted: &'static str) -> Result<Option<&State>> {
        match self.objects.get(name) {
            Some(object) if object.state.kind() != wanted => Err(Error::Refused(Refusal::Kind {
                object: name.to_owned(),
                is: object.state.kind(),
                wanted,
            })),
            found => Ok(found.map(|object| &object.state)),
        }
    }

    fn map(&self, name: &str) -> Result<Option<&BTreeMap<String, Kept>>> {
        Ok(self.state(name, MAP)?.map(|state| match state {
            State::Map(map) => map,
            _ => unreachable!("its kind was looked at"),
        }))
    }

    fn queue(&self, name: &str) -> Result<Option<&BTreeMap<ItemId, Value>>> {
        Ok(self.state(name, QUEUE)?.map(|state| match state {
            State::Queue(queue) => queue,
            _ => unreachable!("its kind was looked at"),
        }))
    }

    /// The value of a key, with the position of the entry that has put it there.
    ///
    /// # Errors
    /// `Refused`, `Value`.
    pub fn get<V: DeserializeOwned>(&self, map: &Map<V>, key: &str) -> Result<Option<(V, u64)>> {
        let kept = self.map(map.name())?.and_then(|kept| kept.get(key));
        kept.map(|kept| Ok((typed(map.name(), &kept.value)?, kept.changed)))
            .transpose()
    }

    /// The keys of a map with their values, from a key on, at most so many.
    ///
    /// # Errors
    /// `Refused`, `Value`.
    pub fn entries<V: DeserializeOwned>(
        &self,
        map: &Map<V>,
        from: &str,
        most: usize,
    ) -> Result<Vec<(String, V)>> {
        let kept = self.map(map.name())?.into_iter();
        let entries = kept.flat_map(|kept| kept.range(from.to_owned()..)).take(most);
        entries
            .map(|(key, kept)| Ok((key.clone(), typed(map.name(), &kept.value)?)))
            .collect()
    }

    /// The things in a queue behind a place, at most so many.
    ///
    /// # Errors
    /// `Refused`, `Value`.
    pub fn list<T: DeserializeOwned>(
        &self,
        queue: &Queue<T>,
        after: Option<ItemId>,
        most: usize,
    ) -> Result<Vec<(ItemId, T)>> {
        let items = self.queue(queue.name())?.into_iter().flatten();
        let behind = items
            .filter(|(id, _)| after.is_none_or(|after| **id > after))
            .take(most);
        behind
            .map(|(id, value)| Ok((*id, typed(queue.name(), value)?)))
            .collect()
    }

    /// The number of things in a queue.
    ///
    /// # Errors
    /// `Refused`.
    pub fn queue_len<T>(&self, queue: &Queue<T>) -> Result<usize> {
        Ok(self.queue(queue.name())?.map_or(0, BTreeMap::len))
    }

    /// The sum of a counter.
    ///
    /// # Errors
    /// `Refused`.
    pub fn count(&self, counter: &Counter) -> Result<i64> {
        self.state(counter.name(), COUNTER)?;
        Ok(self.sum(counter.name()))
    }

    /// The value of a register, if it has one.
    ///
    /// # Errors
    /// `Refused`, `Value`.
    pub fn value<T: DeserializeOwned>(&self, register: &Register<T>) -> Result<Option<T>> {
        match self.state(register.name(), REGISTER)? {
            None | Some(State::Register(Value::Null)) => Ok(None),
            Some(State::Register(value)) => typed(register.name(), value).map(Some),
            Some(_) => unreachable!("its kind was looked at"),
        }
    }

    /// The dependence of a transaction that has read this.
    pub(crate) fn read_of(&self, object: &str, key: Option<&str>) -> Read {
        let mut read = Read {
            object: object.to_owned(),
            key: key.map(str::to_owned),
            at: None,
        };
        read.at = self.version(&read);
        read
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("its maps have text as keys")
    }

    pub(crate) fn decode(position: u64, state: &[u8]) -> Result<View> {
        let unreadable = |why: String| Error::Checkpoint { position, why };
        let view: View = serde_json::from_slice(state).map_err(|error| unreadable(error.to_string()))?;
        match view.next == position {
            true => Ok(view),
            false => Err(unreadable(format!("it ends at {}", view.next))),
        }
    }
}

/// A value as what it is read as.
pub(crate) fn typed<T: DeserializeOwned>(object: &str, value: &Value) -> Result<T> {
    T::deserialize(value).map_err(|error| Error::Value {
        object: object.to_owned(),
        why: error.to_string(),
    })
}
