//! Members of the classic protocol in a group of the consumer protocol, so that a group can change over online (KIP-848).
//!
//! Such a member reconciles like any other, only more slowly: a heartbeat tells it to join again, the join says what it
//! has and learns its epoch as a generation, the sync gets its partitions. Nobody leads; nothing waits.

use std::collections::BTreeSet;

use super::super::classic::as_stored;
use super::super::consumer_protocol::{self, CONSUMER_TYPE, Subscription};
use super::super::context::{Context, uuid};
use super::super::contract::{
    Answer, GroupError, Heartbeat, JoinGroup, Joined, LeaveGroup, LeavingMember, LeftMember, Name, SyncGroup,
    Synced, Ticket,
};
use super::super::group::{Group, Kind};
use super::super::records::{ClassicFace, CurrentValue, MemberValue, Progress};
use super::heartbeat::Sender;
use super::planning::{Asker, PlannedAnswer, Step};
use super::{Consumer, Member};

impl Group {
    /// JoinGroup in a group of the consumer protocol. The answer comes when what it changes is durable.
    pub(crate) fn join_consumers(&mut self, cx: &mut Context, ticket: Ticket, request: JoinGroup) {
        let Kind::Consumer(consumer) = &mut self.kind else {
            unreachable!("called for groups of the consumer protocol");
        };
        match consumer.begin_join(cx, &self.name, request) {
            Err(error) => cx.answer(ticket, Answer::Join(Err(error))),
            Ok((joined, step)) => {
                let asker = Asker::Joining(ticket, Box::new(joined));
                let planning = consumer.planning(cx, &self.name, step, asker);
                self.plan(cx, planning);
            }
        }
    }

    /// LeaveGroup in a group of the consumer protocol.
    pub(crate) fn leave_consumers(&mut self, cx: &mut Context, ticket: Ticket, request: LeaveGroup) {
        let Kind::Consumer(consumer) = &mut self.kind else {
            unreachable!("called for groups of the consumer protocol");
        };
        let mut gone = BTreeSet::new();
        let left = request
            .members
            .into_iter()
            .map(|leaving| {
                let outcome = consumer.find_leaving(&leaving).map(|name| {
                    gone.insert(name);
                });
                LeftMember {
                    member: leaving.member,
                    instance: leaving.instance,
                    outcome,
                }
            })
            .collect();
        let answer = Answer::Leave(Ok(left));
        if gone.is_empty() {
            cx.answer(ticket, answer);
        } else {
            let step = Step::Departure {
                gone,
                answer: PlannedAnswer::Nothing,
            };
            let planning = consumer.planning(cx, &self.name, step, Asker::Waiting(ticket, answer));
            self.plan(cx, planning);
        }
    }
}

impl Consumer {
    /// A member joins, or joins again: what it learns, but for its generation, and what is to be planned.
    fn begin_join(
        &mut self,
        cx: &mut Context,
        group: &Name,
        request: JoinGroup,
    ) -> Result<(Joined, Step), GroupError> {
        let (protocol, subscription) = self.read_join(cx, &request)?;
        let owned = subscription.owned_partitions(&cx.topics);
        let name = self.joining_name(&request)?;
        let replaces = self.find_replaced(&request, &name)?;
        let known_as = replaces.as_ref().unwrap_or(&name);
        let max = cx.settings.members_max;
        if !self.roster.members.contains_key(known_as) && self.roster.members.len() >= max {
            return Err(GroupError::GroupFull { max });
        }
        let said = said_by(request, subscription);
        let sender = self.sender_saying(known_as, Name::clone(&name), said, replaces.clone());
        self.check_saying(cx, group, &sender)?;
        self.note_join(cx, &name);
        let joined = Joined {
            member: name,
            generation: 0,
            protocol_type: Some(Name::from(CONSUMER_TYPE)),
            protocol: Some(protocol),
            leader: Name::default(),
            skip_assignment: false,
            members: Vec::new(),
        };
        let step = Step::Presence {
            sender: Box::new(sender),
            owned: Some(owned),
            tells_all: true,
        };
        Ok((joined, step))
    }

    /// The assignor that the joining member likes best, and what it says for that.
    fn read_join(&self, cx: &Context, request: &JoinGroup) -> Result<(Name, Subscription), GroupError> {
        let best = request
            .protocols
            .first()
            .filter(|_| &*request.protocol_type == CONSUMER_TYPE && self.fits_classic_members(request))
            .ok_or(GroupError::InconsistentProtocol)?;
        let subscription = Subscription::parse(&best.metadata).ok_or(GroupError::InconsistentProtocol)?;
        if subscription.topics.len() > cx.settings.subscription_topics_max {
            return Err(GroupError::LimitReached {
                what: "topics",
                max: cx.settings.subscription_topics_max,
            });
        }
        Ok((Name::clone(&best.name), subscription))
    }

    /// Says whether the joining member's assignors leave the members of the classic protocol one that all know: without it the
    /// group could not be classic again.
    fn fits_classic_members(&self, request: &JoinGroup) -> bool {
        let holder = request
            .instance
            .as_ref()
            .and_then(|instance| self.instances.get(instance));
        let joins_as = holder.unwrap_or(&request.member);
        let others = || {
            self.roster
                .members
                .iter()
                .filter(|(name, _)| *name != joins_as)
                .filter_map(|(_, member)| member.said.classic.as_ref())
        };
        let all_others_know =
            |name: &Name| others().all(|face| face.protocols.iter().any(|known| known.name == *name));
        request
            .protocols
            .iter()
            .any(|protocol| all_others_know(&protocol.name))
    }

    /// One that joins again is alive, and is to come for its assignment next.
    fn note_join(&mut self, cx: &mut Context, name: &Name) {
        self.touch_session(cx, name);
        if let Some(member) = self.roster_mut().members.get_mut(name) {
            member.act_by = None;
            member.must_act(cx);
        }
    }

    /// Ids are as in a classic group, but none is held for a member that has not come back with it.
    fn joining_name(&self, request: &JoinGroup) -> Result<Name, GroupError> {
        if !request.member.is_empty() {
            return Ok(Name::clone(&request.member));
        }
        let prefix = request.instance.as_ref().unwrap_or(&request.client_id);
        let member = Name::from(format!("{prefix}-{}", uuid(request.random)));
        if request.requires_known_member && request.instance.is_none() {
            return Err(GroupError::MemberIdRequired { member });
        }
        Ok(member)
    }

    /// The member whose instance id the joining one brings. The classic protocol asks nobody to let go of it.
    fn find_replaced(&self, request: &JoinGroup, name: &Name) -> Result<Option<Name>, GroupError> {
        let Some(instance) = &request.instance else {
            return Ok(None);
        };
        match self.instances.get(instance) {
            Some(holder) if holder == name => Ok(None),
            Some(_) if !request.member.is_empty() => Err(GroupError::FencedInstance {
                instance: Name::clone(instance),
            }),
            // It was put out; under a new id it may come back.
            None if !request.member.is_empty() => Err(GroupError::UnknownMember {
                member: Name::clone(name),
            }),
            holder => Ok(holder.cloned()),
        }
    }

    /// Handles Heartbeat of a classic member: it must join again when there is something to give up or to get.
    pub(crate) fn heartbeat(&mut self, cx: &mut Context, request: &Heartbeat) -> Result<(), GroupError> {
        let member = self.check_classic(&request.member, request.instance.as_ref(), request.generation)?;
        let must_join = match member.current.progress {
            _ if member.current.epoch < self.roster.epoch => true,
            Progress::Stable => false,
            Progress::Unrevoked => true,
            Progress::Unreleased => self.can_get_the_rest(&request.member, member),
        };
        self.touch_session(cx, &request.member);
        if must_join {
            let member = self
                .roster_mut()
                .members
                .get_mut(&request.member)
                .expect("just checked");
            member.must_act(cx);
            return Err(GroupError::RebalanceInProgress);
        }
        Ok(())
    }

    /// Handles SyncGroup of a classic member.
    pub(crate) fn sync(&mut self, cx: &mut Context, request: &SyncGroup) -> Result<Synced, GroupError> {
        let member = self.check_classic(&request.member, request.instance.as_ref(), request.generation)?;
        let protocol = member
            .said
            .classic
            .as_ref()
            .and_then(|face| face.protocols.first())
            .map(|protocol| Name::clone(&protocol.name));
        let differs =
            |claimed: &Option<Name>, held: Option<&Name>| claimed.is_some() && claimed.as_ref() != held;
        if differs(&request.protocol_type, Some(&Name::from(CONSUMER_TYPE)))
            || differs(&request.protocol, protocol.as_ref())
        {
            return Err(GroupError::InconsistentProtocol);
        }
        // One that is to give up partitions has joined already; it must do that first.
        if member.current.epoch < self.roster.epoch && member.current.progress != Progress::Unrevoked {
            return Err(GroupError::RebalanceInProgress);
        }
        let assignment = consumer_protocol::write_assignment(&cx.topics, &member.current.assigned);
        self.touch_session(cx, &request.member);
        let member = self
            .roster_mut()
            .members
            .get_mut(&request.member)
            .expect("just checked");
        member.act_by = None;
        Ok(Synced {
            protocol_type: Some(Name::from(CONSUMER_TYPE)),
            protocol,
            assignment,
        })
    }

    /// Says whether all that the member is still to get is free: each join stops it from working, so it joins once for all of it.
    fn can_get_the_rest(&self, name: &Name, member: &Member) -> bool {
        let rest = member.target.without(&member.current.assigned);
        rest.iter()
            .all(|partition| self.roster.owners.is_free_for(name, partition))
    }

    fn check_classic(
        &self,
        name: &Name,
        instance: Option<&Name>,
        generation: i32,
    ) -> Result<&Member, GroupError> {
        let member = self.check_member(name, instance)?;
        if member.said.classic.is_none() {
            return Err(GroupError::UnknownMember {
                member: Name::clone(name),
            });
        }
        let current = member.current.epoch;
        if generation != current {
            return Err(GroupError::IllegalGeneration {
                current,
                got: generation,
            });
        }
        Ok(member)
    }

    fn find_leaving(&self, leaving: &LeavingMember) -> Result<Name, GroupError> {
        if let (true, Some(instance)) = (leaving.member.is_empty(), &leaving.instance) {
            return self
                .instances
                .get(instance)
                .cloned()
                .ok_or_else(|| GroupError::UnknownMember {
                    member: Name::clone(&leaving.member),
                });
        }
        self.check_member(&leaving.member, leaving.instance.as_ref())?;
        Ok(Name::clone(&leaving.member))
    }

    /// A sender that says all of this, as what was known so far under another name perhaps.
    fn sender_saying(
        &self,
        known_as: &Name,
        name: Name,
        said: MemberValue,
        replaces: Option<Name>,
    ) -> Sender {
        let known = self.roster.members.get(known_as);
        let blank = Member::default();
        let base = known.unwrap_or(&blank);
        let epoch = base.current.epoch.max(0);
        Sender {
            name,
            said,
            said_before: known.map(|known| known.said.clone()),
            current: CurrentValue {
                epoch,
                ..base.current.clone()
            },
            target: base.target.clone(),
            replaces,
        }
    }
}

fn said_by(request: JoinGroup, subscription: Subscription) -> MemberValue {
    let topics: BTreeSet<Name> = subscription.topics.into_iter().collect();
    MemberValue {
        instance: request.instance,
        rack: subscription.rack,
        client_id: request.client_id,
        client_host: request.client_host,
        topics: topics.into_iter().collect(),
        regex: None,
        rebalance_timeout: as_stored(request.rebalance_timeout),
        assignor: None,
        classic: Some(ClassicFace {
            session_timeout: as_stored(request.session_timeout),
            protocols: request.protocols,
        }),
    }
}
