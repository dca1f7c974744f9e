//! A driver of the comparison whose system is in its own process: one log, stored in one of three ways.
//!
//! `layouts DIR layout=NAME` reads commands and writes events as `bench/peers/README.md` says. `layout.rs` is what a way to
//! store a log must be able to do; the three are `key_value.rs`, `bytestream.rs` and `journal.rs`. Everything else is the
//! same for all: that is what makes them comparable.

mod bytestream;
mod committer;
mod consume;
mod directory;
mod follow;
mod journal;
mod key_value;
mod layout;
mod log;
mod lsm;
mod produce;
mod system;

use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use layout::LayoutName;
use system::Layouts;

fn main() -> Result<()> {
    let (directory, layout) = arguments(std::env::args().skip(1))?;
    let mut system = Layouts::open(directory, layout)?;
    bench::contract::driver::serve(&mut system, std::io::stdin().lock(), &mut std::io::stdout())
}

/// What the command line says: a directory, then `layout=NAME`.
fn arguments(mut arguments: impl Iterator<Item = String>) -> Result<(PathBuf, LayoutName)> {
    const USAGE: &str = "give a directory and layout=key-value, layout=bytestream or layout=journal";
    let directory = arguments.next().context(USAGE)?;
    let setting = arguments.next().context(USAGE)?;
    let name = setting
        .strip_prefix("layout=")
        .with_context(|| format!("{setting} is no setting: {USAGE}"))?;
    if let Some(more) = arguments.next() {
        bail!("{more} is one argument too many: {USAGE}");
    }
    Ok((PathBuf::from(directory), name.parse()?))
}

#[cfg(test)]
mod tests;
