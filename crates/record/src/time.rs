//! Times as the log's fields and Kafka's have them: in whole milliseconds.

use std::time::Duration;

/// The whole milliseconds of a span; the most there are if it has more.
#[must_use]
pub fn whole_ms(span: Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_cut_to_whole_milliseconds_and_to_their_type() {
        assert_eq!(whole_ms(Duration::from_micros(1_999)), 1);
        assert_eq!(whole_ms(Duration::MAX), i64::MAX);
    }
}
