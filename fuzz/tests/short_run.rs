//! A short run of every target, the same every time: first the seeds as they are, then inputs made out of them.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use fuzz::{TARGETS, Target, Vary};

/// What all seeds of a target may take together: they are in the repository.
const SEED_BYTES_MAX: usize = 24 << 10;

/// Memory is the whole process's: one target runs at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn target(name: &str) -> &'static Target {
    TARGETS
        .iter()
        .find(|target| target.name == name)
        .expect("a target by that name")
}

fn folder(target: &Target) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("seeds")
        .join(target.name)
}

fn read_seeds(target: &Target) -> Vec<Vec<u8>> {
    let entries = fs::read_dir(folder(target)).expect("every target has a folder of seeds");
    let mut paths: Vec<_> = entries
        .map(|entry| entry.expect("the folder can be read").path())
        .collect();
    paths.sort();
    paths
        .iter()
        .map(|path| fs::read(path).expect("a seed can be read"))
        .collect()
}

/// A line of what the system says of this process, in bytes.
fn memory_bytes(name: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("the system tells");
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kibibytes = line.and_then(|line| line.trim().strip_suffix(" kB"));
    kibibytes.expect("it is told").parse::<u64>().expect("a number") << 10
}

/// The most memory that `run` has taken at once, beyond what there was before.
fn peak_bytes(run: impl FnOnce()) -> u64 {
    // The peak is forgotten.
    fs::write("/proc/self/clear_refs", "5").expect("the system allows it");
    let before = memory_bytes("VmRSS:");
    run();
    memory_bytes("VmHWM:").saturating_sub(before)
}

/// Runs a target on one input; a panic goes on after the input was shown.
fn attempt(target: &Target, input: &[u8]) {
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let peak = peak_bytes(|| (target.run)(input));
        let allowed = target.memory_bytes_max;
        assert!(
            peak <= allowed,
            "{peak} bytes of memory, where {allowed} are allowed"
        );
    }));
    if let Err(cause) = outcome {
        let hex: String = input.iter().map(|byte| format!("{byte:02x}")).collect();
        eprintln!("{} breaks on: {hex}", target.name);
        resume_unwind(cause);
    }
}

fn run_shortly(name: &str) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let target = target(name);
    let seeds = read_seeds(target);
    let bytes: usize = seeds.iter().map(Vec::len).sum();
    assert!(bytes <= SEED_BYTES_MAX, "the seeds of {name} take {bytes} bytes");
    seeds.iter().for_each(|seed| attempt(target, seed));
    let rounds = target.short_rounds * seeds.len();
    let mut vary = Vary::new(1, seeds);
    (0..rounds).for_each(|_| attempt(target, &vary.next_input()));
    eprintln!("{name}: {rounds} inputs");
}

#[test]
fn frames() {
    run_shortly("frames");
}

#[test]
fn requests() {
    run_shortly("requests");
}

#[test]
fn batches() {
    run_shortly("batches");
}

#[test]
fn recovery() {
    run_shortly("recovery");
}

#[test]
fn histories() {
    run_shortly("histories");
}

#[test]
fn metadata() {
    run_shortly("metadata");
}

#[test]
fn group_log() {
    run_shortly("group_log");
}

#[test]
fn peers() {
    run_shortly("peers");
}

#[test]
fn every_target_has_a_binary_and_a_test_here() {
    let manifest =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml")).expect("it was built");
    let here = include_str!("short_run.rs");
    for target in TARGETS {
        assert!(
            manifest.contains(&format!("name = \"{}\"", target.name)),
            "{} has no binary",
            target.name
        );
        assert!(
            here.contains(&format!("run_shortly(\"{}\")", target.name)),
            "{} has no test",
            target.name
        );
    }
    assert_eq!(
        manifest.matches("[[bin]]").count(),
        TARGETS.len(),
        "a binary is no target"
    );
}

/// Writes the seeds anew: `cargo test --manifest-path fuzz/Cargo.toml -- --ignored write_seeds`. Findings that were added by
/// hand stay.
#[test]
#[ignore = "writes into the source tree"]
fn write_seeds() {
    for target in TARGETS {
        fs::create_dir_all(folder(target)).expect("the folder can be made");
        for (index, seed) in (target.seeds)().iter().enumerate() {
            fs::write(folder(target).join(format!("made-{index:03}")), seed).expect("a seed can be written");
        }
    }
}
