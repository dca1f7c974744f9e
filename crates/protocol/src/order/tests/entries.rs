//! Entries as bytes.

use proptest::collection::vec;
use proptest::prelude::*;
use record::{Offset, Position};

use super::super::*;

fn any_entry() -> impl Strategy<Value = Entry> {
    let run = (0..=i32::MAX, 1..=u32::MAX).prop_map(|(partition, offsets)| Run { partition, offsets });
    let cut = (any::<u32>(), 0..1_u64 << 60, vec(run, 1..20));
    let cut = cut.prop_map(|(generation, base, runs)| {
        Entry::Cut(Cut {
            generation: Generation(generation),
            base: Position(base),
            ordered: Position(base / 2),
            runs,
        })
    });
    let open = (any::<u32>(), 0..1_u64 << 60, vec(0..=i64::MAX, 0..20));
    let open = open.prop_map(|(generation, first, vector)| {
        Entry::Open(Open {
            generation: Generation(generation),
            first: Position(first),
            vector: vector.into_iter().map(Offset).collect(),
        })
    });
    prop_oneof![cut, open]
}

proptest! {
    #[test]
    fn entries_read_back_and_shorter_ones_are_refused(entry in any_entry()) {
        let bytes = entry.encode();
        prop_assert_eq!(Entry::decode(&bytes), Ok(entry));
        for length in 0..bytes.len() {
            prop_assert!(Entry::decode(&bytes[..length]).is_err());
        }
        let longer = [&bytes[..], &[0]].concat();
        prop_assert!(Entry::decode(&longer).is_err());
    }

    #[test]
    fn any_bytes_are_an_entry_or_refused(bytes in vec(any::<u8>(), 0..80)) {
        if let Ok(entry) = Entry::decode(&bytes) {
            prop_assert_eq!(&entry.encode()[..], &bytes[..]);
        }
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let cut = |base, ordered, runs: &[(i32, u32)]| {
        let runs = runs.iter().map(|(partition, offsets)| Run {
            partition: *partition,
            offsets: *offsets,
        });
        Entry::Cut(Cut {
            generation: Generation(1),
            base: Position(base),
            ordered: Position(ordered),
            runs: runs.collect(),
        })
    };
    let last = i64::MAX as u64;
    assert!(Entry::decode(&cut(last - 1, 0, &[(0, 1)]).encode()).is_ok());
    for impossible in [
        cut(5, 6, &[(0, 1)]),
        cut(5, 5, &[]),
        cut(5, 5, &[(0, 0)]),
        cut(5, 5, &[(-1, 1)]),
        cut(last - 1, 0, &[(0, 1), (1, 1)]),
        cut(last + 1, 0, &[(0, 1)]),
        Entry::Open(Open {
            generation: Generation(1),
            first: Position(0),
            vector: vec![Offset(-1)],
        }),
    ] {
        assert!(Entry::decode(&impossible.encode()).is_err(), "{impossible:?}");
    }
    for (at, value) in [(0, 2), (1, 3)] {
        let mut bytes = cut(5, 5, &[(0, 1)]).encode().to_vec();
        bytes[at] = value;
        assert!(Entry::decode(&bytes).is_err(), "byte {at}");
    }
}
