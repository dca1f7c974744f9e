//! The way of committed changes to the cores: one after the other, each on all cores before its proposer is told.

use std::future::pending;
use std::rc::Rc;
use std::sync::Arc;

use futures_util::future::join_all;
use metadata_group::Watch;
use protocol::metadata::{Command, Metadata};
use record::Offset;

use super::News;
use super::start::check_cluster;
use crate::core::Core;

impl Core {
    /// On core 0, once the cores have the image that has every entry before an offset: takes what the group commits from there on, until the
    /// node stops.
    pub(crate) async fn follow_group(self: Rc<Core>, from: Offset) {
        let log = self.own_metadata_log();
        log.image_offset.send_replace(Some(from));
        let mut arrivals = log.news.take().expect("the node has started and follows once");
        let mut watch = log.started().watch();
        loop {
            let taken = tokio::select! {
                biased;
                failure = until_failed(&mut watch) => Err(failure),
                news = arrivals.recv() => match news {
                    Some(news) => self.take_news(news).await,
                    None => return,
                },
            };
            if let Err(error) = taken {
                if !self.is_draining() {
                    // It would go on to serve a state that is not the cluster's any more.
                    tracing::error!(%error, "this node cannot follow the metadata any more, and ends");
                    self.lost.notify_one();
                }
                return;
            }
        }
    }

    async fn take_news(&self, news: News) -> Result<(), String> {
        let log = self.own_metadata_log();
        let next = match news {
            News::Image(next, image, counted) => {
                check_cluster(&image, self.facts.cluster)?;
                self.check_own_start(image.home(self.facts.node).map_or(0, |home| home.start))?;
                self.install_everywhere(*image).await?;
                // An image does not tell the outcome of each.
                log.waiting.borrow_mut().retain(|number, _| *number > counted);
                next
            }
            News::Commands(next, proposal, outcomes) => {
                let own = self.facts.node;
                for command in &proposal.commands {
                    match command {
                        Command::StartNode {
                            node,
                            home: Some(home),
                            ..
                        } if *node == own => self.check_own_start(home.start)?,
                        _ => {}
                    }
                }
                let waiting = log
                    .is_own(&proposal)
                    .then(|| log.waiting.borrow_mut().remove(&proposal.number));
                let (here, told) = self.apply_everywhere(proposal.commands).await;
                told.map_err(|stopping| stopping.to_string())?;
                assert!(here == outcomes, "the same entries make the same image");
                // A proposer asks next for what it has changed.
                log.image_offset.send_replace(Some(next));
                if let Some(waiting) = waiting.flatten() {
                    // A proposer that has given up is not told.
                    let _ = waiting.send(outcomes);
                }
                next
            }
        };
        log.image_offset.send_replace(Some(next));
        Ok(())
    }

    fn check_own_start(&self, told: u64) -> Result<(), String> {
        match told > self.facts.incarnation {
            true => Err(self.overtaken()),
            false => Ok(()),
        }
    }

    async fn install_everywhere(&self, image: Metadata) -> Result<(), String> {
        tracing::info!("the metadata was followed too late, and is taken over as a whole");
        let image = Arc::new(image);
        let each = (0..self.facts.mailboxes.cores()).map(|core| {
            let image = image.clone();
            let install = move |core: Rc<Core>| async move { core.install(&image).await };
            self.facts.mailboxes.carry_out(core, install)
        });
        let installed: Result<Vec<Result<(), String>>, _> = join_all(each).await.into_iter().collect();
        let installed = installed.map_err(|stopping| stopping.to_string())?;
        installed.into_iter().collect()
    }
}

/// Waits until the group has ended by itself. Returns the reason.
async fn until_failed(watch: &mut Watch) -> String {
    loop {
        if let Some(failure) = watch.now().failure {
            return failure;
        }
        if watch.changed().await.is_none() {
            return pending().await;
        }
    }
}
