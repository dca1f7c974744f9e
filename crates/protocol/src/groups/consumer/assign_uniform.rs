//! The assignor `uniform`: everybody gets as much as everybody else, and keeps what it had as far as that allows.
//!
//! If all members want the same topics, quotas say how much each gets, and only what is above a quota moves. Else
//! partitions that nobody has go to the least loaded of their readers, and then move one by one from a reader to
//! another that has at least two less, until there is none.

use std::collections::{BTreeMap, HashMap, VecDeque};

use record::{PartitionId, TopicId};

use super::super::Assignment;
use super::assign::Wishes;

pub(super) fn assign_uniform(wishes: &Wishes) -> Vec<Assignment> {
    let Some(first) = wishes.members.first() else {
        return Vec::new();
    };
    if wishes.members.iter().all(|member| member.topics == first.topics) {
        assign_alike(wishes)
    } else {
        Balance::start(wishes).finish()
    }
}

/// What members had and may keep, nothing twice.
fn kept(wishes: &Wishes) -> (Vec<Vec<PartitionId>>, HashMap<PartitionId, usize>) {
    let mut holders = HashMap::new();
    let mut kept = Vec::with_capacity(wishes.members.len());
    for (place, member) in wishes.members.iter().enumerate() {
        let mut mine = Vec::new();
        for partition in member.before.iter() {
            if wishes.may_keep(member, partition) && !holders.contains_key(&partition) {
                holders.insert(partition, place);
                mine.push(partition);
            }
        }
        kept.push(mine);
    }
    (kept, holders)
}

fn assign_alike(wishes: &Wishes) -> Vec<Assignment> {
    let (mut held, mut holders) = kept(wishes);
    let member_count = held.len();
    let total: usize = wishes.partitions().count();
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
    for ((mine, quota), wish) in held.iter_mut().zip(&quotas).zip(&wishes.members) {
        if mine.len() > *quota {
            // What it does not have yet goes first: that moves nothing.
            mine.sort_by_key(|partition| !wish.has.contains(*partition));
        }
        for partition in mine.drain((*quota).min(mine.len())..) {
            holders.remove(&partition);
        }
    }
    let mut with_room: VecDeque<usize> = (0..member_count)
        .filter(|place| held[*place].len() < quotas[*place])
        .collect();
    for partition in wishes.partitions() {
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
struct Balance<'a> {
    wishes: &'a Wishes,
    readers: BTreeMap<TopicId, Vec<usize>>,
    loads: Vec<usize>,
    /// Who has each partition, by topic and index.
    holders: BTreeMap<TopicId, Vec<Option<usize>>>,
}

impl<'a> Balance<'a> {
    fn start(wishes: &'a Wishes) -> Balance<'a> {
        let mut balance = Balance {
            wishes,
            readers: wishes.readers(),
            loads: vec![0; wishes.members.len()],
            holders: wishes
                .topics
                .iter()
                .map(|(topic, count)| (*topic, vec![None; usize::try_from(*count).unwrap_or(0)]))
                .collect(),
        };
        let (held, _) = kept(wishes);
        for (place, mine) in held.into_iter().enumerate() {
            for partition in mine {
                let index = usize::try_from(partition.index).expect("checked against the topic");
                balance.holders.get_mut(&partition.topic).expect("checked")[index] = Some(place);
                balance.loads[place] += 1;
            }
        }
        balance
    }

    fn finish(mut self) -> Vec<Assignment> {
        self.give_out();
        self.even_out();
        let mut assigned = vec![Assignment::default(); self.wishes.members.len()];
        for (topic, holders) in &self.holders {
            for (index, holder) in (0..).zip(holders) {
                if let Some(place) = holder {
                    assigned[*place].insert(PartitionId { topic: *topic, index });
                }
            }
        }
        assigned
    }

    /// Topics with few readers first: they have the least choice.
    fn give_out(&mut self) {
        let mut topics: Vec<(usize, TopicId)> = self
            .readers
            .iter()
            .map(|(topic, readers)| (readers.len(), *topic))
            .collect();
        topics.sort_unstable();
        for (_, topic) in topics {
            let readers = &self.readers[&topic];
            for holder in self.holders.get_mut(&topic).into_iter().flatten() {
                if holder.is_none() {
                    let place = *readers
                        .iter()
                        .min_by_key(|place| self.loads[**place])
                        .expect("a topic with readers");
                    *holder = Some(place);
                    self.loads[place] += 1;
                }
            }
        }
    }

    /// Ends: every move makes the sum of the squares of the loads smaller.
    fn even_out(&mut self) {
        let topics: Vec<TopicId> = self.holders.keys().copied().collect();
        loop {
            let mut moved = false;
            for topic in &topics {
                while self.move_one(*topic) {
                    moved = true;
                }
            }
            if !moved {
                return;
            }
        }
    }

    /// Moves a partition of the topic from its most loaded holder to its least loaded reader, if that helps.
    fn move_one(&mut self, topic: TopicId) -> bool {
        let Some(readers) = self.readers.get(&topic) else {
            return false;
        };
        let holders = self.holders.get_mut(&topic).expect("every topic has its holders");
        let loads = &mut self.loads;
        // The last of equals: what came latest moves first.
        let most = holders
            .iter()
            .enumerate()
            .filter_map(|(index, holder)| holder.map(|place| (loads[place], index, place)))
            .max();
        let least = readers.iter().map(|place| (loads[*place], *place)).min();
        let (Some((high, index, from)), Some((low, to))) = (most, least) else {
            return false;
        };
        if high < low + 2 {
            return false;
        }
        holders[index] = Some(to);
        loads[from] -= 1;
        loads[to] += 1;
        true
    }
}
