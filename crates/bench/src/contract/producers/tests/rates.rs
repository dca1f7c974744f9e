//! Records that are due at a rate.

use super::*;

#[test]
fn a_stall_counts_for_all_that_was_due_meanwhile() {
    let paced = append(json!({"records": 600, "rate": 1_000.0}));
    let stalling = Behaviour {
        stall: Some((200, Duration::from_millis(200))),
        window: 1,
        ..PROMPT
    };
    let closed = Append {
        rate: None,
        ..paced.clone()
    };
    let limit = Duration::from_micros(50_500);
    assert_eq!(longer_than(&done(&closed, stalling), limit), 1);
    // Those that were due in the first 150 ms of 200 waited for more than 50.
    assert_eq!(longer_than(&done(&paced, stalling), limit), 150);
}

#[test]
fn a_rate_is_kept_and_nothing_is_sent_before_it_is_due() {
    let append =
        append(json!({"producers": 2, "records": null, "seconds": 0.5, "rate": 2_000.0, "in_flight": 4}));
    let done = done(&append, PROMPT);
    assert_eq!((done.records, &done.appended[..]), (1_000, &[500, 500][..]));
    assert_eq!(took(&done), Duration::from_micros(499_500), "the last one is due");
    assert_eq!((count(&done), longer_than(&done, MOMENT)), (1_000, 0));
}

#[test]
fn each_record_of_a_batch_counts_from_its_own_due_time() {
    let stalling = Behaviour {
        stall: Some((0, Duration::from_millis(100))),
        window: 1,
        ..PROMPT
    };
    let append = append(json!({"records": 100, "batch_records": 200, "rate": 1_000.0}));
    // The first record holds up the others, which then go in one batch. They were due one by one in the 100 ms before.
    let ran = run_fake(&append, Batches::ByDriver, stalling);
    let done = ran.done.expect("it runs");
    assert_eq!(
        (done.records, count(&done)),
        (100, 100),
        "a latency for each record"
    );
    for (limit_us, expected) in [(25_500, 75), (50_500, 50), (75_500, 25)] {
        let longer = longer_than(&done, Duration::from_micros(limit_us));
        assert_eq!(longer, expected, "over {limit_us} us");
    }
    assert_eq!(ran.log, [(0, 0, 0..1), (0, 0, 1..100)]);
}

#[test]
fn nothing_waits_for_a_batch_to_fill() {
    let append = append(json!({"records": 50, "batch_records": 50, "in_flight": 50, "rate": 1_000.0}));
    let ran = run_fake(&append, Batches::ByDriver, PROMPT);
    let done = ran.done.expect("it runs");
    assert_eq!((done.records, count(&done)), (50, 50));
    assert_eq!(longer_than(&done, MOMENT), 0, "{done:?}");
    assert_eq!(
        ran.log.len(),
        50,
        "there is room for each record when it is due: {:?}",
        ran.log
    );
}

#[test]
fn who_falls_behind_sends_no_more_in_one_batch_than_is_allowed_and_nothing_twice() {
    let append = append(
        json!({"producers": 2, "shards": 3, "records": null, "seconds": 0.3, "batch_records": 7, "warmup_records": 5, "rate": 2_000.0}),
    );
    let slow = slow(|_| Duration::from_millis(3), 1);
    let ran = run_fake(&append, Batches::ByDriver, slow);
    let done = ran.done.expect("it runs");
    assert_eq!((done.records, count(&done)), (600, 600));
    assert_eq!(done.appended, [303, 302]);
    for producer in 0..2 {
        let own = ran.log.iter().filter(|(sender, ..)| *sender == producer);
        let mut next = 0;
        for (unit, (_, shard, records)) in (0u32..).zip(own) {
            assert_eq!(records.start, next);
            assert!((1..=7).contains(&(records.end - records.start)), "{records:?}");
            assert_eq!(*shard, (producer + unit * 2) % 3);
            next = records.end;
        }
        assert_eq!(next, done.appended[producer as usize]);
    }
}

#[test]
fn each_measured_record_is_due_once_and_none_of_the_warm_up() {
    let append = append(json!({"producers": 2, "warmup_records": 3, "rate": 1_000.0}));
    let schedule = Schedule::new(&append);
    let due = |producer, sequence| schedule.due(Stamp { producer, sequence });
    assert_eq!(due(0, 5), None, "nothing is due before the beginning");
    let began = *schedule.began.get_or_init(Instant::now);
    let ms = |producer, sequence| Some((due(producer, sequence)? - began).as_millis());
    // The first makes two records of the warm-up, the other one.
    assert_eq!(
        [ms(0, 1), ms(0, 2), ms(0, 3), ms(0, 500)],
        [None, Some(0), Some(2), Some(996)]
    );
    assert_eq!([ms(1, 0), ms(1, 1), ms(1, 2)], [None, Some(1), Some(3)]);
    assert_eq!(ms(2, 100), None);
    // No rounding adds up.
    let hours = Duration::from_secs(36_000);
    assert!((due(0, 18_000_002).expect("due") - began).abs_diff(hours) < Duration::from_micros(1));
}
