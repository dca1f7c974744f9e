//! What all producers of a run did together. Nothing is summed up before it is asked for: meters are read first.

use std::time::Instant;

use super::producer::Outcome;
use crate::contract::Done;
use crate::latency::LatencyRecorder;

/// What producers did, each in its place.
#[derive(Debug)]
pub(crate) struct Produced {
    began: Instant,
    outcomes: Vec<Outcome>,
}

impl Produced {
    pub(super) fn new(began: Instant, outcomes: Vec<Outcome>) -> Produced {
        Produced { began, outcomes }
    }

    /// From the first measured unit sent to the last acknowledged.
    pub(crate) fn seconds(&self) -> f64 {
        let last = self
            .outcomes
            .iter()
            .filter_map(|outcome| outcome.last_acknowledged)
            .max();
        last.map_or(0.0, |last| {
            last.saturating_duration_since(self.began).as_secs_f64()
        })
    }

    /// Measured records that were acknowledged.
    pub(crate) fn records(&self) -> u64 {
        self.outcomes.iter().map(|outcome| outcome.records).sum()
    }

    /// Units that failed.
    pub(crate) fn errors(&self) -> u64 {
        self.outcomes.iter().map(|outcome| outcome.errors).sum()
    }

    /// Why one of the first of them did.
    pub(crate) fn first_error(&self) -> Option<String> {
        self.outcomes
            .iter()
            .find_map(|outcome| outcome.first_error.clone())
    }

    /// Those of all measured units; at a rate, of all measured records.
    pub(crate) fn latencies(&self) -> LatencyRecorder {
        LatencyRecorder::merged(self.outcomes.iter().map(|outcome| &outcome.latencies))
    }

    /// The same in the words of the contract.
    pub(super) fn done(&self, record_bytes: usize) -> Done {
        let records = self.records();
        Done {
            seconds: self.seconds(),
            records,
            bytes: records * record_bytes as u64,
            errors: self.errors(),
            first_error: self.first_error(),
            appended: self.outcomes.iter().map(|outcome| outcome.appended).collect(),
            latency_ns: self.latencies().pairs(),
            ..Done::default()
        }
    }
}
