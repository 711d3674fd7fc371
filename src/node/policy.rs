//! Policies, checked once when they are created.

#![allow(clippy::needless_pass_by_value, reason = "napi hands strings over by value")]

use napi::bindgen_prelude::{Either, Result};
use napi::{Error, Status};
use napi_derive::napi;

use super::whole;
use crate::abi::policy as abi_policy;
use crate::algorithm::CalendarWindow;
use crate::calendar;
use crate::policy;

/// An algorithm with its numbers. A factory throws if a number cannot be counted exactly; the error
/// names the option and the rule. Lengths of time are in whole microseconds.
#[napi]
#[derive(Debug, Clone)]
pub struct NativePolicy(policy::Policy);

impl NativePolicy {
    pub(crate) fn inner(&self) -> policy::Policy {
        self.0.clone()
    }
}

#[napi]
impl NativePolicy {
    /// `limit` units per window; a refused call uses up the window if `count_refused`.
    #[napi(factory, catch_unwind)]
    pub fn fixed_window(limit: f64, window_us: f64, count_refused: bool) -> Result<Self> {
        checked(abi_policy::fixed_window(limit, window_us, count_refused))
    }

    /// About `limit` units in any rolling window, by two counters. The window is in whole
    /// milliseconds.
    #[napi(factory, catch_unwind)]
    pub fn sliding_counter(limit: f64, window_us: f64) -> Result<Self> {
        checked(abi_policy::sliding_counter(limit, window_us))
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
        checked(abi_policy::token_bucket(
            abi_policy::levels(capacity, initial, debt),
            tokens,
            every_us,
        ))
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
        let levels = abi_policy::levels(capacity, initial, debt);
        checked(abi_policy::token_bucket_interval(levels, tokens, every_us))
    }

    /// A bucket that holds `capacity` units and leaks `units` per `every_us`.
    #[napi(factory, catch_unwind)]
    pub fn leaky_bucket(capacity: f64, units: f64, every_us: f64) -> Result<Self> {
        checked(abi_policy::leaky_bucket(capacity, units, every_us))
    }

    /// `limit` units per `period_us`, and up to `burst` at once.
    #[napi(factory, catch_unwind)]
    pub fn gcra(limit: f64, period_us: f64, burst: f64) -> Result<Self> {
        checked(abi_policy::gcra(limit, period_us, burst))
    }

    /// `limit` units in any rolling window, counted in buckets. In Redis the buckets are in a hash
    /// or in a list.
    #[napi(factory, catch_unwind)]
    pub fn sliding_window(limit: f64, window_us: f64, buckets: f64, hash: bool) -> Result<Self> {
        checked(abi_policy::sliding_window(limit, window_us, buckets, hash))
    }

    /// `limit` units per calendar window in a time zone. `every` is `'hour'`, `'day'`, `'week'`,
    /// `'month'` or a length in microseconds that divides a day.
    #[napi(
        factory,
        catch_unwind,
        ts_args_type = "limit: number, every: string | number, timeZone: string"
    )]
    pub fn calendar_window(limit: f64, every: Either<String, f64>, zone: String) -> Result<Self> {
        let every = match every {
            Either::A(name) => abi_policy::named_window(&name),
            Either::B(length_us) => abi_policy::day_part(length_us),
        };
        let policy = every.and_then(|every| CalendarWindow::new(whole(limit), every, &zone));
        checked(policy.map(policy::Policy::CalendarWindow))
    }

    /// Whether a time zone has this name.
    #[napi(catch_unwind)]
    pub fn is_time_zone(name: String) -> bool {
        calendar::is_time_zone(&name)
    }

    /// `limit` units in any rolling window.
    #[napi(factory, catch_unwind)]
    pub fn sliding_log(limit: f64, window_us: f64, count_refused: bool) -> Result<Self> {
        checked(abi_policy::sliding_log(limit, window_us, count_refused))
    }

    /// `limits[i]` units in any rolling window of `windows_us[i]`, over one log.
    #[napi(factory, catch_unwind)]
    pub fn sliding_logs(
        limits: Vec<f64>,
        windows_us: Vec<f64>,
        precision_us: Option<f64>,
    ) -> Result<Self> {
        checked(abi_policy::sliding_logs(&limits, &windows_us, precision_us))
    }
}

fn checked(policy: abi_policy::PolicyResult) -> Result<NativePolicy> {
    policy.map(NativePolicy).map_err(|invalid| Error::new(Status::InvalidArg, invalid.to_string()))
}
