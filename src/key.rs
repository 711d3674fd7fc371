//! Keys, and the rule for a valid key.

use std::fmt;

/// The longest key, in bytes of UTF-8.
pub const MAX_KEY_BYTES: usize = 1024;

/// A valid key: 1 to [`MAX_KEY_BYTES`] bytes of UTF-8. Any character is allowed, including NUL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key<'a>(&'a str);

/// The reason for which a text is not a valid key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyError {
    /// The text is empty.
    Empty,
    /// The text is longer than [`MAX_KEY_BYTES`].
    TooLong,
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("a key must not be empty"),
            Self::TooLong => write!(f, "a key must be at most {MAX_KEY_BYTES} bytes of UTF-8"),
        }
    }
}

impl std::error::Error for KeyError {}

impl<'a> Key<'a> {
    /// Makes a key from a text.
    ///
    /// # Errors
    /// [`KeyError`] if the text is empty or too long.
    pub fn new(text: &'a str) -> Result<Self, KeyError> {
        match text.len() {
            0 => Err(KeyError::Empty),
            1..=MAX_KEY_BYTES => Ok(Self(text)),
            _ => Err(KeyError::TooLong),
        }
    }

    /// The key's text.
    #[must_use]
    pub fn as_str(self) -> &'a str {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn length_is_counted_in_bytes() {
        assert_eq!(Key::new("").unwrap_err(), KeyError::Empty);
        assert!(Key::new("\0").is_ok());
        assert!(Key::new(&"é".repeat(512)).is_ok());
        assert_eq!(Key::new(&"é".repeat(513)).unwrap_err(), KeyError::TooLong);
    }

    #[test]
    fn errors_name_the_rule() {
        assert_eq!(KeyError::Empty.to_string(), "a key must not be empty");
        assert_eq!(KeyError::TooLong.to_string(), "a key must be at most 1024 bytes of UTF-8");
    }
}
