//! Messages whose checksums hold and that say what cannot be: of a hostile peer, or of a version that this program does not know.

use super::*;

/// A message of any kind and body, with checksums that hold: made from docs/protocols/peers.md, without the code under test.
pub(super) fn seal(kind: u8, body: &[u8]) -> Vec<u8> {
    sealed_header(kind, body.len() as u32, [0; 3], body)
}

fn sealed_header(kind: u8, body_bytes: u32, reserved: [u8; 3], body: &[u8]) -> Vec<u8> {
    let mut message = body_bytes.to_be_bytes().to_vec();
    message.push(kind);
    message.extend_from_slice(&reserved);
    message.extend_from_slice(&crc_fast::crc32_iscsi(body).to_be_bytes());
    message.extend_from_slice(&crc_fast::crc32_iscsi(&message).to_be_bytes());
    message.extend_from_slice(body);
    message
}

/// The message with some bytes of its body replaced, and the sentence that it is refused with.
fn refusal(name: &str, at: usize, bytes: &[u8]) -> String {
    let (_, message) = one_of_each()
        .into_iter()
        .find(|(found, _)| *found == name)
        .expect("there is one");
    let whole = bytes_of(&message);
    let mut body = whole[HEADER_BYTES..].to_vec();
    body[at..at + bytes.len()].copy_from_slice(bytes);
    let forged = seal(whole[4], &body);
    assert_ne!(forged, whole, "{name} at {at} is as it was");
    match read(message.kind(), &forged) {
        Err(error) => error.to_string(),
        other => panic!("{name} at {at} is taken: {other:?}"),
    }
}

#[test]
fn an_endless_message_is_refused_by_its_header() {
    for (kind, byte) in Kind::ALL {
        let limit = match kind {
            Kind::Hello | Kind::Refused | Kind::Heartbeat | Kind::Join | Kind::Joined | Kind::RangeWish => {
                GREETING_BYTES_MAX
            }
            _ => BODY_BYTES_MAX,
        };
        for body_bytes in [limit + 1, u32::MAX as usize] {
            let header = &sealed_header(byte, body_bytes as u32, [0; 3], b"")[..HEADER_BYTES];
            let mut received = BytesMut::from(header);
            let capacity = received.capacity();
            let mut decoder = decoder_for(kind);
            let refused = decoder.next_message(&mut received).expect_err("it is too long");
            assert_eq!(
                refused.to_string(),
                format!(
                    "a {} of {body_bytes} bytes was announced, and at most {limit} are taken",
                    kind.name()
                )
            );
            assert_eq!(received.capacity(), capacity, "no room was made for it");
            assert!(decoder.wanted_bytes() <= HEADER_BYTES + limit);
        }
    }
}

#[test]
fn the_longest_message_is_taken() {
    let append = |length: usize| {
        prompt(Prompt::Append {
            epoch: Epoch(1),
            writer_before: NO_EPOCH,
            batches: vec![7; length].into(),
        })
    };
    let limit = append(1_000).encode().length_bytes() - HEADER_BYTES;
    let read = |length| admitted(limit).next_message(&mut BytesMut::from(&bytes_of(&append(length))[..]));
    assert_eq!(read(1_000), Ok(Some(append(1_000))));
    assert!(matches!(read(1_001), Err(MessageError::TooLong { .. })));
}

#[test]
fn unknown_kinds_and_reserved_bytes_are_refused() {
    for kind in [0, 22, 255] {
        let refused = read(Kind::Prompt, &seal(kind, b""));
        assert_eq!(refused, Err(MessageError::UnknownKind { kind }));
    }
    for reserved in [[1, 0, 0], [0, 128, 0], [0, 0, 1]] {
        let forged = sealed_header(3, 0, reserved, b"");
        assert_eq!(read(Kind::Heartbeat, &forged), Err(MessageError::Reserved));
    }
    assert_eq!(
        MessageError::UnknownKind { kind: 17 }.to_string(),
        "there is no kind 17 of messages: a newer version wrote this one, upgrade this node"
    );
    assert_eq!(
        MessageError::Reserved.to_string(),
        "reserved bytes are in use: a newer version wrote this message, upgrade this node"
    );
}

#[test]
fn nobody_speaks_before_a_hello_or_says_it_twice() {
    for (name, message) in one_of_each() {
        let kind = message.kind();
        let bytes = bytes_of(&message);
        let mut decoder = Decoder::new(BODY_BYTES_MAX);
        let mut say = |bytes: &[u8]| decoder.next_message(&mut BytesMut::from(bytes));
        match kind {
            Kind::Refused | Kind::Join | Kind::Joined => {
                assert_eq!(say(&bytes), Ok(Some(message)), "{name}");
            }
            Kind::Hello => {
                assert_eq!(say(&bytes), Ok(Some(message)), "{name}");
                let twice = say(&bytes).expect_err("once is enough").to_string();
                assert_eq!(twice, "a hello may not come before its sender is admitted");
                let again = admitted(BODY_BYTES_MAX).next_message(&mut BytesMut::from(&bytes[..]));
                let again = again.expect_err("once is enough").to_string();
                assert_eq!(again, "a hello may not come once its sender is admitted");
            }
            // By its header alone.
            _ => {
                let early = say(&bytes[..HEADER_BYTES])
                    .expect_err("it is too early")
                    .to_string();
                assert_eq!(
                    early,
                    format!("a {} may not come before a hello", kind.name()),
                    "{name}"
                );
                let mut greeted = Decoder::new(BODY_BYTES_MAX);
                let both = [bytes_of(&hello()), bytes].concat();
                let mut received = BytesMut::from(&both[..]);
                assert_eq!(greeted.next_message(&mut received), Ok(Some(hello())));
                let early = greeted
                    .next_message(&mut received)
                    .expect_err("it is too early")
                    .to_string();
                assert_eq!(
                    early,
                    format!("a {} may not come before its sender is admitted", kind.name()),
                    "{name}"
                );
            }
        }
    }
}

/// A connection that was admitted here may be refused over there.
#[test]
fn a_refusal_may_come_at_any_time() {
    let (_, refused) = one_of_each().swap_remove(1);
    let read = admitted(BODY_BYTES_MAX).next_message(&mut BytesMut::from(&bytes_of(&refused)[..]));
    assert_eq!(read, Ok(Some(refused)));
}

#[test]
fn bodies_that_are_too_short_or_too_long_are_refused() {
    // Other formats say what the bodies of these are.
    let is_opaque = |message: &Message| matches!(message.kind(), Kind::Group | Kind::Proposal);
    for (name, message) in one_of_each()
        .into_iter()
        .filter(|(_, message)| !is_opaque(message))
    {
        let whole = bytes_of(&message);
        let (byte, body) = (whole[4], &whole[HEADER_BYTES..]);
        let kind = message.kind();
        // Batches follow, which are looked at later.
        let batches_begin = match name {
            "append" => 30,
            "range" => 28,
            "ask" | "told" => 8,
            // Behind a way of two nodes.
            "relay" => 13 + 30,
            _ => usize::MAX,
        };
        for length in 0..body.len() {
            let result = read(kind, &seal(byte, &body[..length]));
            let has_fewer_batches = length >= batches_begin;
            let is_refused = matches!(result, Err(MessageError::Content { .. }));
            assert_ne!(
                is_refused, has_fewer_batches,
                "{name}, {length} bytes: {result:?}"
            );
        }
        if batches_begin == usize::MAX {
            let longer = read(kind, &seal(byte, &[body, b"x"].concat()));
            let longer = longer.expect_err("nothing may follow").to_string();
            let expected = format!("a {} cannot be read: 1 bytes are left over", kind.name());
            assert_eq!(longer, expected, "{name}");
        }
    }
}

/// Every field of every message that can be wrong by itself: the message, the place in its body, the bytes, and what is said.
#[test]
fn fields_that_cannot_be_are_refused_by_name() {
    const NEGATIVE: &[u8] = &[0xff];
    const MINUS_TWO: &[u8] = &[0xff, 0xff, 0xff, 0xfe];
    let impossible = |field: &str| format!("{field} does not hold a possible value");
    let unknown = |value: u8, field: &str| format!("{value} is not a known {field}");
    let cases: Vec<(&str, usize, &[u8], String)> = vec![
        ("relay", 0, NEGATIVE, impossible("leader of a relay")),
        ("relay", 4, &[17], impossible("nodes of a way")),
        ("relay", 5, NEGATIVE, impossible("node of a way")),
        // The leader, and the other one again.
        ("relay", 8, &[1], impossible("node of a way")),
        ("relay", 8, &[9], impossible("node of a way")),
        ("relay", 13 + 20, &[1], impossible("message of a relay")),
        ("hello", 0, b"X", impossible("magic")),
        ("hello", 8, &[0, 0], impossible("range of wire versions")),
        ("hello", 8, &[0, 2], impossible("range of wire versions")),
        ("hello", 10, &[0, 0], impossible("range of wire versions")),
        ("hello", 28, NEGATIVE, impossible("node id")),
        ("hello", 56, &[0, 0], impossible("number of shards")),
        ("hello", 64, NEGATIVE, impossible("metadata offset")),
        ("refused", 0, &[0], unknown(0, "reason of a refusal")),
        ("refused", 0, &[9], unknown(9, "reason of a refusal")),
        (
            "refused",
            1,
            &[0xff; 4],
            "the bytes end inside text of a refusal: 4294967295 wanted, 45 left".to_owned(),
        ),
        ("refused", 5, b"\n", impossible("text of a refusal")),
        ("refused", 5, b"\x1b", impossible("text of a refusal")),
        ("refused", 5, &[0xff], "text of a refusal is not UTF-8".to_owned()),
        ("heartbeat", 0, NEGATIVE, impossible("metadata offset")),
        (
            "witnessed",
            0,
            &[0, 0, 1, 0],
            "the bytes end inside journals: 2048 wanted, 16 left".to_owned(),
        ),
        ("join", 0, b"X", impossible("magic")),
        ("join", 8, &[0, 0], impossible("range of wire versions")),
        ("join", 12, MINUS_TWO, impossible("node id")),
        ("join", 16, &[2], unknown(2, "home")),
        ("join", 33, &[0, 0], impossible("number of shards")),
        ("join", 35, &[2], unknown(2, "address for other nodes")),
        ("joined", 16, NEGATIVE, impossible("node id")),
        ("range-wish", 16, NEGATIVE, impossible("partition index")),
        ("range-wish", 28, NEGATIVE, impossible("first offset")),
        ("range-wish", 36, NEGATIVE, impossible("next offset")),
        // Nothing is wanted.
        ("range-wish", 42, &[5, 6], impossible("next offset")),
        ("range-wish", 44, &[0; 4], impossible("most bytes")),
        ("range", 16, NEGATIVE, impossible("partition index")),
        ("seal", 16, NEGATIVE, impossible("partition index")),
        ("seal", 20, &[0], unknown(0, "kind of prompt")),
        ("seal", 20, &[11], unknown(11, "kind of prompt")),
        ("seal", 21, &[0xff; 4], impossible("epoch")),
        ("locate", 25, NEGATIVE, impossible("offset")),
        ("copy", 25, NEGATIVE, impossible("offset")),
        ("differs", 25, NEGATIVE, impossible("offset")),
        ("commit", 25, NEGATIVE, impossible("offset")),
        ("trim", 25, NEGATIVE, impossible("offset")),
        ("accept", 25, NEGATIVE, impossible("offset")),
        ("accept", 33, MINUS_TWO, impossible("epoch of the record before")),
        (
            "accept",
            33,
            &[0, 0, 0, 8],
            impossible("epoch of the record before"),
        ),
        ("append", 25, MINUS_TWO, impossible("epoch of the record before")),
        (
            "append",
            25,
            &[0, 0, 0, 8],
            impossible("epoch of the record before"),
        ),
        ("refused-fenced", 25, &[0], unknown(0, "refusal")),
        ("refused-fenced", 25, &[4], unknown(4, "refusal")),
        (
            "refused-fenced",
            26,
            &[0xff; 4],
            impossible("earliest epoch that is listened to"),
        ),
        ("refused-apart", 26, NEGATIVE, impossible("tail")),
        ("refused-committed", 26, NEGATIVE, impossible("tail")),
        ("compare-run", 25, &[0], unknown(0, "kind of landmark")),
        ("compare-run", 25, &[4], unknown(4, "kind of landmark")),
        ("compare-run", 26, &[0xff; 4], impossible("epoch of a run")),
        ("compare-run", 30, NEGATIVE, impossible("first offset of a run")),
        ("compare-run", 38, NEGATIVE, impossible("end of a run")),
        // It ends where it begins.
        ("compare-run", 45, &[100], impossible("end of a run")),
        ("compare-run", 46, MINUS_TWO, impossible("epoch behind a run")),
        ("compare-run", 49, &[4], impossible("epoch behind a run")),
        ("compare-end", 26, NEGATIVE, impossible("end of the log")),
        ("compare-base", 26, NEGATIVE, impossible("base")),
        ("compare-base", 33, &[0], impossible("base")),
        (
            "compare-base",
            34,
            NEGATIVE,
            impossible("end of what a history covers"),
        ),
        (
            "compare-base",
            41,
            &[149],
            impossible("end of what a history covers"),
        ),
        ("compare-base", 42, &[2], unknown(2, "run at the base")),
        // The run is 100 to 200.
        ("compare-base", 62, &[150], impossible("run at the base")),
        ("compare-base", 33, &[99], impossible("run at the base")),
        (
            "compare-base",
            67,
            &[0xff; 4],
            "the bytes end inside history: 4294967295 wanted, 9 left".to_owned(),
        ),
        ("acknowledged", 20, &[0], unknown(0, "kind of sworn message")),
        ("acknowledged", 20, &[4], unknown(4, "kind of sworn message")),
        ("acknowledged", 25, MINUS_TWO, impossible("accepted epoch")),
        ("acknowledged", 29, NEGATIVE, impossible("end of the log")),
        ("promised", 25, MINUS_TWO, impossible("accepted epoch")),
        ("promised", 29, MINUS_TWO, impossible("epoch of the last batch")),
        ("promised", 33, NEGATIVE, impossible("beginning of the log")),
        ("promised", 41, NEGATIVE, impossible("tail")),
        ("promised", 49, NEGATIVE, impossible("end of the log")),
        (
            "promised",
            48,
            &[9],
            impossible("tail between beginning and end of the log"),
        ),
        (
            "promised",
            48,
            &[31],
            impossible("tail between beginning and end of the log"),
        ),
        ("promised", 57, &[2], unknown(2, "certainty")),
        ("promised", 62, MINUS_TWO, impossible("leader that may believe")),
        ("promised", 66, &[1], impossible("time that is left")),
        (
            "promised",
            58,
            &[0xff; 4],
            "the bytes end inside leaders that may believe: 51539607540 wanted, 24 left".to_owned(),
        ),
        ("beat-echo", 8, &[2], unknown(2, "echo")),
    ];
    for (name, at, bytes, expected) in cases {
        let said = refusal(name, at, bytes);
        let said = said.split_once(" cannot be read: ").map(|(_, said)| said);
        assert_eq!(said, Some(expected.as_str()), "{name} at {at}");
    }
}

#[test]
fn a_refusal_that_is_a_book_is_refused() {
    let mut body = vec![1];
    body.extend_from_slice(&(REFUSED_TEXT_BYTES_MAX as u32 + 1).to_be_bytes());
    body.resize(body.len() + REFUSED_TEXT_BYTES_MAX + 1, b'a');
    let refused = read(Kind::Refused, &seal(2, &body)).expect_err("it is too long");
    assert_eq!(
        refused.to_string(),
        "a refusal cannot be read: text of a refusal does not hold a possible value"
    );
}

#[test]
fn an_append_has_a_batch() {
    let message = prompt(Prompt::Append {
        epoch: Epoch(1),
        writer_before: NO_EPOCH,
        batches: Bytes::new(),
    });
    let refused = read(Kind::Prompt, &bytes_of(&message)).expect_err("there is none");
    assert_eq!(
        refused.to_string(),
        "a prompt cannot be read: number of batches does not hold a possible value"
    );
}

/// A node that has not been upgraded would close the connection for it.
#[test]
fn messages_of_a_later_version_do_not_come_on_an_older_connection() {
    for (name, message) in one_of_each() {
        let kind = message.kind();
        if kind.since() == 1 {
            continue;
        }
        let mut decoder = Decoder::new(BODY_BYTES_MAX);
        let greeted = decoder.next_message(&mut BytesMut::from(&bytes_of(&hello())[..]));
        assert_eq!(greeted, Ok(Some(hello())));
        decoder.handle_admitted(1);
        let refused = decoder.next_message(&mut BytesMut::from(&bytes_of(&message)[..HEADER_BYTES]));
        assert_eq!(refused, Err(MessageError::Newer { kind, version: 1 }), "{name}");
    }
    let newer = MessageError::Newer {
        kind: Kind::RangeWish,
        version: 1,
    };
    assert_eq!(
        newer.to_string(),
        "a wish for a range may not come on a connection of version 1: it is of version 2"
    );
}
