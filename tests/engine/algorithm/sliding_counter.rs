//! The sliding counter: its laws, its exactness, and its equality with a list of calls.

use std::collections::HashMap;
use std::thread;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use tollgate::algorithm::{Algorithm as _, Outcome, SlidingCounter};
use tollgate::key::Key;
use tollgate::memory::MemoryStore;
use tollgate::policy::Policy;
use tollgate::policy::decision::Status;
use tollgate::redis::{CallBatch, CallError, KeyNames, Script};
use tollgate::time::MAX_SAFE;

use crate::algorithm::window_oracle::{Expected, Oracle};
use crate::laws::exactness;
use crate::laws::max_admission;
use crate::laws::min_admission::{admits, burst_at_once};
use crate::laws::trace::{Admitted, START, any_trace, excess_over_rate, most_in_any_window};
use crate::laws::twins;
use crate::policy::specs::SECOND;
use crate::redis::twins as redis_twins;
use crate::redis::{Server, key_names};

/// The numbers of a sliding counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CounterSpec {
    pub(crate) limit: u64,
    pub(crate) window_ms: u64,
}

impl CounterSpec {
    pub(crate) fn policy(self) -> Policy {
        let made = SlidingCounter::new(self.limit, self.window_ms * 1_000);
        Policy::SlidingCounter(made.unwrap())
    }
}

pub(crate) fn any_counter() -> impl Strategy<Value = CounterSpec> {
    let window_ms = prop_oneof![
        1..50_u64,
        50..5_000_u64,
        Just(1_000),
        Just(3_600_000),
        Just(30 * 86_400_000),
        Just((1 << 52) / 1_000),
    ];
    let limit = prop_oneof![
        4 => Just(1),
        8 => 2..20_u64,
        8 => 20..2_000_u64,
        // As large as the window can count.
        1 => Just(MAX_SAFE),
    ];
    (limit, window_ms).prop_map(|(limit, window_ms)| CounterSpec {
        limit: limit.min(MAX_SAFE / window_ms),
        window_ms,
    })
}

/// The charged calls with the milliseconds in which they count. Each call is weighed again at every
/// query, and times are found by trial.
#[derive(Clone)]
pub(crate) struct CounterOracle {
    calls: Vec<(u64, u64)>,
    /// The length of the window in which they are counted.
    window: u64,
}

impl CounterOracle {
    pub(crate) fn new() -> Self {
        Self { calls: Vec::new(), window: 1 }
    }

    /// The start of the window of the last call.
    fn last_start(&self) -> u64 {
        self.calls.last().map_or(0, |&(at, _)| at - at % self.window)
    }

    fn used(&self, now: u64) -> u64 {
        // A clock step back does not restore units that have faded.
        let now = now.max(self.last_start());
        let weighed = |&(at, cost): &(u64, u64)| {
            let parts = match now / self.window - at / self.window {
                0 => self.window,
                1 => self.window - now % self.window,
                _ => 0,
            };
            u128::from(cost) * u128::from(parts)
        };
        let sum: u128 = self.calls.iter().map(weighed).sum();
        u64::try_from(sum.div_ceil(u128::from(self.window))).unwrap()
    }

    /// The first millisecond from `now` on at which at most `most` units count.
    fn first_at(&self, most: u64, now: u64) -> u64 {
        let (mut too_early, mut enough) = (now, now.max(self.last_start()) + 2 * self.window);
        if self.used(too_early) <= most {
            return too_early;
        }
        while enough - too_early > 1 {
            let middle = u64::midpoint(too_early, enough);
            if self.used(middle) <= most {
                enough = middle;
            } else {
                too_early = middle;
            }
        }
        enough
    }

    /// Drops calls that have no weight, even after a step back of the clock.
    fn tidy(&mut self) {
        let (last, window) = (self.last_start(), self.window);
        self.calls.retain(|&(at, _)| at + window >= last);
    }
}

impl Oracle for CounterOracle {
    type Spec = CounterSpec;

    fn take(&mut self, spec: CounterSpec, now: u64, cost: u64) -> Expected {
        let CounterSpec { limit, window_ms } = spec;
        let (now, part) = (now / 1_000, now % 1_000);
        if self.last_start() + self.window > now + 2 * self.window {
            // A clock step: the open window is full.
            let last = self.last_start();
            let in_window = self.calls.iter().filter(|&&(at, _)| at >= last);
            let count: u64 = in_window.map(|&(_, cost)| cost).sum();
            self.calls = vec![(now, count.max(limit.min(MAX_SAFE / self.window)))];
        }
        let mut used = self.used(now);
        let admitted = used + cost <= limit;
        if admitted {
            if self.window != window_ms {
                self.calls = vec![(now, used)];
                self.window = window_ms;
            }
            self.calls.push((now.max(self.last_start()), cost));
            self.tidy();
            used += cost;
        }
        let remaining = limit.saturating_sub(used);
        let status = match (admitted, remaining) {
            (true, 0) => Status::AllowedLast,
            (true, _) => Status::Allowed,
            (false, _) if cost > limit => Status::Impossible,
            (false, _) => Status::Refused,
        };
        let millis = |time: u64| ((time - now) * 1_000).saturating_sub(part).div_ceil(1_000);
        let retry_after_ms = match status {
            Status::Refused => millis(self.first_at(limit - cost, now)),
            _ => 0,
        };
        let reset_after_ms = millis(self.first_at(0, now));
        Expected { status, limit, remaining, retry_after_ms, reset_after_ms }
    }
}

/// The law of one policy, or of versions side by side.
fn law(specs: &[CounterSpec], trace: &[Admitted]) -> TestCaseResult {
    let limit = specs.iter().map(|spec| spec.limit).max().unwrap();
    let window_ms = specs.iter().map(|spec| spec.window_ms).min().unwrap();
    let window = window_ms * 1_000;
    let excess = excess_over_rate(trace, limit, window, limit);
    prop_assert!(excess.is_none(), "{:?}", excess);
    prop_assert!(most_in_any_window(trace, window) < 2 * limit);
    if specs.len() == 1 {
        let least_of_the_other_window = limit.div_ceil(window_ms);
        prop_assert!(most_in_any_window(trace, window) <= 2 * limit - least_of_the_other_window);
        for calls in trace.chunk_by(|one, other| one.at / window == other.at / window) {
            prop_assert!(calls.iter().map(|call| call.cost).sum::<u64>() <= limit);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(crate::cases::cases(max_admission::TRACES))]

    #[test]
    fn it_admits_fewer_than_its_law_says(
        spec in any_counter(),
        trace in any_trace(max_admission::STEPS),
    ) {
        law(&[spec], &max_admission::admitted(&[spec.policy()], &trace))?;
    }

    #[test]
    fn versions_side_by_side_admit_fewer_than_their_law_says(
        specs in prop::collection::vec(any_counter(), 2..5),
        trace in any_trace(max_admission::STEPS),
    ) {
        let policies: Vec<Policy> = specs.iter().map(|&spec| spec.policy()).collect();
        law(&specs, &max_admission::admitted(&policies, &trace))?;
    }

    #[test]
    fn versions_of_like_windows_admit_fewer_than_their_law_says(
        specs in prop::collection::vec((1..40_u64, 90..110_u64), 2..5),
        calls in prop::collection::vec((0..30_000_u64, 1..6_u64, 0..4_usize), 300),
    ) {
        let spec = |(limit, window_ms)| CounterSpec { limit, window_ms };
        let specs: Vec<CounterSpec> = specs.into_iter().map(spec).collect();
        let policies: Vec<Policy> = specs.iter().map(|spec| spec.policy()).collect();
        let (mut state, mut now, mut trace) = (policies[0].initial_state(), START, Vec::new());
        for (pause, cost, version) in calls {
            now += pause;
            let policy = &policies[version % policies.len()];
            if policy.charge(&mut state, now, cost) == Outcome::Admitted {
                trace.push(Admitted { at: now, cost });
            }
        }
        law(&specs, &trace)?;
    }

    /// No weight is above 1: a caller within the limit over two windows is never refused.
    #[test]
    fn a_caller_within_the_limit_over_two_windows_is_never_refused(
        spec in (2..200_u64, 1..2_000_u64),
        calls in prop::collection::vec((0..1_000_000_u64, 1..20_u64), 200),
    ) {
        let spec = CounterSpec { limit: spec.0, window_ms: spec.1 };
        let (policy, window) = (spec.policy(), spec.window_ms * 1_000);
        let (mut state, mut now, mut trace) = (policy.initial_state(), START, Vec::new());
        for (pause, cost) in calls {
            now += pause;
            let in_two = |call: &&Admitted| call.at / window + 1 >= now / window;
            let recent: u64 = trace.iter().filter(in_two).map(|call| call.cost).sum();
            let outcome = policy.charge(&mut state, now, cost);
            if recent + cost <= spec.limit {
                prop_assert_eq!(outcome, Outcome::Admitted);
            }
            if outcome == Outcome::Admitted {
                trace.push(Admitted { at: now, cost });
            }
        }
    }

    /// m evenly spaced units per window, if m + ⌈m / window in ms⌉ is below the limit.
    #[test]
    fn a_steady_caller_below_the_limit_is_never_refused(
        limit in 3..500_u64,
        window_ms in prop_oneof![1..50_u64, 50..100_000_u64],
        start in 0..100_000_000_u64,
    ) {
        let policy = CounterSpec { limit, window_ms }.policy();
        let promised = |m: &u64| m + m.div_ceil(window_ms) < limit;
        let Some(units) = (1..limit).rev().find(promised) else { return Ok(()) };
        let pause = (window_ms * 1_000).div_ceil(units);
        let mut state = policy.initial_state();
        for call in 0..3 * limit {
            prop_assert!(admits(&policy, &mut state, START + start + call * pause), "{}", call);
        }
    }

    #[test]
    fn an_unused_key_has_the_limit_at_once(spec in any_counter(), late in 0..10 * SECOND) {
        let policy = spec.policy();
        let mut state = policy.initial_state();
        prop_assert_eq!(policy.charge(&mut state, START + late, spec.limit), Outcome::Admitted);
        prop_assert_eq!(policy.remaining(&state, START + late), 0);
        if spec.limit <= 2_000 {
            prop_assert_eq!(burst_at_once(&policy, START + late).0, spec.limit);
        }
    }

    #[test]
    fn its_retries_are_exact(
        specs in (any_counter(), any_counter()),
        trace in any_trace(exactness::STEPS),
    ) {
        exactness::retry_after_is_exact(&[specs.0.policy(), specs.1.policy()], &trace)?;
    }

    #[test]
    fn it_is_exact(spec in any_counter(), trace in any_trace(exactness::STEPS)) {
        exactness::is_exact(&spec.policy(), &trace)?;
    }
}

proptest! {
    #![proptest_config(crate::cases::cases(twins::TRACES))]

    #[test]
    fn it_equals_the_oracle(
        specs in prop::collection::vec(any_counter(), 1..4),
        trace in any_trace(twins::STEPS),
    ) {
        twins::equals(CounterOracle::new(), &specs, CounterSpec::policy, &trace)?;
    }
}

// promise: sliding-counter-law
/// The law is tight: its worst case can happen.
#[test]
fn less_than_twice_the_limit_in_a_rolling_window_and_no_less() {
    let policy = CounterSpec { limit: 10, window_ms: 1_000 }.policy();
    let mut state = policy.initial_state();
    let last = START + SECOND - 1;
    assert_eq!(policy.charge(&mut state, last, 10), Outcome::Admitted);
    assert_eq!(policy.charge(&mut state, last + SECOND - 1, 10), Outcome::Refused);
    assert_eq!(policy.charge(&mut state, last + SECOND - 1, 9), Outcome::Admitted);
}

proptest! {
    #![proptest_config(crate::cases::cases(256))]

    /// All units have drained at the reset time. So a key may be dropped, and may then share a
    /// cell.
    #[test]
    fn no_key_of_a_full_store_exceeds_its_law(
        seed in any::<(u64, u64)>(),
        calls in prop::collection::vec((0..100_u64, 1..4_u64, 0..SECOND / 20), 2_000),
    ) {
        let spec = CounterSpec { limit: 5, window_ms: 1_000 };
        let ledger = MemoryStore::new(20, seed).open("api", spec.policy()).unwrap();
        let mut traces: HashMap<u64, Vec<Admitted>> = HashMap::new();
        let mut now = START;
        for (key, cost, gap) in calls {
            now += gap;
            let decision = ledger.take(Key::new(&key.to_string()).unwrap(), cost, &now);
            if matches!(decision.status, Status::Allowed | Status::AllowedLast) {
                traces.entry(key).or_default().push(Admitted { at: now, cost });
            }
        }
        for trace in traces.values() {
            prop_assert!(most_in_any_window(trace, SECOND) < 2 * spec.limit, "{:?}", trace);
            let excess = excess_over_rate(trace, spec.limit, SECOND, spec.limit);
            prop_assert!(excess.is_none(), "{:?}", excess);
        }
    }
}

#[test]
fn in_lua_it_equals_rust_and_the_oracle() {
    let specs = prop::collection::vec(any_counter(), 1..4);
    redis_twins::proven((specs, any_trace(redis_twins::STEPS)), |server, (specs, trace)| {
        redis_twins::equal(server, CounterOracle::new, &specs, CounterSpec::policy, &trace)
    });
}

/// Values of the right length that no sliding counter wrote.
#[test]
fn numbers_that_make_no_sense_cannot_be_read() {
    let mut server = Server::start();
    let policy = CounterSpec { limit: 10, window_ms: 1_000 }.policy();
    let names = KeyNames::new("api", &policy.clone().into());
    let ends = 1_780_000_001_000.0;
    let sane = [ends, 1.0, 1.0, 1_000.0];
    let with = |place: usize, number: f64| {
        let mut numbers = sane;
        numbers[place] = number;
        numbers
    };
    let mut values = vec![with(0, ends + 1.0), with(1, 2e13), with(2, 2e13), with(3, 5e12)];
    for place in 0..4 {
        values.extend([-1.0, 0.5, f64::NAN, f64::INFINITY, 1e300].map(|bad| with(place, bad)));
    }
    for numbers in values {
        let value: Vec<u8> = numbers.iter().flat_map(|number| number.to_be_bytes()).collect();
        for cost in [1, 2] {
            let mut batch = CallBatch::new();
            batch.push(&names, Key::new("a").unwrap(), cost);
            let _: () = server.run(&[b"SET", &names.of(Key::new("a").unwrap()), &value]);
            let decisions = server.decide(Script::limiter(), &policy, &batch, &[]);
            assert_eq!(decisions, [Err(CallError::Unreadable)], "{numbers:?}");
        }
    }
}

/// Also when windows roll on: admitted units count for longer than the units before them.
#[test]
fn its_ttl_reaches_to_the_end_of_the_next_window() {
    let mut server = Server::start();
    let policy = CounterSpec { limit: 100, window_ms: 300 }.policy();
    let name = key_names::name(&policy, "a");
    for _ in 0..30 {
        let decision = key_names::take(&mut server, &policy, "a", 1);
        let reset_at = i64::try_from(decision.at / 1_000 + decision.reset_after_ms).unwrap();
        let expires = server.expiry(&name);
        // On a busy machine the server sets the TTL some time after it read its clock.
        let late = server.now_ms() - i64::try_from(decision.at / 1_000).unwrap();
        assert!((reset_at..reset_at + late + 100).contains(&expires), "{expires} for {reset_at}");
        thread::sleep(Duration::from_millis(30));
    }
}
