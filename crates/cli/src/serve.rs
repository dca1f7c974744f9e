//! `ropewalk serve`: starts a node, says where it is and what to try, and drains it when told to stop.

use std::io::{IsTerminal, Write, stdout};
use std::net::SocketAddr;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use bench::version::SHORT as VERSION;
use clap::Args;
use serde_json::json;
use server::config::{Config, LogFormat};
use server::{CoreDied, Node};

use crate::failure::Logged;
use crate::node_options::NodeOptions;
use crate::remote::DEFAULT_BOOTSTRAP;
use crate::signals::{Signal, Watched};
use crate::{logging, signals};

const EXAMPLES: &str = "\
Examples:
  ropewalk serve                                  on 127.0.0.1:9092, data in ./ropewalk-data
  ropewalk serve --data /srv/log --cores 4
  ropewalk serve --kafka 0.0.0.0:9092 --set kafka.advertised=log.example:9092
  ropewalk serve --config node.toml --set log.level=debug

`ropewalk config --full` lists every key. Later wins: defaults, file,
environment (ROPEWALK_DATA and so on), --set, other flags.
Ctrl-C or SIGTERM answers what is under way and stops; a second one at once.";

/// The time that the last line may take when the node is ended at once.
const LAST_WORDS_PATIENCE: Duration = Duration::from_millis(100);

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ServeArguments {
    #[command(flatten)]
    node: NodeOptions,
}

pub(crate) fn run(arguments: &ServeArguments) -> Result<()> {
    let config = arguments.node.load()?;
    logging::start(&config.log);
    let format = config.log.format;
    serve(config).map_err(|error| match format {
        LogFormat::Text => error,
        // A program that reads a JSON object a line is not to meet another line.
        LogFormat::Json => Logged(error).into(),
    })
}

fn serve(config: Config) -> Result<()> {
    // Before the start, so that being told to stop meanwhile is not lost: the node then starts and stops in order.
    let (ends, end) = mpsc::channel();
    let signalled = ends.clone();
    let tell = move |name| signalled.send(End::Signal(name)).is_ok();
    signals::watch(Watched::Asked, tell, say_stopped_at_once)?;
    let greeting = Greeting {
        data: config.data.display().to_string(),
        advertised: advertised(&config),
        format: config.log.format,
        refusal: None,
        peer: None,
    };
    let deadline = config.shutdown.deadline;
    let node = Node::start(config, VERSION)?;
    for warning in node.warnings() {
        tracing::warn!("{warning}");
    }
    let greeting = Greeting {
        refusal: node.refusal().map(str::to_owned),
        peer: node.peer_address(),
        ..greeting
    };
    greeting.say(node.kafka_address(), node.http_address());
    greeting.log(&node);
    watch_cores(&node, ends)?;
    let first = end.recv().expect("the thread for signals outlives this one");
    // Nobody listens from here on: the next signal hastens.
    drop(end);
    let end = first;
    match &end {
        End::Signal(signal) => tracing::info!(%signal, "stopping: requests under way are answered first"),
        End::CoreDied(died) => tracing::error!(%died, "stopping: a part of this node serves nobody any more"),
    }
    let all_answered = node.drain(deadline);
    if let End::CoreDied(died) = end {
        bail!("{died}");
    }
    if !all_answered {
        bail!("not every request was answered within shutdown.deadline; what was acknowledged is on disk");
    }
    tracing::info!("stopped");
    Ok(())
}

/// Why a node is to stop.
enum End {
    Signal(Signal),
    CoreDied(CoreDied),
}

/// On a thread of its own: a reader of the log that takes nothing must not hold up the end.
fn say_stopped_at_once() {
    let (said, saying) = mpsc::channel();
    let say = move || {
        tracing::warn!("stopped at once: requests under way were not waited for");
        let _ = said.send(());
    };
    let thread = thread::Builder::new().name("last-words".to_owned()).spawn(say);
    if thread.is_ok() {
        let _ = saying.recv_timeout(LAST_WORDS_PATIENCE);
    }
}

/// Sends word when a core of the node dies.
fn watch_cores(node: &Node, ends: mpsc::Sender<End>) -> Result<()> {
    let death = node.core_death();
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let watch = move || {
        if let Some(died) = runtime.block_on(death) {
            // Nobody listens any more if the node is stopping already.
            let _ = ends.send(End::CoreDied(died));
        }
    };
    let thread = thread::Builder::new().name("core-watch".to_owned()).spawn(watch);
    thread.context("a thread that watches the cores could not be started")?;
    Ok(())
}

fn advertised(config: &Config) -> Option<String> {
    config.kafka.advertised.as_ref().map(ToString::to_string)
}

struct Greeting {
    data: String,
    advertised: Option<String>,
    format: LogFormat,
    /// Why clients' appends are refused, if they are.
    refusal: Option<String>,
    /// Where other nodes connect, if they can.
    peer: Option<SocketAddr>,
}

impl Greeting {
    /// A node must not end because nobody reads its greeting, so what cannot be written is dropped.
    fn say(&self, kafka: SocketAddr, http: SocketAddr) {
        let mut out = stdout().lock();
        let mut text = match self.format {
            LogFormat::Text => self.facts(kafka, http),
            LogFormat::Json => self.facts_as_json(kafka, http),
        };
        if out.is_terminal() && self.format == LogFormat::Text {
            text.push_str(&self.hints(kafka));
        }
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    }

    /// The same for the log.
    fn log(&self, node: &Node) {
        let (version, data, cores) = (VERSION, &*self.data, node.cores());
        let (kafka, http) = (node.kafka_address(), node.http_address());
        match &self.refusal {
            None => tracing::info!(version, %kafka, %http, data, cores, "ready"),
            Some(reason) => {
                tracing::warn!(version, %kafka, %http, data, cores, reason, "up, and appends are refused");
            }
        }
    }

    fn facts(&self, kafka: SocketAddr, http: SocketAddr) -> String {
        let state = match &self.refusal {
            None => "ready".to_owned(),
            Some(why) => format!("up, appends refused: {why}"),
        };
        let data = &self.data;
        let peer = self
            .peer
            .map_or_else(String::new, |peer| format!("  peer   {peer}\n"));
        format!(
            "ropewalk {VERSION} is {state}\n  kafka  {kafka}\n  http   http://{http}\n{peer}  data   {data}\n"
        )
    }

    /// The same for whoever reads a JSON object a line.
    fn facts_as_json(&self, kafka: SocketAddr, http: SocketAddr) -> String {
        let facts = json!({
            "version": VERSION,
            "ready": self.refusal.is_none(),
            "reason": self.refusal,
            "kafka": kafka.to_string(),
            "http": format!("http://{http}"),
            "peer": self.peer.map(|peer| peer.to_string()),
            "data": self.data,
        });
        format!("{facts}\n")
    }

    fn hints(&self, kafka: SocketAddr) -> String {
        let bootstrap = match self.advertised.clone().unwrap_or_else(|| kafka.to_string()) {
            address if address == DEFAULT_BOOTSTRAP => String::new(),
            address => format!(" --bootstrap {address}"),
        };
        format!(
            "Try in another terminal:\n  echo hello | ropewalk produce greetings{bootstrap}\n  \
             ropewalk consume greetings{bootstrap}\n  ropewalk topic list{bootstrap}\nCtrl-C stops the node.\n"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_can_be_pasted() {
        let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let mut greeting = Greeting {
            data: "./data".to_owned(),
            advertised: None,
            format: LogFormat::Text,
            refusal: None,
            peer: None,
        };
        assert!(
            greeting
                .hints(address(9092))
                .contains("ropewalk consume greetings\n")
        );
        assert!(
            greeting
                .hints(address(7))
                .contains("ropewalk topic list --bootstrap 127.0.0.1:7\n")
        );
        greeting.advertised = Some("log.example:9092".to_owned());
        assert!(
            greeting
                .hints(address(9092))
                .contains("produce greetings --bootstrap log.example:9092\n")
        );
        assert!(
            greeting
                .facts(address(1), address(2))
                .contains(" is ready\n  kafka  127.0.0.1:1\n  http   http://127.0.0.1:2\n")
        );
    }

    #[test]
    fn a_node_that_refuses_appends_does_not_call_itself_ready() {
        let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let greeting = Greeting {
            data: "./data".to_owned(),
            advertised: None,
            format: LogFormat::Json,
            refusal: Some("144 MiB free, disk.reserve_bytes is 256 MiB".to_owned()),
            peer: None,
        };
        let text = greeting.facts(address(1), address(2));
        let expected = format!(
            "ropewalk {VERSION} is up, appends refused: 144 MiB free, disk.reserve_bytes is 256 MiB\n"
        );
        assert!(text.starts_with(&expected), "{text}");
        let json = greeting.facts_as_json(address(1), address(2));
        let facts: serde_json::Value = serde_json::from_str(&json).expect("it is JSON");
        assert!(json.ends_with('\n') && json.lines().count() == 1);
        assert_eq!(
            (&facts["ready"], &facts["kafka"]),
            (&json!(false), &json!("127.0.0.1:1"))
        );
    }
}
