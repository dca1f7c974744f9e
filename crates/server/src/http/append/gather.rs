//! From a body's bytes to batches: JSON, lines of JSON or of text, or one value; one batch for each partition that is chosen.
//!
//! Nothing grows beyond what the topic takes: a batch that passes its limit ends the work at once.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use record::{BatchBuilder, Compression, partition_of};
use serde::de::{DeserializeSeed, Deserializer, Error, SeqAccess, Visitor};

use crate::budget::Room;
use crate::record_json::{NewRecord, RecordBytes};

use super::super::json_body::malformed_json;
use super::super::json_words::in_words;
use super::super::media_type::MediaType;
use super::super::problem::{Kind, Problem};

/// The reading of a body.
#[derive(Debug, Clone)]
pub(super) struct Form {
    pub(super) media_type: MediaType,
    /// The key of all records of a body that has no place for keys.
    pub(super) key: Option<Vec<u8>>,
    /// The time of records that have none.
    pub(super) now_ms: i64,
    /// Where all records go; `None` if each goes where its key leads.
    pub(super) partition: Option<i32>,
    pub(super) partition_count: i32,
    /// Chooses where records without a key go.
    pub(super) keyless_draw: u32,
    pub(super) batch_bytes_max: usize,
}

/// The records of one partition.
pub(super) struct Gathered {
    pub(super) partition: i32,
    pub(super) bytes: Bytes,
    pub(super) count: i32,
    _room: Option<Arc<Room>>,
}

impl Gathered {
    pub(super) fn of(partition: i32, bytes: Bytes, count: i32) -> Gathered {
        Gathered {
            partition,
            bytes,
            count,
            _room: None,
        }
    }

    /// The same, with the room that it takes.
    pub(super) fn holding(self, room: Arc<Room>) -> Gathered {
        Gathered {
            _room: Some(room),
            ..self
        }
    }
}

/// The batches of a body, by partition; at least one.
///
/// # Errors
/// The body is not what it says, has no record, or has more than a batch may have.
pub(super) fn gather(body: &[u8], form: &Form) -> Result<Vec<Gathered>, Problem> {
    let mut gathering = Gathering::new(form);
    match form.media_type {
        MediaType::Json => gathering.take_json(body)?,
        MediaType::JsonLines => gathering.take_json_lines(body)?,
        MediaType::Text => {
            for line in lines(body) {
                gathering.add(form.now_ms, form.key.as_deref(), Some(line), &[])?;
            }
        }
        _ => gathering.add(form.now_ms, form.key.as_deref(), Some(body), &[])?,
    }
    gathering.finish()
}

/// The lines of a body; what ends the last one begins no other.
fn lines(body: &[u8]) -> impl Iterator<Item = &[u8]> {
    let lines = body.strip_suffix(b"\n").unwrap_or(body);
    let lines = (!body.is_empty()).then(|| lines.split(|byte| *byte == b'\n'));
    let bare = |line: &'_ [u8]| line.len() - usize::from(line.ends_with(b"\r"));
    lines.into_iter().flatten().map(move |line| &line[..bare(line)])
}

struct Gathering<'a> {
    form: &'a Form,
    batches: BTreeMap<i32, BatchBuilder>,
    /// Where this request's records without a key go: one partition for all, any, as Kafka's clients do it.
    keyless: i32,
}

impl Gathering<'_> {
    fn new(form: &Form) -> Gathering<'_> {
        let any = i64::from(form.keyless_draw) % i64::from(form.partition_count);
        Gathering {
            form,
            batches: BTreeMap::new(),
            keyless: any as i32,
        }
    }

    fn add(
        &mut self,
        timestamp_ms: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[(&[u8], Option<&[u8]>)],
    ) -> Result<(), Problem> {
        let partition = match (self.form.partition, key) {
            (Some(partition), _) => partition,
            (None, Some(key)) => partition_of(key, self.form.partition_count as usize) as i32,
            (None, None) => self.keyless,
        };
        let new = || BatchBuilder::new(Compression::None);
        let batch = self.batches.entry(partition).or_insert_with(new);
        batch.append(timestamp_ms, key, value, headers);
        let (bytes, bytes_max) = (batch.length_bytes(), self.form.batch_bytes_max);
        match bytes > bytes_max {
            false => Ok(()),
            true => {
                let detail = format!(
                    "the records make a batch of more than {bytes_max} bytes, which is all that the topic \
                     takes at once (max.message.bytes)"
                );
                Err(Problem::new(Kind::BodyTooLarge, detail).with("bytes_max", bytes_max))
            }
        }
    }

    /// A record a line, as reading gives them. Lines of white space say nothing.
    fn take_json_lines(&mut self, body: &[u8]) -> Result<(), Problem> {
        let told = lines(body).zip(1u64..);
        for (line, number) in told.filter(|(line, _)| !line.trim_ascii().is_empty()) {
            let malformed = |why: String| {
                Problem::new(Kind::MalformedBody, format!("line {number}: {why}")).with("line", number)
            };
            let record: NewRecord = serde_json::from_slice(line)
                .map_err(|error| malformed(in_words(&error)).with("column", error.column()))?;
            let record = record.into_bytes().map_err(malformed)?;
            self.add_bytes(&record)?;
        }
        Ok(())
    }

    fn add_bytes(&mut self, record: &RecordBytes) -> Result<(), Problem> {
        let headers: Vec<(&[u8], Option<&[u8]>)> = record
            .headers
            .iter()
            .map(|(key, value)| (key.as_slice(), value.as_deref()))
            .collect();
        self.add(
            record.timestamp_ms.unwrap_or(self.form.now_ms),
            record.key.as_deref(),
            record.value.as_deref(),
            &headers,
        )
    }

    fn take_json(&mut self, body: &[u8]) -> Result<(), Problem> {
        let refused = RefCell::new(None);
        let mut reader = serde_json::Deserializer::from_slice(body);
        let records = Records {
            gathering: self,
            refused: &refused,
        };
        let read = records.deserialize(&mut reader).and_then(|()| reader.end());
        match (refused.into_inner(), read) {
            (Some(problem), _) => Err(problem),
            (None, Err(error)) => Err(malformed_json(&error)),
            (None, Ok(())) => Ok(()),
        }
    }

    fn finish(self) -> Result<Vec<Gathered>, Problem> {
        if self.batches.is_empty() {
            return Err(Problem::new(
                Kind::MalformedBody,
                "there is no record in the body",
            ));
        }
        let gathered = self.batches.into_iter().map(|(partition, mut batch)| Gathered {
            partition,
            count: batch.record_count(),
            bytes: batch.build(),
            _room: None,
        });
        Ok(gathered.collect())
    }
}

/// An array of records, each added as it is read: never all of them in memory a second time.
struct Records<'a, 'f> {
    gathering: &'a mut Gathering<'f>,
    /// Why a record was not added, where that is no matter of JSON.
    refused: &'a RefCell<Option<Problem>>,
}

impl Records<'_, '_> {
    fn add<E: Error>(&mut self, index: usize, record: NewRecord) -> Result<(), E> {
        let bytes = record
            .into_bytes()
            .map_err(|why| E::custom(format!("record {index}: {why}")))?;
        self.gathering.add_bytes(&bytes).map_err(|problem| {
            *self.refused.borrow_mut() = Some(problem);
            E::custom("the record is refused")
        })
    }
}

impl<'de> DeserializeSeed<'de> for Records<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Records<'_, '_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an array of records")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut records: A) -> Result<(), A::Error> {
        let mut index = 0;
        while let Some(record) = records.next_element()? {
            self.add(index, record)?;
            index += 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
