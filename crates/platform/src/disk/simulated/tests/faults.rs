//! Tests of calls that fail, and of what their failure leaves behind.

use super::*;

fn error_of<T>(outcome: io::Result<T>) -> Option<i32> {
    outcome.err().and_then(|error| error.raw_os_error())
}

fn eio(applied: Applied) -> FaultKind {
    FaultKind::Error { errno: EIO, applied }
}

#[test]
fn after_a_failed_sync_the_next_says_yes_over_lost_data() {
    let (disk, file) = disk_with("x");
    file.write(0, &blocks("p")).expect("room");
    disk.fail_operation(disk.call_count(), eio(Applied::Nothing));
    assert_eq!(error_of(file.sync()), Some(EIO));
    file.sync().expect("as on ext4");
    let now = disk.operation_count();
    assert_eq!(text(&disk, "a"), "p", "still in the page cache");
    assert_eq!(outcomes(&disk, "a", Some(now)), set(&["x", "p"]));
    file.write(BLOCK, &blocks("q")).expect("room");
    file.sync().expect("what is written since is fine");
    assert_eq!(outcomes(&disk, "a", Some(now + 2)), set(&["xq", "pq"]));
    disk.drop_page_cache();
    assert_eq!(text(&disk, "a"), "xq");
    assert_eq!(text(&disk.crash(3), "a"), "xq");
}

#[test]
fn a_failed_durable_write_leaves_what_the_fault_says_and_no_sync_saves_it() {
    for (applied, seen, left) in [
        (Applied::Nothing, "xy", &["xy"][..]),
        (Applied::Part, "py", &["xy", "py"]),
        (Applied::All, "pq", &["xy", "py", "xq", "pq"]),
    ] {
        let (disk, file) = disk_with("xy");
        disk.fail_operation(disk.call_count(), eio(applied));
        assert_eq!(error_of(file.write_durable(0, &blocks("pq"))), Some(EIO));
        file.sync().expect("as on ext4");
        assert_eq!(text(&disk, "a"), seen);
        assert_eq!(
            outcomes(&disk, "a", Some(disk.operation_count())),
            set(left),
            "{applied:?}"
        );
    }
}

#[test]
fn a_failed_directory_sync_leaves_its_names_in_doubt() {
    let (disk, _) = disk_with("x");
    disk.create(Path::new("b")).expect("no faults");
    disk.fail_operation(disk.call_count(), eio(Applied::Nothing));
    assert_eq!(error_of(disk.sync_directory(Path::new(""))), Some(EIO));
    disk.sync_directory(Path::new("")).expect("says yes");
    assert_eq!(
        outcomes(&disk, "b", Some(disk.operation_count())),
        set(&["-", ""])
    );
}

#[test]
fn a_name_change_can_fail_with_or_without_effect() {
    for (applied, there) in [(Applied::Nothing, "-"), (Applied::All, "")] {
        let (disk, _) = disk_with("x");
        disk.fail_operation(disk.call_count(), eio(applied));
        assert_eq!(error_of(disk.create(Path::new("b"))), Some(EIO));
        assert_eq!(text(&disk, "b"), there);
    }
}

#[test]
fn a_short_write_is_continued_and_a_crash_may_fall_between() {
    let (disk, file) = disk_with("xy");
    disk.fail_operation(disk.call_count(), FaultKind::ShortWrite);
    let before = disk.operation_count();
    file.write_durable(0, &blocks("pq")).expect("continued");
    assert_eq!(disk.operation_count(), before + 2);
    assert_eq!(outcomes(&disk, "a", Some(before + 1)), set(&["py", "pq"]));
    assert_eq!(outcomes(&disk, "a", Some(before + 2)), set(&["pq"]));
}

#[test]
fn an_interrupted_write_is_made_again_and_an_interrupted_sync_is_not() {
    let (disk, file) = disk_with("x");
    let call = disk.call_count();
    disk.fail_operation(call, FaultKind::Interrupted);
    disk.fail_operation(call + 1, FaultKind::Interrupted);
    file.write(0, &blocks("p")).expect("made again");
    assert_eq!(
        file.sync().expect_err("passed on").kind(),
        io::ErrorKind::Interrupted
    );
    file.sync().expect("says yes");
    assert_eq!(
        outcomes(&disk, "a", Some(disk.operation_count())),
        set(&["x", "p"])
    );
}

#[test]
fn no_space_holds_for_one_call_or_until_lifted() {
    let (disk, file) = disk_with("x");
    disk.fail_operation(disk.call_count(), FaultKind::NoSpace { until_lifted: false });
    assert_eq!(error_of(file.write_durable(0, &blocks("p"))), Some(ENOSPC));
    file.write_durable(0, &blocks("p")).expect("room again");
    disk.fail_operation(disk.call_count(), FaultKind::NoSpace { until_lifted: true });
    assert_eq!(error_of(file.write_durable(BLOCK, &blocks("q"))), Some(ENOSPC));
    assert_eq!(error_of(disk.create(Path::new("b"))), Some(ENOSPC));
    assert_eq!(error_of(disk.replace(Path::new("m"), b"new")), Some(ENOSPC));
    assert_eq!(disk.free_bytes().expect("no faults"), 0);
    file.write_durable(0, &blocks("r"))
        .expect("its room is there already");
    disk.lift_no_space();
    disk.replace(Path::new("m"), b"new").expect("room again");
    assert_eq!(text(&disk, "a"), "r");
    disk.fail_operation(disk.call_count(), FaultKind::NoSpace { until_lifted: true });
    disk.lift_no_space();
    disk.replace(Path::new("m"), b"newer")
        .expect("it was lifted before it came");
}

#[test]
fn a_full_disk_takes_the_blocks_that_fit() {
    let (disk, file) = disk_with("x");
    disk.set_capacity(Some(3 * BLOCK));
    assert_eq!(disk.free_bytes().expect("no faults"), 2 * BLOCK);
    assert_eq!(error_of(file.write_durable(BLOCK, &blocks("pqr"))), Some(ENOSPC));
    assert_eq!(text(&disk, "a"), "xpq");
    assert_eq!(error_of(disk.replace(Path::new("m"), b"new")), Some(ENOSPC));
    assert_eq!(
        disk.list(Path::new("")).expect("no faults"),
        ["a"],
        "nothing is left aside"
    );
    disk.truncate(Path::new("a"), 0);
    assert_eq!(disk.free_bytes().expect("no faults"), 3 * BLOCK);
    assert_eq!(error_of(file.fill_with_zeros(4 * BLOCK)), Some(ENOSPC));
    file.fill_with_zeros(3 * BLOCK).expect("just fits");
    file.write_durable(0, &blocks("abc")).expect("the room is there");
}

#[test]
fn a_planner_sees_each_call_and_reads_only_when_counted() {
    let (disk, file) = disk_with("x");
    disk.fail_when(|call| {
        (call.kind == OperationKind::Read && call.position == 5).then_some(eio(Applied::Nothing))
    });
    assert!(file.read(5, 1).is_ok());
    disk.count_reads(true);
    let before = disk.call_count();
    assert_eq!(error_of(file.read(5, 1)), Some(EIO));
    assert!(file.read(6, 1).is_ok());
    assert_eq!(disk.call_count(), before + 2);
    disk.clear_faults();
    assert!(file.read(5, 1).is_ok());
}

#[test]
fn every_failing_step_of_a_replacement_leaves_old_or_new() {
    for kind in [
        eio(Applied::Nothing),
        eio(Applied::All),
        FaultKind::NoSpace { until_lifted: false },
    ] {
        for step in 0..6 {
            let disk = SimulatedDisk::new();
            disk.replace(Path::new("m"), b"old").expect("no faults");
            disk.fail_operation(disk.call_count() + step, kind);
            let outcome = disk.replace(Path::new("m"), b"new");
            let end = disk.operation_count();
            for left in disk
                .crash_states(64, 1)
                .filter(|left| left.crash_point().is_some_and(|at| at.completed == end))
            {
                let content = left.file_bytes(Path::new("m")).expect("one of the two");
                assert!(
                    content == b"new" || (outcome.is_err() && content == b"old"),
                    "{kind:?} step {step}"
                );
            }
        }
    }
}

#[test]
fn a_durable_name_wins_over_an_older_change_in_doubt() {
    let (disk, _) = disk_with("x");
    disk.remove(Path::new("a")).expect("no faults");
    disk.fail_operation(disk.call_count(), eio(Applied::Nothing));
    assert_eq!(error_of(disk.sync_directory(Path::new(""))), Some(EIO));
    disk.create(Path::new("a")).expect("the name is free");
    disk.sync_directory(Path::new("")).expect("this one holds");
    assert_eq!(outcomes(&disk, "a", Some(disk.operation_count())), set(&[""]));
}
