//! What stands in one cell of a table: a figure with its spread, or why there is none; and which figures are the best.

use super::columns::Column;
use super::document::{Span, Text};
use super::measured::{Measured, Verdict, better};
use super::number;
use crate::compare::results::{Better, Cell, Row};

/// The notes below a table, each once.
#[derive(Debug, Default)]
pub(crate) struct Notes(pub(crate) Vec<String>);

impl Notes {
    /// The number of a note, from 1.
    pub(crate) fn number(&mut self, note: &str) -> usize {
        if let Some(index) = self.0.iter().position(|known| known == note) {
            return index + 1;
        }
        self.0.push(note.to_owned());
        self.0.len()
    }
}

/// What stands in a cell for one metric.
pub(crate) fn text(cell: Option<&Cell>, metric: &str, is_best: bool, notes: &mut Notes) -> Text {
    let Some(cell) = cell else {
        return Text::from("–");
    };
    let text = match Measured::of(cell, metric) {
        Some(measured) => figure(&measured, is_best),
        None if !cell.runs.is_empty() => return Text::from("–"),
        None if cell.failures.is_empty() => return Text::from("not run"),
        None => Text::from("failed"),
    };
    match failure_note(cell) {
        Some(note) => text.with(Span::Note(notes.number(&note))),
        None => text,
    }
}

/// A median with its spread, starred if it is a percentile of too few samples.
fn figure(measured: &Measured, is_best: bool) -> Text {
    let star = if measured.few_samples { "*" } else { "" };
    let median = format!("{}{star}", number::plain(measured.median));
    let text = if is_best {
        Text::strong(median)
    } else {
        Text::from(median)
    };
    match measured.deviation() {
        Some(part) => text.with(Span::Quiet(format!(" ±{}", number::percent(part)))),
        None if measured.runs > 1 => {
            let (least, most) = (number::plain(measured.least), number::plain(measured.most));
            text.with(Span::Quiet(format!(" {least}–{most}")))
        }
        None => text,
    }
}

/// Which repetitions failed and why; the same reason is said once.
pub(crate) fn failure_note(cell: &Cell) -> Option<String> {
    let mut reasons: Vec<&str> = Vec::new();
    for failure in &cell.failures {
        if !reasons.contains(&failure.as_str()) {
            reasons.push(failure);
        }
    }
    let (failed, all) = (cell.failures.len(), cell.failures.len() + cell.runs.len());
    let reasons = reasons.join("; ");
    match (failed, all) {
        (0, _) => None,
        (1, 1) => Some(format!("It failed: {reasons}")),
        _ => Some(format!("{failed} of {all} repetitions failed: {reasons}")),
    }
}

/// Which columns have the best figure of a row: all that nothing sets apart from the best median, and if none of them is
/// flushed, the same among the flushed ones.
pub(crate) fn best(columns: &[Column], row: &Row, metric: &str) -> Vec<bool> {
    let figures: Vec<Option<Measured>> = columns
        .iter()
        .map(|column| column.cell(row).and_then(|cell| Measured::of(cell, metric)))
        .map(|measured| measured.filter(|measured| !measured.few_samples))
        .collect();
    let mut best = vec![false; columns.len()];
    if figures.iter().flatten().count() < 2 {
        return best;
    }
    mark_best(&mut best, &figures, metric);
    let is_flushed_best = columns
        .iter()
        .zip(&best)
        .any(|(column, best)| column.is_flushed && *best);
    if !is_flushed_best {
        let flushed = columns.iter().zip(figures);
        let flushed: Vec<Option<Measured>> = flushed
            .map(|(column, measured)| measured.filter(|_| column.is_flushed))
            .collect();
        mark_best(&mut best, &flushed, metric);
    }
    best
}

fn mark_best(best: &mut [bool], figures: &[Option<Measured>], metric: &str) {
    let by_median = |one: &&Measured, other: &&Measured| one.median.total_cmp(&other.median);
    let first = match better(metric) {
        Better::Less => figures.iter().flatten().min_by(by_median),
        Better::More => figures.iter().flatten().max_by(by_median),
        Better::Neither => None,
    };
    let Some(first) = first else {
        return;
    };
    for (mark, measured) in best.iter_mut().zip(figures) {
        if let Some(measured) = measured {
            *mark |= measured.beside(first, metric) == Verdict::NoDifference;
        }
    }
}
