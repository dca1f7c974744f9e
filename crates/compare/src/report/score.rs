//! How often each verdict fell between systems that promise the same, and who is best how often.

use super::cells::{self, Standing};
use super::columns;
use super::comparisons::Comparison;
use super::document::{Block, Document, Line, Table, Text};
use super::measured::Verdict;
use super::overview::opponent;
use crate::results::Results;
use bench::number;

/// Adds both tables, if there is anything in them.
pub(crate) fn push(document: &mut Document, results: &Results, found: &[Comparison<'_>]) {
    let decisive: Vec<&Comparison<'_>> = found
        .iter()
        .filter(|one| one.decides && one.is_same_guarantee())
        .collect();
    if !decisive.is_empty() {
        document.heading(2, "The score", "score");
        document.paragraph(
            "Only between systems that promise the same. Each row of each table counts once: by the first of the table's metrics \
             that both systems have.",
        );
        push_verdicts(document, &decisive);
    }
    push_bests(document, results);
}

/// How often each verdict fell, for each pair of systems.
fn push_verdicts(document: &mut Document, found: &[&Comparison<'_>]) {
    let mut pairs: Vec<(String, String)> = Vec::new();
    for one in found {
        let pair = (columns::title(one.our_system), opponent(one));
        if !pairs.contains(&pair) {
            pairs.push(pair);
        }
    }
    let is_one = pairs.iter().all(|(ours, _)| *ours == pairs[0].0);
    let lines = pairs.iter().map(|(ours, whom)| {
        let of: Vec<&&Comparison<'_>> = found
            .iter()
            .filter(|one| columns::title(one.our_system) == *ours && opponent(one) == *whom)
            .collect();
        let count = |verdict| of.iter().filter(|one| one.verdict == verdict).count() as u64;
        let counts = [Verdict::Worse, Verdict::NoDifference, Verdict::Better].map(count);
        let label = if is_one {
            whom.clone()
        } else {
            format!("{ours} against {whom}")
        };
        let cells = counts.map(|count| Text::from(number::count(count))).to_vec();
        Line::Cells(Text::from(label), cells)
    });
    let label = if is_one {
        format!("{} against", pairs[0].0)
    } else {
        "pair".to_owned()
    };
    document.blocks.push(Block::Table(Table {
        label,
        columns: ["worse", "no difference", "better"].map(str::to_owned).to_vec(),
        lines: lines.collect(),
        figures: true,
        ..Table::default()
    }));
}

/// How often each system has the best figure of a row among those that promise the same, ties counted for all.
fn push_bests(document: &mut Document, results: &Results) {
    let mut bests: Vec<(u64, u64)> = vec![(0, 0); results.systems.len()];
    for experiment in &results.experiments {
        let columns = columns::of(results, experiment);
        for row in &experiment.rows {
            for (number, counts) in bests.iter_mut().enumerate() {
                let own = |standings: &[Standing]| -> Vec<Standing> {
                    let own = columns
                        .iter()
                        .zip(standings)
                        .filter(|(column, _)| column.number == number);
                    own.map(|(_, standing)| *standing)
                        .filter(|standing| *standing != Standing::Alone)
                        .collect()
                };
                let metrics = experiment.metrics.iter();
                let mut of_metrics = metrics.map(|metric| own(&cells::standings(&columns, row, metric)));
                // The first metric in which it can be set beside others stands for the row.
                if let Some(own) = of_metrics.find(|own| !own.is_empty()) {
                    counts.0 += u64::from(own.contains(&Standing::Best));
                    counts.1 += 1;
                }
            }
        }
    }
    if bests.iter().all(|(_, asked)| *asked == 0) {
        return;
    }
    document.heading(2, "Who is best how often", "best");
    document.paragraph(
        "Of all rows in which a system could be set beside another one that promises the same: how often none of those was better, \
         by the first of the table's metrics. In the tables these figures are bold.",
    );
    let asked = results
        .systems
        .iter()
        .zip(bests)
        .filter(|(_, (_, part))| *part > 0);
    let lines = asked.map(|(system, (best, part))| {
        let cells = [best, part].map(|count| Text::from(number::count(count)));
        Line::Cells(Text::from(columns::title(system)), cells.to_vec())
    });
    document.blocks.push(Block::Table(Table {
        label: "system".to_owned(),
        columns: ["best", "rows"].map(str::to_owned).to_vec(),
        lines: lines.collect(),
        figures: true,
        ..Table::default()
    }));
}
