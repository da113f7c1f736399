//! Values as bytes, one behind the other: integers are LEB128, texts carry their length in front.

/// The bytes are not what was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed;

/// Appends an integer.
pub fn number(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a text.
pub fn text(out: &mut Vec<u8>, text: &str) {
    number(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

/// Reads what the functions above append.
#[derive(Debug, Clone)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Starts at the first byte.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// What is not read yet.
    pub fn rest(&self) -> &'a [u8] {
        self.0
    }

    /// Whether everything is read.
    pub fn is_done(&self) -> bool {
        self.0.is_empty()
    }

    /// One byte.
    ///
    /// # Errors
    /// [`Malformed`] at the end.
    pub fn byte(&mut self) -> Result<u8, Malformed> {
        let (first, rest) = self.0.split_first().ok_or(Malformed)?;
        self.0 = rest;
        Ok(*first)
    }

    /// An integer.
    ///
    /// # Errors
    /// [`Malformed`] if it is cut or has more than 64 bits.
    pub fn number(&mut self) -> Result<u64, Malformed> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let part = u64::from(byte & 0x7f);
            if shift == 63 && part > 1 {
                return Err(Malformed);
            }
            value |= part << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Malformed)
    }

    /// An integer that is a size in memory.
    ///
    /// # Errors
    /// As [`Reader::number`].
    pub fn size(&mut self) -> Result<usize, Malformed> {
        usize::try_from(self.number()?).map_err(|_| Malformed)
    }

    /// How many things follow; never more than there are bytes, so that nobody allocates for a lie.
    ///
    /// # Errors
    /// [`Malformed`] if they cannot be there.
    pub fn count(&mut self) -> Result<usize, Malformed> {
        let count = self.size()?;
        if count > self.0.len() {
            return Err(Malformed);
        }
        Ok(count)
    }

    /// So many bytes.
    ///
    /// # Errors
    /// [`Malformed`] if they are cut.
    pub fn take(&mut self, size: usize) -> Result<&'a [u8], Malformed> {
        let (slice, rest) = self.0.split_at_checked(size).ok_or(Malformed)?;
        self.0 = rest;
        Ok(slice)
    }

    /// Bytes with their length in front.
    ///
    /// # Errors
    /// [`Malformed`] if they are cut.
    pub fn slice(&mut self) -> Result<&'a [u8], Malformed> {
        let size = self.size()?;
        self.take(size)
    }

    /// A text.
    ///
    /// # Errors
    /// [`Malformed`] if it is cut or not UTF-8.
    pub fn text(&mut self) -> Result<&'a str, Malformed> {
        std::str::from_utf8(self.slice()?).map_err(|_| Malformed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_read_back() {
        let mut bytes = Vec::new();
        for value in [0, 1, 127, 128, 300, u64::MAX] {
            number(&mut bytes, value);
        }
        text(&mut bytes, "é");
        let mut reader = Reader::new(&bytes);
        for value in [0, 1, 127, 128, 300, u64::MAX] {
            assert_eq!(reader.number(), Ok(value));
        }
        assert_eq!(reader.text(), Ok("é"));
        assert!(reader.is_done());
        assert_eq!(reader.byte(), Err(Malformed));
    }

    #[test]
    fn lies_are_malformed() {
        assert_eq!(Reader::new(&[0xff; 10]).number(), Err(Malformed), "65 bits");
        assert_eq!(
            Reader::new(&[9, 1]).count(),
            Err(Malformed),
            "nine things in a byte"
        );
        assert_eq!(Reader::new(&[2, b'a']).text(), Err(Malformed), "cut");
        assert_eq!(Reader::new(&[1, 0xff]).text(), Err(Malformed), "no UTF-8");
    }
}
