//! The end of a journal: whether what stands behind the last whole frame is a torn one, one that can be mended, or damage.

use bytes::Bytes;
use planted::{Bug, planted};
use platform::disk::BLOCK_BYTES;

use super::super::files::JournalFile;
use super::super::frame::FrameHeader;
use super::super::mend::{mend, mend_header};
use super::{FIRST_FRAME, Scan, Scanned, Visit, Window};
use crate::fault::Fault;

impl Scan<'_> {
    /// The size of a torn frame, as far as its header still tells.
    fn torn_bytes(
        &self,
        file: &JournalFile,
        position: u64,
        expected: u64,
        window: &mut Window,
    ) -> Result<u64, Fault> {
        let Some(block) = self.window(file, position, BLOCK_BYTES, window)? else {
            return Ok(0);
        };
        Ok(FrameHeader::decode(&block, &self.frames_of(file))
            .filter(|header| header.file_sequence == file.sequence && header.frame_sequence == expected)
            .map_or(0, |header| header.frame_bytes() as u64))
    }

    /// Behind the end no frame may stand that was begun after the end's frame was durable.
    pub(super) fn refuse_later_frames(&self, idle: &[JournalFile], found: &Scanned) -> Result<(), Fault> {
        let Some(last) = found.files.used.last() else {
            return Ok(());
        };
        if planted(Bug::TailCutDespiteLaterFrames) {
            return Ok(());
        }
        let places =
            std::iter::once((last, found.files.position)).chain(idle.iter().map(|file| (file, FIRST_FRAME)));
        for (file, from) in places {
            let mut window = Window::default();
            let Some((position, later)) = self.later_frame(file, from, found.next_frame, &mut window)? else {
                continue;
            };
            // If the later frame is the first of its file, the bad one stands at the end of the file before.
            let bad = if position > from {
                (file, from)
            } else {
                (last, found.files.position)
            };
            return Err(self.not_whole(bad, found.next_frame, (file, position), later));
        }
        Ok(())
    }

    /// The first frame from `from` on, where frame `next` should stand, that is later: its position and its sequence.
    pub(super) fn later_frame(
        &self,
        file: &JournalFile,
        from: u64,
        next: u64,
        window: &mut Window,
    ) -> Result<Option<(u64, u64)>, Fault> {
        // A torn frame holds what producers chose; its header says where it ends.
        let behind = from + self.torn_bytes(file, from, next, window)?;
        self.find_later(file, behind, next, window)
    }

    /// That frame `frame` is damaged at the first of two places, since frame `later` is at the second.
    pub(super) fn not_whole(
        &self,
        (bad, at): (&JournalFile, u64),
        frame: u64,
        (file, position): (&JournalFile, u64),
        later: u64,
    ) -> Fault {
        let what = format!(
            "frame {frame} is not whole, although frame {later} at byte {position} of {} was written after it",
            file.name
        );
        self.damaged(&bad.name, at, what)
    }

    /// The first frame header from `from` on that is later than frame `next`: its position and its frame's sequence.
    fn find_later(
        &self,
        file: &JournalFile,
        from: u64,
        next: u64,
        window: &mut Window,
    ) -> Result<Option<(u64, u64)>, Fault> {
        let mut position = from;
        while let Some(block) = self.window(file, position, BLOCK_BYTES, window)? {
            // No journal comes to the last number: whoever goes on from this frame may count further.
            if let Some(header) = FrameHeader::decode(&block, &self.frames_of(file))
                && header.file_sequence == file.sequence
                && header.frame_sequence > next
                && header.frame_sequence < u64::MAX
            {
                return Ok(Some((position, header.frame_sequence)));
            }
            position += BLOCK_BYTES as u64;
        }
        Ok(None)
    }

    /// Looks at the place where the frames end, or else at the beginning of a file behind: there is a frame that can be mended and counts
    /// then, a torn one that is cut, or nothing.
    pub(super) fn finish_tail(
        &self,
        mut idle: Vec<JournalFile>,
        found: &mut Scanned,
        visit: &mut Visit<'_>,
    ) -> Result<Vec<JournalFile>, Fault> {
        let Some(last) = found.files.used.last() else {
            return Ok(idle);
        };
        let places =
            std::iter::once((last, found.files.position)).chain(idle.iter().map(|file| (file, FIRST_FRAME)));
        let mut mended = None;
        for (index, (file, position)) in places.enumerate() {
            let mut window = Window::default();
            found.cut_bytes += self.torn_bytes(file, position, found.next_frame, &mut window)?;
            if let Some((header, frame)) = self.mended_frame(file, position, found.next_frame, &mut window)? {
                mended = Some((index, position, header, frame));
                break;
            }
        }
        let Some((index, position, header, frame)) = mended else {
            return Ok(idle);
        };
        if index > 0 {
            found.files.used.push(idle.remove(index - 1));
        }
        let file = found.files.used.last().expect("seen above");
        tracing::warn!(file = %self.path(&file.name), position, "the last frame had a turned bit and was mended");
        let location = self.take_frame(file, position, &header, &frame, visit)?;
        found.push(location, &header);
        found.files.position = position + frame.len() as u64;
        found.cut_bytes = 0;
        found.mended = Some(frame);
        Ok(idle)
    }

    fn mended_frame(
        &self,
        file: &JournalFile,
        position: u64,
        expected: u64,
        window: &mut Window,
    ) -> Result<Option<(FrameHeader, Bytes)>, Fault> {
        let Some(block) = self.window(file, position, BLOCK_BYTES, window)? else {
            return Ok(None);
        };
        let is_wanted =
            |header: &FrameHeader| header.file_sequence == file.sequence && header.frame_sequence == expected;
        let Some(header) = mend_header(&block, &self.frames_of(file)).filter(is_wanted) else {
            return Ok(None);
        };
        let frame = self.window(file, position, header.frame_bytes(), window)?;
        Ok(frame.and_then(|frame| mend(&frame, &self.frames_of(file))))
    }
}
