//! Offsets that cannot be: each is refused by itself, and what stands beside it is committed.

use std::time::Duration;

use protocol::groups::{Answer, FetchOffsets, FetchTopic, GroupError, Name, Request, Settings, TopicChange};
use record::TopicId;

use crate::{CLASSIC, Stand, at_once, commit};

fn outcomes(stand: &mut Stand, request: protocol::groups::CommitOffsets) -> Vec<Option<GroupError>> {
    match stand.ask(Request::CommitOffsets(request)) {
        Answer::CommitOffsets(Ok(outcomes)) => outcomes.into_iter().map(|one| one.outcome.err()).collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_cannot_be_committed_does_not_hold_up_what_can() {
    let mut stand = Stand::new();
    let ann = stand.ann.to_string();
    let told = outcomes(
        &mut stand,
        commit(
            CLASSIC,
            &ann,
            1,
            &[(0, 5, 4096), (-1, 6, 0), (1, 7, 4097), (i32::MIN, 8, 0)],
        ),
    );
    let impossible = Some(GroupError::InvalidRequest {
        what: "a partition's index is not negative",
    });
    let too_large = Some(GroupError::OffsetMetadataTooLarge {
        bytes: 4097,
        bytes_max: 4096,
    });
    assert_eq!(told, [None, impossible.clone(), too_large, impossible]);
    assert_eq!(stand.committed(CLASSIC), [(0, 5)]);
}

/// A client's numbers are its own: they are kept as they are, and overflow nothing.
#[test]
fn any_offset_is_kept_as_it_is() {
    let mut stand = Stand::new();
    let ann = stand.ann.to_string();
    for offset in [i64::MAX, i64::MIN, -1, 0] {
        let told = outcomes(
            &mut stand,
            commit(CLASSIC, &ann, 1, &[(i32::MAX, offset, 0), (0, offset, 0)]),
        );
        assert_eq!(told, [None, None]);
        assert_eq!(stand.committed(CLASSIC), [(0, offset), (i32::MAX, offset)]);
        stand.now += Duration::from_secs(1);
    }
}

#[test]
fn a_commit_is_no_larger_than_what_the_log_takes() {
    let settings = Settings {
        commit_bytes_max: 10_000,
        ..at_once()
    };
    let mut stand = Stand::with_groups(settings);
    let ann = stand.ann.to_string();
    let error = stand.refused(Request::CommitOffsets(commit(
        CLASSIC,
        &ann,
        1,
        &[(0, 5, 4096), (0, 6, 4096), (0, 7, 4096)],
    )));
    assert!(
        matches!(error, GroupError::LimitReached { max: 10_000, .. }),
        "{error}"
    );
    // A note that is refused takes nothing, however long it is.
    let told = outcomes(
        &mut stand,
        commit(CLASSIC, &ann, 1, &[(0, 5, 4096), (1, 6, 100_000)]),
    );
    assert_eq!(told.iter().filter(|error| error.is_some()).count(), 1);
    assert_eq!(stand.committed(CLASSIC), [(0, 5)]);
}

#[test]
fn a_group_has_offsets_of_so_many_partitions() {
    let settings = Settings {
        offsets_max: 2,
        ..at_once()
    };
    let mut stand = Stand::with_groups(settings);
    let ann = stand.ann.to_string();
    let told = outcomes(
        &mut stand,
        commit(CLASSIC, &ann, 1, &[(0, 5, 0), (1, 5, 0), (2, 5, 0)]),
    );
    assert_eq!(told.iter().filter(|error| error.is_some()).count(), 1);
    // Those that are known go on.
    let told = outcomes(&mut stand, commit(CLASSIC, &ann, 1, &[(1, 6, 0), (3, 6, 0)]));
    assert_eq!(told[0], None);
    assert!(told[1].is_some());
    assert_eq!(stand.committed(CLASSIC), [(0, 5), (1, 6)]);
}

/// A few bytes ask for a note of some thousand: not as often as one likes.
#[test]
fn a_partition_is_asked_for_once() {
    let mut stand = Stand::new();
    let fetch = |topics: &[(&str, &[i32])]| {
        let topics = topics.iter().map(|(topic, partitions)| FetchTopic {
            topic: Name::from(*topic),
            partitions: partitions.to_vec(),
        });
        Request::FetchOffsets(FetchOffsets {
            group: Name::from(CLASSIC),
            member: None,
            topics: Some(topics.collect()),
            require_stable: false,
        })
    };
    for request in [
        fetch(&[("orders", &[0, 1, 0])]),
        fetch(&[("orders", &[0]), ("orders", &[0])]),
    ] {
        let error = stand.refused(request);
        assert!(matches!(error, GroupError::InvalidRequest { .. }), "{error}");
    }
    let fetched = stand.ask(fetch(&[
        ("orders", &[0, 1]),
        ("payments", &[0]),
        ("orders", &[2]),
    ]));
    assert!(matches!(fetched, Answer::FetchOffsets(Ok(_))), "{fetched:?}");
}

/// The core that has it may hear of a topic later than the one that takes the commit.
#[test]
fn a_commit_may_be_ahead_of_the_news_of_its_topic() {
    let settings = Settings {
        offsets_check_interval: Duration::from_millis(10),
        ..at_once()
    };
    let mut stand = Stand::empty(settings);
    let (payments, never) = (TopicId([2; 16]), TopicId([3; 16]));
    let mut early = commit("early", "", -1, &[(0, 5, 0), (1, 6, 0)]);
    for (wanted, (topic, id)) in early
        .partitions
        .iter_mut()
        .zip([("payments", payments), ("never", never)])
    {
        (wanted.partition.topic, wanted.topic_id) = (Name::from(topic), id);
    }
    assert_eq!(outcomes(&mut stand, early), [None, None]);
    stand.now = Duration::from_secs(5);
    stand.settle();
    assert_eq!(stand.committed("early").len(), 2);
    let news = TopicChange::There {
        topic: Name::from("payments"),
        id: payments,
        partition_count: 1,
    };
    stand.coordinator.handle_topics(stand.now, [news]);
    stand.now = Duration::from_secs(60);
    stand.settle();
    assert_eq!(stand.committed("early"), [(0, 5)]);
}
