//! Orders on a whole node, from its cores.

use futures_util::poll;
use platform::disk::SimulatedDisk;
use protocol::metadata::{ConfigChange, NewTopic, Plans};
use protocol::order::Place;
use record::{BatchBuilder, Compression};
use shard::{Acks, AppendRequest};

use super::*;
use crate::node::tests::{change, facts_of, start_on, wait};

const TOPIC: TopicId = TopicId([7; 16]);
const PARTITIONS: i32 = 2;

/// Cuts that a reader has taken from the shards arrive, though the reader is gone before.
#[test]
fn a_reader_that_goes_away_takes_no_cuts_with_it() {
    let node = start_on(&SimulatedDisk::new(), 2).expect("the node starts");
    let topic = NewTopic {
        id: TOPIC,
        name: "t".into(),
        partition_count: PARTITIONS,
        replica_count: 1,
        chosen: None,
        config: vec![ConfigChange::set("ropewalk.order", "total")],
    };
    change(&node, move |metadata| {
        metadata.plan_topic(&topic, &mut Plans::default())
    });
    let facts = facts_of(&node);
    for index in 0..PARTITIONS {
        let id = PartitionId { topic: TOPIC, index };
        let shard = facts.shard_of(id);
        let appended = facts
            .mailboxes
            .call(facts.core_of(shard), move |core| async move {
                let mut builder = BatchBuilder::new(Compression::None);
                builder.append(0, None, Some(b"value"), &[]);
                let (request, answer) = AppendRequest::new(id, builder.build(), Acks::Quorum);
                core.shard(shard).append(request);
                answer.await.is_ok_and(|answer| answer.is_ok())
            });
        assert_eq!(wait(appended), Ok(true));
    }
    let found = facts.mailboxes.call(facts.home_of(TOPIC), |core| async move {
        let home = core.home(TOPIC).expect("it is open");
        {
            let mut gone = Box::pin(home.ordered(&core));
            assert!(poll!(&mut gone).is_pending(), "others are asked");
        }
        let found = home.places(&core, Position(0), 10).await;
        found.map(|found| found.places.iter().map(Place::count).sum::<u64>())
    });
    assert_eq!(wait(found), Ok(Ok(PARTITIONS as u64)));
}
