//! Numbers, truth values and identities: what has a size of its own, or tells it byte by byte.

use super::Reader;
use crate::codec::{Float64, WireError};

impl Reader {
    /// One byte, signed.
    ///
    /// # Errors
    /// [`WireError::Short`].
    #[inline]
    pub fn int8(&mut self) -> Result<i8, WireError> {
        self.fixed().map(i8::from_be_bytes)
    }

    /// Two bytes, big-endian, signed.
    ///
    /// # Errors
    /// [`WireError::Short`].
    #[inline]
    pub fn int16(&mut self) -> Result<i16, WireError> {
        self.fixed().map(i16::from_be_bytes)
    }

    /// Two bytes, big-endian, unsigned.
    ///
    /// # Errors
    /// [`WireError::Short`].
    #[inline]
    pub fn uint16(&mut self) -> Result<u16, WireError> {
        self.fixed().map(u16::from_be_bytes)
    }

    /// Four bytes, big-endian, signed.
    ///
    /// # Errors
    /// [`WireError::Short`].
    #[inline]
    pub fn int32(&mut self) -> Result<i32, WireError> {
        self.fixed().map(i32::from_be_bytes)
    }

    /// Eight bytes, big-endian, signed.
    ///
    /// # Errors
    /// [`WireError::Short`].
    #[inline]
    pub fn int64(&mut self) -> Result<i64, WireError> {
        self.fixed().map(i64::from_be_bytes)
    }

    /// Eight bytes, big-endian: a number of double precision.
    ///
    /// # Errors
    /// [`WireError::Short`].
    #[inline]
    pub fn float64(&mut self) -> Result<Float64, WireError> {
        self.fixed().map(u64::from_be_bytes).map(Float64::from_bits)
    }

    /// One byte: zero is false, everything else true, as Kafka reads it.
    ///
    /// # Errors
    /// [`WireError::Short`].
    #[inline]
    pub fn boolean(&mut self) -> Result<bool, WireError> {
        self.fixed::<1>().map(|[byte]| byte != 0)
    }

    /// Sixteen bytes.
    ///
    /// # Errors
    /// [`WireError::Short`].
    #[inline]
    pub fn uuid(&mut self) -> Result<[u8; 16], WireError> {
        self.fixed()
    }

    /// Seven bits per byte, the lowest first, at most five bytes (KIP-482).
    ///
    /// # Errors
    /// [`WireError::Short`], [`WireError::VarintTooLong`].
    #[inline]
    pub fn unsigned_varint(&mut self) -> Result<u32, WireError> {
        let [first] = self.fixed()?;
        if first < 0x80 {
            return Ok(u32::from(first));
        }
        self.long_varint(first)
    }

    fn long_varint(&mut self, first: u8) -> Result<u32, WireError> {
        let mut value = u32::from(first & 0x7f);
        for shift in [7, 14, 21] {
            let [byte] = self.fixed()?;
            value |= u32::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        let [last] = self.fixed()?;
        if last > 0x0f {
            return Err(WireError::VarintTooLong);
        }
        Ok(value | u32::from(last) << 28)
    }
}
