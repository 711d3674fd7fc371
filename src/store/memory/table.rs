//! A table of what is kept by key, over which a hand walks.
//!
//! The entries lie in a dense array under a hash table, so a hand can walk over them in any number
//! of small steps, and drop what need not be kept.

#[cfg(not(feature = "wasm"))]
use compact_str::CompactString as Text;
use indexmap::IndexMap;
use indexmap::map::RawEntryApiV1;
use indexmap::map::raw_entry_v1::RawEntryMut;

use super::{Place, Spot};

/// Of 32 bits, a string that needs no allocation is too short for most keys.
#[cfg(feature = "wasm")]
type Text = Box<str>;

/// A table with so many times more room than keys gives memory back.
const SLACK: usize = 4;

/// Below this a table is too small to be worth shrinking.
const SMALL: usize = 1024;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct OwnedKey {
    pub(super) space: u32,
    /// Where the key counts when it has no entry.
    pub(super) cell: u16,
    text: Text,
}

#[derive(Debug)]
pub(super) struct Table<T> {
    /// Hashes come from the store, so the map needs no hasher.
    entries: IndexMap<OwnedKey, T, ()>,
    hand: usize,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { entries: IndexMap::default(), hand: 0 }
    }
}

/// What the hand has done.
#[derive(Debug, Default)]
pub(super) struct Swept {
    /// So many entries it has dropped.
    pub(super) dropped: usize,
    /// Whether it has come to the end of the table.
    pub(super) finished: bool,
}

impl<T> Table<T> {
    /// The number of keys.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Where the entry of a key is now: until something is added, removed or swept.
    // Not copied into its callers: then the search itself is not called once more (3 ns).
    #[inline(never)]
    pub(super) fn index(&self, (space, key, place): Spot<'_>) -> Option<usize> {
        let is_key = |held: &OwnedKey| held.space == space && *held.text == *key.as_str();
        self.entries.raw_entry_v1().index_from_hash(place.hash, is_key)
    }

    /// The entry at an [`index`](Self::index).
    #[inline]
    pub(super) fn at(&mut self, index: usize) -> &mut T {
        &mut self.entries[index]
    }

    /// What is kept of a key.
    pub(super) fn get(&self, spot: Spot<'_>) -> Option<&T> {
        self.index(spot).map(|index| &self.entries[index])
    }

    /// Keeps something of a key, in place of what was kept.
    pub(super) fn put(&mut self, (space, key, place): Spot<'_>, value: T) {
        let Place { hash, cell, .. } = place;
        let key = OwnedKey { space, cell, text: key.as_str().into() };
        match self.entries.raw_entry_mut_v1().from_hash(hash, |held| *held == key) {
            RawEntryMut::Occupied(mut entry) => *entry.get_mut() = value,
            RawEntryMut::Vacant(entry) => {
                entry.insert_hashed_nocheck(hash, key, value);
            }
        }
    }

    /// Keeps nothing of a key.
    pub(super) fn remove(&mut self, spot: Spot<'_>) {
        if let Some(index) = self.index(spot) {
            self.entries.swap_remove_index(index);
        }
    }

    /// Moves the hand over up to `steps` entries and drops those that need not be kept.
    pub(super) fn sweep(
        &mut self,
        steps: usize,
        can_drop: impl Fn(&OwnedKey, &T) -> bool,
    ) -> Swept {
        let mut swept = Swept::default();
        for _ in 0..steps.min(self.entries.len()) {
            let Some((key, value)) = self.entries.get_index(self.hand) else {
                self.hand = 0;
                self.finish_round();
                swept.finished = true;
                continue;
            };
            if can_drop(key, value) {
                // The last entry takes its place, and is looked at next.
                self.entries.swap_remove_index(self.hand);
                swept.dropped += 1;
            } else {
                self.hand += 1;
            }
        }
        swept
    }

    fn finish_round(&mut self) {
        if self.entries.capacity() > SLACK * self.entries.len().max(SMALL) {
            self.entries.shrink_to(2 * self.entries.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Key;

    fn spot(text: &str, hash: u64) -> Spot<'_> {
        (0, Key::new(text).unwrap(), Place { hash, shard: 0, cell: 0 })
    }

    #[test]
    fn equal_hashes_are_told_apart() {
        let mut table = Table::default();
        table.put(spot("a", 7), 1);
        table.put(spot("b", 7), 2);
        table.put(spot("a", 7), 3);
        let found = ["a", "b", "c"].map(|text| table.get(spot(text, 7)).copied());
        assert_eq!((found, table.len()), ([Some(3), Some(2), None], 2));
        table.remove(spot("a", 7));
        assert_eq!(table.get(spot("b", 7)), Some(&2));
        table.remove(spot("c", 7));
        assert_eq!(table.len(), 1);
    }

    #[test]
    fn the_hand_begins_again_at_the_end() {
        let mut table = Table::default();
        for n in 0..10_u64 {
            table.put(spot(&n.to_string(), n), n);
        }
        let first = table.sweep(10, |_, _| false);
        assert_eq!((first.dropped, first.finished), (0, false));
        let next = table.sweep(10, |_, n| n % 2 == 0);
        assert!(next.finished);
        assert!((4..=5).contains(&next.dropped), "a step was for the way back");
    }

    #[test]
    fn a_table_that_has_emptied_gives_memory_back() {
        let mut table = Table::default();
        for n in 0..50_000_u64 {
            table.put(spot(&n.to_string(), n), n);
        }
        let before = table.entries.capacity();
        for _ in 0..10 {
            table.sweep(10_000, |_, _| true);
        }
        table.put(spot("x", 1), 1);
        table.sweep(2, |_, _| false);
        table.sweep(2, |_, _| false);
        assert_eq!(table.len(), 1);
        assert!(table.entries.capacity() < before / 8, "{}", table.entries.capacity());
    }
}
