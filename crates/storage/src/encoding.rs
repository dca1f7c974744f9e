//! Little-endian integers and byte strings for the checkpoint, with every length checked before it is believed.

pub(crate) struct Encoder {
    pub(crate) bytes: Vec<u8>,
}

impl Encoder {
    pub(crate) fn u32(&mut self, value: u32) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn i64(&mut self, value: i64) {
        self.u64(value as u64);
    }

    /// A length and that many bytes.
    pub(crate) fn blob(&mut self, bytes: &[u8]) {
        self.u32(u32::try_from(bytes.len()).expect("no part of a checkpoint comes near 4 GiB"));
        self.bytes.extend_from_slice(bytes);
    }
}

/// Reads what `Encoder` wrote; `None` as soon as something does not fit.
pub(crate) struct Decoder<'a> {
    pub(crate) rest: &'a [u8],
}

impl<'a> Decoder<'a> {
    pub(crate) fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(taken)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    pub(crate) fn i64(&mut self) -> Option<i64> {
        self.u64().map(|value| value as i64)
    }

    pub(crate) fn blob(&mut self) -> Option<&'a [u8]> {
        let length = self.u32()? as usize;
        self.take(length)
    }

    /// A count of things that take at least `bytes_min` each: never more than what remains could hold.
    pub(crate) fn count(&mut self, bytes_min: usize) -> Option<usize> {
        let count = self.u32()? as usize;
        (count <= self.rest.len() / bytes_min).then_some(count)
    }
}
