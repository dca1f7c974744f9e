//! The bytes of each version: a message that is written otherwise is no message of that version any more.

use super::*;

const FILES: [&str; 6] = [
    include_str!("../../../testdata/peers/version-1.txt"),
    include_str!("../../../testdata/peers/version-2.txt"),
    include_str!("../../../testdata/peers/version-3.txt"),
    include_str!("../../../testdata/peers/version-4.txt"),
    include_str!("../../../testdata/peers/version-6.txt"),
    include_str!("../../../testdata/peers/version-7.txt"),
];

/// Name and bytes of the messages in the files, each with those that its version has added.
fn golden() -> Vec<(&'static str, Vec<u8>)> {
    let lines = FILES.iter().flat_map(|file| file.lines());
    lines
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            let (name, hex) = line.split_once(' ').expect("a name and bytes");
            let digits = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("two digits");
            (name, (0..hex.len()).step_by(2).map(digits).collect())
        })
        .collect()
}

fn line(name: &str, bytes: &[u8]) -> String {
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{name} {hex}")
}

#[test]
fn messages_have_the_bytes_of_their_version() {
    let written: Vec<String> = one_of_each()
        .iter()
        .map(|(name, message)| line(name, &bytes_of(message)))
        .collect();
    let kept: Vec<String> = golden().iter().map(|(name, bytes)| line(name, bytes)).collect();
    assert_eq!(written, kept, "they are now:\n{}", written.join("\n"));
}

#[test]
fn messages_of_every_version_are_read() {
    assert_eq!(golden().len(), one_of_each().len());
    for ((name, message), (_, bytes)) in one_of_each().into_iter().zip(golden()) {
        assert_eq!(read(message.kind(), &bytes), Ok(Some(message)), "{name}");
    }
}

/// A kind or a form that is added has to be among the golden messages, too.
#[test]
fn there_is_a_golden_message_of_every_form() {
    let messages = one_of_each();
    for (kind, byte) in Kind::ALL {
        let mut forms: Vec<u8> = messages
            .iter()
            .filter(|(_, message)| message.kind() == kind)
            .map(|(_, message)| {
                let bytes = bytes_of(message);
                assert_eq!(bytes[4], byte);
                match kind {
                    Kind::Prompt | Kind::Sworn => bytes[HEADER_BYTES + 20],
                    _ => 1,
                }
            })
            .collect();
        forms.sort_unstable();
        forms.dedup();
        let count = match kind {
            Kind::Prompt => 10,
            Kind::Sworn => 3,
            _ => 1,
        };
        assert_eq!(forms, (1..=count).collect::<Vec<u8>>(), "{kind:?}");
    }
}
