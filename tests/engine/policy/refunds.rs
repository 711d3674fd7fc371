//! Refunds: never more than the charged units. Every law holds for the admitted units less the
//! units refunded in the same window.

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use tollgate::algorithm::{Algorithm as _, ChargeRecord, KeyState as _};
use tollgate::policy::decision::{self, Decision, Status};
use tollgate::policy::{Policy, State};

use crate::algorithm::buckets::{BucketSpec, any_full_bucket, any_versions, leaky};
use crate::algorithm::calendar_window::{CalendarSpec, Walk, any_calendar, shortest};
use crate::algorithm::log_oracle::{LogSpec, any_logs, any_one};
use crate::algorithm::sliding_counter::{CounterSpec, any_counter};
use crate::algorithm::sliding_window::{
    SlidingSpec, any_close, any_dense_trace, any_sliding, small,
};
use crate::laws;
use crate::laws::max_admission;
use crate::laws::trace::{START, Step, any_trace};
use crate::policy::count_refused;
use crate::policy::every_policy::any_policies;
use crate::policy::specs::{HOUR, RateSpec, SECOND, any_rate};

/// An admitted call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Call {
    taken: ChargeRecord,
    /// Its units that have not come back.
    net: u64,
}

/// What a step did: units charged, or below 0 units that came back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Event {
    at: u64,
    units: i128,
}

/// The most units within a length of time, less the refunded ones; `None` if it is not bounded.
type Bound<'a> = &'a dyn Fn(u64) -> Option<i128>;

/// The calls that admitted more than the bound, each unit counted at the time of its call: of all
/// spans, those that end with the newest call, which are checked after each call.
fn excess(calls: &[Call], bound: Bound<'_>) -> Option<(Call, i128)> {
    let last = calls.last()?.taken.at;
    let mut sum = 0;
    for call in calls.iter().rev() {
        let bound = bound(last - call.taken.at)?;
        sum += i128::from(call.net);
        if sum > bound {
            return Some((*call, sum));
        }
    }
    None
}

/// The refund of a step, if it is one: one in three refunds units of an earlier call, at most those
/// that have not come back. Returns the number of the call, and the units.
fn refund_of(step: &Step, calls: &[Call]) -> Option<(usize, u64)> {
    let (which, gives_back) = (step.choice / 24, (step.choice / 8).is_multiple_of(3));
    let number = calls.len().checked_sub(1 + which * which)?;
    let Call { taken, net } = calls[number];
    let units = step.cost.of(taken.cost).min(net);
    (gives_back && units > 0).then_some((number, units))
}

/// Runs a trace with policies in turn. Each step is checked against the states before and after it,
/// and against its action. No span may hold more than the bound.
fn run(
    policies: &[Policy],
    trace: &[Step],
    bound: Bound<'_>,
    mut judge: impl FnMut(&Policy, &State, &State, Event, &[Call]) -> TestCaseResult,
) -> TestCaseResult {
    let (mut now, mut retry_at) = (START, START);
    let mut state = policies[0].initial_state();
    let mut calls: Vec<Call> = Vec::new();
    for step in trace {
        let policy = &policies[step.choice % policies.len()];
        now = step.time.onward_from(now, policy.reset_at(&state, now), retry_at);
        policy.normalize(&mut state, now);
        let before = state.clone();
        let units = if let Some((number, units)) = refund_of(step, &calls) {
            let Call { taken, net } = calls[number];
            let given = policy.refund(&mut state, now, units, taken.keeping(net - units));
            prop_assert!(given <= units);
            prop_assert_eq!(given == 0, before.unmarked() == state.unmarked(), "{} given", given);
            calls[number].net -= given;
            -i128::from(given)
        } else {
            let cost = step.cost.of(policy.capacity());
            let decision = decision::take(policy, &mut state, now, cost);
            let reset_at = now + decision.reset_after_ms * 1_000;
            if matches!(decision.status, Status::Allowed | Status::AllowedLast) {
                let mark = decision.retry_after_ms;
                let used = used_after(&decision);
                let taken = ChargeRecord { at: now, reset_at, mark, cost, used, kept: 0 };
                calls.push(Call { taken, net: cost });
                let found = excess(&calls, bound);
                prop_assert!(found.is_none(), "{:?} of {:?}", found, calls);
                i128::from(cost)
            } else {
                retry_at = now + decision.retry_after_ms * 1_000;
                0
            }
        };
        judge(policy, &before, &state, Event { at: now, units }, &calls)?;
    }
    Ok(())
}

/// The units that were used after a call, as far as its decision tells: a bucket in debt shows only
/// that it is empty.
pub(crate) fn used_after(decision: &Decision) -> u64 {
    let Decision { limit, capacity, remaining, .. } = *decision;
    if remaining > 0 { capacity - remaining } else { limit.min(capacity) }
}

trait Keeping {
    fn keeping(self, kept: u64) -> Self;
}

impl Keeping for ChargeRecord {
    fn keeping(self, kept: u64) -> Self {
        Self { kept, ..self }
    }
}

/// Runs a trace whose spans may hold no more than a bound.
fn law(policies: &[Policy], trace: &[Step], bound: impl Fn(u64) -> Option<i128>) -> TestCaseResult {
    run(policies, trace, &bound, |_, _, _, _, _| Ok(()))
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
        run(std::slice::from_ref(&policy), &trace, &|_| None, |policy, before, after, event, _| {
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
        run(&policies, &trace, &|_| None, |policy, before, after, event, _| {
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
                let (mark, cost) = (decision.retry_after_ms, step.cost.of(policy.capacity()));
                let used = used_after(&decision);
                taken.push((ChargeRecord { at: now, reset_at, mark, cost, used, kept: 0 }, cost));
            }
        }
    }

    #[test]
    fn what_is_taken_and_given_back_at_once_leaves_what_was_before(
        policy in any_plain(),
        trace in any_trace(max_admission::STEPS),
    ) {
        run(std::slice::from_ref(&policy), &trace, &|_| None, |policy, before, after, Event { at, units }, calls| {
            if units > 0 {
                let mut state = after.clone();
                let Call { taken, net: cost } = *calls.last().unwrap();
                prop_assert_eq!(policy.refund(&mut state, at, cost, taken), cost);
                let unused = policy.remaining(before, at) == policy.capacity();
                let (was, is) = (laws::peek(policy, before, at, 0), laws::peek(policy, &state, at, 0));
                prop_assert_eq!(is.remaining, was.remaining);
                if unused {
                    let fresh = laws::peek(policy, &policy.initial_state(), at, 0);
                    prop_assert_eq!(is.reset_after_ms, fresh.reset_after_ms, "the key is fresh");
                    prop_assert_eq!(policy.refund(&mut state, at, cost, taken), 0, "all units have been refunded");
                }
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
        let bound = rate_bound(&specs, most(&specs, |spec| spec.burst));
        law(&policies(&specs, RateSpec::gcra), &trace, bound)?;
    }

    #[test]
    fn buckets_keep_their_law(specs in any_versions(1..4), trace in any_trace(max_admission::STEPS)) {
        let burst = most(&specs, |spec| spec.rate.burst + spec.debt);
        let rates: Vec<RateSpec> = specs.iter().map(|spec| spec.rate).collect();
        law(&policies(&specs, BucketSpec::continuous), &trace, rate_bound(&rates, burst))?;

        let tokens = most(&rates, |rate| rate.units);
        let every = least(&rates, |rate| rate.period);
        let refilled = |elapsed: u64| i128::from(tokens) * i128::from(elapsed.div_ceil(every));
        let bound = |elapsed| Some(i128::from(burst) + refilled(elapsed));
        law(&policies(&specs, BucketSpec::interval), &trace, bound)?;
    }

    // promise: each-law-holds-units
    #[test]
    fn fixed_windows_keep_their_law(
        specs in count_refused::any_specs(),
        trace in any_trace(max_admission::STEPS),
    ) {
        let limit = most(&specs, |spec| spec.0.limit);
        let window = least(&specs, |spec| spec.0.window);
        // A longer window cannot tell which units opened a shorter one.
        let is_same = specs.iter().all(|spec| spec.0.window == window);
        let most = if is_same { 2 * limit - 1 } else { 2 * limit };
        law(&policies(&specs, count_refused::policy), &trace, within(window, most))?;
    }

    #[test]
    fn calendar_windows_keep_their_law(spec in any_calendar(), trace in any_trace(max_admission::STEPS)) {
        let bound = within(shortest(spec.every), 2 * spec.limit);
        // The end of the window of each call.
        let (walk, mut ends) = (Walk::new(spec), Vec::new());
        run(&[spec.policy()], &trace, &bound, |_, _, _, _, calls| {
            if let Some(call) = calls.get(ends.len()) {
                ends.push(walk.end_after(call.taken.at));
            }
            let own = calls.iter().zip(&ends).rev().take_while(|(_, end)| Some(*end) == ends.last());
            let sum: u64 = own.map(|(call, _)| call.net).sum();
            prop_assert!(sum <= spec.limit, "{} in {:?}", sum, calls);
            Ok(())
        })?;
    }

    #[test]
    fn sliding_counters_keep_their_law(
        specs in prop::collection::vec(any_counter(), 1..4),
        trace in any_trace(max_admission::STEPS),
    ) {
        let limit = most(&specs, |spec| spec.limit);
        let window = least(&specs, |spec| spec.window_ms) * 1_000;
        let rate = RateSpec { units: limit, period: window, burst: limit };
        let rates = [rate];
        let (smooth, hard) = (rate_bound(&rates, limit), within(window, 2 * limit - 1));
        let both = |elapsed| smooth(elapsed).map(|one| hard(elapsed).map_or(one, |other| one.min(other)));
        law(&policies(&specs, CounterSpec::policy), &trace, both)?;
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
            law(&policies(&specs, SlidingSpec::list), &trace, within(window, limit))?;
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
        law(&policies(&ones, LogSpec::policy), &trace, within(window, limit))?;
        for &(limit, window) in several.limits() {
            law(&[several.policy()], &trace, within(window, limit))?;
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
        let reset_at = START + first.reset_after_ms * 1_000;
        let taken = ChargeRecord { at: START, reset_at, cost: 10, ..ChargeRecord::default() };
        let half = START + SECOND / 2;
        let left = if matches!(state, State::Rate(_)) { 5 } else { 10 };
        assert_eq!(policy.refund(&mut state.clone(), half, 10, taken), left, "{policy:?}");
        let later = START + HOUR;
        decision::take(&policy, &mut state, later, 10);
        assert_eq!(policy.refund(&mut state, later, 10, taken), 0, "{policy:?}");
        assert_eq!(policy.remaining(&state, later), 0, "{policy:?}");
    }
}

/// The reset time of a bucket that begins low is a day later than the bucket is full. The day counts by
/// the policy that wrote the state, whichever policy refunds.
#[test]
fn the_day_for_which_a_bucket_that_begins_low_is_kept_gives_nothing_back() {
    let rate = RateSpec { units: 1, period: HOUR, burst: 40 };
    let [low, full] = [39, 40].map(|initial| BucketSpec { rate, initial, debt: 0 });
    for policy in [BucketSpec::continuous, BucketSpec::interval] {
        let [low, full] = [low, full].map(policy);
        for later_call in [&low, &full] {
            let mut state = low.initial_state();
            let first = decision::take(&low, &mut state, START, 1);
            let reset_at = START + first.reset_after_ms * 1_000;
            let taken =
                ChargeRecord { at: START, reset_at, cost: 1, used: 2, ..ChargeRecord::default() };
            // The unit has drained.
            let later = START + 3 * HOUR;
            assert_eq!(decision::take(later_call, &mut state, later, 35).remaining, 5);
            for refunding in [&low, &full] {
                assert_eq!(
                    refunding.refund(&mut state.clone(), later, 1, taken),
                    0,
                    "{refunding:?}"
                );
            }
        }
    }
}

mod checkers {
    use super::*;

    /// A check that cannot fail proves nothing.
    #[test]
    fn the_checker_finds_an_excess() {
        let calls = |units: &[(u64, u64)]| -> Vec<Call> {
            let call = |&(at, net): &(u64, u64)| Call {
                taken: ChargeRecord { at, ..ChargeRecord::default() },
                net,
            };
            units.iter().map(call).collect()
        };
        assert!(excess(&calls(&[(0, 1), (2, 1)]), &within(3, 2)).is_none());
        assert!(excess(&calls(&[(0, 1), (2, 2)]), &within(3, 2)).is_some());
        assert!(excess(&calls(&[(0, 2), (3, 2)]), &within(3, 2)).is_none());
    }
}
