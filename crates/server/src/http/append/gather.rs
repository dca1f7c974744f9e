//! From a body's bytes to batches: JSON, lines or one value; one batch for each partition that is chosen.
//!
//! Nothing grows beyond what the topic takes: a batch that passes its limit ends the work at once.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use platform::random::random_bytes;
use record::{BatchBuilder, Compression, partition_of};
use serde::de::{DeserializeSeed, Deserializer, Error, SeqAccess, Visitor};

use crate::budget::Room;
use crate::record_json::NewRecord;

use super::super::json_body::malformed_json;
use super::super::media_type::MediaType;
use super::super::problem::{Kind, Problem};

/// How a body is to be understood.
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
        MediaType::Text => {
            let lines = body.strip_suffix(b"\n").unwrap_or(body);
            if !body.is_empty() {
                for line in lines.split(|byte| *byte == b'\n') {
                    let line = line.strip_suffix(b"\r").unwrap_or(line);
                    gathering.add(form.now_ms, form.key.as_deref(), Some(line), &[])?;
                }
            }
        }
        _ => gathering.add(form.now_ms, form.key.as_deref(), Some(body), &[])?,
    }
    gathering.finish()
}

struct Gathering<'a> {
    form: &'a Form,
    batches: BTreeMap<i32, BatchBuilder>,
    /// Where this request's records without a key go: one partition for all, any, as Kafka's clients do it.
    keyless: i32,
}

impl Gathering<'_> {
    fn new(form: &Form) -> Gathering<'_> {
        let any = u32::from_ne_bytes(random_bytes()) as i64 % i64::from(form.partition_count);
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
        let headers: Vec<(&[u8], Option<&[u8]>)> = bytes
            .headers
            .iter()
            .map(|(key, value)| (key.as_slice(), value.as_deref()))
            .collect();
        let added = self.gathering.add(
            bytes.timestamp_ms.unwrap_or(self.gathering.form.now_ms),
            bytes.key.as_deref(),
            bytes.value.as_deref(),
            &headers,
        );
        added.map_err(|problem| {
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
