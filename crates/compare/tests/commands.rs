//! `ropewalk-compare` as a script sees it: files and exit codes.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// How a command ended, and what it said.
#[derive(Debug)]
struct Ran {
    code: Option<i32>,
    err: String,
}

impl Ran {
    /// Checks that the command failed with exit code 1, and gives what it said.
    fn complaint(self) -> String {
        assert_eq!(self.code, Some(1), "{self:?}");
        self.err
    }
}

fn run(arguments: &[impl AsRef<OsStr>]) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ropewalk-compare"));
    let output = command.args(arguments).output().expect("the binary was built");
    Ran {
        code: output.status.code(),
        err: String::from_utf8(output.stderr).expect("commands print text"),
    }
}

/// Results of one system at one rate, on a machine of so many CPUs.
fn results(rate: f64, cpus: u32) -> String {
    let cell = format!(
        r#"{{"system":"quay","driver":"","best_client":true,"runs":[{{"records_per_s":{rate}}},{{"records_per_s":{rate}}}],
            "percentiles":[],"verified_records":null,"failures":[]}}"#
    );
    format!(
        r#"{{"schema":2,"suite":"quick","command":"","began":"","ended":"","nodes":1,"repetitions":2,
        "machine":{{"cpu":"","cpus":{cpus},"memory_gb":1.0,"kernel":"","file_system":"","load_before":0.0,"load_after":0.0}},
        "floors":[],
        "systems":[{{"name":"quay","title":"Quay","version":"","survives":"nothing","durability":"","settings":{{}},"drivers":{{}},
            "failed":null}}],
        "experiments":[{{"name":"appends","title":"Appends","about":"","source":null,"loop_kind":"closed",
            "metrics":["records_per_s"],"plot":null,"rows":[{{"name":"100 B","parameters":{{}},"cells":[{cell}]}}],
            "left_out":null,"published":[],"command":""}}]}}"#
    )
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path of letters")
}

#[test]
fn reports_are_made_again_beside_their_results() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("results.json");
    fs::write(&file, results(100.0, 2)).expect("there is room");
    let ran = run(&["report", text(&file)]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let report = fs::read_to_string(directory.path().join("report.md")).expect("it was written");
    assert!(report.contains("Quay"), "{report}");
    let page = directory.path().join("report.html");
    assert!(!page.exists(), "pages are made on demand");
    assert_eq!(run(&["report", "--html", text(&file)]).code, Some(0));
    assert!(page.exists());
    let complaint = run(&["report", text(&directory.path().join("none"))]).complaint();
    assert!(complaint.contains("none"), "{complaint}");
}

#[test]
fn a_diff_exits_with_1_if_something_got_worse_or_nothing_can_be_judged() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = |name: &str, rate: f64, cpus: u32| {
        let path = directory.path().join(name);
        fs::write(&path, results(rate, cpus)).expect("there is room");
        text(&path).to_owned()
    };
    let before = file("before.json", 100.0, 2);
    let diff = |after: &str, more: &[&str]| {
        let mut arguments = vec!["diff", before.as_str(), after];
        arguments.extend(more);
        run(&arguments)
    };
    let worse = file("worse.json", 50.0, 2);
    assert_eq!(diff(&before, &[]).code, Some(0));
    assert_eq!(diff(&file("better.json", 200.0, 2), &[]).code, Some(0));
    assert_eq!(diff(&worse, &["--system", "another"]).code, Some(0));
    let complaint = diff(&worse, &["--system", "quay"]).complaint();
    assert!(complaint.contains("something got worse"), "{complaint}");
    let elsewhere = file("elsewhere.json", 50.0, 8);
    let complaint = diff(&elsewhere, &[]).complaint();
    assert!(complaint.contains("two machines"), "{complaint}");
    let complaint = diff(&elsewhere, &["--any-machine"]).complaint();
    assert!(complaint.contains("something got worse"), "{complaint}");
}

/// The arguments of a comparison of one system, whose folder has these lines beside its names.
fn comparison(directory: &Path, lines: &str) -> Vec<String> {
    let (peers, out) = (directory.join("peers"), directory.join("out"));
    fs::create_dir_all(peers.join("absent")).expect("it is new");
    let folder = format!(
        "title = \"Absent\"\nversion = \"1\"\n{lines}\n\
         [drivers.absent]\ntitle = \"none\"\ncommand = [\"./drive\"]\n\
         [[variants]]\nname = \"absent\"\ntitle = \"Absent\"\nsurvives = \"nothing\"\ndurability = \"none\"\ndriver = \"absent\"\n"
    );
    fs::write(peers.join("absent/peer.toml"), folder).expect("there is room");
    let options = "run --only one-by-one --repetitions 1 --seconds 0.05 --warmup-seconds 0.05 --peers";
    let arguments = options.split(' ').chain([text(&peers), "--out", text(&out)]);
    arguments.map(str::to_owned).collect()
}

#[test]
fn a_comparison_whose_system_cannot_be_started_is_reported_and_exits_with_1() {
    let directory = tempfile::tempdir().expect("a directory");
    let lines = "needs = [\"no-such-program\"]\nserve = [\"./serve\"]";
    let ran = run(&comparison(directory.path(), lines));
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.err.contains("no-such-program"), "{ran:?}");
    let report = fs::read_to_string(directory.path().join("out/report.md")).expect("it was written");
    assert!(report.contains("no-such-program"), "{report}");
}

#[test]
fn what_goes_on_before_a_run_is_told() {
    let directory = tempfile::tempdir().expect("a directory");
    let arguments = comparison(
        directory.path(),
        "install = [\"sleep\", \"2.5\"]\nserve = [\"false\"]",
    );
    let piped = run(&arguments).err;
    assert!(
        piped.contains("installing Absent 1") && piped.contains("install-absent.log"),
        "{piped}"
    );
    assert!(!piped.contains("starting Absent"), "{piped}");
    let command = format!(
        "{} {}",
        env!("CARGO_BIN_EXE_ropewalk-compare"),
        arguments.join(" ")
    );
    let script = Command::new("script")
        .args(["-q", "-c", &command, "/dev/null"])
        .env("SHELL", "/bin/sh")
        .stdin(Stdio::null())
        .output()
        .expect("this test needs script");
    let looked_at = String::from_utf8_lossy(&script.stdout);
    assert!(
        looked_at.contains("installing Absent 1") && looked_at.contains("starting Absent"),
        "{looked_at}"
    );
}
