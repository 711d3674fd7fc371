//! The embedded store: states in this process's memory, shared by its threads.
//!
//! Keys are spread over shards by a keyed hash; a decision holds its shard's lock and reads the
//! clock under it. There is no timer: every few decisions a shard looks at its next entries and
//! drops those that are as if never used (see [`shard`]). When `max_keys` keys are held, a
//! newcomer shares one of [`OVERFLOW_CELLS`] overflow cells: memory stays bounded, and no key's
//! spent units are forgotten to make room for another's.

mod hash_index;
mod limiter_state;
mod named;
mod shard;
mod table;

pub use limiter_state::Ledger;
pub use limiter_state::multi_key::OperationError;
pub use named::{NameTaken, open_named};

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use siphasher::sip::SipHasher13;

use crate::key::Key;
use crate::policy::policy_set::Policies;
use crate::prefixes::{PrefixTaken, Prefixes};
use crate::time::Micros;
use shard::Shard;

/// How many cells the newcomers share, per limiter, once a store is full.
pub const OVERFLOW_CELLS: u16 = 1024;

/// More shards than this gain nothing: a process has fewer threads.
const MOST_SHARDS: u16 = 64;

/// A store with fewer keys per shard than this would fill some shards long before others.
const KEYS_PER_SHARD: usize = 1024;

/// The secret of a store's hash function. Draw it at random: keys are hostile input.
pub type Seed = (u64, u64);

/// Draws a seed when it is first needed: not everywhere are there random numbers at any time.
type Draw = Box<dyn FnOnce() -> Seed + Send>;

/// The embedded store.
#[derive(Debug)]
pub struct MemoryStore {
    seed: LazyLock<Seed, Draw>,
    shards: Box<[Locked]>,
    room: Room,
    /// The shard that is swept next although nobody visits it.
    turn: AtomicUsize,
    prefixes: Mutex<Prefixes>,
}

/// A shard and its lock, on cache lines of its own: processors fetch them in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Locked(Mutex<Shard>);

/// Counts the keys that are held, over all shards.
#[derive(Debug)]
struct Room {
    held: AtomicUsize,
    max_keys: usize,
}

impl Room {
    /// Claims the place of one key.
    fn claim(&self) -> bool {
        let claim = |held| (held < self.max_keys).then_some(held + 1);
        self.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, claim).is_ok()
    }

    /// Gives back the places of `keys` keys.
    fn give_back(&self, keys: usize) {
        self.held.fetch_sub(keys, Ordering::Relaxed);
    }
}

/// Where a key is: a keyed hash of it, that tells its shard, its entry there, and its overflow cell.
///
/// A key has one place, so one shard and one cell number, for all limiters on the store.
#[derive(Debug, Clone, Copy)]
struct Place {
    hash: u32,
}

impl Place {
    /// The number of the key's overflow cell: the hash's lowest bits, for the upper ones are those that a table
    /// searches by.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "there are fewer cells")]
    fn cell(self) -> u16 {
        self.hash as u16 & (OVERFLOW_CELLS - 1)
    }

    /// The number of its shard, of so many: a power of two, of which each has as many of the cells.
    #[inline]
    fn shard(self, shards: usize) -> usize {
        usize::from(self.cell()) & (shards - 1)
    }

    /// The hash of the key in a space: another for each of the policies that count by it.
    #[inline]
    fn in_space(self, space: u32) -> u32 {
        self.hash ^ space.wrapping_mul(SPREAD)
    }

    /// The place of the key that has this hash in a space.
    #[inline]
    fn from_space(space: u32, hash: u32) -> Self {
        Self { hash: hash ^ space.wrapping_mul(SPREAD) }
    }
}

/// A key of a space, at its place.
type Spot<'k> = (u32, Key<'k>, Place);

impl MemoryStore {
    /// A store for at most `max_keys` keys (at least 1).
    #[must_use]
    pub fn new(max_keys: usize, seed: Seed) -> Arc<Self> {
        Self::drawing(max_keys, move || seed)
    }

    /// [`new`](Self::new), with a seed that is drawn when the first key is asked for.
    #[must_use]
    pub fn drawing(max_keys: usize, draw: impl FnOnce() -> Seed + Send + 'static) -> Arc<Self> {
        let max_keys = max_keys.max(1);
        let wanted = u16::try_from(max_keys / KEYS_PER_SHARD).unwrap_or(MOST_SHARDS);
        let shards = wanted.clamp(1, MOST_SHARDS).next_power_of_two();
        Arc::new(Self {
            seed: LazyLock::new(Box::new(draw)),
            shards: (0..shards).map(|_| Locked::default()).collect(),
            room: Room { held: AtomicUsize::new(0), max_keys },
            turn: AtomicUsize::new(0),
            prefixes: Mutex::new(Prefixes::default()),
        })
    }

    /// The most keys that are held apart.
    #[must_use]
    pub fn max_keys(&self) -> usize {
        self.room.max_keys
    }

    /// The number of keys that are held apart now; some may be as if never used.
    #[must_use]
    pub fn held_keys(&self) -> usize {
        self.room.held.load(Ordering::Relaxed)
    }

    /// Opens the ledger of a limiter: the states of its keys, under `prefix`.
    ///
    /// Ledgers of equal prefix and policies share their states. A prefix whose ledgers have all been
    /// dropped may be opened with other numbers: its states are then read as [`crate::algorithm`]
    /// describes for changed numbers.
    ///
    /// # Errors
    /// [`PrefixTaken`] while the prefix is open with different policies.
    pub fn open(
        self: &Arc<Self>,
        prefix: &str,
        policies: impl Into<Policies>,
    ) -> Result<Ledger, PrefixTaken> {
        let policies = policies.into();
        let mut prefixes = locked(&self.prefixes);
        let spaces = prefixes.open(prefix, &policies)?;
        // Those of the first ledger: threads that each had their own numbers would hand the states to and fro between them.
        let policies = prefixes.policies(prefix).cloned().unwrap_or(policies);
        drop(prefixes);
        Ok(Ledger::new(Arc::clone(self), prefix, spaces, policies))
    }

    fn close(&self, prefix: &str) {
        locked(&self.prefixes).close(prefix);
    }

    #[inline]
    fn place(&self, key: Key<'_>) -> Place {
        let hasher = SipHasher13::new_with_keys(self.seed.0, self.seed.1);
        let hash = hasher.hash(key.as_str().as_bytes());
        Place { hash: upper_bits(hash) }
    }

    fn number_of_shard(&self, place: Place) -> usize {
        place.shard(self.shards.len())
    }

    fn shard(&self, place: Place) -> MutexGuard<'_, Shard> {
        locked(&self.shards[self.number_of_shard(place)].0)
    }

    /// Counts a visit to a shard. Every so often it is swept a little, and so is another in turn,
    /// unless someone is using it: also shards that nobody visits any more must empty.
    fn tidy(&self, shard: &mut Shard, now: Micros) {
        if shard.is_due() {
            let mut found = shard.sweep_some(&self.room, now);
            let turn = self.turn.fetch_add(1, Ordering::Relaxed) & (self.shards.len() - 1);
            if let Ok(mut other) = self.shards[turn].0.try_lock() {
                found |= other.sweep_some(&self.room, now);
            }
            if found {
                shard.has_found();
            }
        }
    }
}

/// 2^32 divided by the square root of two: an odd number whose multiples lie far apart.
const SPREAD: u32 = 0xb504_f333;

fn upper_bits(hash: u64) -> u32 {
    (hash >> 32) as u32
}

/// Locks, whether or not a thread has panicked under the lock: every state is written whole.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::algorithm::{FixedWindow, Gcra};
    use crate::policy::Policy;

    fn places(store: &MemoryStore) -> Vec<Place> {
        (0..20_000).map(|n: u32| store.place(Key::new(&n.to_string()).unwrap())).collect()
    }

    #[test]
    fn keys_spread_over_all_shards_and_cells() {
        for (max_keys, shards) in [(1, 1), (1_024, 1), (4_096, 4), (1_000_000, 64)] {
            let store = MemoryStore::new(max_keys, (1, 2));
            let places = places(&store);
            let used: HashSet<_> =
                places.iter().map(|&place| store.number_of_shard(place)).collect();
            assert_eq!(used.len(), shards);
            let cells: HashSet<_> = places.iter().map(|place| place.cell()).collect();
            assert_eq!(cells.len(), usize::from(OVERFLOW_CELLS));
        }
    }

    #[test]
    fn a_keys_hash_depends_on_the_limiter_and_the_seed() {
        let [store, other] = [(1, 2), (1, 3)].map(|seed| MemoryStore::new(1_000_000, seed));
        let (here, elsewhere) = (places(&store), places(&other));
        let hashes: HashSet<_> =
            here.iter().flat_map(|place| [place.in_space(0), place.in_space(1)]).collect();
        assert!(hashes.len() > 39_900, "{}", hashes.len());
        let back = |&place: &Place| Place::from_space(7, place.in_space(7)).hash == place.hash;
        assert!(here.iter().all(back));
        let differ = here.iter().zip(&elsewhere).filter(|(here, other)| here.hash != other.hash);
        assert!(differ.count() > 19_990);
    }

    /// Each key is used once, and is as if never used 20 ms later; known ones are used beside it.
    #[test]
    fn while_keys_come_and_go_the_dead_are_hardly_more_than_the_living() {
        const LIVING: usize = 20_000;
        for visits_of_others in [0, 1, 20] {
            let store = MemoryStore::new(1_000_000, (1, 2));
            let gcra = Policy::Gcra(Gcra::new(1, 20_000, 1).unwrap());
            let ledger = store.open("api", gcra).unwrap();
            let take = |text: &str, now: u64| ledger.take(Key::new(text).unwrap(), 1, &now);
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
        let ledger = store.open("api", policy).unwrap();
        let take = |n: u32, now: u64| ledger.take(Key::new(&n.to_string()).unwrap(), 1, &now);
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
