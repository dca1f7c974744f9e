//! Reports of one comparison: Markdown with its plots, and on demand one HTML page that needs nothing else. All come of `Results`
//! alone: sentences stand in `report.md.jinja`, and code computes only what its tables hold.
//!
//! ```text
//! results -> comparisons, tables, plots, facts -> report.md.jinja -> report.md -> report.html
//! ```

mod cells;
mod columns;
pub(crate) mod comparisons;
mod contrary;
mod facts;
mod guesses;
mod markdown;
pub(crate) mod measured;
mod page;
mod plots;
mod requests;
mod score;
mod speed_ups;
mod tables;

use std::fs;
use std::path::Path;

use anyhow::Context;
use minijinja::value::merge_maps;
use minijinja::{Environment, Value, context};

use super::results::{Experiment, Results, SCHEMA};
use bench::number;
use plots::Drawn;
use tables::Short;

pub use measured::Verdict;

const TEMPLATE: &str = include_str!("report/report.md.jinja");

const PLOTS: &str = "plots";

/// In which forms a report is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// As Markdown.
    Markdown,
    /// And as an HTML page.
    Page,
}

/// Writes `report.md` and `plots/*.svg` into a folder, and `report.html` if it is asked for. Everything is written aside first and
/// then takes the place of an earlier report; if anything fails before that, the earlier one stays as it was.
///
/// # Errors
/// If the results have another schema, or the folder cannot be written.
pub fn write_all(results: &Results, out: &Path, form: Form) -> anyhow::Result<()> {
    anyhow::ensure!(
        results.schema == SCHEMA,
        "the results have schema {}, and this program reports on {SCHEMA}: measure again, or use the program that wrote them",
        results.schema
    );
    let plots = draw(results);
    let markdown = render(results, &plots, false)?;
    let page = (form == Form::Page).then(|| page::of(&markdown, &plots.iter().flatten().collect::<Vec<_>>()));
    fs::create_dir_all(out).with_context(|| format!("making {}", out.display()))?;
    let aside = out.join(format!(".report-{}", std::process::id()));
    let written =
        write_aside(&markdown, page.as_deref(), &plots, &aside).and_then(|()| put_in_place(&aside, out));
    // What is left of it counts for nothing, whether it failed or not.
    let _ = fs::remove_dir_all(&aside);
    written
}

/// The report as Markdown.
///
/// # Errors
/// If the template cannot be filled, which is a bug in it.
pub fn markdown(results: &Results) -> anyhow::Result<String> {
    render(results, &draw(results), false)
}

/// The first page alone, as Markdown.
///
/// # Errors
/// As for the whole.
pub fn first_page(results: &Results) -> anyhow::Result<String> {
    render(results, &draw(results), true)
}

/// The plot of each experiment. The number keeps two names apart that read alike as a file's name.
fn draw(results: &Results) -> Vec<Option<Drawn>> {
    let experiments = results.experiments.iter().enumerate();
    let name = |index: usize, experiment: &Experiment| {
        format!("{:02}-{}", index + 1, markdown::slug(&experiment.name))
    };
    experiments
        .map(|(index, experiment)| plots::draw(results, experiment, &name(index, experiment)))
        .collect()
}

fn render(results: &Results, plots: &[Option<Drawn>], is_first_page: bool) -> anyhow::Result<String> {
    let found = comparisons::all(results);
    let shorts = results.experiments.iter();
    let shorts: Vec<Short> = shorts
        .filter_map(|experiment| Short::of(results, experiment, &found))
        .collect();
    let tables = shorts
        .iter()
        .map(|short| context! { title => short.title(), table => short.table() });
    let experiments = results
        .experiments
        .iter()
        .map(|experiment| facts::of_experiment(results, experiment));
    let mut environment = Environment::new();
    environment.set_trim_blocks(true);
    environment.set_lstrip_blocks(true);
    environment.add_filter("md", |text: String| markdown::escape(&text));
    environment.add_filter("code", |text: String| markdown::code(&text));
    environment.add_filter("fenced", |text: String| markdown::fenced(&text));
    environment.add_filter("shortened", |text: String| facts::shortened(&text));
    environment.add_filter("count", number::count);
    environment.add_filter("load", |load: f64| format!("{load:.2}"));
    environment.add_filter("plain", |figure: f64| match figure.is_finite() {
        true => number::plain(figure),
        false => "–".to_owned(),
    });
    let page = context! {
        is_first_page,
        overview => tables::overview(&shorts),
        plots => plots.iter().flatten().collect::<Vec<_>>(),
        tables => tables.collect::<Vec<Value>>(),
        experiments => experiments.collect::<Vec<Value>>(),
    };
    let page = merge_maps([page, score::of(results, &found), facts::of(results)]);
    let mut text = environment
        .render_str(TEMPLATE, page)
        .context("filling the report's template")?;
    while text.contains("\n\n\n") {
        text = text.replace("\n\n\n", "\n\n");
    }
    Ok(text.trim_end().to_owned() + "\n")
}

fn write_aside(
    markdown: &str,
    page: Option<&str>,
    plots: &[Option<Drawn>],
    aside: &Path,
) -> anyhow::Result<()> {
    let _ = fs::remove_dir_all(aside);
    let folder = aside.join(PLOTS);
    fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    for plot in plots.iter().flatten() {
        write(&folder.join(&plot.file), &plot.svg)?;
    }
    if let Some(page) = page {
        write(&aside.join("report.html"), page)?;
    }
    write(&aside.join("report.md"), markdown)
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    fs::write(path, text).with_context(|| format!("writing {}", path.display()))
}

/// Renames what is complete. A folder cannot be renamed onto one that has files, so the old plots go aside first. A page of an earlier
/// report would not be of this one: it goes.
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
    let _ = fs::remove_file(out.join("report.html"));
    for name in ["report.md", "report.html"] {
        let (from, place) = (aside.join(name), out.join(name));
        if from.exists() {
            fs::rename(from, &place).with_context(|| format!("putting {} in place", place.display()))?;
        }
    }
    Ok(())
}
