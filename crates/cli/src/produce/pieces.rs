//! Cuts what arrives in chunks into pieces: the text between delimiters, or each input whole.

use anyhow::{Result, ensure};

/// The longest piece: no broker takes a record nearly as large.
const PIECE_BYTES_MAX: usize = 64 << 20;

/// Puts pieces together from chunks that end anywhere.
pub(super) struct Pieces {
    /// The bytes between two pieces, one at least; `None` if an input is one piece.
    delimiter: Option<Vec<u8>>,
    /// The beginning of a piece whose end has not come.
    begun: Vec<u8>,
    /// The longest that a piece may be.
    bytes_max: usize,
}

impl Pieces {
    pub(super) fn new(delimiter: Option<Vec<u8>>) -> Pieces {
        Pieces {
            delimiter,
            begun: Vec::new(),
            bytes_max: PIECE_BYTES_MAX,
        }
    }

    /// Calls `each` with every piece that ends in `chunk`, without its delimiter.
    pub(super) fn take(&mut self, chunk: &[u8], mut each: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let Some(delimiter) = self.delimiter.as_deref() else {
            self.begun.extend_from_slice(chunk);
            return check_length(self.begun.len(), self.bytes_max);
        };
        let mut rest = chunk;
        // A delimiter that ends here may have begun in an earlier chunk.
        if !self.begun.is_empty() {
            let searched = self.begun.len().saturating_sub(delimiter.len() - 1);
            let begun_bytes = self.begun.len();
            // As much as shows a delimiter across the seam, or the rest of the piece within this chunk.
            let end = match find(chunk, delimiter) {
                Some(at) => at + delimiter.len(),
                None => chunk.len(),
            };
            self.begun.extend_from_slice(&chunk[..end]);
            match find(&self.begun[searched..], delimiter) {
                Some(at) => {
                    let piece_bytes = searched + at;
                    check_length(piece_bytes, self.bytes_max)?;
                    each(&self.begun[..piece_bytes])?;
                    rest = &chunk[piece_bytes + delimiter.len() - begun_bytes..];
                    self.begun.clear();
                }
                None => return check_length(self.begun.len(), self.bytes_max),
            }
        }
        while let Some(at) = find(rest, delimiter) {
            each(&rest[..at])?;
            rest = &rest[at + delimiter.len()..];
        }
        self.begun.extend_from_slice(rest);
        Ok(())
    }

    /// Calls `each` with what an input ends in: the piece behind its last delimiter unless that is empty, or all of it.
    pub(super) fn end(&mut self, mut each: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        if self.delimiter.is_none() || !self.begun.is_empty() {
            each(&self.begun)?;
        }
        self.begun.clear();
        Ok(())
    }
}

fn check_length(bytes: usize, bytes_max: usize) -> Result<()> {
    ensure!(bytes <= bytes_max, "a record is longer than {bytes_max} bytes");
    Ok(())
}

/// Where `sought`, which is not empty, first stands in `text`.
pub(super) fn find(text: &[u8], sought: &[u8]) -> Option<usize> {
    match sought {
        [byte] => text.iter().position(|found| found == byte),
        _ => text.windows(sought.len()).position(|window| window == sought),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces_of(text: &str, delimiter: Option<&str>, chunk_bytes: usize) -> Vec<String> {
        let mut found = Vec::new();
        let mut each = |piece: &[u8]| {
            found.push(String::from_utf8(piece.to_vec())?);
            Ok(())
        };
        let mut pieces = Pieces::new(delimiter.map(|text| text.as_bytes().to_vec()));
        for chunk in text.as_bytes().chunks(chunk_bytes) {
            pieces.take(chunk, &mut each).expect("text");
        }
        pieces.end(&mut each).expect("text");
        found
    }

    #[test]
    fn pieces_are_the_same_however_they_arrive() {
        for chunk_bytes in 1..16 {
            let lines = |text| pieces_of(text, Some("\n"), chunk_bytes);
            assert_eq!(lines("one\n\ntwo\nthree"), ["one", "", "two", "three"]);
            assert_eq!(lines("\n"), [""]);
            assert_eq!(lines("one\n"), ["one"]);
            assert_eq!(lines(""), [""; 0]);
            let long = |text| pieces_of(text, Some("--;"), chunk_bytes);
            assert_eq!(long("a--;b-;---;--;-"), ["a", "b-;-", "", "-"]);
            assert_eq!(long("--;--;"), ["", ""]);
            assert_eq!(pieces_of("a\nb\n", None, chunk_bytes), ["a\nb\n"]);
        }
        assert_eq!(pieces_of("", None, 1), [""], "an empty input is an empty record");
    }

    #[test]
    fn an_endless_line_is_refused() {
        for delimiter in [None, Some(b"\n".to_vec())] {
            let mut pieces = Pieces::new(delimiter);
            pieces.bytes_max = 8;
            pieces.take(b"12345678", |_| Ok(())).expect("as long as allowed");
            let refused = pieces.take(b"9", |_| Ok(())).expect_err("too long");
            assert_eq!(refused.to_string(), "a record is longer than 8 bytes");
        }
    }
}
