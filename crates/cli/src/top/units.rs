//! Figures as people read them: three digits and a unit.

/// `12.3 MiB`.
pub(super) fn bytes(value: f64) -> String {
    scaled(value, 1024.0, &["B", "KiB", "MiB", "GiB", "TiB", "PiB"])
}

/// `12.3 k`; up to a thousand without a unit.
pub(super) fn count(value: f64) -> String {
    scaled(value, 1000.0, &["", "k", "M", "G", "T"])
}

/// `420 µs`, of seconds.
pub(super) fn time(seconds: f64) -> String {
    match seconds {
        // A time that rounds to a millisecond is one.
        seconds if seconds > 0.0 && seconds < 0.999_5e-3 => format!("{} µs", digits(seconds * 1e6)),
        seconds if seconds < 1.0 => format!("{} ms", digits(seconds * 1_000.0)),
        seconds if seconds < 120.0 => format!("{} s", digits(seconds)),
        seconds if seconds < 7_200.0 => format!("{:.0} min", (seconds / 60.0).floor()),
        seconds if seconds < 172_800.0 => format!("{:.0} h", (seconds / 3_600.0).floor()),
        seconds => format!("{:.0} d", (seconds / 86_400.0).floor()),
    }
}

fn scaled(value: f64, base: f64, units: &[&str]) -> String {
    let mut value = value;
    let mut units = units.iter().peekable();
    let mut unit = units.next().copied().unwrap_or_default();
    while value >= base && units.peek().is_some() {
        value /= base;
        unit = units.next().copied().unwrap_or_default();
    }
    format!("{} {unit}", digits(value)).trim_end().to_owned()
}

/// Three digits that count; whole numbers as such.
fn digits(value: f64) -> String {
    // Or what a division left over would make 1.00 of 1.
    let value = (value * 100.0).round() / 100.0;
    match value {
        value if value.fract() == 0.0 || value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits_and_a_unit() {
        assert_eq!(bytes(0.0), "0 B");
        assert_eq!(bytes(1023.0), "1023 B");
        assert_eq!(bytes(1536.0), "1.50 KiB");
        assert_eq!(bytes(12.34 * 1048576.0), "12.3 MiB");
        assert_eq!(bytes(1e30), format!("{:.0} PiB", 1e30 / 1024f64.powi(5)));
        assert_eq!(count(999.0), "999");
        assert_eq!(count(0.5), "0.50");
        assert_eq!(count(123_456.0), "123 k");
        assert_eq!(time(0.0), "0 ms");
        assert_eq!(time(0.000_42), "420 µs");
        assert_eq!(time(0.000_999_999), "1 ms");
        assert_eq!(time(0.000_012_3), "12.3 µs");
        assert_eq!(time(0.004_2), "4.20 ms");
        assert_eq!(time(1.5), "1.50 s");
        assert_eq!(time(3_700.0), "61 min");
        assert_eq!(time(90_000.0), "25 h");
        assert_eq!(time(200_000.0), "2 d");
    }
}
