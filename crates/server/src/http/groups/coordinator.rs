//! Asks the coordinators of groups. One that still reads its log is asked again for a while, so that whoever comes first to a
//! node that has just started need not know of that.

use std::time::Duration;

use protocol::groups::{
    Answer, Ask, CommitOffsets, DeleteGroup, DeleteOffsets, DescribeClassic, DescribeConsumer,
    DescribedClassic, DescribedConsumer, FetchOffsets, FetchTopic, FetchedTopic, GROUPS_TOPIC, GroupError,
    ListGroups, ListedGroup, Name, PartitionOutcome, Request,
};
use tokio::time::{Instant, sleep};

use crate::mailbox::Stopping;

use super::super::App;
use super::super::paging::Paging;

/// The time that a coordinator may read its log while somebody waits, and the pause before it is asked again.
const LOADING_WAIT: Duration = Duration::from_secs(5);
const LOADING_REST: Duration = Duration::from_millis(20);

/// Why a coordinator did not do what was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(in super::super) enum GroupRefusal {
    #[error(transparent)]
    Group(#[from] GroupError),
    #[error("the group's coordinator does not answer now; look before trying a change again")]
    NoCoordinator,
    #[error(transparent)]
    Stopping(#[from] Stopping),
}

/// A group by either protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum DescribedGroup {
    Classic(DescribedClassic),
    Consumer(DescribedConsumer),
}

impl DescribedGroup {
    pub(super) fn member_count(&self) -> usize {
        match self {
            DescribedGroup::Classic(group) => group.members.len(),
            DescribedGroup::Consumer(group) => group.members.len(),
        }
    }
}

/// The groups of all coordinators that a page begins with, by name.
pub(super) async fn list(app: &App, paging: &Paging) -> Result<Vec<ListedGroup>, GroupRefusal> {
    patiently(|| async {
        let paging = paging.clone();
        let asked = app.cores.ask_metadata(move |core| async move {
            let all = core.list_groups(&ListGroups::default()).await;
            let groups = all.map_err(no_coordinator)??;
            Ok(paging.first_by_name(groups, |group| &group.group))
        });
        asked.await?
    })
    .await
}

/// A group as it stands.
pub(super) async fn describe(app: &App, group: &Name) -> Result<DescribedGroup, GroupRefusal> {
    let classic = DescribeClassic {
        group: Name::clone(group),
    };
    match ask(app, classic).await {
        // Perhaps it is of the other type.
        Err(GroupRefusal::Group(GroupError::GroupNotFound { .. })) => {}
        described => return described.map(DescribedGroup::Classic),
    }
    let consumer = DescribeConsumer {
        group: Name::clone(group),
    };
    ask(app, consumer).await.map(DescribedGroup::Consumer)
}

/// The offsets that a group has committed: of these topics, or of all. A group that is not there has committed nothing.
pub(super) async fn fetch_offsets(
    app: &App,
    group: &Name,
    topics: Option<Vec<FetchTopic>>,
) -> Result<Vec<FetchedTopic>, GroupRefusal> {
    let fetch = FetchOffsets {
        group: Name::clone(group),
        member: None,
        topics,
    };
    ask(app, fetch).await
}

/// Commits offsets; durable on return, an outcome for each in order.
pub(super) async fn commit_offsets(
    app: &App,
    commit: CommitOffsets,
) -> Result<Vec<PartitionOutcome>, GroupRefusal> {
    ask(app, commit).await
}

/// Takes offsets away; durable on return, an outcome for each in order.
pub(super) async fn delete_offsets(
    app: &App,
    delete: DeleteOffsets,
) -> Result<Vec<PartitionOutcome>, GroupRefusal> {
    ask(app, delete).await
}

/// Deletes a group with its offsets; durable on return.
pub(super) async fn delete(app: &App, group: &Name) -> Result<(), GroupRefusal> {
    let delete = DeleteGroup {
        group: Name::clone(group),
    };
    ask(app, delete).await
}

/// Has the coordinator of the request's group answer it.
async fn ask<Q: Ask + Clone>(app: &App, request: Q) -> Result<Q::Answer, GroupRefusal> {
    patiently(|| async {
        let answer = ask_once(app, request.clone().into()).await?;
        let answer = Q::take(answer).expect("an answer is of its request's kind");
        Ok(answer?)
    })
    .await
}

/// Only a commit makes a group, and with the first group the groups' topic: to ask about a group makes nothing.
async fn ask_once(app: &App, request: Request) -> Result<Answer, GroupRefusal> {
    let asked = app.cores.ask_metadata(move |core| async move {
        let makes = matches!(request, Request::CommitOffsets(_));
        if !makes && core.with_metadata(|metadata| metadata.topic_named(GROUPS_TOPIC).is_none()) {
            let group = request.group().cloned().unwrap_or_default();
            return Err(GroupRefusal::Group(GroupError::GroupNotFound { group }));
        }
        core.ask_coordinator(request).await.map_err(no_coordinator)
    });
    asked.await?
}

fn no_coordinator(_: kafka_wire::ErrorCode) -> GroupRefusal {
    GroupRefusal::NoCoordinator
}

/// Asks again while a coordinator is loading. It has done nothing then.
async fn patiently<T, F>(mut ask: impl FnMut() -> F) -> Result<T, GroupRefusal>
where
    F: Future<Output = Result<T, GroupRefusal>>,
{
    let deadline = Instant::now() + LOADING_WAIT;
    loop {
        match ask().await {
            Err(GroupRefusal::Group(GroupError::Loading)) if Instant::now() < deadline => {
                sleep(LOADING_REST).await;
            }
            answered => return answered,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Asks a coordinator that says `first` this number of times and then something else; returns the number of questions, and
    /// its last answer.
    fn ask_until(first: &GroupError, times: u32) -> (u32, Result<(), GroupRefusal>) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("there is a thread");
        let asked = Cell::new(0);
        let answer = runtime.block_on(patiently(|| async {
            asked.set(asked.get() + 1);
            match asked.get() <= times {
                true => Err(GroupRefusal::Group(first.clone())),
                false => Ok(()),
            }
        }));
        (asked.get(), answer)
    }

    #[test]
    fn a_coordinator_that_reads_its_log_is_waited_for_and_not_for_ever() {
        assert_eq!(ask_until(&GroupError::Loading, 3), (4, Ok(())));
        let (asked, answer) = ask_until(&GroupError::Loading, u32::MAX);
        assert_eq!(answer, Err(GroupRefusal::Group(GroupError::Loading)));
        let most = LOADING_WAIT.as_millis() / LOADING_REST.as_millis() + 1;
        assert!(u128::from(asked) <= most, "{asked}");
        // Of any other refusal it is not known whether something was done.
        let refused = GroupError::NotPersisted;
        assert_eq!(
            ask_until(&refused, 3),
            (1, Err(GroupRefusal::Group(refused.clone())))
        );
    }
}
