//! The assignor `uniform`: everybody gets as much as everybody else, and keeps what it had as far as that allows.
//!
//! If all members want the same topics, quotas say how much each gets, and only what is above a quota moves. Else
//! partitions that nobody has go to the least loaded of their readers, and then move one by one from a reader to
//! another that has at least two less, until there is none.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use record::{PartitionId, TopicId};

use super::super::Assignment;
use super::assign::{GroupSpec, Readers, readers};

pub(super) fn assign_uniform(group_spec: &GroupSpec) -> Vec<Assignment> {
    if group_spec.members.is_empty() {
        Vec::new()
    } else if group_spec.are_alike() {
        assign_alike(group_spec)
    } else {
        Balance::start(group_spec).finish()
    }
}

/// The partitions that members had and may keep, none twice.
fn kept(group_spec: &GroupSpec) -> (Vec<Vec<PartitionId>>, BTreeMap<PartitionId, usize>) {
    let mut holders = BTreeMap::new();
    let mut kept = Vec::with_capacity(group_spec.members.len());
    for (place, member) in group_spec.members.iter().enumerate() {
        let mut mine = Vec::new();
        for partition in member.before.iter() {
            if group_spec.may_keep(member, partition) && !holders.contains_key(&partition) {
                holders.insert(partition, place);
                mine.push(partition);
            }
        }
        kept.push(mine);
    }
    (kept, holders)
}

fn assign_alike(group_spec: &GroupSpec) -> Vec<Assignment> {
    let (mut held, mut holders) = kept(group_spec);
    let member_count = held.len();
    let total: usize = group_spec.partitions().count();
    let (each, mut one_more) = (total / member_count, total % member_count);
    let mut quotas = vec![each; member_count];
    // The few that get one more are those that have it already, if there are such.
    for wants_more in [true, false] {
        for (place, quota) in quotas.iter_mut().enumerate() {
            if one_more > 0 && *quota == each && (held[place].len() > each) == wants_more {
                *quota += 1;
                one_more -= 1;
            }
        }
    }
    for ((mine, quota), member_spec) in held.iter_mut().zip(&quotas).zip(&group_spec.members) {
        if mine.len() > *quota {
            // Partitions that it does not have yet go first: that moves nothing.
            mine.sort_by_key(|partition| !member_spec.has.contains(*partition));
        }
        for partition in mine.drain((*quota).min(mine.len())..) {
            holders.remove(&partition);
        }
    }
    let mut with_room: VecDeque<usize> = (0..member_count)
        .filter(|place| held[*place].len() < quotas[*place])
        .collect();
    for partition in group_spec.partitions() {
        if holders.contains_key(&partition) {
            continue;
        }
        let place = with_room.pop_front().expect("quotas add up to all partitions");
        held[place].push(partition);
        if held[place].len() < quotas[place] {
            with_room.push_back(place);
        }
    }
    held.into_iter().map(|mine| mine.into_iter().collect()).collect()
}

/// Members with different wishes.
struct Balance {
    topics: BTreeMap<TopicId, Topic>,
    /// The number of partitions that each member has.
    loads: Vec<usize>,
}

/// A topic that somebody wants. Members are named by their places.
struct Topic {
    readers: Readers,
    /// The partitions of each reader that has some, what came latest last.
    held: BTreeMap<usize, Vec<i32>>,
    /// The partitions that nobody has.
    free: Vec<i32>,
}

impl Balance {
    fn start(group_spec: &GroupSpec) -> Balance {
        let (kept, holders) = kept(group_spec);
        let mut topics: BTreeMap<TopicId, Topic> = BTreeMap::new();
        for (id, readers) in readers(&group_spec.members) {
            let (held, free) = (BTreeMap::new(), Vec::new());
            topics.insert(id, Topic { readers, held, free });
        }
        for partition in group_spec.partitions() {
            let Some(topic) = topics.get_mut(&partition.topic) else {
                continue;
            };
            let places = match holders.get(&partition) {
                Some(place) => topic.held.entry(*place).or_default(),
                None => &mut topic.free,
            };
            places.push(partition.index);
        }
        let loads = kept.iter().map(Vec::len).collect();
        Balance { topics, loads }
    }

    fn finish(mut self) -> Vec<Assignment> {
        self.give_out();
        self.even_out();
        let mut assigned = vec![Assignment::default(); self.loads.len()];
        for (id, topic) in self.topics {
            for (place, indexes) in topic.held {
                let partitions = indexes.into_iter().map(|index| PartitionId { topic: id, index });
                assigned[place].extend(partitions);
            }
        }
        assigned
    }

    /// Topics with few readers first: they have the least choice.
    fn give_out(&mut self) {
        let mut topics: Vec<&mut Topic> = self.topics.values_mut().collect();
        topics.sort_by_key(|topic| topic.readers.count());
        for topic in topics {
            topic.give_out(&mut self.loads);
        }
    }

    /// Ends: every move makes the sum of the squares of the loads smaller.
    fn even_out(&mut self) {
        let mut moved = true;
        while moved {
            moved = false;
            for topic in self.topics.values_mut() {
                moved |= topic.even_out(&mut self.loads);
            }
        }
    }
}

impl Topic {
    fn give_out(&mut self, loads: &mut [usize]) {
        if self.free.is_empty() {
            return;
        }
        let mut takers = by_load(self.readers.iter(), loads);
        for index in self.free.drain(..) {
            let (load, place) = takers.pop_first().expect("a topic has readers");
            self.held.entry(place).or_default().push(index);
            loads[place] += 1;
            takers.insert((load + 1, place));
        }
    }

    /// Moves partitions from the most loaded of those that have some to the least loaded reader, as long as that helps. Says
    /// whether any was moved.
    fn even_out(&mut self, loads: &mut [usize]) -> bool {
        let most = self.held.keys().map(|place| loads[*place]).max();
        let least = self.readers.iter().map(|place| loads[*place]).min();
        if most < least.map(|least| least + 2) {
            return false;
        }
        let mut givers = by_load(self.held.keys(), loads);
        let mut takers = by_load(self.readers.iter(), loads);
        while let (Some(&(high, from)), Some(&(low, to))) = (givers.last(), takers.first())
            && high >= low + 2
        {
            let mine = self.held.get_mut(&from).expect("a giver has some");
            let index = mine.pop().expect("a giver has some");
            if mine.is_empty() {
                self.held.remove(&from);
            }
            self.held.entry(to).or_default().push(index);
            for (place, before, now) in [(from, high, high - 1), (to, low, low + 1)] {
                loads[place] = now;
                takers.remove(&(before, place));
                takers.insert((now, place));
                givers.remove(&(before, place));
                if self.held.contains_key(&place) {
                    givers.insert((now, place));
                }
            }
        }
        true
    }
}

/// Members, the least loaded first.
fn by_load<'a>(places: impl IntoIterator<Item = &'a usize>, loads: &[usize]) -> BTreeSet<(usize, usize)> {
    places.into_iter().map(|place| (loads[*place], *place)).collect()
}
