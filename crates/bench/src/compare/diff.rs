//! `bench diff`: two comparisons of the same suite, metric by metric, with the noise of both.
//!
//! A change counts if the ranges of both do not meet. What a metric moved without that is noise, and is said to be.

mod surroundings;
mod text;

use std::collections::BTreeSet;

use serde::Serialize;

use super::report::Verdict;
use super::report::measured::{Measured, better};
use super::results::{Better, Cell, Experiment, Results, Row, SCHEMA};

/// What changed from one comparison to another.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Diff {
    /// The suite of both.
    pub suite: String,
    /// When the earlier and the later one began.
    pub began: [String; 2],
    /// What tells that they are of two machines: then no change has a verdict, unless it was asked for.
    pub unlike_machines: Vec<String>,
    /// What else differs between them and may explain a change: machine, floors, load, versions, settings, nodes.
    pub surroundings: Vec<String>,
    /// Each metric of each cell that both have.
    pub changes: Vec<Change>,
    /// Cells that had a figure and have none any more, with the reason.
    pub broken: Vec<Broken>,
    /// What only the earlier one has.
    pub only_before: Vec<String>,
    /// What only the later one has.
    pub only_after: Vec<String>,
}

/// A metric of a cell, before and after.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    /// Where it is.
    #[serde(flatten)]
    pub place: Place,
    /// The metric.
    pub metric: String,
    /// The median before.
    pub before: f64,
    /// The median after.
    pub after: f64,
    /// How far the median moved, in % of what it was; none if it was nothing.
    pub change_percent: Option<f64>,
    /// How far it may move in that direction and still be noise, in % of what it was.
    pub noise_percent: Option<f64>,
    /// What it is now beside what it was; none between two machines.
    pub verdict: Option<Verdict>,
}

/// A cell that had a figure and has none any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Broken {
    /// Where it is.
    #[serde(flatten)]
    pub place: Place,
    /// Why, as far as it is known.
    pub why: String,
}

/// Which cell.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Place {
    /// The experiment's name.
    pub experiment: String,
    /// The row's name.
    pub row: String,
    /// The system's name.
    pub system: String,
    /// The driver's name.
    pub driver: String,
}

/// Which machines two comparisons may be of, for their figures to be judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Machines {
    /// The same, as far as results tell.
    Same,
    /// Any.
    Any,
}

/// Compares an earlier comparison with a later one.
///
/// # Errors
/// If they are not of the same suite, or of a schema that this program does not know.
pub fn run(before: &Results, after: &Results, machines: Machines) -> anyhow::Result<Diff> {
    for (which, results) in [("earlier", before), ("later", after)] {
        anyhow::ensure!(
            results.schema == SCHEMA,
            "the {which} results have schema {}, and this program compares {SCHEMA}: measure again",
            results.schema
        );
    }
    anyhow::ensure!(
        before.suite == after.suite,
        "the suites differ, {} before and {} after: compare results of the same suite",
        before.suite,
        after.suite
    );
    let mut diff = Diff {
        suite: before.suite.clone(),
        began: [before.began.clone(), after.began.clone()],
        unlike_machines: match machines {
            Machines::Same => surroundings::machines(before, after),
            Machines::Any => Vec::new(),
        },
        surroundings: surroundings::all(before, after),
        changes: Vec::new(),
        broken: Vec::new(),
        only_before: only(before, after),
        only_after: only(after, before),
    };
    for (experiment, row, cell) in cells(before) {
        let Some((later_experiment, later_row, later)) = same_cell(after, experiment, row, cell) else {
            continue;
        };
        let place = place(experiment, row, cell);
        if !cell.runs.is_empty() && later.runs.is_empty() {
            diff.broken.push(broken(place, later));
            continue;
        }
        for metric in metrics(experiment, later_experiment) {
            let earlier = Measured::in_row(row, cell, metric, before.repetitions);
            let later = Measured::in_row(later_row, later, metric, after.repetitions);
            diff.changes.extend(change(&place, metric, earlier, later));
        }
    }
    if !diff.unlike_machines.is_empty() {
        diff.changes.iter_mut().for_each(|change| change.verdict = None);
    }
    Ok(diff)
}

impl Diff {
    /// Whether something is worse or broken; of one system and its variants only, if one is named.
    #[must_use]
    pub fn has_regressions(&self, system: Option<&str>) -> bool {
        let is_meant = |place: &Place| {
            let Some(system) = system else {
                return true;
            };
            let rest = place.system.strip_prefix(system);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        };
        let is_worse = |change: &Change| change.verdict == Some(Verdict::Worse) && is_meant(&change.place);
        self.changes.iter().any(is_worse) || self.broken.iter().any(|broken| is_meant(&broken.place))
    }

    /// As one JSON object.
    ///
    /// # Errors
    /// Never for what `run` made: it holds finite numbers only.
    pub fn to_json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self)
    }
}

fn change(place: &Place, metric: &str, before: Option<Measured>, after: Option<Measured>) -> Option<Change> {
    let (before, after) = (before?, after?);
    let percent = |moved: f64| (before.median != 0.0).then(|| moved / before.median.abs() * 100.0);
    Some(Change {
        place: place.clone(),
        metric: metric.to_owned(),
        before: before.median,
        after: after.median,
        change_percent: percent(after.median - before.median),
        noise_percent: percent(noise(&before, &after)),
        verdict: Some(match after.can_meet(&before) {
            true => after.beside(&before, metric),
            false => Verdict::NoDifference,
        }),
    })
}

/// How far the median may move with the ranges still meeting.
fn noise(before: &Measured, after: &Measured) -> f64 {
    let (least, most) = before.range();
    let (later_least, later_most) = after.range();
    if after.median >= before.median {
        (most - before.median) + (after.median - later_least)
    } else {
        (before.median - least) + (later_most - after.median)
    }
}

fn broken(place: Place, cell: &Cell) -> Broken {
    let why = cell.failures.first().map_or("it was not run", String::as_str);
    Broken {
        place,
        why: why.to_owned(),
    }
}

/// The metrics of both tables that can be better or worse.
fn metrics<'a>(experiment: &'a Experiment, later: &'a Experiment) -> impl Iterator<Item = &'a str> {
    let metrics = experiment
        .metrics
        .iter()
        .filter(|metric| later.metrics.contains(metric));
    metrics
        .map(String::as_str)
        .filter(|metric| better(metric) != Better::Neither)
}

fn cells(results: &Results) -> impl Iterator<Item = (&Experiment, &Row, &Cell)> {
    results.experiments.iter().flat_map(|experiment| {
        let rows = experiment.rows.iter();
        rows.flat_map(move |row| row.cells.iter().map(move |cell| (experiment, row, cell)))
    })
}

fn place(experiment: &Experiment, row: &Row, cell: &Cell) -> Place {
    Place {
        experiment: experiment.name.clone(),
        row: row.name.clone(),
        system: cell.system.clone(),
        driver: cell.driver.clone(),
    }
}

fn same_cell<'a>(
    results: &'a Results,
    experiment: &Experiment,
    row: &Row,
    cell: &Cell,
) -> Option<(&'a Experiment, &'a Row, &'a Cell)> {
    let experiment = results
        .experiments
        .iter()
        .find(|other| other.name == experiment.name)?;
    let row = experiment.rows.iter().find(|other| other.name == row.name)?;
    let is_same = |other: &&Cell| other.system == cell.system && other.driver == cell.driver;
    Some((experiment, row, row.cells.iter().find(is_same)?))
}

/// What one has and the other has not: a system or an experiment is named once, not with all that is in it.
fn only(these: &Results, others: &Results) -> Vec<String> {
    let systems = |results: &Results| {
        results
            .systems
            .iter()
            .map(|s| s.name.clone())
            .collect::<BTreeSet<_>>()
    };
    let lost: BTreeSet<String> = &systems(these) - &systems(others);
    let mut only: Vec<String> = lost.iter().map(|name| format!("system {name}")).collect();
    for experiment in &these.experiments {
        let Some(other) = others
            .experiments
            .iter()
            .find(|other| other.name == experiment.name)
        else {
            only.push(format!("experiment {}", experiment.name));
            continue;
        };
        let metrics = experiment
            .metrics
            .iter()
            .filter(|metric| !other.metrics.contains(metric));
        only.extend(metrics.map(|metric| format!("metric {metric} of {}", experiment.name)));
        for row in &experiment.rows {
            if !other.rows.iter().any(|other| other.name == row.name) {
                only.push(format!("row {} of {}", row.name, experiment.name));
                continue;
            }
            let cells = row.cells.iter().filter(|cell| !lost.contains(&cell.system));
            let cells = cells.filter(|cell| same_cell(others, experiment, row, cell).is_none());
            only.extend(cells.map(|cell| format!("cell {}", place(experiment, row, cell))));
        }
    }
    only
}
