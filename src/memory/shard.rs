//! One shard: the states of a part of the keys, and how they are dropped in time.
//!
//! A hand walks over the [tables](Table) of a shard. Each step drops what is as if never used. The
//! walk is paid for by the visits: while keys come and go at a steady pace, the dead ones never
//! outnumber the living by much.

use std::mem;

use super::table::{Guess, OwnedKey, Table};
use super::{Room, Spot};
use crate::algorithm::{State as _, WindowState};
use crate::policy::State;
use crate::policy::execute::KeyMetadata;
use crate::time::Micros;

/// When so much is due, the hand moves on.
const DUES_PER_SWEEP: u32 = 256;

/// Every visit owes one, and one that brings a new key so much more.
const DUES_OF_A_NEWCOMER: u32 = 3;

/// While there is something to drop, so much is due again at once: then every visit pays for an entry.
const DUES_AFTER_A_FIND: u32 = 192;

/// So many entries the hand passes then: one for each new key, and as many in another shard.
const ENTRIES_PER_SWEEP: usize = 64;

/// So many entries it passes before a newcomer to a full store is turned away to a shared cell.
const ENTRIES_FOR_A_NEWCOMER: usize = 32;

/// Stands in a table for a state that has been lifted.
const LIFTED: State = State::Window(WindowState { ends_ms: 0, count: 0 });

/// What the newcomers that found no room have used, together.
#[derive(Debug)]
struct Cell {
    /// Its space and number.
    name: (u32, u16),
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

/// In this order: what every visit writes to stands beside the lock, so that a thread which visits what another one
/// has visited waits for one cache line of it.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct Shard {
    dues: u32,
    entries: Table<State>,
    /// What few keys have beside a state.
    extras: Table<KeyMetadata>,
    /// In order of their names: they are few, as they are spread over the shards.
    cells: Vec<Cell>,
}

impl Shard {
    /// Guesses where a key's entry is; to be done before the clock is read: see [`Table::approach`].
    #[inline(always)]
    pub(super) fn approach(&mut self, spot: Spot<'_>) -> Guess {
        self.entries.approach(spot)
    }

    /// What is held of a key.
    #[inline(always)]
    pub(super) fn find(&mut self, spot: Spot<'_>, guess: Guess, now: Micros) -> Held<'_> {
        match self.own(spot, guess) {
            Some(index) => Held::Own(self.state(index)),
            None => Held::Newcomer(self.cell(spot, now)),
        }
    }

    /// Where the state of a key is that has an entry of its own, after a guess: until the shard is changed otherwise than by
    /// [`state`](Self::state).
    #[inline(always)]
    pub(super) fn own(&self, spot: Spot<'_>, guess: Guess) -> Option<usize> {
        self.entries.index_by(guess, spot)
    }

    /// The state that is [there](Self::own).
    #[inline]
    pub(super) fn state(&mut self, index: usize) -> &mut State {
        self.entries.at(index)
    }

    /// Whether a key has an entry of its own.
    pub(super) fn has_entry(&self, spot: Spot<'_>) -> bool {
        self.entries.index(spot).is_some()
    }

    /// Takes a key's own state out of its entry, so that others can be taken beside it; until it is
    /// [put back](Self::put_back), nothing else may be done to the shard.
    pub(super) fn lift(&mut self, spot: Spot<'_>) -> Option<(usize, State)> {
        let index = self.entries.index(spot)?;
        Some((index, mem::replace(self.entries.at(index), LIFTED)))
    }

    /// Puts a state back that was [lifted](Self::lift).
    pub(super) fn put_back(&mut self, index: usize, state: State) {
        *self.entries.at(index) = state;
    }

    /// Keeps the state of a [newcomer](Held::Newcomer).
    pub(super) fn admit(&mut self, spot: Spot<'_>, state: State, room: &Room, now: Micros) {
        if self.find_room(room, now) {
            self.dues += DUES_OF_A_NEWCOMER;
            self.entries.put(spot, state);
        } else {
            let (space, _, place) = spot;
            let name = (space, place.cell());
            let index = find(&self.cells, name).unwrap_or_else(|index| {
                self.cells.insert(index, Cell { name, state: state.clone(), began: now });
                index
            });
            let cell = &mut self.cells[index];
            if cell.state.reset_at() <= now {
                cell.began = now;
            }
            cell.state = state;
        }
    }

    /// Whether any key has extras.
    #[inline]
    pub(super) fn has_extras(&self) -> bool {
        self.extras.len() > 0
    }

    /// What a key has beside its state.
    pub(super) fn extras(&self, spot: Spot<'_>) -> Option<&KeyMetadata> {
        self.extras.get(spot)
    }

    /// Keeps what a key has beside its state, unless it has ended. If it had nothing, room for it has
    /// been `claimed`.
    pub(super) fn keep_extras(
        &mut self,
        spot: Spot<'_>,
        extras: KeyMetadata,
        claimed: bool,
        room: &Room,
        now: Micros,
    ) {
        let (had, has) = (self.extras.get(spot).is_some(), extras.end() > now);
        if has {
            self.extras.put(spot, extras);
        } else {
            self.extras.remove(spot);
        }
        let rooms = usize::from(had) + usize::from(claimed);
        room.give_back(rooms.saturating_sub(usize::from(has)));
    }

    /// Counts a visit, unless it is one that sweeps; tells whether it did.
    pub(super) fn count_visit(&mut self) -> bool {
        let counts = self.dues + 1 < DUES_PER_SWEEP;
        self.dues += u32::from(counts);
        counts
    }

    /// Counts a visit, and tells whether some entries are to be swept.
    pub(super) fn is_due(&mut self) -> bool {
        if self.count_visit() {
            return false;
        }
        self.dues = 0;
        true
    }

    /// Something was dropped, here or in the shard that is swept along: there may be more.
    pub(super) fn has_found(&mut self) {
        self.dues = DUES_AFTER_A_FIND;
    }

    /// Drops what is as if never used among the next entries: whether there was any.
    pub(super) fn sweep_some(&mut self, room: &Room, now: Micros) -> bool {
        self.sweep(ENTRIES_PER_SWEEP, room, now)
    }

    /// The state of a key's overflow cell, if it still matters.
    pub(super) fn cell(&self, (space, _, place): Spot<'_>, now: Micros) -> Option<State> {
        if self.cells.is_empty() {
            return None;
        }
        let cell = &self.cells[find(&self.cells, (space, place.cell())).ok()?];
        (cell.state.reset_at() > now).then(|| cell.state.clone())
    }

    /// Claims room for one key more; if there is none, what has ended makes room.
    pub(super) fn find_room(&mut self, room: &Room, now: Micros) -> bool {
        if room.claim() {
            return true;
        }
        self.sweep(ENTRIES_FOR_A_NEWCOMER, room, now);
        room.claim()
    }

    /// Moves the hands over up to `steps` entries of each table, and drops those that are as if never
    /// used: whether there were any.
    fn sweep(&mut self, steps: usize, room: &Room, now: Micros) -> bool {
        let can_drop = |key: &OwnedKey, state: &State| can_drop(&self.cells, key, state, now);
        let states = self.entries.sweep(steps, can_drop);
        if states.finished {
            self.cells.retain(|cell| cell.state.reset_at() > now);
        }
        let extras = self.extras.sweep(steps, |_, extras| extras.end() <= now);
        let dropped = states.dropped + extras.dropped;
        room.give_back(dropped);
        dropped > 0
    }
}

/// Whether an entry can be dropped without anyone being able to tell.
///
/// A key that has no entry may have to share its cell. There a window that was opened before
/// the key's own one ended would let it take part in three windows within the length of one.
fn can_drop(cells: &[Cell], key: &OwnedKey, state: &State, now: Micros) -> bool {
    let reset_at = state.reset_at();
    let began_earlier = |cell: &Cell| cell.state.reset_at() > now && cell.began < reset_at;
    reset_at <= now
        && (cells.is_empty()
            || state.drains()
            || !find(cells, (key.space, key.cell()))
                .is_ok_and(|index| began_earlier(&cells[index])))
}

/// Where a cell is among others, or would be.
fn find(cells: &[Cell], name: (u32, u16)) -> Result<usize, usize> {
    cells.binary_search_by_key(&name, |cell| cell.name)
}

#[cfg(test)]
mod tests {
    use super::super::Place;
    use super::*;
    use crate::algorithm::{Algorithm as _, Gcra};
    use crate::key::Key;
    use crate::policy::Policy;

    fn place(hash: u32) -> Place {
        // All in one cell.
        Place { hash: hash << 10 }
    }

    fn until(ends_ms: u64) -> State {
        State::Window(WindowState { ends_ms, count: 1 })
    }

    fn room(max_keys: usize) -> Room {
        Room { held: 0.into(), max_keys }
    }

    fn put(shard: &mut Shard, room: &Room, text: &str, hash: u32, state: State) {
        shard.admit((0, Key::new(text).unwrap(), place(hash)), state, room, 0);
    }

    fn own(shard: &mut Shard, text: &str, hash: u32) -> Option<State> {
        let spot = (0, Key::new(text).unwrap(), place(hash));
        let guess = shard.approach(spot);
        match shard.find(spot, guess, 0) {
            Held::Own(state) => Some(state.clone()),
            Held::Newcomer(_) => None,
        }
    }

    fn shared(shard: &mut Shard, text: &str, hash: u32, now: Micros) -> Option<State> {
        let spot = (0, Key::new(text).unwrap(), place(hash));
        let guess = shard.approach(spot);
        match shard.find(spot, guess, now) {
            Held::Own(_) => panic!("{text} has an entry"),
            Held::Newcomer(state) => state,
        }
    }

    #[test]
    fn a_sweep_drops_what_is_settled_and_nothing_else() {
        let (mut shard, room) = (Shard::default(), room(100));
        for n in 0..100_u32 {
            put(&mut shard, &room, &n.to_string(), n, until(if n % 3 == 0 { 5 } else { 50 }));
        }
        shard.sweep(100, &room, 5_000);
        shard.sweep(100, &room, 5_000);
        assert_eq!(shard.entries.len(), 66);
        assert_eq!(room.held.load(std::sync::atomic::Ordering::Relaxed), 66);
        for n in 0..100_u32 {
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
        for n in 0..200_u32 {
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
            let mut state = gcra.initial_state();
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

    fn blocked_until(end: Micros) -> KeyMetadata {
        KeyMetadata { blocked_until: end, numbers: None }
    }

    #[test]
    fn extras_count_as_keys_and_are_dropped_when_they_have_ended() {
        let (mut shard, room) = (Shard::default(), room(9));
        let held = |room: &Room| room.held.load(std::sync::atomic::Ordering::Relaxed);
        let spot = (0, Key::new("a").unwrap(), place(1));
        assert!(!shard.has_extras());
        assert!(shard.find_room(&room, 0));
        shard.keep_extras(spot, blocked_until(5), true, &room, 0);
        assert_eq!((shard.extras(spot), held(&room)), (Some(&blocked_until(5)), 1));
        shard.keep_extras(spot, blocked_until(9), false, &room, 0);
        assert_eq!((shard.extras(spot), held(&room)), (Some(&blocked_until(9)), 1));
        shard.sweep(9, &room, 8);
        assert_eq!(held(&room), 1);
        shard.sweep(9, &room, 9);
        shard.sweep(9, &room, 9);
        assert_eq!((shard.extras(spot), held(&room)), (None, 0));

        // Room was claimed, and nothing is left to keep: of what was there, and of what was not.
        assert!(shard.find_room(&room, 9));
        shard.keep_extras(spot, blocked_until(9), true, &room, 9);
        assert_eq!((shard.has_extras(), held(&room)), (false, 0));
        assert!(shard.find_room(&room, 9));
        shard.keep_extras(spot, blocked_until(12), true, &room, 9);
        shard.keep_extras(spot, blocked_until(0), false, &room, 9);
        assert_eq!((shard.has_extras(), held(&room)), (false, 0));
    }

    #[test]
    fn what_is_lifted_is_put_back_into_its_place() {
        let (mut shard, room) = (Shard::default(), room(9));
        put(&mut shard, &room, "a", 1, until(5));
        put(&mut shard, &room, "b", 2, until(6));
        let lifted = ["a", "b", "c"].map(|text| {
            let hash = u32::from(text.as_bytes()[0] - b'a' + 1);
            shard.lift((0, Key::new(text).unwrap(), place(hash)))
        });
        let [Some((a, five)), Some((b, six)), None] = lifted else { panic!("{lifted:?}") };
        assert_eq!((&five, &six), (&until(5), &until(6)));
        shard.put_back(a, until(7));
        shard.put_back(b, six);
        assert_eq!(own(&mut shard, "a", 1), Some(until(7)));
        assert_eq!(own(&mut shard, "b", 2), Some(until(6)));
    }
}
