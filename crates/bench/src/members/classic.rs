//! Members of the classic protocol. A change makes all of them join anew; the answers come when all have, one of them says
//! who is to have what, and all are told. Each member has a connection, for the answer to a join holds up what is behind it.

use std::collections::{BTreeSet, HashMap};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use client::wire::join_group::{JoinGroupRequestProtocol, JoinGroupResponseMember};
use client::wire::leave_group::MemberIdentity;
use client::wire::sync_group::SyncGroupRequestAssignment;
use client::wire::{HeartbeatRequest, JoinGroupRequest, LeaveGroupRequest, SyncGroupRequest, Text};
use client::{Connection, ConnectionOptions, ErrorCode};
use platform::threads;

use super::assignment::{read_assignment, share_out, subscription, write_assignment};
use super::{Group, Heard, MembersOptions, REBALANCE_TIMEOUT_MS};

const SESSION_TIMEOUT_MS: i32 = 45_000;
const PROTOCOL_TYPE: &str = "consumer";
/// What the members' own way to assign is called.
const ASSIGNOR: &str = "bench-sticky";
/// Between two looks at connections that had no answer.
const LOOK_PAUSE: Duration = Duration::from_millis(1);
/// Descriptors beside those of members.
const SPARE_DESCRIPTORS: u64 = 64;

/// The answer that a member waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Awaited {
    Nothing,
    Heartbeat,
    Join,
    Sync,
}

#[derive(Debug)]
struct Member {
    number: u32,
    id: Text,
    connection: Connection,
    awaited: Awaited,
    generation: i32,
    owns: BTreeSet<i32>,
    /// When it sends its next heartbeat.
    due: Instant,
    /// It has not rested yet.
    is_new: bool,
}

/// The group's members, each on its own connection.
#[derive(Debug)]
pub(super) struct ClassicGroup<'a> {
    options: &'a MembersOptions,
    /// For members that are to come: how long connecting takes is not measured.
    connections: Vec<Connection>,
    members: Vec<Member>,
}

impl<'a> ClassicGroup<'a> {
    /// A group of nobody, with connections for all.
    pub(super) fn new(options: &'a MembersOptions) -> anyhow::Result<ClassicGroup<'a>> {
        let needed = u64::from(options.members) + 1;
        let allowed = threads::raise_descriptor_limit();
        if allowed < needed + SPARE_DESCRIPTORS {
            bail!("{needed} members need as many connections, and this process may open {allowed} files");
        }
        let patience = ConnectionOptions {
            request_timeout: Duration::from_secs_f64(options.seconds_max.clamp(1.0, 3_600.0)),
            ..ConnectionOptions::default()
        };
        let connections = (0..needed).map(|_| Connection::connect(&options.broker.bootstrap, &patience));
        Ok(ClassicGroup {
            options,
            connections: connections.collect::<client::Result<_>>()?,
            members: Vec::new(),
        })
    }

    /// Takes the answer that a member waits for, and lets it go on.
    fn receive(&mut self, index: usize, heard: &mut Heard) -> anyhow::Result<()> {
        match self.members[index].awaited {
            Awaited::Nothing => Ok(()),
            Awaited::Heartbeat => self.receive_heartbeat(index, heard),
            Awaited::Join => self.receive_join(index, heard),
            Awaited::Sync => self.receive_sync(index, heard),
        }
    }

    fn receive_heartbeat(&mut self, index: usize, heard: &mut Heard) -> anyhow::Result<()> {
        let member = &mut self.members[index];
        let response = member.connection.receive::<HeartbeatRequest>()?;
        let told = ErrorCode::from_code(response.error_code);
        heard.answer(told != Some(ErrorCode::None));
        match told {
            Some(ErrorCode::None) => {
                member.rest(self.options);
                Ok(())
            }
            Some(ErrorCode::RebalanceInProgress) => member.join(self.options),
            refused => bail!("a heartbeat of {} was refused: {refused:?}", member.id),
        }
    }

    fn receive_join(&mut self, index: usize, heard: &mut Heard) -> anyhow::Result<()> {
        heard.answer(true);
        let member = &mut self.members[index];
        let response = member.connection.receive::<JoinGroupRequest>()?;
        match ErrorCode::from_code(response.error_code) {
            // The first join of a member only gives it its name.
            Some(ErrorCode::MemberIdRequired) => {
                member.id = response.member_id;
                member.join(self.options)
            }
            Some(ErrorCode::None) => {
                member.generation = response.generation_id;
                let leads = response.leader == member.id;
                let assignments = match leads {
                    true => self.assign(&response.members),
                    false => Vec::new(),
                };
                self.members[index].synchronise(self.options, assignments)
            }
            refused => bail!("a join of {} was refused: {refused:?}", member.id),
        }
    }

    fn receive_sync(&mut self, index: usize, heard: &mut Heard) -> anyhow::Result<()> {
        heard.answer(true);
        let member = &mut self.members[index];
        let response = member.connection.receive::<SyncGroupRequest>()?;
        match ErrorCode::from_code(response.error_code) {
            Some(ErrorCode::None) => {
                member.owns = read_assignment(&response.assignment, &self.options.topic)
                    .with_context(|| format!("{} was given what the leader did not say", member.id))?;
                member.rest(self.options);
                Ok(())
            }
            Some(ErrorCode::RebalanceInProgress) => member.join(self.options),
            refused => bail!("a sync of {} was refused: {refused:?}", member.id),
        }
    }

    /// What the leader says: whoever has partitions keeps them as far as that is fair.
    fn assign(&self, members: &[JoinGroupResponseMember]) -> Vec<SyncGroupRequestAssignment> {
        let owned: HashMap<&str, &BTreeSet<i32>> = self
            .members
            .iter()
            .map(|member| (member.id.as_str(), &member.owns))
            .collect();
        let had: Vec<BTreeSet<i32>> = members
            .iter()
            .map(|member| owned.get(member.member_id.as_str()).copied())
            .map(|owned| owned.cloned().unwrap_or_default())
            .collect();
        let shares = share_out(self.options.partitions, &had);
        let assigned = members.iter().zip(shares);
        assigned
            .map(|(member, share)| SyncGroupRequestAssignment {
                member_id: member.member_id.clone(),
                assignment: write_assignment(&self.options.topic, &share).into(),
            })
            .collect()
    }
}

impl Group for ClassicGroup<'_> {
    fn join(&mut self, number: u32) -> anyhow::Result<()> {
        let connection = self.connections.pop();
        let mut member = Member {
            number,
            id: Text::EMPTY,
            connection: connection.expect("there is a connection for each member"),
            awaited: Awaited::Nothing,
            generation: -1,
            owns: BTreeSet::new(),
            due: Instant::now(),
            is_new: true,
        };
        member.join(self.options)?;
        self.members.push(member);
        Ok(())
    }

    fn leave_first(&mut self) -> anyhow::Result<()> {
        // What was asked before it left would be answered as if nothing had happened.
        for member in &mut self.members {
            if member.awaited == Awaited::Heartbeat {
                member.connection.receive::<HeartbeatRequest>()?;
                member.rest(self.options);
            }
        }
        let mut leaving = self.members.remove(0);
        let identity = MemberIdentity {
            member_id: leaving.id.clone(),
            ..MemberIdentity::default()
        };
        let response = leaving.connection.call(&LeaveGroupRequest {
            group_id: Text::from(self.options.group.as_str()),
            member_id: leaving.id.clone(),
            members: vec![identity],
        })?;
        match response.error_code {
            0 => Ok(()),
            code => bail!("a member could not leave: {:?}", ErrorCode::from_code(code)),
        }
    }

    fn speak(&mut self, heard: &mut Heard) -> anyhow::Result<()> {
        let now = Instant::now();
        let mut is_idle = true;
        for index in 0..self.members.len() {
            let member = &mut self.members[index];
            if member.awaited == Awaited::Nothing {
                if member.due <= now {
                    member.heartbeat(self.options)?;
                    is_idle = false;
                }
            } else if member.connection.is_readable(Duration::ZERO)? {
                self.receive(index, heard)?;
                is_idle = false;
            }
        }
        if is_idle {
            thread::sleep(LOOK_PAUSE);
        }
        Ok(())
    }

    fn size(&self) -> usize {
        self.members.len()
    }

    fn owned(&self) -> Vec<(Text, BTreeSet<i32>)> {
        let members = self.members.iter();
        members
            .map(|member| (member.id.clone(), member.owns.clone()))
            .collect()
    }

    fn agrees(&self) -> bool {
        let generations: BTreeSet<i32> = self.members.iter().map(|member| member.generation).collect();
        let is_calm = |member: &Member| matches!(member.awaited, Awaited::Nothing | Awaited::Heartbeat);
        generations.len() == 1 && self.members.iter().all(is_calm)
    }
}

impl Member {
    fn join(&mut self, options: &MembersOptions) -> anyhow::Result<()> {
        self.awaited = Awaited::Join;
        self.connection.send(&JoinGroupRequest {
            group_id: Text::from(options.group.as_str()),
            session_timeout_ms: SESSION_TIMEOUT_MS,
            rebalance_timeout_ms: REBALANCE_TIMEOUT_MS,
            member_id: self.id.clone(),
            protocol_type: Text::from(PROTOCOL_TYPE),
            protocols: vec![JoinGroupRequestProtocol {
                name: Text::from(ASSIGNOR),
                metadata: subscription(&options.topic).into(),
            }],
            ..JoinGroupRequest::default()
        })?;
        Ok(())
    }

    fn synchronise(
        &mut self,
        options: &MembersOptions,
        assignments: Vec<SyncGroupRequestAssignment>,
    ) -> anyhow::Result<()> {
        self.awaited = Awaited::Sync;
        self.connection.send(&SyncGroupRequest {
            group_id: Text::from(options.group.as_str()),
            generation_id: self.generation,
            member_id: self.id.clone(),
            protocol_type: Some(Text::from(PROTOCOL_TYPE)),
            protocol_name: Some(Text::from(ASSIGNOR)),
            assignments,
            ..SyncGroupRequest::default()
        })?;
        Ok(())
    }

    fn heartbeat(&mut self, options: &MembersOptions) -> anyhow::Result<()> {
        self.awaited = Awaited::Heartbeat;
        self.connection.send(&HeartbeatRequest {
            group_id: Text::from(options.group.as_str()),
            generation_id: self.generation,
            member_id: self.id.clone(),
            ..HeartbeatRequest::default()
        })?;
        Ok(())
    }

    /// Nothing is to be done until its next heartbeat.
    fn rest(&mut self, options: &MembersOptions) {
        self.awaited = Awaited::Nothing;
        self.due = Instant::now() + options.rest(self.number, self.is_new);
        self.is_new = false;
    }
}
