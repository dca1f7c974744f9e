//! The metadata log: commands, and now and then the whole image in parts.
//!
//! **An image is the log up to its place.** It reflects every command before its first part and stands in one piece: whoever writes it lets
//! no command in between. Only when all of it is committed is the log before it trimmed away. A reader therefore finds either
//! every command from the first on, or an image that is whole and the commands behind it. An image that was begun and not finished
//! counts for nothing; one that differs from what the commands before it made is an error, never a choice.

use bytes::{Bytes, BytesMut};
use record::{ClusterId, Offset};
use thiserror::Error;

use super::{Command, Metadata};
use crate::encoding::{DecodeError, Reader, Writer};

const FORMAT: &str = "part of a metadata image";
/// The version of all entries of the log.
const VERSION: u8 = 1;
/// Follows the version. Commands have lower ones.
const IMAGE_PART: u8 = 16;
/// Bytes of an image that one part has; the last part may have fewer.
const PART_BYTES: usize = if cfg!(test) { 64 } else { 256 << 10 };

/// A part of an image, as one record of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImagePart {
    /// The offset of the first part. The image reflects every command before it.
    pub place: Offset,
    /// The number of parts before it.
    pub index: u32,
    /// Says whether the image ends with it.
    pub is_last: bool,
    /// The image's bytes that follow those of the parts before.
    pub bytes: Bytes,
}

/// An image in the parts that its log takes, in order.
pub fn image_parts(place: Offset, image: &Bytes) -> impl Iterator<Item = ImagePart> + '_ {
    (0..)
        .zip((0..image.len()).step_by(PART_BYTES))
        .map(move |(index, from)| {
            let to = image.len().min(from + PART_BYTES);
            ImagePart {
                place,
                index,
                is_last: to == image.len(),
                bytes: image.slice(from..to),
            }
        })
}

impl ImagePart {
    /// The part as a record's value.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let mut writer = Writer::open(VERSION);
        writer.u8(IMAGE_PART);
        writer.i64(self.place.0);
        writer.count(self.index as usize);
        writer.u8(u8::from(self.is_last));
        writer.slice(&self.bytes);
        writer.close()
    }

    fn decode(value: &[u8]) -> Result<ImagePart, DecodeError> {
        let mut reader = Reader::open(value, FORMAT, VERSION)?;
        reader.u8("kind")?;
        let part = ImagePart {
            place: Offset(reader.i64("place of the image")?),
            index: reader.u32("number of the part")?,
            is_last: match reader.u8("last part")? {
                0 => false,
                1 => true,
                value => {
                    let field = "last part";
                    return Err(DecodeError::UnknownKind { field, value });
                }
            },
            bytes: Bytes::copy_from_slice(reader.slice("part of the image")?),
        };
        reader.close()?;
        Ok(part)
    }
}

/// An entry of the log.
enum Entry {
    Command(Command),
    ImagePart(ImagePart),
}

impl Entry {
    fn decode(value: &[u8]) -> Result<Entry, DecodeError> {
        match value.get(1) {
            Some(&IMAGE_PART) => ImagePart::decode(value).map(Entry::ImagePart),
            _ => Command::decode(value).map(Entry::Command),
        }
    }
}

/// The growth of the log since its newest image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Growth {
    /// The offset of the newest image, if there is one: all before it is to be trimmed away.
    pub image_at: Option<Offset>,
    image_bytes: usize,
    command_bytes: usize,
}

impl Growth {
    /// Nothing since an image of so many bytes.
    #[must_use]
    pub fn since_image(place: Offset, image_bytes: usize) -> Growth {
        Growth {
            image_at: Some(place),
            image_bytes,
            command_bytes: 0,
        }
    }

    /// Commands of so many bytes were committed.
    pub fn add(&mut self, command_bytes: usize) {
        self.command_bytes += command_bytes;
    }

    /// Says whether the log wants an image: since the last one it has grown by so many bytes, and by twice the image. So images are
    /// at most a third of what is written, and a start reads at most three times the image, or the image and `command_bytes_min`.
    #[must_use]
    pub fn wants_image(&self, command_bytes_min: usize) -> bool {
        self.command_bytes >= command_bytes_min.max(2 * self.image_bytes)
    }

    /// An image could not be written: it is tried again when as much has come once more.
    pub fn put_off(&mut self) {
        self.command_bytes = 0;
    }
}

/// Why the log could not be replayed. The image must not be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ReplayError {
    /// A record cannot be read.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The commands before an image made another one.
    #[error("the image at offset {place} differs from what the commands before it made")]
    ImageDiffers {
        /// The offset where the image begins.
        place: Offset,
    },
    /// It is another cluster's.
    #[error("the log is of cluster {found}, and this directory of cluster {expected}")]
    OtherCluster {
        /// The cluster that it was formatted for.
        found: ClusterId,
        /// The cluster whose log it should be.
        expected: ClusterId,
    },
    /// The beginning was trimmed away, and no whole image is there in its place.
    #[error("the log begins at offset {first}, and no image of what was before is whole")]
    NoBeginning {
        /// Its first record.
        first: Offset,
    },
}

/// Makes the image anew from its log, record by record.
#[derive(Debug)]
pub struct Replay {
    image: Metadata,
    first: Option<Offset>,
    growth: Growth,
    /// The image whose parts are read.
    begun: Option<Begun>,
}

#[derive(Debug)]
struct Begun {
    place: Offset,
    bytes: BytesMut,
}

impl Replay {
    /// Begins with the image before the first command.
    #[must_use]
    pub fn new(image: Metadata) -> Replay {
        Replay {
            image,
            first: None,
            growth: Growth::default(),
            begun: None,
        }
    }

    /// Takes the value of the next record, which is at this offset.
    ///
    /// # Errors
    /// See [`ReplayError`].
    pub fn take(&mut self, at: Offset, value: &[u8]) -> Result<(), ReplayError> {
        self.first.get_or_insert(at);
        match Entry::decode(value)? {
            Entry::Command(command) => {
                self.begun = None;
                // A command that was refused when it was committed is refused again.
                let _ = self.image.apply(&command);
                self.growth.add(value.len());
                Ok(())
            }
            Entry::ImagePart(part) => self.take_part(at, &part),
        }
    }

    /// The image so far.
    #[must_use]
    pub fn image(&self) -> &Metadata {
        &self.image
    }

    fn take_part(&mut self, at: Offset, part: &ImagePart) -> Result<(), ReplayError> {
        if part.index == 0 {
            self.begun = Some(Begun {
                place: at,
                bytes: BytesMut::new(),
            });
        }
        let is_in_place = at.0.checked_sub(part.place.0) == Some(part.index.into());
        let follows = |begun: &&mut Begun| begun.place == part.place && is_in_place;
        let Some(begun) = self.begun.as_mut().filter(follows) else {
            // It belongs to an image that was given up.
            self.begun = None;
            return Ok(());
        };
        begun.bytes.extend_from_slice(&part.bytes);
        match self.begun.take_if(|_| part.is_last) {
            Some(whole) => self.take_image(&whole),
            None => Ok(()),
        }
    }

    fn take_image(&mut self, whole: &Begun) -> Result<(), ReplayError> {
        let image = self.image.read_image(whole.place, &whole.bytes)?;
        let is_beginning = self.image.cluster().is_none();
        if !is_beginning && image != self.image {
            return Err(ReplayError::ImageDiffers { place: whole.place });
        }
        self.image = image;
        self.growth = Growth::since_image(whole.place, whole.bytes.len());
        Ok(())
    }

    /// Ends the log, which must be of this cluster. Returns the image, not formatted if nothing was read, and the log's growth.
    ///
    /// # Errors
    /// `NoBeginning`, `OtherCluster`.
    pub fn finish(self, expected: ClusterId) -> Result<(Metadata, Growth), ReplayError> {
        match (self.image.cluster(), self.first) {
            (None, Some(first)) => Err(ReplayError::NoBeginning { first }),
            (Some(found), _) if found != expected => Err(ReplayError::OtherCluster { found, expected }),
            _ => Ok((self.image, self.growth)),
        }
    }
}

#[cfg(test)]
mod tests;
