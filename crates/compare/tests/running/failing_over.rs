//! Systems of three nodes, of which one is killed under load.

use std::fs;

use compare::results::Cell;
use compare::{CompareOptions, Suite};

use super::{Bench, cells};

/// Three processes, the second of which leads; the others go on without one that is killed.
const SERVE_THREE: &str = "#!/bin/sh
mkdir -p \"$2/log\"
sleep 1000 & one=$!
sleep 1000 & two=$!
sleep 1000 & three=$!
echo $two >\"$2/log/leader\"
echo \"{\\\"ready\\\":{\\\"address\\\":\\\"$2/log\\\",\\\"pids\\\":[$one,$two,$three],NODES\\\"settings\\\":{}}}\"
wait
";

fn bench(systems: &[(&str, &str)]) -> Bench {
    let bench = Bench::new();
    for (name, nodes) in systems {
        let serve = SERVE_THREE.replace("NODES", nodes);
        bench.add(name, name, &serve, "");
        let file = bench.directory.path().join("peers").join(name).join("peer.toml");
        let text = fs::read_to_string(&file).expect("it was written");
        let text = text
            .replace("serve = [", "nodes = [1, 3]\nserve = [")
            .replace("survives = \"nothing\"", "survives = \"process_crash\"");
        fs::write(&file, text).expect("there is room");
    }
    bench
}

fn options(bench: &Bench) -> CompareOptions {
    CompareOptions {
        suite: Suite::Field,
        only: vec!["fail-over".to_owned()],
        nodes: 3,
        seconds: 0.2,
        ..bench.options()
    }
}

const NODES: &str = "\\\"nodes\\\":[[$one],[$two],[$three]],";

#[test]
fn the_leader_is_killed_and_another_and_both_stalls_are_told() {
    let bench = bench(&[("honest", NODES), ("frail", NODES)]);
    let (failures, results) = bench.run(&options(&bench));
    assert_eq!(failures, Vec::<String>::new());
    let cell = |system| cells(&results, system).next().expect("it was asked");
    let (honest, frail): (&Cell, &Cell) = (cell("honest"), cell("frail"));
    for run in &frail.runs {
        assert!(run["stall_leader_s"] >= 0.5, "{run:?}");
        assert!(run["stall_other_s"] < 0.5, "{run:?}");
    }
    assert_eq!((honest.runs.len(), frail.runs.len()), (2, 2));
    assert!(
        honest.runs.iter().all(|run| run["stall_leader_s"] < 0.5),
        "{honest:?}"
    );
    assert!(frail.verified_records > Some(2 * 1_000));
}

#[test]
fn who_loses_records_with_a_node_or_does_not_say_what_its_nodes_are_is_found_out() {
    let bench = bench(&[("forgetful", NODES), ("honest", "")]);
    let (failures, results) = bench.run(&options(&bench));
    for (system, words) in [
        ("forgetful", "records were acknowledged, but"),
        ("honest", "does not say which processes its node 2 has"),
    ] {
        assert!(
            cells(&results, system).all(|cell| cell.runs.is_empty()),
            "{results:#?}"
        );
        let tells = |failure: &String| failure.contains(system) && failure.contains(words);
        assert!(failures.iter().any(tells), "{system}: {failures:?}");
    }
}

#[test]
fn one_node_has_no_fail_over() {
    let bench = bench(&[("honest", NODES)]);
    let alone = CompareOptions {
        nodes: 1,
        ..options(&bench)
    };
    let error = compare::run(&alone, "test", &compare::Interrupt::default()).expect_err("no such table");
    assert!(error.to_string().contains("fail-over"), "{error}");
}
