//! Topics with one order, on a node: opened at a start and when a topic asks for it, given up with the topic or when it asks for none any more.
//!
//! ```text
//!   core 0     look ──► recover ──────► open the next generation ──► begin
//!   each core  strands, ends of logs    (home core: durable)         cut, flush, show (`shard`)
//!   home core  pages                                                 gather what is shown, put it on pages (`home`)
//! ```
//! A topic's partitions show nothing new before its order is open, and nothing more where it has ended; where it cannot be opened they show all that was there. Core 0 opens orders, one change
//! of the metadata at a time; nothing here may open two at once.

mod claims;
mod cursor;
mod home;
mod logs;
mod reads;
mod reports;
mod scribes;
#[cfg(test)]
mod tests;
mod trim;
mod twin;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use protocol::leader::NodeId;
use protocol::metadata::{Command, metadata_settings};
use protocol::order::{
    Cutter, Entry, Gathered, Generation, Line, Open, Page, Recovered, Run, keeper_of, order_log_of, recover,
};
use record::{Epoch, Offset, PartitionId, Position, Record, TopicId};
use shard::{AppendRefusal, NotLed, Order, Shard, Tell};
use tokio::sync::Notify;
use tokio::time::sleep;

use crate::core::{Core, NodeFacts};
use crate::mailbox::Stopping;

pub(crate) use claims::carry_claims;
pub(crate) use cursor::{Cursor, clip, extents, share_of};
pub(crate) use home::{Home, Unfound};
pub(crate) use logs::make_order_logs;
pub(crate) use reports::carry_reports;
use scribes::ScribeHost;
pub(crate) use trim::Untrimmed;
pub(crate) use twin::{EPOCH, TWIN_PARTITION, check_epoch, twin_name, twin_named, twin_with_id};

/// The pause before an order is tried again whose opening the journal had no room for.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The orders that a core has a part in, beside its shards'.
#[derive(Default)]
pub(crate) struct Orders {
    /// Those that a scribe here writes.
    scribes: RefCell<BTreeMap<TopicId, Rc<ScribeHost>>>,
    /// The node that leads the log of each order, and its epoch, as leaders here have been told.
    known_scribes: RefCell<BTreeMap<TopicId, (NodeId, Epoch)>>,
    /// Partitions whose claims are carried now.
    claiming: RefCell<BTreeSet<PartitionId>>,
    /// On core 0 of a member: a topic may want a log for its order.
    wants_log: Notify,
    /// Those whose pages are here, written by this node's shards.
    homes: RefCell<BTreeMap<TopicId, Rc<Home>>>,
    /// On core 0: topics whose order was opened, or cannot be.
    settled: RefCell<BTreeSet<TopicId>>,
    /// On core 0: topics whose order the journal had no room for.
    refused: RefCell<BTreeSet<TopicId>>,
    /// There are some.
    has_refused: Notify,
}

impl Orders {
    fn is_empty(&self) -> bool {
        self.homes.borrow().is_empty() && self.scribes.borrow().is_empty()
    }
}

/// The part of a topic's order that a core has.
#[derive(Debug, Default)]
struct Look {
    /// The entries of its strands, in their order.
    strands: Vec<Vec<Entry>>,
    /// Of its partitions: the index, the end of what readers were shown, and the end.
    ends: Vec<(i32, Offset, Offset)>,
    /// On the home core: the end of the last page, if there is one.
    pages: Option<Open>,
}

/// An order as it is to be opened.
#[derive(Debug)]
struct Standing {
    /// Pages for all that no page has yet, in their order.
    pages: Vec<Page>,
    /// The next generation.
    open: Open,
}

/// Why an order was not opened.
#[derive(Debug)]
enum Unopened {
    /// There will be room in the journal.
    NoRoom,
    /// It cannot be: a sentence.
    Broken(String),
}

impl From<Stopping> for Unopened {
    fn from(stopping: Stopping) -> Unopened {
        Unopened::Broken(stopping.to_string())
    }
}

impl NodeFacts {
    /// The partition that keeps a topic's cuts on a shard.
    pub(crate) fn strand_on(&self, topic: TopicId, shard: usize) -> PartitionId {
        let first = self.shard_of(keeper(topic, 0));
        keeper(topic, (self.shards + shard - first) % self.shards)
    }

    /// The partition that keeps a topic's pages: on the shard of the first strand, or wherever the log of an order is that several nodes can hold.
    pub(crate) fn pages_of(&self, topic: TopicId) -> PartitionId {
        match self.is_member {
            true => PartitionId {
                topic: order_log_of(topic),
                index: 0,
            },
            false => keeper(topic, self.shards),
        }
    }

    /// The partition by which the twin of a topic goes inside of the node. It is on the core that has the pages, and no shard has it.
    pub(crate) fn twin_of(&self, topic: TopicId) -> PartitionId {
        // The shard goes by the index alone: every change of an id here comes to nothing in it.
        keeper(topic, 2 * self.shards)
    }

    /// The core that a topic's pages are on.
    pub(crate) fn home_of(&self, topic: TopicId) -> usize {
        self.owner_of(self.pages_of(topic))
    }
}

fn keeper(topic: TopicId, index: usize) -> PartitionId {
    PartitionId {
        topic: keeper_of(topic),
        index: i32::try_from(index).expect("there are fewer shards"),
    }
}

impl Core {
    /// The home of a twin, if it is here and open.
    pub(crate) fn home_of_twin(&self, twin: PartitionId) -> Option<Rc<Home>> {
        if self.orders.is_empty() {
            return None;
        }
        let topic = keeper_of(twin.topic);
        self.home(topic).filter(|_| twin == self.facts.twin_of(topic))
    }

    /// Says whether this stands for a twin whose home another node has, or none has now.
    pub(crate) fn is_twin_elsewhere(&self, twin: PartitionId) -> bool {
        let topic = keeper_of(twin.topic);
        let is_there = || self.with_metadata(|metadata| metadata.topic(topic).is_some());
        self.facts.is_member && twin == self.facts.twin_of(topic) && is_there()
    }

    /// The home of a topic's order, if it is here and open.
    pub(crate) fn home(&self, topic: TopicId) -> Option<Rc<Home>> {
        let scribes = self.orders.scribes.borrow();
        let of_scribe = scribes.get(&topic).and_then(|host| host.home().cloned());
        of_scribe.or_else(|| self.orders.homes.borrow().get(&topic).cloned())
    }

    /// Opens the partitions that keep a topic's order here, over what recovery found of them.
    ///
    /// # Errors
    /// A recovered log contradicts itself: a sentence.
    pub(crate) fn open_keepers(&self, topic: TopicId) -> Result<(), String> {
        if self.facts.is_member {
            return Ok(());
        }
        for (id, shard) in self.keepers(topic) {
            if shard.next_offset(id).is_err() {
                let recovered = self.take_recovered(id);
                shard.open_partition(id, None, metadata_settings(), recovered.as_ref())?;
            }
        }
        Ok(())
    }

    /// Ends a topic's order here, if it has one. Its keepers stay: positions are what they are if the topic is ordered again.
    pub(crate) fn give_up_order(&self, topic: TopicId) {
        let home = self.orders.homes.borrow_mut().remove(&topic);
        self.orders.settled.borrow_mut().remove(&topic);
        self.orders.refused.borrow_mut().remove(&topic);
        self.shards().for_each(|shard| shard.give_up_order(topic));
        // Its readers are told that it is gone.
        home.into_iter().for_each(|home| home.give_up());
    }

    /// Deletes what a topic that is gone has of an order here.
    pub(crate) fn delete_order(&self, topic: TopicId) {
        self.give_up_order(topic);
        if self.facts.is_member {
            return;
        }
        for (id, shard) in self.keepers(topic) {
            if shard.next_offset(id).is_ok() {
                shard.delete_partition(id);
            }
        }
    }

    /// The strands of this core's shards, and the pages if they are here.
    fn keepers(&self, topic: TopicId) -> impl Iterator<Item = (PartitionId, &Rc<Shard>)> {
        let pages = self.facts.pages_of(topic);
        let home = self.facts.shard_of(pages);
        self.shards().flat_map(move |shard| {
            let strand = self.facts.strand_on(topic, shard.index);
            let pages = (shard.index == home).then_some((pages, shard));
            [(strand, shard)].into_iter().chain(pages)
        })
    }

    /// On core 0 at a start: opens the orders of all topics that ask for one.
    pub(crate) async fn open_all_orders(&self) {
        for (_, topic) in self.all_topics().await {
            self.follow_order(topic).await;
        }
    }

    /// On core 0, with its turn to change the metadata: opens the orders of topics that ask for one since these commands.
    pub(crate) async fn open_orders(&self, commands: &[Command]) {
        if self.facts.is_member {
            let may_order = |command: &Command| {
                matches!(
                    command,
                    Command::CreateTopic { .. } | Command::SetTopicConfig { .. }
                )
            };
            if commands.iter().any(may_order) {
                self.want_order_logs();
            }
            return;
        }
        for command in commands {
            if let Command::CreateTopic { id, .. } | Command::SetTopicConfig { id, .. } = command {
                self.follow_order(*id).await;
            }
        }
    }

    /// Has topics looked for that have no log for their order.
    pub(crate) fn want_order_logs(&self) {
        self.orders.wants_log.notify_one();
    }

    /// On core 0: tries the orders again, as long as there are any, whose opening the journal had no room for.
    pub(crate) async fn retry_orders(self: Rc<Self>) {
        let controller = self.controller.as_ref().expect("core 0 opens orders");
        loop {
            self.orders.has_refused.notified().await;
            sleep(RETRY_AFTER).await;
            // No change comes in between.
            let _turn = controller.turn().await;
            let refused = std::mem::take(&mut *self.orders.refused.borrow_mut());
            for topic in refused {
                self.follow_order(topic).await;
            }
        }
    }

    async fn follow_order(&self, id: TopicId) {
        let found = self.with_metadata(|metadata| {
            let topic = metadata.topic(id).filter(|topic| topic.settings.is_ordered)?;
            Some((topic.name.clone(), topic.partition_count()))
        });
        let Some((name, partitions)) = found.filter(|_| !self.orders.settled.borrow().contains(&id)) else {
            return;
        };
        match self.open_order(id, partitions as usize).await {
            Ok(open) => {
                self.orders.settled.borrow_mut().insert(id);
                let (generation, first) = (open.generation.0, open.first.0);
                tracing::info!(topic = %name, generation, first, "the topic's order is open");
            }
            Err(Unopened::NoRoom) => {
                tracing::warn!(topic = %name, "the topic's order waits for room in the journal; appends to the topic wait for it");
                self.on_all_shards(move |shard| shard.show_committed(id)).await;
                self.orders.refused.borrow_mut().insert(id);
                self.orders.has_refused.notify_one();
            }
            Err(Unopened::Broken(reason)) => {
                self.orders.settled.borrow_mut().insert(id);
                tracing::error!(topic = %name, reason, "the topic's order cannot be opened: nothing is appended to the topic, and its records are not found by position");
                let reason = format!("the order of the topic cannot be opened: {reason}");
                let end = move |shard: &Rc<Shard>| {
                    shard.refuse_order(id, &reason);
                    shard.show_committed(id);
                };
                self.on_all_shards(end).await;
            }
        }
    }

    /// Opens the next generation of a topic's order, durably, and has all cores begin it.
    async fn open_order(&self, topic: TopicId, partitions: usize) -> Result<Open, Unopened> {
        let mut standing = Standing::of(self.look_everywhere(topic, partitions).await?, partitions)?;
        let home = self.facts.home_of(topic);
        let (pages, open) = (std::mem::take(&mut standing.pages), standing.open.clone());
        let kept = self.facts.mailboxes.carry_out(home, move |core| async move {
            core.keep_order(topic, pages, open).await
        });
        match kept.await? {
            Ok(()) => {}
            Err(AppendRefusal::JournalFull { .. }) => return Err(Unopened::NoRoom),
            Err(refusal) => return Err(Unopened::Broken(refusal.to_string())),
        }
        let line = Arc::new(Line::new(standing.open.first, self.facts.shards));
        let open = Arc::new(standing.open.clone());
        self.on_every_core(move |core| core.begin_order(topic, &line, &open))
            .await?;
        Ok(standing.open)
    }

    async fn look_everywhere(&self, topic: TopicId, partitions: usize) -> Result<Vec<Look>, Unopened> {
        let mailboxes = &self.facts.mailboxes;
        let looks = (0..mailboxes.cores()).map(|core| {
            mailboxes.carry_out(core, move |core| async move {
                core.look_at_order(topic, partitions).await
            })
        });
        let mut found = Vec::new();
        for look in join_all(looks).await {
            found.push(look?.map_err(Unopened::Broken)?);
        }
        Ok(found)
    }

    /// Reads what this core has of a topic's order.
    ///
    /// # Errors
    /// A sentence.
    async fn look_at_order(&self, topic: TopicId, partitions: usize) -> Result<Look, String> {
        // What was acknowledged from memory is durable before it gets a position; and pages that were staged are there.
        for shard in self.shards() {
            let durable = shard.until_staged_is_durable().await;
            durable.map_err(|refusal| refusal.to_string())?;
        }
        let pages = self.facts.pages_of(topic);
        let mut look = Look::default();
        for (id, shard) in self.keepers(topic) {
            if id == pages {
                look.pages = last_page(shard, id, partitions).await?.map(|page| page.end());
                continue;
            }
            let mut entries = Vec::new();
            let mut take = |record: &Record| {
                entries.push(Entry::decode(value(record)).map_err(|error| error.to_string())?);
                Ok(())
            };
            let read = shard.replay(id, &mut take).await;
            read.map_err(|error| format!("{id}: {error}"))?;
            look.strands.push(entries);
        }
        let own = self.with_metadata(|metadata| {
            let topic = metadata.topic(topic);
            topic.map_or_else(Vec::new, |topic| self.own_partitions(topic, 0))
        });
        for id in own {
            let shard = self.shard(self.facts.shard_of(id));
            let told = |error: NotLed| format!("{id}: {error}");
            let shown = shard.shown_tail(id).map_err(told)?;
            let end = shard.with_leader(id, |leader| leader.tail()).map_err(told)?;
            look.ends.push((id.index, shown, end));
        }
        Ok(look)
    }

    /// On the home core: makes pages and the next generation durable.
    async fn keep_order(&self, topic: TopicId, pages: Vec<Page>, open: Open) -> Result<(), AppendRefusal> {
        let id = self.facts.pages_of(topic);
        let home = self.facts.shard_of(id);
        let shard = self.shard(home);
        let strand = self.facts.strand_on(topic, home);
        let mut staged = pages.iter().map(|page| shard.stage_page(id, page));
        let staged = staged.try_for_each(|staged| staged);
        let staged = staged.and_then(|()| shard.stage_order(strand, &Entry::Open(open)).map(drop));
        // Even where some was refused: the next try goes on behind what was taken.
        shard.until_staged_is_durable().await?;
        staged
    }

    /// Takes positions from a line from here on, in the generation that is open.
    fn begin_order(self: &Rc<Self>, topic: TopicId, line: &Arc<Line>, open: &Open) {
        let home = self.facts.home_of(topic);
        for shard in self.shards() {
            let strand = self.facts.strand_on(topic, shard.index);
            self.trim_before_opening(shard, strand, topic);
            let order = Order {
                cutter: Cutter::new(line.clone(), shard.index, open.generation),
                strand,
                tell: self.teller(home),
                is_full: false,
            };
            shard.open_order(topic, order, |index| at(&open.vector, index));
        }
        if home == self.index {
            let pages = self.facts.pages_of(topic);
            let shard = self.shard(self.facts.shard_of(pages)).clone();
            let home = Home::new(topic, (shard, pages), line.clone(), open);
            self.orders.homes.borrow_mut().insert(topic, Rc::new(home));
        }
    }

    /// Gives up what a strand has of earlier generations: pages have all of it that counts.
    fn trim_before_opening(&self, shard: &Rc<Shard>, strand: PartitionId, topic: TopicId) {
        let is_home = self.facts.shard_of(self.facts.pages_of(topic)) == shard.index;
        let bounds = shard.with_leader(strand, |leader| (leader.log_start(), leader.next_offset()));
        let Ok((log_start, next)) = bounds else { return };
        // The last entry at home opens the generation.
        let first_kept = if is_home { next.advance(-1) } else { next };
        if log_start < first_kept {
            let shard = shard.clone();
            platform::turns::spawn(async move {
                // Entries that are not trimmed now are trimmed behind the next page.
                let _ = shard.trim(strand, first_kept).await;
            });
        }
    }

    /// Brings what a shard says of an order to the cores that it is for.
    fn teller(&self, home: usize) -> Rc<dyn Fn(TopicId, Tell<'_>)> {
        let facts = self.facts.clone();
        Rc::new(move |topic, tell| match tell {
            Tell::Ordered(shards) => {
                for shard in shards {
                    if shard == facts.shards {
                        let wake = move |core: &Rc<Core>| {
                            core.home(topic).into_iter().for_each(|home| home.wake());
                        };
                        facts.mailboxes.send(home, wake);
                        continue;
                    }
                    let show = move |core: &Rc<Core>| core.shard(shard).show_ordered(topic);
                    facts.mailboxes.send(facts.core_of(shard), show);
                }
            }
            Tell::Take => facts.mailboxes.send(home, move |core| {
                if let Some(home) = core.home(topic) {
                    platform::turns::spawn(home.gather_in_time(core.clone()));
                }
            }),
            Tell::Ended(generation, reason) => {
                for core in 0..facts.mailboxes.cores() {
                    let reason = reason.to_owned();
                    facts.mailboxes.send(core, move |core| {
                        core.shards()
                            .for_each(|shard| shard.end_order(topic, generation, &reason));
                    });
                }
            }
        })
    }

    async fn on_all_shards(&self, work: impl Fn(&Rc<Shard>) + Clone + Send + 'static) {
        // A node that stops shows nothing more.
        let _ = self
            .on_every_core(move |core| core.shards().for_each(&work))
            .await;
    }

    async fn on_every_core(&self, work: impl Fn(&Rc<Core>) + Clone + Send + 'static) -> Result<(), Stopping> {
        let mailboxes = &self.facts.mailboxes;
        let each = (0..mailboxes.cores()).map(|core| {
            let work = work.clone();
            mailboxes.carry_out(core, move |core| async move { work(&core) })
        });
        join_all(each).await.into_iter().collect()
    }
}

impl Standing {
    /// Finds how an order stands by what all cores have of it. Records without a position get theirs here: what a crash has left behind a gap, and
    /// all that a topic has which was not ordered before.
    fn of(looks: Vec<Look>, partitions: usize) -> Result<Standing, Unopened> {
        let (mut shown, mut ends) = (vec![Offset::ZERO; partitions], vec![Offset::ZERO; partitions]);
        let none = Open {
            generation: Generation(0),
            first: Position(0),
            vector: Vec::new(),
        };
        let mut before = none;
        let mut strands = Vec::new();
        for look in looks {
            for (index, tail, end) in look.ends {
                let place = usize::try_from(index).ok().filter(|place| *place < partitions);
                // Partitions that have come since are not asked for.
                if let Some(place) = place {
                    (shown[place], ends[place]) = (tail, end);
                }
            }
            strands.extend(look.strands);
            before = look.pages.unwrap_or(before);
        }
        strands.push(vec![Entry::Open(before)]);
        let recovered = recover(&strands, &ends).map_err(|error| Unopened::Broken(error.to_string()))?;
        let recovered = recovered.expect("something was opened before");
        let start = Standing::start(&recovered);
        let mut gathered = Gathered::behind(&start);
        recovered.cuts.iter().for_each(|cut| gathered.take_cut(&cut.runs));
        if let Some(index) = (0..partitions).find(|index| recovered.vector[*index] > ends[*index]) {
            let (has, end) = (recovered.vector[index], ends[index]);
            return Err(Unopened::Broken(format!(
                "partition {index} ends at {end}, and has positions below {has}"
            )));
        }
        // What readers have seen, and producers were told, comes before what nobody was told of.
        let vector = take_rest(&mut gathered, &recovered.vector, &shown);
        let vector = take_rest(&mut gathered, &vector, &ends);
        gathered.seal();
        let pages = gathered.sealed(start.first).map(|sealed| sealed.page.clone());
        Ok(Standing {
            pages: pages.collect(),
            open: Open {
                generation: Generation(recovered.generation.0 + 1),
                first: gathered.end(),
                vector,
            },
        })
    }

    /// The order before the cuts that were found.
    fn start(recovered: &Recovered) -> Open {
        let mut vector = recovered.vector.clone();
        for run in recovered.cuts.iter().flat_map(|cut| &cut.runs) {
            let next = &mut vector[run.partition as usize];
            *next = next.advance(-i64::from(run.offsets));
        }
        Open {
            generation: recovered.generation,
            first: recovered.cuts.first().map_or(recovered.next, |first| first.base),
            vector,
        }
    }
}

/// Gives positions to all that partitions have without one, partition after partition. Returns the ends.
fn take_rest(gathered: &mut Gathered, vector: &[Offset], ends: &[Offset]) -> Vec<Offset> {
    for (index, (next, end)) in (0..).zip(vector.iter().zip(ends)) {
        let mut left = end.0 - next.0;
        while left > 0 {
            let offsets = u32::try_from(left).unwrap_or(u32::MAX);
            gathered.take_run(Run {
                partition: index,
                offsets,
            });
            left -= i64::from(offsets);
        }
    }
    let pairs = vector.iter().zip(ends);
    pairs.map(|(next, end)| *next.max(end)).collect()
}

/// The offset of a partition in a vector. One that is not in it began later.
fn at(vector: &[Offset], index: i32) -> Offset {
    let found = usize::try_from(index).ok().and_then(|place| vector.get(place));
    found.copied().unwrap_or(Offset::ZERO)
}

fn value(record: &Record) -> &[u8] {
    record.value.as_deref().unwrap_or_default()
}

/// The last page that is stored.
///
/// # Errors
/// A sentence.
async fn last_page(shard: &Rc<Shard>, pages: PartitionId, partitions: usize) -> Result<Option<Page>, String> {
    let tail = shard.with_leader(pages, |leader| leader.tail());
    let tail = tail.map_err(|error| format!("{pages}: {error}"))?;
    if tail == Offset::ZERO {
        return Ok(None);
    }
    let found = home::read_pages(shard, pages, (tail.advance(-1), 1), partitions).await?;
    Ok(found.into_iter().next_back())
}
