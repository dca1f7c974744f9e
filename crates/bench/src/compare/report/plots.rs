//! The plots: one for each experiment that says how it is drawn and has something to draw.

mod axis;
mod bars;
pub(crate) mod ink;
mod legend;
mod lines;
mod panels;
mod percentiles;
mod scene;

use super::columns::{self, Column};
use super::document::Plot as Block;
use super::measured::title;
use crate::compare::results::{Experiment, Plot, Results};

/// Draws the plot of an experiment into a file of this name; none if it has none.
///
/// # Errors
/// If the drawing fails, which no figure should make it.
pub(crate) fn draw(results: &Results, experiment: &Experiment, name: &str) -> anyhow::Result<Option<Block>> {
    let Some(plot) = &experiment.plot else {
        return Ok(None);
    };
    let columns = columns::of(results, experiment);
    let (shows, caption) = words(experiment, plot, &columns);
    let scene = match plot {
        Plot::Bars { metric } => bars::scene(experiment, &columns, metric),
        Plot::Lines { x, metric, by } => {
            lines::panels(experiment, columns.clone(), (x, metric, by.as_deref())).scene()
        }
        Plot::Percentiles => percentiles::panels(experiment, columns.clone()).scene(),
    };
    let Some(scene) = scene else {
        return Ok(None);
    };
    let systems: Vec<String> = columns.iter().map(|column| column.title.clone()).collect();
    Ok(Some(Block {
        file: format!("{name}.png"),
        alternative: format!("{}: {shows} of {}.", experiment.title, systems.join(", ")),
        caption,
        svg: scene.svg()?,
        png: scene.png()?,
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
                    "Bars are medians and start at zero; whiskers reach from the least to the most. {scale}{hollow}"
                ),
            )
        }
        Plot::Lines { x, metric, .. } => (
            format!("{} over {}", title(metric), lines::words(x)),
            format!("Medians. Both axes are logarithmic.{hollow}"),
        ),
        Plot::Percentiles => (
            "percentiles of latency".to_owned(),
            format!(
                "All repetitions together. Both axes are logarithmic; where a curve is pale, it has fewer than ten samples \
                 above it.{hollow}"
            ),
        ),
    }
}
