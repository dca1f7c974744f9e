//! The way of reports: from the leaders of a topic with one order to the node that leads the log of that.
//!
//! A report, or the answer to it, may be lost with a link or a node. Until it is answered, all of it is reported again and again, to whoever leads the log by then.

use std::rc::Rc;
use std::time::Duration;

use protocol::leader::NodeId;
use protocol::order::{Committed, Report};
use protocol::peer::Message;
use record::{Epoch, TopicId};
use shard::Shard;
use tokio::time::{Instant, sleep_until};

use crate::core::Core;

/// Before what is not answered is reported again.
const AGAIN: Duration = Duration::from_millis(100);

/// Carries the reports of a shard, until the node stops.
pub(crate) async fn carry_reports(core: Rc<Core>, shard: Rc<Shard>) {
    let mut again = Instant::now() + AGAIN;
    loop {
        let is_again = Instant::now() >= again;
        if is_again {
            again = Instant::now() + AGAIN;
            // The log may have come to be led here.
            core.open_scribes();
        }
        for report in shard.take_order_reports(is_again) {
            core.report(shard.index, report);
        }
        match shard.has_order_reports() {
            true => tokio::select! {
                biased;
                () = shard.until_reports() => {}
                () = sleep_until(again) => {}
            },
            false => shard.until_reports().await,
        }
    }
}

impl Core {
    /// The node that leads the log of a topic's order, and its epoch.
    pub(super) fn scribe_of(&self, topic: TopicId) -> Option<(NodeId, Epoch)> {
        let log = self.facts.pages_of(topic);
        self.with_metadata(|metadata| {
            let state = metadata.partition(log)?;
            Some((state.leader, state.epoch))
        })
    }

    fn report(&self, of: usize, committed: Committed) {
        let log = self.facts.pages_of(committed.partition.topic);
        // Its log may not be made yet.
        let Some((leader, scribe)) = self.scribe_of(committed.partition.topic) else {
            return;
        };
        let report = Report { scribe, committed };
        if leader != self.facts.node {
            // It may want to read here what it has named.
            self.wanted_links.want(of, [leader].into_iter());
        }
        let (own, shard) = (self.facts.node, self.facts.shard_of(log));
        let bring = move |core: &Core| match leader == own {
            true => core.handle_report(own, &report),
            false => core.send_of_order(shard, leader, Message::Committed(report)),
        };
        match self.facts.core_of(shard) {
            here if here == self.index => bring(self),
            core => self.facts.mailboxes.send(core, move |core| bring(core)),
        }
    }
}
