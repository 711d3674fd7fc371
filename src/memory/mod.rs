//! The embedded store: states in this process's memory, shared by its threads.
//!
//! A keyed hash spreads the keys over shards. A decision holds its shard's lock and reads the clock
//! under it. There is no timer: every few decisions a shard visits its next entries and drops the
//! fresh ones (see `shard.rs`).
//!
//! When the store holds `max_keys` keys, a new key shares one of [`OVERFLOW_BUCKETS`] overflow
//! buckets. So memory stays bounded, and the store never forgets the charged units of one key to
//! make space for another.

mod hash_index;
mod limiter;
#[cfg(tollgate_loom)]
mod models;
mod named;
mod shard;
mod table;

pub use limiter::MemoryLimiter;
pub use limiter::multi_key::OperationError;
pub use named::{NameInUse, open_named};

use std::sync::{Arc, LazyLock, PoisonError};

use siphasher::sip::SipHasher13;

use crate::key::Key;
use crate::policy::policy_set::{InvalidPolicySet, PolicySet};
use crate::prefixes::{Opened, Prefixes};
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Mutex, MutexGuard};
use crate::time::Micros;
use shard::Shard;

/// The number of overflow buckets per namespace that new keys share in a full store.
pub const OVERFLOW_BUCKETS: u16 = 1024;

/// The most shards. A process has fewer threads, so more shards gain nothing.
const MAX_SHARDS: u16 = 64;

/// The fewest keys per shard. With fewer, some shards would fill up long before others.
const KEYS_PER_SHARD: usize = 1024;

/// The secret of a store's hash function. Choose it at random: keys are hostile input.
pub type Seed = (u64, u64);

/// Returns the seed when it is first needed: some platforms have no random numbers earlier.
type SeedSource = Box<dyn FnOnce() -> Seed + Send>;

/// The embedded store.
///
/// # Examples
/// ```
/// use tollgate::{algorithm::FixedWindow, clock::SystemClock, key::Key};
/// use tollgate::{memory::MemoryStore, policy::Policy};
/// let store = MemoryStore::new(10_000, (1, 2)); // a program draws the seed at random
/// let hourly = Policy::FixedWindow(FixedWindow::new(100, 3_600_000_000).unwrap());
/// let limiter = store.open("api", hourly).unwrap();
/// let decision = limiter.take(Key::new("user:42").unwrap(), 1, &SystemClock);
/// assert_eq!(decision.remaining, 99);
/// ```
#[derive(Debug)]
pub struct MemoryStore {
    seed: LazyLock<Seed, SeedSource>,
    shards: Box<[ShardLock]>,
    capacity: Capacity,
    /// The next shard to sweep even if no call visits it.
    next_swept: AtomicUsize,
    prefixes: Mutex<Prefixes>,
}

/// A shard and its lock, aligned to two cache lines because processors fetch them in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct ShardLock(Mutex<Shard>);

/// The number of stored keys over all shards, and its limit.
#[derive(Debug)]
struct Capacity {
    held: AtomicUsize,
    max_keys: usize,
}

impl Capacity {
    /// Claims capacity for one key, and returns whether there was any.
    fn claim(&self) -> bool {
        let claim = |held| (held < self.max_keys).then_some(held + 1);
        self.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, claim).is_ok()
    }

    /// Releases the capacity of `keys` keys.
    fn release(&self, keys: usize) {
        self.held.fetch_sub(keys, Ordering::Relaxed);
    }
}

/// The keyed hash of a key. It determines the key's shard, its place in the shard's index, and its
/// overflow bucket.
///
/// A key has one hash, and so one shard and one bucket number, for all limiters on the store.
#[derive(Debug, Clone, Copy)]
struct KeyHash {
    hash: u32,
}

impl KeyHash {
    /// The number of the key's overflow bucket: the lowest bits of the hash. The upper bits are
    /// those that a table searches by.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "there are fewer overflow buckets")]
    fn overflow_bucket(self) -> u16 {
        self.hash as u16 & (OVERFLOW_BUCKETS - 1)
    }

    /// The number of the key's shard. `shards` is a power of two, so each shard has the same number
    /// of buckets.
    #[inline]
    fn shard(self, shards: usize) -> usize {
        usize::from(self.overflow_bucket()) & (shards - 1)
    }

    /// The hash of the key in a namespace. It differs between the policies that count by the key.
    #[inline]
    fn in_namespace(self, namespace: u32) -> u32 {
        self.hash ^ namespace.wrapping_mul(SPREAD)
    }

    /// The inverse of [`in_namespace`](Self::in_namespace).
    #[inline]
    fn from_namespace(namespace: u32, hash: u32) -> Self {
        Self { hash: hash ^ namespace.wrapping_mul(SPREAD) }
    }
}

/// The number of a namespace, a key, and the key's hash.
type KeyRef<'k> = (u32, Key<'k>, KeyHash);

impl MemoryStore {
    /// A store for at most `max_keys` keys (at least 1).
    #[must_use]
    pub fn new(max_keys: usize, seed: Seed) -> Arc<Self> {
        Self::with_seed_source(max_keys, move || seed)
    }

    /// [`new`](Self::new), with a seed that is requested at the first use of a key.
    #[must_use]
    pub fn with_seed_source(
        max_keys: usize,
        seed_source: impl FnOnce() -> Seed + Send + 'static,
    ) -> Arc<Self> {
        let max_keys = max_keys.max(1);
        let needed = u16::try_from(max_keys / KEYS_PER_SHARD).unwrap_or(MAX_SHARDS);
        let shards = needed.clamp(1, MAX_SHARDS).next_power_of_two();
        Arc::new(Self {
            seed: LazyLock::new(Box::new(seed_source)),
            shards: (0..shards).map(|_| ShardLock::default()).collect(),
            capacity: Capacity { held: AtomicUsize::new(0), max_keys },
            next_swept: AtomicUsize::new(0),
            prefixes: Mutex::new(Prefixes::default()),
        })
    }

    /// The most keys that are stored separately.
    #[must_use]
    pub fn max_keys(&self) -> usize {
        self.capacity.max_keys
    }

    /// The number of keys that are stored separately now. Some of them may be fresh.
    #[must_use]
    pub fn held_keys(&self) -> usize {
        self.capacity.held.load(Ordering::Relaxed)
    }

    /// The number of stored entries, counted shard by shard. While no call is under way, it equals
    /// [`held_keys`](Self::held_keys): every entry holds the capacity of one key.
    #[must_use]
    pub fn stored_keys(&self) -> usize {
        self.shards.iter().map(|shard| locked(&shard.0).stored_keys()).sum()
    }

    /// Opens a limiter: the states of its keys under `prefix`.
    ///
    /// Limiters of one prefix share their states. With other numbers they read the states of each other as
    /// [`crate::algorithm`] describes for changed numbers.
    ///
    /// # Errors
    /// [`InvalidPolicySet`] while the prefix is open with policies that differ in more than numbers.
    pub fn open(
        self: &Arc<Self>,
        prefix: &str,
        policies: impl Into<PolicySet>,
    ) -> Result<MemoryLimiter, InvalidPolicySet> {
        let policies = policies.into();
        let mut prefixes = locked(&self.prefixes);
        let Opened { namespaces, has_other_numbers } = prefixes.open(prefix, &policies)?;
        // All limiters with equal numbers use the same policies. With copies of their own, threads would
        // replace the shared numbers of the states in turn.
        let policies = prefixes.policies(prefix).cloned().unwrap_or(policies);
        drop(prefixes);
        Ok(MemoryLimiter::new(Arc::clone(self), prefix, namespaces, policies, has_other_numbers))
    }

    fn close(&self, prefix: &str) {
        locked(&self.prefixes).close(prefix);
    }

    #[inline]
    fn hash_key(&self, key: Key<'_>) -> KeyHash {
        let hasher = SipHasher13::new_with_keys(self.seed.0, self.seed.1);
        let hash = hasher.hash(key.as_str().as_bytes());
        KeyHash { hash: upper_bits(hash) }
    }

    fn shard_index(&self, hash: KeyHash) -> usize {
        hash.shard(self.shards.len())
    }

    fn shard(&self, hash: KeyHash) -> MutexGuard<'_, Shard> {
        locked(&self.shards[self.shard_index(hash)].0)
    }

    /// Counts a visit to a shard. Every few visits, it sweeps a few entries of this shard and of
    /// the next shard in turn, unless that one is locked: shards without visits must empty too.
    fn maybe_sweep(&self, shard: &mut Shard, now: Micros) {
        if shard.sweep_is_due() {
            let mut found = shard.sweep_some(&self.capacity, now);
            let next_swept =
                self.next_swept.fetch_add(1, Ordering::Relaxed) & (self.shards.len() - 1);
            if let Ok(mut other) = self.shards[next_swept].0.try_lock() {
                found |= other.sweep_some(&self.capacity, now);
            }
            if found {
                shard.sweep_again_soon();
            }
        }
    }
}

/// 2^32 divided by the square root of two: an odd number whose multiples are far apart.
const SPREAD: u32 = 0xb504_f333;

fn upper_bits(hash: u64) -> u32 {
    (hash >> 32) as u32
}

/// Locks a mutex even if a thread has panicked while holding it: every state is written as a whole.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::algorithm::{FixedWindow, Gcra};
    use crate::policy::Policy;

    fn hashes(store: &MemoryStore) -> Vec<KeyHash> {
        (0..20_000).map(|n: u32| store.hash_key(Key::new(&n.to_string()).unwrap())).collect()
    }

    #[test]
    fn keys_spread_over_all_shards_and_overflow_buckets() {
        for (max_keys, shards) in [(1, 1), (1_024, 1), (4_096, 4), (1_000_000, 64)] {
            let store = MemoryStore::new(max_keys, (1, 2));
            let hashes = hashes(&store);
            let used: HashSet<_> = hashes.iter().map(|&hash| store.shard_index(hash)).collect();
            assert_eq!(used.len(), shards);
            let overflow: HashSet<_> = hashes.iter().map(|hash| hash.overflow_bucket()).collect();
            assert_eq!(overflow.len(), usize::from(OVERFLOW_BUCKETS));
        }
    }

    #[test]
    fn a_keys_hash_depends_on_the_limiter_and_the_seed() {
        let [store, other] = [(1, 2), (1, 3)].map(|seed| MemoryStore::new(1_000_000, seed));
        let (here, elsewhere) = (hashes(&store), hashes(&other));
        let hashes: HashSet<_> =
            here.iter().flat_map(|hash| [hash.in_namespace(0), hash.in_namespace(1)]).collect();
        assert!(hashes.len() > 39_900, "{}", hashes.len());
        let back =
            |&hash: &KeyHash| KeyHash::from_namespace(7, hash.in_namespace(7)).hash == hash.hash;
        assert!(here.iter().all(back));
        let differ = here.iter().zip(&elsewhere).filter(|(here, other)| here.hash != other.hash);
        assert!(differ.count() > 19_990);
    }

    /// Each key is used once and is fresh 20 ms later, while a few other keys are used all the
    /// time.
    #[test]
    fn while_keys_come_and_go_the_dead_are_hardly_more_than_the_living() {
        const LIVING: usize = 20_000;
        for visits_of_others in [0, 1, 20] {
            let store = MemoryStore::new(1_000_000, (1, 2));
            let gcra = Policy::Gcra(Gcra::new(1, 20_000, 1).unwrap());
            let limiter = store.open("api", gcra).unwrap();
            let take = |text: &str, now: u64| limiter.take(Key::new(text).unwrap(), 1, &now);
            let mut most = 0;
            for n in 0..200_000 {
                take(&n.to_string(), n);
                for other in 0..visits_of_others {
                    take(["a", "b", "c"][other % 3], n);
                }
                most = most.max(store.held_keys());
            }
            assert!(most < 9 * LIVING / 4, "{most}, {visits_of_others}");
        }
    }

    #[test]
    fn keys_are_counted_and_dropped_as_others_are_used() {
        let store = MemoryStore::new(100_000, (1, 2));
        let policy = Policy::FixedWindow(FixedWindow::new(1, 1_000).unwrap());
        let limiter = store.open("api", policy).unwrap();
        let take = |n: u32, now: u64| limiter.take(Key::new(&n.to_string()).unwrap(), 1, &now);
        for n in 0..5_000 {
            take(n, 0);
        }
        assert_eq!(store.held_keys(), 5_000);
        for n in 0..60_000 {
            take(n % 10, 2_000);
        }
        assert_eq!(store.held_keys(), 10);
    }
}
