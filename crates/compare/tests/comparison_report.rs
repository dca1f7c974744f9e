//! Reports of made-up comparisons: golden texts, pages that are well formed, names that mean harm, and odd ends.

mod comparison;

use std::fs;
use std::path::Path;

use compare::read_results;
use compare::report::{self, Form, markdown};
use compare::results::{Plot, Results, Survives};

fn write_all(results: &Results, out: &Path) -> anyhow::Result<()> {
    report::write_all(results, out, Form::Page)
}

fn first_page(results: &Results) -> String {
    report::first_page(results).expect("the template is sound")
}

/// What is written for some results.
struct Report {
    markdown: String,
    html: String,
    plots: Vec<String>,
}

fn report(results: &Results) -> Report {
    let directory = tempfile::tempdir().expect("a temporary directory");
    write_all(results, directory.path()).expect("a report");
    let read = |name: &str| fs::read_to_string(directory.path().join(name)).expect("it was written");
    let mut plots: Vec<String> = fs::read_dir(directory.path().join("plots"))
        .expect("a folder of plots")
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    plots.sort();
    let report = Report {
        markdown: read("report.md"),
        html: read("report.html"),
        plots,
    };
    assert_eq!(
        fs::read_dir(directory.path()).expect("readable").count(),
        3,
        "nothing is left aside"
    );
    check_page(&report.html);
    for text in [&report.markdown, &report.html] {
        let is_odd = |word: &str| ["NaN", "inf", "-inf", "inf×"].contains(&word);
        let words = text.split(|letter: char| !letter.is_alphanumeric() && letter != '×' && letter != '-');
        assert!(!words.into_iter().any(is_odd), "figures are finite");
    }
    report
}

fn check_golden(name: &str, text: &str) {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden/comparison")
        .join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&golden, text).expect("the source tree can be written");
    }
    let expected = fs::read_to_string(golden).expect("stands beside this test");
    assert_eq!(text, expected, "UPDATE_GOLDEN=1 takes the new text");
}

/// How many lines of text a page may have that is read in a minute; plots are looked at.
const LINES_MAX: usize = 45;

/// Each tag is closed in turn, each anchor is there once, and nothing comes from elsewhere.
fn check_page(html: &str) {
    const VOID: [&str; 3] = ["meta", "!DOCTYPE", "br"];
    let mut open: Vec<&str> = Vec::new();
    for part in html.split('<').skip(1) {
        let (tag, after) = part.split_once('>').expect("each tag ends");
        assert!(
            !after.contains('>') || open.contains(&"style"),
            "a loose > after <{tag}>"
        );
        let name = tag
            .trim_start_matches('/')
            .split([' ', '/', '\n'])
            .next()
            .expect("a name");
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name), "in <{tag}>");
        } else if !tag.ends_with('/') && !VOID.contains(&name) {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "still open: {open:?}");
    let targets = html
        .split("href=\"")
        .skip(1)
        .map(|rest| rest.split('"').next().expect("it ends"));
    for target in targets {
        let anchor = target.strip_prefix('#').expect("links stay within the page");
        assert_eq!(html.matches(&format!("id=\"{anchor}\"")).count(), 1, "{anchor}");
    }
    for elsewhere in ["<script", "<link", "src=", "url(", "@import"] {
        assert!(!html.contains(elsewhere), "{elsewhere} needs something else");
    }
}

#[test]
fn a_comparison_is_reported_as_the_golden_files_say() {
    let results = comparison::results();
    let report = report(&results);
    check_golden("report.md", &report.markdown);
    check_golden("first_page.md", &first_page(&results));
    assert!(
        report.markdown.starts_with(first_page(&results).trim_end()),
        "the first page comes first"
    );
    assert_eq!(
        report.plots,
        ["01-appends.svg", "03-figure-2.svg", "04-fixed-rate.svg"]
    );
    assert_eq!(report.html.matches("<svg ").count(), 3);
    for plot in &report.plots {
        assert_eq!(
            report.markdown.matches(&format!("](plots/{plot})")).count(),
            1,
            "{plot}"
        );
    }
    let places = [
        "| Appends one by one · p50, µs |",
        "## Where Strand ◆ loses",
        "## The plots",
        "| 100 B |",
        "## What the figures cannot say",
        "## The experiments",
    ]
    .map(|title| report.markdown.find(title).expect("it is there"));
    assert!(
        places.is_sorted(),
        "all in short, what is lost, plots, then all else: {places:?}"
    );
}

/// Markdown without what is code and means itself: fenced blocks, and the lines that hold settings.
fn prose(markdown: &str) -> String {
    let mut fence: Option<&str> = None;
    let mut prose = Vec::new();
    for line in markdown.lines() {
        let ticks = &line[..line.len() - line.trim_start_matches('`').len()];
        match fence {
            Some(open) if line == open => fence = None,
            Some(_) => {}
            None if ticks.len() > 2 => fence = Some(ticks),
            None if line.starts_with("- **Settings:**") || line.starts_with("- **Client:**") => {}
            None => prose.push(line),
        }
    }
    prose.join("\n")
}

#[test]
fn names_that_mean_harm_are_only_words() {
    const HOSTILE: &str = "</td><script>alert(\"1\")</script>&amp;' | [x](javascript:1) `` **\n# \u{1}";
    let mut results = comparison::results();
    results.suite = HOSTILE.to_owned();
    results.command = format!("```\n{HOSTILE}");
    for system in &mut results.systems {
        system.title = HOSTILE.to_owned();
        system.durability = HOSTILE.to_owned();
        system.settings.insert(HOSTILE.to_owned(), HOSTILE.to_owned());
    }
    for experiment in &mut results.experiments {
        experiment.name = "../../escape".to_owned();
        experiment.title = HOSTILE.to_owned();
        experiment.plot.get_or_insert(Plot::Percentiles);
        for row in &mut experiment.rows {
            row.name = HOSTILE.to_owned();
            row.cells
                .iter_mut()
                .for_each(|cell| cell.failures.push(HOSTILE.to_owned()));
        }
    }
    let report = report(&results);
    assert!(!report.html.contains('\u{1}') && !report.html.contains("&amp;amp;amp;"));
    assert!(
        report.plots.iter().all(|plot| plot.ends_with("-escape.svg")),
        "{:?}",
        report.plots
    );
    let prose = prose(&report.markdown);
    assert!(prose.matches("\\<script").count() > 20, "names are in the prose");
    assert_eq!(
        prose.matches("<script").count(),
        prose.matches("\\<script").count(),
        "{prose}"
    );
}

#[test]
fn results_with_next_to_nothing_are_reported_too() {
    let mut results = comparison::results();
    for cell in results
        .experiments
        .iter_mut()
        .flat_map(|e| &mut e.rows)
        .flat_map(|row| &mut row.cells)
    {
        cell.runs.clear();
        cell.percentiles.clear();
        cell.failures.clear();
    }
    let without_runs = report(&results);
    assert!(without_runs.markdown.contains("not run") && without_runs.plots.is_empty());
    assert!(
        !without_runs.markdown.contains("## The score"),
        "nothing is scored"
    );
    assert!(
        without_runs
            .markdown
            .contains("Nothing of it could be set beside a figure of another system.")
    );
    results.experiments.clear();
    results.floors.clear();
    report(&results);
    results.systems.clear();
    assert!(report(&results).markdown.contains("No system was asked"));
    results.schema += 1;
    let refused = write_all(&results, Path::new("nowhere")).expect_err("another schema");
    assert!(refused.to_string().contains("schema 3"), "{refused}");
}

#[test]
fn what_is_no_number_is_no_figure() {
    let mut results = comparison::results();
    for (index, run) in results
        .experiments
        .iter_mut()
        .flat_map(|e| &mut e.rows)
        .flat_map(|r| &mut r.cells)
        .flat_map(|c| &mut c.runs)
        .enumerate()
    {
        let odd = [f64::NAN, f64::INFINITY, 0.0, -1.0][index % 4];
        run.values_mut().for_each(|value| *value = odd);
    }
    results.floors[0].insert("odd".to_owned(), f64::NAN);
    report(&results);
}

#[test]
fn within_the_spread_nobody_wins() {
    let mut results = comparison::results();
    results.systems.truncate(4);
    results
        .systems
        .retain(|system| system.survives == Survives::PowerCut);
    results.experiments.truncate(1);
    let cells = vec![
        comparison::cell("strand", 100.0, 1e5),
        comparison::cell("wharf-flush", 103.0, 1e5),
    ];
    results.experiments[0].rows[0].cells = cells;
    results.experiments[0].rows.truncate(1);
    let page = first_page(&results);
    assert!(
        page.contains("**0** of 3 figures beside systems that promise the same"),
        "{page}"
    );
    let whole = report(&results).markdown;
    assert!(
        whole.contains("| Strand ◆ against Wharf, flush each ◆ | 0 | 1 | 0 |"),
        "{whole}"
    );
}

#[test]
fn a_report_takes_the_place_of_an_earlier_one() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mut results = comparison::results();
    write_all(&results, directory.path()).expect("a report");
    results.experiments.truncate(1);
    write_all(&results, directory.path()).expect("another report");
    let plots = fs::read_dir(directory.path().join("plots")).expect("a folder");
    assert_eq!(plots.count(), 1, "no plot of the earlier one is left");
}

#[test]
fn who_promises_less_is_never_set_beside_who_promises_more() {
    let mut results = comparison::results();
    // Its memory goes with the process; what Wharf acknowledged does not.
    results.systems[1].survives = Survives::Nothing;
    let page = report(&results).markdown;
    let score = page.split_once("## The score").map_or("", |(_, rest)| rest);
    let (score, rest) = score.split_once("\nOf all rows").expect("who is best how often");
    assert!(
        score.contains(" against Wharf, flush each ◆ |") && !score.contains("memory"),
        "{score}"
    );
    let bests = rest.split_once("## ").map_or("", |(table, _)| table);
    assert!(
        bests.contains("| Strand ◆ |") && !bests.contains("memory"),
        "{bests}"
    );
    for name in ["Strand, memory", "Wharf, default ○"] {
        let mut lines = page
            .lines()
            .filter(|line| line.starts_with(&format!("| {name} | `")));
        assert!(
            lines.any(|line| line.contains("nobody else here promises the same")),
            "{page}"
        );
    }
    for line in page.lines().filter(|line| line.starts_with("| Strand, memory |")) {
        assert!(!line.contains("**"), "nothing of it is bold: {line}");
    }
}

#[test]
fn what_was_asked_is_told_and_whether_it_was_asked_more_often() {
    let told = |results: &Results| {
        let report = report(results);
        let told = report.markdown.lines().find(|line| line.starts_with("That is: "));
        told.expect("how much was asked").to_owned()
    };
    let mut results = comparison::results();
    let told_first = "That is: timed runs of 1.0 s; at least 20.0 s of load after each start; 3 repetitions, up to 7 where figures vary much; clients: all; \
         0.05 of the numbers of records that publications name.";
    assert_eq!(told(&results), told_first);
    let asked = results.asked.as_mut().expect("it is there");
    (asked.repetitions_max, asked.clients) = (3, "best".to_owned());
    assert!(told(&results).contains("; 3 repetitions; clients: best;"));
    let more = "and of more where figures varied much";
    assert!(!first_page(&results).contains(more));
    let cell = &mut results.experiments[0].rows[0].cells[0];
    cell.runs.extend_from_within(..1);
    assert!(first_page(&results).contains(more));
}

#[test]
fn the_way_to_consumers_is_drawn_where_it_was_measured() {
    let mut results = comparison::results();
    let experiment = &mut results.experiments[3];
    experiment.plot = Some(Plot::DeliveryPercentiles);
    let without = report(&results);
    assert!(!without.plots.contains(&"04-fixed-rate.svg".to_owned()));
    for cell in results.experiments[3]
        .rows
        .iter_mut()
        .flat_map(|row| &mut row.cells)
    {
        cell.delivery_percentiles = std::mem::take(&mut cell.percentiles);
    }
    let with = report(&results);
    assert!(with.plots.contains(&"04-fixed-rate.svg".to_owned()));
    assert!(with.html.contains("end to end, µs") && !without.html.contains("end to end, µs"));
    assert!(
        with.markdown
            .contains("At a fixed rate: percentiles of the time until the consumer has a record.")
    );
}

#[test]
fn a_worse_median_is_told_even_if_the_ranges_meet() {
    let page = report(&comparison::results()).markdown;
    let (_, undecided) = page.split_once("may be worse").expect("a heading");
    let (undecided, _) = undecided.split_once("\n## ").expect("another heading");
    assert!(
        undecided.contains("mean, µs") && undecided.contains("90 MB"),
        "{undecided}"
    );
}

#[test]
fn results_of_the_first_schema_are_still_read() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("results.json");
    let mut results = comparison::results();
    // The made-up curves end in infinity, which JSON has not.
    let rows = results
        .experiments
        .iter_mut()
        .flat_map(|experiment| &mut experiment.rows);
    rows.flat_map(|row| &mut row.cells)
        .for_each(|cell| cell.percentiles.clear());
    results.schema = 1;
    let mut value = serde_json::to_value(&results).expect("plain data");
    // As it was written then.
    value.as_object_mut().expect("an object").remove("asked");
    for system in value["systems"].as_array_mut().expect("a list") {
        system.as_object_mut().expect("an object").remove("acknowledges");
    }
    let cell = &mut value["experiments"][1]["rows"][2]["cells"][1];
    cell.as_object_mut().expect("an object").remove("not_asked");
    cell["failures"] = serde_json::json!(["not asked: meant for records of up to 1 MB"]);
    fs::write(&path, value.to_string()).expect("there is room");
    let read = read_results(&path).expect("it is known");
    // Numbers in decimal may differ in their last bit.
    assert_eq!(
        read.experiments[1].rows[2].cells[1],
        results.experiments[1].rows[2].cells[1]
    );
    assert_eq!(read.experiments.len(), results.experiments.len());
    assert!(read.asked.is_none() && !report(&read).markdown.contains("\nThat is: "));
    assert!(write_all(&read, directory.path()).is_ok());
    value["schema"] = serde_json::json!(3);
    fs::write(&path, value.to_string()).expect("there is room");
    let refused = read_results(&path).expect_err("of a later program");
    assert!(refused.to_string().contains("reads 1 to 2"), "{refused}");
}

#[test]
fn the_documents_are_what_their_data_gives() {
    let documents = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/comparison");
    for name in ["field", "papers", "three-nodes"] {
        let folder = documents.join(name);
        let results = read_results(&folder.join("results.json")).expect("the data of a comparison");
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            report::write_all(&results, &folder, Form::Markdown).expect("the source tree can be written");
        }
        let kept = fs::read_to_string(folder.join("report.md")).expect("stands beside the data");
        let expected = markdown(&results).expect("the template is sound");
        let page = first_page(&results);
        let lines = page
            .lines()
            .filter(|line| !line.is_empty() && !line.starts_with("!["));
        assert!(lines.count() <= LINES_MAX, "it is not read in a minute: {page}");
        assert!(
            kept == expected,
            "{name}/report.md is not what its data gives: UPDATE_GOLDEN=1 takes the new text"
        );
        assert!(
            kept.contains("## The score") && !kept.contains("It failed: not asked"),
            "{kept}"
        );
        assert!(!folder.join("report.html").exists(), "pages are made on demand");
    }
}
