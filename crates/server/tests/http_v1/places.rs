//! Connections that wait for records take every place that one address may have: probes are answered all the same, and
//! whatever else comes is told why it is refused.

use std::net::TcpStream;

use crate::client::Http;
use crate::refusals::expect;
use crate::support::{TestNode, eventually};

/// More connections than one address may have, as many as there are places.
const CONNECTIONS: usize = 256;
const RECORDS: &str = "/v1/topics/t/partitions/0/records";

fn wait_for_records(http: &Http) -> TcpStream {
    let request = format!("GET {RECORDS}?offset=latest&wait_ms=60000 HTTP/1.1\r\nhost: n\r\n\r\n");
    http.open(request.as_bytes())
}

#[test]
fn probes_are_answered_and_others_told_why_not_when_reads_wait_on_every_place() {
    let node = TestNode::start();
    let http = Http::of(&node);
    http.create("t", 1);
    let mut waiting: Vec<TcpStream> = (0..CONNECTIONS).map(|_| wait_for_records(&http)).collect();
    for path in ["/health", "/ready", "/metrics"].repeat(7) {
        assert_eq!(http.get(path).status, 200, "{path}");
    }
    eventually("a read that comes too late is refused", || {
        let late = http.get(&format!("{RECORDS}?offset=earliest"));
        let is_refused = late.status == 503;
        if is_refused {
            expect(&late, 503, "busy", "192 HTTP connections from this address");
            assert_eq!(late.header("retry-after"), Some("1"));
        } else {
            waiting.push(wait_for_records(&http));
        }
        is_refused
    });
    drop(waiting);
    eventually("the places come back", || {
        http.get(&format!("{RECORDS}?offset=earliest")).status == 200
    });
}
