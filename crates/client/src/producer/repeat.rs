//! The next step of a producer when a batch fails: the same bytes again, to the broker that leads the partition now, or giving
//! up.
//!
//! A batch must never be appended twice. With sequence numbers the broker sees to that; without, only what was surely not
//! appended is sent again.

use std::time::Duration;

use kafka_wire::ErrorCode;

use super::{Identity, Producer};
use crate::cluster::Cluster;
use crate::error::{ClientError, Result};

/// The pause of a producer before it asks for the leader again: at first, and at most.
pub(super) const REPEAT_PAUSE: Duration = Duration::from_millis(20);
const REPEAT_PAUSE_MAX: Duration = Duration::from_millis(320);

impl Producer {
    /// Says if a batch that met `error` may be sent again: with sequence numbers whenever the error may pass, else only if it
    /// was surely not appended.
    pub(super) fn may_repeat(&self, error: &ClientError) -> bool {
        if self.options.retry_for.is_zero() || !error.is_retriable() {
            return false;
        }
        // Alone in flight: what follows a refused batch may have been appended.
        self.identity.is_some()
            || self.pending.len() == 1
                && matches!(
                    error.code(),
                    Some(
                        ErrorCode::NotLeaderOrFollower
                            | ErrorCode::LeaderNotAvailable
                            | ErrorCode::UnknownTopicOrPartition
                            | ErrorCode::UnknownTopicId
                            | ErrorCode::NotEnoughReplicas
                    )
                )
    }

    /// Connects anew and sends all that is in flight again, oldest first, until that works or the oldest batch's time is
    /// over. What cannot be repeated is completed with the error.
    pub(super) fn recover(&mut self, cluster: &mut Cluster, error: ClientError) {
        let mut error = error;
        // Answers that are still under way on the old connection are never read: each batch is answered once more.
        loop {
            let oldest_sent = self.pending.front().map(|oldest| oldest.sent_at);
            let sent_at = oldest_sent.filter(|sent_at| sent_at.elapsed() < self.options.retry_for);
            let Some(sent_at) = sent_at.filter(|_| self.may_repeat(&error)) else {
                cluster.waiting.is_over();
                self.give_up(error);
                // The window is empty: a later batch finds a new connection or fails in its turn.
                let _ = self.reconnect(cluster);
                return;
            };
            cluster.waiting.goes_on(sent_at, &error);
            std::thread::sleep(self.repeat_pause);
            self.repeat_pause = (self.repeat_pause * 2).min(REPEAT_PAUSE_MAX);
            match self.reconnect(cluster).and_then(|()| self.transmit_all()) {
                Ok(()) => return,
                Err(next) => error = next,
            }
        }
    }

    /// Completes all that is in flight with one failure.
    fn give_up(&mut self, error: ClientError) {
        let later = error.to_string();
        let address = self.connection.address().to_owned();
        let mut outcome = Some(error);
        while !self.pending.is_empty() {
            let error = outcome.take().unwrap_or_else(|| ClientError::Disconnected {
                address: address.clone(),
                reason: format!("an earlier batch failed: {later}"),
            });
            self.complete(Err(error));
        }
    }

    fn reconnect(&mut self, cluster: &mut Cluster) -> Result<()> {
        let topic = self.topic.as_str();
        let (connection, leader) = cluster.connect_leader(topic, self.partition)?;
        self.connection = connection;
        self.topic_id = leader.topic_id;
        self.leader_moved = false;
        Ok(())
    }

    /// After a failure, before the next batch: a new identity if the old one's sequence has a hole, the new leader if the
    /// partition moved. Both wait for what is in flight.
    pub(super) fn start_anew(&mut self, cluster: &mut Cluster) -> Result<()> {
        if !self.identity_spent && !self.leader_moved {
            return Ok(());
        }
        while !self.pending.is_empty() {
            self.complete_oldest(cluster);
        }
        if self.leader_moved || self.connection.is_ended() {
            self.reconnect(cluster)?;
        }
        if self.identity_spent {
            self.identity = Some(Identity::new(cluster)?);
            self.identity_spent = false;
        }
        Ok(())
    }

    fn transmit_all(&mut self) -> Result<()> {
        for index in 0..self.pending.len() {
            let bytes = self.pending[index].bytes.clone();
            self.transmit(&bytes)?;
        }
        Ok(())
    }
}
