//! A node in this process, over a directory or a simulated disk of its own.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kafka_wire::Request;
use platform::disk::SimulatedDisk;
use server::config::Config;
use server::{Node, StartError, Turns};
use tempfile::TempDir;

use super::{PATIENCE, Wire};

/// Processor time that no turn of a core may pass: what counts as long, and ten times that without an optimizing compiler.
const LONGEST_TURN: Duration = Duration::from_millis(if cfg!(debug_assertions) { 200 } else { 20 });

/// A configuration for tests: two cores, small files, any free port.
pub(crate) fn config(directory: &Path, sets: &[(&str, &str)]) -> Config {
    let directory = directory
        .to_str()
        .expect("temporary directories have plain names");
    let own = [
        ("data", directory),
        ("cores", "2"),
        ("pin_threads", "false"),
        ("kafka.listen", "127.0.0.1:0"),
        ("http.listen", "127.0.0.1:0"),
        ("journal.file_bytes", "4MiB"),
        ("journal.bytes_max", "24MiB"),
        ("journal.layout_trigger", "8MiB"),
        ("disk.reserve_bytes", "0B"),
    ];
    let sets: Vec<(String, String)> = own
        .iter()
        .chain(sets)
        .map(|(key, value)| (key.to_string(), value.to_string()))
        .collect();
    Config::load(None, &sets, &[]).expect("the test's configuration is sound")
}

/// A running node and its directory. When it is gone, none of its turns may have been long.
pub(crate) struct TestNode {
    node: Option<Node>,
    directory: TempDir,
    turns: ShortTurns,
}

/// Fails the test at its end if a client has kept a core of the node from the others.
struct ShortTurns {
    turns: Turns,
    checked: bool,
}

impl ShortTurns {
    fn of(node: &Node) -> ShortTurns {
        ShortTurns {
            turns: node.turns(),
            checked: true,
        }
    }
}

impl Drop for ShortTurns {
    fn drop(&mut self) {
        if self.checked && !std::thread::panicking() {
            let longest = self.turns.longest();
            let task = "a task kept a core of the node from all others";
            assert!(
                longest <= LONGEST_TURN,
                "{task} for {longest:?} of processor time"
            );
        }
    }
}

impl TestNode {
    fn of(node: Node, directory: TempDir) -> TestNode {
        TestNode {
            turns: ShortTurns::of(&node),
            node: Some(node),
            directory,
        }
    }

    /// A node over a new directory.
    pub(crate) fn start() -> TestNode {
        TestNode::start_with(&[])
    }

    /// The same with some keys set.
    pub(crate) fn start_with(sets: &[(&str, &str)]) -> TestNode {
        let directory = tempfile::tempdir().expect("there is room for a temporary directory");
        let node = Node::start(config(directory.path(), sets), "0.0.0").expect("the node starts");
        TestNode::of(node, directory)
    }

    /// A node over a simulated disk. Its directory stays empty.
    pub(crate) fn start_on(disk: &SimulatedDisk, sets: &[(&str, &str)]) -> TestNode {
        let directory = tempfile::tempdir().expect("there is room for a temporary directory");
        let config = config(directory.path(), sets);
        let node = Node::start_on(config, Arc::new(disk.clone()), "0.0.0").expect("the node starts");
        TestNode::of(node, directory)
    }

    /// Drains the node and starts another over the same directory.
    pub(crate) fn restart(self) -> TestNode {
        self.restart_with(&[], |_| ())
    }

    /// The same with some keys set, and something done to the directory in between.
    pub(crate) fn restart_with(mut self, sets: &[(&str, &str)], meanwhile: impl FnOnce(&Path)) -> TestNode {
        self.stop();
        meanwhile(self.directory.path());
        let node = Node::start(config(self.directory.path(), sets), "0.0.0").expect("the node starts again");
        TestNode::of(node, self.directory)
    }

    /// Stops the node without draining and starts another over the same directory.
    pub(crate) fn kill_and_restart(mut self) -> TestNode {
        drop(self.node.take());
        let node = Node::start(config(self.directory.path(), &[]), "0.0.0").expect("the node starts again");
        TestNode::of(node, self.directory)
    }

    /// The same with some keys set, and something done to the directory in between.
    pub(crate) fn kill_and_restart_with(
        mut self,
        sets: &[(&str, &str)],
        meanwhile: impl FnOnce(&Path),
    ) -> TestNode {
        drop(self.node.take());
        meanwhile(self.directory.path());
        let node = Node::start(config(self.directory.path(), sets), "0.0.0").expect("the node starts again");
        TestNode::of(node, self.directory)
    }

    /// Drains the node.
    pub(crate) fn stop(&mut self) {
        let drained = self.node.take().expect("it runs").drain(PATIENCE);
        assert!(drained, "everything under way ends in time");
    }

    /// Lets turns of the node be long, for a test that is about something else and says why.
    pub(crate) fn allow_long_turns(&mut self) {
        self.turns.checked = false;
    }

    /// The data directory.
    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Tries to start one more node over the directory.
    pub(crate) fn start_another(&self, sets: &[(&str, &str)]) -> Result<Node, StartError> {
        Node::start(config(self.directory.path(), sets), "0.0.0")
    }

    /// Where clients connect.
    pub(crate) fn address(&self) -> SocketAddr {
        self.node.as_ref().expect("it runs").kafka_address()
    }

    /// Where HTTP is.
    pub(crate) fn http_address(&self) -> SocketAddr {
        self.node.as_ref().expect("it runs").http_address()
    }

    /// Status line, head and body of what the node answers over HTTP.
    pub(crate) fn get(&self, path: &str) -> String {
        http_get(self.http_address(), path)
    }

    /// A figure of the node by its name in /metrics, summed over its labels.
    pub(crate) fn metric(&self, name: &str) -> u64 {
        let text = self.get("/metrics");
        let of_name = |line: &&str| {
            line.strip_prefix(name)
                .is_some_and(|rest| rest.starts_with(['{', ' ']))
        };
        let value = |line: &str| {
            line.rsplit(' ')
                .next()
                .and_then(|value| value.parse::<u64>().ok())
        };
        text.lines()
            .filter(of_name)
            .map(|line| value(line).expect("a whole number"))
            .sum()
    }

    /// The node itself.
    pub(crate) fn take(&mut self) -> Node {
        self.node.take().expect("it runs")
    }

    /// Where other nodes connect, of a node that lets them.
    pub(crate) fn peer_address(&self) -> SocketAddr {
        let node = self.node.as_ref().expect("it runs");
        node.peer_address().expect("it listens for other nodes")
    }

    /// A new connection.
    pub(crate) fn connect(&self) -> Wire {
        Wire::connect(self.address())
    }

    /// A new connection from another address than all others', 127.0.0.`last`.
    pub(crate) fn connect_from(&self, last: u8) -> Wire {
        Wire::connect_from(last, self.address())
    }

    /// So many clients, each of which asks so often and takes none of the answers.
    pub(crate) fn greedy<R: Request>(
        &self,
        clients: usize,
        asks: usize,
        version: i16,
        request: &R,
    ) -> Vec<Wire> {
        let greedy = |_| {
            let mut wire = self.connect();
            let frames: Vec<u8> = (0..asks).flat_map(|_| wire.frame(version, request)).collect();
            wire.send(&frames);
            wire
        };
        (0..clients).map(greedy).collect()
    }
}

/// Status line, head and body of what is answered over HTTP.
pub(crate) fn http_get(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    let head = format!("GET {path} HTTP/1.1\r\nhost: node\r\nconnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}
