//! The home of a topic's order: gathers what all shards have shown, puts it on pages, and finds positions.
//!
//! Nobody pays for it while nobody reads: cuts are taken from the shards when somebody asks for a position that is not here, and when a shard has very
//! many. A strand is trimmed when the page that has its cuts is durable, never before.

use std::cell::{Cell, RefCell, RefMut};
use std::rc::Rc;
use std::sync::{Arc, Weak};

use futures_util::future::join_all;
use protocol::order::{Gathered, Generation, Line, Open, Page, Place, Shown};
use record::{Offset, PartitionId, Position, TopicId};
use shard::{AppendRefusal, Shard, Watcher};
use tokio::sync::{Mutex, oneshot};

use crate::core::Core;
use crate::mailbox::Stopping;

/// Places that are found at once.
const PLACES_MAX: usize = 1_024;

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
    line: Arc<Line>,
    /// Readers of the twin: the tail that each has seen, its number for the twin, and itself. Those that gave up are found dead.
    watchers: RefCell<Vec<(Offset, u32, Weak<Watcher>)>>,
}

/// Places from a position on.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    /// In the order of their positions, without a gap; none behind all that is ordered.
    pub(crate) places: Vec<Place>,
    /// The first position that is not ordered.
    pub(crate) ordered: Position,
}

/// Why a position was not found.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unfound {
    /// A page cannot be read: a sentence.
    #[error("the topic's order cannot be read: {0}")]
    Fault(String),
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
            line,
            watchers: RefCell::default(),
            generation: open.generation,
            gathered: RefCell::new(Gathered::behind(open)),
            turn: Mutex::default(),
            is_storing: Cell::new(false),
            is_given_up: Cell::new(false),
        }
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
        let mut places = Vec::new();
        let (mut position, mut left) = (from, count);
        while left > 0 && position < end && places.len() < PLACES_MAX {
            let found = self.some_places(core, position, left, &mut places).await?;
            left -= found;
            position = Position(position.0 + found);
        }
        let ordered = self.ordered_now();
        Ok(Found { places, ordered })
    }

    /// The first position that is not ordered. All below is here.
    ///
    /// # Errors
    /// The node is stopping.
    pub(crate) async fn ordered(self: &Rc<Self>, core: &Rc<Core>) -> Result<Position, Stopping> {
        self.gather(core).await?;
        Ok(self.gathered.borrow().end())
    }

    /// The topic whose order it is.
    pub(crate) fn topic(&self) -> TopicId {
        self.topic
    }

    /// The first position that is not ordered. Those below need not be here yet.
    pub(crate) fn ordered_now(&self) -> Position {
        self.line.ordered()
    }

    /// The readers that wait for the twin.
    pub(super) fn watchers(&self) -> RefMut<'_, Vec<(Offset, u32, Weak<Watcher>)>> {
        self.watchers.borrow_mut()
    }

    /// Has the line tell this core when all below a position is ordered, or nothing more; `false` if it is already.
    pub(super) fn wait_on_line(&self, below: Option<Position>) -> bool {
        self.line.wait(self.line.waiter(), below);
        below.is_none_or(|below| self.line.ordered() < below)
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

    /// Adds the places of one page. Returns the number of their positions.
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
        let page = self.stored_page(core, from).await?;
        match add(&page, from, count, places) {
            0 => Err(Unfound::Fault(format!("position {} is not on its page", from.0))),
            added => Ok(added),
        }
    }

    async fn stored_page(&self, core: &Rc<Core>, position: Position) -> Result<Page, Unfound> {
        let partitions = core.with_metadata(|metadata| {
            let topic = metadata.topic(self.topic);
            topic.map_or(0, |topic| topic.partition_count() as usize)
        });
        let offset = Offset(i64::try_from(position.0).unwrap_or(i64::MAX));
        let page = read_page(&self.shard, self.pages, offset, partitions).await;
        page.map_err(Unfound::Fault)
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

/// The stored page that has a position, which is the offset in its partition.
///
/// # Errors
/// A sentence.
pub(super) async fn read_page(
    shard: &Rc<Shard>,
    pages: PartitionId,
    position: Offset,
    partitions: usize,
) -> Result<Page, String> {
    let told = |error: String| format!("{pages} at position {position}: {error}");
    let tail = shard.with_leader(pages, |leader| leader.tail());
    let tail = tail.map_err(|error| told(error.to_string()))?;
    let read = shard.read_batches(pages, position, tail, 1).await;
    let batches = read.map_err(|error| told(error.to_string()))?;
    let batch = batches
        .first()
        .ok_or_else(|| told("nothing is found".to_owned()))?;
    let records = record::records(batch, &shard.settings.batch_limits);
    let mut records = records.map_err(|error| told(error.to_string()))?;
    let record = records
        .next()
        .ok_or_else(|| told("the batch is empty".to_owned()))?;
    let record = record.map_err(|error| told(error.to_string()))?;
    Page::decode(super::value(&record), partitions).map_err(|error| told(error.to_string()))
}
