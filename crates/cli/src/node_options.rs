//! The arguments that make up a node's configuration, shared by `serve` and `config`.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, anyhow};
use clap::Args;
use server::config::{Config, FileText, Flag, Variable, plain_value};

/// The environment variables that stand for keys, as flags do.
const VARIABLES: [(&str, &str); 6] = [
    ("ROPEWALK_DATA", "data"),
    ("ROPEWALK_KAFKA", "kafka.listen"),
    ("ROPEWALK_HTTP", "http.listen"),
    ("ROPEWALK_PEER", "peer.listen"),
    ("ROPEWALK_JOIN", "cluster.join"),
    ("ROPEWALK_CORES", "cores"),
];

#[derive(Args)]
pub(crate) struct NodeOptions {
    /// A TOML file with the node's configuration
    #[arg(long, value_name = "FILE", env = "ROPEWALK_CONFIG", hide_env_values = true)]
    config: Option<PathBuf>,
    /// The directory that holds everything the node stores; made if it does not exist [key: data] [env: ROPEWALK_DATA]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Where Kafka's clients connect, as host:port; port 0 takes any free one [key: kafka.listen] [env: ROPEWALK_KAFKA]
    #[arg(long, value_name = "ADDRESS")]
    kafka: Option<String>,
    /// Where HTTP is served: /v1 for records and topics, health, metrics and status; as host:port [key: http.listen] [env: ROPEWALK_HTTP]
    #[arg(long, value_name = "ADDRESS")]
    http: Option<String>,
    /// Where other nodes connect, as host:port; without it none can join [key: peer.listen] [env: ROPEWALK_PEER]
    #[arg(long, value_name = "ADDRESS")]
    peer: Option<String>,
    /// Addresses where nodes of a cluster listen for others (their --peer): a node with an empty directory joins it [key: cluster.join] [env: ROPEWALK_JOIN]
    #[arg(long, value_name = "ADDRESS,...")]
    join: Option<String>,
    /// Number of cores to use; 0 takes every CPU [key: cores] [env: ROPEWALK_CORES]
    #[arg(long, value_name = "N")]
    cores: Option<usize>,
    /// Gives any key a value; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_and_value)]
    set: Vec<(String, String)>,
}

impl NodeOptions {
    /// Defaults, then the file, then the environment, then `--set`, then the other flags.
    pub(crate) fn load(&self) -> Result<Config> {
        let name = self.config.as_ref().map(|path| path.display().to_string());
        let text =
            match &self.config {
                Some(path) => {
                    let read = fs::read_to_string(path);
                    Some(read.with_context(|| {
                        format!("the configuration file {} cannot be read", path.display())
                    })?)
                }
                None => None,
            };
        let file = name
            .as_deref()
            .zip(text.as_deref())
            .map(|(name, text)| FileText { name, text });
        Ok(Config::load_in(&variables()?, file, &self.set, &self.flags()?)?)
    }

    fn flags(&self) -> Result<Vec<Flag>> {
        let data = match &self.data {
            Some(path) => Some(
                path.to_str()
                    .context("--data must be a path in UTF-8")?
                    .to_owned(),
            ),
            None => None,
        };
        let given = [
            ("--data", "data", data),
            ("--kafka", "kafka.listen", self.kafka.clone()),
            ("--http", "http.listen", self.http.clone()),
            ("--peer", "peer.listen", self.peer.clone()),
            ("--join", "cluster.join", self.join.clone()),
            ("--cores", "cores", self.cores.map(|cores| cores.to_string())),
        ];
        let flag = |(flag, key, value): (_, _, Option<String>)| value.map(|value| Flag { flag, key, value });
        Ok(given.into_iter().filter_map(flag).collect())
    }
}

/// The keys that the environment gives a value. An empty variable is one that is not set.
fn variables() -> Result<Vec<Variable>> {
    let mut given = Vec::new();
    for (name, key) in VARIABLES {
        let Some(value) = std::env::var_os(name).filter(|value| !value.is_empty()) else {
            continue;
        };
        let value = value.into_string();
        let value = value.map_err(|_| anyhow!("the environment variable {name} must be text in UTF-8"))?;
        given.push(Variable { name, key, value });
    }
    Ok(given)
}

/// As `key_and_value`, for a topic's or a node's config: a time or a size with a unit becomes Kafka's plain number.
pub(crate) fn config_and_value(text: &str) -> Result<(String, String), String> {
    let (name, value) = key_and_value(text)?;
    match plain_value(&name, &value) {
        Ok(value) => Ok((name, value)),
        Err(expected) => Err(format!("{name} must be {expected}")),
    }
}

/// Takes `key=value` apart at the first `=`.
pub(crate) fn key_and_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => Ok((key.trim().to_owned(), value.trim().to_owned())),
        _ => Err("expected KEY=VALUE".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_may_hold_an_equals_sign() {
        assert_eq!(
            key_and_value("a.b = c=d"),
            Ok(("a.b".to_owned(), "c=d".to_owned()))
        );
        assert!(key_and_value("a.b").is_err());
        assert!(key_and_value("=b").is_err());
        let week = ("retention.ms".to_owned(), "604800000".to_owned());
        assert_eq!(config_and_value("retention.ms=7d"), Ok(week));
        let refused = config_and_value("retention.ms=7 days").expect_err("no unit");
        assert!(refused.ends_with("or a time such as 90s, 12h or 7d"), "{refused}");
    }
}
