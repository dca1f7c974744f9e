//! The plots: one for each experiment that says how it is drawn and has something to draw.

mod axis;
mod bars;
mod dashes;
pub(crate) mod ink;
mod legend;
mod lines;
mod panels;
mod percentiles;
mod scene;

use super::columns::{self, Column};
use super::document::Plot as Block;
use super::guesses::timed;
use super::measured::title;
use super::overview::join;
use crate::results::{Acknowledges, Experiment, Plot, Results};

/// Draws the plot of an experiment into a file of this name; none if it has none.
///
/// # Errors
/// If the drawing fails, which no figure should make it.
pub(crate) fn draw(results: &Results, experiment: &Experiment, name: &str) -> anyhow::Result<Option<Block>> {
    let Some(plot) = &experiment.plot else {
        return Ok(None);
    };
    let columns = columns::of(results, experiment);
    let (shows, mut caption) = words(experiment, plot, &columns);
    let metric = match plot {
        Plot::Bars { metric } | Plot::Lines { metric, .. } => metric.as_str(),
        Plot::Percentiles => "p50_us",
        Plot::DeliveryPercentiles => "delivery_p50_us",
    };
    caption.push_str(&units(experiment, &columns, metric));
    let scene = |width| match plot {
        Plot::Bars { metric } => bars::scene(experiment, &columns, metric, width),
        Plot::Lines { x, metric, by } => {
            lines::panels(experiment, columns.clone(), (x, metric, by.as_deref())).scene(width)
        }
        Plot::Percentiles | Plot::DeliveryPercentiles => {
            percentiles::panels(experiment, columns.clone(), metric).scene(width)
        }
    };
    let (Some(broad), Some(narrow)) = (scene(scene::WIDTH), scene(scene::NARROW)) else {
        return Ok(None);
    };
    let systems: Vec<String> = columns.iter().map(|column| column.title.clone()).collect();
    Ok(Some(Block {
        file: format!("{name}.png"),
        alternative: format!("{}: {shows} of {}.", experiment.title, systems.join(", ")),
        caption,
        svg: broad.svg()?,
        narrow_svg: narrow.svg()?,
        png: broad.png()?,
    }))
}

/// What a plot shows, and how it is read.
fn words(experiment: &Experiment, plot: &Plot, columns: &[Column]) -> (String, String) {
    let hollow = match columns.iter().all(|column| column.is_best_client) {
        true => "",
        false => " Common clients are hollow.",
    };
    match plot {
        Plot::Bars { metric } => {
            let scale = match bars::has_shared_scale(experiment, columns, metric) {
                true => "All panels have the same scale.",
                false => "Each panel has a scale of its own.",
            };
            (
                format!("bars of {}", title(metric)),
                format!(
                    "Bars are medians and start at zero; whiskers reach from the least to the most. What is pale decides nothing. \
                     {scale}{hollow}"
                ),
            )
        }
        Plot::Lines { x, metric, .. } => (
            format!("{} over {}", title(metric), lines::words(x)),
            format!(
                "Medians; whiskers reach from the least to the most. What is pale decides nothing. Both axes are logarithmic.{hollow}"
            ),
        ),
        Plot::Percentiles | Plot::DeliveryPercentiles => (
            match plot {
                Plot::DeliveryPercentiles => "percentiles of the time until the consumer has a record",
                _ => "percentiles of latency",
            }
            .to_owned(),
            format!(
                "All repetitions together. Both axes are logarithmic. Where a curve is pale, it decides nothing: fewer than ten \
                 samples are above it, or the table marks its latencies.{hollow}"
            ),
        ),
    }
}

/// That a plot shows latencies of batches and of records, which are not to be read side by side.
fn units(experiment: &Experiment, columns: &[Column], metric: &str) -> String {
    let of = |what: Acknowledges| -> Vec<String> {
        let is_so = |column: &&Column| {
            let mut cells = experiment.rows.iter().filter_map(|row| column.cell(row));
            cells.any(|cell| timed(cell, metric) == Some(what))
        };
        let those = columns.iter().filter(is_so);
        those.map(|column| column.title.clone()).collect()
    };
    let (batches, mut records) = (of(Acknowledges::Batch), of(Acknowledges::Record));
    // A batch of one record is told like a record.
    records.retain(|title| !batches.contains(title));
    match batches.is_empty() || records.is_empty() {
        true => String::new(),
        false => format!(
            " Not to be read side by side: where records go in batches, latencies are those of whole batches for {}, and those of \
             records for {}.",
            join(&batches),
            join(&records)
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::results::{Cell, Row};

    #[test]
    fn latencies_of_batches_beside_those_of_records_are_named() {
        let cell = |system: &str, samples: f64| Cell {
            system: system.to_owned(),
            best_client: true,
            runs: vec![BTreeMap::from([
                ("p50_us".to_owned(), 9.0),
                ("samples".to_owned(), samples),
                ("records".to_owned(), 64e4),
            ])],
            ..Cell::default()
        };
        let mut experiment = Experiment {
            metrics: vec!["p50_us".to_owned()],
            plot: Some(Plot::Percentiles),
            rows: vec![Row {
                name: String::new(),
                parameters: BTreeMap::new(),
                cells: vec![cell("ours", 1e4), cell("other", 64e4)],
            }],
            ..Experiment::default()
        };
        let results = Results::default();
        let told = |experiment: &Experiment, metric: &str| {
            units(experiment, &columns::of(&results, experiment), metric)
        };
        assert!(
            told(&experiment, "p50_us").contains("whole batches for ours, and those of records for other."),
            "{}",
            told(&experiment, "p50_us")
        );
        assert_eq!(told(&experiment, "mb_per_s"), "");
        experiment.rows[0].cells.remove(1);
        assert_eq!(told(&experiment, "p50_us"), "");
    }
}
