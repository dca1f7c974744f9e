//! A transaction while it is put together: what it has read of a view, and what it will do.

use std::collections::BTreeMap;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::entry::{Entry, ItemId, Read, Step};
use crate::error::{Error, Refusal, Result};
use crate::handles::{Counter, Map, Queue, Register};
use crate::view::{View, typed};

/// Reads a view and gathers steps. Its steps show in its reads of maps, counters and registers, but in no queue yet.
#[derive(Debug)]
pub struct Transaction<'a> {
    view: &'a View,
    reads: BTreeMap<(String, Option<String>), Read>,
    steps: Vec<Step>,
}

impl<'a> Transaction<'a> {
    pub(crate) fn new(view: &'a View) -> Transaction<'a> {
        Transaction {
            view,
            reads: BTreeMap::new(),
            steps: Vec::new(),
        }
    }

    pub(crate) fn finish(self) -> Entry {
        Entry {
            reads: self.reads.into_values().collect(),
            steps: self.steps,
        }
    }

    fn note(&mut self, object: &str, key: Option<&str>) {
        let place = (object.to_owned(), key.map(str::to_owned));
        let view = self.view;
        self.reads
            .entry(place)
            .or_insert_with(|| view.read_of(object, key));
    }

    /// The value of a key.
    ///
    /// # Errors
    /// `Refused`, `Value`.
    pub fn get<V: DeserializeOwned>(&mut self, map: &Map<V>, key: &str) -> Result<Option<V>> {
        let written = self.steps.iter().rev().find_map(|step| match step {
            Step::Put {
                map: of,
                key: at,
                value,
            } if of == map.name() && at == key => Some(Some(value)),
            Step::Remove { map: of, key: at } if of == map.name() && at == key => Some(None),
            _ => None,
        });
        if let Some(written) = written {
            return written.map(|value| typed(map.name(), value)).transpose();
        }
        self.note(map.name(), Some(key));
        Ok(self.view.get(map, key)?.map(|(value, _)| value))
    }

    /// The keys of a map with their values, all of them. Whatever is changed in the map since is in the way.
    ///
    /// # Errors
    /// `Refused`, `Value`.
    pub fn entries<V: DeserializeOwned>(&mut self, map: &Map<V>) -> Result<BTreeMap<String, V>> {
        self.note(map.name(), None);
        let mut entries: BTreeMap<String, V> = self.view.entries(map, "", usize::MAX)?.into_iter().collect();
        for step in &self.steps {
            match step {
                Step::Put { map: of, key, value } if of == map.name() => {
                    entries.insert(key.clone(), typed(of, value)?);
                }
                Step::Remove { map: of, key } if of == map.name() => drop(entries.remove(key)),
                _ => {}
            }
        }
        Ok(entries)
    }

    /// Gives a key a value.
    ///
    /// # Errors
    /// `Value`: it has no form in JSON.
    pub fn put<V: Serialize>(&mut self, map: &Map<V>, key: &str, value: &V) -> Result<()> {
        self.steps.push(Step::Put {
            map: map.name().to_owned(),
            key: key.to_owned(),
            value: json(map.name(), value)?,
        });
        Ok(())
    }

    /// Takes a key out of a map.
    pub fn remove<V>(&mut self, map: &Map<V>, key: &str) {
        self.steps.push(Step::Remove {
            map: map.name().to_owned(),
            key: key.to_owned(),
        });
    }

    /// The first thing in a queue that this transaction does not discard.
    ///
    /// # Errors
    /// `Refused`, `Value`.
    pub fn first<T: DeserializeOwned>(&mut self, queue: &Queue<T>) -> Result<Option<(ItemId, T)>> {
        self.note(queue.name(), None);
        let discarded = |id: &ItemId| {
            self.steps.iter().any(|step| {
                matches!(step, Step::Discard { queue: of, id: gone } if of == queue.name() && gone == id)
            })
        };
        let most = self.steps.len() + 1;
        let mut items = self.view.list(queue, None, most)?.into_iter();
        Ok(items.find(|(id, _)| !discarded(id)))
    }

    /// Puts something at the end of a queue.
    ///
    /// # Errors
    /// `Value`: it has no form in JSON.
    pub fn enqueue<T: Serialize>(&mut self, queue: &Queue<T>, value: &T) -> Result<()> {
        self.steps.push(Step::Enqueue {
            queue: queue.name().to_owned(),
            value: json(queue.name(), value)?,
        });
        Ok(())
    }

    /// Takes something out of a queue.
    pub fn discard<T>(&mut self, queue: &Queue<T>, id: ItemId) {
        self.steps.push(Step::Discard {
            queue: queue.name().to_owned(),
            id,
        });
    }

    /// The sum of a counter.
    ///
    /// # Errors
    /// `Refused`.
    pub fn count(&mut self, counter: &Counter) -> Result<i64> {
        self.note(counter.name(), None);
        let added = self.steps.iter().filter_map(|step| match step {
            Step::Add { counter: of, count } if of == counter.name() => Some(*count),
            _ => None,
        });
        let sum = self.view.count(counter)?;
        added.into_iter().try_fold(sum, i64::checked_add).ok_or_else(|| {
            Error::Refused(Refusal::Overflow {
                object: counter.name().to_owned(),
            })
        })
    }

    /// Adds to a counter.
    pub fn add(&mut self, counter: &Counter, count: i64) {
        self.steps.push(Step::Add {
            counter: counter.name().to_owned(),
            count,
        });
    }

    /// The value of a register.
    ///
    /// # Errors
    /// `Refused`, `Value`.
    pub fn value<T: DeserializeOwned>(&mut self, register: &Register<T>) -> Result<Option<T>> {
        let written = self.steps.iter().rev().find_map(|step| match step {
            Step::Set { register: of, value } if of == register.name() => Some(value),
            _ => None,
        });
        match written {
            Some(Value::Null) => Ok(None),
            Some(value) => typed(register.name(), value).map(Some),
            None => {
                self.note(register.name(), None);
                self.view.value(register)
            }
        }
    }

    /// Gives a register a value, or none.
    ///
    /// # Errors
    /// `Value`: it has no form in JSON.
    pub fn set<T: Serialize>(&mut self, register: &Register<T>, value: Option<&T>) -> Result<()> {
        self.steps.push(Step::Set {
            register: register.name().to_owned(),
            value: json_or_none(register.name(), value)?,
        });
        Ok(())
    }
}

/// The deepest nesting of a value: readers of JSON bound it, too, and what is written must be read.
const DEPTH_MAX: usize = 64;

/// A value in JSON.
pub(crate) fn json<T: Serialize>(object: &str, value: &T) -> Result<Value> {
    let unkept = |why: String| Error::Value {
        object: object.to_owned(),
        why,
    };
    let value = serde_json::to_value(value).map_err(|error| unkept(error.to_string()))?;
    match depth(&value) > DEPTH_MAX {
        true => Err(unkept(format!("it is nested more than {DEPTH_MAX} deep"))),
        false => Ok(value),
    }
}

/// The value of a register in JSON, where null stands for none.
pub(crate) fn json_or_none<T: Serialize>(object: &str, value: Option<&T>) -> Result<Value> {
    let written = json(object, &value)?;
    match value.is_some() && written.is_null() {
        true => Err(Error::Value {
            object: object.to_owned(),
            why: "it is null in JSON, which stands for no value".to_owned(),
        }),
        false => Ok(written),
    }
}

/// How deep a value is nested. One that is too deep is not looked through to its end.
fn depth(value: &Value) -> usize {
    let mut deepest = 0;
    let mut open = vec![(value, 1)];
    while let Some((value, depth)) = open.pop() {
        deepest = deepest.max(depth);
        if deepest > DEPTH_MAX {
            break;
        }
        match value {
            Value::Array(items) => open.extend(items.iter().map(|item| (item, depth + 1))),
            Value::Object(fields) => open.extend(fields.values().map(|field| (field, depth + 1))),
            _ => {}
        }
    }
    deepest
}
