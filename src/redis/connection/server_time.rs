//! How far the server's clock is from this process's.

use std::sync::atomic::{AtomicI64, Ordering};

use crate::time::{MAX_TIME, Micros};

/// The server's time, as far as it has been told. It decides nothing: a calendar's boundaries are made
/// up around it.
#[derive(Debug, Default)]
pub(crate) struct ServerTime {
    /// How far the server's clock is ahead, in microseconds.
    ahead: AtomicI64,
}

impl ServerTime {
    /// The server's time when this process's clock shows `now`.
    pub(crate) fn at(&self, now: Micros) -> Micros {
        now.saturating_add_signed(self.ahead.load(Ordering::Relaxed)).min(MAX_TIME)
    }

    /// The server's clock showed `server` not long before this process's showed `now`.
    pub(crate) fn learn(&self, server: Micros, now: Micros) {
        self.ahead.store(server.cast_signed().saturating_sub_unsigned(now), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_that_are_apart_either_way_are_told_of() {
        let time = ServerTime::default();
        assert_eq!(time.at(7), 7);
        time.learn(1_000, 400);
        assert_eq!(time.at(500), 1_100);
        time.learn(400, 1_000);
        assert_eq!((time.at(1_500), time.at(0)), (900, 0));
        time.learn(MAX_TIME, 0);
        assert_eq!(time.at(MAX_TIME), MAX_TIME);
    }
}
