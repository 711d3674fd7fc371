//! PolicySet with awkward numbers: rates that do not divide, the fastest rates and the slowest.

use proptest::prelude::*;
use tollgate::algorithm::{FixedWindow, Gcra, TokenBucket};
use tollgate::policy::Policy;

pub(crate) const MILLI: u64 = 1_000;
pub(crate) const SECOND: u64 = 1_000_000;
pub(crate) const HOUR: u64 = 3_600 * SECOND;
pub(crate) const DAY: u64 = 24 * HOUR;

/// The numbers of a rate as a user sets them: `units` per `period`, and `burst` at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RateSpec {
    pub(crate) units: u64,
    pub(crate) period: u64,
    pub(crate) burst: u64,
}

impl RateSpec {
    pub(crate) fn gcra(self) -> Policy {
        Policy::Gcra(Gcra::new(self.units, self.period, self.burst).unwrap())
    }

    pub(crate) fn token_bucket(self) -> Policy {
        Policy::TokenBucket(TokenBucket::new(self.burst, self.units, self.period).unwrap())
    }
}

/// The numbers of a fixed window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WindowSpec {
    pub(crate) limit: u64,
    pub(crate) window: u64,
}

impl WindowSpec {
    pub(crate) fn policy(self) -> Policy {
        Policy::FixedWindow(FixedWindow::new(self.limit, self.window).unwrap())
    }
}

/// (units, period) that floats, whole microseconds or 53 bits get wrong.
const AWKWARD: [(u64, u64); 8] = [
    (7, 1_000 * MILLI),
    (1_001, SECOND),
    (1_000_003, HOUR),
    (3_000_001, HOUR),
    (999_999, 30 * DAY),
    (1_000_000_000, SECOND),
    (1, DAY),
    (3, MILLI),
];

pub(crate) fn any_rate() -> impl Strategy<Value = RateSpec> {
    let rate = prop_oneof![
        3 => prop::sample::select(&AWKWARD[..]),
        1 => (1..2_000_u64, 1..10 * SECOND),
    ];
    let burst = prop_oneof![Just(1), 2..20_u64, 20..2_000_u64];
    (rate, burst).prop_map(|((units, period), burst)| RateSpec { units, period, burst })
}

pub(crate) fn any_window() -> impl Strategy<Value = WindowSpec> {
    let window = prop_oneof![
        1..2_000_u64,
        (1..5_000_u64).prop_map(|ms| ms * MILLI),
        Just(HOUR),
        Just(30 * DAY),
    ];
    // In Redis the value of a window changes its form at 8,192 units.
    let limit = prop_oneof![Just(1), 2..20_u64, 20..2_000_u64, 8_150..8_250_u64];
    (limit, window).prop_map(|(limit, window)| WindowSpec { limit, window })
}
