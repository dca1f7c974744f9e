//! What librdkafka is told, for each role, and how `describe` reports it. What is not here is its default.

use std::collections::BTreeMap;

use bench::contract::{Append, Described};
use rdkafka::ClientConfig;
use rdkafka::util::get_rdkafka_version;

type Settings = &'static [(&'static str, &'static str)];

/// Of producers, whatever they append.
const PRODUCER: Settings = &[
    ("acks", "all"),
    // A retry would hide a failure, and could let a later record overtake.
    ("message.send.max.retries", "0"),
    // Also ends what waits for a broker that is gone.
    ("message.timeout.ms", "30000"),
    ("queue.buffering.max.messages", "10000000"),
    ("queue.buffering.max.kbytes", "2000000"),
];

/// Of producers that live through the death of a broker; in place of those of the same name.
const RETRYING: Settings = &[
    ("enable.idempotence", "true"),
    ("message.send.max.retries", "2147483647"),
    ("message.timeout.ms", "120000"),
];

/// Of consumers, of `read` and those that follow.
const CONSUMER: Settings = &[
    // Must be named; nothing is asked of a group, since partitions are assigned by hand and nothing is committed.
    ("group.id", "comparison"),
    ("enable.auto.commit", "false"),
    ("enable.auto.offset.store", "false"),
    ("auto.offset.reset", "error"),
    // With fewer, or with the default pause, a consumer stops fetching for a second each time its queue is full.
    ("queued.min.messages", "1000000"),
    ("queued.max.messages.kbytes", "262144"),
    ("fetch.queue.backoff.ms", "1"),
];

/// Of producers whose batches are transactions; in place of those of the same name. They may send again: a record is there once, and in order.
const TRANSACTIONAL: Settings = &[
    ("enable.idempotence", "true"),
    ("message.send.max.retries", "2147483647"),
];

/// How long a batch waits for more records, where it may.
const LINGER_MS: &str = "5";
/// The largest batch that brokers take by default.
const BATCH_BYTES: usize = 1_048_588;
/// What a request of a consumer at the tail may bring: more than ever waits there.
pub(crate) const TAIL_REQUEST_BYTES: u32 = 4 << 20;
/// For less than this of all partitions together librdkafka does not ask; of each it does.
const REQUEST_BYTES_MIN: u32 = 1_000;
/// What a record may need beyond its payload when it is a batch by itself.
const OVERHEAD_BYTES: usize = 1_024;

/// The client's name, version and settings.
pub(crate) fn described() -> Described {
    let (_, version) = get_rdkafka_version();
    let mut settings = BTreeMap::new();
    for (name, value) in PRODUCER.iter().chain(CONSUMER) {
        settings.insert((*name).to_owned(), (*value).to_owned());
    }
    for (name, value) in RETRYING {
        settings.insert(format!("{name}, with retry"), (*value).to_owned());
    }
    for (name, value) in TRANSACTIONAL {
        settings.insert(format!("{name}, with transactional"), (*value).to_owned());
    }
    for (name, value) in [
        (
            "transactional.id, with transactional",
            "one for each producer".to_owned(),
        ),
        ("isolation.level", "read_committed (default)".to_owned()),
        ("replication factor", "as many as there are nodes".to_owned()),
        (
            "linger.ms",
            format!("0; {LINGER_MS} in the closed loop with batch_records above 1"),
        ),
        (
            "batch.num.messages",
            "batch_records; at a rate its default".to_owned(),
        ),
        ("max.in.flight", "in_flight".to_owned()),
        (
            "message.max.bytes",
            format!("{BATCH_BYTES}, or a record and {OVERHEAD_BYTES}"),
        ),
        (
            "batch.size",
            "message.max.bytes; at a rate its default".to_owned(),
        ),
        (
            "fetch.max.bytes, fetch.message.max.bytes",
            format!(
                "request_bytes (of all partitions {REQUEST_BYTES_MIN} at least); at the tail {TAIL_REQUEST_BYTES}"
            ),
        ),
    ] {
        settings.insert(name.to_owned(), value);
    }
    Described {
        client: "librdkafka".to_owned(),
        version,
        settings,
    }
}

/// Of every client.
pub(crate) fn common(address: &str) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", address);
    config.set("client.id", "comparison");
    config
}

/// Of a producer: so many requests wait at once, and in the closed loop batches are about as large as `append` says. At a rate
/// they are bounded by the client's own defaults only: who falls behind there must be able to put what is due into few requests.
pub(crate) fn producer(address: &str, append: &Append, number: u32) -> ClientConfig {
    let message_bytes = BATCH_BYTES.max(append.record_bytes + OVERHEAD_BYTES).to_string();
    let mut config = common(address);
    set_all(&mut config, PRODUCER);
    if append.retry {
        set_all(&mut config, RETRYING);
    }
    if append.transactional {
        set_all(&mut config, TRANSACTIONAL);
        config.set("transactional.id", format!("{}-{number}", append.log));
    }
    config.set("linger.ms", linger_ms(append));
    config.set("max.in.flight", append.in_flight.to_string());
    config.set("message.max.bytes", &message_bytes);
    if append.rate.is_none() {
        config.set("batch.num.messages", append.batch_records.to_string());
        config.set("batch.size", &message_bytes);
    }
    config
}

/// At a rate no record waits for company: a producer that falls behind batches what is due meanwhile.
fn linger_ms(append: &Append) -> &'static str {
    if append.rate.is_none() && append.batch_records > 1 && !append.transactional {
        LINGER_MS
    } else {
        "0"
    }
}

/// Of a consumer whose requests bring so many bytes.
pub(crate) fn consumer(address: &str, request_bytes: u32) -> ClientConfig {
    let mut config = common(address);
    set_all(&mut config, CONSUMER);
    // librdkafka refuses a smaller request than this, and takes larger records all the same.
    config.set(
        "message.max.bytes",
        request_bytes.clamp(REQUEST_BYTES_MIN, 1_000_000).to_string(),
    );
    config.set(
        "fetch.max.bytes",
        request_bytes.max(REQUEST_BYTES_MIN).to_string(),
    );
    config.set("fetch.message.max.bytes", request_bytes.to_string());
    config
}

fn set_all(config: &mut ClientConfig, settings: Settings) {
    for (name, value) in settings {
        config.set(*name, *value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn append(batch_records: u32, rate: Option<f64>) -> Append {
        Append {
            log: "log".to_owned(),
            shards: 1,
            producers: 1,
            record_bytes: 100,
            batch_records,
            in_flight: 1,
            warmup_records: 0,
            records: Some(1),
            seconds: None,
            rate,
            follow: false,
            retry: false,
            transactional: false,
        }
    }

    fn setting_of(name: &str, batch_records: u32, rate: Option<f64>) -> Option<String> {
        let config = producer("127.0.0.1:1", &append(batch_records, rate), 0);
        config.get(name).map(str::to_owned)
    }

    #[test]
    fn records_wait_for_company_in_full_batches_of_the_closed_loop_only() {
        let linger_of = |batch_records, rate| setting_of("linger.ms", batch_records, rate);
        assert_eq!(linger_of(64, None).as_deref(), Some(LINGER_MS));
        assert_eq!(linger_of(1, None).as_deref(), Some("0"));
        assert_eq!(linger_of(64, Some(1_000.0)).as_deref(), Some("0"));
    }

    #[test]
    fn producers_live_through_the_death_of_a_broker_only_where_that_is_asked() {
        let append = |retry| Append {
            retry,
            ..append(1, None)
        };
        for (retry, value) in [(false, Some("0")), (true, Some("2147483647"))] {
            let config = producer("127.0.0.1:1", &append(retry), 0);
            assert_eq!(config.get("message.send.max.retries"), value);
            assert_eq!(config.get("enable.idempotence").is_some(), retry);
            let made: Result<rdkafka::producer::BaseProducer, _> = config.create();
            assert!(made.is_ok(), "{:?}", made.err());
        }
    }

    #[test]
    fn a_request_may_be_for_a_single_small_record() {
        let config = consumer("127.0.0.1:1", 64);
        assert_eq!(config.get("fetch.message.max.bytes"), Some("64"));
        let made: Result<rdkafka::consumer::BaseConsumer, _> = config.create();
        assert!(made.is_ok(), "{:?}", made.err());
    }

    #[test]
    fn at_a_rate_batches_are_as_large_as_the_client_makes_them() {
        for name in ["batch.num.messages", "batch.size"] {
            assert_eq!(setting_of(name, 1, Some(1_000.0)), None, "{name}");
            assert!(setting_of(name, 1, None).is_some(), "{name}");
        }
    }
}
