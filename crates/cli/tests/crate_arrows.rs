//! The shape of the source tree, checked: which crate may use which, where `unsafe` may stand, how long a
//! file may be, that each opens by saying what it is, and that no choice between tasks is left to chance.
//!
//! The table of arrows is the design's. Widen it only with the design: an arrow added here to make a build
//! pass is the thing this test exists to stop.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The longest a hand-written source file may be, in lines. Tests and generated code may be longer.
const FILE_LINES_MAX: usize = 800;

/// Each crate with the crates of this workspace that it may name in its manifest. Beyond the design's: what the tools may
/// use (decision 0008), the crate `ropewalk` with its arrows (decision 0016), and `planted` (decision 0021).
const ARROWS: &[(&str, &[&str])] = &[
    ("record", &[]),
    ("platform", &[]),
    ("planted", &[]),
    ("storage", &["record", "platform", "planted"]),
    ("protocol", &["record", "planted"]),
    ("ropewalk", &["record", "platform", "storage", "protocol"]),
    ("kafka-wire", &["record"]),
    ("metadata-group", &["record", "platform", "planted"]),
    ("shard", &["record", "platform", "planted", "storage", "protocol"]),
    (
        "server",
        &[
            "record",
            "platform",
            "planted",
            "storage",
            "protocol",
            "shard",
            "kafka-wire",
            "metadata-group",
            "query",
        ],
    ),
    ("query", &["storage", "record"]),
    ("client", &["kafka-wire", "record"]),
    ("objects", &["client"]),
    (
        "simulator",
        &[
            "server",
            "record",
            "platform",
            "planted",
            "storage",
            "protocol",
            "shard",
            "kafka-wire",
            "metadata-group",
            "query",
        ],
    ),
    ("bench", &["client", "platform"]),
    ("compare", &["bench", "client", "platform"]),
    (
        "cli",
        &["server", "client", "query", "bench", "platform", "storage"],
    ),
];

/// Crates that tests, and only tests, may use besides: they drive a server, and the library, as their users do.
const TESTS_MAY_ALSO_USE: &[&str] = &["client", "ropewalk"];

#[test]
fn every_arrow_between_crates_is_in_the_design() {
    let manifests = manifests();
    let allowed: BTreeMap<&str, &[&str]> = ARROWS.iter().copied().collect();
    let mut wrong = Vec::new();
    for (name, manifest) in &manifests {
        let Some(may_use) = allowed.get(name.as_str()) else {
            wrong.push(format!("{name}: not a crate of the design"));
            continue;
        };
        for (target, only_in_tests) in workspace_dependencies(manifest, &manifests) {
            let for_tests = only_in_tests && TESTS_MAY_ALSO_USE.contains(&target.as_str());
            if !may_use.contains(&target.as_str()) && !for_tests {
                wrong.push(format!("{name} -> {target}"));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "arrows that the design does not have:\n{}",
        wrong.join("\n")
    );
}

#[test]
fn every_folder_is_named_like_its_crate_and_takes_the_workspace_lints() {
    let mut wrong = Vec::new();
    for (folder, manifest) in manifests() {
        let name = manifest["package"]["name"]
            .as_str()
            .expect("cargo refuses a package without a name");
        if name != folder {
            wrong.push(format!("crates/{folder} holds the crate {name}"));
        }
        let lints = manifest
            .get("lints")
            .and_then(|lints| lints.get("workspace")?.as_bool());
        if lints != Some(true) {
            wrong.push(format!("crates/{folder} does not say `[lints] workspace = true`"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn unsafe_stands_in_platform_only() {
    let mut wrong = Vec::new();
    for file in source_files().iter().filter(|file| file.crate_name != "platform") {
        for (index, line) in file.text.lines().enumerate() {
            if mentions_unsafe(line) {
                wrong.push(format!("{}:{}: {}", file.path, index + 1, line.trim()));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "unsafe outside crates/platform:\n{}",
        wrong.join("\n")
    );
}

/// Cargo turns features of dev-dependencies on for tests alone: nothing that `cargo build` makes can have a planted bug.
#[test]
fn only_tests_can_plant_bugs() {
    let all = manifests();
    let mut wrong = Vec::new();
    let mut arming = Vec::new();
    for (name, manifest) in &all {
        for (kind, entries) in manifest {
            let arms = entries.to_string().contains("armed");
            match kind.as_str() {
                "dev-dependencies" if arms => arming.push(name.as_str()),
                "features" if arms && name == "planted" => {
                    let default = entries.get("default");
                    assert_eq!(default, None, "nobody has the feature who does not name it");
                }
                _ if arms => wrong.push(format!("{name}: [{kind}]")),
                _ => {}
            }
        }
    }
    assert_eq!(wrong, [""; 0], "named outside of dev-dependencies");
    assert_eq!(
        arming,
        ["metadata-group", "protocol", "shard", "simulator", "storage"]
    );
}

/// Without `biased`, tokio polls the branches in an order of its own random numbers: a seed would not repeat a run. Clippy does not
/// see into macros.
#[test]
fn a_choice_is_made_in_order() {
    let mut wrong = Vec::new();
    for file in &source_files() {
        for (index, line) in unordered_choices(&file.text) {
            wrong.push(format!("{}:{}: {}", file.path, index + 1, line.trim()));
        }
    }
    assert!(
        wrong.is_empty(),
        "`select!` without `biased;` as its first words:\n{}",
        wrong.join("\n")
    );
}

#[test]
fn an_unordered_choice_is_seen() {
    let unordered = [
        "select! {\n    a = b => {}\n}",
        "let x = tokio::select! { a = b => {} };",
        "select!(a = b => {})",
        "select! { // biased;\n a = b => {}\n}",
    ];
    let ordered = [
        "tokio::select! {\n    biased;\n    a = b => {}\n}",
        "select! { biased; a = b => {} }",
        "select! {\n    // The stop comes first.\n    biased;\n}",
        "// `select!` in words",
    ];
    assert!(unordered.iter().all(|text| unordered_choices(text).len() == 1));
    assert!(ordered.iter().all(|text| unordered_choices(text).is_empty()));
}

#[test]
fn every_file_opens_with_what_it_is() {
    let wrong: Vec<_> = source_files()
        .into_iter()
        .filter(|f| !f.text.starts_with("//!"))
        .map(|f| f.path)
        .collect();
    assert!(
        wrong.is_empty(),
        "files whose first line is not a `//!`:\n{}",
        wrong.join("\n")
    );
}

#[test]
fn no_file_holds_a_second_idea() {
    let wrong: Vec<_> = source_files()
        .into_iter()
        .filter(|f| !f.may_be_long() && f.text.lines().count() > FILE_LINES_MAX)
        .map(|f| format!("{}: {} lines", f.path, f.text.lines().count()))
        .collect();
    assert!(
        wrong.is_empty(),
        "files over {FILE_LINES_MAX} lines:\n{}",
        wrong.join("\n")
    );
}

#[test]
fn unsafe_is_seen_in_code_and_not_in_comments() {
    let seen = [
        "unsafe { x }",
        "    unsafe fn f() {}",
        "#![allow(unsafe_code)]",
        "let x = unsafe{y};",
    ];
    let passed_over = [
        "// unsafe here",
        "/// # unsafe",
        "let unsafely = 1;",
        "#![forbid(unsafe_code)]",
    ];
    assert!(seen.iter().all(|line| mentions_unsafe(line)));
    assert!(!passed_over.iter().any(|line| mentions_unsafe(line)));
}

/// One Rust file of a crate, with its path relative to the workspace.
struct SourceFile {
    crate_name: String,
    path: String,
    text: String,
}

impl SourceFile {
    fn may_be_long(&self) -> bool {
        let parts: Vec<_> = self.path.split('/').collect();
        parts
            .iter()
            .any(|part| ["generated", "tests", "tests.rs", "generated.rs"].contains(part))
    }
}

fn crates_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("a crate's folder is in crates/")
        .to_owned()
}

/// Every crate's manifest, by the name of its folder.
fn manifests() -> BTreeMap<String, toml::Table> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(crates_folder()).expect("crates/ is readable") {
        let folder = entry.expect("crates/ is readable").path();
        let Ok(text) = fs::read_to_string(folder.join("Cargo.toml")) else {
            continue;
        };
        let name = folder
            .file_name()
            .expect("an entry has a name")
            .to_string_lossy()
            .into_owned();
        found.insert(name, text.parse().expect("cargo has parsed this manifest before"));
    }
    assert!(
        found.contains_key("cli"),
        "this test's own crate was not found: it looks in the wrong place"
    );
    found
}

/// The workspace's crates that a manifest names, each with whether only its tests use it.
fn workspace_dependencies(
    manifest: &toml::Table,
    workspace: &BTreeMap<String, toml::Table>,
) -> Vec<(String, bool)> {
    let mut tables = vec![manifest];
    if let Some(targets) = manifest.get("target").and_then(toml::Value::as_table) {
        tables.extend(targets.values().filter_map(toml::Value::as_table));
    }
    let kinds = [
        ("dependencies", false),
        ("build-dependencies", false),
        ("dev-dependencies", true),
    ];
    let mut found = Vec::new();
    for table in tables {
        for (kind, only_in_tests) in kinds {
            let Some(entries) = table.get(kind).and_then(toml::Value::as_table) else {
                continue;
            };
            for (key, value) in entries {
                let name = value.get("package").and_then(toml::Value::as_str).unwrap_or(key);
                if workspace.contains_key(name) {
                    found.push((name.to_owned(), only_in_tests));
                }
            }
        }
    }
    found
}

fn source_files() -> Vec<SourceFile> {
    let root = crates_folder();
    let mut found = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder of sources is readable") {
            let path = entry.expect("a folder of sources is readable").path();
            if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let inside = path.strip_prefix(&root).expect("the walk began at the root");
                let inside = inside.to_string_lossy().into_owned();
                let crate_name = inside
                    .split('/')
                    .next()
                    .expect("a path has a first part")
                    .to_owned();
                let text = fs::read_to_string(&path).expect("a source file is UTF-8");
                found.push(SourceFile {
                    crate_name,
                    path: format!("crates/{inside}"),
                    text,
                });
            }
        }
    }
    found
}

/// The lines that begin a `select!` whose first word is not `biased;`, with their places.
fn unordered_choices(text: &str) -> Vec<(usize, &str)> {
    let lines: Vec<_> = text.lines().collect();
    let mut found = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let Some((before, after)) = code_of(line).split_once("select!") else {
            continue;
        };
        let quoted = before.matches('"').count() % 2 == 1;
        let following = lines[index + 1..].iter().copied().map(code_of);
        let mut words = std::iter::once(after)
            .chain(following)
            .flat_map(str::split_whitespace);
        let first = words.find(|word| *word != "{");
        if !quoted && first != Some("biased;") {
            found.push((index, *line));
        }
    }
    found
}

/// A line without its comment.
fn code_of(line: &str) -> &str {
    line.split("//").next().unwrap_or_default()
}

/// Tells if a line of code has the keyword, or lifts the lint against it.
fn mentions_unsafe(line: &str) -> bool {
    let code = code_of(line);
    let lifts_lint = code.trim_start().starts_with('#')
        && code.contains("unsafe_code")
        && (code.contains("allow(") || code.contains("expect("));
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let keyword = code.match_indices("unsafe").any(|(start, word)| {
        let before = code[..start].chars().next_back();
        let after = code[start + word.len()..].chars().next();
        let quoted = code[..start].matches('"').count() % 2 == 1;
        !quoted && !before.is_some_and(is_word) && !after.is_some_and(is_word)
    });
    lifts_lint || keyword
}
