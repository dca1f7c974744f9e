//! Reports of one comparison: Markdown, one self-contained HTML page, PNG plots. All come of `Results` alone.
//!
//! ```text
//! results -> overview, setting, experiments -> document -> markdown, html
//!                                  plots (scene) -> svg in the page, png beside it
//! ```

mod caveats;
mod cells;
mod columns;
pub(crate) mod comparisons;
mod contrary;
mod document;
mod experiments;
mod guesses;
mod html;
mod markdown;
pub(crate) mod measured;
mod overview;
mod plain_words;
mod plots;
mod quiet;
mod requests;
mod score;
mod setting;
mod speed_ups;
mod tables;

use std::fs;
use std::path::Path;

use anyhow::Context;

use super::results::{Results, SCHEMA};
use document::{Block, Document};

pub use measured::Verdict;

/// What is written, besides the plots.
const FILES: [&str; 2] = ["report.md", "report.html"];

/// The folder of the plots.
const PLOTS: &str = "plots";

/// Writes `report.md`, `report.html` and `plots/*.png` into a folder. Everything is written aside first and then takes the
/// place of an earlier report; if anything fails before that, the earlier one stays as it was.
///
/// # Errors
/// If the results have another schema, a plot cannot be drawn, or the folder cannot be written.
pub fn write_all(results: &Results, out: &Path) -> anyhow::Result<()> {
    anyhow::ensure!(
        results.schema == SCHEMA,
        "the results have schema {}, and this program reports on {SCHEMA}: measure again, or use the program that wrote them",
        results.schema
    );
    let document = compose(results)?;
    fs::create_dir_all(out).with_context(|| format!("making {}", out.display()))?;
    let aside = out.join(format!(".report-{}", std::process::id()));
    let written = write_aside(&document, &aside).and_then(|()| put_in_place(&aside, out));
    // What is left of it counts for nothing, whether it failed or not.
    let _ = fs::remove_dir_all(&aside);
    written
}

/// The first page alone, as Markdown.
#[must_use]
pub fn first_page(results: &Results) -> String {
    let mut document = titled(results);
    overview::push(&mut document, results);
    markdown::render(&document)
}

fn titled(results: &Results) -> Document {
    Document {
        title: format!("System comparison: suite {}", results.suite),
        ..Document::default()
    }
}

fn compose(results: &Results) -> anyhow::Result<Document> {
    let mut document = titled(results);
    overview::push(&mut document, results);
    setting::push(&mut document, results);
    experiments::push(&mut document, results)?;
    Ok(document)
}

fn write_aside(document: &Document, aside: &Path) -> anyhow::Result<()> {
    let _ = fs::remove_dir_all(aside);
    let plots = aside.join(PLOTS);
    fs::create_dir(aside)
        .and_then(|()| fs::create_dir(&plots))
        .with_context(|| format!("making {}", plots.display()))?;
    for block in &document.blocks {
        if let Block::Plot(plot) = block {
            write(&plots.join(&plot.file), &plot.png)?;
        }
    }
    let [markdown, html] = FILES.map(|file| aside.join(file));
    write(&markdown, markdown::render(document).as_bytes())?;
    write(&html, html::render(document).as_bytes())
}

fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    fs::write(path, bytes).with_context(|| format!("writing {}", path.display()))
}

/// Renames what is complete. A folder cannot be renamed onto one that has files, so the old plots go aside first.
fn put_in_place(aside: &Path, out: &Path) -> anyhow::Result<()> {
    let (old, plots) = (aside.join("old"), out.join(PLOTS));
    if plots.exists() {
        fs::rename(&plots, &old).with_context(|| format!("moving {} aside", plots.display()))?;
    }
    if let Err(error) = fs::rename(aside.join(PLOTS), &plots) {
        // Nothing else has moved yet: with the old plots back, the earlier report is whole.
        let _ = fs::rename(&old, &plots);
        return Err(error).with_context(|| format!("putting {} in place", plots.display()));
    }
    for name in FILES {
        let place = out.join(name);
        fs::rename(aside.join(name), &place)
            .with_context(|| format!("putting {} in place", place.display()))?;
    }
    Ok(())
}
