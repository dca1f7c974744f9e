//! Trials of a cell: short runs that do not count, made until its system and its client are as fast at this load as they get.
//! They also tell how long a warm-up is.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::{Measured, Runner};
use crate::plan::RowPlan;
use crate::work::Manner;

/// The length of a trial, in times of a run.
const TRIAL_SHARE: f64 = 0.5;
/// No further trial begins after so long: making thousands of shards for each takes minutes, and so do many records.
const TRIALS_WITHIN: Duration = Duration::from_secs(60);
/// A latency that is not lower by a tenth is as low as it will be.
const LOWER: f64 = 0.9;
/// A rate that is not higher by this is as high as it will be.
const HIGHER: f64 = 1.05;

/// What tells whether trials still get faster.
struct Judged {
    /// The figure that decides: the first of these that there is.
    names: &'static [&'static str],
    /// So many trials at most.
    most: usize,
    /// Whether the last is clearly better than the one before.
    is_better: fn(f64, f64) -> bool,
}

/// At a rate, the latency decides.
const BY_LATENCY: Judged = Judged {
    names: &["delivery_p50_us", "p50_us"],
    most: 6,
    is_better: |last, before| last < before * LOWER,
};

const BY_RATE: Judged = Judged {
    names: &["records_per_s"],
    most: 4,
    is_better: |last, before| last > before * HIGHER,
};

impl Judged {
    fn of(rate: Option<f64>) -> Judged {
        if rate.is_some() { BY_LATENCY } else { BY_RATE }
    }

    fn figure(&self, figures: &BTreeMap<String, f64>) -> Option<f64> {
        self.names.iter().find_map(|name| figures.get(*name)).copied()
    }

    /// Whether trials with these figures are enough.
    fn are_enough(&self, found: &[f64]) -> bool {
        let is_steady = matches!(found, [.., before, last] if !(self.is_better)(*last, *before));
        found.len() >= self.most || is_steady
    }
}

impl Runner<'_> {
    /// Makes the trials of a cell, whose runs are made so.
    pub(super) fn try_out(
        &mut self,
        row: &RowPlan,
        cell: &mut Measured,
        manner: Manner,
        what: &str,
    ) -> Result<()> {
        let (judged, began) = (Judged::of(manner.rate), Instant::now());
        let mut found = Vec::new();
        while !judged.are_enough(&found) && (found.is_empty() || began.elapsed() < TRIALS_WITHIN) {
            let trial = Manner {
                seconds: manner.seconds * TRIAL_SHARE,
                known_rate: cell.known_rate,
                verify: false,
                counts: false,
                ..manner
            };
            let outcome = self.work(row, cell, trial, what)?;
            cell.known_rate = outcome.figures.get("records_per_s").copied();
            match judged.figure(&outcome.figures) {
                Some(figure) => found.push(figure),
                None => break,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trials_go_on_while_they_get_faster_up_to_a_limit() {
        let paced = BY_LATENCY;
        assert!(!paced.are_enough(&[]) && !paced.are_enough(&[246_000.0]));
        assert!(!paced.are_enough(&[246_000.0, 31_800.0, 574.0]));
        assert!(paced.are_enough(&[31_800.0, 574.0, 560.0]) && paced.are_enough(&[574.0, 900.0]));
        assert!(paced.are_enough(&[64.0, 32.0, 16.0, 8.0, 4.0, 2.0]));
        let unpaced = BY_RATE;
        assert!(!unpaced.are_enough(&[5_000.0]) && !unpaced.are_enough(&[5_000.0, 5_600.0]));
        assert!(unpaced.are_enough(&[5_000.0, 5_200.0]) && unpaced.are_enough(&[5_000.0, 4_000.0]));
        assert!(unpaced.are_enough(&[1.0, 2.0, 4.0, 8.0]));
    }

    #[test]
    fn at_a_rate_the_latency_decides_and_deliveries_before_appends() {
        let mut figures = BTreeMap::from([("records_per_s".to_owned(), 9.0)]);
        let (paced, unpaced) = (Judged::of(Some(1e3)), Judged::of(None));
        assert_eq!(
            (paced.figure(&figures), unpaced.figure(&figures)),
            (None, Some(9.0))
        );
        figures.insert("p50_us".to_owned(), 12.0);
        assert_eq!(paced.figure(&figures), Some(12.0));
        figures.insert("delivery_p50_us".to_owned(), 30.0);
        assert_eq!(paced.figure(&figures), Some(30.0));
    }
}
