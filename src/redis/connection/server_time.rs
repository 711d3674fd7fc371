//! The difference between the server's clock and this process's clock.

use std::sync::atomic::{AtomicI64, Ordering};

use crate::time::{MAX_TIME, Micros};

/// An estimate of the server's time, learned from its replies. It decides nothing: it only selects
/// the calendar boundaries that a script receives.
#[derive(Debug, Default)]
pub(crate) struct ServerTime {
    /// The server's clock minus this process's clock, in microseconds.
    offset: AtomicI64,
}

impl ServerTime {
    /// The estimated server time when this process's clock shows `now`.
    pub(crate) fn at(&self, now: Micros) -> Micros {
        now.saturating_add_signed(self.offset.load(Ordering::Relaxed)).min(MAX_TIME)
    }

    /// Learns that the server's clock showed `server` shortly before this process's showed `now`.
    pub(crate) fn learn(&self, server: Micros, now: Micros) {
        self.offset.store(server.cast_signed().saturating_sub_unsigned(now), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_clock_may_be_ahead_or_behind() {
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
