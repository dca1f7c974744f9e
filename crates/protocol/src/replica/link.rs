//! The cursors of a link: how far a leader's core has sent its journal's frames to a follower's, and how far these are durable
//! there.
//!
//! Stands between the journal and the connection of two cores, for all partitions that they share. A frame is sent once for all
//! of them, and one number acknowledges it: the list of what each frame appended turns that number into an end for every
//! partition in it. Nothing is kept for a partition that gets every frame; only the exceptions are. A cursor must never take
//! what an earlier connection delivers, nor count a frame for a partition that did not take its part of it.

use std::collections::{BTreeMap, VecDeque};

use record::{Offset, PartitionId};
use thiserror::Error;

/// A frame of the sender's journal. They rise by one; the first is 1, and 0 stands before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct FrameNumber(pub u64);

/// The number of a connection of a pair, counted up by the side that takes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Generation(pub u64);

/// A follower's progress with the frames of a leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ack {
    /// The connection that the frames came on.
    pub generation: Generation,
    /// The last frame that arrived.
    pub received: FrameNumber,
    /// The last frame that is durable with all before it.
    pub durable: FrameNumber,
}

/// Why a message of a link does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum LinkError {
    /// It came on a connection that was replaced. Drop it.
    #[error("it came on a connection that was replaced")]
    Replaced,
    /// A frame is missing before this one. Close the connection: the sender resumes.
    #[error("frame {} is missing", .expected.0)]
    Gap {
        /// The frame that follows the last one received.
        expected: FrameNumber,
    },
    /// It acknowledges frames that were not sent, or more durable than received. Close the connection.
    #[error("the acknowledgement does not fit what was sent")]
    Impossible,
}

/// The ends that the frames of one journal appended, kept until every link has had them acknowledged.
#[derive(Debug, Clone, Default)]
pub struct KeptFrames {
    frames: VecDeque<KeptFrame>,
    ends: usize,
    /// The most ends that are kept. A link that is further behind compares its partitions instead.
    ends_max: usize,
    last: FrameNumber,
}

#[derive(Debug, Clone)]
struct KeptFrame {
    number: FrameNumber,
    appended: Box<[(PartitionId, Offset)]>,
}

impl KeptFrames {
    /// Nothing yet. At most `ends_max` ends of partitions are kept, each of 32 bytes.
    #[must_use]
    pub fn new(ends_max: usize) -> KeptFrames {
        KeptFrames {
            ends_max,
            ..KeptFrames::default()
        }
    }

    /// Keeps what the next frame appended: the end of each partition in it.
    pub fn push(&mut self, appended: Vec<(PartitionId, Offset)>) -> FrameNumber {
        self.last = FrameNumber(self.last.0 + 1);
        self.ends += appended.len();
        self.frames.push_back(KeptFrame {
            number: self.last,
            appended: appended.into(),
        });
        while self.ends > self.ends_max
            && let Some(oldest) = self.frames.pop_front()
        {
            self.ends -= oldest.appended.len();
        }
        self.last
    }

    /// Forgets the frames that every link has had acknowledged.
    pub fn release(&mut self, durable_everywhere: FrameNumber) {
        let released = self
            .frames
            .partition_point(|frame| frame.number <= durable_everywhere);
        for frame in self.frames.drain(..released) {
            self.ends -= frame.appended.len();
        }
    }

    /// The last frame.
    #[must_use]
    pub fn last(&self) -> FrameNumber {
        self.last
    }

    /// Says whether everything behind `frame` is kept.
    #[must_use]
    pub fn continues(&self, frame: FrameNumber) -> bool {
        let oldest = self
            .frames
            .front()
            .map_or(self.last.0 + 1, |oldest| oldest.number.0);
        frame <= self.last && frame.0 + 1 >= oldest
    }

    fn between(&self, after: FrameNumber, last: FrameNumber) -> impl Iterator<Item = &KeptFrame> {
        let from = self.frames.partition_point(|frame| frame.number <= after);
        let frames = self.frames.range(from..);
        frames.take_while(move |frame| frame.number <= last)
    }
}

/// The leader's side of a link.
#[derive(Debug, Clone)]
pub struct SendCursor {
    generation: Generation,
    sent: FrameNumber,
    received: FrameNumber,
    durable: FrameNumber,
    /// The sizes of the frames that have not arrived.
    on_their_way: VecDeque<(FrameNumber, usize)>,
    bytes: usize,
    bytes_max: usize,
    /// The partitions that do not get every frame: `None` while they catch up, then the first frame that counts for them.
    exceptions: BTreeMap<PartitionId, Option<FrameNumber>>,
}

/// The way in which a link goes on after it was taken anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resume {
    /// Send the frames behind this one again: the peer is the same process and they are all kept.
    Behind(FrameNumber),
    /// Have each partition's replica compare ([`super::Replica::handle_link`]); frames count from the next one on.
    Compare,
}

impl SendCursor {
    /// A link that was never taken. At most `bytes_max` are on their way, but for one frame.
    #[must_use]
    pub fn new(bytes_max: usize) -> SendCursor {
        SendCursor {
            generation: Generation::default(),
            sent: FrameNumber::default(),
            received: FrameNumber::default(),
            durable: FrameNumber::default(),
            on_their_way: VecDeque::new(),
            bytes: 0,
            bytes_max,
            exceptions: BTreeMap::new(),
        }
    }

    /// Takes a connection in the place of the one before. `durable` is what the peer says it has of this sender's frames;
    /// `None` if the peer, or this node, has started anew since.
    pub fn handle_taken(
        &mut self,
        generation: Generation,
        durable: Option<FrameNumber>,
        kept: &KeptFrames,
    ) -> Resume {
        assert!(generation > self.generation, "connections are counted up");
        self.generation = generation;
        self.on_their_way.clear();
        self.bytes = 0;
        let resumed = durable.filter(|durable| *durable >= self.durable && kept.continues(*durable));
        let behind = resumed.unwrap_or(kept.last());
        (self.sent, self.received, self.durable) = (behind, behind, behind);
        match resumed {
            Some(durable) => Resume::Behind(durable),
            None => {
                self.exceptions.clear();
                Resume::Compare
            }
        }
    }

    /// Says whether a frame may be sent now. One always may where nothing is on its way.
    #[must_use]
    pub fn has_room(&self, bytes: usize) -> bool {
        self.bytes == 0 || self.bytes + bytes <= self.bytes_max
    }

    /// Takes note that the next frame was handed to the connection. Gives the number of the one that was sent before it on this
    /// link, which the frame has to name.
    pub fn handle_sent(&mut self, frame: FrameNumber, bytes: usize) -> FrameNumber {
        let before = self.sent;
        assert!(frame > before, "frames are sent in order");
        self.sent = frame;
        self.bytes += bytes;
        self.on_their_way.push_back((frame, bytes));
        before
    }

    /// Takes a partition out: its part of the frames does not count until it is live again.
    pub fn handle_apart(&mut self, partition: PartitionId) {
        self.exceptions.insert(partition, None);
    }

    /// Lets a partition in: it gets its part of every frame behind the last one sent.
    pub fn handle_live(&mut self, partition: PartitionId) {
        if let Some(exception) = self.exceptions.get_mut(&partition) {
            *exception = Some(FrameNumber(self.sent.0 + 1));
        }
    }

    /// Says whether a partition gets its part of the next frame.
    #[must_use]
    pub fn is_live(&self, partition: PartitionId) -> bool {
        self.exceptions.get(&partition).is_none_or(Option::is_some)
    }

    /// Takes an acknowledgement; gives how far each partition in the frames is durable at the peer.
    ///
    /// # Errors
    /// See [`LinkError`]; nothing has changed then.
    pub fn handle_ack(
        &mut self,
        ack: Ack,
        kept: &KeptFrames,
        durable: &mut Vec<(PartitionId, Offset)>,
    ) -> Result<(), LinkError> {
        if ack.generation != self.generation {
            return Err(LinkError::Replaced);
        }
        if ack.received > self.sent || ack.durable > ack.received {
            return Err(LinkError::Impossible);
        }
        while self
            .on_their_way
            .front()
            .is_some_and(|(frame, _)| *frame <= ack.received)
        {
            let (_, bytes) = self.on_their_way.pop_front().expect("there is one");
            self.bytes -= bytes;
        }
        self.received = self.received.max(ack.received);
        for frame in kept.between(self.durable, ack.durable) {
            let counts = |partition: &PartitionId| match self.exceptions.get(partition) {
                None => true,
                Some(from) => from.is_some_and(|from| from <= frame.number),
            };
            durable.extend(frame.appended.iter().filter(|(partition, _)| counts(partition)));
        }
        self.durable = self.durable.max(ack.durable);
        let reached = self.durable;
        self.exceptions
            .retain(|_, from| from.is_none_or(|from| from.0 > reached.0 + 1));
        Ok(())
    }

    /// The last frame that is durable at the peer with all before it.
    #[must_use]
    pub fn durable(&self) -> FrameNumber {
        self.durable
    }

    /// The last frame that has arrived at the peer.
    #[must_use]
    pub fn received(&self) -> FrameNumber {
        self.received
    }
}

/// The follower's side of a link.
#[derive(Debug, Clone, Default)]
pub struct ReceiveCursor {
    generation: Generation,
    received: FrameNumber,
    durable: FrameNumber,
    /// The own frame that each of the sender's went into.
    staged: VecDeque<(FrameNumber, FrameNumber)>,
    last_sent: Option<Ack>,
}

impl ReceiveCursor {
    /// Takes a connection; the sender goes on behind `behind`.
    pub fn handle_taken(&mut self, generation: Generation, behind: FrameNumber) {
        assert!(generation > self.generation, "connections are counted up");
        self.generation = generation;
        self.staged.retain(|(frame, _)| *frame <= behind);
        self.received = behind;
        self.durable = self.durable.min(behind);
        if self.staged.is_empty() {
            self.durable = behind;
        }
        self.last_sent = None;
    }

    /// Takes a frame whose parts can be staged now. `before` is the frame that the sender sent before it.
    ///
    /// # Errors
    /// It is of an earlier connection, or one is missing; nothing has changed then.
    pub fn handle_frame(
        &mut self,
        generation: Generation,
        frame: FrameNumber,
        before: FrameNumber,
    ) -> Result<(), LinkError> {
        if generation != self.generation {
            return Err(LinkError::Replaced);
        }
        if before != self.received || frame <= before {
            let expected = FrameNumber(self.received.0 + 1);
            return Err(LinkError::Gap { expected });
        }
        self.received = frame;
        Ok(())
    }

    /// Takes note that the last frame received is staged in this node's journal: all of it that was not refused is durable once
    /// `own` is.
    pub fn handle_staged(&mut self, own: FrameNumber) {
        self.staged.push_back((self.received, own));
    }

    /// Takes note that this node's frames up to `own` are durable.
    pub fn handle_flushed(&mut self, own: FrameNumber) {
        while self.staged.front().is_some_and(|(_, staged)| *staged <= own) {
            let (frame, _) = self.staged.pop_front().expect("there is one");
            self.durable = self.durable.max(frame);
        }
    }

    /// The acknowledgement to send, if it says more than the last one. Refusals of frames in it must have been sent before.
    pub fn next_ack(&mut self) -> Option<Ack> {
        let ack = Ack {
            generation: self.generation,
            received: self.received,
            durable: self.durable,
        };
        let is_news = self.last_sent != Some(ack);
        self.last_sent = Some(ack);
        is_news.then_some(ack)
    }
}

#[cfg(test)]
mod tests {
    use record::TopicId;

    use super::*;

    const FIRST: Generation = Generation(1);

    fn partition(index: i32) -> PartitionId {
        PartitionId {
            topic: TopicId::default(),
            index,
        }
    }

    /// Both sides of a link, and the frames of the sender, each with one batch of partitions 0 and 1.
    struct Pair {
        kept: KeptFrames,
        sender: SendCursor,
        receiver: ReceiveCursor,
    }

    impl Pair {
        fn new() -> Pair {
            let mut pair = Pair {
                kept: KeptFrames::new(100),
                sender: SendCursor::new(1000),
                receiver: ReceiveCursor::default(),
            };
            assert_eq!(pair.sender.handle_taken(FIRST, None, &pair.kept), Resume::Compare);
            pair.receiver.handle_taken(FIRST, FrameNumber(0));
            pair
        }

        fn send(&mut self) -> FrameNumber {
            let end = Offset(i64::try_from(self.kept.last().0).expect("small") + 1);
            let frame = self.kept.push(vec![(partition(0), end), (partition(1), end)]);
            self.sender.handle_sent(frame, 100)
        }

        fn arrive(&mut self, frame: u64) {
            let frame = FrameNumber(frame);
            let before = FrameNumber(frame.0 - 1);
            self.receiver
                .handle_frame(FIRST, frame, before)
                .expect("it follows");
        }

        fn acknowledge(&mut self) -> Vec<(i32, i64)> {
            let ack = self.receiver.next_ack().expect("there is news");
            let mut durable = Vec::new();
            self.sender
                .handle_ack(ack, &self.kept, &mut durable)
                .expect("it fits");
            durable.iter().map(|(of, end)| (of.index, end.0)).collect()
        }
    }

    #[test]
    fn one_number_acknowledges_all_partitions_of_its_frames() {
        let mut pair = Pair::new();
        for frame in 1..=3 {
            pair.send();
            pair.arrive(frame);
            pair.receiver.handle_staged(FrameNumber(40 + frame / 2));
        }
        assert_eq!(pair.acknowledge(), []);
        assert_eq!(pair.sender.received(), FrameNumber(3));
        pair.receiver.handle_flushed(FrameNumber(40));
        assert_eq!(pair.acknowledge(), [(0, 1), (1, 1)]);
        pair.receiver.handle_flushed(FrameNumber(41));
        assert_eq!(pair.acknowledge(), [(0, 2), (1, 2), (0, 3), (1, 3)]);
        assert_eq!(pair.receiver.next_ack(), None);
    }

    #[test]
    fn a_partition_that_is_apart_is_acknowledged_by_no_frame() {
        let mut pair = Pair::new();
        pair.send();
        pair.arrive(1);
        pair.receiver.handle_staged(FrameNumber(1));
        pair.sender.handle_apart(partition(1));
        pair.receiver.handle_flushed(FrameNumber(1));
        assert_eq!(pair.acknowledge(), [(0, 1)]);
        assert!(!pair.sender.is_live(partition(1)));

        // It is live again behind the second frame: the third is the first that counts.
        pair.send();
        pair.sender.handle_live(partition(1));
        pair.send();
        for frame in 2..=3 {
            pair.arrive(frame);
            pair.receiver.handle_staged(FrameNumber(frame));
        }
        pair.receiver.handle_flushed(FrameNumber(3));
        assert_eq!(pair.acknowledge(), [(0, 2), (0, 3), (1, 3)]);
        assert!(pair.sender.exceptions.is_empty());
    }

    #[test]
    fn what_an_earlier_connection_delivers_is_dropped() {
        let mut pair = Pair::new();
        pair.send();
        pair.arrive(1);
        pair.receiver.handle_staged(FrameNumber(1));
        pair.receiver.handle_flushed(FrameNumber(1));
        let late = pair.receiver.next_ack().expect("there is news");
        let second = Generation(2);
        let resumed = pair.sender.handle_taken(second, Some(FrameNumber(0)), &pair.kept);
        assert_eq!(resumed, Resume::Behind(FrameNumber(0)));
        let mut durable = Vec::new();
        let refused = pair.sender.handle_ack(late, &pair.kept, &mut durable);
        assert_eq!((refused, durable), (Err(LinkError::Replaced), Vec::new()));
        pair.receiver.handle_taken(second, FrameNumber(0));
        let old = pair.receiver.handle_frame(FIRST, FrameNumber(1), FrameNumber(0));
        assert_eq!(old, Err(LinkError::Replaced));
    }

    #[test]
    fn a_missing_frame_is_found_and_sent_again() {
        let mut pair = Pair::new();
        pair.send();
        let before = pair.send();
        assert_eq!(before, FrameNumber(1));
        let gap = pair.receiver.handle_frame(FIRST, FrameNumber(2), before);
        assert_eq!(
            gap,
            Err(LinkError::Gap {
                expected: FrameNumber(1)
            })
        );
        let resumed = pair
            .sender
            .handle_taken(Generation(2), Some(FrameNumber(0)), &pair.kept);
        assert_eq!(resumed, Resume::Behind(FrameNumber(0)));
        assert_eq!(pair.sender.handle_sent(FrameNumber(1), 100), FrameNumber(0));
    }

    #[test]
    fn a_peer_that_started_anew_or_is_too_far_behind_compares() {
        let mut pair = Pair::new();
        for _ in 0..60 {
            pair.send();
        }
        let too_far = Some(FrameNumber(3));
        assert_eq!(
            pair.sender.handle_taken(Generation(2), too_far, &pair.kept),
            Resume::Compare
        );
        assert_eq!(
            pair.sender.handle_taken(Generation(3), None, &pair.kept),
            Resume::Compare
        );
        assert_eq!(pair.sender.durable(), pair.kept.last());
    }

    #[test]
    fn acknowledgements_that_cannot_be_change_nothing() {
        let mut pair = Pair::new();
        pair.send();
        for (received, durable) in [(2, 1), (0, 1)] {
            let ack = Ack {
                generation: FIRST,
                received: FrameNumber(received),
                durable: FrameNumber(durable),
            };
            let mut ends = Vec::new();
            let refused = pair.sender.handle_ack(ack, &pair.kept, &mut ends);
            assert_eq!((refused, ends), (Err(LinkError::Impossible), Vec::new()));
        }
    }

    #[test]
    fn the_window_holds_back_but_never_for_ever() {
        let mut pair = Pair::new();
        assert!(pair.sender.has_room(5000));
        pair.send();
        assert!(pair.sender.has_room(900) && !pair.sender.has_room(901));
        pair.arrive(1);
        pair.receiver.handle_staged(FrameNumber(1));
        pair.acknowledge();
        assert!(pair.sender.has_room(5000));
        pair.kept.release(FrameNumber(1));
        assert!(pair.kept.continues(FrameNumber(1)));
    }
}
