//! Finding the brokers that coordinate groups, and asking them.

use std::collections::{BTreeMap, HashMap};

use kafka_wire::find_coordinator::Coordinator;
use kafka_wire::{ApiKey, FindCoordinatorRequest, FindCoordinatorResponse, Text};

use crate::cluster::Cluster;
use crate::connection::Connection;
use crate::error::{Result, succeeded};

/// From this version on one question finds the coordinators of several groups.
const FIRST_WITH_SEVERAL: i16 = 4;

impl Cluster {
    /// Asks a group's coordinator; again while it is being found, or reads its log.
    pub(super) fn ask_coordinator<T>(
        &mut self,
        group: &str,
        mut ask: impl FnMut(&mut Connection) -> Result<T>,
    ) -> Result<T> {
        let patience = self.options().request_timeout;
        self.retry(patience, |cluster| {
            let (_, address) = cluster.find_coordinators(&[group])?.remove(0);
            cluster.ask_at(&address, &mut ask)
        })
    }

    /// The addresses of the coordinators of `groups`, each with those that are its.
    pub(super) fn coordinators<'a>(&mut self, groups: &[&'a str]) -> Result<BTreeMap<String, Vec<&'a str>>> {
        let version = self.connection()?.version_of(ApiKey::FindCoordinator)?;
        let at_once = if version < FIRST_WITH_SEVERAL {
            1
        } else {
            usize::MAX
        };
        let mut coordinators: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for groups in groups.chunks(at_once) {
            for (group, address) in self.find_coordinators(groups)? {
                coordinators.entry(address).or_default().push(group);
            }
        }
        Ok(coordinators)
    }

    /// The address of each group's coordinator. Older brokers hear of the first group only.
    fn find_coordinators<'a>(&mut self, groups: &[&'a str]) -> Result<Vec<(&'a str, String)>> {
        let keys: Vec<Text> = groups.iter().map(|group| Text::from(*group)).collect();
        let response = self.call(&FindCoordinatorRequest {
            key: keys[0].clone(),
            coordinator_keys: keys,
            ..FindCoordinatorRequest::default()
        })?;
        let found = match response.coordinators.is_empty() {
            true => vec![of_first(groups[0], response)],
            false => response.coordinators,
        };
        let found: HashMap<&str, &Coordinator> =
            found.iter().map(|found| (found.key.as_str(), found)).collect();
        let address = |group: &&'a str| -> Result<(&'a str, String)> {
            let found = found.get(group);
            let outcome = found.map(|found| (found.error_code, found.error_message.as_ref()));
            succeeded(format!("finding the coordinator of group {group}"), outcome)?;
            let address = found.map(|found| format!("{}:{}", found.host, found.port));
            Ok((*group, address.unwrap_or_default()))
        };
        groups.iter().map(address).collect()
    }
}

/// The coordinator that older brokers answer beside the list.
fn of_first(group: &str, response: FindCoordinatorResponse) -> Coordinator {
    Coordinator {
        key: Text::from(group),
        node_id: response.node_id,
        host: response.host,
        port: response.port,
        error_code: response.error_code,
        error_message: response.error_message,
    }
}
