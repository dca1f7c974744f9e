//! What only the inside of a node can bring about: a core that dies.

use std::time::Duration;

use platform::disk::SimulatedDisk;

use super::*;

fn node(cores: usize) -> Node {
    start_on(&SimulatedDisk::new(), cores).expect("the node starts")
}

fn start_on(disk: &SimulatedDisk, cores: usize) -> Result<Node, StartError> {
    let mut config = Config::default();
    config.cores = cores;
    config.pin_threads = false;
    config.kafka.listen = "127.0.0.1:0".into();
    config.http.listen = "127.0.0.1:0".into();
    config.journal.file_bytes = 1 << 20;
    config.journal.bytes_max = 4 << 20;
    config.journal.layout_trigger = 1 << 20;
    Node::start_on(config, Arc::new(disk.clone()))
}

fn wait<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.expect("a runtime").block_on(future)
}

#[test]
fn a_core_that_dies_is_told_of() {
    for core in 0..2 {
        let node = node(2);
        node.mailboxes.send(core, |_| panic!("planted: this core dies"));
        assert_eq!(wait(node.core_death()), Some(CoreDied { core }));
        // Still true for whoever asks later.
        assert_eq!(wait(node.core_death()), Some(CoreDied { core }));
        let drained = node.drain(Duration::from_secs(3_600));
        assert!(
            !drained,
            "what the dead core had is not known to be done, and not waited for"
        );
    }
}

#[test]
fn a_core_that_dies_while_it_starts_ends_the_start() {
    let disk = SimulatedDisk::new();
    disk.fail_when(|call| match call.path.starts_with("journals/001") {
        true => panic!("planted: this core dies"),
        false => None,
    });
    let started = start_on(&disk, 2).err().map(|error| error.to_string());
    assert_eq!(started.as_deref(), Some("a core's thread died while it started"));
    disk.clear_faults();
    assert!(
        start_on(&disk, 2).is_ok(),
        "nothing of the first start is left running"
    );
}

#[test]
fn a_node_that_is_stopped_tells_of_no_death() {
    let drained = node(2);
    let death = drained.core_death();
    assert!(drained.drain(Duration::from_secs(3_600)));
    assert_eq!(wait(death), None);
    let dropped = node(1);
    let death = dropped.core_death();
    drop(dropped);
    assert_eq!(wait(death), None);
}
