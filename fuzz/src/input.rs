//! Takes a fuzzer's input apart: small numbers first, the rest as bytes. What is missing is zero, so that every input
//! means something and a shorter one means something simpler.

pub(crate) struct Input<'a> {
    rest: &'a [u8],
}

impl<'a> Input<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Input<'a> {
        Input { rest: bytes }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn u8(&mut self) -> u8 {
        let Some((first, rest)) = self.rest.split_first() else {
            return 0;
        };
        self.rest = rest;
        *first
    }

    pub(crate) fn u16(&mut self) -> u16 {
        u16::from_le_bytes([self.u8(), self.u8()])
    }

    pub(crate) fn u32(&mut self) -> u32 {
        u32::from(self.u16()) | u32::from(self.u16()) << 16
    }

    /// A number below `limit`, which is not zero.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        // As few bytes as say it.
        let number = match limit {
            ..=0x100 => self.u8().into(),
            0x101..=0x1_0000 => self.u16().into(),
            _ => self.u32() as usize,
        };
        number % limit
    }

    /// At most `length` bytes.
    pub(crate) fn bytes(&mut self, length: usize) -> &'a [u8] {
        let (taken, rest) = self.rest.split_at(length.min(self.rest.len()));
        self.rest = rest;
        taken
    }

    pub(crate) fn rest(self) -> &'a [u8] {
        self.rest
    }
}
