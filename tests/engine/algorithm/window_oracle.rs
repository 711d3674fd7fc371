//! The oracles: each algorithm a second time, slow, in exact rationals, and with another approach.
//!
//! The engine stores the time at which a key will have drained; the rate oracle stores the charged
//! units and the time at which they were counted. The engine packs a window; the window oracle
//! stores the calls in it.

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{ToPrimitive as _, Zero as _};
use tollgate::policy::decision::Status;

use crate::policy::specs::{RateSpec, WindowSpec};

/// The decision that an oracle expects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Expected {
    pub(crate) status: Status,
    /// The largest cost.
    pub(crate) limit: u64,
    pub(crate) remaining: u64,
    pub(crate) retry_after_ms: u64,
    pub(crate) reset_after_ms: u64,
}

/// An oracle of one key. The numbers may change from call to call.
pub(crate) trait Oracle {
    type Spec: Copy;

    fn take(&mut self, spec: Self::Spec, now: u64, cost: u64) -> Expected;
}

pub(crate) fn whole(number: u64) -> BigRational {
    BigRational::from_integer(BigInt::from(number))
}

/// Rounds up to whole microseconds, and then to whole milliseconds.
pub(crate) fn millis_up(micros: &BigRational) -> u64 {
    micros.ceil().to_integer().to_u64().unwrap_or(0).div_ceil(1_000)
}

pub(crate) fn floor(number: &BigRational) -> u64 {
    number.floor().to_integer().to_u64().unwrap_or(0)
}

pub(crate) fn status(admitted: bool, cost: u64, limit: u64, remaining: u64) -> Status {
    match (admitted, remaining) {
        (true, 0) => Status::AllowedLast,
        (true, _) => Status::Allowed,
        (false, _) if cost > limit => Status::Impossible,
        (false, _) => Status::Refused,
    }
}

/// Charged units, counted at a time, under the numbers of the last admitted call.
#[derive(Clone)]
pub(crate) struct RateOracle {
    used: BigRational,
    as_of: u64,
    numbers: Option<RateSpec>,
}

impl RateOracle {
    pub(crate) fn new() -> Self {
        Self { used: BigRational::zero(), as_of: 0, numbers: None }
    }

    /// After a clock step: fully used now.
    pub(crate) fn repair(&mut self, now: u64) {
        let most = self.numbers.map_or(BigRational::zero(), |wrote| whole(wrote.burst));
        if self.used_at(now) > most {
            (self.used, self.as_of) = (most, now);
        }
    }

    /// The charged units at `now`: they drain forward in time, and rise backward in time.
    fn used_at(&self, now: u64) -> BigRational {
        let Some(spec) = self.numbers else {
            return BigRational::zero();
        };
        let elapsed = whole(now) - whole(self.as_of);
        let used = &self.used - elapsed * whole(spec.units) / whole(spec.period);
        used.max(BigRational::zero())
    }
}

impl Oracle for RateOracle {
    type Spec = RateSpec;

    fn take(&mut self, spec: RateSpec, now: u64, cost: u64) -> Expected {
        self.repair(now);
        let mut used = self.used_at(now);
        let mut wrote = self.numbers.unwrap_or(spec);
        let same_rate = u128::from(wrote.units) * u128::from(spec.period)
            == u128::from(spec.units) * u128::from(wrote.period);
        let same = same_rate && wrote.burst == spec.burst;
        let counted = if same { used.clone() } else { used.ceil() };
        let burst = whole(spec.burst);
        let admitted = &counted + whole(cost) <= burst;
        let mut left = counted;
        if admitted {
            left += whole(cost);
            used.clone_from(&left);
            (self.used, self.as_of, self.numbers) = (used.clone(), now, Some(spec));
            wrote = spec;
        }
        let per_unit = whole(wrote.period) / whole(wrote.units);
        let remaining = floor(&(&burst - left).max(BigRational::zero()));
        let status = status(admitted, cost, spec.burst, remaining);
        let retry_after_ms = match status {
            Status::Refused => millis_up(&((&used - (burst - whole(cost))) * &per_unit)),
            _ => 0,
        };
        let reset_after_ms = millis_up(&(used * per_unit));
        Expected { status, limit: spec.burst, remaining, retry_after_ms, reset_after_ms }
    }
}

/// The calls of the open window, and its end in milliseconds.
#[derive(Clone)]
pub(crate) struct WindowOracle {
    costs: Vec<u64>,
    ends_ms: u64,
}

impl WindowOracle {
    pub(crate) fn new() -> Self {
        Self { costs: Vec::new(), ends_ms: 0 }
    }
}

impl Oracle for WindowOracle {
    type Spec = WindowSpec;

    fn take(&mut self, spec: WindowSpec, now: u64, cost: u64) -> Expected {
        let opened_now_ends = (now + spec.window).div_ceil(1_000);
        if self.ends_ms > opened_now_ends {
            // A clock step or a longer window: the count stays, and the window ends one window from
            // now.
            self.ends_ms = opened_now_ends;
        }
        // A window that has ended is kept until a call opens the next, because the clock may step
        // back.
        let open = self.ends_ms * 1_000 > now;
        let count: u64 = if open { self.costs.iter().sum() } else { 0 };
        let admitted = count + cost <= spec.limit;
        if admitted && !open {
            self.costs.clear();
            self.ends_ms = opened_now_ends;
        }
        if admitted {
            self.costs.push(cost);
        }
        let open = open || admitted;
        let count: u64 = if open { self.costs.iter().sum() } else { 0 };
        let remaining = spec.limit.saturating_sub(count);
        let status = status(admitted, cost, spec.limit, remaining);
        let until_end = if open { self.ends_ms * 1_000 - now } else { 0 };
        let reset_after_ms = until_end.div_ceil(1_000);
        let retry_after_ms = if status == Status::Refused { reset_after_ms } else { 0 };
        Expected { status, limit: spec.limit, remaining, retry_after_ms, reset_after_ms }
    }
}
