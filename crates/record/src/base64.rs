//! Base64 (RFC 4648, section 4: the standard alphabet with padding): how keys and values that are not text stand in JSON,
//! over HTTP and on the command line.
//!
//! Decoding takes exactly what encoding gives: no blanks, no other alphabet, no bits left over.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const PAD: u8 = b'=';

/// The bytes as text.
pub fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let mut padded = [0; 4];
        padded[1..=group.len()].copy_from_slice(group);
        let bits = u32::from_be_bytes(padded);
        for place in 0..4 {
            let character = match place <= group.len() {
                true => ALPHABET[(bits >> (18 - 6 * place)) as usize & 63],
                false => PAD,
            };
            text.push(char::from(character));
        }
    }
    text
}

/// The bytes of a text; `None` if it is not Base64.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let (groups, rest) = text.as_bytes().as_chunks::<4>();
    if !rest.is_empty() {
        return None;
    }
    let mut bytes = Vec::with_capacity(groups.len() * 3);
    for (index, group) in groups.iter().enumerate() {
        let padding = group
            .iter()
            .rev()
            .take_while(|character| **character == PAD)
            .count();
        if padding > 2 || (padding > 0 && index + 1 < groups.len()) {
            return None;
        }
        let mut bits = 0_u32;
        for character in &group[..4 - padding] {
            bits = bits << 6 | value_of(*character)?;
        }
        bits <<= 6 * padding;
        let [_, decoded @ ..] = bits.to_be_bytes();
        let (kept, left_over) = decoded.split_at(3 - padding);
        if left_over.iter().any(|byte| *byte != 0) {
            return None;
        }
        bytes.extend_from_slice(kept);
    }
    Some(bytes)
}

fn value_of(character: u8) -> Option<u32> {
    let value = match character {
        b'A'..=b'Z' => character - b'A',
        b'a'..=b'z' => character - b'a' + 26,
        b'0'..=b'9' => character - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    };
    Some(value.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_vectors_of_the_rfc_hold_both_ways() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(encode(bytes.as_bytes()), text);
            assert_eq!(decode(text).expect("sound"), bytes.as_bytes());
        }
    }

    #[test]
    fn every_byte_survives() {
        let bytes: Vec<u8> = (0..=255).collect();
        for length in 0..bytes.len() {
            assert_eq!(
                decode(&encode(&bytes[..length])).expect("sound"),
                &bytes[..length]
            );
        }
    }

    #[test]
    fn what_encoding_never_gives_is_refused() {
        for text in [
            "Z", "Zg", "Zg=", "Zg==Zg==", "Zh==", "Z===", "====", "Zm 9", "Zm-_", "Zm9v\n", "é===",
        ] {
            assert_eq!(decode(text), None, "{text:?}");
        }
    }
}
