//! Load that goes before all runs of a system and a client that were just started: compilers that work while a program runs,
//! caches and files are then as in a system that has been running for a while.

use anyhow::Result;

use super::super::driving::Driving;
use super::super::fleet::{Fleet, Way};
use super::super::plan::Load;
use super::super::server::Server;
use super::check::{check, verify};
use super::metering::{Unwatched, rest};
use super::{Manner, Names, Stored, command, create, limit};

/// What is asked for is done in so many parts for each kind of load.
const PARTS_MIN: usize = 4;
/// So many at most, while each is faster than those before.
const PARTS_MAX: usize = 12;
/// A part that is not faster by this is as fast as it will be.
const FASTER: f64 = 1.05;

/// Loads a system and its driver for `seconds` at least, and on while they still get faster, three times as long at most.
///
/// # Errors
/// If a load fails.
pub(in super::super) fn warm_up(way: &Way, seconds: f64, fleet: &mut Fleet, names: &mut Names) -> Result<()> {
    let (server, driving) = fleet.have(way)?;
    warm_driver(way, seconds, server, driving, names)?;
    fleet.set_warm(way);
    Ok(())
}

/// The same for a driver of a running system.
///
/// # Errors
/// If a load fails.
pub(super) fn warm_driver(
    way: &Way,
    seconds: f64,
    server: &Server,
    driving: &mut Driving,
    names: &mut Names,
) -> Result<()> {
    let one_by_one = Load::one_by_one(100);
    let loads = [one_by_one, one_by_one.in_batches(100, 4)];
    let manner = Manner {
        seconds: seconds / (loads.len() * PARTS_MIN) as f64,
        full_seconds: seconds,
        warmup_seconds: seconds,
        known_rate: None,
        rate: None,
        verify: false,
        counts: false,
    };
    for load in loads {
        let mut rates = Vec::new();
        while rates.len() < PARTS_MIN || (rates.len() < PARTS_MAX && !is_steady(&rates)) {
            rates.push(part(&load, way, manner, server, driving, names)?);
        }
    }
    rest(server)
}

/// Appends, reads back and deletes; records a second.
fn part(
    load: &Load,
    way: &Way,
    manner: Manner,
    server: &Server,
    driving: &mut Driving,
    names: &mut Names,
) -> Result<f64> {
    let log = names.next();
    create(&log, load.shards, way, server, driving)?;
    let done = driving.append(&command(&log, load, manner), limit(load, manner), &mut Unwatched)?;
    check(&done, load)?;
    let stored = Stored {
        log,
        load: *load,
        appended: done.appended,
        server: server.number(),
    };
    verify(&stored, &[], driving)?;
    driving.delete(&stored.log)?;
    Ok(done.records as f64 / done.seconds)
}

/// Whether neither of the last two parts was faster than the fastest before.
fn is_steady(rates: &[f64]) -> bool {
    let fastest = |rates: &[f64]| rates.iter().copied().fold(0.0, f64::max);
    let (before, last) = rates.split_at(rates.len().saturating_sub(2));
    fastest(last) <= fastest(before) * FASTER
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_on_while_it_gets_faster() {
        assert!(!is_steady(&[500.0, 1_800.0, 3_900.0, 5_500.0]));
        assert!(!is_steady(&[5_000.0, 5_100.0, 4_000.0, 5_600.0]));
        assert!(is_steady(&[5_000.0, 5_600.0, 5_500.0, 5_700.0]));
        assert!(!is_steady(&[1.0, 1.0]), "two say nothing");
    }
}
