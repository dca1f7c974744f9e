//! A frame that the journal alone has, damaged when memory has let go of it: layout stops there, says what stands in the frame,
//! and goes on when that is given up.

use std::path::{Path, PathBuf};

use platform::disk::SimulatedDisk;
use record::Offset;

use super::rig::{Rig, batch, copy, open, partition, read, stage};
use crate::fault::Fault;
use crate::journal::FrameLocation;
use crate::store::ReadError;

/// A rig whose first frame has records of two partitions, is not laid out, and is in memory no more; and where it stands.
struct Behind {
    rig: Rig,
    path: PathBuf,
    location: FrameLocation,
}

impl Behind {
    fn new() -> Behind {
        let mut rig = Rig::new();
        for _ in 0..2 {
            let bytes = batch(3, 100, 1_000, 7);
            stage(&mut rig.store, partition(1), &bytes).expect("there is room");
        }
        rig.append(2, 100);
        rig.flush();
        while rig.store.journal.resident_from() == 0 {
            rig.append(5, 900);
            rig.flush();
            rig.prepare();
        }
        let location = rig.store.journal.location(0).expect("it is not released");
        let path = PathBuf::from(rig.store.journal_file(location.file_sequence));
        Behind { rig, path, location }
    }

    fn damage(&self, disk: &SimulatedDisk) {
        let byte = self.location.position + 200;
        let path = self.path.strip_prefix("/").unwrap_or(&self.path);
        let known = disk.paths().into_iter().find(|known| path.ends_with(known));
        disk.flip_bit(&known.expect("the journal's file"), 8 * byte);
    }

    /// Lays out the first partition.
    fn lay_out(&mut self) -> Result<(), Fault> {
        assert!(self.rig.store.begin_layout());
        let job = self
            .rig
            .store
            .next_layout(self.rig.now_ms)
            .expect("there is a step");
        let result = job.run();
        self.rig.store.laid_out(job, result)
    }

    #[track_caller]
    fn assert_named(&self, fault: &Fault) -> String {
        let Fault::Damaged { file, position, what } = fault else {
            panic!("{fault}");
        };
        assert_eq!(
            (Path::new(file), *position),
            (&*self.path, self.location.position)
        );
        what.clone()
    }
}

#[test]
fn layout_says_what_stands_in_a_damaged_frame_and_stops_until_that_is_deleted() {
    let mut behind = Behind::new();
    behind.damage(&behind.rig.disk);
    let kept = behind.rig.read(5);
    for _ in 0..2 {
        let fault = behind.lay_out().expect_err("a frame is damaged");
        let what = behind.assert_named(&fault);
        for part in [
            format!("offsets 0 to 5 of {}", partition(1)),
            format!("offsets 0 to 0 of {}", partition(2)),
            "until these partitions are deleted".to_owned(),
        ] {
            assert!(what.contains(&part), "{part} in {what}");
        }
        assert!(!what.contains(&partition(5).to_string()), "{what}");
    }
    let refused = open(&copy(&behind.rig.disk)).err().expect("a start is refused");
    behind.assert_named(&refused);
    for number in [1, 2] {
        behind
            .rig
            .store
            .delete_partition(partition(number))
            .expect("there is room");
    }
    behind.rig.flush();
    behind.rig.lay_out();
    assert_eq!(behind.rig.read(5), kept);
    let (mut rig, _) = behind.rig.restart();
    assert_eq!(rig.read(5), kept);
}

#[test]
fn a_read_of_a_damaged_frame_says_where_it_stands() {
    let mut behind = Behind::new();
    behind.damage(&behind.rig.disk);
    let found = read(&mut behind.rig.store, partition(2), 0, 1, 1_000);
    let Err(ReadError::Fault(fault)) = found else {
        panic!("the bytes are served");
    };
    let what = behind.assert_named(&fault);
    assert!(what.contains(&format!("offset 0 of {}", partition(2))), "{what}");
    assert_eq!(
        behind.rig.store.bounds(partition(2)),
        Some((Offset(0), Offset(1)))
    );
}
