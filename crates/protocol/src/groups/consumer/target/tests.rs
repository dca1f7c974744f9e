//! Tests of the members' wishes, put together.

use std::sync::Arc;

use super::super::super::context::Context;
use super::super::super::settings::Settings;
use super::super::super::topics::TopicChange;
use super::super::{Consumer, Member};
use super::*;

fn saying(topics: &[&str], regex: Option<&str>) -> MemberValue {
    MemberValue {
        topics: topics.iter().map(|topic| Name::from(*topic)).collect(),
        regex: regex.map(Name::from),
        ..Member::default().said
    }
}

/// However many members have an expression, what it matches is found and held once.
#[test]
fn members_share_what_their_expression_matches() {
    let mut cx = Context::new(Settings::default(), 0);
    for (number, topic) in (1..).zip(["a", "ab", "b"]) {
        let gone = Arc::make_mut(&mut cx.topics).apply(TopicChange::There {
            topic: Name::from(topic),
            id: TopicId([number; 16]),
            partition_count: 1,
        });
        assert_eq!(gone, None);
    }
    let mut consumer = Consumer::default();
    let members = [
        ("ann", saying(&["b"], Some("a.*"))),
        ("bob", saying(&["ab", "nowhere"], Some("a.*"))),
        ("cid", saying(&["b"], None)),
    ];
    for (name, said) in members {
        consumer.apply(What::Member(Name::from(name), Some(said)));
    }
    consumer.hold_expressions(&mut cx);
    let view = consumer.view(&cx);
    let group_spec = consumer.roster.group_spec(&view, &Outlook::default());
    assert_eq!(group_spec.topics.len(), 3);
    let [ann, bob, cid] = &group_spec.members[..] else {
        panic!("three members have group_spec");
    };
    assert!(Rc::ptr_eq(&ann.matched, &bob.matched));
    let ids = |numbers: &[u8]| -> BTreeSet<TopicId> {
        numbers.iter().map(|number| TopicId([*number; 16])).collect()
    };
    assert_eq!(*ann.matched, ids(&[1, 2]));
    assert!(cid.matched.is_empty());
    let named = [ann, bob, cid].map(|member_spec| member_spec.named.clone());
    assert_eq!(named, [ids(&[3]), ids(&[]), ids(&[3])]);
    // All that they name, and what the expression matches, once.
    assert_eq!(consumer.roster.wanted_names(&view).count(), 4 + 2);
    assert_eq!(consumer.weight(&cx.expressions), 3 + 4 + 2);
}
