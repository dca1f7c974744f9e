//! The two formats that scrapers read: OpenMetrics 1.0, and Prometheus' own text format 0.0.4 for those that ask for it alone.
//!
//! The metrics are rendered as OpenMetrics, and then translated if need be. The older format has neither units nor info metrics
//! nor an end, and names a counter as its samples are named.

use std::fmt::Write;

/// See the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TextFormat {
    OpenMetrics,
    Prometheus,
}

impl TextFormat {
    /// The format for a client that accepts this; with no preference OpenMetrics.
    pub(crate) fn for_accept(accept: &str) -> TextFormat {
        let accepts = |kind: &str| {
            let mut ranges = accept.split(',').filter_map(|range| range.split(';').next());
            ranges.any(|range| range.trim().eq_ignore_ascii_case(kind))
        };
        match accepts("text/plain") && !accepts("application/openmetrics-text") {
            true => TextFormat::Prometheus,
            false => TextFormat::OpenMetrics,
        }
    }

    pub(crate) fn media_type(self) -> &'static str {
        match self {
            TextFormat::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            TextFormat::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }

    /// OpenMetrics text in this format.
    pub(crate) fn translate(self, text: String) -> String {
        match self {
            TextFormat::OpenMetrics => text,
            TextFormat::Prometheus => as_prometheus(&text),
        }
    }
}

fn as_prometheus(text: &str) -> String {
    let mut translated = String::with_capacity(text.len());
    // A family's help comes before its kind, and its name depends on that.
    let mut help = None;
    for line in text.lines() {
        if let Some(described) = line.strip_prefix("# HELP ") {
            help = described.split_once(' ');
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|line| line.split_once(' '))
        {
            let (suffix, kind) = match kind {
                "counter" => ("_total", kind),
                "info" => ("_info", "gauge"),
                _ => ("", kind),
            };
            if let Some((_, help)) = help.take() {
                writeln!(translated, "# HELP {name}{suffix} {help}")
                    .expect("writing to a string does not fail");
            }
            writeln!(translated, "# TYPE {name}{suffix} {kind}").expect("writing to a string does not fail");
        } else if !line.starts_with('#') {
            translated.push_str(line);
            translated.push('\n');
        }
    }
    translated
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_scraper_that_knows_no_openmetrics_gets_the_older_format() {
        let prometheus =
            "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.1";
        for accept in ["", "*/*", prometheus, "text/html,*/*;q=0.8"] {
            assert_eq!(
                TextFormat::for_accept(accept),
                TextFormat::OpenMetrics,
                "{accept}"
            );
        }
        for accept in [
            "text/plain; version=0.0.4",
            "TEXT/PLAIN",
            "text/plain;q=0.5, */*;q=0.1",
        ] {
            assert_eq!(TextFormat::for_accept(accept), TextFormat::Prometheus, "{accept}");
        }
    }

    #[test]
    fn the_older_format_names_counters_as_their_samples_and_has_no_units() {
        let text = "# HELP a_bytes What came.\n# TYPE a_bytes counter\n# UNIT a_bytes bytes\n\
                    a_bytes_total{core=\"0\"} 6\n\
                    # HELP b The version.\n# TYPE b info\nb_info{version=\"1\"} 1\n\
                    # HELP c Now.\n# TYPE c gauge\nc 5\n# EOF\n";
        let expected = "# HELP a_bytes_total What came.\n# TYPE a_bytes_total counter\n\
                        a_bytes_total{core=\"0\"} 6\n\
                        # HELP b_info The version.\n# TYPE b_info gauge\nb_info{version=\"1\"} 1\n\
                        # HELP c Now.\n# TYPE c gauge\nc 5\n";
        assert_eq!(TextFormat::Prometheus.translate(text.to_owned()), expected);
        assert_eq!(TextFormat::OpenMetrics.translate(text.to_owned()), text);
    }
}
