//! A process that is killed while it appends: nothing that it acknowledged is lost, and the next one goes on behind it.
//!
//! The test starts its own program again; there `appends_until_it_is_killed` is the one that appends.

use std::io::{BufRead, BufReader};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use bench::contract::payload::Payloads;
use bench::contract::producers::Appender;

use crate::layout::LayoutName;
use crate::log::Log;
use crate::produce::Producer;

const PRODUCERS: u32 = 3;
const SHARDS: u32 = 2;
const RECORD_BYTES: usize = 3_000;
const IN_FLIGHT: u64 = 5;
/// Where the started program finds what it is to do.
const DIRECTORY: &str = "LAYOUTS_KILL_DIRECTORY";
const LAYOUT: &str = "LAYOUTS_KILL_LAYOUT";
/// Begins each line that tells of an acknowledgement; the test runner prints others.
const ACKNOWLEDGED: &str = "acknowledged ";

fn payloads() -> Payloads {
    Payloads::new(RECORD_BYTES).expect("there is room for the stamp")
}

/// How many records of each producer the log has. They must be its first ones, each where its number says.
fn stored(log: &Log) -> Vec<u64> {
    let payloads = payloads();
    let mut sequences = vec![Vec::new(); PRODUCERS as usize];
    for shard in 0..SHARDS {
        let mut keep = |record: &[u8]| {
            let stamp = payloads.check(record).expect("it is what was appended");
            sequences[stamp.producer as usize].push(stamp.sequence);
            ControlFlow::Continue(())
        };
        log.scan(shard, 0..log.tails().of(shard), &mut keep)
            .expect("all is there");
    }
    for found in &mut sequences {
        found.sort_unstable();
        assert!(
            (0..)
                .zip(found.iter())
                .all(|(expected, found)| expected == *found),
            "no gap, nothing twice"
        );
    }
    sequences.iter().map(|found| found.len() as u64).collect()
}

/// Not a test by itself.
#[test]
#[ignore = "it is started by the test that kills it"]
fn appends_until_it_is_killed() {
    let directory = PathBuf::from(std::env::var(DIRECTORY).expect("it is started by a test"));
    let layout: LayoutName = std::env::var(LAYOUT)
        .expect("likewise")
        .parse()
        .expect("a layout");
    let log = Log::open(&directory, layout, SHARDS).expect("nothing is wrong with the disk");
    let starts = stored(&log);
    let (log, payloads) = (&log, &payloads());
    std::thread::scope(|scope| {
        for (number, start) in (0..).zip(starts) {
            scope.spawn(move || append_for_ever(Producer::new(number, payloads, log), number, start));
        }
    });
}

fn append_for_ever(mut producer: Producer<'_>, number: u32, start: u64) {
    let (mut next, mut acknowledged) = (start, start);
    let mut completed = Vec::new();
    loop {
        while next < acknowledged + IN_FLIGHT {
            let shard = (u64::from(number) + next) % u64::from(SHARDS);
            producer
                .send(shard as u32, next..next + 1)
                .expect("the committer lives");
            next += 1;
        }
        producer.poll(Duration::from_secs(1), &mut completed);
        for unit in completed.drain(..) {
            assert_eq!((unit.failure, start + unit.unit), (None, acknowledged));
            acknowledged += 1;
            println!("\n{ACKNOWLEDGED}{number} {acknowledged}");
        }
    }
}

fn start(directory: &Path, layout: LayoutName) -> Child {
    Command::new(std::env::current_exe().expect("it runs"))
        .args([
            "--exact",
            "tests::kill::appends_until_it_is_killed",
            "--ignored",
            "--nocapture",
        ])
        .env(DIRECTORY, directory)
        .env(LAYOUT, layout.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it can be started again")
}

/// Kills the process after so many acknowledgements; how many records of each producer were acknowledged.
fn run_and_kill(directory: &Path, layout: LayoutName, after: usize) -> Vec<u64> {
    let mut child = start(directory, layout);
    let out = BufReader::new(child.stdout.take().expect("it is piped"));
    let mut acknowledged = vec![0; PRODUCERS as usize];
    // What stood in the pipe when it was killed counts as well.
    let mut seen = 0;
    for line in out.lines() {
        let line = line.expect("it can be read");
        let Some((producer, records)) = line
            .strip_prefix(ACKNOWLEDGED)
            .and_then(|rest| rest.split_once(' '))
        else {
            continue;
        };
        let (Ok(producer), Ok(records)) = (producer.parse::<usize>(), records.parse()) else {
            continue;
        };
        acknowledged[producer] = records;
        seen += 1;
        if seen == after {
            child.kill().expect("it runs");
        }
    }
    let status = child.wait().expect("it was started");
    assert!(
        seen >= after && !status.success(),
        "it ended by itself after {seen} acknowledgements: {status}"
    );
    acknowledged
}

#[test]
fn a_kill_loses_nothing_that_was_acknowledged() {
    for layout in LayoutName::ALL {
        let directory = tempfile::tempdir().expect("a directory");
        for after in [40, 150, 333] {
            let acknowledged = run_and_kill(directory.path(), layout, after);
            let log = Log::open(directory.path(), layout, SHARDS).expect("a crash does no harm");
            let stored = stored(&log);
            for (acknowledged, stored) in acknowledged.iter().zip(&stored) {
                assert!(
                    acknowledged <= stored,
                    "{layout}: {acknowledged} were acknowledged, {stored} are there"
                );
            }
        }
    }
}
