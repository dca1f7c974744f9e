//! A snapshot as text that Prometheus reads (OpenMetrics 1.0).

use std::fmt;

use kafka_wire::ApiKey;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use protocol::leader::NodeId;

use super::Snapshot;
use super::table::{
    BUILD, Metric, OF_API, OF_COORDINATOR, OF_CORE, OF_CORE_ANSWER, OF_ERROR, OF_FOLLOWER, OF_GROUP,
    OF_JOURNAL, OF_NODE, OF_PEER, OF_RETENTION, OF_TOPIC, Value,
};

/// The beginning of every metric's name.
pub(super) const PREFIX: &str = "ropewalk";

/// The core, journal, config, API, error, group, topic or other node that a value is about; none for the whole node.
type Labels = Vec<(&'static str, String)>;

/// The snapshot as text.
pub(crate) fn render(snapshot: Snapshot) -> String {
    let mut registry = Registry::with_prefix(PREFIX);
    registry.register_collector(Box::new(snapshot));
    let mut rendered = String::new();
    text::encode(&mut rendered, &registry).expect("writing to a string does not fail");
    rendered
}

impl Collector for Snapshot {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let (name, help) = BUILD;
        let version = [("version", env!("CARGO_PKG_VERSION"))];
        encoder
            .encode_descriptor(name, help, None, MetricType::Info)?
            .encode_info(&version)?;
        encode_all(&mut encoder, OF_NODE, &[(Labels::new(), self)])?;

        let of_core = |core: usize| vec![("core", core.to_string())];
        let answers: Vec<_> = self
            .cores
            .iter()
            .map(|core| (of_core(core.index), core))
            .collect();
        encode_all(&mut encoder, OF_CORE_ANSWER, &answers)?;
        let cores: Vec<_> = self
            .answered()
            .map(|(core, figures)| (of_core(core), figures))
            .collect();
        encode_all(&mut encoder, OF_CORE, &cores)?;
        encode_all(&mut encoder, OF_COORDINATOR, &cores)?;

        let of_api = |core: usize, api: ApiKey| vec![("core", core.to_string()), ("api", format!("{api:?}"))];
        let apis = self.answered().flat_map(|(core, figures)| {
            let counted = figures.requests_by_api.iter();
            counted.map(move |(api, requests)| (of_api(core, *api), requests))
        });
        encode_all(&mut encoder, OF_API, &apis.collect::<Vec<_>>())?;
        let errors = self.answered().flat_map(|(core, figures)| {
            let told = figures.errors.iter();
            told.map(move |(api, error, answers)| {
                let labels = [of_api(core, *api), vec![("error", error.name().to_owned())]].concat();
                (labels, answers)
            })
        });
        encode_all(&mut encoder, OF_ERROR, &errors.collect::<Vec<_>>())?;

        let topics = self.answered().flat_map(|(core, figures)| {
            let used = figures.by_topic.iter();
            used.map(move |topic| {
                (
                    [of_core(core), vec![("topic", topic.topic.to_string())]].concat(),
                    topic,
                )
            })
        });
        encode_all(&mut encoder, OF_TOPIC, &topics.collect::<Vec<_>>())?;

        let lags = self.answered().flat_map(|(_, figures)| figures.group_lags.iter());
        let lags = lags.map(|lag| {
            let labels = vec![("group", lag.group.to_string()), ("topic", lag.topic.to_string())];
            (labels, lag)
        });
        encode_all(&mut encoder, OF_GROUP, &lags.collect::<Vec<_>>())?;

        let of_peer = |node: NodeId| ("node", node.0.to_string());
        let peers = self.answered().flat_map(|(core, figures)| {
            let peers = figures.peers.iter();
            peers.map(move |peer| ([of_core(core), vec![of_peer(peer.node)]].concat(), peer))
        });
        encode_all(&mut encoder, OF_PEER, &peers.collect::<Vec<_>>())?;

        let of_journal =
            |core: usize, journal: usize| vec![("core", core.to_string()), ("journal", journal.to_string())];
        let journals = self
            .journals()
            .map(|(core, figures)| (of_journal(core, figures.index), figures));
        encode_all(&mut encoder, OF_JOURNAL, &journals.collect::<Vec<_>>())?;
        let retention = self.journals().flat_map(|(core, figures)| {
            let by_config = figures.retention.iter();
            by_config.map(move |retention| {
                let config = vec![("config", retention.config.to_owned())];
                ([of_journal(core, figures.index), config].concat(), retention)
            })
        });
        encode_all(&mut encoder, OF_RETENTION, &retention.collect::<Vec<_>>())?;
        let followers = self.journals().flat_map(|(core, figures)| {
            let by_node = figures.led.followers.iter();
            by_node.map(move |(node, followers)| {
                let labels = [of_journal(core, figures.index), vec![of_peer(*node)]].concat();
                (labels, followers)
            })
        });
        encode_all(&mut encoder, OF_FOLLOWER, &followers.collect::<Vec<_>>())
    }
}

/// Metric by metric, as the format asks for, not subject by subject.
fn encode_all<S>(
    encoder: &mut DescriptorEncoder<'_>,
    metrics: &[Metric<S>],
    subjects: &[(Labels, &S)],
) -> fmt::Result {
    for metric in metrics {
        let values: Vec<_> = subjects
            .iter()
            .filter_map(|(labels, subject)| (metric.value)(subject).map(|value| (labels, value)))
            .collect();
        if values.is_empty() {
            continue;
        }
        let mut family =
            encoder.encode_descriptor(metric.name, metric.help, metric.unit.as_ref(), metric.kind)?;
        for (labels, value) in values {
            match labels.is_empty() {
                true => encode_value(&mut family, metric.kind, value)?,
                false => encode_value(&mut family.encode_family(labels)?, metric.kind, value)?,
            }
        }
    }
    Ok(())
}

fn encode_value(encoder: &mut MetricEncoder<'_>, kind: MetricType, value: Value) -> fmt::Result {
    match (kind, value) {
        (MetricType::Counter, Value::Whole(count)) => {
            encoder.encode_counter::<NoLabelSet, _, u64>(&count, None)
        }
        (MetricType::Counter, Value::Time(time)) => {
            encoder.encode_counter::<NoLabelSet, _, u64>(&time.as_secs_f64(), None)
        }
        (_, Value::Histogram(figures)) => {
            let (sum, count) = (figures.sum().as_secs_f64(), figures.count());
            encoder.encode_histogram::<NoLabelSet>(sum, count, &figures.buckets(), None)
        }
        (_, Value::Whole(count)) => encoder.encode_gauge(&count),
        (_, Value::Time(time)) => encoder.encode_gauge(&time.as_secs_f64()),
    }
}
