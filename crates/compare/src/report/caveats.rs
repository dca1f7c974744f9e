//! What the figures cannot say: different guarantees, what failed, was not asked or was left out, publications, and marks.

mod clients;
mod failures;
mod marks;

use super::columns;
use super::comparisons;
use super::document::{Document, Text};
use super::overview::{join, point};
use crate::results::{Cell, Experiment, Results, Row, Survives, SystemFacts};

/// Adds the section.
pub(crate) fn push(document: &mut Document, results: &Results) {
    document.heading(2, "What cannot be compared, and why", "not-comparable");
    let mut points = guarantees(results);
    points.extend(alone(results));
    points.extend(clients::acknowledgements(results));
    points.extend(clients::notes(results));
    points.extend(failures::points(results));
    points.extend(not_asked(results));
    points.extend(left_out(results));
    points.extend(without_first(results));
    points.extend(publications(results));
    points.extend(clients::points(results));
    points.extend(clients::numbering(results));
    points.extend(marks::points(results));
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
             the systems: nothing is bold and nothing is scored there.",
            told.join("; they survive ")
        ),
    )]
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
                "{}: nothing else here promises the same, so nothing of it is scored.",
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
                format!("{}, {}", experiment.title, row.name),
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
    let mut experiments = results.experiments.iter();
    if experiments.all(|experiment| experiment.published.is_empty()) {
        return Vec::new();
    }
    let without: Vec<String> = results
        .experiments
        .iter()
        .filter(|experiment| experiment.source.is_some() && experiment.published.is_empty())
        .map(|experiment| format!("“{}”", experiment.title))
        .collect();
    let without = match without.is_empty() {
        true => String::new(),
        false => format!(" Published without numbers: {}.", join(&without)),
    };
    let words = "They come of other hardware, other versions and often other networks. They stand in columns or lines of their own, \
                 to show what the publication found, and are never set against what was measured here; at most, it is said that a \
                 ratio points the other way.";
    vec![point("Published figures. ", format!("{words}{without}"))]
}

/// All cells, each with its table and its row.
pub(super) fn cells_of(results: &Results) -> impl Iterator<Item = (&Experiment, &Row, &Cell)> {
    results.experiments.iter().flat_map(|experiment| {
        let rows = experiment.rows.iter();
        rows.flat_map(move |row| row.cells.iter().map(move |cell| (experiment, row, cell)))
    })
}

/// What was written by others, with a full stop.
fn sentence(text: &str) -> String {
    let text = text.trim();
    let end = if text.ends_with(['.', '!', '?']) { "" } else { "." };
    format!("{text}{end}")
}
