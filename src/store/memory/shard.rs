//! One shard: the states of a part of the keys, and how they are dropped in time.
//!
//! The entries lie in a dense array under a hash table, so a hand can walk over them in any number
//! of small steps. Each step drops what is as if never used. The walk is paid for by the visits:
//! while keys come and go at a steady pace, the dead ones never outnumber the living by much.

use std::collections::HashMap;

use compact_str::CompactString;
use indexmap::IndexMap;
use indexmap::map::RawEntryApiV1;
use indexmap::map::raw_entry_v1::RawEntryMut;

use super::{Place, Room};
use crate::algorithm::State as _;
use crate::key::Key;
use crate::policy::State;
use crate::time::Micros;

/// After so many visits the hand moves on.
const VISITS_PER_SWEEP: u32 = 64;

/// So many entries it passes then: one for each visit.
const ENTRIES_PER_SWEEP: usize = 64;

/// So many entries it passes before a newcomer to a full store is turned away to a shared cell.
const ENTRIES_FOR_A_NEWCOMER: usize = 32;

/// A table with so many times more room than keys gives memory back.
const SLACK: usize = 4;

/// Below this a table is too small to be worth shrinking.
const SMALL: usize = 1024;

#[derive(Debug, PartialEq, Eq)]
struct OwnedKey {
    space: u32,
    /// Where the key counts when it has no entry.
    cell: u16,
    text: CompactString,
}

/// What the newcomers that found no room have used, together.
#[derive(Debug)]
struct Cell {
    state: State,
    /// When it was last as if never used.
    began: Micros,
}

/// What a shard holds of a key.
pub(super) enum Held<'a> {
    /// The key's own state, to be changed in place.
    Own(&'a mut State),
    /// The key has no entry yet. What it used while there was no room for one stands in its
    /// overflow cell, and counts on.
    Newcomer(Option<State>),
}

#[derive(Debug, Default)]
pub(super) struct Shard {
    /// Hashes come from the store, so the map needs no hasher.
    entries: IndexMap<OwnedKey, State, ()>,
    /// By space and number.
    cells: HashMap<(u32, u16), Cell>,
    hand: usize,
    visits: u32,
}

impl Shard {
    /// What is held of a key.
    pub(super) fn find(&mut self, space: u32, key: Key<'_>, place: Place, now: Micros) -> Held<'_> {
        let is_key = |held: &OwnedKey| held.space == space && held.text == key.as_str();
        match self.entries.raw_entry_v1().index_from_hash(place.hash, is_key) {
            Some(index) => Held::Own(&mut self.entries[index]),
            None => Held::Newcomer(self.cell(space, place, now)),
        }
    }

    /// Keeps the state of a [newcomer](Held::Newcomer).
    pub(super) fn admit(
        &mut self,
        (space, key, place): (u32, Key<'_>, Place),
        state: State,
        room: &Room,
        now: Micros,
    ) {
        if self.find_room(room, now) {
            let key = OwnedKey { space, cell: place.cell, text: key.as_str().into() };
            let entry = self.entries.raw_entry_mut_v1().from_hash(place.hash, |held| *held == key);
            if let RawEntryMut::Vacant(entry) = entry {
                entry.insert_hashed_nocheck(place.hash, key, state);
            }
        } else {
            let cell = self.cells.entry((space, place.cell));
            let cell = cell.or_insert_with(|| Cell { state: state.clone(), began: now });
            if cell.state.settled_at() <= now {
                cell.began = now;
            }
            cell.state = state;
        }
    }

    /// Counts a visit, and tells whether some entries should be swept for it.
    pub(super) fn is_due(&mut self) -> bool {
        self.visits = (self.visits + 1) % VISITS_PER_SWEEP;
        self.visits == 0
    }

    /// Drops what is as if never used among the next entries.
    pub(super) fn sweep_some(&mut self, room: &Room, now: Micros) {
        self.sweep(ENTRIES_PER_SWEEP, room, now);
    }

    /// The state of a key's overflow cell, if it still matters.
    fn cell(&self, space: u32, place: Place, now: Micros) -> Option<State> {
        if self.cells.is_empty() {
            return None;
        }
        let cell = self.cells.get(&(space, place.cell))?;
        (cell.state.settled_at() > now).then(|| cell.state.clone())
    }

    /// Whether an entry can be dropped without anyone being able to tell.
    ///
    /// A key that has no entry may have to share its cell. There a window that was opened before
    /// the key's own one ended would let it take part in three windows within the length of one.
    fn can_drop(&self, key: &OwnedKey, state: &State, now: Micros) -> bool {
        let settled_at = state.settled_at();
        let began_earlier = |cell: &Cell| cell.state.settled_at() > now && cell.began < settled_at;
        settled_at <= now
            && (self.cells.is_empty()
                || state.drains()
                || !self.cells.get(&(key.space, key.cell)).is_some_and(began_earlier))
    }

    fn find_room(&mut self, room: &Room, now: Micros) -> bool {
        if room.claim() {
            return true;
        }
        self.sweep(ENTRIES_FOR_A_NEWCOMER, room, now);
        room.claim()
    }

    /// Moves the hand over up to `steps` entries and drops those that are as if never used.
    fn sweep(&mut self, steps: usize, room: &Room, now: Micros) {
        let mut dropped = 0;
        for _ in 0..steps.min(self.entries.len()) {
            let Some((key, state)) = self.entries.get_index(self.hand) else {
                self.hand = 0;
                self.finish_round(now);
                continue;
            };
            if self.can_drop(key, state, now) {
                // The last entry takes its place, and is looked at next.
                self.entries.swap_remove_index(self.hand);
                dropped += 1;
            } else {
                self.hand += 1;
            }
        }
        room.give_back(dropped);
    }

    fn finish_round(&mut self, now: Micros) {
        self.cells.retain(|_, cell| cell.state.settled_at() > now);
        if self.entries.capacity() > SLACK * self.entries.len().max(SMALL) {
            self.entries.shrink_to(2 * self.entries.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::{Algorithm as _, Gcra, WindowState};
    use crate::policy::Policy;

    fn place(hash: u64) -> Place {
        Place { hash, shard: 0, cell: 0 }
    }

    fn until(ends_ms: u64) -> State {
        State::Window(WindowState { ends_ms, count: 1 })
    }

    fn room(max_keys: usize) -> Room {
        Room { held: 0.into(), max_keys }
    }

    fn put(shard: &mut Shard, room: &Room, text: &str, hash: u64, state: State) {
        shard.admit((0, Key::new(text).unwrap(), place(hash)), state, room, 0);
    }

    fn own(shard: &mut Shard, text: &str, hash: u64) -> Option<State> {
        match shard.find(0, Key::new(text).unwrap(), place(hash), 0) {
            Held::Own(state) => Some(state.clone()),
            Held::Newcomer(_) => None,
        }
    }

    fn shared(shard: &mut Shard, text: &str, hash: u64, now: Micros) -> Option<State> {
        match shard.find(0, Key::new(text).unwrap(), place(hash), now) {
            Held::Own(_) => panic!("{text} has an entry"),
            Held::Newcomer(state) => state,
        }
    }

    #[test]
    fn equal_hashes_are_told_apart() {
        let (mut shard, room) = (Shard::default(), room(9));
        put(&mut shard, &room, "a", 7, until(1));
        put(&mut shard, &room, "b", 7, until(2));
        assert_eq!(own(&mut shard, "a", 7), Some(until(1)));
        assert_eq!(own(&mut shard, "b", 7), Some(until(2)));
        assert_eq!(own(&mut shard, "c", 7), None);
    }

    #[test]
    fn a_sweep_drops_what_is_settled_and_nothing_else() {
        let (mut shard, room) = (Shard::default(), room(100));
        for n in 0..100_u64 {
            put(&mut shard, &room, &n.to_string(), n, until(if n % 3 == 0 { 5 } else { 50 }));
        }
        shard.sweep(100, &room, 5_000);
        shard.sweep(100, &room, 5_000);
        assert_eq!(shard.entries.len(), 66);
        assert_eq!(room.held.load(std::sync::atomic::Ordering::Relaxed), 66);
        for n in 0..100_u64 {
            assert_eq!(own(&mut shard, &n.to_string(), n).is_some(), n % 3 != 0, "{n}");
        }
    }

    #[test]
    fn a_newcomer_to_a_full_store_shares_a_cell_and_keeps_what_it_used() {
        let (mut shard, room) = (Shard::default(), room(1));
        put(&mut shard, &room, "resident", 1, until(50));
        put(&mut shard, &room, "newcomer", 2, until(60));
        assert_eq!(shared(&mut shard, "newcomer", 2, 0), Some(until(60)));
        assert_eq!(shared(&mut shard, "other", 3, 0), Some(until(60)), "the cell is shared");
        assert_eq!(shared(&mut shard, "other", 3, 60_000), None, "until it settles");
    }

    /// Found by a random trace: five units in the end of an own window, in the end of a shared one
    /// and in the next, all within one window's length.
    #[test]
    fn a_key_whose_cell_began_earlier_keeps_its_entry() {
        let (mut shard, room) = (Shard::default(), room(1));
        let newcomer = (0, Key::new("newcomer").unwrap(), place(2));
        put(&mut shard, &room, "resident", 1, until(10));
        shard.admit(newcomer, until(15), &room, 5_000);
        shard.sweep(1, &room, 10_000);
        shard.sweep(1, &room, 10_000);
        assert_eq!(own(&mut shard, "resident", 1), Some(until(10)), "the cell began at 5 ms");
        shard.admit(newcomer, until(25), &room, 15_000);
        shard.sweep(1, &room, 15_000);
        assert_eq!(own(&mut shard, "resident", 1), None, "the shared window has ended");
    }

    #[test]
    fn a_cell_that_begins_again_lets_go_of_what_settled_before() {
        let (mut shard, room) = (Shard::default(), room(200));
        for n in 0..200_u64 {
            put(&mut shard, &room, &n.to_string(), n, until(if n == 150 { 14 } else { 100 }));
        }
        let newcomer = (0, Key::new("newcomer").unwrap(), place(999));
        shard.admit(newcomer, until(15), &room, 5_000);
        // The hand looks at a few entries only, so it does not come to the one that has settled.
        shard.admit(newcomer, until(25), &room, 15_000);
        shard.sweep(200, &room, 16_000);
        assert_eq!(own(&mut shard, "150", 150), None);
        assert_eq!(own(&mut shard, "149", 149), Some(until(100)));
    }

    #[test]
    fn a_rate_has_drained_and_may_join_any_cell() {
        let (mut shard, room) = (Shard::default(), room(1));
        let gcra = Policy::Gcra(Gcra::new(1, 10_000, 1).unwrap());
        let charged = |now| {
            let mut state = gcra.unused();
            gcra.charge(&mut state, now, 1);
            state
        };
        put(&mut shard, &room, "resident", 1, charged(0));
        shard.admit((0, Key::new("newcomer").unwrap(), place(2)), charged(5_000), &room, 5_000);
        // The hand stands behind the last entry: a step takes it back.
        shard.sweep(1, &room, 10_000);
        shard.sweep(1, &room, 10_000);
        assert_eq!(own(&mut shard, "resident", 1), None);
    }

    #[test]
    fn a_newcomer_takes_the_room_of_what_is_settled() {
        let (mut shard, room) = (Shard::default(), room(1));
        put(&mut shard, &room, "resident", 1, until(0));
        put(&mut shard, &room, "newcomer", 2, until(60));
        assert_eq!(own(&mut shard, "newcomer", 2), Some(until(60)));
        assert_eq!(own(&mut shard, "resident", 1), None);
    }

    #[test]
    fn a_table_that_has_emptied_gives_memory_back() {
        let (mut shard, room) = (Shard::default(), room(100_000));
        for n in 0..50_000_u64 {
            put(&mut shard, &room, &n.to_string(), n, until(5));
        }
        let before = shard.entries.capacity();
        for _ in 0..10 {
            shard.sweep(10_000, &room, 5_000);
        }
        put(&mut shard, &room, "x", 1, until(50));
        shard.sweep(2, &room, 5_000);
        shard.sweep(2, &room, 5_000);
        assert_eq!(shard.entries.len(), 1);
        assert!(shard.entries.capacity() < before / 8, "{}", shard.entries.capacity());
    }
}
