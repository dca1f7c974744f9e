//! Looks at a node again and again: its metrics, how fast it answers, and how far its consumer groups are behind.
//!
//! It only asks. How fast the node answers is measured from here, with the smallest question of Kafka's protocol.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use client::{Cluster, ConnectionOptions};

use super::exposition::Exposition;
use super::lag::{Lag, LagWatch};
use super::scrape::{ScrapeError, cluster_of, scrape};
use crate::remote::Remote;
use crate::time::now_ms;

/// Between two questions that measure how fast the node answers.
const QUESTION_PERIOD: Duration = Duration::from_millis(20);
/// The time that the node may take for a question.
const PATIENCE: Duration = Duration::from_secs(10);

/// A node at one moment.
pub(super) struct Observation {
    pub(super) at: Instant,
    /// The same in milliseconds since 1970.
    pub(super) time_ms: i64,
    pub(super) metrics: Exposition,
    /// The times of answers since the last observation.
    pub(super) answers: Vec<Duration>,
    pub(super) lag: Lag,
}

pub(super) struct Observer {
    http: String,
    remote: Remote,
    /// `None` until there is one, and after it failed.
    cluster: Option<Cluster>,
    lag: LagWatch,
}

impl Observer {
    pub(super) fn new(http: &str, remote: &Remote) -> Result<Observer> {
        Ok(Observer {
            http: http.to_owned(),
            remote: remote.clone(),
            cluster: None,
            lag: LagWatch::start(remote.clone())?,
        })
    }

    /// Refuses to watch two nodes of two clusters as if they were one. If either does not answer, the next look tells.
    pub(super) fn check_is_one(&mut self) -> Result<(), ScrapeError> {
        let Ok(http) = cluster_of(&self.http) else {
            return Ok(());
        };
        let metadata = self.connected().and_then(|mut cluster| {
            let metadata = cluster.metadata(Some(&[]))?;
            self.cluster = Some(cluster);
            Ok(metadata)
        });
        match metadata.ok().and_then(|metadata| metadata.cluster_id) {
            Some(kafka) if kafka != http => Err(ScrapeError::Other {
                address: self.http.clone(),
                http,
                bootstrap: self.remote.bootstrap().to_owned(),
                kafka,
            }),
            _ => Ok(()),
        }
    }

    /// Asks small questions until `deadline`, then looks at everything.
    pub(super) fn observe(&mut self, deadline: Instant) -> Result<Observation> {
        let answers = self.ask_until(deadline);
        let text = scrape(&self.http)?;
        let at = Instant::now();
        let metrics = Exposition::parse(&text).map_err(|what| ScrapeError::Strange {
            address: self.http.clone(),
            what,
        })?;
        // Without a connection the next answers cannot be measured.
        self.cluster = self.connected().ok();
        Ok(Observation {
            at,
            time_ms: now_ms(),
            metrics,
            answers,
            lag: self.lag.look(),
        })
    }

    fn ask_until(&mut self, deadline: Instant) -> Vec<Duration> {
        let mut answers = Vec::new();
        loop {
            let asked = Instant::now();
            if asked >= deadline {
                return answers;
            }
            if let Some(cluster) = &mut self.cluster {
                match cluster.metadata(Some(&[])) {
                    Ok(_) => answers.push(asked.elapsed()),
                    Err(_) => self.cluster = None,
                }
            }
            thread::sleep(QUESTION_PERIOD.min(deadline.saturating_duration_since(Instant::now())));
        }
    }

    fn connected(&mut self) -> Result<Cluster> {
        self.cluster.take().map_or_else(|| connect(&self.remote), Ok)
    }
}

/// Connects with less patience than other commands have: somebody watches.
pub(super) fn connect(remote: &Remote) -> Result<Cluster> {
    remote.connect_with(ConnectionOptions {
        connect_timeout: PATIENCE,
        request_timeout: PATIENCE,
        ..ConnectionOptions::default()
    })
}
