//! Who is asked what: the systems of a table and the drivers that drive them, what a system is not meant for, and what the runs of a cell
//! that were made already say about the next one. Nothing is measured here.

use anyhow::{Context, Result};

use super::fleet::Way;
use super::identity;
use super::peer::{System, VariantFile};
use super::plan::{Plan, RowPlan, Work};
use super::record::{CellKey, Record};
use super::report::measured::Measured;
use super::results::{Cell, Survives};
use super::runner::Setting;
use super::{Clients, CompareOptions};

/// Who is asked in a table, through which drivers.
pub(super) fn ways(setting: &Setting<'_>, plan: &Plan) -> Vec<Way> {
    let is_asked = |system: &&System| {
        let (variant, only) = (&system.variant, &system.variant.only);
        let is_meant = only.is_empty() || only.contains(&plan.name);
        is_meant
            && match plan.variants.is_empty() {
                true => !system.peer.file.serve.is_empty(),
                false => plan.variants.contains(&variant.name),
            }
    };
    let mut ways = Vec::new();
    for system in setting.systems.iter().filter(is_asked) {
        let mut drivers = drivers(plan, &system.variant);
        if setting.options.clients != Clients::All && !plan.common_clients {
            drivers.truncate(1);
        }
        for name in drivers {
            ways.push(Way {
                system: system.clone(),
                driver: setting
                    .peers
                    .driver(name)
                    .expect("drivers were checked when they were read"),
                in_memory: plan.in_memory,
            });
        }
    }
    ways
}

/// The drivers that can do what a table asks of a variant, the best one first.
fn drivers<'a>(plan: &Plan, variant: &'a VariantFile) -> Vec<&'a String> {
    match plan.is_transactional() {
        true => variant.transactions.iter().collect(),
        false => [&variant.driver].into_iter().chain(&variant.also).collect(),
    }
}

/// Why a system of so many nodes is not asked for a workload, which is no failure: one of them is not meant for the other, or the
/// system promises nothing about it.
pub(super) fn reason_not_to_ask(row: &RowPlan, system: &System, options: &CompareOptions) -> Option<String> {
    let nodes = options.nodes;
    if !options.hosts.is_empty() && !system.peer.file.hosts {
        return Some("its serve starts no node on a host of its own (hosts in its peer.toml)".to_owned());
    }
    let sizes = &system.peer.file.nodes;
    if !sizes.contains(&nodes) {
        let sizes: Vec<String> = sizes.iter().map(u32::to_string).collect();
        let sizes = sizes.join(" or ");
        return Some(format!(
            "nodes in its peer.toml has {sizes}, but {nodes} of each were asked for"
        ));
    }
    if let Some(why) = row.one_node_only.as_ref().filter(|_| nodes > 1) {
        return Some(why.clone());
    }
    let largest = system.peer.file.record_bytes_max;
    if let Some(largest) = largest.filter(|largest| row.work.load().record_bytes > *largest) {
        return Some(format!("meant for records of up to {largest} B"));
    }
    let most = system.peer.file.stored_bytes_max;
    if let Some(most) = most.filter(|most| row.work.stored_bytes() > *most) {
        return Some(format!("not asked to keep more than {most} B for readers"));
    }
    let is_crashed = matches!(row.work, Work::Restart(_) | Work::FailOver(_));
    (is_crashed && system.variant.survives == Survives::Nothing)
        .then(|| "promises nothing after a crash of its process".to_owned())
}

/// Says whether acknowledged records of a cell were lost: then nothing more of it is believed, nor measured.
pub(super) fn broke_its_promise(record: &Record, key: &CellKey) -> bool {
    record.runs(key).any(|run| run.broke_its_promise)
}

/// Says whether the figure that decides the score was not the same twice.
pub(super) fn is_unsteady(record: &Record, key: &CellKey, metric: &str) -> bool {
    let runs = record.runs(key).filter(|run| run.succeeded());
    let cell = Cell {
        runs: runs.map(|run| run.figures.clone()).collect(),
        ..Cell::default()
    };
    Measured::of(&cell, metric).is_some_and(|figure| figure.guess.is_none() && figure.is_unsteady())
}

/// Says whether everything is read back in this repetition of so many: once in each cell, in the one that the lot of the cell falls on
/// (whoever knows it gains nothing: what is sent must be there); if others were made before, in the last one.
pub(super) fn must_verify(record: &Record, key: &CellKey, (repetition, repetitions): (u32, u32)) -> bool {
    let mut before = record.runs(key);
    let is_verified = before.any(|run| run.verified_records.is_some());
    let is_last = repetition + 1 == repetitions;
    repetition == identity::lot(key, repetitions) || (is_last && !is_verified)
}

/// Records a second that are due; none in the closed loop.
pub(super) fn rate(record: &Record, row: &RowPlan, key: &CellKey) -> Result<Option<f64>> {
    let load = row.work.load();
    let (Some(share), Some(maximum)) = (load.share_of_maximum, &row.maximum) else {
        return Ok(load.rate);
    };
    let of = CellKey {
        experiment: maximum.table.clone(),
        row: maximum.row.clone(),
        ..key.clone()
    };
    let runs = record.runs(&of);
    let mut rates: Vec<f64> = runs
        .filter_map(|run| run.figures.get("records_per_s").copied())
        .collect();
    rates.sort_by(f64::total_cmp);
    let rate = rates
        .get(rates.len() / 2)
        .with_context(|| format!("its maximum ({}) is not known", maximum.table))?;
    Ok(Some(rate * share))
}
