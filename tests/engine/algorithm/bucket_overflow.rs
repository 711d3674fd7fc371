//! Buckets in a full store: a key that is evicted, shares a cell and then gets its own entry again
//! gets no more than its law allows.

use std::collections::HashMap;

use proptest::prelude::*;
use tollgate::key::Key;
use tollgate::memory::MemoryStore;
use tollgate::policy::decision::Status;

use crate::algorithm::buckets::{BucketSpec, excess_over_interval};
use crate::laws::trace::{Admitted, START, excess_over_rate};
use crate::policy::specs::{RateSpec, SECOND};

proptest! {
    #![proptest_config(crate::cases::cases(256))]

    #[test]
    fn no_bucket_of_a_full_store_exceeds_its_law(
        seed in any::<(u64, u64)>(),
        initial in 0..=5_u64,
        calls in prop::collection::vec((0..100_u64, 1..4_u64, 0..SECOND / 20), 2_000),
    ) {
        let rate = RateSpec { units: 4, period: SECOND, burst: 5 };
        let full = BucketSpec { rate, initial: 5, debt: 2 };
        let low = BucketSpec { initial, ..full };
        let store = MemoryStore::new(20, seed);
        let ledgers = [
            ("continuous", store.open("continuous", full.continuous()).unwrap()),
            ("continuous from low", store.open("continuous-low", low.continuous()).unwrap()),
            ("interval", store.open("interval", full.interval()).unwrap()),
            ("interval from low", store.open("interval-low", low.interval()).unwrap()),
        ];
        let mut traces: HashMap<(&str, u64), Vec<Admitted>> = HashMap::new();
        let mut now = START;
        for (key, cost, gap) in calls {
            now += gap;
            let text = key.to_string();
            for (name, ledger) in &ledgers {
                let decision = ledger.take(Key::new(&text).unwrap(), cost, &now);
                if matches!(decision.status, Status::Allowed | Status::AllowedLast) {
                    traces.entry((name, key)).or_default().push(Admitted { at: now, cost });
                }
            }
            prop_assert!(store.held_keys() <= 20);
        }
        for ((name, key), trace) in traces {
            let RateSpec { units, period, burst } = rate;
            let excess = if name.starts_with("continuous") {
                excess_over_rate(&trace, units, period, burst + 2)
            } else {
                excess_over_interval(&trace, burst + 2, units, period)
            };
            prop_assert!(excess.is_none(), "{} of {}: {:?}", key, name, excess);
        }
    }
}

/// A full bucket whose key loses its entry must not continue with the refills of a cell that began
/// earlier. Those refills are not in step with its own, and one of them would be too many.
#[test]
fn a_full_interval_bucket_keeps_its_entry_while_its_cell_began_earlier() {
    let every = SECOND / 10;
    let rate = RateSpec { units: 10, period: every, burst: 20 };
    let bucket = BucketSpec { rate, initial: 20, debt: 0 };
    let store = MemoryStore::new(1, (3, 4));
    let ledger = store.open("api", bucket.interval()).unwrap();
    let admitted = |key: &str, cost, ms: u64| {
        let decision = ledger.take(Key::new(key).unwrap(), cost, &(START + ms * 1_000));
        matches!(decision.status, Status::Allowed | Status::AllowedLast)
    };
    let mut trace = Vec::new();
    let mut takes = |most: u64, ms: u64| {
        let taken = (1..=most).filter(|_| admitted("key", 1, ms)).count();
        trace.push(Admitted { at: START + ms * 1_000, cost: u64::try_from(taken).unwrap() });
    };
    for (most, ms) in [(1, 0), (20, 99), (20, 100), (20, 200)] {
        takes(most, ms);
    }
    // The key will be full at 400 ms. Every cell has begun by then.
    for newcomer in 0..3_000 {
        assert!(admitted(&format!("newcomer {newcomer}"), 1, 350));
    }
    // Other keys need entries, until the sweep has reached the key.
    for another in 0..3 {
        admitted(&format!("another {another}"), 1, 400);
    }
    for ms in [401, 449, 450, 451] {
        takes(20, ms);
    }
    let excess = excess_over_interval(&trace, 20, 10, every);
    assert!(excess.is_none(), "{excess:?} in {trace:?}");
}
