//! Where a value lies along an axis, and which values are written beside it.

/// An axis from one value to another, along so many pixels.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Axis {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Axis {
    /// A logarithmic axis over all values that are more than nothing, with a little air; none if there are none.
    pub(crate) fn around(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
        let values = values.filter(|value| value.is_finite() && *value > 0.0);
        let (low, high) = values.fold((f64::INFINITY, 0.0_f64), |(low, high), value| {
            (low.min(value), high.max(value))
        });
        // At least half a decade: a flat line should look flat.
        let air = (3.2 / (high / low)).max(1.0).sqrt();
        (high > 0.0).then(|| (low / (1.15 * air), high * 1.15 * air))
    }

    /// An axis between two values.
    pub(crate) fn new((low, high): (f64, f64), from: f64, to: f64) -> Self {
        Self { low, high, from, to }
    }

    /// Where a value lies.
    pub(crate) fn place(&self, value: f64) -> f64 {
        let part = (value / self.low).ln() / (self.high / self.low).ln();
        self.from + (self.to - self.from) * part
    }

    /// Where a value lies, or the end that it lies beyond.
    pub(crate) fn place_within(&self, value: f64) -> f64 {
        self.place(value.clamp(self.low, self.high))
    }

    /// The pixels of its upper and of its lower end, if it stands upright.
    pub(crate) fn top_and_bottom(&self) -> (f64, f64) {
        (self.to, self.from)
    }

    /// Round values: powers of ten, and halves and fifths of them where there is room.
    pub(crate) fn ticks(&self) -> Vec<f64> {
        let decades = (self.high / self.low).log10();
        let steps: &[f64] = if decades <= 3.2 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let every = if decades > 8.0 { 2 } else { 1 };
        let first = self.low.log10().floor() as i32;
        let last = self.high.log10().ceil() as i32;
        (first..=last)
            .filter(|power| power % every == 0)
            .flat_map(|power| steps.iter().map(move |step| step * 10_f64.powi(power)))
            .filter(|tick| (self.low..=self.high).contains(tick))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Axis;

    #[test]
    fn an_axis_has_room_and_round_ticks() {
        let ends = Axis::around([0.0, 100.0, 4_000.0, f64::NAN].into_iter()).expect("values");
        assert!(ends.0 < 100.0 && ends.1 > 4_000.0);
        let axis = Axis::new(ends, 0.0, 100.0);
        assert_eq!(axis.ticks(), [100.0, 200.0, 500.0, 1_000.0, 2_000.0]);
        assert!(axis.place(100.0) > 0.0 && axis.place(4_000.0) < 100.0);
        assert_eq!(
            [0.0, 1e9].map(|value| axis.place_within(value).round()),
            [0.0, 100.0]
        );
        assert!(Axis::around([0.0, -1.0].into_iter()).is_none());
        assert!(Axis::new(Axis::around([7.0].into_iter()).expect("one"), 0.0, 1.0).place(7.0) > 0.4);
    }
}
