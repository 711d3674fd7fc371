//! The embedded store: states in this process's memory, shared by its threads.
//!
//! Keys are spread over shards by a keyed hash; a decision holds its shard's lock and reads the
//! clock under it. There is no timer: every few decisions a shard looks at its next entries and
//! drops those that are as if never used (see [`shard`]). When `max_keys` keys are held, a
//! newcomer shares one of [`OVERFLOW_CELLS`] overflow cells: memory stays bounded, and no key's
//! spent units are forgotten to make room for another's.

mod desk;
mod ledger;
mod named;
mod shard;
mod table;

pub use desk::Unperformed;
pub use ledger::Ledger;
pub use named::{NameTaken, open_named};

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use siphasher::sip::SipHasher13;

use crate::key::Key;
use crate::policies::Policies;
use crate::store::PrefixTaken;
use crate::store::prefixes::Prefixes;
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
    shards: Box<[Mutex<Shard>]>,
    cells_per_shard: u16,
    room: Room,
    /// The shard that is swept next although nobody visits it.
    turn: AtomicUsize,
    prefixes: Mutex<Prefixes>,
}

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

/// Where a key's state is: its shard, its hash there, and its overflow cell in that shard.
#[derive(Debug, Clone, Copy)]
struct Place {
    hash: u64,
    shard: usize,
    cell: u16,
}

impl Place {
    /// The place for a limiter's policy of the key that has this place in the space 0.
    #[inline(always)]
    fn in_space(self, space: u32) -> Self {
        Self { hash: self.hash ^ u64::from(space).wrapping_mul(SPREAD), ..self }
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
            cells_per_shard: OVERFLOW_CELLS / shards,
            shards: (0..shards).map(|_| Mutex::new(Shard::default())).collect(),
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
        let spaces = locked(&self.prefixes).open(prefix, &policies)?;
        Ok(Ledger::new(Arc::clone(self), prefix, spaces, policies))
    }

    fn close(&self, prefix: &str) {
        locked(&self.prefixes).close(prefix);
    }

    fn place(&self, space: u32, key: Key<'_>) -> Place {
        self.place_of(key).in_space(space)
    }

    /// The place of a key in the space 0.
    fn place_of(&self, key: Key<'_>) -> Place {
        let hasher = SipHasher13::new_with_keys(self.seed.0, self.seed.1);
        let hash = hasher.hash(key.as_str().as_bytes());
        // A key has one shard and one cell number for all limiters on the store. The table inside
        // a shard uses the hash's lowest bits and its topmost seven, so these are taken between.
        // Shards and cells are powers of two.
        Place {
            hash,
            shard: usize::from(sixteen_bits(hash, 24)) & (self.shards.len() - 1),
            cell: sixteen_bits(hash, 40) & (self.cells_per_shard - 1),
        }
    }

    fn shard(&self, place: Place) -> MutexGuard<'_, Shard> {
        locked(&self.shards[place.shard])
    }

    /// Counts a visit to a shard. Every so often it is swept a little, and so is another in turn,
    /// unless someone is using it: also shards that nobody visits any more must empty.
    fn tidy(&self, shard: &mut Shard, now: Micros) {
        if shard.is_due() {
            shard.sweep_some(&self.room, now);
            let turn = self.turn.fetch_add(1, Ordering::Relaxed) & (self.shards.len() - 1);
            if let Ok(mut other) = self.shards[turn].try_lock() {
                other.sweep_some(&self.room, now);
            }
        }
    }
}

/// 2^64 divided by the golden ratio: an odd number whose multiples lie far apart.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

fn sixteen_bits(hash: u64, from: u32) -> u16 {
    let bytes = (hash >> from).to_le_bytes();
    u16::from_le_bytes([bytes[0], bytes[1]])
}

/// Locks, whether or not a thread has panicked under the lock: every state is written whole.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::algorithm::FixedWindow;
    use crate::policy::Policy;

    fn places(store: &MemoryStore, space: u32) -> Vec<Place> {
        let place = |n: u32| store.place(space, Key::new(&n.to_string()).unwrap());
        (0..20_000).map(place).collect()
    }

    #[test]
    fn keys_spread_over_all_shards_and_cells() {
        for (max_keys, shards) in [(1, 1), (1_024, 1), (4_096, 4), (1_000_000, 64)] {
            let store = MemoryStore::new(max_keys, (1, 2));
            let places = places(&store, 0);
            let used: HashSet<_> = places.iter().map(|place| place.shard).collect();
            assert_eq!(used.len(), shards);
            let cells: HashSet<_> = places.iter().map(|place| (place.shard, place.cell)).collect();
            assert_eq!(cells.len(), usize::from(OVERFLOW_CELLS));
        }
    }

    #[test]
    fn a_key_has_one_shard_for_all_limiters_and_its_hash_depends_on_limiter_and_seed() {
        let [store, other] = [(1, 2), (1, 3)].map(|seed| MemoryStore::new(1_000_000, seed));
        let (zero, one) = (places(&store, 0), places(&store, 1));
        assert!(zero.iter().zip(&one).all(|(zero, one)| zero.shard == one.shard));
        assert!(zero.iter().zip(&one).all(|(zero, one)| zero.hash != one.hash));
        let hashes: HashSet<_> = zero.iter().chain(&one).map(|place| place.hash).collect();
        assert_eq!(hashes.len(), 40_000);
        let elsewhere = places(&other, 0);
        assert!(zero.iter().zip(&elsewhere).any(|(here, there)| here.shard != there.shard));
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
        for n in 0..20_000 {
            take(n % 10, 2_000);
        }
        assert_eq!(store.held_keys(), 10);
    }
}
