//! Kafka's numbers with a fraction.

use std::fmt;

/// A number of double precision (IEEE 754), big-endian on the wire. It is compared bit by bit: whatever was read equals itself, also
/// where it is no number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Float64(u64);

impl Float64 {
    /// The number with these bits.
    pub(crate) const fn from_bits(bits: u64) -> Float64 {
        Float64(bits)
    }

    /// Its bits.
    pub(crate) const fn bits(self) -> u64 {
        self.0
    }

    /// Its value.
    #[must_use]
    pub const fn get(self) -> f64 {
        f64::from_bits(self.0)
    }
}

impl From<f64> for Float64 {
    fn from(value: f64) -> Float64 {
        Float64(value.to_bits())
    }
}

impl fmt::Debug for Float64 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.get(), f)
    }
}
