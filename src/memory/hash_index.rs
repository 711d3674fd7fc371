//! Where entries are, by the hashes of their keys.
//!
//! A table with open addressing, as small as can be, so that it stays in the processor's caches where entries do
//! not. A slot is a word of 32 bits: in the lower ones the number of an entry, as many bits as there are slots, and
//! in the others a part of the hash. The upper bits of a hash are the place where its search begins, so what a slot
//! holds of it are the bits below these. The entries lie side by side elsewhere; who owns them tells their hashes
//! when the table grows or something is taken out.

/// The fewest slots of a table that is not empty, as a power of two.
const FEWEST_BITS: u32 = 3;

/// Numbers of entries, by hashes. A number stands plus 1, so that a free slot is 0.
#[derive(Debug, Default)]
pub(super) struct Slots {
    /// None, or 2 to the power of `bits`, of which at least a half is free: most searches end where they begin.
    slots: Box<[u32]>,
    bits: u32,
    taken: usize,
}

impl Slots {
    /// The number of an entry with this hash that is the one.
    #[inline(always)]
    pub(super) fn find(&self, hash: u32, is_it: impl Fn(usize) -> bool) -> Option<usize> {
        let (mut at, tag) = self.home(hash);
        loop {
            // There are no slots at all, or one of them is free.
            let slot = *self.slots.get(at).filter(|slot| **slot != 0)?;
            if (slot ^ tag) >> self.bits == 0 && is_it(self.number_in(slot)) {
                return Some(self.number_in(slot));
            }
            at = self.after(at);
        }
    }

    /// The entry that is found first with this hash, or none. Of the one that is named the hash has the same lowest
    /// byte, and most likely is the same.
    #[inline(always)]
    pub(super) fn likely(&self, hash: u32) -> Option<usize> {
        // In a larger table, of 16 million slots, they hold less of a hash.
        if self.bits > u32::BITS - u8::BITS { None } else { self.find(hash, |_| true) }
    }

    /// Adds the number of an entry: as many as are there, so that numbers have no gaps. The hashes of the others are
    /// told by `hash_of`.
    pub(super) fn add(&mut self, hash: u32, hash_of: impl Fn(usize) -> u32) {
        if (self.taken + 1) * 2 > self.slots.len() {
            self.resize((self.bits + 1).max(FEWEST_BITS), hash_of);
        }
        self.place(hash, self.taken);
        self.taken += 1;
    }

    /// Takes out an entry, and gives its number to the last one.
    pub(super) fn swap_remove(&mut self, number: usize, hash_of: impl Fn(usize) -> u32) {
        let mut free = self.slot_of(hash_of(number), number);
        let mut at = free;
        // Whoever stands further on because a slot was taken moves up, so that no search ends too soon.
        loop {
            at = self.after(at);
            let slot = self.slots[at];
            if slot == 0 {
                break;
            }
            let mask = self.slots.len() - 1;
            let (home, _) = self.home(hash_of(self.number_in(slot)));
            if at.wrapping_sub(home) & mask >= at.wrapping_sub(free) & mask {
                self.slots[free] = slot;
                free = at;
            }
        }
        self.slots[free] = 0;
        self.taken -= 1;
        if number != self.taken {
            let hash = hash_of(self.taken);
            let last = self.slot_of(hash, self.taken);
            self.slots[last] = self.word(self.home(hash).1, number);
        }
    }

    /// Gives memory back, but keeps room for so many entries.
    pub(super) fn shrink_to(&mut self, entries: usize, hash_of: impl Fn(usize) -> u32) {
        let slots = 2 * entries.max(self.taken);
        let bits = slots.next_power_of_two().ilog2().max(FEWEST_BITS);
        if bits < self.bits {
            self.resize(bits, hash_of);
        }
    }

    fn resize(&mut self, bits: u32, hash_of: impl Fn(usize) -> u32) {
        self.bits = bits;
        self.slots = vec![0; 1 << bits].into();
        for number in 0..self.taken {
            self.place(hash_of(number), number);
        }
    }

    fn place(&mut self, hash: u32, number: usize) {
        let (mut at, tag) = self.home(hash);
        while self.slots[at] != 0 {
            at = self.after(at);
        }
        self.slots[at] = self.word(tag, number);
    }

    /// Where an entry stands.
    fn slot_of(&self, hash: u32, number: usize) -> usize {
        let (mut at, tag) = self.home(hash);
        let word = self.word(tag, number);
        while self.slots[at] != word {
            at = self.after(at);
        }
        at
    }

    /// Where a search begins, and what the slots of a hash hold of it.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "that is how it is parted")]
    fn home(&self, hash: u32) -> (usize, u32) {
        let parted = u64::from(hash) << self.bits;
        ((parted >> 32) as usize, parted as u32)
    }

    /// A number is less than there are slots.
    #[expect(clippy::cast_possible_truncation, reason = "numbers have fewer bits than slots")]
    fn word(&self, tag: u32, number: usize) -> u32 {
        tag | (number + 1) as u32
    }

    #[inline]
    fn number_in(&self, slot: u32) -> usize {
        (slot as usize & (self.slots.len() - 1)).wrapping_sub(1)
    }

    /// The next slot; after the last comes the first.
    #[inline]
    fn after(&self, at: usize) -> usize {
        (at + 1) & (self.slots.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(slots: &Slots, hashes: &[u32]) {
        assert_eq!(slots.taken, hashes.len());
        assert!(slots.taken * 2 <= slots.slots.len());
        assert_eq!(slots.slots.iter().filter(|slot| **slot != 0).count(), hashes.len());
        for (number, &hash) in hashes.iter().enumerate() {
            assert_eq!(slots.find(hash, |found| found == number), Some(number), "{number} {hash}");
            let likely = slots.likely(hash).unwrap();
            assert_eq!((hashes[likely] ^ hash) & 0xff, 0, "{number} {hash}");
        }
    }

    #[test]
    fn nothing_is_found_in_nothing() {
        assert_eq!(Slots::default().find(7, |_| true), None);
    }

    /// Hashes that all begin at one slot, at the last ones and the first, and anywhere; coming and going in any order.
    #[test]
    fn whoever_is_there_is_found_and_nobody_else() {
        let kinds: [fn(u32) -> u32; 4] = [
            |_| 7,
            |random| (random % 8) << 20,
            |random| (random % 8).wrapping_sub(4) << 24,
            |random| random,
        ];
        for kind in kinds {
            let (mut slots, mut hashes) = (Slots::default(), Vec::new());
            let mut random = 1_u64;
            for step in 0..20_000_usize {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let [.., a, b, c, d, high] = random.to_le_bytes();
                let low = u32::from_le_bytes([a, b, c, d]);
                // Until there are 400, more come than go; then more go.
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
    fn only_those_are_asked_whose_hashes_are_alike() {
        let hashes: Vec<u32> = (0..10_000).map(|n: u32| n.wrapping_mul(0x9e37_79b9)).collect();
        let mut slots = Slots::default();
        for &hash in &hashes {
            slots.add(hash, |number| hashes[number]);
        }
        let asked = std::cell::Cell::new(0);
        for (number, &hash) in hashes.iter().enumerate() {
            slots.find(hash, |found| {
                asked.set(asked.get() + 1);
                found == number
            });
        }
        assert!(asked.get() < 10_100, "{}", asked.get());
    }
}
