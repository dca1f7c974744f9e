//! Batches that take longer to examine than a core has time for, as those that unpack to much more than they are: they wait here
//! and are examined one after the other, on a thread that does nothing else.
//!
//! An append that comes while another one of its client and its partition is here waits here too, however light it is: so the
//! appends of a client to a partition leave in the order they came in, and only then may wait for room (`waiting_room`). All
//! others pass by. Clients, by their addresses, have a batch each in turn: a client that sends much lets others wait for one of its
//! batches, not for all. A batch that nobody waits for any more is not begun.
//!
//! A batch that its topic wants compressed in another way is here too, and leaves in its new form. That may be longer than the
//! sent one, and no budget has counted the difference: so none is begun while many such batches wait for room behind this.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::rc::Rc;

use platform::turns;
use record::PartitionId;
use tokio::sync::Notify;
use tokio::task::yield_now;

use super::Shard;
use super::append::{AppendRefusal, AppendRequest, Approved};
use super::waiting_room::WaitingRoom;

/// The most bytes by which batches that wait for room may have grown together: beyond them no more are compressed anew.
pub(super) const GROWN_BYTES_MAX: usize = 16 << 20;

/// The address of a client, as in `AppendRequest::from`.
type Client = Option<IpAddr>;

/// See the module.
#[derive(Default)]
pub(super) struct Examinations {
    waiting: RefCell<Waiting>,
    /// The client and the partition of the batch that is being examined.
    under_way: Cell<Option<(Client, PartitionId)>>,
    /// Something waits.
    came: Notify,
    /// Some of what waited for room is there no more.
    room: Notify,
}

/// A room for each client that has something in it.
#[derive(Default)]
struct Waiting {
    rooms: BTreeMap<Client, WaitingRoom<AppendRequest>>,
    /// Each of them once; the first is the next to have its turn.
    clients: VecDeque<Client>,
}

impl Waiting {
    fn push(&mut self, request: AppendRequest) {
        let client = request.from;
        let room = self.rooms.entry(client).or_insert_with(|| {
            self.clients.push_back(client);
            WaitingRoom::default()
        });
        room.push(request);
    }

    /// Takes the first one that is still wanted of the client whose turn it is.
    fn pop_wanted(&mut self) -> Option<AppendRequest> {
        loop {
            let client = self.clients.pop_front()?;
            let room = self.rooms.get_mut(&client).expect("it has a room");
            let wanted = room.pop_wanted();
            match room.is_empty() {
                true => drop(self.rooms.remove(&client)),
                false => self.clients.push_back(client),
            }
            if wanted.is_some() {
                return wanted;
            }
        }
    }
}

impl Examinations {
    /// Says whether something is here that an append must not overtake.
    pub(super) fn has_before(&self, request: &AppendRequest) -> bool {
        let AppendRequest { from, partition, .. } = request;
        let waiting = self.waiting.borrow();
        let waits = || waiting.rooms.get(from).is_some_and(|room| room.has(*partition));
        self.under_way.get() == Some((*from, *partition)) || waits()
    }

    /// Has a batch examined behind all others of its client.
    pub(super) fn push(&self, request: AppendRequest) {
        self.waiting.borrow_mut().push(request);
        self.came.notify_one();
    }

    /// The number of appends that wait behind the one under way.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.waiting.borrow().rooms.values().map(WaitingRoom::len).sum()
    }

    /// Takes all that wait. The examination under way comes to its end.
    pub(super) fn take_all(&self) -> impl Iterator<Item = AppendRequest> + use<> {
        let Waiting { mut rooms, clients } = self.waiting.take();
        let in_turn = clients
            .into_iter()
            .filter_map(move |client| rooms.remove(&client));
        in_turn.flat_map(|mut room| room.take_all())
    }

    /// Takes the next one. It counts as being here until `end`.
    fn begin(&self) -> Option<AppendRequest> {
        let request = self.waiting.borrow_mut().pop_wanted()?;
        self.under_way.set(Some((request.from, request.partition)));
        Some(request)
    }

    /// Has those looked at again that wait for others to have room.
    pub(super) fn note_room(&self) {
        self.room.notify_one();
    }

    fn end(&self) {
        let under_way = self.under_way.take();
        assert!(under_way.is_some(), "what ends was begun");
    }
}

impl Shard {
    /// Starts to examine what takes long, on the core that calls.
    pub fn start_examining(self: &Rc<Self>) {
        turns::spawn(self.clone().examine_for_ever());
    }

    async fn examine_for_ever(self: Rc<Self>) {
        loop {
            let Some(request) = self.examinations.begin() else {
                self.examinations.came.notified().await;
                continue;
            };
            let (request, examined) = self.examine_elsewhere(request).await;
            // Nothing else is done in between: what comes next of its client and partition comes behind it.
            self.examinations.end();
            // Since it came, appends may be refused.
            let refused = self.refuses_from(request.partition());
            self.append_examined(request, refused.map_or(examined, Err));
            if turns::is_spent() {
                yield_now().await;
            }
        }
    }

    async fn examine_elsewhere(
        &self,
        request: AppendRequest,
    ) -> (AppendRequest, Result<Approved, AppendRefusal>) {
        if self.wants_new_form(&request) {
            self.until_few_have_grown().await;
        }
        match self.examiner(&request) {
            Ok(examiner) => {
                let mut request = request;
                let examine = move || {
                    let examined = examiner.examine(&mut request);
                    (request, examined)
                };
                self.threads.examining.run(examine).await
            }
            Err(refusal) => (request, Err(refusal)),
        }
    }

    fn wants_new_form(&self, request: &AppendRequest) -> bool {
        let examiner = self.examiner(request);
        examiner.is_ok_and(|examiner| examiner.new_form(&request.batch).is_some())
    }

    /// Waits while those that wait for room hold much more than was sent. They get room, or are refused: no append that comes
    /// behind them could have had it before.
    async fn until_few_have_grown(&self) {
        while self.grown_bytes() >= GROWN_BYTES_MAX {
            self.examinations.room.notified().await;
        }
    }

    pub(super) fn grown_bytes(&self) -> usize {
        let rooms = [&self.waiting.for_journal, &self.waiting.for_memory];
        let for_room: usize = rooms.map(|room| room.borrow().grown_bytes()).into_iter().sum();
        let for_commit = self.waiting.for_commit.borrow();
        let for_commit: usize = for_commit.values().map(WaitingRoom::grown_bytes).sum();
        for_room + for_commit
    }
}
