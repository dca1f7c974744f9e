//! A diff as text: what is worse first, then what is better; what is within the noise is only counted.

use std::fmt;

use super::{Change, Diff, Place, bands};
use crate::report::{Verdict, measured};
use bench::number;

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}: {}", self.experiment, self.row, self.system)?;
        match self.driver.is_empty() {
            true => Ok(()),
            false => write!(f, " through {}", self.driver),
        }
    }
}

impl fmt::Display for Diff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "suite {}, {} and {}", self.suite, self.began[0], self.began[1])?;
        let broken = self.broken.iter();
        let broken = broken.map(|broken| format!("{}: {}", broken.place, broken.why));
        let unlike = "Unlike machines, so no figure is judged (--any-machine judges all the same)";
        for (title, list) in [
            ("Differs around them", &self.surroundings),
            (unlike, &self.unlike_machines),
            ("Broken", &broken.collect()),
            ("What the machine moved", &self.drift_line()),
            ("Worse", &self.lines(Verdict::Worse)),
            ("Better", &self.lines(Verdict::Better)),
            ("Only before", &self.only_before),
            ("Only after", &self.only_after),
        ] {
            if !list.is_empty() {
                writeln!(f, "\n{title}\n  {}", list.join("\n  "))?;
            }
        }
        let count = |verdict: Option<Verdict>| self.of(verdict).len();
        write!(
            f,
            "\n{} worse, {} better, {} without a difference, {} broken",
            count(Some(Verdict::Worse)),
            count(Some(Verdict::Better)),
            count(Some(Verdict::NoDifference)),
            self.broken.len()
        )?;
        if count(None) > 0 {
            write!(f, ", {} not judged", count(None))?;
        }
        let (judged, worse) = self.judged_and_worse();
        writeln!(
            f,
            "\nworse figures of {}: {worse} of {judged}; by chance about {:.0}, and hardly ever more than {}",
            self.about,
            bands::by_chance(judged),
            bands::by_chance_at_most(judged)
        )
    }
}

impl Diff {
    /// What systems that did not change show of it; nothing where there are none.
    fn drift_line(&self) -> Vec<String> {
        let moved = self.drift.iter();
        let moved = moved.map(|(metric, times)| format!("{} {times:.2}×", measured::title(metric)));
        let moved = moved.collect::<Vec<_>>().join("; ");
        let line = "figures of systems that did not change, in the middle, as multiples of what they were: ";
        let told = (!moved.is_empty()).then(|| format!("{line}{moved}"));
        told.into_iter().collect()
    }

    /// The changes with this verdict, or those with none, the widest first.
    fn of(&self, verdict: Option<Verdict>) -> Vec<&Change> {
        let changes = self.changes.iter();
        let mut changes: Vec<&Change> = changes.filter(|change| change.verdict == verdict).collect();
        // In tenths of a percent: what reads alike stays in the order of the tables.
        let width = |change: &Change| {
            let percent = change.change_percent;
            percent.map_or(f64::INFINITY, |percent| (percent.abs() * 10.0).round())
        };
        changes.sort_by(|one, other| width(other).total_cmp(&width(one)));
        changes
    }

    /// The same as text, their figures in a column.
    fn lines(&self, verdict: Verdict) -> Vec<String> {
        let changes = self.of(Some(verdict));
        let figures: Vec<String> = changes.iter().map(|change| figures(change)).collect();
        let widths = figures.iter().map(|figures| figures.chars().count());
        let width = widths.max().unwrap_or(0);
        let lines = figures.iter().zip(changes);
        lines
            .map(|(figures, change)| format!("{figures:<width$}  {}", what(change)))
            .collect()
    }
}

fn what(change: &Change) -> String {
    format!("{}, {}", change.place, measured::title(&change.metric))
}

/// "+30 % (noise 4 %)  100 -> 130".
fn figures(change: &Change) -> String {
    let (before, after) = (number::plain(change.before), number::plain(change.after));
    let moved = match (change.change_percent, change.noise_percent) {
        (Some(moved), Some(noise)) => {
            let sign = if moved > 0.0 { "+" } else { "" };
            let [moved, noise] = [moved, noise].map(|percent| number::percent(percent / 100.0));
            format!("{sign}{moved} (noise {noise})")
        }
        _ => "from nothing".to_owned(),
    };
    format!("{moved}  {before} -> {after}")
}
