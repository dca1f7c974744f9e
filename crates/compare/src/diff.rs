//! `ropewalk-compare diff`: two comparisons of the same suite, metric by metric, with the noise of both.
//!
//! A change counts if it leaves its band, which `bands` makes of the noise of both and of what the machine itself moved; what moved
//! within it is noise. Of many figures a few leave their bands by chance: so many are no regression yet.

mod bands;
mod surroundings;
mod text;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::report::Verdict;
use super::report::comparisons::{is_named_after, quantity};
use super::report::measured::{Measured, better};
use super::results::{Better, Cell, Experiment, Results, Row, SCHEMA};

/// What changed from one comparison to another.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Diff {
    /// The suite of both.
    pub suite: String,
    /// When the earlier and the later one began.
    pub began: [String; 2],
    /// Whose figures, and whose variants', decide whether something got worse: the first system's, unless told.
    pub about: String,
    /// How many times what they were the figures of systems that did not change are, in the middle, by metric: what the machine moved.
    pub drift: BTreeMap<String, f64>,
    /// What tells that they are of two machines: then no change has a verdict, unless it was asked for.
    pub unlike_machines: Vec<String>,
    /// What else differs between them and may explain a change: machine, floors, load, versions, settings, nodes.
    pub surroundings: Vec<String>,
    /// Each metric of each cell that both have; of metrics that tell the same, the first.
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
    /// How far it may move in that direction and still be noise, in % of what it was: its band.
    pub noise_percent: Option<f64>,
    /// What it is now beside what it was; none between two machines, and where either figure is a guess.
    pub verdict: Option<Verdict>,
    /// Whether it is worse by so much that chance does not explain it, however many figures there are.
    pub is_far: bool,
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

/// Compares an earlier comparison with a later one; about the first system of the earlier one, unless told.
///
/// # Errors
/// If they are not of the same suite, or of a schema that this program does not know.
pub fn run(
    before: &Results,
    after: &Results,
    machines: Machines,
    about: Option<&str>,
) -> anyhow::Result<Diff> {
    can_be_compared(before, after)?;
    let first = before.systems.first().map(|first| first.name.as_str());
    let (pairs, broken) = pairs(before, after);
    let mut diff = Diff {
        suite: before.suite.clone(),
        began: [before.began.clone(), after.began.clone()],
        about: about.or(first).unwrap_or_default().to_owned(),
        drift: BTreeMap::new(),
        unlike_machines: match machines {
            Machines::Same => surroundings::machines(before, after),
            Machines::Any => Vec::new(),
        },
        surroundings: surroundings::all(before, after),
        changes: Vec::new(),
        broken,
        only_before: only(before, after),
        only_after: only(after, before),
    };
    let unchanged = surroundings::unchanged(before, after);
    let is_control = |pair: &&Pair| !diff.is_about(&pair.place) && unchanged.contains(&pair.place.system);
    diff.drift = bands::drift(pairs.iter().filter(is_control));
    diff.changes = pairs.iter().map(|pair| pair.change(&diff.drift)).collect();
    if !diff.unlike_machines.is_empty() {
        for change in &mut diff.changes {
            (change.verdict, change.is_far) = (None, false);
        }
    }
    Ok(diff)
}

/// Refuses what has nothing in common.
fn can_be_compared(before: &Results, after: &Results) -> anyhow::Result<()> {
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
    Ok(())
}

/// Each figure that both have, and each cell that had figures and has none any more.
fn pairs(before: &Results, after: &Results) -> (Vec<Pair>, Vec<Broken>) {
    let (mut pairs, mut broken) = (Vec::new(), Vec::new());
    for (experiment, row, cell) in before.cells() {
        let Some((later_experiment, later_row, later)) = same_cell(after, experiment, row, cell) else {
            continue;
        };
        let place = place(experiment, row, cell);
        if !cell.runs.is_empty() && later.runs.is_empty() {
            let why = later.failures.first().map_or("it was not run", String::as_str);
            broken.push(Broken {
                place,
                why: why.to_owned(),
            });
            continue;
        }
        for metric in metrics(experiment, later_experiment) {
            let earlier = Measured::in_row(row, cell, metric, before.repetitions);
            let later = Measured::in_row(later_row, later, metric, after.repetitions);
            pairs.extend(earlier.zip(later).map(|(before, after)| Pair {
                place: place.clone(),
                metric: metric.to_owned(),
                before,
                after,
            }));
        }
    }
    (pairs, broken)
}

impl Diff {
    /// Whether the system that it is about got worse: something of it is broken, or worse by far, or more of it is worse than chance
    /// explains.
    #[must_use]
    pub fn has_regressions(&self) -> bool {
        let (judged, worse) = self.judged_and_worse();
        let is_broken = self.broken.iter().any(|broken| self.is_about(&broken.place));
        let mut own = self.changes.iter().filter(|change| self.is_about(&change.place));
        is_broken || own.any(|change| change.is_far) || worse > bands::by_chance_at_most(judged)
    }

    /// How many figures of that system were judged, and how many of them are worse.
    fn judged_and_worse(&self) -> (usize, usize) {
        let own = self.changes.iter().filter(|change| self.is_about(&change.place));
        let verdicts: Vec<Verdict> = own.filter_map(|change| change.verdict).collect();
        let worse = verdicts.iter().filter(|verdict| **verdict == Verdict::Worse);
        (verdicts.len(), worse.count())
    }

    fn is_about(&self, place: &Place) -> bool {
        is_named_after(&place.system, &self.about)
    }

    /// As one JSON object.
    ///
    /// # Errors
    /// Never for what `run` made: it holds finite numbers only.
    pub fn to_json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self)
    }
}

/// One figure in both.
struct Pair {
    place: Place,
    metric: String,
    before: Measured,
    after: Measured,
}

impl Pair {
    /// Whether both say enough to be judged.
    fn can_be_judged(&self) -> bool {
        self.after.can_meet(&self.before)
    }

    /// What became of it, where the machine moved figures so much by itself.
    fn change(&self, drift: &BTreeMap<String, f64>) -> Change {
        let (before, after) = (self.before.median, self.after.median);
        let band = bands::band(self, drift.get(&self.metric).copied());
        let percent = |moved: f64| (before != 0.0).then(|| moved / before.abs() * 100.0);
        let beside = match (after - before).abs() > band {
            true => self.after.beside(&self.before, &self.metric),
            false => Verdict::NoDifference,
        };
        let verdict = self.can_be_judged().then_some(beside);
        Change {
            place: self.place.clone(),
            metric: self.metric.clone(),
            before,
            after,
            change_percent: percent(after - before),
            noise_percent: percent(band),
            verdict,
            is_far: verdict == Some(Verdict::Worse) && bands::is_far(before, after, band),
        }
    }
}

/// The metrics of both tables that can be better or worse; of those that tell the same, the first.
fn metrics<'a>(experiment: &'a Experiment, later: &'a Experiment) -> impl Iterator<Item = &'a str> {
    let metrics = experiment
        .metrics
        .iter()
        .filter(|metric| later.metrics.contains(metric));
    let mut told = BTreeSet::new();
    metrics
        .map(String::as_str)
        .filter(|metric| better(metric) != Better::Neither)
        .filter(move |&metric| told.insert(quantity(metric, experiment.loop_kind)))
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
    let experiment = results.experiment(&experiment.name)?;
    let row = experiment.row(&row.name)?;
    let is_same = |other: &&Cell| other.system == cell.system && other.driver == cell.driver;
    Some((experiment, row, row.cells.iter().find(is_same)?))
}

/// What one has and the other has not: a system or an experiment is named once, not with all that is in it.
fn only(these: &Results, others: &Results) -> Vec<String> {
    let names = these.systems.iter().map(|system| system.name.as_str());
    let lost: BTreeSet<&str> = names.filter(|name| others.system(name).is_none()).collect();
    let mut only: Vec<String> = lost.iter().map(|name| format!("system {name}")).collect();
    for experiment in &these.experiments {
        let Some(other) = others.experiment(&experiment.name) else {
            only.push(format!("experiment {}", experiment.name));
            continue;
        };
        let metrics = experiment
            .metrics
            .iter()
            .filter(|metric| !other.metrics.contains(metric));
        only.extend(metrics.map(|metric| format!("metric {metric} of {}", experiment.name)));
        for row in &experiment.rows {
            if other.row(&row.name).is_none() {
                only.push(format!("row {} of {}", row.name, experiment.name));
                continue;
            }
            let cells = row
                .cells
                .iter()
                .filter(|cell| !lost.contains(cell.system.as_str()));
            let cells = cells.filter(|cell| same_cell(others, experiment, row, cell).is_none());
            only.extend(cells.map(|cell| format!("cell {}", place(experiment, row, cell))));
        }
    }
    only
}
