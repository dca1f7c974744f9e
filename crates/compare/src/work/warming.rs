//! Load that goes before all runs of a system and a client that were just started: compilers that work while a program runs,
//! caches and files are then as in a system that has been running for a while.

use anyhow::Result;

use super::super::driving::Driving;
use super::super::figures;
use super::super::fleet::{Fleet, Way};
use super::super::interrupt::Interrupted;
use super::super::plan::Load;
use super::super::progress;
use super::super::server::Server;
use super::check::{check, verify};
use super::metering::{Unwatched, rest};
use super::{Manner, Stored, command, limit};
use bench::contract::Done;

/// What is asked for is done in so many parts for each kind of load.
const PARTS_MIN: usize = 4;
/// So many at most, while each is faster than those before.
const PARTS_MAX: usize = 12;
/// A part that is not faster by this is as fast as it will be.
const FASTER: f64 = 1.05;
/// Records a second, which every system takes: pacing and following are paths of their own through a client.
const PACE: f64 = 2_000.0;

/// Loads a system, and so many processes of its driver one after the other, each for `seconds` at least, and on while they still
/// get faster, three times as long at most. Those that were loaded before are left as they are.
pub(in super::super) fn warm_up(way: &Way, clients: usize, seconds: f64, fleet: &mut Fleet) -> Result<()> {
    for client in fleet.warm_clients(way)..clients {
        let (server, drivers) = fleet.have_clients(way, client + 1)?;
        warm_driver(way, seconds, server, &mut drivers[client])?;
        fleet.set_warm_clients(way, client + 1);
    }
    Ok(())
}

/// The same for a driver of a running system.
pub(super) fn warm_driver(way: &Way, seconds: f64, server: &Server, driving: &mut Driving) -> Result<()> {
    let (system, driver) = (&way.system.variant.title, &way.driver.file.title);
    progress::show(&format!("warming up {system} through {driver}"));
    let loads = loads();
    let part_seconds = seconds / (loads.len() * PARTS_MIN) as f64;
    for (load, rate) in loads {
        let manner = Manner {
            seconds: part_seconds,
            full_seconds: seconds,
            warmup_seconds: seconds,
            known_rate: None,
            rate,
            verify: false,
            counts: false,
        };
        let mut speeds = Vec::new();
        while speeds.len() < PARTS_MIN || (speeds.len() < PARTS_MAX && !is_steady(&speeds)) {
            let Some(speed) = part(&load, way, manner, server, driving)? else {
                break;
            };
            speeds.push(speed);
        }
    }
    rest(server)
}

/// What is done, and at which rate: each way in which runs use a client.
fn loads() -> [(Load, Option<f64>); 4] {
    let one_by_one = Load {
        record_bytes: 100,
        ..Load::default()
    };
    let batches = Load {
        batch_records: 100,
        in_flight: 4,
        ..one_by_one
    };
    let paced = Load {
        in_flight: 64,
        ..one_by_one
    };
    let followed = Load {
        follow: true,
        ..paced
    };
    [
        (one_by_one, None),
        (batches, None),
        (paced, Some(PACE)),
        (followed, Some(PACE)),
    ]
}

/// Appends, reads back and deletes; how fast that was. None if the driver cannot do it.
fn part(
    load: &Load,
    way: &Way,
    manner: Manner,
    server: &Server,
    driving: &mut Driving,
) -> Result<Option<f64>> {
    let log = driving.create(load.shards, way, server)?;
    let done = driving.append(&command(&log, load, manner), limit(load, manner), &mut Unwatched);
    if load.follow && is_refused(&done, driving) {
        driving.delete(&log)?;
        return Ok(None);
    }
    let done = done?;
    check(&done, load)?;
    verify(&Stored::new(&log, load, &done, server), &[], driving)?;
    driving.delete(&log)?;
    Ok(Some(speed(&done, manner.rate)))
}

/// Whether a driver failed and lives on: then the rows that ask the same of it say so.
fn is_refused(done: &Result<Done>, driving: &mut Driving) -> bool {
    let has_failed = done.as_ref().is_err_and(|error| !error.is::<Interrupted>());
    has_failed && driving.describe().is_ok()
}

/// Records a second; at a rate, which sets these itself, how many latencies (deliveries, if there are) go into a second.
fn speed(done: &Done, rate: Option<f64>) -> f64 {
    let delivery = done.delivery_ns.as_ref().filter(|pairs| !pairs.is_empty());
    let median_ns = figures::median_ns(delivery.unwrap_or(&done.latency_ns));
    match (rate, median_ns) {
        (Some(_), Some(ns)) => 1e9 / ns.max(1) as f64,
        _ => done.records as f64 / done.seconds,
    }
}

/// Whether neither of the last two parts was faster than the fastest before.
fn is_steady(speeds: &[f64]) -> bool {
    let fastest = |speeds: &[f64]| speeds.iter().copied().fold(0.0, f64::max);
    let (before, last) = speeds.split_at(speeds.len().saturating_sub(2));
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

    #[test]
    fn paced_and_followed_appends_are_warmed_up_too_and_judged_by_their_latency() {
        let has = |follow: bool| {
            loads()
                .iter()
                .any(|(load, rate)| rate.is_some() && load.follow == follow)
        };
        assert!(has(false) && has(true));
        let done = Done {
            seconds: 2.0,
            records: 1_000,
            latency_ns: vec![(10_000, 1_000)],
            ..Done::default()
        };
        assert_eq!((speed(&done, None), speed(&done, Some(PACE))), (500.0, 1e5));
        let followed = Done {
            delivery_ns: Some(vec![(20_000, 1_000)]),
            ..done
        };
        assert_eq!(speed(&followed, Some(PACE)), 5e4);
    }
}
