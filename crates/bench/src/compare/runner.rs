//! Makes the runs: each workload on each system in turn, repetition by repetition, so that a machine that drifts harms none.
//!
//! A run that fails says why and harms no other; what was made before is not made again.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;

use super::Clients;
use super::fleet::{Fleet, Way};
use super::interrupt::{Interrupt, Interrupted};
use super::peer::{Peers, System};
use super::plan::{Load, Plan, Rate, RowPlan, Who, Work};
use super::progress::Progress;
use super::record::{CellKey, Line, Record, Run};
use super::results::DriverFacts;
use super::work::{self, Manner, Names, Outcome, Running, Stored};

/// A system of which so many cells failed in a row is asked nothing more.
const FAILED_CELLS_MAX: u32 = 4;
/// The length of a cell's trial, in times of a run.
const TRIAL_SHARE: f64 = 0.5;

/// What all runs have in common.
#[derive(Debug, Clone, Copy)]
pub(super) struct Setting<'a> {
    pub(super) systems: &'a [System],
    pub(super) peers: &'a Peers,
    pub(super) clients: Clients,
    pub(super) repetitions: u32,
    pub(super) seconds: f64,
    pub(super) warmup_seconds: f64,
    pub(super) interrupt: &'a Interrupt,
}

/// Makes runs.
pub(super) struct Runner<'a> {
    setting: Setting<'a>,
    fleet: Fleet,
    record: Record,
    names: Names,
    progress: Progress,
    /// Ways that have said who they are.
    described: BTreeSet<(String, String)>,
    /// Cells in a row that failed, by system.
    failed_cells: BTreeMap<String, u32>,
}

/// A cell while its row is measured.
struct Measured {
    key: CellKey,
    way: Way,
    stored: Option<Stored>,
    known_rate: Option<f64>,
    failed: bool,
}

impl<'a> Runner<'a> {
    /// For `plans`.
    pub(super) fn new(setting: Setting<'a>, fleet: Fleet, record: Record, plans: &[Plan]) -> Runner<'a> {
        let mut loads = Vec::new();
        for plan in plans {
            let ways = ways(&setting, plan).len();
            for row in &plan.rows {
                let seconds = row.work.seconds(setting.seconds);
                loads.extend(std::iter::repeat_n(seconds, ways * setting.repetitions as usize));
            }
        }
        Runner {
            setting,
            fleet,
            record,
            names: Names::default(),
            progress: Progress::new(loads.into_iter()),
            described: BTreeSet::new(),
            failed_cells: BTreeMap::new(),
        }
    }

    /// Makes all runs that are not in the record yet, and gives the record back.
    ///
    /// # Errors
    /// If the comparison was interrupted or its record cannot be written; not if runs fail.
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
        let ways = ways(&self.setting, plan);
        let mut cells: Vec<Measured> = ways
            .into_iter()
            .map(|way| Measured {
                key: CellKey {
                    experiment: plan.name.to_owned(),
                    row: row.name.clone(),
                    system: way.system.variant.name.clone(),
                    driver: way.driver.name.clone(),
                },
                way,
                stored: None,
                known_rate: None,
                failed: false,
            })
            .collect();
        for repetition in 0..self.setting.repetitions {
            for cell in &mut cells {
                self.repetition(row, cell, repetition)?;
            }
        }
        for cell in cells {
            if let Some(stored) = cell.stored {
                // A log that cannot be removed only takes room.
                let _ = work::forget(&stored, &cell.way, &mut self.fleet);
            }
        }
        Ok(())
    }

    /// One run, unless it was made before or its cell has failed.
    fn repetition(&mut self, row: &RowPlan, cell: &mut Measured, repetition: u32) -> Result<()> {
        self.setting.interrupt.check()?;
        let estimate = row.work.seconds(self.setting.seconds);
        let what = format!(
            "{} · {} · {} · {} · {} of {}",
            cell.key.experiment,
            cell.key.row,
            cell.way.system.variant.title,
            cell.key.driver,
            repetition + 1,
            self.setting.repetitions
        );
        self.progress.begin();
        let before = self
            .record
            .runs(&cell.key)
            .find(|run| run.repetition == repetition);
        if let Some(before) = before {
            cell.failed |= before.failure.is_some();
            self.progress.end(&what, estimate, "made before");
            return Ok(());
        }
        let outcome = match self.reason_not_to(row, cell) {
            Some(reason) => Err(anyhow::anyhow!(reason)),
            None => self.attempt(row, cell, repetition, &what),
        };
        self.setting.interrupt.check()?;
        let found = found(&outcome);
        self.progress.end(&what, estimate, &found);
        let run = match outcome {
            Ok(outcome) => {
                self.failed_cells.remove(&cell.key.system);
                Run {
                    cell: cell.key.clone(),
                    repetition,
                    figures: outcome.figures,
                    latency_ns: outcome.latency_ns,
                    verified_records: outcome.verified_records,
                    failure: None,
                }
            }
            Err(error) => {
                if !std::mem::replace(&mut cell.failed, true) {
                    *self.failed_cells.entry(cell.key.system.clone()).or_default() += 1;
                }
                failed(cell, repetition, format!("{error:#}"))
            }
        };
        self.record.add(Line::Run(run))
    }

    /// Why a run is not even tried.
    fn reason_not_to(&self, row: &RowPlan, cell: &Measured) -> Option<String> {
        let largest = cell.way.system.peer.file.record_bytes_max;
        if let Some(largest) = largest.filter(|largest| row.work.record_bytes() > *largest) {
            return Some(format!("not asked: meant for records of up to {largest} B"));
        }
        if self.failed_cells.get(&cell.key.system) >= Some(&FAILED_CELLS_MAX) {
            return Some("not asked: too much of this system failed before".to_owned());
        }
        cell.failed
            .then(|| "not asked: an earlier repetition failed".to_owned())
    }

    fn attempt(
        &mut self,
        row: &RowPlan,
        cell: &mut Measured,
        repetition: u32,
        what: &str,
    ) -> Result<Outcome> {
        let prepared = self.prepare(&cell.way, &row.work);
        // Starts and warm-ups are rare: they say nothing of how long the rest takes.
        self.progress.begin();
        let outcome = prepared.and_then(|()| self.trial_and_run(row, cell, repetition, what));
        if let Err(error) = &outcome {
            // Whatever state it is in now, the next run must not find it.
            if !error.is::<Interrupted>() {
                self.fleet.discard(&cell.way);
            }
            cell.stored = None;
        }
        outcome
    }

    /// Has a system and a driver running, known and warm.
    fn prepare(&mut self, way: &Way, work: &Work) -> Result<()> {
        self.describe(way)?;
        if !self.fleet.is_warm(way) && !work.restarts_first() {
            work::warm_up(way, self.setting.warmup_seconds, &mut self.fleet, &mut self.names)?;
        }
        Ok(())
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
        })?;
        self.record.add(Line::Driver {
            system: name.0.clone(),
            driver: name.1.clone(),
            facts: DriverFacts {
                title: way.driver.file.title.clone(),
                version: format!("{} {}", described.client, described.version),
                settings: described.settings,
            },
        })?;
        self.described.insert(name);
        Ok(())
    }

    /// The first run of a cell goes after a short one that does not count: it warms up, and tells how long a warm-up is.
    fn trial_and_run(
        &mut self,
        row: &RowPlan,
        cell: &mut Measured,
        repetition: u32,
        what: &str,
    ) -> Result<Outcome> {
        let load = match &row.work {
            Work::Append(load) | Work::ReadMeanwhile { load, .. } => Some(load),
            Work::Read { .. } | Work::Restart(_) => None,
        };
        let rate = load.map_or(Ok(None), |load| self.rate(load, cell))?;
        let manner = Manner {
            seconds: self.setting.seconds,
            full_seconds: self.setting.seconds,
            warmup_seconds: self.setting.warmup_seconds,
            known_rate: cell.known_rate,
            rate,
            verify: repetition == 0,
            counts: true,
        };
        if cell.known_rate.is_none() && matches!(row.work, Work::Append(_) | Work::Read { .. }) {
            let trial = Manner {
                seconds: manner.seconds * TRIAL_SHARE,
                verify: false,
                counts: false,
                ..manner
            };
            let outcome = self.work(row, cell, trial, what)?;
            cell.known_rate = outcome.figures.get("records_per_s").copied();
        }
        let manner = Manner {
            known_rate: cell.known_rate,
            ..manner
        };
        self.work(row, cell, manner, what)
    }

    fn work(&mut self, row: &RowPlan, cell: &mut Measured, manner: Manner, what: &str) -> Result<Outcome> {
        let progress = &self.progress;
        let mut running = Running {
            way: &cell.way,
            manner,
            fleet: &mut self.fleet,
            stored: &mut cell.stored,
            names: &mut self.names,
            tell: &|records| progress.tell(what, records),
        };
        running.run(&row.work)
    }

    /// Records a second that are due.
    fn rate(&self, load: &Load, cell: &Measured) -> Result<Option<f64>> {
        let (share, experiment, row) = match load.rate {
            None => return Ok(None),
            Some(Rate::Fixed(rate)) => return Ok(Some(rate)),
            Some(Rate::OfMaximum {
                share,
                experiment,
                row,
            }) => (share, experiment, row),
        };
        let of = CellKey {
            experiment: experiment.to_owned(),
            row: row.to_owned(),
            ..cell.key.clone()
        };
        let mut rates: Vec<f64> = self
            .record
            .runs(&of)
            .filter_map(|run| run.figures.get("records_per_s").copied())
            .collect();
        rates.sort_by(f64::total_cmp);
        let maximum = rates.get(rates.len() / 2);
        let maximum = maximum.ok_or_else(|| anyhow::anyhow!("its maximum ({experiment}) is not known"))?;
        Ok(Some(maximum * share))
    }
}

fn failed(cell: &Measured, repetition: u32, why: String) -> Run {
    Run {
        cell: cell.key.clone(),
        repetition,
        figures: BTreeMap::new(),
        latency_ns: Vec::new(),
        verified_records: None,
        failure: Some(why),
    }
}

/// A run in a few words.
fn found(outcome: &Result<Outcome>) -> String {
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(error) => return format!("FAILED: {error:#}"),
    };
    let figure = |name: &str, unit: &str| outcome.figures.get(name).map(|value| format!("{value} {unit}"));
    let parts = [
        figure("records_per_s", "records/s"),
        figure("p50_us", "µs at the median"),
        figure("first_ack_s", "s to the first acknowledgement"),
        outcome
            .verified_records
            .map(|records| format!("{records} verified")),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Who is asked in a table, through which drivers.
pub(super) fn ways(setting: &Setting<'_>, plan: &Plan) -> Vec<Way> {
    let is_asked = |system: &&System| match plan.who {
        Who::Logs => !system.peer.file.serve.is_empty(),
        Who::Variants(names) => names.contains(&system.variant.name.as_str()),
    };
    let mut ways = Vec::new();
    for system in setting.systems.iter().filter(is_asked) {
        let common = system
            .variant
            .also
            .iter()
            .filter(|_| setting.clients == Clients::All);
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
