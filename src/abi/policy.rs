//! Policies from their numbers in JavaScript. Lengths of time are in whole microseconds.

use super::whole;
use crate::algorithm::{
    BucketLayout, FixedWindow, Gcra, IntervalBucket, InvalidNumber, LeakyBucket, Levels, LogLimit,
    SlidingCounter, SlidingLog, SlidingWindow, TokenBucket,
};
use crate::calendar::Every;
use crate::policy::Policy;

/// A policy, or the invalid option and its rule.
pub(crate) type PolicyResult = Result<Policy, InvalidNumber>;

/// `limit` units per window; a refused call uses up the window if `count_refused`.
pub(crate) fn fixed_window(limit: f64, window_us: f64, count_refused: bool) -> PolicyResult {
    let policy = FixedWindow::new(whole(limit), whole(window_us))?;
    Ok(Policy::FixedWindow(policy.counting_refused(count_refused)))
}

/// About `limit` units in any rolling window, by two counters. The window is in whole milliseconds.
pub(crate) fn sliding_counter(limit: f64, window_us: f64) -> PolicyResult {
    SlidingCounter::new(whole(limit), whole(window_us)).map(Policy::SlidingCounter)
}

/// The levels of a bucket. JavaScript has checked that `initial` and `debt` are whole numbers: here
/// any other number would become 0, which is valid for them.
pub(crate) fn levels(capacity: f64, initial: f64, debt: f64) -> Levels {
    Levels { capacity: whole(capacity), initial: whole(initial), debt: whole(debt) }
}

/// A bucket that gains `tokens` per `every_us`, evenly.
pub(crate) fn token_bucket(levels: Levels, tokens: f64, every_us: f64) -> PolicyResult {
    TokenBucket::with_levels(levels, whole(tokens), whole(every_us)).map(Policy::TokenBucket)
}

/// A bucket that gains `tokens` at the end of each `every_us`.
pub(crate) fn token_bucket_interval(levels: Levels, tokens: f64, every_us: f64) -> PolicyResult {
    IntervalBucket::new(levels, whole(tokens), whole(every_us)).map(Policy::IntervalBucket)
}

/// A bucket that holds `capacity` units and leaks `units` per `every_us`.
pub(crate) fn leaky_bucket(capacity: f64, units: f64, every_us: f64) -> PolicyResult {
    LeakyBucket::new(whole(capacity), whole(units), whole(every_us)).map(Policy::LeakyBucket)
}

/// `limit` units per `period_us`, and up to `burst` at once.
pub(crate) fn gcra(limit: f64, period_us: f64, burst: f64) -> PolicyResult {
    Gcra::new(whole(limit), whole(period_us), whole(burst)).map(Policy::Gcra)
}

/// `limit` units in any rolling window, counted in buckets. In Redis the buckets are in a hash or
/// in a list.
pub(crate) fn sliding_window(limit: f64, window_us: f64, buckets: f64, hash: bool) -> PolicyResult {
    let layout = if hash { BucketLayout::Hash } else { BucketLayout::List };
    SlidingWindow::new(whole(limit), whole(window_us), whole(buckets), layout)
        .map(Policy::SlidingWindow)
}

/// The calendar window of this name.
pub(crate) fn named_window(name: &str) -> Result<Every, InvalidNumber> {
    match name {
        "hour" => Ok(Every::HOUR),
        "day" => Ok(Every::Day),
        "week" => Ok(Every::Week),
        "month" => Ok(Every::Month),
        _ => Err(NOT_A_WINDOW),
    }
}

/// The calendar window of this length, which is a part of a day.
pub(crate) fn day_part(length_us: f64) -> Result<Every, InvalidNumber> {
    Every::part(whole(length_us)).ok_or(NOT_A_WINDOW)
}

const NOT_A_WINDOW: InvalidNumber =
    InvalidNumber { option: "every", rule: "must be whole seconds that divide a day evenly" };

/// `limit` units in any rolling window.
pub(crate) fn sliding_log(limit: f64, window_us: f64, count_refused: bool) -> PolicyResult {
    SlidingLog::new(whole(limit), whole(window_us), count_refused).map(Policy::SlidingLog)
}

/// `limits[i]` units in any rolling window of `windows_us[i]`, over one log.
pub(crate) fn sliding_logs(
    limits: &[f64],
    windows_us: &[f64],
    precision_us: Option<f64>,
) -> PolicyResult {
    let limit = |(&limit, &window)| LogLimit { limit: whole(limit), window: whole(window) };
    let limits: Vec<_> = limits.iter().zip(windows_us).map(limit).collect();
    SlidingLog::with_limits(&limits, precision_us.map(whole)).map(Policy::SlidingLog)
}
