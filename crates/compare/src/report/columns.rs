//! Who takes part in an experiment: a column for each system and client, in the same order everywhere.

use super::measured::Measured;
use crate::results::{Cell, Experiment, Results, Row, Survives, SystemFacts};

/// A system through one of its clients.
#[derive(Debug, Clone)]
pub(crate) struct Column {
    /// The system's name in cells.
    pub(crate) system: String,
    /// The driver's name in cells.
    pub(crate) driver: String,
    /// Whether the driver is the system's best client.
    pub(crate) is_best_client: bool,
    /// Its place among the systems.
    pub(crate) number: usize,
    /// Its system's place among those of the experiment, which decides its colour.
    pub(crate) ink: usize,
    /// How often each workload was asked to run.
    repetitions: u32,
    /// What the system's acknowledged records survive; none if nothing is known of it.
    pub(crate) survives: Option<Survives>,
    /// What tables and plots call it.
    pub(crate) title: String,
}

impl Column {
    /// Its cell in a row, if it was asked.
    pub(crate) fn cell<'a>(&self, row: &'a Row) -> Option<&'a Cell> {
        row.cells.iter().find(|cell| self.is_of(cell))
    }

    /// Its figure in a row, if there is one.
    pub(crate) fn measured(&self, row: &Row, metric: &str) -> Option<Measured> {
        Measured::in_row(row, self.cell(row)?, metric, self.repetitions)
    }

    fn is_of(&self, cell: &Cell) -> bool {
        cell.system == self.system && cell.driver == self.driver && cell.best_client == self.is_best_client
    }
}

/// The columns of an experiment: in the order of the systems, each with its best client first.
pub(crate) fn of(results: &Results, experiment: &Experiment) -> Vec<Column> {
    let mut columns: Vec<Column> = Vec::new();
    for cell in experiment.cells() {
        if !columns.iter().any(|column| column.is_of(cell)) {
            columns.push(column(results, cell));
        }
    }
    columns.sort_by_key(|column| (column.number, !column.is_best_client));
    let numbers: Vec<usize> = columns.iter().map(|column| column.number).collect();
    for (place, column) in columns.iter_mut().enumerate() {
        let clients = numbers.iter().filter(|number| **number == column.number).count();
        column.title = column_title(results, column, clients > 1);
        // How often the system has changed up to here.
        column.ink = numbers[..=place]
            .windows(2)
            .filter(|pair| pair[0] != pair[1])
            .count();
    }
    columns
}

fn column(results: &Results, cell: &Cell) -> Column {
    let systems = &results.systems;
    let place = systems.iter().position(|system| system.name == cell.system);
    Column {
        system: cell.system.clone(),
        driver: cell.driver.clone(),
        is_best_client: cell.best_client,
        number: place.unwrap_or(systems.len()),
        ink: 0,
        repetitions: results.repetitions,
        survives: place.map(|place| systems[place].survives),
        title: String::new(),
    }
}

/// The client is named where there is more than one, and where it is not the best.
fn column_title(results: &Results, column: &Column, are_many: bool) -> String {
    let system = results.system(&column.system);
    let title = system.map_or_else(|| column.system.clone(), title);
    let client = driver_title(system, &column.driver);
    match (column.is_best_client, are_many) {
        (true, false) => title,
        (true, true) => format!("{title} ({client})"),
        (false, _) => format!("{title} (common client: {client})"),
    }
}

/// A system's title, marked with what it promises.
pub(crate) fn title(system: &SystemFacts) -> String {
    match system.survives {
        Survives::PowerCut => format!("{} ◆", system.title),
        Survives::ProcessCrash => format!("{} ○", system.title),
        Survives::Nothing => system.title.clone(),
    }
}

/// A driver's title, or its name where nothing is known of it.
pub(crate) fn driver_title<'a>(system: Option<&'a SystemFacts>, driver: &'a str) -> &'a str {
    let known = system.and_then(|system| system.drivers.get(driver));
    known
        .map(|driver| driver.title.as_str())
        .filter(|title| !title.is_empty())
        .unwrap_or(driver)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::made_up;

    #[test]
    fn systems_of_one_experiment_are_counted_from_its_first() {
        let results = made_up::results(&["ours", "absent", "one", "other"]);
        let cell = |system: &str, best_client| Cell {
            best_client,
            ..made_up::cell(system, &[])
        };
        let cells = vec![
            cell("other", true),
            cell("one", false),
            cell("one", true),
            cell("ours", true),
        ];
        let experiment = made_up::experiment(&[], vec![made_up::row("", cells)]);
        let columns = of(&results, &experiment);
        let inks: Vec<(usize, usize)> = columns.iter().map(|column| (column.number, column.ink)).collect();
        assert_eq!(inks, [(0, 0), (2, 1), (2, 1), (3, 2)]);
    }
}
