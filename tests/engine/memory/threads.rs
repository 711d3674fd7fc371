//! Many threads on one store: the law holds across them, and exactly the burst is admitted.

use std::collections::HashMap;
use std::sync::Arc;
use std::thread;

use tollgate::clock::{Clock, SystemClock};
use tollgate::key::Key;
use tollgate::memory::{MemoryLimiter, MemoryStore};
use tollgate::policy::Policy;
use tollgate::policy::decision::{Decision, Status};
use tollgate::policy::operation::Operation;
use tollgate::policy::policy_set::{NamedPolicy, PolicySet};

use crate::laws::trace::{Admitted, START, excess_over_rate, most_in_any_window};
use crate::policy::specs::{RateSpec, SECOND, WindowSpec};

const THREADS: usize = 8;
const CALLS: usize = 5_000;

/// Every decision of eight threads on one key.
fn hammered(policy: &Policy, clock: impl Clock + Copy + Send + 'static) -> Vec<Decision> {
    let store = MemoryStore::new(1_000, (5, 6));
    let ledger = Arc::new(store.open("hot", policy.clone()).unwrap());
    let hammer = || {
        let ledger = Arc::clone(&ledger);
        thread::spawn(move || -> Vec<Decision> {
            (0..CALLS).map(|_| ledger.take(Key::new("hot").unwrap(), 1, &clock)).collect()
        })
    };
    let threads: Vec<_> = (0..THREADS).map(|_| hammer()).collect();
    threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
}

fn admitted(decisions: &[Decision]) -> Vec<Admitted> {
    let allowed = decisions
        .iter()
        .filter(|decision| matches!(decision.status, Status::Allowed | Status::AllowedLast));
    let mut trace: Vec<_> = allowed.map(|decision| Admitted { at: decision.at, cost: 1 }).collect();
    trace.sort_by_key(|call| call.at);
    trace
}

#[test]
fn with_the_clock_standing_still_exactly_the_burst_is_admitted() {
    let rate = RateSpec { units: 1_000, period: SECOND, burst: 777 };
    let window = WindowSpec { limit: 777, window: SECOND };
    for policy in [rate.gcra(), rate.token_bucket(), window.policy()] {
        let decisions = hammered(&policy, START);
        assert_eq!(decisions.len(), THREADS * CALLS);
        assert_eq!(admitted(&decisions).len(), 777);
        let last = decisions.iter().filter(|decision| decision.status == Status::AllowedLast);
        assert_eq!(last.count(), 1, "one call took the last unit");
    }
}

#[test]
fn by_the_system_clock_the_law_holds_across_threads() {
    let rate = RateSpec { units: 100_003, period: SECOND, burst: 10 };
    let trace = admitted(&hammered(&rate.gcra(), SystemClock));
    assert!(trace.len() >= 10);
    assert_eq!(excess_over_rate(&trace, rate.units, rate.period, rate.burst), None);

    let window = WindowSpec { limit: 50, window: 1_000 };
    let trace = admitted(&hammered(&window.policy(), SystemClock));
    assert!(trace.len() >= 50);
    assert!(most_in_any_window(&trace, window.window) < 2 * window.limit);
}

/// The limits of each user, of each address, and of all together.
const LIMITS: [u64; 3] = [300, 280, 3_500];
const KEYS: usize = 12;

/// Users and addresses have some keys in common, and so some shards.
fn keys_of(user: usize, address: usize) -> [String; 3] {
    [format!("key {user}"), format!("key {}", address + 3), "all".to_owned()]
}

fn three_subjects() -> MemoryLimiter {
    let named = |(key_dimension, &limit): (usize, &u64)| NamedPolicy {
        name: format!("policy-{key_dimension}").into(),
        policy: WindowSpec { limit, window: SECOND }.policy(),
        key_dimension,
    };
    let policies = PolicySet::multi(LIMITS.iter().enumerate().map(named).collect()).unwrap();
    // A store for 100,000 keys has the maximum number of shards.
    MemoryStore::new(100_000, (5, 6)).open("hot", policies).unwrap()
}

fn execute(ledger: &MemoryLimiter, texts: &[String; 3], operation: &Operation) -> u64 {
    let keys = texts.each_ref().map(|text| Some(Key::new(text).unwrap()));
    ledger.execute(&keys, operation, &START).unwrap().units
}

/// Each thread locks three keys, in any order. Either all are charged or none, and the charged
/// units equal the admitted ones.
#[test]
fn threads_that_lock_several_keys_wait_for_nobody_for_ever_and_count_exactly() {
    let ledger = Arc::new(three_subjects());
    let hammer = |thread: usize| {
        let ledger = Arc::clone(&ledger);
        thread::spawn(move || -> HashMap<[String; 3], u64> {
            let mut taken = HashMap::new();
            for call in 0..CALLS {
                let (user, address) = ((call * 7 + thread) % KEYS, (call * 5 + 3 * thread) % KEYS);
                let texts = keys_of(user, address);
                let units = 1 + u64::try_from(call % 3).unwrap();
                let operation = match call % 5 {
                    0 => Operation::TakeUpTo { units },
                    1 => Operation::Peek { cost: units.into() },
                    _ => Operation::Take { cost: units.into() },
                };
                *taken.entry(texts.clone()).or_default() += execute(&ledger, &texts, &operation);
                if call % 97 == thread {
                    let elsewhere = keys_of(user, address).map(|text| format!("elsewhere {text}"));
                    execute(&ledger, &elsewhere, &Operation::Block { lasting: SECOND });
                    execute(&ledger, &elsewhere, &Operation::Unblock);
                }
            }
            taken
        })
    };
    let threads: Vec<_> = (0..THREADS).map(hammer).collect();
    let mut used: HashMap<(usize, String), u64> = HashMap::new();
    for thread in threads {
        for (texts, units) in thread.join().unwrap() {
            for (key_dimension, text) in texts.into_iter().enumerate() {
                *used.entry((key_dimension, text)).or_default() += units;
            }
        }
    }
    let left = |key_dimension: usize, text: &String| {
        let mut keys = [None; 3];
        keys[key_dimension] = Some(Key::new(text).unwrap());
        let told =
            ledger.execute(&keys, &Operation::Peek { cost: 0.into() }, &START).unwrap().response;
        told.decision.remaining
    };
    for ((key_dimension, text), units) in &used {
        assert_eq!(units + left(*key_dimension, text), LIMITS[*key_dimension], "{text}");
    }
    // Nothing was refunded. So a caller refused at the end was refused by a policy with no units
    // left.
    for (user, address) in (0..KEYS).flat_map(|user| (0..KEYS).map(move |address| (user, address)))
    {
        let texts = keys_of(user, address);
        let some_left =
            texts.iter().enumerate().all(|(key_dimension, text)| left(key_dimension, text) > 0);
        assert_eq!(execute(&ledger, &texts, &Operation::TakeUpTo { units: 1 }) > 0, some_left);
    }
}
