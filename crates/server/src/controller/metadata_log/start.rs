//! The start of a member: its part of the group is opened, or founded, and this start is committed there before anything is served.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use metadata_group::{FoundError, Group, GroupIdentity, Parts, ProposeError, Settings, Status};
use platform::disk::Disk;
use platform::work::Work;
use protocol::ApplyError;
use protocol::metadata::{Command, Metadata, image_entries};
use record::{ClusterId, Offset};
use tokio::time::{sleep, timeout};

use super::{Applier, Links, MetadataLog, News, REST, member};
use crate::core::{Core, METADATA_PARTITION};

/// The longest that a node waits at its start for the metadata.
const START: Duration = Duration::from_secs(60);

impl Core {
    /// On core 0: takes part in the group from now on.
    ///
    /// # Errors
    /// A sentence for the operator: the part that is kept cannot be used.
    pub(crate) async fn begin_group(&self, disk: Arc<dyn Disk>, work: Arc<dyn Work>) -> Result<(), String> {
        let log = self.own_metadata_log();
        let identity = GroupIdentity {
            cluster: self.facts.cluster,
            own: member(self.facts.node, self.facts.directory),
        };
        let parts = Parts {
            disk,
            work,
            random: self.facts.random.clone(),
            transport: Rc::new(Links(self.peers.clone())),
        };
        let applier = Applier(log.applied.clone());
        let started = Group::start(identity, parts, &Settings::default(), Box::new(applier)).await;
        let group = started.map_err(|error| error.to_string())?;
        assert!(log.group.set(group).is_ok(), "a node starts once");
        Ok(())
    }

    /// On core 0 of a node that has been alone, or is new: founds the group, with the metadata so far. Does nothing where that was done.
    ///
    /// # Errors
    /// A sentence for the operator.
    pub(crate) async fn found_group(self: &Rc<Core>, mut image: Metadata) -> Result<(), String> {
        if image.cluster().is_none() {
            for command in Metadata::founding(self.facts.cluster) {
                image.apply(&command).expect("nothing was before");
            }
        }
        let log = self.own_metadata_log();
        let group = log.started();
        // It may have been founded by a start that did not come further.
        if let Err(error @ FoundError::Stopped(_)) = group.found().await {
            return Err(error.to_string());
        }
        let has_image = || log.applied.image.borrow().metadata().cluster().is_some();
        while !has_image() {
            for entry in image_entries(&image) {
                match group.propose(entry).await {
                    Ok(_) => {}
                    Err(error @ (ProposeError::Stopped(_) | ProposeError::TooLong(_))) => {
                        return Err(error.to_string());
                    }
                    // All parts again: others need not have come.
                    Err(_) => {
                        sleep(REST).await;
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    /// On core 0, once the directory says that it has its part of the group: gives up the log of the node that was alone.
    pub(crate) fn forget_own_log(&self) {
        self.shard(0).delete_partition(METADATA_PARTITION);
    }

    /// On core 0: has this start be committed. Returns the image that has it, and the offset of the first entry that the image lacks.
    ///
    /// # Errors
    /// A sentence for the operator.
    pub(crate) async fn commit_start(self: &Rc<Core>, start: Command) -> Result<(Metadata, Offset), String> {
        let committed = timeout(START, self.first_image(&start)).await;
        committed.unwrap_or_else(|_| {
            Err(format!(
                "this node's start was not committed in the cluster's metadata within {} s: {}; see the warnings before this",
                START.as_secs(),
                self.own_metadata_log().waits_for()
            ))
        })
    }

    async fn first_image(self: &Rc<Core>, start: &Command) -> Result<(Metadata, Offset), String> {
        let log = self.own_metadata_log();
        let mut arrivals = log.news.take().expect("a node starts once");
        let mut refusal = log.refusal.subscribe();
        let (number, entry) = log.next_proposal(std::slice::from_ref(start));
        let mut proposing = std::pin::pin!(self.keep_proposing(entry));
        loop {
            let news = tokio::select! {
                biased;
                refused = refusal.wait_for(Option::is_some) => {
                    let why = refused.map(|why| why.clone().unwrap_or_default());
                    return Err(format!("{}: {}", self.overtaken(), why.unwrap_or_default()));
                }
                news = arrivals.recv() => news.ok_or("the node is stopping")?,
                error = &mut proposing => return Err(error.to_string()),
            };
            let News::Commands(_, proposal, outcomes) = news else {
                // Its outcome is in the image alone.
                match log.has_counted(number) {
                    true => break,
                    false => continue,
                }
            };
            if log.is_own(&proposal) {
                match outcomes.into_iter().next().expect("a start is one command") {
                    Ok(()) => break,
                    Err(ApplyError::StartPassed { known, .. }) => {
                        return Err(format!("{}: start {known} was told", self.overtaken()));
                    }
                    Err(error) => return Err(format!("this start does not fit the metadata: {error}")),
                }
            }
        }
        // All that has come by now is in the image of the group.
        while arrivals.try_recv().is_ok() {}
        let image = log.applied.whole();
        *log.news.borrow_mut() = Some(arrivals);
        check_cluster(&image, self.facts.cluster)?;
        match image.home(self.facts.node).map(|home| home.start) {
            Some(start) if start == self.facts.incarnation => Ok((*image, log.applied.next.get())),
            _ => Err(self.overtaken()),
        }
    }
}

impl MetadataLog {
    /// The thing that a start waits for, as operators are told.
    fn waits_for(&self) -> String {
        match self.status() {
            Some(status) if status.voters.is_empty() => {
                "no node of the cluster has told this one its metadata".to_owned()
            }
            Some(Status {
                leader: None, voters, ..
            }) => {
                let voters: Vec<String> = voters.iter().map(|voter| voter.node.to_string()).collect();
                format!(
                    "no majority of the nodes with a vote ({}) is reached",
                    voters.join(", ")
                )
            }
            _ => "the node that leads the metadata did not answer".to_owned(),
        }
    }
}

pub(super) fn check_cluster(image: &Metadata, expected: ClusterId) -> Result<(), String> {
    match image.cluster() {
        Some(found) if found == expected => Ok(()),
        found => Err(format!(
            "the metadata is of cluster {}, and this directory of cluster {expected}",
            found.map_or_else(|| "none".to_owned(), |found| found.to_string())
        )),
    }
}
