//! Messages that arrive as they were sent, however their bytes come.

use proptest::collection::vec;
use proptest::prelude::*;

use super::any::{any_admitted_message, any_message};
use super::*;

/// Feeds bytes to a decoder in pieces of these lengths, the last of which goes on to the end; gives the messages that come out.
fn read_in_pieces(decoder: &mut Decoder, mut bytes: &[u8], pieces: &[usize]) -> Vec<Message> {
    let mut received = BytesMut::new();
    let mut messages = Vec::new();
    let mut pieces = pieces.iter();
    while !bytes.is_empty() {
        let piece = pieces.next().map_or(bytes.len(), |piece| bytes.len().min(*piece));
        received.extend_from_slice(&bytes[..piece]);
        bytes = &bytes[piece..];
        while let Some(message) = decoder.next_message(&mut received).expect("messages") {
            messages.push(message);
        }
        let wanted = decoder.wanted_bytes();
        assert!(received.len() < wanted, "what is there would do");
        assert!(
            wanted <= HEADER_BYTES + BODY_BYTES_MAX,
            "more is waited for than is taken"
        );
    }
    assert!(received.is_empty(), "bytes are left over");
    messages
}

proptest! {
    #[test]
    fn any_message_reads_back(message in any_message()) {
        let bytes = bytes_of(&message);
        prop_assert_eq!(message.encode().length_bytes(), bytes.len());
        prop_assert_eq!(read(message.kind(), &bytes), Ok(Some(message)));
    }

    #[test]
    fn messages_are_told_apart_wherever_they_are_split(
        messages in vec(any_admitted_message(), 1..6),
        pieces in vec(1..200usize, 0..40),
    ) {
        let bytes: Vec<u8> = messages.iter().flat_map(bytes_of).collect();
        prop_assert_eq!(read_in_pieces(&mut admitted(BODY_BYTES_MAX), &bytes, &pieces), messages);
    }
}

#[test]
fn one_of_each_reads_back_byte_by_byte() {
    for (name, message) in one_of_each() {
        let bytes = bytes_of(&message);
        let mut decoder = decoder_for(message.kind());
        let read = read_in_pieces(&mut decoder, &bytes, &vec![1; bytes.len()]);
        assert_eq!(read, [message], "{name}");
    }
}

/// The first byte of a slice, as an address.
fn address(bytes: &[u8]) -> *const u8 {
    bytes.as_ptr()
}

#[test]
fn batches_and_histories_are_not_copied() {
    for name in ["append", "compare-base", "located-base"] {
        let (_, message) = one_of_each()
            .into_iter()
            .find(|(found, _)| *found == name)
            .expect("there is one");
        let mut received = BytesMut::from(&bytes_of(&message)[..]);
        let memory = received.as_ptr_range();
        let Ok(Some(Message::Replica { message: read, .. })) =
            decoder_for(message.kind()).next_message(&mut received)
        else {
            panic!("{name} is read");
        };
        let bytes = match read {
            ReplicaMessage::Prompt(Prompt::Append { batches, .. }) => batches,
            ReplicaMessage::Prompt(Prompt::Compare {
                landmark: Landmark::Base(base),
                ..
            })
            | ReplicaMessage::Sworn(Sworn::Located {
                landmark: Landmark::Base(base),
                ..
            }) => base.history,
            other => panic!("{other:?} has no bytes"),
        };
        assert!(memory.contains(&address(&bytes)), "{name} was copied");
    }
}

#[test]
fn the_batches_that_are_sent_are_those_that_were_handed_in() {
    let batches = Bytes::from(batch(7, 40, 3));
    let message = prompt(Prompt::Append {
        epoch: Epoch(7),
        writer_before: Epoch(7),
        batches: batches.clone(),
    });
    let encoded = message.encode();
    assert_eq!(address(&encoded.batches), address(&batches));
    assert_eq!(encoded.head.len(), HEADER_BYTES + 20 + 1 + 4 + 4);
    assert_eq!(
        prompt(Prompt::Seal { epoch: Epoch(7) }).encode().batches,
        Bytes::new()
    );
}

#[test]
fn a_later_version_may_add_to_its_hello() {
    let Message::Hello(hello) = hello() else {
        panic!("it is a hello");
    };
    let newer = Hello {
        versions: Versions {
            lowest: 1,
            highest: WIRE_VERSIONS.highest + 1,
        },
        ..hello
    };
    let with_more = |hello| {
        let mut body = Message::Hello(hello).encode().head[HEADER_BYTES..].to_vec();
        body.extend_from_slice(b"a field of a later version");
        forgeries::seal(1, &body)
    };
    let read_newer = read(Kind::Hello, &with_more(newer));
    assert_eq!(read_newer, Ok(Some(Message::Hello(newer))));
    assert!(
        read(Kind::Hello, &with_more(hello)).is_err(),
        "version 1 has no more fields"
    );
}
