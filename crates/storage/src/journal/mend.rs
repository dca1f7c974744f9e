//! Mends the last frame of a journal if a single bit of it has turned.
//!
//! Behind the last frame nothing proves that it was whole once: damaged, it looks like one that a crash tore, and cutting
//! it off would lose what was acknowledged. A single turned bit can be told and undone, since a CRC is linear: what is
//! stored and what is computed differ by a pattern that names the bit. If after that the checksum holds, these *are* the
//! frame's bytes, whether it was acknowledged (and rotted) or not (and by a rare chance was torn so): both may count.

use bytes::{Bytes, BytesMut};

use super::frame::{FRAME_HEADER_BYTES, FrameHeader};
use crate::checksum::{FrameIdentity, turned_bit};

/// The header that `block` began with before one of its bits turned, or none did.
pub(super) fn mend_header(block: &[u8], identity: &FrameIdentity) -> Option<FrameHeader> {
    let mut header = BytesMut::from(block.get(..FRAME_HEADER_BYTES)?);
    if let Some(bit) = FrameHeader::turned_bit(block, identity)? {
        turn(&mut header, bit);
    }
    FrameHeader::decode(&header, identity)
}

/// The whole `frame` as it was before one of its bits turned; `None` if no single bit explains it.
pub(super) fn mend(frame: &Bytes, identity: &FrameIdentity) -> Option<(FrameHeader, Bytes)> {
    let header = mend_header(frame, identity)?;
    let mut mended = BytesMut::from(&frame[..]);
    let header_turned = FrameHeader::turned_bit(frame, identity)?;
    if let Some(bit) = header_turned {
        turn(&mut mended, bit);
    }
    let body = &mut mended[FRAME_HEADER_BYTES..][..header.body_bytes as usize];
    let difference = header.body_difference(body, identity);
    if difference != 0 {
        // One bit, not one here and one there.
        let bit = turned_bit(difference, body.len()).filter(|_| header_turned.is_none())?;
        turn(body, bit);
    }
    Some((header, mended.freeze()))
}

fn turn(bytes: &mut [u8], bit: u64) {
    bytes[(bit / 8) as usize] ^= 1 << (bit % 8);
}
