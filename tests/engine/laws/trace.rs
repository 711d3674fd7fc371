//! Random traces: the clock steps and the calls, step by step.

use proptest::prelude::*;
use tollgate::time::{MAX_SAFE, MAX_TIME};

use crate::policy::specs::{DAY, HOUR, SECOND};

/// A day in 2026, at which traces begin.
pub(crate) const START: u64 = 1_780_000_000 * SECOND;

/// How the clock moves before a call.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Move {
    /// Time passes.
    Forward(u64),
    /// The clock steps back.
    Back(u64),
    /// To the reset time of the key, give or take.
    ToSettled(i64),
    /// To the retry time of the last refusal, give or take.
    ToRetry(i64),
}

/// One call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Step {
    pub(crate) time: Move,
    pub(crate) cost: Cost,
    /// The policy or key of the call, modulo their number.
    pub(crate) choice: usize,
}

/// A cost, for some calls relative to the limit.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Cost {
    Units(u64),
    /// The limit less this number, but at least 1.
    LimitLess(u64),
    /// More than the limit, up to the largest cost.
    AboveLimit(u64),
}

impl Cost {
    pub(crate) fn of(self, limit: u64) -> u64 {
        match self {
            Self::Units(units) => units,
            Self::LimitLess(less) => limit.saturating_sub(less).max(1),
            Self::AboveLimit(above) => (limit + above).min(MAX_SAFE),
        }
    }
}

impl Move {
    /// The time after the move.
    pub(crate) fn from(self, now: u64, reset_at: u64, retry_at: u64) -> u64 {
        let moved = match self {
            Self::Forward(by) => now.saturating_add(by),
            Self::Back(by) => now.saturating_sub(by),
            Self::ToSettled(off) => reset_at.saturating_add_signed(off),
            Self::ToRetry(off) => retry_at.saturating_add_signed(off),
        };
        moved.min(MAX_TIME)
    }

    /// The time after the move, for a clock that never steps back.
    pub(crate) fn onward_from(self, now: u64, reset_at: u64, retry_at: u64) -> u64 {
        match self {
            Self::Back(by) => Self::Forward(by % HOUR).from(now, reset_at, retry_at),
            _ => self.from(now, reset_at, retry_at).max(now),
        }
    }
}

fn any_forward() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => Just(0),
        4 => 0..10_u64,
        4 => 0..20_000_u64,
        4 => 0..2 * SECOND,
        2 => 0..2 * HOUR,
        1 => 0..60 * DAY,
        1 => Just(365 * DAY),
    ]
}

fn any_move() -> impl Strategy<Value = Move> {
    prop_oneof![
        16 => any_forward().prop_map(Move::Forward),
        2 => any_forward().prop_map(Move::Back),
        2 => (-1_001..=1_001_i64).prop_map(Move::ToSettled),
        1 => (-1..=1_i64).prop_map(Move::ToSettled),
        2 => (-1_001..=1_001_i64).prop_map(Move::ToRetry),
        1 => (-1..=1_i64).prop_map(Move::ToRetry),
    ]
}

fn any_cost() -> impl Strategy<Value = Cost> {
    prop_oneof![
        8 => Just(Cost::Units(1)),
        4 => (1..8_u64).prop_map(Cost::Units),
        3 => (0..3_u64).prop_map(Cost::LimitLess),
        1 => (1..3_u64).prop_map(Cost::AboveLimit),
    ]
}

/// A trace of exactly `steps` calls.
pub(crate) fn any_trace(steps: usize) -> impl Strategy<Value = Vec<Step>> {
    let step = (any_move(), any_cost(), 0..64_usize);
    let step = step.prop_map(|(time, cost, choice)| Step { time, cost, choice });
    prop::collection::vec(step, steps)
}

/// One admitted call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Admitted {
    pub(crate) at: u64,
    pub(crate) cost: u64,
}

/// The most units in any half-open window [s, s + length) of a trace in order of time.
pub(crate) fn most_in_any_window(trace: &[Admitted], length: u64) -> u64 {
    let in_window = |start: &Admitted| {
        let within = |call: &&Admitted| call.at >= start.at && call.at - start.at < length;
        trace.iter().filter(within).map(|call| call.cost).sum()
    };
    trace.iter().map(in_window).max().unwrap_or(0)
}

/// The first pair of calls that admitted more than burst + t·units/period.
pub(crate) fn excess_over_rate(
    trace: &[Admitted],
    units: u64,
    period: u64,
    burst: u64,
) -> Option<(Admitted, Admitted)> {
    for (index, first) in trace.iter().enumerate() {
        let mut sum = 0_u128;
        for last in &trace[index..] {
            sum += u128::from(last.cost);
            let elapsed = u128::from(last.at - first.at);
            let bound = u128::from(burst) * u128::from(period) + elapsed * u128::from(units);
            if sum * u128::from(period) > bound {
                return Some((*first, *last));
            }
        }
    }
    None
}

mod checkers {
    use super::*;

    fn at(times: &[u64]) -> Vec<Admitted> {
        times.iter().map(|&at| Admitted { at, cost: 1 }).collect()
    }

    /// A check that cannot fail proves nothing.
    #[test]
    fn the_checkers_find_an_excess() {
        assert_eq!(most_in_any_window(&at(&[0, 1, 2, 10]), 3), 3);
        assert_eq!(most_in_any_window(&at(&[0, 1, 2, 3]), 3), 3);
        assert!(excess_over_rate(&at(&[0, 0, 0]), 1, 10, 3).is_none());
        assert!(excess_over_rate(&at(&[0, 0, 0, 9]), 1, 10, 3).is_some());
        assert!(excess_over_rate(&at(&[0, 0, 0, 10]), 1, 10, 3).is_none());
    }
}

/// The engine never receives such a cost: a double cannot hold it.
#[test]
fn no_cost_is_beyond_what_a_caller_can_ask() {
    assert_eq!(Cost::AboveLimit(2).of(MAX_SAFE), MAX_SAFE);
    assert_eq!(Cost::AboveLimit(2).of(10), 12);
}
