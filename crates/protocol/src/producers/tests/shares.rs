//! One client's address takes places until it has its share: others get theirs, and those that are there go on.

use std::net::IpAddr;

use super::*;

fn address(last: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, last])
}

/// Writes as a leader does, and says what the check found.
fn write(
    producers: &mut Producers,
    from: Option<IpAddr>,
    now: Duration,
    stamp: Stamp,
) -> Result<Sequence, SequenceError> {
    let admission = Admission { from, ..at(now) };
    let found = producers.check(stamp, 1, &admission)?;
    if !matches!(found, Sequence::Duplicate(_)) {
        producers.make_way(stamp, &admission);
        producers.note_from(from, now, stamp, batch(stamp.first_sequence, 1, 0));
    }
    Ok(found)
}

#[test]
fn one_address_does_not_keep_places_from_others() {
    let mut producers = Producers::new(limits(6));
    let (greedy, other) = (Some(address(9)), Some(address(1)));
    for id in 0..3 {
        let taken = write(&mut producers, greedy, SECOND, stamp(id, 0, 0));
        assert_eq!(taken, Ok(Sequence::First));
    }
    let refused = Err(SequenceError::PartitionShareTaken { share_max: 3 });
    assert_eq!(write(&mut producers, greedy, SECOND, stamp(3, 0, 0)), refused);
    assert_eq!(
        write(&mut producers, other, SECOND, stamp(3, 0, 0)),
        Ok(Sequence::First),
        "others get the rest"
    );
    for id in 0..3 {
        let again = write(&mut producers, greedy, SECOND, stamp(id, 0, 0));
        assert!(matches!(again, Ok(Sequence::Duplicate(_))), "{again:?}");
        let goes_on = write(&mut producers, greedy, SECOND, stamp(id, 0, 1));
        assert_eq!(goes_on, Ok(Sequence::Next));
    }
    assert_eq!(
        write(&mut producers, None, SECOND, stamp(4, 0, 0)),
        Ok(Sequence::First),
        "what no client sends has no share"
    );
    assert!(producers.shares().is_tight(), "the greedy ones may go soon");
    producers.forget_settled(6 * SECOND);
    let taken = write(&mut producers, greedy, 6 * SECOND, stamp(5, 0, 0));
    assert_eq!(taken, Ok(Sequence::First));
}

#[test]
fn the_only_place_is_everybodys() {
    let mut producers = Producers::new(limits(1));
    let taken = write(&mut producers, Some(address(9)), SECOND, stamp(1, 0, 0));
    assert_eq!(taken, Ok(Sequence::First));
}

#[test]
fn what_is_read_back_counts_for_nobody() {
    let mut producers = Producers::new(limits(4));
    let greedy = Some(address(9));
    for id in 0..2 {
        write(&mut producers, greedy, SECOND, stamp(id, 0, 0)).expect("there is room");
    }
    let mut restored = read(SECOND, limits(4), &written(&producers, SECOND)).expect("just written");
    assert_eq!(restored, producers);
    assert_eq!(restored.shares(), &Shares::of(4));
    let goes_on = write(&mut restored, greedy, SECOND, stamp(0, 0, 1));
    assert_eq!(goes_on, Ok(Sequence::Next));
    assert_eq!(restored.shares().taken_by(Client::from(address(9))), 0);
    let taken = write(&mut restored, greedy, SECOND, stamp(2, 0, 0));
    assert_eq!(taken, Ok(Sequence::First));
    restored.handle_time(20 * SECOND);
    assert!(restored.is_empty());
}

#[derive(Debug, Clone)]
enum Step {
    Write {
        from: Option<u8>,
        id: i64,
        first_sequence: i32,
        has_room: bool,
    },
    Recover(i64),
    HandleTime,
    ForgetSettled,
    Cut,
    GiveUp,
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        20 => (prop::option::of(0..3u8), 0..12i64, 0..2i32, prop::bool::weighted(0.9)).prop_map(
            |(from, id, first_sequence, has_room)| Step::Write { from, id, first_sequence, has_room }
        ),
        1 => (0..12i64).prop_map(Step::Recover),
        2 => Just(Step::HandleTime),
        2 => Just(Step::ForgetSettled),
        1 => Just(Step::Cut),
        1 => Just(Step::GiveUp),
    ]
}

/// The shares as they must be, counted from the entries.
fn counted(producers: &Producers) -> Shares {
    let mut counted = Shares::of(producers.limits.producers_max);
    for client in producers.entries.values().filter_map(|entry| entry.client) {
        counted.note(ShareChange::TakenOn(client));
    }
    counted
}

fn take(producers: &mut Producers, now: Duration, step: &Step) -> Result<(), TestCaseError> {
    match *step {
        Step::Write {
            from,
            id,
            first_sequence,
            has_room,
        } => {
            let stamp = stamp(id, 0, first_sequence);
            let admission = Admission {
                has_room,
                from: from.map(address),
                ..at(now)
            };
            let is_known = producers.entries.contains_key(&stamp.id);
            let found = producers.check(stamp, 1, &admission);
            prop_assert_eq!(found == Ok(Sequence::First), !is_known && found.is_ok());
            let is_refused_for_room = !matches!(found, Ok(_) | Err(SequenceError::OutOfOrder { .. }));
            prop_assert!(!(is_known && is_refused_for_room), "{found:?}");
            if matches!(found, Ok(Sequence::First | Sequence::Next)) {
                producers.make_way(stamp, &admission);
                producers.note_from(admission.from, now, stamp, batch(first_sequence, 1, 0));
            }
        }
        Step::Recover(id) => producers.note(now, stamp(id, 0, 0), batch(0, 1, 0)),
        Step::HandleTime => producers.handle_time(now),
        Step::ForgetSettled => producers.forget_settled(now),
        Step::Cut => producers.cut_to(Offset::ZERO),
        Step::GiveUp => {}
    }
    Ok(())
}

proptest! {
    #[test]
    fn shares_are_what_the_entries_say_whatever_happens(
        steps in prop::collection::vec((any_step(), 0..4u32, 0..2usize), 0..200),
    ) {
        let mut partitions = [Producers::new(limits(6)), Producers::new(limits(6))];
        let mut journal = Shares::of(100);
        let mut now = Duration::ZERO;
        for (step, seconds, index) in steps {
            now += seconds * SECOND;
            let producers = &mut partitions[index];
            take(producers, now, &step)?;
            for change in producers.take_share_changes() {
                journal.note(change);
            }
            prop_assert_eq!(producers.shares(), &counted(producers));
            if matches!(step, Step::GiveUp) {
                journal.give_all_back(producers.shares());
                *producers = Producers::new(limits(6));
            }
            for client in (0..3).map(address).map(Client::from) {
                let taken = partitions.each_ref().map(|producers| producers.shares().taken_by(client));
                prop_assert!(taken.iter().all(|taken| *taken <= 3), "{taken:?} of 6 places");
                prop_assert_eq!(journal.taken_by(client), taken.iter().sum::<usize>());
            }
        }
    }
}
