//! Standard output, buffered. A reader that has gone away ends the command quietly, whatever it was doing.

use std::fmt::Display;
use std::io::{self, BufWriter, StdoutLock, Write};

use anyhow::Result;
use serde_json::Value;

/// Nobody reads our output any more.
#[derive(Debug, thiserror::Error)]
#[error("standard output was closed")]
pub(crate) struct OutputClosed;

/// Standard output, held for the time of a command.
pub(crate) struct Output {
    writer: BufWriter<StdoutLock<'static>>,
}

impl Output {
    pub(crate) fn open() -> Output {
        Output {
            writer: BufWriter::with_capacity(64 << 10, io::stdout().lock()),
        }
    }

    /// Writes text and ends the line.
    pub(crate) fn line(&mut self, text: impl Display) -> Result<()> {
        outcome(writeln!(self.writer, "{text}"))
    }

    /// Writes text.
    pub(crate) fn text(&mut self, text: impl Display) -> Result<()> {
        outcome(write!(self.writer, "{text}"))
    }

    /// Writes a JSON value on one line.
    pub(crate) fn json(&mut self, value: &Value) -> Result<()> {
        self.line(value)
    }

    /// Writes bytes as they are.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Result<()> {
        outcome(self.writer.write_all(bytes))
    }

    /// Hands everything to the reader. To be called before the command ends, else what could not be written goes unsaid.
    pub(crate) fn flush(&mut self) -> Result<()> {
        outcome(self.writer.flush())
    }
}

fn outcome(written: io::Result<()>) -> Result<()> {
    match written {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(OutputClosed.into()),
        Err(error) => Err(anyhow::Error::new(error).context("standard output cannot be written")),
    }
}

/// Prints one of two: text for people, or JSON.
pub(crate) fn tell(as_json: bool, text: String, json: Value) -> Result<()> {
    let mut output = Output::open();
    match as_json {
        true => output.json(&json)?,
        false => output.line(text)?,
    }
    output.flush()
}

/// A value, or a dash where there is none.
pub(crate) fn or_dash(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

/// `1 partition`, `2 partitions`, `2 batches`.
pub(crate) fn counted(count: impl TryInto<u64> + Copy + std::fmt::Display, noun: &str) -> String {
    let is_one = count.try_into().is_ok_and(|count| count == 1);
    let ending = match noun {
        _ if is_one => "",
        _ if noun.ends_with("ch") => "es",
        _ => "s",
    };
    format!("{count} {noun}{ending}")
}

/// Text without anything that a terminal would obey or take for a line of its own: for names that others chose.
pub(crate) fn cleaned(text: &str) -> String {
    let clean = |letter: char| if letter.is_control() { '?' } else { letter };
    text.chars().map(clean).collect()
}

/// Rows of text as columns of equal width, cleaned; the first row is the heading.
pub(crate) fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<_> = (0..columns).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{:width$}", cleaned(cell)));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [["topic", "n"], ["greetings", "1"]].map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(table(&rows), "topic      n\ngreetings  1");
        assert_eq!(table(&[]), "");
    }

    #[test]
    fn a_name_is_no_command_to_the_terminal_and_no_row() {
        let rows = [["group", "state"], ["a\x1b[2Jb\nc\u{9b}", "Empty"]];
        let rows = rows.map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(table(&rows), "group      state\na?[2Jb?c?  Empty");
    }
}
