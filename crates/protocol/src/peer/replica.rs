//! The messages of replicas as bytes: the partition, the message's number, its fields in order.
//!
//! A message may have its replica write entries into the journal, which must be readable there later. So fields are refused here that
//! no journal takes: negative offsets, a base at 0, a record before that is of a later epoch. Whether a message fits the log that it is
//! for is decided by the replica.

use bytes::Bytes;
use record::{Epoch, Offset, PartitionId, TopicId};

use super::message::{possible, read_offset, read_time, write_time};
use crate::encoding::{DecodeError, Reader, Writer};
use crate::epochs::Run;
use crate::leader::NodeId;
use crate::replica::lease::{Believer, GRANT};
use crate::replica::{Base, Landmark, NO_EPOCH, Prompt, Refusal, Standing, Sworn};

const SEAL: u8 = 1;
const LOCATE: u8 = 2;
const COPY: u8 = 3;
const COMPARE: u8 = 4;
const DIFFERS: u8 = 5;
const APPEND: u8 = 6;
const ACCEPT: u8 = 7;
const COMMIT: u8 = 8;
const TRIM: u8 = 9;
const REFUSED: u8 = 10;

const PROMISED: u8 = 1;
const LOCATED: u8 = 2;
const ACKNOWLEDGED: u8 = 3;

const LANDMARK_RUN: u8 = 1;
const LANDMARK_END: u8 = 2;
const LANDMARK_BASE: u8 = 3;

const FENCED: u8 = 1;
const APART: u8 = 2;
const COMMITTED: u8 = 3;

/// Stands in the place of a node.
const ANYBODY: i32 = -1;

const EPOCH: &str = "epoch";
const OFFSET: &str = "offset";
const WRITER_BEFORE: &str = "epoch of the record before";

pub(super) fn write_partition(writer: &mut Writer, partition: &PartitionId) {
    writer.bytes_16(partition.topic.0);
    writer.i32(partition.index);
}

pub(super) fn read_partition(reader: &mut Reader<'_>) -> Result<PartitionId, DecodeError> {
    let topic = TopicId(reader.bytes_16("topic id")?);
    let index = reader.i32("partition index")?;
    possible(index >= 0, "partition index")?;
    Ok(PartitionId { topic, index })
}

/// Writes everything but the batches of an append, which follow.
pub(super) fn write_prompt(writer: &mut Writer, prompt: &Prompt<Bytes>) {
    let number = match prompt {
        Prompt::Seal { .. } => SEAL,
        Prompt::Locate { .. } => LOCATE,
        Prompt::Copy { .. } => COPY,
        Prompt::Compare { .. } => COMPARE,
        Prompt::Differs { .. } => DIFFERS,
        Prompt::Append { .. } => APPEND,
        Prompt::Accept { .. } => ACCEPT,
        Prompt::Commit { .. } => COMMIT,
        Prompt::Trim { .. } => TRIM,
        Prompt::Refused { .. } => REFUSED,
    };
    writer.u8(number);
    writer.i32(prompt.epoch().0);
    match prompt {
        Prompt::Seal { .. } => {}
        Prompt::Locate { at: offset, .. }
        | Prompt::Copy { first: offset, .. }
        | Prompt::Differs { at: offset, .. }
        | Prompt::Commit { tail: offset, .. }
        | Prompt::Trim {
            log_start: offset, ..
        } => writer.i64(offset.0),
        Prompt::Compare { landmark, .. } => write_landmark(writer, landmark),
        Prompt::Append { writer_before, .. } => writer.i32(writer_before.0),
        Prompt::Accept {
            first, writer_before, ..
        } => {
            writer.i64(first.0);
            writer.i32(writer_before.0);
        }
        Prompt::Refused { refusal, .. } => write_refusal(writer, refusal),
    }
}

/// Reads a prompt to the end of `body`, which `reader` reads. Batches are a slice of it.
pub(super) fn read_prompt(reader: &mut Reader<'_>, body: &Bytes) -> Result<Prompt<Bytes>, DecodeError> {
    let (field, value) = ("kind of prompt", reader.u8("kind of prompt")?);
    let epoch = read_epoch(reader, EPOCH)?;
    Ok(match value {
        SEAL => Prompt::Seal { epoch },
        LOCATE => Prompt::Locate {
            epoch,
            at: read_offset(reader, OFFSET)?,
        },
        COPY => Prompt::Copy {
            epoch,
            first: read_offset(reader, OFFSET)?,
        },
        COMPARE => Prompt::Compare {
            epoch,
            landmark: read_landmark(reader, body)?,
        },
        DIFFERS => Prompt::Differs {
            epoch,
            at: read_offset(reader, OFFSET)?,
        },
        APPEND => {
            let writer_before = read_writer_before(reader, epoch)?;
            let batches = body.slice_ref(reader.take_rest());
            possible(!batches.is_empty(), "number of batches")?;
            Prompt::Append {
                epoch,
                writer_before,
                batches,
            }
        }
        ACCEPT => Prompt::Accept {
            epoch,
            first: read_offset(reader, OFFSET)?,
            writer_before: read_writer_before(reader, epoch)?,
        },
        COMMIT => Prompt::Commit {
            epoch,
            tail: read_offset(reader, OFFSET)?,
        },
        TRIM => Prompt::Trim {
            epoch,
            log_start: read_offset(reader, OFFSET)?,
        },
        REFUSED => Prompt::Refused {
            epoch,
            refusal: read_refusal(reader)?,
        },
        _ => return Err(DecodeError::UnknownKind { field, value }),
    })
}

pub(super) fn write_sworn(writer: &mut Writer, sworn: &Sworn) {
    let number = match sworn {
        Sworn::Promised { .. } => PROMISED,
        Sworn::Located { .. } => LOCATED,
        Sworn::Acknowledged { .. } => ACKNOWLEDGED,
    };
    writer.u8(number);
    writer.i32(sworn.epoch().0);
    match sworn {
        Sworn::Promised {
            standing, believers, ..
        } => {
            write_standing(writer, standing);
            writer.count(believers.len());
            for believer in believers {
                writer.i32(believer.node.map_or(ANYBODY, |node| node.0));
                write_time(writer, believer.left);
            }
        }
        Sworn::Located { landmark, .. } => write_landmark(writer, landmark),
        Sworn::Acknowledged {
            accepted,
            next_offset,
            ..
        } => {
            writer.i32(accepted.0);
            writer.i64(next_offset.0);
        }
    }
}

fn read_believers(reader: &mut Reader<'_>) -> Result<Vec<Believer>, DecodeError> {
    let count = reader.count("leaders that may believe", 12)?;
    let mut believers = Vec::with_capacity(count);
    for _ in 0..count {
        let node = reader.i32("leader that may believe")?;
        possible(node >= ANYBODY, "leader that may believe")?;
        let left = read_time(reader, "time that is left")?;
        possible(left <= GRANT, "time that is left")?;
        let node = (node != ANYBODY).then_some(NodeId(node));
        believers.push(Believer { node, left });
    }
    Ok(believers)
}

pub(super) fn read_sworn(reader: &mut Reader<'_>, body: &Bytes) -> Result<Sworn, DecodeError> {
    let (field, value) = ("kind of sworn message", reader.u8("kind of sworn message")?);
    let epoch = read_epoch(reader, EPOCH)?;
    Ok(match value {
        PROMISED => Sworn::Promised {
            epoch,
            standing: read_standing(reader)?,
            believers: read_believers(reader)?,
        },
        LOCATED => Sworn::Located {
            epoch,
            landmark: read_landmark(reader, body)?,
        },
        ACKNOWLEDGED => Sworn::Acknowledged {
            epoch,
            accepted: read_epoch_or_none(reader, "accepted epoch")?,
            next_offset: read_offset(reader, "end of the log")?,
        },
        _ => return Err(DecodeError::UnknownKind { field, value }),
    })
}

fn write_standing(writer: &mut Writer, standing: &Standing) {
    writer.i32(standing.accepted.0);
    writer.i32(standing.last_writer.0);
    writer.i64(standing.log_start.0);
    writer.i64(standing.tail.0);
    writer.i64(standing.next_offset.0);
    writer.u8(standing.is_certain.into());
}

fn read_standing(reader: &mut Reader<'_>) -> Result<Standing, DecodeError> {
    let standing = Standing {
        accepted: read_epoch_or_none(reader, "accepted epoch")?,
        last_writer: read_epoch_or_none(reader, "epoch of the last batch")?,
        log_start: read_offset(reader, "beginning of the log")?,
        tail: read_offset(reader, "tail")?,
        next_offset: read_offset(reader, "end of the log")?,
        is_certain: read_flag(reader, "certainty")?,
    };
    let is_ordered = standing.log_start <= standing.tail && standing.tail <= standing.next_offset;
    possible(is_ordered, "tail between beginning and end of the log")?;
    Ok(standing)
}

fn write_landmark(writer: &mut Writer, landmark: &Landmark) {
    match landmark {
        Landmark::Run(run) => {
            writer.u8(LANDMARK_RUN);
            write_run(writer, run);
        }
        Landmark::End(end) => {
            writer.u8(LANDMARK_END);
            writer.i64(end.0);
        }
        Landmark::Base(base) => {
            writer.u8(LANDMARK_BASE);
            write_base(writer, base);
        }
    }
}

fn read_landmark(reader: &mut Reader<'_>, body: &Bytes) -> Result<Landmark, DecodeError> {
    let (field, value) = ("kind of landmark", reader.u8("kind of landmark")?);
    Ok(match value {
        LANDMARK_RUN => Landmark::Run(read_run(reader)?),
        LANDMARK_END => Landmark::End(read_offset(reader, "end of the log")?),
        LANDMARK_BASE => Landmark::Base(read_base(reader, body)?),
        _ => return Err(DecodeError::UnknownKind { field, value }),
    })
}

fn write_run(writer: &mut Writer, run: &Run) {
    writer.i32(run.writer.0);
    writer.i64(run.first_offset.0);
    writer.i64(run.next_offset.0);
    writer.i32(run.followed_by.unwrap_or(NO_EPOCH).0);
}

fn read_run(reader: &mut Reader<'_>) -> Result<Run, DecodeError> {
    let writer = read_epoch(reader, "epoch of a run")?;
    let first_offset = read_offset(reader, "first offset of a run")?;
    let next_offset = read_offset(reader, "end of a run")?;
    possible(first_offset < next_offset, "end of a run")?;
    let followed_by = read_epoch_or_none(reader, "epoch behind a run")?;
    let followed_by = (followed_by != NO_EPOCH).then_some(followed_by);
    possible(followed_by.is_none_or(|next| writer < next), "epoch behind a run")?;
    Ok(Run {
        writer,
        first_offset,
        next_offset,
        followed_by,
    })
}

fn write_base(writer: &mut Writer, base: &Base) {
    writer.i64(base.first.0);
    writer.i64(base.covered.0);
    writer.u8(base.run.is_some().into());
    if let Some(run) = &base.run {
        write_run(writer, run);
    }
    writer.slice(&base.history);
}

fn read_base(reader: &mut Reader<'_>, body: &Bytes) -> Result<Base, DecodeError> {
    let first = read_offset(reader, "base")?;
    possible(first > Offset::ZERO, "base")?;
    let covered = read_offset(reader, "end of what a history covers")?;
    possible(first <= covered, "end of what a history covers")?;
    let run = match read_flag(reader, "run at the base")? {
        true => Some(read_run(reader)?),
        false => None,
    };
    let holds_base = |run: Run| run.first_offset <= first && first < run.next_offset;
    possible(run.is_none_or(holds_base), "run at the base")?;
    Ok(Base {
        first,
        run,
        covered,
        history: body.slice_ref(reader.slice("history")?),
    })
}

fn write_refusal(writer: &mut Writer, refusal: &Refusal) {
    match refusal {
        Refusal::Fenced { floor } => {
            writer.u8(FENCED);
            writer.i32(floor.0);
        }
        Refusal::Apart { tail } => {
            writer.u8(APART);
            writer.i64(tail.0);
        }
        Refusal::Committed { tail } => {
            writer.u8(COMMITTED);
            writer.i64(tail.0);
        }
    }
}

fn read_refusal(reader: &mut Reader<'_>) -> Result<Refusal, DecodeError> {
    let (field, value) = ("refusal", reader.u8("refusal")?);
    Ok(match value {
        FENCED => Refusal::Fenced {
            floor: read_epoch(reader, "earliest epoch that is listened to")?,
        },
        APART => Refusal::Apart {
            tail: read_offset(reader, "tail")?,
        },
        COMMITTED => Refusal::Committed {
            tail: read_offset(reader, "tail")?,
        },
        _ => return Err(DecodeError::UnknownKind { field, value }),
    })
}

pub(super) fn read_epoch(reader: &mut Reader<'_>, field: &'static str) -> Result<Epoch, DecodeError> {
    let epoch = Epoch(reader.i32(field)?);
    possible(epoch > NO_EPOCH, field)?;
    Ok(epoch)
}

fn read_epoch_or_none(reader: &mut Reader<'_>, field: &'static str) -> Result<Epoch, DecodeError> {
    let epoch = Epoch(reader.i32(field)?);
    possible(epoch >= NO_EPOCH, field)?;
    Ok(epoch)
}

/// Reads the epoch of the record before what `epoch` has a replica take: none, or one up to it.
fn read_writer_before(reader: &mut Reader<'_>, epoch: Epoch) -> Result<Epoch, DecodeError> {
    let writer_before = read_epoch_or_none(reader, WRITER_BEFORE)?;
    possible(writer_before <= epoch, WRITER_BEFORE)?;
    Ok(writer_before)
}

pub(super) fn read_flag(reader: &mut Reader<'_>, field: &'static str) -> Result<bool, DecodeError> {
    match reader.u8(field)? {
        0 => Ok(false),
        1 => Ok(true),
        value => Err(DecodeError::UnknownKind { field, value }),
    }
}
