//! Which states a crash leaves.

use super::*;

#[test]
fn a_durable_write_is_torn_while_it_runs_and_there_when_it_returned() {
    let (disk, file) = disk_with("xy");
    let before = disk.operation_count();
    file.write_durable(0, &blocks("pq")).expect("room");
    assert_eq!(outcomes(&disk, "a", Some(before)), set(&["xy", "py", "xq", "pq"]));
    assert_eq!(outcomes(&disk, "a", Some(before + 1)), set(&["pq"]));
}

#[test]
fn an_unsynced_write_is_lost_or_kept_by_the_block_until_the_sync_returns() {
    let (disk, file) = disk_with("xy");
    file.write(0, &blocks("pq")).expect("room");
    file.sync().expect("no faults");
    let first = disk.operations()[0].index;
    let any = set(&["xy", "py", "xq", "pq"]);
    assert_eq!(outcomes(&disk, "a", Some(first)), any);
    assert_eq!(outcomes(&disk, "a", Some(first + 1)), any, "while the sync runs");
    assert_eq!(outcomes(&disk, "a", Some(first + 2)), set(&["pq"]));
}

#[test]
fn a_longer_file_may_come_back_with_zeros_for_data() {
    let (disk, file) = disk_with("x");
    file.write(BLOCK, &blocks("pq")).expect("room");
    assert_eq!(
        outcomes(&disk, "a", Some(disk.operation_count())),
        set(&["x", "xp", "x..", "xp.", "x.q", "xpq"])
    );
}

#[test]
fn a_durable_write_wins_over_an_older_unsynced_one_and_saves_no_other() {
    let (disk, file) = disk_with("xy");
    file.write(0, &blocks("pq")).expect("room");
    file.write_durable(0, &blocks("d")).expect("room");
    assert_eq!(
        outcomes(&disk, "a", Some(disk.operation_count())),
        set(&["dy", "dq"])
    );
}

#[test]
fn names_are_durable_with_their_directory_only() {
    let disk = SimulatedDisk::new();
    disk.create_directory(Path::new("d")).expect("no faults");
    let file = disk.create(Path::new("d/a")).expect("no faults");
    file.write_durable(0, &blocks("x")).expect("room");
    file.sync().expect("no faults");
    disk.sync_directory(Path::new("d")).expect("no faults");
    let now = disk.operation_count();
    assert_eq!(
        outcomes(&disk, "d/a", Some(now)),
        set(&["-", "x"]),
        "the directory itself may be lost"
    );
    disk.sync_directory(Path::new("")).expect("no faults");
    assert_eq!(outcomes(&disk, "d/a", Some(now + 1)), set(&["x"]));
    disk.remove(Path::new("d/a")).expect("no faults");
    assert_eq!(outcomes(&disk, "d/a", Some(now + 2)), set(&["-", "x"]));
    disk.sync_directory(Path::new("d")).expect("no faults");
    assert_eq!(outcomes(&disk, "d/a", Some(now + 3)), set(&["-"]));
}

#[test]
fn a_replacement_leaves_the_old_or_the_new_whole() {
    let disk = SimulatedDisk::new();
    disk.replace(Path::new("m"), b"old").expect("no faults");
    disk.forget_operations();
    disk.replace(Path::new("m"), &[b'n'; 9000]).expect("no faults");
    let mut seen = BTreeSet::new();
    for left in disk.crash_states(1 << 12, 1) {
        let content = left.file_bytes(Path::new("m")).expect("one of the two");
        assert!(
            content == b"old" || content == [b'n'; 9000],
            "{}",
            left.crash_point().expect("a crash state")
        );
        let returned = left.crash_point().expect("a crash state").completed == disk.operation_count();
        assert!(!returned || content.len() == 9000);
        seen.insert(content.len());
    }
    assert_eq!(seen, BTreeSet::from([3, 9000]));
}

#[test]
fn a_replacement_without_its_sync_would_be_caught() {
    let (disk, _) = disk_with("x");
    let aside = disk.create(Path::new("b")).expect("no faults");
    aside.write(0, &blocks("n")).expect("room");
    disk.rename(Path::new("b"), Path::new("a")).expect("no faults");
    disk.sync_directory(Path::new("")).expect("no faults");
    assert_eq!(
        outcomes(&disk, "a", Some(disk.operation_count())),
        set(&["", ".", "n"])
    );
}

#[test]
fn a_rename_between_directories_never_loses_the_file() {
    let (disk, _) = disk_with("x");
    disk.create_directory(Path::new("d")).expect("no faults");
    disk.sync_directory(Path::new("")).expect("no faults");
    disk.forget_operations();
    disk.rename(Path::new("a"), Path::new("d/a")).expect("no faults");
    let places = |disk: &SimulatedDisk, point: u64| -> BTreeSet<Vec<PathBuf>> {
        let at = |left: &SimulatedDisk| left.crash_point().expect("a crash state").completed == point;
        disk.crash_states(64, 1)
            .filter(at)
            .map(|left| left.paths())
            .collect()
    };
    let (old, both, new) = (
        vec![PathBuf::from("a")],
        vec![PathBuf::from("a"), PathBuf::from("d/a")],
        vec![PathBuf::from("d/a")],
    );
    let now = disk.operation_count();
    assert_eq!(
        places(&disk, now),
        BTreeSet::from([old, both.clone(), new.clone()])
    );
    disk.sync_directory(Path::new("d")).expect("no faults");
    assert_eq!(places(&disk, now + 1), BTreeSet::from([both, new.clone()]));
    disk.sync_directory(Path::new("")).expect("no faults");
    assert_eq!(places(&disk, now + 2), BTreeSet::from([new]));
}

#[test]
fn a_directory_that_is_made_anew_does_not_bring_back_its_old_files() {
    let disk = SimulatedDisk::new();
    let d = Path::new("d");
    disk.create_directory(d).expect("no faults");
    disk.create(Path::new("d/a")).expect("no faults");
    disk.sync_directory(d).expect("no faults");
    disk.sync_directory(Path::new("")).expect("no faults");
    disk.remove_directory(d).expect("no faults");
    disk.create_directory(d).expect("no faults");
    disk.sync_directory(Path::new("")).expect("no faults");
    let end = disk.operation_count();
    let at_end = |left: &SimulatedDisk| left.crash_point().expect("a crash state").completed == end;
    assert!(
        disk.crash_states(64, 1)
            .filter(at_end)
            .all(|left| left.paths().is_empty())
    );
}

#[test]
fn filling_tears_only_where_there_was_data() {
    let (disk, file) = disk_with("xy");
    let first = disk.operation_count();
    file.fill_with_zeros(3 * BLOCK).expect("room");
    let torn = outcomes(&disk, "a", Some(first));
    assert!(
        torn.is_superset(&set(&["xy", ".y", "x.", "...", "xy."])),
        "{torn:?}"
    );
    assert_eq!(outcomes(&disk, "a", Some(first + 1)), set(&["..."]));
    let fresh = disk.create(Path::new("b")).expect("no faults");
    disk.forget_operations();
    fresh.fill_with_zeros(64 << 20).expect("room");
    assert!(
        disk.crash_states(16, 1).count() < 200,
        "zeros over nothing are few choices"
    );
}

#[test]
fn sectors_tear_only_when_allowed() {
    let (disk, file) = disk_with("x");
    file.write_durable(0, &blocks("p")).expect("room");
    assert!(!outcomes(&disk, "a", None).contains("?"));
    disk.set_sector_tears(true);
    assert_eq!(outcomes(&disk, "a", None), set(&["x", "p", "?"]));
}

#[test]
fn sampling_keeps_the_telling_subsets_and_repeats_itself() {
    let text_of_32 = "abcdefghijklmnopqrstuvwxyzABCDEF";
    let (disk, file) = disk_with(&"0".repeat(32));
    file.write(0, &blocks(text_of_32)).expect("room");
    let states = |seed| -> Vec<String> {
        disk.crash_states(100, seed)
            .map(|left| text(&left, "a"))
            .collect()
    };
    let seen: BTreeSet<String> = states(5).into_iter().collect();
    assert!(seen.contains(&"0".repeat(32)) && seen.contains(text_of_32));
    for index in 0..32 {
        let mut alone = "0".repeat(32);
        alone.replace_range(index..=index, &text_of_32[index..=index]);
        let mut missing = text_of_32.to_owned();
        missing.replace_range(index..=index, "0");
        assert!(seen.contains(&alone) && seen.contains(&missing), "{index}");
    }
    assert_eq!(states(5), states(5));
    assert_eq!(states(5).len(), 200, "two points of a hundred");
    assert_ne!(states(5), states(6));
}

#[test]
fn drawn_crashes_repeat_and_reach_both_ends() {
    let (disk, file) = disk_with("xy");
    file.write(0, &blocks("pq")).expect("room");
    let index = disk.operation_count() - 1;
    let drawn: BTreeSet<String> = (0..200)
        .map(|seed| text(&disk.crash_after(index, seed), "a"))
        .collect();
    assert_eq!(drawn, set(&["xy", "py", "xq", "pq"]));
    assert_eq!(text(&disk.crash(9), "a"), text(&disk.crash_after(index, 9), "a"));
    file.sync().expect("no faults");
    assert!((0..50).all(|seed| text(&disk.crash(seed), "a") == "pq"));
}

#[test]
fn a_crash_state_is_a_disk_of_its_own_that_can_crash_again() {
    let (disk, _) = disk_with("x");
    let left = disk.crash(1);
    let file = left.open(Path::new("a")).expect("durable");
    file.write_durable(0, &blocks("z")).expect("room");
    left.create(Path::new("b")).expect("ids do not clash");
    left.sync_directory(Path::new("")).expect("no faults");
    assert_eq!(
        (
            text(&disk, "a"),
            text(&left.crash(1), "a"),
            text(&left.crash(1), "b")
        ),
        ("x".to_owned(), "z".to_owned(), String::new())
    );
}

/// An independent account: a block may hold its last durable letter or any letter written to it since. Every state must
/// keep to that, and together the states must reach all of it.
#[test]
fn random_runs_agree_with_a_plain_account() {
    for seed in 0..60 {
        let (disk, file) = disk_with("....");
        let mut random = SeededRandom::new(seed);
        let mut allowed = vec![BTreeSet::from(['.']); 4];
        for letter in "abcdefghi".chars() {
            let block = random.below(4) as usize;
            let bytes = blocks(&letter.to_string());
            match random.below(4) {
                0 => {
                    file.write_durable(block as u64 * BLOCK, &bytes).expect("room");
                    allowed[block] = BTreeSet::from([letter]);
                }
                1 if random.chance(1, 2) => {
                    file.sync().expect("no faults");
                    let now = text(&disk, "a");
                    allowed = now.chars().map(|letter| BTreeSet::from([letter])).collect();
                }
                _ => {
                    file.write(block as u64 * BLOCK, &bytes).expect("room");
                    allowed[block].insert(letter);
                }
            }
        }
        let mut seen = vec![BTreeSet::new(); 4];
        for left in outcomes(&disk, "a", Some(disk.operation_count())) {
            for (block, letter) in left.chars().enumerate() {
                seen[block].insert(letter);
            }
        }
        assert_eq!(seen, allowed, "seed {seed}");
    }
}

#[test]
fn syncing_the_directory_a_file_was_moved_from_saves_the_whole_move() {
    let (disk, _) = disk_with("x");
    disk.create_directory(Path::new("d")).expect("no faults");
    disk.sync_directory(Path::new("")).expect("no faults");
    disk.rename(Path::new("a"), Path::new("d/a")).expect("no faults");
    disk.sync_directory(Path::new("")).expect("no faults");
    let now = disk.operation_count();
    assert_eq!(outcomes(&disk, "a", Some(now)), set(&["-"]));
    assert_eq!(outcomes(&disk, "d/a", Some(now)), set(&["x"]));
}
