//! A page that is written in turns says what one written at once says, and gives others their turns.

use std::sync::Arc;

use platform::work::{Pool, Threads};
use record::BatchBuilder;

use super::super::write_record;
use super::*;
use crate::log_bounds::LogBounds;

const LIMITS: Limits = Limits {
    records_max: 100,
    bytes_max: 1_000,
    record_bytes_max: 500,
    decompression: record::Limits {
        decompressed_bytes_max: 1 << 20,
        snappy_block_bytes_max: 1 << 20,
        zstd_window_log_max: 20,
    },
};

fn batch(compression: Compression, first: i64, values: &[&str]) -> Bytes {
    let mut builder = BatchBuilder::new(compression);
    for value in values {
        builder.append(1, None, Some(value.as_bytes()), &[]);
    }
    let mut batch = builder.build().to_vec();
    record::set_base_offset(&mut batch, Offset(first));
    batch.into()
}

/// All of a page's turns.
fn write_page(batches: &[Bytes], from: Offset, form: Form, limits: &Limits) -> Result<Page, Unpaged> {
    let mut writing = Writing::new(Found::of(batches.to_vec()).0, from, form, *limits);
    while writing.turn()? != Turn::Ends {}
    Ok(writing.page)
}

fn lines(page: &Page) -> usize {
    page.text.split(|byte| *byte == b'\n').count() - 1
}

#[test]
fn a_page_begins_inside_a_batch_and_ends_where_it_is_full() {
    let batches = [
        batch(Compression::None, 0, &["a", "b"]),
        batch(Compression::Gzip, 2, &["c", "d"]),
    ];
    let write = |from, records_max| {
        let limits = Limits {
            records_max,
            ..LIMITS
        };
        write_page(&batches, Offset(from), Form::Lines, &limits).expect("a page")
    };
    for (from, records_max, records, next) in [(0, 9, 4, 4), (1, 2, 2, 3), (3, 9, 1, 4), (1, 1, 1, 2)] {
        let page = write(from, records_max);
        assert_eq!(
            (page.records, lines(&page), page.next),
            (records, records, Offset(next))
        );
        assert!(page.text.starts_with(format!("{{\"offset\":{from},").as_bytes()));
    }
}

#[test]
fn a_page_that_ends_inside_the_batch_it_begins_in_says_so() {
    let batches = [
        batch(Compression::None, 0, &["a", "b"]),
        batch(Compression::Gzip, 2, &["c", "d", "e"]),
    ];
    for (from, records_max, inside) in [
        (0, 1, true),
        (1, 1, false),
        (0, 3, false),
        (2, 1, true),
        (3, 1, true),
        (3, 2, false),
    ] {
        let limits = Limits {
            records_max,
            ..LIMITS
        };
        let page = write_page(&batches, Offset(from), Form::Lines, &limits).expect("a page");
        assert_eq!(page.inside_batch, inside, "{records_max} from {from} on");
    }
}

#[test]
fn the_first_record_may_pass_the_limit_and_no_other() {
    let batches = [batch(Compression::None, 0, &["a", "b"])];
    let limits = Limits {
        bytes_max: 1,
        ..LIMITS
    };
    let page = write_page(&batches, Offset(0), Form::Lines, &limits).expect("a page");
    assert_eq!((page.records, lines(&page), page.next), (1, 1, Offset(1)));
}

#[test]
fn a_record_that_no_answer_holds_is_named_when_it_comes_first() {
    let long = "x".repeat(501);
    let batches = [batch(Compression::None, 0, &["a", &long, "b"])];
    let page = write_page(&batches, Offset(0), Form::Lines, &LIMITS).expect("a page");
    assert_eq!((page.records, page.next), (1, Offset(1)));
    let refused = write_page(&batches, Offset(1), Form::Lines, &LIMITS).expect_err("too large");
    let expected = Unpaged::TooLarge {
        offset: Offset(1),
        bytes: 501,
        bytes_max: 500,
    };
    assert_eq!(refused, expected);
    let page = write_page(&batches, Offset(2), Form::Lines, &LIMITS).expect("a page");
    assert_eq!((page.records, page.next), (1, Offset(3)));
}

#[test]
fn headers_count_with_what_they_take_as_text() {
    let mut builder = BatchBuilder::new(Compression::Gzip);
    for count in [2, 30] {
        builder.append(1, None, None, &vec![(&b""[..], None); count]);
    }
    let batches = [builder.build()];
    let page = write_page(&batches, Offset(0), Form::Lines, &LIMITS).expect("a page");
    assert_eq!((page.records, page.next), (1, Offset(1)));
    let refused = write_page(&batches, Offset(1), Form::Lines, &LIMITS).expect_err("too large");
    assert!(
        matches!(refused, Unpaged::TooLarge { bytes: 660, .. }),
        "{refused:?}"
    );
}

/// As a page was before it was written in turns: every batch is unpacked whole.
fn expected(batches: &[Bytes], from: Offset, limits: &Limits) -> (String, Offset) {
    let (mut text, mut next, mut count) = (String::new(), from, 0);
    for batch in batches {
        let records = record::records(batch, &limits.decompression).expect("sound");
        let behind = records.header().next_offset();
        if behind <= next {
            continue;
        }
        for record in records.map(|record| record.expect("sound")) {
            let mut line = Vec::new();
            write_record(&mut line, (Form::Lines, None), count == 0, &record).expect("memory takes it");
            if record.offset < next {
                continue;
            }
            let is_full = count == limits.records_max || text.len() + line.len() > limits.bytes_max;
            if count > 0 && is_full || bytes_of(&record) > limits.record_bytes_max {
                return (text, next);
            }
            text.push_str(std::str::from_utf8(&line).expect("text"));
            next = record.offset.advance(1);
            count += 1;
        }
        next = behind;
    }
    (text, next)
}

#[test]
fn a_page_in_turns_has_what_whole_batches_have() {
    let values: Vec<String> = [3, 0, 20_000, 100_000, 700_000, 70_000, 5]
        .map(|length| "y".repeat(length))
        .to_vec();
    let values: Vec<&str> = values.iter().map(String::as_str).collect();
    let compressions = [
        Compression::Gzip,
        Compression::None,
        Compression::Snappy,
        Compression::Lz4,
        Compression::Zstd,
    ];
    let batches: Vec<Bytes> = compressions
        .iter()
        .zip(0..)
        .map(|(compression, number)| batch(*compression, 7 * number, &values))
        .collect();
    for from in [0, 3, 4, 6, 11, 20, 34, 35] {
        for (records_max, bytes_max) in [(1, 10), (2, 1 << 20), (5, 150_000), (9, 30_000), (99, 9 << 20)] {
            let limits = Limits {
                records_max,
                bytes_max,
                record_bytes_max: 800_000,
                ..LIMITS
            };
            let limits = Limits {
                decompression: record::Limits::default(),
                ..limits
            };
            let page = write_page(&batches, Offset(from), Form::Lines, &limits).expect("a page");
            let (text, next) = expected(&batches, Offset(from), &limits);
            assert_eq!(page.next, next, "{limits:?} from {from}");
            assert!(page.text == text.into_bytes(), "{limits:?} from {from}");
        }
    }
}

/// One large record and a small one.
fn bomb() -> Bytes {
    batch(Compression::Zstd, 0, &["x".repeat(16 << 20).as_str(), "small"])
}

fn wide_limits() -> Limits {
    Limits {
        record_bytes_max: 32 << 20,
        decompression: record::Limits::default(),
        ..LIMITS
    }
}

/// A page of these batches, whose memory comes from `budget`.
async fn paged(budget: Arc<Budget>, batches: Vec<Bytes>, from: i64) -> Result<Page, Unpaged> {
    let limits = wide_limits();
    let mut room = budget.room(limits.bytes_max + WORK_BYTES).await;
    let memory = Memory {
        budget: &budget,
        room: &mut room,
        text_before: 0,
    };
    make_page(
        &Pool::of(&Threads),
        Found::of(batches).0,
        Offset(from),
        Form::Lines,
        limits,
        memory,
    )
    .await
}

#[test]
fn readers_of_little_do_not_wait_until_much_is_unpacked() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .max_blocking_threads(1)
        .enable_time()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let budget = Arc::new(Budget::new(256 << 20));
        let bomb = bomb();
        // They come first, and there is one worker.
        let much: Vec<_> = (0..8)
            .map(|_| tokio::spawn(paged(Arc::clone(&budget), vec![bomb.clone()], 1)))
            .collect();
        tokio::task::yield_now().await;
        for _ in 0..8 {
            let little = vec![batch(Compression::Gzip, 0, &["a"])];
            let page = paged(Arc::clone(&budget), little, 0).await.expect("a page");
            assert_eq!(page.records, 1);
        }
        assert!(much.iter().all(|much| !much.is_finished()), "all take turns");
        for much in much {
            let page = much.await.expect("it does not panic").expect("a page");
            assert_eq!((page.records, page.next), (1, Offset(2)));
        }
        assert_eq!(budget.held_bytes(), 0);
    });
}

#[tokio::test]
async fn a_record_is_unpacked_only_where_there_is_room_for_it() {
    let records = |page: Page| page.records;
    let large = vec![bomb()];
    let small = Arc::new(Budget::new(8 << 20));
    let refused = paged(Arc::clone(&small), large.clone(), 0).await.map(records);
    assert!(
        matches!(refused, Err(Unpaged::TooMuch { offset: Offset(0), bytes_max, .. }) if bytes_max == 8 << 20),
        "{refused:?}"
    );
    let passed = paged(small, large.clone(), 1).await.map(records);
    assert_eq!(passed, Ok(1), "it is in nobody's memory");
    let budget = Arc::new(Budget::new(64 << 20));
    let others = budget.room(50 << 20).await;
    let refused = paged(Arc::clone(&budget), large.clone(), 0).await.map(records);
    assert_eq!(refused, Err(Unpaged::NoRoom));
    drop(others);
    let page = paged(budget, large, 0).await.map(records);
    assert_eq!(page, Ok(1), "the first may be longer than the page");
}

#[test]
fn what_unpacks_to_too_much_is_not_unpacked() {
    let batches = [batch(Compression::Gzip, 0, &["x".repeat(2 << 20).as_str()])];
    let limits = Limits {
        record_bytes_max: 4 << 20,
        ..LIMITS
    };
    let refused = write_page(&batches, Offset(0), Form::Lines, &limits).expect_err("too large");
    assert!(matches!(refused, Unpaged::Damaged { .. }), "{refused}");
}

#[test]
fn the_whole_is_json_and_each_event_is_one_line_of_data() {
    let batches = [batch(Compression::None, 0, &["a\nb", "c"])];
    let page = write_page(&batches, Offset(0), Form::Array, &LIMITS).expect("a page");
    let bounds = LogBounds {
        log_start: Offset(0),
        tail: Offset(9),
    };
    let whole: serde_json::Value = serde_json::from_slice(&page.finish(bounds)).expect("JSON");
    assert_eq!(whole["records"][0]["value"], "a\nb");
    assert_eq!((&whole["next_offset"], &whole["tail"]), (&2.into(), &9.into()));
    let page = write_page(&batches, Offset(0), Form::Events, &LIMITS).expect("a page");
    let text = String::from_utf8(page.text).expect("text");
    assert!(text.starts_with("id: 0\ndata: {\"offset\":0,"), "{text}");
    assert!(text.ends_with("}\n\n") && text.lines().count() == 6, "{text}");
}
