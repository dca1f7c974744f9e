//! Goes over a whole journal, also behind frames that are damaged, where a start gives up: for tools that look at what is
//! left. Nothing of a journal with a fault is served.

use std::collections::BTreeSet;
use std::sync::Arc;

use platform::disk::Disk;

use super::super::files::JournalFile;
use super::{FIRST_FRAME, ReplayStart, Scan, Visit, Window};
use crate::checksum::JournalIdentity;
use crate::fault::Fault;

/// With so many damaged places the rest is not looked at.
const FAULTS_MAX: usize = 1_000;

/// The findings of a survey.
#[derive(Default)]
pub(crate) struct Surveyed {
    /// Frames that are whole.
    pub(crate) frames: u64,
    /// Their bytes, padding included.
    pub(crate) bytes: u64,
    /// Each damaged place, in order. Frames in a row whose headers are gone are one: where they end is not known.
    pub(crate) faults: Vec<Fault>,
}

impl Surveyed {
    /// Everything that is wrong, `fault` being where a start gave up. That may be more than a survey looks for.
    pub(crate) fn faults_with(self, fault: Fault) -> Vec<Fault> {
        let text = fault.to_string();
        let is_known = self.faults.iter().any(|known| known.to_string() == text);
        let unknown = (!is_known).then_some(fault);
        unknown.into_iter().chain(self.faults).collect()
    }
}

/// Visits each whole frame from `start`, as a scan does, and goes on where that stops. What is wrong with the files themselves
/// ends it. The last frame is not looked into if it is torn: that is no damage. Changes nothing.
pub(crate) fn survey(
    disk: &Arc<dyn Disk>,
    identity: &JournalIdentity,
    start: Option<ReplayStart>,
    held: &BTreeSet<u32>,
    visit: &mut Visit<'_>,
) -> Surveyed {
    let scan = Scan::new(disk, identity);
    let mut found = Surveyed::default();
    let surveyed = scan
        .files_from(start, held)
        .and_then(|(_, files)| scan.survey(&files, start, &mut found, visit));
    found.faults.extend(surveyed.err());
    found
}

impl Scan<'_> {
    fn survey(
        &self,
        files: &[JournalFile],
        start: Option<ReplayStart>,
        found: &mut Surveyed,
        visit: &mut Visit<'_>,
    ) -> Result<(), Fault> {
        let mut expected = start.map_or(0, |start| start.frame);
        let mut position = start.map_or(FIRST_FRAME, |start| start.position);
        // Where the expected frame stands, unless a file behind begins with it.
        let Some(mut end) = files.first().map(|file| (file, position)) else {
            return Ok(());
        };
        for file in files {
            let mut window = Window::default();
            loop {
                if let Some((header, frame)) = self.frame_at(file, position, expected, &mut window)? {
                    match self.take_frame(file, position, &header, &frame, visit) {
                        Ok(_) => {
                            found.frames += 1;
                            found.bytes += frame.len() as u64;
                        }
                        Err(fault) => found.faults.push(fault),
                    }
                    expected += 1;
                    position += frame.len() as u64;
                } else if let Some((at, later)) = self.later_frame(file, position, expected, &mut window)? {
                    // If the later frame is the first of its file, the bad one stands where the frames before end.
                    let (bad, begins) = if at > position { (file, position) } else { end };
                    found
                        .faults
                        .push(self.not_whole((bad, begins), expected, (file, at), later));
                    (expected, position) = (later, at);
                } else {
                    break;
                }
                if found.faults.len() >= FAULTS_MAX {
                    let what = format!(
                        "{FAULTS_MAX} places before this one are damaged, the rest was not looked at"
                    );
                    return Err(self.damaged(&file.name, position, what));
                }
                end = (file, position);
            }
            position = FIRST_FRAME;
        }
        Ok(())
    }
}
