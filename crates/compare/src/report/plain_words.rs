//! What was found, in some sentences for each measured table, those that our system loses first.
//!
//! They speak of the table's first metric in which our system can be set beside one that promises the same; then, if it loses to
//! them or is set beside nobody else, of those that promise something else, which is not scored; else of who is best there. Where
//! one client for both tells of a metric that comes before, of that, too.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::cells::{self, Standing};
use super::columns;
use super::comparisons::{self, Comparison};
use super::document::{Document, Text};
use super::guesses::has_own_loads;
use super::measured::{Verdict, better, title};
use super::overview::{join, point};
use crate::results::{Better, Experiment, Results, SystemFacts};
use bench::number;

/// What is said of one table: how each of our systems stands in it that has to be told of.
struct Told<'a> {
    experiment: &'a Experiment,
    outcomes: Vec<Outcome<'a>>,
}

/// How one of our systems stands in one table: for each row, beside the best of those that decide it.
struct Outcome<'a> {
    experiment: &'a Experiment,
    our: &'a SystemFacts,
    metric: &'a str,
    /// The client that both had, if it is not the best one of both.
    client: Option<&'a str>,
    /// What the others promise, if it is not the same: then nothing of it is scored.
    promise: Option<&'static str>,
    lost: Vec<&'a Comparison<'a>>,
    level: Vec<&'a Comparison<'a>>,
    won: Vec<&'a Comparison<'a>>,
}

/// Adds the section, if anything can be said.
pub(crate) fn push(document: &mut Document, results: &Results, found: &[Comparison<'_>]) {
    let Some(first) = results.systems.first() else {
        return;
    };
    let experiments = results.experiments.iter();
    let mut told: Vec<Told<'_>> = experiments
        .filter_map(|experiment| Told::of(experiment, results, found))
        .collect();
    told.sort_by(|one, other| {
        let parts = other.parts().partial_cmp(&one.parts());
        parts.expect("parts of some rows are numbers")
    });
    let mut points: Vec<Text> = told.iter().map(|told| told.point(results)).collect();
    points.extend(beside_others(results, found));
    if points.is_empty() || results.systems.len() < 2 {
        return;
    }
    document.heading(2, "In plain words", "plain-words");
    document.paragraph(in_all(&told, first));
    document.paragraph(format!(
        "Some sentences for each table, by its first metric. They speak of systems that promise the same as {0}, each through its best \
         client. Where there are none, or where {0} loses to others, they speak of these, too, and say so; where only one client for \
         both tells of the first metric, of what it tells. What is lost comes first.",
        first.title
    ));
    document.list(points);
}

impl<'a> Told<'a> {
    /// None of a table in which nothing was measured.
    fn of(experiment: &'a Experiment, results: &'a Results, found: &'a [Comparison<'a>]) -> Option<Self> {
        let first = results.systems.first()?;
        let mut cells = experiment.rows.iter().flat_map(|row| &row.cells);
        if !cells.any(|cell| !cell.runs.is_empty()) {
            return None;
        }
        let outcomes = match outcomes(experiment, first, found) {
            outcomes if outcomes.iter().any(Outcome::is_scored) => outcomes,
            _ => {
                let systems = results.systems.iter();
                let ours = systems.filter(|system| comparisons::is_variant_of(system, first));
                ours.flat_map(|our| outcomes(experiment, our, found)).collect()
            }
        };
        Some(Self { experiment, outcomes })
    }

    /// Which part of the rows is lost at most to those that promise the same, which to others, and which is level.
    fn parts(&self) -> [f64; 3] {
        let parts = self.outcomes.iter().map(Outcome::parts);
        parts.fold([0.0; 3], |most, one| {
            [0, 1, 2].map(|part| most[part].max(one[part]))
        })
    }

    fn point(&self, results: &Results) -> Text {
        let words = match self.outcomes.is_empty() {
            true => without_ours(results, self.experiment),
            false => {
                let mut outcomes: Vec<&Outcome<'_>> = self.outcomes.iter().collect();
                outcomes.sort_by_key(|outcome| outcome.lost.is_empty());
                let follows_unscored = |number: usize| outcomes[..number].iter().any(|one| !one.is_scored());
                let sentences = outcomes.iter().enumerate();
                let sentences: Vec<String> = sentences
                    .map(|(number, outcome)| outcome.sentence(follows_unscored(number)))
                    .collect();
                sentences.join(" ")
            }
        };
        point(&format!("{}. ", self.experiment.title), words)
    }
}

/// How our first system stands in all tables together, beside those that promise the same.
fn in_all(told: &[Told<'_>], first: &SystemFacts) -> String {
    let outcomes = told.iter().flat_map(|told| &told.outcomes);
    let outcomes =
        outcomes.filter(|one| one.is_scored() && one.client.is_none() && one.our.name == first.name);
    let (mut won, mut level, mut lost) = (0, 0, 0);
    for outcome in outcomes {
        won += outcome.won.len();
        level += outcome.level.len();
        lost += outcome.lost.len();
    }
    let title = columns::title(first);
    match won + level + lost {
        0 => format!("{title} is set beside no system that promises the same."),
        all => format!(
            "Beside systems that promise the same, each through its best client and by the first metric of each table that can be \
             compared, {title} is first in {}; it is level with the best in {level}, and loses {lost}.",
            of_rows(won, all)
        ),
    }
}

/// All that is told of one of our systems in a table: beside those that promise the same; beside others where there are none of
/// these, or where something is lost to them.
fn outcomes<'a>(
    experiment: &'a Experiment,
    our: &'a SystemFacts,
    found: &'a [Comparison<'a>],
) -> Vec<Outcome<'a>> {
    let mut told: Vec<Outcome<'a>> = Vec::new();
    for is_same in [true, false] {
        let is_meant = |one: &&Comparison<'_>| {
            let is_ours = one.our_system.name == our.name && std::ptr::eq(one.experiment, experiment);
            is_ours && one.is_same_guarantee() == is_same
        };
        let mut outcomes = through_clients(found.iter().filter(is_meant).collect());
        if !told.is_empty() {
            outcomes.retain(|outcome| !outcome.lost.is_empty());
        }
        told.extend(outcomes);
    }
    told
}

/// Through the best client of both; and through each that both have, where that tells of a metric that comes before.
fn through_clients<'a>(those: Vec<&'a Comparison<'a>>) -> Vec<Outcome<'a>> {
    let through = |client: Option<&str>| {
        let those = those.iter().copied();
        Outcome::of(those.filter(|one| one.common_client == client).collect())
    };
    let best = through(None);
    let place = best.as_ref().map(Outcome::place);
    let clients: BTreeSet<&str> = those.iter().filter_map(|one| one.common_client).collect();
    let common = clients
        .into_iter()
        .filter_map(|client| through(Some(client)))
        .filter(|common| place.is_none_or(|place| common.place() < place));
    best.into_iter().chain(common).collect()
}

impl<'a> Outcome<'a> {
    /// Of what was found of one of our systems in one table, through one client and beside those of one promise.
    fn of(those: Vec<&'a Comparison<'a>>) -> Option<Self> {
        let one = *those.first()?;
        let experiment = one.experiment;
        let mut metrics = experiment.metrics.iter();
        let metric = metrics
            .find(|metric| those.iter().any(|one| one.metric == **metric))?
            .as_str();
        let mut outcome = Self {
            experiment,
            our: one.our_system,
            metric,
            client: one.common_client,
            promise: (!one.is_same_guarantee()).then(|| comparisons::promise(&those)),
            lost: Vec::new(),
            level: Vec::new(),
            won: Vec::new(),
        };
        for row in &experiment.rows {
            let best = |verdict: Verdict| {
                let rivals = those.iter().copied().filter(|one| {
                    one.metric == metric && std::ptr::eq(one.row, row) && one.verdict == verdict
                });
                best_rival(metric, rivals)
            };
            if let Some(rival) = best(Verdict::Worse) {
                outcome.lost.push(rival);
            } else if let Some(rival) = best(Verdict::NoDifference) {
                outcome.level.push(rival);
            } else {
                outcome.won.extend(best(Verdict::Better));
            }
        }
        Some(outcome)
    }

    fn rows(&self) -> usize {
        self.lost.len() + self.level.len() + self.won.len()
    }

    /// Which part of the rows is lost to those that promise the same, which to others, and which is level.
    fn parts(&self) -> [f64; 3] {
        let part = |rows: &[&Comparison<'_>]| rows.len() as f64 / self.rows().max(1) as f64;
        let (lost, level) = (part(&self.lost), part(&self.level));
        match self.is_scored() {
            true => [lost, 0.0, level],
            false => [0.0, lost, level],
        }
    }

    /// Whether it is beside those that promise the same.
    fn is_scored(&self) -> bool {
        self.promise.is_none()
    }

    /// The place of its metric among those of the table.
    fn place(&self) -> Option<usize> {
        let mut metrics = self.experiment.metrics.iter();
        metrics.position(|metric| metric == self.metric)
    }

    /// `follows_unscored` says that a sentence before it speaks of those that promise something else.
    fn sentence(&self, follows_unscored: bool) -> String {
        let beside = match (self.promise, self.client) {
            (None, None) if !follows_unscored => String::new(),
            (None, None) => "Beside systems that promise the same, ".to_owned(),
            (None, Some(client)) if !follows_unscored => format!("Through {client} on both sides, "),
            (None, Some(client)) => {
                format!("Beside systems that promise the same, through {client} on both sides, ")
            }
            (Some(promise), None) => format!("Beside systems that promise {promise} (not scored), "),
            (Some(promise), Some(client)) => {
                format!(
                    "Beside systems that promise {promise} (not scored), through {client} on both sides, "
                )
            }
        };
        let ours = format!("{beside}{}", columns::title(self.our));
        let load = match has_own_loads(self.experiment) {
            true => ", each system at its own load",
            false => "",
        };
        let by = format!("by {}{load}", plain_name(self.metric));
        let rows = self.rows();
        let mut words = match (self.lost.is_empty(), self.won.is_empty()) {
            (false, _) => format!(
                "{ours} loses {} {by}. {}",
                of_rows(self.lost.len(), rows),
                self.widest_loss()
            ),
            (true, false) => format!(
                "{ours} is first in {} {by}{}.",
                of_rows(self.won.len(), rows),
                self.lead()
            ),
            (true, true) => format!(
                "{ours} is level with the best in {} {by}.",
                of_rows(self.level.len(), rows)
            ),
        };
        let rest = match (self.lost.is_empty(), self.won.len(), self.level.len()) {
            (false, 0, 0) | (true, _, 0) | (true, 0, _) => String::new(),
            (false, won, 0) => format!(" It is first in {won}."),
            (false, 0, level) | (true, _, level) => format!(" It is level with the best in {level}."),
            (false, won, level) => format!(" It is first in {won}, and level with the best in {level}."),
        };
        words.push_str(&rest);
        words
    }

    /// The row that is lost by most.
    fn widest_loss(&self) -> String {
        let width = |one: &Comparison<'_>| one.times().unwrap_or(f64::INFINITY);
        let by_width = |one: &&&Comparison<'_>, other: &&&Comparison<'_>| width(one).total_cmp(&width(other));
        let Some(widest) = self.lost.iter().max_by(by_width) else {
            return String::new();
        };
        let times = widest.times().map(|times| format!("{} ", number::factor(times)));
        let times = times.unwrap_or_default();
        format!(
            "{} “{}”, {} is {times}better ({} against {}).",
            if self.lost.len() == 1 { "In" } else { "By most in" },
            widest.row.name,
            columns::title(widest.other_system),
            number::plain(widest.theirs.median),
            number::plain(widest.ours.median)
        )
    }

    /// How far the next best is behind.
    fn lead(&self) -> String {
        let times: Option<Vec<f64>> = self.won.iter().map(|one| one.times()).collect();
        let Some(mut times) = times else {
            return String::new();
        };
        times.sort_by(f64::total_cmp);
        let ends =
            [times.first(), times.last()].map(|end| end.copied().map_or_else(String::new, number::factor));
        let span = match ends[0] == ends[1] {
            true => ends[0].clone(),
            false => format!("{} to {}", ends[0], ends[1]),
        };
        let mut rivals: Vec<String> = Vec::new();
        for one in &self.won {
            let rival = columns::title(one.other_system);
            if !rivals.contains(&rival) {
                rivals.push(rival);
            }
        }
        let rivals = join(&rivals);
        let is_time = self.metric.ends_with("_us") || self.metric.ends_with("_s");
        match better(self.metric) {
            Better::Less if is_time => format!(": the next best ({rivals}) takes {span} as long"),
            Better::Less => format!(": the next best ({rivals}) needs {span} as much"),
            _ => format!(": {span} the next best ({rivals})"),
        }
    }
}

/// The best of the others.
fn best_rival<'a>(
    metric: &str,
    rivals: impl Iterator<Item = &'a Comparison<'a>>,
) -> Option<&'a Comparison<'a>> {
    let by_median =
        |one: &&Comparison<'_>, other: &&Comparison<'_>| one.theirs.median.total_cmp(&other.theirs.median);
    match better(metric) {
        Better::Less => rivals.min_by(by_median),
        _ => rivals.max_by(by_median),
    }
}

/// Who is best in a table in which nothing of ours could be set beside anything.
fn without_ours(results: &Results, experiment: &Experiment) -> String {
    let columns = columns::of(results, experiment);
    for metric in &experiment.metrics {
        let standings = experiment.rows.iter();
        let standings: Vec<Vec<Standing>> = standings
            .map(|row| cells::standings(&columns, row, metric))
            .filter(|standings| standings.contains(&Standing::Best))
            .collect();
        let count = |number: usize| {
            let is_best = |standings: &&Vec<Standing>| {
                let mut own = columns.iter().zip(standings.iter());
                own.any(|(column, standing)| column.number == number && *standing == Standing::Best)
            };
            standings.iter().filter(is_best).count()
        };
        let systems = results.systems.iter().enumerate();
        let mut bests: Vec<(&SystemFacts, usize)> = systems
            .map(|(number, system)| (system, count(number)))
            .filter(|(_, rows)| *rows > 0)
            .collect();
        bests.sort_by_key(|(_, rows)| Reverse(*rows));
        let bests: Vec<String> = bests
            .iter()
            .map(|(system, rows)| {
                let (title, all) = (columns::title(system), standings.len());
                format!("{title} in {rows} of {all} rows")
            })
            .collect();
        if !bests.is_empty() {
            return format!(
                "{} and its variants are set beside nobody here. Best by {} among those that promise the same, alone or level: {}.",
                results
                    .systems
                    .first()
                    .map_or("The first system", |first| first.title.as_str()),
                plain_name(metric),
                join(&bests)
            );
        }
    }
    "None of its figures could be set beside another.".to_owned()
}

/// How our systems stand beside those that promise something else.
fn beside_others(results: &Results, found: &[Comparison<'_>]) -> Option<Text> {
    let sentence = |our: &SystemFacts| {
        let is_meant = |one: &&Comparison<'_>| {
            let is_ours = one.our_system.name == our.name && one.common_client.is_none();
            is_ours && !one.is_same_guarantee()
        };
        let those: Vec<&Comparison<'_>> = found.iter().filter(is_meant).collect();
        let count = |verdict| number::count(those.iter().filter(|one| one.verdict == verdict).count() as u64);
        (!those.is_empty()).then(|| {
            format!(
                "Beside systems that promise {}, {} is worse in {} and better in {} of {} figures.",
                comparisons::promise(&those),
                columns::title(our),
                count(Verdict::Worse),
                count(Verdict::Better),
                number::count(those.len() as u64)
            )
        })
    };
    let sentences: Vec<String> = results.systems.iter().filter_map(sentence).collect();
    (!sentences.is_empty()).then(|| point("Not scored. ", sentences.join(" ")))
}

/// "3 of 4 rows", "its one row".
fn of_rows(some: usize, all: usize) -> String {
    match all {
        1 => "its one row".to_owned(),
        all => format!("{some} of {all} rows"),
    }
}

/// A metric as it is said.
fn plain_name(metric: &str) -> &str {
    match metric {
        "p50_us" => "median latency",
        "p99_us" => "latency at the 99th percentile",
        "mean_us" => "mean latency",
        "delivery_p50_us" => "median time until the consumer has a record",
        "records_per_s" => "records per second",
        "mb_per_s" => "MB per second",
        "read_records_per_s" => "records read per second",
        "ready_s" => "time until it is ready",
        "first_ack_s" => "time to the first acknowledgement",
        other => title(other),
    }
}

#[cfg(test)]
mod tests;
