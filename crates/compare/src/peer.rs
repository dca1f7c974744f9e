//! The systems that can be compared, read from their folders' `peer.toml`. What the fields mean stands in
//! `bench/peers/README.md`. Nothing is started here.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::identity;
use super::results::{Acknowledges, Survives};
use super::suite::all_plans;

/// A folder of systems, of drivers or of both.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Peer {
    pub(super) name: String,
    /// Where its commands are run.
    pub(super) folder: PathBuf,
    /// What it says.
    pub(super) file: PeerFile,
    /// Over all files in it: with another sum it is another system.
    pub(super) sum: u64,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PeerFile {
    pub(super) title: String,
    pub(super) version: String,
    #[serde(default)]
    pub(super) needs: Vec<String>,
    #[serde(default)]
    pub(super) install: Vec<String>,
    /// Empty for a store that lives in its driver.
    #[serde(default)]
    pub(super) serve: Vec<String>,
    #[serde(default = "one")]
    pub(super) ports_per_node: u16,
    #[serde(default = "one_node")]
    pub(super) nodes: Vec<u32>,
    /// What one acknowledgement is for, where a request has several records.
    #[serde(default)]
    pub(super) acknowledges: Option<Acknowledges>,
    /// What readers must know of how it is used here, in a sentence.
    #[serde(default)]
    pub(super) note: Option<String>,
    /// The largest records that it is meant for; larger ones are not asked of it.
    #[serde(default)]
    pub(super) record_bytes_max: Option<usize>,
    /// The most payloads that it is meant to keep for readers; more is not asked of it.
    #[serde(default)]
    pub(super) stored_bytes_max: Option<u64>,
    #[serde(default)]
    pub(super) drivers: BTreeMap<String, DriverFile>,
    #[serde(default)]
    pub(super) variants: Vec<VariantFile>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DriverFile {
    pub(super) title: String,
    pub(super) command: Vec<String>,
}

/// A variant of `peer.toml`: one column.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct VariantFile {
    pub(super) name: String,
    pub(super) title: String,
    pub(super) survives: Survives,
    pub(super) durability: String,
    pub(super) driver: String,
    #[serde(default)]
    pub(super) also: Vec<String>,
    /// The tables that ask it; empty for all.
    #[serde(default)]
    pub(super) only: Vec<String>,
    #[serde(default)]
    pub(super) serve_settings: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) log_settings: BTreeMap<String, String>,
}

/// A column to be measured: a variant, and the folder it stands in.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct System {
    pub(super) peer: Peer,
    pub(super) variant: VariantFile,
}

/// A driver, wherever it stands.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Driver {
    /// Its name in cells.
    pub(super) name: String,
    pub(super) peer: Peer,
    /// What the folder says of it.
    pub(super) file: DriverFile,
}

/// Everything below one `--peers` directory.
#[derive(Debug, Clone)]
pub(super) struct Peers {
    all: Vec<Peer>,
    /// Folders that are not as the guide says, and why.
    broken: BTreeMap<String, String>,
}

fn one() -> u16 {
    1
}

fn one_node() -> Vec<u32> {
    vec![1]
}

impl Peers {
    /// Reads all of them. A folder that is not as the guide says is left out, and harms no other.
    pub(super) fn read(directory: &Path) -> Result<Peers> {
        let entries = fs::read_dir(directory).with_context(|| {
            format!(
                "cannot read {}: --peers names the folder of systems",
                directory.display()
            )
        })?;
        let (mut all, mut broken) = (Vec::new(), BTreeMap::new());
        // What is nobody's own belongs to all: help for drivers.
        let mut shared = 0;
        for entry in entries {
            let folder = fs::canonicalize(entry?.path())?;
            let path = folder.join("peer.toml");
            if !path.is_file() {
                shared ^= identity::of_folder(&folder);
                continue;
            }
            let name = folder.file_name().unwrap_or_default();
            let name = name.to_string_lossy().into_owned();
            match read_file(&path) {
                Ok(file) => all.push(Peer {
                    sum: identity::of_folder(&folder),
                    name,
                    folder,
                    file,
                }),
                Err(error) => drop(broken.insert(name, format!("{error:#}"))),
            }
        }
        all.iter_mut().for_each(|peer| peer.sum ^= shared);
        all.sort_by(|one, other| one.name.cmp(&other.name));
        let mut peers = Peers { all, broken };
        peers.leave_out_unsound();
        Ok(peers)
    }

    /// Leaves out folders whose names are not unique or whose drivers are not there, one by one: each may be another's reason.
    fn leave_out_unsound(&mut self) {
        while let Some((name, why)) = self.unsound() {
            self.all.retain(|peer| peer.name != name);
            self.broken.insert(name, why);
        }
    }

    /// The first folder that cannot be used beside those before it, and why.
    fn unsound(&self) -> Option<(String, String)> {
        let mut names = BTreeMap::new();
        let tables: Vec<String> = all_plans().map(|plan| plan.name).collect();
        for system in self.systems() {
            let (folder, variant) = (&system.peer.name, &system.variant);
            if let Some(table) = variant.only.iter().find(|table| !tables.contains(table)) {
                let why = format!(
                    "{folder}/peer.toml has {} only in {table}, and no suite has such a table",
                    variant.name
                );
                return Some((folder.clone(), why));
            }
            if let Some(other) = names.insert(variant.name.clone(), folder.clone()) {
                let why = format!(
                    "{other}/peer.toml and {folder}/peer.toml both have a variant {}",
                    variant.name
                );
                return Some((folder.clone(), why));
            }
            for driver in std::iter::once(&variant.driver).chain(&variant.also) {
                if let Err(error) = self.driver(driver) {
                    let why = format!("{folder}/peer.toml names it for {}: {error:#}", variant.name);
                    return Some((folder.clone(), why));
                }
            }
        }
        None
    }

    /// The folders among those that are asked for which cannot be used, and why.
    pub(super) fn broken_among<'a>(
        &'a self,
        names: &'a [String],
    ) -> impl Iterator<Item = (&'a String, &'a String)> {
        let is_asked = |folder: &str| {
            let is_it = |name: &String| {
                let rest = name.strip_prefix(folder);
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
            };
            names.is_empty() || names.iter().any(is_it)
        };
        self.broken.iter().filter(move |(folder, _)| is_asked(folder))
    }

    fn systems(&self) -> impl Iterator<Item = System> + '_ {
        self.all.iter().flat_map(|peer| {
            peer.file.variants.iter().map(|variant| System {
                peer: peer.clone(),
                variant: variant.clone(),
            })
        })
    }

    /// The systems of those names, in their order; a folder's name stands for all its variants. None at all: everything, the
    /// `first` folder first. Names that nothing has are passed over (`unknown_among` tells them).
    pub(super) fn choose(&self, names: &[String], first: &str) -> Result<Vec<System>> {
        if names.is_empty() {
            let (mut chosen, others): (Vec<System>, Vec<System>) =
                self.systems().partition(|system| system.peer.name == first);
            chosen.extend(others);
            return Ok(chosen);
        }
        let mut chosen: Vec<System> = Vec::new();
        let unknown = self.unknown_among(names);
        if let (Some((name, why)), true) = (unknown.first(), unknown.len() == names.len()) {
            bail!("{name}: {why}");
        }
        for name in names {
            // A folder's name may also be one of its variants': then it stands for the folder.
            for system in self.named(name) {
                if !chosen.contains(&system) {
                    chosen.push(system);
                }
            }
        }
        Ok(chosen)
    }

    /// Those among the names that nothing here has, and what there is instead.
    pub(super) fn unknown_among(&self, names: &[String]) -> Vec<(String, String)> {
        let is_known = |name: &String| {
            let mut broken = self.broken_among(std::slice::from_ref(name));
            self.named(name).next().is_some() || broken.next().is_some()
        };
        let known: Vec<String> = self.systems().map(|system| system.variant.name).collect();
        let why = format!("there is no such system, only: {}", known.join(", "));
        let unknown = names.iter().filter(|name| !is_known(name));
        unknown.map(|name| (name.clone(), why.clone())).collect()
    }

    fn named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = System> + 'a {
        self.systems()
            .filter(move |system| system.variant.name == name || system.peer.name == name)
    }

    pub(super) fn driver(&self, name: &str) -> Result<Driver> {
        self.all
            .iter()
            .find_map(|peer| {
                peer.file.drivers.get(name).map(|file| Driver {
                    name: name.to_owned(),
                    peer: peer.clone(),
                    file: file.clone(),
                })
            })
            .with_context(|| format!("there is no driver {name:?} in any peer.toml"))
    }
}

fn read_file(path: &Path) -> Result<PeerFile> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut file: PeerFile =
        toml::from_str(&text).with_context(|| format!("{} is not as the guide says", path.display()))?;
    file.version = file.version.replace("${VERSION}", &identity::version());
    Ok(file)
}

impl Peer {
    /// Which of the programs it needs are not on PATH.
    pub(super) fn missing_programs(&self) -> Vec<String> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let has =
            |program: &String| std::env::split_paths(&path).any(|folder| folder.join(program).is_file());
        self.file
            .needs
            .iter()
            .filter(|program| !has(program))
            .cloned()
            .collect()
    }
}

impl System {
    /// What tells a running process of it from others: variants with the same share one.
    pub(super) fn process_key(&self) -> String {
        format!("{} {:?}", self.peer.name, self.variant.serve_settings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAIR: &str = r#"
        title = "Pair"
        version = "1"
        serve = ["./serve"]
        [drivers.pair]
        title = "Pair's client"
        command = ["./drive"]
        [[variants]]
        name = "pair"
        title = "Pair"
        survives = "power_cut"
        durability = "flushed"
        driver = "pair"
        [[variants]]
        name = "pair-quick"
        title = "Pair, quick"
        survives = "nothing"
        durability = "none"
        driver = "pair"
        log_settings = { quick = "yes" }
    "#;

    fn peers(folders: &[(&str, &str)]) -> Result<Peers> {
        let directory = tempfile::tempdir()?;
        for (name, text) in folders {
            fs::create_dir(directory.path().join(name))?;
            fs::write(directory.path().join(name).join("peer.toml"), text)?;
        }
        fs::create_dir(directory.path().join("no-peer"))?;
        Peers::read(directory.path())
    }

    fn names(systems: &[System]) -> Vec<&str> {
        systems
            .iter()
            .map(|system| system.variant.name.as_str())
            .collect()
    }

    #[test]
    fn a_folder_stands_for_its_variants_and_the_first_comes_first() {
        let other = PAIR.replace("pair", "able");
        let peers = peers(&[("pair", PAIR), ("able", &other)]).expect("both are sound");
        let chosen = peers.choose(&[], "pair").expect("all");
        assert_eq!(names(&chosen), ["pair", "pair-quick", "able", "able-quick"]);
        assert_eq!(chosen[0].process_key(), chosen[1].process_key());
        assert_ne!(chosen[0].process_key(), chosen[2].process_key());
        let one = peers
            .choose(&["able-quick".to_owned()], "pair")
            .expect("it is there");
        assert_eq!(names(&one), ["able-quick"]);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let sound = peers(&[("pair", PAIR)]).expect("sound");
        let error = sound
            .choose(&["pear".to_owned()], "pair")
            .expect_err("no such system");
        assert!(error.to_string().contains("pair-quick"), "{error}");
        let able = PAIR.replace("pair", "able");
        for (text, word) in [
            (PAIR.replace("driver = \"pair\"", "driver = \"none\""), "none"),
            (PAIR.replace("\"pair", "\"able"), "both have a variant"),
            (
                PAIR.replace("version = \"1\"", "version = \"1\"\ncolour = 1"),
                "colour",
            ),
        ] {
            let peers = peers(&[("able", &able), ("pair", &text)]).expect("one of them is sound");
            let chosen = peers.choose(&[], "able").expect("all that are sound");
            assert_eq!(names(&chosen), ["able", "able-quick"], "{word}");
            let asked = ["pair".to_owned()];
            assert_eq!(peers.choose(&asked, "able").expect("it is known").len(), 0);
            for asked in [&asked[..], &[]] {
                let broken: Vec<_> = peers.broken_among(asked).collect();
                assert!(broken.len() == 1 && broken[0].1.contains(word), "{broken:?}");
            }
            assert_eq!(peers.broken_among(&["able".to_owned()]).count(), 0);
        }
        assert!(Peers::read(Path::new("/no/such/folder")).is_err());
    }
}
