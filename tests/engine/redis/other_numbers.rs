//! Other numbers: a state that one policy wrote is read by policies of the same algorithm with any
//! other accepted numbers, the largest ones included. The embedded store reads each of them, so the
//! Lua script must, too, with the same result.

use std::fmt::Debug;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::strategy::BoxedStrategy;
use proptest::test_runner::TestCaseResult;
use tollgate::algorithm::{
    Algorithm as _, BucketLayout, CalendarWindow, Concurrency, FixedWindow, Gcra, IntervalBucket,
    LeakyBucket, Levels, LogLimit, MAX_BUCKETS, MAX_LOG_LIMIT, PermitRequest, SlidingCounter,
    SlidingLog, SlidingWindow, TokenBucket,
};
use tollgate::calendar::Every;
use tollgate::key::Key;
use tollgate::policy::Policy;
use tollgate::policy::operation::Operation;
use tollgate::policy::policy_set::PolicySet;
use tollgate::redis::{CallBatch, KeyNames};
use tollgate::time::{MAX_SAFE, MAX_TIME};

use crate::laws::trace::{START, Step, any_trace};
use crate::policy::specs::{DAY, MILLI, SECOND};
use crate::redis::operations::{Model, in_memory};
use crate::redis::server::Server;
use crate::redis::twins::{lasting, proven};

const STEPS: usize = 40;

/// Two days before the last time that a clock shows. All times that follow from it and an accepted
/// length, and a day more, are below 2^53.
const LAST: u64 = MAX_TIME - 2 * DAY;

/// A number of any size, and often beside a power of two.
fn any_number() -> impl Strategy<Value = u64> {
    let power = || (0..=53_u32).prop_map(|exponent| 1_u64 << exponent);
    let number = prop_oneof![
        3 => 1..20_u64,
        2 => (power(), 0..5_u64).prop_map(|(power, off)| power.saturating_add(off).saturating_sub(2)),
        2 => (0..=53_u32).prop_flat_map(|exponent| (1_u64 << exponent) / 2..1_u64 << exponent),
        2 => prop::sample::select(&[MAX_SAFE, MAX_TIME, SECOND, 1_000_000_007][..]),
    ];
    number.prop_map(|number| number.clamp(1, MAX_SAFE))
}

/// Policies of one algorithm, from numbers that its function accepts.
fn accepted<S: Debug + Clone + 'static>(
    numbers: impl Strategy<Value = S> + 'static,
    policy: impl Fn(S) -> Option<Policy> + Clone + 'static,
) -> BoxedStrategy<Vec<Policy>> {
    let policies = numbers.prop_filter_map("numbers that are not accepted", policy);
    prop::collection::vec(policies, 2..4).boxed()
}

/// Units and the time in which they drain: often a few microseconds for each unit.
fn any_speed() -> impl Strategy<Value = (u64, u64)> {
    let any = || (any_number(), any_number());
    let few = (any_number(), 1..5_u64, 0..3_u64);
    let few = few.prop_map(|(units, each, rest)| (units, units.saturating_mul(each) + rest));
    prop_oneof![any(), few]
}

fn any_levels() -> impl Strategy<Value = Levels> {
    let part = || prop_oneof![Just(0), any_number()];
    (any_number(), part(), part()).prop_map(|(capacity, missing, debt)| {
        let initial = capacity.saturating_sub(missing);
        Levels { capacity, initial, debt }
    })
}

/// Policies of a limit and a window that all count refused calls, or none of them does: an override
/// cannot change this.
fn counting_refused_or_not(
    policy: impl Fn(u64, u64, bool) -> Option<Policy> + Copy + 'static,
) -> BoxedStrategy<Vec<Policy>> {
    let policies = move |counts_refused| {
        let numbers = (any_number(), any_number());
        accepted(numbers, move |(limit, window)| policy(limit, window, counts_refused))
    };
    any::<bool>().prop_flat_map(policies).boxed()
}

fn any_sliding(layout: BucketLayout) -> BoxedStrategy<Vec<Policy>> {
    let numbers = (any_number(), any_number(), any_number());
    accepted(numbers, move |(limit, window, buckets)| {
        let buckets = buckets.min(MAX_BUCKETS);
        SlidingWindow::new(limit, window, buckets, layout).ok().map(Policy::SlidingWindow)
    })
}

/// Two or three policies of the algorithm with this number.
fn versions(kind: usize) -> BoxedStrategy<Vec<Policy>> {
    let three = || (any_number(), any_number(), any_number());
    match kind {
        0 => accepted((any_speed(), any_number()), |((limit, period), burst)| {
            Gcra::new(limit, period, burst).ok().map(Policy::Gcra)
        }),
        1 => accepted((any_levels(), any_speed()), |(levels, (tokens, every))| {
            TokenBucket::with_levels(levels, tokens, every).ok().map(Policy::TokenBucket)
        }),
        2 => accepted((any_number(), any_speed()), |(capacity, (units, every))| {
            LeakyBucket::new(capacity, units, every).ok().map(Policy::LeakyBucket)
        }),
        3 => accepted((any_levels(), any_speed()), |(levels, (tokens, every))| {
            IntervalBucket::new(levels, tokens, every).ok().map(Policy::IntervalBucket)
        }),
        4 => counting_refused_or_not(|limit, window, counts_refused| {
            let policy = FixedWindow::new(limit, window).ok()?;
            Some(Policy::FixedWindow(policy.counting_refused(counts_refused)))
        }),
        5 => accepted(any_number(), |limit| {
            CalendarWindow::new(limit, Every::Day, "UTC").ok().map(Policy::CalendarWindow)
        }),
        6 => accepted((any_number(), any_number()), |(limit, window)| {
            let window = window.next_multiple_of(MILLI);
            SlidingCounter::new(limit, window).ok().map(Policy::SlidingCounter)
        }),
        7 => any_sliding(BucketLayout::List),
        8 => any_sliding(BucketLayout::Hash),
        9 => counting_refused_or_not(|limit, window, counts_refused| {
            let limit = limit.min(MAX_LOG_LIMIT);
            SlidingLog::new(limit, window, counts_refused).ok().map(Policy::SlidingLog)
        }),
        10 => accepted(
            (three(), any_number(), prop::option::of(any_number())),
            |((limit, window, more), longer, precision)| {
                let limit = limit.min(MAX_LOG_LIMIT / 2);
                let limits = [
                    LogLimit { limit, window },
                    LogLimit {
                        limit: limit + more.min(MAX_LOG_LIMIT / 2),
                        window: window.saturating_add(longer),
                    },
                ];
                SlidingLog::with_limits(&limits, precision).ok().map(Policy::SlidingLog)
            },
        ),
        _ => accepted((any_number(), any_number()), |(limit, expires)| {
            Concurrency::new(limit, expires).ok().map(Policy::Concurrency)
        }),
    }
}

/// An operation under `policies[version]`. Overrides have the numbers of another version.
fn operation(policies: &[Policy], version: usize, step: Step, number: usize) -> Operation {
    let policy = &policies[version];
    let units = step.cost.of(policy.capacity());
    if policy.concurrency().is_some() {
        let id = 1 + number as u64;
        let waited = step.choice.is_multiple_of(2).then_some(number as u64);
        return match step.choice / 64 % 8 {
            0 => Operation::Release { permit: id.saturating_sub(2) },
            1 => Operation::RenewPermit { permit: id.saturating_sub(1) },
            2 => Operation::Peek { cost: units.into() },
            _ => {
                let request = PermitRequest { id, waited };
                Operation::Acquire { cost: units.into(), request, hold: None }
            }
        };
    }
    match step.choice / 64 % 16 {
        0 => Operation::TakeUpTo { units },
        1 => Operation::Penalize { units: units.into() },
        2 => Operation::Peek { cost: units.into() },
        3 if policy.rate().is_some() => {
            Operation::Schedule { cost: units.into(), max_wait: MAX_TIME }
        }
        4 => {
            let other = policies[(version + 1) % policies.len()].clone();
            Operation::Override {
                policies: vec![Some(Arc::new(other))],
                lasting: units.saturating_mul(90_000).min(DAY),
            }
        }
        5 => Operation::ClearOverride,
        6 => Operation::Block { lasting: 40_000 },
        _ => Operation::Take { cost: units.into() },
    }
}

fn equal(server: &mut Server, policies: &[Policy], trace: &[Step]) -> TestCaseResult {
    let _: () = server.run(&[b"FLUSHALL"]);
    let names = KeyNames::new("other", &policies[0].clone().into());
    let sets: Vec<PolicySet> = policies.iter().cloned().map(PolicySet::from).collect();
    let mut model = Model::default();
    let (mut now, mut reset_at, mut retry_at) = (START, START, START);
    for (number, step) in trace.iter().enumerate() {
        now = step.time.onward_from(now, reset_at, retry_at).min(LAST);
        let version = step.choice % policies.len();
        let asked = operation(policies, version, *step, number);
        let key = step.choice / 32 % 2;
        let mut batch = CallBatch::new();
        let name = key.to_string();
        batch.push_operation(&names, &[Some(Key::new(&name).unwrap())], None, asked.clone());
        let mode = if matches!(asked, Operation::Peek { .. }) { "peek" } else { "" };
        let more = [mode.to_owned(), now.to_string()];
        batch.set_optimistic((step.choice / 8).is_multiple_of(2));
        let executed = server.execute(lasting(), &sets[version], &batch, &more).remove(0);
        let expected = in_memory(&mut model, &sets[version], &[Some(key)], now, &asked);
        prop_assert_eq!(&executed, &Ok(expected), "{:?} at {}", asked, now);
        let decision = executed.unwrap().response.decision;
        reset_at = now + decision.reset_after_ms * MILLI;
        retry_at = now + decision.retry_after_ms * MILLI;
    }
    Ok(())
}

/// A trace with choices wide enough for the selections that are made from parts of one number.
fn any_choices() -> impl Strategy<Value = Vec<Step>> {
    let choices = prop::collection::vec(0..4_096_usize, STEPS);
    (any_trace(STEPS), choices).prop_map(|(trace, choices)| {
        let step = |(step, choice): (Step, usize)| Step { choice, ..step };
        trace.into_iter().zip(choices).map(step).collect()
    })
}

/// Replays traces under policies of one of these algorithms.
fn replayed(kinds: &'static [usize]) {
    let cases = (prop::sample::select(kinds).prop_flat_map(versions), any_choices());
    proven(cases, |server, (policies, trace)| equal(server, &policies, &trace));
}

/// The burst that takes the longest accepted time to drain, one unit in each microsecond.
#[test]
fn the_largest_burst_is_read_under_a_smaller_one() {
    let mut server = Server::start();
    let gcra = |burst| PolicySet::from(Policy::Gcra(Gcra::new(1_000, MILLI, burst).unwrap()));
    let (largest, one) = (gcra(MAX_TIME), gcra(1));
    let names = KeyNames::new("largest", &one);
    let mut take = |policies: &PolicySet| {
        let mut batch = CallBatch::new();
        batch.push(&names, Key::new("a").unwrap(), 1);
        let more = [String::new(), START.to_string()];
        server.execute(lasting(), policies, &batch, &more).remove(0).unwrap().units
    };
    assert_eq!((take(&largest), take(&one), take(&largest)), (1, 0, 1));
}

// promise: readable-by-other-numbers
#[test]
fn a_rate_is_read_under_any_other_accepted_numbers() {
    replayed(&[0, 1, 2]);
}

#[test]
fn an_interval_bucket_is_read_under_any_other_accepted_numbers() {
    replayed(&[3]);
}

#[test]
fn a_window_is_read_under_any_other_accepted_numbers() {
    replayed(&[4, 5]);
}

#[test]
fn a_sliding_counter_is_read_under_any_other_accepted_numbers() {
    replayed(&[6]);
}

#[test]
fn a_sliding_window_is_read_under_any_other_accepted_numbers() {
    replayed(&[7, 8]);
}

#[test]
fn a_log_is_read_under_any_other_accepted_numbers() {
    replayed(&[9, 10]);
}

#[test]
fn permits_are_read_under_any_other_accepted_numbers() {
    replayed(&[11]);
}
