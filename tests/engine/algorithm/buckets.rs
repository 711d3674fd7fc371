//! The leaky bucket and the token buckets: refilled continuously or at intervals, beginning full or
//! low, with and without debt.

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use tollgate::algorithm::{
    Algorithm as _, IntervalBucket, KeyState as _, LeakyBucket, Levels, Outcome, TokenBucket,
};
use tollgate::policy::Policy;
use tollgate::policy::decision::{self, Decision, Status};

use crate::algorithm::bucket_oracle::{ContinuousOracle, IntervalOracle};
use crate::algorithm::window_oracle::RateOracle;
use crate::laws;
use crate::laws::exactness::{self, is_exact, retry_after_is_exact};
use crate::laws::max_admission::admitted;
use crate::laws::min_admission::{admits, burst_at_once};
use crate::laws::trace::{Admitted, START, Step, any_trace, excess_over_rate};
use crate::laws::twins;
use crate::policy::specs::{RateSpec, any_rate};

/// A bucket: the burst of the rate is its capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BucketSpec {
    pub(crate) rate: RateSpec,
    pub(crate) initial: u64,
    pub(crate) debt: u64,
}

impl BucketSpec {
    pub(crate) fn levels(self) -> Levels {
        Levels { capacity: self.rate.burst, initial: self.initial, debt: self.debt }
    }

    pub(crate) fn continuous(self) -> Policy {
        let RateSpec { units, period, .. } = self.rate;
        Policy::TokenBucket(TokenBucket::with_levels(self.levels(), units, period).unwrap())
    }

    pub(crate) fn interval(self) -> Policy {
        let RateSpec { units, period, .. } = self.rate;
        Policy::IntervalBucket(IntervalBucket::new(self.levels(), units, period).unwrap())
    }

    fn full(rate: RateSpec) -> Self {
        Self { rate, initial: rate.burst, debt: 0 }
    }
}

pub(crate) fn leaky(rate: RateSpec) -> Policy {
    Policy::LeakyBucket(LeakyBucket::new(rate.burst, rate.units, rate.period).unwrap())
}

fn with_debt(rate: RateSpec) -> impl Strategy<Value = BucketSpec> {
    let debt = prop_oneof![Just(0), Just(1), 2..20_u64, 20..2_000_u64];
    debt.prop_map(move |debt| BucketSpec { debt, ..BucketSpec::full(rate) })
}

/// A bucket that begins full.
pub(crate) fn any_full_bucket() -> impl Strategy<Value = BucketSpec> {
    any_rate().prop_flat_map(with_debt)
}

/// A bucket that begins full or low.
pub(crate) fn any_bucket() -> impl Strategy<Value = BucketSpec> {
    any_full_bucket().prop_flat_map(|bucket| {
        let initial = prop_oneof![Just(0), Just(bucket.rate.burst), 0..=bucket.rate.burst];
        initial.prop_map(move |initial| BucketSpec { initial, ..bucket })
    })
}

/// Versions of a policy: some differ in all of their numbers, some only in the initial level.
pub(crate) fn any_versions(
    how_many: std::ops::Range<usize>,
) -> impl Strategy<Value = Vec<BucketSpec>> {
    let least = how_many.start;
    prop_oneof![
        3 => prop::collection::vec(any_bucket(), how_many),
        1 => any_bucket().prop_map(move |low| {
            [low, BucketSpec { initial: low.rate.burst, ..low }].repeat(least.max(1))
        }),
    ]
}

fn any_policies() -> impl Strategy<Value = Vec<Policy>> {
    (any_versions(2..4), any::<bool>()).prop_map(|(specs, continuous)| {
        let policy =
            |spec: &BucketSpec| if continuous { spec.continuous() } else { spec.interval() };
        specs.iter().map(policy).collect()
    })
}

/// The most units per microsecond of all versions.
fn fastest(specs: &[BucketSpec]) -> RateSpec {
    let faster = |one: RateSpec, other: RateSpec| {
        let scaled = |rate: RateSpec, by: RateSpec| u128::from(rate.units) * u128::from(by.period);
        if scaled(one, other) >= scaled(other, one) { one } else { other }
    };
    specs.iter().map(|spec| spec.rate).reduce(faster).unwrap()
}

fn most(specs: &[BucketSpec]) -> u64 {
    specs.iter().map(|spec| spec.rate.burst + spec.debt).max().unwrap()
}

fn continuous_law(specs: &[BucketSpec], trace: &[Step]) -> TestCaseResult {
    let policies: Vec<Policy> = specs.iter().map(|spec| spec.continuous()).collect();
    let RateSpec { units, period, .. } = fastest(specs);
    let excess = excess_over_rate(&admitted(&policies, trace), units, period, most(specs));
    prop_assert!(excess.is_none(), "{:?}", excess);
    Ok(())
}

/// The first pair of calls that admitted more than burst + tokens·⌈t/every⌉, both calls and all
/// calls between them included.
pub(crate) fn excess_over_interval(
    trace: &[Admitted],
    burst: u64,
    tokens: u64,
    every: u64,
) -> Option<(Admitted, Admitted)> {
    for (index, first) in trace.iter().enumerate() {
        let mut sum = 0;
        for last in &trace[index..] {
            sum += last.cost;
            if sum
                > burst.saturating_add(tokens.saturating_mul((last.at - first.at).div_ceil(every)))
            {
                return Some((*first, *last));
            }
        }
    }
    None
}

/// With several versions: the largest capacity and debt, the most tokens, the shortest interval.
fn interval_law(specs: &[BucketSpec], trace: &[Step]) -> TestCaseResult {
    let policies: Vec<Policy> = specs.iter().map(|spec| spec.interval()).collect();
    let tokens = specs.iter().map(|spec| spec.rate.units).max().unwrap();
    let every = specs.iter().map(|spec| spec.rate.period).min().unwrap();
    let excess = excess_over_interval(&admitted(&policies, trace), most(specs), tokens, every);
    prop_assert!(excess.is_none(), "{:?}", excess);
    Ok(())
}

// promise: refusal-changes-nothing
/// A call that is not admitted changes nothing, except that the first call on a key is recorded.
fn a_refused_call_changes_nothing_but_first_sight(
    policy: &Policy,
    levels: Levels,
    trace: &[Step],
) -> TestCaseResult {
    let (mut now, mut retry_at) = (START, START);
    let mut state = policy.initial_state();
    for step in trace {
        now = step.time.onward_from(now, state.reset_at(), retry_at);
        let cost = step.cost.of(policy.capacity());
        let (before, unseen) = (state.clone(), state.reset_at() <= now);
        let decision = decision::take(policy, &mut state, now, cost);
        retry_at = now + decision.retry_after_ms * 1_000;
        let refused = matches!(decision.status, Status::Refused | Status::Impossible);
        let first_sight = unseen && levels.begins_low();
        prop_assert_eq!(before == state, refused && !first_sight);
        if refused && first_sight {
            let standing = laws::peek(policy, &state, now, 0);
            let Levels { initial, debt, .. } = levels;
            prop_assert_eq!(standing.remaining, if initial > 0 { initial + debt } else { 0 });
            let again = decision::take(policy, &mut state.clone(), now, cost);
            prop_assert_eq!(again, decision);
        }
    }
    Ok(())
}

/// At the reset time a key is fresh, and not a millisecond earlier.
fn after_the_reset_a_key_is_as_if_never_seen(policy: &Policy, trace: &[Step]) -> TestCaseResult {
    let (mut now, mut retry_at) = (START, START);
    let mut state = policy.initial_state();
    for step in trace {
        now = step.time.onward_from(now, state.reset_at(), retry_at);
        let cost = step.cost.of(policy.capacity());
        let decision = decision::take(policy, &mut state, now, cost);
        let Decision { retry_after_ms, reset_after_ms, .. } = decision;
        retry_at = now + retry_after_ms * 1_000;
        let reset_at = now + reset_after_ms * 1_000;
        for cost in [0, 1, cost] {
            let seen = laws::peek(policy, &state, reset_at, cost);
            prop_assert_eq!(seen, laws::peek(policy, &policy.initial_state(), reset_at, cost));
            prop_assert_eq!(seen.reset_after_ms, 0);
        }
        if reset_after_ms > 0 {
            let earlier = laws::peek(policy, &state, reset_at - 1_000, 0);
            prop_assert!(earlier.reset_after_ms > 0);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(crate::cases::cases(twins::TRACES))]

    #[test]
    fn leaky_bucket_equals_the_oracle(
        specs in prop::collection::vec(any_rate(), 1..4),
        trace in any_trace(twins::STEPS),
    ) {
        twins::equals(RateOracle::new(), &specs, leaky, &trace)?;
    }

    #[test]
    fn continuous_buckets_equal_the_oracle(
        specs in any_versions(1..4),
        trace in any_trace(twins::STEPS),
    ) {
        twins::equals(ContinuousOracle::new(), &specs, BucketSpec::continuous, &trace)?;
    }

    #[test]
    fn interval_buckets_equal_the_oracle(
        specs in any_versions(1..4),
        trace in any_trace(twins::STEPS),
    ) {
        twins::equals(IntervalOracle::new(), &specs, BucketSpec::interval, &trace)?;
    }
}

proptest! {
    #![proptest_config(crate::cases::cases(crate::laws::max_admission::TRACES))]

    #[test]
    fn leaky_bucket_admits_at_most_capacity_and_rate(
        rate in any_rate(),
        trace in any_trace(crate::laws::max_admission::STEPS),
    ) {
        let RateSpec { units, period, burst } = rate;
        let excess = excess_over_rate(&admitted(&[leaky(rate)], &trace), units, period, burst);
        prop_assert!(excess.is_none(), "{:?}", excess);
    }

    // promise: token-bucket-law
    #[test]
    fn continuous_buckets_admit_at_most_capacity_rate_and_debt_once(
        spec in any_bucket(),
        trace in any_trace(crate::laws::max_admission::STEPS),
    ) {
        continuous_law(&[spec], &trace)?;
    }

    #[test]
    fn interval_buckets_admit_at_most_capacity_refills_and_debt_once(
        spec in any_bucket(),
        trace in any_trace(crate::laws::max_admission::STEPS),
    ) {
        interval_law(&[spec], &trace)?;
    }

    #[test]
    fn mixed_continuous_buckets_admit_at_most_the_largest_and_the_fastest(
        specs in any_versions(2..5),
        trace in any_trace(crate::laws::max_admission::STEPS),
    ) {
        continuous_law(&specs, &trace)?;
    }

    #[test]
    fn mixed_interval_buckets_admit_at_most_the_largest_most_and_shortest(
        specs in any_versions(2..5),
        trace in any_trace(crate::laws::max_admission::STEPS),
    ) {
        interval_law(&specs, &trace)?;
    }
}

proptest! {
    #![proptest_config(crate::cases::cases(256))]

    #[test]
    fn retries_of_buckets_are_exact(
        policies in any_policies(),
        trace in any_trace(exactness::STEPS),
    ) {
        retry_after_is_exact(&policies, &trace)?;
    }

    #[test]
    fn buckets_that_begin_full_are_honest(
        spec in any_full_bucket(),
        trace in any_trace(exactness::STEPS),
    ) {
        is_exact(&spec.continuous(), &trace)?;
        is_exact(&spec.interval(), &trace)?;
        is_exact(&leaky(spec.rate), &trace)?;
    }

    #[test]
    fn buckets_that_begin_low_are_honest(
        spec in any_bucket(),
        trace in any_trace(exactness::STEPS),
    ) {
        for policy in [spec.continuous(), spec.interval()] {
            exactness::remaining_is_the_largest_cost_that_would_be_admitted(&policy, &trace)?;
            exactness::a_peek_answers_what_take_then_does(&policy, &trace)?;
            exactness::dropping_what_is_settled_changes_no_decision(&policy, &trace)?;
            after_the_reset_a_key_is_as_if_never_seen(&policy, &trace)?;
            a_refused_call_changes_nothing_but_first_sight(&policy, spec.levels(), &trace)?;
        }
    }

    /// The initial units immediately, then each unit when it is due.
    #[test]
    fn a_lone_caller_of_a_continuous_bucket_gets_every_unit_when_it_is_due(
        spec in any_bucket().prop_filter("a unit takes a microsecond", |spec| {
            let RateSpec { units, period, burst } = spec.rate;
            period >= units && (burst > 1 || period.is_multiple_of(units))
        }),
    ) {
        let policy = spec.continuous();
        let (at_once, mut state) = burst_at_once(&policy, START);
        prop_assert_eq!(at_once, spec.initial);
        for unit in 1..200_u128 {
            let due = (unit * u128::from(spec.rate.period)).div_ceil(u128::from(spec.rate.units));
            let due = START + u64::try_from(due).unwrap();
            prop_assert!(!admits(&policy, &mut state.clone(), due - 1), "unit {}", unit);
            prop_assert!(admits(&policy, &mut state, due), "unit {}", unit);
        }
    }

    /// The initial units immediately, and then all units of a refill, to the microsecond.
    #[test]
    fn a_lone_caller_of_an_interval_bucket_gets_every_refill_when_it_is_due(spec in any_bucket()) {
        let policy = spec.interval();
        // If the bucket begins empty, the first refused call is the first call on the key.
        let (at_once, mut state) = burst_at_once(&policy, START);
        prop_assert_eq!(at_once, spec.initial);
        for refill in 1..30 {
            let due = START + refill * spec.rate.period;
            prop_assert!(!admits(&policy, &mut state.clone(), due - 1), "refill {}", refill);
            for _ in 0..spec.rate.units.min(spec.rate.burst) {
                prop_assert!(admits(&policy, &mut state, due), "refill {}", refill);
            }
            prop_assert!(!admits(&policy, &mut state, due), "refill {}", refill);
        }
    }

    /// A full bucket admits a call that takes it to -debt, and the next call when the debt is paid.
    #[test]
    fn a_lone_caller_may_take_the_capacity_and_the_debt_as_one_cost(spec in any_full_bucket()) {
        let RateSpec { units, period, .. } = spec.rate;
        let (units, period, owed) = (u128::from(units), u128::from(period), u128::from(spec.debt) + 1);
        let whole_units = (owed * period).div_ceil(units);
        let whole_refills = owed.div_ceil(units) * period;
        for (policy, wait) in [(spec.continuous(), whole_units), (spec.interval(), whole_refills)] {
            let mut state = policy.initial_state();
            prop_assert_eq!(policy.charge(&mut state, START, policy.capacity()), Outcome::Admitted);
            let paid = START + u64::try_from(wait).unwrap();
            prop_assert!(!admits(&policy, &mut state.clone(), paid - 1));
            prop_assert!(admits(&policy, &mut state, paid));
        }
    }
}

mod checkers {
    use super::*;

    /// A check that cannot fail proves nothing.
    #[test]
    fn the_checker_finds_an_excess() {
        let at = |times: &[u64]| -> Vec<Admitted> {
            times.iter().map(|&at| Admitted { at, cost: 1 }).collect()
        };
        assert!(excess_over_interval(&at(&[0, 0, 10, 10]), 2, 2, 10).is_none());
        assert!(excess_over_interval(&at(&[0, 0, 0]), 2, 2, 10).is_some());
        assert!(excess_over_interval(&at(&[0, 0, 10, 10, 10]), 2, 2, 10).is_some());
    }
}
