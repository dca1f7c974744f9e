//! From plans and runs to `Results`: nothing is measured and nothing is decided here.

use std::collections::BTreeMap;

use super::figures;
use super::fleet::Way;
use super::peer::System;
use super::plan::{Plan, RowPlan};
use super::record::{CellKey, Line, Moment, Record, Run};
use super::results::{Cell, Experiment, Machine, Results, Row, SCHEMA, SystemFacts};

/// What is known besides plans and runs.
pub(super) struct Frame {
    pub(super) suite: String,
    pub(super) command: String,
    pub(super) nodes: u32,
    pub(super) repetitions: u32,
    pub(super) machine: Machine,
}

/// Everything as one value. `ways` says who is asked in a table.
pub(super) fn results(
    frame: Frame,
    systems: &[System],
    plans: &[Plan],
    record: &Record,
    ways: impl Fn(&Plan) -> Vec<Way>,
) -> Results {
    let moments: Vec<&Moment> = record.lines.iter().filter_map(moment).collect();
    let at = |moment: Option<&&Moment>| moment.map(|moment| moment.at.clone()).unwrap_or_default();
    let load = |moment: Option<&&Moment>| moment.map_or(0.0, |moment| moment.load);
    let (first, last) = (moments.first(), moments.last());
    Results {
        schema: SCHEMA,
        suite: frame.suite,
        began: at(first),
        ended: at(last),
        nodes: frame.nodes,
        repetitions: frame.repetitions,
        machine: Machine {
            load_before: load(first),
            load_after: load(last),
            ..frame.machine
        },
        floors: first
            .into_iter()
            .chain(last)
            .map(|moment| moment.floors.clone())
            .collect(),
        systems: systems.iter().map(|system| facts(system, record)).collect(),
        experiments: plans
            .iter()
            .map(|plan| experiment(plan, &frame.command, record, &ways(plan)))
            .collect(),
        command: frame.command,
    }
}

fn moment(line: &Line) -> Option<&Moment> {
    match line {
        Line::Moment(moment) => Some(moment),
        _ => None,
    }
}

fn facts(system: &System, record: &Record) -> SystemFacts {
    let variant = &system.variant;
    let mut facts = SystemFacts {
        name: variant.name.clone(),
        title: variant.title.clone(),
        version: system.peer.file.version.clone(),
        survives: variant.survives,
        durability: variant.durability.clone(),
        ..SystemFacts::default()
    };
    for line in &record.lines {
        match line {
            Line::System { system, settings } if *system == variant.name => {
                facts.settings.clone_from(settings)
            }
            Line::Driver {
                system,
                driver,
                facts: of_driver,
            } if *system == variant.name => {
                facts.drivers.insert(driver.clone(), of_driver.clone());
            }
            _ => {}
        }
    }
    facts.failed = nothing_measured(&variant.name, record);
    facts
}

/// Why nothing of a system was measured, if all its runs failed.
fn nothing_measured(system: &str, record: &Record) -> Option<String> {
    let mut first = None;
    for line in &record.lines {
        if let Line::Run(run) = line
            && run.cell.system == system
        {
            first.get_or_insert(run.failure.clone()?);
        }
    }
    first
}

fn experiment(plan: &Plan, command: &str, record: &Record, ways: &[Way]) -> Experiment {
    Experiment {
        name: plan.name.to_owned(),
        title: plan.title.clone(),
        about: plan.about.clone(),
        source: plan.source.map(str::to_owned),
        loop_kind: plan.loop_kind,
        metrics: plan.metrics.iter().map(|&metric| metric.to_owned()).collect(),
        plot: plan.plot.clone(),
        rows: plan
            .rows
            .iter()
            .map(|planned| row(plan, planned, record, ways))
            .collect(),
        left_out: plan.left_out.map(str::to_owned),
        published: plan.published.clone(),
        command: alone(command, plan.name),
    }
}

/// The command that repeats one table alone, elsewhere: its runs would be found where they are already.
fn alone(command: &str, name: &str) -> String {
    let mut words: Vec<&str> = Vec::new();
    let mut rest = command.split(' ');
    while let Some(word) = rest.next() {
        match word {
            // With its value.
            "--only" | "--out" => drop(rest.next()),
            _ if word.starts_with("--only=") || word.starts_with("--out=") => {}
            _ => words.push(word),
        }
    }
    format!("{} --only {name} --out {name}", words.join(" "))
}

fn row(plan: &Plan, planned: &RowPlan, record: &Record, ways: &[Way]) -> Row {
    let cells = ways.iter().map(|way| {
        let key = CellKey {
            experiment: plan.name.to_owned(),
            row: planned.name.clone(),
            system: way.system.variant.name.clone(),
            driver: way.driver.name.clone(),
        };
        cell(way, &key, record.runs(&key).collect())
    });
    Row {
        name: planned.name.clone(),
        parameters: planned.work.parameters(),
        cells: cells.collect(),
    }
}

fn cell(way: &Way, key: &CellKey, runs: Vec<&Run>) -> Cell {
    let succeeded = || runs.iter().filter(|run| run.failure.is_none());
    let mut failures: Vec<String> = runs.iter().filter_map(|run| run.failure.clone()).collect();
    // The repetitions after a failure only say that there was one.
    failures.truncate(1);
    Cell {
        system: key.system.clone(),
        driver: key.driver.clone(),
        best_client: way.driver.name == way.system.variant.driver,
        runs: succeeded().map(|run| run.figures.clone()).collect(),
        percentiles: figures::curve(succeeded().map(|run| &run.latency_ns)),
        verified_records: succeeded().filter_map(|run| run.verified_records).max(),
        failures,
    }
}

/// Failed runs, as sentences: those that were not even tried for a reason of the workload are none.
pub(super) fn failures(results: &Results) -> Vec<String> {
    let mut failures = Vec::new();
    for experiment in &results.experiments {
        for row in &experiment.rows {
            for cell in &row.cells {
                for why in cell
                    .failures
                    .iter()
                    .filter(|why| !why.starts_with("not asked: meant for"))
                {
                    failures.push(format!(
                        "{} · {} · {} · {}: {why}",
                        experiment.name, row.name, cell.system, cell.driver
                    ));
                }
            }
        }
    }
    failures
}

/// Floors by name, of a report of them.
pub(super) fn floors(report: &crate::floor::FloorReport) -> BTreeMap<String, f64> {
    let times = report
        .times
        .iter()
        .map(|row| (format!("{} {} B", row.operation, row.bytes), row.latency.p50_us));
    times.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_table_is_repeated_by_a_command_of_its_own() {
        let command = "ropewalk bench compare --only a,b --suite quick --out=x --seconds 1";
        let expected = "ropewalk bench compare --suite quick --seconds 1 --only b --out b";
        assert_eq!(alone(command, "b"), expected);
    }
}
