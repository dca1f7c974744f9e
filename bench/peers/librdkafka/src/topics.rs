//! Makes and removes topics, and waits until the brokers have carried it out.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use bench::contract::{Create, node_at};
use futures_executor::block_on;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication, TopicResult};
use rdkafka::bindings::rd_kafka_resp_err_t;
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::metadata::MetadataTopic;

use crate::settings;

/// How long the brokers have for one request, and for its effect to show.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks at whether it shows.
const LOOK_EVERY: Duration = Duration::from_millis(20);

type Admin = AdminClient<DefaultClientContext>;

/// Makes a topic with a partition for each shard and waits until each has a leader.
pub(crate) fn create(address: &str, create: &Create) -> Result<()> {
    let admin = connect(address)?;
    let replicas = TopicReplication::Fixed(i32::try_from(create.nodes)?);
    let mut topic = NewTopic::new(&create.log, i32::try_from(create.shards)?, replicas);
    for (name, value) in &create.settings {
        topic = topic.set(name, value);
    }
    let results = block_on(admin.create_topics([&topic], &options()))
        .with_context(|| format!("cannot create the topic {}", create.log))?;
    check(results).with_context(|| format!("cannot create the topic {}", create.log))?;
    wait_until(address, &create.log, "has a leader for each partition", |topic| {
        is_led(topic, create.shards)
    })
}

/// Fails if there is no topic with so many partitions that can be used: a producer would make one by asking for it.
pub(crate) fn check_existing(address: &str, log: &str, shards: u32) -> Result<()> {
    let (found, led) = look(&looker(address)?, log, |topic| {
        (topic.partitions().len(), is_led(topic, shards))
    })?;
    ensure!(
        led,
        "the topic {log} has {found} partitions, or some of them no leader: create it with {shards} first"
    );
    Ok(())
}

/// The broker that leads the first partition, by its place in the address, from 1 on.
pub(crate) fn leader(address: &str, log: &str) -> Result<Option<u32>> {
    let metadata = looker(address)?.fetch_metadata(Some(log), PATIENCE)?;
    let mut partitions = metadata.topics().iter().flat_map(MetadataTopic::partitions);
    let leader = partitions
        .find(|partition| partition.id() == 0)
        .map(|first| first.leader());
    let mut brokers = metadata.brokers().iter();
    let broker = brokers.find(|broker| Some(broker.id()) == leader);
    let broker = broker.with_context(|| format!("no broker leads the topic {log}"))?;
    node_at(address, &format!("{}:{}", broker.host(), broker.port())).map(Some)
}

/// Removes a topic and waits until the brokers no longer name it.
pub(crate) fn delete(address: &str, log: &str) -> Result<()> {
    let admin = connect(address)?;
    let results = block_on(admin.delete_topics(&[log], &options()))
        .with_context(|| format!("cannot delete the topic {log}"))?;
    check(results).with_context(|| format!("cannot delete the topic {log}"))?;
    wait_until(address, log, "is gone", is_missing)
}

fn connect(address: &str) -> Result<Admin> {
    settings::common(address)
        .create()
        .with_context(|| format!("cannot make an admin client for {address}"))
}

fn options() -> AdminOptions {
    AdminOptions::new()
        .request_timeout(Some(PATIENCE))
        .operation_timeout(Some(PATIENCE))
}

fn check(results: Vec<TopicResult>) -> Result<()> {
    for result in results {
        if let Err((topic, code)) = result {
            bail!("the broker answers for {topic}: {code}");
        }
    }
    Ok(())
}

/// Looks at a topic until it is as wished; fails if it is not in time.
fn wait_until(
    address: &str,
    log: &str,
    wish: &str,
    fulfilled: impl Fn(&MetadataTopic) -> bool,
) -> Result<()> {
    let began = Instant::now();
    let looker = looker(address)?;
    while began.elapsed() < PATIENCE {
        if look(&looker, log, &fulfilled)? {
            return Ok(());
        }
        std::thread::sleep(LOOK_EVERY);
    }
    bail!(
        "after {} s the brokers still do not say that the topic {log} {wish}",
        PATIENCE.as_secs()
    )
}

/// A client that never makes a topic by looking at it, as an admin client or a producer would on some brokers. (To list
/// all topics instead is no way around it: librdkafka's request for all is longer than its own version allows, and not
/// every broker overlooks that.)
fn looker(address: &str) -> Result<BaseConsumer> {
    settings::consumer(address, settings::TAIL_REQUEST_BYTES)
        .create()
        .with_context(|| format!("cannot make a client for {address}"))
}

/// What `tell` makes of what the brokers say of a topic.
fn look<T>(looker: &BaseConsumer, log: &str, tell: impl FnOnce(&MetadataTopic) -> T) -> Result<T> {
    let metadata = looker
        .fetch_metadata(Some(log), PATIENCE)
        .with_context(|| format!("the brokers do not tell of the topic {log}"))?;
    let topic = metadata.topics().iter().find(|topic| topic.name() == log);
    let topic = topic.with_context(|| format!("the brokers do not tell of the topic {log}"))?;
    Ok(tell(topic))
}

fn is_missing(topic: &MetadataTopic) -> bool {
    let missing = rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART;
    topic.error() == Some(missing)
}

fn is_led(topic: &MetadataTopic, shards: u32) -> bool {
    let partitions = topic.partitions();
    partitions.len() == shards as usize && partitions.iter().all(|partition| partition.leader() >= 0)
}
