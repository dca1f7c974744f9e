//! Counts for each topic the appends to its partitions on a core, and the reads from them.
//!
//! A partition keeps hold of its topic's counters from their first use on, so that nothing is looked up for an append. The number
//! of topics with counters of their own is bounded; a scrape reads those alone, however many topics there are.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use platform::counters::Counter;
use record::TopicId;

use protocol::metadata::METADATA_PARTITION;

/// The counters of one topic, or of all those that have none of their own.
#[derive(Debug, Default)]
pub struct TopicCounters {
    /// Records that were appended.
    pub appended_records: Counter,
    /// Bytes of the batches that were appended.
    pub appended_bytes: Counter,
    /// Batches that were refused.
    pub failed_appends: Counter,
    /// Bytes that reads have found.
    pub read_bytes: Counter,
}

impl TopicCounters {
    fn are_zero(&self) -> bool {
        let all = [
            &self.appended_records,
            &self.appended_bytes,
            &self.failed_appends,
            &self.read_bytes,
        ];
        all.into_iter().all(|counter| counter.get() == 0)
    }
}

/// The counters of one core's topics.
pub struct TopicBook {
    topics_max: usize,
    topics: RefCell<BTreeMap<TopicId, Rc<TopicCounters>>>,
    others: Rc<TopicCounters>,
}

impl TopicBook {
    /// Begins without topics; at most `topics_max` get counters of their own.
    pub fn of_topics(topics_max: usize) -> Rc<TopicBook> {
        Rc::new(TopicBook {
            topics_max,
            topics: RefCell::default(),
            others: Rc::default(),
        })
    }

    /// Returns the counters of a topic: its own, or those that all topics share which came when the book was full.
    pub fn counters_of(&self, topic: TopicId) -> Rc<TopicCounters> {
        if topic == METADATA_PARTITION.topic {
            // It has no name, and its journal's figures tell of it.
            return Rc::default();
        }
        let mut topics = self.topics.borrow_mut();
        if let Some(counters) = topics.get(&topic) {
            return counters.clone();
        }
        if topics.len() >= self.topics_max {
            return self.others.clone();
        }
        topics.entry(topic).or_default().clone()
    }

    /// Gives the place of a deleted topic to another one, if no partition holds the counters any more.
    pub fn leave(&self, topic: TopicId) {
        let mut topics = self.topics.borrow_mut();
        let is_held = |counters: &Rc<TopicCounters>| Rc::strong_count(counters) > 1;
        if topics.get(&topic).is_some_and(|counters| !is_held(counters)) {
            topics.remove(&topic);
        }
    }

    /// The topics that have counters of their own.
    pub fn topics(&self) -> Vec<(TopicId, Rc<TopicCounters>)> {
        let topics = self.topics.borrow();
        topics
            .iter()
            .map(|(topic, counters)| (*topic, counters.clone()))
            .collect()
    }

    /// The counters of all other topics together, if they have counted anything.
    pub fn others(&self) -> Option<&TopicCounters> {
        Some(&*self.others).filter(|others| !others.are_zero())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topic(number: u8) -> TopicId {
        TopicId([number; 16])
    }

    #[test]
    fn topics_beyond_the_bound_are_counted_together_until_one_is_deleted() {
        let book = TopicBook::of_topics(2);
        let (first, again) = (book.counters_of(topic(1)), book.counters_of(topic(1)));
        first.appended_records.add(3);
        assert_eq!(again.appended_records.get(), 3);
        let second = book.counters_of(topic(2));
        assert!(book.others().is_none());
        book.counters_of(topic(3)).read_bytes.add(5);
        book.counters_of(topic(4)).read_bytes.add(6);
        assert_eq!(book.others().map(|others| others.read_bytes.get()), Some(11));
        assert_eq!(book.topics().len(), 2);
        // One of its partitions is still there.
        drop(first);
        book.leave(topic(1));
        assert_eq!(book.topics().len(), 2);
        drop((again, second));
        book.leave(topic(1));
        let _third = book.counters_of(topic(3));
        let named: Vec<TopicId> = book.topics().into_iter().map(|(topic, _)| topic).collect();
        assert_eq!(named, [topic(2), topic(3)]);
    }
}
