//! The embedded store: hash, lock, table and decision, at a given time.

use std::hint::black_box;

use tollgate::key::Key;
use tollgate::memory::{MemoryLimiter, MemoryStore};
use tollgate::policy::Policy;
use tollgate::policy::decision::{Decision, Status};
use tollgate::policy::operation::Operation;
use tollgate::policy::policy_set::{NamedPolicy, PolicySet};
use tollgate::policy::units::Units;
use tollgate::time::Micros;

use crate::{HOUR, LIMIT, START, count, fixed_window, gcra, names};

const LAPS: usize = 10;

pub(crate) fn count_all() {
    known_keys("gcra", gcra(LIMIT));
    known_keys("fixed window", fixed_window(LIMIT));
    known_keys("two policies", two_policies());
    operations("four policies, one cost", &5.into());
    operations("four policies, costs by policy", &[1, 5, 5, 3].into());
    refused();
    new_keys();
}

fn two_policies() -> PolicySet {
    let named = |name: &str, policy| NamedPolicy { name: name.into(), policy, key_dimension: 0 };
    let named = vec![named("rate", gcra(LIMIT)), named("window", fixed_window(LIMIT))];
    PolicySet::multi(named).expect("two names")
}

fn open(policies: impl Into<PolicySet>) -> MemoryLimiter {
    MemoryStore::new(1_000_000, (1, 2)).open("guard", policies).expect("a new prefix")
}

fn take(ledger: &MemoryLimiter, key: &str, now: Micros) -> Decision {
    ledger.take(Key::new(black_box(key)).expect("a legal key"), black_box(1), &now)
}

/// Keys that already have an entry. Some calls also sweep entries.
fn known_keys(name: &str, policies: impl Into<PolicySet>) {
    let (ledger, keys, mut now) = (open(policies), names(), START);
    let mut lap = || {
        for key in &keys {
            now += 1;
            assert_eq!(take(&ledger, key, now).status, Status::Allowed, "{name}");
        }
    };
    lap();
    count(&format!("memory, {name}, admitted"), LAPS * keys.len(), || {
        (0..LAPS).for_each(|_| lap());
    });
}

/// Takes on known keys under four policies, as JavaScript makes calls with costs by policy.
fn operations(name: &str, cost: &Units) {
    let named = |(number, policy): (usize, Policy)| NamedPolicy {
        name: number.to_string().into(),
        policy,
        key_dimension: 0,
    };
    let policies = [gcra(LIMIT), gcra(LIMIT), fixed_window(LIMIT), fixed_window(LIMIT)];
    let policies = policies.into_iter().enumerate().map(named).collect();
    let (ledger, keys, mut now) =
        (open(PolicySet::multi(policies).expect("names")), names(), START);
    let mut lap = || {
        for key in &keys {
            now += 1;
            let keys = [Some(Key::new(black_box(key)).expect("a legal key"))];
            let take = Operation::Take { cost: black_box(cost).clone() };
            let executed = ledger.execute(&keys, &take, &now).expect("a take");
            assert_eq!(executed.response.decision.status, Status::Allowed, "{name}");
        }
    };
    lap();
    count(&format!("memory, {name}"), LAPS * keys.len(), || (0..LAPS).for_each(|_| lap()));
}

fn refused() {
    const CALLS: usize = 1_000;
    let ledger = open(gcra(1));
    let take = |now| take(&ledger, "user:1234", now).status;
    assert_eq!(take(START), Status::AllowedLast);
    count("memory, gcra, refused", CALLS, || {
        (START + 1..).take(CALLS).for_each(|now| assert_eq!(take(now), Status::Refused));
    });
}

/// New keys, while the tables grow.
fn new_keys() {
    let (ledger, keys) = (open(gcra(LIMIT)), names());
    count("memory, gcra, new key", keys.len(), || {
        for key in &keys {
            assert_eq!(take(&ledger, key, START + HOUR).remaining, LIMIT - 1);
        }
    });
}
