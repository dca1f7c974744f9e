//! What stands in one cell of a table: a figure with its spread, or why there is none; and which figures are the best.

use std::collections::BTreeSet;

use bench::number;

use super::columns::Column;
use super::guesses::Guess;
use super::markdown::strong;
use super::measured::{Measured, Verdict, better};
use crate::results::{Better, Cell, Row, Survives};

/// Marks what was never the same twice.
pub(crate) const UNSTEADY: &str = "‡";

/// What a figure is among those of its row and metric whose systems promise the same; the best comes last.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
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
    /// A text that refers to a note.
    fn refer(&mut self, text: &str, note: &str) -> String {
        let known = self.0.iter().position(|known| known == note);
        let place = known.unwrap_or_else(|| {
            self.0.push(note.to_owned());
            self.0.len() - 1
        });
        format!("{text} \\[{}\\]", place + 1)
    }
}

/// What stands in a cell for one metric.
pub(crate) fn text(
    column: &Column<'_>,
    row: &Row,
    metric: &str,
    standing: Standing,
    notes: &mut Notes,
) -> String {
    let Some(cell) = column.cell(row) else {
        return "–".to_owned();
    };
    if let Some(why) = &cell.not_asked {
        return notes.refer("not asked", why);
    }
    let text = match column.measured(row, metric) {
        Some(measured) => figure(&measured, standing == Standing::Best),
        None if !cell.runs.is_empty() => return "–".to_owned(),
        None if cell.failures.is_empty() => return "not run".to_owned(),
        None => "failed".to_owned(),
    };
    match failure_note(cell) {
        Some(note) => notes.refer(&text, &note),
        None => text,
    }
}

/// A median with its mark, strong if it is the best.
pub(crate) fn median(measured: &Measured, is_best: bool) -> String {
    let median = format!("{}{}", number::plain(measured.median), mark_of(measured));
    if is_best { strong(&median) } else { median }
}

/// The same with its spread.
fn figure(measured: &Measured, is_best: bool) -> String {
    let median = median(measured, is_best);
    match (measured.deviation(), measured.runs) {
        (Some(part), _) => format!("{median} ±{}", number::percent(part)),
        (None, 0..=1) => median,
        (None, _) => format!(
            "{median} {}–{}",
            number::plain(measured.least),
            number::plain(measured.most)
        ),
    }
}

/// What marks a figure that says little, as Markdown.
pub(crate) fn mark_of(measured: &Measured) -> &'static str {
    match measured.guess {
        Some(Guess::FewSamples) => "\\*",
        Some(Guess::FewTicks) => "†",
        Some(Guess::Behind) => "§",
        Some(Guess::FewReads) => "‖",
        Some(Guess::FewRuns) => "¶",
        Some(Guess::LessToRead) => "◊",
        Some(Guess::Unwritten) => "#",
        None if measured.is_unsteady() => UNSTEADY,
        None => "",
    }
}

/// Which repetitions failed and why; the same reason is said once.
pub(crate) fn failure_note(cell: &Cell) -> Option<String> {
    let mut reasons = cell.failures.clone();
    reasons.dedup();
    let reasons = reasons.join("; ");
    match (cell.failures.len(), cell.runs.len()) {
        (0, _) => None,
        (_, 0) => Some(format!("It failed: {reasons}")),
        (_, runs) => Some(format!("A repetition failed ({runs} did not): {reasons}")),
    }
}

/// What each column's figure is in a row, among those whose systems promise the same: best are all that nothing sets apart from
/// the best median. Systems that promise different things are never set side by side.
pub(crate) fn standings(columns: &[Column<'_>], row: &Row, metric: &str) -> Vec<Standing> {
    let mut standings = vec![Standing::Alone; columns.len()];
    for survives in [Survives::PowerCut, Survives::ProcessCrash, Survives::Nothing] {
        let class: Vec<(usize, Measured)> = columns
            .iter()
            .enumerate()
            .filter(|(_, column)| column.survives() == Some(survives))
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
    let by_median =
        |one: &&(usize, Measured), other: &&(usize, Measured)| one.1.median.total_cmp(&other.1.median);
    let first = match better(metric) {
        Better::Less => class.iter().min_by(by_median),
        Better::More => class.iter().max_by(by_median),
        Better::Neither => None,
    };
    let Some((best, first)) = first else {
        return;
    };
    // One that cannot meet the best might be better than it.
    if !class
        .iter()
        .all(|(place, measured)| place == best || measured.can_meet(first))
    {
        return;
    }
    for (place, measured) in class {
        standings[*place] = match measured.beside(first, metric) {
            Verdict::NoDifference => Standing::Best,
            _ => Standing::Beaten,
        };
    }
}
