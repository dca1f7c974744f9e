//! Tests of a request's memory: the layout for any position, and when a batch is alone in it.

use platform::disk::BLOCK_BYTES;

use super::*;

const BATCH_BYTES: usize = 1_000_000;

/// A request of `head` bytes, a batch and three bytes behind it.
fn received(head: usize) -> (Bytes, SharedMemory) {
    let mut memory = BatchMemory::for_request(head, head + BATCH_BYTES + 3);
    memory.rest().put_bytes(1, head);
    assert_eq!(memory.missing(), BATCH_BYTES + 3);
    memory.rest().put_bytes(2, BATCH_BYTES);
    memory.rest().put_bytes(3, 3);
    memory.share()
}

fn alone(head: usize) -> BatchMemory {
    let (request, shared) = received(head);
    let batch = request.slice(head..head + BATCH_BYTES);
    drop(request);
    match shared.reclaim(batch) {
        BatchBytes::Alone(memory) => memory,
        BatchBytes::Shared(_) => panic!("nobody else holds it"),
    }
}

#[test]
fn a_batch_becomes_a_frame_wherever_it_begins() {
    for head in [
        0,
        1,
        HEADERS_BYTES - 1,
        HEADERS_BYTES,
        HEADERS_BYTES + 1,
        5_000,
        70_000,
    ] {
        let mut memory = alone(head);
        let address = memory.batch().as_ptr();
        assert!(memory.batch().iter().all(|byte| *byte == 2));
        memory.frame_mut()[..HEADERS_BYTES].fill(9);
        let frame = memory.into_padded_frame();
        assert_eq!(frame.len(), round_up_to_block(HEADERS_BYTES + BATCH_BYTES));
        assert!((frame.as_ptr() as usize).is_multiple_of(BLOCK_BYTES));
        assert!(frame[..HEADERS_BYTES].iter().all(|byte| *byte == 9));
        assert_eq!(frame[HEADERS_BYTES..].as_ptr(), address, "it was not moved");
        assert!(
            frame[HEADERS_BYTES..][..BATCH_BYTES]
                .iter()
                .all(|byte| *byte == 2)
        );
        assert!(
            frame[HEADERS_BYTES + BATCH_BYTES..].iter().all(|byte| *byte == 0),
            "nothing of the request is left behind the batch (it began at {head})"
        );
    }
}

#[test]
fn memory_is_as_much_as_was_taken_for_the_request() {
    for head in [0, HEADERS_BYTES, 70_000] {
        let memory = alone(head);
        assert!(memory.bytes() >= head + BATCH_BYTES + 3);
        let with_frame = head + HEADERS_BYTES + BATCH_BYTES + 3 + 2 * BLOCK_BYTES;
        assert!(memory.bytes() <= with_frame, "{} for {head}", memory.bytes());
    }
}

#[test]
fn memory_that_somebody_still_reads_is_left_alone() {
    let (request, shared) = received(40);
    let topic = request.slice(3..7);
    let batch = request.slice(40..40 + BATCH_BYTES);
    drop(request);
    let batch = shared.reclaim(batch);
    assert!(matches!(batch, BatchBytes::Shared(_)));
    assert!(batch.len() == BATCH_BYTES && batch.iter().all(|byte| *byte == 2));
    assert_eq!(&topic[..], [1; 4]);
}

#[test]
fn a_small_batch_does_not_keep_a_large_request() {
    for (rest_bytes, stays) in [(1_000, true), (BATCH_BYTES / 9, true), (BATCH_BYTES / 8, false)] {
        let mut memory = BatchMemory::for_request(HEADERS_BYTES, HEADERS_BYTES + BATCH_BYTES + rest_bytes);
        memory
            .rest()
            .put_bytes(1, HEADERS_BYTES + BATCH_BYTES + rest_bytes);
        let (request, shared) = memory.share();
        let batch = request.slice(HEADERS_BYTES..HEADERS_BYTES + BATCH_BYTES);
        drop(request);
        let batch = shared.reclaim(batch);
        assert_eq!(
            matches!(batch, BatchBytes::Alone(_)),
            stays,
            "{rest_bytes} bytes behind it"
        );
        assert_eq!(batch.len(), BATCH_BYTES);
    }
}

#[test]
fn a_batch_elsewhere_in_the_request_is_copied() {
    let (request, shared) = received(40);
    let later = request.slice(41..);
    drop(request);
    let batch = shared.reclaim(later.clone());
    assert!(matches!(batch, BatchBytes::Shared(ref bytes) if *bytes == later));
}
