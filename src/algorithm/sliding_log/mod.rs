//! The sliding logs: every call is recorded, so rolling windows are counted exactly.
//!
//! **Law:** for each limit at most `limit` units in any rolling window [s, s + window), exactly: an
//! entry of the time t counts while now < t + window. With a precision, times are rounded up to its
//! multiples: never more is admitted, and a caller waits up to a precision longer. Several limits
//! share one log, and a call is admitted if it fits all of them. A lone caller gets all units of
//! the smallest window at once, and each unit back when a window has passed since.
//!
//! **Refused attempts** count nothing, unless the policy asks for it. Then they are recorded, too,
//! and the log keeps at most `limit` units: the newest ones, with the oldest entry cut if
//! necessary.
//!
//! **Refunds.** The units of a call come back from its own entry while that counts in the longest
//! window. If more than [`MAX_DROPPED`] entries follow the call's, a refund would have to change all
//! of them. Then, and in a log with refused attempts, the oldest units that count are removed instead,
//! unless they are newer than the call:
//! those of later calls count for their whole time. Either way each unit that is left in the log was
//! taken no earlier than one that was admitted and not refunded, so the law holds of the admitted
//! units less the refunded ones.
//!
//! **Time.** A call is decided at max(now, the latest time at which an entry was written), so a
//! clock that steps back refills nothing. Entries that had expired when an entry was written stay
//! expired. So they can be dropped at any time without changing a decision. A log with a time
//! further ahead than the longest window becomes one entry as of now, fully used. So a clock step
//! back of more than one window locks a key for one window, and a shorter step for at most two.
//!
//! **Size.** At most `limit` entries count (with a precision: window / precision + 2). A recorded
//! call drops expired entries, at most [`MAX_DROPPED`]: so no call is slow after 100,000 entries
//! have expired at once, and later calls find fewer. Without a precision, only a call with which
//! the cumulative units pass a multiple of [`DROP_EVERY`] drops entries, because it takes a quarter
//! of Redis's time for a call.
//!
//! **Changed numbers.** Entries contain times and units, and no numbers of a policy. So any version
//! counts them by its own windows and limits. Across a change, also with several versions side by
//! side, at most the larger limit is admitted in any window of the shorter length: the version with
//! the shorter window drops entries that the longer one would still count. A log with refused
//! attempts keeps as many units as the largest limit that wrote to it, so that a smaller limit's
//! attempts do not push out units that a larger one counts. A log also stores how long after its
//! newest entry it is needed: for the longest window of the policies that wrote to it in that time,
//! rounded up by less than a quarter. From then on it counts under no policy, because a store may
//! have dropped it.
//!
//! Source: the sorted-set limiters, and the sliding log with strategies of the Go + Redis limiter.
//! Differences: two calls of one microsecond both count, refused requests count only if the policy
//! asks for it, and the units of a window are one subtraction of cumulative numbers, without a
//! scan.

pub(crate) mod log;

use std::borrow::Cow;

use crate::algorithm::sliding_log::log::{LogState, span_of};
use crate::algorithm::{
    Algorithm, ChargeRecord, InvalidNumber, KeyState as _, LimitStatus, LimitStatuses, Outcome,
    Preview, Rewrites, checked_length,
};
use crate::time::{MAX_SAFE, MAX_TIME, Micros};

/// The largest limit of a log: it may record this many calls of each key.
pub const MAX_LOG_LIMIT: u64 = 100_000;

/// The most limits that share a log.
pub const MAX_LIMITS: usize = 8;

/// The most entries that a call drops: one call must not occupy a store for long.
pub const MAX_DROPPED: usize = 100;

/// Without a precision, expired entries are dropped once in this many units.
pub const DROP_EVERY: u64 = 16;

/// At most `limit` units in any rolling `window`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogLimit {
    /// The units.
    pub limit: u64,
    /// The length of the window.
    pub window: Micros,
}

/// One or several limits over a log of calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlidingLog {
    limits: Box<[LogLimit]>,
    /// Whether decisions report the limits by name.
    named: bool,
    /// The precision; 1 if times are exact.
    precision: Micros,
    count_refused: bool,
    longest: Micros,
    /// How long a log of these windows is needed after its newest entry.
    span: Micros,
    min_limit: u64,
    max_limit: u64,
}

impl SlidingLog {
    /// At most `limit` units in any rolling `window`. Refused attempts count, too, if
    /// `count_refused`.
    ///
    /// # Errors
    /// [`InvalidNumber`] for a limit that is not from 1 to [`MAX_LOG_LIMIT`], or a window that is 0
    /// or too long to count exactly.
    pub fn new(limit: u64, window: Micros, count_refused: bool) -> Result<Self, InvalidNumber> {
        let log = Self::with([LogLimit { limit, window }].into(), 1)?;
        Ok(Self { count_refused, ..log })
    }

    /// Several limits over one log, whose times are rounded up to multiples of the precision.
    ///
    /// # Errors
    /// [`InvalidNumber`] unless there are 1 to [`MAX_LIMITS`] limits as for [`SlidingLog::new`],
    /// smaller windows have smaller limits, and the precision is at most the smallest window.
    pub fn with_limits(
        limits: &[LogLimit],
        precision: Option<Micros>,
    ) -> Result<Self, InvalidNumber> {
        if !(1..=MAX_LIMITS).contains(&limits.len()) {
            return Err(InvalidNumber { option: "limits", rule: "must be 1 to 8" });
        }
        let log = Self::with(limits.into(), precision.unwrap_or(1))?;
        Ok(Self { named: true, ..log })
    }

    fn with(limits: Box<[LogLimit]>, precision: Micros) -> Result<Self, InvalidNumber> {
        let wrong = |option, rule| Err(InvalidNumber { option, rule });
        for one in &limits {
            if !(1..=MAX_LOG_LIMIT).contains(&one.limit) {
                return wrong("limit", "must be a whole number from 1 to 100000");
            }
            checked_length("window", one.window)?;
        }
        let mut by_window = Vec::with_capacity(limits.len());
        for one in &limits {
            match by_window.binary_search_by_key(&one.window, |other: &&LogLimit| other.window) {
                Ok(_) => return wrong("window", "must not be the same for two limits"),
                Err(index) => by_window.insert(index, one),
            }
        }
        if by_window.windows(2).any(|two| two[0].limit >= two[1].limit) {
            return wrong("limit", "must be smaller for a smaller window");
        }
        let (shortest, longest) = (by_window[0], by_window[by_window.len() - 1]);
        if !(1..=shortest.window).contains(&precision) {
            return wrong("precision", "must be longer than 0 and at most the smallest window");
        }
        if precision > 1 && longest.window + precision > MAX_TIME {
            return wrong("precision", "and the longest window must be below 2^52 µs together");
        }
        let (longest, min_limit, max_limit) = (longest.window, shortest.limit, longest.limit);
        let (named, count_refused) = (false, false);
        let span = span_of(longest);
        Ok(Self { limits, named, precision, count_refused, longest, span, min_limit, max_limit })
    }

    /// The limits, in the order in which they were declared.
    #[must_use]
    pub fn limits(&self) -> &[LogLimit] {
        &self.limits
    }

    /// The precision: times are rounded up to its multiples. 1 if they are exact.
    #[must_use]
    pub fn precision(&self) -> Micros {
        self.precision
    }

    /// Whether refused attempts count.
    #[must_use]
    pub fn counts_refused(&self) -> bool {
        self.count_refused
    }

    /// Whether a clock step left the log further ahead than possible.
    fn is_ahead(&self, log: &LogState, now: Micros) -> bool {
        log.seen > now + self.longest
    }

    /// Whether the log is fresh: a store may have dropped it, so it counts nothing. Without entries
    /// there is nothing to drop.
    fn is_fresh(log: &LogState, now: Micros) -> bool {
        log.reset_at() <= now && log.entries() > 0
    }

    /// The units in the longest window, without those that refused attempts have pushed out but
    /// that have not been dropped yet.
    fn kept(&self, log: &LogState, at: Micros) -> u64 {
        let used = log.used(at, self.longest);
        if log.keep > 0 { used.min(log.keep) } else { used }
    }

    /// The log as fully used at `now`. Units that a larger limit has counted stay.
    fn full(&self, log: &LogState, now: Micros) -> LogState {
        let kept = self.kept(log, log.seen);
        let (units, time) = (kept.max(self.max_limit), now.next_multiple_of(self.precision));
        let mut full = LogState::of(units, time);
        full.seen = now;
        full.keep = if self.count_refused { units } else { 0 };
        let span = log.newest().map_or(0, |newest| log.reset_at - newest);
        full.reset_at = time + span.max(self.span);
        full
    }

    /// The time of an entry that is recorded now.
    fn time_of_new(&self, log: &LogState, at: Micros) -> Micros {
        at.next_multiple_of(self.precision).max(log.newest().unwrap_or(0))
    }

    /// The outcome of a call.
    fn decide(&self, log: &LogState, at: Micros, cost: u64) -> Outcome {
        if cost == 0 {
            return Outcome::Admitted;
        }
        if cost > self.min_limit {
            return Outcome::Impossible;
        }
        let fits = |one: &LogLimit| log.used(at, one.window) + cost <= one.limit;
        if self.limits.iter().all(fits) { Outcome::Admitted } else { Outcome::Refused }
    }

    /// Records a call, and drops some expired entries.
    fn record(&self, log: &mut LogState, at: Micros, cost: u64) {
        let newest = log.newest().unwrap_or(0);
        let time = at.next_multiple_of(self.precision).max(newest);
        let needed_until = time + self.span.max(log.reset_at - newest);
        let used = log.used(at, self.longest);
        if log.after() + cost > MAX_SAFE {
            // The cumulative numbers would overflow: the units that count start again from 0, as of
            // now.
            let keep = log.keep;
            *log = LogState::of(used, time);
            log.keep = keep;
        }
        log.keep = match (self.count_refused, used, log.keep) {
            (false, ..) => 0,
            (true, 0, _) => self.max_limit,
            (true, used, 0) => used.max(self.max_limit),
            (true, _, keep) => keep.max(self.max_limit),
        };
        let due = self.precision > 1 || log.after() % DROP_EVERY + cost >= DROP_EVERY;
        log.push(cost, time, self.precision > 1);
        (log.seen, log.reset_at) = (at, needed_until);
        if due {
            let pushed_out = if log.keep > 0 { log.after().saturating_sub(log.keep) } else { 0 };
            log.drop_oldest(MAX_DROPPED, at.checked_sub(self.longest), pushed_out);
        }
    }

    /// The first time at which a limit that refuses a cost would admit it, if a call of `more`
    /// units is still to be recorded.
    fn admits_at(&self, log: &LogState, at: Micros, one: LogLimit, cost: u64, more: u64) -> Micros {
        // The cost fits once this unit and all older ones have expired.
        let last = (log.after() + more).saturating_sub(one.limit.saturating_sub(cost));
        let time = log.time_of_unit(last).unwrap_or_else(|| self.time_of_new(log, at));
        if more > 0 { time + one.window } else { (time + one.window).min(log.reset_at()) }
    }

    /// When the log is fresh under a window.
    fn reset_under(&self, log: &LogState, window: Micros) -> Micros {
        log.newest().map_or(0, |newest| (newest + window).min(log.reset_at()))
    }

    /// The status of each limit, if a refused call of `more` units is still to be recorded.
    fn statuses_at(
        &self,
        log: &LogState,
        now: Micros,
        cost: u64,
        refused: bool,
        more: u64,
    ) -> LimitStatuses {
        let at = now.max(log.seen);
        let statuses_at = |&one: &LogLimit| {
            let used = log.used(at, one.window);
            let refuses = refused && used + cost > one.limit;
            let retry_at = if refuses { self.admits_at(log, at, one, cost, more) } else { 0 };
            LimitStatus {
                limit: one.limit,
                capacity: one.limit,
                remaining: one.limit.saturating_sub(used),
                retry_at,
                next_at: match used < one.limit {
                    true => 0,
                    false if refuses && (cost, more) == (1, 0) => retry_at,
                    false => self.admits_at(log, at, one, 1, 0),
                },
                reset_at: self.reset_under(log, one.window),
                mark: 0,
            }
        };
        let statuses = self.limits.iter().map(statuses_at);
        if self.limits.len() == 1 {
            return statuses.collect();
        }
        // Filling a list that is too short inline takes an eighth longer than a vector.
        statuses.collect::<Vec<_>>().into()
    }
}

impl Algorithm for SlidingLog {
    type State = LogState;

    fn initial_state(&self) -> LogState {
        LogState::default()
    }

    fn capacity(&self) -> u64 {
        self.min_limit
    }

    fn charge(&self, log: &mut LogState, now: Micros, cost: u64) -> Outcome {
        if self.is_ahead(log, now) {
            *log = self.full(log, now);
        } else if Self::is_fresh(log, now) {
            *log = LogState::default();
        }
        let at = now.max(log.seen);
        let outcome = self.decide(log, at, cost);
        let counts = outcome == Outcome::Admitted && cost > 0;
        if counts || (self.count_refused && outcome == Outcome::Refused) {
            self.record(log, at, cost);
        }
        outcome
    }

    fn outcome(&self, log: &LogState, now: Micros, cost: u64) -> Outcome {
        self.decide(log, now.max(log.seen), cost)
    }

    /// Removes units of the call's own entry if at most [`MAX_DROPPED`] entries follow it, and
    /// otherwise the oldest units that count in the longest window, but no newer ones than the call's.
    fn refund(&self, log: &mut LogState, now: Micros, units: u64, taken: ChargeRecord) -> u64 {
        if taken.at.saturating_add(self.longest) <= now {
            return 0;
        }
        let used = self.kept(log, now.max(log.seen));
        let time = taken.at.next_multiple_of(self.precision);
        log.refund(units, time, log.after() - used)
    }

    fn rewrites(&self, log: &LogState, now: Micros) -> Rewrites {
        if self.is_ahead(log, now) { Rewrites::Always } else { Rewrites::Never }
    }

    fn remaining(&self, log: &LogState, now: Micros) -> u64 {
        let at = now.max(log.seen);
        let left = |one: &LogLimit| one.limit.saturating_sub(log.used(at, one.window));
        self.limits.iter().map(left).min().unwrap_or(0)
    }

    fn retry_at(&self, log: &LogState, now: Micros, cost: u64) -> Micros {
        let statuses = self.statuses_at(log, now, cost, true, 0);
        statuses.iter().map(|one| one.retry_at).max().unwrap_or(0).max(now)
    }

    fn reset_at(&self, log: &LogState, _now: Micros) -> Micros {
        self.reset_under(log, self.longest)
    }

    fn named_limits(&self) -> usize {
        if self.named { self.limits.len() } else { 0 }
    }

    fn limit_statuses(
        &self,
        log: &LogState,
        now: Micros,
        cost: u64,
        outcome: Outcome,
    ) -> LimitStatuses {
        self.statuses_at(log, now, cost, outcome == Outcome::Refused, 0)
    }

    /// A log may be long, so it is not copied.
    fn preview(&self, log: &LogState, now: Micros, cost: u64) -> Preview {
        let log = match self.is_ahead(log, now) {
            true => Cow::Owned(self.full(log, now)),
            false if Self::is_fresh(log, now) => Cow::Owned(LogState::default()),
            false => Cow::Borrowed(log),
        };
        let outcome = self.decide(&log, now.max(log.seen), cost);
        let refused = outcome == Outcome::Refused;
        let more = if refused && self.count_refused { cost } else { 0 };
        Preview::at(self.statuses_at(&log, now, cost, refused, more), cost, outcome)
    }
}

#[cfg(test)]
mod tests;
