//! Waiting for room, and giving the wait up.

use futures_util::FutureExt;

use super::*;

#[tokio::test]
async fn room_is_bounded_and_who_waits_is_known() {
    let budget = Budget::new(4 << 10);
    let three = budget.room(3 << 10).now_or_never().expect("there is room");
    let small = budget.room(1).now_or_never().expect("there is still room");
    let mut more = Box::pin(budget.room(usize::MAX));
    assert!(
        more.as_mut().now_or_never().is_none(),
        "more than all is all, and all is taken"
    );
    assert!(budget.is_wanted());
    drop(three);
    assert!(more.as_mut().now_or_never().is_none());
    drop(small);
    drop(more.now_or_never().expect("all is free"));
    assert!(!budget.is_wanted());
    assert_eq!(budget.held_bytes(), 0);
}

#[tokio::test]
async fn who_gives_up_waits_no_more() {
    let budget = Budget::new(1 << 10);
    let all = budget.room(1 << 10).now_or_never().expect("there is room");
    let mut waiting = Box::pin(budget.room(1));
    assert!(waiting.as_mut().now_or_never().is_none());
    drop(waiting);
    assert!(!budget.is_wanted());
    drop(all);
    assert!(budget.room(1).now_or_never().is_some());
}

#[tokio::test]
async fn room_that_came_while_the_wait_was_given_up_is_not_lost() {
    let budget = Budget::new(1 << 10);
    let all = budget.room(1 << 10).now_or_never().expect("there is room");
    let room = budget.claim(None, 1 << 10);
    {
        let mut waiting = Box::pin(room.grow(1 << 10));
        assert!(waiting.as_mut().now_or_never().is_none());
        drop(all);
    }
    assert!(room.is_whole());
    drop(room);
    assert_eq!(budget.held_bytes(), 0);
}

#[tokio::test]
async fn room_that_is_resized_takes_only_what_is_free_and_comes_back() {
    let budget = Budget::new(4 << 10);
    let mut one = budget.no_room();
    assert!(budget.resize(&mut one, 3 << 10));
    let mut other = budget.no_room();
    assert!(budget.resize(&mut other, 1 << 10));
    assert!(!budget.resize(&mut other, (1 << 10) + 1), "all is taken");
    assert!(budget.resize(&mut one, 1 << 10));
    assert!(budget.resize(&mut other, 3 << 10));
    drop((one, other));
    let mut all = budget.no_room();
    assert!(budget.resize(&mut all, usize::MAX), "more than all is all");
}
