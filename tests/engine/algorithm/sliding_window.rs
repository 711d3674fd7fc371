//! The sliding window: its law and its promise, its exactness, and its equality with an oracle that
//! stores calls and counts them in buckets by exact fractions.

use num_rational::Ratio;
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use tollgate::algorithm::{Algorithm as _, BucketLayout, SlidingWindow};
use tollgate::policy::Policy;
use tollgate::policy::decision::Status;

use crate::algorithm::window_oracle::{Expected, Oracle};
use crate::laws::exactness;
use crate::laws::max_admission::{self, admitted};
use crate::laws::min_admission::{admits, burst_at_once};
use crate::laws::trace::{Move, START, Step, any_trace, most_in_any_window};
use crate::laws::twins::{self, TRACES};
use crate::policy::specs::{DAY, HOUR, MILLI};

/// The numbers of a sliding window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SlidingSpec {
    pub(crate) limit: u64,
    pub(crate) window: u64,
    pub(crate) buckets: u64,
}

impl SlidingSpec {
    fn policy(self, layout: BucketLayout) -> Policy {
        let Self { limit, window, buckets } = self;
        Policy::SlidingWindow(SlidingWindow::new(limit, window, buckets, layout).unwrap())
    }

    pub(crate) fn list(self) -> Policy {
        self.policy(BucketLayout::List)
    }

    pub(crate) fn hash(self) -> Policy {
        self.policy(BucketLayout::Hash)
    }

    fn width(self) -> u64 {
        self.window.div_ceil(self.buckets)
    }
}

pub(crate) fn any_sliding() -> impl Strategy<Value = SlidingSpec> {
    let window = prop_oneof![
        2 => 1..2_000_u64,
        4 => (1..9_000_u64).prop_map(|ms| ms * MILLI),
        1 => Just(HOUR),
        1 => Just(30 * DAY),
    ];
    let limit = prop_oneof![Just(1), 2..20_u64, 20..2_000_u64, Just((1 << 53) - 9)];
    let buckets = prop_oneof![1 => Just(1), 6 => 2..20_u64, 2 => 20..=1_000_u64];
    let numbers = (limit, window, buckets);
    numbers.prop_map(|(limit, window, buckets)| SlidingSpec { limit, window, buckets })
}

/// Versions with windows and buckets of similar length, and traces within them.
pub(crate) fn any_close() -> impl Strategy<Value = SlidingSpec> {
    let numbers = (1..12_u64, 1..150_u64, 1..12_u64);
    numbers.prop_map(|(limit, window, buckets)| SlidingSpec { limit, window, buckets })
}

pub(crate) fn any_dense_trace() -> impl Strategy<Value = Vec<Step>> {
    (any_trace(max_admission::STEPS), prop::collection::vec(0..25_u64, max_admission::STEPS))
        .prop_map(|(mut trace, times)| {
            for (step, forward) in trace.iter_mut().zip(times) {
                step.time = match step.time {
                    Move::Forward(_) => Move::Forward(forward),
                    Move::Back(_) => Move::Back(4 * forward),
                    to => to,
                };
            }
            trace
        })
}

type Fraction = Ratio<i128>;

fn fraction(number: u64) -> Fraction {
    Fraction::from_integer(i128::from(number))
}

/// A call, and the end of its bucket.
#[derive(Debug, Clone, Copy)]
struct Call {
    bucket_end: u64,
    cost: u64,
}

/// Every admitted call, and the time from which a store may drop them.
#[derive(Clone)]
pub(crate) struct SlidingOracle {
    calls: Vec<Call>,
    forgotten_at: u64,
}

impl SlidingOracle {
    pub(crate) fn new() -> Self {
        Self { calls: Vec::new(), forgotten_at: 0 }
    }

    /// The age of a call, in buckets, is the start of the current bucket less the end of the call's
    /// bucket. A call counts while its age is below the number of buckets.
    fn counts(&self, call: Call, spec: SlidingSpec, now: u64) -> bool {
        let bucket_now = (fraction(now) / fraction(spec.width())).floor();
        let age = bucket_now - fraction(call.bucket_end) / fraction(spec.width());
        now < self.forgotten_at && age < fraction(spec.buckets)
    }

    fn used(&self, spec: SlidingSpec, now: u64) -> u64 {
        let counting = self.calls.iter().filter(|call| self.counts(**call, spec, now));
        counting.map(|call| call.cost).sum()
    }

    /// The first time from which at most `most` units count. The search tries each time at which
    /// the calls of a bucket expire, and the reset time.
    fn first_with(&self, spec: SlidingSpec, from: u64, most: u64) -> u64 {
        let mut now = from;
        while self.used(spec, now) > most {
            let ends = self.calls.iter().map(|call| call.bucket_end);
            let grid = |end: u64| end.div_ceil(spec.width()) * spec.width();
            let leaves = ends.map(|end| grid(end) + spec.buckets * spec.width());
            let next = leaves.filter(|leaves| *leaves > now).min().unwrap();
            now = next.min(self.forgotten_at);
        }
        now
    }
}

impl Oracle for SlidingOracle {
    type Spec = SlidingSpec;

    fn take(&mut self, spec: SlidingSpec, now: u64, cost: u64) -> Expected {
        let window = spec.buckets * spec.width();
        let own_end = (now / spec.width() + 1) * spec.width();
        let newest = self.calls.iter().map(|call| call.bucket_end).max();
        if newest.is_some_and(|newest| newest > own_end + window) {
            let cost = self.used(spec, now);
            self.calls = vec![Call { bucket_end: own_end, cost }];
            self.forgotten_at = own_end + window;
        }
        let used = self.used(spec, now);
        let admitted = used + cost <= spec.limit;
        let status = match used + cost {
            _ if cost > spec.limit => Status::Impossible,
            sum if sum < spec.limit => Status::Allowed,
            sum if sum == spec.limit => Status::AllowedLast,
            _ => Status::Refused,
        };
        let retry_at = match status {
            Status::Refused => self.first_with(spec, now, spec.limit - cost),
            _ => now,
        };
        if admitted {
            let counting: Vec<_> =
                self.calls.iter().copied().filter(|call| self.counts(*call, spec, now)).collect();
            self.calls = counting;
            let newest = self.calls.iter().map(|call| call.bucket_end).max();
            let bucket_end = newest.unwrap_or(0).max(own_end);
            self.calls.push(Call { bucket_end, cost });
            self.forgotten_at = u64::MAX;
            self.forgotten_at = self.first_with(spec, now, 0);
        }
        Expected {
            status,
            limit: spec.limit,
            remaining: spec.limit.saturating_sub(self.used(spec, now)),
            retry_after_ms: (retry_at - now).div_ceil(1_000),
            reset_after_ms: self.forgotten_at.saturating_sub(now).div_ceil(1_000),
        }
    }
}

fn law(specs: &[SlidingSpec], trace: &[Step]) -> TestCaseResult {
    let policies: Vec<_> = specs.iter().map(|spec| spec.list()).collect();
    let limit = specs.iter().map(|spec| spec.limit).max().unwrap();
    let window = specs.iter().map(|spec| spec.window).min().unwrap();
    let most = most_in_any_window(&admitted(&policies, trace), window);
    prop_assert!(most <= limit, "{} of {} in {}", most, limit, window);
    Ok(())
}

/// The largest sum of costs that a test can have.
pub(crate) fn small(mut spec: SlidingSpec) -> SlidingSpec {
    spec.limit = spec.limit.min(5_000);
    spec
}

proptest! {
    #![proptest_config(crate::cases::cases(TRACES))]

    #[test]
    fn at_most_the_limit_is_admitted_in_any_rolling_window(
        spec in any_sliding().prop_map(small),
        trace in any_trace(max_admission::STEPS),
    ) {
        law(&[spec], &trace)?;
    }

    #[test]
    fn at_most_the_limit_is_admitted_in_any_rolling_window_of_a_dense_trace(
        spec in any_close(),
        trace in any_dense_trace(),
    ) {
        law(&[spec], &trace)?;
    }

    // promise: law-of-larger-limit
    #[test]
    fn mixed_versions_admit_at_most_the_larger_limit_in_any_shorter_window(
        specs in prop::collection::vec(any_sliding().prop_map(small), 2..5),
        trace in any_trace(max_admission::STEPS),
    ) {
        law(&specs, &trace)?;
    }

    #[test]
    fn mixed_versions_of_much_the_same_length_admit_at_most_the_larger_limit(
        specs in prop::collection::vec(any_close(), 2..5),
        trace in any_dense_trace(),
    ) {
        law(&specs, &trace)?;
    }

    #[test]
    fn sliding_window_equals_the_oracle(
        specs in prop::collection::vec(any_sliding(), 1..4),
        trace in any_trace(twins::STEPS),
    ) {
        twins::equals(SlidingOracle::new(), &specs, SlidingSpec::list, &trace)?;
    }

    #[test]
    fn dense_sliding_window_equals_the_oracle(
        specs in prop::collection::vec(any_close(), 1..4),
        trace in any_dense_trace(),
    ) {
        twins::equals(SlidingOracle::new(), &specs, SlidingSpec::hash, &trace)?;
    }
}

proptest! {
    #![proptest_config(crate::cases::cases(256))]

    /// The limit immediately, and again after each window and a bucket; not a microsecond earlier,
    /// because the caller comes when a bucket begins.
    #[test]
    fn a_steady_caller_gets_the_limit_each_window_and_a_bucket(spec in any_sliding().prop_map(small)) {
        let policy = spec.list();
        let mut now = START.next_multiple_of(spec.width());
        let (admitted, mut state) = burst_at_once(&policy, now);
        prop_assert_eq!(admitted, spec.limit);
        for _ in 0..5 {
            let next = now + (spec.buckets + 1) * spec.width();
            prop_assert!(!admits(&policy, &mut state.clone(), next - 1));
            now = next;
            prop_assert_eq!(policy.remaining(&state, now), spec.limit);
            for unit in 0..spec.limit {
                prop_assert!(admits(&policy, &mut state, now), "unit {}", unit);
            }
        }
    }

    /// Units become available again at most a window and a bucket after the call that took them.
    #[test]
    fn a_unit_counts_for_no_longer_than_a_window_and_a_bucket(
        spec in any_close(),
        times in prop::collection::vec(0..25_u64, 200),
    ) {
        let policy = spec.list();
        let mut state = policy.initial_state();
        let (mut now, mut admitted) = (START, Vec::new());
        for forward in times {
            now += forward;
            let since = now - (spec.buckets + 1) * spec.width();
            let recent = admitted.iter().filter(|at| **at > since).count() as u64;
            let got = admits(&policy, &mut state, now);
            prop_assert!(got || recent >= spec.limit, "{} recent ones at {}", recent, now);
            if got {
                admitted.push(now);
            }
        }
    }

    #[test]
    fn retries_are_exact(
        specs in (any_sliding(), any_sliding()),
        trace in any_trace(exactness::STEPS),
    ) {
        exactness::retry_after_is_exact(&[specs.0.list(), specs.1.list()], &trace)?;
    }

    #[test]
    fn retries_in_dense_traces_are_exact(specs in (any_close(), any_close()), trace in any_dense_trace()) {
        let scaled = |mut spec: SlidingSpec| {
            spec.window *= 400;
            spec.list()
        };
        exactness::retry_after_is_exact(&[scaled(specs.0), scaled(specs.1)], &trace)?;
    }

    #[test]
    fn it_is_exact(spec in any_sliding(), trace in any_trace(exactness::STEPS)) {
        exactness::is_exact(&spec.hash(), &trace)?;
    }

    /// To the microsecond, also if the clock is behind.
    #[test]
    fn a_retry_is_exact_to_the_microsecond_after_clock_steps(
        specs in prop::collection::vec(any_close(), 1..4),
        trace in any_dense_trace(),
        steps_back in prop::collection::vec(0..120_u64, max_admission::STEPS),
    ) {
        let mut state = specs[0].list().initial_state();
        let mut now = START;
        for (step, back) in trace.iter().zip(steps_back) {
            let policy = specs[step.choice % specs.len()].list();
            now = step.time.onward_from(now, state_end(&state), now);
            if step.choice > 50 {
                now -= back;
            }
            let cost = step.cost.of(policy.capacity());
            if policy.charge(&mut state, now, cost) == tollgate::algorithm::Outcome::Refused {
                let retry_at = policy.retry_at(&state, now, cost);
                let would = |at| policy.charge(&mut state.clone(), at, cost) == tollgate::algorithm::Outcome::Admitted;
                prop_assert!(retry_at > now && would(retry_at) && !would(retry_at - 1));
            }
        }
    }
}

fn state_end(state: &tollgate::policy::State) -> u64 {
    tollgate::algorithm::KeyState::reset_at(state)
}
