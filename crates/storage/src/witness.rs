//! Witnesses of other nodes' journals: how far they were durable. The journal notes each as it comes, and each checkpoint has all, since
//! the journal's files are used again.
//!
//! A node that comes back with less than it has acknowledged has lost something, and only others can tell.

use std::collections::BTreeMap;

use crate::checksum::DirectoryId;

/// The last frame of another node's journal that was durable once, as that node has acknowledged to this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Witness {
    /// The node.
    pub node: i32,
    /// Its directory.
    pub directory: DirectoryId,
    /// Its journal.
    pub journal: u32,
    /// The last frame of it that was durable.
    pub frame: u64,
}

/// The journal that a witness is of: its node, its directory and its number there.
pub(crate) type WitnessedJournal = (i32, DirectoryId, u32);

impl Witness {
    /// The journal that it is of.
    pub(crate) fn of(&self) -> WitnessedJournal {
        (self.node, self.directory, self.journal)
    }

    /// Says whether there can be that node, and that frame: the journal's entries have signed numbers.
    pub(crate) fn is_possible(&self) -> bool {
        self.node >= 0 && i64::try_from(self.frame).is_ok()
    }
}

/// Knowledge of the journals of other nodes: of each the greatest frame that was durable.
#[derive(Debug, Clone, Default)]
pub(crate) struct Witnesses {
    frames: BTreeMap<WitnessedJournal, u64>,
}

impl Witnesses {
    /// Takes note of one. A frame that was durable stays so, whatever is said later.
    pub(crate) fn note(&mut self, witness: &Witness) {
        let frame = self.frames.entry(witness.of()).or_default();
        *frame = witness.frame.max(*frame);
    }

    /// One for each journal, in ascending order of journals.
    pub(crate) fn list(&self) -> Vec<Witness> {
        let witness = |(&(node, directory, journal), &frame): (&WitnessedJournal, &u64)| Witness {
            node,
            directory,
            journal,
            frame,
        };
        self.frames.iter().map(witness).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_each_journal_the_greatest_frame_counts() {
        let witness = |node, directory, journal, frame| Witness {
            node,
            directory: DirectoryId([directory; 16]),
            journal,
            frame,
        };
        let mut witnesses = Witnesses::default();
        for noted in [
            witness(2, 1, 0, 5),
            witness(1, 9, 1, 7),
            witness(1, 9, 1, 6),
            witness(1, 9, 0, 0),
            witness(2, 1, 0, 8),
            witness(1, 8, 1, 3),
        ] {
            witnesses.note(&noted);
        }
        let listed = [
            witness(1, 8, 1, 3),
            witness(1, 9, 0, 0),
            witness(1, 9, 1, 7),
            witness(2, 1, 0, 8),
        ];
        assert_eq!(witnesses.list(), listed);
    }
}
