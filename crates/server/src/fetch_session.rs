//! Fetch sessions (KIP-227): a consumer names its partitions once, and after that only what changes.
//!
//! A session lives on the core of its connection and moves with it. A consumer that reconnects begins anew with a full
//! fetch. A bounded cache: when it is full, further consumers fetch without a session.

use std::collections::HashMap;

use kafka_wire::fetch::{FetchPartition, FetchRequest};
use kafka_wire::{ErrorCode, Text};
use record::TopicId;

/// The request names no session, or ends one.
const FINAL_EPOCH: i32 = -1;
/// The request begins a session.
const INITIAL_EPOCH: i32 = 0;

/// A topic as the request names it: by its name, from version 13 on by its id.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct TopicKey {
    pub(crate) name: Text,
    pub(crate) id: TopicId,
}

/// What a fetch wants of one partition.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    pub(crate) topic: TopicKey,
    pub(crate) partition: FetchPartition,
    /// What the session told its consumer last: (tail, log start). `None` before the first answer.
    pub(crate) told: Option<(i64, i64)>,
}

/// One consumer's session.
#[derive(Debug, Default)]
pub(crate) struct FetchSession {
    id: i32,
    epoch: i32,
    wanted: Vec<Wanted>,
    places: HashMap<(TopicKey, i32), usize>,
}

/// What a request turned out to want.
pub(crate) struct Opened {
    /// Zero without a session.
    pub(crate) session: i32,
    /// Only partitions with something new are answered.
    pub(crate) incremental: bool,
    pub(crate) wanted: Vec<Wanted>,
}

pub(crate) struct FetchSessions {
    sessions: HashMap<i32, FetchSession>,
    sessions_max: usize,
    next_id: i32,
}

impl FetchSessions {
    /// Sessions of one core. Cores number theirs apart, so that a consumer that comes to another core is not mistaken.
    pub(crate) fn new(core: usize, sessions_max: usize) -> FetchSessions {
        FetchSessions {
            sessions: HashMap::new(),
            sessions_max,
            next_id: ((core as i32 & 0xff) << 22) + 1,
        }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.sessions.len()
    }

    /// What the request wants, its session taken into account.
    pub(crate) fn open(&mut self, request: FetchRequest) -> Result<Opened, ErrorCode> {
        let (id, epoch) = (request.session_id, request.session_epoch);
        if epoch == FINAL_EPOCH || epoch == INITIAL_EPOCH {
            self.sessions.remove(&id);
            let wanted = list(request);
            let session = if epoch == INITIAL_EPOCH {
                self.begin(&wanted)
            } else {
                0
            };
            return Ok(Opened {
                session,
                incremental: false,
                wanted,
            });
        }
        let session = self
            .sessions
            .get_mut(&id)
            .ok_or(ErrorCode::FetchSessionIdNotFound)?;
        if session.epoch != epoch {
            return Err(ErrorCode::InvalidFetchSessionEpoch);
        }
        session.epoch = if epoch == i32::MAX { 1 } else { epoch + 1 };
        session.update(request);
        Ok(Opened {
            session: id,
            incremental: true,
            wanted: session.wanted.clone(),
        })
    }

    fn begin(&mut self, wanted: &[Wanted]) -> i32 {
        if self.sessions.len() >= self.sessions_max || wanted.is_empty() {
            return 0;
        }
        let id = self.next_id;
        self.next_id = (self.next_id & !0x3f_ffff) | ((self.next_id + 1) & 0x3f_ffff).max(1);
        let mut session = FetchSession {
            id,
            epoch: 1,
            ..FetchSession::default()
        };
        for wanted in wanted {
            // Stored for long: the names must not keep the request's whole frame alive.
            let topic = TopicKey {
                name: wanted.topic.name.detached(),
                id: wanted.topic.id,
            };
            session.put(Wanted {
                topic,
                ..wanted.clone()
            });
        }
        self.sessions.insert(id, session);
        id
    }

    /// Notes what a partition's consumer was told, and moves the partition behind those that were not served.
    pub(crate) fn told(&mut self, session: i32, answered: &[(TopicKey, i32, (i64, i64))]) {
        let Some(session) = self.sessions.get_mut(&session) else {
            return;
        };
        for (topic, index, told) in answered {
            if let Some(place) = session.places.get(&(topic.clone(), *index)) {
                session.wanted[*place].told = Some(*told);
            }
        }
    }

    /// Takes a session out: its connection is gone, or goes to another core.
    pub(crate) fn take(&mut self, session: i32) -> Option<FetchSession> {
        self.sessions.remove(&session)
    }

    /// Takes a session over from another core; its consumer goes on naming it as before. Returns its id.
    pub(crate) fn adopt(&mut self, session: FetchSession) -> i32 {
        let id = session.id;
        self.sessions.insert(id, session);
        id
    }
}

impl FetchSession {
    fn update(&mut self, request: FetchRequest) {
        for topic in &request.forgotten_topics_data {
            for index in &topic.partitions {
                self.forget(
                    &TopicKey {
                        name: topic.topic.clone(),
                        id: topic.topic_id,
                    },
                    *index,
                );
            }
        }
        for wanted in list(request) {
            let topic = TopicKey {
                name: wanted.topic.name.detached(),
                id: wanted.topic.id,
            };
            self.put(Wanted { topic, ..wanted });
        }
    }

    fn put(&mut self, wanted: Wanted) {
        let key = (wanted.topic.clone(), wanted.partition.partition);
        match self.places.get(&key) {
            Some(place) => self.wanted[*place].partition = wanted.partition,
            None => {
                self.places.insert(key, self.wanted.len());
                self.wanted.push(wanted);
            }
        }
    }

    fn forget(&mut self, topic: &TopicKey, index: i32) {
        let Some(place) = self.places.remove(&(topic.clone(), index)) else {
            return;
        };
        self.wanted.swap_remove(place);
        if let Some(moved) = self.wanted.get(place) {
            self.places
                .insert((moved.topic.clone(), moved.partition.partition), place);
        }
    }
}

fn list(request: FetchRequest) -> Vec<Wanted> {
    let partitions = request.topics.into_iter().flat_map(|topic| {
        let key = TopicKey {
            name: topic.topic,
            id: topic.topic_id,
        };
        topic
            .partitions
            .into_iter()
            .map(move |partition| (key.clone(), partition))
    });
    partitions
        .map(|(topic, partition)| Wanted {
            topic,
            partition,
            told: None,
        })
        .collect()
}
