//! The index of a table: finds the number of an entry by the hash of its key.
//!
//! The index uses open addressing, and is as small as possible, so that it stays in the processor's
//! caches when the entries do not. A slot is a 32-bit word. In an index of 2 to the power of `bits`
//! slots, the low `bits` bits of a slot store the number of an entry, and the other bits store a
//! part of its hash. The upper `bits` bits of the hash determine the first slot of a search; the
//! slot stores the bits below these.
//!
//! The entries are stored elsewhere, side by side. Their owner supplies the hashes when the index
//! grows or removes an entry.

/// The fewest slots of an index that is not empty, as a power of two.
const MIN_BITS: u32 = 3;

/// Numbers of entries, by hash. A slot stores the number plus 1, and 0 if it is free.
#[derive(Debug, Default)]
pub(super) struct HashIndex {
    /// Empty, or 2 to the power of `bits` slots. At least half of them are free, so most searches
    /// end at their first slot.
    slots: Box<[u32]>,
    bits: u32,
    len: usize,
}

impl HashIndex {
    /// The number of the entry with this hash for which `is_match` is true.
    #[inline(always)]
    pub(super) fn find(&self, hash: u32, is_match: impl Fn(usize) -> bool) -> Option<usize> {
        let (mut at, tag) = self.start(hash);
        loop {
            // The index is empty, or one of its slots is free.
            let slot = *self.slots.get(at).filter(|slot| **slot != 0)?;
            if (slot ^ tag) >> self.bits == 0 && is_match(self.number_in(slot)) {
                return Some(self.number_in(slot));
            }
            at = self.after(at);
        }
    }

    /// The first entry found for this part of a hash. Its hash has the same lowest byte, and is
    /// most probably equal.
    #[inline(always)]
    pub(super) fn probable(&self, hash: u32) -> Option<usize> {
        // In an index of more than 16 million slots, a slot stores less than a byte of the hash.
        if self.bits > u32::BITS - u8::BITS { None } else { self.find(hash, |_| true) }
    }

    /// Adds an entry. Its number is the current number of entries, so numbers have no gaps.
    /// `hash_of` returns the hash of an entry.
    pub(super) fn add(&mut self, hash: u32, hash_of: impl Fn(usize) -> u32) {
        if (self.len + 1) * 2 > self.slots.len() {
            self.resize((self.bits + 1).max(MIN_BITS), hash_of);
        }
        self.insert(hash, self.len);
        self.len += 1;
    }

    /// Removes an entry, and gives its number to the last one.
    pub(super) fn swap_remove(&mut self, number: usize, hash_of: impl Fn(usize) -> u32) {
        let mut free = self.slot_of(hash_of(number), number);
        let mut at = free;
        // An entry that was stored further on because this slot was in use moves up, so that no
        // search ends too early.
        loop {
            at = self.after(at);
            let slot = self.slots[at];
            if slot == 0 {
                break;
            }
            let mask = self.slots.len() - 1;
            let (start, _) = self.start(hash_of(self.number_in(slot)));
            if at.wrapping_sub(start) & mask >= at.wrapping_sub(free) & mask {
                self.slots[free] = slot;
                free = at;
            }
        }
        self.slots[free] = 0;
        self.len -= 1;
        if number != self.len {
            let hash = hash_of(self.len);
            let last = self.slot_of(hash, self.len);
            self.slots[last] = self.word(self.start(hash).1, number);
        }
    }

    /// Releases memory, but keeps capacity for `entries` entries.
    pub(super) fn shrink_to(&mut self, entries: usize, hash_of: impl Fn(usize) -> u32) {
        let slots = 2 * entries.max(self.len);
        let bits = slots.next_power_of_two().ilog2().max(MIN_BITS);
        if bits < self.bits {
            self.resize(bits, hash_of);
        }
    }

    fn resize(&mut self, bits: u32, hash_of: impl Fn(usize) -> u32) {
        self.bits = bits;
        self.slots = vec![0; 1 << bits].into();
        for number in 0..self.len {
            self.insert(hash_of(number), number);
        }
    }

    fn insert(&mut self, hash: u32, number: usize) {
        let (mut at, tag) = self.start(hash);
        while self.slots[at] != 0 {
            at = self.after(at);
        }
        self.slots[at] = self.word(tag, number);
    }

    /// The slot of an entry.
    fn slot_of(&self, hash: u32, number: usize) -> usize {
        let (mut at, tag) = self.start(hash);
        let word = self.word(tag, number);
        while self.slots[at] != word {
            at = self.after(at);
        }
        at
    }

    /// The first slot of a search, and the part of the hash that its slots store.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "that is how it is split")]
    fn start(&self, hash: u32) -> (usize, u32) {
        let split = u64::from(hash) << self.bits;
        ((split >> 32) as usize, split as u32)
    }

    /// The word of a slot. The number is smaller than the number of slots.
    #[expect(clippy::cast_possible_truncation, reason = "numbers have fewer bits than slots")]
    fn word(&self, tag: u32, number: usize) -> u32 {
        tag | (number + 1) as u32
    }

    #[inline]
    fn number_in(&self, slot: u32) -> usize {
        (slot as usize & (self.slots.len() - 1)).wrapping_sub(1)
    }

    /// The next slot. The first slot follows the last.
    #[inline]
    fn after(&self, at: usize) -> usize {
        (at + 1) & (self.slots.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(slots: &HashIndex, hashes: &[u32]) {
        assert_eq!(slots.len, hashes.len());
        assert!(slots.len * 2 <= slots.slots.len());
        assert_eq!(slots.slots.iter().filter(|slot| **slot != 0).count(), hashes.len());
        for (number, &hash) in hashes.iter().enumerate() {
            assert_eq!(slots.find(hash, |found| found == number), Some(number), "{number} {hash}");
            let probable = slots.probable(hash).unwrap();
            assert_eq!((hashes[probable] ^ hash) & 0xff, 0, "{number} {hash}");
        }
    }

    #[test]
    fn nothing_is_found_in_nothing() {
        assert_eq!(HashIndex::default().find(7, |_| true), None);
    }

    /// Hashes that all start at one slot, at the last and first slots, or anywhere. Entries are
    /// added and removed in random order.
    #[test]
    fn exactly_the_stored_entries_are_found() {
        let kinds: [fn(u32) -> u32; 4] = [
            |_| 7,
            |random| (random % 8) << 20,
            |random| (random % 8).wrapping_sub(4) << 24,
            |random| random,
        ];
        for kind in kinds {
            let (mut slots, mut hashes) = (HashIndex::default(), Vec::new());
            let mut random = 1_u64;
            for step in 0..20_000_usize {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let [.., a, b, c, d, high] = random.to_le_bytes();
                let low = u32::from_le_bytes([a, b, c, d]);
                // First more entries are added than removed, up to 400; then more are removed.
                let comes = if step / 2_000 % 2 == 0 { 5 } else { 3 };
                if high % 8 < comes && hashes.len() < 400 {
                    slots.add(kind(low), |number| hashes[number]);
                    hashes.push(kind(low));
                } else if !hashes.is_empty() {
                    let number = low as usize % hashes.len();
                    slots.swap_remove(number, |number| hashes[number]);
                    hashes.swap_remove(number);
                }
                assert_eq!(slots.find(kind(low), |_| false), None);
                if step % 32 == 0 {
                    check(&slots, &hashes);
                    slots.shrink_to(step % 700, |number| hashes[number]);
                    check(&slots, &hashes);
                }
            }
        }
    }

    #[test]
    fn only_entries_with_similar_hashes_are_compared() {
        let hashes: Vec<u32> = (0..10_000).map(|n: u32| n.wrapping_mul(0x9e37_79b9)).collect();
        let mut slots = HashIndex::default();
        for &hash in &hashes {
            slots.add(hash, |number| hashes[number]);
        }
        let compared = std::cell::Cell::new(0);
        for (number, &hash) in hashes.iter().enumerate() {
            slots.find(hash, |found| {
                compared.set(compared.get() + 1);
                found == number
            });
        }
        assert!(compared.get() < 10_100, "{}", compared.get());
    }
}
