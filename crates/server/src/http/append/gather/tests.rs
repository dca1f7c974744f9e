//! Bodies and the batches they become, without a node.

use platform::random::SeededRandom;
use record::{Limits, Record};

use super::*;
use crate::record_json::HEADERS_MAX;

fn form(media_type: MediaType) -> Form {
    Form {
        media_type,
        key: None,
        now_ms: 1_000,
        partition: Some(3),
        keyless_draw: 0,
        partition_count: 7,
        batch_bytes_max: 1_000,
    }
}

fn records(gathered: &Gathered) -> Vec<Record> {
    let read = record::records(&gathered.bytes, &Limits::default()).expect("a sound batch");
    read.map(|record| record.expect("a sound record")).collect()
}

fn values(body: &[u8], form: &Form) -> Vec<Vec<u8>> {
    let gathered = gather(body, form).expect("a sound body");
    assert_eq!(gathered.len(), 1);
    assert_eq!(gathered[0].partition, 3);
    let records = records(&gathered[0]);
    assert_eq!(records.len(), gathered[0].count as usize);
    let value = |record: Record| record.value.expect("a value").to_vec();
    records.into_iter().map(value).collect()
}

fn refused(body: &[u8], form: &Form) -> serde_json::Value {
    gather(body, form).err().expect("a refusal").json()
}

#[test]
fn each_line_is_a_record_and_the_last_break_begins_none() {
    let form = form(MediaType::Text);
    assert_eq!(values(b"a\n\nb\r\nc", &form), [&b"a"[..], b"", b"b", b"c"]);
    assert_eq!(values(b"a\n", &form), [b"a"]);
    assert_eq!(values(b"\n", &form), [b""]);
    assert_eq!(values(b"\xff\xfe", &form), [b"\xff\xfe"]);
    assert_eq!(refused(b"", &form)["status"], 400);
}

#[test]
fn a_line_of_json_is_a_record_as_reading_gives_it() {
    let form = form(MediaType::JsonLines);
    let body =
        b"{\"value\":\"a\",\"offset\":7,\"partition\":1,\"key\":null}\r\n\n  \n{\"value_base64\":\"/w==\"}";
    assert_eq!(values(body, &form), [&b"a"[..], b"\xff"]);
    for (body, line, word) in [
        (
            &b"{\"value\":\"a\"}\n{\"value\":1}\n"[..],
            2,
            "line 2: the number `1` stands where",
        ),
        (b"{}", 1, "line 1: "),
        (
            b"[{\"value\":\"a\"}]",
            1,
            "an array stands where an object is expected",
        ),
    ] {
        let problem = refused(body, &form);
        assert_eq!(
            (&problem["status"], &problem["line"]),
            (&400.into(), &line.into()),
            "{problem}"
        );
        assert!(problem["detail"].to_string().contains(word), "{problem}");
    }
    assert_eq!(refused(b"\n", &form)["detail"], "there is no record in the body");
}

#[test]
fn other_bytes_are_one_record_whatever_they_are() {
    let form = form(MediaType::Bytes);
    assert_eq!(values(b"a\n\0\xff", &form), [b"a\n\0\xff"]);
    assert_eq!(values(b"", &form), [b""]);
}

#[test]
fn json_records_keep_all_they_say() {
    let body = br#"[{"key":"k","value_base64":"/w==","timestamp_ms":5,
        "headers":[{"key":"h","value":"x"},{"key":"n"}]}, {"key":"gone","value":null}]"#;
    let gathered = gather(body, &form(MediaType::Json)).expect("sound");
    let records = records(&gathered[0]);
    assert_eq!(records[0].timestamp_ms, 5);
    assert_eq!(records[0].key.as_deref(), Some(&b"k"[..]));
    assert_eq!(records[0].value.as_deref(), Some(&b"\xff"[..]));
    let header = |place: usize| {
        let (key, value) = &records[0].headers[place];
        (key.to_vec(), value.as_ref().map(|value| value.to_vec()))
    };
    assert_eq!(header(0), (b"h".to_vec(), Some(b"x".to_vec())));
    assert_eq!(header(1), (b"n".to_vec(), None));
    assert_eq!((records[1].timestamp_ms, &records[1].value), (1_000, &None));
}

#[test]
fn json_that_is_none_is_refused_with_the_place() {
    let form = form(MediaType::Json);
    for (body, line, column) in [
        (&b"[{\"value\":\n \"a\" oops}]"[..], 2, 6),
        (b"", 1, 0),
        (b"{}", 1, 0),
        (b"[1]", 1, 2),
        (b"[{\"value\":\"a\"}] x", 1, 17),
        (b"[{\"value\":\"\xff\"}]", 1, 12),
    ] {
        let problem = refused(body, &form);
        assert_eq!(
            problem["type"], "urn:ropewalk:problem:malformed-body",
            "{problem}"
        );
        assert_eq!(
            (&problem["line"], &problem["column"]),
            (&line.into(), &column.into()),
            "{problem}"
        );
    }
    for body in [
        &b"[]"[..],
        b"[{}]",
        b"[{\"value\":\"a\",\"timestamp_ms\":-1}]",
        b"[{\"v\":1}]",
    ] {
        assert_eq!(refused(body, &form)["status"], 400);
    }
}

#[test]
fn deep_json_does_not_overflow_the_stack() {
    let deep = [b"[{\"value\":".as_slice(), &vec![b'['; 1 << 20]].concat();
    assert_eq!(refused(&deep, &form(MediaType::Json))["status"], 400);
}

#[test]
fn keys_choose_partitions_as_kafkas_clients_do_and_the_keyless_stay_together() {
    let keyed = Form {
        partition: None,
        ..form(MediaType::Json)
    };
    let body = br#"[{"key":"21","value":"a"},{"key":"foobar","value":"b"},{"key":"21","value":"c"}]"#;
    let gathered = gather(body, &keyed).expect("sound");
    let places: Vec<(i32, i32)> = gathered.iter().map(|one| (one.partition, one.count)).collect();
    let of = |key: &[u8]| partition_of(key, 7) as i32;
    let mut expected = vec![(of(b"21"), 2), (of(b"foobar"), 1)];
    expected.sort_unstable();
    assert_eq!(places, expected);
    let lines = Form {
        partition: None,
        ..form(MediaType::Text)
    };
    let gathered = gather(b"a\nb\nc", &lines).expect("sound");
    assert_eq!((gathered.len(), gathered[0].count), (1, 3));
    let lines = Form {
        key: Some(b"foobar".to_vec()),
        ..lines
    };
    assert_eq!(gather(b"a", &lines).expect("sound")[0].partition, of(b"foobar"));
}

#[test]
fn what_passes_the_topics_limit_ends_at_once() {
    let json = [
        b"[".as_slice(),
        &b"{\"value\":\"aaaaaaaaaa\"},".repeat(100),
        b"oops",
    ]
    .concat();
    let problem = refused(&json, &form(MediaType::Json));
    assert_eq!(
        (&problem["status"], &problem["bytes_max"]),
        (&413.into(), &1_000.into())
    );
    assert_eq!(refused(&[b'a'; 1_000], &form(MediaType::Bytes))["status"], 413);
    assert_eq!(values(&[b'a'; 900], &form(MediaType::Bytes)).len(), 1);
}

#[test]
fn headers_are_counted_while_they_are_read() {
    let form = Form {
        batch_bytes_max: 1 << 20,
        ..form(MediaType::Json)
    };
    let with_headers = |count: usize, end: &str| {
        let headers = vec![r#"{"key":""}"#; count].join(",");
        format!(r#"[{{"value":"v","headers":[{headers}{end}"#).into_bytes()
    };
    for count in [0, HEADERS_MAX] {
        let gathered = gather(&with_headers(count, "]}]"), &form).expect("sound");
        assert_eq!(records(&gathered[0])[0].headers.len(), count);
    }
    // Bytes behind the limit are not looked at.
    let problem = refused(&with_headers(HEADERS_MAX + 1, " oops"), &form);
    assert_eq!(problem["type"], "urn:ropewalk:problem:malformed-body");
    let detail = problem["detail"].as_str().expect("a sentence");
    assert!(detail.contains("10000 entries"), "{detail}");
}

#[test]
fn whatever_comes_is_refused_or_makes_sound_batches() {
    let sound = br#"[{"key":"k","value_base64":"/w==","timestamp_ms":5,"headers":[{"key":"h","value":"x"}]},{"value":""}]"#;
    let mut random = SeededRandom::new(7);
    let mut taken = 0;
    for _ in 0..5_000 {
        let mut body = sound.to_vec();
        for _ in 0..=random.below(2) {
            let at = random.below(body.len() as u64) as usize;
            // Bytes that can be typed are often sound; others seldom are.
            body[at] = match random.chance(3, 4) {
                true => b' ' + random.below(95) as u8,
                false => random.below(256) as u8,
            };
        }
        for batch in gather(&body, &form(MediaType::Json)).into_iter().flatten() {
            record::examine(&batch.bytes, &Limits::default()).expect("what is built is sound");
            taken += 1;
        }
    }
    assert!(taken > 100, "{taken} were taken");
}
