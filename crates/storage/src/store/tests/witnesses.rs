//! Tests of witnesses: once journaled they are known for ever, whatever becomes of the journal's files.

use std::sync::Arc;

use platform::disk::Disk;

use super::rig::{Rig, config};
use crate::check::check;
use crate::checksum::DirectoryId;
use crate::inspect::{EntryListing, list_frames, list_witnesses};
use crate::witness::Witness;

fn witness(node: i32, frame: u64) -> Witness {
    Witness {
        node,
        directory: DirectoryId([6; 16]),
        journal: 1,
        frame,
    }
}

/// The witnesses that the checkpoint has, and those that the journal has since then.
fn stored(rig: &Rig) -> (Vec<Witness>, Vec<Witness>) {
    let disk: Arc<dyn Disk> = Arc::new(rig.disk.clone());
    let (frames, faults) = list_frames(&disk, &config().identity);
    assert!(faults.is_empty(), "{faults:?}");
    let entries = frames.into_iter().flat_map(|frame| frame.entries);
    let journaled = entries.filter_map(|entry| match entry {
        EntryListing::Witness(witness) => Some(witness),
        _ => None,
    });
    let kept = list_witnesses(&disk, &config().identity).expect("the checkpoint is sound");
    (kept, journaled.collect())
}

fn journal(rig: &mut Rig, witnesses: &[Witness]) {
    for witness in witnesses {
        rig.store.witness(witness).expect("there is room");
    }
    rig.append(0, 10);
    rig.flush();
}

/// Journals witnesses, and goes on with checkpoints and starts.
pub(super) fn witness_and_go_on() {
    let mut rig = Rig::new();
    journal(&mut rig, &[witness(2, 7), witness(3, 5), witness(2, 8)]);
    let known = [witness(2, 8), witness(3, 5)];
    rig.lay_out();
    assert_eq!(
        stored(&rig),
        (known.to_vec(), Vec::new()),
        "the journal is laid out"
    );
    for _ in 0..2 {
        let recovered;
        (rig, recovered) = rig.restart();
        assert_eq!(recovered.witnesses, known);
        journal(&mut rig, &[]);
        rig.lay_out();
    }
    let later = [witness(1, 0), witness(2, 9), witness(3, 4)];
    journal(&mut rig, &later);
    assert_eq!(stored(&rig), (known.to_vec(), later.to_vec()));
    let known = [witness(1, 0), witness(2, 9), witness(3, 5)];
    let disk: Arc<dyn Disk> = Arc::new(rig.disk.clone());
    let report = check(&disk, &config().identity, &mut |_| {}).expect("the checkpoint is sound");
    assert!(report.is_sound(), "{:?}", report.faults);
    assert_eq!(report.witnesses, known);
    let (_, recovered) = rig.restart();
    assert_eq!(recovered.witnesses, known, "what was durable once stays so");
}

#[test]
fn witnesses_outlive_the_journal_that_they_were_in() {
    witness_and_go_on();
}

#[test]
#[should_panic(expected = "a frame of a node's")]
fn a_witness_of_no_node_is_not_journaled() {
    let _ = Rig::new().store.witness(&witness(-1, 7));
}
