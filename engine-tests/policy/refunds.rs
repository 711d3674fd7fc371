//! Refunds: never more than the charged units. Every law holds for the admitted units less the
//! units refunded in the same window.

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use tollgate::algorithm::{Algorithm as _, ChargeRecord, KeyState as _};
use tollgate::policy::decision::{self, Status};
use tollgate::policy::{Policy, State};

use crate::algorithm::buckets::{BucketSpec, any_full_bucket, any_versions, leaky};
use crate::algorithm::calendar_window::{CalendarSpec, Walk, any_calendar, shortest};
use crate::algorithm::log_oracle::{LogSpec, any_logs, any_one};
use crate::algorithm::sliding_counter::{CounterSpec, any_counter};
use crate::algorithm::sliding_window::{
    SlidingSpec, any_close, any_dense_trace, any_sliding, small,
};
use crate::laws::max_admission;
use crate::laws::trace::{START, Step, any_trace};
use crate::policy::count_refused;
use crate::policy::every_policy::any_policies;
use crate::policy::specs::{HOUR, RateSpec, SECOND, any_rate};

/// Units charged at a time; below 0 for refunded units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Event {
    at: u64,
    units: i128,
}

/// The action of a step: one in three refunds units of one of the last admitted calls.
fn refund_of(step: &Step, taken: &[(ChargeRecord, u64)]) -> Option<(ChargeRecord, u64)> {
    let (which, gives_back) = (step.choice / 24, (step.choice / 8).is_multiple_of(3));
    let (call, cost) = taken.iter().rev().nth(which * which)?;
    // Some callers refund more than they took.
    let units = if step.choice.is_multiple_of(5) { cost + 2 } else { step.cost.of(*cost) };
    gives_back.then_some((*call, units))
}

/// Runs a trace with policies in turn. Each step is checked against the states before and after it,
/// and against its action.
fn run(
    policies: &[Policy],
    trace: &[Step],
    mut judge: impl FnMut(&Policy, &State, &State, Event) -> TestCaseResult,
) -> Result<Vec<Event>, TestCaseError> {
    let (mut now, mut retry_at) = (START, START);
    let mut state = policies[0].initial_state();
    let (mut taken, mut events) = (Vec::new(), Vec::new());
    for step in trace {
        let policy = &policies[step.choice % policies.len()];
        now = step.time.onward_from(now, state.reset_at(), retry_at);
        policy.normalize(&mut state, now);
        let before = state.clone();
        let units = if let Some((call, units)) = refund_of(step, &taken) {
            let given = policy.refund(&mut state, now, units, call);
            prop_assert!(given <= units);
            prop_assert_eq!(given == 0, before == state, "{} given", given);
            -i128::from(given)
        } else {
            let cost = step.cost.of(policy.capacity());
            let decision = decision::take(policy, &mut state, now, cost);
            let reset_at = now + decision.reset_after_ms * 1_000;
            retry_at = now + decision.retry_after_ms * 1_000;
            if matches!(decision.status, Status::Allowed | Status::AllowedLast) {
                taken.push((ChargeRecord { at: now, reset_at }, cost));
                i128::from(cost)
            } else {
                0
            }
        };
        let event = Event { at: now, units };
        judge(policy, &before, &state, event)?;
        events.push(event);
    }
    Ok(events)
}

fn events(policies: &[Policy], trace: &[Step]) -> Result<Vec<Event>, TestCaseError> {
    run(policies, trace, |_, _, _, _| Ok(()))
}

/// The first pair of events that admitted more, less refunds, than the bound for their distance.
fn excess(events: &[Event], bound: impl Fn(u64) -> Option<i128>) -> Option<(Event, Event, i128)> {
    for (index, first) in events.iter().enumerate() {
        let mut sum = 0;
        for last in &events[index..] {
            let Some(bound) = bound(last.at - first.at) else { break };
            sum += last.units;
            if sum > bound {
                return Some((*first, *last, sum));
            }
        }
    }
    None
}

fn within(window: u64, most: u64) -> impl Fn(u64) -> Option<i128> {
    move |elapsed| (elapsed < window).then_some(i128::from(most))
}

fn most<T>(specs: &[T], number: impl Fn(&T) -> u64) -> u64 {
    specs.iter().map(number).max().unwrap()
}

fn least<T>(specs: &[T], number: impl Fn(&T) -> u64) -> u64 {
    specs.iter().map(number).min().unwrap()
}

fn policies<T: Copy>(specs: &[T], policy: impl Fn(T) -> Policy) -> Vec<Policy> {
    specs.iter().map(|&spec| policy(spec)).collect()
}

/// Burst and rate: the largest and the fastest.
fn rate_bound(rates: &[RateSpec], burst: u64) -> impl Fn(u64) -> Option<i128> {
    let speed = |rate: &RateSpec| (rate.units, rate.period);
    let faster = |one: (u64, u64), other: (u64, u64)| {
        let first = u128::from(one.0) * u128::from(other.1);
        if first >= u128::from(other.0) * u128::from(one.1) { one } else { other }
    };
    let (units, period) = rates.iter().map(speed).reduce(faster).unwrap();
    move |elapsed| {
        let drained = u128::from(elapsed) * u128::from(units) / u128::from(period);
        Some(i128::from(burst) + i128::try_from(drained).unwrap())
    }
}

/// PolicySet with one limit, which always equals the used units plus the remaining units.
fn any_plain() -> impl Strategy<Value = Policy> {
    prop_oneof![
        any_rate().prop_map(RateSpec::gcra),
        any_rate().prop_map(leaky),
        any_full_bucket().prop_map(|spec| BucketSpec { debt: 0, ..spec }.interval()),
        (0..2_usize, count_refused::any_specs())
            .prop_map(|(index, specs)| count_refused::policy(specs[index % specs.len()])),
        any_calendar().prop_map(CalendarSpec::policy),
        any_counter().prop_map(CounterSpec::policy),
        any_sliding().prop_map(SlidingSpec::list),
        any_one().prop_map(LogSpec::policy),
    ]
}

proptest! {
    #![proptest_config(crate::cases::cases(2 * max_admission::TRACES))]

    #[test]
    fn what_comes_back_remains_and_never_more_than_the_limit(
        policy in any_plain(),
        trace in any_trace(max_admission::STEPS),
    ) {
        run(std::slice::from_ref(&policy), &trace, |policy, before, after, event| {
            let remaining = |state| i128::from(policy.remaining(state, event.at));
            prop_assert!(remaining(after) <= i128::from(policy.capacity()));
            if event.units < 0 {
                let more = remaining(after) - remaining(before);
                // The last of the drained units may have drained in part.
                let drains = matches!(policy, Policy::Gcra(_) | Policy::LeakyBucket(_));
                let least = -event.units - i128::from(drains);
                prop_assert!((least..=-event.units).contains(&more), "{} of {}", more, event.units);
            }
            Ok(())
        })?;
    }

    /// Also with versions in turn, buckets that begin low or are in debt, and several limits on one
    /// log.
    #[test]
    fn nothing_ends_above_full_under_any_policies(
        policies in any_policies(),
        trace in any_trace(max_admission::STEPS),
    ) {
        run(&policies, &trace, |policy, before, after, event| {
            let remaining = |state| policy.remaining(state, event.at);
            prop_assert!(remaining(after) <= policy.capacity());
            prop_assert!(event.units >= 0 || remaining(after) >= remaining(before));
            Ok(())
        })?;
    }

    // promise: refund-still-charged
    /// Units that have drained, or that were taken in a window that is over, do not come back,
    /// under any policy.
    #[test]
    fn nothing_comes_back_once_the_reset_time_of_its_decision_has_passed(
        policies in any_policies(),
        trace in any_trace(max_admission::STEPS),
    ) {
        let mut taken: Vec<(ChargeRecord, u64)> = Vec::new();
        let (mut now, mut state) = (START, policies[0].initial_state());
        for step in trace {
            let policy = &policies[step.choice % policies.len()];
            now = step.time.onward_from(now, state.reset_at(), now);
            let decision = decision::take(policy, &mut state, now, step.cost.of(policy.capacity()));
            let reset_at = now + decision.reset_after_ms * 1_000;
            for &(call, cost) in taken.iter().filter(|(call, _)| call.reset_at <= now) {
                let mut state = state.clone();
                prop_assert_eq!(policy.refund(&mut state, now, cost, call), 0, "{:?}", call);
            }
            if matches!(decision.status, Status::Allowed | Status::AllowedLast) {
                taken.push((ChargeRecord { at: now, reset_at }, step.cost.of(policy.capacity())));
            }
        }
    }

    #[test]
    fn what_is_taken_and_given_back_at_once_leaves_what_was_before(
        policy in any_plain(),
        trace in any_trace(max_admission::STEPS),
    ) {
        let mut reset_at = START;
        run(std::slice::from_ref(&policy), &trace, |policy, before, after, Event { at, units }| {
            if units > 0 {
                let mut state = after.clone();
                let told = decision::peek(policy, after, at, 0);
                let taken = ChargeRecord { at, reset_at: at + told.reset_after_ms * 1_000 };
                let cost = u64::try_from(units).unwrap();
                prop_assert_eq!(policy.refund(&mut state, at, cost, taken), cost);
                let unused = policy.remaining(before, at) == policy.capacity();
                let (was, is) = (decision::peek(policy, before, at, 0), decision::peek(policy, &state, at, 0));
                prop_assert_eq!(is.remaining, was.remaining);
                if unused {
                    prop_assert_eq!(is.reset_after_ms, 0, "the key is fresh");
                    prop_assert_eq!(policy.refund(&mut state, at, cost, taken), 0, "all units have been refunded");
                }
                reset_at = taken.reset_at;
            }
            Ok(())
        })?;
    }
}

proptest! {
    #![proptest_config(crate::cases::cases(max_admission::TRACES))]

    #[test]
    fn rates_keep_their_law(
        specs in prop::collection::vec(any_rate(), 1..4),
        trace in any_trace(max_admission::STEPS),
    ) {
        let events = events(&policies(&specs, RateSpec::gcra), &trace)?;
        let found = excess(&events, rate_bound(&specs, most(&specs, |spec| spec.burst)));
        prop_assert!(found.is_none(), "{:?}", found);
    }

    #[test]
    fn buckets_keep_their_law(specs in any_versions(1..4), trace in any_trace(max_admission::STEPS)) {
        let burst = most(&specs, |spec| spec.rate.burst + spec.debt);
        let rates: Vec<RateSpec> = specs.iter().map(|spec| spec.rate).collect();
        let continuous = events(&policies(&specs, BucketSpec::continuous), &trace)?;
        let found = excess(&continuous, rate_bound(&rates, burst));
        prop_assert!(found.is_none(), "{:?}", found);

        let tokens = most(&rates, |rate| rate.units);
        let every = least(&rates, |rate| rate.period);
        let interval = events(&policies(&specs, BucketSpec::interval), &trace)?;
        let refilled = |elapsed: u64| i128::from(tokens) * i128::from(elapsed.div_ceil(every));
        let found = excess(&interval, |elapsed| Some(i128::from(burst) + refilled(elapsed)));
        prop_assert!(found.is_none(), "{:?}", found);
    }

    // promise: refunds-and-law
    #[test]
    fn fixed_windows_keep_their_law(
        specs in count_refused::any_specs(),
        trace in any_trace(max_admission::STEPS),
    ) {
        let limit = most(&specs, |spec| spec.0.limit);
        let window = least(&specs, |spec| spec.0.window);
        let events = events(&policies(&specs, count_refused::policy), &trace)?;
        let found = excess(&events, within(window, 2 * limit - 1));
        prop_assert!(found.is_none(), "{:?}", found);
    }

    #[test]
    fn calendar_windows_keep_their_law(spec in any_calendar(), trace in any_trace(max_admission::STEPS)) {
        let events = events(&[spec.policy()], &trace)?;
        let found = excess(&events, within(shortest(spec.every), 2 * spec.limit));
        prop_assert!(found.is_none(), "{:?}", found);
        let (walk, mut end, mut sum) = (Walk::new(spec), 0, 0);
        for Event { at, units } in events {
            if at >= end {
                (end, sum) = (walk.end_after(at) * 1_000, 0);
            }
            sum += units;
            prop_assert!((0..=i128::from(spec.limit)).contains(&sum), "{} at {}", sum, at);
        }
    }

    #[test]
    fn sliding_counters_keep_their_law(
        specs in prop::collection::vec(any_counter(), 1..4),
        trace in any_trace(max_admission::STEPS),
    ) {
        let limit = most(&specs, |spec| spec.limit);
        let window = least(&specs, |spec| spec.window_ms) * 1_000;
        let rate = RateSpec { units: limit, period: window, burst: limit };
        let events = events(&policies(&specs, CounterSpec::policy), &trace)?;
        let found = excess(&events, rate_bound(&[rate], limit))
            .or(excess(&events, within(window, 2 * limit - 1)));
        prop_assert!(found.is_none(), "{:?}", found);
    }

    #[test]
    fn sliding_windows_keep_their_law(
        specs in prop::collection::vec(any_sliding().prop_map(small), 1..4),
        close in prop::collection::vec(any_close(), 1..4),
        trace in any_trace(max_admission::STEPS),
        dense in any_dense_trace(),
    ) {
        for (specs, trace) in [(specs, trace), (close, dense)] {
            let limit = most(&specs, |spec| spec.limit);
            let window = least(&specs, |spec| spec.window);
            let events = events(&policies(&specs, SlidingSpec::list), &trace)?;
            let found = excess(&events, within(window, limit));
            prop_assert!(found.is_none(), "{:?}", found);
        }
    }

    #[test]
    fn sliding_logs_keep_their_laws(
        ones in prop::collection::vec(any_one(), 1..4),
        several in any_logs(),
        trace in any_trace(max_admission::STEPS),
    ) {
        let limit = most(&ones, LogSpec::most);
        let window = least(&ones, LogSpec::longest);
        let found = excess(&events(&policies(&ones, LogSpec::policy), &trace)?, within(window, limit));
        prop_assert!(found.is_none(), "{:?}", found);

        let events = events(&[several.policy()], &trace)?;
        for &(limit, window) in several.limits() {
            let found = excess(&events, within(window, limit));
            prop_assert!(found.is_none(), "{:?} of {} in {}", found, limit, window);
        }
    }
}

/// Units drain in the order in which they were taken. The units of a call an hour ago have drained,
/// and its refund takes nothing from later calls.
#[test]
fn units_that_drained_long_ago_do_not_come_back() {
    let rate = RateSpec { units: 10, period: SECOND, burst: 10 };
    let bucket = BucketSpec { rate, initial: 10, debt: 0 };
    for policy in [rate.gcra(), leaky(rate), bucket.continuous(), bucket.interval()] {
        let mut state = policy.initial_state();
        let first = decision::take(&policy, &mut state, START, 10);
        let taken = ChargeRecord { at: START, reset_at: START + first.reset_after_ms * 1_000 };
        let half = START + SECOND / 2;
        let left = if matches!(state, State::Rate(_)) { 5 } else { 10 };
        assert_eq!(policy.refund(&mut state.clone(), half, 10, taken), left, "{policy:?}");
        let later = START + HOUR;
        decision::take(&policy, &mut state, later, 10);
        assert_eq!(policy.refund(&mut state, later, 10, taken), 0, "{policy:?}");
        assert_eq!(policy.remaining(&state, later), 0, "{policy:?}");
    }
}

mod checkers {
    use super::*;

    /// A check that cannot fail proves nothing.
    #[test]
    fn the_checker_finds_an_excess() {
        let events = |units: &[(u64, i128)]| -> Vec<Event> {
            units.iter().map(|&(at, units)| Event { at, units }).collect()
        };
        assert!(excess(&events(&[(0, 2), (1, -1), (2, 1)]), within(3, 2)).is_none());
        assert!(excess(&events(&[(0, 2), (1, -1), (2, 2)]), within(3, 2)).is_some());
        assert!(excess(&events(&[(0, -2), (1, 2), (2, 1)]), within(3, 2)).is_some());
        assert!(excess(&events(&[(0, 2), (3, 2)]), within(3, 2)).is_none());
    }
}
