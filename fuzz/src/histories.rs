//! A partition's history as a checkpoint has it: whatever the bytes are, an error, or a history that reads back from what it writes.
//!
//! An input is the offset where the log ends, then some batches behind the checkpoint, then the history's bytes.

use std::time::Duration;

use protocol::history::Configuration;
use protocol::{BatchFacts, Ending, History, NodeId, Part, ProducerId, ProducerLimits, Stamp};
use record::{Epoch, Offset};

use crate::input::Input;

/// Later than any silence that a history can tell of.
const NOW: Duration = Duration::from_nanos(u64::MAX);
const BATCHES_MAX: usize = 8;

/// See the module.
pub fn run(input: &[u8]) {
    let mut input = Input::new(input);
    let tail = Offset(i64::from(input.u16()));
    let batches: Vec<_> = (0..input.below(BATCHES_MAX)).map(|_| batch(&mut input)).collect();
    let bytes = input.rest();
    let Ok(history) = restore(bytes) else {
        return;
    };
    let whole = history.snapshot(NOW, Offset(i64::MAX));
    assert_eq!(whole, bytes, "one history has one form");
    let mut cut = history.clone();
    cut.cut_to(tail);
    let below = history.snapshot(NOW, tail);
    assert_eq!(
        restore(&below).as_ref(),
        Ok(&cut),
        "a snapshot claims what lies below its offset, and nothing else"
    );
    let recovered = History::recover(NOW, ProducerLimits::default(), bytes, tail, batches);
    if let Ok(recovered) = recovered {
        assert_eq!(restore(&recovered.snapshot(NOW, Offset(i64::MAX))), Ok(recovered));
    }
}

fn restore(bytes: &[u8]) -> Result<History, protocol::DecodeError> {
    History::restore(NOW, ProducerLimits::default(), bytes)
}

fn batch(input: &mut Input<'_>) -> BatchFacts {
    let producer = input.u8();
    BatchFacts {
        epoch: Epoch(input.u8().into()),
        first_offset: Offset(input.u16().into()),
        record_count: 1 + i32::from(input.u8()),
        max_timestamp_ms: input.u16().into(),
        producer: (!producer.is_multiple_of(4)).then(|| Stamp {
            id: ProducerId(i64::from(producer % 4)),
            epoch: i16::from(producer / 4 % 4),
            first_sequence: input.u16().into(),
        }),
        part: part(input),
    }
}

fn part(input: &mut Input<'_>) -> Part {
    let ends = |commit, coordinator_epoch: u8, aborts| {
        Part::Ends(Ending {
            commit,
            coordinator_epoch: coordinator_epoch.into(),
            aborts,
        })
    };
    match input.u8() % 4 {
        0 => Part::Outside,
        1 => Part::Inside,
        2 => ends(true, input.u8(), None),
        _ => ends(false, input.u8(), Some(Offset(input.u16().into()))),
    }
}

/// An empty history, one with all that a replica is bound to, and ones of several epochs and producers.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut history = History::new(ProducerLimits::default());
    let mut histories = vec![history.clone()];
    let facts = |epoch, first: i64, producer: i64, first_sequence, part| BatchFacts {
        epoch: Epoch(epoch),
        first_offset: Offset(first),
        record_count: 10,
        max_timestamp_ms: 1_000 + first,
        producer: (producer > 0).then_some(Stamp {
            id: ProducerId(producer),
            epoch: 0,
            first_sequence,
        }),
        part,
    };
    let committed = Ending {
        commit: true,
        coordinator_epoch: 3,
        aborts: None,
    };
    let batches = [
        facts(0, 0, 1, 0, Part::Outside),
        facts(0, 10, 0, 0, Part::Outside),
        facts(2, 20, 1, 10, Part::Inside),
        facts(2, 30, 2, 0, Part::Inside),
        facts(5, 40, 2, 10, Part::Inside),
        facts(5, 50, 2, -1, Part::Ends(committed)),
    ];
    for batch in &batches {
        history.replay(Duration::ZERO, batch).expect("in order");
        histories.push(history.clone());
    }
    history.vows.promised = Some(Epoch(7));
    history.vows.accepted = Some(Epoch(6));
    history.unsettled = vec![
        Configuration {
            epoch: Epoch(3),
            replicas: vec![NodeId(1), NodeId(2), NodeId(3)],
            ack_quorum: 2,
        },
        Configuration {
            epoch: Epoch(6),
            replicas: vec![NodeId(4)],
            ack_quorum: 1,
        },
    ];
    histories.push(history);
    let seed = |history: &History| {
        let batches = [1, 5, 5, 50, 0, 9, 0, 3, 20, 0];
        [&[45, 0][..], &batches, &history.snapshot(NOW, Offset(i64::MAX))].concat()
    };
    histories.iter().map(seed).collect()
}
