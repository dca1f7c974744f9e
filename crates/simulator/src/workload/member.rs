//! A member of a group by the classic protocol: it joins, whoever leads deals the partitions out, and each commits offsets of those that
//! it was dealt.

use std::io;

use bytes::Bytes;
use kafka_wire::join_group::JoinGroupRequestProtocol;
use kafka_wire::leave_group::MemberIdentity;
use kafka_wire::sync_group::SyncGroupRequestAssignment;
use kafka_wire::{
    ApiKey, ErrorCode, HeartbeatRequest, JoinGroupRequest, JoinGroupResponse, LeaveGroupRequest,
    SyncGroupRequest, Text,
};
use platform::random::SeededRandom;
use tokio::time::sleep;

use super::committer::{Committer, name_of};
use super::{REST, TOPICS, World};
use crate::client::Client;

/// The group's number, behind those of the groups without members.
pub(crate) const CREW: usize = 3;
const PROTOCOL_TYPE: &str = "simulated";
const PROTOCOL: &str = "dealt";
const SESSION_TIMEOUT_MS: i32 = 1_500;
const REBALANCE_TIMEOUT_MS: i32 = 300;

struct Member {
    world: World,
    random: SeededRandom,
    committer: Committer,
    /// The partitions that it was dealt last.
    dealt: Vec<i32>,
}

/// Takes part in the group until the world ends.
pub(crate) async fn take_part(world: World, random: SeededRandom) {
    let mut member = Member {
        world: world.clone(),
        random,
        committer: Committer::nobody(CREW),
        dealt: Vec::new(),
    };
    while !world.ends.get() {
        let mut client = world.connect().await;
        if let Err(error) = member.go_on(&mut client).await {
            world.trace.count(format!("group: connection {:?}", error.kind()));
        }
        sleep(REST).await;
    }
    world.unfinished.set(world.unfinished.get() - 1);
}

impl Member {
    async fn go_on(&mut self, client: &mut Client) -> io::Result<()> {
        while !self.world.ends.get() {
            // Whoever lost its connection while it joined may not know that it has.
            if self.committer.generation >= 0 && self.random.chance(1, 2) {
                self.work(client).await?;
            }
            if self.take_place(client).await? {
                while !self.world.ends.get() && self.work(client).await? {
                    sleep(REST).await;
                }
            }
            if self.random.chance(1, 8) {
                self.leave(client).await?;
            }
            sleep(REST).await;
        }
        Ok(())
    }

    /// Joins the next generation and takes what is dealt there; false if there is none to join now.
    async fn take_place(&mut self, client: &mut Client) -> io::Result<bool> {
        let request = JoinGroupRequest {
            group_id: name_of(CREW),
            session_timeout_ms: SESSION_TIMEOUT_MS,
            rebalance_timeout_ms: REBALANCE_TIMEOUT_MS,
            member_id: self.committer.member.clone(),
            protocol_type: Text::from(PROTOCOL_TYPE),
            protocols: vec![JoinGroupRequestProtocol {
                name: Text::from(PROTOCOL),
                ..JoinGroupRequestProtocol::default()
            }],
            ..JoinGroupRequest::default()
        };
        let joined = client.call(&request).await?;
        match self.world.reached(ApiKey::JoinGroup, joined.error_code) {
            None => self.committer.member = joined.member_id.clone(),
            Some(ErrorCode::MemberIdRequired) => {
                self.committer.member = joined.member_id;
                return Box::pin(self.take_place(client)).await;
            }
            Some(error) => return Ok(self.hear(error)),
        }
        let request = SyncGroupRequest {
            group_id: name_of(CREW),
            generation_id: joined.generation_id,
            member_id: joined.member_id.clone(),
            protocol_type: Some(Text::from(PROTOCOL_TYPE)),
            protocol_name: Some(Text::from(PROTOCOL)),
            assignments: deal(&joined),
            ..SyncGroupRequest::default()
        };
        let synced = client.call(&request).await?;
        if let Some(error) = self.world.reached(ApiKey::SyncGroup, synced.error_code) {
            return Ok(self.hear(error));
        }
        self.committer.generation = joined.generation_id;
        self.dealt = synced.assignment.iter().map(|index| i32::from(*index)).collect();
        self.world
            .history
            .deal(joined.generation_id, &joined.member_id, &self.dealt);
        Ok(true)
    }

    /// Says that it is there, and commits; false if it must join anew.
    async fn work(&mut self, client: &mut Client) -> io::Result<bool> {
        if self.dealt.is_empty() || self.random.chance(1, 3) {
            return self.heartbeat(client).await;
        }
        let index = self.dealt[self.random.below(self.dealt.len() as u64) as usize];
        if self.random.chance(1, 3) {
            self.committer.look(&self.world, client, (0, index)).await?;
            return Ok(true);
        }
        let latest = self.world.history.generation();
        // Now and then in the name of the generation before, on purpose.
        let is_stale = self.committer.generation > 0 && self.random.chance(1, 10);
        let generation = self.committer.generation - i32::from(is_stale);
        let committer = Committer {
            generation,
            ..self.committer.clone()
        };
        match committer.commit(&self.world, client, (0, index)).await? {
            Some(ErrorCode::IllegalGeneration) if is_stale => Ok(true),
            Some(error) => Ok(self.hear(error)),
            None => {
                if generation < latest {
                    self.world.history.violate(format!(
                        "a member of generation {generation} committed an offset; generation {latest} had begun"
                    ));
                }
                Ok(true)
            }
        }
    }

    async fn heartbeat(&mut self, client: &mut Client) -> io::Result<bool> {
        let request = HeartbeatRequest {
            group_id: name_of(CREW),
            generation_id: self.committer.generation,
            member_id: self.committer.member.clone(),
            ..HeartbeatRequest::default()
        };
        let answer = client.call(&request).await?;
        match self.world.reached(ApiKey::Heartbeat, answer.error_code) {
            None => Ok(true),
            Some(error) => Ok(self.hear(error)),
        }
    }

    async fn leave(&mut self, client: &mut Client) -> io::Result<()> {
        let request = LeaveGroupRequest {
            group_id: name_of(CREW),
            members: vec![MemberIdentity {
                member_id: self.committer.member.clone(),
                ..MemberIdentity::default()
            }],
            ..LeaveGroupRequest::default()
        };
        let answer = client.call(&request).await?;
        self.world.reached(ApiKey::LeaveGroup, answer.error_code);
        Ok(())
    }

    /// Takes an error; returns false, as it is to join anew.
    fn hear(&mut self, error: ErrorCode) -> bool {
        if error == ErrorCode::UnknownMemberId {
            self.committer = Committer::nobody(CREW);
            self.dealt.clear();
        }
        false
    }
}

/// Deals the partitions of the first topic out, if the one who joined leads: one byte for each.
fn deal(joined: &JoinGroupResponse) -> Vec<SyncGroupRequestAssignment> {
    let count = joined.members.len();
    let (_, partitions) = TOPICS[0];
    let all = joined.members.iter().enumerate();
    all.map(|(place, member)| SyncGroupRequestAssignment {
        member_id: member.member_id.clone(),
        assignment: (0..partitions as u8)
            .filter(|index| usize::from(*index) % count == place)
            .collect::<Bytes>(),
    })
    .collect()
}
