//! The words between nodes about the order of a topic that several of them hold ([`crate::order::Scribe`]).

use record::Position;

use super::message::{possible, read_offset};
use super::replica::{read_epoch, read_partition, write_partition};
use crate::encoding::{DecodeError, Reader, Writer};
use crate::order::{Committed, Ordered, Report};

pub(super) fn write_committed(writer: &mut Writer, Report { scribe, committed }: &Report) {
    writer.i32(scribe.0);
    write_partition(writer, &committed.partition);
    writer.i32(committed.epoch.0);
    writer.i64(committed.log_start.0);
    writer.i64(committed.tail.0);
}

pub(super) fn read_committed(reader: &mut Reader<'_>) -> Result<Report, DecodeError> {
    let scribe = read_epoch(reader, "epoch of the order")?;
    let committed = Committed {
        partition: read_partition(reader)?,
        epoch: read_epoch(reader, "epoch")?,
        log_start: read_offset(reader, "log start")?,
        tail: read_offset(reader, "tail")?,
    };
    possible(committed.log_start <= committed.tail, "tail")?;
    Ok(Report { scribe, committed })
}

pub(super) fn write_ordered(writer: &mut Writer, ordered: &Ordered) {
    write_partition(writer, &ordered.partition);
    writer.i32(ordered.epoch.0);
    writer.u64(ordered.position.0);
    writer.i64(ordered.first.0);
    writer.i64(ordered.next.0);
}

pub(super) fn read_ordered(reader: &mut Reader<'_>) -> Result<Ordered, DecodeError> {
    let ordered = Ordered {
        partition: read_partition(reader)?,
        epoch: read_epoch(reader, "epoch")?,
        position: Position(reader.u64("position")?),
        first: read_offset(reader, "first offset")?,
        next: read_offset(reader, "next offset")?,
    };
    let offsets = ordered.next.0 - ordered.first.0;
    possible(offsets >= 0, "next offset")?;
    // Positions are offsets to clients.
    let end = ordered.position.0.saturating_add(offsets.unsigned_abs());
    possible(i64::try_from(end).is_ok(), "position")?;
    Ok(ordered)
}
