//! The first page in plain words: where our system loses (first), where it wins, and what the figures cannot say.
//!
//! Every word is computed from medians and spreads; no system is known by name.

use std::collections::BTreeSet;

use super::caveats;
use super::cells;
use super::columns;
use super::comparisons::{self, Comparison};
use super::document::{Block, Document, Line, Span, Table, Text};
use super::measured::{UNKNOWN_SPREAD, Verdict, better, title};
use super::number;
use crate::compare::results::{Better, Results, SystemFacts};

/// How many rows a point names before it counts the rest.
const ROWS_NAMED: usize = 6;

/// Adds the first page.
pub(crate) fn push(document: &mut Document, results: &Results) {
    let found = comparisons::all(results);
    document.paragraph(introduction(results));
    let Some(first) = results.systems.first() else {
        document.paragraph("No system was asked, so there is nothing to compare.");
        return;
    };
    document.heading(2, &format!("Where {} loses", first.title), "loses");
    push_side(document, &found, Verdict::Worse, first);
    document.heading(2, &format!("Where {} wins", first.title), "wins");
    push_side(document, &found, Verdict::Better, first);
    if !found.is_empty() {
        document.heading(2, "The score", "score");
        push_score(document, &found);
    }
    push_bests(document, results);
    caveats::push(document, results);
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
    let turns = match results.repetitions {
        0 | 1 => format!(
            "Each workload ran once, so how far its figures vary is not known: they are taken to vary by {} each way. ",
            number::percent(UNKNOWN_SPREAD)
        ),
        turns => format!("Each workload ran {turns} times, in turn with the others; figures are medians. "),
    };
    let nodes = match results.nodes {
        1 => "one node".to_owned(),
        nodes => format!("{nodes} nodes"),
    };
    Text::from(format!(
        "{who}{} for each system, all on one machine, clients too. {turns}A difference counts only if the ranges of both \
         figures do not meet. {} marks systems whose acknowledged records survive a power cut; the others promise less. \
         “3×” means that the worse figure is three times the better one, or a third of it where more is better.",
        capitalised(&nodes),
        columns::FLUSHED
    ))
}

/// One verdict: how often and against whom, those with the same guarantee first.
fn push_side(document: &mut Document, found: &[Comparison<'_>], verdict: Verdict, first: &SystemFacts) {
    if found.is_empty() {
        document.paragraph("Nothing of it could be set beside a figure of another system.");
        return;
    }
    let other_promise = match first.is_flushed() {
        true => "promise less: they acknowledge before they flush",
        false => "promise more: they flush before they acknowledge",
    };
    let sides = [
        (true, "systems that promise the same".to_owned()),
        (false, format!("systems that {other_promise}")),
    ];
    for (is_same, whom) in sides {
        let among: Vec<&Comparison<'_>> = found
            .iter()
            .filter(|one| one.is_same_guarantee() == is_same)
            .collect();
        if among.is_empty() {
            continue;
        }
        let those: Vec<&Comparison<'_>> = among
            .iter()
            .copied()
            .filter(|one| one.verdict == verdict)
            .collect();
        let count = match those.len() {
            0 => Text::strong("None"),
            those => Text::strong(number::count(those as u64)),
        };
        let end = if those.is_empty() { "." } else { ":" };
        document.paragraph(count.and(format!(
            " of {} comparisons with {whom}{end}",
            number::count(among.len() as u64)
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
fn opponent(one: &Comparison<'_>) -> String {
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
    let figures = format!(
        "{} against {}",
        number::plain(one.ours.median),
        number::plain(one.theirs.median)
    );
    match one.times() {
        Some(times) => format!("{} {} ({figures})", one.row.name, number::factor(times)),
        None => format!("{} {figures}", one.row.name),
    }
}

/// How often each verdict fell, for each pair of systems.
fn push_score(document: &mut Document, found: &[Comparison<'_>]) {
    let mut pairs: Vec<(String, String)> = Vec::new();
    for one in found {
        let pair = (columns::title(one.our_system), opponent(one));
        if !pairs.contains(&pair) {
            pairs.push(pair);
        }
    }
    let is_one = pairs.iter().all(|(ours, _)| *ours == pairs[0].0);
    let lines = pairs.iter().map(|(ours, whom)| {
        let of: Vec<&Comparison<'_>> = found
            .iter()
            .filter(|one| columns::title(one.our_system) == *ours && opponent(one) == *whom)
            .collect();
        let count = |verdict| of.iter().filter(|one| one.verdict == verdict).count() as u64;
        let counts = [Verdict::Worse, Verdict::NoDifference, Verdict::Better].map(count);
        let label = if is_one {
            whom.clone()
        } else {
            format!("{ours} against {whom}")
        };
        let cells = counts.map(|count| Text::from(number::count(count))).to_vec();
        Line::Cells(Text::from(label), cells)
    });
    let label = if is_one {
        format!("{} against", pairs[0].0)
    } else {
        "pair".to_owned()
    };
    document.blocks.push(Block::Table(Table {
        label,
        columns: ["worse", "no difference", "better"].map(str::to_owned).to_vec(),
        lines: lines.collect(),
        figures: true,
        ..Table::default()
    }));
}

/// How often each system has the best figure of a row, ties counted for all.
fn push_bests(document: &mut Document, results: &Results) {
    let mut bests: Vec<(u64, u64)> = vec![(0, 0); results.systems.len()];
    let mut asked = 0;
    for experiment in &results.experiments {
        let columns = columns::of(results, experiment);
        let metrics: Vec<&String> = experiment
            .metrics
            .iter()
            .filter(|metric| better(metric) != Better::Neither)
            .collect();
        for (row, metric) in experiment
            .rows
            .iter()
            .flat_map(|row| metrics.iter().map(move |m| (row, m)))
        {
            let best = cells::best(&columns, row, metric);
            asked += u64::from(best.contains(&true));
            for (number, counts) in bests.iter_mut().enumerate() {
                let mut own = columns
                    .iter()
                    .zip(&best)
                    .filter(|(column, _)| column.number == number);
                let (has_part, is_best) = (own.clone().next().is_some(), own.any(|(_, best)| *best));
                counts.0 += u64::from(is_best);
                counts.1 += u64::from(has_part);
            }
        }
    }
    if asked == 0 {
        return;
    }
    document.heading(2, "Who is best how often", "best");
    document.paragraph(
        "Of all rows and metrics in which a system took part: how often nothing was better than it, or, where the best \
         system does not flush, nothing that flushes. These are the bold figures of the tables.",
    );
    let lines = results.systems.iter().zip(bests).map(|(system, (best, part))| {
        let cells = [best, part].map(|count| Text::from(number::count(count)));
        Line::Cells(Text::from(columns::title(system)), cells.to_vec())
    });
    document.blocks.push(Block::Table(Table {
        label: "system".to_owned(),
        columns: ["best".to_owned(), "took part".to_owned()].to_vec(),
        lines: lines.collect(),
        figures: true,
        ..Table::default()
    }));
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
