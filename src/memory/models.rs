//! Models of a store that threads share: `npm run models`. Loom runs each in every order in which
//! the threads can run.

use loom::thread;

use super::*;
use crate::algorithm::{FixedWindow, SlidingCounter};
use crate::policy::Policy;
use crate::policy::decision::Status;
use crate::policy::operation::Operation;
use crate::policy::policy_set::NamedPolicy;

const START: Micros = 1_000_000;

/// A store with few shards and capacity.
fn store(shards: usize, max_keys: usize) -> Arc<MemoryStore> {
    Arc::new(MemoryStore {
        seed: LazyLock::new(Box::new(|| (1, 2))),
        shards: (0..shards).map(|_| ShardLock::default()).collect(),
        capacity: Capacity { held: AtomicUsize::new(0), max_keys },
        next_swept: AtomicUsize::new(0),
        prefixes: Mutex::default(),
    })
}

/// A key in a shard.
fn key_in(store: &MemoryStore, shard: usize) -> String {
    let mut texts = (0..).map(|n: u32| n.to_string());
    texts.find(|text| store.shard_index(store.hash_key(Key::new(text).unwrap())) == shard).unwrap()
}

fn window(limit: u64) -> Policy {
    Policy::FixedWindow(FixedWindow::new(limit, 1_000).unwrap())
}

/// Whether a unit is admitted.
fn take(limiter: &MemoryLimiter, text: &str, now: Micros) -> bool {
    let decision = limiter.take(Key::new(text).unwrap(), 1, &now);
    matches!(decision.status, Status::Allowed | Status::AllowedLast)
}

/// The store counts the keys that its shards have, and never more than it may.
fn assert_counted(store: &MemoryStore) {
    let stored: usize = store.shards.iter().map(|shard| locked(&shard.0).stored_keys()).sum();
    assert_eq!(store.held_keys(), stored);
    assert!(stored <= store.max_keys());
}

/// Runs `other` on a thread beside `own`, and returns both results.
fn both<T: 'static>(own: impl FnOnce() -> T, other: impl FnOnce() -> T + 'static) -> [T; 2] {
    let other = thread::spawn(other);
    [own(), other.join().unwrap()]
}

#[test]
fn one_of_two_threads_gets_the_last_unit() {
    loom::model(|| {
        let store = store(1, 1);
        let limiter = Arc::new(store.open("api", window(1)).unwrap());
        let other = Arc::clone(&limiter);
        let admitted = both(|| take(&limiter, "a", START), move || take(&other, "a", START));
        assert_eq!(admitted.iter().filter(|&&admitted| admitted).count(), 1);
        assert_counted(&store);
    });
}

#[test]
fn new_keys_in_several_shards_share_the_capacity() {
    loom::model(|| {
        let store = store(2, 1);
        let limiter = Arc::new(store.open("api", window(1)).unwrap());
        let [here, there] = [0, 1].map(|shard| key_in(&store, shard));
        let other = Arc::clone(&limiter);
        both(|| take(&limiter, &here, START), move || take(&other, &there, START));
        assert_counted(&store);
        assert_eq!(store.held_keys(), 1);
    });
}

/// Both threads have to sweep, their own shard and the other's, while both shards are visited.
#[test]
fn threads_that_sweep_each_others_shards_do_not_wait_for_each_other() {
    loom::model(|| {
        let store = store(2, 8);
        let limiter = Arc::new(store.open("api", window(1)).unwrap());
        let keys = [0, 1].map(|shard| key_in(&store, shard));
        for (text, shard) in keys.iter().zip(&*store.shards) {
            take(&limiter, text, START);
            locked(&shard.0).make_sweep_due();
        }
        let later = START + 5_000_000;
        let ([here, there], other) = (keys, Arc::clone(&limiter));
        let admitted = both(|| take(&limiter, &here, later), move || take(&other, &there, later));
        assert_eq!(admitted, [true, true]);
        assert_counted(&store);
    });
}

/// A limiter with a window of `limits[n]` units for the keys of each dimension n.
fn limiter_of(store: &Arc<MemoryStore>, limits: [u64; 2]) -> Arc<MemoryLimiter> {
    let named = |(key_dimension, limit): (usize, u64)| NamedPolicy {
        name: format!("policy-{key_dimension}").into(),
        policy: window(limit),
        key_dimension,
    };
    let policies = limits.into_iter().enumerate().map(named).collect();
    Arc::new(store.open("api", PolicySet::multi(policies).unwrap()).unwrap())
}

/// The units that an operation charges to two keys.
fn execute(limiter: &MemoryLimiter, texts: [&str; 2], operation: &Operation) -> u64 {
    let keys = texts.map(|text| Some(Key::new(text).unwrap()));
    limiter.execute(&keys, operation, &START).unwrap().units
}

#[test]
fn threads_that_lock_two_shards_in_other_orders_do_not_wait_for_each_other() {
    loom::model(|| {
        let store = store(2, 8);
        let limiter = limiter_of(&store, [1, 1]);
        let [here, there] = [0, 1].map(|shard| key_in(&store, shard));
        let (other, texts) = (Arc::clone(&limiter), [there.clone(), here.clone()]);
        let take = Operation::Take { cost: 1.into() };
        let units =
            both(|| execute(&limiter, [&here, &there], &Operation::Take { cost: 1.into() }), {
                move || execute(&other, texts.each_ref().map(String::as_str), &take)
            });
        assert_eq!(units, [1, 1]);
        assert_counted(&store);
    });
}

/// The second key has a unit for one of the threads only.
#[test]
fn two_keys_are_charged_together_or_not_at_all() {
    loom::model(|| {
        let store = store(2, 8);
        let limiter = limiter_of(&store, [1, 1]);
        let [shared, own] = [0, 1].map(|shard| key_in(&store, shard));
        let (other, others) = (Arc::clone(&limiter), shared.clone());
        let take = Operation::Take { cost: 1.into() };
        let [first, second] =
            both(|| execute(&limiter, [&own, &shared], &Operation::Take { cost: 1.into() }), {
                move || execute(&other, [&others, &others], &take)
            });
        assert_eq!(first + second, 1);
        // The first keys are charged as their calls were.
        let keys = |text| [Some(Key::new(text).unwrap()), None];
        let charged = |text| {
            let peek = Operation::Peek { cost: 0.into() };
            let peeked = limiter.execute(&keys(text), &peek, &START).unwrap();
            1 - peeked.response.decision.remaining
        };
        assert_eq!([charged(&own), charged(&shared)], [first, second]);
        assert_counted(&store);
    });
}

#[test]
fn threads_that_open_a_named_store_get_the_same_one() {
    loom::model(|| {
        let open = || open_named("shared", 10, false, || (1, 2)).unwrap();
        let unit = move || take(&open().open("api", window(1)).unwrap(), "a", START);
        let admitted = both(unit, unit);
        assert_eq!(admitted.iter().filter(|&&admitted| admitted).count(), 1);
        assert!(open_named("shared", 11, false, || (1, 2)).is_err());
    });
}

#[test]
fn a_limiter_that_two_threads_close_is_closed_once() {
    loom::model(|| {
        let store = store(1, 1);
        let limiter = Arc::new(store.open("api", window(1)).unwrap());
        let still_open = store.open("api", window(1)).unwrap();
        let other = Arc::clone(&limiter);
        both(|| limiter.close(), move || other.close());
        let other_kind = || Policy::SlidingCounter(SlidingCounter::new(2, 1_000_000).unwrap());
        assert!(store.open("api", other_kind()).is_err());
        still_open.close();
        assert!(store.open("api", other_kind()).is_ok());
    });
}
