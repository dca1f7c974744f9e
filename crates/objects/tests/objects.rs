//! Spaces over a log in memory: several processes, one order.

use objects::{
    Counter, Entry, Error, ItemId, Log, Map, MemoryLog, Outcome, Queue, Read, Refusal, Register, Space, Step,
};
use proptest::prelude::*;

type Shared = Space<MemoryLog>;

fn spaces<const N: usize>() -> [Shared; N] {
    let log = MemoryLog::default();
    std::array::from_fn(|_| Space::open(log.clone()).expect("it is empty"))
}

#[test]
fn what_one_writes_others_read() {
    let [mut one, mut two] = spaces();
    let users: Map<u32> = Map::new("users");
    assert_eq!(one.get(&users, "ann").expect("read"), None);
    let first = one.put(&users, "ann", &1).expect("put");
    let second = two.put(&users, "ann", &2).expect("put");
    assert!(first < second);
    assert_eq!(one.get(&users, "ann").expect("read"), Some(2));
    assert!(two.remove(&users, "ann").expect("remove"));
    assert!(!one.remove(&users, "ann").expect("remove"));
    assert_eq!(one.get(&users, "ann").expect("read"), None);
    let who: Register<String> = Register::new("who");
    let set = one.set_if(&who, None, Some(&"one".into())).expect("set");
    assert_eq!(
        set,
        Some(two.sync().expect("read").next() - 1),
        "the position is a fencing token"
    );
    assert_eq!(two.set_if(&who, None, Some(&"two".into())).expect("set"), None);
    assert_eq!(two.value(&who).expect("read"), Some("one".into()));
    two.set::<String>(&who, None).expect("set");
    assert_eq!(one.value(&who).expect("read"), None);
    let count = Counter::new("count");
    assert_eq!(one.add(&count, 5).expect("add"), 5);
    assert_eq!(two.add(&count, -7).expect("add"), -2);
    assert_eq!(one.count(&count).expect("read"), -2);
}

#[test]
fn each_thing_in_a_queue_is_taken_once_and_in_order() {
    let [mut one, mut two] = spaces();
    let jobs: Queue<u32> = Queue::new("jobs");
    let places: Vec<ItemId> = (0..4)
        .map(|job| one.enqueue(&jobs, &job).expect("enqueue"))
        .collect();
    assert_eq!(two.take(&jobs).expect("take"), Some((places[0], 0)));
    assert!(one.discard(&jobs, places[2]).expect("discard"));
    assert!(!two.discard(&jobs, places[2]).expect("discard"));
    assert_eq!(
        one.sync()
            .expect("read")
            .list(&jobs, Some(places[1]), 9)
            .expect("list"),
        [(places[3], 3)]
    );
    assert_eq!(one.take(&jobs).expect("take"), Some((places[1], 1)));
    assert_eq!(two.take(&jobs).expect("take"), Some((places[3], 3)));
    assert_eq!(one.take(&jobs).expect("take"), None);
}

/// Another process writes between what a transaction reads and its entry.
#[test]
fn a_transaction_whose_reads_were_overtaken_runs_again() {
    let [mut one, mut two] = spaces();
    let (users, other): (Map<u32>, Map<u32>) = (Map::new("users"), Map::new("other"));
    one.put(&users, "ann", &1).expect("put");
    let mut runs = 0;
    let (told, position) = one
        .transact(|transaction| {
            runs += 1;
            let ann = transaction.get(&users, "ann")?.unwrap_or(0);
            match runs {
                1 => drop(two.put(&users, "ann", &10)),
                // What it has not read may change.
                _ => drop(two.put(&other, "ann", &10)),
            }
            transaction.put(&users, "ann", &(ann + 1))?;
            assert_eq!(
                transaction.get(&users, "ann")?,
                Some(ann + 1),
                "it reads what it writes"
            );
            Ok::<u32, Error>(ann)
        })
        .expect("it gets on");
    assert_eq!((runs, told), (2, 10));
    assert_eq!(two.get(&users, "ann").expect("read"), Some(11));
    let kept = two.view().get(&users, "ann").expect("read");
    assert_eq!(kept, Some((11, position.expect("it writes"))));
}

#[test]
fn a_transaction_that_is_given_up_does_nothing() {
    let [mut one, mut two] = spaces();
    let users: Map<u32> = Map::new("users");
    let given_up = one.transact(|transaction| {
        transaction.put(&users, "ann", &1)?;
        Err::<(), Error>(Error::GivenUp)
    });
    assert!(matches!(given_up, Err(Error::GivenUp)));
    assert_eq!(two.get(&users, "ann").expect("read"), None);
    let (nothing, position) = one
        .transact(|transaction| transaction.get(&users, "ann"))
        .expect("it reads");
    assert_eq!((nothing, position), (None, None), "that needs no entry");
}

#[test]
fn an_entry_takes_effect_whole_or_not_at_all() {
    let [mut one] = spaces();
    one.put(&Map::new("users"), "ann", &1).expect("put");
    let add = |count| Step::Add {
        counter: "count".into(),
        count,
    };
    let put = |map: &str| Step::Put {
        map: map.into(),
        key: "bob".into(),
        value: 2.into(),
    };
    let outcome = |steps| {
        let reads = Vec::new();
        one.commit(&Entry { reads, steps }).expect("it is appended").1
    };
    let kind = |object: &str, is, wanted| {
        let object = object.to_owned();
        Outcome::Refused(Refusal::Kind { object, is, wanted })
    };
    let mut outcome = outcome;
    assert_eq!(
        outcome(vec![
            put("users"),
            Step::Take {
                queue: "users".into()
            }
        ]),
        kind("users", "map", "queue")
    );
    assert_eq!(
        outcome(vec![add(1), put("count")]),
        kind("count", "counter", "map")
    );
    let overflow = Outcome::Refused(Refusal::Overflow {
        object: "count".into(),
    });
    assert_eq!(outcome(vec![add(i64::MAX), add(1), put("users")]), overflow);
    assert!(matches!(outcome(vec![add(i64::MAX), add(-1)]), Outcome::Done(_)));
    let view = one.view();
    assert_eq!(view.get::<u32>(&Map::new("users"), "bob").expect("read"), None);
    assert_eq!(view.count(&Counter::new("count")).expect("read"), i64::MAX - 1);
    let objects: Vec<_> = view.objects().collect();
    assert_eq!(objects, [("count", "counter"), ("users", "map")]);
    let wrong = view.get::<u32>(&Map::new("count"), "bob");
    assert!(matches!(wrong, Err(Error::Refused(Refusal::Kind { .. }))));
    let wrong = view.get::<String>(&Map::new("users"), "ann");
    assert!(matches!(wrong, Err(Error::Value { .. })));
}

#[test]
fn a_checkpoint_stands_for_what_was_before_it() {
    let log = MemoryLog::default();
    let mut one = Space::open(log.clone()).expect("it is empty");
    let (users, jobs) = (Map::<u32>::new("users"), Queue::<String>::new("jobs"));
    for number in 0..10 {
        one.put(&users, &format!("user {number}"), &number).expect("put");
        one.enqueue(&jobs, &format!("job {number}")).expect("enqueue");
    }
    one.take(&jobs).expect("take");
    let early = one.at(4).expect("it is there");
    assert_eq!(early.entries(&users, "", 9).expect("read").len(), 2);
    assert_eq!(early.next(), 4);
    let position = one.checkpoint().expect("it is kept");
    one.add(&Counter::new("count"), 3).expect("add");
    assert_eq!(one.forget().expect("trimmed"), Some(position));
    let mut two = Space::open(log.clone()).expect("from the checkpoint on");
    assert_eq!(two.view(), one.view());
    assert_eq!(
        two.take(&jobs).expect("take").map(|(_, job)| job),
        Some("job 1".into())
    );
    assert_eq!(
        one.at(position + 1)
            .expect("it is there")
            .count(&Counter::new("count"))
            .expect("read"),
        3
    );
    let gone = one.at(4);
    assert!(matches!(gone, Err(Error::Trimmed { .. })), "{gone:?}");
}

#[test]
fn a_view_stops_at_what_it_cannot_read_and_passes_over_what_is_no_entry() {
    let mut log = MemoryLog::default();
    let mut one = Space::open(log.clone()).expect("it is empty");
    log.append(b"something else", b"of another program")
        .expect("appended");
    one.add(&Counter::new("count"), 1).expect("add");
    log.append(b"objects 1", br#"{"do":[{"sort":{"map":"users"}}]}"#)
        .expect("appended");
    let stopped = one.count(&Counter::new("count"));
    assert!(
        matches!(stopped, Err(Error::Unreadable { position: 2, .. })),
        "{stopped:?}"
    );
    assert!(matches!(
        Space::open(log),
        Err(Error::Unreadable { position: 2, .. })
    ));
}

/// Others have forgotten what a view has not played yet.
#[test]
fn a_view_that_lags_goes_on_from_the_checkpoint() {
    let [mut one, mut two] = spaces();
    let count = Counter::new("count");
    one.add(&count, 1).expect("add");
    assert_eq!(two.count(&count).expect("read"), 1);
    one.add(&count, 1).expect("add");
    one.checkpoint().expect("it is kept");
    one.forget().expect("trimmed");
    assert_eq!(two.add(&count, 1).expect("add"), 3);
    assert_eq!(two.view(), one.sync().expect("read"));
    let ahead = one.at(one.view().next() + 1);
    assert!(matches!(ahead, Err(Error::Ahead { .. })), "{ahead:?}");
}

#[test]
fn what_is_gone_without_a_checkpoint_is_told() {
    let mut log = MemoryLog::default();
    let mut one = Space::open(log.clone()).expect("it is empty");
    let count = Counter::new("count");
    one.add(&count, 1).expect("add");
    one.add(&count, 1).expect("add");
    log.trim(1).expect("trimmed");
    let told = Space::open(log.clone()).expect_err("its beginning is gone");
    assert!(
        matches!(
            told,
            Error::Trimmed {
                log_start: 1,
                next: 0
            }
        ),
        "{told:?}"
    );
    assert_eq!(one.add(&count, 1).expect("whoever has played it goes on"), 3);
}

#[test]
fn what_changes_nothing_is_in_nobodys_way() {
    let [mut one, mut two] = spaces();
    let (users, jobs) = (Map::<u32>::new("users"), Queue::<u32>::new("jobs"));
    one.put(&users, "ann", &1).expect("put");
    let mut runs = 0;
    one.transact(|transaction| {
        runs += 1;
        assert_eq!(transaction.entries(&users)?.len(), 1);
        assert_eq!(transaction.first(&jobs)?, None);
        assert!(!two.remove(&users, "bob")?);
        assert!(!two.discard(&jobs, ItemId(0, 0))?);
        assert_eq!(two.take(&jobs)?, None);
        transaction.put(&users, "bob", &2)
    })
    .expect("it gets on");
    assert_eq!(runs, 1);
    assert_eq!(
        two.sync().expect("read").objects().count(),
        1,
        "the queue is not there yet"
    );
    // All of a map is in the way of whoever has read all of it.
    let mut runs = 0;
    one.transact(|transaction| {
        runs += 1;
        let sum: u32 = transaction.entries(&users)?.values().sum();
        if runs == 1 {
            two.put(&users, "cat", &3)?;
        }
        transaction.put(&users, "sum", &sum)
    })
    .expect("it gets on");
    assert_eq!((runs, two.get(&users, "sum").expect("read")), (2, Some(6)));
}

#[test]
fn values_that_could_not_be_read_again_are_not_written() {
    let [mut one, mut two] = spaces();
    let deep: Map<serde_json::Value> = Map::new("deep");
    let nested = |levels: usize| (0..levels).fold(serde_json::Value::from(1), |value, _| vec![value].into());
    let refused = one.put(&deep, "x", &nested(64));
    assert!(matches!(refused, Err(Error::Value { .. })), "{refused:?}");
    one.put(&deep, "x", &nested(63)).expect("put");
    one.checkpoint().expect("it is kept");
    assert_eq!(two.get(&deep, "x").expect("read"), Some(nested(63)));
    let none: Register<Option<u32>> = Register::new("none");
    let refused = one.set(&none, Some(&None));
    assert!(matches!(refused, Err(Error::Value { .. })), "{refused:?}");
    let later = MemoryLog::default();
    later.clone().append(b"objects 2", b"{}").expect("appended");
    let refused = Space::open(later).expect_err("a later version has written it");
    assert!(
        matches!(refused, Error::Unreadable { position: 0, .. }),
        "{refused:?}"
    );
}

#[test]
fn names_have_bounds() {
    let [mut one] = spaces();
    for name in [String::new(), "n".repeat(1025)] {
        let refused = one.add(&Counter::new(name), 1);
        assert!(matches!(refused, Err(Error::Name { .. })), "{refused:?}");
    }
    let users: Map<u32> = Map::new("users");
    one.put(&users, "", &1).expect("a key may be empty");
    let refused = one.put(&users, &"k".repeat(1025), &1);
    assert!(matches!(refused, Err(Error::Name { .. })), "{refused:?}");
}

/// The next act of a process.
#[derive(Debug, Clone)]
enum Act {
    /// Moves some from one account to another, in a transaction; another process moves one on to the third meanwhile.
    Move {
        from: usize,
        to: usize,
        amount: i64,
    },
    Enqueue,
    Take,
    Checkpoint,
    Forget,
}

fn act() -> impl Strategy<Value = (usize, Act)> {
    let act = prop_oneof![
        4 => (0..3_usize, 0..3_usize, 0..50_i64).prop_map(|(from, to, amount)| Act::Move { from, to, amount }),
        2 => Just(Act::Enqueue),
        2 => Just(Act::Take),
        1 => Just(Act::Checkpoint),
        1 => Just(Act::Forget),
    ];
    (0..3_usize, act)
}

/// Moves some from one account to another.
fn transfer(
    space: &mut Shared,
    accounts: &Map<i64>,
    (from, to): (&str, &str),
    amount: i64,
) -> Result<(), Error> {
    space.transact(|transaction| {
        let left = transaction.get(accounts, from)?.expect("it was put") - amount;
        if left < 0 {
            return Err(Error::GivenUp);
        }
        transaction.put(accounts, from, &left)?;
        let grown = transaction.get(accounts, to)?.expect("it was put") + amount;
        transaction.put(accounts, to, &grown)
    })?;
    Ok(())
}

proptest! {
    /// Three processes with views of different ages: nothing is lost, nothing is taken twice, no account is overdrawn, and all views are the same.
    #[test]
    fn views_come_to_the_same(acts in proptest::collection::vec(act(), 1..60)) {
        let log = MemoryLog::default();
        let mut spaces: Vec<Shared> = (0..3).map(|_| Space::open(log.clone()).expect("it is empty")).collect();
        let (accounts, jobs) = (Map::<i64>::new("accounts"), Queue::<u64>::new("jobs"));
        for account in 0..3 {
            spaces[0].put(&accounts, &account.to_string(), &100).expect("put");
        }
        let mut other = Space::open(log.clone()).expect("it is there");
        let (mut enqueued, mut taken) = (0, Vec::new());
        for (process, act) in acts {
            let space = &mut spaces[process];
            match act {
                Act::Move { from, to, amount } => {
                    let third = (0..3).find(|account| ![from, to].contains(account)).expect("there are three");
                    let (from, to, third) = (from.to_string(), to.to_string(), third.to_string());
                    let mut runs = 0;
                    let _ = space.transact(|transaction| {
                        runs += 1;
                        if runs == 1 {
                            let _ = transfer(&mut other, &accounts, (&to, &third), 1);
                        }
                        let left = transaction.get(&accounts, &from)?.expect("it was put") - amount;
                        if left < 0 {
                            return Err(Error::GivenUp);
                        }
                        transaction.put(&accounts, &from, &left)?;
                        let grown = transaction.get(&accounts, &to)?.expect("it was put") + amount;
                        transaction.put(&accounts, &to, &grown)
                    });
                }
                Act::Enqueue => {
                    space.enqueue(&jobs, &enqueued).expect("enqueue");
                    enqueued += 1;
                }
                Act::Take => taken.extend(space.take(&jobs).expect("take").map(|(_, job)| job)),
                Act::Checkpoint => drop(space.checkpoint().expect("kept")),
                Act::Forget => drop(space.forget().expect("trimmed")),
            }
        }
        let mut last = Space::open(log).expect("it is there");
        let left: Vec<u64> = last.view().list(&jobs, None, usize::MAX).expect("list").into_iter().map(|(_, job)| job).collect();
        taken.extend(left);
        prop_assert_eq!(taken, (0..enqueued).collect::<Vec<u64>>());
        let sums = last.view().entries(&accounts, "", 9).expect("read");
        prop_assert_eq!(sums.iter().map(|(_, sum)| sum).sum::<i64>(), 300);
        prop_assert!(sums.iter().all(|(_, sum)| *sum >= 0));
        last.sync().expect("played");
        for space in &mut spaces {
            prop_assert_eq!(space.sync().expect("played"), last.view());
        }
    }
}

/// An entry that was written by hand means what the page of the format says.
#[test]
fn entries_are_json() {
    let text = r#"{"if":[{"object":"users","key":"ann","at":17}],"do":[{"put":{"map":"users","key":"ann","value":1}},{"take":{"queue":"jobs"}},{"discard":{"queue":"jobs","id":[3,0]}}]}"#;
    let entry = Entry::decode(0, text.as_bytes()).expect("it is one");
    assert_eq!(
        entry.reads,
        [Read {
            object: "users".into(),
            key: Some("ann".into()),
            at: Some(17)
        }]
    );
    assert_eq!(
        String::from_utf8(entry.encode().expect("short names")).expect("text"),
        text
    );
}
