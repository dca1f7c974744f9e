//! Data directories of doubtful owners: a node that is not sure does not start, and changes nothing.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use server::{Node, StartError};
use storage::DirectoryError;

use crate::support::{TestNode, batch, config, now_ms};

/// Every file with its content.
fn content(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut directories = vec![directory.to_path_buf()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).expect("it can be listed") {
            let path = entry.expect("it can be listed").path();
            match path.is_dir() {
                true => directories.push(path),
                false => {
                    let bytes = fs::read(&path).expect("it can be read");
                    found.insert(path.display().to_string(), bytes);
                }
            }
        }
    }
    found
}

fn refused(outcome: Result<Node, StartError>) -> StartError {
    match outcome {
        Ok(_) => panic!("the node must not start"),
        Err(error) => {
            let sentence = error.to_string();
            assert!(
                !sentence.is_empty() && !sentence.contains('\n'),
                "one sentence: {sentence}"
            );
            error
        }
    }
}

#[test]
fn two_nodes_cannot_have_one_directory() {
    let node = TestNode::start();
    let mut wire = node.connect();
    wire.create_topic("orders", 1, &[]);
    let error = refused(node.start_another(&[]));
    assert!(matches!(error, StartError::InUse(_)), "{error}");
    assert_eq!(
        wire.produce("orders", 0, batch(&[(now_ms(), "x")])).error_code,
        0,
        "the first is not disturbed"
    );
    let mut node = node;
    node.stop();
    let next = node.start_another(&[]);
    assert!(next.is_ok(), "after it, another may");
}

#[test]
fn a_foreign_directory_is_left_alone() {
    let directory = tempfile::tempdir().expect("there is room for a temporary directory");
    fs::write(directory.path().join("photo.jpg"), b"not ours").expect("it can be written");
    let error = refused(Node::start(config(directory.path(), &[]), "0.0.0"));
    assert!(
        matches!(error, StartError::Directory(DirectoryError::Foreign { .. })),
        "{error}"
    );
    assert!(error.to_string().contains("photo.jpg"), "{error}");
    let found = content(directory.path());
    assert_eq!(found.len(), 1, "not even a lock was made: {found:?}");
}

#[test]
fn another_nodes_directory_and_newer_formats_are_refused_unchanged() {
    let mut node = TestNode::start();
    node.connect().create_topic("orders", 1, &[]);
    node.stop();
    let before = content(node.directory());
    let error = refused(node.start_another(&[("node.id", "2")]));
    assert!(matches!(
        error,
        StartError::Directory(DirectoryError::OtherNode {
            stored: 1,
            configured: 2,
            ..
        })
    ));
    let remedy = "; set node.id = 1, or choose another directory";
    assert!(error.to_string().ends_with(remedy), "{error}");
    assert!(content(node.directory()) == before, "nothing was written");

    let file = node.directory().join("node.toml");
    let sound = fs::read_to_string(&file).expect("the node has a file");
    let newer = sound.replace("format = 2", "format = 999");
    assert_ne!(sound, newer);
    let older = sound.replace("format = 2", "format = 1");
    let unknown = format!("{sound}rack = 3\n");
    let damaged = [
        (newer.as_str(), "use the version that wrote it"),
        (older.as_str(), "start this one with an empty directory"),
        (unknown.as_str(), "has no rack"),
        ("", "format"),
        ("format = \"one\"", "format"),
        ("not toml at all [", "understood"),
        (&sound[..sound.len() / 2], "understood"),
    ];
    for (bad, said) in damaged {
        fs::write(&file, bad).expect("it can be written");
        let before = content(node.directory());
        let error = refused(node.start_another(&[]));
        assert!(error.to_string().contains(said), "{error}");
        assert!(content(node.directory()) == before, "nothing was written");
    }
    fs::write(&file, sound).expect("it can be written");
    assert!(node.start_another(&[]).is_ok());
}

#[test]
fn a_file_is_no_data_directory() {
    let directory = tempfile::tempdir().expect("there is room for a temporary directory");
    let file = directory.path().join("file");
    fs::write(&file, b"not ours").expect("it can be written");
    for data in [file.clone(), file.join("below")] {
        let error = refused(Node::start(config(&data, &[]), "0.0.0"));
        assert_eq!(
            error.to_string(),
            format!("{} is not a directory; choose one with --data", data.display())
        );
    }
}

#[test]
fn damage_is_told_with_what_tells_more() {
    let mut node = TestNode::start();
    node.connect().create_topic("orders", 1, &[]);
    node.stop();
    let checkpoint = node.directory().join("checkpoints/000.checkpoint");
    fs::write(checkpoint, b"not a checkpoint").expect("it can be written");
    let error = refused(node.start_another(&[])).to_string();
    let remedy = format!("`ropewalk check {}`", node.directory().display());
    assert!(
        error.contains(" is damaged ") && error.contains(&remedy),
        "{error}"
    );
}

#[test]
fn cores_that_have_no_journal_are_told_of() {
    let mut node = TestNode::start_with(&[("cores", "1")]);
    node.stop();
    let of_journals = |cores: &str| {
        let node = node
            .start_another(&[("cores", cores)])
            .expect("any count will do");
        let told = node
            .warnings()
            .iter()
            .filter(|told| told.contains("connections only"));
        told.cloned().collect::<Vec<_>>()
    };
    assert!(of_journals("1").is_empty());
    let told = of_journals("2");
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(
        told[0].contains("fixed at 1 ") && told[0].contains("1 of 2 cores"),
        "{told:?}"
    );
}

#[test]
fn an_address_that_is_taken_is_named() {
    let node = TestNode::start();
    let taken = node.address().to_string();
    let directory = tempfile::tempdir().expect("there is room for a temporary directory");
    for key in ["kafka.listen", "http.listen"] {
        let error = refused(Node::start(config(directory.path(), &[(key, &taken)]), "0.0.0"));
        assert!(
            error.to_string().contains(key) && error.to_string().contains(&taken),
            "{error}"
        );
        let flag = format!("--{} names another", key.trim_end_matches(".listen"));
        assert!(error.to_string().contains(&flag), "{error}");
    }
    // And nothing is left that would keep the next one from starting.
    assert!(Node::start(config(directory.path(), &[]), "0.0.0").is_ok());
}

#[test]
fn another_count_of_cores_finds_everything_again() {
    let mut node = TestNode::start();
    let mut wire = node.connect();
    wire.create_topic("orders", 5, &[]);
    for index in 0..5 {
        assert_eq!(
            wire.produce("orders", index, batch(&[(now_ms(), "x")]))
                .error_code,
            0
        );
    }
    node.stop();
    for cores in ["1", "3", "2"] {
        let other = node
            .start_another(&[("cores", cores)])
            .expect("any count will do");
        let mut wire = crate::support::Wire::connect(other.kafka_address());
        for index in 0..5 {
            assert_eq!(
                wire.read_all("orders", index, 0).len(),
                1,
                "{cores} cores, partition {index}"
            );
        }
    }
}

#[test]
fn a_configuration_that_cannot_be_is_refused_before_anything_is_touched() {
    let directory = tempfile::tempdir().expect("there is room for a temporary directory");
    let mut config = config(&directory.path().join("data"), &[]);
    config.journal.file_bytes = 0;
    let error = refused(Node::start(config, "0.0.0"));
    assert!(matches!(error, StartError::Config(_)), "{error}");
    assert!(
        error
            .to_string()
            .starts_with("journal.file_bytes must be a size from 1MiB"),
        "{error}"
    );
    assert_eq!(fs::read_dir(directory.path()).expect("it is there").count(), 0);
}
