//! AlterConfigs and IncrementalAlterConfigs: configs of topics, brokers and groups, changed while the node runs.
//!
//! The changes of one resource are made all together or not at all, each resource by itself; all of a request is
//! one change of the metadata. An answer comes when every core works by the new values. A change that would have no effect
//! before a restart is refused.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use kafka_wire::{
    AlterConfigsRequest, AlterConfigsResponse, ErrorCode, IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse, Text, alter_configs, incremental_alter_configs,
};
use platform::slices::Slices;
use protocol::metadata::{
    ConfigEdit, ConfigOperation, ConfigTarget, ConfigWish, KnownBrokerConfig, Metadata, Plans, is_internal,
};

use super::Envelope;
use super::broker_configs::given_value;
use super::config_resource::{Resource, resource};
use super::topic_change::{Refusal, WISHES_IN_ONE_TURN, change, conclude, rehearse};
use crate::budget::SharedRoom;
use crate::caller::Caller;
use crate::config::{key_of, name_while_running};
use crate::core::Core;
use crate::groups::fixed_config;
use crate::long::{Long, beside};

/// The time that a change may take to be committed: neither request says how long its client waits.
const PATIENCE: Duration = Duration::from_secs(30);

/// Operations by their numbers (KIP-339).
pub(crate) const SET: i8 = 0;
pub(crate) const DELETE: i8 = 1;
const APPEND: i8 = 2;
const SUBTRACT: i8 = 3;

/// The changes that a request wants for one resource.
struct Wanted {
    resource_type: i8,
    name: Text,
    wish: Result<ConfigWish, Refusal>,
}

/// The outcome for one resource.
struct Outcome {
    resource_type: i8,
    name: Text,
    made: Result<(), Refusal>,
}

pub(super) async fn replace(
    core: Rc<Core>,
    request: AlterConfigsRequest,
    Envelope { caller, room, .. }: Envelope,
) -> AlterConfigsResponse {
    let wanted = |resource: alter_configs::AlterConfigsResource| Wanted {
        resource_type: resource.resource_type,
        name: resource.resource_name,
        wish: replacement(resource.configs),
    };
    let told = |outcome: Outcome| alter_configs::AlterConfigsResourceResponse {
        error_code: outcome.code(),
        error_message: outcome.message(),
        resource_type: outcome.resource_type,
        resource_name: outcome.name,
    };
    AlterConfigsResponse {
        throttle_time_ms: 0,
        responses: alter(
            &core,
            &caller,
            room,
            request.resources,
            request.validate_only,
            wanted,
            told,
        )
        .await,
    }
}

pub(crate) async fn edit(
    core: Rc<Core>,
    request: IncrementalAlterConfigsRequest,
    Envelope { caller, room, .. }: Envelope,
) -> IncrementalAlterConfigsResponse {
    let wanted = |resource: incremental_alter_configs::AlterConfigsResource| Wanted {
        resource_type: resource.resource_type,
        name: resource.resource_name,
        wish: edits(resource.configs),
    };
    let told = |outcome: Outcome| incremental_alter_configs::AlterConfigsResourceResponse {
        error_code: outcome.code(),
        error_message: outcome.message(),
        resource_type: outcome.resource_type,
        resource_name: outcome.name,
    };
    IncrementalAlterConfigsResponse {
        throttle_time_ms: 0,
        responses: alter(
            &core,
            &caller,
            room,
            request.resources,
            request.validate_only,
            wanted,
            told,
        )
        .await,
    }
}

impl Outcome {
    fn code(&self) -> i16 {
        let refusal = self.made.as_ref().err();
        refusal.map_or(ErrorCode::None, |refusal| refusal.code).code()
    }

    fn message(&self) -> Option<Text> {
        self.made.as_ref().err().and_then(Refusal::text)
    }
}

fn replacement(configs: Vec<alter_configs::AlterableConfig>) -> Result<ConfigWish, Refusal> {
    check_once(configs.iter().map(|config| &config.name))?;
    let value_of = |config: alter_configs::AlterableConfig| {
        let value = some_value(&config.name, config.value)?;
        Ok((Arc::from(config.name.as_str()), value))
    };
    let values = configs.into_iter().map(value_of);
    Ok(ConfigWish::Replace(values.collect::<Result<_, Refusal>>()?))
}

fn edits(configs: Vec<incremental_alter_configs::AlterableConfig>) -> Result<ConfigWish, Refusal> {
    check_once(configs.iter().map(|config| &config.name))?;
    let edit = |config: incremental_alter_configs::AlterableConfig| {
        let operation = operation(&config.name, config.config_operation)?;
        let value = match operation {
            ConfigOperation::Delete => "".into(),
            _ => some_value(&config.name, config.value)?,
        };
        Ok(ConfigEdit {
            name: config.name.as_str().into(),
            operation,
            value,
        })
    };
    let edits = configs.into_iter().map(edit);
    Ok(ConfigWish::Edit(edits.collect::<Result<_, Refusal>>()?))
}

/// The operation that a number stands for.
fn operation(name: &Text, number: i8) -> Result<ConfigOperation, Refusal> {
    match number {
        SET => Ok(ConfigOperation::Set),
        DELETE => Ok(ConfigOperation::Delete),
        APPEND => Ok(ConfigOperation::Append),
        SUBTRACT => Ok(ConfigOperation::Subtract),
        other => {
            let message =
                format!("{name}: there is no operation {other}; 0 sets, 1 deletes, 2 adds, 3 takes away");
            Err(Refusal::new(ErrorCode::InvalidRequest, message))
        }
    }
}

fn some_value(name: &Text, value: Option<Text>) -> Result<Arc<str>, Refusal> {
    value.map(|value| value.as_str().into()).ok_or_else(|| {
        let message = format!("{name} has no value; delete it to have its default");
        Refusal::new(ErrorCode::InvalidRequest, message)
    })
}

/// Checks that each config is named once: which of two values would hold is for the client to say.
///
/// # Errors
/// One is named twice.
pub(super) fn check_once<'a>(mut names: impl Iterator<Item = &'a Text>) -> Result<(), Refusal> {
    let mut seen = BTreeSet::new();
    match names.find(|name| !seen.insert(*name)) {
        None => Ok(()),
        Some(name) => {
            let message = format!("the request names {name} twice");
            Err(Refusal::new(ErrorCode::InvalidRequest, message))
        }
    }
}

/// Does what is wanted of resources, and tells what became of each, in order. They are read and told beside the core if they are many.
async fn alter<R: Send + 'static, T: Send + 'static>(
    core: &Rc<Core>,
    caller: &Caller,
    room: SharedRoom,
    resources: Vec<R>,
    validate_only: bool,
    wanted: impl Fn(R) -> Wanted + Send + 'static,
    told: impl Fn(Outcome) -> T + Send + 'static,
) -> Vec<T> {
    let (count, held) = (resources.len(), room.clone());
    let read = move || {
        let wanted = read(resources.into_iter().map(wanted).collect());
        (wanted, held)
    };
    let (wanted, _held) = beside(core, count, read).await;
    let mut slices = Slices::of(WISHES_IN_ONE_TURN);
    let mut outcomes = Long::of(core, Vec::with_capacity(count), &room);
    let mut aimed = Vec::with_capacity(count);
    for Wanted {
        resource_type,
        name,
        wish,
    } in wanted
    {
        let aim = aim(core, resource_type, &name, wish);
        outcomes.push(Outcome {
            resource_type,
            name,
            made: aim.map(|aim| aimed.push(aim)),
        });
        slices.did(1).await;
    }
    let plan =
        |metadata: &Metadata, (resource, wish): (Resource, ConfigWish), plans: &mut Plans| match resource {
            Resource::Known(target) => metadata.plan_configs(target, &wish, plans),
            Resource::Group(group) => metadata.plan_group_configs(&group, &wish, plans),
        };
    let made = match validate_only {
        true => rehearse(core, caller, aimed, plan).await,
        false => change(core, caller, room.clone(), PATIENCE, aimed, plan).await,
    };
    let mut outcomes = outcomes.take();
    let tell = move || {
        conclude(outcomes.iter_mut().map(|outcome| &mut outcome.made), made);
        let told = outcomes.into_iter().map(told).collect();
        (told, room)
    };
    let (told, _room) = beside(core, count, tell).await;
    told
}

/// Refuses what is wanted of a resource that is named again: whose wish would go is for the client to say.
fn read(mut wanted: Vec<Wanted>) -> Vec<Wanted> {
    let mut times: BTreeMap<(i8, Text), usize> = BTreeMap::new();
    for wanted in &wanted {
        *times
            .entry((wanted.resource_type, wanted.name.clone()))
            .or_default() += 1;
    }
    for wanted in &mut wanted {
        if times[&(wanted.resource_type, wanted.name.clone())] > 1 {
            let message = "Each resource must appear at most once.";
            wanted.wish = Err(Refusal::new(ErrorCode::InvalidRequest, message));
        }
    }
    wanted
}

fn aim(
    core: &Core,
    resource_type: i8,
    name: &str,
    wish: Result<ConfigWish, Refusal>,
) -> Result<(Resource, ConfigWish), Refusal> {
    let resource = resource(core, resource_type, name)?;
    let wish = wish?;
    let wish = match resource {
        Resource::Known(ConfigTarget::Topic(_)) if is_internal(name) => keep_fixed(name, wish)?,
        Resource::Known(ConfigTarget::Broker(_) | ConfigTarget::AllBrokers) => {
            check_changeable(&wish)?;
            wish
        }
        Resource::Known(ConfigTarget::Topic(_)) | Resource::Group(_) => wish,
    };
    Ok((resource, wish))
}

/// A wish about an internal topic, after which the topic still is what the node needs. What is fixed may be set to what it is.
///
/// # Errors
/// The topic would lose groups, or refuse their changes.
fn keep_fixed(topic: &str, wish: ConfigWish) -> Result<ConfigWish, Refusal> {
    match wish {
        ConfigWish::Edit(edits) => {
            for edit in &edits {
                let sets = edit.operation == ConfigOperation::Set;
                check_fixed(topic, &edit.name, sets.then_some(&*edit.value))?;
            }
            Ok(ConfigWish::Edit(edits))
        }
        ConfigWish::Replace(mut values) => {
            for (name, value) in &values {
                check_fixed(topic, name, Some(&**value))?;
            }
            // A config that is not named is given up.
            values.retain(|(name, _)| fixed_value(topic, name).is_none());
            let fixed = fixed_config(topic).iter();
            values.extend(fixed.map(|(name, value)| (Arc::from(*name), Arc::from(*value))));
            Ok(ConfigWish::Replace(values))
        }
    }
}

fn check_fixed(topic: &str, name: &str, wanted: Option<&str>) -> Result<(), Refusal> {
    match fixed_value(topic, name) {
        Some(fixed) if wanted.map(str::trim) != Some(fixed) => {
            let message = format!("{name} is {fixed} for a topic that the node keeps for itself");
            Err(Refusal::new(ErrorCode::InvalidConfig, message))
        }
        _ => Ok(()),
    }
}

fn fixed_value(topic: &str, name: &str) -> Option<&'static str> {
    let mut fixed = fixed_config(topic).iter();
    fixed.find(|(fixed, _)| *fixed == name).map(|(_, value)| *value)
}

/// Tells what only a restart can change from what there is not.
fn check_changeable(wish: &ConfigWish) -> Result<(), Refusal> {
    let check = |name: &Arc<str>| {
        if let Some(value) = given_value(name) {
            let message = format!("{name} cannot be changed; it is {value} on every node");
            return Err(Refusal::new(ErrorCode::InvalidRequest, message));
        }
        let Some(key) = key_of(name).filter(|_| KnownBrokerConfig::find(name).is_err()) else {
            return Ok(());
        };
        let mut message = format!(
            "{name} cannot be changed while the node runs; set {key} in its configuration and start it again"
        );
        if let Some(name) = name_while_running(&key) {
            message += &format!(", or set {name}, which changes it while the node runs");
        }
        Err(Refusal::new(ErrorCode::InvalidRequest, message))
    };
    match wish {
        ConfigWish::Replace(values) => values.iter().try_for_each(|(name, _)| check(name)),
        ConfigWish::Edit(edits) => edits.iter().try_for_each(|edit| check(&edit.name)),
    }
}
