//! What the figures cannot say: different guarantees, what failed, was not asked or was left out, publications, and marks.

use super::cells;
use super::columns;
use super::comparisons;
use super::document::{Document, Text};
use super::measured::{Guess, Measured, UNSTEADY};
use super::number;
use super::overview::{join, point};
use crate::compare::results::{Acknowledges, Cell, Experiment, Results, Row, Survives, SystemFacts};

/// How many failures are told on the first page.
const FAILURES_TOLD: usize = 8;

/// Adds the section.
pub(crate) fn push(document: &mut Document, results: &Results) {
    document.heading(2, "What cannot be compared, and why", "not-comparable");
    let mut points = guarantees(results);
    points.extend(alone(results));
    points.extend(acknowledgements(results));
    points.extend(failed_systems(results));
    points.extend(failed_cells(results));
    points.extend(not_asked(results));
    points.extend(left_out(results));
    points.extend(without_first(results));
    points.extend(publications(results));
    points.extend(clients(results));
    points.extend(marks(results));
    document.list(points);
}

/// Who promises what.
fn guarantees(results: &Results) -> Vec<Text> {
    let class = |survives: Survives| -> Vec<String> {
        let systems = results.systems.iter();
        let those = systems.filter(|system| system.survives == survives && system.failed.is_none());
        those
            .map(|system| match (survives, system.durability.is_empty()) {
                (Survives::PowerCut, _) | (_, true) => system.title.clone(),
                _ => format!("{} ({})", system.title, system.durability),
            })
            .collect()
    };
    let classes = [
        (Survives::PowerCut, "a power cut"),
        (Survives::ProcessCrash, "a crash of the process, but no power cut"),
        (Survives::Nothing, "neither"),
    ];
    let told: Vec<String> = classes
        .into_iter()
        .map(|(survives, words)| (class(survives), words))
        .filter(|(systems, _)| !systems.is_empty())
        .map(|(systems, words)| format!("{words}: {}", join(&systems)))
        .collect();
    if told.len() < 2 {
        return Vec::new();
    }
    vec![point(
        "Different guarantees. ",
        format!(
            "Acknowledged records survive {}. Across these lines figures are the price of the guarantee as much as the quality of \
             the systems: nothing is bold and no score counts there.",
            told.join("; they survive ")
        ),
    )]
}

/// One acknowledgement, or one latency, for many records, or one for each.
fn acknowledgements(results: &Results) -> Vec<Text> {
    let has_batches = |row: &Row| {
        row.parameters
            .get("batch_records")
            .is_some_and(|records| *records > 1.0)
    };
    if !results
        .experiments
        .iter()
        .flat_map(|experiment| &experiment.rows)
        .any(has_batches)
    {
        return Vec::new();
    }
    let titles = |is_one: &dyn Fn(&SystemFacts) -> bool| -> Vec<String> {
        let systems = results.systems.iter().filter(|system| system.failed.is_none());
        let those = systems.filter(|system| is_one(system));
        those.map(|system| system.title.clone()).collect()
    };
    let acknowledging = |what| titles(&|system| system.acknowledges == Some(what));
    let told = |what| titles(&|system| latencies_told(results, system) == Some(what));
    let [batch, record] = [Acknowledges::Batch, Acknowledges::Record];
    let mut points = Vec::new();
    let (batches, records) = (acknowledging(batch), acknowledging(record));
    if !batches.is_empty() && !records.is_empty() {
        points.push(point(
            "A batch or a record. ",
            format!(
                "Where records go in batches, {} give one acknowledgement for a whole batch; {} give one for each record, which is \
                 a message of its own. Both are what the best clients of these systems do, but wide differences in tables of \
                 batches are those of that work, too.",
                join(&batches),
                join(&records)
            ),
        ));
    }
    let (batches, records) = (told(batch), told(record));
    if !batches.is_empty() && !records.is_empty() {
        points.push(point(
            "Latency of a batch or of a record. ",
            format!(
                "Where records go in batches, the latency of {} was told once for a batch, and that of {} once for each record.",
                join(&batches),
                join(&records)
            ),
        ));
    }
    points
}

/// Whether the latencies of a system in batches were told by batch or by record, as their numbers show.
fn latencies_told(results: &Results, system: &SystemFacts) -> Option<Acknowledges> {
    let rows = results.experiments.iter().flat_map(|experiment| &experiment.rows);
    let in_batches = rows.filter(|row| {
        row.parameters.contains_key("producers")
            && row
                .parameters
                .get("batch_records")
                .is_some_and(|records| *records >= 10.0)
    });
    let runs = in_batches
        .flat_map(|row| &row.cells)
        .filter(|cell| cell.system == system.name)
        .flat_map(|cell| &cell.runs);
    let mut samples = runs.filter_map(|run| Some((*run.get("samples")?, *run.get("records")?)));
    let (samples, records) = samples.next()?;
    Some(match samples * 2.0 < records {
        true => Acknowledges::Batch,
        false => Acknowledges::Record,
    })
}

/// Systems that nobody else promises the same as.
fn alone(results: &Results) -> Vec<Text> {
    let measured = || results.systems.iter().filter(|system| system.failed.is_none());
    let has_peer = |system: &SystemFacts| {
        measured()
            .filter(|other| other.survives == system.survives)
            .count()
            > 1
    };
    let alone: Vec<String> = measured()
        .filter(|system| !has_peer(system))
        .map(|system| system.title.clone())
        .collect();
    match alone.len() {
        0 => Vec::new(),
        _ if measured().count() < 2 => Vec::new(),
        _ => vec![point(
            "Alone. ",
            format!(
                "{}: nothing else here promises the same, so it wins and loses nothing.",
                join(&alone)
            ),
        )],
    }
}

/// Cells that were not asked, which is no failure.
fn not_asked(results: &Results) -> Vec<Text> {
    let mut told: Vec<(String, Vec<String>)> = Vec::new();
    for (experiment, row, cell) in cells_of(results) {
        if let Some(why) = &cell.not_asked {
            let title =
                columns::system(results, &cell.system).map_or(cell.system.as_str(), |system| &system.title);
            gather(
                &mut told,
                format!("{title}: {why}"),
                format!("{}, {row}", experiment.title),
            );
        }
    }
    told.iter().map(|told| told_in(told, "Not asked. ")).collect()
}

fn gather(told: &mut Vec<(String, Vec<String>)>, what: String, place: String) {
    match told.iter_mut().find(|(known, _)| *known == what) {
        Some((_, places)) => places.push(place),
        None => told.push((what, vec![place])),
    }
}

/// What, with the first of its places and how many more there are.
fn told_in((what, places): &(String, Vec<String>), about: &str) -> Text {
    let first = &places[0];
    let place = match places.len() {
        1 => first.clone(),
        many => format!("{first}, and {} more", many - 1),
    };
    point(about, format!("{} ({place}).", what.trim_end_matches('.')))
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
        gather(
            &mut told,
            format!("{title}: {note}"),
            format!("{}, {row}", experiment.title),
        );
    }
    let told_first = told.iter().take(FAILURES_TOLD);
    let mut points: Vec<Text> = told_first.map(|told| told_in(told, "Failed. ")).collect();
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

/// Figures that are marked, and what the marks mean.
fn marks(results: &Results) -> Vec<Text> {
    let measured: Vec<Measured> = cells_of(results)
        .flat_map(|(experiment, _, cell)| {
            let metrics = experiment.metrics.iter();
            metrics.filter_map(|metric| Measured::of(cell, metric))
        })
        .collect();
    let count = |is_so: &dyn Fn(&Measured) -> bool| measured.iter().filter(|one| is_so(one)).count() as u64;
    let marks = [
        (
            "Few samples. ",
            count(&|one| one.guess == Some(Guess::FewSamples)),
            format!(
                "percentiles, marked {}, have fewer than ten samples above them: they say little more than the maximum, and win or \
                 lose nothing.",
                cells::FEW_SAMPLES
            ),
        ),
        (
            "Few ticks. ",
            count(&|one| one.guess == Some(Guess::FewTicks)),
            format!(
                "figures of processor time, marked {}, come of fewer than 20 ticks of the clock that tells it: they win or lose \
                 nothing.",
                cells::FEW_TICKS
            ),
        ),
        (
            "Behind. ",
            count(&|one| one.guess == Some(Guess::Behind)),
            format!(
                "latencies, marked {}, are of loads of which less than nine tenths of what was due was taken: such a latency grows \
                 with the length of the run, and wins or loses nothing. That the system could not keep up is what it says.",
                cells::BEHIND
            ),
        ),
        (
            "Unsteady. ",
            count(&|one| one.guess.is_none() && one.is_unsteady()),
            format!(
                "figures, marked {}, vary by more than {} from repetition to repetition.",
                cells::UNSTEADY,
                number::percent(UNSTEADY)
            ),
        ),
    ];
    let marks = marks.into_iter().filter(|(_, count, _)| *count > 0);
    marks
        .map(|(about, count, words)| point(about, format!("{} {words}", number::count(count))))
        .collect()
}

/// All cells, each with its table and its row's name.
pub(super) fn cells_of(results: &Results) -> impl Iterator<Item = (&Experiment, &str, &Cell)> {
    results.experiments.iter().flat_map(|experiment| {
        let rows = experiment.rows.iter();
        rows.flat_map(move |row| {
            row.cells
                .iter()
                .map(move |cell| (experiment, row.name.as_str(), cell))
        })
    })
}

/// What was written by others, with a full stop.
fn sentence(text: &str) -> String {
    let text = text.trim();
    let end = if text.ends_with(['.', '!', '?']) { "" } else { "." };
    format!("{text}{end}")
}
