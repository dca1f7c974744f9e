//! What consumers of the classic protocol write: subscriptions and assignments of the embedded consumer protocol, of
//! the one topic `a`.

use std::collections::BTreeSet;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use protocol::groups::Name;

pub(crate) fn subscription() -> Bytes {
    Bytes::from_static(b"\x00\x00\x00\x00\x00\x01\x00\x01a\xff\xff\xff\xff")
}

/// So many partitions, in turn.
pub(crate) fn hand_out(partitions: i32, members: &[Name]) -> Vec<(Name, Bytes)> {
    let mut shares: Vec<Vec<i32>> = vec![Vec::new(); members.len()];
    for (turn, index) in (0..partitions).enumerate() {
        if !members.is_empty() {
            shares[turn % members.len()].push(index);
        }
    }
    let write = |share: Vec<i32>| {
        let mut bytes = BytesMut::from(&b"\x00\x00\x00\x00\x00\x01\x00\x01a"[..]);
        bytes.put_i32(i32::try_from(share.len()).expect("few"));
        share.into_iter().for_each(|index| bytes.put_i32(index));
        bytes.put_i32(-1);
        bytes.freeze()
    };
    members
        .iter()
        .cloned()
        .zip(shares.into_iter().map(write))
        .collect()
}

pub(crate) fn read_assignment(mut bytes: &[u8]) -> BTreeSet<i32> {
    let mut partitions = BTreeSet::new();
    if bytes.is_empty() {
        return partitions;
    }
    bytes.advance(2);
    for _ in 0..bytes.get_i32() {
        bytes.advance(3);
        for _ in 0..bytes.get_i32() {
            partitions.insert(bytes.get_i32());
        }
    }
    partitions
}
