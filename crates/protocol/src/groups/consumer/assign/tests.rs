//! Tests of the assignors' promises: everything given once, to one that wants it; evenly; and moving no more than must be.

use proptest::prelude::*;

use super::*;

fn topic(number: u8) -> TopicId {
    TopicId([number; 16])
}

fn member_spec(number: usize, topics: &[u8], before: Assignment) -> MemberSpec {
    MemberSpec {
        member: Name::from(format!("m{number:04}")),
        instance: None,
        named: topics.iter().map(|number| topic(*number)).collect(),
        matched: Rc::default(),
        has: before.clone(),
        before,
    }
}

/// Members that want these topics, and had nothing.
fn group_spec(topics: &[(u8, i32)], members: &[&[u8]]) -> GroupSpec {
    GroupSpec {
        members: members
            .iter()
            .enumerate()
            .map(|(number, topics)| member_spec(number, topics, Assignment::default()))
            .collect(),
        topics: topics
            .iter()
            .map(|(number, count)| (topic(*number), *count))
            .collect(),
    }
}

fn loads(assigned: &[Assignment]) -> Vec<usize> {
    assigned.iter().map(Assignment::len).collect()
}

fn assert_sound(group_spec: &GroupSpec, assigned: &[Assignment]) {
    let mut given = Assignment::default();
    for (member_spec, mine) in group_spec.members.iter().zip(assigned) {
        for partition in mine.iter() {
            assert!(
                group_spec.may_keep(member_spec, partition),
                "only what is wanted and there"
            );
            assert!(given.insert(partition), "nothing is given twice");
        }
    }
    let readers = readers(&group_spec.members);
    for partition in group_spec.partitions() {
        assert_eq!(
            given.contains(partition),
            readers.contains_key(&partition.topic),
            "everything that is wanted is given"
        );
    }
}

fn spread(loads: &[usize]) -> usize {
    loads.iter().max().unwrap_or(&0) - loads.iter().min().unwrap_or(&0)
}

#[test]
fn range_cuts_topics_alike() {
    let group_spec = group_spec(&[(1, 5), (2, 5)], &[&[1, 2], &[1, 2]]);
    let assigned = Assignor::Range.assign(&group_spec);
    assert_sound(&group_spec, &assigned);
    let first: Vec<(u8, i32)> = assigned[0]
        .iter()
        .map(|partition| (partition.topic.0[0], partition.index))
        .collect();
    assert_eq!(first, [(1, 0), (1, 1), (1, 2), (2, 0), (2, 1), (2, 2)]);
}

#[test]
fn uniform_is_even_and_a_join_moves_only_what_it_must() {
    let mut group_spec = group_spec(&[(1, 10), (2, 7)], &[&[1, 2], &[1, 2], &[1, 2]]);
    let before = Assignor::Uniform.assign(&group_spec);
    assert_sound(&group_spec, &before);
    assert!(spread(&loads(&before)) <= 1);
    for (member, had) in group_spec.members.iter_mut().zip(&before) {
        member.before = had.clone();
    }
    group_spec
        .members
        .push(member_spec(3, &[1, 2], Assignment::default()));
    let after = Assignor::Uniform.assign(&group_spec);
    assert_sound(&group_spec, &after);
    assert!(spread(&loads(&after)) <= 1);
    let moved: usize = before
        .iter()
        .zip(&after)
        .map(|(before, after)| after.without(before).len())
        .sum();
    assert_eq!(moved, 0, "those who were here get nothing new");
    assert_eq!(after[3].len(), 4);
}

#[test]
fn what_a_member_has_not_yet_is_taken_from_it_first() {
    let mut group_spec = group_spec(&[(1, 4)], &[&[1], &[1]]);
    let partition = |index| PartitionId {
        topic: topic(1),
        index,
    };
    group_spec.members[0].before = (0..4).map(partition).collect();
    group_spec.members[0].has = (2..4).map(partition).collect();
    let assigned = Assignor::Uniform.assign(&group_spec);
    assert_eq!(assigned[0], group_spec.members[0].has);
}

#[test]
fn uniform_balances_different_wishes() {
    let group_spec = group_spec(&[(1, 6), (2, 6), (3, 1)], &[&[1], &[1, 2], &[2, 3], &[3]]);
    let assigned = Assignor::Uniform.assign(&group_spec);
    assert_sound(&group_spec, &assigned);
    assert_eq!(loads(&assigned), [4, 4, 4, 1]);
}

#[test]
fn a_thousand_members_and_ten_thousand_partitions() {
    let topics: Vec<(u8, i32)> = (0..100).map(|number| (number, 100)).collect();
    let all: Vec<u8> = (0..100).collect();
    let some: Vec<Vec<u8>> = (0..1000u32)
        .map(|member| {
            (0..100)
                .filter(|topic| (member + u32::from(*topic)) % 3 != 0)
                .collect()
        })
        .collect();
    let alike = group_spec(&topics, &vec![&all[..]; 1000]);
    let different = group_spec(
        &topics,
        &some.iter().map(|topics| &topics[..]).collect::<Vec<_>>(),
    );
    for group_spec in [alike, different] {
        for assignor in [Assignor::Uniform, Assignor::Range] {
            let assigned = assignor.assign(&group_spec);
            assert_sound(&group_spec, &assigned);
            if assignor == Assignor::Uniform {
                assert!(spread(&loads(&assigned)) <= 1);
            }
        }
    }
}

/// As many as one expression may bring together: what each wants must not be held for each.
#[test]
fn ten_thousand_members_and_ten_thousand_topics_by_one_expression() {
    let id = |number: u16| {
        let mut id = [0; 16];
        id[..2].copy_from_slice(&number.to_be_bytes());
        TopicId(id)
    };
    let nothing: &[u8] = &[];
    let mut group_spec = group_spec(&[], &vec![nothing; 10_000]);
    group_spec.topics = (0..10_000).map(|number| (id(number), 1)).collect();
    let matched: Rc<BTreeSet<TopicId>> = Rc::new(group_spec.topics.keys().copied().collect());
    for member in &mut group_spec.members {
        member.matched = Rc::clone(&matched);
    }
    for assignor in [Assignor::Uniform, Assignor::Range] {
        let assigned = assignor.assign(&group_spec);
        assert_eq!(loads(&assigned).iter().sum::<usize>(), 10_000);
        if assignor == Assignor::Uniform {
            assert_eq!(spread(&loads(&assigned)), 0);
        }
    }
}

/// One that had everything is joined by others who do not want the same: two thirds of it move.
#[test]
fn ten_topics_of_ten_thousand_partitions() {
    let topics: Vec<(u8, i32)> = (0..10).map(|number| (number, 10_000)).collect();
    let all: Vec<u8> = (0..10).collect();
    let mut group_spec = group_spec(&topics, &[&all[..], &all[..5], &all[5..]]);
    let everything: Assignment = group_spec.partitions().collect();
    group_spec.members[0].before = everything;
    let assigned = Assignor::Uniform.assign(&group_spec);
    assert_sound(&group_spec, &assigned);
    assert!(spread(&loads(&assigned)) <= 1);
}

fn any_group_spec(alike: bool) -> impl Strategy<Value = GroupSpec> {
    let topics = prop::collection::vec(0..9i32, 4);
    let members = prop::collection::vec((0..16u8, prop::collection::vec((0..5u8, 0..10i32), 0..12)), 1..7);
    (topics, members).prop_map(move |(counts, members)| {
        let members: Vec<MemberSpec> = members
            .into_iter()
            .enumerate()
            .map(|(number, (wanted, had))| {
                let wanted: Vec<u8> = (0..4)
                    .filter(|topic| alike || wanted & (1 << topic) != 0)
                    .collect();
                let had = had.into_iter().map(|(number, index)| PartitionId {
                    topic: topic(number),
                    index,
                });
                member_spec(number, &wanted, had.collect())
            })
            .collect();
        let wanted = |topic: &TopicId| members.iter().any(|member| member.wants(*topic));
        let topics = (0..4u8)
            .map(topic)
            .zip(counts)
            .filter(|(topic, _)| wanted(topic))
            .collect();
        GroupSpec { members, topics }
    })
}

/// The same wishes by expressions: half of the topics, for the members that want all of that half.
fn by_expression(group_spec: &mut GroupSpec) {
    let half: Rc<BTreeSet<TopicId>> = Rc::new(group_spec.topics.keys().copied().take(2).collect());
    for member in &mut group_spec.members {
        if half.is_subset(&member.named) {
            member.named.retain(|topic| !half.contains(topic));
            member.matched = Rc::clone(&half);
        }
    }
}

proptest! {
    #[test]
    fn names_and_expressions_give_the_same(mut group_spec in prop_oneof![any_group_spec(true), any_group_spec(false)]) {
        let assign = |group_spec: &GroupSpec| (Assignor::Uniform.assign(group_spec), Assignor::Range.assign(group_spec));
        let named = assign(&group_spec);
        by_expression(&mut group_spec);
        prop_assert_eq!(assign(&group_spec), named);
    }

    #[test]
    fn alike_wishes_give_loads_within_one(group_spec in any_group_spec(true)) {
        for assignor in [Assignor::Uniform, Assignor::Range] {
            let assigned = assignor.assign(&group_spec);
            assert_sound(&group_spec, &assigned);
            if assignor == Assignor::Uniform {
                prop_assert!(spread(&loads(&assigned)) <= 1);
            }
        }
    }

    #[test]
    fn different_wishes_leave_no_move_that_helps(group_spec in any_group_spec(false)) {
        let assigned = Assignor::Range.assign(&group_spec);
        assert_sound(&group_spec, &assigned);
        let assigned = Assignor::Uniform.assign(&group_spec);
        assert_sound(&group_spec, &assigned);
        let loads = loads(&assigned);
        for (place, mine) in assigned.iter().enumerate() {
            for partition in mine.iter() {
                for other in readers(&group_spec.members)[&partition.topic].iter() {
                    prop_assert!(loads[*other] + 2 > loads[place], "a move would help");
                }
            }
        }
    }

    #[test]
    fn nothing_moves_when_nothing_changed(mut group_spec in any_group_spec(false)) {
        for assignor in [Assignor::Uniform, Assignor::Range] {
            let first = assignor.assign(&group_spec);
            for (member, mine) in group_spec.members.iter_mut().zip(&first) {
                member.before = mine.clone();
            }
            prop_assert_eq!(assignor.assign(&group_spec), first);
        }
    }
}
