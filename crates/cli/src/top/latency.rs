//! Percentiles of how long things took at the node, from the buckets in which it counts them.
//!
//! Within a bucket nothing is known: its times are taken as evenly spread. Nothing more exact than that may be claimed.

use serde_json::{Value, json};

use super::exposition::{Buckets, Exposition};
use super::units::{count, time};
use crate::output::or_dash;

/// The kinds of times: a word for each, and its metric.
const TIMED: [(&str, &str); 3] = [
    ("produce", "ropewalk_produce_latency_seconds"),
    ("fetch", "ropewalk_fetch_latency_seconds"),
    ("flush", "ropewalk_flush_latency_seconds"),
];
/// The percentiles that are told: what they are called for people and for programs, and of how many in a thousand.
const TOLD: [(&str, &str, u64); 3] = [("p50", "p50", 500), ("p99", "p99", 990), ("p99.9", "p999", 999)];

/// The times of each kind at the node.
#[derive(Debug, Clone)]
pub(super) struct Latencies {
    /// Over all the time that the node runs, not over an interval.
    since_start: bool,
    /// As `TIMED`; `None` where the node does not tell.
    timed: [Option<Spread>; TIMED.len()],
}

/// Durations by bucket: upper bounds in seconds, ascending, and how many took so long; the bounds of neighbours differ.
#[derive(Debug, Clone, Default, PartialEq)]
struct Spread {
    buckets: Vec<(f64, u64)>,
}

/// The time that so many took no longer than, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Percentile {
    seconds: f64,
    is: Precision,
}

/// The precision of a percentile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Precision {
    /// It lies somewhere in the bucket that this is a point of.
    Estimate,
    /// This is its bucket's end: it may be less.
    AtMost,
    /// It is beyond the longest time that is told apart.
    Above,
}

impl Latencies {
    /// The times between two looks; since the node's start if there was none before.
    pub(super) fn between(before: Option<&Exposition>, now: &Exposition) -> Latencies {
        Latencies {
            since_start: before.is_none(),
            timed: TIMED.map(|(_, metric)| Spread::between(before, now, metric)),
        }
    }

    /// A word and figures for each kind.
    pub(super) fn lines(&self) -> impl Iterator<Item = (&'static str, String)> {
        let since = if self.since_start { "  since the start" } else { "" };
        let words = TIMED.iter().zip(&self.timed);
        words.map(move |((word, _), spread)| {
            let figures = spread.as_ref().map(|spread| spread.as_text() + since);
            (*word, or_dash(figures))
        })
    }

    pub(super) fn as_json(&self) -> Value {
        let mut json = json!({ "since_start": self.since_start });
        for ((word, _), spread) in TIMED.iter().zip(&self.timed) {
            json[*word] = spread.as_ref().map_or(Value::Null, Spread::as_json);
        }
        json
    }
}

impl Spread {
    fn between(before: Option<&Exposition>, now: &Exposition, metric: &str) -> Option<Spread> {
        let now = now.histograms(metric)?;
        let before = before.map(|before| before.histograms(metric).unwrap_or_default());
        let nothing = Buckets::new();
        let mut spread = Spread::default();
        for (subject, buckets) in &now {
            let earlier = match &before {
                None => &nothing,
                Some(before) => match before.get(subject) {
                    Some(earlier) => earlier,
                    // Of a core that was silent then it is not known what happened since.
                    None => continue,
                },
            };
            // After the node's start it began at zero again.
            let began_anew = total(earlier) > total(buckets);
            spread.add(buckets, if began_anew { &nothing } else { earlier });
        }
        Some(spread)
    }

    /// Adds what cumulative buckets hold beyond an earlier state of theirs.
    fn add(&mut self, buckets: &Buckets, earlier: &[(f64, u64)]) {
        let (mut below, mut below_earlier) = (0, 0);
        for (bound, up_to) in buckets {
            let found = earlier.iter().find(|(same, _)| same == bound);
            let up_to_earlier = found.map_or(below_earlier, |(_, up_to)| *up_to);
            let grown = up_to
                .saturating_sub(below)
                .saturating_sub(up_to_earlier.saturating_sub(below_earlier));
            (below, below_earlier) = (*up_to, up_to_earlier);
            match self.buckets.binary_search_by(|(own, _)| own.total_cmp(bound)) {
                Ok(place) => self.buckets[place].1 = self.buckets[place].1.saturating_add(grown),
                Err(place) => self.buckets.insert(place, (*bound, grown)),
            }
        }
    }

    fn count(&self) -> u64 {
        self.buckets
            .iter()
            .fold(0, |sum, (_, count)| sum.saturating_add(*count))
    }

    /// The time that so many of a thousand took no longer than; `None` if there are none.
    fn percentile(&self, of_thousand: u64) -> Option<Percentile> {
        let wanted = u128::from(self.count()) * u128::from(of_thousand);
        let rank = u64::try_from(wanted.div_ceil(1_000)).unwrap_or(u64::MAX).max(1);
        let (mut below, mut lower) = (0_u64, 0.0);
        for (bound, count) in &self.buckets {
            let place = rank - below;
            if place > *count {
                below += count;
                lower = *bound;
                continue;
            }
            let (seconds, is) = if bound.is_infinite() {
                (lower, Precision::Above)
            } else if place == *count {
                (*bound, Precision::AtMost)
            } else {
                let part = place as f64 / *count as f64;
                (lower + (bound - lower) * part, Precision::Estimate)
            };
            return Some(Percentile { seconds, is });
        }
        None
    }

    fn as_text(&self) -> String {
        let told = TOLD.iter().filter_map(|(name, _, of_thousand)| {
            let percentile = self.percentile(*of_thousand)?;
            Some(format!("{name} {}", percentile.as_text()))
        });
        let told: Vec<String> = told.collect();
        match told.is_empty() {
            true => "none".to_owned(),
            false => format!("{}  of {}", told.join("  "), count(self.count() as f64)),
        }
    }

    fn as_json(&self) -> Value {
        let mut json = json!({ "count": self.count() });
        for (_, name, of_thousand) in TOLD {
            let percentile = self.percentile(of_thousand);
            json[format!("{name}_seconds")] = json!(percentile.map(|percentile| percentile.seconds));
            json[format!("{name}_is")] = json!(percentile.map(|percentile| percentile.is.word()));
        }
        json
    }
}

/// The number of samples in cumulative buckets.
fn total(buckets: &Buckets) -> u64 {
    buckets.last().map_or(0, |(_, up_to)| *up_to)
}

impl Percentile {
    fn as_text(self) -> String {
        let sign = match self.is {
            Precision::Estimate => "",
            Precision::AtMost => "≤",
            Precision::Above => ">",
        };
        format!("{sign}{}", time(self.seconds))
    }
}

impl Precision {
    /// As programs read it.
    fn word(self) -> &'static str {
        match self {
            Precision::Estimate => "estimate",
            Precision::AtMost => "at_most",
            Precision::Above => "above",
        }
    }
}

#[cfg(test)]
mod tests;
