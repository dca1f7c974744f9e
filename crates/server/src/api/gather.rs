//! Answers in the shape of their requests: topics, and of each its partitions. However many they are, others have their turn.

use std::rc::Rc;

use platform::slices::Slices;

use crate::core::Core;
use crate::long::Long;

/// Topics and partitions that are told of before others have their turn.
const ENTRIES_IN_ONE_TURN: usize = 5_000;

/// Tells of each partition of each topic in order, and of the topic with what was told of its partitions.
pub(super) async fn gather<T, P, A, B>(
    core: &Rc<Core>,
    topics: &[T],
    partitions: impl Fn(&T) -> &[P],
    mut tell: impl FnMut(&T, &P) -> A,
    tell_topic: impl Fn(&T, Vec<A>) -> B,
) -> Vec<B>
where
    A: Send + 'static,
    B: Send + 'static,
{
    let mut slices = Slices::of(ENTRIES_IN_ONE_TURN);
    let mut told = Long::with_capacity(core, topics.len());
    for topic in topics {
        let partitions = partitions(topic);
        let mut of_topic = Long::with_capacity(core, partitions.len());
        for partition in partitions {
            of_topic.push(tell(topic, partition));
            slices.did(1).await;
        }
        told.push(tell_topic(topic, of_topic.take()));
        slices.did(1).await;
    }
    told.take()
}
