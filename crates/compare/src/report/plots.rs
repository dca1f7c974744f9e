//! The plots: one for each experiment that says how it is drawn and has something to draw.

mod bars;
mod lines;
mod svg;

use serde::Serialize;

use super::columns::{self, Column};
use super::guesses::timed;
use super::measured::title;
use crate::results::{Acknowledges, Experiment, Plot, Results};

#[derive(Debug, Serialize)]
pub(crate) struct Drawn {
    /// The file's name below `plots`.
    pub(crate) file: String,
    /// What it shows, for those who do not see it.
    pub(crate) alternative: String,
    /// Says that some of its latencies are of batches, others of records.
    are_unlike: bool,
    #[serde(skip)]
    pub(crate) svg: String,
}

/// Draws the plot of an experiment into a file of this name; none if it has none.
pub(crate) fn draw(results: &Results, experiment: &Experiment, name: &str) -> Option<Drawn> {
    let columns = columns::of(results, experiment);
    let plot = experiment.plot.as_ref()?;
    let percentiles = |metric| lines::percentiles(experiment, &columns, metric);
    let (metric, shows, svg) = match plot {
        Plot::Bars { metric } => {
            let svg = bars::draw(experiment, &columns, metric);
            (metric.as_str(), format!("bars of {}", title(metric)), svg)
        }
        Plot::Lines { x, metric, by } => {
            let svg = lines::over_parameter(experiment, &columns, (x, metric, by.as_deref()));
            (
                metric.as_str(),
                format!("{} over {}", title(metric), lines::words(x)),
                svg,
            )
        }
        Plot::Percentiles => {
            let shows = "percentiles of latency".to_owned();
            ("p50_us", shows, percentiles("p50_us"))
        }
        Plot::DeliveryPercentiles => {
            let shows = "percentiles of the time until the consumer has a record".to_owned();
            ("delivery_p50_us", shows, percentiles("delivery_p50_us"))
        }
    };
    Some(Drawn {
        file: format!("{name}.svg"),
        alternative: format!("{}: {shows}.", experiment.title),
        are_unlike: are_unlike(experiment, &columns, metric),
        svg: svg?,
    })
}

/// Whether a plot shows latencies of batches and of records. A batch of one record is told like a record.
fn are_unlike(experiment: &Experiment, columns: &[Column<'_>], metric: &str) -> bool {
    let has = |column: &Column<'_>, what: Acknowledges| {
        let mut cells = experiment.rows.iter().filter_map(|row| column.cell(row));
        cells.any(|cell| timed(cell, metric) == Some(what))
    };
    let is_of_batches = |column: &&Column<'_>| has(column, Acknowledges::Batch);
    let is_of_records = |column: &&Column<'_>| has(column, Acknowledges::Record) && !is_of_batches(column);
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
