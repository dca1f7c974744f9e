//! What the figures cannot say: different guarantees, what failed or was left out, publications, and how quiet the
//! machine was.

use super::cells;
use super::columns;
use super::comparisons;
use super::document::{Document, Text};
use super::measured::Measured;
use super::number;
use super::overview::{join, point};
use crate::compare::results::{Cell, Experiment, Results, SystemFacts};

/// Above this load of the last minute, something else was at work.
const QUIET_LOAD: f64 = 0.5;

/// By what part a floor may move before it is worth a word.
const FLOOR_MOVES: f64 = 0.2;

/// How many failures are told on the first page.
const FAILURES_TOLD: usize = 8;

/// Adds both sections.
pub(crate) fn push(document: &mut Document, results: &Results) {
    document.heading(2, "What cannot be compared, and why", "not-comparable");
    let mut points = guarantees(results);
    points.extend(failed_systems(results));
    points.extend(failed_cells(results));
    points.extend(left_out(results));
    points.extend(without_first(results));
    points.extend(publications(results));
    points.extend(clients(results));
    points.extend(few_samples(results));
    document.list(points);
    document.heading(2, "How quiet the machine was", "quiet");
    document.list(quiet(results));
}

/// Who promises what.
fn guarantees(results: &Results) -> Vec<Text> {
    let side = |is_flushed: bool| -> Vec<&SystemFacts> {
        let systems = results.systems.iter();
        systems
            .filter(|system| system.is_flushed() == is_flushed)
            .collect()
    };
    let (flushed, others) = (side(true), side(false));
    if flushed.is_empty() || others.is_empty() {
        return Vec::new();
    }
    let titles =
        |systems: &[&SystemFacts]| join(&systems.iter().map(|s| s.title.clone()).collect::<Vec<_>>());
    let promises: Vec<String> = others
        .iter()
        .map(|system| match system.durability.is_empty() {
            true => system.title.clone(),
            false => format!("{} ({})", system.title, system.durability),
        })
        .collect();
    let verb = if flushed.len() == 1 { "flushes" } else { "flush" };
    let (other_verb, pronoun) = match others.len() {
        1 => ("does", "its"),
        _ => ("do", "their"),
    };
    vec![point(
        "Different guarantees. ",
        format!(
            "{} {verb} each record before acknowledging it; {} {other_verb} not, and a power cut may take {pronoun} \
             acknowledged records. Set beside each other, these figures are the price of the guarantee as much as the \
             quality of the systems.",
            titles(&flushed),
            join(&promises)
        ),
    )]
}

fn failed_systems(results: &Results) -> Vec<Text> {
    let failed = |system: &SystemFacts| {
        let why = system.failed.as_ref()?;
        Some(point(
            &format!("{} was not measured. ", system.title),
            sentence(why),
        ))
    };
    results.systems.iter().filter_map(failed).collect()
}

/// Cells that failed, as a whole or in part, of systems that did not fail as a whole.
fn failed_cells(results: &Results) -> Vec<Text> {
    let mut told: Vec<(String, Vec<String>)> = Vec::new();
    for (experiment, row, cell) in cells_of(results) {
        let system = columns::system(results, &cell.system);
        if system.is_some_and(|system| system.failed.is_some()) {
            continue;
        }
        let Some(note) = cells::failure_note(cell) else {
            continue;
        };
        let title = system.map_or(cell.system.as_str(), |system| &system.title);
        let key = format!("{title}: {note}");
        let place = format!("{}, {row}", experiment.title);
        match told.iter_mut().find(|(known, _)| *known == key) {
            Some((_, places)) => places.push(place),
            None => told.push((key, vec![place])),
        }
    }
    let mut points: Vec<Text> = told
        .iter()
        .take(FAILURES_TOLD)
        .map(|(what, places)| {
            let first = &places[0];
            let place = match places.len() {
                1 => first.clone(),
                many => format!("{first}, and {} more", many - 1),
            };
            point("Failed. ", format!("{} ({place}).", what.trim_end_matches('.')))
        })
        .collect();
    if told.len() > FAILURES_TOLD {
        let more = told.len() - FAILURES_TOLD;
        points.push(point(
            "Failed. ",
            format!("{more} other failures stand below the tables."),
        ));
    }
    points
}

fn left_out(results: &Results) -> Vec<Text> {
    let left_out = |experiment: &Experiment| {
        let why = experiment.left_out.as_ref()?;
        Some(point(
            "Left out. ",
            format!("{}: {}", experiment.title, sentence(why)),
        ))
    };
    results.experiments.iter().filter_map(left_out).collect()
}

/// Tables without a figure of our system.
fn without_first(results: &Results) -> Vec<Text> {
    let Some(first) = results.systems.first() else {
        return Vec::new();
    };
    let is_without = |experiment: &&Experiment| {
        let is_ours = |cell: &Cell| {
            let system = columns::system(results, &cell.system);
            !cell.runs.is_empty() && system.is_some_and(|system| comparisons::is_variant_of(system, first))
        };
        let mut cells = experiment.rows.iter().flat_map(|row| &row.cells);
        experiment.left_out.is_none() && !cells.any(is_ours)
    };
    let titles: Vec<String> = results
        .experiments
        .iter()
        .filter(is_without)
        .map(|experiment| experiment.title.clone())
        .collect();
    match titles.is_empty() {
        true => Vec::new(),
        false => vec![point(
            &format!("Without a figure of {}. ", first.title),
            format!("{}.", join(&titles)),
        )],
    }
}

fn publications(results: &Results) -> Vec<Text> {
    let has = |experiment: &Experiment| !experiment.published.is_empty();
    match results.experiments.iter().any(has) {
        false => Vec::new(),
        true => vec![point(
            "Published figures. ",
            "They come of other hardware, other versions and often other networks. They stand in columns of their own, to \
             show what the publication found, and are never set against what was measured here.",
        )],
    }
}

fn clients(results: &Results) -> Vec<Text> {
    let is_common = |cell: &Cell| !cell.best_client;
    match cells_of(results).any(|(_, _, cell)| is_common(cell)) {
        false => Vec::new(),
        true => vec![point(
            "Clients. ",
            "A figure is that of a system and its client together. Each system is measured through its best client, and, \
             where it can be, through a common one. Best is set beside best and the same client beside itself, nothing else.",
        )],
    }
}

fn few_samples(results: &Results) -> Vec<Text> {
    let starred: usize = cells_of(results)
        .map(|(experiment, _, cell)| {
            let figures = experiment
                .metrics
                .iter()
                .filter_map(|metric| Measured::of(cell, metric));
            figures.filter(|measured| measured.few_samples).count()
        })
        .sum();
    match starred {
        0 => Vec::new(),
        _ => vec![point(
            "Few samples. ",
            format!(
                "{} percentiles, marked *, have fewer than ten samples above them: they say little more than the maximum, \
                 and win or lose nothing.",
                number::count(starred as u64)
            ),
        )],
    }
}

fn cells_of(results: &Results) -> impl Iterator<Item = (&Experiment, &str, &Cell)> {
    results.experiments.iter().flat_map(|experiment| {
        let rows = experiment.rows.iter();
        rows.flat_map(move |row| {
            row.cells
                .iter()
                .map(move |cell| (experiment, row.name.as_str(), cell))
        })
    })
}

/// Load and floors, before and after.
fn quiet(results: &Results) -> Vec<Text> {
    let machine = &results.machine;
    let word = match machine.load_before {
        load if load <= QUIET_LOAD => "Quiet when it began. ",
        _ => "Not quiet when it began. ",
    };
    let mut points = vec![point(
        word,
        format!(
            "The load of the last minute was {:.2} before the first run and {:.2} after the last (which is our own work).",
            machine.load_before, machine.load_after
        ),
    )];
    if let [before, after, ..] = results.floors.as_slice() {
        let moved: Vec<String> = before
            .iter()
            .filter_map(|(name, before)| Some((name, *before, *after.get(name)?)))
            .filter(|(_, before, after)| *before > 0.0 && ((after - before) / before).abs() > FLOOR_MOVES)
            .map(|(name, before, after)| {
                format!(
                    "{name} from {} to {} µs",
                    number::plain(before),
                    number::plain(after)
                )
            })
            .collect();
        points.push(match moved.is_empty() {
            true => point(
                "Steady. ",
                format!(
                    "No floor of the machine moved by more than {} between before and after.",
                    number::percent(FLOOR_MOVES)
                ),
            ),
            false => point(
                "Not steady. ",
                format!(
                    "What the machine allows moved while it was measured: {}. Differences of that size may be the machine's.",
                    join(&moved)
                ),
            ),
        });
    }
    points
}

/// What was written by others, with a full stop.
fn sentence(text: &str) -> String {
    let text = text.trim();
    let end = if text.ends_with(['.', '!', '?']) { "" } else { "." };
    format!("{text}{end}")
}
