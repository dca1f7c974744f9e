//! What stands in one cell of a table: a figure with its spread, or why there is none; and which figures are the best.

use std::collections::BTreeSet;

use super::columns::Column;
use super::document::{Span, Text};
use super::guesses::Guess;
use super::measured::{Measured, Verdict, better};
use crate::results::{Better, Cell, Row, Survives};
use bench::number;

/// Marks a percentile of too few samples.
pub(crate) const FEW_SAMPLES: &str = "*";
/// Marks processor time of too few ticks.
pub(crate) const FEW_TICKS: &str = "†";
/// Marks the latency of a load that was not kept up with.
pub(crate) const BEHIND: &str = "§";
/// Marks latency beside reads that were over early.
pub(crate) const FEW_READS: &str = "‖";
/// Marks what too few repetitions found.
pub(crate) const FEW_RUNS: &str = "¶";
/// Marks what was read, or measured beside reads, with less to read than others had.
pub(crate) const LESS_TO_READ: &str = "◊";
/// Marks bytes written that cannot be all.
pub(crate) const UNWRITTEN: &str = "#";
/// Marks what was never the same twice.
pub(crate) const UNSTEADY: &str = "‡";

/// What a figure is among those of its row and metric whose systems promise the same.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It cannot be set beside any.
    #[default]
    Alone,
    /// Something is better.
    Beaten,
    /// Nothing is.
    Best,
}

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
pub(crate) fn text(column: &Column, row: &Row, metric: &str, standing: Standing, notes: &mut Notes) -> Text {
    let Some(cell) = column.cell(row) else {
        return Text::from("–");
    };
    if let Some(why) = &cell.not_asked {
        return Text::from("not asked").with(Span::Note(notes.number(why)));
    }
    let text = match column.measured(row, metric) {
        Some(measured) => figure(&measured, standing == Standing::Best),
        None if !cell.runs.is_empty() => return Text::from("–"),
        None if cell.failures.is_empty() => return Text::from("not run"),
        None => Text::from("failed"),
    };
    match failure_note(cell) {
        Some(note) => text.with(Span::Note(notes.number(&note))),
        None => text,
    }
}

/// What marks a figure that says little.
pub(crate) fn mark_of(measured: &Measured) -> &'static str {
    match measured.guess {
        Some(guess) => mark(guess),
        None if measured.is_unsteady() => UNSTEADY,
        None => "",
    }
}

/// A median with its spread, marked if it says little.
fn figure(measured: &Measured, is_best: bool) -> Text {
    let median = format!("{}{}", number::plain(measured.median), mark_of(measured));
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

/// What marks a guess.
pub(crate) fn mark(guess: Guess) -> &'static str {
    match guess {
        Guess::FewSamples => FEW_SAMPLES,
        Guess::FewTicks => FEW_TICKS,
        Guess::Behind => BEHIND,
        Guess::FewReads => FEW_READS,
        Guess::FewRuns => FEW_RUNS,
        Guess::LessToRead => LESS_TO_READ,
        Guess::Unwritten => UNWRITTEN,
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
    let reasons = reasons.join("; ");
    match (cell.failures.len(), cell.runs.len()) {
        (0, _) => None,
        (_, 0) => Some(format!("It failed: {reasons}")),
        (_, runs) => Some(format!("A repetition failed ({runs} did not): {reasons}")),
    }
}

/// What each column's figure is in a row, among those whose systems promise the same: best are all that nothing sets apart from
/// the best median. Systems that promise different things are never set side by side.
pub(crate) fn standings(columns: &[Column], row: &Row, metric: &str) -> Vec<Standing> {
    let mut standings = vec![Standing::Alone; columns.len()];
    for survives in [Survives::PowerCut, Survives::ProcessCrash, Survives::Nothing] {
        let class: Vec<(usize, Measured)> = columns
            .iter()
            .enumerate()
            .filter(|(_, column)| column.survives == Some(survives))
            .filter_map(|(place, column)| Some((place, column.measured(row, metric)?)))
            .filter(|(_, measured)| measured.guess.is_none())
            .collect();
        let systems: BTreeSet<usize> = class.iter().map(|(place, _)| columns[*place].number).collect();
        if systems.len() > 1 {
            set_standings(&mut standings, &class, metric);
        }
    }
    standings
}

fn set_standings(standings: &mut [Standing], class: &[(usize, Measured)], metric: &str) {
    let by_median = |one: &&(usize, Measured), other: &&(usize, Measured)| {
        let [one, other] = [one, other].map(|(_, measured)| measured.median);
        one.total_cmp(&other)
    };
    let first = match better(metric) {
        Better::Less => class.iter().min_by(by_median),
        Better::More => class.iter().max_by(by_median),
        Better::Neither => None,
    };
    let Some((best, first)) = first else {
        return;
    };
    // One that cannot meet the best might be better than it.
    let is_met = |(place, measured): &(usize, Measured)| place == best || measured.can_meet(first);
    if !class.iter().all(is_met) {
        return;
    }
    for (place, measured) in class {
        standings[*place] = match measured.beside(first, metric) {
            Verdict::NoDifference => Standing::Best,
            _ => Standing::Beaten,
        };
    }
}
