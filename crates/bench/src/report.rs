//! Reports: one JSON object, or the same as lines of a name and a figure.

use serde::Serialize;

use crate::number;

/// A workload's report: the names of its fields are those of the JSON and of the text.
pub trait Report: Serialize {
    /// The report as `--json` asks: one JSON object on one line, or text.
    ///
    /// # Panics
    /// Never: a report is plain data.
    fn render(&self, json: bool) -> String {
        if json {
            serde_json::to_string(self).expect("a report is plain data")
        } else {
            self.text()
        }
    }

    /// A line for each figure that there is.
    ///
    /// # Panics
    /// Never: a report is plain data.
    fn text(&self) -> String {
        // So written, an object has a line for each of its fields, in their order.
        let lines = serde_json::to_string_pretty(self).expect("a report is plain data");
        let fields = lines
            .lines()
            .filter_map(|line| line.trim().strip_prefix('"')?.split_once("\": "));
        let told = fields.filter_map(|(name, value)| {
            let value: serde_json::Value = serde_json::from_str(value.trim_end_matches(',')).ok()?;
            let value = match &value {
                serde_json::Value::Null => return None,
                serde_json::Value::String(words) => words.clone(),
                other => match (other.as_u64(), other.as_f64()) {
                    (Some(count), _) => number::count(count),
                    (None, Some(figure)) if !other.is_i64() => number::plain(figure),
                    _ => other.to_string(),
                },
            };
            Some(format!("{name:<22} {value}\n"))
        });
        told.collect()
    }
}

/// Bytes of 10^6 a second.
pub(crate) fn mb_per_s(bytes: u64, seconds: f64) -> f64 {
    per_s(bytes as f64 / 1e6, seconds)
}

/// A count and what is counted, in the singular or the plural.
pub(crate) fn counted(count: impl Into<u64>, noun: &str) -> String {
    let count = count.into();
    let ending = if count == 1 { "" } else { "s" };
    format!("{} {noun}{ending}", number::count(count))
}

/// How many a second, to two places; zero in no time.
pub(crate) fn per_s(count: f64, seconds: f64) -> f64 {
    if seconds <= 0.0 {
        return 0.0;
    }
    (count / seconds * 100.0).round() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize)]
    struct Small {
        workload: &'static str,
        records: u64,
        acks: i16,
        rate: Option<f64>,
        p50_us: f64,
    }

    impl Report for Small {}

    #[test]
    fn text_names_what_there_is_as_json_does_and_in_its_order() {
        let report = Small {
            workload: "say \"read\"",
            records: 1_234_567,
            acks: -1,
            rate: None,
            p50_us: 92.13,
        };
        let text = report.render(false);
        let lines: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.splitn(2, ' ').map(str::trim).collect())
            .collect();
        let expected = [
            ["workload", "say \"read\""],
            ["records", "1,234,567"],
            ["acks", "-1"],
            ["p50_us", "92.1"],
        ];
        assert_eq!(lines, expected);
        assert_eq!(counted(1_u32, "producer"), "1 producer");
        assert_eq!(counted(0_u32, "partition"), "0 partitions");
    }
}
