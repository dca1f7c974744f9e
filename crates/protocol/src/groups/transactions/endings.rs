//! Ends of transactions that are being carried out: the groups that are still to do so, and what the others said.
//!
//! Each is answered once, when all groups are done; if one of them could not, the sender is told to send it again, and the
//! groups that come after it wait for that.

use std::collections::{BTreeMap, VecDeque};

use super::super::contract::{EndTransaction, GroupError, Name, Ticket};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Endings {
    all: BTreeMap<Ticket, Ending>,
    /// Those whose next groups may begin.
    ready: VecDeque<Ticket>,
}

#[derive(Debug)]
struct Ending {
    end: EndTransaction,
    /// Groups that have not begun.
    left: Vec<Name>,
    at_work: usize,
    error: Option<GroupError>,
    /// Bytes that wait for it.
    bytes: usize,
}

impl Endings {
    pub(super) fn begin(&mut self, ticket: Ticket, end: EndTransaction, groups: Vec<Name>, bytes: usize) {
        let ending = Ending {
            end,
            left: groups,
            at_work: 0,
            error: None,
            bytes,
        };
        let before = self.all.insert(ticket, ending);
        assert!(before.is_none(), "a ticket is given once");
        self.ready.push_back(ticket);
    }

    /// The next one whose groups may begin. Handing it out counts as one that is at work, so that it is not over before that is.
    pub(super) fn next_ready(&mut self) -> Option<(Ticket, EndTransaction)> {
        let ticket = self.ready.pop_front()?;
        let ending = self
            .all
            .get_mut(&ticket)
            .expect("only one that is not over is ready");
        assert_eq!(ending.at_work, 0, "the groups before are done");
        ending.at_work = 1;
        Some((ticket, ending.end))
    }

    /// The next group that is to carry it out, which is at work from now on.
    pub(super) fn next_group(&mut self, ticket: Ticket) -> Option<Name> {
        let ending = self.all.get_mut(&ticket)?;
        let group = ending.left.pop()?;
        ending.at_work += 1;
        Some(group)
    }

    /// One that was at work is done. Returns the answer and the bytes that waited if that was all; an end that never began is
    /// answered as it is.
    pub(super) fn finish_one(
        &mut self,
        ticket: Ticket,
        result: Result<(), GroupError>,
    ) -> Option<(Result<(), GroupError>, usize)> {
        let Some(ending) = self.all.get_mut(&ticket) else {
            return Some((result, 0));
        };
        ending.at_work = ending
            .at_work
            .checked_sub(1)
            .expect("each group at work is counted");
        if let Err(error) = result {
            ending.error.get_or_insert(error);
        }
        if ending.at_work > 0 {
            return None;
        }
        if ending.error.is_none() && !ending.left.is_empty() {
            self.ready.push_back(ticket);
            return None;
        }
        let ending = self.all.remove(&ticket).expect("it was just there");
        Some((ending.error.map_or(Ok(()), Err), ending.bytes))
    }
}
