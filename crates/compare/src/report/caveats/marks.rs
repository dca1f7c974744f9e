//! Figures that are marked, and what the marks mean.

use super::super::cells;
use super::super::guesses::Guess;
use super::super::measured::{Measured, UNSTEADY};
use super::{cells_of, point};
use crate::report::document::Text;
use crate::results::Results;
use bench::number;

/// A kind of mark: what it is about, one figure and several of them, the mark, what it means.
struct Mark {
    about: &'static str,
    nouns: [&'static str; 2],
    sign: &'static str,
    means: String,
}

/// A point for each mark that stands in a table.
pub(super) fn points(results: &Results) -> Vec<Text> {
    let measured: Vec<Measured> = cells_of(results)
        .flat_map(|(experiment, row, cell)| {
            let metrics = experiment.metrics.iter();
            metrics.filter_map(move |metric| Measured::in_row(row, cell, metric, results.repetitions))
        })
        .collect();
    let count = |is_so: &dyn Fn(&Measured) -> bool| measured.iter().filter(|one| is_so(one)).count() as u64;
    let of_guess = |guess: Guess| (count(&|one| one.guess == Some(guess)), of(guess));
    let mut marks: Vec<(u64, Mark)> = [
        Guess::FewSamples,
        Guess::FewTicks,
        Guess::Behind,
        Guess::FewReads,
        Guess::FewRuns,
        Guess::LessToRead,
        Guess::Unwritten,
    ]
    .map(of_guess)
    .into();
    marks.push((count(&|one| one.guess.is_none() && one.is_unsteady()), unsteady()));
    let told = marks.into_iter().filter(|(count, _)| *count > 0);
    told.map(|(count, mark)| {
        let noun = mark.nouns[usize::from(count > 1)];
        let words = format!(
            "{} {noun}, marked {}: {}",
            number::count(count),
            mark.sign,
            mark.means
        );
        point(mark.about, words)
    })
    .collect()
}

/// What the mark of a guess means.
fn of(guess: Guess) -> Mark {
    let (about, nouns, means) = match guess {
        Guess::FewSamples => (
            "Few samples. ",
            ["percentile", "percentiles"],
            "fewer than ten samples lie above. Such a percentile says little more than the maximum, and wins or loses nothing.",
        ),
        Guess::FewTicks => (
            "Few ticks. ",
            ["figure of processor time", "figures of processor time"],
            "fewer than 20 ticks of the clock that tells it. Such a figure wins or loses nothing.",
        ),
        Guess::Behind => (
            "Behind. ",
            ["latency", "latencies"],
            "less than nine tenths of what was due was taken. Such a latency grows with the length of the run, and wins or loses \
             nothing. That the system could not keep up is what it says.",
        ),
        Guess::FewReads => (
            "Few reads. ",
            ["latency", "latencies"],
            "reads went on beside the appends for less than 90 % of the run; the rest of it was easier. Such a latency wins or \
             loses nothing.",
        ),
        Guess::FewRuns => (
            "Few repetitions. ",
            ["figure", "figures"],
            "half of the repetitions that were asked, or more, failed. Such a figure wins or loses nothing.",
        ),
        Guess::LessToRead => (
            "Less to read. ",
            ["figure", "figures"],
            "there was less than 90 % of what others of the row had to read: it was written too slowly. Such a figure wins or loses \
             nothing.",
        ),
        Guess::Unwritten => (
            "Bytes written at another time. ",
            ["figure", "figures"],
            "somebody in its row wrote less than was appended, which cannot be: the kernel counts a page when it becomes dirty, \
             and that was before the run. These figures of such a row win or lose nothing.",
        ),
    };
    Mark {
        about,
        nouns,
        sign: cells::mark(guess),
        means: means.to_owned(),
    }
}

/// What the mark of figures that were never the same means.
fn unsteady() -> Mark {
    Mark {
        about: "Unsteady. ",
        nouns: ["figure", "figures"],
        sign: cells::UNSTEADY,
        means: format!(
            "repetitions lie more than {} from the median.",
            number::percent(UNSTEADY)
        ),
    }
}
