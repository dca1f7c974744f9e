//! An immutable UTF-8 string that is a slice of the frame it came in: reading a topic's name allocates
//! nothing.
//!
//! The price: it keeps its whole frame alive. Whoever stores one for longer than the request says
//! `detached()`.

use std::borrow::Borrow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;

use bytes::Bytes;

use super::WireError;

/// UTF-8 text over shared bytes. Cloning is cheap.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Text {
    /// Always valid UTF-8: every constructor checks it or has it from a `str`.
    bytes: Bytes,
}

impl Text {
    /// The empty text.
    pub const EMPTY: Text = Text { bytes: Bytes::new() };

    /// Text that lives as long as the program.
    #[must_use]
    pub const fn from_static(text: &'static str) -> Text {
        Text {
            bytes: Bytes::from_static(text.as_bytes()),
        }
    }

    /// Text over `bytes`, without a copy.
    ///
    /// # Errors
    /// [`WireError::NotUtf8`].
    pub fn from_utf8(bytes: Bytes) -> Result<Text, WireError> {
        match std::str::from_utf8(&bytes) {
            Ok(_) => Ok(Text { bytes }),
            Err(error) => Err(WireError::NotUtf8 {
                valid_bytes: error.valid_up_to(),
            }),
        }
    }

    /// The text as a string slice. Checks the bytes again, since the type cannot vouch for them without
    /// unsafe code: a few nanoseconds for a name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes).expect("every constructor has seen UTF-8")
    }

    /// The text's bytes, unchecked and free.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The same text in memory of its own, so that it does not keep a whole frame alive.
    #[must_use]
    pub fn detached(&self) -> Text {
        Text {
            bytes: Bytes::copy_from_slice(&self.bytes),
        }
    }
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl AsRef<str> for Text {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl Borrow<str> for Text {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

/// Hashes as its `str` does, which `Borrow` demands.
impl Hash for Text {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.as_str(), f)
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Text {
        Text {
            bytes: Bytes::copy_from_slice(text.as_bytes()),
        }
    }
}

impl From<String> for Text {
    fn from(text: String) -> Text {
        Text {
            bytes: Bytes::from(text),
        }
    }
}

impl From<&Text> for String {
    fn from(text: &Text) -> String {
        text.as_str().to_owned()
    }
}

impl PartialEq<str> for Text {
    fn eq(&self, other: &str) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl PartialEq<&str> for Text {
    fn eq(&self, other: &&str) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}
