//! Files of earlier versions are refused, with a sentence that says so and what to do, and left alone.

use std::path::Path;
use std::sync::Arc;

use platform::disk::{Disk, SimulatedDisk};
use platform::random::Random;
use storage::{CheckReport, Fault, Store, check, identify};

use super::{CONFIG, Files, IDENTITY, golden, load};

const FORMAT_3: Files = golden! { "format-3":
    "checkpoints/000.checkpoint",
    "journals/000/000000.journal",
};

const NODE_FILE_1: &str = "# Identifies this directory. Written once; do not edit.
format = 1
cluster = \"9f86d081884c7d659a2feaa0c55ad015\"
node = 1
journals = 4
";

const REMEDY: &str = "keep the directory for the version that wrote it, and start this one with an empty directory; nothing was changed";

fn assert_refused(disk: &SimulatedDisk, file: &str) {
    let before = disk.operation_count();
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let refused = Store::open(shared.clone(), Random::SYSTEM, CONFIG).map(|_| ());
    let checked: Result<CheckReport, Fault> = check(&shared, &IDENTITY, &mut |_| {});
    let told = match checked {
        Ok(report) => report.faults.first().map(ToString::to_string).unwrap_or_default(),
        Err(fault) => fault.to_string(),
    };
    let refused = refused.expect_err("an older version wrote it").to_string();
    assert_eq!(refused, told, "the check says the same");
    assert!(refused.contains(file) && refused.contains(REMEDY), "{refused}");
    assert!(refused.contains("from before the first release"), "{refused}");
    assert_eq!(disk.operation_count(), before, "nothing was written");
}

#[test]
fn the_checkpoint_and_the_journal_of_format_3_are_refused() {
    let disk = load(FORMAT_3);
    assert_refused(&disk, "000.checkpoint");
    disk.remove(Path::new("checkpoints/000.checkpoint"))
        .expect("nothing fails");
    assert_refused(&disk, "000000.journal");
}

#[test]
fn the_node_file_of_format_1_is_refused() {
    let disk = SimulatedDisk::new();
    disk.replace(Path::new("node.toml"), NODE_FILE_1.as_bytes())
        .expect("nothing fails");
    let before = disk.operation_count();
    let refused = identify(&disk, &Random::SYSTEM, Some(1), 4)
        .expect_err("an older version wrote it")
        .to_string();
    assert!(
        refused.contains("has format 1, from before") && refused.contains(REMEDY),
        "{refused}"
    );
    assert_eq!(disk.operation_count(), before, "nothing was written");
}
