//! The admission laws: no trace, of one policy or of several versions side by side, has more units
//! in any window than the bound. The checker slides a window over the whole trace of admitted
//! calls.

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use tollgate::algorithm::{Algorithm as _, KeyState as _, Outcome};
use tollgate::policy::Policy;

use crate::laws::trace::{Admitted, START, Step, any_trace, excess_over_rate, most_in_any_window};
use crate::policy::specs::{RateSpec, WindowSpec, any_rate, any_window};

pub(crate) const TRACES: u32 = 300;
pub(crate) const STEPS: usize = 300;

/// The admitted calls of a trace, with a clock that never steps back and policies in turn.
pub(crate) fn admitted(policies: &[Policy], trace: &[Step]) -> Vec<Admitted> {
    let (mut now, mut retry_at) = (START, START);
    let mut state = policies[0].initial_state();
    let mut admitted = Vec::new();
    for step in trace {
        let policy = &policies[step.choice % policies.len()];
        now = step.time.onward_from(now, state.reset_at(), retry_at);
        let cost = step.cost.of(policy.capacity());
        match policy.charge(&mut state, now, cost) {
            Outcome::Admitted => admitted.push(Admitted { at: now, cost }),
            Outcome::Refused => retry_at = policy.retry_at(&state, now, cost),
            Outcome::Impossible => {}
        }
    }
    admitted
}

/// The windows of the law: each opens with the first call after the window before, and ends at a
/// whole millisecond.
pub(crate) fn most_in_any_opened_window(trace: &[Admitted], window: u64) -> u64 {
    let (mut most, mut ends, mut count) = (0, 0, 0);
    for call in trace {
        if call.at >= ends {
            (ends, count) = ((call.at + window).div_ceil(1_000) * 1_000, 0);
        }
        count += call.cost;
        most = most.max(count);
    }
    most
}

/// The faster of two rates.
fn faster(one: RateSpec, other: RateSpec) -> RateSpec {
    let scaled = |spec: RateSpec, by: RateSpec| u128::from(spec.units) * u128::from(by.period);
    if scaled(one, other) >= scaled(other, one) { one } else { other }
}

fn rate_law(specs: &[RateSpec], policy: fn(RateSpec) -> Policy, trace: &[Step]) -> TestCaseResult {
    let policies: Vec<Policy> = specs.iter().map(|&spec| policy(spec)).collect();
    let fastest = specs.iter().copied().reduce(faster).unwrap();
    let burst = specs.iter().map(|spec| spec.burst).max().unwrap();
    let admitted = admitted(&policies, trace);
    let excess = excess_over_rate(&admitted, fastest.units, fastest.period, burst);
    prop_assert!(excess.is_none(), "{:?}", excess);
    Ok(())
}

/// The admitted calls of a trace, by the time that has really passed: no time passes while the
/// deciding clock steps back.
fn admitted_in_real_time(policies: &[Policy], trace: &[Step]) -> Vec<Admitted> {
    let (mut now, mut passed, mut retry_at) = (START, START, START);
    let mut state = policies[0].initial_state();
    let mut admitted = Vec::new();
    for step in trace {
        let policy = &policies[step.choice % policies.len()];
        let next = step.time.from(now, state.reset_at(), retry_at);
        passed += next.saturating_sub(now);
        now = next;
        let cost = step.cost.of(policy.capacity());
        match policy.charge(&mut state, now, cost) {
            Outcome::Admitted => admitted.push(Admitted { at: passed, cost }),
            Outcome::Refused => retry_at = policy.retry_at(&state, now, cost),
            Outcome::Impossible => {}
        }
    }
    admitted
}

fn window_law(specs: &[WindowSpec], trace: &[Step]) -> TestCaseResult {
    let policies: Vec<Policy> = specs.iter().map(|&spec| spec.policy()).collect();
    let limit = specs.iter().map(|spec| spec.limit).max().unwrap();
    let window = specs.iter().map(|spec| spec.window).min().unwrap();
    let admitted = admitted(&policies, trace);
    if specs.len() == 1 {
        prop_assert!(most_in_any_opened_window(&admitted, window) <= limit);
    }
    prop_assert!(most_in_any_window(&admitted, window) < 2 * limit);
    let admitted = admitted_in_real_time(&policies, trace);
    prop_assert!(most_in_any_window(&admitted, window) < 2 * limit, "when the clock steps back");
    Ok(())
}

/// A counted window: from the call that opens it to the call that opens the next.
fn counted_windows_hold(specs: &[WindowSpec], trace: &[Step]) -> TestCaseResult {
    let policies: Vec<Policy> = specs.iter().map(|&spec| spec.policy()).collect();
    let limit = specs.iter().map(|spec| spec.limit).max().unwrap();
    let shortest = specs.iter().map(|spec| spec.window).min().unwrap();
    let (mut now, mut passed, mut opened, mut count) = (START, START, None, 0);
    let mut state = policies[0].initial_state();
    for step in trace {
        let policy = &policies[step.choice % policies.len()];
        let next = step.time.from(now, state.reset_at(), now);
        passed += next.saturating_sub(now);
        now = next;
        let (open, cost) = (policy.reset_at(&state, 0) > now, step.cost.of(policy.capacity()));
        if policy.charge(&mut state, now, cost) == Outcome::Admitted {
            if !open {
                prop_assert!(opened.is_none_or(|opened| passed - opened >= shortest));
                (opened, count) = (Some(passed), 0);
            }
            count += cost;
            prop_assert!(count <= limit, "{} of {}", count, limit);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(crate::cases::cases(TRACES))]

    #[test]
    fn gcra_admits_at_most_burst_and_rate(spec in any_rate(), trace in any_trace(STEPS)) {
        rate_law(&[spec], RateSpec::gcra, &trace)?;
    }

    #[test]
    fn token_bucket_admits_at_most_capacity_and_rate(
        spec in any_rate(),
        trace in any_trace(STEPS),
    ) {
        rate_law(&[spec], RateSpec::token_bucket, &trace)?;
    }

    // promise: fixed-window-law
    #[test]
    fn fixed_window_admits_at_most_the_limit_per_window_and_less_than_two_in_any(
        spec in any_window(),
        trace in any_trace(STEPS),
    ) {
        window_law(&[spec], &trace)?;
    }

    // promise: law-of-larger-limit
    /// Two to four versions of a policy, in turn on one key, call by call.
    #[test]
    fn mixed_rates_admit_at_most_the_larger_burst_and_rate(
        specs in prop::collection::vec(any_rate(), 2..5),
        trace in any_trace(STEPS),
    ) {
        rate_law(&specs, RateSpec::gcra, &trace)?;
    }

    // promise: law-while-clock-steps
    /// Also if a window is shortened while it is open, and if the clock steps back: its count
    /// stays, and it lasts at least as long as the shortest of the windows.
    #[test]
    fn no_window_as_counted_admits_more_than_the_larger_limit(
        specs in prop::collection::vec(any_window(), 1..5),
        trace in any_trace(STEPS),
    ) {
        counted_windows_hold(&specs, &trace)?;
    }

    #[test]
    fn mixed_windows_admit_at_most_the_larger_limit_per_shorter_window(
        specs in prop::collection::vec(any_window(), 2..5),
        trace in any_trace(STEPS),
    ) {
        window_law(&specs, &trace)?;
    }
}
