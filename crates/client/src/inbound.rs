//! Cuts the byte stream from a broker into frames.
//!
//! One read usually brings a whole small answer, or several: they are copied out of a fixed buffer. A large answer gets
//! memory of its own, filled without being zeroed first, and only after its length was found to be allowed.

use std::io::{self, Read};
use std::time::Instant;

use bytes::Bytes;

/// The most bytes of one read outside large frames.
const BUFFER_BYTES: usize = 64 * 1024;
/// Bytes of a large frame that are read between two looks at the clock.
const STEP_BYTES: u64 = 1 << 20;
/// The length before each frame.
const PREFIX_BYTES: usize = 4;

/// Why there is no frame.
#[derive(Debug)]
pub(crate) enum InboundError {
    /// The stream ended: between frames, or inside one.
    Ended {
        inside_frame: bool,
    },
    /// Not all of it came in time.
    Late,
    /// A length that no answer may have.
    Length(i64),
    Io(io::Error),
}

impl From<io::Error> for InboundError {
    fn from(error: io::Error) -> InboundError {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => InboundError::Late,
            _ => InboundError::Io(error),
        }
    }
}

/// Bytes received and not yet handed out.
#[derive(Debug)]
pub(crate) struct Inbound {
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    frame_bytes_max: usize,
}

impl Inbound {
    /// Nothing received yet; frames may have `frame_bytes_max` bytes after their length.
    pub(crate) fn new(frame_bytes_max: usize) -> Inbound {
        Inbound {
            buffer: vec![0; BUFFER_BYTES].into_boxed_slice(),
            start: 0,
            end: 0,
            frame_bytes_max,
        }
    }

    /// The longest frame that is taken.
    pub(crate) fn frame_bytes_max(&self) -> usize {
        self.frame_bytes_max
    }

    /// Says if a frame, or a part of one, is here already.
    pub(crate) fn has_bytes(&self) -> bool {
        self.start < self.end
    }

    /// The next frame without its length. `stream` is expected to give up by itself when nothing comes; a stream that
    /// trickles is given up at `deadline`.
    pub(crate) fn next_frame(
        &mut self,
        stream: &mut impl Read,
        deadline: Instant,
    ) -> Result<Bytes, InboundError> {
        self.fill_to(PREFIX_BYTES, stream, deadline)?;
        let prefix = *self.buffer[self.start..]
            .first_chunk::<PREFIX_BYTES>()
            .expect("filled just now");
        let length = i32::from_be_bytes(prefix);
        let frame_bytes = match usize::try_from(length) {
            // The shortest answer is a header alone.
            Ok(bytes) if (4..=self.frame_bytes_max).contains(&bytes) => bytes,
            _ => return Err(InboundError::Length(length.into())),
        };
        if PREFIX_BYTES + frame_bytes > self.buffer.len() {
            self.start += PREFIX_BYTES;
            return self.large_frame(frame_bytes, stream, deadline);
        }
        self.fill_to(PREFIX_BYTES + frame_bytes, stream, deadline)?;
        let first = self.start + PREFIX_BYTES;
        let frame = Bytes::copy_from_slice(&self.buffer[first..first + frame_bytes]);
        self.start = first + frame_bytes;
        Ok(frame)
    }

    /// Reads until `needed` bytes, which the buffer has room for, are here.
    fn fill_to(
        &mut self,
        needed: usize,
        stream: &mut impl Read,
        deadline: Instant,
    ) -> Result<(), InboundError> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
        if self.start + needed > self.buffer.len() {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        let mut first = true;
        while self.end - self.start < needed {
            if !first && Instant::now() >= deadline {
                return Err(InboundError::Late);
            }
            first = false;
            match stream.read(&mut self.buffer[self.end..]) {
                Ok(0) => {
                    return Err(InboundError::Ended {
                        inside_frame: self.has_bytes() || needed > PREFIX_BYTES,
                    });
                }
                Ok(count) => self.end += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn large_frame(
        &mut self,
        frame_bytes: usize,
        stream: &mut impl Read,
        deadline: Instant,
    ) -> Result<Bytes, InboundError> {
        let mut frame = Vec::with_capacity(frame_bytes);
        frame.extend_from_slice(&self.buffer[self.start..self.end]);
        (self.start, self.end) = (0, 0);
        while frame.len() < frame_bytes {
            if Instant::now() >= deadline {
                return Err(InboundError::Late);
            }
            let step = STEP_BYTES.min((frame_bytes - frame.len()) as u64);
            if stream.take(step).read_to_end(&mut frame)? < step as usize {
                return Err(InboundError::Ended { inside_frame: true });
            }
        }
        Ok(Bytes::from(frame))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Gives at most `step` bytes a read.
    struct Trickle<'a> {
        bytes: &'a [u8],
        step: usize,
    }

    impl Read for Trickle<'_> {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            let count = self.step.min(out.len()).min(self.bytes.len());
            out[..count].copy_from_slice(&self.bytes[..count]);
            self.bytes = &self.bytes[count..];
            Ok(count)
        }
    }

    fn framed(lengths: &[usize]) -> Vec<u8> {
        let mut out = Vec::new();
        for (index, length) in lengths.iter().enumerate() {
            out.extend_from_slice(&(*length as u32).to_be_bytes());
            out.extend((0..*length).map(|at| (at * 7 + index) as u8));
        }
        out
    }

    fn far() -> Instant {
        Instant::now() + Duration::from_secs(3600)
    }

    #[test]
    fn frames_of_all_sizes_come_out_whole_however_they_arrive() {
        let lengths = [
            4,
            60_000,
            9_000,
            BUFFER_BYTES - 4,
            BUFFER_BYTES - 3,
            300_000,
            5,
            2_500_000,
            4,
        ];
        let bytes = framed(&lengths);
        for step in [999, 65_536, usize::MAX] {
            let mut stream = Trickle { bytes: &bytes, step };
            let mut inbound = Inbound::new(3_000_000);
            for (index, length) in lengths.iter().enumerate() {
                let frame = inbound.next_frame(&mut stream, far()).expect("a whole frame");
                assert_eq!(frame.len(), *length);
                assert!(
                    frame
                        .iter()
                        .enumerate()
                        .all(|(at, byte)| *byte == (at * 7 + index) as u8)
                );
            }
            assert!(!inbound.has_bytes());
            let end = inbound.next_frame(&mut stream, far());
            assert!(matches!(end, Err(InboundError::Ended { inside_frame: false })));
        }
    }

    #[test]
    fn lengths_that_no_answer_has_are_refused_before_memory_is_taken() {
        for length in [-1, 0, 3, 1_001, i32::MAX, i32::MIN] {
            let bytes = length.to_be_bytes();
            let mut stream = &bytes[..];
            let refused = Inbound::new(1_000).next_frame(&mut stream, far());
            assert!(matches!(refused, Err(InboundError::Length(found)) if found == i64::from(length)));
        }
    }

    #[test]
    fn an_end_inside_a_frame_is_told_from_one_between_frames() {
        let bytes = framed(&[100_000]);
        for cut in [1, 4, 50, 70_000, 100_003] {
            let mut stream = &bytes[..cut];
            let ended = Inbound::new(200_000).next_frame(&mut stream, far());
            assert!(
                matches!(ended, Err(InboundError::Ended { inside_frame: true })),
                "{cut}"
            );
        }
    }

    #[test]
    fn a_trickle_ends_at_the_deadline() {
        let bytes = framed(&[1_000]);
        let mut stream = Trickle {
            bytes: &bytes,
            step: 1,
        };
        let late = Inbound::new(1_000).next_frame(&mut stream, Instant::now());
        assert!(matches!(late, Err(InboundError::Late)));
    }
}
