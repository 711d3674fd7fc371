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
