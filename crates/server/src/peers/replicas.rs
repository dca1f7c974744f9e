//! The links of this core's shards: which there must be, and the letters that go over them.
//!
//! A shard is linked with a node once they have a partition in common, and stays so until the node stops.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use platform::turns;
use protocol::leader::NodeId;
use protocol::metadata::{ApplyError, Metadata, PlanError, Plans, is_order_log};
use protocol::peer::{Message, Relay, ReplicaMessage};
use record::PartitionId;
use shard::{Letter, RangeLetter, Report, Shard};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use super::Purpose;
use super::dial::dial_node;
use crate::controller::ChangeError;
use crate::core::Core;

/// Before the metadata is told again what it could not take.
const REST: Duration = Duration::from_secs(1);
/// The longest that a node which stops waits for others to lead in its place.
const HAND_OVER: Duration = Duration::from_secs(3);

/// The links that shards of a core are to have.
#[derive(Default)]
pub(crate) struct WantedLinks {
    wanted: RefCell<BTreeSet<(u16, NodeId)>>,
    news: Notify,
}

impl WantedLinks {
    /// Has a shard be linked with these nodes.
    pub(crate) fn want(&self, shard: usize, nodes: impl Iterator<Item = NodeId>) {
        let shard = u16::try_from(shard).expect("a node has fewer shards");
        let mut wanted = self.wanted.borrow_mut();
        for node in nodes {
            if wanted.insert((shard, node)) {
                self.news.notify_one();
            }
        }
    }
}

/// Has this core's shards speak with other nodes as soon as they have to.
pub(crate) async fn keep_links(core: Rc<Core>) {
    let (mut speaking, mut linked) = (BTreeSet::new(), BTreeSet::new());
    loop {
        core.wanted_links.news.notified().await;
        let wanted = core.wanted_links.wanted.borrow().clone();
        for (shard, node) in wanted {
            if speaking.insert(shard) {
                let speaker = core.shard(shard.into()).clone();
                speaker.start_replication();
                turns::spawn(carry_letters(core.clone(), speaker.clone()));
                turns::spawn(follow_leads(core.clone(), speaker.clone()));
                let core = core.clone();
                turns::spawn(async move {
                    speaker.until_dead().await;
                    tracing::error!(
                        "this node ends, so that others lead in its place; start it again when its disk is well"
                    );
                    core.lost.notify_one();
                });
            }
            // One of the two dials.
            if linked.insert((shard, node)) && node < core.facts.node {
                turns::spawn(dial_node(core.clone(), Purpose::Shard(shard), node));
            }
        }
    }
}

impl Core {
    /// Has the metadata know what replicas here have to say, and does so again until it is known, or is not so any more.
    async fn tell_metadata(&self, mut reports: Vec<(PartitionId, Report)>) {
        while !reports.is_empty() {
            let told = reports.clone();
            let told = self
                .facts
                .mailboxes
                .call(0, move |core| core.tell_metadata_here(told));
            match told.await {
                Ok(left) => reports = left,
                // The node is stopping.
                Err(_) => return,
            }
            if !reports.is_empty() {
                sleep(REST).await;
            }
        }
    }

    fn keeps_order(&self, id: PartitionId) -> bool {
        self.with_metadata(|metadata| {
            metadata
                .topic(id.topic)
                .is_some_and(|topic| is_order_log(&topic.name))
        })
    }

    /// Gives back what is to be told again.
    async fn tell_metadata_here(
        self: Rc<Core>,
        mut reports: Vec<(PartitionId, Report)>,
    ) -> Vec<(PartitionId, Report)> {
        reports.retain(|(id, report)| match report {
            // The log of an order goes with its lane, and with nothing else.
            Report::Preferred { replica } => self.is_here(*replica) && !self.keeps_order(*id),
            Report::Settled { .. } | Report::CaughtUp { .. } => true,
        });
        let own = self.facts.node;
        let plan = move |metadata: &Metadata, (id, report): (PartitionId, Report), _: &mut Plans| match report
        {
            Report::Preferred { replica } => metadata.plan_succession(id, own, replica),
            Report::Settled { epoch } => metadata.plan_settled(id, epoch),
            Report::CaughtUp {
                epoch,
                replica,
                start,
            } => metadata.plan_caught_up(id, epoch, (replica, start)),
        };
        let made = self.change_all(None, None, reports.clone(), plan).await;
        let Ok(made) = made else {
            return Vec::new();
        };
        let is_open = |(_, report): &(PartitionId, Report), made: &Result<(), ChangeError>| {
            // The shard looks again and again for replicas that could lead in this node's place.
            let is_once = !matches!(report, Report::Preferred { .. });
            is_once && made.as_ref().is_err_and(may_be_true_yet)
        };
        let open = reports.into_iter().zip(&made);
        let open = open.filter(|(report, made)| is_open(report, made));
        open.map(|(report, _)| report).collect()
    }

    /// Has other replicas lead in the place of this node.
    pub(crate) async fn hand_over(&self, to: Vec<(PartitionId, NodeId)>) {
        let partitions = to.len();
        let preferred = |(id, replica)| (id, Report::Preferred { replica });
        self.tell_metadata(to.into_iter().map(preferred).collect()).await;
        tracing::info!(
            partitions,
            "other replicas were asked to lead in this node's place"
        );
    }

    /// Before this node stops: has others lead what it leads, if they can.
    pub(crate) async fn hand_over_all(&self) {
        let successors: Vec<_> = self.shards().flat_map(|shard| shard.successors()).collect();
        if !successors.is_empty() {
            // Without the controller they go on without it.
            let _ = timeout(HAND_OVER, self.hand_over(successors)).await;
        }
    }
}

/// Says whether what was refused may be so when the image has come further. A node speaks with others before every image has its start.
fn may_be_true_yet(refused: &ChangeError) -> bool {
    match refused {
        ChangeError::Plan(PlanError::Refused(ApplyError::StartOver { current, got, .. })) => current < got,
        ChangeError::Plan(_) => false,
        _ => true,
    }
}

/// Opens coordinators where this node has come to lead, and closes them where it does not any more.
async fn follow_leads(core: Rc<Core>, shard: Rc<Shard>) {
    loop {
        shard.until_leads_change().await;
        core.open_coordinators();
        core.open_scribes();
    }
}

/// Gives a shard's letters to the links.
async fn carry_letters(core: Rc<Core>, shard: Rc<Shard>) {
    loop {
        shard.until_news().await;
        post_letters(&core, &shard);
        let reports = shard.take_reports();
        if !reports.is_empty() {
            let core = core.clone();
            turns::spawn(async move { core.tell_metadata(reports).await });
        }
    }
}

/// Gives the links the letters that there are now.
pub(super) fn post_letters(core: &Core, shard: &Shard) {
    let purpose = Purpose::Shard(u16::try_from(shard.index).expect("a node has fewer shards"));
    for (to, letter) in shard.take_letters() {
        let (message, room) = to_message(letter);
        core.peers.send_with(purpose, to, &message, room);
    }
    for (to, letter) in shard.take_range_letters() {
        match letter {
            RangeLetter::Wish(wish) => {
                if !core.peers.send(purpose, to, &Message::RangeWish(wish)) {
                    shard.handle_range_unsent(wish.number);
                }
            }
            RangeLetter::Answer(answer, room) => {
                core.peers
                    .send_with(purpose, to, &Message::RangeAnswer(answer), room);
            }
        }
    }
}

fn to_message(letter: Letter) -> (Message, Option<super::Room>) {
    let Letter {
        partition,
        message,
        way,
        room,
    } = letter;
    let message = match message {
        shard::Message::Sworn(sworn) => ReplicaMessage::Sworn(sworn),
        shard::Message::Prompt(prompt, mut batches) => {
            let bytes = match batches.len() {
                1 => batches.remove(0),
                _ => Bytes::from(batches.concat()),
            };
            ReplicaMessage::Prompt(prompt.with_bytes(bytes))
        }
    };
    let message = match (way, message) {
        (Some(way), ReplicaMessage::Prompt(prompt)) => Message::Relay(Relay {
            way,
            partition,
            prompt,
        }),
        (_, message) => Message::Replica { partition, message },
    };
    (message, room)
}
