//! The way of reports: from the leaders of a topic with one order to the node that leads the log of that.
//!
//! A report, or the answer to it, may be lost with a link or a node. Until it is answered, all of it is reported again and again, to whoever leads the log by then.

use std::rc::Rc;
use std::time::Duration;

use protocol::order::Committed;
use protocol::peer::Message;
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
    fn report(&self, of: usize, report: Committed) {
        let log = self.facts.pages_of(report.partition.topic);
        let leader = self.with_metadata(|metadata| Some(metadata.partition(log)?.leader));
        // Its log may not be made yet.
        let Some(leader) = leader else { return };
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
