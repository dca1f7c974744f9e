//! What the runs of a cell that were made already say about the next one: nothing is measured here.

use anyhow::{Context, Result};

use super::identity;
use super::plan::RowPlan;
use super::record::{CellKey, Record};
use super::report::measured::Measured;
use super::results::Cell;

/// Whether acknowledged records of a cell were lost: then nothing more of it is believed, nor measured.
pub(super) fn broke_its_promise(record: &Record, key: &CellKey) -> bool {
    record.runs(key).any(|run| run.broke_its_promise)
}

/// Whether the figure that decides the score was not the same twice.
pub(super) fn is_unsteady(record: &Record, key: &CellKey, metric: &str) -> bool {
    let runs = record.runs(key).filter(|run| run.succeeded());
    let cell = Cell {
        runs: runs.map(|run| run.figures.clone()).collect(),
        ..Cell::default()
    };
    Measured::of(&cell, metric).is_some_and(|figure| figure.guess.is_none() && figure.is_unsteady())
}

/// Whether everything is read back in this repetition of so many: once in each cell, in the one that the lot of the cell falls on
/// (whoever knows it gains nothing: what is sent must be there); if others were made before, in the last one.
pub(super) fn must_verify(record: &Record, key: &CellKey, (repetition, repetitions): (u32, u32)) -> bool {
    let mut before = record.runs(key);
    let is_verified = before.any(|run| run.verified_records.is_some());
    let is_last = repetition + 1 == repetitions;
    repetition == identity::lot(key, repetitions) || (is_last && !is_verified)
}

/// Records a second that are due; none in the closed loop.
pub(super) fn rate(record: &Record, row: &RowPlan, key: &CellKey) -> Result<Option<f64>> {
    let load = row.work.load();
    let (Some(share), Some(maximum)) = (load.share_of_maximum, &row.maximum) else {
        return Ok(load.rate);
    };
    let of = CellKey {
        experiment: maximum.table.clone(),
        row: maximum.row.clone(),
        ..key.clone()
    };
    let runs = record.runs(&of);
    let mut rates: Vec<f64> = runs
        .filter_map(|run| run.figures.get("records_per_s").copied())
        .collect();
    rates.sort_by(f64::total_cmp);
    let rate = rates
        .get(rates.len() / 2)
        .with_context(|| format!("its maximum ({}) is not known", maximum.table))?;
    Ok(Some(rate * share))
}
