//! Two groups whose offsets are committed in transactions and without, with a log that is slow and refuses, and processes that
//! die: what a transaction committed is there when it has ended, in the order of the commits, nothing else is ever shown, and
//! whoever wants stable offsets is told of none that a transaction may still change.
//!
//! The log alone says what must hold: a plain record that stands in it, and the pending ones with the outcomes of their transactions.

use std::collections::BTreeMap;
use std::time::Duration;

use protocol::groups::{
    Answer, CommitOffsets, CommitPartition, CommitPending, CommittedOffset, EndTransaction, FetchOffsets,
    GroupError, Name, OffsetCommitter, Request, Settings, TopicPartition,
};
use protocol::producers::ProducerId;
use record::{Offset, TopicId};

use super::host::Host;

const TOPIC: TopicId = TopicId([1; 16]);
const GROUPS: [&str; 2] = ["g", "h"];
const PARTITIONS: i32 = 4;
const PRODUCERS: usize = 3;
/// The fetcher, after the producers and who commits plainly.
const READER: usize = PRODUCERS + 1;

/// A partition of one of the groups.
type Place = (usize, i32);

/// The order in which a commit was taken: it is the offset, too.
type Turn = i64;

#[derive(Default)]
struct Producer {
    /// The latest pending commit of each partition that was acknowledged in this transaction.
    pending: BTreeMap<Place, Turn>,
    /// Commits that were asked for and may be pending or not.
    doubtful: bool,
    asked: Option<Asked>,
    /// The outcome, once it is decided: it is sent until it is acknowledged.
    ending: Option<bool>,
    epoch: i16,
}

struct Asked {
    places: Vec<Place>,
    turn: Turn,
}

pub(super) struct World {
    host: Host,
    producers: Vec<Producer>,
    /// The latest turn that is committed for certain.
    committed: BTreeMap<Place, Turn>,
    plain: Option<Asked>,
    next_turn: Turn,
    version: i16,
}

impl World {
    pub(super) fn new(seed: u64) -> World {
        let settings = Settings {
            // Two or three offsets.
            commit_bytes_max: 700,
            offsets_retention: Duration::from_secs(1 << 40),
            ..Settings::default()
        };
        let topics = vec![(Name::from("a"), TOPIC, PARTITIONS)];
        World {
            host: Host::new(seed, settings, topics),
            producers: (0..PRODUCERS).map(|_| Producer::default()).collect(),
            committed: BTreeMap::new(),
            plain: None,
            next_turn: 1,
            version: 1 + i16::try_from(seed / 2 % 2).expect("small"),
        }
    }

    pub(super) fn step(&mut self) {
        self.host.now += Duration::from_millis(self.host.dice.roll(600));
        match self.host.dice.roll(30) {
            0 => self.restart(),
            1..15 => {
                self.host.report(8);
            }
            15..18 => self.commit_plainly(),
            _ => self.producer_acts(),
        }
        self.host.wake();
        self.take_answers();
        if !self.host.is_behind() {
            self.read();
        }
    }

    /// All transactions end, and everything comes to rest.
    pub(super) fn finish(&mut self) {
        for who in 0..PRODUCERS {
            for _ in 0..200 {
                self.catch_up();
                if self.producers[who].ending.is_none() {
                    self.producers[who].ending = Some(true);
                    self.send_end(who);
                } else if self.producers[who].asked.is_none() {
                    self.send_end(who);
                }
                self.catch_up();
                if self.producers[who].ending.is_none() {
                    break;
                }
            }
            assert!(self.producers[who].ending.is_none(), "a transaction ends");
        }
        self.catch_up();
        self.read();
        let pending = |key: &[u8]| key[1] == 100;
        let left = self.host.coordinator.image();
        assert_eq!(left.filter(|record| pending(&record.key)).count(), 0);
        self.host.check_end();
        self.host.check_image();
    }

    fn catch_up(&mut self) {
        self.take_answers();
        while self.host.is_behind() {
            self.host.report(8);
            self.take_answers();
        }
    }

    fn restart(&mut self) {
        self.take_answers();
        self.host.restart();
        for producer in &mut self.producers {
            // Asked again: a marker by its sender, a commit never: its transaction is aborted.
            if producer.asked.take().is_some() && producer.ending.is_none() {
                producer.doubtful = true;
            }
        }
        if self.plain.take().is_some() {
            self.learn_committed();
        }
    }

    /// A plain commit that nobody was answered may be there.
    fn learn_committed(&mut self) {
        for (group, name) in GROUPS.iter().enumerate() {
            for index in 0..PARTITIONS {
                let partition = partition(index);
                if let Some(found) = self.host.coordinator.committed(name, &partition) {
                    let known = self.committed.entry((group, index)).or_default();
                    *known = (*known).max(found.0);
                }
            }
        }
    }

    fn places(&mut self) -> Vec<Place> {
        let group = usize::from(self.host.dice.one_in(2));
        let first = i32::try_from(self.host.dice.roll(4)).expect("few");
        let mut places = vec![(group, first)];
        if self.host.dice.one_in(2) {
            places.push((group, (first + 1) % PARTITIONS));
        }
        places
    }

    fn commit(&mut self, places: &[Place]) -> (CommitOffsets, Turn) {
        let turn = self.next_turn;
        self.next_turn += 1;
        let wanted = places.iter().map(|(_, index)| CommitPartition {
            partition: partition(*index),
            topic_id: TOPIC,
            committed: CommittedOffset {
                offset: Offset(turn),
                leader_epoch: None,
                metadata: Name::default(),
            },
        });
        let commit = CommitOffsets {
            group: Name::from(GROUPS[places[0].0]),
            client_host: "/host".into(),
            committer: OffsetCommitter {
                member: Name::default(),
                instance: None,
                generation_or_epoch: -1,
                knows_epochs: true,
            },
            partitions: wanted.collect(),
        };
        (commit, turn)
    }

    fn commit_plainly(&mut self) {
        if self.plain.is_some() {
            return;
        }
        let places = self.places();
        let (commit, turn) = self.commit(&places);
        self.host.ask(PRODUCERS, Request::CommitOffsets(commit));
        self.plain = Some(Asked { places, turn });
    }

    fn producer_acts(&mut self) {
        let who = usize::try_from(self.host.dice.roll(PRODUCERS as u64)).expect("few");
        let has_asked = self.producers[who].asked.is_some();
        if self.producers[who].ending.is_some() {
            if !has_asked {
                self.send_end(who);
            }
            return;
        }
        // Its client has died, and the marker does not wait for what that has asked for.
        let is_left = has_asked && self.host.dice.one_in(4);
        if is_left || (!has_asked && (self.producers[who].doubtful || self.host.dice.one_in(4))) {
            let aborts = is_left || self.producers[who].doubtful || self.host.dice.one_in(2);
            self.producers[who].ending = Some(!aborts);
            self.send_end(who);
        } else if !has_asked {
            let places = self.places();
            let (commit, turn) = self.commit(&places);
            let request = CommitPending {
                producer: ProducerId(who as i64),
                producer_epoch: self.producers[who].epoch,
                commit,
            };
            self.host.ask(who, Request::CommitPending(request));
            self.producers[who].asked = Some(Asked { places, turn });
        }
    }

    fn send_end(&mut self, who: usize) {
        let producer = &self.producers[who];
        let end = EndTransaction {
            producer: ProducerId(who as i64),
            producer_epoch: producer.epoch + i16::from(self.version >= 2),
            coordinator_epoch: 1,
            version: self.version,
            commit: producer.ending.expect("it is decided"),
        };
        self.host.ask(who, Request::EndTransaction(end));
        self.producers[who].asked = Some(Asked {
            places: Vec::new(),
            turn: 0,
        });
    }

    fn take_answers(&mut self) {
        while let Some((who, answer)) = self.host.next_answer() {
            match answer {
                Answer::CommitOffsets(result) => {
                    let asked = self.plain.take().expect("it was asked");
                    if result.is_ok() {
                        self.commit_all(asked.places.iter().map(|place| (*place, asked.turn)));
                    }
                }
                Answer::CommitPending(result) => self.hear_pending(who, result.is_ok()),
                Answer::EndTransaction(result) => self.hear_end(who, result),
                Answer::FetchOffsets(_) => unreachable!("it is taken where it is asked"),
                other => panic!("nobody asked for {other:?}"),
            }
        }
    }

    fn hear_pending(&mut self, who: usize, is_taken: bool) {
        let producer = &mut self.producers[who];
        // One whose client has died is heard by nobody.
        if producer.ending.is_some() {
            return;
        }
        let asked = producer.asked.take().expect("it was asked");
        if is_taken {
            let pending = asked.places.into_iter().map(|place| (place, asked.turn));
            producer.pending.extend(pending);
        }
    }

    fn hear_end(&mut self, who: usize, result: Result<(), GroupError>) {
        let producer = &mut self.producers[who];
        producer.asked = None;
        match result {
            Ok(()) => {
                let commits = producer.ending.take().expect("it was decided");
                producer.doubtful = false;
                producer.epoch += i16::from(self.version >= 2);
                let pending = std::mem::take(&mut producer.pending);
                if commits {
                    self.commit_all(pending);
                }
            }
            Err(GroupError::NotPersisted) => {}
            Err(other) => panic!("a marker that is right gets {other}"),
        }
    }

    /// The later turn wins, whenever it is known to be committed.
    fn commit_all(&mut self, places: impl IntoIterator<Item = (Place, Turn)>) {
        for (place, turn) in places {
            let known = self.committed.entry(place).or_default();
            *known = (*known).max(turn);
        }
    }

    /// The offset shown is the one committed last; stable is only what no transaction may change.
    fn read(&mut self) {
        for group in 0..GROUPS.len() {
            for require_stable in [false, true] {
                for (index, found) in self.fetch(group, require_stable) {
                    let place = (group, index);
                    let pending = self.producers.iter();
                    let mut pending = pending.filter_map(|producer| {
                        let turn = producer.pending.get(&place)?;
                        Some((*turn, producer.ending))
                    });
                    let is_open = pending.clone().any(|(_, ending)| ending.is_none());
                    match found {
                        Err(GroupError::UnstableOffset) => assert!(require_stable),
                        Err(other) => panic!("{other}"),
                        Ok(found) => {
                            let known = self.committed.get(&place).copied().unwrap_or(0);
                            // A marker whose answer was lost or is still to come may have done its part.
                            let is_ended = |(turn, ending)| turn == found && ending == Some(true);
                            assert!(
                                found == known || (found > known && pending.any(is_ended)),
                                "{place:?} is at {found}, committed is {known}"
                            );
                            assert!(!(require_stable && is_open), "{place:?} is not stable");
                        }
                    }
                }
            }
        }
    }

    fn fetch(&mut self, group: usize, require_stable: bool) -> Vec<(i32, Result<Turn, GroupError>)> {
        let fetch = FetchOffsets {
            group: Name::from(GROUPS[group]),
            member: None,
            topics: Some(vec![protocol::groups::FetchTopic {
                topic: Name::from("a"),
                partitions: (0..PARTITIONS).collect(),
            }]),
            require_stable,
        };
        self.host.ask(READER, Request::FetchOffsets(fetch));
        let Some((READER, Answer::FetchOffsets(Ok(topics)))) = self.host.next_answer() else {
            panic!("reading waits for nothing");
        };
        let partitions = topics.into_iter().flat_map(|topic| topic.partitions);
        let found = partitions.map(|found| {
            let turn = found
                .committed
                .map(|offset| offset.map_or(0, |offset| offset.offset.0));
            (found.index, turn)
        });
        found.collect()
    }
}

fn partition(index: i32) -> TopicPartition {
    TopicPartition {
        topic: Name::from("a"),
        index,
    }
}
