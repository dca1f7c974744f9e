//! The members of a classic group, and what is counted of them all, so that a join costs no look at every other member.

use std::collections::{BTreeMap, BTreeSet};

use super::super::contract::{JoinGroup, Name, Protocol};
use super::Member;

/// See the module. What members say of themselves changes only through here.
#[derive(Debug, Default)]
pub(super) struct Members {
    by_name: BTreeMap<Name, Member>,
    /// The number of members that know each assignor.
    knowing: BTreeMap<Name, usize>,
    /// Bytes of all that the members say of themselves.
    said_bytes: usize,
}

#[cfg(test)]
thread_local! {
    /// Members that were looked at one after the other.
    static LOOKS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

fn note_look() {
    #[cfg(test)]
    LOOKS.set(LOOKS.get() + 1);
}

impl Members {
    pub(super) fn len(&self) -> usize {
        self.by_name.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    pub(super) fn contains_key(&self, name: &Name) -> bool {
        self.by_name.contains_key(name)
    }

    pub(super) fn get(&self, name: &Name) -> Option<&Member> {
        self.by_name.get(name)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Name, &Member)> {
        self.by_name.iter().inspect(|_| note_look())
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &Name> {
        self.iter().map(|(name, _)| name)
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &Member> {
        self.iter().map(|(_, member)| member)
    }

    pub(super) fn insert(&mut self, name: Name, member: Member) -> Option<Member> {
        let before = self.remove(&name);
        self.count_in(&name, &member);
        self.by_name.insert(name, member);
        before
    }

    pub(super) fn remove(&mut self, name: &Name) -> Option<Member> {
        let member = self.by_name.remove(name)?;
        self.said_bytes -= member.said_bytes(name);
        for protocol in names(&member.protocols) {
            let members = self.knowing.get_mut(protocol).expect("it was counted");
            *members -= 1;
            if *members == 0 {
                self.knowing.remove(protocol);
            }
        }
        Some(member)
    }

    /// Takes what a member says of itself when it joins again.
    pub(super) fn update(&mut self, name: &Name, request: JoinGroup) {
        let mut member = self.remove(name).expect("only members join again");
        member.update(request);
        self.insert(Name::clone(name), member);
    }

    /// A member, for all that it does not say of itself.
    pub(super) fn get_mut(&mut self, name: &Name) -> Option<&mut Member> {
        self.by_name.get_mut(name)
    }

    /// All members, likewise.
    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut Member> {
        self.by_name.values_mut().inspect(|_| note_look())
    }

    /// Bytes of all that the members say of themselves.
    pub(super) fn said_bytes(&self) -> usize {
        self.said_bytes
    }

    /// Says whether all others know one of these assignors. Looks at no member but the one that asks.
    pub(super) fn others_know_one_of(&self, protocols: &[Protocol], member: &Name) -> bool {
        let own = self.by_name.get(member);
        let own: BTreeSet<&Name> = own.map(|own| names(&own.protocols)).unwrap_or_default();
        let others = self.by_name.len() - usize::from(self.by_name.contains_key(member));
        protocols.iter().any(|protocol| {
            let knowing = self.knowing.get(&protocol.name).copied().unwrap_or(0);
            knowing - usize::from(own.contains(&protocol.name)) == others
        })
    }

    /// The assignors that all members know.
    pub(super) fn common_protocols(&self) -> BTreeSet<&Name> {
        let all = self.by_name.len();
        let common = self.knowing.iter().filter(|(_, members)| **members == all);
        common.map(|(name, _)| name).collect()
    }

    fn count_in(&mut self, name: &Name, member: &Member) {
        self.said_bytes += member.said_bytes(name);
        for protocol in names(&member.protocols) {
            *self.knowing.entry(Name::clone(protocol)).or_default() += 1;
        }
    }
}

/// Each name once: a member may say one twice.
fn names(protocols: &[Protocol]) -> BTreeSet<&Name> {
    protocols.iter().map(|protocol| &protocol.name).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;
    use proptest::prelude::*;

    use super::super::super::contract::Ticket;
    use super::super::super::{Coordinator, Settings};
    use super::*;

    fn request(member: &str, protocols: &[u8]) -> JoinGroup {
        let protocols = protocols.iter().map(|protocol| Protocol {
            name: Name::from(format!("assignor-{protocol}")),
            metadata: Bytes::from(vec![0; usize::from(*protocol)]),
        });
        JoinGroup {
            group: "g".into(),
            member: member.into(),
            instance: None,
            client_id: "c".into(),
            client_host: "/h".into(),
            session_timeout: Duration::from_secs(10),
            rebalance_timeout: Duration::from_secs(10),
            protocol_type: "consumer".into(),
            protocols: protocols.collect(),
            requires_known_member: false,
            can_skip_assignment: false,
            random: 0,
        }
    }

    /// Whoever is not a member may ask as often as it likes: the group's size must not make that dear.
    #[test]
    fn a_refused_join_looks_at_no_other_member() {
        let mut coordinator = Coordinator::new(Settings::default(), 0);
        coordinator.handle_loaded(Duration::ZERO);
        let protocols: Vec<u8> = (0..32).collect();
        let mut join = |ticket, random, member: &str, protocols: &[u8]| {
            let request = JoinGroup {
                random,
                ..request(member, protocols)
            };
            coordinator.handle_request(Duration::ZERO, Ticket(ticket), request.into());
            while coordinator.next_action().is_some() {}
        };
        for number in 0..200 {
            join(number, u128::from(number), "", &protocols);
        }
        assert!(LOOKS.get() > 200, "looks are counted");
        LOOKS.set(0);
        join(1_000, 0, "nobody", &protocols);
        join(1_001, 0, "nobody", &[77]);
        join(1_002, 0, "", &[77]);
        assert_eq!(LOOKS.get(), 0);
    }

    proptest! {
        /// The counts are those that a look at every member finds.
        #[test]
        fn counts_are_those_of_a_look_at_all(
            steps in prop::collection::vec((0..4u8, 0..3u8, prop::collection::vec(0..4u8, 0..4)), 0..40),
        ) {
            let mut members = Members::default();
            for (who, what, protocols) in steps {
                let name = Name::from(format!("m{who}"));
                let request = request(&name, &protocols);
                match what {
                    0 => drop(members.remove(&name)),
                    1 if members.contains_key(&name) => members.update(&name, request.clone()),
                    _ => drop(members.insert(Name::clone(&name), Member::of(request.clone(), 0))),
                }
                let said: usize = members.iter().map(|(name, member)| member.said_bytes(name)).sum();
                prop_assert_eq!(members.said_bytes(), said);
                let knows = |member: &Member, wanted: &Name| {
                    member.protocols.iter().any(|known| known.name == *wanted)
                };
                for asking in ["m0", "m3", ""].map(Name::from) {
                    let others = || members.iter().filter(|(name, _)| **name != asking);
                    let all_know = |wanted: &Protocol| others().all(|(_, one)| knows(one, &wanted.name));
                    let found = request.protocols.iter().any(all_know);
                    prop_assert_eq!(members.others_know_one_of(&request.protocols, &asking), found);
                }
                let common = members.common_protocols();
                for wanted in (0..4).map(|protocol| Name::from(format!("assignor-{protocol}"))) {
                    let all_know = !members.is_empty() && members.values().all(|one| knows(one, &wanted));
                    prop_assert_eq!(common.contains(&wanted), all_know);
                }
            }
        }
    }
}
