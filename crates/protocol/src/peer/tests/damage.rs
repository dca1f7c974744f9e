//! Bytes that were cut short, and bytes that were changed on their way.

use super::*;

#[test]
fn a_message_that_is_cut_short_is_waited_for() {
    for (name, message) in one_of_each() {
        let bytes = bytes_of(&message);
        let mut decoder = decoder_for(message.kind());
        for length in 0..bytes.len() {
            let mut received = BytesMut::from(&bytes[..length]);
            assert_eq!(
                decoder.next_message(&mut received),
                Ok(None),
                "{name}, {length} bytes"
            );
            assert_eq!(received.len(), length, "{name}: nothing is taken yet");
            let wanted = if length < HEADER_BYTES {
                HEADER_BYTES
            } else {
                bytes.len()
            };
            assert_eq!(decoder.wanted_bytes(), wanted, "{name}, {length} bytes");
        }
    }
}

/// At once: a changed length must not have the receiver wait for more.
#[test]
fn a_bit_that_was_turned_is_found_at_once() {
    for (name, message) in one_of_each() {
        let bytes = bytes_of(&message);
        for bit in 0..8 * bytes.len() {
            let mut turned = bytes.clone();
            turned[bit / 8] ^= 1 << (bit % 8);
            let kind = message.kind();
            let expected = match bit / 8 {
                ..HEADER_BYTES => MessageError::NotAPeer,
                _ => MessageError::Damaged { kind },
            };
            assert_eq!(read(kind, &turned), Err(expected), "{name}, bit {bit}");
        }
    }
}

#[test]
fn a_swapped_body_is_found() {
    let first = bytes_of(&prompt(Prompt::Seal { epoch: Epoch(1) }));
    let second = bytes_of(&prompt(Prompt::Seal { epoch: Epoch(2) }));
    let swapped = [&first[..HEADER_BYTES], &second[HEADER_BYTES..]].concat();
    let damaged = MessageError::Damaged { kind: Kind::Prompt };
    assert_eq!(read(Kind::Prompt, &swapped), Err(damaged));
}

#[test]
fn nothing_comes_behind_an_error() {
    let good = bytes_of(&prompt(Prompt::Seal { epoch: Epoch(1) }));
    let mut bad = good.clone();
    bad[HEADER_BYTES] ^= 1;
    let mut received = BytesMut::from(&[bad, good].concat()[..]);
    let mut decoder = admitted(BODY_BYTES_MAX);
    let damaged = Err(MessageError::Damaged { kind: Kind::Prompt });
    assert_eq!(decoder.next_message(&mut received), damaged);
    assert_eq!(decoder.next_message(&mut received), damaged);
    assert_eq!(decoder.next_message(&mut BytesMut::new()), damaged);
}

#[test]
fn other_protocols_are_told_from_peers() {
    let said: [&[u8]; 3] = [
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        // A request of Kafka for its versions.
        b"\x00\x00\x00\x2a\x00\x12\x00\x03\x00\x00\x00\x00\x00\x07console",
        &[0; 16],
    ];
    for said in said {
        assert_eq!(read(Kind::Hello, said), Err(MessageError::NotAPeer));
    }
    assert_eq!(
        MessageError::NotAPeer.to_string(),
        "these bytes are not the header of a message: they were damaged, or something else than a node of Ropewalk is speaking"
    );
}
