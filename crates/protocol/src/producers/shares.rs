//! Places for producers that each client's address has taken, of a partition's or of a journal's.
//!
//! One client must not be able to keep new producers from all others: the one that has its share is refused, nobody that was
//! there before is put out. Producers that were there at the start count for nobody, as the log does not say for whom they
//! were taken on; like all they go once they cannot retry any more.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;
use std::num::NonZeroU64;

/// A client's address in eight bytes, as each producer's entry has one. Two addresses that have the same one by chance
/// would share a share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Client(NonZeroU64);

impl From<IpAddr> for Client {
    fn from(address: IpAddr) -> Client {
        let mut hasher = DefaultHasher::new();
        address.hash(&mut hasher);
        Client(NonZeroU64::new(hasher.finish()).unwrap_or(NonZeroU64::MIN))
    }
}

/// One place more or less that a client's address has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShareChange {
    /// A producer was taken on for it.
    TakenOn(Client),
    /// A producer that was taken on for it is forgotten.
    Forgotten(Client),
}

/// See the module. An address without producers takes no memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shares {
    /// The most places of one address.
    share_max: usize,
    taken: BTreeMap<Client, u32>,
    /// The number of addresses that have taken most of their share.
    crowded: usize,
}

impl Shares {
    /// Nobody has taken any of so many places; each address may take half of them.
    #[must_use]
    pub fn of(places: usize) -> Shares {
        Shares {
            share_max: places.div_ceil(2),
            taken: BTreeMap::new(),
            crowded: 0,
        }
    }

    /// The most places of one address.
    #[must_use]
    pub fn share_max(&self) -> usize {
        self.share_max
    }

    /// Returns the number of places that a client's address has taken.
    #[must_use]
    pub fn taken_by(&self, client: Client) -> usize {
        self.taken.get(&client).map_or(0, |places| *places as usize)
    }

    /// Says whether an address has taken its share. A batch that comes from no client has none.
    #[must_use]
    pub fn is_taken(&self, from: Option<IpAddr>) -> bool {
        from.is_some_and(|address| self.taken_by(Client::from(address)) >= self.share_max)
    }

    /// Says whether an address has taken so much of its share that producers which cannot retry any more should make room.
    #[must_use]
    pub fn is_tight(&self) -> bool {
        self.crowded > 0
    }

    /// Counts a place that was taken or given back.
    ///
    /// # Panics
    /// It is given back without having been taken.
    pub fn note(&mut self, change: ShareChange) {
        match change {
            ShareChange::TakenOn(client) => self.take(client),
            ShareChange::Forgotten(client) => self.give_back(client, 1),
        }
    }

    /// Counts that everything in `others`, a part of this, is given back.
    ///
    /// # Panics
    /// It is no part of this.
    pub fn give_all_back(&mut self, others: &Shares) {
        for (client, places) in &others.taken {
            self.give_back(*client, *places);
        }
    }

    fn take(&mut self, client: Client) {
        let crowded_from = self.crowded_from();
        let places = self.taken.entry(client).or_default();
        let was_crowded = *places as usize >= crowded_from;
        *places += 1;
        let is_crowded = *places as usize >= crowded_from;
        self.crowded += usize::from(is_crowded && !was_crowded);
    }

    fn give_back(&mut self, client: Client, places: u32) {
        let crowded_from = self.crowded_from();
        let taken = self.taken.get_mut(&client).expect("its places were taken");
        let was_crowded = *taken as usize >= crowded_from;
        *taken = taken.checked_sub(places).expect("so many places were taken");
        let is_crowded = *taken as usize >= crowded_from;
        self.crowded -= usize::from(was_crowded && !is_crowded);
        if *taken == 0 {
            self.taken.remove(&client);
        }
    }

    /// Three quarters of a share, and at least one place.
    fn crowded_from(&self) -> usize {
        (self.share_max - self.share_max / 4).max(1)
    }
}
