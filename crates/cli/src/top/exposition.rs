//! The metrics of a node as it tells them (OpenMetrics text), and sums over them.

use std::collections::BTreeMap;

/// Samples by name.
#[derive(Debug, Clone, Default)]
pub(super) struct Exposition {
    samples: BTreeMap<String, Vec<Sample>>,
}

/// Upper bounds of a histogram's buckets, ascending, and how many are up to each.
pub(super) type Buckets = Vec<(f64, u64)>;

/// A label's name and value.
pub(super) type Label<'a> = (&'a str, &'a str);

/// Labels but for the bound.
type Subject<'a> = Vec<Label<'a>>;

#[derive(Debug, Clone, PartialEq)]
struct Sample {
    labels: Vec<(String, String)>,
    value: f64,
}

impl Exposition {
    /// Reads a text of metrics.
    ///
    /// # Errors
    /// The line that is none.
    pub(super) fn parse(text: &str) -> Result<Exposition, String> {
        let mut samples: BTreeMap<String, Vec<Sample>> = BTreeMap::new();
        for line in text
            .lines()
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
        {
            let (name, sample) = sample(line).ok_or_else(|| {
                let begin: String = line.chars().take(60).collect();
                format!("{begin:?} is no metric")
            })?;
            samples.entry(name).or_default().push(sample);
        }
        Ok(Exposition { samples })
    }

    /// The sum of a metric over all its labels; `None` if nothing is told of it.
    pub(super) fn sum(&self, name: &str) -> Option<f64> {
        let samples = self.samples.get(name)?;
        Some(samples.iter().map(|sample| sample.value).sum())
    }

    /// The sum of a metric over what has a label; `None` if nothing is told of that.
    pub(super) fn sum_of(&self, name: &str, label: Label<'_>) -> Option<f64> {
        let samples = self.samples.get(name)?.iter();
        let labelled = samples.filter(|sample| sample.has(label));
        labelled
            .map(|sample| sample.value)
            .reduce(|sum, value| sum + value)
    }

    /// The growth of a counter since `before`, over everything or over what has a label. Each set of labels by itself: one that
    /// shrank began at zero again, and one that was not told before has no known growth. `None` if nothing is told of the
    /// others.
    pub(super) fn growth(&self, before: &Exposition, name: &str, label: Option<Label<'_>>) -> Option<f64> {
        let before = before.samples.get(name)?.iter();
        let before: BTreeMap<_, _> = before
            .map(|sample| (sample.labels.as_slice(), sample.value))
            .collect();
        let samples = self.samples.get(name)?.iter();
        let wanted = samples.filter(|sample| label.is_none_or(|label| sample.has(label)));
        let grown = wanted.filter_map(|sample| {
            let before = before.get(sample.labels.as_slice())?;
            let began = if *before <= sample.value { *before } else { 0.0 };
            Some((sample.value - began).max(0.0))
        });
        grown.reduce(|sum, grown| sum + grown)
    }

    /// The buckets of a histogram for each of its subjects; `None` if nothing is told of it.
    pub(super) fn histograms(&self, name: &str) -> Option<BTreeMap<Subject<'_>, Buckets>> {
        let samples = self.samples.get(&format!("{name}_bucket"))?;
        let mut histograms: BTreeMap<Subject<'_>, Buckets> = BTreeMap::new();
        for sample in samples {
            let bound = sample.label("le").and_then(|bound| bound.parse::<f64>().ok());
            if let Some(bound) = bound.filter(|bound| !bound.is_nan()) {
                let others = sample.labels.iter().filter(|(name, _)| name != "le");
                let subject = others.map(|(name, value)| (name.as_str(), value.as_str()));
                let buckets = histograms.entry(subject.collect()).or_default();
                buckets.push((bound, sample.value as u64));
            }
        }
        for buckets in histograms.values_mut() {
            buckets.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        }
        Some(histograms)
    }

    /// The values that a label has in any of these metrics, each once, by number.
    pub(super) fn values(&self, names: &[&str], label: &str) -> Vec<String> {
        let samples = names.iter().filter_map(|name| self.samples.get(*name)).flatten();
        let mut values: Vec<String> = samples
            .filter_map(|sample| sample.label(label))
            .map(str::to_owned)
            .collect();
        values.sort_by_cached_key(|value| (value.parse::<u64>().unwrap_or(u64::MAX), value.clone()));
        values.dedup();
        values
    }

    /// A label of the only sample of a metric.
    pub(super) fn label(&self, name: &str, label: &str) -> Option<&str> {
        self.samples.get(name)?.first()?.label(label)
    }
}

impl Sample {
    fn has(&self, (name, value): Label<'_>) -> bool {
        self.label(name) == Some(value)
    }

    fn label(&self, name: &str) -> Option<&str> {
        let found = self.labels.iter().find(|(label, _)| label == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// `name value` or `name{label="value",...} value`; a time behind it is left aside.
fn sample(line: &str) -> Option<(String, Sample)> {
    let (name, labels, rest) = match line.find(['{', ' '])? {
        at if line[at..].starts_with('{') => {
            let (labels, rest) = labels(&line[at + 1..])?;
            (&line[..at], labels, rest)
        }
        at => (&line[..at], Vec::new(), &line[at..]),
    };
    let value = rest.split_whitespace().next()?.parse().ok()?;
    (!name.is_empty()).then(|| (name.to_owned(), Sample { labels, value }))
}

type Labels = Vec<(String, String)>;

/// The labels up to the closing brace, and what stands behind it.
fn labels(text: &str) -> Option<(Labels, &str)> {
    let mut labels = Vec::new();
    let mut rest = text;
    loop {
        if let Some(behind) = rest.strip_prefix('}') {
            return Some((labels, behind));
        }
        let (name, behind) = rest.split_once("=\"")?;
        let (value, behind) = quoted(behind)?;
        labels.push((name.to_owned(), value));
        rest = behind.strip_prefix(',').unwrap_or(behind);
    }
}

/// A label's value up to its closing quote, and what stands behind it.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => match letters.next()?.1 {
                'n' => value.push('\n'),
                other => value.push(other),
            },
            other => value.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_summed_and_told_apart_by_label() {
        let text = "# HELP x y\n# TYPE x counter\nplain 7\nrequests_total{core=\"0\"} 3\n\
            requests_total{core=\"10\"} 4.5 1700000000\nropewalk_core_up{core=\"10\"} 1\nropewalk_core_up{core=\"9\"} 0\n\
            build_info{version=\"1 \\\"x\\\",}\"} 1\n# EOF\n";
        let read = Exposition::parse(text).expect("metrics");
        assert_eq!(read.sum("plain"), Some(7.0));
        assert_eq!(read.sum("requests_total"), Some(7.5));
        assert_eq!(read.sum_of("requests_total", ("core", "10")), Some(4.5));
        assert_eq!(read.sum_of("requests_total", ("core", "1")), None);
        assert_eq!(read.sum("absent"), None);
        assert_eq!(read.values(&["ropewalk_core_up"], "core"), ["9", "10"]);
        let both = ["requests_total", "absent", "ropewalk_core_up"];
        assert_eq!(read.values(&both, "core"), ["0", "9", "10"]);
        assert_eq!(read.label("build_info", "version"), Some("1 \"x\",}"));
    }

    #[test]
    fn what_is_no_metric_is_told() {
        for text in [
            "<html>",
            "x",
            "x y",
            "x{a=\"b\" 1",
            "x{a=\"b\"}",
            "x{a=b} 1",
            "{} 1",
            " 1",
        ] {
            assert!(Exposition::parse(text).is_err(), "{text}");
        }
    }
}
