//! Counts what fetch sessions take of a core, together and for each address. One address may take half of it at most.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::seats::Full;

/// Sessions and their bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SessionRoom {
    pub(crate) sessions: usize,
    pub(crate) bytes: usize,
}

impl SessionRoom {
    fn plus(self, other: SessionRoom) -> SessionRoom {
        SessionRoom {
            sessions: self.sessions + other.sessions,
            bytes: self.bytes + other.bytes,
        }
    }

    fn minus(self, other: SessionRoom) -> SessionRoom {
        SessionRoom {
            sessions: self.sessions - other.sessions,
            bytes: self.bytes - other.bytes,
        }
    }

    fn is_within(self, most: SessionRoom) -> bool {
        self.sessions <= most.sessions && self.bytes <= most.bytes
    }

    pub(super) fn half(self) -> SessionRoom {
        SessionRoom {
            sessions: self.sessions.div_ceil(2),
            bytes: self.bytes / 2,
        }
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Shares {
    most: SessionRoom,
    taken: SessionRoom,
    by_address: BTreeMap<IpAddr, SessionRoom>,
}

impl Shares {
    pub(super) fn new(most: SessionRoom) -> Shares {
        Shares {
            most,
            taken: SessionRoom::default(),
            by_address: BTreeMap::new(),
        }
    }

    /// Takes `more` for an address.
    ///
    /// # Errors
    /// There is not so much left; nothing is taken then.
    pub(super) fn take(&mut self, address: IpAddr, more: SessionRoom) -> Result<(), Full> {
        let of_address = self.by_address.get(&address).copied().unwrap_or_default();
        let (taken, of_address) = (self.taken.plus(more), of_address.plus(more));
        if !of_address.is_within(self.most.half()) {
            return Err(Full::Address);
        }
        if !taken.is_within(self.most) {
            return Err(Full::All);
        }
        self.taken = taken;
        self.by_address.insert(address, of_address);
        Ok(())
    }

    /// Gives back what was taken.
    pub(super) fn give_back(&mut self, address: IpAddr, room: SessionRoom) {
        self.taken = self.taken.minus(room);
        let of_address = self.by_address.get_mut(&address);
        let of_address = of_address.expect("what is given back was taken for this address");
        *of_address = of_address.minus(room);
        if *of_address == SessionRoom::default() {
            self.by_address.remove(&address);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room(sessions: usize, bytes: usize) -> SessionRoom {
        SessionRoom { sessions, bytes }
    }

    #[test]
    fn an_address_has_half_and_all_have_no_more_than_there_is() {
        let mut shares = Shares::new(room(4, 100));
        let [one, other, third] = [1, 2, 3].map(|last| IpAddr::from([10, 0, 0, last]));
        assert_eq!(shares.take(one, room(1, 51)), Err(Full::Address));
        assert_eq!(shares.take(one, room(1, 50)), Ok(()));
        assert_eq!(
            shares.take(one, room(0, 1)),
            Err(Full::Address),
            "it grows no further"
        );
        assert_eq!(shares.take(other, room(2, 40)), Ok(()));
        assert_eq!(shares.take(other, room(1, 1)), Err(Full::Address), "it has two");
        assert_eq!(shares.take(third, room(1, 11)), Err(Full::All));
        shares.give_back(one, room(1, 50));
        assert_eq!(shares.take(third, room(1, 11)), Ok(()));
        assert_eq!((shares.taken, shares.by_address.len()), (room(3, 51), 2));
    }
}
