//! What differs around two comparisons and may explain a change of their figures.

use std::collections::{BTreeMap, BTreeSet};

use crate::results::{Results, SystemFacts};
use bench::number;

/// By what part memory may differ on one machine: kernels keep more or less of it for themselves.
const MEMORY_ALIKE: f64 = 0.1;

/// By what part a floor may move before it is worth a line.
const FLOOR_MOVES: f64 = 0.2;

/// By how much loads before the first run may differ.
const LOAD_ALIKE: f64 = 0.5;

/// Where systems listen, before the port.
const LOOPBACK: &str = "127.0.0.1:";

/// Names and values that are told of something, in order.
type Told = Vec<(String, String)>;

/// What only another machine explains: processor, memory, file system.
pub(super) fn machines(before: &Results, after: &Results) -> Vec<String> {
    let [old, new] = [before, after].map(|results| {
        let machine = &results.machine;
        let kind = machine.file_system.split(' ').next();
        named([
            ("CPU", machine.cpu.clone()),
            ("CPUs", machine.cpus.to_string()),
            ("file system", kind.unwrap_or_default().to_owned()),
            ("hosts", results.hosts.join(", ")),
        ])
    });
    let memory = [before, after].map(|results| results.machine.memory_gb);
    let mut differing = differing(&old, &new);
    differing.extend(moved("memory", memory, MEMORY_ALIKE, "GB"));
    differing
}

/// What else changed and may be why.
pub(super) fn all(before: &Results, after: &Results) -> Vec<String> {
    let [old, new] = [before, after].map(|results| {
        let machine = &results.machine;
        named([
            ("CPU", machine.cpu.clone()),
            ("CPUs", machine.cpus.to_string()),
            ("kernel", machine.kernel.clone()),
            ("file system", machine.file_system.clone()),
            ("nodes", results.nodes.to_string()),
            ("hosts", results.hosts.join(", ")),
            ("repetitions", results.repetitions.to_string()),
            ("command", options(results)),
        ])
    });
    let mut all = differing(&old, &new);
    let [old, new] = [before, after].map(|results| results.machine.load_before);
    if (old - new).abs() > LOAD_ALIKE {
        all.push(line(
            "load before the first run",
            &format!("{old:.2}"),
            &format!("{new:.2}"),
        ));
    }
    // What the machine allowed before the first run.
    if let (Some(old), Some(new)) = (before.floors.first(), after.floors.first()) {
        let floors = old.iter().filter_map(|(name, old)| {
            moved(
                &format!("floor {name}"),
                [*old, *new.get(name)?],
                FLOOR_MOVES,
                "µs",
            )
        });
        all.extend(floors);
    }
    for system in &before.systems {
        if let Some(other) = after.system(&system.name) {
            all.extend(differing(&of_system(system), &of_system(other)));
        }
    }
    all
}

/// The names of systems that are the same in both: version, settings and clients.
pub(super) fn unchanged(before: &Results, after: &Results) -> BTreeSet<String> {
    let is_unchanged = |old: &&SystemFacts| {
        let new = after.system(&old.name);
        new.is_some_and(|new| of_system(old) == of_system(new))
    };
    let systems = before.systems.iter().filter(is_unchanged);
    systems.map(|system| system.name.clone()).collect()
}

/// Version and settings of a system, and of its clients.
fn of_system(system: &SystemFacts) -> Told {
    let name = &system.name;
    let mut told = vec![(format!("version of {name}"), system.version.clone())];
    told.extend(settings(name, &system.settings));
    for (driver, facts) in &system.drivers {
        let name = format!("client {driver} of {name}");
        told.push((format!("version of {name}"), facts.version.clone()));
        told.extend(settings(&name, &facts.settings));
    }
    told
}

fn settings(whose: &str, settings: &BTreeMap<String, String>) -> Told {
    let settings = settings.iter();
    settings
        .map(|(name, value)| (format!("{name} of {whose}"), without_ports(value)))
        .collect()
}

/// A setting without the ports of this machine, which are others at each start.
fn without_ports(value: &str) -> String {
    let mut parts = value.split(LOOPBACK);
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |whole, part| {
        let rest = part.trim_start_matches(|letter: char| letter.is_ascii_digit());
        format!("{whole}{LOOPBACK}PORT{rest}")
    })
}

/// The options of a comparison, without those that only say where reports and data go.
fn options(results: &Results) -> String {
    crate::assemble::without_options(&results.command, &["--out", "--dir"])
}

fn named<const N: usize>(told: [(&str, String); N]) -> Told {
    told.map(|(name, value)| (name.to_owned(), value)).to_vec()
}

/// Entries that are not the same in both, or told in one only.
fn differing(before: &Told, after: &Told) -> Vec<String> {
    let value = |told: &Told, name: &str| {
        let known = told.iter().find(|(known, _)| known == name);
        known.map_or_else(|| "not told".to_owned(), |(_, value)| value.clone())
    };
    let only_after = after
        .iter()
        .filter(|(name, _)| !before.iter().any(|(known, _)| known == name));
    let names = before.iter().chain(only_after).map(|(name, _)| name);
    let told = names.map(|name| (name, value(before, name), value(after, name)));
    told.filter(|(_, old, new)| old != new)
        .map(|(name, old, new)| line(name, &old, &new))
        .collect()
}

/// A figure, if it is farther from what it was than a part of that.
fn moved(what: &str, [old, new]: [f64; 2], part: f64, unit: &str) -> Option<String> {
    let [before, after] = [old, new].map(|figure| format!("{} {unit}", number::plain(figure)));
    ((new - old).abs() > part * old.abs()).then(|| line(what, &before, &after))
}

fn line(what: &str, old: &str, new: &str) -> String {
    format!("{what}: {old} before, {new} after")
}
