//! `--format`: what is printed of each record, as text with placeholders in braces.
//!
//! Keys and values are printed as they are, whatever bytes they hold; `:hex` shows them in hexadecimal.

use anyhow::Result;
use client::Record;

use crate::escapes::unescaped;
use crate::output::Output;
use crate::time::shown;

/// A format that was understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Format {
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    /// Stands there as it is.
    Text(Vec<u8>),
    Field(Field),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Topic,
    Partition,
    Offset,
    Time,
    TimestampMs,
    Key,
    KeyHex,
    KeyBytes,
    Value,
    ValueHex,
    ValueBytes,
    Headers,
}

/// Every placeholder.
const FIELDS: &[(&str, Field)] = &[
    ("topic", Field::Topic),
    ("partition", Field::Partition),
    ("offset", Field::Offset),
    ("time", Field::Time),
    ("timestamp_ms", Field::TimestampMs),
    ("key", Field::Key),
    ("key:hex", Field::KeyHex),
    ("key_bytes", Field::KeyBytes),
    ("value", Field::Value),
    ("value:hex", Field::ValueHex),
    ("value_bytes", Field::ValueBytes),
    ("headers", Field::Headers),
];

impl Format {
    /// Reads a format. `{{` and `}}` stand for braces, `\n` and its like for what cannot be typed.
    ///
    /// # Errors
    /// What is wrong with it, for the command line.
    pub(super) fn parse(text: &str) -> Result<Format, String> {
        let mut parts = Vec::new();
        let mut plain = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            plain.push_str(&rest[..at]);
            let (brace, behind) = rest[at..].split_at(1);
            if let Some(behind) = behind.strip_prefix(brace) {
                plain.push_str(brace);
                rest = behind;
                continue;
            }
            if brace == "}" {
                return Err("a } closes nothing; }} stands for a brace".to_owned());
            }
            let Some((name, behind)) = behind.split_once('}') else {
                return Err("a { is not closed; {{ stands for a brace".to_owned());
            };
            push_text(&mut parts, &mut plain)?;
            parts.push(Part::Field(field(name)?));
            rest = behind;
        }
        plain.push_str(rest);
        push_text(&mut parts, &mut plain)?;
        match parts.iter().any(|part| matches!(part, Part::Field(_))) {
            true => Ok(Format { parts }),
            false => Err(format!(
                "nothing of the record is in it; write {{value}} for one, or any of {}",
                names()
            )),
        }
    }

    /// The value alone.
    pub(super) fn of_values() -> Format {
        Format {
            parts: vec![Part::Field(Field::Value)],
        }
    }

    /// Key and value with `separator` between.
    pub(super) fn of_keys_and_values(separator: &[u8]) -> Format {
        let separator = Part::Text(separator.to_vec());
        Format {
            parts: vec![Part::Field(Field::Key), separator, Part::Field(Field::Value)],
        }
    }

    /// Writes a record as this format says.
    pub(super) fn write(
        &self,
        output: &mut Output,
        topic: &str,
        partition: i32,
        record: &Record,
    ) -> Result<()> {
        for part in &self.parts {
            let field = match part {
                Part::Text(text) => {
                    output.bytes(text)?;
                    continue;
                }
                Part::Field(field) => field,
            };
            match field {
                Field::Topic => output.text(topic),
                Field::Partition => output.text(partition),
                Field::Offset => output.text(record.offset),
                // -1 is none.
                Field::Time if record.timestamp_ms < 0 => output.text('-'),
                Field::Time => output.text(shown(record.timestamp_ms)),
                Field::TimestampMs => output.text(record.timestamp_ms),
                Field::Key => output.bytes(bytes(&record.key)),
                Field::KeyHex => output.text(hexadecimal(bytes(&record.key))),
                Field::KeyBytes => output.text(bytes(&record.key).len()),
                Field::Value => output.bytes(bytes(&record.value)),
                Field::ValueHex => output.text(hexadecimal(bytes(&record.value))),
                Field::ValueBytes => output.text(bytes(&record.value).len()),
                Field::Headers => write_headers(output, record),
            }?;
        }
        Ok(())
    }
}

fn push_text(parts: &mut Vec<Part>, plain: &mut String) -> Result<(), String> {
    if !plain.is_empty() {
        parts.push(Part::Text(unescaped(plain)?));
        plain.clear();
    }
    Ok(())
}

fn field(name: &str) -> Result<Field, String> {
    let known = FIELDS.iter().find(|(known, _)| *known == name);
    known
        .map(|(_, field)| *field)
        .ok_or_else(|| format!("there is no {{{name}}}; there are {}", names()))
}

fn names() -> String {
    let names: Vec<String> = FIELDS.iter().map(|(name, _)| format!("{{{name}}}")).collect();
    names.join(" ")
}

fn bytes(of: &Option<impl AsRef<[u8]>>) -> &[u8] {
    of.as_ref().map(AsRef::as_ref).unwrap_or_default()
}

/// Two digits a byte.
fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// `name=value` with commas between.
fn write_headers(output: &mut Output, record: &Record) -> Result<()> {
    for (index, (name, value)) in record.headers.iter().enumerate() {
        if index > 0 {
            output.bytes(b",")?;
        }
        output.bytes(name)?;
        output.bytes(b"=")?;
        output.bytes(bytes(value))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_braces_and_escapes_are_told_apart() {
        let parsed = Format::parse(r"{{{offset}}}\t{key:hex}").expect("a format");
        let expected = [
            Part::Text(b"{".to_vec()),
            Part::Field(Field::Offset),
            Part::Text(b"}\t".to_vec()),
            Part::Field(Field::KeyHex),
        ];
        assert_eq!(parsed.parts, expected);
    }

    #[test]
    fn what_is_no_format_is_refused_with_what_is_one() {
        for (text, expected) in [
            ("{vlaue}", "there is no {vlaue}; there are {topic} {partition} "),
            ("{value", "a { is not closed; {{ stands for a brace"),
            ("value}", "a } closes nothing; }} stands for a brace"),
            ("", "nothing of the record is in it; write {value} for one"),
            (
                "{{value}}",
                "nothing of the record is in it; write {value} for one",
            ),
            (r"{value}\q", r"there is no \q; "),
        ] {
            let refused = Format::parse(text).expect_err("no format");
            assert!(refused.starts_with(expected), "{text}: {refused}");
        }
    }
}
