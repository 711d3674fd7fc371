//! A full store: its memory is bounded, no key is reset, and no key exceeds its law.

use std::collections::HashMap;

use proptest::prelude::*;
use tollgate::key::Key;
use tollgate::memory::{MemoryLimiter, MemoryStore};
use tollgate::policy::decision::Status;
use tollgate::policy::operation::Operation;
use tollgate::policy::policy_set::{NamedPolicy, PolicySet};

use crate::laws::trace::{Admitted, START, excess_over_rate, most_in_any_window};
use crate::policy::specs::{HOUR, RateSpec, SECOND, WindowSpec};

fn status(ledger: &MemoryLimiter, key: &str, now: u64) -> Status {
    ledger.take(Key::new(key).unwrap(), 1, &now).status
}

#[test]
fn a_flood_resets_nobody_and_takes_no_memory() {
    let store = MemoryStore::new(5_000, (3, 4));
    let ledger = store.open("api", RateSpec { units: 10, period: HOUR, burst: 10 }.gcra()).unwrap();
    for _ in 0..10 {
        status(&ledger, "spent", START);
    }
    for _ in 0..9 {
        status(&ledger, "nearly spent", START);
    }
    for n in 0..200_000_u64 {
        status(&ledger, &format!("flood {n}"), START + n);
    }
    assert!(store.held_keys() <= 5_000);
    assert_eq!(status(&ledger, "spent", START + SECOND), Status::Refused);
    assert_eq!(status(&ledger, "nearly spent", START + SECOND), Status::AllowedLast);
    assert_eq!(status(&ledger, "nearly spent", START + SECOND), Status::Refused);
}

#[test]
fn after_a_flood_newcomers_are_as_if_never_used_again() {
    let store = MemoryStore::new(100, (3, 4));
    let rate = RateSpec { units: 10, period: SECOND, burst: 10 };
    let ledger = store.open("api", rate.gcra()).unwrap();
    for n in 0..10_000_u64 {
        status(&ledger, &format!("flood {n}"), START);
    }
    for n in 0..1_000_u64 {
        let key = format!("later {n}");
        let decision = ledger.take(Key::new(&key).unwrap(), 10, &(START + (n + 2) * SECOND));
        assert_eq!(decision.status, Status::AllowedLast, "{n}");
    }
    assert!(store.held_keys() <= 100);
}

proptest! {
    #![proptest_config(crate::cases::cases(256))]

    // promise: lone-caller
    /// Ten times as many keys as the store has entries, some of them reset now and then: each key
    /// still gets no more than its law allows.
    #[test]
    fn no_key_of_a_full_store_exceeds_its_law(
        seed in any::<(u64, u64)>(),
        calls in prop::collection::vec((0..100_u64, 1..4_u64, 0..SECOND / 20), 2_000),
    ) {
        let rate = RateSpec { units: 7, period: SECOND, burst: 5 };
        let window = WindowSpec { limit: 5, window: SECOND };
        let store = MemoryStore::new(20, seed);
        let rates = store.open("rates", rate.gcra()).unwrap();
        let windows = store.open("windows", window.policy()).unwrap();
        let mut traces: HashMap<(&str, u64), Vec<Admitted>> = HashMap::new();
        let mut now = START;
        for (key, cost, gap) in calls {
            now += gap;
            let text = key.to_string();
            let key_of = Key::new(&text).unwrap();
            for (name, ledger) in [("rates", &rates), ("windows", &windows)] {
                let decision = ledger.take(key_of, cost, &now);
                if matches!(decision.status, Status::Allowed | Status::AllowedLast) {
                    traces.entry((name, key)).or_default().push(Admitted { at: now, cost });
                }
            }
            prop_assert!(store.held_keys() <= 20);
        }
        for ((name, key), trace) in traces {
            let within = if name == "rates" {
                excess_over_rate(&trace, rate.units, rate.period, rate.burst).is_none()
            } else {
                most_in_any_window(&trace, window.window) < 2 * window.limit
            };
            prop_assert!(within, "{} of {}: {:?}", key, name, trace);
        }
    }

    /// Each of several policies still admits no more than its law allows, whichever of them have an
    /// entry for a key. A block holds in either case.
    #[test]
    fn no_key_of_a_full_store_exceeds_the_laws_of_several_policies(
        seed in any::<(u64, u64)>(),
        calls in prop::collection::vec((0..60_u64, 1..4_u64, 0..SECOND / 20, 0..20_u8), 2_000),
    ) {
        let rate = RateSpec { units: 7, period: SECOND, burst: 5 };
        let window = WindowSpec { limit: 6, window: SECOND };
        let named = |name: &str, policy| NamedPolicy { name: name.into(), policy, key_dimension: 0 };
        let both = vec![named("rate", rate.gcra()), named("window", window.policy())];
        let store = MemoryStore::new(20, seed);
        let ledger = store.open("both", PolicySet::multi(both).unwrap()).unwrap();
        let mut traces: HashMap<u64, Vec<Admitted>> = HashMap::new();
        let mut blocked: HashMap<u64, u64> = HashMap::new();
        let mut now = START;
        for (key, cost, gap, deed) in calls {
            now += gap;
            let text = key.to_string();
            let keys = [Some(Key::new(&text).unwrap())];
            if deed == 0 {
                let block = Operation::Block { lasting: SECOND };
                if ledger.execute(&keys, &block, &now).is_ok() {
                    blocked.insert(key, now + SECOND);
                }
            }
            let take = Operation::Take { cost: cost.into() };
            let decision = ledger.execute(&keys, &take, &now).unwrap().response.decision;
            let is_blocked = blocked.get(&key).is_some_and(|&until| now < until);
            prop_assert_eq!(decision.status == Status::Blocked, is_blocked);
            if matches!(decision.status, Status::Allowed | Status::AllowedLast) {
                traces.entry(key).or_default().push(Admitted { at: now, cost });
            }
            prop_assert!(store.held_keys() <= 20);
        }
        for (key, trace) in traces {
            let excess = excess_over_rate(&trace, rate.units, rate.period, rate.burst);
            prop_assert!(excess.is_none(), "{}: {:?}", key, excess);
            prop_assert!(most_in_any_window(&trace, window.window) < 2 * window.limit);
        }
    }
}
