//! What the leader of a classic group does: shares partitions out, and writes it as Kafka's consumers do.

use std::collections::BTreeSet;

/// A share for each member, given what each had: as even as can be, and nobody loses more than that takes.
pub(super) fn share_out(partitions: i32, had: &[BTreeSet<i32>]) -> Vec<BTreeSet<i32>> {
    let (fair, mut larger) = (partitions as usize / had.len(), partitions as usize % had.len());
    let mut taken: BTreeSet<i32> = BTreeSet::new();
    let mut shares = Vec::new();
    for owned in had {
        let keeps_more = larger > 0 && owned.len() > fair;
        larger -= usize::from(keeps_more);
        let free = owned
            .iter()
            .copied()
            .filter(|partition| !taken.contains(partition));
        let kept: BTreeSet<i32> = free.take(fair + usize::from(keeps_more)).collect();
        taken.extend(kept.iter().copied());
        shares.push(kept);
    }
    let mut free = (0..partitions).filter(|partition| !taken.contains(partition));
    for share in &mut shares {
        let lacks = fair.saturating_sub(share.len());
        share.extend(free.by_ref().take(lacks));
    }
    let fair_ones = shares.iter_mut().filter(|share| share.len() == fair);
    for (share, partition) in fair_ones.zip(free) {
        share.insert(partition);
    }
    shares
}

/// Kafka's embedded consumer protocol, version 0: what a member wants.
pub(super) fn subscription(topic: &str) -> Vec<u8> {
    [&head(topic)[..], &(-1i32).to_be_bytes()].concat()
}

/// The same of what a member is to have.
pub(super) fn write_assignment(topic: &str, share: &BTreeSet<i32>) -> Vec<u8> {
    let count = i32::try_from(share.len()).expect("a topic's partitions are counted in 32 bits");
    let mut bytes = head(topic);
    bytes.extend(count.to_be_bytes());
    bytes.extend(share.iter().flat_map(|partition| partition.to_be_bytes()));
    bytes.extend((-1i32).to_be_bytes());
    bytes
}

/// Version 0, one topic, its name.
fn head(topic: &str) -> Vec<u8> {
    let length = i16::try_from(topic.len()).expect("a topic that exists has a short name");
    let mut bytes = vec![0, 0, 0, 0, 0, 1];
    bytes.extend(length.to_be_bytes());
    bytes.extend(topic.as_bytes());
    bytes
}

/// What `write_assignment` wrote, if it did.
pub(super) fn read_assignment(bytes: &[u8], topic: &str) -> Option<BTreeSet<i32>> {
    let partitions = bytes.strip_prefix(&head(topic)[..])?.get(4..)?;
    let partitions = partitions.strip_suffix(&(-1i32).to_be_bytes())?;
    let number = |bytes: &[u8]| <[u8; 4]>::try_from(bytes).ok().map(i32::from_be_bytes);
    partitions.chunks_exact(4).map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many partitions go to somebody who did not have them.
    fn moved(before: &[BTreeSet<i32>], now: &[BTreeSet<i32>]) -> usize {
        let pairs = before.iter().zip(now);
        pairs.map(|(before, now)| now.difference(before).count()).sum()
    }

    fn check_even(partitions: i32, shares: &[BTreeSet<i32>]) {
        let all: BTreeSet<i32> = shares.iter().flatten().copied().collect();
        assert!(all.iter().copied().eq(0..partitions), "each is somebody's");
        let sizes = || shares.iter().map(BTreeSet::len);
        assert_eq!(sizes().sum::<usize>(), partitions as usize, "and only one's");
        assert!(
            sizes().max() <= sizes().min().map(|least| least + 1),
            "{shares:?}"
        );
    }

    #[test]
    fn shares_are_even_and_only_what_must_moves() {
        for (members, partitions) in [(1, 1), (3, 10), (10, 3), (7, 7), (10, 100)] {
            let mut shares = share_out(partitions, &vec![BTreeSet::new(); members]);
            check_even(partitions, &shares);
            assert_eq!(moved(&shares, &share_out(partitions, &shares)), 0);
            shares.push(BTreeSet::new());
            let with_one_more = share_out(partitions, &shares);
            check_even(partitions, &with_one_more);
            assert_eq!(
                moved(&shares, &with_one_more),
                with_one_more[members].len(),
                "what the new member has and no other"
            );
            let after_one_left = share_out(partitions, &with_one_more[1..]);
            check_even(partitions, &after_one_left);
            assert_eq!(
                moved(&with_one_more[1..], &after_one_left),
                with_one_more[0].len()
            );
        }
    }

    #[test]
    fn assignments_are_read_back() {
        for share in [BTreeSet::new(), BTreeSet::from([0, 7, 1 << 20])] {
            let bytes = write_assignment("orders", &share);
            assert_eq!(read_assignment(&bytes, "orders"), Some(share));
            assert_eq!(read_assignment(&bytes, "order"), None);
        }
        assert_eq!(read_assignment(b"", "orders"), None);
    }
}
