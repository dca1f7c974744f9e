//! A space: a log, the view of it that this process has played, and the calls on its objects.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::entry::{ANY_ENTRY, ENTRY_KEY, Entry, ItemId, Step};
use crate::error::{Error, Result};
use crate::handles::{Counter, Map, Queue, Register};
use crate::log::{Log, Record};
use crate::transaction::{Transaction, json, json_or_none};
use crate::view::{Done, Outcome, View, typed};

/// Reads in vain of what has to be there, each of which waits for a moment.
const EMPTY_READS_MAX: usize = 40;

/// See the module. Calls that read ask the log for its tail and play up to it first, so each sees all that was answered to anybody before it began.
#[derive(Debug)]
pub struct Space<L> {
    log: L,
    view: View,
}

impl<L: Log> Space<L> {
    /// Opens the space of a log: from its last checkpoint on, if it has one, and else from its beginning.
    ///
    /// # Errors
    /// `Trimmed`, `Checkpoint`, `Unreadable`, `Log`.
    pub fn open(mut log: L) -> Result<Space<L>> {
        let view = match log.load()? {
            Some((position, state)) => View::decode(position, &state)?,
            None => View::default(),
        };
        let mut space = Space { log, view };
        space.sync()?;
        Ok(space)
    }

    /// The view that this process has played, as of some moment before.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Plays all that was answered to anybody before this was called. Returns the view.
    ///
    /// # Errors
    /// `Unreadable`, `Trimmed`, `Log`.
    pub fn sync(&mut self) -> Result<&View> {
        let (tail, next) = (self.log.tail()?, self.view.next());
        if tail < next {
            return Err(Error::Shorter { tail, next });
        }
        self.play(tail, None)?;
        Ok(&self.view)
    }

    /// Plays up to a tail; returns what the entry at a position has come to, if that was played. Where others have forgotten what is to be played, the checkpoint stands
    /// for it.
    fn play(&mut self, tail: u64, own: Option<u64>) -> Result<Option<Outcome>> {
        let mut found = None;
        while self.view.next() < tail {
            // What comes along of what is behind is played, too.
            match play_on(&mut self.log, &mut self.view, (u64::MAX, own)) {
                Ok(outcome) => found = found.or(outcome),
                Err(Error::Trimmed { log_start, next }) => {
                    let (position, state) = self.log.load()?.unwrap_or_default();
                    if position < log_start || position <= next {
                        return Err(Error::Trimmed { log_start, next });
                    }
                    self.view = View::decode(position, &state)?;
                }
                Err(Error::Missing { next, .. }) => return Err(Error::Missing { next, tail }),
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }

    /// Appends an entry and plays it. Returns its position and what it has come to.
    ///
    /// # Errors
    /// `Name`: nothing was appended. `Log`, `Unplaced`, and as [`Space::sync`]: it may have taken effect.
    pub fn commit(&mut self, entry: &Entry) -> Result<(u64, Outcome)> {
        let position = self.log.append(ENTRY_KEY, &entry.encode()?)?;
        let outcome = self.play(position + 1, Some(position))?;
        Ok((position, outcome.ok_or(Error::Unplaced)?))
    }

    fn one(&mut self, step: Step) -> Result<(u64, Done)> {
        match self.commit(&Entry::of(step))? {
            (position, Outcome::Done(mut done)) => Ok((position, done.remove(0))),
            (_, Outcome::Refused(refusal)) => Err(refusal.into()),
            (_, Outcome::Conflict) => unreachable!("it has read nothing"),
        }
    }

    /// Runs a function over the newest view, and carries out what it does if nothing of what it has read was changed meanwhile; else it runs again. Returns what
    /// it has returned, and the position of the entry, if it does anything.
    ///
    /// # Errors
    /// The function's own, of the newest view: nothing is done then; and as [`Space::commit`].
    pub fn transact<T, E: From<Error>>(
        &mut self,
        mut run: impl FnMut(&mut Transaction<'_>) -> Result<T, E>,
    ) -> Result<(T, Option<u64>), E> {
        loop {
            self.sync()?;
            let mut transaction = Transaction::new(&self.view);
            let told = run(&mut transaction)?;
            let entry = transaction.finish();
            if entry.steps.is_empty() {
                return Ok((told, None));
            }
            match self.commit(&entry)? {
                (position, Outcome::Done(_)) => return Ok((told, Some(position))),
                (_, Outcome::Conflict) => {}
                (_, Outcome::Refused(refusal)) => return Err(Error::from(refusal).into()),
            }
        }
    }

    /// The view as it was when the log ended at a position.
    ///
    /// # Errors
    /// `Ahead`; `Trimmed` if it was forgotten; `Checkpoint`, `Unreadable`, `Log`.
    pub fn at(&mut self, position: u64) -> Result<View> {
        let tail = self.log.tail()?;
        if position > tail {
            return Err(Error::Ahead { position, tail });
        }
        let mut view = match self.log.load()? {
            Some((of, state)) if of <= position => View::decode(of, &state)?,
            _ => View::default(),
        };
        while view.next() < position {
            play_on(&mut self.log, &mut view, (position, None))?;
        }
        Ok(view)
    }

    /// Keeps what all entries amount to so far, so that whoever opens the space plays none of them. Returns the position.
    ///
    /// # Errors
    /// `Unreadable`, `Trimmed`, `Log`.
    pub fn checkpoint(&mut self) -> Result<u64> {
        self.sync()?;
        let position = self.view.next();
        self.log.save(position, &self.view.encode())?;
        Ok(position)
    }

    /// Gives up all entries before the last checkpoint: nobody can look at [`Space::at`] any position below it then. Returns that position, if there is one.
    ///
    /// # Errors
    /// `Log`.
    pub fn forget(&mut self) -> Result<Option<u64>> {
        let Some((position, _)) = self.log.load()? else {
            return Ok(None);
        };
        self.log.trim(position)?;
        Ok(Some(position))
    }

    /// The value of a key.
    ///
    /// # Errors
    /// `Refused`, `Value`, and as [`Space::sync`].
    pub fn get<V: DeserializeOwned>(&mut self, map: &Map<V>, key: &str) -> Result<Option<V>> {
        Ok(self.sync()?.get(map, key)?.map(|(value, _)| value))
    }

    /// Gives a key a value. Returns the position of that.
    ///
    /// # Errors
    /// `Refused`, `Value`, and as [`Space::commit`].
    pub fn put<V: Serialize>(&mut self, map: &Map<V>, key: &str, value: &V) -> Result<u64> {
        let (position, _) = self.one(Step::Put {
            map: map.name().to_owned(),
            key: key.to_owned(),
            value: json(map.name(), value)?,
        })?;
        Ok(position)
    }

    /// Takes a key out of a map; says if it was there.
    ///
    /// # Errors
    /// `Refused`, and as [`Space::commit`].
    pub fn remove<V>(&mut self, map: &Map<V>, key: &str) -> Result<bool> {
        let (_, done) = self.one(Step::Remove {
            map: map.name().to_owned(),
            key: key.to_owned(),
        })?;
        Ok(done == Done::Gone(true))
    }

    /// Puts something at the end of a queue. Returns its place there.
    ///
    /// # Errors
    /// `Refused`, `Value`, and as [`Space::commit`].
    pub fn enqueue<T: Serialize>(&mut self, queue: &Queue<T>, value: &T) -> Result<ItemId> {
        let (position, _) = self.one(Step::Enqueue {
            queue: queue.name().to_owned(),
            value: json(queue.name(), value)?,
        })?;
        Ok(ItemId(position, 0))
    }

    /// Takes the first thing out of a queue, if there is one: nobody else gets it. Whoever dies with it has lost it; see [`Space::transact`] for what must not be lost.
    ///
    /// # Errors
    /// `Refused`, `Value`, and as [`Space::commit`].
    pub fn take<T: DeserializeOwned>(&mut self, queue: &Queue<T>) -> Result<Option<(ItemId, T)>> {
        if self.sync()?.queue_len(queue)? == 0 {
            return Ok(None);
        }
        let (_, done) = self.one(Step::Take {
            queue: queue.name().to_owned(),
        })?;
        match done {
            Done::Taken(Some((id, value))) => Ok(Some((id, typed(queue.name(), &value)?))),
            _ => Ok(None),
        }
    }

    /// Takes something out of a queue, wherever it stands there; says if it was there.
    ///
    /// # Errors
    /// `Refused`, and as [`Space::commit`].
    pub fn discard<T>(&mut self, queue: &Queue<T>, id: ItemId) -> Result<bool> {
        let (_, done) = self.one(Step::Discard {
            queue: queue.name().to_owned(),
            id,
        })?;
        Ok(done == Done::Gone(true))
    }

    /// Adds to a counter. Returns its sum then.
    ///
    /// # Errors
    /// `Refused`, and as [`Space::commit`].
    pub fn add(&mut self, counter: &Counter, count: i64) -> Result<i64> {
        let (_, done) = self.one(Step::Add {
            counter: counter.name().to_owned(),
            count,
        })?;
        match done {
            Done::Sum(sum) => Ok(sum),
            _ => unreachable!("that is what adding comes to"),
        }
    }

    /// The sum of a counter.
    ///
    /// # Errors
    /// `Refused`, and as [`Space::sync`].
    pub fn count(&mut self, counter: &Counter) -> Result<i64> {
        self.sync()?.count(counter)
    }

    /// The value of a register, if it has one.
    ///
    /// # Errors
    /// `Refused`, `Value`, and as [`Space::sync`].
    pub fn value<T: DeserializeOwned>(&mut self, register: &Register<T>) -> Result<Option<T>> {
        self.sync()?.value(register)
    }

    /// Gives a register a value. Returns the position of that.
    ///
    /// # Errors
    /// `Refused`, `Value`, and as [`Space::commit`].
    pub fn set<T: Serialize>(&mut self, register: &Register<T>, value: Option<&T>) -> Result<u64> {
        let (position, _) = self.one(Step::Set {
            register: register.name().to_owned(),
            value: json_or_none(register.name(), value)?,
        })?;
        Ok(position)
    }

    /// Gives a register a value if it has the one that is expected. Returns the position of that, or `None` if it had another one.
    ///
    /// # Errors
    /// `Refused`, `Value`, and as [`Space::commit`].
    pub fn set_if<T>(
        &mut self,
        register: &Register<T>,
        expected: Option<&T>,
        value: Option<&T>,
    ) -> Result<Option<u64>>
    where
        T: Serialize + DeserializeOwned + PartialEq,
    {
        let ((), position) = self.transact(|transaction| {
            if transaction.value(register)?.as_ref() == expected {
                transaction.set(register, value)?;
            }
            Ok::<(), Error>(())
        })?;
        Ok(position)
    }
}

/// Plays what the log gives at once: of what is below a position, or all. Returns what the entry at a position has come to, if it was among that.
fn play_on<L: Log>(
    log: &mut L,
    view: &mut View,
    (below, own): (u64, Option<u64>),
) -> Result<Option<Outcome>> {
    let (mut found, from) = (None, view.next());
    for _ in 0..EMPTY_READS_MAX {
        log.read(from, &mut |record| {
            if record.position >= below {
                // It is played when it is asked for.
                return Ok(());
            }
            // Each position has a record, of whomever.
            if record.position != view.next() {
                return Err(Error::Trimmed {
                    log_start: record.position,
                    next: view.next(),
                });
            }
            let outcome = play_one(view, record)?;
            if own == Some(record.position) {
                found = outcome;
            }
            Ok(())
        })?;
        if view.next() > from {
            return Ok(found);
        }
    }
    Err(Error::Missing {
        next: from,
        tail: below,
    })
}

/// Plays the next record; returns what it has come to, if it is an entry.
fn play_one(view: &mut View, record: Record<'_>) -> Result<Option<Outcome>> {
    let key = record.key.unwrap_or_default();
    match record.value {
        Some(value) if key == ENTRY_KEY => {
            let entry = Entry::decode(record.position, value)?;
            Ok(Some(view.apply(record.position, &entry)))
        }
        _ if key.starts_with(ANY_ENTRY) => Err(Error::Unreadable {
            position: record.position,
            why: format!("its version is {:?}", String::from_utf8_lossy(key)),
        }),
        _ => {
            view.pass(record.position + 1);
            Ok(None)
        }
    }
}
