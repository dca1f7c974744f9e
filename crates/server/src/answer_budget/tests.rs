//! The bytes that are granted and counted, and the waiting that are woken.

use std::net::{IpAddr, Ipv4Addr};

use futures_util::FutureExt;

use super::{AnswerBudget, GRANT_BYTES_MIN, Held};

const MIB: usize = 1 << 20;
const ONE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const OTHER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));

#[test]
fn a_read_gets_what_it_wants_until_its_share_is_less() {
    let budget = AnswerBudget::new(8 * MIB);
    let first = budget.grant(MIB / 2).expect("all is free");
    assert_eq!((first.bytes(), budget.held_bytes()), (MIB / 2, MIB / 2));
    let second = budget.grant(usize::MAX).expect("most is free");
    assert_eq!(second.bytes(), (8 * MIB - MIB / 2) / 8);
    drop((first, second));
    assert_eq!(budget.held_bytes(), 0);
    let small = budget.grant(1).expect("all is free");
    assert_eq!(small.bytes(), GRANT_BYTES_MIN);
}

#[test]
fn reads_never_take_more_than_there_is_and_end_with_all_of_it() {
    let budget = AnswerBudget::new(3 * MIB + 5);
    let mut held: Vec<Held> = Vec::new();
    while let Some(grant) = budget.grant(MIB) {
        assert!(grant.bytes() > 0);
        held.push(grant);
    }
    assert_eq!(budget.held_bytes(), 3 * MIB + 5);
    assert!(budget.is_scarce());
    held.clear();
    assert!(!budget.is_scarce());
}

#[test]
fn what_is_there_is_counted_beyond_the_limit_and_ends_all_grants() {
    let budget = AnswerBudget::new(MIB);
    let large = budget.hold(3 * MIB);
    assert_eq!(budget.held_bytes(), 3 * MIB);
    assert!(budget.grant(1).is_none());
    let other = budget.hold(MIB / 2);
    drop(large);
    assert_eq!(budget.held_bytes(), MIB / 2);
    drop(other);
    assert!(budget.grant(1).is_some());
}

#[test]
fn what_grows_is_given_back_whole() {
    let budget = AnswerBudget::new(MIB);
    let mut held = budget.hold(0);
    held.grow(MIB - 1);
    assert!(!budget.is_used_up());
    held.grow(2 * MIB);
    assert_eq!((held.bytes(), budget.held_bytes()), (3 * MIB - 1, 3 * MIB - 1));
    assert!(budget.is_used_up());
    drop(held);
    assert_eq!(budget.held_bytes(), 0);
}

#[test]
fn all_who_wait_are_woken_while_there_is_room() {
    let budget = AnswerBudget::new(MIB);
    let all = budget.hold(MIB);
    let (mut first, mut second) = (Box::pin(budget.room()), Box::pin(budget.room()));
    assert!((&mut first).now_or_never().is_none() && (&mut second).now_or_never().is_none());
    drop(all);
    assert!((&mut first).now_or_never().is_some());
    assert!((&mut second).now_or_never().is_some());
}

#[test]
fn who_finds_the_room_taken_waits_on_and_who_leaves_takes_nobodys_turn() {
    let budget = AnswerBudget::new(MIB);
    let all = budget.hold(MIB);
    let (mut leaver, mut stayer) = (Box::pin(budget.room()), Box::pin(budget.room()));
    assert!((&mut leaver).now_or_never().is_none() && (&mut stayer).now_or_never().is_none());
    drop(all);
    drop(leaver);
    let again = budget.hold(MIB);
    assert!((&mut stayer).now_or_never().is_none(), "somebody was faster");
    drop(again);
    assert!((&mut stayer).now_or_never().is_some());
}

#[test]
fn a_long_answer_waits_for_its_room_before_it_is_gathered_and_a_short_one_does_not() {
    let budget = AnswerBudget::new(8 * MIB);
    let taken = budget.hold(6 * MIB);
    let mut long = Box::pin(budget.reserve(ONE, 3 * MIB));
    let mut next = Box::pin(budget.reserve(OTHER, 100 * MIB));
    assert!((&mut long).now_or_never().is_none() && (&mut next).now_or_never().is_none());
    assert!(budget.reserve(ONE, 1_000).now_or_never().is_some());
    drop(taken);
    let held = (&mut long).now_or_never().expect("there is room");
    assert_eq!((held.bytes(), budget.held_bytes()), (3 * MIB, 3 * MIB));
    // It is more than there will ever be: half of all is enough to begin.
    assert!((&mut next).now_or_never().is_some());
    drop(long);
}

#[test]
fn however_many_long_answers_an_address_wants_others_wait_for_one_of_them() {
    let budget = AnswerBudget::new(8 * MIB);
    let taken = budget.hold(6 * MIB);
    let mut many: Vec<_> = (0..1_000)
        .map(|_| Box::pin(budget.reserve(ONE, 5 * MIB)))
        .collect();
    assert!(many.iter_mut().all(|one| one.now_or_never().is_none()));
    let mut other = Box::pin(budget.reserve(OTHER, 5 * MIB));
    assert!((&mut other).now_or_never().is_none());
    drop(taken);
    let first = (&mut many[0]).now_or_never().expect("it was there first");
    assert!((&mut many[1]).now_or_never().is_none());
    assert!((&mut other).now_or_never().is_none());
    drop(first);
    assert!(
        (&mut many[1]).now_or_never().is_none(),
        "its address was served just now"
    );
    let held = (&mut other).now_or_never().expect("it is the other's turn");
    drop(held);
    assert!((&mut many[1]).now_or_never().is_some());
    assert_eq!(budget.lines.borrow().len(), 1);
    drop((many, other));
    assert!(budget.lines.borrow().is_empty());
}
