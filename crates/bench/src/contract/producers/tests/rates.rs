//! Records that are due at a rate.

use super::*;

#[test]
fn a_stall_counts_for_all_that_was_due_meanwhile() {
    let paced = Append {
        records: Some(600),
        rate: Some(1_000.0),
        ..append()
    };
    let stalling = Behaviour {
        stall: Some((200, Duration::from_millis(200))),
        window: 1,
        ..PROMPT
    };
    let closed = Append {
        rate: None,
        ..paced.clone()
    };
    let limit = Duration::from_millis(50);
    assert_eq!(longer_than(&done(&closed, Batches::ByDriver, stalling), limit), 1);
    // Those that were due in the first 150 ms of 200 waited for more than 50.
    let late = longer_than(&done(&paced, Batches::ByDriver, stalling), limit);
    assert!((140..=200).contains(&late), "{late}");
}

#[test]
fn a_rate_is_kept_and_nothing_is_sent_before_it_is_due() {
    let append = Append {
        producers: 2,
        records: None,
        seconds: Some(0.5),
        rate: Some(2_000.0),
        in_flight: 4,
        ..append()
    };
    let done = done(&append, Batches::ByDriver, PROMPT);
    assert_eq!((done.records, &done.appended[..]), (1_000, &[500, 500][..]));
    assert!((0.49..0.7).contains(&done.seconds), "{done:?}");
    assert_eq!(count(&done), 1_000);
}

#[test]
fn batches_are_due_with_their_last_record() {
    let append = Append {
        records: Some(50),
        batch_records: 50,
        rate: Some(1_000.0),
        ..append()
    };
    let done = done(&append, Batches::ByDriver, PROMPT);
    assert!((0.049..0.2).contains(&done.seconds), "{done:?}");
    assert_eq!(longer_than(&done, Duration::from_millis(40)), 0);
}

#[test]
fn each_measured_record_is_due_once_and_none_of_the_warm_up() {
    let append = Append {
        producers: 2,
        warmup_records: 3,
        rate: Some(1_000.0),
        ..append()
    };
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
