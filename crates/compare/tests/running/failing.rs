//! Systems that cheat, die, stall or run out of room: they are found out, and harm no other.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use compare::CompareOptions;
use compare::results::Cell;

use super::{Bench, SERVE, cells, driver, is_whole};

#[test]
fn who_cheats_dies_stalls_or_refuses_is_found_out_and_harms_no_other() {
    let bench = Bench::new();
    bench.add("able", "honest", SERVE, "");
    for mode in ["cheat", "swap", "hush", "die", "stall", "refuse"] {
        bench.add(mode, mode, SERVE, "");
    }
    bench.add("absent", "honest", SERVE, "\"no-such-program\"");
    bench.add(
        "broken",
        "honest",
        "#!/bin/sh\necho the disk is upside down >&2\nexit 7\n",
        "",
    );
    let options = CompareOptions {
        only: vec!["one-by-one".to_owned()],
        ..bench.options()
    };
    let (failures, results) = bench.run(&options);
    assert!(is_whole(&results, "able"), "{results:#?}");
    for (system, words) in [
        ("cheat", "were acknowledged, but 0 were read back"),
        ("swap", "not those that were acknowledged"),
        ("hush", "latencies of"),
        ("die", "ended (exit status: 3)"),
        ("stall", "did not get on for 2 s|said nothing for"),
        ("refuse", "logs are refused today"),
        ("absent", "no-such-program"),
        ("broken", "the disk is upside down"),
    ] {
        let facts = results
            .systems
            .iter()
            .find(|facts| facts.name == system)
            .expect("it took part");
        let why = facts.failed.as_deref().unwrap_or("it did not fail");
        let tells = |text: &str| words.split('|').any(|words| text.contains(words));
        assert!(tells(why), "{system}: {why}");
        assert!(
            failures.iter().any(|failure| tells(failure)),
            "{system}: {failures:?}"
        );
    }
}

#[test]
fn who_tells_less_time_than_passed_or_shorter_latencies_is_found_out() {
    let bench = Bench::new();
    bench.add("hurry", "hurry", SERVE, "");
    bench.add("flatter", "flatter", SERVE, "");
    let options = CompareOptions {
        only: vec!["one-by-one".to_owned()],
        // In a moment, nobody tells a late word from a lie.
        seconds: 1.0,
        ..bench.options()
    };
    let (failures, results) = bench.run(&options);
    for (system, words) in [
        // By our clock, or by what its latencies make together.
        ("hurry", "passed between its words|one record after the other"),
        ("flatter", "one record after the other"),
    ] {
        assert!(
            cells(&results, system).all(|cell| cell.runs.is_empty()),
            "{results:#?}"
        );
        let mut failures = failures.iter().filter(|failure| failure.contains(system));
        let tells = |failure: &String| words.split('|').any(|words| failure.contains(words));
        assert!(failures.any(tells), "{system}");
    }
}

#[test]
fn an_installation_that_failed_is_not_tried_again() {
    let bench = Bench::new();
    bench.add("absent", "honest", SERVE, "");
    let folder = bench.directory.path().join("peers/absent");
    let text = fs::read_to_string(folder.join("peer.toml")).expect("it was written");
    let script = "echo once >> ../../tries; echo no registry answers >&2; exit 1";
    let install = format!("install = [\"sh\", \"-c\", \"{script}\"]\n");
    let text = text.replace("serve = [", &format!("{install}serve = ["));
    fs::write(folder.join("peer.toml"), text).expect("there is room");
    let (failures, results) = bench.run(&bench.options());
    let asked = cells(&results, "absent").count();
    assert!(asked > 1, "{results:#?}");
    let told = failures
        .iter()
        .filter(|failure| failure.contains("no registry answers"));
    assert_eq!(told.count(), asked, "{failures:?}");
    let tries = fs::read_to_string(bench.directory.path().join("tries")).expect("it was written");
    assert_eq!(tries, "once\n");
}

#[test]
fn a_server_that_dies_in_the_middle_fails_its_own_runs_only() {
    let bench = Bench::new();
    bench.add("able", "honest", SERVE, "");
    bench.add(
        "frail",
        "honest",
        &SERVE.replace("exec sleep 1000", "sleep 0.1; exit 9"),
        "",
    );
    let (failures, results) = bench.run(&bench.options());
    assert!(is_whole(&results, "able"), "{results:#?}");
    let why = |failure: &String| failure.contains("frail") && failure.contains("a process of frail is gone");
    assert!(failures.iter().any(why), "{failures:?}");
}

/// Adds a variant of a system in its folder: with a driver of its own that runs in `mode`, and one of another folder.
fn add_variant(bench: &Bench, folder: &str, name: &str, mode: &str, also: &str) {
    let path = bench
        .directory
        .path()
        .join("peers")
        .join(folder)
        .join("peer.toml");
    let text = fs::read_to_string(&path).expect("it was written");
    let driver = driver();
    let more = format!(
        "[drivers.{name}]\ntitle = \"files\"\ncommand = [\"{}\", \"{mode}\"]\n\
         [[variants]]\nname = \"{name}\"\ntitle = \"{name}\"\nsurvives = \"nothing\"\ndurability = \"none\"\n\
         driver = \"{name}\"\nalso = [{also}]\n",
        driver.display()
    );
    fs::write(&path, text + &more).expect("there is room");
}

#[test]
fn one_that_fails_takes_nothing_from_another_that_shares_its_server() {
    let bench = Bench::new();
    bench.add("able", "honest", SERVE, "");
    add_variant(&bench, "able", "able-die", "die", "");
    bench.add("absent", "honest", SERVE, "\"no-such-program\"");
    add_variant(&bench, "able", "able-too", "honest", "\"absent\"");
    let (failures, results) = bench.run(&bench.options());
    assert!(is_whole(&results, "able"), "{results:#?}");
    let mut own = cells(&results, "able-too").filter(|cell| cell.driver == "able-too");
    assert!(own.all(|cell| cell.runs.len() == 2), "{results:#?}");
    for why in ["ended (exit status: 3)", "no-such-program"] {
        assert!(
            failures.iter().any(|failure| failure.contains(why)),
            "{failures:?}"
        );
    }
}

#[test]
fn who_cheats_once_it_was_believed_is_found_out_and_not_believed_at_all() {
    let bench = Bench::new();
    let names = ["later-a", "later-b", "later-c", "later-d"];
    for name in names {
        bench.add(name, "later", SERVE, "");
    }
    let options = CompareOptions {
        only: vec!["one-by-one".to_owned()],
        repetitions: 3,
        repetitions_max: 3,
        ..bench.options()
    };
    let (failures, results) = bench.run(&options);
    let is_found = |cell: &&Cell| {
        cell.failures
            .iter()
            .any(|why| why.contains("were acknowledged, but"))
    };
    let found: Vec<&Cell> = names
        .iter()
        .flat_map(|name| cells(&results, name))
        .filter(is_found)
        .collect();
    assert!(!found.is_empty() && failures.len() >= found.len(), "{results:#?}");
    assert!(found.iter().all(|cell| cell.runs.is_empty()), "{found:#?}");
    let count = found.len();
    // Nor is it by asking again.
    let (failures, results) = bench.run(&options);
    let again = names
        .iter()
        .flat_map(|name| cells(&results, name))
        .filter(is_found);
    assert_eq!(again.count(), count, "{failures:?}");
}

#[test]
fn a_folder_that_is_not_as_it_should_be_harms_no_other() {
    let bench = Bench::new();
    bench.add("able", "honest", SERVE, "");
    bench.add("odd", "honest", SERVE, "");
    let peer = bench.directory.path().join("peers/odd/peer.toml");
    fs::write(&peer, "colour = 1\n").expect("there is room");
    let (failures, results) = bench.run(&bench.options());
    assert!(is_whole(&results, "able"));
    assert!(
        failures.len() == 1 && failures[0].starts_with("odd: "),
        "{failures:?}"
    );
    let page = fs::read_to_string(bench.out().join("report.md")).expect("it was written");
    assert!(page.contains("**Not measured.** odd: "), "{page}");
}

/// A small disk of its own; none where mounting is not allowed.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(folder: &Path) -> Option<SmallDisk> {
        fs::create_dir(folder).expect("it is new");
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=96m", "none"])
            .arg(folder)
            .output();
        mount
            .is_ok_and(|done| done.status.success())
            .then(|| SmallDisk(folder.to_owned()))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_costs_the_runs_it_befell_and_never_the_report() {
    for (mode, is_full_for_good) in [("fill", false), ("fill-for-good", true)] {
        let bench = Bench::new();
        let Some(_disk) = SmallDisk::mount(&bench.out()) else {
            eprintln!("SKIPPED: mounting a small disk is not allowed here");
            return;
        };
        // Slow, for what it stores must fit on the disk on the fastest machine too.
        bench.add("able", "slow", SERVE, "");
        bench.add("baker", mode, SERVE, "");
        let options = CompareOptions {
            only: vec!["one-by-one".to_owned()],
            ..bench.options()
        };
        let (failures, results) = bench.run(&options);
        let is_told = |failure: &String| failure.contains("baker") && failure.contains("No space left");
        assert!(failures.iter().any(is_told), "{failures:?}");
        assert!(cells(&results, "able").any(|cell| !cell.runs.is_empty()));
        let page = fs::read_to_string(bench.out().join("report.md")).expect("it was written");
        assert!(page.contains("No space left"), "{page}");
        assert!(is_full_for_good || is_whole(&results, "able"), "{results:#?}");
    }
}
