//! Counts how much of a coordinator's room each client's address has taken by the groups that it made.
//!
//! One client must not be able to keep all others from making groups. So a client that has its share is refused, and nobody
//! that was there before is put out. The log says with each offset who made its group; a group without offsets counts for its
//! first member after a start. Groups of logs that do not say it count for nobody.

use std::collections::BTreeMap;

use super::contract::{GroupError, Name};
use super::settings::Settings;

/// See the module. An address without groups takes no memory.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    taken: BTreeMap<Name, Share>,
}

#[derive(Debug, Default)]
struct Share {
    groups: usize,
    bytes: usize,
}

impl Shares {
    /// Checks that a client may make one more group.
    pub(crate) fn check_group(&self, client: &Name, settings: &Settings) -> Result<(), GroupError> {
        let max = settings.groups_per_client_max;
        match self.taken.get(client) {
            Some(share) if share.groups >= max => {
                let what = "groups made from one client's address: delete some, or use another address";
                Err(GroupError::LimitReached { what, max })
            }
            _ => Ok(()),
        }
    }

    /// Checks that the groups of a client may grow.
    pub(crate) fn check_growth(&self, client: &Name, settings: &Settings) -> Result<(), GroupError> {
        let max = settings.held_bytes_per_client_max;
        match self.taken.get(client) {
            Some(share) if share.bytes >= max => {
                let what =
                    "bytes of groups made from one client's address: delete some, or use another address";
                Err(GroupError::LimitReached { what, max })
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn add_group(&mut self, client: &Name) {
        self.taken.entry(Name::clone(client)).or_default().groups += 1;
    }

    pub(crate) fn remove_group(&mut self, client: &Name) {
        let share = self.taken.get_mut(client).expect("its group was added");
        share.groups -= 1;
        if share.groups == 0 {
            assert_eq!(share.bytes, 0, "what groups took went with them");
            self.taken.remove(client);
        }
    }

    /// A group of the client takes other bytes than before.
    pub(crate) fn count_bytes(&mut self, client: &Name, before: usize, after: usize) {
        let share = self.taken.get_mut(client).expect("its group was added");
        share.bytes = share.bytes - before + after;
    }
}
