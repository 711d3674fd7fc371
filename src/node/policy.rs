//! Policies, checked once.

#![allow(clippy::needless_pass_by_value, reason = "napi hands strings over by value")]

use napi::bindgen_prelude::{Either, Result};
use napi::{Error, Status};
use napi_derive::napi;

use super::whole;
use crate::abi::policy as made;
use crate::algorithm::CalendarWindow;
use crate::calendar;
use crate::policy;

/// An algorithm with its numbers. A factory throws, naming the option and the rule, for numbers
/// that cannot be counted exactly. Lengths of time are in whole microseconds.
#[napi]
#[derive(Debug, Clone)]
pub struct Policy(policy::Policy);

impl Policy {
    pub(crate) fn inner(&self) -> policy::Policy {
        self.0.clone()
    }
}

#[napi]
impl Policy {
    /// `limit` units per window, which a refused call uses up if `count_refused`.
    #[napi(factory, catch_unwind)]
    pub fn fixed_window(limit: f64, window_us: f64, count_refused: bool) -> Result<Self> {
        checked(made::fixed_window(limit, window_us, count_refused))
    }

    /// About `limit` units in any rolling window, in whole milliseconds, by two counters.
    #[napi(factory, catch_unwind)]
    pub fn sliding_counter(limit: f64, window_us: f64) -> Result<Self> {
        checked(made::sliding_counter(limit, window_us))
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
        checked(made::token_bucket(made::levels(capacity, initial, debt), tokens, every_us))
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
        let levels = made::levels(capacity, initial, debt);
        checked(made::token_bucket_interval(levels, tokens, every_us))
    }

    /// A bucket that holds `capacity` units and leaks `units` per `every_us`.
    #[napi(factory, catch_unwind)]
    pub fn leaky_bucket(capacity: f64, units: f64, every_us: f64) -> Result<Self> {
        checked(made::leaky_bucket(capacity, units, every_us))
    }

    /// `limit` units per `period_us`, and up to `burst` at once.
    #[napi(factory, catch_unwind)]
    pub fn gcra(limit: f64, period_us: f64, burst: f64) -> Result<Self> {
        checked(made::gcra(limit, period_us, burst))
    }

    /// `limit` units in any window, counted in buckets; in Redis in a hash or in a list.
    #[napi(factory, catch_unwind)]
    pub fn sliding_window(limit: f64, window_us: f64, buckets: f64, hash: bool) -> Result<Self> {
        checked(made::sliding_window(limit, window_us, buckets, hash))
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
            Either::A(name) => made::every_named(&name),
            Either::B(length_us) => made::every_part(length_us),
        };
        let made = every.and_then(|every| CalendarWindow::new(whole(limit), every, &zone));
        checked(made.map(policy::Policy::CalendarWindow))
    }

    /// Whether a time zone has this name.
    #[napi(catch_unwind)]
    pub fn is_time_zone(name: String) -> bool {
        calendar::is_time_zone(&name)
    }

    /// `limit` units in any rolling window.
    #[napi(factory, catch_unwind)]
    pub fn sliding_log(limit: f64, window_us: f64, count_refused: bool) -> Result<Self> {
        checked(made::sliding_log(limit, window_us, count_refused))
    }

    /// `limits[i]` units in any rolling window of `windows_us[i]`, over one log.
    #[napi(factory, catch_unwind)]
    pub fn sliding_logs(
        limits: Vec<f64>,
        windows_us: Vec<f64>,
        precision_us: Option<f64>,
    ) -> Result<Self> {
        checked(made::sliding_logs(&limits, &windows_us, precision_us))
    }
}

fn checked(made: made::Made) -> Result<Policy> {
    made.map(Policy).map_err(|invalid| Error::new(Status::InvalidArg, invalid.to_string()))
}
