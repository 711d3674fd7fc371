//! A policy of any algorithm, and a state of any algorithm, as stores and bindings handle them.

pub mod ban;
pub mod decision;
pub mod execute;
pub mod mark;
pub mod multi_policy;
pub mod operation;
pub mod owed;
pub mod policy_set;
pub mod units;
pub mod variants;

use crate::algorithm::{
    self, Algorithm, BucketLayout, CalendarWindow, ChargeRecord, Concurrency, CounterState,
    FixedWindow, Gcra, IntervalBucket, IntervalState, InvalidNumber, LeakyBucket, Levels,
    LimitStatuses, LogLimit, LogState, Outcome, PermitState, Preview, Rate, RateBased as _,
    RateState, Rewrites, SlidingCounter, SlidingLog, SlidingState, SlidingWindow, TokenBucket,
    WindowState, preview_of_copy, single_limit_status,
};
use crate::calendar::{Calendar, Every};
use crate::policy::mark::Marked;
use crate::protocol::{POLICY_KINDS, policy_kind};
use crate::time::Micros;

/// Passes the list of all algorithms, each with its variant of [`State`], to a macro.
macro_rules! with_algorithms {
    ($macro:ident!($($arguments:tt)*)) => {
        $crate::policy::$macro! {
            ($($arguments)*)
            FixedWindow: Window,
            CalendarWindow: Window,
            Gcra: Rate,
            TokenBucket: Rate,
            LeakyBucket: Rate,
            IntervalBucket: Interval,
            SlidingCounter: Counter,
            SlidingWindow: Sliding,
            SlidingLog: Log,
            Concurrency: Permits,
        }
    };
}

/// Defines [`Policy`] from the list of all algorithms.
macro_rules! define_policy {
    (() $($algorithm:ident: $state:ident,)*) => {
        /// One algorithm with its numbers.
        ///
        /// # Examples
        /// ```
        /// use tollgate::{algorithm::{Algorithm as _, FixedWindow, Outcome}, policy::Policy};
        /// let policy = Policy::FixedWindow(FixedWindow::new(1, 60_000_000).unwrap());
        /// assert_eq!(policy.charge(&mut policy.initial_state(), 0, 1), Outcome::Admitted);
        /// ```
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum Policy {
            $(
                #[doc = concat!("See [`", stringify!($algorithm), "`].")]
                $algorithm($crate::algorithm::$algorithm),
            )*
        }
    };
}
with_algorithms!(define_policy!());

/// The state of one key under one policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// The state of the window algorithms.
    Window(WindowState),
    /// The state of the rate algorithms.
    Rate(RateState),
    /// The state of the token bucket refilled at intervals.
    Interval(IntervalState),
    /// The state of the sliding counter, in a box because it would make all states larger.
    Counter(Box<CounterState>),
    /// The state of the sliding window.
    Sliding(SlidingState),
    /// The state of the sliding logs, in a box because it is large.
    Log(Box<LogState>),
    /// The state of concurrency, in a box because it is large.
    Permits(Box<PermitState>),
    /// One of the other states, with a mark.
    Marked(Box<Marked>),
}

impl State {
    /// Stands for a state that has been taken out of its place.
    pub(crate) const NONE: Self = Self::Window(WindowState { ends_ms: 0, count: 0 });
}

impl Policy {
    /// A policy from its kind (see `scripts/protocol.mjs`) and its numbers, in the order in which
    /// `ts/policies/` encodes them. Lengths of time are in microseconds. `calendar_of` makes the
    /// calendar of a calendar window.
    ///
    /// # Errors
    /// [`InvalidNumber`] for a number that cannot be counted exactly.
    pub fn from_numbers(
        kind: u32,
        numbers: &[u64],
        calendar_of: impl FnOnce(Every) -> Result<Calendar, InvalidNumber>,
    ) -> Result<Self, InvalidNumber> {
        Ok(match (kind, numbers) {
            (policy_kind::GCRA, &[limit, period, burst]) => {
                Self::Gcra(Gcra::new(limit, period, burst)?)
            }
            (policy_kind::TOKEN_BUCKET, &[capacity, tokens, every, initial, debt]) => {
                let levels = Levels { capacity, initial, debt };
                Self::TokenBucket(TokenBucket::with_levels(levels, tokens, every)?)
            }
            (policy_kind::TOKEN_BUCKET_INTERVAL, &[capacity, tokens, every, initial, debt]) => {
                let levels = Levels { capacity, initial, debt };
                Self::IntervalBucket(IntervalBucket::new(levels, tokens, every)?)
            }
            (policy_kind::LEAKY_BUCKET, &[capacity, units, every]) => {
                Self::LeakyBucket(LeakyBucket::new(capacity, units, every)?)
            }
            (policy_kind::FIXED_WINDOW, &[limit, window, counts_refused]) => Self::FixedWindow(
                FixedWindow::new(limit, window)?.counting_refused(counts_refused > 0),
            ),
            (policy_kind::CALENDAR_WINDOW, &[limit, every]) => {
                let rule = "must be whole seconds that divide a day evenly";
                let not_a_part = InvalidNumber { option: "every", rule };
                let calendar = calendar_of(Every::from_number(every).ok_or(not_a_part)?)?;
                Self::CalendarWindow(CalendarWindow::by(limit, calendar)?)
            }
            (policy_kind::SLIDING_COUNTER, &[limit, window]) => {
                Self::SlidingCounter(SlidingCounter::new(limit, window)?)
            }
            (policy_kind::SLIDING_WINDOW_LIST, &[limit, window, buckets]) => {
                Self::SlidingWindow(SlidingWindow::new(limit, window, buckets, BucketLayout::List)?)
            }
            (policy_kind::SLIDING_WINDOW_HASH, &[limit, window, buckets]) => {
                Self::SlidingWindow(SlidingWindow::new(limit, window, buckets, BucketLayout::Hash)?)
            }
            (policy_kind::SLIDING_LOG, &[limit, window, counts_refused]) => {
                Self::SlidingLog(SlidingLog::new(limit, window, counts_refused > 0)?)
            }
            (policy_kind::SLIDING_LOGS, [precision, limits @ ..]) => {
                let limits = limits.as_chunks().0.iter();
                let limits: Vec<_> =
                    limits.map(|&[limit, window]| LogLimit { limit, window }).collect();
                Self::SlidingLog(SlidingLog::with_limits(&limits, Some(*precision))?)
            }
            (policy_kind::CONCURRENCY, &[limit, expires]) => {
                Self::Concurrency(Concurrency::new(limit, expires)?)
            }
            _ => {
                let rule = "must be one that the engine knows";
                return Err(InvalidNumber { option: "algorithm", rule });
            }
        })
    }

    fn kind(&self) -> u32 {
        match self {
            Self::Gcra(_) => policy_kind::GCRA,
            Self::TokenBucket(_) => policy_kind::TOKEN_BUCKET,
            Self::LeakyBucket(_) => policy_kind::LEAKY_BUCKET,
            Self::IntervalBucket(_) => policy_kind::TOKEN_BUCKET_INTERVAL,
            Self::FixedWindow(_) => policy_kind::FIXED_WINDOW,
            Self::CalendarWindow(_) => policy_kind::CALENDAR_WINDOW,
            Self::SlidingCounter(_) => policy_kind::SLIDING_COUNTER,
            Self::SlidingWindow(window) => match window.layout() {
                BucketLayout::List => policy_kind::SLIDING_WINDOW_LIST,
                BucketLayout::Hash => policy_kind::SLIDING_WINDOW_HASH,
            },
            Self::SlidingLog(log) if log.named_limits() == 0 => policy_kind::SLIDING_LOG,
            Self::SlidingLog(_) => policy_kind::SLIDING_LOGS,
            Self::Concurrency(_) => policy_kind::CONCURRENCY,
        }
    }

    /// The name of the algorithm and the layout of its state. It is part of every stored key, so a
    /// policy whose algorithm changes never reads a state of the old one.
    #[must_use]
    pub fn tag(&self) -> &'static str {
        POLICY_KINDS[self.kind() as usize].0
    }

    /// The rate that decides, if the policy is one.
    #[inline]
    #[must_use]
    pub fn rate(&self) -> Option<&Rate> {
        match self {
            Self::Gcra(gcra) => Some(gcra.rate()),
            Self::TokenBucket(bucket) => Some(bucket.rate()),
            Self::LeakyBucket(bucket) => Some(bucket.rate()),
            _ => None,
        }
    }

    /// The limit of units at a time, if the policy is one.
    #[must_use]
    pub fn concurrency(&self) -> Option<&Concurrency> {
        match self {
            Self::Concurrency(concurrency) => Some(concurrency),
            _ => None,
        }
    }

    /// Whether refused calls are charged, too.
    #[must_use]
    pub fn counts_refused(&self) -> bool {
        match self {
            Self::FixedWindow(window) => window.counts_refused(),
            Self::SlidingLog(log) => log.counts_refused(),
            _ => false,
        }
    }
}

/// Evaluates an expression on any algorithm.
macro_rules! with_policy {
    ($policy:expr, $algorithm:ident => $result:expr) => {
        $crate::policy::with_algorithms!(match_policy!($policy, $algorithm, $result))
    };
}
/// The body of [`with_policy`].
macro_rules! match_policy {
    (($policy:expr, $own:ident, $result:expr) $($algorithm:ident: $state:ident,)*) => {
        match $policy {
            $($crate::policy::Policy::$algorithm($own) => $result,)*
        }
    };
}
pub(crate) use {define_policy, match_policy, with_algorithms, with_policy};

/// Evaluates an expression on the state of any algorithm.
macro_rules! with_state {
    ($state:expr, $name:ident => $result:expr) => {
        match $state {
            State::Window($name) => $result,
            State::Rate($name) => $result,
            State::Interval($name) => $result,
            State::Counter($name) => $result,
            State::Sliding($name) => $result,
            State::Log($name) => $result,
            State::Permits($name) => $result,
            State::Marked(marked) => {
                let $name = &marked.state;
                $result
            }
        }
    };
}

impl algorithm::KeyState for State {
    /// A mark must not be dropped before it ends.
    #[inline]
    fn reset_at(&self) -> Micros {
        match self {
            Self::Marked(marked) => marked.state.reset_at().max(marked.mark.until),
            _ => with_state!(self, state => state.reset_at()),
        }
    }

    fn drains(&self) -> bool {
        with_state!(self, state => state.drains())
    }
}

/// Evaluates an expression on any algorithm and a state of its own kind.
macro_rules! with_algorithm {
    ($policy:expr, $state:expr, $algorithm:ident, $own:ident => $result:expr, else $other:expr) => {
        $crate::policy::with_algorithms!(match_algorithm!(
            ($policy, $state),
            $algorithm,
            $own,
            $result,
            $other
        ))
    };
}
/// The body of [`with_algorithm`].
macro_rules! match_algorithm {
    (($both:expr, $own:ident, $own_state:ident, $result:expr, $other:expr)
     $($algorithm:ident: $state:ident,)*) => {
        match $both {
            $((Policy::$algorithm($own), State::$state($own_state)) => $result,)*
            _ => $other,
        }
    };
}

pub(crate) use {match_algorithm, with_algorithm};

/// The state of a fresh key under a policy.
macro_rules! match_initial_state {
    (($policy:expr) $($algorithm:ident: $state:ident,)*) => {
        match $policy {
            // Some states are in a box.
            $(Policy::$algorithm(algorithm) => State::$state(algorithm.initial_state().into()),)*
        }
    };
}
pub(crate) use match_initial_state;

/// Dispatches each call to the algorithm.
///
/// A state of another algorithm cannot occur, because [`Policy::tag`] keeps them apart. It would
/// count as that of a fresh key.
impl Algorithm for Policy {
    type State = State;

    #[inline]
    fn initial_state(&self) -> State {
        with_algorithms!(match_initial_state!(self))
    }

    #[inline]
    fn limit(&self) -> u64 {
        with_policy!(self, algorithm => algorithm.limit())
    }

    #[inline]
    fn capacity(&self) -> u64 {
        with_policy!(self, algorithm => algorithm.capacity())
    }

    #[inline]
    fn charge(&self, state: &mut State, now: Micros, cost: u64) -> Outcome {
        let rewrites = with_algorithm!(self, &mut *state, algorithm, own => {
            let rewrites = algorithm.rewrites(own, now);
            if rewrites == Rewrites::Never {
                return algorithm.charge(own, now, cost);
            }
            rewrites
        }, else {
            return self.charge_other(state, now, cost);
        });
        self.charge_rewritten(state, now, cost, rewrites)
    }

    fn normalize(&self, state: &mut State, now: Micros) {
        with_algorithm!(self, &mut *state, algorithm, own => {
            if algorithm.rewrites(own, now) != Rewrites::Always {
                return algorithm.normalize(own, now);
            }
        }, else ());
        self.normalize_other(state, now);
    }

    fn rewrites(&self, state: &State, now: Micros) -> Rewrites {
        with_algorithm!(self, state.unmarked(), algorithm, own => algorithm.rewrites(own, now), else Rewrites::Never)
    }

    fn outcome(&self, state: &State, now: Micros, cost: u64) -> Outcome {
        with_algorithm!(self, state.unmarked(), algorithm, own => algorithm.outcome(own, now, cost), else {
            self.charge(&mut self.initial_state(), now, cost)
        })
    }

    fn refund(&self, state: &mut State, now: Micros, units: u64, taken: ChargeRecord) -> u64 {
        self.refund_by_mark(state, now, units, taken)
    }

    #[inline]
    fn mark(&self, state: &State) -> u64 {
        match state {
            State::Marked(marked) => marked.mark.moved,
            _ => 0,
        }
    }

    #[inline]
    fn remaining(&self, state: &State, now: Micros) -> u64 {
        with_algorithm!(self, state, algorithm, own => algorithm.remaining(own, now), else {
            match state {
                State::Marked(marked) => self.remaining(&marked.state, now),
                _ => self.capacity(),
            }
        })
    }

    #[inline]
    fn retry_at(&self, state: &State, now: Micros, cost: u64) -> Micros {
        with_algorithm!(self, state, algorithm, own => algorithm.retry_at(own, now, cost), else {
            match state {
                State::Marked(marked) => self.retry_at(&marked.state, now, cost),
                _ => now,
            }
        })
    }

    #[inline]
    fn reset_at(&self, state: &State, now: Micros) -> Micros {
        with_algorithm!(self, state, algorithm, own => algorithm.reset_at(own, now), else {
            match state {
                State::Marked(marked) => self.reset_at(&marked.state, now),
                _ => algorithm::KeyState::reset_at(state),
            }
        })
    }

    #[inline]
    fn named_limits(&self) -> usize {
        match self {
            Self::SlidingLog(algorithm) => algorithm.named_limits(),
            _ => 0,
        }
    }

    fn limit_statuses(
        &self,
        state: &State,
        now: Micros,
        cost: u64,
        outcome: Outcome,
    ) -> LimitStatuses {
        match (self, state) {
            (Self::SlidingLog(log), State::Log(own)) => log.limit_statuses(own, now, cost, outcome),
            (_, State::Marked(marked)) => {
                let mut statuses = self.limit_statuses(&marked.state, now, cost, outcome);
                if outcome == Outcome::Admitted {
                    statuses.iter_mut().for_each(|status| status.mark = marked.mark.moved);
                }
                statuses
            }
            // The other algorithms have one limit each: one copy of this code serves them all.
            _ => single_limit_status(self, state, now, cost, outcome),
        }
    }

    fn preview(&self, state: &State, now: Micros, cost: u64) -> Preview {
        let mut preview = match (self, state.unmarked()) {
            (Self::SlidingLog(log), State::Log(own)) => log.preview(own, now, cost),
            (_, state) => preview_of_copy(self, state, now, cost),
        };
        let moved = state.mark_at(now).moved;
        let repairs = self.rewrites(state, now) == Rewrites::Always;
        let is_admitted = preview.outcome == Outcome::Admitted;
        let moved = if is_admitted { moved + u64::from(repairs) } else { 0 };
        preview.statuses.iter_mut().for_each(|status| status.mark = moved);
        preview
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::algorithm::{KeyState as _, Levels};

    fn sliding(layout: BucketLayout) -> Policy {
        Policy::SlidingWindow(SlidingWindow::new(3, 1_000_000, 10, layout).unwrap())
    }

    #[test]
    fn layouts_of_buckets_have_tags_of_their_own_and_states_are_small() {
        let tags = [BucketLayout::List, BucketLayout::Hash].map(|layout| sliding(layout).tag());
        assert_eq!(tags, ["swl", "swh"]);
        assert!(size_of::<State>() <= 32);
    }

    fn policies() -> [Policy; 10] {
        [
            Policy::FixedWindow(FixedWindow::new(3, 1_000_000).unwrap()),
            Policy::TokenBucket(TokenBucket::new(3, 3, 1_000_000).unwrap()),
            Policy::Gcra(Gcra::new(3, 1_000_000, 3).unwrap()),
            Policy::LeakyBucket(LeakyBucket::new(3, 3, 1_000_000).unwrap()),
            Policy::IntervalBucket(IntervalBucket::new(Levels::full(3), 3, 1_000_000).unwrap()),
            Policy::SlidingCounter(SlidingCounter::new(3, 1_000_000).unwrap()),
            Policy::SlidingWindow(SlidingWindow::new(3, 1_000_000, 4, BucketLayout::List).unwrap()),
            Policy::CalendarWindow(CalendarWindow::new(3, Every::Day, "UTC").unwrap()),
            Policy::SlidingLog(SlidingLog::new(3, 1_000_000, false).unwrap()),
            Policy::Concurrency(Concurrency::new(3, 1_000_000).unwrap()),
        ]
    }

    #[test]
    fn tags_differ() {
        assert_eq!(policies().iter().map(Policy::tag).collect::<HashSet<_>>().len(), 10);
    }

    #[test]
    fn every_algorithm_is_reached_with_its_own_state() {
        for policy in policies() {
            let mut state = policy.initial_state();
            assert_eq!(policy.charge(&mut state, 0, 3), Outcome::Admitted, "{policy:?}");
            assert_eq!((policy.limit(), policy.capacity()), (3, 3));
            assert_eq!(policy.remaining(&state, 0), 0);
            assert_eq!(policy.charge(&mut state, 0, 1), Outcome::Refused, "{policy:?}");
            let retry_at = policy.retry_at(&state, 0, 1);
            assert!(retry_at > 0 && retry_at <= state.reset_at());
        }
    }

    #[test]
    fn a_state_of_another_algorithm_counts_as_unused() {
        let [window, _, gcra, ..] = policies();
        let mut state = window.initial_state();
        window.charge(&mut state, 0, 3);
        assert_eq!(gcra.remaining(&state, 0), 3);
        assert_eq!(gcra.charge(&mut state, 0, 3), Outcome::Admitted);
    }
}
