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
        write_list(f, "Differs around them", self.surroundings.iter())?;
        write_list(
            f,
            "Unlike machines, so no figure is judged (--any-machine judges all the same)",
            self.unlike_machines.iter(),
        )?;
        let broken = self
            .broken
            .iter()
            .map(|broken| format!("{}: {}", broken.place, broken.why));
        write_list(f, "Broken", broken)?;
        write_list(f, "What the machine moved", self.drift_line().iter())?;
        write_changes(f, "Worse", &self.of(Some(Verdict::Worse)))?;
        write_changes(f, "Better", &self.of(Some(Verdict::Better)))?;
        write_list(f, "Only before", self.only_before.iter())?;
        write_list(f, "Only after", self.only_after.iter())?;
        let counts = [Verdict::Worse, Verdict::Better, Verdict::NoDifference]
            .map(|verdict| self.of(Some(verdict)).len());
        writeln!(
            f,
            "\n{} worse, {} better, {} without a difference, {} broken{}",
            counts[0],
            counts[1],
            counts[2],
            self.broken.len(),
            match self.of(None).len() {
                0 => String::new(),
                unjudged => format!(", {unjudged} not judged"),
            }
        )?;
        let (judged, worse) = self.judged_and_worse();
        writeln!(
            f,
            "worse figures of {}: {worse} of {judged}; by chance about {:.0}, and hardly ever more than {}",
            self.about,
            bands::by_chance(judged),
            bands::by_chance_at_most(judged)
        )
    }
}

impl Diff {
    /// What systems that did not change show of it; none where there are none.
    fn drift_line(&self) -> Option<String> {
        let moved = self
            .drift
            .iter()
            .map(|(metric, times)| format!("{} {times:.2}×", measured::title(metric)));
        let moved: Vec<String> = moved.collect();
        (!moved.is_empty()).then(|| {
            format!(
                "figures of systems that did not change, in the middle, as multiples of what they were: {}",
                moved.join("; ")
            )
        })
    }

    /// The changes with this verdict, or those with none, the widest first.
    fn of(&self, verdict: Option<Verdict>) -> Vec<&Change> {
        let mut changes: Vec<&Change> = self
            .changes
            .iter()
            .filter(|change| change.verdict == verdict)
            .collect();
        // In tenths of a percent: what reads alike stays in the order of the tables.
        let width = |change: &Change| {
            let percent = change.change_percent;
            percent.map_or(f64::INFINITY, |percent| (percent.abs() * 10.0).round())
        };
        changes.sort_by(|one, other| width(other).total_cmp(&width(one)));
        changes
    }
}

fn write_list(
    f: &mut fmt::Formatter<'_>,
    title: &str,
    lines: impl Iterator<Item = impl fmt::Display>,
) -> fmt::Result {
    let mut lines = lines.peekable();
    if lines.peek().is_some() {
        writeln!(f, "\n{title}")?;
    }
    lines.try_for_each(|line| writeln!(f, "  {line}"))
}

fn write_changes(f: &mut fmt::Formatter<'_>, title: &str, changes: &[&Change]) -> fmt::Result {
    let lines: Vec<(String, String)> = changes
        .iter()
        .map(|change| (figures(change), what(change)))
        .collect();
    let width = lines
        .iter()
        .map(|(figures, _)| figures.chars().count())
        .max()
        .unwrap_or(0);
    let lines = lines
        .iter()
        .map(|(figures, what)| format!("{figures:<width$}  {what}"));
    write_list(f, title, lines)
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
