//! ApiVersions: what this node serves, so that a client asks for nothing else.

use kafka_wire::api_versions::{ApiVersion, FinalizedFeatureKey, SupportedFeatureKey};
use kafka_wire::{ApiKey, ApiVersionsResponse, ErrorCode, Text};
use protocol::metadata::Metadata;
use protocol::metadata::broker_config::{FEATURES_EPOCH, TRANSACTION_VERSION};

use crate::core::Core;

/// A feature of Kafka's protocol, by which clients choose how they do something.
#[derive(Debug, Clone, Copy)]
pub(super) struct Feature {
    pub(super) name: &'static str,
    /// The newest level that this node knows, and the one in force.
    pub(super) newest: i16,
    pub(super) level: i16,
}

/// The features, and the number of changes that have led to them.
#[derive(Debug, Clone, Default)]
pub(super) struct Features {
    pub(super) each: Vec<Feature>,
    pub(super) epoch: i64,
}

/// By this one, producers begin each transaction in a new epoch (KIP-890).
pub(super) const TRANSACTIONS: &str = "transaction.version";
const NEWEST_TRANSACTIONS: i16 = 2;

/// The features in force.
pub(super) fn features(core: &Core) -> Features {
    let is_known = core.with_metadata(Metadata::takes_transactions);
    let newest = NEWEST_TRANSACTIONS;
    let level = core.number_in_force(TRANSACTION_VERSION, newest as u64);
    let transactions = is_known.then_some(Feature {
        name: TRANSACTIONS,
        newest,
        level: i16::try_from(level).unwrap_or(newest),
    });
    let groups = Feature {
        name: "group.version",
        newest: 1,
        level: 1,
    };
    let changes = core.number_in_force(FEATURES_EPOCH, 0);
    Features {
        each: transactions.into_iter().chain([groups]).collect(),
        // Raising the cluster's feature level is a change, too.
        epoch: i64::try_from(2 * changes).unwrap_or(i64::MAX - 1) + i64::from(is_known),
    }
}

/// Clients before this version take no feature whose least level is 0.
const FIRST_WITH_LEVEL_ZERO: i16 = 4;

/// All served APIs. If the client's version of this request is not `known`, only this API's own versions: it asks again
/// in one of them (KIP-511).
pub(super) fn respond(known: Option<i16>, features: &Features) -> ApiVersionsResponse {
    let (error, listed) = match known {
        Some(_) => (ErrorCode::None, ApiKey::ALL),
        None => (ErrorCode::UnsupportedVersion, &[ApiKey::ApiVersions][..]),
    };
    let (told, version) = match known {
        Some(version) => (&features.each[..], version),
        None => (&[][..], 0),
    };
    let supported = told.iter().filter(|_| version >= FIRST_WITH_LEVEL_ZERO);
    ApiVersionsResponse {
        error_code: error.code(),
        api_keys: listed.iter().map(|api| advertised(*api)).collect(),
        supported_features: supported
            .map(|feature| SupportedFeatureKey {
                name: Text::from(feature.name),
                min_version: 0,
                max_version: feature.newest,
            })
            .collect(),
        finalized_features_epoch: features.epoch,
        finalized_features: told
            .iter()
            .map(|feature| FinalizedFeatureKey {
                name: Text::from(feature.name),
                max_version_level: feature.level,
                min_version_level: feature.level,
            })
            .collect(),
        ..ApiVersionsResponse::default()
    }
}

fn advertised(api: ApiKey) -> ApiVersion {
    let versions = api.valid_versions();
    // librdkafka takes a higher first version for a broker that cannot compress (KAFKA-18659). Nobody sends these.
    let min_version = if api == ApiKey::Produce { 0 } else { versions.first };
    ApiVersion {
        api_key: api.code(),
        min_version,
        max_version: versions.last,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_api_is_listed_once_and_produce_from_zero() {
        let response = respond(Some(4), &Features::default());
        let mut keys: Vec<i16> = response.api_keys.iter().map(|api| api.api_key).collect();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!((response.error_code, keys.len()), (0, ApiKey::ALL.len()));
        let produce = response
            .api_keys
            .iter()
            .find(|api| api.api_key == 0)
            .expect("served");
        assert_eq!((produce.min_version, produce.max_version), (0, 13));
    }

    #[test]
    fn the_documentation_lists_every_api() {
        const PAGE: &str = include_str!("../../../../docs/compatibility.md");
        let rows = ApiKey::ALL.iter().map(|api| {
            let versions = api.valid_versions();
            let versions = match versions.last - versions.first {
                0 => versions.first.to_string(),
                _ => format!("{}–{}", versions.first, versions.last),
            };
            format!("| {api:?} | {} | {versions} |\n", api.code())
        });
        let table = format!(
            "\n| API | key | versions |\n|---|---|---|\n{}\n",
            rows.collect::<String>()
        );
        assert!(
            PAGE.contains(&table),
            "docs/compatibility.md is to have this:{table}"
        );
    }

    #[test]
    fn an_unknown_version_is_told_which_are_known() {
        let response = respond(None, &Features::default());
        assert_eq!(response.error_code, ErrorCode::UnsupportedVersion.code());
        assert_eq!(
            response.api_keys,
            [ApiVersion {
                api_key: 18,
                min_version: 0,
                max_version: 4
            }]
        );
    }
}
