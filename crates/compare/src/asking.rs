//! Who is asked what: the systems of a table and the drivers that drive them, and what a system is not meant for.

use super::Clients;
use super::fleet::Way;
use super::peer::System;
use super::plan::{Plan, RowPlan, Work};
use super::results::Survives;
use super::runner::Setting;

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
        let common = system
            .variant
            .also
            .iter()
            .filter(|_| setting.options.clients == Clients::All || plan.common_clients);
        for name in std::iter::once(&system.variant.driver).chain(common) {
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

/// Why a system of so many nodes is not asked for a workload, which is no failure: one of them is not meant for the other, or the
/// system promises nothing about it.
pub(super) fn reason_not_to_ask(row: &RowPlan, system: &System, nodes: u32) -> Option<String> {
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
    let is_crashed = matches!(row.work, Work::Restart(_));
    (is_crashed && system.variant.survives == Survives::Nothing)
        .then(|| "promises nothing after a crash of its process".to_owned())
}
