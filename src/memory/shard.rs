//! One shard: the states of a part of the keys, and the sweep that drops fresh ones.
//!
//! A cursor walks over each [table](Table) of a shard and drops the fresh entries. Visits pay for
//! the sweep: while keys come and go at a steady rate, dead entries never outnumber live ones by
//! much.

use std::mem;

use super::table::{PrefetchHint, StoredKey, Table};
use super::{Capacity, KeyRef};
use crate::algorithm::KeyState as _;
#[cfg(test)]
use crate::algorithm::WindowState;
use crate::policy::State;
use crate::policy::execute::KeyMetadata;
use crate::time::Micros;

/// The debt at which a visit sweeps. Every visit adds 1 to it.
const SWEEP_DEBT_LIMIT: u32 = 256;

/// The additional debt of a visit that adds a new key.
const SWEEP_DEBT_OF_NEW_KEY: u32 = 3;

/// The debt after a sweep that dropped an entry. Another sweep then follows soon, and every visit
/// pays for one entry.
const SWEEP_DEBT_AFTER_DROP: u32 = 192;

/// The entries that a sweep visits: one for each new key, and as many in another shard.
const ENTRIES_PER_SWEEP: usize = 64;

/// The entries that a sweep visits before a new key in a full store goes to an overflow bucket.
const ENTRIES_SWEPT_WHEN_FULL: usize = 32;

/// Marks an entry whose state has been taken out.
const TOMBSTONE: State = State::NONE;

/// The shared state of the keys for which the store had no capacity.
#[derive(Debug)]
struct OverflowBucket {
    /// The namespace, and the number of the bucket.
    name: (u32, u16),
    state: State,
    /// The last time at which the bucket was fresh.
    began: Micros,
}

/// The state of a key in a shard.
pub(super) enum StateEntry<'a> {
    /// The key's own state, to change in place.
    Occupied(&'a mut State),
    /// The key has no entry yet. The units charged while the store had no capacity are in its
    /// overflow bucket, and still count.
    Vacant(Option<State>),
}

/// The order of the fields matters. Every visit writes to the first one, which is next to the lock.
/// So a thread that visits a shard after another thread waits for only one cache line of it.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct Shard {
    sweep_debt: u32,
    entries: Table<State>,
    /// Blocks, overrides, bans, holds and remembered calls, which few keys have.
    metadata: Table<KeyMetadata>,
    /// Sorted by name. The list is short because the buckets are spread over the shards.
    overflow: Vec<OverflowBucket>,
}

impl Shard {
    /// Finds the probable entry of a key. Call it before reading the clock: see
    /// [`Table::prefetch`].
    #[inline(always)]
    pub(super) fn prefetch(&mut self, key_ref: KeyRef<'_>) -> PrefetchHint {
        self.entries.prefetch(key_ref)
    }

    /// The state of a key, or of its overflow bucket.
    #[inline(always)]
    pub(super) fn find(
        &mut self,
        key_ref: KeyRef<'_>,
        hint: PrefetchHint,
        now: Micros,
    ) -> StateEntry<'_> {
        match self.entry_index(key_ref, hint) {
            Some(index) => StateEntry::Occupied(self.state(index)),
            None => StateEntry::Vacant(self.overflow_bucket(key_ref, now)),
        }
    }

    /// The index of the key's own entry, if it has one. It is valid until the shard is changed by
    /// anything but [`state`](Self::state).
    #[inline(always)]
    pub(super) fn entry_index(&self, key_ref: KeyRef<'_>, hint: PrefetchHint) -> Option<usize> {
        self.entries.index_with_hint(hint, key_ref)
    }

    /// The state at an [`entry_index`](Self::entry_index).
    #[inline]
    pub(super) fn state(&mut self, index: usize) -> &mut State {
        self.entries.value_at(index)
    }

    /// Whether a key has an entry of its own.
    pub(super) fn has_entry(&self, key_ref: KeyRef<'_>) -> bool {
        self.entries.index(key_ref).is_some()
    }

    /// Takes a key's state out of its entry, so that several states can be changed at a time. Until
    /// it is [put back](Self::put_back), the shard must not be used otherwise.
    pub(super) fn take_out(&mut self, key_ref: KeyRef<'_>) -> Option<(usize, State)> {
        let index = self.entries.index(key_ref)?;
        Some((index, mem::replace(self.entries.value_at(index), TOMBSTONE)))
    }

    /// Puts back a state that was [taken out](Self::take_out).
    pub(super) fn put_back(&mut self, index: usize, state: State) {
        *self.entries.value_at(index) = state;
    }

    /// Stores the state of a key without an entry: in a new entry, or in the overflow bucket of a
    /// full store.
    pub(super) fn admit(
        &mut self,
        key_ref: KeyRef<'_>,
        state: State,
        capacity: &Capacity,
        now: Micros,
    ) {
        if self.claim_or_sweep(capacity, now) {
            self.sweep_debt += SWEEP_DEBT_OF_NEW_KEY;
            self.entries.put(key_ref, state);
        } else {
            let (namespace, _, hash) = key_ref;
            let name = (namespace, hash.overflow_bucket());
            let index = find(&self.overflow, name).unwrap_or_else(|index| {
                self.overflow
                    .insert(index, OverflowBucket { name, state: state.clone(), began: now });
                index
            });
            let bucket = &mut self.overflow[index];
            if bucket.state.reset_at() <= now {
                bucket.began = now;
            }
            bucket.state = state;
        }
    }

    /// The entries of both tables. Each of them holds capacity for one key.
    pub(super) fn stored_keys(&self) -> usize {
        self.entries.len() + self.metadata.len()
    }

    /// Whether any key has a block or an override.
    #[inline]
    pub(super) fn has_metadata(&self) -> bool {
        self.metadata.len() > 0
    }

    /// The block and the override of a key.
    pub(super) fn metadata(&self, key_ref: KeyRef<'_>) -> Option<&KeyMetadata> {
        self.metadata.get(key_ref)
    }

    /// Takes a key's metadata out of its entry: a copy of many holds and calls would take time. Until it is
    /// put back or [kept](Self::keep_metadata), the entry has metadata that no sweep drops.
    pub(super) fn take_metadata(&mut self, key_ref: KeyRef<'_>) -> Option<KeyMetadata> {
        let index = self.metadata.index(key_ref)?;
        let taken_out = KeyMetadata { blocked_until: Micros::MAX, ..KeyMetadata::default() };
        Some(mem::replace(self.metadata.value_at(index), taken_out))
    }

    /// Puts back metadata that was [taken out](Self::take_metadata).
    pub(super) fn put_back_metadata(&mut self, key_ref: KeyRef<'_>, metadata: KeyMetadata) {
        self.metadata.put(key_ref, metadata);
    }

    /// Stores the block, the override, the bans, the holds and the remembered calls of a key, unless
    /// there are none. `claimed` says whether capacity was claimed for them.
    pub(super) fn keep_metadata(
        &mut self,
        key_ref: KeyRef<'_>,
        metadata: KeyMetadata,
        claimed: bool,
        capacity: &Capacity,
    ) {
        let had = self.metadata.get(key_ref).is_some();
        let has = (had || claimed) && !metadata.is_empty();
        if has {
            self.metadata.put(key_ref, metadata);
        } else {
            self.metadata.remove(key_ref);
        }
        let rooms = usize::from(had) + usize::from(claimed);
        capacity.release(rooms.saturating_sub(usize::from(has)));
    }

    /// Counts a visit, unless this visit has to sweep. Returns whether it was counted.
    pub(super) fn count_visit(&mut self) -> bool {
        let counts = self.sweep_debt + 1 < SWEEP_DEBT_LIMIT;
        self.sweep_debt += u32::from(counts);
        counts
    }

    /// Counts a visit, and returns whether it has to sweep.
    pub(super) fn sweep_is_due(&mut self) -> bool {
        if self.count_visit() {
            return false;
        }
        self.sweep_debt = 0;
        true
    }

    /// Records that a sweep dropped an entry in this or the other shard: there may be more.
    pub(super) fn sweep_again_soon(&mut self) {
        self.sweep_debt = SWEEP_DEBT_AFTER_DROP;
    }

    /// Sweeps the next entries. Returns whether any were dropped.
    pub(super) fn sweep_some(&mut self, capacity: &Capacity, now: Micros) -> bool {
        self.sweep(ENTRIES_PER_SWEEP, capacity, now)
    }

    /// The state of a key's overflow bucket, unless it is fresh.
    pub(super) fn overflow_bucket(
        &self,
        (namespace, _, hash): KeyRef<'_>,
        now: Micros,
    ) -> Option<State> {
        if self.overflow.is_empty() {
            return None;
        }
        let bucket =
            &self.overflow[find(&self.overflow, (namespace, hash.overflow_bucket())).ok()?];
        (bucket.state.reset_at() > now).then(|| bucket.state.clone())
    }

    /// Claims capacity for one more key. If there is none, it sweeps and tries again.
    pub(super) fn claim_or_sweep(&mut self, capacity: &Capacity, now: Micros) -> bool {
        if capacity.claim() {
            return true;
        }
        self.sweep(ENTRIES_SWEPT_WHEN_FULL, capacity, now);
        capacity.claim()
    }

    /// Sweeps up to `steps` entries of each table: drops the fresh ones. Returns whether there were
    /// any.
    fn sweep(&mut self, steps: usize, capacity: &Capacity, now: Micros) -> bool {
        let can_drop = |key: &StoredKey, state: &State| can_drop(&self.overflow, key, state, now);
        let states = self.entries.sweep(steps, can_drop);
        if states.finished {
            self.overflow.retain(|bucket| bucket.state.reset_at() > now);
        }
        let metadata = self.metadata.sweep(steps, |_, metadata| metadata.end() <= now);
        let dropped = states.dropped + metadata.dropped;
        capacity.release(dropped);
        dropped > 0
    }
}

#[cfg(tollgate_loom)]
impl Shard {
    pub(super) fn make_sweep_due(&mut self) {
        self.sweep_debt = SWEEP_DEBT_LIMIT;
    }
}

/// Whether an entry can be dropped without any effect on decisions.
///
/// A key without an entry may have to share an overflow bucket. If that bucket's window was opened
/// before the key's own window ended, the key could use three windows within the length of one.
fn can_drop(overflow: &[OverflowBucket], key: &StoredKey, state: &State, now: Micros) -> bool {
    let reset_at = state.reset_at();
    let began_earlier =
        |bucket: &OverflowBucket| bucket.state.reset_at() > now && bucket.began < reset_at;
    reset_at <= now
        && (overflow.is_empty()
            || state.drains()
            || !find(overflow, (key.namespace, key.overflow_bucket()))
                .is_ok_and(|index| began_earlier(&overflow[index])))
}

/// The index of a bucket, or the index at which to insert it.
fn find(overflow: &[OverflowBucket], name: (u32, u16)) -> Result<usize, usize> {
    overflow.binary_search_by_key(&name, |bucket| bucket.name)
}

#[cfg(test)]
mod tests {
    use super::super::KeyHash;
    use super::*;
    use crate::algorithm::{Algorithm as _, Gcra};
    use crate::key::Key;
    use crate::policy::Policy;

    fn key_hash(hash: u32) -> KeyHash {
        // All keys share one bucket.
        KeyHash { hash: hash << 10 }
    }

    fn until(ends_ms: u64) -> State {
        State::Window(WindowState { ends_ms, count: 1 })
    }

    fn capacity(max_keys: usize) -> Capacity {
        Capacity { held: 0.into(), max_keys }
    }

    fn put(shard: &mut Shard, capacity: &Capacity, text: &str, hash: u32, state: State) {
        shard.admit((0, Key::new(text).unwrap(), key_hash(hash)), state, capacity, 0);
    }

    fn own(shard: &mut Shard, text: &str, hash: u32) -> Option<State> {
        let key_ref = (0, Key::new(text).unwrap(), key_hash(hash));
        let hint = shard.prefetch(key_ref);
        match shard.find(key_ref, hint, 0) {
            StateEntry::Occupied(state) => Some(state.clone()),
            StateEntry::Vacant(_) => None,
        }
    }

    fn shared(shard: &mut Shard, text: &str, hash: u32, now: Micros) -> Option<State> {
        let key_ref = (0, Key::new(text).unwrap(), key_hash(hash));
        let hint = shard.prefetch(key_ref);
        match shard.find(key_ref, hint, now) {
            StateEntry::Occupied(_) => panic!("{text} has an entry"),
            StateEntry::Vacant(state) => state,
        }
    }

    #[test]
    fn a_sweep_drops_fresh_entries_only() {
        let (mut shard, capacity) = (Shard::default(), capacity(100));
        for n in 0..100_u32 {
            put(&mut shard, &capacity, &n.to_string(), n, until(if n % 3 == 0 { 5 } else { 50 }));
        }
        shard.sweep(100, &capacity, 5_000);
        shard.sweep(100, &capacity, 5_000);
        assert_eq!(shard.entries.len(), 66);
        assert_eq!(capacity.held.load(std::sync::atomic::Ordering::Relaxed), 66);
        for n in 0..100_u32 {
            assert_eq!(own(&mut shard, &n.to_string(), n).is_some(), n % 3 != 0, "{n}");
        }
    }

    #[test]
    fn a_new_key_in_a_full_store_shares_a_bucket_and_keeps_its_units() {
        let (mut shard, capacity) = (Shard::default(), capacity(1));
        put(&mut shard, &capacity, "resident", 1, until(50));
        put(&mut shard, &capacity, "newcomer", 2, until(60));
        assert_eq!(shared(&mut shard, "newcomer", 2, 0), Some(until(60)));
        assert_eq!(shared(&mut shard, "other", 3, 0), Some(until(60)), "the bucket is shared");
        assert_eq!(shared(&mut shard, "other", 3, 60_000), None, "until it is fresh");
    }

    /// Found by a random trace: five units at the end of the key's own window, at the end of a
    /// shared one and in the next one, all within one window's length.
    #[test]
    fn a_key_whose_bucket_began_earlier_keeps_its_entry() {
        let (mut shard, capacity) = (Shard::default(), capacity(1));
        let newcomer = (0, Key::new("newcomer").unwrap(), key_hash(2));
        put(&mut shard, &capacity, "resident", 1, until(10));
        shard.admit(newcomer, until(15), &capacity, 5_000);
        shard.sweep(1, &capacity, 10_000);
        shard.sweep(1, &capacity, 10_000);
        assert_eq!(own(&mut shard, "resident", 1), Some(until(10)), "the bucket began at 5 ms");
        shard.admit(newcomer, until(25), &capacity, 15_000);
        shard.sweep(1, &capacity, 15_000);
        assert_eq!(own(&mut shard, "resident", 1), None, "the shared window has ended");
    }

    #[test]
    fn a_bucket_that_begins_again_lets_fresh_entries_be_dropped() {
        let (mut shard, capacity) = (Shard::default(), capacity(200));
        for n in 0..200_u32 {
            put(&mut shard, &capacity, &n.to_string(), n, until(if n == 150 { 14 } else { 100 }));
        }
        let newcomer = (0, Key::new("newcomer").unwrap(), key_hash(999));
        shard.admit(newcomer, until(15), &capacity, 5_000);
        // The sweep visits only a few entries, so it does not reach the fresh one.
        shard.admit(newcomer, until(25), &capacity, 15_000);
        shard.sweep(200, &capacity, 16_000);
        assert_eq!(own(&mut shard, "150", 150), None);
        assert_eq!(own(&mut shard, "149", 149), Some(until(100)));
    }

    #[test]
    fn a_rate_has_drained_and_may_join_any_bucket() {
        let (mut shard, capacity) = (Shard::default(), capacity(1));
        let gcra = Policy::Gcra(Gcra::new(1, 10_000, 1).unwrap());
        let charged = |now| {
            let mut state = gcra.initial_state();
            gcra.charge(&mut state, now, 1);
            state
        };
        put(&mut shard, &capacity, "resident", 1, charged(0));
        shard.admit(
            (0, Key::new("newcomer").unwrap(), key_hash(2)),
            charged(5_000),
            &capacity,
            5_000,
        );
        // The cursor is after the last entry, so one step moves it back to the first.
        shard.sweep(1, &capacity, 10_000);
        shard.sweep(1, &capacity, 10_000);
        assert_eq!(own(&mut shard, "resident", 1), None);
    }

    #[test]
    fn a_new_key_takes_the_capacity_of_a_fresh_one() {
        let (mut shard, capacity) = (Shard::default(), capacity(1));
        put(&mut shard, &capacity, "resident", 1, until(0));
        put(&mut shard, &capacity, "newcomer", 2, until(60));
        assert_eq!(own(&mut shard, "newcomer", 2), Some(until(60)));
        assert_eq!(own(&mut shard, "resident", 1), None);
    }

    fn blocked_until(end: Micros) -> KeyMetadata {
        KeyMetadata { blocked_until: end, ..KeyMetadata::default() }
    }

    #[test]
    fn extras_count_as_keys_and_are_dropped_when_they_have_ended() {
        let (mut shard, capacity) = (Shard::default(), capacity(9));
        let held = |capacity: &Capacity| capacity.held.load(std::sync::atomic::Ordering::Relaxed);
        let key_ref = (0, Key::new("a").unwrap(), key_hash(1));
        assert!(!shard.has_metadata());
        assert!(shard.claim_or_sweep(&capacity, 0));
        shard.keep_metadata(key_ref, blocked_until(5), true, &capacity);
        assert_eq!((shard.metadata(key_ref), held(&capacity)), (Some(&blocked_until(5)), 1));
        shard.keep_metadata(key_ref, blocked_until(9), false, &capacity);
        assert_eq!((shard.metadata(key_ref), held(&capacity)), (Some(&blocked_until(9)), 1));
        shard.sweep(9, &capacity, 8);
        assert_eq!(held(&capacity), 1);
        shard.sweep(9, &capacity, 9);
        shard.sweep(9, &capacity, 9);
        assert_eq!((shard.metadata(key_ref), held(&capacity)), (None, 0));

        // Capacity was claimed, and nothing is left to store, with and without earlier metadata.
        assert!(shard.claim_or_sweep(&capacity, 9));
        shard.keep_metadata(key_ref, blocked_until(0), true, &capacity);
        assert_eq!((shard.has_metadata(), held(&capacity)), (false, 0));
        assert!(shard.claim_or_sweep(&capacity, 9));
        shard.keep_metadata(key_ref, blocked_until(12), true, &capacity);
        shard.keep_metadata(key_ref, blocked_until(0), false, &capacity);
        assert_eq!((shard.has_metadata(), held(&capacity)), (false, 0));
    }

    #[test]
    fn a_state_taken_out_is_put_back_into_its_entry() {
        let (mut shard, capacity) = (Shard::default(), capacity(9));
        put(&mut shard, &capacity, "a", 1, until(5));
        put(&mut shard, &capacity, "b", 2, until(6));
        let taken_out = ["a", "b", "c"].map(|text| {
            let hash = u32::from(text.as_bytes()[0] - b'a' + 1);
            shard.take_out((0, Key::new(text).unwrap(), key_hash(hash)))
        });
        let [Some((a, five)), Some((b, six)), None] = taken_out else { panic!("{taken_out:?}") };
        assert_eq!((&five, &six), (&until(5), &until(6)));
        shard.put_back(a, until(7));
        shard.put_back(b, six);
        assert_eq!(own(&mut shard, "a", 1), Some(until(7)));
        assert_eq!(own(&mut shard, "b", 2), Some(until(6)));
    }
}
