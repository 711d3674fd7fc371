//! Policies, checked once.

#![allow(clippy::needless_pass_by_value, reason = "napi hands strings over by value")]

use napi::bindgen_prelude::{Either, Result};
use napi::{Error, Status};
use napi_derive::napi;

use super::whole;
use crate::algorithm::{
    BucketLayout, CalendarWindow, FixedWindow, Gcra, IntervalBucket, InvalidNumber, LeakyBucket,
    Levels, LogLimit, SlidingCounter, SlidingLog, SlidingWindow, TokenBucket,
};
use crate::calendar::{self, Every};
use crate::policy;

/// An algorithm with its numbers. A factory throws, naming the option and the rule, for numbers
/// that cannot be counted exactly. Lengths of time are in whole microseconds.
#[napi]
#[derive(Debug, Clone)]
pub struct Policy(policy::Policy);

impl Policy {
    pub(super) fn inner(&self) -> policy::Policy {
        self.0.clone()
    }
}

#[napi]
impl Policy {
    /// `limit` units per window, which a refused call uses up if `count_refused`.
    #[napi(factory, catch_unwind)]
    pub fn fixed_window(limit: f64, window_us: f64, count_refused: bool) -> Result<Self> {
        let made = FixedWindow::new(whole(limit), whole(window_us));
        let made = made.map(|window| window.counting_refused(count_refused));
        checked(made, policy::Policy::FixedWindow)
    }

    /// About `limit` units in any rolling window, in whole milliseconds, by two counters.
    #[napi(factory, catch_unwind)]
    pub fn sliding_counter(limit: f64, window_us: f64) -> Result<Self> {
        let made = SlidingCounter::new(whole(limit), whole(window_us));
        checked(made, policy::Policy::SlidingCounter)
    }

    /// A bucket of `capacity` tokens that gains `tokens` per `every_us`, evenly.
    #[napi(factory, catch_unwind)]
    pub fn token_bucket(
        capacity: f64,
        tokens: f64,
        every_us: f64,
        initial: f64,
        debt: f64,
    ) -> Result<Self> {
        let levels = levels(capacity, initial, debt);
        let made = TokenBucket::with_levels(levels, whole(tokens), whole(every_us));
        checked(made, policy::Policy::TokenBucket)
    }

    /// A bucket of `capacity` tokens that gains `tokens` at the end of each `every_us`.
    #[napi(factory, catch_unwind)]
    pub fn token_bucket_interval(
        capacity: f64,
        tokens: f64,
        every_us: f64,
        initial: f64,
        debt: f64,
    ) -> Result<Self> {
        let levels = levels(capacity, initial, debt);
        let made = IntervalBucket::new(levels, whole(tokens), whole(every_us));
        checked(made, policy::Policy::IntervalBucket)
    }

    /// A bucket that holds `capacity` units and leaks `units` per `every_us`.
    #[napi(factory, catch_unwind)]
    pub fn leaky_bucket(capacity: f64, units: f64, every_us: f64) -> Result<Self> {
        let made = LeakyBucket::new(whole(capacity), whole(units), whole(every_us));
        checked(made, policy::Policy::LeakyBucket)
    }

    /// `limit` units per `period_us`, and up to `burst` at once.
    #[napi(factory, catch_unwind)]
    pub fn gcra(limit: f64, period_us: f64, burst: f64) -> Result<Self> {
        let made = Gcra::new(whole(limit), whole(period_us), whole(burst));
        checked(made, policy::Policy::Gcra)
    }

    /// `limit` units in any window, counted in buckets; in Redis in a hash or in a list.
    #[napi(factory, catch_unwind)]
    pub fn sliding_window(limit: f64, window_us: f64, buckets: f64, hash: bool) -> Result<Self> {
        let layout = if hash { BucketLayout::Hash } else { BucketLayout::List };
        let made = SlidingWindow::new(whole(limit), whole(window_us), whole(buckets), layout);
        checked(made, policy::Policy::SlidingWindow)
    }

    /// `limit` units per window of the calendar in a time zone: `every` is `'day'`, `'week'`, `'month'`
    /// or a length that divides a day.
    #[napi(
        factory,
        catch_unwind,
        ts_args_type = "limit: number, every: string | number, timeZone: string"
    )]
    pub fn calendar_window(limit: f64, every: Either<String, f64>, zone: String) -> Result<Self> {
        let every = match every {
            Either::A(name) => match name.as_str() {
                "hour" => Some(Every::HOUR),
                "day" => Some(Every::Day),
                "week" => Some(Every::Week),
                "month" => Some(Every::Month),
                _ => None,
            },
            Either::B(length_us) => Every::part(whole(length_us)),
        };
        let rule = "must be whole seconds that divide a day evenly";
        let made = every
            .ok_or(InvalidNumber { option: "every", rule })
            .and_then(|every| CalendarWindow::new(whole(limit), every, &zone));
        checked(made, policy::Policy::CalendarWindow)
    }

    /// Whether a time zone has this name.
    #[napi(catch_unwind)]
    pub fn is_time_zone(name: String) -> bool {
        calendar::is_time_zone(&name)
    }

    /// `limit` units in any rolling window.
    #[napi(factory, catch_unwind)]
    pub fn sliding_log(limit: f64, window_us: f64, count_refused: bool) -> Result<Self> {
        let made = SlidingLog::new(whole(limit), whole(window_us), count_refused);
        checked(made, policy::Policy::SlidingLog)
    }

    /// `limits[i]` units in any rolling window of `windows_us[i]`, over one log.
    #[napi(factory, catch_unwind)]
    pub fn sliding_logs(
        limits: Vec<f64>,
        windows_us: Vec<f64>,
        precision_us: Option<f64>,
    ) -> Result<Self> {
        let limit = |(limit, window)| LogLimit { limit: whole(limit), window: whole(window) };
        let limits: Vec<_> = limits.into_iter().zip(windows_us).map(limit).collect();
        let made = SlidingLog::several(&limits, precision_us.map(whole));
        checked(made, policy::Policy::SlidingLog)
    }
}

/// That `initial` and `debt` are whole numbers has been checked: here, what is none would be a 0,
/// which they may be.
fn levels(capacity: f64, initial: f64, debt: f64) -> Levels {
    Levels { capacity: whole(capacity), initial: whole(initial), debt: whole(debt) }
}

fn checked<A>(
    made: core::result::Result<A, InvalidNumber>,
    lift: fn(A) -> policy::Policy,
) -> Result<Policy> {
    match made {
        Ok(algorithm) => Ok(Policy(lift(algorithm))),
        Err(invalid) => Err(Error::new(Status::InvalidArg, invalid.to_string())),
    }
}
