//! Asks the coordinators of groups.

use crate::mailbox::Stopping;
use protocol::groups::{
    Answer, Ask, CommitOffsets, DeleteGroup, DeleteOffsets, DescribeClassic, DescribeConsumer,
    DescribedClassic, DescribedConsumer, FetchOffsets, FetchTopic, FetchedTopic, GROUPS_TOPIC, GroupError,
    ListGroups, ListedGroup, Name, PartitionOutcome, Request,
};

use super::super::App;
use super::super::loading::patiently;
use super::super::paging::Paging;

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

impl GroupRefusal {
    fn is_loading(&self) -> bool {
        matches!(self, GroupRefusal::Group(GroupError::Loading))
    }
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
    let ask = || async {
        let paging = paging.clone();
        let asked = app.cores.ask_metadata(move |core| async move {
            let all = core.list_groups(&ListGroups::default()).await;
            let groups = all.map_err(no_coordinator)??;
            Ok(paging.first_by_name(groups, |group| &group.group))
        });
        asked.await?
    };
    patiently(ask, GroupRefusal::is_loading).await
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
        require_stable: false,
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
    let ask = || async {
        let answer = ask_once(app, request.clone().into()).await?;
        let answer = Q::take(answer).expect("an answer is of its request's kind");
        Ok(answer?)
    };
    patiently(ask, GroupRefusal::is_loading).await
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
