//! The log that a space needs, and one in memory.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use crate::error::{Error, Result};

/// A record of a log.
#[derive(Debug, Clone, Copy)]
pub struct Record<'a> {
    /// Its position.
    pub position: u64,
    /// Its key.
    pub key: Option<&'a [u8]>,
    /// Its value.
    pub value: Option<&'a [u8]>,
}

/// A log of which everybody reads the same records in the same order.
pub trait Log {
    /// Appends a record durably. Returns its position.
    ///
    /// # Errors
    /// `Log`: it may be there all the same.
    fn append(&mut self, key: &[u8], value: &[u8]) -> Result<u64>;

    /// The position behind the last record that anybody was told of.
    ///
    /// # Errors
    /// `Log`.
    fn tail(&mut self) -> Result<u64>;

    /// Shows some of the records from a position on, in their order. Returns the position behind them, which may be the same.
    ///
    /// # Errors
    /// `Trimmed`, `Log`, and what `show` returns.
    fn read(&mut self, from: u64, show: &mut dyn FnMut(Record<'_>) -> Result<()>) -> Result<u64>;

    /// Gives up all records below a position.
    ///
    /// # Errors
    /// `Log`.
    fn trim(&mut self, before: u64) -> Result<()>;

    /// Keeps what all entries below a position amount to, durably, unless there is something of a greater one.
    ///
    /// # Errors
    /// `Log`.
    fn save(&mut self, position: u64, state: &[u8]) -> Result<()>;

    /// The checkpoint of the greatest position, if one was kept.
    ///
    /// # Errors
    /// `Log`.
    fn load(&mut self) -> Result<Option<(u64, Vec<u8>)>>;
}

/// A log in memory. Clones are the same log.
#[derive(Debug, Clone, Default)]
pub struct MemoryLog(Rc<RefCell<Kept>>);

#[derive(Debug, Default)]
struct Kept {
    first: u64,
    records: VecDeque<(Vec<u8>, Vec<u8>)>,
    saved: Option<(u64, Vec<u8>)>,
}

impl Log for MemoryLog {
    fn append(&mut self, key: &[u8], value: &[u8]) -> Result<u64> {
        let mut kept = self.0.borrow_mut();
        kept.records.push_back((key.to_vec(), value.to_vec()));
        Ok(kept.first + kept.records.len() as u64 - 1)
    }

    fn tail(&mut self) -> Result<u64> {
        let kept = self.0.borrow();
        Ok(kept.first + kept.records.len() as u64)
    }

    fn read(&mut self, from: u64, show: &mut dyn FnMut(Record<'_>) -> Result<()>) -> Result<u64> {
        let kept = self.0.borrow();
        let passed = from.checked_sub(kept.first).ok_or(Error::Trimmed {
            log_start: kept.first,
            next: from,
        })?;
        let mut position = from;
        for (key, value) in kept.records.iter().skip(passed as usize) {
            show(Record {
                position,
                key: Some(key),
                value: Some(value),
            })?;
            position += 1;
        }
        Ok(position)
    }

    fn trim(&mut self, before: u64) -> Result<()> {
        let mut kept = self.0.borrow_mut();
        while kept.first < before && kept.records.pop_front().is_some() {
            kept.first += 1;
        }
        Ok(())
    }

    fn save(&mut self, position: u64, state: &[u8]) -> Result<()> {
        let mut kept = self.0.borrow_mut();
        if kept.saved.as_ref().is_none_or(|(before, _)| *before <= position) {
            kept.saved = Some((position, state.to_vec()));
        }
        Ok(())
    }

    fn load(&mut self) -> Result<Option<(u64, Vec<u8>)>> {
        Ok(self.0.borrow().saved.clone())
    }
}
