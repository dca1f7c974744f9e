//! Bytes that a connection receives or moves, in pieces: others have their turn in between.
//!
//! To copy is the least of it. The system fills memory with zeros before it is used for the first time, a huge page at once, and
//! that takes many times as long.

use std::io;

use bytes::{BufMut, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::task::yield_now;

use platform::turns;

/// Bytes that are received or moved before it is looked at whether others should have their turn.
const PIECE_BYTES: usize = 512 << 10;
/// A byte that comes into memory counts as so many that are only looked through.
const WORK_OF_A_BYTE: usize = 2;

/// Receives a piece at most; 0 if the input has ended. Nothing is lost if it is dropped while it waits.
pub(super) async fn receive(
    input: &mut (impl AsyncRead + Unpin),
    memory: &mut impl BufMut,
) -> io::Result<usize> {
    give_way().await;
    let received = input.read_buf(&mut memory.limit(PIECE_BYTES)).await?;
    turns::spend(received * WORK_OF_A_BYTE);
    Ok(received)
}

/// Makes room for so many bytes behind those that are there. Nothing is lost if it is dropped while it waits.
pub(super) async fn make_room(buffer: &mut BytesMut, bytes: usize) {
    if buffer.len() <= PIECE_BYTES || buffer.capacity() - buffer.len() >= bytes {
        buffer.reserve(bytes);
        return;
    }
    let mut larger = BytesMut::with_capacity(buffer.len() + bytes);
    copy(buffer, &mut larger).await;
    *buffer = larger;
}

/// Copies all bytes behind those that are there already.
pub(super) async fn copy(bytes: &[u8], memory: &mut impl BufMut) {
    for piece in bytes.chunks(PIECE_BYTES) {
        give_way().await;
        memory.put_slice(piece);
        turns::spend(piece.len() * WORK_OF_A_BYTE);
    }
}

async fn give_way() {
    if turns::is_spent() {
        yield_now().await;
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;
    use platform::turns::{TURN_BYTES, metered};

    const LARGE: usize = 40 << 20;
    const TURNS_MIN: usize = LARGE * WORK_OF_A_BYTE / (TURN_BYTES + PIECE_BYTES * WORK_OF_A_BYTE);

    /// Runs a task that has all it waits for, and returns its turns.
    fn turns_of(task: impl Future<Output = ()>) -> usize {
        let mut task = pin!(metered(task));
        let mut context = Context::from_waker(Waker::noop());
        let mut turns = 1;
        while task.as_mut().poll(&mut context) == Poll::Pending {
            turns += 1;
        }
        turns
    }

    #[test]
    fn what_has_come_is_received_in_many_turns() {
        let sent = vec![7; LARGE];
        let mut buffer = BytesMut::with_capacity(LARGE);
        let turns = turns_of(async {
            let mut input = &sent[..];
            while receive(&mut input, &mut buffer).await.expect("it does not fail") > 0 {}
        });
        assert!(buffer == sent);
        assert!(turns >= TURNS_MIN, "{turns} turns");
    }

    #[test]
    fn a_buffer_that_grows_is_moved_in_many_turns() {
        let mut buffer = BytesMut::from(&vec![7; LARGE][..]);
        let turns = turns_of(make_room(&mut buffer, LARGE));
        assert!(buffer.len() == LARGE && buffer.iter().all(|byte| *byte == 7));
        assert!(buffer.capacity() >= LARGE * 2);
        assert!(turns >= TURNS_MIN, "{turns} turns");
    }

    #[test]
    fn what_has_room_is_not_moved() {
        let mut buffer = BytesMut::with_capacity(LARGE * 2);
        buffer.put_bytes(7, LARGE);
        let before = buffer.as_ptr();
        assert_eq!(turns_of(make_room(&mut buffer, LARGE)), 1);
        assert_eq!(buffer.as_ptr(), before);
    }
}
