//! Any sequence of operations against a plain list of batches per partition: after each, and after each restart, the store
//! says and gives what the list does.

use platform::disk::SimulatedDisk;
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;

use super::history::compare;
use super::rig::read;
use super::workload::{Driver, Op, PARTITIONS};

#[derive(Debug, Clone)]
enum Step {
    Do(Op),
    /// Reads from and up to so many 16ths of the log.
    Read {
        partition: u8,
        from: i64,
        until: i64,
        bytes_max: usize,
    },
}

fn any_step() -> impl Strategy<Value = Step> {
    let partition = || 0..PARTITIONS;
    let sizes = prop_oneof![4 => 1..600_u16, 2 => 600..5_000_u16, 1 => 5_000..9_000_u16];
    prop_oneof![
        8 => (partition(), sizes).prop_map(|(partition, value_bytes)| Step::Do(Op::Append { partition, value_bytes })),
        4 => Just(Step::Do(Op::Flush)),
        6 => Just(Step::Do(Op::Background)),
        1 => (partition(), 0..9_u8).prop_map(|(partition, eighths)| Step::Do(Op::Trim { partition, eighths })),
        1 => partition().prop_map(|partition| Step::Do(Op::Delete { partition })),
        1 => Just(Step::Do(Op::Restart)),
        3 => (partition(), 0..17_i64, 0..17_i64, prop_oneof![Just(0), 1..20_000_usize])
            .prop_map(|(partition, from, until, bytes_max)| Step::Read { partition, from, until, bytes_max }),
    ]
}

fn check_read(driver: &mut Driver, step: &Step) -> Result<(), TestCaseError> {
    let Step::Read {
        partition,
        from,
        until,
        bytes_max,
    } = *step
    else {
        return Ok(());
    };
    let id = driver.id(partition);
    let Some((log_start, next)) = driver.store.bounds(id) else {
        return Ok(());
    };
    let at = |sixteenths: i64| log_start.0 + (next.0 - log_start.0) * sixteenths / 16;
    let found = read(&mut driver.store, id, at(from), at(until), bytes_max)
        .map_err(|error| TestCaseError::fail(error.to_string()))?;
    let state = driver.history.state_after(u64::MAX);
    let batches = state.get(&id).map_or(&[][..], |log| &log.batches);
    let wanted = batches
        .iter()
        .filter(|(next, _)| *next > at(from) && *next <= at(until));
    let wanted: Vec<_> = wanted.map(|(_, bytes)| bytes.clone()).collect();
    let first_bytes = wanted
        .first()
        .map_or(0, |first| if at(from) < at(until) { first.len() } else { 0 });
    prop_assert!(wanted.concat().starts_with(&found));
    prop_assert!(found.len() >= first_bytes && found.len() <= bytes_max.max(first_bytes));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 60,
        failure_persistence: Some(Box::new(FileFailurePersistence::Off)),
        rng_seed: proptest::test_runner::RngSeed::Fixed(20),
        ..ProptestConfig::default()
    })]

    #[test]
    fn the_store_is_a_list_of_batches_per_partition(steps in prop::collection::vec(any_step(), 1..150)) {
        let disk = SimulatedDisk::new();
        let mut driver = Driver::new(&disk).expect("nothing is wrong with the disk");
        for step in &steps {
            match step {
                Step::Do(op) => driver.step(op),
                read => check_read(&mut driver, read)?,
            }
        }
        let state = driver.history.state_after(u64::MAX);
        compare(&mut driver.store, &state).map_err(TestCaseError::fail)?;
        driver.step(&Op::Restart);
        let state = driver.history.state_after(u64::MAX);
        compare(&mut driver.store, &state).map_err(TestCaseError::fail)?;
    }
}
