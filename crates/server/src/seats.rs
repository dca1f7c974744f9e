//! Places that are bounded altogether and for one address: of connections, of HTTP's connections and followers. The
//! newcomer is refused, never the one that has a place.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of places. Those that were taken before a limit was lowered stay.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SeatLimits {
    pub(crate) all: usize,
    pub(crate) per_address: usize,
}

/// The limit that leaves no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Full {
    All,
    Address,
}

/// Counted while it lives.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(counter: &Arc<AtomicUsize>) -> Counted {
        counter.fetch_add(1, Ordering::Relaxed);
        Counted(counter.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A place among those allowed altogether and for its address; free again when dropped.
pub(crate) struct Seat {
    _all: Counted,
    _of_address: Counted,
}

/// The places that are taken.
#[derive(Default)]
pub(crate) struct Seats {
    all: Arc<AtomicUsize>,
    /// The counts of addresses that have places, and of some that had.
    by_address: BTreeMap<IpAddr, Arc<AtomicUsize>>,
}

impl Seats {
    /// A place for `address`. A newcomer that is refused leaves nothing behind.
    ///
    /// # Errors
    /// There is none left, altogether or for this address.
    pub(crate) fn take(&mut self, address: IpAddr, limits: &SeatLimits) -> Result<Seat, Full> {
        let known = self.by_address.get(&address);
        let of_address = known.map_or(0, |counter| counter.load(Ordering::Relaxed));
        if of_address >= limits.per_address {
            return Err(Full::Address);
        }
        if self.all.load(Ordering::Relaxed) >= limits.all {
            return Err(Full::All);
        }
        if self.by_address.len() >= limits.all {
            self.by_address
                .retain(|_, counter| counter.load(Ordering::Relaxed) > 0);
        }
        Ok(Seat {
            _all: Counted::new(&self.all),
            _of_address: Counted::new(self.by_address.entry(address).or_default()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: SeatLimits = SeatLimits {
        all: 3,
        per_address: 2,
    };

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    #[test]
    fn there_are_so_many_places_altogether_and_for_one_address() {
        let mut seats = Seats::default();
        let first = seats.take(address(1), &LIMITS);
        let second = seats.take(address(1), &LIMITS);
        assert!(first.is_ok() && second.is_ok());
        let refused = seats.take(address(1), &LIMITS).err();
        assert_eq!(refused, Some(Full::Address), "one address has two");
        let third = seats.take(address(2), &LIMITS);
        assert!(third.is_ok());
        let refused = seats.take(address(2), &LIMITS).err();
        assert_eq!(refused, Some(Full::All), "there are three");
        drop(first);
        assert!(seats.take(address(1), &LIMITS).is_ok(), "a place is free again");
    }

    #[test]
    fn neither_a_refused_address_nor_one_that_has_gone_is_remembered() {
        let mut seats = Seats::default();
        for last in 0..100 {
            assert!(seats.take(address(last), &LIMITS).is_ok());
        }
        assert!(seats.by_address.len() <= LIMITS.all);
        let held: Vec<Seat> = (0..3)
            .filter_map(|last| seats.take(address(last), &LIMITS).ok())
            .collect();
        assert_eq!(held.len(), 3);
        for last in 3..100 {
            assert!(seats.take(address(last), &LIMITS).is_err());
        }
        assert_eq!(seats.by_address.len(), LIMITS.all);
    }
}
