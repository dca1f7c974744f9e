//! Brings questions about partitions to the cores that own them: one letter for each core, however many partitions, and
//! the answers back in the order of the questions.
//!
//! For everything but appends and fetches, which have their own ways (`append_path`, `fetch_path`).

use std::collections::BTreeMap;
use std::future::Future;
use std::iter::Flatten;
use std::rc::Rc;
use std::vec;

use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream;
use kafka_wire::ErrorCode;
use platform::slices::next_slice;
use protocol::metadata::Metadata;
use record::PartitionId;
use shard::Shard;

use crate::budget::SharedRoom;
use crate::core::Core;
use crate::error_codes::stopping_code;

/// Partitions that one request has a core look at side by side. It bounds the memory that one request can make a core
/// take; trims still share flushes.
const AT_ONCE_PER_CORE: usize = 64;
/// Partitions that a core looks at before others have their turn.
const IN_ONE_TURN: usize = 1_024;
/// Questions that are on their way together. They are made and handed on in one turn.
const ASKED_TOGETHER: usize = 5_000;

/// A partition of a topic by name, as most requests name it.
pub(crate) fn find_partition(metadata: &Metadata, topic: &str, index: i32) -> Result<PartitionId, ErrorCode> {
    metadata
        .topic_named(topic)
        .filter(|topic| (0..topic.partition_count()).contains(&index))
        .map(|topic| PartitionId {
            topic: topic.id,
            index,
        })
        .ok_or(ErrorCode::UnknownTopicOrPartition)
}

/// The questions for one core, and their places among all.
struct Questions<Q> {
    places: Vec<usize>,
    asked: Vec<(PartitionId, Q)>,
}

impl<Q> Default for Questions<Q> {
    fn default() -> Questions<Q> {
        Questions {
            places: Vec::new(),
            asked: Vec::new(),
        }
    }
}

/// Answers in the order of their questions. Not one list: it would be moved as it grows.
pub(crate) type Answers<A> = Flatten<vec::IntoIter<Vec<Result<A, ErrorCode>>>>;

/// Has each question answered by `work` with the shard that owns its partition, as `ask_cores` does.
pub(crate) async fn ask_owners<Q, A, F>(
    core: &Rc<Core>,
    room: &SharedRoom,
    questions: impl IntoIterator<Item = Result<(PartitionId, Q), ErrorCode>>,
    work: impl Fn(Rc<Shard>, PartitionId, Q) -> F + Clone + Send + 'static,
) -> Answers<A>
where
    Q: Send + 'static,
    A: Send + 'static,
    F: Future<Output = Result<A, ErrorCode>> + 'static,
{
    let of_shard = move |core: Rc<Core>, partition, question| {
        let shard = core.shard(core.facts.shard_of(partition)).clone();
        work(shard, partition, question)
    };
    ask_cores(core, room, questions, of_shard).await
}

/// Has each question answered by `work` on the core that owns its partition. What was refused before is answered so. Questions are
/// made as they are asked, some thousands at a time, so that very many are made in no one's turn. `room` is that of the request, which
/// is taken as long as any of the questions is left.
pub(crate) async fn ask_cores<Q, A, F>(
    core: &Rc<Core>,
    room: &SharedRoom,
    questions: impl IntoIterator<Item = Result<(PartitionId, Q), ErrorCode>>,
    work: impl Fn(Rc<Core>, PartitionId, Q) -> F + Clone + Send + 'static,
) -> Answers<A>
where
    Q: Send + 'static,
    A: Send + 'static,
    F: Future<Output = Result<A, ErrorCode>> + 'static,
{
    let mut questions = questions.into_iter();
    let mut answers = Vec::new();
    loop {
        let some: Vec<_> = questions.by_ref().take(ASKED_TOGETHER).collect();
        let is_rest = some.len() < ASKED_TOGETHER;
        answers.push(ask_together(core, room, some, work.clone()).await);
        if is_rest {
            return answers.into_iter().flatten();
        }
        next_slice().await;
    }
}

async fn ask_together<Q, A, F>(
    core: &Rc<Core>,
    room: &SharedRoom,
    questions: Vec<Result<(PartitionId, Q), ErrorCode>>,
    work: impl Fn(Rc<Core>, PartitionId, Q) -> F + Clone + Send + 'static,
) -> Vec<Result<A, ErrorCode>>
where
    Q: Send + 'static,
    A: Send + 'static,
    F: Future<Output = Result<A, ErrorCode>> + 'static,
{
    let mut answers = Vec::with_capacity(questions.len());
    let mut by_core: BTreeMap<usize, Questions<Q>> = BTreeMap::new();
    for (place, question) in questions.into_iter().enumerate() {
        // Stands unless the owner answers: then the node is stopping.
        answers.push(Err(question
            .as_ref()
            .map_or_else(|code| *code, |_| stopping_code())));
        if let Ok((partition, question)) = question {
            let owner = core.facts.owner_of(partition);
            let theirs = by_core.entry(owner).or_default();
            theirs.places.push(place);
            theirs.asked.push((partition, question));
        }
    }
    let calls = by_core.into_iter().map(|(owner, Questions { places, asked })| {
        let (work, room) = (work.clone(), room.clone());
        let call = core.facts.mailboxes.call(owner, move |core| async move {
            let answers = answer_here(core, asked, work).await;
            drop(room);
            answers
        });
        async move { (places, call.await) }
    });
    for (places, answered) in join_all(calls).await {
        for (place, answer) in places.into_iter().zip(answered.into_iter().flatten()) {
            answers[place] = answer;
        }
    }
    answers
}

async fn answer_here<Q, A, F>(
    core: Rc<Core>,
    asked: Vec<(PartitionId, Q)>,
    work: impl Fn(Rc<Core>, PartitionId, Q) -> F,
) -> Vec<Result<A, ErrorCode>>
where
    F: Future<Output = Result<A, ErrorCode>>,
{
    let answer = |(partition, question)| work(core.clone(), partition, question);
    let mut answers = Vec::with_capacity(asked.len());
    let mut answered = stream::iter(asked).map(answer).buffered(AT_ONCE_PER_CORE);
    while let Some(answer) = answered.next().await {
        answers.push(answer);
        // An answer that is known at once is never waited for: others have their turn all the same.
        if answers.len().is_multiple_of(IN_ONE_TURN) {
            next_slice().await;
        }
    }
    answers
}
