//! Letters between replicas, and the words that a replica is told, some of which wait for room.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use protocol::leader::NodeId;
use protocol::peer::Way;
use protocol::replica::{Assignment, Prompt, Refusal, Sworn};
use record::{Epoch, Offset, PartitionId};
use tokio::sync::OwnedSemaphorePermit;

/// Letters that wait for the metadata: one or two for each of very many partitions that get other leaders at once.
const EARLY_LETTERS_MAX: usize = 50_000;

/// A message from a replica of a partition to another one.
#[derive(Debug, Clone)]
pub struct Letter {
    /// The partition.
    pub partition: PartitionId,
    /// The message.
    pub message: Message,
    /// The way that it goes, where others pass it on.
    pub way: Option<Way>,
    /// Room that it takes until it is dropped, of one that hands over what a replica lacks.
    pub room: Option<Arc<OwnedSemaphorePermit>>,
}

impl Letter {
    /// A letter that takes no room of others.
    pub fn new(partition: PartitionId, message: Message) -> Letter {
        Letter {
            partition,
            message,
            way: None,
            room: None,
        }
    }
}

/// Its content.
#[derive(Debug, Clone)]
pub enum Message {
    /// A message that claims nothing of its sender's disk; of an append, with the bytes of the batches. Whoever delivers it has
    /// checked these, and that the facts are those of their headers.
    Prompt(Prompt, Vec<Bytes>),
    /// A message whose sender has made durable what it claims.
    Sworn(Sworn),
}

impl Message {
    pub(super) fn epoch(&self) -> Epoch {
        match self {
            Message::Prompt(prompt, _) => prompt.epoch(),
            Message::Sworn(sworn) => sworn.epoch(),
        }
    }

    /// Says that earlier epochs are over.
    pub(super) fn fences(&self) -> bool {
        let Message::Prompt(Prompt::Refused { refusal, .. }, _) = self else {
            return false;
        };
        matches!(refusal, Refusal::Fenced { .. })
    }

    /// Bytes of its batches.
    pub(super) fn batch_bytes(&self) -> usize {
        match self {
            Message::Prompt(_, batches) => batches.iter().map(Bytes::len).sum(),
            Message::Sworn(_) => 0,
        }
    }
}

/// Something that a replica is told.
#[derive(Debug, Clone)]
pub(super) enum Word {
    Assign(Assignment),
    Doubt(NodeId),
    Certain(NodeId),
    Link(NodeId),
    LinkLost(NodeId),
    Look,
    /// The batch at the log's start begins further below, or there.
    First {
        log_start: Offset,
        first: Offset,
    },
    /// What was passed on to a follower may not have reached it.
    Unreached(NodeId),
    Message(NodeId, Message),
}

impl Word {
    /// Says that it leads to no entry and is true whenever it is told. It makes room.
    pub(super) fn is_commit(&self) -> bool {
        matches!(self, Word::Message(_, Message::Prompt(Prompt::Commit { .. }, _)))
    }

    pub(super) fn batch_bytes(&self) -> usize {
        match self {
            Word::Message(_, message) => message.batch_bytes(),
            _ => 0,
        }
    }

    /// Says whether it makes an earlier one needless. Neither has batches.
    fn replaces(&self, before: &Word) -> bool {
        match (self, before) {
            (Word::Link(peer), Word::Link(other)) | (Word::LinkLost(peer), Word::LinkLost(other)) => {
                peer == other
            }
            (
                Word::Message(from, Message::Prompt(question, _)),
                Word::Message(other, Message::Prompt(asked, _)),
            ) => {
                let is_same = matches!(
                    (question, asked),
                    (Prompt::Seal { .. }, Prompt::Seal { .. })
                        | (Prompt::Compare { .. }, Prompt::Compare { .. })
                );
                is_same && from == other
            }
            _ => false,
        }
    }
}

/// Letters without batches that came before the metadata that they belong to, in their order for each partition.
#[derive(Default)]
pub(super) struct Early {
    letters: BTreeMap<PartitionId, Vec<(NodeId, Letter)>>,
    count: usize,
}

impl Early {
    pub(super) fn keep(&mut self, from: NodeId, letter: Letter) {
        if letter.message.batch_bytes() > 0 {
            return;
        }
        if self.count >= EARLY_LETTERS_MAX {
            // Mostly of partitions that are gone.
            self.letters.clear();
            self.count = 0;
        }
        self.count += 1;
        self.letters
            .entry(letter.partition)
            .or_default()
            .push((from, letter));
    }

    pub(super) fn take(&mut self, id: PartitionId) -> Vec<(NodeId, Letter)> {
        let letters = self.letters.remove(&id).unwrap_or_default();
        self.count -= letters.len();
        letters
    }

    /// Drops what a node has sent.
    pub(super) fn drop_of(&mut self, peer: NodeId) {
        for letters in self.letters.values_mut() {
            letters.retain(|(from, _)| *from != peer);
        }
        self.letters.retain(|_, letters| !letters.is_empty());
        self.count = self.letters.values().map(Vec::len).sum();
    }
}

/// Words that wait, in the order in which they came for each partition.
#[derive(Default)]
pub(super) struct Deferred {
    pub(super) words: BTreeMap<PartitionId, VecDeque<Word>>,
    /// Those of their batches.
    pub(super) bytes: usize,
}

impl Deferred {
    pub(super) fn has(&self, id: PartitionId) -> bool {
        self.words.contains_key(&id)
    }

    pub(super) fn push_back(&mut self, id: PartitionId, word: Word) {
        // Asked again and again, a node that has no room keeps the last question.
        if let Some(words) = self.words.get_mut(&id) {
            words.retain(|before| !word.replaces(before));
        }
        self.bytes += word.batch_bytes();
        self.words.entry(id).or_default().push_back(word);
    }

    pub(super) fn push_front(&mut self, id: PartitionId, word: Word) {
        self.bytes += word.batch_bytes();
        self.words.entry(id).or_default().push_front(word);
    }

    /// Takes the first word. The partition keeps its place until [`Deferred::tidy`].
    pub(super) fn pop(&mut self, id: PartitionId) -> Option<Word> {
        let word = self.words.get_mut(&id)?.pop_front()?;
        self.bytes -= word.batch_bytes();
        Some(word)
    }

    pub(super) fn tidy(&mut self, id: PartitionId) {
        if self.words.get(&id).is_some_and(VecDeque::is_empty) {
            self.words.remove(&id);
        }
    }

    pub(super) fn forget(&mut self, id: PartitionId) {
        let words = self.words.remove(&id).unwrap_or_default();
        self.bytes -= words.iter().map(Word::batch_bytes).sum::<usize>();
    }

    /// Drops what a node has sent.
    pub(super) fn drop_of(&mut self, peer: NodeId) {
        let is_of_peer = |word: &Word| matches!(word, Word::Message(from, _) if *from == peer);
        for words in self.words.values_mut() {
            words.retain(|word| !is_of_peer(word));
        }
        let left = self.words.values().flatten();
        self.bytes = left.map(Word::batch_bytes).sum();
    }
}

/// No epoch opens without all that was committed, so no replica should know of more: a disk has lost what nobody noticed.
pub(super) fn tell_contradiction(id: PartitionId, from: NodeId, prompt: &Prompt) {
    if let Prompt::Refused {
        refusal: Refusal::Committed { tail },
        ..
    } = prompt
    {
        tracing::error!(
            partition = %id,
            from = from.0,
            %tail,
            "a replica knows of committed records that this leader lacks, and takes nothing from it: was a disk restored from a copy?"
        );
    }
}
