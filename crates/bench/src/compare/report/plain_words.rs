//! What was found, in about ten sentences: one for each table, those that our system loses first.
//!
//! Each speaks of the table's first metric in which our system can be set beside one that promises the same.

use super::columns;
use super::comparisons::Comparison;
use super::document::{Document, Text};
use super::guesses::has_own_loads;
use super::measured::{Verdict, better, title};
use super::number;
use super::overview::{join, point};
use crate::compare::results::{Better, Experiment, Results, SystemFacts};

/// How many points there are at most.
const SENTENCES: usize = 10;

/// How our system stands in one table: for each row, beside the best of those that decide it.
struct Outcome<'a> {
    experiment: &'a Experiment,
    metric: &'a str,
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
    let mut outcomes: Vec<Outcome<'_>> = experiments
        .filter_map(|experiment| Outcome::of(experiment, first, found))
        .collect();
    outcomes.sort_by(|one, other| {
        let [one, other] = [one, other].map(Outcome::parts);
        other.0.total_cmp(&one.0).then(other.1.total_cmp(&one.1))
    });
    let whole = match outcomes.len() {
        0..=SENTENCES => outcomes.len(),
        _ => SENTENCES - 1,
    };
    let (told, rest) = outcomes.split_at(whole);
    let mut points: Vec<Text> = told.iter().map(|outcome| outcome.sentence(first)).collect();
    points.extend(summary(rest, first));
    points.extend(beside_others(found, first));
    if points.is_empty() {
        return;
    }
    document.heading(2, "In plain words", "plain-words");
    document.paragraph(
        "A sentence for each table, by its first metric. It speaks of systems that promise the same, each through its best client. \
         What is lost comes first.",
    );
    document.list(points);
}

impl<'a> Outcome<'a> {
    fn of(experiment: &'a Experiment, first: &SystemFacts, found: &'a [Comparison<'a>]) -> Option<Self> {
        let is_meant = |one: &&Comparison<'_>| {
            let is_ours = one.our_system.name == first.name && one.common_client.is_none();
            is_ours && one.is_same_guarantee() && std::ptr::eq(one.experiment, experiment)
        };
        let those: Vec<&'a Comparison<'a>> = found.iter().filter(is_meant).collect();
        let mut metrics = experiment.metrics.iter();
        let metric = metrics
            .find(|metric| those.iter().any(|one| one.metric == **metric))?
            .as_str();
        let mut outcome = Self {
            experiment,
            metric,
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

    /// Which part of the rows is lost, and which is level.
    fn parts(&self) -> (f64, f64) {
        let part = |rows: &[&Comparison<'_>]| rows.len() as f64 / self.rows().max(1) as f64;
        (part(&self.lost), part(&self.level))
    }

    fn sentence(&self, first: &SystemFacts) -> Text {
        let ours = columns::title(first);
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
        point(&format!("{}. ", self.experiment.title), words)
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

/// All tables that have no sentence of their own, in one.
fn summary(rest: &[Outcome<'_>], first: &SystemFacts) -> Option<Text> {
    if rest.is_empty() {
        return None;
    }
    let sum = |count: fn(&Outcome<'_>) -> usize| rest.iter().map(count).sum::<usize>();
    let counts = [
        ("loses", sum(|outcome| outcome.lost.len())),
        ("is level with the best in", sum(|outcome| outcome.level.len())),
        ("is first in", sum(|outcome| outcome.won.len())),
    ];
    let counts: Vec<String> = counts
        .into_iter()
        .filter(|(_, rows)| *rows > 0)
        .map(|(words, rows)| format!("{words} {rows}"))
        .collect();
    let titles: Vec<String> = rest
        .iter()
        .map(|outcome| format!("“{}”", outcome.experiment.title))
        .collect();
    let words = format!(
        "Of {} rows in {}, {} {}.",
        rest.iter().map(Outcome::rows).sum::<usize>(),
        join(&titles),
        columns::title(first),
        join(&counts)
    );
    Some(point(&format!("The other {} tables. ", rest.len()), words))
}

/// How our system stands beside those that promise something else.
fn beside_others(found: &[Comparison<'_>], first: &SystemFacts) -> Option<Text> {
    let is_meant = |one: &&Comparison<'_>| {
        let is_ours = one.our_system.name == first.name && one.common_client.is_none();
        is_ours && !one.is_same_guarantee()
    };
    let those: Vec<&Comparison<'_>> = found.iter().filter(is_meant).collect();
    let count = |verdict| number::count(those.iter().filter(|one| one.verdict == verdict).count() as u64);
    let all = those.len() as u64;
    let what = match first.is_flushed() {
        true => "less",
        false => "something else",
    };
    (all > 0).then(|| {
        point(
            "Not scored. ",
            format!(
                "Beside systems that promise {what}, {} is worse in {} and better in {} of {} figures.",
                columns::title(first),
                count(Verdict::Worse),
                count(Verdict::Better),
                number::count(all)
            ),
        )
    })
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
