//! DescribeTopicPartitions: topics told page by page, and cursors that nobody was given.

use kafka_wire::describe_topic_partitions::{Cursor, TopicRequest};
use kafka_wire::{DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse, ErrorCode};

use crate::ask::code;
use crate::support::{TestNode, Wire};

fn page(
    wire: &mut Wire,
    names: &[&str],
    cursor: Option<(&str, i32)>,
    limit: i32,
) -> DescribeTopicPartitionsResponse {
    let request = DescribeTopicPartitionsRequest {
        topics: names
            .iter()
            .map(|name| TopicRequest { name: (*name).into() })
            .collect(),
        response_partition_limit: limit,
        cursor: cursor.map(|(topic_name, partition_index)| Cursor {
            topic_name: topic_name.into(),
            partition_index,
        }),
    };
    wire.call(0, &request)
}

/// Topics with the partitions told of each, and where the next page begins.
fn shape(page: &DescribeTopicPartitionsResponse) -> (Vec<String>, Option<(String, i32)>) {
    let topics = page.topics.iter().map(|topic| {
        let indexes: Vec<i32> = topic
            .partitions
            .iter()
            .map(|partition| partition.partition_index)
            .collect();
        format!("{}{indexes:?}", topic.name.as_deref().unwrap_or_default())
    });
    let cursor = page.next_cursor.as_ref();
    (
        topics.collect(),
        cursor.map(|cursor| (cursor.topic_name.to_string(), cursor.partition_index)),
    )
}

#[test]
fn topics_are_told_page_by_page() {
    let node = TestNode::start();
    let mut wire = node.connect();
    for (name, partitions) in [("b", 3), ("a", 2), ("c", 1)] {
        wire.create_topic(name, partitions, &[]);
    }
    let whole = page(&mut wire, &[], None, 100);
    assert_eq!(
        shape(&whole),
        (vec!["a[0, 1]".into(), "b[0, 1, 2]".into(), "c[0]".into()], None)
    );
    let partition = &whole.topics[1].partitions[2];
    assert_eq!(
        (partition.leader_id, partition.replica_nodes.as_slice()),
        (1, [1].as_slice())
    );

    for limit in 1..=7 {
        let (mut told, mut cursor) = (Vec::new(), None);
        // One more than there can be.
        for _ in 0..7 {
            let at = cursor
                .as_ref()
                .map(|(name, index): &(String, i32)| (name.as_str(), *index));
            let found = page(&mut wire, &[], at, limit);
            let partitions: usize = found.topics.iter().map(|topic| topic.partitions.len()).sum();
            assert!(partitions as i32 <= limit);
            for topic in &found.topics {
                let name = topic.name.as_deref().unwrap_or_default();
                told.extend(
                    topic
                        .partitions
                        .iter()
                        .map(|it| format!("{name}{}", it.partition_index)),
                );
            }
            cursor = shape(&found).1;
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(told, ["a0", "a1", "b0", "b1", "b2", "c0"], "in pages of {limit}");
        assert_eq!(cursor, None, "in pages of {limit}");
    }
    for limit in [0, -5] {
        assert_eq!(
            shape(&page(&mut wire, &[], None, limit)).1,
            Some(("a".into(), 1)),
            "one at least"
        );
    }
    // A topic that was deleted between two pages is passed over.
    let beyond = page(&mut wire, &[], Some(("aa", 1)), 100);
    assert_eq!(shape(&beyond).0, ["b[0, 1, 2]", "c[0]"]);
    let named = page(&mut wire, &["c", "nowhere", "b", "c", "a/b"], Some(("b", 1)), 100);
    assert_eq!(
        shape(&named),
        (vec!["b[1, 2]".into(), "c[0]".into(), "nowhere[]".into()], None)
    );
    assert_eq!(
        code(named.topics[2].error_code),
        ErrorCode::UnknownTopicOrPartition
    );
    let ill_named = page(&mut wire, &["a/b"], None, 100);
    assert_eq!(
        code(ill_named.topics[0].error_code),
        ErrorCode::InvalidTopicException
    );
}

#[test]
fn a_cursor_that_points_nowhere_is_refused() {
    let node = TestNode::start();
    let mut wire = node.connect();
    wire.create_topic("a", 2, &[]);
    for cursor in [("b", 0), ("a", -1)] {
        let told = page(&mut wire, &["a"], Some(cursor), 10);
        assert_eq!(
            code(told.topics[0].error_code),
            ErrorCode::InvalidRequest,
            "{cursor:?}"
        );
        assert!(told.topics[0].partitions.is_empty() && told.next_cursor.is_none());
    }
    let past = page(&mut wire, &[], Some(("a", i32::MAX)), 10);
    assert_eq!(shape(&past), (vec!["a[]".into()], None));
}
