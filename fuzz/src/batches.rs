//! Record batches: what `validate` lets in can be read to its end by everybody; everything else is an error.
//!
//! The first byte of an input says what the rest is:
//! - raw bytes;
//! - a batch that someone has sealed: length, format and checksum are put right, so that the checks behind them are reached;
//! - records, out of which a batch is built, in one of the codecs: it must be let in and give its records back;
//! - such a batch, with a few of its bytes changed and sealed again: damage inside compressed records.

use bytes::Bytes;
use record::{
    BATCH_OVERHEAD_BYTES, BatchBuilder, BatchError, Compression, Epoch, LOG_OVERHEAD_BYTES, Limits, Offset,
    Record, Records, batches, checksum, checksum_holds, examine, find_timestamp, records, set_base_offset,
    set_leader_epoch, set_log_append_time, validate,
};

use crate::input::Input;

const CODECS: [Compression; 5] = [
    Compression::None,
    Compression::Gzip,
    Compression::Snappy,
    Compression::Lz4,
    Compression::Zstd,
];

/// Small, so that a bomb needs few bytes to be one; the window is the one that producers use.
const LIMITS: Limits = Limits {
    decompressed_bytes_max: 1 << 20,
    snappy_block_bytes_max: 1 << 18,
    zstd_window_log_max: 21,
};

/// Where a batch's format and its checksum stand; see `record::batch`.
const LENGTH_AT: usize = 8;
const MAGIC_AT: usize = 16;
const CHECKSUM_AT: usize = 17;

/// See the module.
pub fn run(input: &[u8]) {
    let mut input = Input::new(input);
    match input.below(4) {
        0 => judge(input.rest()),
        1 => judge(&sealed(input.rest().to_vec())),
        2 => {
            let (batch, expected) = built(&mut input);
            let found: Result<Vec<Record>, _> = records(&batch, &LIMITS)
                .expect("a built batch is whole")
                .collect();
            assert_eq!(found.as_deref(), Ok(&*expected), "what went in comes out");
            assert!(validate(&batch, &LIMITS).is_ok(), "a built batch is let in");
            judge(&batch);
        }
        _ => {
            let (batch, _) = built(&mut input);
            judge(&sealed(changed(batch.to_vec(), &mut input)));
        }
    }
}

/// Puts right what a checksum or a length would give away at once.
fn sealed(mut batch: Vec<u8>) -> Vec<u8> {
    if batch.len() < BATCH_OVERHEAD_BYTES {
        return batch;
    }
    let length = (batch.len() - LOG_OVERHEAD_BYTES) as i32;
    batch[LENGTH_AT..][..4].copy_from_slice(&length.to_be_bytes());
    batch[MAGIC_AT] = 2;
    let checksum = checksum(&batch);
    batch[CHECKSUM_AT..][..4].copy_from_slice(&checksum.to_be_bytes());
    batch
}

/// Overwrites, removes or inserts a few bytes of `batch`, as what is left of the input says.
fn changed(mut batch: Vec<u8>, input: &mut Input<'_>) -> Vec<u8> {
    while !input.is_empty() {
        let at = input.below(batch.len().max(1));
        match (input.u8(), input.u8()) {
            (0..0x10, _) => drop(batch.drain(at..)),
            (0x10..0x20, byte) => batch.insert(at, byte),
            (_, byte) => {
                if let Some(old) = batch.get_mut(at) {
                    *old = byte;
                }
            }
        }
    }
    batch
}

/// A batch of the records that the input describes, and those records.
fn built(input: &mut Input<'_>) -> (Bytes, Vec<Record>) {
    let mut builder = BatchBuilder::new(CODECS[input.below(CODECS.len())]);
    if input.u8() % 2 == 1 {
        builder = builder.with_producer(i64::from(input.u16()), input.u8().into(), input.u16().into());
    }
    let mut expected = Vec::new();
    for index in 0..=input.below(8) {
        let (key, value) = (field(input), field(input));
        let header_count = input.below(3);
        let headers: Vec<_> = (0..header_count)
            .map(|_| (field(input).unwrap_or_default(), field(input)))
            .collect();
        let lent: Vec<_> = headers
            .iter()
            .map(|(key, value)| (&key[..], value.as_deref()))
            .collect();
        let timestamp_ms = i64::from(input.u32());
        builder.append(timestamp_ms, key.as_deref(), value.as_deref(), &lent);
        expected.push(Record {
            offset: Offset(index as i64),
            timestamp_ms,
            key,
            value,
            headers,
        });
    }
    (builder.build(), expected)
}

/// None, some bytes, or one byte many times over, which compresses well.
fn field(input: &mut Input<'_>) -> Option<Bytes> {
    match input.u8() {
        0 => None,
        length @ 1..0xc0 => Some(Bytes::copy_from_slice(input.bytes(usize::from(length) - 1))),
        exponent => Some(Bytes::from(vec![input.u8(); 1 << (exponent % 14)])),
    }
}

/// Reads a batch in every way there is.
fn judge(batch: &[u8]) {
    let mut covered = 0;
    for (header, one) in batches(batch).flatten() {
        assert_eq!(header.length_bytes, one.len(), "a batch is as long as it says");
        covered += one.len();
    }
    assert!(covered <= batch.len(), "no byte is in two batches");

    let verdict = examine(batch, &LIMITS);
    let read = records(batch, &LIMITS).map(read);
    let _ = find_timestamp(batch, i64::MAX, &LIMITS);
    let _ = find_timestamp(batch, i64::MIN, &LIMITS);
    let Ok(examined) = verdict else { return };

    let read = read.and_then(|read| read).expect("what was let in can be read");
    assert_eq!(
        read.count, examined.header.record_count as usize,
        "as many records as the header says"
    );
    assert_eq!(
        read.newest_ms,
        Some(examined.max_timestamp_found_ms),
        "the records' own newest time"
    );
    let (offset, timestamp_ms) = read.first.expect("a batch that is let in has records");
    let found = find_timestamp(batch, timestamp_ms, &LIMITS);
    assert_eq!(
        found,
        Ok(Some((offset, timestamp_ms))),
        "the first record is found by its time"
    );
    assert_eq!(
        find_timestamp(batch, i64::MIN, &LIMITS),
        found,
        "nothing comes before it"
    );
    renumber(batch);
}

/// What a batch's records come to. They are not kept: a reader has one of them at a time, and the memory of that is judged.
#[derive(Default)]
struct Read {
    count: usize,
    newest_ms: Option<i64>,
    first: Option<(Offset, i64)>,
}

fn read(records: Records) -> Result<Read, BatchError> {
    let mut read = Read::default();
    for record in records {
        let record = record?;
        read.count += 1;
        read.newest_ms = read.newest_ms.max(Some(record.timestamp_ms));
        read.first.get_or_insert((record.offset, record.timestamp_ms));
    }
    Ok(read)
}

/// What a broker writes into a batch on its way to the journal leaves the records alone.
fn renumber(batch: &[u8]) {
    let mut numbered = batch.to_vec();
    set_base_offset(&mut numbered, Offset(1 << 40));
    set_leader_epoch(&mut numbered, Epoch(9));
    assert!(checksum_holds(&numbered), "numbering is outside of the checksum");
    set_log_append_time(&mut numbered, 77);
    assert!(checksum_holds(&numbered), "the append time is summed up again");
    let mut before = records(batch, &LIMITS).expect("it could be read");
    let after = records(&numbered, &LIMITS).expect("it could be read before");
    for (index, after) in after.enumerate() {
        let after = after.expect("it could be read before");
        let before = before
            .next()
            .expect("no record is made")
            .expect("it could be read");
        assert_eq!(
            (after.offset.0, after.timestamp_ms),
            ((1 << 40) + index as i64, 77)
        );
        assert_eq!(
            (&before.key, &before.value, &before.headers),
            (&after.key, &after.value, &after.headers)
        );
    }
    assert!(before.next().is_none(), "no record is lost");
}

/// A batch of one record of as many empty headers as it may unpack to.
fn header_bomb(codec: Compression) -> Bytes {
    let nothing: (&[u8], Option<&[u8]>) = (&[], None);
    let headers = vec![nothing; LIMITS.decompressed_bytes_max as usize / 2 - 64];
    let mut builder = BatchBuilder::new(codec);
    builder.append(7, None, None, &headers);
    builder.build()
}

/// Of each codec: a description that is built, the same with a byte changed, and the batch itself, sealed. Then a few bytes that are
/// very many headers.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for codec in 0..CODECS.len() as u8 {
        // Two records: a key and a value with one header; no key and a value that compresses well.
        let described: &[u8] = &[
            codec, 1, 7, 0, 1, 5, 0, 1, 4, b'k', b'e', b'y', 6, b'v', b'a', b'l', b'u', b'e', 1, 2, b'h', 2,
            b'x', 1, 2, 3, 0, 0, 0xc9, b'z', 0, 9, 2, 3, 0,
        ];
        let (batch, _) = built(&mut Input::new(described));
        seeds.push([&[2], described].concat());
        seeds.push([&[3], described, &[70, 0x80, 0x55]].concat());
        seeds.push([&[1], &batch[..]].concat());
    }
    seeds.push(vec![0]);
    for codec in [Compression::Gzip, Compression::Zstd] {
        seeds.push([&[1], &header_bomb(codec)[..]].concat());
    }
    seeds
}
