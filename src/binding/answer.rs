//! The wire form of an answer: six doubles in an array that JavaScript reads.
//!
//! `ts/answer.ts` is the other end.

use crate::decision::{Decision, Status};
use crate::key::KeyError;

/// Doubles per answer: code, time, limit, remaining, retry after, reset after.
pub(super) const LENGTH: usize = 6;

/// Why there is no decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Failure {
    /// The key is no string.
    NotAString,
    /// The key is empty.
    EmptyKey,
    /// The key is too long.
    KeyTooLong,
    /// The key holds a lone surrogate: two such keys would become one.
    IllFormedKey,
    /// The engine has a defect.
    Panicked,
    /// Redis could not be asked in time. This and what follows has a text.
    #[cfg(feature = "redis")]
    Unavailable,
    /// The connection broke: whether units were charged is unknown.
    #[cfg(feature = "redis")]
    Broken,
    /// Redis did not answer in time: whether units were charged is unknown.
    #[cfg(feature = "redis")]
    TimedOut,
    /// Redis answered with an error.
    #[cfg(feature = "redis")]
    Refused,
    /// The store has been closed.
    #[cfg(feature = "redis")]
    Closed,
    /// Redis answered with what is no answer: whether units were charged is unknown.
    #[cfg(feature = "redis")]
    Malformed,
}

impl From<KeyError> for Failure {
    fn from(error: KeyError) -> Self {
        match error {
            KeyError::Empty => Self::EmptyKey,
            KeyError::TooLong => Self::KeyTooLong,
        }
    }
}

impl Failure {
    pub(super) fn code(self) -> f64 {
        match self {
            Self::NotAString => -1.0,
            Self::EmptyKey => -2.0,
            Self::KeyTooLong => -3.0,
            Self::IllFormedKey => -4.0,
            Self::Panicked => -5.0,
            #[cfg(feature = "redis")]
            Self::Unavailable => -6.0,
            #[cfg(feature = "redis")]
            Self::Broken => -7.0,
            #[cfg(feature = "redis")]
            Self::TimedOut => -8.0,
            #[cfg(feature = "redis")]
            Self::Refused => -9.0,
            #[cfg(feature = "redis")]
            Self::Closed => -10.0,
            #[cfg(feature = "redis")]
            Self::Malformed => -11.0,
        }
    }
}

fn status_code(status: Status) -> f64 {
    match status {
        Status::Allowed => 0.0,
        Status::AllowedLast => 1.0,
        Status::Refused => 2.0,
        Status::Impossible => 3.0,
    }
}

/// An answer's place in an array of doubles.
pub(super) type Answer = [f64; LENGTH];

/// Writes an answer. All of the engine's numbers are below 2^53, so doubles are exact.
#[expect(clippy::cast_precision_loss, reason = "numbers below 2^53 are exact")]
#[inline]
pub(super) fn write(place: &mut Answer, answer: Result<Option<Decision>, Failure>) {
    match answer {
        Ok(Some(decision)) => {
            place[0] = status_code(decision.status);
            place[1] = decision.at as f64 / 1_000.0;
            place[2] = decision.limit as f64;
            place[3] = decision.remaining as f64;
            place[4] = decision.retry_after_ms as f64;
            place[5] = decision.reset_after_ms as f64;
        }
        // The call was noted.
        Ok(None) => place[0] = 0.0,
        Err(failure) => place[0] = failure.code(),
    }
}
