//! The first page: plain words, where our system loses (first), where it wins, and what the figures cannot say.
//!
//! Every word is computed from medians and spreads; no system is known by name.

use std::collections::BTreeSet;

use super::columns;
use super::comparisons::{self, Comparison};
use super::document::{Document, Span, Text};
use super::measured::{Measured, UNKNOWN_SPREAD, Verdict, title};
use super::{caveats, plain_words, quiet, score};
use crate::results::{Results, SystemFacts};
use bench::number;

/// How many rows a point names before it counts the rest.
const ROWS_NAMED: usize = 6;

/// What a part of the first page tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Loses,
    /// Our median is the worse one, but the ranges meet.
    Undecided,
    Wins,
}

impl Side {
    fn has(self, one: &Comparison<'_>) -> bool {
        match self {
            Side::Loses => one.verdict == Verdict::Worse,
            Side::Undecided => one.verdict == Verdict::NoDifference && one.has_worse_median(),
            Side::Wins => one.verdict == Verdict::Better,
        }
    }
}

/// Adds the first page.
pub(crate) fn push(document: &mut Document, results: &Results) {
    let found = comparisons::all(results);
    document.paragraph(introduction(results));
    let Some(first) = results.systems.first() else {
        document.paragraph("No system was asked, so there is nothing to compare.");
        return;
    };
    plain_words::push(document, results, &found);
    caveats::push(document, results);
    document.heading(2, "How to read what follows", "reading");
    document.paragraph(reading(results));
    document.heading(2, &format!("Where {} loses", first.title), "loses");
    push_side(document, &found, Side::Loses, first);
    let title = format!(
        "Where {} may be worse: its median is, but the ranges meet",
        first.title
    );
    document.heading(2, &title, "undecided");
    push_side(document, &found, Side::Undecided, first);
    document.heading(2, &format!("Where {} wins", first.title), "wins");
    push_side(document, &found, Side::Wins, first);
    score::push(document, results, &found);
    quiet::push(document, results);
}

fn introduction(results: &Results) -> Text {
    let mut titles = results.systems.iter().map(columns::title);
    let first = titles.next().unwrap_or_default();
    let others = join(&titles.collect::<Vec<_>>());
    let who = match (first.is_empty(), others.is_empty()) {
        (true, _) => String::new(),
        (false, true) => format!("{first} alone, with nothing beside it. "),
        (false, false) => format!("{first} beside {others}. "),
    };
    let nodes = match results.nodes {
        1 => "one node".to_owned(),
        nodes => format!("{nodes} nodes"),
    };
    Text::from(format!(
        "{who}{} for each system, all on one machine, clients too. {} means: an acknowledged record survives a power cut. {} means: \
         it survives a crash of the process, but no power cut. Without a mark it may be lost with the process. Only systems that \
         promise the same are scored against each other.",
        capitalised(&nodes),
        columns::FLUSHED,
        columns::CACHED
    ))
}

/// What the figures of the first page are.
fn reading(results: &Results) -> Text {
    let turns = match results.repetitions {
        0 | 1 => format!(
            "Each workload ran once, so how far its figures vary is not known: they are taken to vary by {} each way. ",
            number::percent(UNKNOWN_SPREAD)
        ),
        turns => {
            let more = match ran_more_often(results) {
                true => ", and more often where figures varied much",
                false => "",
            };
            format!("Each workload ran {turns} times, in turn with the others{more}. Figures are medians. ")
        }
    };
    Text::from(format!(
        "{turns}A difference counts only if the ranges of both figures do not meet (from five repetitions on, without the least and \
         the most). “3×” means that the worse figure is three times the better one, or a third of it where more is better."
    ))
}

/// Whether some cell has more runs than were asked of all.
fn ran_more_often(results: &Results) -> bool {
    let repetitions = results.repetitions as usize;
    caveats::cells_of(results).any(|(_, _, cell)| cell.runs.len() > repetitions)
}

/// One side: how often and against whom. Those that promise something else are told of, and counted nowhere.
fn push_side(document: &mut Document, found: &[Comparison<'_>], side: Side, first: &SystemFacts) {
    if found.is_empty() {
        document.paragraph("Nothing of it could be set beside a figure of another system.");
        return;
    }
    for is_same in [true, false] {
        let among: Vec<&Comparison<'_>> = found
            .iter()
            .filter(|one| one.is_same_guarantee() == is_same)
            .collect();
        if among.is_empty() {
            continue;
        }
        let those: Vec<&Comparison<'_>> = among.iter().copied().filter(|one| side.has(one)).collect();
        let whom = format!(
            "systems that promise {}{}",
            comparisons::promise(&among),
            if is_same { "" } else { " (not scored)" }
        );
        let count = match those.len() {
            0 => Text::strong("None"),
            those => Text::strong(number::count(those as u64)),
        };
        let end = if those.is_empty() { "." } else { ":" };
        document.paragraph(count.and(format!(
            " of {} {} beside {whom}{end}",
            number::count(among.len() as u64),
            if among.len() == 1 { "figure" } else { "figures" }
        )));
        document.list(points(&those, &among, &first.name));
    }
}

/// A point for each experiment and metric.
fn points(those: &[&Comparison<'_>], among: &[&Comparison<'_>], first: &str) -> Vec<Text> {
    let mut points = Vec::new();
    let mut done: BTreeSet<(&str, &str, &str)> = BTreeSet::new();
    for one in those {
        let key = (
            one.experiment.name.as_str(),
            one.metric,
            one.our_system.name.as_str(),
        );
        if !done.insert(key) {
            continue;
        }
        let is_alike = |other: &&&Comparison<'_>| {
            let other_key = (
                other.experiment.name.as_str(),
                other.metric,
                other.our_system.name.as_str(),
            );
            other_key == key
        };
        let those: Vec<_> = those.iter().filter(is_alike).copied().collect();
        let among: Vec<_> = among.iter().filter(is_alike).copied().collect();
        let opponents = opponents(&those);
        let phrases: Vec<String> = opponents
            .iter()
            .map(|opponent| phrase(&those, &among, opponent))
            .collect();
        points.push(
            Text::strong(&one.experiment.title)
                .and(format!(" · {} · ", title(one.metric)))
                .and(ours(one, first))
                .and(phrases.join("; ")),
        );
    }
    points
}

/// Which of our variants it is, where it is not plain.
fn ours(one: &Comparison<'_>, first: &str) -> String {
    match one.our_system.name == first {
        true => String::new(),
        false => format!("{}, ", columns::title(one.our_system)),
    }
}

/// The other side of a comparison, as a reader knows it.
pub(crate) fn opponent(one: &Comparison<'_>) -> String {
    let title = columns::title(one.other_system);
    match one.common_client {
        Some(client) => format!("{title} (both through {client})"),
        None => title,
    }
}

fn opponents(those: &[&Comparison<'_>]) -> Vec<String> {
    let mut opponents = Vec::new();
    for one in those {
        let name = opponent(one);
        if !opponents.contains(&name) {
            opponents.push(name);
        }
    }
    opponents
}

/// "against Kafka in 2 of 3 rows: 1 MB 1.52× (6,202 against 4,087), 50 KB …", the widest difference first.
fn phrase(those: &[&Comparison<'_>], among: &[&Comparison<'_>], whom: &str) -> String {
    let mut rows: Vec<&Comparison<'_>> = those
        .iter()
        .filter(|one| opponent(one) == whom)
        .copied()
        .collect();
    let asked = among.iter().filter(|one| opponent(one) == whom).count();
    rows.sort_by(|one, other| {
        let width = |one: &Comparison<'_>| one.times().unwrap_or(f64::INFINITY);
        width(other).total_cmp(&width(one))
    });
    let part = match (rows.len(), asked) {
        (1, 1) => String::new(),
        (some, all) => format!(" in {some} of {all} rows"),
    };
    let how_much = match rows.first().map(|one| one.verdict) {
        Some(Verdict::Better) => span(&rows),
        _ => named(&rows),
    };
    format!("against {whom}{part}: {how_much}")
}

/// What was lost is told row by row.
fn named(rows: &[&Comparison<'_>]) -> String {
    let mut named: Vec<String> = rows.iter().take(ROWS_NAMED).map(|one| row_phrase(one)).collect();
    if rows.len() > ROWS_NAMED {
        named.push(format!("and {} more", rows.len() - ROWS_NAMED));
    }
    named.join(", ")
}

/// What was won is told from the narrowest to the widest difference.
fn span(rows: &[&Comparison<'_>]) -> String {
    let times: Option<Vec<f64>> = rows.iter().map(|one| one.times()).collect();
    match times.as_deref() {
        Some([only]) => format!("{} ({})", number::factor(*only), rows[0].row.name),
        Some([widest, .., narrowest]) => {
            let ends = [*narrowest, *widest].map(number::factor);
            match ends[0] == ends[1] {
                true => ends[0].clone(),
                false => format!("{} to {}", ends[0], ends[1]),
            }
        }
        _ => named(rows),
    }
}

fn row_phrase(one: &Comparison<'_>) -> String {
    let figures = format!("{} against {}", median(&one.ours), median(&one.theirs));
    match one.times() {
        Some(times) => format!("{} {} ({figures})", one.row.name, number::factor(times)),
        None => format!("{} {figures}", one.row.name),
    }
}

/// A median, with its spread where that is wide.
fn median(measured: &Measured) -> String {
    let median = number::plain(measured.median);
    match measured.deviation().filter(|_| measured.is_unsteady()) {
        Some(part) => format!("{median} ±{}", number::percent(part)),
        None => median,
    }
}

/// "a, b and c", or "a; b, c; and d".
pub(crate) fn join(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        // Titles have commas of their own.
        [before @ .., last] if names.iter().any(|name| name.contains(',')) => {
            format!("{}; and {last}", before.join("; "))
        }
        [before @ .., last] => format!("{} and {last}", before.join(", ")),
    }
}

/// With a capital letter first.
pub(crate) fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters
        .next()
        .map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// A point with what it is about in front.
pub(crate) fn point(about: &str, text: impl Into<String>) -> Text {
    Text(vec![Span::Strong(about.to_owned()), Span::Plain(text.into())])
}
