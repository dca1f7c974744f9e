//! Regular expressions that nobody should send: what one costs is bounded, and refused beyond that.

use protocol::groups::{
    Answer, ConsumerHeartbeat, DescribeConsumer, GroupError, MemberPresence, Name, Request, Settings,
    TopicChange,
};
use record::TopicId;

use crate::{CONSUMER, Stand, at_once, heartbeat_of, is_limit};

fn subscribing(member: &str, regex: &str) -> ConsumerHeartbeat {
    let mut joining = heartbeat_of(CONSUMER, member, MemberPresence::Joining);
    joining.topics = None;
    joining.regex = Some(Name::from(regex));
    joining
}

#[test]
fn hostile_patterns_are_refused() {
    let mut stand = Stand::new();
    let mut malformed: Vec<String> = [
        "(",
        ")",
        "[",
        "a{2",
        "*",
        "+a",
        "a**{",
        r"\",
        r"(?P<n>",
        "(?<",
        "[z-a]",
        r"\p{Greek}",
        "a{3,2}",
        // No part of a larger expression, either.
        "a)|(b",
        "a)(?:b",
        "(?x)a#",
        "x)\\z|(?:.*",
    ]
    .map(str::to_owned)
    .into();
    // Large once they are compiled, and nested deeper than anybody needs.
    malformed.extend([
        "(a{1000}){1000}".to_owned(),
        "((a{100}){100}){100}".to_owned(),
        "(x+x+)+y{5000}".to_owned(),
        ".{0,30000}".to_owned(),
        format!("{}a{}", "(".repeat(400), ")".repeat(400)),
    ]);
    for regex in &malformed {
        let error = stand.refused(Request::ConsumerHeartbeat(subscribing("bob", regex)));
        assert!(
            matches!(error, GroupError::InvalidRegex { .. }),
            "{regex}: {error}"
        );
        // Nor does a member lose what it has by asking so.
        let mut asking = heartbeat_of(CONSUMER, "ann", MemberPresence::At(1));
        asking.regex = Some(Name::from(regex.as_str()));
        let error = stand.refused(Request::ConsumerHeartbeat(asking));
        assert!(
            matches!(error, GroupError::InvalidRegex { .. }),
            "{regex}: {error}"
        );
    }
    let long = "a".repeat(1025);
    let error = stand.refused(Request::ConsumerHeartbeat(subscribing("bob", &long)));
    assert!(is_limit(&error), "{error}");
}

/// Expressions that others take exponential time for are matched in linear time here.
#[test]
fn patterns_that_explode_elsewhere_are_matched() {
    let mut stand = Stand::new();
    for regex in ["(a+)+b", "(a|a)*c", "(.*)*x", "(o|or|ord|orde|order)*s"] {
        let heard = stand.ask(Request::ConsumerHeartbeat(subscribing("bob", regex)));
        assert!(
            matches!(heard, Answer::ConsumerHeartbeat(Ok(_))),
            "{regex}: {heard:?}"
        );
    }
    // As long as can be, and plain.
    let heard = stand.ask(Request::ConsumerHeartbeat(subscribing("bob", &"a".repeat(1024))));
    assert!(matches!(heard, Answer::ConsumerHeartbeat(Ok(_))), "{heard:?}");
}

/// Names such that each byte of each leads the expressions below to a state that none before led to.
fn hostile_names() -> impl Iterator<Item = TopicChange> {
    (0..100u8).map(|number| {
        let mut bits = u64::from(number) + 1;
        let letters = (0..249).map(|_| {
            bits = bits
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            if bits >> 63 == 0 { 'a' } else { 'b' }
        });
        TopicChange::There {
            topic: Name::from(letters.collect::<String>()),
            id: TopicId([100 + number; 16]),
            partition_count: 1,
        }
    })
}

/// What one expression and the names of all topics cost together is bounded. Nobody who is inside loses by it.
#[test]
fn patterns_and_names_that_cost_too_much_together() {
    let mut stand = Stand::new();
    let (costly, other) = ("[ab]*a[ab]{400}c|orders", "(?:[ab]?){400}[ab]*a[ab]{50}c|orders");
    let heard = stand.ask(Request::ConsumerHeartbeat(subscribing("bob", costly)));
    assert!(
        matches!(heard, Answer::ConsumerHeartbeat(Ok(_))),
        "with these names it costs nothing: {heard:?}"
    );
    stand.coordinator.handle_topics(stand.now, hostile_names());
    stand.settle();
    for regex in [costly, other] {
        let new = Request::ConsumerHeartbeat(ConsumerHeartbeat {
            group: Name::from("another"),
            ..subscribing("cid", regex)
        });
        let error = stand.refused(new);
        assert!(
            matches!(error, GroupError::InvalidRegex { .. }),
            "{regex}: {error}"
        );
    }
    // A plain one goes on, and has everybody assigned anew.
    let plain = Request::ConsumerHeartbeat(subscribing("dan", "[ab]*"));
    let heard = stand.ask(plain);
    assert!(matches!(heard, Answer::ConsumerHeartbeat(Ok(_))), "{heard:?}");
    let describe = DescribeConsumer {
        group: Name::from(CONSUMER),
    };
    let Answer::DescribeConsumer(Ok(group)) = stand.ask(Request::DescribeConsumer(describe)) else {
        panic!("it is there");
    };
    let targets: Vec<usize> = group.members.iter().map(|member| member.target.len()).collect();
    assert_eq!(targets, [1, 1, 100], "bob still wants orders, as ann does");
}

#[test]
fn a_group_has_so_many_patterns() {
    let settings = Settings {
        regexes_max: 2,
        ..at_once()
    };
    let mut stand = Stand::with_groups(settings);
    for (member, regex) in [("bob", "a.*"), ("cid", "b.*"), ("dan", "b.*")] {
        let heard = stand.ask(Request::ConsumerHeartbeat(subscribing(member, regex)));
        assert!(matches!(heard, Answer::ConsumerHeartbeat(Ok(_))), "{heard:?}");
    }
    let error = stand.refused(Request::ConsumerHeartbeat(subscribing("eve", "c.*")));
    assert!(is_limit(&error), "{error}");
}
