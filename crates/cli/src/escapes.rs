//! Bytes on the command line that cannot be typed: `\n`, `\t`, `\r`, `\0`, `\\` and `\xHH`.

/// Bytes that end a record, or stand between two.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Delimiter(pub(crate) Vec<u8>);

impl Delimiter {
    /// Takes it from the command line.
    ///
    /// # Errors
    /// As `unescaped`.
    pub(crate) fn parse(text: &str) -> Result<Delimiter, String> {
        unescaped(text).map(Delimiter)
    }
}

/// The bytes that `text` stands for.
///
/// # Errors
/// Which escape is not known, for the command line.
pub(crate) fn unescaped(text: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        if letter != '\\' {
            bytes.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
            continue;
        }
        match letters.next() {
            Some('n') => bytes.push(b'\n'),
            Some('t') => bytes.push(b'\t'),
            Some('r') => bytes.push(b'\r'),
            Some('0') => bytes.push(0),
            Some('\\') => bytes.push(b'\\'),
            Some('x') => bytes.push(hexadecimal(letters.by_ref().take(2))?),
            Some(other) => return Err(format!("there is no \\{other}; {KNOWN}")),
            None => return Err(format!("a single \\ stands at the end; {KNOWN}")),
        }
    }
    Ok(bytes)
}

const KNOWN: &str = r"\n, \t, \r, \0, \\ and \xHH are known";

fn hexadecimal(digits: impl Iterator<Item = char>) -> Result<u8, String> {
    let digits: String = digits.collect();
    let is_whole = digits.len() == 2 && digits.chars().all(|digit| digit.is_ascii_hexdigit());
    match u8::from_str_radix(&digits, 16) {
        Ok(byte) if is_whole => Ok(byte),
        _ => Err(r"\x needs two hexadecimal digits, as in \x1f".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_stand_for_bytes_and_nonsense_is_refused() {
        assert_eq!(
            unescaped(r"a\t\n\r\0\\\xFfé"),
            Ok(b"a\t\n\r\0\\\xff\xc3\xa9".to_vec())
        );
        assert_eq!(unescaped(""), Ok(Vec::new()));
        for text in [r"\q", r"\", r"\x", r"\x1", r"\xzz", r"\x+1", r"\xé"] {
            assert!(unescaped(text).is_err(), "{text}");
        }
    }
}
