//! Things that wait until a change of their group is durable: the change itself, requests behind a closed gate or a change that comes
//! first, and the assignments that a leader hands out.
//!
//! Nobody has taken on yet what these brought, so the count of what groups hold does not have it. It has a room of its own
//! in each coordinator: clients must not fill the memory by asking more of a group than a slow log takes. A change itself is
//! never refused, lest what the time brings about be lost: while there is no room nothing is begun that may lead to one.

use super::Assignment;
use super::context::{Context, Gate, Then};
use super::contract::{Answer, CommitOffsets, GroupError, Name, NotPersisted, Request, Ticket};
use super::group::{Group, Kind};
use super::records::Change;

/// Bytes that a request takes beside its texts and lists.
const REQUEST_BYTES: usize = 512;
/// Bytes that a part of a list takes beside its texts.
const LISTED_BYTES: usize = 64;

impl Context {
    /// Takes room for what is to wait.
    ///
    /// # Errors
    /// There is none: the log is that far behind. The client asks again.
    pub(crate) fn begin_waiting(&mut self, bytes: usize) -> Result<(), GroupError> {
        if self.waiting_bytes + bytes > self.settings.waiting_bytes_max {
            return Err(GroupError::NotPersisted);
        }
        self.waiting_bytes += bytes;
        Ok(())
    }

    pub(crate) fn end_waiting(&mut self, bytes: usize) {
        self.waiting_bytes -= bytes;
    }

    /// That there is room for what a request may lead to.
    fn check_waiting(&self, request: &Request) -> Result<(), GroupError> {
        match request.may_change() && self.waiting_bytes >= self.settings.waiting_bytes_max {
            true => Err(GroupError::NotPersisted),
            false => Ok(()),
        }
    }
}

impl Group {
    /// Handles a request, at once or when it may start.
    pub(crate) fn take(&mut self, cx: &mut Context, ticket: Ticket, request: Request) {
        if let Err(error) = cx.check_waiting(&request) {
            cx.answer(ticket, request.refused(error));
            return;
        }
        if self.waiting.is_empty() && self.may_start(&request) {
            self.handle(cx, ticket, request);
            return;
        }
        match cx.begin_waiting(request.held_bytes()) {
            Ok(()) => self.waiting.push_back((ticket, request)),
            Err(error) => cx.answer(ticket, request.refused(error)),
        }
    }

    /// The first of the requests that wait, if it may start now.
    pub(crate) fn next_waiting(&mut self, cx: &mut Context) -> Option<(Ticket, Request)> {
        let (_, request) = self.waiting.front()?;
        if !self.may_start(request) {
            return None;
        }
        cx.end_waiting(request.held_bytes());
        self.waiting.pop_front()
    }

    /// Asks for changes that must be durable before the request is handled again.
    pub(crate) fn persist_before(
        &self,
        cx: &mut Context,
        changes: Vec<Change>,
        ticket: Ticket,
        request: Request,
    ) {
        match cx.begin_waiting(request.held_bytes()) {
            Ok(()) => {
                let then = Then::Again(ticket, Box::new(request));
                cx.persist(&self.name, changes, Gate::Closed, then);
            }
            Err(error) => cx.answer(ticket, request.refused(error)),
        }
    }

    /// A change is durable and applied, or was refused: what comes next.
    pub(crate) fn finish(&mut self, cx: &mut Context, then: Then, result: Result<(), NotPersisted>) {
        match then {
            Then::Answer(answers) => {
                for (ticket, answer) in answers {
                    let answer = match result {
                        Ok(()) => answer,
                        Err(NotPersisted) => answer.not_persisted(),
                    };
                    cx.answer(ticket, answer);
                }
            }
            Then::Again(ticket, request) => match result {
                Ok(()) => self.waiting.push_front((ticket, *request)),
                Err(NotPersisted) => {
                    cx.end_waiting(request.held_bytes());
                    cx.answer(ticket, request.refused(GroupError::NotPersisted));
                }
            },
            Then::HandOut { generation, bytes } => {
                cx.end_waiting(bytes);
                if let Kind::Classic(classic) = &mut self.kind {
                    classic.hand_out(cx, &self.name, generation, result);
                }
            }
            Then::Replace {
                instance,
                member,
                generation,
                ticket,
                answer,
            } => match &mut self.kind {
                Kind::Classic(classic) => {
                    let answer = match result {
                        Ok(()) if classic.still_holds(&instance, &member, generation) => answer,
                        Ok(()) => Answer::Join(Err(GroupError::RebalanceInProgress)),
                        Err(NotPersisted) => {
                            // The member tries again under its new id.
                            Answer::Join(Err(GroupError::RebalanceInProgress))
                        }
                    };
                    cx.answer(ticket, answer);
                }
                Kind::Consumer(_) => cx.answer(ticket, answer.not_persisted()),
            },
        }
    }
}

impl Request {
    /// Says whether it may ask for a change to be made durable.
    fn may_change(&self) -> bool {
        match self {
            Request::Join(_)
            | Request::Sync(_)
            | Request::Leave(_)
            | Request::CommitOffsets(_)
            | Request::CommitPending(_)
            | Request::EndTransaction(_)
            | Request::DeleteOffsets(_)
            | Request::ConsumerHeartbeat(_)
            | Request::DeleteGroup(_) => true,
            Request::Heartbeat(_)
            | Request::FetchOffsets(_)
            | Request::DescribeClassic(_)
            | Request::DescribeConsumer(_)
            | Request::List(_) => false,
        }
    }

    /// Returns the bytes that it takes in memory, roughly.
    fn held_bytes(&self) -> usize {
        let brought: usize = match self {
            Request::Join(join) => {
                let names = [
                    &join.member,
                    &join.client_id,
                    &join.client_host,
                    &join.protocol_type,
                ];
                let metadata = join.protocols.iter().map(|protocol| protocol.metadata.len());
                let protocols = join.protocols.iter().map(|protocol| &protocol.name);
                listed(names.into_iter().chain(&join.instance).chain(protocols)) + metadata.sum::<usize>()
            }
            Request::Sync(sync) => {
                let assignments = sync.assignments.iter().map(|(_, assignment)| assignment.len());
                listed(sync.assignments.iter().map(|(member, _)| member)) + assignments.sum::<usize>()
            }
            Request::Leave(leave) => {
                let members = leave.members.iter();
                listed(members.flat_map(|leaving| leaving.instance.iter().chain([&leaving.member])))
            }
            Request::CommitOffsets(commit) => committed_bytes(commit),
            Request::CommitPending(pending) => committed_bytes(&pending.commit),
            Request::DeleteOffsets(delete) => {
                listed(delete.partitions.iter().map(|partition| &partition.topic))
            }
            Request::ConsumerHeartbeat(heartbeat) => {
                let names = [&heartbeat.member, &heartbeat.client_id, &heartbeat.client_host];
                let optional = [
                    &heartbeat.instance,
                    &heartbeat.rack,
                    &heartbeat.regex,
                    &heartbeat.assignor,
                ];
                let topics = heartbeat.topics.iter().flatten();
                let owned = heartbeat.owned.as_ref().map_or(0, Assignment::len);
                listed(
                    names
                        .into_iter()
                        .chain(optional.into_iter().flatten())
                        .chain(topics),
                ) + owned * LISTED_BYTES
            }
            _ => 0,
        };
        REQUEST_BYTES + brought
    }
}

fn committed_bytes(commit: &CommitOffsets) -> usize {
    let notes = commit.partitions.iter().map(|wanted| &wanted.committed.metadata);
    // The partition takes as much as its offset.
    commit.partitions.len() * LISTED_BYTES + listed(notes)
}

fn listed<'a>(names: impl IntoIterator<Item = &'a Name>) -> usize {
    let bytes = names.into_iter().map(|name| LISTED_BYTES + name.len());
    bytes.sum()
}
