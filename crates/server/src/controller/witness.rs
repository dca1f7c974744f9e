//! Has other nodes bear witness of this one's disk, and bears witness of theirs.
//!
//! A disk that was replaced by an earlier copy of itself looks sound. Others count on the acknowledgements that its node has given since, and it has lost them: so
//! they remember how much of its journals was durable, and tell a node that starts before it can come to serve (docs/protocols/peers.md). A node that
//! has less now is in doubt: it counts for nothing until the leaders of its partitions have seen that it holds everything again.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::join_all;
use platform::turns;
use protocol::leader::NodeId;
use protocol::metadata::{Command, Metadata};
use protocol::peer::{Hello, Message};
use record::DirectoryId;
use shard::Shard;
use tokio::time::sleep;

use super::ChangeError;
use crate::core::Core;
use crate::mailbox::Stopping;
use crate::peers::Purpose;

/// Between two looks at what has become durable.
const LOOK: Duration = Duration::from_millis(100);
/// Before a doubt is told again that the metadata could not take.
const REST: Duration = Duration::from_secs(1);

/// A start, and of each journal the first frame that it has not told to be durable.
type Heard = (u64, Vec<u64>);

/// On core 0.
#[derive(Default)]
pub(crate) struct Witnesses {
    /// Of each directory of another node the latest start that told something, and what.
    heard: RefCell<BTreeMap<(NodeId, DirectoryId), Heard>>,
    /// The frames that others have heard of for this node's directory.
    told: RefCell<Vec<u64>>,
    /// The frames that this start has found on the disk; none before it has looked.
    found: RefCell<Vec<u64>>,
    /// The frames that others are told now; none before the node serves.
    durable: RefCell<Vec<u64>>,
    is_doubted: Cell<bool>,
    /// The metadata has the doubt.
    is_doubt_told: Cell<bool>,
    serves: Cell<bool>,
}

impl Witnesses {
    fn hear(&self, of: &Hello, frames: Vec<u64>) {
        let mut heard = self.heard.borrow_mut();
        let known = heard.entry((of.node, of.directory)).or_default();
        match known.0 == of.incarnation {
            true => raise(&mut known.1, &frames),
            false if known.0 < of.incarnation => *known = (of.incarnation, frames),
            false => {}
        }
    }

    /// Says whether others have heard of more than there is.
    fn is_in_doubt(&self) -> bool {
        let found = self.found.borrow();
        let told = self.told.borrow();
        found.iter().zip(told.iter()).any(|(found, told)| found < told)
    }
}

/// Takes the greater of each; journals that are new come along.
fn raise(known: &mut Vec<u64>, frames: &[u64]) {
    known.resize(known.len().max(frames.len()), 0);
    for (known, frame) in known.iter_mut().zip(frames) {
        *known = (*known).max(*frame);
    }
}

impl Core {
    /// On core 0.
    fn witnesses(&self) -> &Witnesses {
        let controller = self.controller.as_ref().expect("core 0 bears witness");
        &controller.witnesses
    }

    /// Tells a node what was heard of its directory in an earlier start: before anything else on a connection.
    pub(crate) fn tell_witness(&self, of: &Hello) {
        let heard = self.witnesses().heard.borrow();
        let earlier = heard.get(&(of.node, of.directory));
        if let Some((_, frames)) = earlier.filter(|(start, _)| *start < of.incarnation) {
            let message = Message::Witnessed(frames.clone());
            self.peers.send(Purpose::Metadata, of.node, &message);
        }
    }

    /// Takes note of what another node says of its own disk.
    pub(crate) fn handle_durable(&self, of: &Hello, frames: Vec<u64>) {
        self.witnesses().hear(of, frames);
    }

    /// Takes note of what another node has heard of this one's disk. One that comes late still makes a doubt.
    pub(crate) fn handle_witnessed(self: &Rc<Core>, frames: &[u64]) {
        let witnesses = self.witnesses();
        raise(&mut witnesses.told.borrow_mut(), frames);
        if witnesses.serves.get() {
            self.look_for_late_doubt();
        }
    }

    fn look_for_late_doubt(self: &Rc<Core>) {
        let witnesses = self.witnesses();
        if witnesses.is_in_doubt() && !witnesses.is_doubted.get() {
            self.note_doubt();
            turns::spawn(self.clone().doubt_late());
        }
    }

    /// Before the node serves: the command that says that its disk is in doubt, if it is.
    pub(crate) async fn find_doubt(&self) -> Result<Option<Command>, Stopping> {
        let found = self.gather_frames(|shard| shard.found_before).await?;
        let witnesses = self.witnesses();
        *witnesses.found.borrow_mut() = found;
        Ok(witnesses.is_in_doubt().then(|| {
            self.note_doubt();
            Command::DoubtNode {
                node: self.facts.node,
                start: self.facts.incarnation,
            }
        }))
    }

    /// On core 0: of each journal of a node the first frame that is not known to be durable; none if it has not told.
    pub(crate) fn durable_frames(&self, node: NodeId, directory: DirectoryId) -> Vec<u64> {
        let witnesses = self.witnesses();
        if node == self.facts.node {
            return witnesses.durable.borrow().clone();
        }
        let heard = witnesses.heard.borrow();
        heard
            .get(&(node, directory))
            .map_or_else(Vec::new, |(_, frames)| frames.clone())
    }

    /// On core 0: whether this start has found its disk in doubt.
    pub(crate) fn is_disk_doubted(&self) -> bool {
        self.witnesses().is_doubted.get()
    }

    fn note_doubt(&self) {
        let witnesses = self.witnesses();
        witnesses.is_doubted.set(true);
        let (told, found) = (witnesses.told.borrow(), witnesses.found.borrow());
        tracing::error!(
            ?told,
            ?found,
            "other nodes have seen more on this disk than there is: is it an earlier copy, or has it lost something? It counts for nothing until it \
             holds everything again"
        );
    }

    async fn doubt_late(self: Rc<Core>) {
        let (node, start) = (self.facts.node, self.facts.incarnation);
        loop {
            let plan = move |metadata: &Metadata| metadata.plan_doubt(node, start);
            match self.change(plan).await {
                Ok(Err(error)) if !matches!(error, ChangeError::Plan(_)) => sleep(REST).await,
                _ => return self.witnesses().is_doubt_told.set(true),
            }
        }
    }

    /// Tells others what is durable from now on: this node serves. While a doubt is not told of, others must remember what they know: it is the
    /// evidence.
    pub(crate) async fn tell_durable(self: Rc<Core>) {
        let witnesses = self.witnesses();
        witnesses.serves.set(true);
        // One that was found before is committed.
        witnesses.is_doubt_told.set(witnesses.is_doubted.get());
        // A witness may have come since.
        self.look_for_late_doubt();
        loop {
            let witnesses = self.witnesses();
            if witnesses.is_doubted.get() && !witnesses.is_doubt_told.get() {
                sleep(LOOK).await;
                continue;
            }
            let Ok(frames) = self.gather_frames(|shard| shard.durable_before()).await else {
                return;
            };
            let is_news = *self.witnesses().durable.borrow() != frames;
            if is_news {
                *self.witnesses().durable.borrow_mut() = frames.clone();
                self.peers.tell_all(&Message::Durable(frames));
            }
            sleep(LOOK).await;
        }
    }

    /// Tells a node what is durable that was not there when others were told.
    pub(crate) fn tell_durable_to(&self, node: NodeId) {
        let frames = self.witnesses().durable.borrow().clone();
        if !frames.is_empty() {
            self.peers
                .send(Purpose::Metadata, node, &Message::Durable(frames));
        }
    }

    /// A frame of each shard's journal.
    async fn gather_frames(&self, frame: fn(&Shard) -> u64) -> Result<Vec<u64>, Stopping> {
        let mailboxes = &self.facts.mailboxes;
        let each = (0..mailboxes.cores()).map(|core| {
            mailboxes.call(core, move |core| async move {
                let frames = core.shards().map(|shard| (shard.index, frame(shard)));
                frames.collect::<Vec<_>>()
            })
        });
        let mut frames = vec![0; self.facts.shards];
        for found in join_all(each).await {
            for (shard, frame) in found? {
                frames[shard] = frame;
            }
        }
        Ok(frames)
    }
}

#[cfg(test)]
mod tests {
    use protocol::peer::{ShardPair, WIRE_VERSIONS};
    use record::{ClusterId, Offset};

    use super::*;

    fn hello(incarnation: u64) -> Hello {
        Hello {
            versions: WIRE_VERSIONS,
            cluster: ClusterId([1; 16]),
            node: NodeId(2),
            directory: DirectoryId([2; 16]),
            incarnation,
            shards: 2,
            pair: ShardPair::METADATA,
            feature_level: protocol::metadata::FeatureLevel::FIRST,
            image_offset: Offset::ZERO,
        }
    }

    #[test]
    fn the_latest_start_that_served_is_remembered_with_its_most() {
        let witnesses = Witnesses::default();
        let heard = || {
            let heard = witnesses.heard.borrow();
            heard.values().next().cloned()
        };
        witnesses.hear(&hello(2), vec![5, 1]);
        witnesses.hear(&hello(2), vec![3, 4]);
        assert_eq!(heard(), Some((2, vec![5, 4])));
        // An earlier process says what was true of it.
        witnesses.hear(&hello(1), vec![9, 9]);
        assert_eq!(heard(), Some((2, vec![5, 4])));
        witnesses.hear(&hello(3), vec![4, 4]);
        assert_eq!(heard(), Some((3, vec![4, 4])));
    }

    #[test]
    fn a_disk_with_less_than_others_have_heard_of_is_in_doubt() {
        let witnesses = Witnesses::default();
        raise(&mut witnesses.told.borrow_mut(), &[5]);
        raise(&mut witnesses.told.borrow_mut(), &[4, 7]);
        assert!(!witnesses.is_in_doubt(), "nobody has looked");
        for (found, is_in_doubt) in [([5, 7], false), ([6, 8], false), ([4, 9], true), ([9, 6], true)] {
            *witnesses.found.borrow_mut() = found.to_vec();
            assert_eq!(witnesses.is_in_doubt(), is_in_doubt, "{found:?}");
        }
    }
}
