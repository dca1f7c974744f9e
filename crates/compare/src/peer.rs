//! The systems that can be compared, read from their folders' `peer.toml`. What the fields mean stands in
//! `bench/peers/README.md`. Nothing is started here.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::identity;
use super::report::comparisons::is_named_after;
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
    /// `serve` can start one node of several on a host of its own.
    #[serde(default)]
    pub(super) hosts: bool,
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
    /// The drivers that make transactions of it, which are asked for these alone; the best one first.
    #[serde(default)]
    pub(super) transactions: Vec<String>,
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

/// What was asked for and cannot take part: its name, and why.
pub(super) type LeftOut = (String, String);

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
            for driver in [&variant.driver]
                .into_iter()
                .chain(&variant.also)
                .chain(&variant.transactions)
            {
                if let Err(error) = self.driver(driver) {
                    let why = format!("{folder}/peer.toml names it for {}: {error:#}", variant.name);
                    return Some((folder.clone(), why));
                }
            }
        }
        None
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
    /// `first` folder first. Beside them, what was asked for and cannot take part, and why.
    ///
    /// # Errors
    /// If nothing has any of the names.
    pub(super) fn choose(&self, names: &[String], first: &str) -> Result<(Vec<System>, Vec<LeftOut>)> {
        if names.is_empty() {
            let (mut chosen, others): (Vec<System>, Vec<System>) =
                self.systems().partition(|system| system.peer.name == first);
            chosen.extend(others);
            return Ok((chosen, self.broken.clone().into_iter().collect()));
        }
        let known: Vec<String> = self.systems().map(|system| system.variant.name).collect();
        let (mut chosen, mut broken, mut unknown) = (Vec::new(), BTreeMap::new(), Vec::new());
        for name in names {
            // A folder's name may also be one of its variants': then it stands for the folder.
            let is_named = |system: &System| system.variant.name == *name || system.peer.name == *name;
            let named: Vec<System> = self.systems().filter(is_named).collect();
            let of_name = |(folder, _): &(&String, &String)| is_named_after(name, folder);
            let reasons: Vec<_> = self.broken.iter().filter(of_name).collect();
            if named.is_empty() && reasons.is_empty() {
                let why = format!("there is no such system, only: {}", known.join(", "));
                unknown.push((name.clone(), why));
            }
            broken.extend(
                reasons
                    .into_iter()
                    .map(|(folder, why)| (folder.clone(), why.clone())),
            );
            for system in named {
                if !chosen.contains(&system) {
                    chosen.push(system);
                }
            }
        }
        if let Some((name, why)) = unknown.first().filter(|_| unknown.len() == names.len()) {
            bail!("{name}: {why}");
        }
        Ok((chosen, broken.into_iter().chain(unknown).collect()))
    }

    pub(super) fn driver(&self, name: &str) -> Result<Driver> {
        let driver = |peer: &Peer| {
            Some(Driver {
                name: name.to_owned(),
                peer: peer.clone(),
                file: peer.file.drivers.get(name)?.clone(),
            })
        };
        let mut drivers = self.all.iter().filter_map(driver);
        drivers
            .next()
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
        let has = |program: &str| std::env::split_paths(&path).any(|folder| folder.join(program).is_file());
        let missing = self.file.needs.iter().filter(|program| !has(program));
        missing.cloned().collect()
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
        let (chosen, _) = peers.choose(&[], "pair").expect("all");
        assert_eq!(names(&chosen), ["pair", "pair-quick", "able", "able-quick"]);
        assert_eq!(chosen[0].process_key(), chosen[1].process_key());
        assert_ne!(chosen[0].process_key(), chosen[2].process_key());
        let one = ["able-quick".to_owned()];
        let (one, _) = peers.choose(&one, "pair").expect("it is there");
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
            let all = &["able", "able-quick"][..];
            for (asked, sound, count) in [
                (&[][..], all, 1),
                (&["pair"][..], &[][..], 1),
                (&["able"][..], all, 0),
            ] {
                let asked: Vec<String> = asked.iter().map(ToString::to_string).collect();
                let (chosen, left_out) = peers.choose(&asked, "able").expect("it is known");
                assert_eq!(names(&chosen), sound, "{word}");
                assert_eq!(left_out.len(), count, "{left_out:?}");
                assert!(left_out.iter().all(|(_, why)| why.contains(word)), "{left_out:?}");
            }
        }
        assert!(Peers::read(Path::new("/no/such/folder")).is_err());
    }
}
