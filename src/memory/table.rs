//! A table of values by key, which a cursor sweeps.
//!
//! The entries are stored side by side in an array. So the cursor can visit them in any number of
//! small steps and drop those that are not needed. [`HashIndex`] finds the entry of a key.

#[cfg(not(feature = "wasm"))]
use compact_str::CompactString as KeyText;

use super::{KeyHash, KeyRef};
use crate::memory::hash_index::HashIndex;

/// On a 32-bit target, a string that needs no allocation is too short for most keys.
#[cfg(feature = "wasm")]
type KeyText = Box<str>;

/// A table with capacity for more than this many times its keys releases memory.
const SLACK: usize = 4;

/// A table with capacity for fewer keys is not worth shrinking.
const MIN_SHRINK_LEN: usize = 1024;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct StoredKey {
    pub(super) namespace: u32,
    /// The hash in this namespace. It is an array of bytes because one of them is written on its
    /// own: see [`Table::prefetch`].
    hash: [u8; 4],
    text: KeyText,
}

impl StoredKey {
    /// The overflow bucket of the key.
    pub(super) fn overflow_bucket(&self) -> u16 {
        KeyHash::from_namespace(self.namespace, self.hash()).overflow_bucket()
    }

    fn hash(&self) -> u32 {
        u32::from_le_bytes(self.hash)
    }

    #[inline(always)]
    fn is(&self, (namespace, key, _): KeyRef<'_>) -> bool {
        self.namespace == namespace && *self.text == *key.as_str()
    }
}

#[derive(Debug)]
struct TableEntry<T> {
    key: StoredKey,
    value: T,
}

#[derive(Debug)]
pub(super) struct Table<T> {
    entries: Vec<TableEntry<T>>,
    hash_index: HashIndex,
    cursor: usize,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { entries: Vec::new(), hash_index: HashIndex::default(), cursor: 0 }
    }
}

/// The probable index of an entry.
#[derive(Debug, Clone, Copy)]
pub(super) struct PrefetchHint(usize);

/// The result of a sweep.
#[derive(Debug, Default)]
pub(super) struct SweepResult {
    /// The number of dropped entries.
    pub(super) dropped: usize,
    /// Whether the cursor reached the end of the table.
    pub(super) finished: bool,
}

impl<T> Table<T> {
    /// The number of keys.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The index of a key's entry. It is valid until an entry is added, removed or swept.
    // Not inlined, because the hint is nearly always right.
    #[inline(never)]
    pub(super) fn index(&self, key_ref: KeyRef<'_>) -> Option<usize> {
        // The table of metadata is usually empty.
        if self.entries.is_empty() {
            return None;
        }
        let (namespace, _, hash) = key_ref;
        let is_key =
            |index: usize| self.entries.get(index).is_some_and(|entry| entry.key.is(key_ref));
        self.hash_index.find(hash.in_namespace(namespace), is_key)
    }

    /// Finds the probable entry of a key, and has the processor fetch it from memory.
    ///
    /// To fetch the entry, this function writes to it: a processor finishes pending reads before it
    /// reads the clock, but does not wait for writes. 10,000 keys do not stay in the second-level
    /// cache beside a program's garbage, so the entry arrives while the clock is read. The byte
    /// that is written equals the stored one: see [`HashIndex::probable`].
    #[inline(always)]
    pub(super) fn prefetch(&mut self, (namespace, _, hash): KeyRef<'_>) -> PrefetchHint {
        let hash = hash.in_namespace(namespace);
        let Some(index) = self.hash_index.probable(hash) else { return PrefetchHint(usize::MAX) };
        if let Some(entry) = self.entries.get_mut(index) {
            [entry.key.hash[0], ..] = hash.to_le_bytes();
        }
        PrefetchHint(index)
    }

    /// [`index`](Self::index), with a hint.
    #[inline(always)]
    pub(super) fn index_with_hint(
        &self,
        PrefetchHint(index): PrefetchHint,
        key_ref: KeyRef<'_>,
    ) -> Option<usize> {
        let is_right = self.entries.get(index).is_some_and(|entry| entry.key.is(key_ref));
        if is_right { Some(index) } else { self.index(key_ref) }
    }

    /// The value at an [`index`](Self::index).
    #[inline]
    pub(super) fn value_at(&mut self, index: usize) -> &mut T {
        &mut self.entries[index].value
    }

    /// The value of a key.
    pub(super) fn get(&self, key_ref: KeyRef<'_>) -> Option<&T> {
        self.index(key_ref).map(|index| &self.entries[index].value)
    }

    /// Stores a value for a key, in place of any earlier value.
    pub(super) fn put(&mut self, key_ref: KeyRef<'_>, value: T) {
        if let Some(index) = self.index(key_ref) {
            self.entries[index].value = value;
            return;
        }
        let (namespace, key, hash) = key_ref;
        let key = StoredKey {
            namespace,
            hash: hash.in_namespace(namespace).to_le_bytes(),
            text: key.as_str().into(),
        };
        self.hash_index.add(key.hash(), |number| self.entries[number].key.hash());
        self.entries.push(TableEntry { key, value });
    }

    /// Removes the value of a key.
    pub(super) fn remove(&mut self, key_ref: KeyRef<'_>) {
        if let Some(index) = self.index(key_ref) {
            self.remove_at(index);
        }
    }

    /// Removes an entry. The last entry takes its index.
    fn remove_at(&mut self, index: usize) {
        self.hash_index.swap_remove(index, |number| self.entries[number].key.hash());
        self.entries.swap_remove(index);
    }

    /// Moves the cursor over up to `steps` entries, and drops those for which `can_drop` is true.
    pub(super) fn sweep(
        &mut self,
        steps: usize,
        can_drop: impl Fn(&StoredKey, &T) -> bool,
    ) -> SweepResult {
        let mut result = SweepResult::default();
        for _ in 0..steps.min(self.entries.len()) {
            let Some(TableEntry { key, value }) = self.entries.get(self.cursor) else {
                self.cursor = 0;
                self.finish_cycle();
                result.finished = true;
                continue;
            };
            if can_drop(key, value) {
                // The entry that takes this index is visited next.
                self.remove_at(self.cursor);
                result.dropped += 1;
            } else {
                self.cursor += 1;
            }
        }
        result
    }

    fn finish_cycle(&mut self) {
        if self.entries.capacity() > SLACK * self.entries.len().max(MIN_SHRINK_LEN) {
            self.entries.shrink_to(2 * self.entries.len());
            self.hash_index
                .shrink_to(2 * self.entries.len(), |number| self.entries[number].key.hash());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Key;

    fn key_ref(text: &str, n: u32) -> KeyRef<'_> {
        (0, Key::new(text).unwrap(), KeyHash { hash: n.wrapping_mul(0x9e37_79b9) })
    }

    #[test]
    fn equal_hashes_are_told_apart() {
        let mut table = Table::default();
        table.put(key_ref("a", 7), 1);
        table.put(key_ref("b", 7), 2);
        table.put(key_ref("a", 7), 3);
        let found = ["a", "b", "c"].map(|text| table.get(key_ref(text, 7)).copied());
        assert_eq!((found, table.len()), ([Some(3), Some(2), None], 2));
        table.remove(key_ref("a", 7));
        assert_eq!(table.get(key_ref("b", 7)), Some(&2));
        table.remove(key_ref("c", 7));
        assert_eq!(table.len(), 1);
    }

    #[test]
    fn the_cursor_restarts_at_the_end() {
        let mut table = Table::default();
        for n in 0..10_u32 {
            table.put(key_ref(&n.to_string(), n), n);
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
            table.put(key_ref(&n.to_string(), n), n);
        }
        let before = table.entries.capacity();
        for _ in 0..10 {
            table.sweep(10_000, |_, _| true);
        }
        table.put(key_ref("x", 1), 1);
        table.sweep(2, |_, _| false);
        table.sweep(2, |_, _| false);
        assert_eq!(table.len(), 1);
        assert!(table.entries.capacity() < before / 8, "{}", table.entries.capacity());
    }
}
