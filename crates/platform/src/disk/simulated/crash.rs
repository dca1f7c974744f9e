//! The disks a power cut could leave behind: for every point of a recorded run, the legal subsets of what was not durable.
//!
//! A crash point is "operations before this one returned, this one is running". Its choices are all subsets of the items
//! in doubt if they are few; else certain telling ones and a sample drawn from the seed, the same for the same seed.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use super::SimulatedDisk;
use super::model::{Model, Progress, Remains};
use super::state::{Operation, Recorded};
use crate::random::SeededRandom;

/// Where in its run a disk was cut off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CrashPoint {
    /// Operations with an index below this had returned; what they made durable must be there.
    pub completed: u64,
    /// The operation that was running, of which anything may be there.
    pub running: Option<Operation>,
    /// The number of changes in doubt that reached the disk.
    pub kept: usize,
    /// The number of changes in doubt.
    pub in_doubt: usize,
    /// Which of the point's choices this is; with the seed it names the state.
    pub choice: u64,
}

impl fmt::Display for CrashPoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CrashPoint {
            completed,
            running,
            kept,
            in_doubt,
            choice,
        } = self;
        write!(formatter, "crash after {completed} operations, ")?;
        if let Some(running) = running {
            write!(formatter, "during {running}, ")?;
        }
        write!(
            formatter,
            "choice {choice}: {kept} of {in_doubt} changes in doubt kept"
        )
    }
}

/// The settings that a disk hands on to the disks that its crash leaves.
#[derive(Debug, Clone)]
pub(super) struct Inheritance {
    pub(super) capacity: Option<u64>,
    pub(super) sector_tears: bool,
    pub(super) next_id: u64,
}

/// The crash states of a run, point after point. From `SimulatedDisk::crash_states`.
pub struct CrashStates {
    journal: Vec<Arc<Recorded>>,
    /// The platter after the operations before `next` have returned.
    model: Model,
    first_index: u64,
    next: usize,
    limit: u64,
    seed: u64,
    inheritance: Inheritance,
    point: Option<Point>,
}

/// One crash point and how far its choices have been handed out.
struct Point {
    model: Model,
    completed: u64,
    running: Option<Operation>,
    optional: Vec<u64>,
    /// The number of `optional` that belong to operations that had returned.
    earlier: usize,
    choices: Choices,
    next_choice: u64,
}

impl CrashStates {
    pub(super) fn new(
        journal: Vec<Arc<Recorded>>,
        start: Model,
        first_index: u64,
        limit: usize,
        seed: u64,
        inheritance: Inheritance,
    ) -> CrashStates {
        let limit = limit as u64;
        CrashStates {
            journal,
            model: start,
            first_index,
            next: 0,
            limit,
            seed,
            inheritance,
            point: None,
        }
    }

    /// Sets up the next crash point; none behind the last operation.
    fn advance(&mut self) -> Option<Point> {
        let completed = self.first_index + self.next as u64;
        let recorded = match self.journal.get(self.next) {
            Some(recorded) => Some(Arc::clone(recorded)),
            None if self.next == self.journal.len() => None,
            None => return None,
        };
        self.next += 1;
        let mut model = self.model.clone();
        let boundary = model.next_item();
        let progress = Progress::Running {
            sector_tears: self.inheritance.sector_tears,
        };
        if let Some(recorded) = &recorded {
            for effect in &recorded.effects {
                model.apply(effect, progress);
                self.model.apply(effect, Progress::Returned);
            }
        }
        let optional = model.optional();
        let earlier = optional.partition_point(|id| *id < boundary);
        let choices = Choices::new(optional.len(), self.limit);
        let running = recorded.map(|recorded| recorded.operation.clone());
        Some(Point {
            model,
            completed,
            running,
            optional,
            earlier,
            choices,
            next_choice: 0,
        })
    }
}

impl Iterator for CrashStates {
    type Item = SimulatedDisk;

    fn next(&mut self) -> Option<SimulatedDisk> {
        while self
            .point
            .as_ref()
            .is_none_or(|point| point.next_choice == point.choices.count)
        {
            self.point = Some(self.advance()?);
        }
        let point = self
            .point
            .as_mut()
            .expect("the loop ends with a point that has choices left");
        let choice = point.next_choice;
        point.next_choice += 1;
        let mut random =
            SeededRandom::new(self.seed ^ point.completed.rotate_left(40) ^ choice.rotate_left(20));
        let (count, earlier) = (point.optional.len(), point.earlier);
        let kept =
            (0..count).filter(|index| point.choices.keeps(choice, *index, count, earlier, &mut random));
        let kept: BTreeSet<u64> = kept.map(|index| point.optional[index]).collect();
        let at = CrashPoint {
            completed: point.completed,
            running: point.running.clone(),
            kept: kept.len(),
            in_doubt: count,
            choice,
        };
        Some(leave(&point.model.remains(&kept), at, &self.inheritance))
    }
}

/// The numbers of a point's subsets.
struct Choices {
    exhaustive: bool,
    count: u64,
}

/// None, all, only what came before the running operation, only the running operation.
const WHOLESALE: u64 = 4;

impl Choices {
    fn new(items: usize, limit: u64) -> Choices {
        let telling = WHOLESALE + 2 * items as u64;
        let enough = limit.max(telling);
        let all = 1_u64
            .checked_shl(items as u32)
            .filter(|_| items < 63)
            .unwrap_or(u64::MAX);
        Choices {
            exhaustive: all <= enough,
            count: all.min(enough),
        }
    }

    /// Says whether item `index` of `items` is kept in choice number `choice`. Called for ascending indexes.
    fn keeps(
        &self,
        choice: u64,
        index: usize,
        items: usize,
        earlier: usize,
        random: &mut SeededRandom,
    ) -> bool {
        if self.exhaustive {
            return choice >> index & 1 == 1;
        }
        let items = items as u64;
        match choice {
            0 => false,
            1 => true,
            2 => index < earlier,
            3 => index >= earlier,
            _ if choice < WHOLESALE + items => choice - WHOLESALE != index as u64,
            _ if choice < WHOLESALE + 2 * items => choice - WHOLESALE - items == index as u64,
            // Sparse, even and dense subsets by turns.
            _ => random.chance(1 + choice % 7, 8),
        }
    }
}

/// One state at `completed` operations, nothing running, drawn from the seed.
pub(super) fn draw(model: &Model, completed: u64, seed: u64, inheritance: &Inheritance) -> SimulatedDisk {
    let mut random = SeededRandom::new(seed);
    let optional = model.optional();
    // From nothing to everything, so that both ends turn up often.
    let eighths = random.below(9);
    let kept: BTreeSet<u64> = optional
        .iter()
        .copied()
        .filter(|_| random.chance(eighths, 8))
        .collect();
    let (kept_count, in_doubt) = (kept.len(), optional.len());
    let at = CrashPoint {
        completed,
        running: None,
        kept: kept_count,
        in_doubt,
        choice: seed,
    };
    leave(&model.remains(&kept), at, inheritance)
}

fn leave(remains: &Remains, at: CrashPoint, inheritance: &Inheritance) -> SimulatedDisk {
    SimulatedDisk::from_crash(remains, at, inheritance)
}
