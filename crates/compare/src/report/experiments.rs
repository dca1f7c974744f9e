//! Each experiment: what is asked, how load was offered, what was found, drawn, and the command that repeats it.

use std::collections::{BTreeMap, BTreeSet};

use super::document::{Block, Document, Text, slug};
use super::guesses::has_own_loads;
use super::overview::point;
use super::{columns, contrary, plots, requests, tables};
use crate::results::{Experiment, LoopKind, Results, Survives};
use bench::number;

/// Adds a section for each experiment.
///
/// # Errors
/// If a plot cannot be drawn.
pub(crate) fn push(document: &mut Document, results: &Results) -> anyhow::Result<()> {
    document.heading(2, "The experiments", "experiments");
    if results.experiments.is_empty() {
        document.paragraph("There are none.");
        return Ok(());
    }
    document.paragraph(
        "Medians, and how far the farthest repetition that counts was from them. Bold is what nothing of the same row and metric is \
         better than among the systems that promise the same; where only one system promises something, nothing of it is bold. \
         – means: not measured by it.",
    );
    for (index, experiment) in results.experiments.iter().enumerate() {
        // The number keeps two names apart that read alike as a file's name.
        push_one(
            document,
            results,
            experiment,
            &format!("{:02}-{}", index + 1, slug(&experiment.name)),
        )?;
    }
    Ok(())
}

fn push_one(
    document: &mut Document,
    results: &Results,
    experiment: &Experiment,
    name: &str,
) -> anyhow::Result<()> {
    document.heading(3, &experiment.title, &format!("experiment-{name}"));
    document.paragraph(experiment.about.as_str());
    let mut points = Vec::new();
    if let Some(source) = &experiment.source {
        points.push(point("Follows: ", source));
    }
    points.push(point("Load: ", load(experiment.loop_kind)));
    if let Some(requests) = requests::of_all(experiment) {
        points.push(point("Requests: ", format!("{requests}.")));
    }
    if has_own_loads(experiment) {
        points.push(point(
            "Each at its own load: ",
            "what is due is a share of what that very system takes. The figures of one row are of unlike loads.",
        ));
    }
    document.list(points);
    if let Some(why) = &experiment.left_out {
        document.paragraph(point("Left out: ", why));
    }
    if let Some(table) = tables::table_as_published(results, experiment) {
        document.paragraph("As the publication lays it out, with the systems that it names and ours, each through its best client:");
        document.blocks.push(Block::Table(table));
        document.paragraph("All that was measured:");
    }
    if let Some(table) = tables::table(results, experiment) {
        document.blocks.push(Block::Table(table));
    } else if experiment.left_out.is_none() {
        document.paragraph("Nothing ran.");
    }
    document.paragraph(unlike(results, experiment));
    document.paragraph(contrary::to_publication(results, experiment));
    document.paragraph(verified(experiment));
    if let Some(plot) = plots::draw(results, experiment, name)? {
        document.blocks.push(Block::Plot(plot));
    }
    if !experiment.command.is_empty() {
        document.blocks.push(Block::Code(experiment.command.clone()));
    }
    Ok(())
}

/// Who stands in a table with nobody who promises the same.
fn unlike(results: &Results, experiment: &Experiment) -> String {
    let columns = columns::of(results, experiment);
    let mut classes: BTreeMap<Survives, BTreeSet<usize>> = BTreeMap::new();
    for column in &columns {
        if let Some(survives) = column.survives {
            classes.entry(survives).or_default().insert(column.number);
        }
    }
    if classes.len() < 2 {
        return String::new();
    }
    let alone = classes.values().filter(|systems| systems.len() == 1).flatten();
    let alone: Vec<String> = alone
        .map(|number| &results.systems[*number])
        .map(|system| {
            format!(
                "{} (its records survive {})",
                system.title,
                survived(system.survives)
            )
        })
        .collect();
    match alone.len() {
        0 => String::new(),
        _ => format!(
            "Nobody else here promises the same, so nothing of it is bold: {}.",
            alone.join("; ")
        ),
    }
}

/// What records survive, in words.
fn survived(survives: Survives) -> &'static str {
    match survives {
        Survives::PowerCut => "a power cut",
        Survives::ProcessCrash => "a crash of the process",
        Survives::Nothing => "nothing",
    }
}

/// How load was offered, in words.
fn load(kind: LoopKind) -> &'static str {
    match kind {
        LoopKind::Closed => {
            "closed loop. A producer sends its next request when one is answered: rates are what the system takes, and a \
             system that stalls is asked less."
        }
        LoopKind::Open => {
            "open loop. Requests are due at fixed times whatever the system does, and latency counts from then: a system \
             that stalls is not spared."
        }
        LoopKind::None => "none.",
    }
}

fn verified(experiment: &Experiment) -> Text {
    let cells = experiment.rows.iter().flat_map(|row| &row.cells);
    let verified: Vec<u64> = cells.filter_map(|cell| cell.verified_records).collect();
    match verified.is_empty() {
        true => Text::default(),
        false => Text::from(format!(
            "Read back and compared with what was acknowledged: {} records, in {} cells.",
            number::count(verified.iter().sum()),
            number::count(verified.len() as u64)
        )),
    }
}
