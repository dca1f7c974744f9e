//! The identity of a new topic. Whoever makes one brings the randomness.

use record::TopicId;

/// The Base64 character that is a minus sign, by the six bits that make it.
const MINUS: u8 = 62;

/// A topic's identity as Kafka makes them, of 16 random bytes: a random UUID (RFC 9562, version 4), which none of the
/// reserved ones is, and whose Base64 form no tool takes for an option.
#[must_use]
pub fn fresh_topic_id(random: [u8; 16]) -> TopicId {
    let mut bytes = random;
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    if bytes[0] >> 2 == MINUS {
        bytes[0] ^= 0x80;
    }
    TopicId(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_are_random_uuids_that_tools_can_print() {
        for first in 0..=u8::MAX {
            for filler in [0, 0x55, 0xff] {
                let mut random = [filler; 16];
                random[0] = first;
                let id = fresh_topic_id(random);
                assert_eq!((id.0[6] >> 4, id.0[8] >> 6), (4, 2), "{id}");
                assert_ne!(id.0[0] >> 2, MINUS, "{id}");
                assert_eq!(
                    (&id.0[1..6], &id.0[9..]),
                    (&random[1..6], &random[9..]),
                    "all else is as it was drawn"
                );
            }
        }
    }
}
