//! A shard that comes to listen to another leader tells the one before, ahead of any beat, and tells the new one how long that may believe in itself.

use planted::{Bug, with};
use protocol::replica::lease::{Beat, Believer, GRANT};
use protocol::replica::{Assignment, Configuration, Prompt, Refusal, Sworn};
use tokio::time::sleep;

use super::*;

const BEFORE: NodeId = NodeId(2);
const LATER: NodeId = NodeId(3);

fn led_by(leader: NodeId, epoch: i32) -> Assignment {
    let configuration = Configuration {
        replicas: vec![BEFORE, LATER, NodeId(1)],
        ack_quorum: 2,
    };
    Assignment {
        epoch: Epoch(epoch),
        leader,
        earlier: vec![configuration.clone()],
        configuration,
        joining: Vec::new(),
        uncertain: Vec::new(),
    }
}

/// The promise that a replica gives to a later leader, after the one before has had a beat and its link was lost in this way, if at all.
async fn believers_after(lost: Option<bool>) -> Vec<Believer> {
    let shard = unflushed_shard(&SimulatedDisk::new());
    shard.start_examining();
    shard.start_flushing();
    shard.share(FLUSHED).expect("it is here");
    shard.assign(FLUSHED, led_by(BEFORE, 1)).expect("it is shared");
    shard.handle_link(BEFORE, LINKED).await;
    shard.handle_link(LATER, LINKED).await;
    let beat = Beat {
        sent: Duration::from_millis(5),
        echo: None,
    };
    shard.handle_beat(BEFORE, beat);
    let answer = shard.next_beat(BEFORE);
    assert_eq!(answer.echo.map(|echo| echo.sent), Some(beat.sent));
    if let Some(was_closed) = lost {
        shard.handle_link_lost(BEFORE, was_closed).await;
    }
    shard.take_letters();
    let seal = Prompt::Seal { epoch: Epoch(2) };
    shard.deliver(LATER, Letter::new(FLUSHED, Message::Prompt(seal, Vec::new())));
    // It waits for the metadata's word of the epoch: the replica might be given up before, and be another one then.
    assert!(shard.take_letters().is_empty());
    shard.assign(FLUSHED, led_by(LATER, 2)).expect("it is shared");
    let mut letters = shard.take_letters();
    let fence = Prompt::Refused {
        epoch: Epoch(1),
        refusal: Refusal::Fenced { floor: Epoch(2) },
    };
    let is_fence = |message: &Message| matches!(message, Message::Prompt(prompt, _) if *prompt == fence);
    let is_told = letters
        .iter()
        .any(|(to, letter)| *to == BEFORE && is_fence(&letter.message));
    assert_eq!(
        is_told,
        lost.is_none(),
        "whoever is linked is told, before the next beat"
    );
    loop {
        for (to, letter) in letters {
            if let Message::Sworn(Sworn::Promised { believers, .. }) = letter.message {
                assert_eq!(to, LATER);
                return believers;
            }
        }
        sleep(Duration::from_millis(1)).await;
        letters = shard.take_letters();
    }
}

/// The epochs of what is said to the leader before, which was left without a link while a promise to it waited for its flush: first those that are sworn,
/// then those that are refused.
async fn said_to_a_left_leader() -> (Vec<Epoch>, Vec<Epoch>) {
    let shard = unflushed_shard(&SimulatedDisk::new());
    shard.start_examining();
    shard.share(FLUSHED).expect("it is here");
    shard.assign(FLUSHED, led_by(BEFORE, 1)).expect("it is shared");
    shard.handle_link(BEFORE, LINKED).await;
    let seal = Prompt::Seal { epoch: Epoch(1) };
    shard.deliver(BEFORE, Letter::new(FLUSHED, Message::Prompt(seal, Vec::new())));
    shard.handle_link_lost(BEFORE, false).await;
    shard.assign(FLUSHED, led_by(LATER, 2)).expect("it is shared");
    shard.handle_link(BEFORE, LINKED).await;
    assert!(shard.take_letters().is_empty(), "nothing is flushed yet");
    shard.start_flushing();
    let (mut sworn, mut refused) = (Vec::new(), Vec::new());
    while sworn.is_empty() && refused.is_empty() {
        sleep(Duration::from_millis(1)).await;
        for (to, letter) in shard.take_letters() {
            assert_eq!(to, BEFORE);
            match letter.message {
                Message::Sworn(message) => sworn.push(message.epoch()),
                Message::Prompt(Prompt::Refused { epoch, refusal }, _) => {
                    assert_eq!(refusal, Refusal::Fenced { floor: Epoch(2) });
                    refused.push(epoch);
                }
                Message::Prompt(prompt, _) => panic!("{prompt:?} is no answer"),
            }
        }
    }
    (sworn, refused)
}

#[test]
fn what_was_sworn_to_a_leader_that_was_left_meanwhile_is_refused() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("the system has room");
    let said = || {
        runtime.block_on(async {
            let tasks = LocalSet::new();
            let said = tasks.run_until(said_to_a_left_leader());
            timeout(PATIENCE, said).await.expect("it is said")
        })
    };
    assert_eq!(said(), (vec![], vec![Epoch(1)]));
    assert_eq!(with(Bug::SwornToALeftLeader, said), (vec![Epoch(1)], vec![]));
}

#[tokio::test]
async fn a_promise_tells_how_long_the_leader_before_may_believe() {
    let test = async {
        for lost in [None, Some(false), Some(true)] {
            let believers = believers_after(lost).await;
            let left = |believer: &Believer| believer.left > Duration::ZERO && believer.left <= GRANT;
            assert!(believers.iter().all(left), "{believers:?}");
            let before = believers.iter().filter(|believer| believer.node == Some(BEFORE));
            let expected = usize::from(lost != Some(true));
            assert_eq!(before.count(), expected, "{lost:?}: {believers:?}");
        }
    };
    timeout(PATIENCE, LocalSet::new().run_until(test))
        .await
        .expect("promises are given");
}

#[test]
fn a_promise_that_tells_of_nobody_is_seen() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("the system has room");
    let promise = || runtime.block_on(LocalSet::new().run_until(believers_after(None)));
    assert_eq!(with(Bug::BelieversForgotten, promise), []);
}
