//! The errors that one message tells, each once: what a node counts of its answers.

use crate::ErrorCode;

const WORDS: usize = 3;
const BITS: usize = u64::BITS as usize;
const _: () = assert!(place_of(ErrorCode::ALL[ErrorCode::ALL.len() - 1]) < WORDS * BITS);

/// See the module. A code that Kafka does not have counts as its unknown error.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ErrorSet([u64; WORDS]);

/// The codes begin at -1.
const fn place_of(code: ErrorCode) -> usize {
    (code as i16 + 1) as usize
}

impl ErrorSet {
    pub(super) fn insert(&mut self, code: i16) {
        let code = ErrorCode::from_code(code).unwrap_or(ErrorCode::UnknownServerError);
        let place = place_of(code);
        self.0[place / BITS] |= 1 << (place % BITS);
    }

    /// Says whether no error was told.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0 == [0; WORDS]
    }

    /// The errors, in ascending order of their codes.
    pub fn iter(&self) -> impl Iterator<Item = ErrorCode> {
        let holds = |code: &ErrorCode| {
            let place = place_of(*code);
            self.0[place / BITS] & (1 << (place % BITS)) != 0
        };
        ErrorCode::ALL.iter().copied().filter(holds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_is_kept_once_and_what_is_not_known_as_unknown() {
        let mut set = ErrorSet::default();
        assert!(set.is_empty());
        let errors = ErrorCode::ALL.iter().filter(|code| **code != ErrorCode::None);
        for code in errors.clone().chain(errors.clone()) {
            set.insert(code.code());
        }
        assert!(set.iter().eq(errors.copied()));
        let mut unknown = ErrorSet::default();
        unknown.insert(i16::MAX);
        assert!(unknown.iter().eq([ErrorCode::UnknownServerError]));
    }
}
