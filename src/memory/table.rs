//! A table of what is kept by key, over which a hand walks.
//!
//! The entries lie side by side in an array, so a hand can walk over them in any number of small steps, and
//! drop what need not be kept. [`Slots`] say where a key's entry is.

#[cfg(not(feature = "wasm"))]
use compact_str::CompactString as Text;

use super::{Place, Spot};
use crate::memory::hash_index::Slots;

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
    /// The hash in this space. In bytes, as one of them is written to alone: see [`Table::approach`].
    hash: [u8; 4],
    text: Text,
}

impl OwnedKey {
    /// Where the key counts when it has no entry.
    pub(super) fn cell(&self) -> u16 {
        Place::from_space(self.space, self.hash()).cell()
    }

    fn hash(&self) -> u32 {
        u32::from_le_bytes(self.hash)
    }

    #[inline(always)]
    fn is(&self, (space, key, _): Spot<'_>) -> bool {
        self.space == space && *self.text == *key.as_str()
    }
}

#[derive(Debug)]
struct Entry<T> {
    key: OwnedKey,
    value: T,
}

#[derive(Debug)]
pub(super) struct Table<T> {
    entries: Vec<Entry<T>>,
    slots: Slots,
    hand: usize,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { entries: Vec::new(), slots: Slots::default(), hand: 0 }
    }
}

/// Where an entry may be.
#[derive(Debug, Clone, Copy)]
pub(super) struct Guess(usize);

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
    // Not copied into its callers: a guess is right nearly always.
    #[inline(never)]
    pub(super) fn index(&self, spot: Spot<'_>) -> Option<usize> {
        // What few keys have mostly no key has.
        if self.entries.is_empty() {
            return None;
        }
        let (space, _, place) = spot;
        let is_key = |index: usize| self.entries.get(index).is_some_and(|entry| entry.key.is(spot));
        self.slots.find(place.in_space(space), is_key)
    }

    /// Guesses where the entry of a key is, and has it fetched from memory.
    ///
    /// It is written to for that: a processor waits for what it reads before it reads the clock, but not for
    /// what it writes to. 10,000 keys do not stay in its second cache beside the garbage that a program makes, and so
    /// an entry comes while the time is read. What is written is what stands there.
    #[inline(always)]
    pub(super) fn approach(&mut self, (space, _, place): Spot<'_>) -> Guess {
        let hash = place.in_space(space);
        let Some(index) = self.slots.likely(hash) else { return Guess(usize::MAX) };
        if let Some(entry) = self.entries.get_mut(index) {
            [entry.key.hash[0], ..] = hash.to_le_bytes();
        }
        Guess(index)
    }

    /// [`index`](Self::index), after a guess.
    #[inline(always)]
    pub(super) fn index_by(&self, Guess(index): Guess, spot: Spot<'_>) -> Option<usize> {
        let is_right = self.entries.get(index).is_some_and(|entry| entry.key.is(spot));
        if is_right { Some(index) } else { self.index(spot) }
    }

    /// The entry at an [`index`](Self::index).
    #[inline]
    pub(super) fn at(&mut self, index: usize) -> &mut T {
        &mut self.entries[index].value
    }

    /// What is kept of a key.
    pub(super) fn get(&self, spot: Spot<'_>) -> Option<&T> {
        self.index(spot).map(|index| &self.entries[index].value)
    }

    /// Keeps something of a key, in place of what was kept.
    pub(super) fn put(&mut self, spot: Spot<'_>, value: T) {
        if let Some(index) = self.index(spot) {
            self.entries[index].value = value;
            return;
        }
        let (space, key, place) = spot;
        let key = OwnedKey {
            space,
            hash: place.in_space(space).to_le_bytes(),
            text: key.as_str().into(),
        };
        self.slots.add(key.hash(), |number| self.entries[number].key.hash());
        self.entries.push(Entry { key, value });
    }

    /// Keeps nothing of a key.
    pub(super) fn remove(&mut self, spot: Spot<'_>) {
        if let Some(index) = self.index(spot) {
            self.remove_at(index);
        }
    }

    /// Drops an entry. The last one takes its place.
    fn remove_at(&mut self, index: usize) {
        self.slots.swap_remove(index, |number| self.entries[number].key.hash());
        self.entries.swap_remove(index);
    }

    /// Moves the hand over up to `steps` entries and drops those that need not be kept.
    pub(super) fn sweep(
        &mut self,
        steps: usize,
        can_drop: impl Fn(&OwnedKey, &T) -> bool,
    ) -> Swept {
        let mut swept = Swept::default();
        for _ in 0..steps.min(self.entries.len()) {
            let Some(Entry { key, value }) = self.entries.get(self.hand) else {
                self.hand = 0;
                self.finish_round();
                swept.finished = true;
                continue;
            };
            if can_drop(key, value) {
                // What takes its place is looked at next.
                self.remove_at(self.hand);
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
            self.slots.shrink_to(2 * self.entries.len(), |number| self.entries[number].key.hash());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Key;

    fn spot(text: &str, n: u32) -> Spot<'_> {
        (0, Key::new(text).unwrap(), Place { hash: n.wrapping_mul(0x9e37_79b9) })
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
        for n in 0..10_u32 {
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
        for n in 0..50_000_u32 {
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
