//! Claims that hold some and want more, newcomers behind them, and whose turn it is.

use std::net::IpAddr;

use super::*;

type Told = oneshot::Receiver<()>;

fn from(last: u8) -> Payer {
    Some(IpAddr::from([10, 0, 0, last]))
}

/// Begins a claim that asks for so much at once.
fn ask(ledger: &mut Ledger, payer: Payer, need: usize, to: usize, now: Instant) -> (ClaimId, Option<Told>) {
    let id = ledger.begin(payer, need);
    let told = ledger.grow(id, to, now);
    (id, told)
}

fn has(ledger: &Ledger, id: ClaimId, bytes: usize) {
    assert_eq!(ledger.held_by(id), bytes);
}

#[test]
fn two_that_hold_half_each_and_want_more_are_met_one_after_the_other() {
    let now = Instant::now();
    let mut ledger = Ledger::new(100);
    let (first, waits) = ask(&mut ledger, from(1), 80, 40, now);
    assert!(waits.is_none());
    let (second, waits) = ask(&mut ledger, from(2), 80, 40, now);
    assert!(waits.is_some(), "if it held 40, too, neither could ever have 80");
    has(&ledger, second, 0);
    assert!(ledger.grow(first, 80, now).is_none(), "what it misses is free");
    ledger.end(first, now);
    has(&ledger, second, 40);
    assert!(ledger.grow(second, 80, now).is_none());
}

#[test]
fn a_request_that_is_only_announced_keeps_nobody_waiting() {
    let now = Instant::now();
    let mut ledger = Ledger::new(1_000);
    let (huge, _) = ask(&mut ledger, from(1), 1_000, 10, now);
    for _ in 0..100 {
        let (small, waits) = ask(&mut ledger, from(1), 100, 100, now);
        assert!(waits.is_none());
        let mut grows = ledger.grow(huge, 20, now).expect("a small one is there");
        assert!(grows.try_recv().is_err());
        ledger.give_up(huge, now);
        ledger.end(small, now);
    }
    has(&ledger, huge, 10);
}

#[test]
fn whatever_is_asked_for_in_whatever_order_everybody_is_met() {
    // A small generator of its own: the same order each time.
    let mut seed: u64 = 7;
    let mut draw = |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) as usize % below
    };
    for _ in 0..200 {
        let now = Instant::now();
        let mut ledger = Ledger::new(1_000);
        let mut open: Vec<(ClaimId, usize)> = (0..20)
            .map(|_| {
                let need = 1 + draw(1_000);
                (ledger.begin(from(draw(4) as u8), need), need)
            })
            .collect();
        let mut steps = 0;
        while !open.is_empty() {
            let (id, need) = open[draw(open.len())];
            let held = ledger.held_by(id);
            assert!(held <= need && ledger.held_bytes() <= 1_000);
            match held == need {
                true => {
                    ledger.end(id, now);
                    open.retain(|(other, _)| *other != id);
                }
                false if ledger.claim(id).waiting.is_none() => {
                    drop(ledger.grow(id, held + 1 + draw(need - held), now));
                }
                false => {}
            }
            steps += 1;
            assert!(steps < 100_000, "nobody gets on any more");
        }
        assert_eq!(ledger.held_bytes(), 0);
        assert!(!ledger.is_wanted() && ledger.payers.is_empty() && ledger.lines.is_empty());
    }
}

#[test]
fn the_address_that_holds_least_goes_first_and_of_its_claims_the_small_ones() {
    let now = Instant::now();
    let mut ledger = Ledger::new(100);
    let (all, _) = ask(&mut ledger, from(1), 100, 100, now);
    let (more, _) = ask(&mut ledger, from(1), 20, 20, now);
    let (large, _) = ask(&mut ledger, from(2), 90, 90, now);
    let (small, _) = ask(&mut ledger, from(2), 20, 20, now);
    assert_eq!(ledger.resize(all, 80, 100, now), Ok(()));
    has(&ledger, small, 20);
    assert_eq!((ledger.held_by(more), ledger.held_by(large)), (0, 0));
    ledger.end(small, now);
    has(&ledger, large, 0);
    has(&ledger, more, 0);
    ledger.end(all, now);
    has(&ledger, more, 20);
    ledger.end(more, now);
    has(&ledger, large, 90);
}

#[test]
fn a_large_claim_that_is_overtaken_has_its_turn_and_holds_the_others_up_for_no_longer() {
    let mut now = Instant::now();
    let mut ledger = Ledger::new(400);
    let (held, _) = ask(&mut ledger, from(1), 20, 20, now);
    let (large, _) = ask(&mut ledger, from(1), 400, 400, now);
    let (small, _) = ask(&mut ledger, from(1), 10, 10, now);
    has(&ledger, small, 10);
    now += TURN_EVERY;
    let (held_up, told) = ask(&mut ledger, from(2), 10, 10, now);
    assert!(told.is_some(), "the large one has its turn");
    now += TURN_LASTS;
    ledger.serve(now);
    has(&ledger, held_up, 10);
    let (next, told) = ask(&mut ledger, from(2), 10, 10, now);
    assert!(told.is_none(), "its turn is over");
    now += TURN_EVERY;
    ledger.serve(now);
    let (last, _) = ask(&mut ledger, from(2), 10, 10, now);
    for id in [held, small, held_up, next] {
        ledger.end(id, now);
    }
    has(&ledger, large, 400);
    has(&ledger, last, 0);
    ledger.end(large, now);
    has(&ledger, last, 10);
}

#[test]
fn small_claims_are_met_whole_and_those_that_come_first_leave_room() {
    let mut ledger = Ledger::new(1_600);
    let (first, second) = (ledger.begin(from(1), 100), ledger.begin(from(1), 101));
    assert!(ledger.meet_small(first) && !ledger.meet_small(second));
    let mut met = 0;
    while {
        let id = ledger.begin(from(2 + met), 50);
        ledger.meet_small(id)
    } {
        met += 1;
    }
    assert_eq!(met, 15, "then 50 is more than a sixteenth of what is free");
}

#[test]
fn what_is_taken_without_waiting_leaves_other_addresses_their_share() {
    let now = Instant::now();
    let mut ledger = Ledger::new(100);
    let (greedy, other) = (ledger.begin(from(1), 0), ledger.begin(from(2), 0));
    assert_eq!(ledger.resize(greedy, 75, 75, now), Ok(()));
    assert_eq!(ledger.resize(greedy, 76, 75, now), Err(NoRoom::Share));
    let again = ledger.begin(from(1), 0);
    assert_eq!(ledger.resize(again, 1, 75, now), Err(NoRoom::Share));
    assert_eq!(ledger.resize(other, 25, 75, now), Ok(()));
    assert_eq!(ledger.resize(other, 26, 75, now), Err(NoRoom::Taken));
    assert_eq!(ledger.resize(greedy, 10, 75, now), Ok(()));
    assert_eq!(ledger.resize(other, 26, 75, now), Ok(()));
}

#[test]
fn two_large_claims_of_an_address_are_met_side_by_side() {
    let now = Instant::now();
    let mut ledger = Ledger::new(100);
    let (first, _) = ask(&mut ledger, from(1), 42, 42, now);
    let (second, told) = ask(&mut ledger, from(1), 42, 42, now);
    assert!(told.is_none(), "the first may last until its answer is taken");
    assert_eq!((ledger.held_by(first), ledger.held_by(second)), (42, 42));
}

#[test]
fn the_last_eighth_is_for_addresses_that_hold_little() {
    let now = Instant::now();
    let mut ledger = Ledger::new(100);
    let lasting: Vec<ClaimId> = (0..9).map(|_| ask(&mut ledger, from(1), 10, 10, now).0).collect();
    let held: Vec<usize> = lasting.iter().map(|id| ledger.held_by(*id)).collect();
    assert_eq!(held, [10, 10, 10, 10, 10, 10, 10, 10, 0]);
    let (other, told) = ask(&mut ledger, from(2), 12, 12, now);
    assert!(told.is_none(), "nothing that lasts is waited for");
    ledger.end(other, now);
    // Nor is the turn of one that gets nothing by it.
    let later = now + TURN_EVERY;
    let (other, told) = ask(&mut ledger, from(2), 12, 12, later);
    assert!(told.is_none());
    // Its own address's waits.
    let (small, _) = ask(&mut ledger, from(1), 1, 1, later);
    has(&ledger, small, 0);
    ledger.end(small, later);
    for id in lasting {
        ledger.end(id, later);
    }
    ledger.end(other, later);
    let (all, told) = ask(&mut ledger, from(1), 100, 100, later);
    assert!(told.is_none(), "nothing of the address lasts");
    has(&ledger, all, 100);
}
