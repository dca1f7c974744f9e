//! UpdateFeatures: the features of Kafka's protocol. Of these, the version of transactions can be set; the forms that nodes write have levels of
//! their own (`ropewalk cluster upgrade`).

use std::rc::Rc;
use std::sync::Arc;

use kafka_wire::update_features::{FeatureUpdateKey, UpdatableFeatureResult};
use kafka_wire::{ErrorCode, Text, UpdateFeaturesRequest, UpdateFeaturesResponse};
use protocol::metadata::broker_config::{FEATURES_EPOCH, TRANSACTION_VERSION};
use protocol::metadata::{ConfigEdit, ConfigOperation, ConfigTarget, ConfigWish, Plans};

use super::Envelope;
use super::api_versions::{Features, TRANSACTIONS, features};
use crate::core::Core;
use crate::error_codes::change_code;

/// From this version on there is one outcome for all.
const FIRST_WITH_ONE_OUTCOME: i16 = 2;
/// The least version of transactions that can be set: with none, producers would be told of no feature.
const LEAST_TRANSACTIONS: i16 = 1;
/// The types of an update that goes down (KIP-584); they are one here, as nothing is lost.
const SAFE_AND_UNSAFE_DOWNGRADE: [i8; 2] = [2, 3];

pub(super) async fn handle(
    core: Rc<Core>,
    request: UpdateFeaturesRequest,
    Envelope { version, .. }: Envelope,
) -> UpdateFeaturesResponse {
    let known = features(&core);
    let checked: Vec<_> = request
        .feature_updates
        .into_iter()
        .map(|update| (check(&known, &update), update.feature))
        .collect();
    // One that is refused has no part in what the others do; from version 2 on, then none does anything.
    let is_one = version >= FIRST_WITH_ONE_OUTCOME;
    let is_stopped = is_one && checked.iter().any(|(checked, _)| checked.is_err());
    let is_let = !request.validate_only && !is_stopped;
    let mut results = Vec::with_capacity(checked.len());
    for (checked, feature) in checked {
        let outcome = match checked {
            Ok(Some(level)) if is_let => set(&core, level, known.epoch).await,
            checked => checked.map(drop),
        };
        let refused = outcome.err();
        results.push(UpdatableFeatureResult {
            error_code: refused.as_ref().map_or(ErrorCode::None, |(code, _)| *code).code(),
            error_message: refused.map(|(_, why)| Text::from(why)),
            feature,
        });
    }
    let mut refused = results
        .iter()
        .filter(|result| result.error_code != ErrorCode::None.code());
    let one = refused.next().filter(|_| is_one);
    UpdateFeaturesResponse {
        throttle_time_ms: 0,
        error_code: one.map_or(ErrorCode::None.code(), |result| result.error_code),
        error_message: one.and_then(|result| result.error_message.clone()),
        results: if is_one { Vec::new() } else { results },
    }
}

type Refused = (ErrorCode, String);

/// Checks a wish, and returns the version of transactions that is to be set, if it is another one.
fn check(known: &Features, update: &FeatureUpdateKey) -> Result<Option<i16>, Refused> {
    let (name, wanted) = (update.feature.as_str(), update.max_version_level);
    let refused = |why: String| Err((ErrorCode::InvalidUpdateVersion, why));
    let Some(feature) = known.each.iter().find(|feature| feature.name == name) else {
        return refused(format!("there is no feature {name}"));
    };
    let level = feature.level;
    if wanted == level {
        return Ok(None);
    }
    if name != TRANSACTIONS {
        return refused(format!("{name} is at level {level}, and stays there"));
    }
    let (least, newest) = (LEAST_TRANSACTIONS, feature.newest);
    if !(least..=newest).contains(&wanted) {
        return refused(format!(
            "{name} can be set to a level from {least} to {newest}, not to {wanted}"
        ));
    }
    let is_downgrade = SAFE_AND_UNSAFE_DOWNGRADE.contains(&update.upgrade_type);
    if wanted < level && !is_downgrade && !update.allow_downgrade {
        return refused(format!(
            "{name} is at level {level}: going down to {wanted} must be asked for as a downgrade"
        ));
    }
    if wanted > level && is_downgrade {
        return refused(format!("{name} is at level {level}: {wanted} is no downgrade"));
    }
    Ok(Some(wanted))
}

async fn set(core: &Rc<Core>, level: i16, epoch: i64) -> Result<(), Refused> {
    let edit = |name: &str, value: String| ConfigEdit {
        name: Arc::from(name),
        operation: ConfigOperation::Set,
        value: value.into(),
    };
    let wish = ConfigWish::Edit(vec![
        edit(TRANSACTION_VERSION, level.to_string()),
        edit(FEATURES_EPOCH, (epoch / 2 + 1).to_string()),
    ]);
    let limits = core.facts.config.plan_limits();
    let changed = core
        .change(move |metadata| {
            metadata.plan_configs(ConfigTarget::AllBrokers, &wish, &mut Plans::of(limits, None))
        })
        .await;
    match changed {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err((change_code(&error), error.to_string())),
        Err(stopping) => Err((ErrorCode::NotController, stopping.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::super::api_versions::Feature;
    use super::*;

    const UPGRADE: i8 = 1;
    const SAFE: i8 = 2;

    fn checked(feature: &str, level: i16, wanted: i16, upgrade_type: i8) -> Result<Option<i16>, ErrorCode> {
        let transactions = Feature {
            name: TRANSACTIONS,
            newest: 2,
            level,
        };
        let groups = Feature {
            name: "group.version",
            newest: 1,
            level: 1,
        };
        let known = Features {
            each: vec![transactions, groups],
            epoch: 0,
        };
        let update = FeatureUpdateKey {
            feature: feature.into(),
            max_version_level: wanted,
            allow_downgrade: false,
            upgrade_type,
        };
        check(&known, &update).map_err(|(code, _)| code)
    }

    #[test]
    fn the_version_of_transactions_goes_up_and_down_as_asked() {
        let refused = Err(ErrorCode::InvalidUpdateVersion);
        assert_eq!(checked(TRANSACTIONS, 1, 2, UPGRADE), Ok(Some(2)));
        assert_eq!(checked(TRANSACTIONS, 2, 1, SAFE), Ok(Some(1)));
        assert_eq!(
            checked(TRANSACTIONS, 2, 2, UPGRADE),
            Ok(None),
            "it is there already"
        );
        assert_eq!(
            checked(TRANSACTIONS, 2, 1, UPGRADE),
            refused,
            "nobody asked to go down"
        );
        assert_eq!(checked(TRANSACTIONS, 1, 2, SAFE), refused, "that is up");
        for wanted in [-1, 0, 3] {
            assert_eq!(checked(TRANSACTIONS, 2, wanted, SAFE), refused, "{wanted}");
        }
        assert_eq!(checked("group.version", 2, 1, UPGRADE), Ok(None));
        assert_eq!(checked("group.version", 2, 0, SAFE), refused, "it is fixed");
        assert_eq!(
            checked("share.version", 2, 1, UPGRADE),
            refused,
            "nobody knows it"
        );
    }
}
