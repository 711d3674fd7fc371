//! The embedded store equals the oracle: many keys of two limiters, with states dropped at their
//! reset time or not.

use std::collections::HashMap;

use proptest::prelude::*;
use tollgate::key::Key;
use tollgate::memory::{MemoryLimiter, MemoryStore};

use crate::algorithm::window_oracle::{Oracle as _, RateOracle, WindowOracle};
use crate::laws::trace::{START, Step, any_trace};
use crate::laws::twins::told;
use crate::policy::specs::{RateSpec, WindowSpec, any_rate, any_window};

/// Fewer entries than the traces have keys; keys past their reset time free theirs.
const KEYS: usize = 20;

fn take(
    ledger: &MemoryLimiter,
    key: usize,
    cost: u64,
    now: u64,
) -> crate::algorithm::window_oracle::Expected {
    let text = format!("key {key} {}", "x".repeat(3 * key));
    told(ledger.take(Key::new(&text).unwrap(), cost, &now))
}

proptest! {
    #![proptest_config(crate::cases::cases(200))]

    /// With a clock that never steps back, dropped states make no difference.
    #[test]
    fn a_store_equals_the_oracles(
        rate in any_rate(),
        window in any_window(),
        seed in any::<(u64, u64)>(),
        trace in any_trace(600),
    ) {
        let store = MemoryStore::new(2 * KEYS, seed);
        let rates = store.open("rates", rate.gcra()).unwrap();
        let windows = store.open("windows", window.policy()).unwrap();
        let mut rate_oracles: HashMap<usize, RateOracle> = HashMap::new();
        let mut window_oracles: HashMap<usize, WindowOracle> = HashMap::new();
        let mut now = START;
        for Step { time, cost, choice } in trace {
            now = time.onward_from(now, now, now);
            let key = choice % KEYS;
            let units = cost.of(rate.burst);
            let oracle = rate_oracles.entry(key).or_insert_with(RateOracle::new);
            prop_assert_eq!(take(&rates, key, units, now), oracle.take(rate, now, units));
            let units = cost.of(window.limit);
            let oracle = window_oracles.entry(key).or_insert_with(WindowOracle::new);
            prop_assert_eq!(take(&windows, key, units, now), oracle.take(window, now, units));
        }
        prop_assert!(store.held_keys() <= 2 * KEYS);
    }

    /// With clock steps both ways, a single key is dropped only if its reset time had passed at
    /// some reading of the clock. It equals the oracle until then.
    #[test]
    fn a_key_is_dropped_only_after_it_has_settled(
        rate in any_rate(),
        seed in any::<(u64, u64)>(),
        trace in any_trace(600),
    ) {
        let store = MemoryStore::new(1, seed);
        let ledger = store.open("rates", rate.gcra()).unwrap();
        let mut oracle = RateOracle::new();
        let (mut now, mut latest, mut reset_at) = (START, START, START);
        for Step { time, cost, .. } in trace {
            now = time.from(now, reset_at, now);
            latest = latest.max(now);
            let units = cost.of(rate.burst);
            let expected = oracle.take(rate, now, units);
            let found = take(&ledger, 0, units, now);
            if found != expected {
                prop_assert!(reset_at <= latest, "dropped too early");
                oracle = RateOracle::new();
                prop_assert_eq!(found, oracle.take(rate, now, units));
            }
            reset_at = now + found.reset_after_ms * 1_000;
            latest = now;
        }
    }

    /// A limiter that is closed and created again with other numbers finds its states and converts
    /// them.
    #[test]
    fn changed_numbers_convert_what_is_stored(
        before in any_rate(),
        after in any_rate(),
        trace in any_trace(100),
    ) {
        let store = MemoryStore::new(KEYS, (1, 2));
        let mut oracles: HashMap<usize, RateOracle> = HashMap::new();
        let mut now = START;
        for (index, part) in trace.chunks(25).enumerate() {
            let spec = [before, after][index % 2];
            let ledger = store.open("rates", RateSpec::token_bucket(spec)).unwrap();
            for Step { time, cost, choice } in part {
                now = time.onward_from(now, now, now);
                let units = cost.of(spec.burst);
                let oracle = oracles.entry(choice % 3).or_insert_with(RateOracle::new);
                prop_assert_eq!(
                    take(&ledger, choice % 3, units, now),
                    oracle.take(spec, now, units)
                );
            }
        }
    }
}

#[test]
fn hostile_texts_are_just_keys() {
    let window = WindowSpec { limit: 1, window: 1_000_000 };
    let store = MemoryStore::new(100, (1, 2));
    let ledger = store.open("api", window.policy()).unwrap();
    let long = "é".repeat(512);
    let texts =
        ["\0", "\0\0", "{a}", "{a}b", "%7b", "__proto__", "👩‍👩‍👧", " ", "a\nb", "a", "A", &long];
    for round in 0..2_u64 {
        for text in texts {
            let decision = ledger.take(Key::new(text).unwrap(), 1, &START);
            assert_eq!(decision.retry_after_ms > 0, round == 1, "{text:?}");
        }
    }
}
