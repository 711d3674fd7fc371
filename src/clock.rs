//! The clock from which a store reads the time of a decision.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::time::{MAX_TIME, Micros};

/// The clock of a store.
///
/// A store reads it once per decision while it holds the key's lock. So the decisions on one key
/// are in the order of their times.
pub trait Clock {
    /// Microseconds since the Unix epoch, at most [`MAX_TIME`].
    fn now(&self) -> Micros;
}

/// A fixed clock: the caller gives the time.
impl Clock for Micros {
    fn now(&self) -> Micros {
        (*self).min(MAX_TIME)
    }
}

const MICROS_PER_SECOND: Micros = 1_000_000;

/// The clock of the operating system.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Micros {
        // A time before 1970 counts as 1970.
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let whole_seconds = since_epoch.as_secs().saturating_mul(MICROS_PER_SECOND);
        whole_seconds.saturating_add(since_epoch.subsec_micros().into()).min(MAX_TIME)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_given_time_is_the_time_up_to_the_last() {
        assert_eq!(7.now(), 7);
        assert_eq!(u64::MAX.now(), MAX_TIME);
    }

    #[test]
    fn the_system_clock_is_past_2020() {
        assert!(SystemClock.now() > 1_577_836_800_000_000);
    }
}
