//! `ropewalk config`: the effective configuration as TOML that explains itself, and that a node can be started with.
//!
//! With a word behind it, it asks a running node instead: see `change_config`.

use anyhow::Result;
use clap::Args;
use serde_json::json;
use server::config::{KeyDescription, KeyKind, Source};

use crate::change_config::{self, ConfigCommand};
use crate::node_options::NodeOptions;
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  ropewalk config > node.toml                     a file to begin with: defaults are comments
  ropewalk config --full                          every key live
  ropewalk config --config node.toml              what this file comes to
  ropewalk config --set cores=4 --json
On a running node:
  ropewalk config get --topic orders
  ropewalk config set --topic orders retention.ms=1h
  ropewalk config unset --topic orders retention.ms
  ropewalk config get --node 1
  ropewalk config set --all-nodes log.retention.ms=1d";

#[derive(Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct ConfigArguments {
    #[command(subcommand)]
    on_a_node: Option<ConfigCommand>,
    #[command(flatten)]
    node: NodeOptions,
    /// Give every key its value, also where that is the default; without it, defaults are comments
    #[arg(long, conflicts_with = "json")]
    full: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &ConfigArguments) -> Result<()> {
    if let Some(command) = &arguments.on_a_node {
        return change_config::run(command);
    }
    let keys = arguments.node.load()?.describe();
    let mut output = Output::open();
    match arguments.json {
        true => output.json(&keys.iter().map(as_json).collect())?,
        false => output.line(as_toml(&keys, arguments.full))?,
    }
    output.flush()
}

fn as_json(key: &KeyDescription) -> serde_json::Value {
    json!({
        "key": key.key,
        "kind": key.kind.as_str(),
        "value": key.value,
        "default": key.default,
        "source": key.source.to_string(),
        "documentation": key.documentation,
    })
}

/// Keys that are as they are by default stand there as comments, so that a file which keeps them does not hold on to defaults of
/// this version; all are live if it is to be `full`.
fn as_toml(keys: &[KeyDescription], full: bool) -> String {
    let mut text =
        String::from("# Every key of a node's configuration. `ropewalk serve --config FILE` reads this.");
    if !full {
        text.push_str("\n# A key that is commented out has its default.");
    }
    let mut open_table = "";
    for key in keys {
        let (table, name) = split(&key.key);
        if table != open_table {
            text.push_str(&format!("\n\n[{table}]"));
            open_table = table;
        }
        let (value, default) = (literal(key.kind, &key.value), literal(key.kind, &key.default));
        text.push_str(&format!("\n\n# {}\n", key.documentation));
        match &key.source {
            Source::Default if !full => text.push('#'),
            Source::Default => text.push_str(&format!("# default: {default}\n")),
            source => text.push_str(&format!("# default: {default}, this one from {source}\n")),
        }
        text.push_str(&format!("{} = {value}", bare_or_quoted(name)));
    }
    text
}

/// The table of a key, and its name there. The names of topic configs have dots themselves.
fn split(key: &str) -> (&str, &str) {
    const TOPIC_DEFAULTS: &str = "topics.defaults";
    match key
        .strip_prefix(TOPIC_DEFAULTS)
        .and_then(|rest| rest.strip_prefix('.'))
    {
        Some(name) => (TOPIC_DEFAULTS, name),
        None => key.split_once('.').unwrap_or(("", key)),
    }
}

fn bare_or_quoted(name: &str) -> String {
    match name.contains('.') {
        true => format!("\"{name}\""),
        false => name.to_owned(),
    }
}

fn literal(kind: KeyKind, value: &str) -> String {
    match kind {
        KeyKind::Number | KeyKind::Switch => value.to_owned(),
        KeyKind::Text | KeyKind::Bytes | KeyKind::Duration => toml::Value::from(value).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use server::config::{Config, FileText};

    use super::*;

    #[test]
    fn what_is_printed_is_a_configuration_file() {
        let sets = [
            ("data", r#"a "quoted" \ path"#),
            ("topics.defaults.retention.ms", "5"),
            ("kafka.advertised", "h:1"),
        ];
        let sets = sets.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let config = Config::load(None, &sets, &[]).expect("valid");
        let values = |config: &Config| {
            let values = config.describe().into_iter().map(|key| key.value);
            values.collect::<Vec<_>>()
        };
        let live = |text: &str| {
            let lines = text.lines().filter(|line| !line.starts_with(['#', '[']));
            lines.filter(|line| !line.is_empty()).count()
        };
        for full in [false, true] {
            let text = as_toml(&config.describe(), full);
            let name = "printed";
            let file = FileText { name, text: &text };
            let again = Config::load(Some(file), &[], &[]).expect("valid");
            assert_eq!(values(&again), values(&config));
            assert_eq!(
                live(&text),
                if full { values(&config).len() } else { 3 },
                "{text}"
            );
            assert!(
                text.contains("# default: 604800000, this one from --set\n\"retention.ms\" = 5"),
                "{text}"
            );
        }
    }
}
