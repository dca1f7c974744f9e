//! Bounds of what topics take: kept by every plan, by any client, and given back exactly.

use proptest::prelude::*;
use record::{ClusterId, TopicId};

use super::*;
use crate::leader::NodeId;
use crate::metadata::{Address, ConfigEdit, ConfigOperation, ConfigTarget, ConfigWish, NewTopic};

const BYTES_MAX: usize = 40_000;
const LIST: &str = "leader.replication.throttled.replicas";

fn image() -> Metadata {
    let mut image = Metadata::new(TopicConfig::new());
    let cluster = ClusterId([9; 16]);
    let address = Address {
        host: "rope".into(),
        port: 9092,
    };
    for command in [
        Command::FormatCluster { cluster },
        Command::StartNode {
            node: NodeId(0),
            address,
            home: None,
            rack: None,
        },
    ] {
        image.apply(&command).expect("new");
    }
    image
}

fn client(number: u8) -> Option<IpAddr> {
    Some(IpAddr::from([10, 0, 0, number]))
}

fn plans(client: Option<IpAddr>) -> Plans {
    let limits = PlanLimits {
        bytes_max: BYTES_MAX,
        ..PlanLimits::default()
    };
    Plans::of(limits, client)
}

fn list(bytes: usize) -> String {
    "0:1,".repeat(bytes / 4) + "0:1"
}

/// A wish of somebody about the topic with a number.
#[derive(Debug, Clone)]
enum Wish {
    Create { partitions: i32, list_bytes: usize },
    Grow { partitions: i32 },
    SetList { bytes: usize },
    UnsetList,
    Delete,
}

impl Wish {
    fn plan(&self, image: &Metadata, number: u8, plans: &mut Plans) -> Result<Command, PlanError> {
        let id = TopicId([number; 16]);
        let edit = |operation, value: &str| {
            let edit = ConfigEdit {
                name: LIST.into(),
                operation,
                value: value.into(),
            };
            ConfigWish::Edit(vec![edit])
        };
        match self {
            Wish::Create {
                partitions,
                list_bytes,
            } => {
                let topic = NewTopic {
                    id,
                    name: format!("topic-{number}").into(),
                    partition_count: *partitions,
                    replica_count: 1,
                    chosen: None,
                    config: vec![ConfigChange::set(LIST, &list(*list_bytes))],
                };
                image.plan_topic(&topic, plans)
            }
            Wish::Grow { partitions } => {
                let there = image.topic(id).map_or(0, Topic::partition_count);
                image.plan_partitions(id, there + partitions, plans)
            }
            Wish::SetList { bytes } => {
                let wish = edit(ConfigOperation::Set, &list(*bytes));
                image.plan_configs(ConfigTarget::Topic(id), &wish, plans)
            }
            Wish::UnsetList => {
                let wish = edit(ConfigOperation::Delete, "");
                image.plan_configs(ConfigTarget::Topic(id), &wish, plans)
            }
            Wish::Delete => image.plan_topic_deletion(id),
        }
    }
}

/// Carries out what is planned for one client on one image.
fn carry_out(
    image: &mut Metadata,
    client: Option<IpAddr>,
    wishes: &[(u8, Wish)],
) -> (Vec<Command>, Vec<PlanError>) {
    let mut plans = plans(client);
    let (mut made, mut refused) = (Vec::new(), Vec::new());
    for (number, wish) in wishes {
        match wish.plan(image, *number, &mut plans) {
            Ok(command) => made.push(command),
            Err(error) => refused.push(error),
        }
    }
    for command in &made {
        image.apply(command).expect("each is about another topic");
    }
    (made, refused)
}

fn one(image: &mut Metadata, client: Option<IpAddr>, number: u8, wish: Wish) -> Result<(), PlanError> {
    let (_, refused) = carry_out(image, client, &[(number, wish)]);
    refused.into_iter().next().map_or(Ok(()), Err)
}

fn small() -> Wish {
    Wish::Create {
        partitions: 1,
        list_bytes: 0,
    }
}

/// The same counts, made of what there is.
fn counted_anew(image: &Metadata) -> Taken {
    let mut taken = Taken::default();
    for topic in image.topics() {
        let replicas: Vec<ReplicaSet> = image.partitions(topic).map(|state| state.replicas).collect();
        let bytes = new_topic_bytes(&topic.name, &replicas, &topic.config);
        assert_eq!(topic.bytes, bytes, "{}", topic.name);
        taken.add(topic);
    }
    taken
}

#[test]
fn a_client_that_has_its_share_is_refused_and_others_are_not() {
    let mut image = image();
    let greedy = (1..100).find_map(|number| one(&mut image, client(1), number, small()).err());
    let share_max = BYTES_MAX / 2;
    assert_eq!(greedy, Some(PlanError::MetadataShareTaken { share_max }));
    assert_eq!(one(&mut image, client(2), 200, small()), Ok(()));
    // It has what it has, may make it smaller, and give it back.
    let longer = one(&mut image, client(1), 1, Wish::SetList { bytes: 2_000 });
    assert_eq!(longer, Err(PlanError::MetadataShareTaken { share_max }));
    assert_eq!(one(&mut image, client(1), 1, Wish::UnsetList), Ok(()));
    assert_eq!(one(&mut image, client(1), 1, Wish::Delete), Ok(()));
    assert_eq!(one(&mut image, client(1), 1, small()), Ok(()));
}

#[test]
fn what_two_clients_fill_is_full_for_all_but_the_node() {
    let mut image = image();
    for number in 1..100 {
        let _ = one(&mut image, client(number % 2), number, small());
    }
    let full = PlanError::MetadataFull { bytes_max: BYTES_MAX };
    assert_eq!(one(&mut image, client(3), 200, small()), Err(full.clone()));
    assert_eq!(one(&mut image, None, 201, small()), Ok(()));
    // Nothing that was there is touched by a lower bound, and what makes room is taken.
    let mut lower = Plans::of(
        PlanLimits {
            bytes_max: 1,
            ..PlanLimits::default()
        },
        client(1),
    );
    for wish in [Wish::UnsetList, Wish::SetList { bytes: 0 }, Wish::Delete] {
        assert!(wish.plan(&image, 1, &mut lower).is_ok(), "{wish:?}");
    }
}

#[test]
fn topics_count_for_whoever_made_them_larger_last() {
    let mut image = image();
    one(&mut image, client(1), 1, small()).expect("there is room");
    let small_bytes = image.topics_bytes();
    one(&mut image, client(2), 1, Wish::UnsetList).expect("smaller");
    assert_eq!(image.topics_bytes_of(client(2).expect("one")), 0);
    one(&mut image, client(2), 1, Wish::Grow { partitions: 3 }).expect("there is room");
    let [first, second] = [1, 2].map(|number| image.topics_bytes_of(client(number).expect("one")));
    assert_eq!((first, second), (0, image.topics_bytes()));
    assert!(second + CONFIGS_BYTES > small_bytes);
    one(&mut image, client(1), 1, Wish::Delete).expect("it is there");
    assert_eq!(image.taken, Taken::default());
}

fn any_wish() -> impl Strategy<Value = Wish> {
    prop_oneof![
        4 => (1..40, 0..6_000usize).prop_map(|(partitions, list_bytes)| Wish::Create { partitions, list_bytes }),
        2 => (1..40).prop_map(|partitions| Wish::Grow { partitions }),
        2 => (0..9_000usize).prop_map(|bytes| Wish::SetList { bytes }),
        1 => Just(Wish::UnsetList),
        1 => Just(Wish::Delete),
    ]
}

/// Wishes of one client, each about another topic.
fn any_request() -> impl Strategy<Value = (Option<IpAddr>, Vec<(u8, Wish)>)> {
    let wishes = prop::collection::btree_map(0..24u8, any_wish(), 1..6);
    (
        (1..4u8).prop_map(client),
        wishes.prop_map(|wishes| wishes.into_iter().collect()),
    )
}

proptest! {
    #[test]
    fn no_requests_take_more_than_there_is(requests in prop::collection::vec(any_request(), 1..60)) {
        let (mut image, mut commands) = (image(), Vec::new());
        for (client, wishes) in &requests {
            let (made, _) = carry_out(&mut image, *client, wishes);
            commands.extend(made);
            prop_assert!(image.topics_bytes() <= BYTES_MAX);
            for share in image.taken.shares.values() {
                prop_assert!(*share <= BYTES_MAX / 2);
            }
            prop_assert_eq!(&image.taken, &counted_anew(&image));
            for (number, wish) in wishes {
                let is_there = image.topic(TopicId([*number; 16])).is_some();
                prop_assert!(!is_there || !matches!(wish, Wish::Delete), "deletions are always taken");
            }
        }
        let mut replayed = self::image();
        for command in &commands {
            let read = Command::decode(&command.encode()).expect("just written");
            replayed.apply(&read).expect("it fitted");
        }
        prop_assert_eq!(&replayed, &image);
    }
}
