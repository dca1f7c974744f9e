//! Makes the runs: each workload on each system in turn, repetition by repetition, there and back, so that a machine that drifts
//! harms none.
//!
//! A run that fails says why and harms no other; what was made before is not made again. Where the repetitions of a cell are far
//! apart, more are made, up to a limit.

mod trials;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;

use super::CompareOptions;
use super::asking::{self, reason_not_to_ask, ways};
use super::fleet::{Fleet, Way};
use super::interrupt::{Interrupt, Interrupted};
use super::peer::{Peers, System};
use super::plan::{Plan, RowPlan, Work};
use super::progress::{self, Progress};
use super::record::{CellKey, Line, Record, Run};
use super::results::DriverFacts;
use super::work::{self, BrokenPromise, Manner, Running, Stored};

/// A system of which so many cells failed in a row is asked nothing more.
const FAILED_CELLS_MAX: u32 = 4;

/// What all runs have in common.
#[derive(Debug, Clone, Copy)]
pub(super) struct Setting<'a> {
    pub(super) systems: &'a [System],
    pub(super) peers: &'a Peers,
    pub(super) options: &'a CompareOptions,
    pub(super) interrupt: &'a Interrupt,
}

pub(super) struct Runner<'a> {
    setting: Setting<'a>,
    fleet: Fleet,
    record: Record,
    progress: Progress,
    is_trouble_told: bool,
    /// Ways that have said who they are.
    described: BTreeSet<(String, String)>,
    /// Cells in a row that failed, by system.
    failed_cells: BTreeMap<String, u32>,
}

/// A cell while its row is measured.
struct Measured {
    key: CellKey,
    way: Way,
    /// What it keeps from run to run.
    stored: Vec<Stored>,
    known_rate: Option<f64>,
    failed: bool,
}

impl<'a> Runner<'a> {
    pub(super) fn new(setting: Setting<'a>, fleet: Fleet, record: Record, plans: &[Plan]) -> Runner<'a> {
        let loads = plans.iter().flat_map(|plan| {
            let runs = ways(&setting, plan).len() * setting.options.repetitions as usize;
            let seconds = plan
                .rows
                .iter()
                .map(|row| row.work.seconds(setting.options.seconds));
            seconds.flat_map(move |seconds| std::iter::repeat_n(seconds, runs))
        });
        Runner {
            setting,
            fleet,
            record,
            progress: Progress::new(loads),
            is_trouble_told: false,
            described: BTreeSet::new(),
            failed_cells: BTreeMap::new(),
        }
    }

    /// Makes all runs that are not in the record yet, and gives the record back.
    ///
    /// # Errors
    /// If the comparison was interrupted; not if runs fail or their record cannot be written.
    pub(super) fn run(mut self, plans: &[Plan]) -> Result<Record> {
        for (place, plan) in plans.iter().enumerate() {
            let needed: Vec<Way> = plans[place..]
                .iter()
                .flat_map(|plan| ways(&self.setting, plan))
                .collect();
            self.fleet.keep_only(&needed);
            for row in &plan.rows {
                self.row(plan, row)?;
            }
        }
        Ok(self.record)
    }

    fn row(&mut self, plan: &Plan, row: &RowPlan) -> Result<()> {
        let mut cells = self.cells(plan, row);
        let asked = self.setting.options.repetitions;
        for repetition in 0..asked.max(self.setting.options.repetitions_max) {
            for cell in &mut cells {
                if repetition >= asked {
                    if !self.is_unsteady(plan, cell) {
                        continue;
                    }
                    self.progress.add(row.work.seconds(self.setting.options.seconds));
                }
                self.repetition(row, cell, repetition)?;
            }
            // Backwards each time: who came after a system, and what that one left to do, comes before it next.
            cells.reverse();
        }
        for cell in cells {
            for stored in &cell.stored {
                work::remove(stored, &cell.way, &mut self.fleet);
            }
        }
        Ok(())
    }

    /// Those of a row, of which nothing is known but what the record says.
    fn cells(&self, plan: &Plan, row: &RowPlan) -> Vec<Measured> {
        let ways = ways(&self.setting, plan).into_iter();
        ways.map(|way| {
            let key = CellKey::of(plan, row, &way);
            Measured {
                failed: asking::broke_its_promise(&self.record, &key),
                key,
                way,
                stored: Vec::new(),
                known_rate: None,
            }
        })
        .collect()
    }

    /// Whether another repetition is worth its time.
    fn is_unsteady(&self, plan: &Plan, cell: &Measured) -> bool {
        let metric = plan.metrics.first().filter(|_| !cell.failed);
        metric.is_some_and(|metric| asking::is_unsteady(&self.record, &cell.key, metric))
    }

    /// One run, unless it was made before or its cell has failed.
    fn repetition(&mut self, row: &RowPlan, cell: &mut Measured, repetition: u32) -> Result<()> {
        self.setting.interrupt.check()?;
        let estimate = row.work.seconds(self.setting.options.seconds);
        let what = self.title(cell, repetition);
        self.progress.begin();
        let is_made = self
            .record
            .runs(&cell.key)
            .any(|run| run.repetition == repetition);
        if is_made {
            self.progress.pass_over(&what, estimate);
            return Ok(());
        }
        let run = Run::new(&cell.key, repetition);
        let (run, found) = match reason_not_to_ask(row, &cell.way.system, self.setting.options) {
            Some(why) => {
                let found = format!("not asked: {why}");
                let not_asked = Some(why);
                (Run { not_asked, ..run }, found)
            }
            None => {
                let outcome = match self.reason_not_to_try(cell) {
                    Some(why) => Err(anyhow::anyhow!(why)),
                    None => self.attempt(row, cell, repetition, &what),
                };
                self.setting.interrupt.check()?;
                let found = found(&outcome, &self.fleet);
                (self.judge(run, outcome, cell), found)
            }
        };
        self.progress.end(&what, estimate, &found);
        self.keep(run);
        Ok(())
    }

    /// A run, as it is told.
    fn title(&self, cell: &Measured, repetition: u32) -> String {
        format!(
            "{} · {} · {} · {} · {} of {}",
            cell.key.experiment,
            cell.key.row,
            cell.way.system.variant.title,
            cell.key.driver,
            repetition + 1,
            self.setting.options.repetitions.max(repetition + 1)
        )
    }

    fn keep(&mut self, run: Run) {
        self.record.add(Line::Run(run));
        if let Some(trouble) = self.record.write()
            && !std::mem::replace(&mut self.is_trouble_told, true)
        {
            progress::say(&format!(
                "the record of runs cannot be written ({trouble}); runs are kept in memory meanwhile"
            ));
        }
    }

    /// A run with what came of it.
    fn judge(&mut self, run: Run, outcome: Result<Run>, cell: &mut Measured) -> Run {
        match outcome {
            Ok(outcome) => {
                self.failed_cells.remove(&cell.key.system);
                Run {
                    cell: run.cell,
                    repetition: run.repetition,
                    ..outcome
                }
            }
            Err(error) => {
                if !std::mem::replace(&mut cell.failed, true) {
                    *self.failed_cells.entry(cell.key.system.clone()).or_default() += 1;
                }
                Run {
                    broke_its_promise: error.is::<BrokenPromise>(),
                    failure: Some(self.fleet.told(&error)),
                    ..run
                }
            }
        }
    }

    /// Why a run is not even tried, after failures.
    fn reason_not_to_try(&self, cell: &Measured) -> Option<String> {
        if self.failed_cells.get(&cell.key.system) >= Some(&FAILED_CELLS_MAX) {
            return Some("not tried: too much of this system failed before".to_owned());
        }
        cell.failed
            .then(|| "not tried: an earlier repetition failed".to_owned())
    }

    fn attempt(&mut self, row: &RowPlan, cell: &mut Measured, repetition: u32, what: &str) -> Result<Run> {
        let prepared = self.prepare(&cell.way, &row.work);
        // Starts and warm-ups are rare: they say nothing of how long the rest takes.
        self.progress.begin();
        let outcome = prepared.and_then(|()| self.trial_and_run(row, cell, repetition, what));
        if let Err(error) = &outcome {
            // Whatever state it is in now, the next run must not find it.
            if !error.is::<Interrupted>() {
                self.fleet.discard(&cell.way);
            }
            cell.stored.clear();
        }
        outcome
    }

    /// Has a system and a driver running, known and warm.
    fn prepare(&mut self, way: &Way, work: &Work) -> Result<()> {
        self.describe(way)?;
        if work.starts_first() {
            return Ok(());
        }
        let clients = work.load().clients as usize;
        work::warm_up(way, clients, self.setting.options.warmup_seconds, &mut self.fleet)
    }

    /// Asks a system and a driver who they are, once.
    fn describe(&mut self, way: &Way) -> Result<()> {
        let (server, driving) = self.fleet.have(way)?;
        let name = (way.system.variant.name.clone(), way.driver.name.clone());
        if self.described.contains(&name) {
            return Ok(());
        }
        let described = driving.describe()?;
        let mut settings = way.system.variant.serve_settings.clone();
        settings.extend(server.ready().settings.clone());
        let of_logs = way.system.variant.log_settings.iter();
        settings.extend(of_logs.map(|(name, value)| (format!("of each log: {name}"), value.clone())));
        self.record.add(Line::System {
            system: name.0.clone(),
            settings,
        });
        self.record.add(Line::Driver {
            system: name.0.clone(),
            driver: name.1.clone(),
            facts: DriverFacts {
                title: way.driver.file.title.clone(),
                version: format!("{} {}", described.client, described.version),
                settings: described.settings,
            },
        });
        self.described.insert(name);
        Ok(())
    }

    /// The first run of a cell goes after its trials.
    fn trial_and_run(
        &mut self,
        row: &RowPlan,
        cell: &mut Measured,
        repetition: u32,
        what: &str,
    ) -> Result<Run> {
        let rate = asking::rate(&self.record, row, &cell.key)?;
        let manner = Manner {
            seconds: self.setting.options.seconds,
            full_seconds: self.setting.options.seconds,
            warmup_seconds: self.setting.options.warmup_seconds,
            known_rate: cell.known_rate,
            rate,
            verify: asking::must_verify(
                &self.record,
                &cell.key,
                (repetition, self.setting.options.repetitions),
            ),
            counts: true,
        };
        if cell.known_rate.is_none() && matches!(row.work, Work::Append(_) | Work::Read(_)) {
            self.try_out(row, cell, manner, what)?;
        }
        let manner = Manner {
            known_rate: cell.known_rate,
            ..manner
        };
        self.work(row, cell, manner, what)
    }

    fn work(&mut self, row: &RowPlan, cell: &mut Measured, manner: Manner, what: &str) -> Result<Run> {
        let progress = &self.progress;
        let mut running = Running {
            way: &cell.way,
            manner,
            fleet: &mut self.fleet,
            stored: &mut cell.stored,
            tell: &|records| progress.tell(what, records),
        };
        running.run(&row.work)
    }
}

/// A run in a few words.
fn found(outcome: &Result<Run>, fleet: &Fleet) -> String {
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(error) => return format!("FAILED: {}", fleet.told(error)),
    };
    let figure = |name: &str, unit: &str| outcome.figures.get(name).map(|value| format!("{value} {unit}"));
    let parts = [
        figure("records_per_s", "records/s"),
        figure("p50_us", "µs at the median"),
        figure("first_ack_s", "s to the first acknowledgement"),
        figure(
            "stall_leader_s",
            "s without an acknowledgement when the leader was killed",
        ),
        outcome
            .verified_records
            .map(|records| format!("{records} verified")),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}
