//! What differs around two comparisons and may explain a change of their figures.

use std::collections::{BTreeMap, BTreeSet};

use crate::results::{DriverFacts, Results, SystemFacts};
use bench::number;

/// By what part memory may differ on one machine: kernels keep more or less of it for themselves.
const MEMORY_ALIKE: f64 = 0.1;

/// By what part a floor may move before it is worth a line.
const FLOOR_MOVES: f64 = 0.2;

/// By how much loads before the first run may differ.
const LOAD_ALIKE: f64 = 0.5;

/// Where systems listen, before the port.
const LOOPBACK: &str = "127.0.0.1:";

/// What is named, with what it was before and after.
type Pair = (String, String, String);

/// What only another machine explains: processor, memory, file system.
pub(super) fn machines(before: &Results, after: &Results) -> Vec<String> {
    let kind = |results: &Results| {
        let file_system = results.machine.file_system.split(' ').next();
        file_system.unwrap_or_default().to_owned()
    };
    let (old, new) = (&before.machine, &after.machine);
    let mut pairs = vec![
        pair("CPU", &old.cpu, &new.cpu),
        pair("CPUs", &old.cpus.to_string(), &new.cpus.to_string()),
        pair("file system", &kind(before), &kind(after)),
    ];
    if is_apart(old.memory_gb, new.memory_gb, MEMORY_ALIKE) {
        let [old, new] = [old, new].map(|machine| format!("{} GB", number::plain(machine.memory_gb)));
        pairs.push(pair("memory", &old, &new));
    }
    differing(pairs)
}

/// What else changed and may be why.
pub(super) fn all(before: &Results, after: &Results) -> Vec<String> {
    let (old, new) = (&before.machine, &after.machine);
    let mut pairs = vec![
        pair("CPU", &old.cpu, &new.cpu),
        pair("CPUs", &old.cpus.to_string(), &new.cpus.to_string()),
        pair("kernel", &old.kernel, &new.kernel),
        pair("file system", &old.file_system, &new.file_system),
        pair("nodes", &before.nodes.to_string(), &after.nodes.to_string()),
        pair(
            "repetitions",
            &before.repetitions.to_string(),
            &after.repetitions.to_string(),
        ),
        pair("command", &options(before), &options(after)),
    ];
    if (old.load_before - new.load_before).abs() > LOAD_ALIKE {
        let [old, new] = [old, new].map(|machine| format!("{:.2}", machine.load_before));
        pairs.push(pair("load before the first run", &old, &new));
    }
    pairs.extend(floors(before, after));
    for system in &before.systems {
        if let Some(other) = after.systems.iter().find(|other| other.name == system.name) {
            pairs.extend(of_system(system, other));
        }
    }
    differing(pairs)
}

/// What the machine allowed before the first run.
fn floors(before: &Results, after: &Results) -> Vec<Pair> {
    let (Some(before), Some(after)) = (before.floors.first(), after.floors.first()) else {
        return Vec::new();
    };
    let moved = before.iter().filter_map(|(name, old)| {
        let new = after.get(name)?;
        is_apart(*old, *new, FLOOR_MOVES).then(|| {
            let [old, new] = [old, new].map(|floor| format!("{} µs", number::plain(*floor)));
            pair(&format!("floor {name}"), &old, &new)
        })
    });
    moved.collect()
}

/// The names of systems that are the same in both: version, settings and clients.
pub(super) fn unchanged(before: &Results, after: &Results) -> BTreeSet<String> {
    let is_unchanged = |old: &&SystemFacts| {
        let new = after.systems.iter().find(|new| new.name == old.name);
        new.is_some_and(|new| differing(of_system(old, new)).is_empty())
    };
    let systems = before.systems.iter().filter(is_unchanged);
    systems.map(|system| system.name.clone()).collect()
}

/// Version and settings of a system, and of its clients.
fn of_system(old: &SystemFacts, new: &SystemFacts) -> Vec<Pair> {
    let name = &old.name;
    let mut pairs = vec![pair(&format!("version of {name}"), &old.version, &new.version)];
    pairs.extend(settings(name, &old.settings, &new.settings));
    let drivers: BTreeSet<&String> = old.drivers.keys().chain(new.drivers.keys()).collect();
    for driver in drivers {
        let name = format!("client {driver} of {name}");
        let [had, has] = [old, new].map(|system| system.drivers.get(driver));
        let (Some(old), Some(new)) = (had, has) else {
            let word = |facts: Option<&DriverFacts>| if facts.is_some() { "there" } else { "not there" };
            pairs.push(pair(&name, word(had), word(has)));
            continue;
        };
        pairs.push(pair(&format!("version of {name}"), &old.version, &new.version));
        pairs.extend(settings(&name, &old.settings, &new.settings));
    }
    pairs
}

/// All that either has.
fn settings(whose: &str, old: &BTreeMap<String, String>, new: &BTreeMap<String, String>) -> Vec<Pair> {
    let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let value = |settings: &BTreeMap<String, String>, name: &str| {
        let value = settings.get(name).map_or("not told", String::as_str);
        without_ports(value)
    };
    let names = names.into_iter();
    names
        .map(|name| {
            pair(
                &format!("{name} of {whose}"),
                &value(old, name),
                &value(new, name),
            )
        })
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
    let mut words = results.command.split(' ');
    let mut kept = Vec::new();
    while let Some(word) = words.next() {
        match word {
            "--out" | "--dir" => drop(words.next()),
            _ if word.starts_with("--out=") || word.starts_with("--dir=") => {}
            _ => kept.push(word),
        }
    }
    kept.join(" ")
}

/// Whether two figures are farther apart than a part of the first.
fn is_apart(old: f64, new: f64, part: f64) -> bool {
    (new - old).abs() > part * old.abs()
}

fn pair(what: &str, old: &str, new: &str) -> Pair {
    (what.to_owned(), old.to_owned(), new.to_owned())
}

fn differing(pairs: Vec<Pair>) -> Vec<String> {
    let pairs = pairs.into_iter().filter(|(_, old, new)| old != new);
    pairs
        .map(|(what, old, new)| format!("{what}: {old} before, {new} after"))
        .collect()
}
