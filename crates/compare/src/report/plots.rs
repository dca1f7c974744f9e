//! The plots: one for each experiment that says how it is drawn and has something to draw.

mod bars;
mod lines;
mod svg;

use super::columns::{self, Column};
use super::guesses::timed;
use super::measured::title;
use crate::results::{Acknowledges, Experiment, Plot, Results};

const BARS: &str = "Bars are medians and start at zero; whiskers reach from the least to the most. What is pale decides nothing.";
const LINES: &str = "Medians; whiskers reach from the least to the most. What is pale decides nothing. Both axes are logarithmic.";
const PERCENTILES: &str = "All repetitions together. Both axes are logarithmic. Where a curve is pale, it decides nothing: fewer than ten \
     samples are above it, or the table marks its latencies.";
const HOLLOW: &str = " Common clients are hollow.";
const UNLIKE: &str = " Not to be read side by side: some latencies here are those of whole batches, others those of records; the table of \
     systems says whose are which.";

/// A plot.
#[derive(Debug)]
pub(crate) struct Drawn {
    /// The file's name below `plots`.
    pub(crate) file: String,
    /// What it shows, for those who do not see it.
    pub(crate) alternative: String,
    /// The line below it.
    pub(crate) caption: String,
    pub(crate) svg: String,
}

/// Draws the plot of an experiment into a file of this name; none if it has none.
pub(crate) fn draw(results: &Results, experiment: &Experiment, name: &str) -> Option<Drawn> {
    let columns = columns::of(results, experiment);
    let (svg, metric, shows, caption) = match experiment.plot.as_ref()? {
        Plot::Bars { metric } => {
            let shows = format!("bars of {}", title(metric));
            (
                bars::draw(experiment, &columns, metric),
                metric.as_str(),
                shows,
                BARS,
            )
        }
        Plot::Lines { x, metric, by } => {
            let shows = format!("{} over {}", title(metric), lines::words(x));
            let svg = lines::over_parameter(experiment, &columns, (x, metric, by.as_deref()));
            (svg, metric.as_str(), shows, LINES)
        }
        Plot::Percentiles => {
            let shows = "percentiles of latency".to_owned();
            (
                lines::percentiles(experiment, &columns, "p50_us"),
                "p50_us",
                shows,
                PERCENTILES,
            )
        }
        Plot::DeliveryPercentiles => {
            let shows = "percentiles of the time until the consumer has a record".to_owned();
            let metric = "delivery_p50_us";
            (
                lines::percentiles(experiment, &columns, metric),
                metric,
                shows,
                PERCENTILES,
            )
        }
    };
    let are_best = columns.iter().all(|column| column.is_best_client);
    Some(Drawn {
        file: format!("{name}.svg"),
        alternative: format!("{}: {shows}.", experiment.title),
        caption: [
            caption,
            if are_best { "" } else { HOLLOW },
            if are_unlike(experiment, &columns, metric) {
                UNLIKE
            } else {
                ""
            },
        ]
        .concat(),
        svg: svg?,
    })
}

/// Whether a plot shows latencies of batches and of records. A batch of one record is told like a record.
fn are_unlike(experiment: &Experiment, columns: &[Column], metric: &str) -> bool {
    let has = |column: &Column, what: Acknowledges| {
        let mut cells = experiment.rows.iter().filter_map(|row| column.cell(row));
        cells.any(|cell| timed(cell, metric) == Some(what))
    };
    let is_of_batches = |column: &&Column| has(column, Acknowledges::Batch);
    let is_of_records = |column: &&Column| has(column, Acknowledges::Record) && !is_of_batches(column);
    columns.iter().any(|column| is_of_batches(&column)) && columns.iter().any(|column| is_of_records(&column))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::made_up;

    #[test]
    fn latencies_of_batches_beside_those_of_records_are_named() {
        let cell = |system, samples| {
            made_up::cell(
                system,
                &[("p50_us", 9.0), ("samples", samples), ("records", 64e4)],
            )
        };
        let cells = vec![cell("ours", 1e4), cell("other", 64e4)];
        let mut experiment = made_up::experiment(&["p50_us"], vec![made_up::row("", cells)]);
        let results = made_up::results(&["ours", "other"]);
        let told = |experiment: &Experiment, metric: &str| {
            are_unlike(experiment, &columns::of(&results, experiment), metric)
        };
        assert!(told(&experiment, "p50_us") && !told(&experiment, "mb_per_s"));
        experiment.rows[0].cells.remove(1);
        assert!(!told(&experiment, "p50_us"));
    }
}
