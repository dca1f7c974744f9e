//! ApiVersions: what this node serves, so that a client asks for nothing else.

use kafka_wire::api_versions::ApiVersion;
use kafka_wire::{ApiKey, ApiVersionsResponse, ErrorCode};

/// All served APIs. If the client's version of this request is not `known`, only this API's own versions: it asks again
/// in one of them (KIP-511).
pub(super) fn respond(known: bool) -> ApiVersionsResponse {
    let (error, listed) = match known {
        true => (ErrorCode::None, ApiKey::ALL),
        false => (ErrorCode::UnsupportedVersion, &[ApiKey::ApiVersions][..]),
    };
    ApiVersionsResponse {
        error_code: error.code(),
        api_keys: listed.iter().map(|api| advertised(*api)).collect(),
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
        let response = respond(true);
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
        let response = respond(false);
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
