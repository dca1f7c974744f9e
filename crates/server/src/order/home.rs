//! The home of a topic's order: gathers what all shards have shown, puts it on pages, and finds positions.
//!
//! Nobody pays for it while nobody reads: cuts are taken from the shards when somebody asks for a position that is not here, and when a shard has very
//! many. A strand is trimmed when the page that has its cuts is durable, never before. Where a scribe writes the pages, it brings them here
//! as they are committed.

use std::cell::{Cell, RefCell, RefMut};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::{Arc, Weak};

use futures_util::future::join_all;
use protocol::order::{Gathered, Generation, Line, Open, Page, Place, Shown};
use record::{Offset, PartitionId, Position, TopicId};
use shard::{AppendRefusal, NotLed, Shard, Watcher};
use tokio::sync::{Mutex, oneshot};

use crate::core::Core;
use crate::mailbox::Stopping;

/// Places that are found at once.
const PLACES_MAX: usize = 1_024;
/// Pages that are read at once; they may be very small.
const PAGES_BYTES: usize = 64 << 10;

/// See the module.
pub(crate) struct Home {
    topic: TopicId,
    /// The shard that has the pages.
    shard: Rc<Shard>,
    pages: PartitionId,
    /// The cuts of an earlier or a later one are not for this home.
    generation: Generation,
    gathered: RefCell<Gathered>,
    /// Held while cuts are taken from the shards.
    turn: Mutex<()>,
    /// Pages are being made durable.
    is_storing: Cell<bool>,
    /// The order is no more, or another home's.
    is_given_up: Cell<bool>,
    /// The line of the shards; `None` where a scribe writes the pages.
    line: Option<Arc<Line>>,
    /// Readers of the twin: the tail that each has seen, its number for the twin, and itself. Those that gave up are found dead.
    watchers: RefCell<Vec<(Offset, u32, Weak<Watcher>)>>,
    /// The first offsets that partitions keep, as their leaders have told.
    log_starts: RefCell<BTreeMap<i32, Offset>>,
}

/// Places from a position on.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    /// In the order of their positions, without a gap; none behind all that is ordered.
    pub(crate) places: Vec<Place>,
    /// The first position that is not ordered.
    pub(crate) ordered: Position,
    /// The first offsets that are kept of partitions which other nodes lead.
    pub(crate) log_starts: BTreeMap<i32, Offset>,
}

/// Why a position was not found.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unfound {
    /// A page cannot be read: a sentence.
    #[error("the topic's order cannot be read: {0}")]
    Fault(String),
    /// Another node may keep the order by now.
    #[error("another node keeps the topic's order, or will soon; ask again")]
    Elsewhere,
    #[error(transparent)]
    Stopping(#[from] Stopping),
}

impl Home {
    pub(super) fn new(
        topic: TopicId,
        (shard, pages): (Rc<Shard>, PartitionId),
        line: Arc<Line>,
        open: &Open,
    ) -> Home {
        Home {
            topic,
            shard,
            pages,
            line: Some(line),
            watchers: RefCell::default(),
            log_starts: RefCell::default(),
            generation: open.generation,
            gathered: RefCell::new(Gathered::behind(open)),
            turn: Mutex::default(),
            is_storing: Cell::new(false),
            is_given_up: Cell::new(false),
        }
    }

    /// The home of an order that a scribe writes, behind all that it has found in the log.
    pub(super) fn of_log(topic: TopicId, (shard, log): (Rc<Shard>, PartitionId), found: &Open) -> Home {
        Home {
            line: None,
            ..Home::new(topic, (shard, log), Arc::new(Line::new(Position(0), 0)), found)
        }
    }

    /// Takes a page that is committed, and stored.
    pub(super) fn take_page(&self, page: &Page) {
        let mut gathered = self.gathered.borrow_mut();
        gathered.take_cut(&page.runs);
        // Pages that are full here are found in the log.
        let end = gathered.end();
        gathered.handle_durable(end);
    }

    /// Takes note of the first offset that a partition keeps.
    pub(super) fn note_log_start(&self, index: i32, log_start: Offset) {
        let mut log_starts = self.log_starts.borrow_mut();
        let known = log_starts.entry(index).or_default();
        *known = log_start.max(*known);
    }

    /// The first offset that a partition keeps, as its leader has told.
    pub(super) fn log_start(&self, index: i32) -> Option<Offset> {
        self.log_starts.borrow().get(&index).copied()
    }

    /// The offsets that have the positions from one on, up to so many of them.
    ///
    /// # Errors
    /// See [`Unfound`].
    pub(crate) async fn places(
        self: &Rc<Self>,
        core: &Rc<Core>,
        from: Position,
        count: u64,
    ) -> Result<Found, Unfound> {
        let end = self.gather_to(core, from).await?;
        if from > end {
            // Another node may have told of more.
            self.until_lease().await.map_err(|_| Unfound::Elsewhere)?;
        }
        let mut places = Vec::new();
        let (mut position, mut left) = (from, count);
        while left > 0 && position < end && places.len() < PLACES_MAX {
            let found = self.some_places(core, position, left, &mut places).await?;
            left -= found;
            position = Position(position.0 + found);
        }
        let ordered = self.ordered_now();
        let log_starts = self.log_starts.borrow().clone();
        Ok(Found {
            places,
            ordered,
            log_starts,
        })
    }

    /// The first position that is not ordered, of this moment. All below is here.
    ///
    /// # Errors
    /// See [`Unfound`].
    pub(crate) async fn ordered(self: &Rc<Self>, core: &Rc<Core>) -> Result<Position, Unfound> {
        self.gather(core).await?;
        self.until_lease().await.map_err(|_| Unfound::Elsewhere)?;
        Ok(self.gathered.borrow().end())
    }

    /// Returns when nobody else can keep the order.
    ///
    /// # Errors
    /// Another node may keep it.
    pub(crate) async fn until_lease(&self) -> Result<(), NotLed> {
        self.shard.until_lease(self.pages).await
    }

    /// Says whether readers should look elsewhere: too few replicas have listened to this node for a while.
    pub(super) fn is_forsaken(&self) -> bool {
        self.shard.leads_in_vain(self.pages)
    }

    /// The topic whose order it is.
    pub(crate) fn topic(&self) -> TopicId {
        self.topic
    }

    /// The first position that is not ordered. Those below need not be here yet.
    pub(crate) fn ordered_now(&self) -> Position {
        match &self.line {
            Some(line) => line.ordered(),
            None => self.gathered.borrow().end(),
        }
    }

    /// The readers that wait for the twin.
    pub(super) fn watchers(&self) -> RefMut<'_, Vec<(Offset, u32, Weak<Watcher>)>> {
        self.watchers.borrow_mut()
    }

    /// Has the line tell this core when all below a position is ordered, or nothing more; `false` if it is already.
    pub(super) fn wait_on_line(&self, below: Option<Position>) -> bool {
        if let Some(line) = &self.line {
            line.wait(line.waiter(), below);
        }
        below.is_none_or(|below| self.ordered_now() < below)
    }

    /// The position of an offset of a partition, or of the first one behind it that has one; the first that is not ordered if there is none.
    ///
    /// # Errors
    /// See [`Unfound`].
    pub(crate) async fn position_of(
        self: &Rc<Self>,
        core: &Rc<Core>,
        (partition, offset): (i32, Offset),
    ) -> Result<Position, Unfound> {
        self.first_where(core, |vector| super::at(vector, partition) > offset)
            .await
    }

    /// The first position whose record is kept, by the first offsets that partitions keep; the first that is not ordered if there is none.
    ///
    /// # Errors
    /// See [`Unfound`].
    pub(crate) async fn first_kept(
        self: &Rc<Self>,
        core: &Rc<Core>,
        log_starts: &[Offset],
    ) -> Result<Position, Unfound> {
        let has_kept = |vector: &[Offset]| vector.iter().zip(log_starts).any(|(next, first)| next > first);
        self.first_where(core, has_kept).await
    }

    /// The first position behind which the vector is so. It stays so once it is, for vectors rise.
    async fn first_where(
        self: &Rc<Self>,
        core: &Rc<Core>,
        is_so: impl Fn(&[Offset]) -> bool,
    ) -> Result<Position, Unfound> {
        let end = self.ordered(core).await?;
        let (mut low, mut high) = (0, end.0);
        while low < high {
            let middle = low + (high - low) / 2;
            let vector = self.vector_at(core, Position(middle + 1)).await?;
            match is_so(&vector.unwrap_or_default()) {
                true => high = middle,
                false => low = middle + 1,
            }
        }
        Ok(Position(low))
    }

    /// Of each partition the first offset that has no position below this one; `None` if that is behind all that is ordered.
    ///
    /// # Errors
    /// See [`Unfound`].
    pub(crate) async fn vector_at(
        self: &Rc<Self>,
        core: &Rc<Core>,
        position: Position,
    ) -> Result<Option<Vec<Offset>>, Unfound> {
        let end = self.gather_to(core, position).await?;
        if position > end {
            self.until_lease().await.map_err(|_| Unfound::Elsewhere)?;
        }
        if position >= end {
            let vector = (position == end).then(|| self.gathered.borrow().vector());
            return Ok(vector);
        }
        if let Some(page) = self.gathered.borrow().page_of(position) {
            return Ok(Some(page.vector_at(position)));
        }
        let page = self.stored_page(core, position).await?;
        Ok(Some(page.vector_at(position)))
    }

    /// Takes from the shards what is shown, if a position is not here yet. Returns the first one that is not here then.
    async fn gather_to(self: &Rc<Self>, core: &Rc<Core>, position: Position) -> Result<Position, Stopping> {
        if self.gathered.borrow().end() <= position {
            self.gather(core).await?;
        }
        Ok(self.gathered.borrow().end())
    }

    /// Adds the places of some pages. Returns the number of their positions.
    async fn some_places(
        &self,
        core: &Rc<Core>,
        from: Position,
        count: u64,
        places: &mut Vec<Place>,
    ) -> Result<u64, Unfound> {
        if let Some(page) = self.gathered.borrow().page_of(from) {
            return Ok(add(page, from, count, places));
        }
        let mut added = 0;
        for page in self.stored_pages(core, from, PAGES_BYTES).await? {
            added += add(&page, Position(from.0 + added), count - added, places);
        }
        match added {
            0 => Err(Unfound::Fault(format!("position {} is not on its page", from.0))),
            added => Ok(added),
        }
    }

    async fn stored_page(&self, core: &Rc<Core>, position: Position) -> Result<Page, Unfound> {
        let mut pages = self.stored_pages(core, position, 1).await?;
        Ok(pages.swap_remove(0))
    }

    /// The page that has a position, and those behind it that so many bytes have room for.
    async fn stored_pages(
        &self,
        core: &Rc<Core>,
        position: Position,
        bytes_max: usize,
    ) -> Result<Vec<Page>, Unfound> {
        let partitions = core.with_metadata(|metadata| {
            let topic = metadata.topic(self.topic);
            topic.map_or(0, |topic| topic.partition_count() as usize)
        });
        let offset = Offset(i64::try_from(position.0).unwrap_or(i64::MAX));
        let pages = read_pages(&self.shard, self.pages, (offset, bytes_max), partitions).await;
        pages.map_err(Unfound::Fault)
    }

    /// The same as `gather`, where nobody waits for it.
    pub(super) async fn gather_in_time(self: Rc<Self>, core: Rc<Core>) {
        // A node that stops finds them at its next start.
        let _ = self.gather(&core).await;
    }

    /// The order is no more, or another home's: nothing is stored any more, and readers of the twin are told.
    pub(super) fn give_up(&self) {
        self.is_given_up.set(true);
        self.wake_all();
    }

    /// Takes from all shards what is shown. All that was ordered when it began is here afterwards.
    async fn gather(self: &Rc<Self>, core: &Rc<Core>) -> Result<(), Stopping> {
        if self.line.is_none() {
            return Ok(());
        }
        // Cuts that are taken must arrive, even if nobody waits for it any more.
        let (done, gathered) = oneshot::channel();
        let (home, core) = (self.clone(), core.clone());
        platform::turns::spawn(async move {
            let _ = done.send(home.gather_to_the_end(&core).await);
        });
        gathered.await.unwrap_or(Err(Stopping))
    }

    async fn gather_to_the_end(self: &Rc<Self>, core: &Rc<Core>) -> Result<(), Stopping> {
        let _turn = self.turn.lock().await;
        let mailboxes = &core.facts.mailboxes;
        let (topic, generation) = (self.topic, self.generation);
        let asked = (0..mailboxes.cores()).map(|core| {
            mailboxes.carry_out(core, move |core| async move {
                let shown = core
                    .shards()
                    .map(|shard| (shard.index, shard.take_shown(topic, generation)));
                shown.collect::<Vec<(usize, Vec<Shown>)>>()
            })
        });
        for shown in join_all(asked).await {
            let mut gathered = self.gathered.borrow_mut();
            for (shard, cuts) in shown? {
                cuts.into_iter().for_each(|cut| gathered.take(shard, cut));
            }
        }
        let has_pages = self.gathered.borrow().sealed(Position(0)).next().is_some();
        if has_pages && !self.is_storing.replace(true) {
            platform::turns::spawn(self.clone().store_pages(core.clone()));
        }
        Ok(())
    }

    /// Makes the pages that are full durable, and trims the strands. Where the journal has no room the next gathering tries again.
    async fn store_pages(self: Rc<Self>, core: Rc<Core>) {
        let stored = self.store_some(&core).await;
        self.is_storing.set(false);
        if let Err(refusal) = stored {
            tracing::warn!(topic = %self.topic, %refusal, "pages of the topic's order cannot be stored yet");
        }
    }

    async fn store_some(&self, core: &Rc<Core>) -> Result<(), AppendRefusal> {
        let end = self.shard.next_offset(self.pages)?;
        let first = Position(end.0 as u64);
        if self.is_given_up.get() {
            return Ok(());
        }
        let pages: Vec<Page> = {
            let gathered = self.gathered.borrow();
            gathered.sealed(first).map(|sealed| sealed.page.clone()).collect()
        };
        for page in &pages {
            self.shard.stage_page(self.pages, page)?;
        }
        self.shard.until_staged_is_durable().await?;
        self.trim_strands(core, pages.last());
        Ok(())
    }

    /// Gives up what of the strands is on durable pages, of which this is the last.
    fn trim_strands(&self, core: &Rc<Core>, last: Option<&Page>) {
        let Some(last) = last else { return };
        let below = Position(last.first.0 + last.count());
        let strands = self.gathered.borrow_mut().handle_durable(below);
        for (shard, entry) in strands {
            let strand = core.facts.strand_on(self.topic, shard);
            core.facts.mailboxes.send(core.facts.core_of(shard), move |core| {
                let shard = core.shard(shard).clone();
                platform::turns::spawn(async move {
                    // One that is not trimmed now is trimmed behind the next page.
                    let _ = shard.trim(strand, entry).await;
                });
            });
        }
    }
}

/// Adds the places of a page from a position on, up to so many positions. Returns the number of these.
fn add(page: &Page, from: Position, count: u64, places: &mut Vec<Place>) -> u64 {
    let mut left = count;
    for mut place in page.places(from) {
        if left == 0 || places.len() == PLACES_MAX {
            break;
        }
        let taken = left.min(place.count());
        place.next = place.first.advance(taken as i64);
        places.push(place);
        left -= taken;
    }
    count - left
}

/// The stored page that has a position, which is the offset in its partition, and those behind it that so many bytes have room for.
///
/// # Errors
/// A sentence.
pub(super) async fn read_pages(
    shard: &Rc<Shard>,
    pages: PartitionId,
    (position, bytes_max): (Offset, usize),
    partitions: usize,
) -> Result<Vec<Page>, String> {
    let told = |error: String| format!("{pages} at position {position}: {error}");
    let tail = shard.with_leader(pages, |leader| leader.tail());
    let tail = tail.map_err(|error| told(error.to_string()))?;
    let read = shard.read_batches(pages, position, tail, bytes_max).await;
    let found = read.map_err(|error| told(error.to_string()))?;
    let mut pages = Vec::new();
    for batch in found.iter().flat_map(|batches| record::batches(batches)) {
        let (_, batch) = batch.map_err(|error| told(error.to_string()))?;
        let page = decode(batch, &shard.settings.batch_limits, partitions);
        pages.push(page.map_err(told)?);
    }
    match pages.is_empty() {
        true => Err(told("nothing is found".to_owned())),
        false => Ok(pages),
    }
}

/// The page that is the one record of a batch.
fn decode(batch: &[u8], limits: &record::Limits, partitions: usize) -> Result<Page, String> {
    let mut records = record::records(batch, limits).map_err(|error| error.to_string())?;
    let record = records.next().ok_or("the batch is empty")?;
    let record = record.map_err(|error| error.to_string())?;
    Page::decode(super::value(&record), partitions).map_err(|error| error.to_string())
}
