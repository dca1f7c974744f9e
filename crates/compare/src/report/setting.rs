//! How it was measured: the machine, its floors, and each system with its version, guarantee, settings and clients.

use std::collections::BTreeMap;

use super::columns;
use super::document::{Block, Document, Line, Span, Table, Text, slug};
use super::overview::point;
use crate::results::{Acknowledges, DriverFacts, Results, Survives, SystemFacts};
use bench::number;

/// Adds the sections.
pub(crate) fn push(document: &mut Document, results: &Results) {
    document.heading(2, "The machine", "machine");
    document.list(machine(results));
    push_floors(document, results);
    document.heading(2, "The systems", "systems");
    for system in &results.systems {
        push_system(document, system);
    }
    document.heading(2, "How to repeat it", "command");
    document.blocks.push(Block::Code(results.command.clone()));
    document.paragraph(asked(results));
}

/// How much was asked, also where the command leaves it to the program; empty where an earlier build did not tell.
fn asked(results: &Results) -> String {
    let Some(asked) = &results.asked else {
        return String::new();
    };
    let repetitions = match asked.repetitions_max > results.repetitions {
        true => format!(
            "{} repetitions, up to {} where figures vary much",
            results.repetitions, asked.repetitions_max
        ),
        false => format!("{} repetitions, however much figures vary", results.repetitions),
    };
    let clients = match asked.clients.as_str() {
        "best" => "the best client of each system",
        "common" => "the clients that several systems share",
        "all" => "the best client of each system and common ones",
        other => other,
    };
    let names_records = results
        .experiments
        .iter()
        .any(|table| !table.published.is_empty());
    let scale = match names_records {
        true => format!(
            "; {} of the numbers of records that publications name",
            asked.scale
        ),
        false => String::new(),
    };
    format!(
        "That is: timed runs of {} s; at least {} s of load after each start; {repetitions}; {clients}{scale}.",
        asked.seconds, asked.warmup_seconds
    )
}

fn machine(results: &Results) -> Vec<Text> {
    let machine = &results.machine;
    let size = format!(
        "{} × {}, {} GB of memory",
        machine.cpus,
        machine.cpu,
        number::plain(machine.memory_gb)
    );
    vec![
        point("Processor: ", size),
        point("Kernel: ", &machine.kernel),
        point("File system: ", &machine.file_system),
        point("Measured: ", format!("{} to {}", results.began, results.ended)),
    ]
}

/// What the machine allows, before and after all runs.
fn push_floors(document: &mut Document, results: &Results) {
    let Some(before) = results.floors.first().filter(|floors| !floors.is_empty()) else {
        return;
    };
    document.heading(2, "What the machine allows", "floors");
    document
        .paragraph("Measured without any of the systems; no system can be faster than what it is made of.");
    let text = |floor: Option<&f64>| {
        let floor = floor.filter(|floor| floor.is_finite());
        Text::from(floor.map_or_else(|| "–".to_owned(), |floor| number::plain(*floor)))
    };
    let lines = before.keys().map(|name| {
        let cells = results.floors.iter().map(|floors| text(floors.get(name)));
        Line::Cells(Text::from(name), cells.collect())
    });
    let titles = ["before, p50 µs", "after, p50 µs"];
    let title = |index: usize| {
        titles
            .get(index)
            .map_or_else(|| format!("{}.", index + 1), |t| (*t).to_owned())
    };
    document.blocks.push(Block::Table(Table {
        label: "floor".to_owned(),
        columns: (0..results.floors.len()).map(title).collect(),
        lines: lines.collect(),
        figures: true,
        ..Table::default()
    }));
}

fn push_system(document: &mut Document, system: &SystemFacts) {
    let anchor = format!("system-{}", slug(&system.name));
    document.heading(3, &columns::title(system), &anchor);
    let promise = match system.survives {
        Survives::PowerCut => "an acknowledged record survives a power cut",
        Survives::ProcessCrash => "an acknowledged record survives a crash of the process, but no power cut",
        Survives::Nothing => "an acknowledged record may be lost with the process",
    };
    let mut points = Vec::new();
    if let Some(why) = &system.failed {
        points.push(point("Not measured: ", why));
    }
    points.push(
        Text::strong("Version: ")
            .and(&system.version)
            .and("; called ")
            .with(Span::Code(system.name.clone())),
    );
    let acknowledges = match system.acknowledges {
        Some(Acknowledges::Batch) => "; one acknowledgement is for all records of a request",
        Some(Acknowledges::Record) => "; each record is acknowledged by itself",
        None => "",
    };
    points.push(point(
        "Guarantee: ",
        match system.durability.is_empty() {
            true => format!("{promise}{acknowledges}"),
            false => format!("{promise}; {}{acknowledges}", system.durability),
        },
    ));
    if !system.settings.is_empty() {
        points.push(settings(Text::strong("Settings: "), &system.settings));
    }
    points.extend(system.drivers.iter().map(|(name, driver)| client(name, driver)));
    document.list(points);
}

fn client(name: &str, driver: &DriverFacts) -> Text {
    let title = if driver.title.is_empty() {
        name
    } else {
        &driver.title
    };
    let mut text = Text::strong("Client: ").and(title);
    if !driver.version.is_empty() && !title.contains(&driver.version) {
        text = text.and(format!(", version {}", driver.version));
    }
    match driver.settings.is_empty() {
        true => text,
        false => settings(text.and(": "), &driver.settings),
    }
}

fn settings(text: Text, settings: &BTreeMap<String, String>) -> Text {
    let mut text = text;
    for (index, (name, value)) in settings.iter().enumerate() {
        let between = if index == 0 { "" } else { ", " };
        text = text.and(between).with(Span::Code(format!("{name}={value}")));
    }
    text
}
