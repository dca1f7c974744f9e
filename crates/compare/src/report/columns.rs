//! Who takes part in an experiment: a column for each system and client, in the same order everywhere.

use super::measured::Measured;
use crate::results::{Cell, Experiment, Results, Row, Survives, SystemFacts};

/// A system through one of its clients.
#[derive(Debug, Clone)]
pub(crate) struct Column<'a> {
    /// The system's name in cells.
    pub(crate) system: &'a str,
    /// The driver's name in cells.
    pub(crate) driver: &'a str,
    /// Whether the driver is the system's best client.
    pub(crate) is_best_client: bool,
    /// What is known of the system.
    pub(crate) facts: Option<&'a SystemFacts>,
    /// Its place among the systems.
    pub(crate) number: usize,
    /// Its system's place among those of the experiment, which decides its colour.
    pub(crate) ink: usize,
    /// How often each workload was asked to run.
    repetitions: u32,
    /// What tables and plots call it.
    pub(crate) title: String,
}

impl<'a> Column<'a> {
    fn new(results: &'a Results, cell: &'a Cell) -> Column<'a> {
        let systems = &results.systems;
        let place = systems.iter().position(|system| system.name == cell.system);
        Column {
            system: &cell.system,
            driver: &cell.driver,
            is_best_client: cell.best_client,
            facts: place.map(|place| &systems[place]),
            number: place.unwrap_or(systems.len()),
            ink: 0,
            repetitions: results.repetitions,
            title: String::new(),
        }
    }

    /// Its cell in a row, if it was asked.
    pub(crate) fn cell<'b>(&self, row: &'b Row) -> Option<&'b Cell> {
        row.cells.iter().find(|cell| self.is_of(cell))
    }

    /// Its figure in a row, if there is one.
    pub(crate) fn measured(&self, row: &Row, metric: &str) -> Option<Measured> {
        Measured::in_row(row, self.cell(row)?, metric, self.repetitions)
    }

    /// What the system's acknowledged records survive.
    pub(crate) fn survives(&self) -> Option<Survives> {
        self.facts.map(|system| system.survives)
    }

    /// What its system is called.
    pub(crate) fn system_title(&self) -> String {
        self.facts.map_or_else(|| self.system.to_owned(), title)
    }

    /// The name of its client: by its title, or by its name where nothing is known of it.
    pub(crate) fn client(&self) -> &'a str {
        let known = self.facts.and_then(|system| system.drivers.get(self.driver));
        let title = known.map(|driver| driver.title.as_str());
        title.filter(|title| !title.is_empty()).unwrap_or(self.driver)
    }

    fn is_of(&self, cell: &Cell) -> bool {
        cell.system == self.system && cell.driver == self.driver && cell.best_client == self.is_best_client
    }

    /// The client is named where there is more than one, and where it is not the best.
    fn told(&self, are_many: bool) -> String {
        let (system, client) = (self.system_title(), self.client());
        match (self.is_best_client, are_many) {
            (true, false) => system,
            (true, true) => format!("{system} ({client})"),
            (false, _) => format!("{system} (common client: {client})"),
        }
    }
}

/// The columns of an experiment: in the order of the systems, each with its best client first.
pub(crate) fn of<'a>(results: &'a Results, experiment: &'a Experiment) -> Vec<Column<'a>> {
    let mut columns: Vec<Column<'a>> = Vec::new();
    for cell in experiment.cells() {
        if !columns.iter().any(|column| column.is_of(cell)) {
            columns.push(Column::new(results, cell));
        }
    }
    columns.sort_by_key(|column| (column.number, !column.is_best_client));
    let systems = columns.chunk_by_mut(|one, other| one.number == other.number);
    for (ink, clients) in systems.enumerate() {
        let are_many = clients.len() > 1;
        for column in clients {
            (column.title, column.ink) = (column.told(are_many), ink);
        }
    }
    columns
}

/// A system's title, marked with what it promises.
pub(crate) fn title(system: &SystemFacts) -> String {
    match system.survives {
        Survives::PowerCut => format!("{} ◆", system.title),
        Survives::ProcessCrash => format!("{} ○", system.title),
        Survives::Nothing => system.title.clone(),
    }
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
