//! Entries, votes and members as bytes: the same in messages and in the stored log. Integers are little-endian.
//!
//! Reading trusts nothing: a length is compared with what is there before it is used, and what cannot be is refused.

use std::collections::{BTreeMap, BTreeSet};

use bytes::{BufMut, Bytes};
use record::DirectoryId;

use crate::identity::LibraryId;
use crate::library::{
    LeaderId, LibraryEntry, Members, Payload, Proposal, SnapshotMeta, StoredMembers, Vote, library_id,
};
use crate::{ENTRY_BYTES_MAX, Member};

/// The most members of a group, voters and learners.
const MEMBERS_MAX: usize = 1024;
/// The bytes of one.
const MEMBER_BYTES: usize = 20;
const BLANK: u8 = 0;
const NORMAL: u8 = 1;
const MEMBERS: u8 = 2;

/// Bytes are not what they should be, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed(pub(crate) &'static str);

/// Bytes that are read from their front.
pub(crate) struct Reader(Bytes);

impl Reader {
    pub(crate) fn new(bytes: Bytes) -> Reader {
        Reader(bytes)
    }

    /// The next `length` bytes, without a copy.
    pub(crate) fn take(&mut self, length: usize) -> Result<Bytes, Malformed> {
        match length <= self.0.len() {
            true => Ok(self.0.split_to(length)),
            false => Err(Malformed("it ends early")),
        }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let bytes = self.take(N)?;
        Ok(bytes[..].try_into().expect("so many were taken"))
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(self.array::<1>()?[0])
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Malformed> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub(crate) fn flag(&mut self) -> Result<bool, Malformed> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed("a flag is neither 0 nor 1")),
        }
    }

    pub(crate) fn member(&mut self) -> Result<Member, Malformed> {
        Ok(Member {
            node: i32::from_le_bytes(self.array()?),
            directory: DirectoryId(self.array()?),
        })
    }

    /// What is there behind a flag that says so.
    pub(crate) fn optional<T>(
        &mut self,
        read: impl FnOnce(&mut Reader) -> Result<T, Malformed>,
    ) -> Result<Option<T>, Malformed> {
        match self.flag()? {
            true => read(self).map(Some),
            false => Ok(None),
        }
    }

    pub(crate) fn id(&mut self) -> Result<LibraryId, Malformed> {
        let (term, index) = (self.u64()?, self.u64()?);
        match index <= i64::MAX as u64 {
            true => Ok(library_id(term, index)),
            false => Err(Malformed("an offset is greater than there can be")),
        }
    }

    pub(crate) fn vote(&mut self) -> Result<Vote, Malformed> {
        Ok(Vote {
            leader_id: LeaderId {
                term: self.u64()?,
                voted_for: self.member()?,
            },
            committed: self.flag()?,
        })
    }

    fn set(&mut self) -> Result<BTreeSet<Member>, Malformed> {
        let count = usize::from(self.u16()?);
        if count > MEMBERS_MAX {
            return Err(Malformed("too many members"));
        }
        let mut members = BTreeSet::new();
        for _ in 0..count {
            if !members.insert(self.member()?) {
                return Err(Malformed("a member is there twice"));
            }
        }
        Ok(members)
    }

    pub(crate) fn members(&mut self) -> Result<Members, Malformed> {
        let voters = match self.u8()? {
            0 => return Ok(Members::default()),
            count @ 1..=2 => (0..count).map(|_| self.set()).collect::<Result<Vec<_>, _>>()?,
            _ => return Err(Malformed("more than two sets of voters")),
        };
        let all: BTreeMap<Member, ()> = self.set()?.into_iter().map(|member| (member, ())).collect();
        Members::new(voters, all).map_err(|_| Malformed("a voter is no member, or there is none"))
    }

    pub(crate) fn stored_members(&mut self) -> Result<StoredMembers, Malformed> {
        let id = self.optional(Reader::id)?;
        Ok(StoredMembers::new(id, self.members()?))
    }

    pub(crate) fn snapshot_meta(&mut self) -> Result<SnapshotMeta, Malformed> {
        Ok(SnapshotMeta {
            last_log_id: Some(self.id()?),
            last_membership: self.stored_members()?,
        })
    }

    pub(crate) fn entry(&mut self) -> Result<LibraryEntry, Malformed> {
        let log_id = self.id()?;
        let payload = match self.u8()? {
            BLANK => Payload::Blank,
            NORMAL => {
                let length = self.u32()? as usize;
                if length > ENTRY_BYTES_MAX {
                    return Err(Malformed("an entry is longer than one may be"));
                }
                Payload::Normal(Proposal(self.take(length)?))
            }
            MEMBERS => Payload::Membership(self.members()?),
            _ => return Err(Malformed("an entry of a kind that is not known here")),
        };
        Ok(LibraryEntry { log_id, payload })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// That nothing is left.
    pub(crate) fn end(self) -> Result<(), Malformed> {
        match self.0.is_empty() {
            true => Ok(()),
            false => Err(Malformed("something stands behind its end")),
        }
    }
}

pub(crate) fn put_id(to: &mut Vec<u8>, id: &LibraryId) {
    to.put_u64_le(id.leader_id.term);
    to.put_u64_le(id.index);
}

pub(crate) fn put_optional<T>(to: &mut Vec<u8>, value: Option<&T>, put: impl FnOnce(&mut Vec<u8>, &T)) {
    to.put_u8(u8::from(value.is_some()));
    if let Some(value) = value {
        put(to, value);
    }
}

pub(crate) fn put_vote(to: &mut Vec<u8>, vote: &Vote) {
    to.put_u64_le(vote.leader_id.term);
    put_member(to, &vote.leader_id.voted_for);
    to.put_u8(u8::from(vote.committed));
}

pub(crate) fn put_member(to: &mut Vec<u8>, member: &Member) {
    to.put_i32_le(member.node);
    to.put_slice(&member.directory.0);
}

fn put_set<'a>(to: &mut Vec<u8>, set: impl Iterator<Item = &'a Member>) {
    let set: Vec<&Member> = set.collect();
    to.put_u16_le(u16::try_from(set.len()).expect("a group has far fewer members"));
    set.into_iter().for_each(|member| put_member(to, member));
}

pub(crate) fn put_members(to: &mut Vec<u8>, members: &Members) {
    let voters = members.get_joint_config();
    let count = u8::try_from(voters.len()).expect("voters change from one set to one other");
    to.put_u8(count);
    if voters.is_empty() {
        return;
    }
    for set in voters {
        put_set(to, set.iter());
    }
    put_set(to, members.nodes().map(|(member, ())| member));
}

pub(crate) fn put_stored_members(to: &mut Vec<u8>, members: &StoredMembers) {
    put_optional(to, members.log_id().as_ref(), put_id);
    put_members(to, members.membership());
}

/// Panics if the snapshot has no entry: none is ever taken of an empty log.
pub(crate) fn put_snapshot_meta(to: &mut Vec<u8>, meta: &SnapshotMeta) {
    let last = meta.last_log_id.as_ref();
    put_id(to, last.expect("a snapshot has at least one entry"));
    put_stored_members(to, &meta.last_membership);
}

pub(crate) fn put_entry(to: &mut Vec<u8>, entry: &LibraryEntry) {
    put_id(to, &entry.log_id);
    match &entry.payload {
        Payload::Blank => to.put_u8(BLANK),
        Payload::Normal(proposal) => {
            let length = u32::try_from(proposal.0.len()).expect("an entry is far shorter");
            to.put_u8(NORMAL);
            to.put_u32_le(length);
            to.put_slice(&proposal.0);
        }
        Payload::Membership(members) => {
            to.put_u8(MEMBERS);
            put_members(to, members);
        }
    }
}

/// How many bytes an entry takes at most, as it is written.
pub(crate) fn entry_bytes(entry: &LibraryEntry) -> usize {
    match &entry.payload {
        Payload::Blank => 17,
        Payload::Normal(proposal) => 21 + proposal.0.len(),
        Payload::Membership(members) => {
            let voters = members
                .get_joint_config()
                .iter()
                .map(|set| 2 + MEMBER_BYTES * set.len());
            18 + voters.sum::<usize>() + 2 + MEMBER_BYTES * members.nodes().count()
        }
    }
}
