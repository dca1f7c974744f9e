//! The client over real sockets, against a broker in memory that can be told to misbehave.

mod administering;
mod connecting;
mod consuming;
mod following;
mod groups;
mod many_partitions;
mod producing;

use std::time::Duration;

use client::fake_broker::FakeBroker;
use client::{Cluster, ConnectionOptions};

/// Long enough for any answer that comes, short enough to wait for one that does not.
fn options(request_timeout: Duration) -> ConnectionOptions {
    ConnectionOptions {
        request_timeout,
        response_bytes_max: 1 << 20,
        ..ConnectionOptions::default()
    }
}

/// A broker with the topic `strand` of two partitions, and a connection to it.
fn started() -> (FakeBroker, Cluster) {
    let broker = FakeBroker::start();
    broker.create_topic("strand", 2);
    let cluster = Cluster::connect(&broker.address(), options(Duration::from_secs(20)));
    (broker, cluster.expect("it listens"))
}
