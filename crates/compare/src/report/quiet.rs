//! How quiet the machine was: its load before, in the course of the runs and after, what others did, and what moved of its floors.

use super::caveats::cells_of;
use super::document::{Document, Text};
use super::overview::{join, point};
use crate::results::Results;
use bench::number;

/// Above this load of the last minute, something else was at work.
const QUIET_LOAD: f64 = 0.5;

/// So many CPUs may be busy with other things, the kernel's own among them.
const OTHERS_QUIET: f64 = 0.3;

/// By what part a floor may move before it is worth a word.
const FLOOR_MOVES: f64 = 0.2;

/// Adds the section.
pub(crate) fn push(document: &mut Document, results: &Results) {
    document.heading(2, "How quiet the machine was", "quiet");
    document.list(points(results));
}

/// Load and floors, before, meanwhile and after.
fn points(results: &Results) -> Vec<Text> {
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
    points.extend(sittings(results));
    points.extend(course(results));
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

/// When it was gone on with, if it was.
fn sittings(results: &Results) -> Option<Text> {
    let [_, later @ ..] = results.sittings.as_slice() else {
        return None;
    };
    let told = later
        .iter()
        .map(|sitting| format!("{} (load {:.2})", sitting.began, sitting.load));
    let told: Vec<String> = told.collect();
    (!told.is_empty()).then(|| {
        point(
            "In several sittings. ",
            format!(
                "On the same machine, by the same program, it was gone on with at {}.",
                join(&told)
            ),
        )
    })
}

/// What else was at work while the runs were made.
fn course(results: &Results) -> Vec<Text> {
    let of = |metric: &str| -> Vec<f64> {
        let runs = cells_of(results).flat_map(|(_, _, cell)| &cell.runs);
        let mut values: Vec<f64> = runs.filter_map(|run| run.get(metric)).copied().collect();
        values.retain(|value| value.is_finite());
        values.sort_by(f64::total_cmp);
        values
    };
    let (loads, others) = (of("load"), of("other_cpus"));
    let (Some(least), Some(most)) = (loads.first(), loads.last()) else {
        return Vec::new();
    };
    let disturbed = others.iter().filter(|cpus| **cpus > OTHERS_QUIET).count() as u64;
    let middle = others.get(others.len() / 2).copied().unwrap_or_default();
    vec![point(
        if disturbed == 0 {
            "Quiet in its course. "
        } else {
            "In its course. "
        },
        format!(
            "At the end of each run the load of the last minute was {least:.2} to {most:.2}. What neither the system nor its client \
             nor this program did (the kernel's own work is in it) took {middle:.2} CPUs in the middle, and more than \
             {OTHERS_QUIET} in {} of {} runs.",
            number::count(disturbed),
            number::count(others.len() as u64)
        ),
    )]
}
