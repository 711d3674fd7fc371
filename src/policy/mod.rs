//! A policy of any algorithm, and a state of any algorithm, as stores and bindings handle them.

pub mod decision;
pub mod execute;
pub mod multi_policy;
pub mod operation;
pub mod policy_set;

use crate::algorithm::{
    self, Algorithm, BucketLayout, CalendarWindow, ChargeRecord, CounterState, FixedWindow, Gcra,
    IntervalBucket, IntervalState, LeakyBucket, LimitStatuses, LogState, Outcome, Preview, Rate,
    RateBased as _, RateState, SlidingCounter, SlidingLog, SlidingState, SlidingWindow,
    TokenBucket, WindowState, preview_of_copy, single_limit_status,
};
use crate::protocol::tag;
use crate::time::Micros;

/// One algorithm with its numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Policy {
    /// See [`FixedWindow`].
    FixedWindow(FixedWindow),
    /// See [`TokenBucket`].
    TokenBucket(TokenBucket),
    /// See [`Gcra`].
    Gcra(Gcra),
    /// See [`LeakyBucket`].
    LeakyBucket(LeakyBucket),
    /// See [`IntervalBucket`].
    IntervalBucket(IntervalBucket),
    /// See [`SlidingCounter`].
    SlidingCounter(SlidingCounter),
    /// See [`SlidingWindow`].
    SlidingWindow(SlidingWindow),
    /// See [`CalendarWindow`].
    CalendarWindow(CalendarWindow),
    /// See [`SlidingLog`].
    SlidingLog(SlidingLog),
}

/// The algorithms by the layout of their states.
#[derive(Debug, Clone, Copy)]
pub enum Layout<'a> {
    /// The rate algorithms.
    Rate(&'a Rate),
    /// The window algorithms.
    Window(&'a FixedWindow),
    /// The token bucket refilled at intervals.
    Interval(&'a IntervalBucket),
    /// The sliding counter.
    Counter(&'a SlidingCounter),
    /// The sliding window.
    Sliding(&'a SlidingWindow),
    /// The calendar's windows.
    Calendar(&'a CalendarWindow),
    /// The sliding logs.
    Log(&'a SlidingLog),
}

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
}

impl Policy {
    /// The algorithm, by the layout of its state.
    #[must_use]
    pub fn layout(&self) -> Layout<'_> {
        match self {
            Self::FixedWindow(window) => Layout::Window(window),
            Self::TokenBucket(bucket) => Layout::Rate(bucket.rate()),
            Self::Gcra(gcra) => Layout::Rate(gcra.rate()),
            Self::LeakyBucket(bucket) => Layout::Rate(bucket.rate()),
            Self::IntervalBucket(bucket) => Layout::Interval(bucket),
            Self::SlidingCounter(counter) => Layout::Counter(counter),
            Self::SlidingWindow(window) => Layout::Sliding(window),
            Self::CalendarWindow(window) => Layout::Calendar(window),
            Self::SlidingLog(log) => Layout::Log(log),
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

    /// The name of the algorithm and the layout of its state.
    ///
    /// It is part of every stored key, so a policy whose algorithm changes never reads a state of
    /// the old one.
    #[must_use]
    pub fn tag(&self) -> &'static str {
        match self {
            Self::FixedWindow(_) => tag::FIXED_WINDOW,
            Self::TokenBucket(_) => tag::TOKEN_BUCKET,
            Self::Gcra(_) => tag::GCRA,
            Self::LeakyBucket(_) => tag::LEAKY_BUCKET,
            Self::IntervalBucket(_) => tag::TOKEN_BUCKET_INTERVAL,
            Self::SlidingCounter(_) => tag::SLIDING_COUNTER,
            Self::SlidingWindow(window) => match window.layout() {
                BucketLayout::List => tag::SLIDING_WINDOW_LIST,
                BucketLayout::Hash => tag::SLIDING_WINDOW_HASH,
            },
            Self::CalendarWindow(_) => tag::CALENDAR_WINDOW,
            Self::SlidingLog(log) if log.named_limits() == 0 => tag::SLIDING_LOG,
            Self::SlidingLog(_) => tag::SLIDING_LOGS,
        }
    }
}

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
        }
    };
}

impl algorithm::KeyState for State {
    #[inline]
    fn reset_at(&self) -> Micros {
        with_state!(self, state => state.reset_at())
    }

    fn drains(&self) -> bool {
        with_state!(self, state => state.drains())
    }
}

/// Evaluates an expression on any algorithm and a state of its own kind.
macro_rules! with_algorithm {
    ($policy:expr, $state:expr, $algorithm:ident, $own:ident => $result:expr, else $other:expr) => {
        match ($policy, $state) {
            (Policy::FixedWindow($algorithm), State::Window($own)) => $result,
            (Policy::CalendarWindow($algorithm), State::Window($own)) => $result,
            (Policy::Gcra($algorithm), State::Rate($own)) => $result,
            (Policy::TokenBucket($algorithm), State::Rate($own)) => $result,
            (Policy::LeakyBucket($algorithm), State::Rate($own)) => $result,
            (Policy::IntervalBucket($algorithm), State::Interval($own)) => $result,
            (Policy::SlidingCounter($algorithm), State::Counter($own)) => $result,
            (Policy::SlidingWindow($algorithm), State::Sliding($own)) => $result,
            (Policy::SlidingLog($algorithm), State::Log($own)) => $result,
            _ => $other,
        }
    };
}

/// Dispatches each call to the algorithm.
///
/// A state of another algorithm cannot occur, because [`Policy::tag`] keeps them apart. It would
/// count as that of a fresh key.
impl Algorithm for Policy {
    type State = State;

    #[inline]
    fn initial_state(&self) -> State {
        match self {
            Self::FixedWindow(algorithm) => State::Window(algorithm.initial_state()),
            Self::CalendarWindow(algorithm) => State::Window(algorithm.initial_state()),
            Self::Gcra(algorithm) => State::Rate(algorithm.initial_state()),
            Self::TokenBucket(algorithm) => State::Rate(algorithm.initial_state()),
            Self::LeakyBucket(algorithm) => State::Rate(algorithm.initial_state()),
            Self::IntervalBucket(algorithm) => State::Interval(algorithm.initial_state()),
            Self::SlidingCounter(algorithm) => State::Counter(Box::new(algorithm.initial_state())),
            Self::SlidingWindow(algorithm) => State::Sliding(algorithm.initial_state()),
            Self::SlidingLog(algorithm) => State::Log(Box::new(algorithm.initial_state())),
        }
    }

    #[inline]
    fn limit(&self) -> u64 {
        match self {
            Self::FixedWindow(algorithm) => algorithm.limit(),
            Self::CalendarWindow(algorithm) => algorithm.limit(),
            Self::Gcra(algorithm) => algorithm.limit(),
            Self::TokenBucket(algorithm) => algorithm.limit(),
            Self::LeakyBucket(algorithm) => algorithm.limit(),
            Self::IntervalBucket(algorithm) => algorithm.limit(),
            Self::SlidingCounter(algorithm) => algorithm.limit(),
            Self::SlidingWindow(algorithm) => algorithm.limit(),
            Self::SlidingLog(algorithm) => algorithm.limit(),
        }
    }

    #[inline]
    fn charge(&self, state: &mut State, now: Micros, cost: u64) -> Outcome {
        with_algorithm!(self, &mut *state, algorithm, own => algorithm.charge(own, now, cost), else {
            *state = self.initial_state();
            self.charge(state, now, cost)
        })
    }

    fn normalize(&self, state: &mut State, now: Micros) {
        with_algorithm!(self, &mut *state, algorithm, own => algorithm.normalize(own, now), else {
            *state = self.initial_state();
        });
    }

    fn outcome(&self, state: &State, now: Micros, cost: u64) -> Outcome {
        with_algorithm!(self, state, algorithm, own => algorithm.outcome(own, now, cost), else {
            self.charge(&mut self.initial_state(), now, cost)
        })
    }

    fn refund(&self, state: &mut State, now: Micros, units: u64, taken: ChargeRecord) -> u64 {
        // The units of the call are no longer charged, though under a longer window they may count
        // again.
        if taken.reset_at <= now {
            return 0;
        }
        with_algorithm!(self, state, algorithm, own => algorithm.refund(own, now, units, taken), else 0)
    }

    #[inline]
    fn remaining(&self, state: &State, now: Micros) -> u64 {
        with_algorithm!(self, state, algorithm, own => algorithm.remaining(own, now), else self.limit())
    }

    #[inline]
    fn retry_at(&self, state: &State, now: Micros, cost: u64) -> Micros {
        with_algorithm!(self, state, algorithm, own => algorithm.retry_at(own, now, cost), else now)
    }

    #[inline]
    fn reset_at(&self, state: &State) -> Micros {
        with_algorithm!(self, state, algorithm, own => algorithm.reset_at(own), else {
            algorithm::KeyState::reset_at(state)
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
            // The other algorithms have one limit each: one copy of this code serves them all.
            _ => single_limit_status(self, state, now, cost, outcome),
        }
    }

    fn preview(&self, state: &State, now: Micros, cost: u64) -> Preview {
        match (self, state) {
            (Self::SlidingLog(log), State::Log(own)) => log.preview(own, now, cost),
            _ => preview_of_copy(self, state, now, cost),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::algorithm::{KeyState as _, Levels};
    use crate::calendar::Every;

    fn sliding(layout: BucketLayout) -> Policy {
        Policy::SlidingWindow(SlidingWindow::new(3, 1_000_000, 10, layout).unwrap())
    }

    #[test]
    fn layouts_of_buckets_have_tags_of_their_own_and_states_are_small() {
        let tags = [BucketLayout::List, BucketLayout::Hash].map(|layout| sliding(layout).tag());
        assert_eq!(tags, ["swl", "swh"]);
        assert!(size_of::<State>() <= 32);
    }

    fn policies() -> [Policy; 9] {
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
        ]
    }

    #[test]
    fn tags_differ() {
        let tags: HashSet<_> = policies().iter().map(Policy::tag).collect();
        assert_eq!(tags.len(), policies().len());
    }

    #[test]
    fn every_algorithm_is_reached_with_its_own_state() {
        for policy in policies() {
            let mut state = policy.initial_state();
            assert_eq!(policy.charge(&mut state, 0, 3), Outcome::Admitted, "{policy:?}");
            assert_eq!(policy.limit(), 3);
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
