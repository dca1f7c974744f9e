//! Figures as people read them: three digits that count, thousands apart, no exponents.

/// A figure with about three digits that count, and all digits before the point.
#[must_use]
pub fn plain(value: f64) -> String {
    let size = value.abs();
    let decimals = match size {
        _ if size == 0.0 || size >= 99.95 => 0,
        _ if size >= 9.995 => 1,
        _ if size >= 0.9995 => 2,
        _ if size >= 0.0995 => 3,
        _ if size >= 0.00995 => 4,
        _ => 6,
    };
    let text = format!("{value:.decimals$}");
    let text = if size < 0.9995 && decimals > 0 {
        text.trim_end_matches('0').trim_end_matches('.')
    } else {
        &text
    };
    thousands(text)
}

/// A short figure for the ticks of an axis: "10 k", "2 M", "0.5".
#[must_use]
pub fn tick(value: f64) -> String {
    let is_short = |unit: f64| (value / unit * 10.0).fract() == 0.0;
    let (scaled, suffix) = match value.abs() {
        size if size >= 1e9 && is_short(1e9) => (value / 1e9, " G"),
        size if size >= 1e6 && is_short(1e6) => (value / 1e6, " M"),
        size if size >= 1e4 && is_short(1e3) => (value / 1e3, " k"),
        _ => (value, ""),
    };
    let text = format!("{scaled:.4}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{}{suffix}", thousands(text))
}

/// A count of things.
#[must_use]
pub fn count(value: u64) -> String {
    thousands(&value.to_string())
}

/// A factor: "1.25×", "3.4×", "48×".
#[must_use]
pub fn factor(value: f64) -> String {
    match value {
        _ if value < 1.995 => format!("{value:.2}×"),
        _ if value < 9.95 => format!("{value:.1}×"),
        _ => format!("{}×", thousands(&format!("{value:.0}"))),
    }
}

/// A part as a percentage: "3 %", "0.4 %".
#[must_use]
pub fn percent(part: f64) -> String {
    let percent = part * 100.0;
    if percent.abs() < 0.95 && percent.abs() >= 0.05 {
        return format!("{percent:.1} %");
    }
    format!("{} %", thousands(&format!("{percent:.0}").replace("-0", "0")))
}

/// Puts a comma between each three digits before the point.
fn thousands(text: &str) -> String {
    let (sign, digits) = text.strip_prefix('-').map_or(("", text), |rest| ("-", rest));
    let (whole, rest) = digits.split_at(digits.find('.').unwrap_or(digits.len()));
    let mut spaced = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index) % 3 == 0 {
            spaced.push(',');
        }
        spaced.push(digit);
    }
    format!("{sign}{spaced}{rest}")
}

#[cfg(test)]
mod tests {
    use super::{count, factor, percent, plain, tick};

    #[test]
    fn figures_are_short_and_whole_before_the_point() {
        for (figure, text) in [
            (0.0, "0"),
            (0.0004, "0.0004"),
            (0.038, "0.038"),
            (0.9999, "1.00"),
            (1.5, "1.50"),
            (28.96, "29.0"),
            (99.97, "100"),
            (235.4, "235"),
            (7_724.0, "7,724"),
            (4_881_981.2, "4,881,981"),
        ] {
            assert_eq!(plain(figure), text);
        }
        assert_eq!(count(1_234), "1,234");
    }

    #[test]
    fn ticks_and_factors_are_short() {
        assert_eq!(
            [0.5, 1.0, 2_000.0, 1e4, 5e6, 16_384.0].map(tick),
            ["0.5", "1", "2,000", "10 k", "5 M", "16,384"]
        );
        assert_eq!(
            [1.0, 1.256, 3.41, 47.9].map(factor),
            ["1.00×", "1.26×", "3.4×", "48×"]
        );
        assert_eq!(
            [0.004, 0.03, -0.0001, 12.5].map(percent),
            ["0.4 %", "3 %", "0 %", "1,250 %"]
        );
    }
}
